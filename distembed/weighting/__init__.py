"""Counts to association: PMI, PPMI, tf-idf, log-entropy."""
