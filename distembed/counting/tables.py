"""Tables of counts: a row for each pair of words, and a second file with the words themselves."""

from __future__ import annotations

import os
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from distembed.corpus.vocabulary import Vocabulary
from distembed.files import damage_told
from distembed.formats.names import without_compression
from distembed.formats.parquet import ParquetFile, read_batches
from distembed.urls import opened

COLUMNS = ("word", "context", "count")
"""The columns of a table of counts."""

BATCH_ROWS = 1 << 20
"""Rows that are looked up at a time."""


class CountTableError(ValueError):
    """An error in a table of counts."""


def words_beside(path: str) -> str:
    """Return where the words of a table lie: beside it, ``counts.words.parquet`` for ``counts.parquet``."""
    whole = without_compression(path)
    return f"{whole.removesuffix(PurePosixPath(whole).suffix)}.words.parquet"


def read_counts(
    path: str | os.PathLike[str], *, words: Vocabulary | None = None
) -> tuple[csr_array, Vocabulary]:
    """Read counts of word pairs from a Parquet file, such as ``distembed export JOB --what counts`` writes.

    Parameters
    ----------
    path : str or path
        A file with the columns word, context and count, a row for each pair, in any order.
    words : Vocabulary, optional
        The words of the rows and columns; by default those in the file ``NAME.words.parquet`` next to ``NAME.parquet``.

    Returns
    -------
    counts : csr_array (n_words, n_words)
        The counts, in memory, in the type of numbers of the file. Row and column i are word i.
    vocabulary : Vocabulary
        The words.

    Raises
    ------
    FileNotFoundError
        If the table or its words are not there.
    ValueError
        If the file is damaged or no table of counts, a word is not among the words, a pair is there twice, or a count
        is missing, negative or not finite.

    Examples
    --------
    >>> import distembed as de
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> pairs = {"word": ["the", "cat"], "context": ["cat", "the"], "count": [3, 1]}
    >>> pq.write_table(pa.table(pairs), "pairs.parquet")
    >>> counts, vocabulary = de.read_counts("pairs.parquet", words=de.Vocabulary(["the", "cat"], [9, 4], [2, 2]))
    >>> counts.toarray().tolist()
    [[0, 3], [1, 0]]
    """
    url, read = os.fspath(path), list[tuple[pa.Array, ...]]()
    if words is None:
        words = Vocabulary.load(words_beside(url))
    with damage_told(url, CountTableError, "a Parquet file"), opened(url, "rb") as file:
        table = ParquetFile(file)
        if missing := [name for name in COLUMNS if name not in table.schema_arrow.names]:
            raise CountTableError(
                f"{url} has no column {missing[0]!r}: name its columns {', '.join(COLUMNS)}"
            )
        for batch in read_batches(table, BATCH_ROWS, columns=COLUMNS):
            counts = batch["count"].to_numpy(zero_copy_only=False)
            rows, columns = (words.index(batch[name].cast(pa.string())) for name in COLUMNS[:2])
            wrong = ~((counts >= 0) & (counts < np.inf) & (rows >= 0) & (columns >= 0))
            if wrong.any():
                first = batch.slice(int(np.argmax(wrong)), 1).to_pylist()[0]
                raise CountTableError(
                    f"{url} has a row {first} that is no count of two of its {len(words):,} words: give words that are "
                    "among them, and counts of 0 or more"
                )
            read.append((rows, columns, counts))
    if not read:
        raise CountTableError(f"{url} holds no row: export the counts again")
    rows, columns, values = (np.concatenate(parts) for parts in zip(*read, strict=True))
    found = csr_array((values, (rows, columns)), shape=(len(words), len(words)))
    if found.nnz < len(values):
        raise CountTableError(f"{url} holds a pair of words twice: add its counts, or remove one")
    return found, words
