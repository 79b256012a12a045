"""Matrices of files: what a job names as one, opened without being read, and read by ranges of rows."""
