"""Vectors to vectors: neighbours, trees, imputation, projection, alignment."""
