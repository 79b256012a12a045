"""Distances, nearest neighbors and spanning trees of arrays: in memory for rows in memory, lazy for a Dask array."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, overload

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Float64s, Int64s
from distembed.execution import compute
from distembed.lift import lift
from distembed.neighbors.blocks import distance_tile
from distembed.neighbors.cosine_blocks import all_distances
from distembed.neighbors.distances import Metric, domain_rows
from distembed.neighbors.search import nearest_rows, neighbors_of
from distembed.neighbors.spanning_tree import SpanningTree, spanning_tree_of
from distembed.typing import InMemory, MatrixLike


@overload
def pairwise_distances(X: da.Array, Y: MatrixLike | None = ..., *, metric: Metric = ...) -> da.Array: ...


@overload
def pairwise_distances(X: InMemory, Y: InMemory | None = ..., *, metric: Metric = ...) -> Float64s: ...


def pairwise_distances(
    X: MatrixLike, Y: MatrixLike | None = None, *, metric: Metric = "euclidean"
) -> da.Array | Float64s:
    """Return the distances between all rows of X and all rows of Y.

    ``d_ij = ‖x_i - y_j‖``, or ``1 - cos(x_i, y_j)``. Dense rows that nearly coincide are measured from their
    differences, so that a distance has eleven right digits where `sklearn.metrics.pairwise_distances` has none. A job
    keeps the distances of its rows with ``[matrices] keep = ["distances"]``, which `read_distances` opens.

    Parameters
    ----------
    X, Y : array, sparse matrix or Dask array, shapes (n, d) and (m, d)
        The rows; by default Y is X. Sparse rows, of both, are measured by the cosine.
    metric : "euclidean" or "cosine"
        What is measured.

    Returns
    -------
    array of shape (n, m), float64
        A Dask array if X or Y is one, which has read nothing yet, but for counting the values of sparse rows; otherwise
        a NumPy array.

    Raises
    ------
    ValueError
        If X or Y is not two-dimensional or not numeric, holds NaN or infinity, has a row of zeros under "cosine" or is
        sparse under "euclidean", or if their rows have different lengths. The values of a Dask array are checked when
        they are read.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0]])
    >>> print(de.pairwise_distances(X))
    [[0. 5. 3.]
     [5. 0. 4.]
     [3. 4. 0.]]
    >>> print(de.pairwise_distances(X[1:], np.array([[1.0, 0.0]]), metric="cosine").round(2))
    [[0.4]
     [0. ]]
    """
    rows, columns = _both_sides(X, Y, metric)
    is_sparse = sp.issparse(rows._meta)
    tile = all_distances if is_sparse else partial(distance_tile, cosine=metric == "cosine")
    found = lift(tile, "id,jd->ij", rows, rows if columns is None else columns, dtype=np.float64)
    return found if isinstance(X, da.Array) or isinstance(Y, da.Array) else compute(found)


def _both_sides(X: MatrixLike, Y: MatrixLike | None, metric: Metric) -> tuple[da.Array, da.Array | None]:
    """Return the rows of X and of Y, checked; None where no Y is given.

    Raises
    ------
    ValueError
        If their rows have different lengths, or one is sparse and the other is not.
    """
    rows = domain_rows(X, metric=metric)
    if Y is None:
        return rows, None
    columns = domain_rows(Y, metric=metric, name="Y")
    if rows.shape[1] != columns.shape[1]:
        raise ValueError(
            f"the rows of X have {rows.shape[1]} values and those of Y {columns.shape[1]}: they must agree"
        )
    if sp.issparse(rows._meta) != sp.issparse(columns._meta):
        raise ValueError("one of X and Y is sparse and the other is not: give both in the same kind")
    return rows, columns


class NearestRows(NamedTuple):
    """The nearest rows of each row: their distances, rising, and their row numbers, both (n, k)."""

    distances: Float64s | da.Array
    """float64."""
    indices: Int64s | da.Array
    """int64; of equal distances the smaller number comes first."""


def nearest_neighbors(
    X: MatrixLike, n_neighbors: int, *, Y: MatrixLike | None = None, metric: Metric = "euclidean"
) -> NearestRows:
    """Find the nearest other rows of every row, or the nearest rows of Y, exactly.

    The bits of the result do not depend on how the rows are cut into blocks, nor on the number of workers.

    Parameters
    ----------
    X : array, sparse matrix or Dask array, shape (n, d)
        The rows; sparse ones are measured by the cosine.
    n_neighbors : int
        How many neighbors of each row are found, from 1 to n - 1, or to the number of rows of Y.
    Y : array, sparse matrix or Dask array, shape (m, d), optional
        The rows among which the neighbors are; by default the other rows of X.
    metric : "euclidean" or "cosine"
        What is measured: ``‖x_i - x_j‖`` or ``1 - cos(x_i, x_j)``.

    Returns
    -------
    NearestRows
        `distances` and `indices`, shape (n, n_neighbors), in the order of `sklearn.neighbors`' ``kneighbors``: Dask
        arrays if X or Y is one, which has not been read yet, but for counting the values of sparse rows; otherwise
        NumPy arrays. Compute both together, as ``dask.compute(*found)``.

    Raises
    ------
    ValueError
        If `n_neighbors` is out of range, or X or Y is what `pairwise_distances` refuses.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [3.0, 1.5]])
    >>> distances, indices = de.nearest_neighbors(X, 2)
    >>> print(indices)
    [[1 2]
     [0 2]
     [3 1]
     [2 1]]
    >>> print(distances.round(2))
    [[1.  3. ]
     [1.  2. ]
     [1.5 2. ]
     [1.5 2.5]]
    >>> print(de.nearest_neighbors(np.array([[2.5, 1.0]]), 1, Y=X).indices)
    [[3]]
    """
    rows, columns = _both_sides(X, Y, metric)
    near = neighbors_of(rows, n_neighbors, metric=metric, columns=columns)
    found = NearestRows(near.distances, near.indices)
    is_lazy = isinstance(X, da.Array) or isinstance(Y, da.Array)
    return found if is_lazy else NearestRows(*compute(tuple(found)))


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
    tree = spanning_tree_of(rows, nearest_rows(rows, min(TREE_NEIGHBORS, rows.shape[0] - 1), metric=metric))
    return tree._replace(lengths=tree.lengths**2 / 2) if metric == "cosine" else tree
