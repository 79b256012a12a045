"""Which inputs are vectors of words in place of a table, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distembed.formats.delimiters import DELIMITERS
from distembed.formats.names import TABLE_SUFFIXES, suffix_of, vector_format
from distembed.formats.tables import TableError
from distembed.pipeline.context import read_vectors
from distembed.pipeline.tables.config import DomainSection
from distembed.pipeline.tables.rows import Domain
from distembed.storage.workspace import Workspace
from distembed.urls import opened
from distembed.vectors import WordVectors

ONLY_OF_TABLES = ("columns", "drop", "name_column", "label_column", "first", "last")
"""Keys of the section that say nothing of a vector file."""


def holds_vectors(path: str, chosen: str) -> bool:
    """Return whether the domain at a path is vectors of words, as it says or by its name and its first line.

    A `.parquet` file counts as a table unless `format = "vectors"`, and so does text whose fields are separated by
    more than blanks.
    """
    if chosen != "auto":
        return chosen == "vectors"
    by_name = vector_format(path)
    if by_name not in (None, "word2vec", "parquet"):
        return True
    is_table = by_name == "parquet" or suffix_of(path) in TABLE_SUFFIXES
    return Workspace.exists(path) or (not is_table and _begins_like_vectors(path))


def _begins_like_vectors(path: str) -> bool:
    """Return whether the first line is the header of a vector file, or a word and numbers between blanks."""
    with opened(path, "rb", compression="infer") as file:
        line = file.readline(1 << 16).decode(errors="replace")
    fields = line.split()
    numbers = fields if len(fields) == 2 else fields[1:]
    is_delimited = any(sign in line for sign in DELIMITERS)
    return len(fields) > 1 and not is_delimited and all(map(_is_number, numbers))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def load_vectors(path: str, *, max_words: int | None = None) -> WordVectors:
    """Return the vectors of a file in any format, or of a workspace."""
    if not Workspace.exists(path):
        return WordVectors.load(path, max_words=max_words)
    return read_vectors(Workspace.open(path), max_words=max_words)


def from_vectors(section: DomainSection) -> Domain:
    """Return vectors of words as a domain: a row per word, as it came.

    Raises
    ------
    TableError
        If the section has a key that says nothing of vectors.
    """
    _refuse_keys_of_tables(section)
    vectors = load_vectors(section.path, max_words=section.max_words)
    words = list(vectors.words)
    matrix = np.asarray(vectors.vectors)
    columns = [f"component {number}" for number in range(matrix.shape[1])]
    note = f"{section.path} holds vectors of words: {len(words):,} words x {matrix.shape[1]} components"
    return Domain(words, matrix, columns, [""] * len(words), [], [note], holds_vectors=True)


def _refuse_keys_of_tables(section: DomainSection) -> None:
    named: Sequence[str] = [name for name in ONLY_OF_TABLES if getattr(section, name)]
    if section.transform != "none":
        named = ["transform", *named]
    if named:
        raise TableError(
            f"{section.path} holds vectors of words, of which domain.{named[0]} says nothing: leave it out, or set "
            'domain.format = "table"'
        )
