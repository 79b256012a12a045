"""What the page to explore of an imputation job shows: names by origin, and their neighbors in the table."""

from __future__ import annotations

import numpy as np

from distembed.linalg.chunks import evenly_spaced
from distembed.pipeline.context import read_vectors, stored_sparse
from distembed.pipeline.explorer.items import MAX_POINTS, Items, by_category, listed
from distembed.pipeline.systems.imputation.config import ImputationJob
from distembed.storage.workspace import Workspace

LISTED = 20
"""Neighbors of a name in the table, at most."""

ORIGINS = {"known": "known", "imputed": "imputed", "other": "known, but no name of the table"}


def items(job: ImputationJob, workspace: Workspace, *, n_points: int = MAX_POINTS) -> Items:
    """Return the names of a finished workspace, evenly from first to last, with what each is rebuilt from."""
    vectors = read_vectors(workspace)
    used = np.flatnonzero(vectors.norms > 0)
    rows = used[evenly_spaced(used.size, n_points)]
    table = workspace.table("vocabulary").take(rows).to_pydict()
    colorings = [by_category("origin", [ORIGINS[origin] for origin in table["origin"]])]
    if any(table["label"]):
        colorings.append(by_category("label", [label or "none" for label in table["label"]]))
    weights = stored_sparse(workspace, "weights")
    weights.resize(
        (len(vectors), len(vectors))
    )  # known words that are no name have no neighbors in the table
    near = listed("neighbors in the table, by weight", weights, rows, longest=LISTED)
    others = [
        name or "" if name != word else "" for name, word in zip(table["name"], table["word"], strict=True)
    ]
    return Items(
        job.job.title,
        "name",
        table["word"],
        vectors.vectors[rows],
        colorings,
        {"name in the table": others} if any(others) else {},
        [near],
    )
