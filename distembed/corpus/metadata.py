"""A table of what is known of documents beside their text, joined by their ids or by the names of their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import NamedTuple

import pyarrow as pa

from distembed.corpus.errors import CorpusError
from distembed.formats.names import without_compression
from distembed.formats.tables import read_table, texts_of
from distembed.urls import opened

KEYS = ("id", "file", "filename", "file_name", "path")
"""Names, in any case, of the column whose cells are ids or files; without one of them it is the first."""

OF_DOCUMENTS = ("id", "n_tokens")
"""Columns of documents that no table gives; it can give "title" and "label"."""


class Metadata(NamedTuple):
    """A table of metadata: where it lies, its column of ids or files, the others, and the digest of the file."""

    url: str
    key: str
    columns: tuple[str, ...]
    digest: str


def read_metadata(url: str) -> Metadata:
    """Return what a table of metadata holds.

    Raises
    ------
    CorpusError
        If it has no column beside the key, a key twice, or a column that documents have already.
    """
    with opened(url, "rb") as file:
        digest = blake2b(file.read(), digest_size=16).hexdigest()
    table = read_table(url)
    names = list(table.columns)
    key = next((name for name in names if name.lower() in KEYS), names[0])
    columns = tuple(name for name in names if name != key)
    if not columns:
        raise CorpusError(f"{url} has one column, {key}: add the columns that documents get from it.")
    if taken := [name for name in columns if name in OF_DOCUMENTS]:
        raise CorpusError(f'{url} has the column "{taken[0]}", which documents have already: rename it.')
    return Metadata(url, key, columns, digest)


@lru_cache(maxsize=4)
def metadata_rows(metadata: Metadata) -> Mapping[str, tuple[str | None, ...]]:
    """Return the cells of each row by its id or file; an empty cell is None.

    Raises
    ------
    CorpusError
        If two rows have one id or file.
    """
    columns = read_table(metadata.url).columns
    cells = zip(*(texts_of(columns[name]) for name in metadata.columns), strict=True)
    rows: dict[str, tuple[str | None, ...]] = {}
    for key, row in zip(texts_of(columns[metadata.key]), cells, strict=True):
        if key in rows:
            raise CorpusError(f'{metadata.url} has two rows of {metadata.key} "{key}": remove one of them.')
        rows[key] = tuple(cell or None for cell in row)
    return rows


def file_keys(path: str) -> tuple[str, ...]:
    """Return what a table may call a file: its path, its name, and both without their extensions.

    Examples
    --------
    >>> from distembed.corpus.metadata import file_keys
    >>> file_keys("gaskell/wives.txt.gz")
    ('gaskell/wives.txt.gz', 'gaskell/wives', 'wives.txt.gz', 'wives')
    """
    inner = PurePosixPath(without_compression(path)).with_suffix("").as_posix()
    return path, inner, path.rpartition("/")[2], inner.rpartition("/")[2]


def joined_columns(metadata: Metadata, ids: Sequence[str], path: str) -> tuple[dict[str, pa.Array], int]:
    """Return the columns that documents of a file get from a table, and the number of those without a row."""
    rows = metadata_rows(metadata)
    of_file = next((rows[key] for key in file_keys(path) if key in rows), None)
    found = [rows.get(ident, of_file) for ident in ids]
    nothing = (None,) * len(metadata.columns)
    cells = zip(*((row or nothing) for row in found), strict=True) if found else [()] * len(metadata.columns)
    columns = {
        name: pa.array(column, pa.string()) for name, column in zip(metadata.columns, cells, strict=True)
    }
    return columns, sum(row is None for row in found)
