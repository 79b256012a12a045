"""The exact neighbor graph of a large matrix, killed and finished: time, memory, digest, and scikit-learn beside it.

``python -m tests.benchmarks.neighbor_graph FOLDER --rows 250000 --kill-after 60`` makes a matrix of 1,000 clusters
(float32, an npy file), runs its job in a process of its own, kills it with SIGKILL once it has run so long, runs it
again to its end, and compares a sample of the rows with brute force in float64. With ``--whole`` the job also runs
without a kill in a second workspace, and the digests of both must be equal. ``--compare N`` times N rows here and by
scikit-learn, on as many threads.
"""

from __future__ import annotations

from pathlib import Path

import dask
import numpy as np
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

import distembed as de
from distembed.neighbors.search import nearest_neighbors
from tests.benchmarks.measures import clock, run_main, run_twice, tell

N_COMPONENTS, N_CLUSTERS, N_NEIGHBORS = 100, 1000, 15
N_CHECKED = 50
JOB = """
[job]
system = "neighbors"
title = "{n_rows:,} rows x {n_components}"
workspace = "{{workspace}}"
[input]
path = "rows.npy"
[neighbors]
n_neighbors = {n_neighbors}
[resources]
workers = {workers}
memory_limit = "4GiB"
"""


def clustered(n_rows: int, seed: int = 0) -> np.ndarray:
    """Return rows about the centers of clusters, float32."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((N_CLUSTERS, N_COMPONENTS), dtype=np.float32)
    rows = rng.standard_normal((n_rows, N_COMPONENTS), dtype=np.float32)
    rows += centers[rng.integers(0, N_CLUSTERS, n_rows)]
    return rows


def check(rows: np.ndarray, workspace: Path) -> None:
    """Compare a sample of rows with brute force in float64, ties by row number."""
    graph = de.read_neighbors(workspace)
    for row in np.random.default_rng(1).choice(len(rows), N_CHECKED, replace=False):
        squares = _squares(rows, row)
        squares[row] = np.inf
        order = np.argsort(squares, kind="stable")[:N_NEIGHBORS]
        assert (graph.indices[row] == order).all(), row
        np.testing.assert_allclose(graph.values[row], np.sqrt(squares[order]), rtol=1e-12)
    tell(f"{N_CHECKED} rows equal brute force in float64")


def _squares(rows: np.ndarray, row: int) -> np.ndarray:
    parts = np.array_split(rows, 1 + len(rows) // 50_000)
    return np.concatenate([((part.astype(np.float64) - rows[row]) ** 2).sum(axis=1) for part in parts])


def compare_with_scikit_learn(n_rows: int, workers: int) -> None:
    """Time a search here and by scikit-learn, and compare their neighbors."""
    rows = clustered(n_rows)
    nearest_neighbors(rows[:3000], N_NEIGHBORS).lists.compute()  # compiles
    ours = nearest_neighbors(rows, N_NEIGHBORS).indices
    with dask.config.set(scheduler="threads", num_workers=workers):
        found = clock(f"distembed, {n_rows:,} rows", ours.compute)
    with threadpool_limits(workers):
        theirs = NearestNeighbors(n_neighbors=N_NEIGHBORS, algorithm="brute").fit(rows)
        order = clock(f"scikit-learn, {n_rows:,} rows", theirs.kneighbors, return_distance=False)
    tell(f"rows with the same neighbors in the same order: {(order == found).all(axis=1).mean():.4%}")


def main(
    folder: Path, *, rows: int = 250_000, workers: int = 2, kill_after: float | None = None, whole: bool = False,
    compare: int = 0,
) -> None:  # fmt: skip
    if compare:
        compare_with_scikit_learn(compare, workers)
        return
    folder.mkdir(parents=True, exist_ok=True)
    matrix = clustered(rows)
    np.save(folder / "rows.npy", matrix)
    values = {"n_rows": rows, "n_components": N_COMPONENTS, "n_neighbors": N_NEIGHBORS, "workers": workers}
    run_twice(folder, JOB.format(**values), kill_after=kill_after, whole=whole)
    check(matrix, folder / "killed")


if __name__ == "__main__":
    run_main(main)
