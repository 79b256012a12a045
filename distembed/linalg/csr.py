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
def row_lengths(block: Any) -> Float64s:
    """Return the Euclidean length of each row, dense or sparse, float64 (rows,)."""
    if sp.issparse(block):
        return _lengths(block.data, block.indptr)
    rows = np.ascontiguousarray(block)
    return _lengths(rows.ravel(), np.arange(len(rows) + 1) * rows.shape[1])


@njit(cache=True, nogil=True)
def _lengths(values: Floats, indptr: Int64s) -> Float64s:
    out = np.empty(len(indptr) - 1)
    for i in range(len(out)):
        unit, squares, largest = 1.0, 0.0, 0.0
        for p in range(indptr[i], indptr[i + 1]):
            squares += np.float64(values[p]) * np.float64(values[p])
        if not LEAST_SQUARE < squares < np.inf:
            # Squares have lost digits, or all of them, to underflow or overflow; a power of two changes no digit.
            for p in range(indptr[i], indptr[i + 1]):
                largest = max(largest, abs(np.float64(values[p])))
            if 0 < largest < np.inf:
                unit, squares = 2.0 ** np.floor(np.log2(largest)), 0.0
                for p in range(indptr[i], indptr[i + 1]):
                    squares += (values[p] / unit) ** 2
        out[i] = unit * np.sqrt(squares)
    return out


@block(temporaries=0.5)
def unit_rows(X: Any, *, dtype: Any = np.float64) -> Any:
    """Divide each row, dense or sparse, by its Euclidean length; a row that is zero or not finite becomes zero.

    Sparse rows get sorted columns without duplicates.
    """
    is_sparse = sp.issparse(X)
    X = canonical_csr(X, drop_zeros=False) if is_sparse else X
    values, lengths = X.data if is_sparse else X, row_lengths(X)
    has_no_direction = ~((lengths > 0) & (lengths < np.inf))
    lengths[has_no_direction] = 1.0
    of_values = np.repeat(lengths, np.diff(X.indptr)) if is_sparse else lengths[:, None]
    units = np.divide(values, of_values, out=np.empty(values.shape, dtype), casting="same_kind")
    if has_no_direction.any():
        units[np.repeat(has_no_direction, np.diff(X.indptr)) if is_sparse else has_no_direction] = 0
    return sp.csr_array((units, X.indices, X.indptr), X.shape) if is_sparse else units


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
