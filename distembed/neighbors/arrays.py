"""Distances, nearest neighbors and spanning trees of arrays: in memory for rows in memory, lazy for a Dask array."""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Float64s, Int64s
from distembed.execution import blockwise, compute, on_disk
from distembed.linalg.chunks import BLOCK_MEMORY
from distembed.neighbors import blocks, cosine_blocks
from distembed.neighbors.distances import Metric, domain_rows
from distembed.neighbors.search import SINGLE_FEATURES, nearest_rows
from distembed.neighbors.spanning_tree import SpanningTree, spanning_tree_of
from distembed.typing import InMemory, MatrixLike


@overload
def pairwise_distances(
    X: da.Array, Y: MatrixLike | None = ..., *, metric: Metric = ..., block_memory: int = ...
) -> da.Array: ...


@overload
def pairwise_distances(
    X: InMemory, Y: InMemory | None = ..., *, metric: Metric = ..., block_memory: int = ...
) -> Float64s: ...


def pairwise_distances(
    X: MatrixLike,
    Y: MatrixLike | None = None,
    *,
    metric: Metric = "euclidean",
    block_memory: int = BLOCK_MEMORY,
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
    block_memory : int
        The memory of one task in bytes. It cuts the rows of X and Y into blocks; sparse rows of a Dask array stay in
        the blocks that they have.

    Returns
    -------
    array of shape (n, m), float64
        A Dask array if X or Y is one, which has read nothing yet; otherwise a NumPy array.

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
    is_lazy = isinstance(X, da.Array) or isinstance(Y, da.Array)
    rows = _rows_of(X, "X", metric, block_memory, lazy=is_lazy)
    columns = rows if Y is None else _rows_of(Y, "Y", metric, block_memory, lazy=is_lazy)
    if rows.shape[1] != columns.shape[1]:
        raise ValueError(
            f"the rows of X have {rows.shape[1]} values and those of Y {columns.shape[1]}: they must agree"
        )
    sparse = [sp.issparse(one._meta) for one in (rows, columns)]
    if sparse[0] != sparse[1]:
        raise ValueError("one of X and Y is sparse and the other is not: give both in the same kind")
    found = blockwise(
        _sparse_tile if sparse[0] else _dense_tile,
        "ij",
        *(rows, "id", columns, "jd"),
        cosine=metric == "cosine",
        align_arrays=False,
        dtype=np.float64,
        meta=np.empty((0, 0)),
    )
    return found if is_lazy else compute(found)


def _rows_of(X: MatrixLike, name: str, metric: Metric, block_memory: int, *, lazy: bool) -> da.Array:
    return domain_rows(X, metric=metric, block_memory=block_memory, lazy=lazy, name=name)


def _dense_tile(X: Any, Y: Any, *, cosine: bool) -> Float64s:
    squares = blocks.accurate_squares(X[0], Y[0])
    return squares / 2 if cosine else np.sqrt(squares)


def _sparse_tile(X: Any, Y: Any, *, cosine: bool) -> Float64s:  # noqa: ARG001 - sparse rows have no other metric
    return cosine_blocks.all_distances(X[0], Y[0])


class NearestRows(NamedTuple):
    """The nearest other rows of each row: their distances, rising, and their row numbers, both (n, k)."""

    distances: Float64s | da.Array
    """float64."""
    indices: Int64s | da.Array
    """int64; of equal distances the smaller number comes first."""


def nearest_neighbors(
    X: MatrixLike, n_neighbors: int, *, metric: Metric = "euclidean", block_memory: int = BLOCK_MEMORY
) -> NearestRows:
    """Find the nearest other rows of every row, exactly.

    The bits of the result do not depend on how the rows are cut into blocks, nor on the number of workers.

    Parameters
    ----------
    X : array, sparse matrix or Dask array, shape (n, d)
        The rows; sparse ones are measured by the cosine.
    n_neighbors : int
        How many neighbors of each row are found, from 1 to n - 1.
    metric : "euclidean" or "cosine"
        What is measured: ``‖x_i - x_j‖`` or ``1 - cos(x_i, x_j)``.
    block_memory : int
        The memory of one task in bytes, which cuts the rows into blocks; sparse rows of a Dask array stay in the
        blocks that they have.

    Returns
    -------
    NearestRows
        `distances` and `indices`, shape (n, n_neighbors), in the order of `sklearn.neighbors`' ``kneighbors``: Dask
        arrays if X is one, which has not been read yet, otherwise NumPy arrays. Compute both together, as
        ``dask.compute(*found)``.

    Raises
    ------
    ValueError
        If `n_neighbors` is not between 1 and n - 1, or X is what `pairwise_distances` refuses.

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
    """
    is_lazy = isinstance(X, da.Array)
    rows = _rows_of(X, "X", metric, block_memory, lazy=is_lazy)
    single = metric == "cosine" and rows.shape[1] <= SINGLE_FEATURES
    options: dict[str, Any] = {"metric": metric, "block_memory": block_memory, "single": single}
    if is_lazy:
        near = nearest_rows(rows, n_neighbors, checkpoint=on_disk, lazy=True, **options)
        return NearestRows(near.distances, near.indices)
    near = nearest_rows(rows, n_neighbors, **options)
    return NearestRows(*compute((near.distances, near.indices)))


TREE_NEIGHBORS = 15
"""Neighbors of each row that a spanning tree is begun from; it searches on where they are not enough."""


def spanning_tree(
    X: MatrixLike, *, metric: Metric = "euclidean", block_memory: int = BLOCK_MEMORY
) -> SpanningTree:
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
    block_memory : int
        The memory of one task in bytes, which cuts the rows into blocks.

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
    rows = _rows_of(X, "X", metric, block_memory, lazy=False)
    near = nearest_rows(
        rows, min(TREE_NEIGHBORS, rows.shape[0] - 1), metric=metric, block_memory=block_memory
    )
    tree = spanning_tree_of(rows, near)
    return tree._replace(lengths=tree.lengths**2 / 2) if metric == "cosine" else tree
