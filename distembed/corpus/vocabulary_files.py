"""Files of words and their counts that others may have written, checked: Parquet, and lines of "word count"."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from distembed.corpus.scanners import WORDS_SCHEMA
from distembed.files import damage_told
from distembed.formats.parquet import whole_table
from distembed.urls import opened

LARGEST_COUNT = int(np.iinfo(np.int64).max)
DIGITS = len(str(LARGEST_COUNT))
LINE_BYTES = 1 << 20
"""No line of a word and its count is longer; what follows is read as another line, and refused."""
UNKNOWN_COUNT = -1
"""The document count of a word where the file has none."""


def read_table(path: Path) -> pa.Table:
    """Return a Parquet file of words and counts, with the columns of `WORDS_SCHEMA`.

    Raises
    ------
    ValueError
        If it cannot be read, or a column or a value is missing or of another kind.
    """
    remedy = 'copy it again, or let its name end with .txt if it has lines of "word count".'
    with damage_told(str(path), ValueError, "a Parquet file", remedy), opened(path) as file:
        table = whole_table(file)
    if "document_count" not in table.column_names:
        table = table.append_column("document_count", _unknown_counts(table.num_rows))
    missing = [name for name in WORDS_SCHEMA.names if name not in table.column_names]
    if missing:
        raise ValueError(
            f"{path} has no column {missing[0]!r}: a vocabulary needs the columns word and count, and may have "
            "document_count."
        )
    for name in WORDS_SCHEMA.names:
        if table[name].null_count:
            row = table[name].is_null().index(True).as_py() + 1
            raise ValueError(f"{path}: row {row} has no {name}; give it one, or remove the row.")
    try:
        return table.select(WORDS_SCHEMA.names).cast(WORDS_SCHEMA)
    except pa.ArrowException as error:
        raise ValueError(
            f"{path}: the words must be text and the counts whole numbers, but {error}; correct the file."
        ) from error


def _unknown_counts(n_words: int) -> pa.Array:
    return pa.array(np.full(n_words, UNKNOWN_COUNT, np.int64))


def read_text(path: Path) -> pa.Table:
    """Return the lines "word count" of a file, with the columns of `WORDS_SCHEMA`.

    Raises
    ------
    ValueError
        If a line is not a word and a number.
    """
    words, counts = [], []
    with opened(path) as file:
        for number, line in enumerate(iter(partial(file.readline, LINE_BYTES), b""), 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number} is not text in UTF-8 ({error}); convert it."
                ) from error
            word, _, count = text.rpartition(" ")
            # Python reads no number of thousands of digits.
            if not word or not count.isdecimal() or len(count) > DIGITS or int(count) > LARGEST_COUNT:
                raise ValueError(
                    f'{path}, line {number}: {text.rstrip()[:80]!r} is not "word count"; correct the line.'
                )
            words.append(word)
            counts.append(int(count))
    return pa.table([pa.array(words, pa.string()), counts, _unknown_counts(len(words))], schema=WORDS_SCHEMA)
