"""Mathematics of minimum spanning trees from neighbor lists, and of the graphs built on them.

Neighbor lists are those of `blocks`. Edges are ordered by (length, smaller end, larger end).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from distembed.neighbors.blocks import Float64s, Int64s


class TreeRound(NamedTuple):
    """What one round of Borůvka's algorithm found from the neighbor lists."""

    edges: Int64s  # (m, 2): tree edges added, as (row, neighbor)
    squares: Float64s  # (m,): their squared lengths
    groups: Int64s  # (n,): component of each row after the round, numbered by its smallest row
    unsure: NDArray[np.bool_]  # (n,): rows whose list is used up and may hide their component's shortest edge


@njit(cache=True, nogil=True)
def _find(parent: Int64s, i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


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
def _unsure_rows(
    lists: Float64s, groups: Int64s, from_: Int64s, to: Int64s, squares: Float64s
) -> NDArray[np.bool_]:
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
            a, b = _find(parent, from_[g]), _find(parent, to[g])
            if a != b:
                parent[max(a, b)] = min(a, b)
                edges[m, 0], edges[m, 1], lengths[m] = from_[g], to[g], squares[g]
                m += 1
    merged = np.empty(n, np.int64)
    for i in range(n):
        merged[i] = _find(parent, i)
    return TreeRound(edges[:m].copy(), lengths[:m].copy(), merged, unsure)


class GrownGraph(NamedTuple):
    """A graph as CSR arrays: the neighbors of row i and their distances, by rising row number."""

    indptr: Int64s
    indices: Int64s
    lengths: Float64s


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
) -> GrownGraph:
    """Add to each row of a graph its nearest rows not yet linked until it has min_degree.

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
    return GrownGraph(new_indptr, new_indices[:at].copy(), new_lengths[:at].copy())
