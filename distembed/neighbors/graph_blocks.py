"""Mathematics of one row block of a graph: its affinity, its rows beside others, its Laplacian, its parts.

Letters
-------
W : affinity of a graph, n × n, symmetric; W_b a block of its rows, which begins with row `first`.
d : its row sums, (n,). A *part* is a connected component, named by its smallest vertex.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from distembed.linalg.blocks import ROUNDED
from distembed.linalg.csr import rows_of

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]


LEAST_AFFINITY = 1e-6
"""Weight of an edge whose cosine or kernel is smaller: an edge found is never lost."""
MUTUAL_FLOOR = 3
"""Nearest neighbors that a row keeps in a mutual graph although they do not choose it: no row is cut off."""


class Weighing(NamedTuple):
    """How the edges of neighbor lists are weighed."""

    affinity: str
    metric: str
    scales: Float64s
    """The scale of each row, for "local". Float64 (n,)."""
    width: float
    """The mean squared distance to the neighbors, for "gaussian"."""
    degree: int = 1
    """Of the polynomial, for "polynomial"."""


def edge_squares(lists: Float64s, metric: str) -> Float64s:
    """Return the squared distances of neighbor lists (b, 2, k), (b, k)."""
    return unit_squares(lists[:, 0] / 2) if metric == "cosine" else np.sqrt(lists[:, 0]) ** 2


def unit_squares(distances: Float64s) -> Float64s:
    """Return the squares of distances of unit rows from 1 - cosine, and 0 where rows differ by rounding only."""
    return np.where(distances > ROUNDED, 2.0 * distances, 0.0)


def edge_weights(lists: Float64s, first: int, how: Weighing) -> Float64s:
    """Return the weight of each edge of the lists of a block of rows, (b, k)."""
    if how.affinity == "binary":
        return np.ones_like(lists[:, 0])
    if how.affinity == "cosine":
        return np.maximum(1.0 - np.maximum(lists[:, 0] / 2, 0.0), LEAST_AFFINITY)
    if how.affinity == "polynomial":
        return polynomial_weights(1.0 - lists[:, 0] / 2, how.degree)
    squares = edge_squares(lists, how.metric)
    widths = np.full_like(squares, how.width)
    if how.affinity == "local":
        own = how.scales[first : first + len(lists)]
        widths = own[:, None] * how.scales[lists[:, 1].astype(np.int64)]
    # Rows equal to so many others that their scale is zero: an edge of length zero weighs one.
    exponent = np.divide(squares, widths, out=np.where(squares > 0, np.inf, 0.0), where=widths > 0)
    return np.maximum(np.exp(-exponent), LEAST_AFFINITY)


def polynomial_weights(cosines: Float64s, degree: int) -> Float64s:
    """Return ((1 + c) / 2)^degree of cosines c from -1 to 1, at least `LEAST_AFFINITY`."""
    return np.maximum(((1 + np.clip(cosines, -1, 1)) / 2) ** degree, LEAST_AFFINITY)


class Edges(NamedTuple):
    """The edges of a block of rows, (b × n), and those of them to the nearest `MUTUAL_FLOOR`."""

    every: sp.csr_array
    nearest: sp.csr_array


def listed_edges(lists: Float64s, first: int, how: Weighing, n_rows: int) -> Edges:
    """Return the edges that a block of rows lists."""
    weights, indices = edge_weights(lists, first, how), lists[:, 1].astype(np.int64)
    near = slice(0, MUTUAL_FLOOR)
    return Edges(
        _direct_edges(weights, indices, n_rows), _direct_edges(weights[:, near], indices[:, near], n_rows)
    )


def _direct_edges(weights: Float64s, indices: Int64s, n_rows: int) -> sp.csr_array:
    size, k = weights.shape
    edges = sp.csr_array(
        (weights.flatten(), indices.flatten(), np.arange(0, size * k + 1, k)), shape=(size, n_rows)
    )
    edges.sort_indices()
    return edges


def symmetric_rows(
    own: Edges, others: Iterable[Edges], rows: tuple[int, int], *, mutual: bool
) -> sp.csr_array:
    """Return a block of rows of the symmetric graph.

    Parameters
    ----------
    own : the edges that the block lists
    others : the edges that each block of the graph lists, in order, this one included
    rows : the first row of the block, and the one after its last
    mutual : whether an edge needs both rows to list it, unless it is of the nearest of either
    """
    back = [Edges(*(edges[:, slice(*rows)] for edges in block)) for block in others]
    every, nearest = (sp.csr_array(sp.vstack(blocks, format="csr").T) for blocks in zip(*back, strict=True))
    if not mutual:
        return sp.csr_array(own.every.maximum(every))
    return sp.csr_array(own.every.minimum(every).maximum(own.nearest.maximum(nearest)))


def spread_rows(
    block: sp.csr_array, places: Int64s, first: int, rows: tuple[int, int], n_rows: int
) -> sp.csr_array:
    """Return rows of a graph of some vertices as rows of the graph of all, those between them without an edge.

    Parameters
    ----------
    block : CSR (b × number of those vertices)
    places : the numbers of those vertices among all
    first : the first row of the block
    rows : the first row of the result among all, and the one after its last
    n_rows : the number of all vertices
    """
    coo = block.tocoo()
    at = places[first + coo.row] - rows[0], places[coo.col]
    return sp.csr_array((coo.data, at), shape=(rows[1] - rows[0], n_rows))


def beside(*blocks: sp.csr_array, scales: tuple[float, ...]) -> sp.csr_array:
    """Return blocks of the same rows side by side, each times a number, without zeros and with sorted columns."""
    scaled = [scale * sp.csr_array(block) for block, scale in zip(blocks, scales, strict=True)]
    joint = sp.csr_array(sp.hstack(scaled, format="csr"))
    joint.eliminate_zeros()
    joint.sort_indices()
    return joint


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


def flip_block(block: sp.csr_array, bound: float, first: int) -> sp.csr_array:
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
