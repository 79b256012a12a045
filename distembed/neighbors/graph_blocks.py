"""Mathematics of one row block of a graph, and of spanning trees.

Neighbor lists are those of `blocks`. The edges of a tree are ordered by (length, smaller end, larger end).

Letters
-------
W : affinity of a graph, n × n, symmetric; W_b a block of its rows, which begins with row `first`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit

from distembed.dtypes import Float64s, Int64s, Mask
from distembed.linalg.blocks import ROUNDED
from distembed.temporaries import block

LEAST_AFFINITY = 1e-6
"""Weight of an edge whose cosine or kernel is smaller: an edge found is never lost."""
MUTUAL_FLOOR = 3
"""Nearest neighbors that a row keeps in a mutual graph although they do not choose it: no row is cut off."""


class Neighborhoods(NamedTuple):
    """What the weights of all edges need to know of the neighbor lists of a block of rows."""

    scales: Float64s
    """The distance of each row to its neighbor of some number. Float64 (b,)."""
    squares: float
    """The sum of the squared distances to the neighbors."""


@block(temporaries=2)
def neighborhoods(lists: Float64s, *, metric: str, neighbor: int) -> Neighborhoods:
    """Return the scale of each row of a block, the distance to its neighbor of a number, and the sum of all squares."""
    squares = edge_squares(lists, metric)
    return Neighborhoods(np.sqrt(squares[:, min(neighbor, squares.shape[1]) - 1]), float(squares.sum()))


def edge_squares(lists: Float64s, metric: str) -> Float64s:
    """Return the squared distances of neighbor lists (b, 2, k), (b, k)."""
    return unit_squares(lists[:, 0] / 2) if metric == "cosine" else np.sqrt(lists[:, 0]) ** 2


def unit_squares(distances: Float64s) -> Float64s:
    """Return the squares of distances of unit rows from 1 - cosine, and 0 where rows differ by rounding only."""
    return np.where(distances > ROUNDED, 2.0 * distances, 0.0)


def edge_weights(
    lists: Float64s, first: int, scales: Float64s, *, affinity: str, metric: str, width: float, degree: int
) -> Float64s:
    """Return the weight of each edge of the lists of a block of rows, (b, k).

    Parameters
    ----------
    lists : neighbor lists (b, 2, k)
    first : the number of the first row of the block
    scales : those of all rows
    affinity, metric : see `affinity_rows`
    width : the mean squared distance to the neighbors, for "gaussian"
    degree : of the polynomial, for "polynomial"
    """
    if affinity == "binary":
        return np.ones_like(lists[:, 0])
    if affinity == "cosine":
        return np.maximum(1.0 - np.maximum(lists[:, 0] / 2, 0.0), LEAST_AFFINITY)
    if affinity == "polynomial":
        return polynomial_weights(1.0 - lists[:, 0] / 2, degree)
    squares = edge_squares(lists, metric)
    widths = np.full_like(squares, width)
    if affinity == "local":
        own = scales[first : first + len(lists)]
        widths = own[:, None] * scales[lists[:, 1].astype(np.int64)]
    # Rows equal to so many others that their scale is zero: an edge of length zero weighs one.
    exponent = np.divide(squares, widths, out=np.where(squares > 0, np.inf, 0.0), where=widths > 0)
    return np.maximum(np.exp(-exponent), LEAST_AFFINITY)


def polynomial_weights(cosines: Float64s, degree: int) -> Float64s:
    """Return ((1 + c) / 2)^degree of cosines c from -1 to 1, at least `LEAST_AFFINITY`."""
    return np.maximum(((1 + np.clip(cosines, -1, 1)) / 2) ** degree, LEAST_AFFINITY)


@block(temporaries=2.5)
def listed_edges(
    lists: Float64s,
    first: Int64s,
    *,
    scales: Float64s,
    places: Int64s,
    n_rows: int,
    only: int | None = None,
    **weighing: Any,
) -> sp.csr_array:
    """Return the edges that a block of rows lists, in the graph of all rows.

    Parameters
    ----------
    lists : neighbor lists (b, 2, k) of some rows
    first : the number of the first of them
    scales, weighing : see `edge_weights`
    places : the numbers of the rows with lists among all
    n_rows : the number of all rows; those between the last of this block and the first of the next one have no edge
    only : how many of the nearest are joined; None for all
    """
    start, stop = int(first[0]), int(first[0]) + len(lists)
    begin = places[start] if start else 0
    end = places[stop] if stop < len(places) else n_rows
    weights = edge_weights(lists, start, scales, **weighing)[:, :only]
    sizes = np.zeros(end - begin + 1, np.int64)
    sizes[places[start:stop] - begin + 1] = weights.shape[1]
    columns = places[lists[:, 1, :only].astype(np.int64)]
    edges = sp.csr_array((weights.ravel(), columns.ravel(), np.cumsum(sizes)), shape=(end - begin, n_rows))
    edges.sort_indices()
    return edges


@block(temporaries=1.5)
def union_rows(own: sp.csr_array, back: sp.csr_array) -> sp.csr_array:
    """Return rows of the graph that has an edge where either row lists the other one; `back` is the transpose."""
    return sp.csr_array(own.maximum(back))


@block(temporaries=2)
def mutual_rows(
    own: sp.csr_array, back: sp.csr_array, nearest: sp.csr_array, nearest_back: sp.csr_array
) -> sp.csr_array:
    """Return rows of the graph with an edge where rows list each other, or one is of the nearest of the other."""
    return sp.csr_array(own.minimum(back).maximum(nearest.maximum(nearest_back)))


@njit(cache=True, nogil=True)
def _root(parents: Int64s, vertex: int) -> int:
    while parents[vertex] != vertex:
        parents[vertex] = parents[parents[vertex]]
        vertex = parents[vertex]
    return vertex


# --- spanning trees ----------------------------------------------------------------------------------------


class TreeRound(NamedTuple):
    """What one round of Borůvka's algorithm found from the neighbor lists."""

    edges: Int64s  # (m, 2): tree edges added, as (row, neighbor)
    squares: Float64s  # (m,): their squared lengths
    groups: Int64s  # (n,): component of each row after the round, numbered by its smallest row
    unsure: Mask  # (n,): rows whose list is used up and may hide their component's shortest edge


@njit(cache=True, nogil=True)
def _before(square: float, i: int, j: int, other: float, k: int, m: int) -> bool:
    """Return whether edge (i, j) comes before edge (k, m) in the order (length, smaller end, larger end)."""
    if square != other:
        return square < other
    if min(i, j) != min(k, m):
        return min(i, j) < min(k, m)
    return max(i, j) < max(k, m)


@njit(cache=True, nogil=True)
def _first_outside(lists: Float64s, groups: Int64s, i: int) -> int:
    """Return the place of the first neighbor of row i in another component, k if there is none left."""
    k = lists.shape[2]
    for t in range(k):
        j = np.int64(lists[i, 1, t])
        if j >= 0 and groups[j] != groups[i]:
            return t
    return k


@njit(cache=True, nogil=True)
def _shortest_edges(lists: Float64s, groups: Int64s, from_: Int64s, to: Int64s, squares: Float64s) -> None:
    """Find for each component, numbered by its smallest row, the first leaving edge that the lists know."""
    for i in range(groups.shape[0]):
        t = _first_outside(lists, groups, i)
        if t < lists.shape[2]:
            g = groups[i]
            j = np.int64(lists[i, 1, t])
            if from_[g] < 0 or _before(lists[i, 0, t], i, j, squares[g], from_[g], to[g]):
                from_[g], to[g], squares[g] = i, j, lists[i, 0, t]


@njit(cache=True, nogil=True)
def _unsure_rows(lists: Float64s, groups: Int64s, from_: Int64s, to: Int64s, squares: Float64s) -> Mask:
    """Mark the rows whose unknown edges may come before the edge that their component would take."""
    k = lists.shape[2]
    unsure = np.zeros(groups.shape[0], dtype=np.bool_)
    for i in range(groups.shape[0]):
        if _first_outside(lists, groups, i) == k:
            last = k - 1
            while last >= 0 and lists[i, 1, last] < 0:
                last -= 1
            g = groups[i]
            j = np.int64(lists[i, 1, last])
            unsure[i] = (
                last < 0 or from_[g] < 0 or _before(lists[i, 0, last], i, j, squares[g], from_[g], to[g])
            )
    return unsure


@njit(cache=True, nogil=True)
def boruvka_round(lists: Float64s, groups: Int64s) -> TreeRound:
    """Add the shortest leaving edge of every component that the neighbor lists prove.

    All edges a list does not hold come after its last one in the order (length, smaller end, larger end): a
    component's edge is proved when it comes before the last entry of each of its used-up lists. The order has
    no ties, so the edges never close a cycle and the tree is unique, duplicate rows or not.
    """
    n = groups.shape[0]
    from_, to, squares = np.full(n, -1), np.full(n, -1), np.full(n, np.inf)
    _shortest_edges(lists, groups, from_, to, squares)
    unsure = _unsure_rows(lists, groups, from_, to, squares)
    proved = from_ >= 0
    for i in range(n):
        if unsure[i]:
            proved[groups[i]] = False
    parent = groups.copy()
    edges, lengths, m = np.empty((n, 2), np.int64), np.empty(n), 0
    for g in range(n):
        if proved[g]:
            a, b = _root(parent, from_[g]), _root(parent, to[g])
            if a != b:
                parent[max(a, b)] = min(a, b)
                edges[m, 0], edges[m, 1], lengths[m] = from_[g], to[g], squares[g]
                m += 1
    merged = np.empty(n, np.int64)
    for i in range(n):
        merged[i] = _root(parent, i)
    return TreeRound(edges[:m].copy(), lengths[:m].copy(), merged, unsure)


@njit(cache=True, nogil=True)
def _sort_row(indices: Int64s, lengths: Float64s, start: int, stop: int) -> None:
    """Sort the entries from start to stop by insertion: all but the few that were added are in order already."""
    for t in range(start + 1, stop):
        index, length, place = indices[t], lengths[t], t
        while place > start and indices[place - 1] > index:
            indices[place], lengths[place] = indices[place - 1], lengths[place - 1]
            place -= 1
        indices[place], lengths[place] = index, length


@njit(cache=True, nogil=True)
def fill_to_degree(
    indptr: Int64s, indices: Int64s, lengths: Float64s, near: Int64s, near_lengths: Float64s, min_degree: int
) -> tuple[Int64s, Int64s, Float64s]:
    """Add to each row of a graph its nearest rows not yet linked until it has min_degree; CSR, by rising row number.

    Parameters
    ----------
    indptr, indices, lengths : the graph so far, CSR
    near, near_lengths : shape (n, k): row numbers (-1 for none) and distances, nearest first
    min_degree : int
        The smallest number of edges of a row.
    """
    n = indptr.shape[0] - 1
    new_indptr = np.zeros(n + 1, np.int64)
    room = indptr[n] + n * min_degree
    new_indices, new_lengths = np.empty(room, np.int64), np.empty(room)
    at = 0
    for i in range(n):
        start = at
        for t in range(indptr[i], indptr[i + 1]):
            new_indices[at], new_lengths[at] = indices[t], lengths[t]
            at += 1
        linked = at
        for t in range(near.shape[1]):
            if at - start < min_degree and near[i, t] >= 0 and near[i, t] not in new_indices[start:linked]:
                new_indices[at], new_lengths[at] = near[i, t], near_lengths[i, t]
                at += 1
        _sort_row(new_indices, new_lengths, start, at)
        new_indptr[i + 1] = at
    return new_indptr, new_indices[:at].copy(), new_lengths[:at].copy()
