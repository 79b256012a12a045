"""Stages that several systems share: corpora, collections, matrices and words."""
