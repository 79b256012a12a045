"""Documents to token ids: readers, the tokeniser, the vocabulary."""
