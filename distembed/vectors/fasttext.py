r"""fastText's own models, read by gensim: words, their input vectors, and the hashed vectors of character n-grams.

fastText composes all vectors when it answers. With the n-grams :math:`g_w` of ``<word>`` and their rows z' it gives

.. math:: \frac{x_w + \sum_{g \in g_w} z'_g}{|g_w| + 1} \text{ for its words,} \qquad
          \frac{1}{|g_w|} \sum_{g \in g_w} z'_g \text{ for other strings.}
"""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np

from distembed.dtypes import Float32s
from distembed.extras import optional
from distembed.formats.streams import local_copy
from distembed.vectors.rows import Source, VectorFileError, WordRows, check_finite, row_blocks
from distembed.vectors.subwords import SubwordTable

MAGIC = struct.pack("<i", 793712314)
"""The bytes with which a file begins."""

END_OF_SENTENCE = "</s>"
"""The one word that fastText gives no n-grams."""


class _File(io.BufferedReader):
    """A file that raises at its end, where gensim would look for the end of a word for ever."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if size and not data:
            raise EOFError("it is cut short")
        return data


def read_fasttext(source: Source, max_words: int | None) -> WordRows:
    """Read the words of a model of fastText, and the table of its n-grams where it has buckets.

    The matrix of the file is held once, and that of the words once more.
    """
    # The function below `gensim.models.fasttext.load_facebook_vectors`, which opens a file itself.
    gensim: Any = optional("gensim.models._fasttext_bin", user=source.path, extra="gensim")
    with local_copy(source.path, VectorFileError) as path, _File(io.FileIO(path)) as file:
        try:
            keys, matrix, table = _load(file, gensim)
        except Exception as error:
            raise VectorFileError(
                f"{source.path} cannot be read as a model of fastText ({error or type(error).__name__}): take a whole "
                "one (.bin), neither quantized (.ftz), pruned nor supervised, or download it again"
            ) from error
    words = [source.decode(key.encode("latin-1"), row) for row, key in enumerate(keys)][:max_words]
    vectors = matrix[: len(words)].copy()
    check_finite(words, vectors, source, 0)
    if table is None:
        return WordRows(words, vectors)
    for words_of_block, block in row_blocks(words, vectors):  # averages with the rows of their n-grams
        n_ngrams = table.n_ngrams(words_of_block)[:, None].astype(np.float64)
        n_ngrams[[row for row, word in enumerate(words_of_block) if word == END_OF_SENTENCE]] = 0
        block[:] = (block + n_ngrams * table.compose(words_of_block)) / (n_ngrams + 1)
    return WordRows(words, vectors, table)


def _load(file: _File, gensim: Any) -> tuple[list[str], Float32s, SubwordTable | None]:
    """Return the words in Latin-1, the rows of words and buckets, and the table of the buckets."""
    if (begin := file.peek(4)[:4]) != MAGIC:
        raise ValueError(f"it begins with {begin.hex()} and not with {MAGIC.hex()}")
    model = gensim.load(file, encoding="latin-1", full_model=False)
    n_words, matrix = len(model.raw_vocab), model.vectors_ngrams
    if not n_words or n_words != model.nwords or matrix.shape != (n_words + model.bucket, model.dim):
        raise ValueError(
            f"{model.nwords} words, {n_words} of them different, {model.bucket} buckets and {model.dim} components do "
            f"not fit a matrix of the shape {matrix.shape}"
        )
    if model.maxn <= 0 or not model.bucket:
        return list(model.raw_vocab), matrix, None
    mean = np.zeros(model.dim, np.float32)
    return list(model.raw_vocab), matrix, SubwordTable(matrix[n_words:], mean, model.minn, model.maxn)
