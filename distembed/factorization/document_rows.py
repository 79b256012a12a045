"""Documents, or other rows, as row blocks of CSR matrices: what is read and checked of them, and their products."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.dtypes import Float64s, Floats, Int64s
from distembed.execution import compute
from distembed.lift import block, first_rows, fold, lift, total
from distembed.linalg.blocks import gram
from distembed.linalg.csr import canonical_csr, check_block, unit_rows
from distembed.linalg.operators import row_blocks, whole_csr
from distembed.states import block_memory
from distembed.typing import MatrixLike
from distembed.validation import training_matrix

Array = Any  # numpy.ndarray, csr_array or dask.array.Array

SUM_FAN_IN = 4
"""Partial sums added at a time; with words × rank partial sums it bounds the memory of one addition."""


def document_rows(matrix: Any) -> Array:
    """Return a matrix as one `csr_array`, or as a Dask array of `csr_array` row blocks.

    Parameters
    ----------
    matrix : NumPy array, SciPy sparse matrix or Dask array (rows, columns)
        What `distembed.validation` let pass. A Dask array keeps its row chunks; a matrix in memory is cut where it is
        larger than `block_memory`. float32 stays, every other type becomes float64.
    """
    dtype = np.float32 if matrix.dtype == np.float32 else np.float64
    if isinstance(matrix, da.Array):
        return row_blocks(matrix, dtype=dtype)
    whole = canonical_csr(matrix, dtype)
    n_blocks = -(-(whole.data.nbytes + whole.indices.nbytes) // block_memory())
    return row_blocks(whole, values_per_block=-(-whole.nnz // n_blocks)).persist() if n_blocks > 1 else whole


def take_rows(matrix: Array, rows: NDArray[np.int64]) -> csr_array:
    """Return rows of a matrix, in the order asked for, as one `csr_array` in memory."""
    if not isinstance(matrix, da.Array):
        return matrix[rows]
    order = np.argsort(rows, kind="stable")
    return whole_csr(matrix[rows[order]])[np.argsort(order, kind="stable")]


def unit_documents(matrix: Array) -> Array:
    """Return documents of unit length, in their own precision; an empty one stays empty."""
    units = partial(unit_rows, dtype=matrix.dtype)
    return lift(units, "wd->wd", matrix, dtype=matrix.dtype, sparse=True)


class Facts(NamedTuple):
    """The facts that one pass over a non-negative matrix collects."""

    sum_of_squares: float
    mean: float
    n_empty_rows: int
    column_counts: Float64s  # stored values of each column
    is_counts: bool  # whole numbers throughout, and not only ones


def check_values(matrix: Array, *, name: str, nonnegative: bool = True) -> Facts:
    """Return the facts of a matrix after one pass over it.

    Raises
    ------
    ValueError
        If a value is NaN or infinite, or negative where it may not be.
    """
    shape, first = (1, 5 + matrix.shape[1]), first_rows(matrix)
    found = compute(
        fold(
            total(inspect), "wd,w", matrix, first, shape=shape, fan_in=SUM_FAN_IN, called=name,
            nonnegative=nonnegative,
        )
    )[0]  # fmt: skip
    not_whole, above_one, squares, added, empty = found[:5]
    mean = float(added / np.prod(matrix.shape, dtype=float))
    return Facts(float(squares), mean, int(empty), found[5:], bool(above_one and not not_whole))


@block(temporaries=2)
def inspect(X: csr_array, first_row: Int64s, *, called: str, nonnegative: bool = True) -> Floats:
    """Return (1, 5 + d): not whole, above one, squares, sum, empty rows, counts of columns; see `check_block`."""
    check_block(X, first_row, called=called, nonnegative=nonnegative)
    facts = np.empty((1, 5 + X.shape[1]))
    exact = X.data.astype(np.float64, copy=False)
    facts[0, :5] = (
        np.count_nonzero(X.data != np.floor(X.data)),
        np.count_nonzero(exact > 1),
        np.vdot(exact, exact),
        exact.sum(),
        np.count_nonzero(np.diff(X.indptr) == 0),
    )
    del exact
    facts[0, 5:] = np.bincount(X.indices, minlength=X.shape[1])
    return facts


def check_n_clusters(n_clusters: int, n_filled: int, n_documents: int) -> None:
    """Raise ValueError unless 1 <= n_clusters <= documents with a word."""
    if not n_filled:
        raise ValueError(f"None of the {n_documents} documents of X holds a value other than zero.")
    if not 1 <= n_clusters <= n_filled:
        raise ValueError(
            f"{n_clusters} components or clusters were asked for, and {n_filled} documents of X hold a word; "
            f"ask for 1 to {n_filled}."
        )


def training_documents(
    estimator: Any, X: MatrixLike, n_clusters: int, *, nonnegative: bool = True
) -> tuple[Array, Facts]:
    """Return the documents that an estimator is fitted to, checked, as `document_rows`, and their facts.

    Raises
    ------
    ValueError
        If X is not a matrix, holds a value that it must not, or fewer documents with a word than clusters.
    """
    # One pass counts values and finds NaN, infinity and negative values.
    matrix = document_rows(training_matrix(estimator, X, finite=False))
    facts = check_values(matrix, name="X", nonnegative=nonnegative)
    check_n_clusters(n_clusters, matrix.shape[0] - facts.n_empty_rows, matrix.shape[0])
    if facts.n_empty_rows:
        warnings.warn(
            f"{facts.n_empty_rows} of {matrix.shape[0]} documents hold no word: their factors are zero and "
            "their label is -1.",
            stacklevel=4,
        )
    return matrix, facts


# --- products of a block ---------------------------------------------------------------------------------------


@block(temporaries=0.5)
def times(X: csr_array, W: Floats) -> Floats:
    """Return X W, (rows, k) in the dtype of X."""
    return np.asarray(X @ W.astype(X.dtype, copy=False))


@block(temporaries=0.5)
def document_sums(X: csr_array, Z: Floats) -> Float64s:
    """Return Xᵀ Z and below it Zᵀ Z, (d + k, k), multiplied and added in float64."""
    rank = Z.shape[1]
    sums = np.zeros((X.shape[1] + rank, rank))
    _add_transposed_times(X.data, X.indices, X.indptr, np.ascontiguousarray(Z), sums[:-rank])
    sums[-rank:] = gram(Z)
    return sums


# Compiled, because SciPy adds in the precision of X, or else copies its values to float64.
@numba.njit(cache=True, nogil=True)
def _add_transposed_times(data: Any, indices: Any, indptr: Any, Z: Any, out: Any) -> None:
    for i in range(indptr.size - 1):
        row = Z[i]
        for p in range(indptr[i], indptr[i + 1]):
            value, sums = np.float64(data[p]), out[indices[p]]
            for c in range(row.size):
                sums[c] += value * row[c]
