"""What the smoothest vectors of a graph take in memory and on disk."""

from __future__ import annotations

from distembed.costs import Cost
from distembed.manifold.eigenmaps import is_small
from distembed.neighbors.costs import EDGE_BYTES

START_COPIES, START_COLUMNS = 9, 20
"""Blocks of vectors that the search for eigenvectors holds, and columns of each beyond those wanted: a fifth of these,
or so many. Measured on 20,000 to 200,000 rows (tests/benchmarks/TRANSFER.md)."""
START_ROUNDS = 6
"""Rounds of that search, about, each of which writes its basis where a checkpoint does."""
SMALL_COPIES = 6
"""Matrices of the size of a small graph's that its eigenvectors need: itself, its copies, LAPACK's, the result."""


def eigenmaps_cost(n_rows: int, n_edges: int, k: int, *, n_rounds: int = START_ROUNDS) -> Cost:
    """Return what the k smoothest vectors of a graph take, which are found in one process or by passes over it.

    Parameters
    ----------
    n_rows, n_edges : of the graph
    k : vectors wanted
    n_rounds : rounds of the search in a graph that is not small
    """
    vectors, edges = 8 * (n_rows + 1) * k, EDGE_BYTES * n_edges
    if is_small(n_rows, k):
        square = 8 * n_rows**2
        return Cost(1, edges, vectors, 0, SMALL_COPIES * square + 3 * (vectors + edges))
    basis = 8 * n_rows * (k + max(START_COLUMNS, k // 5))
    return Cost(n_rounds, n_rounds * edges, vectors + n_rounds * basis, 0, START_COPIES * basis + 3 * edges)


def kept_eigenmaps_cost(n_rows: int, n_edges: int, k: int) -> Cost:
    """Return what `laplacian_eigenmaps` takes where a checkpoint has the vectors: it measures how exact they are."""
    vectors = 8 * (n_rows + 1) * k
    return Cost(1, vectors, 0, 0, 3 * (vectors + EDGE_BYTES * n_edges))
