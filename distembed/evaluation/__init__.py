"""Vectors to numbers: word and document evaluations."""
