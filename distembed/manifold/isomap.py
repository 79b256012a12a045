"""Isomap from landmarks: rows placed so that their distances are those of the paths along a graph of near rows.

V. de Silva and J. B. Tenenbaum, Global versus local methods in nonlinear dimensionality reduction, NIPS 2002.
The paths from L landmarks to all n rows are sought, 8 L n bytes, and not those between all pairs.
"""

from __future__ import annotations

import dask.array as da
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csgraph

from distembed.costs import Cost
from distembed.execution import Checkpoint, compute, map_blocks, one_blas_thread, persist, shared
from distembed.linalg.eigen import fix_signs
from distembed.neighbors.costs import EDGE_BYTES, GRAPH_COPIES
from distembed.neighbors.graph_blocks import unit_squares
from distembed.neighbors.graphs import components

Float64s = NDArray[np.float64]

LANDMARKS_PER_TASK = 32
"""Landmarks whose paths one task seeks."""
VERTEX_BYTES = 96
"""Bytes of a vertex in the heap of a search for paths."""
DENSE_COPIES = 5
"""Copies of the distances between landmarks while their eigenvectors are found."""
PLACED_COPIES = 3
"""Copies of the coordinates: the sum, what a block of landmarks adds to it, and the result."""
LEAST_SHARE = 1e-9
"""Eigenvalues below this share of the largest count as zero."""


def isomap(
    graph: sp.csr_array,
    k: int,
    *,
    n_landmarks: int = 1000,
    random_state: int = 0,
    checkpoint: Checkpoint = persist,
) -> Float64s:
    """Return the first k dimensions (n × k) of the rows of a graph of cosines, by classical scaling of path lengths.

    An edge between rows of cosine c is √(2 - 2 c) long, as rows of unit length are apart. With all rows as landmarks
    this is Isomap; sklearn.manifold.Isomap is the equivalent. Rows outside the largest connected part of the graph
    are zero, because no path leads to them.

    Parameters
    ----------
    graph : CSR (n × n), symmetric, cosines of near rows
    k : int
        The number of dimensions.
    n_landmarks : int
        Rows, drawn at random from the largest part, whose paths are sought.
    random_state : int
        The seed of the draw.
    checkpoint : Checkpoint
        Keeps the squared lengths "paths", landmarks × rows of the largest part.

    Raises
    ------
    ValueError
        If the landmarks are apart in fewer than k dimensions.

    References
    ----------
    Tenenbaum, de Silva & Langford 2000, A global geometric framework for nonlinear dimensionality reduction.
    """
    labels = components(graph)
    used = np.flatnonzero(labels == np.bincount(labels).argmax())
    lengths = graph[used][:, used]
    lengths.data = np.sqrt(unit_squares(1 - lengths.data))
    drawn = np.random.default_rng(random_state).permutation(used.size)[:n_landmarks]
    landmarks = np.sort(drawn)
    squares = checkpoint("paths", lambda: _path_squares(lengths, landmarks))
    between = compute(squares[:, landmarks])
    with one_blas_thread():
        scaling = _scaling(between, k)
        placed = np.tile(between.mean(axis=0) @ scaling, (used.size, 1))
        for first in range(0, landmarks.size, LANDMARKS_PER_TASK):
            some = slice(first, first + LANDMARKS_PER_TASK)
            placed -= compute(squares[some]).T @ scaling[some]
    spread = np.zeros((graph.shape[0], k))
    spread[used] = placed / 2
    return spread


def _path_squares(lengths: sp.csr_array, landmarks: NDArray[np.int64]) -> da.Array:
    """Return the squared lengths of the shortest paths from landmarks to all vertices, some landmarks a task."""
    blocks = da.from_array(landmarks[:, None], chunks=(LANDMARKS_PER_TASK, 1))
    return map_blocks(
        _paths_block,
        blocks,
        lengths=shared(lengths),
        chunks=(blocks.chunks[0], (lengths.shape[0],)),
        dtype=np.float64,
        meta=np.empty((0, 0)),
    )


def _paths_block(landmarks: NDArray[np.int64], *, lengths: sp.csr_array) -> Float64s:
    # the graph is symmetric: as a directed one it needs no transposed copy
    found: Float64s = csgraph.dijkstra(lengths, directed=True, indices=landmarks[:, 0])
    return np.square(found, out=found)


def _scaling(squares: Float64s, k: int) -> Float64s:
    """Return what takes squared distances from the landmarks to k coordinates, (L × k): eigenvectors over √λ.

    Raises
    ------
    ValueError
        If fewer than k eigenvalues are positive.
    """
    centered = squares - squares.mean(axis=0)
    centered = -(centered - centered.mean(axis=1, keepdims=True)) / 2
    values, vectors = np.linalg.eigh((centered + centered.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    n_positive = int((values > LEAST_SHARE * values[0]).sum())
    if k > n_positive:
        raise ValueError(
            f"n_components is {k}, but the paths between {len(squares)} landmarks have {n_positive} dimensions: "
            "choose fewer components, or more landmarks"
        )
    return np.asarray(fix_signs(vectors[:, :k]) / np.sqrt(values[:k]), np.float64)


def isomap_cost(n_rows: int, n_edges: int, k: int, n_landmarks: int) -> Cost:
    """Return what the k dimensions of a graph take: paths from landmarks, which a checkpoint keeps, and scaling."""
    n_landmarks = min(n_landmarks, n_rows)
    kept, n_together = 8 * n_landmarks * n_rows, min(LANDMARKS_PER_TASK, n_landmarks)
    searching = (8 * n_together + VERTEX_BYTES) * n_rows
    scaling = DENSE_COPIES * 8 * n_landmarks**2
    placing = PLACED_COPIES * 8 * n_rows * k
    n_tasks = -(-n_landmarks // LANDMARKS_PER_TASK)
    held = GRAPH_COPIES * EDGE_BYTES * n_edges + scaling + placing
    return Cost(n_tasks, EDGE_BYTES * n_edges + 2 * kept, kept, searching, held)
