"""Mathematics of one row block of a graph: its rows beside others, its Laplacian, the parts that its edges join.

Letters
-------
W : affinity of a graph, n × n, symmetric; W_b a block of its rows, which begins with row `first`.
d : its row sums, (n,). A *part* is a connected component, named by its smallest vertex.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from distembed.linalg.csr import rows_of

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]


def beside(*blocks: sp.csr_array, scales: tuple[float, ...]) -> sp.csr_array:
    """Return blocks of the same rows side by side, each times a number, without zeros and with sorted columns."""
    scaled = [scale * sp.csr_array(block) for block, scale in zip(blocks, scales, strict=True)]
    joint = sp.csr_array(sp.hstack(scaled, format="csr"))
    joint.eliminate_zeros()
    joint.sort_indices()
    return joint


def row_sums(block: sp.csr_array) -> Float64s:
    """Return the sum of each row, float64 (rows,)."""
    return np.asarray(block.sum(axis=1), np.float64).ravel()


def row_sizes(block: sp.csr_array) -> Int64s:
    """Return the number of stored values of each row, int64 (rows,)."""
    return np.diff(block.indptr).astype(np.int64)


def laplacian_block(block: sp.csr_array, degrees: Float64s, first: int, normalization: str) -> sp.csr_array:
    """Return the rows of `neighbors.graphs.laplacian` that belong to a block."""
    n_rows, rows = block.shape[0], np.arange(block.shape[0])
    own = degrees[first : first + n_rows]
    if normalization == "none":
        mean = degrees.mean() or 1.0
        return sp.csr_array((_diagonal(own, rows, first, block.shape) - block) / mean)
    scale = np.divide(1.0, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    values = scale[first + rows_of(block)] * block.data * scale[block.indices]
    scaled = sp.csr_array((values, block.indices, block.indptr), shape=block.shape)
    return sp.csr_array(_diagonal((own > 0).astype(float), rows, first, block.shape) - scaled)


def _diagonal(values: Float64s, rows: Int64s, first: int, shape: tuple[int, ...]) -> sp.csr_array:
    return sp.csr_array((values, (rows, first + rows)), shape=shape)


def flipped_block(block: sp.csr_array, bound: float, first: int) -> sp.csr_array:
    """Return the rows of b I - L that belong to a block of rows of L."""
    rows = np.arange(block.shape[0])
    return sp.csr_array(_diagonal(np.full(len(rows), bound), rows, first, block.shape) - block)


@njit(cache=True, nogil=True)
def join_parts(parents: Int64s, indptr: Int64s, indices: Int64s, first: int) -> None:
    """Join the parts that the edges of a block of rows connect, in place: a root is the smallest vertex of its part."""
    for row in range(indptr.shape[0] - 1):
        for at in range(indptr[row], indptr[row + 1]):
            a, b = _root(parents, first + row), _root(parents, indices[at])
            if a < b:
                parents[b] = a
            elif b < a:
                parents[a] = b


@njit(cache=True, nogil=True)
def _root(parents: Int64s, vertex: int) -> int:
    while parents[vertex] != vertex:
        parents[vertex] = parents[parents[vertex]]
        vertex = parents[vertex]
    return vertex


@njit(cache=True, nogil=True)
def numbered_parts(parents: Int64s) -> NDArray[np.int32]:
    """Return the number of the part of each vertex, from 0 in the order of their smallest vertices."""
    numbers = np.empty(parents.shape[0], np.int32)
    n_parts = 0
    for vertex in range(parents.shape[0]):
        root = _root(parents, vertex)
        if root == vertex:
            numbers[vertex] = n_parts
            n_parts += 1
        else:
            numbers[vertex] = numbers[root]
    return numbers
