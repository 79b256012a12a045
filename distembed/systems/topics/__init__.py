"""A collection of documents to topics."""
