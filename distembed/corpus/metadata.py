"""A table of what is known of documents beside their text, by their ids or by the names of their files."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from distembed.corpus.errors import CorpusError
from distembed.display import first_repeat
from distembed.formats.names import without_compression
from distembed.formats.tables import read_table, texts_of

KEYS = ("id", "file", "filename", "file_name", "path")
"""Names, in any case, of the column whose cells are ids or files; without one of them it is the first."""

PIECE = r"#\d+$"
"""What the id of a piece of a document has after that of the whole."""


class Metadata(NamedTuple):
    """A table of metadata: where it lies, its column of ids or files, and all of its columns as text."""

    url: str
    key: str
    table: pa.Table
    """An empty cell is null."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that documents get."""
        return tuple(name for name in self.table.column_names if name != self.key)

    def rows_of(self, ids: pa.ChunkedArray, files: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the row of each document, by its id or else by its file; null without one."""
        keys = self.table[self.key]
        names = files.unique().to_pylist()
        known = set(keys.to_pylist())
        calls = [next((key for key in file_keys(name) if key in known), None) for name in names]
        by_name = pc.index_in(pa.array(calls, pa.string()), value_set=keys, skip_nulls=True)
        by_file = by_name.take(pc.index_in(files, value_set=pa.array(names, pa.string())))
        wholes = pc.replace_substring_regex(ids, PIECE, "")
        by_id = (pc.index_in(one, value_set=keys, skip_nulls=True) for one in (ids, wholes))
        return pc.coalesce(*by_id, by_file)


def read_metadata(url: str) -> Metadata:
    """Return a table of metadata.

    Raises
    ------
    CorpusError
        If it has no column beside the key, or two rows of one id or file.
    """
    table = read_table(url)
    names = list(table.columns)
    key = next((name for name in names if name.lower() in KEYS), names[0])
    if len(names) == 1:
        raise CorpusError(f"{url} has one column, {key}: add the columns that documents get from it.")
    texts = {name: texts_of(column) for name, column in table.columns.items()}
    if found := first_repeat(texts[key]):
        raise CorpusError(f'{url} has two rows of {key} "{found[0]}": remove one of them.')
    cells = {name: pa.array([text or None for text in column], pa.string()) for name, column in texts.items()}
    return Metadata(url, key, pa.table(cells))


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
