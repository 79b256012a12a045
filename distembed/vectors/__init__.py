"""Word vectors: a list of words and a float32 matrix, with neighbors, analogies and the field's file formats.

>>> from distembed.vectors import WordVectors
>>> vectors = WordVectors(["king", "queen", "pear"], [[1.0, 0.1], [0.9, 0.2], [-0.1, 1.0]])
>>> vectors.most_similar("king", n=1)
[Neighbor(word='queen', similarity=0.99...)]

=================  ===========================================================================================
word2vec           text, first line `n_words n_components`, then `word value value ...`
word2vec-binary    first line as above, then for each word its bytes, one space, little-endian float32 values;
                   a line end before a word is skipped (the C program writes one, gensim does not)
glove              word2vec text without its first line
parquet            columns `word` (string) and `vector` (list of float32)
safetensors        `vectors` float32 (n, d); `words` uint8, the UTF-8 bytes of all words joined; `offsets`
                   int64 (n + 1,): word i is `words[offsets[i]:offsets[i + 1]]`; with a table of n-grams further
                   tensors, which `distembed.vectors.files` lists
fasttext           fastText's own models, read alone, with their buckets of n-grams: `distembed.vectors.fasttext`
=================  ===========================================================================================

With a table of character n-grams (`SubwordTable`) every string has a vector; of the formats that are written only
safetensors keeps the table.

Text and binary may be compressed (.gz, .bz2, .xz, .zst by the name's end). A path may be any fsspec URL.

**Words with spaces.** Text is read from the right: the last d fields are the values, everything before them
is the word, so GloVe's `. . .` is read as written. A line is refused when the field before the values is a
number, because then it has too many values rather than a word with spaces. Binary ends a word at the first
space. Writing text or binary refuses words that hold spaces, tabs or line ends, or are empty, because other
programs would misread the file; `space="_"` writes another character in their place (and is refused where
two words would become one), Parquet and safetensors keep every word as it is.
"""

from distembed.vectors.rows import Neighbor, UnknownWordError, VectorFileError
from distembed.vectors.word_vectors import WordVectors

__all__ = ["Neighbor", "UnknownWordError", "VectorFileError", "WordVectors"]
