"""Exact nearest neighbors beside scikit-learn's brute force, on as many threads.

``python -m benchmarks.neighbor_graph --rows 50000`` makes rows of 100 numbers about 1,000 centers (float32).
"""

from __future__ import annotations

import dask
import numpy as np
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from benchmarks.measures import clock, run_main, tell
from distembed.neighbors.search import nearest_neighbors

N_COMPONENTS, N_CLUSTERS, N_NEIGHBORS = 100, 1000, 15


def clustered(n_rows: int, seed: int = 0) -> np.ndarray:
    """Return rows about the centers of clusters, float32."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((N_CLUSTERS, N_COMPONENTS), dtype=np.float32)
    rows = rng.standard_normal((n_rows, N_COMPONENTS), dtype=np.float32)
    rows += centers[rng.integers(0, N_CLUSTERS, n_rows)]
    return rows


def main(*, rows: int = 50_000, workers: int = 2) -> None:
    X = clustered(rows)
    nearest_neighbors(X[:3000], N_NEIGHBORS)  # compiles
    with dask.config.set(scheduler="threads", num_workers=workers):
        found = clock(f"distembed, {rows:,} rows", nearest_neighbors, X, N_NEIGHBORS).indices
    with threadpool_limits(workers):
        theirs = NearestNeighbors(n_neighbors=N_NEIGHBORS, algorithm="brute").fit(X)
        order = clock(f"scikit-learn, {rows:,} rows", theirs.kneighbors, return_distance=False)
    tell(f"rows with the same neighbors in the same order: {(order == found).all(axis=1).mean():.4%}")


if __name__ == "__main__":
    run_main(main)
