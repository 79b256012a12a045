"""A small job of neighbors: rows in a few clusters, of which two are equal."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import distembed as de

N, D, K = 500, 12, 7
JOB = """
[job]
system = "neighbors"
workspace = "w"
[input]
path = "vectors.parquet"
[neighbors]
n_neighbors = 7
spanning_tree = true
[resources]
workers = 2
block_memory = "64KiB"
"""


def matrix() -> np.ndarray:
    """Return rows in a few clusters, of which two are equal."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)) + 3 * rng.standard_normal((5, D))[rng.integers(0, 5, N)]
    X[30] = X[20]
    return X.astype(np.float32)


X = matrix()
NAMES = [f"word_{i}" for i in range(N)]


def write(folder: Path) -> None:
    de.WordVectors(NAMES, X).save(folder / "vectors.parquet")
    np.save(folder / "rows.npy", X)
    (folder / "job.toml").write_text(JOB)
