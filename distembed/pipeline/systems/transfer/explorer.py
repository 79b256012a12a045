"""What the page to explore of a transfer job shows: the documents of both collections in their common space."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.linalg.chunks import evenly_spaced
from distembed.pipeline.corpus.collections import sides_of
from distembed.pipeline.explorer.items import MAX_POINTS, Items, by_category, listed
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.pipeline.systems.transfer.features import group_names, has_topics
from distembed.pipeline.systems.transfer.report import shown_values, stored
from distembed.storage.workspace import Workspace

NO_TOPIC = "no topic"


def items(job: TransferJob, workspace: Workspace, *, n_points: int = MAX_POINTS) -> Items:
    """Return the documents of both collections, evenly from first to last, with their likeliest counterparts."""
    sides = sides_of(job)
    tables = [workspace.table(f"{side}_documents").to_pydict() for side in sides]
    ids = [table["id"] for table in tables]
    names = [name for one in ids for name in one]
    vectors = np.concatenate([stored(workspace, f"{side}_embedding") for side in sides])
    used = np.flatnonzero(np.isfinite(vectors).all(axis=1) & (np.linalg.norm(vectors, axis=1) > 0))
    rows = used[evenly_spaced(used.size, n_points)]
    values = np.concatenate(shown_values(job, workspace))
    names_of_sides = np.repeat([f"{side} collection" for side in sides], [len(one) for one in ids])
    begins = [text for table in tables for text in table["excerpt"]]
    by_side = [by_category("collection", names_of_sides[rows].tolist())] if len(sides) == 2 else []
    pairs = [_counterparts(workspace, ids)] if len(sides) == 2 else []
    return Items(
        job.job.title,
        "document",
        [names[row] for row in rows.tolist()],
        vectors[rows],
        [
            by_category("topic" if has_topics(job) else "feature", _groups(job, workspace, values[rows])),
            *by_side,
        ],
        {"begins": [begins[row] or "" for row in rows.tolist()]},
        [listed("likeliest counterpart, by probability", found, rows, longest=5) for found in pairs],
    )


def _groups(job: TransferJob, workspace: Workspace, values: NDArray[Any]) -> list[str]:
    """Return the topic of the largest share of each document, or the third that its first feature is in."""
    known = np.isfinite(values).all(axis=1)
    names = iter(group_names(job, workspace, values[known]))
    return [next(names) if one else NO_TOPIC for one in known.tolist()]


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
