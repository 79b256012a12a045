"""TEXT -> VECTORS: the weighted mean of the word vectors of a text, and the texts nearest to another one."""
