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
from scipy.sparse import csgraph

from distembed.dtypes import Float64s, Int64s, Mask
from distembed.linalg.blocks import ROUNDED
from distembed.temporaries import block

LEAST_AFFINITY = 1e-6
"""Weight of an edge whose cosine or kernel is smaller: an edge found is never lost."""
MUTUAL_FLOOR = 3
"""Nearest neighbors that a row keeps in a mutual graph although they do not choose it: no row is cut off."""


@block(temporaries=2)
def neighborhoods(lists: Float64s, *, metric: str, neighbor: int) -> Float64s:
    """Return the scale of each row, the distance to its neighbor of a number, and the sum of its squares, (b, 2)."""
    squares = edge_squares(lists, metric)
    scales = np.sqrt(squares[:, min(neighbor, squares.shape[1]) - 1])
    return np.column_stack([scales, squares.sum(axis=1)])


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
        cosines = np.clip(1.0 - lists[:, 0] / 2, -1, 1)
        return np.maximum(((1 + cosines) / 2) ** degree, LEAST_AFFINITY)
    squares = edge_squares(lists, metric)
    widths = np.full_like(squares, width)
    if affinity == "local":
        own = scales[first : first + len(lists)]
        widths = own[:, None] * scales[lists[:, 1].astype(np.int64)]
    # Rows equal to so many others that their scale is zero: an edge of length zero weighs one.
    exponent = np.divide(squares, widths, out=np.where(squares > 0, np.inf, 0.0), where=widths > 0)
    return np.maximum(np.exp(-exponent), LEAST_AFFINITY)


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


@block(temporaries=2)
def join_edges(own: sp.csr_array, back: sp.csr_array, *nearest: sp.csr_array) -> sp.csr_array:
    """Return rows of the graph that has an edge where either row lists the other one; `back` is the transpose.

    With the edges of the `nearest` and their transpose, it has one where rows list each other, or one is of the nearest
    of the other.
    """
    if not nearest:
        return sp.csr_array(own.maximum(back))
    return sp.csr_array(own.minimum(back).maximum(nearest[0].maximum(nearest[1])))


# --- spanning trees ----------------------------------------------------------------------------------------


class TreeRound(NamedTuple):
    """What one round of Borůvka's algorithm found from the neighbor lists."""

    edges: Int64s  # (m, 2): tree edges added, the smaller row first
    squares: Float64s  # (m,): their squared lengths
    groups: Int64s  # (n,): component of each row after the round, numbered by its smallest row
    unsure: Mask  # (n,): rows whose list is used up and may hide their component's shortest edge


def boruvka_round(lists: Float64s, groups: Int64s) -> TreeRound:
    """Add the shortest leaving edge of every component that the neighbor lists prove.

    All edges a list does not hold come after its last one in the order (length, smaller end, larger end): a
    component's edge is proved when it comes before the last entry of each of its used-up lists. The order has
    no ties, so the edges never close a cycle and the tree is unique, duplicate rows or not.
    """
    n, k = len(groups), lists.shape[2]
    rows, place, sizes = np.arange(n), np.full(n, k), (lists[:, 1] >= 0).sum(axis=1)
    for t in reversed(range(k)):
        near = lists[:, 1, t].astype(np.int64)
        place[(near >= 0) & (groups[near] != groups)] = t
    leaves = place < k
    # Of each row the first edge that leaves its component, or else the last that its list knows.
    place = np.where(leaves, place, np.maximum(sizes - 1, 0))
    squares, near = lists[rows, 0, place], lists[rows, 1, place].astype(np.int64)
    smaller, larger = np.minimum(rows, near), np.maximum(rows, near)
    order, rank, best = np.lexsort((larger, smaller, squares)), np.empty(n, np.int64), np.full(n, n)
    rank[order] = rows
    np.minimum.at(best, groups[leaves], rank[leaves])  # of each component, by its smallest row; n for none
    unsure = ~leaves & ((sizes == 0) | (rank < best[groups]))
    proved = best < n
    proved[groups[unsure]] = False
    taken = order[best[proved]]
    _, first = np.unique(
        smaller[taken] * n + larger[taken], return_index=True
    )  # two components may take one edge
    taken = taken[first]
    edges = np.stack([smaller[taken], larger[taken]], axis=1)
    joined = sp.csr_array((np.ones(len(edges)), groups[edges].T), shape=(n, n))
    labels = csgraph.connected_components(joined, directed=False)[1]
    _, smallest = np.unique(labels, return_index=True)
    return TreeRound(edges, squares[taken], smallest[labels[groups]], unsure)
