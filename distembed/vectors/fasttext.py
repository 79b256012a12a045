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

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.formats.streams import Stream
from distembed.vectors.rows import (
    BLOCK_VALUES,
    Block,
    Source,
    VectorFileError,
    WordRows,
    check_finite,
    extended,
    gather,
    row_blocks,
)
from distembed.vectors.subwords import SubwordTable
from distembed.vectors.word2vec import MAX_WORD_BYTES

MAGIC = struct.pack("<i", 793712314)
"""The bytes with which a file begins."""

VERSION, OLDEST_VERSION = 12, 11
END_OF_SENTENCE = "</s>"
"""The one word that fastText gives no n-grams."""

_ARGUMENTS = struct.Struct("<12id")
_SIZES = struct.Struct("<3i2q")
_ENTRY = struct.Struct("<qb")
_SHAPE = struct.Struct("<2q")
_WORD, _SUPERVISED = 0, 3


class _Options(NamedTuple):
    """The options of a model, in their order in a file."""

    dim: int
    window: int = 5
    epoch: int = 5
    min_count: int = 1
    negatives: int = 5
    word_ngrams: int = 1
    loss: int = 2  # negative sampling
    model: int = 2  # skip-gram
    bucket: int = 0
    min_n: int = 0
    max_n: int = 0
    update_rate: int = 100
    sample: float = 1e-4


def _n_ngrams(words: list[str], table: SubwordTable) -> NDArray[np.float64]:
    """Return the number of n-grams that fastText gives each word, as a column (n, 1)."""
    counts = table.n_ngrams(words)
    counts[[row for row, word in enumerate(words) if word == END_OF_SENTENCE]] = 0
    return counts[:, None].astype(np.float64)


class _Bytes:
    """The bytes of a file, taken in pieces of any size; a file that ends too early is an error."""

    def __init__(self, stream: Stream, name: str) -> None:
        self._chunks = stream.chunks()
        self._name = name
        self._data = b""
        self._place = 0
        self._taken = 0

    def take(self, n_bytes: int) -> bytes:
        while len(self._data) - self._place < n_bytes:
            self._read_on()
        start, self._place = self._place, self._place + n_bytes
        return self._data[start : self._place]

    def take_word(self) -> bytes:
        """Return the bytes before the next zero byte, and pass over that."""
        while (stop := self._data.find(b"\0", self._place)) < 0:
            if len(self._data) - self._place > MAX_WORD_BYTES:
                raise VectorFileError(
                    f"{self._name}: no word ends within {MAX_WORD_BYTES} bytes of byte "
                    f"{self._taken + self._place}: it is no model of fastText, or damaged; download it again"
                )
            self._read_on()
        word, self._place = self._data[self._place : stop], stop + 1
        return word

    def _read_on(self) -> None:
        self._taken += self._place
        chunk = next(self._chunks, b"")
        self._data, self._place = self._data[self._place :] + chunk, 0
        if not chunk:
            raise VectorFileError(
                f"{self._name} is cut short: it ends at byte {self._taken + len(self._data)}, in the middle of a model "
                "of fastText; download or write it again"
            )


def read_fasttext(stream: Stream, source: Source, max_words: int | None) -> WordRows:
    """Read the words of a model of fastText, and the table of its n-grams where it has buckets."""
    data = _Bytes(stream, source.path)
    options = _read_options(data, source)
    words = _read_words(data, source)
    n_rows = _read_shape(data, source, options)
    n_buckets = options.bucket if options.max_n > 0 else 0
    if not words or n_rows - len(words) not in (n_buckets, options.bucket):
        raise VectorFileError(
            f"{source.path}: a matrix of {n_rows} rows does not belong to {len(words)} words and {n_buckets} "
            "buckets of n-grams; take a model that was neither pruned nor quantized"
        )
    kept = words[:max_words]
    rows = gather(_word_blocks(data, source, kept, options.dim), source.path, len(kept), None)
    if not n_buckets:
        return rows
    for _ in _blocks(data, len(words) - len(kept), options.dim):
        pass
    vectors, n_read = np.empty((0, 0), np.float32), 0
    for block in _blocks(data, options.bucket, options.dim):
        if not np.isfinite(block).all():
            raise VectorFileError(
                f"{source.path}: a bucket from {n_read} on holds NaN or infinity; download or train it again"
            )
        vectors = extended(vectors, n_read, block, options.bucket)
        n_read += len(block)
    mean = np.zeros(options.dim, np.float32)
    table = SubwordTable(vectors, mean, options.min_n, options.max_n, n_buckets=options.bucket)
    return rows._replace(vectors=_word_vectors(rows, table), subwords=table)


def _read_options(data: _Bytes, source: Source) -> _Options:
    magic, (version,) = data.take(len(MAGIC)), struct.unpack("<i", data.take(4))
    if magic != MAGIC or not OLDEST_VERSION <= version <= VERSION:
        raise VectorFileError(
            f"{source.path} begins with {magic.hex()} and version {version}, and a model of fastText with "
            f"{MAGIC.hex()} and version {OLDEST_VERSION} or {VERSION}; name another format"
        )
    options = _Options(*_ARGUMENTS.unpack(data.take(_ARGUMENTS.size)))
    if (
        options.dim < 1
        or options.bucket < 0
        or (options.max_n > 0 and not 1 <= options.min_n <= options.max_n)
    ):
        raise VectorFileError(
            f"{source.path}: its head has {options.dim} components, {options.bucket} buckets and n-grams of "
            f"{options.min_n} to {options.max_n} characters; the file is damaged, download it again"
        )
    old = (
        version == OLDEST_VERSION and options.model == _SUPERVISED
    )  # n-grams of characters came with version 12
    return options._replace(max_n=0) if old else options


def _read_words(data: _Bytes, source: Source) -> list[str]:
    """Return the words of the dictionary; labels, which stand after them, are passed over."""
    n_entries, _, _, _, n_pruned = _SIZES.unpack(data.take(_SIZES.size))
    if n_pruned > 0:
        raise VectorFileError(
            f"{source.path} is a pruned model, whose n-grams are renumbered; take the whole one"
        )
    words = []
    for row in range(n_entries):
        word = data.take_word()
        if _ENTRY.unpack(data.take(_ENTRY.size))[1] == _WORD:
            words.append(source.decode(word, row))
    return words


def _read_shape(data: _Bytes, source: Source, options: _Options) -> int:
    if data.take(1) != b"\0":
        raise VectorFileError(
            f"{source.path} is a quantized model (.ftz), which keeps rounded vectors; take the .bin that it was made "
            "from"
        )
    n_rows, n_components = _SHAPE.unpack(data.take(_SHAPE.size))
    if n_components != options.dim:
        raise VectorFileError(
            f"{source.path}: its head promises {options.dim} components and its matrix {n_components}; download it "
            "again"
        )
    return int(n_rows)


def _blocks(data: _Bytes, n_rows: int, n_components: int) -> Iterator[NDArray[np.float32]]:
    """Yield the next rows of a matrix, some at a time."""
    step = max(1, BLOCK_VALUES // n_components)
    for first in range(0, n_rows, step):
        n = min(step, n_rows - first)
        values = np.frombuffer(data.take(4 * n * n_components), "<f4").reshape(n, n_components)
        yield values.astype(np.float32, copy=False)


def _word_blocks(data: _Bytes, source: Source, words: list[str], n_components: int) -> Iterator[Block]:
    n_read = 0
    for block in _blocks(data, len(words), n_components):
        block_words = words[n_read : n_read + len(block)]
        check_finite(block_words, block, source, n_read)
        yield block_words, block
        n_read += len(block)


def _word_vectors(rows: WordRows, table: SubwordTable) -> NDArray[np.float32]:
    """Return the vectors of words: the averages of their rows with those of their n-grams."""
    vectors, start = np.empty_like(rows.vectors), 0
    for words, block in row_blocks(rows.words, rows.vectors):
        n_ngrams = _n_ngrams(words, table)
        vectors[start : start + len(block)] = (block + n_ngrams * table.compose(words)) / (n_ngrams + 1)
        start += len(block)
    return vectors
