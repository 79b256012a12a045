"""What is kept of a document beside its tokens, and the columns that are joined to it when all is tokenized.

A partition keeps the id, the title, the label, the file and the fields that the source itself gives. What the path of
a file says of its documents and what a table knows of them is joined later, and text is tokenized without it.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from distembed.corpus.records import HEADS, Batch
from distembed.corpus.streams import CorpusError, Partition
from distembed.display import first_repeat
from distembed.formats.names import without_compression
from distembed.formats.tables import read_table, texts_of

FILE = "source_file"
"""The column of a partition with the file of each document: `Partition.name`."""

EXCERPT = "excerpt"
"""The column with the beginning of a document."""

OF_DOCUMENTS = ("id", "n_tokens", FILE)
"""Columns of documents that no source gives; it can give "title" and "label"."""

DOCUMENTS_SCHEMA = pa.schema(
    [*((name, pa.string()) for name in HEADS), ("n_tokens", pa.int64()), (FILE, pa.string())]
)
"""The columns of the documents of a partition without any of their own."""

KEYS = ("id", "file", "filename", "file_name", "path")
"""Names, in any case, of the column of metadata whose cells are ids or files; without one of them it is the first."""

PIECE = r"(#\d+)+$"
"""What the id of a piece of a document has after that of the whole."""


class DocumentColumns(NamedTuple):
    """The columns that documents get when they are tokenized.

    Attributes
    ----------
    paths : the values that each file's path gives its documents, by its `Partition.name`; None without any
    metadata : a table whose first column has ids of documents or files, and the others what they get, null where empty
    """

    paths: pa.Table | None = None
    metadata: pa.Table | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for table in self if table is not None for name in table.column_names[1:])

    def join(self, documents: pa.Table) -> tuple[pa.Table, int]:
        """Return the documents of a partition with these columns, and the number of those without a row of metadata.

        A title or a label that a path or a table gives is the document's own.
        """
        files, given, n_missing = documents[FILE], dict[str, pa.ChunkedArray](), 0
        if self.paths is not None:
            rows = pc.index_in(files, value_set=self.paths[FILE])
            given |= {name: self.paths[name].take(rows) for name in self.paths.column_names[1:]}
        if self.metadata is not None:  # a row names a document by its id, or else by its file
            keys, names = self.metadata.column(0), files.unique()
            known = set(keys.to_pylist())
            calls = [next(filter(known.__contains__, file_keys(name)), None) for name in names.to_pylist()]
            by_name = pc.index_in(pa.array(calls, pa.string()), value_set=keys, skip_nulls=True)
            ids = (documents["id"], pc.replace_substring_regex(documents["id"], PIECE, ""))
            by_id = (pc.index_in(one, value_set=keys, skip_nulls=True) for one in ids)
            rows = pc.coalesce(*by_id, by_name.take(pc.index_in(files, value_set=names)))
            n_missing = rows.null_count
            given |= {name: self.metadata[name].take(rows) for name in self.metadata.column_names[1:]}
        columns = dict(zip(documents.column_names, documents.columns, strict=True)) | given
        columns |= {name: pc.coalesce(given[name], documents[name]) for name in HEADS if name in given}
        return pa.table(columns).drop_columns(FILE), n_missing


def read_metadata(url: str) -> pa.Table:
    """Return a table of metadata as text, that of ids or files first; an empty cell is null.

    Raises
    ------
    CorpusError
        If it has no column beside the key, or two rows of one id or file.
    """
    texts = {name: texts_of(column) for name, column in read_table(url).columns.items()}
    key = next((name for name in texts if name.lower() in KEYS), next(iter(texts)))
    if len(texts) == 1:
        raise CorpusError(f"{url} has one column, {key}: add the columns that documents get from it.")
    if found := first_repeat(texts[key]):
        raise CorpusError(f'{url} has two rows of {key} "{found[0]}": remove one of them.')
    cells = {key: texts.pop(key)} | texts
    return pa.table({name: pa.array([text or None for text in cells[name]], pa.string()) for name in cells})


def file_keys(path: str) -> tuple[str, ...]:
    """Return what a table may call a file: its path, its name, and both without their extensions.

    Examples
    --------
    >>> from distembed.corpus.document_columns import file_keys
    >>> file_keys("gaskell/wives.txt.gz")
    ('gaskell/wives.txt.gz', 'gaskell/wives', 'wives.txt.gz', 'wives')
    """
    inner = PurePosixPath(without_compression(path)).with_suffix("").as_posix()
    return path, inner, path.rpartition("/")[2], inner.rpartition("/")[2]


def documents_schema(partition: Partition, *, n_excerpt: int = 0) -> pa.Schema:
    """Return the columns of the documents of a partition, with excerpts of so many characters."""
    names = [name for name in partition.carry_fields if name not in HEADS] + [EXCERPT] * bool(n_excerpt)
    return pa.schema([*DOCUMENTS_SCHEMA, *((name, pa.string()) for name in names)])


def document_heads(partition: Partition, batch: Batch, *, n_excerpt: int = 0) -> pa.Table:
    """Return the columns of the documents that begin in a batch, but for their tokens."""
    n = batch.documents.num_rows
    columns = dict(zip(batch.documents.column_names, batch.documents.columns, strict=True))
    columns[FILE] = pa.repeat(partition.name, n)
    if n_excerpt:
        columns[EXCERPT] = pa.array([excerpt(text, n_excerpt) for text in batch.texts()], pa.string())
    names = [name for name in documents_schema(partition, n_excerpt=n_excerpt).names if name != "n_tokens"]
    return pa.table({name: columns.get(name, pa.nulls(n, pa.string())) for name in names})


def excerpt(text: bytes, n_characters: int) -> str:
    r"""Return the beginning of a text with its white space closed up.

    Examples
    --------
    >>> from distembed.corpus.document_columns import excerpt
    >>> excerpt(b"One  line\nand the next", 12)
    'One line an…'
    """
    beginning = text[: 16 * n_characters].decode("utf-8", "ignore")[: 4 * n_characters]
    words = " ".join(beginning.split()[:n_characters])
    return words if len(words) <= n_characters else words[: n_characters - 1] + "…"
