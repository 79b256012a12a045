r"""fastText's own binary format: words, their input vectors, and the hashed vectors of character n-grams.

fastText composes all vectors when it answers. With the n-grams :math:`g_w` of ``<word>`` and their rows z' it gives

.. math:: \frac{x_w + \sum_{g \in g_w} z'_g}{|g_w| + 1} \text{ for its words,} \qquad
          \frac{1}{|g_w|} \sum_{g \in g_w} z'_g \text{ for other strings.}

Layout, little-endian: int32 magic and version; twelve int32 and one float64 of options; int32 entries, words and
labels, int64 tokens and pruned n-grams; for each entry its UTF-8 bytes, a zero byte, int64 count and int8 type; one
byte, whether the matrix is quantized; int64 rows and columns, and the rows as float32, first those of the words, then
those of the buckets; the same again for the output layer. Read from fastText's sources, version 0.9.2.
"""

from __future__ import annotations

import mmap
import struct

import numpy as np

from distembed.formats.streams import local_copy
from distembed.vectors.rows import Source, VectorFileError, WordRows, check_finite, row_blocks
from distembed.vectors.subwords import SubwordTable
from distembed.vectors.word2vec import MAX_WORD_BYTES

MAGIC = struct.pack("<i", 793712314)
"""The bytes with which a file begins."""

VERSION, OLDEST_VERSION = 12, 11
END_OF_SENTENCE = "</s>"
"""The one word that fastText gives no n-grams."""

_HEAD = struct.Struct("<2i12id3i2q")
_ENTRY_BYTES = 10
"""The zero byte behind a word, its count and its type."""
_SHAPE = struct.Struct("<?2q")
_WORD, _SUPERVISED = 0, 3


def read_fasttext(source: Source, max_words: int | None) -> WordRows:
    """Read the words of a model of fastText, and the table of its n-grams where it has buckets.

    gensim reads the same files, in five times the processor time: byte by byte.
    """
    with local_copy(source.path, VectorFileError) as path:
        return _read_model(path, source, max_words)


def _read_model(path: str, source: Source, max_words: int | None) -> WordRows:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:  # noqa: PTH123
        dim, bucket, min_n, max_n, n_entries = _read_head(data, source)
        words, place = _read_words(data, source, n_entries)
        n_bytes, begin = len(data), place + _SHAPE.size
        is_quantized, n_rows, n_columns = (
            _SHAPE.unpack_from(data, place) if begin <= n_bytes else (False, 0, 0)
        )
    n_buckets, end = bucket if max_n > 0 else 0, begin + 4 * dim * n_rows
    if is_quantized:
        raise VectorFileError(
            f"{source.path} is a quantized model (.ftz), which keeps rounded vectors; take the .bin that it was made "
            "from"
        )
    if begin > n_bytes or (n_columns == dim and end > n_bytes):
        raise _cut(source, n_bytes)
    if n_columns != dim:
        raise VectorFileError(
            f"{source.path}: its head promises {dim} components and its matrix {n_columns}; download it again"
        )
    if not words or n_rows - len(words) not in (n_buckets, bucket):
        raise VectorFileError(
            f"{source.path}: a matrix of {n_rows} rows does not belong to {len(words)} words and {n_buckets} "
            "buckets of n-grams; take a model that was neither pruned nor quantized"
        )
    kept = words[:max_words]
    vectors = np.fromfile(path, "<f4", len(kept) * dim, offset=begin).reshape(-1, dim)
    check_finite(kept, vectors, source, 0)
    if not n_buckets:
        return WordRows(kept, vectors)
    hashed = np.fromfile(path, "<f4", n_buckets * dim, offset=end - 4 * dim * n_buckets)
    if not np.isfinite(hashed.sum(dtype=np.float64)):
        raise VectorFileError(f"{source.path}: a bucket holds NaN or infinity; download or train it again")
    mean = np.zeros(dim, np.float32)
    table = SubwordTable(hashed.reshape(-1, dim), mean, min_n, max_n)
    for words_of_block, block in row_blocks(
        kept, vectors
    ):  # averages with the rows of their n-grams, in place
        n_ngrams = table.n_ngrams(words_of_block)[:, None].astype(np.float64)
        n_ngrams[[row for row, word in enumerate(words_of_block) if word == END_OF_SENTENCE]] = 0
        block[:] = (block + n_ngrams * table.compose(words_of_block)) / (n_ngrams + 1)
    return WordRows(kept, vectors, table)


def _cut(source: Source, n_bytes: int) -> VectorFileError:
    return VectorFileError(
        f"{source.path} is cut short: it ends at byte {n_bytes}, in the middle of a model of fastText; download or "
        "write it again"
    )


def _read_head(data: mmap.mmap, source: Source) -> tuple[int, int, int, int, int]:
    """Return components, buckets, least and most characters of n-grams, and entries of the dictionary.

    A head that promises more than the file can hold is an error.
    """
    if not data[: len(MAGIC)] == MAGIC:
        raise VectorFileError(
            f"{source.path} begins with {data[: len(MAGIC)].hex()}, and a model of fastText with {MAGIC.hex()}; name "
            "another format"
        )
    if len(data) < _HEAD.size:
        raise _cut(source, len(data))
    _, version, dim, *rest = _HEAD.unpack_from(data)
    (model, bucket, min_n, max_n), (n_entries, n_words, _, _, n_pruned) = rest[6:10], rest[12:]
    if not OLDEST_VERSION <= version <= VERSION:
        raise VectorFileError(
            f"{source.path} has version {version}, and a model of fastText has version {OLDEST_VERSION} or {VERSION}; "
            "name another format"
        )
    if dim < 1 or bucket < 0 or (max_n > 0 and not 1 <= min_n <= max_n):
        raise VectorFileError(
            f"{source.path}: its head has {dim} components, {bucket} buckets and n-grams of {min_n} to {max_n} "
            "characters; the file is damaged, download it again"
        )
    if n_pruned > 0:
        raise VectorFileError(
            f"{source.path} is a pruned model, whose n-grams are renumbered; take the whole one"
        )
    if max(4 * dim * n_words, _ENTRY_BYTES * n_entries) > len(data):
        raise _cut(source, len(data))
    is_old = version == OLDEST_VERSION and model == _SUPERVISED  # n-grams of characters came with version 12
    return dim, bucket, min_n, 0 if is_old else max_n, n_entries


def _read_words(data: mmap.mmap, source: Source, n_entries: int) -> tuple[list[str], int]:
    """Return the words of the dictionary, without the labels behind them, and where it ends."""
    words, place = list[str](), _HEAD.size
    for row in range(n_entries):
        stop = data.find(b"\0", place, place + MAX_WORD_BYTES)
        if stop < 0 and place + MAX_WORD_BYTES < len(data):
            raise VectorFileError(
                f"{source.path}: no word ends within {MAX_WORD_BYTES} bytes of byte {place}: it is no model of "
                "fastText, or damaged; download it again"
            )
        if stop < 0 or stop + _ENTRY_BYTES > len(data):
            raise _cut(source, len(data))
        if data[stop + _ENTRY_BYTES - 1] == _WORD:
            words.append(source.decode(data[place:stop], row))
        place = stop + _ENTRY_BYTES
    return words, place
