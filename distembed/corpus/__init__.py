"""DOCUMENTS -> TOKEN IDS: files to documents, documents to token ids (read once), dictionaries to a vocabulary."""
