"""Campaigns: each tries to break a promise many times, at points that a seed chooses, and prints a table."""
