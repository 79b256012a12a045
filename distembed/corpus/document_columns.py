"""What is kept of a document beside its tokens: id, title, label, and the columns that its source gives it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from distembed.corpus.errors import CorpusError
from distembed.corpus.metadata import OF_DOCUMENTS, joined_columns
from distembed.corpus.records import HEADS, Batch
from distembed.corpus.streams import Partition

DOCUMENTS_SCHEMA = pa.schema([*((name, pa.string()) for name in HEADS), ("n_tokens", pa.int64())])
"""The columns of documents without any of their own."""


def further_columns(partition: Partition) -> tuple[str, ...]:
    """Return the columns that documents of a partition have beside those of every document.

    A title or a label that a path or a table gives is the document's own.

    Raises
    ------
    CorpusError
        If a name is given twice, or is one that documents have already.
    """
    names = partition.columns
    for name in names:
        if names.count(name) > 1 or name in OF_DOCUMENTS:
            raise CorpusError(
                f'documents would have the column "{name}" twice: rename or leave out one of them.'
            )
    return tuple(name for name in names if name not in HEADS)


def documents_schema(partition: Partition) -> pa.Schema:
    """Return the columns of the documents of a partition."""
    return pa.schema([*DOCUMENTS_SCHEMA, *((name, pa.string()) for name in further_columns(partition))])


def document_heads(partition: Partition, batch: Batch) -> tuple[pa.Table, int]:
    """Return the columns of the documents that begin in a batch, but for their tokens, and how many lack metadata."""
    n, n_missing = batch.documents.num_rows, 0
    own = dict(zip(batch.documents.column_names, batch.documents.columns, strict=True))
    given: dict[str, pa.Array] = {name: pa.repeat(value, n) for name, value in partition.constants}
    if partition.metadata is not None:
        joined, n_missing = joined_columns(partition.metadata, own["id"].to_pylist(), partition.path)
        given |= joined
    own |= {name: pa.nulls(n, pa.string()) for name in partition.carried if name not in own}
    columns = own | given
    columns |= {name: pc.coalesce(given[name], own[name]) for name in HEADS if name in given}
    return pa.table({name: columns[name] for name in (*HEADS, *further_columns(partition))}), n_missing
