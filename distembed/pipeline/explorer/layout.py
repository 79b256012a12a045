"""The places of points on the plane, and their exact nearest neighbors."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from distembed.execution import compute, one_blas_thread
from distembed.neighbors.search import nearest_neighbors
from distembed.pipeline.explorer.items import Items, NeighborList

LISTED = 10
"""Neighbors of a point on the page."""

GRAPH_NEIGHBORS = 15
"""Neighbors that hold a point in its place: t-SNE with equal weights on 15 neighbors draws what perplexity 30 does."""

FEWEST = 12
"""Of fewer points the principal components are drawn."""

EXTRA = 'pip install "distembed[explore]"'
"""What installs the libraries that the page needs."""


def check_extra() -> None:
    """Check that the libraries of the page are installed, before minutes of work.

    Raises
    ------
    ImportError
        If one is not.
    """
    lacking = [name for name in ("openTSNE", "bokeh") if find_spec(name) is None]
    if lacking:
        raise ImportError(f"the page to explore needs {' and '.join(lacking)}: {EXTRA}")


class Layout(NamedTuple):
    """Where the points are, float32 (n, 2), and the nearest of each by cosine."""

    points: NDArray[np.float32]
    nearest: NeighborList


def lay_out(items: Items, *, seed: int = 0) -> Layout:
    """Find the exact neighbors of every point by cosine, and places on the plane that keep neighbors together.

    The places are those of t-SNE on the graph of the 15 nearest neighbors, from the principal components on. Equal
    input gives equal places on one kind of processor.

    Raises
    ------
    ImportError
        As `check_extra`.
    """
    vectors = np.asarray(items.vectors, dtype=np.float32)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    n = len(vectors)
    if n < 2:
        return Layout(np.zeros((n, 2), np.float32), _listing(np.empty((n, 0)), np.empty((n, 0))))
    near = nearest_neighbors(vectors, min(max(LISTED, GRAPH_NEIGHBORS), n - 1), metric="cosine")
    rows, distances = (compute(part) for part in (near.indices, near.distances))
    start = _principal_plane(vectors)
    points = start if n < FEWEST else _embedded(start, rows, distances, seed)
    return Layout(points.astype(np.float32), _listing(rows[:, :LISTED], 1 - distances[:, :LISTED]))


def _listing(rows: Any, cosines: Any) -> NeighborList:
    return NeighborList("nearest by cosine", rows.astype(np.int32), cosines.astype(np.float32))


def _principal_plane(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the first two principal components, 1 in standard deviation along the first."""
    rank = min(2, *vectors.shape)
    points = np.zeros((len(vectors), 2))
    if not np.ptp(vectors, axis=0).any():  # equal vectors have no variance to explain
        return points
    with one_blas_thread():
        points[:, :rank] = PCA(rank, svd_solver="covariance_eigh").fit_transform(vectors.astype(np.float64))
    scale = points[:, 0].std()
    return points / scale if scale > 0 else points


def _embedded(
    start: NDArray[np.float64], rows: NDArray[np.int64], distances: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """Return the places of t-SNE: 250 rounds that pull neighbors together, 500 that spread them."""
    check_extra()
    from openTSNE import TSNEEmbedding, affinity  # noqa: PLC0415 - an optional extra
    from openTSNE.nearest_neighbors import PrecomputedNeighbors  # noqa: PLC0415 - an optional extra

    k = min(GRAPH_NEIGHBORS, rows.shape[1])
    graph = PrecomputedNeighbors(rows[:, :k].astype(np.int32), distances[:, :k])
    method = "fft" if len(rows) > 2000 else "bh"  # interpolation pays from some thousand points on
    with one_blas_thread():
        embedding = TSNEEmbedding(
            1e-4 * start,
            affinity.Uniform(knn_index=graph, k_neighbors=k),
            negative_gradient_method=method,
            random_state=seed,
            n_jobs=1,
        )
        embedding.optimize(250, exaggeration=12, momentum=0.5, inplace=True)
        embedding.optimize(500, momentum=0.8, inplace=True)
    return np.asarray(embedding)
