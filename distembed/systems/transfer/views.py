"""The tables that a transfer job exports: the documents, and the topics they share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.display import plural
from distembed.execution import compute
from distembed.job.tables import MakeTable, Numbered, Table, paired, rows_of_blocks, table_of, with_numbers
from distembed.linalg.chunks import evenly_spaced
from distembed.stages.collections import SIDE_DOCUMENTS
from distembed.storage.workspace import Workspace
from distembed.systems.transfer import outputs
from distembed.systems.transfer.features import (
    group_names,
    inferred_output,
    shown_values,
    value_names,
)
from distembed.systems.transfer.job import TransferJob
from distembed.views.explorer.items import MAX_POINTS, Items, by_category, listed

BEFORE = [("collection", pa.string()), ("id", pa.string()), ("title", pa.string()), ("label", pa.string())]
AFTER = [("counterpart", pa.string()), ("probability", pa.float64())]
DOCUMENT_COLUMNS = pa.schema([*BEFORE, ("topic", pa.int64()), *AFTER])
FEATURE_COLUMNS = pa.schema([*BEFORE, ("origin", pa.string()), *AFTER])
"""The columns before those of the topics or features; the origin of values is "known" or "inferred"."""


def documents_table(job: TransferJob, workspace: Workspace) -> Table:
    """Return the documents with their topics or features; of all but the first collection also the counterpart."""
    return _topic_table(job, workspace) if job.has_topics else _feature_table(job, workspace)


def _topic_table(job: TransferJob, workspace: Workspace) -> Table:
    """Return the documents of all collections with their topics."""
    arrays = {side: inferred_output(job, side).read(workspace) for side in job.collections}
    n_rows, n_topics = sum(map(len, arrays.values())), arrays[job.first].shape[1]

    def pieces() -> Iterator[Numbered]:
        for side, array in arrays.items():
            first, aligned = 0, _aligned(job, workspace, side)
            for columns, shares in paired(workspace.batches(f"{side}_documents"), rows_of_blocks(array)):
                n = columns.num_rows
                topics, known = np.full(n, -1, np.int64), np.flatnonzero(~np.isnan(shares).any(axis=1))
                topics[known] = shares[known].argmax(axis=1)  # of the largest share; -1 where it is not known
                named = (columns[name] for name in ("id", "title", "label"))
                partners = _partners(aligned, first, n)
                made = [pa.array([side] * n), *named, pa.array(topics), *partners]
                yield pa.record_batch(made, schema=DOCUMENT_COLUMNS), shares
                first += n

    contents = (
        f"{plural(n_rows, 'document')} of {plural(len(arrays), 'collection')} and {plural(n_topics, 'topic')}"
    )
    rows = with_numbers(DOCUMENT_COLUMNS, pieces(), "weight", n_topics, apart=True)
    return Table(rows, n_rows, contents)


def _feature_table(job: TransferJob, workspace: Workspace) -> Table:
    """Return all documents with their features, a column each: known ones as they came, the others inferred."""
    names = value_names(job, workspace)
    titles = [f"feature {name}" if name in FEATURE_COLUMNS.names else name for name in names]
    schema = pa.schema([*FEATURE_COLUMNS, *((title, pa.float64()) for title in titles)])
    tables = []
    for side, section in job.collections.items():
        documents = SIDE_DOCUMENTS.read(workspace, side=side)
        values = compute(inferred_output(job, side).read(workspace))
        origin = np.full(len(values), "inferred", object)
        if section.features is not None:
            given = compute(outputs.KNOWN_FEATURES.read(workspace, side=side))
            is_known = ~np.isnan(given).any(axis=1)
            values, origin[is_known] = np.where(is_known[:, None], given, values), "known"
        named = [documents[name] for name in ("id", "title", "label")]
        partners = _partners(_aligned(job, workspace, side), 0, len(values))
        columns = [[side] * len(values), *named, origin, *partners, *values.astype(np.float64).T]
        tables.append(pa.table(columns, schema=schema))
    every = pa.concat_tables(tables)
    return table_of(every, f"{plural(every.num_rows, 'document')} and {plural(len(names), 'feature')}")


def _aligned(job: TransferJob, workspace: Workspace, side: str) -> pa.Table | None:
    return None if side == job.first else outputs.ALIGNED.read(workspace, side=side)


def _partners(aligned: pa.Table | None, first: int, n: int) -> tuple[pa.Array, pa.Array]:
    """Return the likeliest counterparts of some documents and how likely they are, missing where there is none."""
    if aligned is None:
        return pa.nulls(n, pa.string()), pa.nulls(n, pa.float64())
    found = aligned.slice(first, n).combine_chunks()
    probability = pc.if_else(pc.is_valid(found["counterpart"]), found["probability"], None)
    return found["counterpart"].combine_chunks(), probability.combine_chunks()


def topics_table(job: TransferJob, workspace: Workspace) -> Table:
    """Return the top words of every topic of the first collection, one row per word, the heaviest first.

    Raises
    ------
    ValueError
        If features of a table were carried.
    """
    if not job.has_topics:
        path = job.collections[job.first].features
        raise ValueError(f"{workspace.url} has no topics: features of {path} were carried")
    topics = outputs.TOPIC_WORDS.read(workspace).to_pylist()
    rows = [
        {"topic": row["topic"], "share": row["share"], "rank": rank, "word": word}
        for row in topics
        for rank, word in enumerate(row["words"], start=1)
    ]
    return table_of(pa.Table.from_pylist(rows, TOPIC_COLUMNS), plural(len(topics), "topic"))


TOPIC_COLUMNS = pa.schema(
    [("topic", pa.int64()), ("share", pa.float64()), ("rank", pa.int64()), ("word", pa.string())]
)

TABLES: dict[str, MakeTable] = {"documents": documents_table, "topics": topics_table}
"""What a transfer job exports, by the name that `--what` takes."""


def items(job: TransferJob, workspace: Workspace, *, n_points: int = MAX_POINTS) -> Items:
    """Return the documents of all collections, evenly from first to last, with their likeliest counterparts."""
    tables = {side: SIDE_DOCUMENTS.read(workspace, side=side).to_pydict() for side in job.collections}
    names = [name for table in tables.values() for name in table["id"]]
    begins = [text for table in tables.values() for text in table["excerpt"]]
    sides = [f"{side} collection" for side, table in tables.items() for _ in table["id"]]
    vectors = np.concatenate([compute(outputs.EMBEDDING.read(workspace, side=side)) for side in tables])
    used = np.flatnonzero(np.isfinite(vectors).all(axis=1) & (np.linalg.norm(vectors, axis=1) > 0))
    rows = used[evenly_spaced(used.size, n_points)]
    values = np.concatenate(shown_values(job, workspace))[rows]
    known: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=1))
    groups = iter(group_names(job, workspace, values[known]))
    colorings = [
        by_category(
            "topic" if job.has_topics else "feature",
            [next(groups) if one else "no topic" for one in known.tolist()],
        ),
        by_category("collection", [sides[row] for row in rows.tolist()]),
    ]
    return Items(
        job.job.title,
        "document",
        [names[row] for row in rows.tolist()],
        vectors[rows],
        colorings,
        {"begins": [begins[row] or "" for row in rows.tolist()]},
        [
            listed(
                "likeliest counterpart, by probability", _counterparts(job, workspace, names), rows, longest=5
            )
        ],
    )


def _counterparts(job: TransferJob, workspace: Workspace, names: list[str]) -> sp.csr_array:
    """Return the probability of each likeliest counterpart; documents are in the order of the collections."""
    aligned = pa.concat_tables(outputs.ALIGNED.read(workspace, side=side) for side in job.others).to_pylist()
    n_first = len(names) - len(aligned)
    place = {name: row for row, name in enumerate(names[:n_first])}
    found = [
        (pair["probability"], n_first + row, place[pair["counterpart"]])
        for row, pair in enumerate(aligned)
        if pair["counterpart"]
    ]
    probability, other, first = np.array(found).reshape(-1, 3).T
    shape = (len(names), len(names))
    there = sp.coo_array((probability, (other.astype(int), first.astype(int))), shape=shape)
    return sp.csr_array(there + there.T, dtype=np.float64)
