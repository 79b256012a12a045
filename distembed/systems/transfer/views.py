"""The tables that a transfer job exports: the documents, and the topics they share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.display import plural
from distembed.execution import compute
from distembed.job.tables import MakeTable, Numbers, Piece, Table, paired, rows_of_blocks
from distembed.linalg.chunks import evenly_spaced
from distembed.stages.collections import SIDE_DOCUMENTS, sides_of
from distembed.storage.workspace import Workspace
from distembed.systems.transfer import outputs
from distembed.systems.transfer.features import (
    group_names,
    has_topics,
    in_memory,
    inferred_output,
    known_output,
    value_names,
)
from distembed.systems.transfer.job import TransferJob
from distembed.systems.transfer.report import shown_values
from distembed.views.explorer.items import MAX_POINTS, Items, by_category, listed

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


FEATURE_COLUMNS = pa.schema(
    [
        ("collection", pa.string()),
        ("id", pa.string()),
        ("title", pa.string()),
        ("label", pa.string()),
        ("origin", pa.string()),
        ("counterpart", pa.string()),
        ("probability", pa.float64()),
    ]
)
"""The columns before those of the features; the origin of values is "known" or "inferred"."""


def documents_table(job: TransferJob, workspace: Workspace) -> Table:
    """Return the documents with their topics or features; of all but the first collection also the counterpart."""
    return _topic_table(job, workspace) if has_topics(job) else _feature_table(job, workspace)


def _topic_table(job: TransferJob, workspace: Workspace) -> Table:
    """Return the documents of all collections with their topics."""
    sides = sides_of(job)
    shares = {side: known_output(job) if side == "first" else inferred_output(job, side) for side in sides}
    arrays = {side: output.read(workspace) for side, output in shares.items()}
    n_rows, n_topics = sum(len(array) for array in arrays.values()), arrays["first"].shape[1]
    return Table(
        DOCUMENT_COLUMNS,
        Numbers("weight", n_topics, as_lists=False),
        n_rows,
        (piece for side, array in arrays.items() for piece in _documents(workspace, side, array)),
        f"{plural(n_rows, 'document')} of {plural(len(sides), 'collection')} and {plural(n_topics, 'topic')}",
    )


def _documents(workspace: Workspace, side: str, array: da.Array) -> Iterator[Piece]:
    """Yield the documents of a collection."""
    aligned = _aligned_of(workspace, side)
    rows = rows_of_blocks(array)
    first = 0
    for columns, shares in paired(workspace.batches(f"{side}_documents"), rows):
        assert shares is not None
        n = columns.num_rows
        named = (columns[name] for name in ("id", "title", "label"))
        made = [pa.array([side] * n), *named, _largest(shares), *_partners(aligned, first, n)]
        yield Piece(pa.record_batch(made, schema=DOCUMENT_COLUMNS), shares)
        first += n


def _feature_table(job: TransferJob, workspace: Workspace) -> Table:
    """Return all documents with their features, a column each: known ones as they came, the others inferred."""
    names = value_names(job, workspace)
    taken = set(FEATURE_COLUMNS.names)
    titles = [f"feature {name}" if name in taken else name for name in names]
    schema = pa.schema([*FEATURE_COLUMNS, *((title, pa.float64()) for title in titles)])
    tables = {side: _feature_rows(job, workspace, side, schema) for side in sides_of(job)}
    n_rows = sum(table.num_rows for table in tables.values())
    pieces = (Piece(batch, None) for table in tables.values() for batch in table.to_batches())
    return Table(
        schema, None, n_rows, pieces, f"{plural(n_rows, 'document')} and {plural(len(names), 'feature')}"
    )


def _feature_rows(job: TransferJob, workspace: Workspace, side: str, schema: pa.Schema) -> pa.Table:
    """Return the documents of a collection with their features."""
    documents = SIDE_DOCUMENTS.read(workspace, side=side)
    values = in_memory(inferred_output(job, side).read(workspace))
    origin = np.full(len(values), "inferred", object)
    if side in job.features.tables():
        known = outputs.FEATURES if side == "first" else outputs.SECOND_KNOWN_FEATURES
        given = in_memory(known.read(workspace))
        is_known = ~np.isnan(given).any(axis=1)
        values, origin[is_known] = np.where(is_known[:, None], given, values), "known"
    aligned = _aligned_of(workspace, side)
    named = [documents[name] for name in ("id", "title", "label")]
    partners = _partners(aligned, 0, len(values))
    sides = pa.array([side] * len(values))
    columns = [sides, *named, pa.array(origin), *partners, *map(pa.array, values.astype(np.float64).T)]
    return pa.table(columns, schema=schema)


def _aligned_of(workspace: Workspace, side: str) -> pa.Table | None:
    """Return the likeliest counterparts of the documents of a collection, none of the first."""
    return None if side == "first" else outputs.of_side(outputs.ALIGNED, side).read(workspace)


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


def topics_table(job: TransferJob, workspace: Workspace) -> Table:
    """Return the top words of every topic of the first collection, one row per word, the heaviest first.

    Raises
    ------
    ValueError
        If features of a table were carried.
    """
    if not has_topics(job):
        raise ValueError(f"{workspace.url} has no topics: features of {job.features.path} were carried")
    rows = outputs.TOPIC_WORDS.read(workspace).to_pylist()
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
"""What a transfer job exports, by the name that `--what` takes."""


NO_TOPIC = "no topic"


def items(job: TransferJob, workspace: Workspace, *, n_points: int = MAX_POINTS) -> Items:
    """Return the documents of all collections, evenly from first to last, with their likeliest counterparts."""
    sides = sides_of(job)
    tables = [SIDE_DOCUMENTS.read(workspace, side=side).to_pydict() for side in sides]
    ids = [table["id"] for table in tables]
    names = [name for one in ids for name in one]
    vectors = np.concatenate([compute(outputs.EMBEDDING.read(workspace, side=side)) for side in sides])
    used = np.flatnonzero(np.isfinite(vectors).all(axis=1) & (np.linalg.norm(vectors, axis=1) > 0))
    rows = used[evenly_spaced(used.size, n_points)]
    values = np.concatenate(shown_values(job, workspace))
    names_of_sides = np.repeat([f"{side} collection" for side in sides], [len(one) for one in ids])
    begins = [text for table in tables for text in table["excerpt"]]
    pairs = _counterparts(workspace, dict(zip(sides, ids, strict=True)))
    return Items(
        job.job.title,
        "document",
        [names[row] for row in rows.tolist()],
        vectors[rows],
        [
            by_category("topic" if has_topics(job) else "feature", _groups(job, workspace, values[rows])),
            by_category("collection", names_of_sides[rows].tolist()),
        ],
        {"begins": [begins[row] or "" for row in rows.tolist()]},
        [listed("likeliest counterpart, by probability", pairs, rows, longest=5)],
    )


def _groups(job: TransferJob, workspace: Workspace, values: NDArray[Any]) -> list[str]:
    """Return the topic of the largest share of each document, or the third that its first feature is in."""
    known = np.isfinite(values).all(axis=1)
    names = iter(group_names(job, workspace, values[known]))
    return [next(names) if one else NO_TOPIC for one in known.tolist()]


def _counterparts(workspace: Workspace, ids: dict[str, list[str]]) -> sp.csr_array:
    """Return the probability of each likeliest counterpart; documents are in the order of the collections."""
    place = {name: row for row, name in enumerate(ids["first"])}
    tables = [_aligned_of(workspace, side) for side in ids]
    aligned = [pair for table in tables if table is not None for pair in table.to_pylist()]
    found = [
        (len(place) + row, place[pair["counterpart"]], pair["probability"])
        for row, pair in enumerate(aligned)
        if pair["counterpart"]
    ]
    n = sum(map(len, ids.values()))
    other, first, probability = zip(*found, strict=True) if found else ((), (), ())
    there = sp.coo_array((probability, (other, first)), shape=(n, n))
    return sp.csr_array(there + there.T, dtype=np.float64)
