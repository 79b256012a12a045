"""A table and known vectors to the vectors that are missing."""
