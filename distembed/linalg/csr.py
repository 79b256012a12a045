"""CSR matrices of one block: form, checks of values, rows, columns, lengths. NumPy, SciPy and numba only."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from distembed.dtypes import Float64s, Floats, Int64s, Mask
from distembed.temporaries import block

LEAST_SQUARE = 1e-200
"""Squared length of a row under which the squares of its values may have lost digits to underflow."""


@block(temporaries=1)
def canonical_csr(block: Any, dtype: Any = None, *, drop_zeros: bool = True) -> sp.csr_array:
    """Return a block as `csr_array` with sorted indices and no duplicates.

    Parameters
    ----------
    block : sparse matrix or array, or (rows, columns) array
        The block.
    dtype : dtype, optional
        The type of the result; by default that of the block.
    drop_zeros : bool
        Whether stored zeros go; in a graph they are edges of length zero.

    Returns
    -------
    csr_array
        The block itself if it is canonical already, otherwise a new one.
    """
    fits = isinstance(block, sp.csr_array) and (dtype is None or block.dtype == dtype)
    csr = block if fits else sp.csr_array(block, dtype=dtype)
    if csr.has_canonical_format and (not drop_zeros or csr.data.all()):
        return csr
    csr = csr.copy()
    csr.sum_duplicates()
    if drop_zeros:
        csr.eliminate_zeros()
    return csr


def rows_of(block: sp.csr_array) -> NDArray[np.intp]:
    """Return the row number of each stored value of a CSR block, shape (nnz,)."""
    return np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))


def with_values(block: sp.csr_array, values: Any, dtype: Any = np.float32) -> sp.csr_array:
    """Return a block with the support of another one and the given values; the indices are shared."""
    data = np.ascontiguousarray(values, dtype=dtype)
    return sp.csr_array((data, block.indices, block.indptr), shape=block.shape)


def row_range(csr: sp.csr_array, first: int, stop: int) -> sp.csr_array:
    """Return the rows from `first` to before `stop`, values and columns not copied."""
    inside = slice(csr.indptr[first], csr.indptr[stop])
    starts = csr.indptr[first : stop + 1] - csr.indptr[first]
    return sp.csr_array((csr.data[inside], csr.indices[inside], starts), shape=(stop - first, csr.shape[1]))


def without_diagonal(block: sp.csr_array, first_row: int) -> sp.csr_array:
    """Return a block without its cells (i, i); row 0 of the block is row `first_row` of the matrix."""
    own = np.arange(first_row, first_row + block.shape[0], dtype=block.indices.dtype)
    kept = block.indices != np.repeat(own, np.diff(block.indptr))
    before = np.zeros(block.nnz + 1, block.indptr.dtype)
    np.cumsum(kept, out=before[1:])
    indptr = before[block.indptr]
    return sp.csr_array((block.data[kept], block.indices[kept], indptr), shape=block.shape)


@block(temporaries=0.5)
def row_sizes(block: Any) -> Int64s:
    """Return the number of stored values of each row, int64 (rows,)."""
    return np.diff(sp.csr_array(block).indptr).astype(np.int64)


@block(temporaries=2)
def row_sums(block: Any) -> Float64s:
    """Return the sum of each row, float64 (rows,)."""
    # SciPy adds float32 in float32, also where the sum is to be float64.
    return np.asarray(sp.csr_array(block).astype(np.float64, copy=False).sum(axis=1)).ravel()


@block(temporaries=0.5)
def row_lengths(block: sp.csr_array) -> Float64s:
    """Return the Euclidean length of each row, float64 (rows,)."""
    return np.sqrt(_squared_lengths(block))


def _squared_lengths(X: Any) -> Float64s:
    if sp.issparse(X):
        return _sparse_squares(X.data, X.indptr)
    return _dense_squares(np.ascontiguousarray(X))


@block(temporaries=0.5)
def unit_rows(X: Any, *, dtype: Any = np.float64) -> Any:
    """Divide each row, dense or sparse, by its Euclidean length; a row that is zero or not finite becomes zero.

    Sparse rows get sorted columns without duplicates.
    """
    is_sparse = sp.issparse(X)
    if is_sparse:
        X = sp.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
    squares = _squared_lengths(X)
    extreme = np.flatnonzero(~((squares > LEAST_SQUARE) & np.isfinite(squares)))
    if extreme.size and (X[extreme].nnz if is_sparse else np.any(X[extreme])):
        # Their squares have lost digits, or all of them, to underflow or overflow; powers of two change no digit.
        largest = abs(X[extreme]).max(axis=1)
        scale = np.zeros(len(squares), np.int64)
        largest = largest.toarray().ravel() if is_sparse else largest
        scale[extreme] = np.where(np.isfinite(largest), np.frexp(largest)[1], 0)
        if is_sparse:
            scaled = np.ldexp(X.data.astype(np.float64), -scale[rows_of(X)])
            X = sp.csr_array((scaled, X.indices, X.indptr), X.shape)
        else:
            X = np.ldexp(X.astype(np.float64), -scale[:, None])
        squares = _squared_lengths(X)
    has_direction = (squares > 0) & np.isfinite(squares)
    lengths = np.sqrt(np.where(has_direction, squares, 1.0))
    if is_sparse:
        of_values = np.repeat(lengths, np.diff(X.indptr))
        units = np.divide(X.data, of_values, out=np.empty(X.nnz, dtype), casting="same_kind")
        if extreme.size:
            units[np.repeat(~has_direction, np.diff(X.indptr))] = 0
        return sp.csr_array((units, X.indices, X.indptr), X.shape)
    units = np.divide(X, lengths[:, None], out=np.empty(X.shape, dtype), casting="same_kind")
    if extreme.size:
        units[~has_direction] = 0
    return units


@njit(cache=True, nogil=True)
def _dense_squares(X: Floats) -> Float64s:
    out = np.zeros(X.shape[0])
    for i in range(X.shape[0]):
        for t in range(X.shape[1]):
            out[i] += np.float64(X[i, t]) * np.float64(X[i, t])
    return out


@njit(cache=True, nogil=True)
def _sparse_squares(data: Floats, indptr: Int64s) -> Float64s:
    out = np.zeros(len(indptr) - 1)
    for i in range(len(out)):
        for p in range(indptr[i], indptr[i + 1]):
            out[i] += np.float64(data[p]) * np.float64(data[p])
    return out


@block(temporaries=0.5)
def check_block(
    block: Any, first: Any, *, called: str, nonnegative: bool = False, directions: bool = False
) -> Any:
    """Return a block, dense or sparse, unchanged.

    Raises
    ------
    ValueError
        If a value is NaN or infinite, or negative where it must not be, or a row is zero that must have a direction;
        the message gives its row and column.
    """
    values, first_row = block.data if sp.issparse(block) else np.asarray(block), int(first[0])
    # The sum of the values, which needs no memory, usually decides.
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = values.dtype.kind != "f" or np.isfinite(values.sum()) or np.isfinite(values).all()
    if not is_finite:
        row, column = _place(block, ~np.isfinite(values))
        raise ValueError(
            f"{called} holds NaN or infinity, first in row {first_row + row}, column {column}: drop or fill it"
        )
    if nonnegative and values.size and values.min() < 0:
        row, column = _place(block, values < 0)
        raise ValueError(
            f"Negative values in data: {called} holds one in row {first_row + row}, column {column}; "
            "give values of zero or more"
        )
    zero = np.flatnonzero(~rows_with_values(block)) if directions else np.empty(0)
    if zero.size:
        raise ValueError(
            f"{called} is zero, which has no cosine, in {zero.size} of {block.shape[0]} rows, "
            f"first {(first_row + zero[:5]).tolist()}: drop them"
        )
    return block


@block(temporaries=1.5)
def rows_with_values(block: Any) -> Mask:
    """Return which rows of a block, dense or sparse, are not zero."""
    if sp.issparse(block):
        return np.asarray(abs(block).sum(axis=1)).ravel() != 0
    return np.asarray(np.asarray(block).any(axis=1))


@block(temporaries=0)
def to_single(block: Any) -> Any:
    """Return a block in single precision."""
    return block.astype(np.float32)


def _place(block: Any, wrong: Any) -> tuple[int, int]:
    """Return the row and the column of the first value that is marked."""
    first = int(np.argmax(wrong))
    if sp.issparse(block):
        cells = block.tocoo()
        return int(cells.row[first]), int(cells.col[first])
    row, column = np.unravel_index(first, block.shape)
    return int(row), int(column)
