"""Counts to association: PMI and its kin, tf-idf, log-entropy."""
