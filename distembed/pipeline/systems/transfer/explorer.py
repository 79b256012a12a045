"""What the page to explore of a transfer job shows: the documents of both collections in their common space."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.pipeline.corpus.collections import SIDES
from distembed.pipeline.explorer.items import MAX_POINTS, Items, by_category, listed, spread_rows
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.pipeline.systems.transfer.report import stored, topic_names
from distembed.storage.workspace import Workspace

NO_TOPIC = "no topic"


def items(job: TransferJob, workspace: Workspace, *, n_points: int = MAX_POINTS) -> Items:
    """Return the documents of both collections, evenly from first to last, with their likeliest counterparts."""
    tables = [workspace.table(f"{side}_documents").to_pydict() for side in SIDES]
    ids = [table["id"] for table in tables]
    names = [*ids[0], *ids[1]]
    vectors = np.concatenate([stored(workspace, f"{side}_embedding") for side in SIDES])
    used = np.flatnonzero(np.isfinite(vectors).all(axis=1) & (np.linalg.norm(vectors, axis=1) > 0))
    rows = used[spread_rows(used.size, n_points)]
    shares = np.concatenate([stored(workspace, name) for name in ("topics", "second_topics")])
    sides = np.repeat([f"{side} collection" for side in SIDES], [len(one) for one in ids])
    begins = [text for table in tables for text in table["excerpt"]]
    pairs = _counterparts(workspace, ids)
    return Items(
        job.job.title,
        "document",
        [names[row] for row in rows.tolist()],
        vectors[rows],
        [
            by_category("topic", _topics(workspace, shares[rows])),
            by_category("collection", sides[rows].tolist()),
        ],
        {"begins": [begins[row] or "" for row in rows.tolist()]},
        [listed("likeliest counterpart, by probability", pairs, rows, longest=5)],
    )


def _topics(workspace: Workspace, shares: NDArray[Any]) -> list[str]:
    """Return the topic of the largest share of each document."""
    names = topic_names(workspace)
    known = np.isfinite(shares).all(axis=1)
    largest = np.where(known, np.nan_to_num(shares).argmax(axis=1), -1)
    return [names[topic] if topic >= 0 else NO_TOPIC for topic in largest.tolist()]


def _counterparts(workspace: Workspace, ids: list[list[str]]) -> sp.csr_array:
    """Return the probability of each likeliest counterpart, the documents of the first collection before the second."""
    place = {name: row for row, name in enumerate(ids[0])}
    found = [
        (len(ids[0]) + row, place[pair["counterpart"]], pair["probability"])
        for row, pair in enumerate(workspace.table("aligned").to_pylist())
        if pair["counterpart"]
    ]
    n = sum(map(len, ids))
    second, first, probability = zip(*found, strict=True) if found else ((), (), ())
    there = sp.coo_array((probability, (second, first)), shape=(n, n))
    return sp.csr_array(there + there.T, dtype=np.float64)
