"""Token ids to counts: co-occurrences and document-term counts."""
