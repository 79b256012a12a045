"""Vectors to vectors: neighbors, trees, imputation, projection, alignment."""
