"""Minimum spanning tree of rows too many for a distance matrix, and the MST-kNN graph built on it."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Float64s, Int64s
from distembed.execution import compute
from distembed.neighbors.distances import Metric, domain_rows
from distembed.neighbors.graph_blocks import boruvka_round
from distembed.neighbors.search import kept_lists, search_lists
from distembed.states import keep, scope
from distembed.typing import MatrixLike


class SpanningTree(NamedTuple):
    """A spanning tree of n rows: its edges, by the smaller row number first, and their lengths."""

    edges: Int64s
    """int64, shape (n - 1, 2): the row numbers of both ends, the smaller first."""
    lengths: Float64s
    """float64, shape (n - 1,): distances."""


TREE_NEIGHBORS = 15
"""Neighbors of each row that a spanning tree is begun from; it searches on where they are not enough."""


def spanning_tree(X: MatrixLike, *, metric: Metric = "euclidean") -> SpanningTree:
    """Find the minimum spanning tree of the rows, exactly, without the matrix of their distances.

    Each component takes its shortest edge that leaves it (Borůvka), which the lists of nearest neighbors prove, or a
    search among the rows outside. Equivalent: `scipy.sparse.csgraph.minimum_spanning_tree` of all distances, which
    loses edges of length zero.

    Parameters
    ----------
    X : array, sparse matrix or Dask array, shape (n, d)
        The rows, two or more; sparse ones are measured by the cosine.
    metric : "euclidean" or "cosine"
        What is measured: ``‖x_i - x_j‖`` or ``1 - cos(x_i, x_j)``.

    Returns
    -------
    SpanningTree
        `edges`, int64 (n - 1, 2), sorted, the smaller row number of an edge first; and `lengths`, float64 (n - 1,).
        NumPy arrays, also of a Dask array.

    Raises
    ------
    ValueError
        If X has one row, or is what `pairwise_distances` refuses.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [3.0, 1.5]])
    >>> edges, lengths = de.spanning_tree(X)
    >>> print(edges)
    [[0 1]
     [1 2]
     [2 3]]
    >>> print(lengths)
    [1.  2.  1.5]
    """
    rows = domain_rows(X, metric=metric)
    tree = spanning_tree_of(rows, kept_lists(rows, min(TREE_NEIGHBORS, rows.shape[0] - 1), metric=metric))
    return tree._replace(lengths=tree.lengths**2 / 2) if metric == "cosine" else tree


def spanning_tree_of(rows: da.Array, near: da.Array) -> SpanningTree:
    """Return the minimum spanning tree of rows from their neighbor lists, with Euclidean lengths.

    Borůvka's algorithm: every component takes its shortest leaving edge, proved from the neighbor lists
    where they reach outside it. When none can be proved further, the rows in doubt, except those of the
    largest component, look for their nearest rows outside; what they find is kept. With exact lists the tree is exact:
    its weight is that of scipy.sparse.csgraph.minimum_spanning_tree, which however loses edges of length zero. (Cosine
    distances have the same tree as Euclidean distances of unit rows: one rises with the other.)

    Parameters
    ----------
    rows : array (n, d)
        The rows, as `domain_rows` returns them for the lists' metric.
    near : Dask array (n, 2, k)
        The lists of nearest neighbors of the rows, any number of them.

    Raises
    ------
    ValueError
        If the lists are not of as many rows.
    """
    if near.shape[0] != rows.shape[0]:
        raise ValueError(f"X has {rows.shape[0]} rows, but there are neighbors of {near.shape[0]}")
    lists = np.array(compute(near), order="C")
    groups = np.arange(rows.shape[0])
    edges, squares = [np.empty((0, 2), np.int64)], [np.empty(0)]
    with scope("spanning-tree", rows, near):
        while groups.any():  # components are numbered by their smallest row: a single one is all zeros
            found = boruvka_round(lists, groups)
            edges.append(found.edges)
            squares.append(found.squares)
            if not found.squares.size:
                largest = np.argmax(np.bincount(groups))
                wanted = np.nonzero(found.unsure & (groups != largest))[0]
                # Lists of rows outside their own component only: those of no other search are like them.
                subset = rows[wanted].rechunk((rows.chunks[0][0], -1))
                search = partial(search_lists, subset, rows, (groups[wanted], groups), k=lists.shape[2])
                lists[wanted] = compute(keep(f"search-{len(edges)}", search))
            groups = found.groups
    ends = np.concatenate(edges)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    return SpanningTree(ends[order], np.sqrt(np.concatenate(squares)[order]))


def spanning_neighbor_graph(tree: SpanningTree, lists: da.Array, *, min_degree: int) -> sp.csr_array:
    """Return the MST-kNN graph: the tree, and each row's nearest neighbors up to `min_degree`.

    Row i of the matrix holds the rows that i is rebuilt from: its neighbors in the tree, then the nearest
    rows not yet among them, until there are min_degree (Yao, Yu & Xiao 2019, algorithm 1).

    Parameters
    ----------
    tree : SpanningTree
        The tree.
    lists : Dask array (n, 2, k)
        The nearest neighbors of each row, at least min_degree.
    min_degree : int
        The smallest number of neighbors of a row.

    Returns
    -------
    csr_array, shape (n, n), float64 distances; edges of length zero are stored.
    """
    n, _, k = lists.shape
    if k < min_degree:
        raise ValueError(f"lists of {k} neighbors cannot give {min_degree} to each row")
    near = compute(lists[:, :, :min_degree])
    rows, columns = np.repeat(np.arange(n), min_degree), near[:, 1].astype(np.int64).ravel()
    ends = np.concatenate([tree.edges, tree.edges[:, ::-1]])
    is_linked = np.isin(rows * n + columns, ends[:, 0] * n + ends[:, 1])
    is_new = ((columns >= 0) & ~is_linked).reshape(n, min_degree)
    room = min_degree - np.bincount(ends[:, 0], minlength=n)
    taken = (is_new & (is_new.cumsum(axis=1) <= room[:, None])).ravel()
    graph = sp.csr_array(
        (
            np.concatenate([tree.lengths, tree.lengths, np.sqrt(near[:, 0].ravel()[taken])]),
            (np.append(ends[:, 0], rows[taken]), np.append(ends[:, 1], columns[taken])),
        ),
        shape=(n, n),
    )
    graph.sort_indices()
    return graph
