"""The tables that a transfer job gives away: the documents of both collections, and the topics they share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distembed.display import plural
from distembed.pipeline.corpus.collections import SIDES
from distembed.pipeline.export.tables import MakeTable, Numbers, Piece, Table, paired, rows_of_blocks
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.storage.workspace import Workspace

TOPIC_ARRAYS = dict(zip(SIDES, ("topics", "second_topics"), strict=True))
"""The array of each collection that holds the shares of the topics in its documents."""

DOCUMENT_COLUMNS = pa.schema(
    [
        ("collection", pa.string()),
        ("id", pa.string()),
        ("title", pa.string()),
        ("label", pa.string()),
        ("topic", pa.int64()),
        ("counterpart", pa.string()),
        ("probability", pa.float64()),
    ]
)


def documents_table(job: TransferJob, workspace: Workspace) -> Table:  # noqa: ARG001 - the same for every job
    """Return the documents of both collections with their topics; of the second also the likeliest counterpart."""
    shapes = [workspace.array(name).shape for name in TOPIC_ARRAYS.values()]
    n_rows, n_topics = sum(n for n, _ in shapes), shapes[0][1]
    return Table(
        DOCUMENT_COLUMNS,
        Numbers("weight", n_topics, as_lists=False),
        n_rows,
        (piece for side in SIDES for piece in _documents(workspace, side)),
        f"{plural(n_rows, 'document')} of two collections and {plural(n_topics, 'topic')}",
    )


def _documents(workspace: Workspace, side: str) -> Iterator[Piece]:
    """Yield the documents of a collection."""
    aligned = workspace.table("aligned") if side == "second" else None
    rows = rows_of_blocks(workspace.array(TOPIC_ARRAYS[side]))
    first = 0
    for columns, shares in paired(workspace.batches(f"{side}_documents"), rows):
        assert shares is not None
        n = columns.num_rows
        named = (columns[name] for name in ("id", "title", "label"))
        made = [pa.array([side] * n), *named, _largest(shares), *_partners(aligned, first, n)]
        yield Piece(pa.record_batch(made, schema=DOCUMENT_COLUMNS), shares)
        first += n


def _largest(shares: NDArray[np.float32]) -> pa.Array:
    """Return the topic of the largest share of each document, -1 where the shares are not known."""
    known: NDArray[np.bool_] = np.asarray(~np.isnan(shares).any(axis=1))
    topics = np.full(len(shares), -1, np.int64)
    topics[known] = shares[known].argmax(axis=1)
    return pa.array(topics)


def _partners(aligned: pa.Table | None, first: int, n: int) -> tuple[pa.Array, pa.Array]:
    """Return the likeliest counterparts of some documents and how likely they are, missing where there is none."""
    if aligned is None:
        return pa.nulls(n, pa.string()), pa.nulls(n, pa.float64())
    found = aligned.slice(first, n).combine_chunks()
    has = pc.is_valid(found["counterpart"])
    probability = pc.if_else(has, found["probability"], None)
    return found["counterpart"].combine_chunks(), probability.combine_chunks()


def topics_table(job: TransferJob, workspace: Workspace) -> Table:  # noqa: ARG001 - the same for every job
    """Return the top words of every topic of the first collection, one row per word, the heaviest first."""
    rows = workspace.table("topic_words").to_pylist()
    columns = {
        "topic": [row["topic"] for row in rows for _ in row["words"]],
        "share": [row["share"] for row in rows for _ in row["words"]],
        "rank": [rank for row in rows for rank in range(1, 1 + len(row["words"]))],
        "word": [word for row in rows for word in row["words"]],
    }
    batch = pa.record_batch(columns, schema=TOPIC_COLUMNS)
    return Table(TOPIC_COLUMNS, None, batch.num_rows, [Piece(batch, None)], plural(len(rows), "topic"))


TOPIC_COLUMNS = pa.schema(
    [("topic", pa.int64()), ("share", pa.float64()), ("rank", pa.int64()), ("word", pa.string())]
)

TABLES: dict[str, MakeTable] = {"documents": documents_table, "topics": topics_table}
"""What a transfer job gives away, by the name that `--what` takes."""
