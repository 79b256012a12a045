"""Distances between rows: in memory for rows in memory, lazy for a Dask array; and the grid of blocks of a search."""

from __future__ import annotations

from functools import partial
from math import isqrt
from typing import Any, Literal, overload

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Float64s
from distembed.execution import compute
from distembed.lift import lift
from distembed.linalg.chunks import cut_rows, row_chunk
from distembed.linalg.csr import row_sizes, unit_rows
from distembed.linalg.operators import dense_blocks, row_blocks, whole_rows
from distembed.neighbors import blocks
from distembed.neighbors.cosine_blocks import all_distances
from distembed.states import block_memory
from distembed.typing import InMemory, MatrixLike
from distembed.validation import check_matrix

Metric = Literal["euclidean", "cosine"]

# float32 copies of a row of distances that the task which makes, stores or searches it holds, and float64 copies of
# the strip of it that is being made.
DISTANCE_COPIES, STRIP_COPIES = 4, 5
# Bytes that a task of sparse rows may hold for each stored value: the two blocks of a tile as given and as unit
# rows, one of them in float32 by columns as well.
VALUE_BYTES = 32


def rows_of_tile(block_memory: int) -> int:
    """Return the largest number of rows of a sparse block: its float32 tile takes a quarter of a task's memory."""
    return max(1, isqrt(block_memory // 16))


def dense_values(block_memory: int) -> int:
    """Return the number of float32 values that a sparse tile may hold in dense columns: half of a task's memory."""
    return block_memory // 8


def domain_rows(X: Any, *, metric: Metric = "euclidean", name: str = "X") -> da.Array:
    """Return X checked, in floats and cut into row blocks; rows of unit length for the cosine metric.

    Parameters
    ----------
    X : NumPy, SciPy sparse or Dask array, shape (n, d)
        The values of a Dask array are checked when they are read; of sparse ones the stored values are counted at once.
    metric : "euclidean", or "cosine" (sparse rows allowed), which measures rows of unit length
    name : str
        What errors call X.

    Raises
    ------
    ValueError
        If X is not two-dimensional, not numeric, has NaN or infinite values, rows of zeros under "cosine",
        or is sparse under "euclidean".
    """
    if metric not in ("euclidean", "cosine"):
        raise ValueError(f"metric must be 'euclidean' or 'cosine', not {metric!r}")
    sparse = sp.issparse(getattr(X, "_meta", X))
    if sparse and metric == "euclidean":
        raise ValueError("sparse rows are measured by metric='cosine' only: pass a dense X for 'euclidean'")
    X = check_matrix(X, name=name, directions=metric == "cosine")
    wanted = np.float32 if X.dtype.kind == "f" and X.dtype.itemsize <= 4 else np.float64
    X = X.astype(wanted, copy=False)
    if sparse:  # in blocks bounded in rows and in stored values: frequent words have the fullest rows
        X = whole_rows(X) if isinstance(X, da.Array) else X
        sizes = compute(lift(row_sizes, "wc->w", X, dtype=np.int64))
        rows = row_blocks(
            X, row_chunks=cut_rows(sizes, block_memory() // VALUE_BYTES, rows_of_tile(block_memory()))
        )
    else:
        rows = dense_blocks(X, row_chunk(X.shape[0], X.shape[1] * X.dtype.itemsize, block_memory()))
    return lift(unit_rows, "wc->wc", rows, dtype=np.float64, sparse=sparse) if metric == "cosine" else rows


def distance_rows(X: Any, *, metric: Metric = "euclidean") -> da.Array:
    """Return the distances between all rows of X as a lazy float32 Dask array, in blocks of whole rows, to be kept.

    The same as `pairwise_distances` to float32's precision. Stored, it takes 4 n² bytes. Every task holds all rows of
    X. Dense rows only.
    """
    rows = domain_rows(X, metric=metric)
    chunk = distance_chunk(rows.shape[0], block_memory())
    return lift(
        blocks.distance_rows,
        "id,jd->ij",
        rows.rechunk((chunk, -1)),
        rows.rechunk((-1, -1)),
        cosine=metric == "cosine",
    )


def distance_chunk(n_rows: int, block_memory: int) -> int:
    """Return the number of rows of one block of `distance_rows`."""
    strip = min(n_rows, blocks.PRODUCT_COLUMNS)
    return min(n_rows, max(1, block_memory // (4 * DISTANCE_COPIES * n_rows + 8 * STRIP_COPIES * strip)))


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
    rows, columns = both_sides(X, Y, metric)
    tile = (
        all_distances if sp.issparse(rows._meta) else partial(blocks.distance_tile, cosine=metric == "cosine")
    )
    found = lift(tile, "id,jd->ij", rows, rows if columns is None else columns, dtype=np.float64)
    return found if isinstance(X, da.Array) or isinstance(Y, da.Array) else compute(found)


def both_sides(X: MatrixLike, Y: MatrixLike | None, metric: Metric) -> tuple[da.Array, da.Array | None]:
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
