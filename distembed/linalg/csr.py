"""CSR matrices of one block: canonical form, stored values, rows, columns, lengths. NumPy, SciPy and numba only."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from distembed.dtypes import Float64s, Floats, Int64s
from distembed.temporaries import block

LEAST_SQUARE = 1e-200
"""Squared length of a row under which the squares of its values may have lost digits to underflow."""


def canonical_csr(block: Any, dtype: Any = None) -> sp.csr_array:
    """Return a block as `csr_array` with sorted indices, no duplicates and no stored zeros.

    Parameters
    ----------
    block : sparse matrix or array, or (rows, columns) array
        The block.
    dtype : dtype, optional
        The type of the result; by default that of the block.

    Returns
    -------
    csr_array
        The block itself if it is canonical already, otherwise a new one.
    """
    fits = isinstance(block, sp.csr_array) and (dtype is None or block.dtype == dtype)
    csr = block if fits else sp.csr_array(block, dtype=dtype)
    if csr.has_canonical_format and csr.data.all():
        return csr
    csr = csr.copy()
    csr.sum_duplicates()
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


@block(temporaries=2)
def row_lengths(block: sp.csr_array) -> Float64s:
    """Return the Euclidean length of each row, float64 (rows,)."""
    squares = block.data.astype(np.float64) ** 2
    return np.sqrt(np.bincount(rows_of(block), squares, minlength=block.shape[0]))


@block(temporaries=2)
def unit_rows(X: Any) -> Any:
    """Divide each row, dense or sparse, by its Euclidean length, in float64; a row of zeros stays zero.

    Sparse rows get sorted columns without duplicates.
    """
    if sp.issparse(X):
        X = sp.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        squares = X.astype(np.float64).multiply(X).sum(axis=1)
        extreme = extreme_rows(squares)
        if extreme.size and X[extreme].nnz:
            scale = np.zeros(X.shape[0], np.int64)
            scale[extreme] = _exponents(abs(X[extreme]).max(axis=1).toarray().ravel())
            scaled = np.ldexp(X.data.astype(np.float64), -scale[rows_of(X)])
            X = sp.csr_array((scaled, X.indices, X.indptr), X.shape)
            squares = X.multiply(X).sum(axis=1)
        lengths = np.sqrt(np.where(squares > 0, squares, 1.0))
        return sp.csr_array((X.data / lengths[rows_of(X)], X.indices, X.indptr), X.shape)
    squares = _row_squares(np.ascontiguousarray(X))
    extreme = extreme_rows(squares)
    if extreme.size and np.any(X[extreme]):
        X = X.astype(np.float64)
        X[extreme] = squarable(X[extreme])
        squares = _row_squares(np.ascontiguousarray(X))
    return X / np.sqrt(np.where(squares > 0, squares, 1.0))[:, None]


def extreme_rows(squares: Float64s) -> Int64s:
    """Return the rows whose squared lengths have lost digits, or all of them, to underflow or overflow."""
    return np.flatnonzero(~((squares > LEAST_SQUARE) & np.isfinite(squares)))


def squarable(X: Float64s) -> Float64s:
    """Return rows divided by powers of two, so that their largest values are about 1; no digit changes."""
    return np.ldexp(X, -_exponents(np.abs(X).max(axis=1, initial=0.0))[:, None])


def _exponents(largest: Float64s) -> Int64s:
    return np.where(np.isfinite(largest), np.frexp(largest)[1], 0)


@njit(cache=True, nogil=True)
def _row_squares(X: Floats) -> Float64s:
    out = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        total = 0.0
        for t in range(X.shape[1]):
            total += np.float64(X[i, t]) * np.float64(X[i, t])
        out[i] = total
    return out
