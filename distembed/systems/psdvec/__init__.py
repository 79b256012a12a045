"""A corpus to word vectors."""
