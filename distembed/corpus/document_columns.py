"""What is kept of a document beside its tokens, and the columns that are joined to it when all is tokenized.

A partition keeps the id, the title, the label, the file and the fields that the source itself gives. What the path of
a file says of its documents and what a table knows of them is joined later, and text is tokenized without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from distembed.corpus.errors import CorpusError
from distembed.corpus.metadata import Metadata
from distembed.corpus.records import HEADS, Batch
from distembed.corpus.streams import Partition

FILE = "source_file"
"""The column of a partition with the file of each document: what `Partition.source` names."""

EXCERPT = "excerpt"
"""The column with the beginning of a document."""

OF_DOCUMENTS = ("id", "n_tokens", FILE)
"""Columns of documents that no source gives; it can give "title" and "label"."""

DOCUMENTS_SCHEMA = pa.schema(
    [*((name, pa.string()) for name in HEADS), ("n_tokens", pa.int64()), (FILE, pa.string())]
)
"""The columns of the documents of a partition without any of their own."""


class DocumentColumns(NamedTuple):
    """The columns that documents get when they are tokenized.

    Attributes
    ----------
    paths : the values that each file's path gives its documents, by its `Partition.source`; None without any
    metadata : a table of documents or files
    """

    paths: pa.Table | None = None
    metadata: Metadata | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        of_paths = () if self.paths is None else tuple(self.paths.column_names[1:])
        return (*of_paths, *(() if self.metadata is None else self.metadata.columns))

    def join(self, documents: pa.Table) -> tuple[pa.Table, int]:
        """Return the documents of a partition with these columns, and the number of those without a row of metadata.

        A title or a label that a path or a table gives is the document's own.
        """
        files, n_missing = documents[FILE], 0
        given: dict[str, pa.ChunkedArray] = {}
        if self.paths is not None:
            rows = pc.index_in(files, value_set=self.paths[FILE])
            given |= {name: self.paths[name].take(rows) for name in self.paths.column_names[1:]}
        if self.metadata is not None:
            rows = self.metadata.rows_of(documents["id"], files)
            n_missing = rows.null_count
            given |= {name: self.metadata.table[name].take(rows) for name in self.metadata.columns}
        columns = dict(zip(documents.column_names, documents.columns, strict=True)) | given
        columns |= {name: pc.coalesce(given[name], documents[name]) for name in HEADS if name in given}
        return pa.table(columns).drop_columns(FILE), n_missing


def columns_of_paths(partitions: Sequence[Partition]) -> pa.Table | None:
    """Return the file of each document with the columns that its path gives; None where it gives none."""
    if not partitions or not partitions[0].constants:
        return None
    found = {partition.source: dict(partition.constants) for partition in partitions}
    return pa.Table.from_pylist([{FILE: source} | values for source, values in found.items()])


def check_columns(names: Sequence[str]) -> None:
    """Refuse columns of documents that are given twice, or that they have already.

    Raises
    ------
    CorpusError
        If one is.
    """
    for name in names:
        if names.count(name) > 1 or name in OF_DOCUMENTS:
            raise CorpusError(
                f'documents would have the column "{name}" twice: rename or leave out one of them.'
            )


def documents_schema(partition: Partition, *, n_excerpt: int = 0) -> pa.Schema:
    """Return the columns of the documents of a partition, with excerpts of so many characters."""
    names = [name for name in partition.carried if name not in HEADS] + [EXCERPT] * bool(n_excerpt)
    return pa.schema([*DOCUMENTS_SCHEMA, *((name, pa.string()) for name in names)])


def document_heads(partition: Partition, batch: Batch, *, n_excerpt: int = 0) -> pa.Table:
    """Return the columns of the documents that begin in a batch, but for their tokens."""
    n = batch.documents.num_rows
    columns = dict(zip(batch.documents.column_names, batch.documents.columns, strict=True))
    columns[FILE] = pa.repeat(partition.source, n)
    if n_excerpt:
        texts = list(batch.texts())[int(batch.continues) :]
        columns[EXCERPT] = pa.array([excerpt(text, n_excerpt) for text in texts], pa.string())
    schema = documents_schema(partition, n_excerpt=n_excerpt)
    return pa.table(
        {name: columns.get(name, pa.nulls(n, pa.string())) for name in schema.names if name != "n_tokens"}
    )


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
