"""What a matrix of a file is: its shape and names, and its rows as a lazy Dask array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.display import first_repeat, plural
from distembed.execution import delayed, from_delayed
from distembed.linalg.csr import row_range, rows_of

LISTED = 5
"""Columns of a table that a note names."""


class MatrixError(ValueError):
    """A file that does not hold the matrix that a job asks for."""


class Matrix(NamedTuple):
    """A matrix of a file, of which `read` returns the rows from one to before another.

    `row_sizes` are the stored values of each row of a sparse matrix, None for a dense one. `names` returns what
    the rows are called, None where they have no names. `held` is the whole matrix where its format, or its
    order on disk, leaves no other way than to read it at once. `note` says which columns of a table were taken.
    """

    path: str
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    read: Callable[[int, int], Any]
    names: Callable[[], Sequence[str] | None]
    row_sizes: NDArray[np.int64] | None = None
    held: Any = None
    note: str = ""

    @property
    def is_sparse(self) -> bool:
        """Return whether rows are read as CSR."""
        return self.row_sizes is not None

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """Return float32 where it holds every value of the matrix as it is, else float64."""
        wide = self.dtype.itemsize > (4 if self.dtype.kind == "f" else 2)
        return np.dtype(np.float64 if wide else np.float32)


def held_matrix(path: str, values: Any, names: Sequence[str] | None) -> Matrix:
    """Return a matrix that is in memory.

    Raises
    ------
    MatrixError
        If it has not two dimensions, or holds anything but numbers.
    """
    check_shape(path, values.shape, values.dtype)
    sizes = None
    if sp.issparse(values):
        values = sp.csr_array(values)
        values.sum_duplicates()
        sizes = np.diff(values.indptr).astype(np.int64)
    return Matrix(path, values.shape, values.dtype, partial(_held_rows, values), lambda: names, sizes, values)


def within_shape(matrix: Any) -> Any:
    """Return a sparse matrix of a file after a look at its indices: with one outside, SciPy writes beside its arrays.

    Raises
    ------
    ValueError
        If rows do not follow each other, or an index lies outside the shape.
    """
    if hasattr(matrix, "check_format"):  # those by coordinates and diagonals are checked where they are made
        matrix.check_format(full_check=True)
    return matrix


def _held_rows(values: Any, start: int, stop: int) -> Any:
    return row_range(values, start, stop) if sp.issparse(values) else values[start:stop]


def check_shape(path: str, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Refuse what is no matrix of numbers, or has no rows or columns."""
    if len(shape) != 2 or min(shape) < 1:
        raise MatrixError(
            f"{path} has the shape {tuple(shape)}: give a matrix with at least one row and column"
        )
    if dtype.kind not in "fiub":
        raise MatrixError(f"{path} holds values of type {dtype}: give numbers")


def row_array(matrix: Matrix, bounds: Sequence[int], *, dense: bool, need_direction: bool) -> da.Array:
    """Return the rows of a matrix in blocks, checked when they are computed, in `stored_dtype`.

    Parameters
    ----------
    matrix : Matrix
        The matrix of a file.
    bounds : row numbers where blocks begin, and the number of rows
    dense : make sparse rows dense
    need_direction : refuse rows of zeros, which have no cosine

    Returns
    -------
    Dask array, dense or of CSR blocks. Computing a block raises MatrixError where a value is not finite.
    """
    dtype, width = matrix.stored_dtype, matrix.shape[1]
    sparse = matrix.is_sparse and not dense
    meta = sp.csr_array((0, 0), dtype=dtype) if sparse else np.empty((0, 0), dtype)
    checked = partial(
        _checked_rows, path=matrix.path, dtype=dtype, dense=dense, need_direction=need_direction
    )
    blocks = []
    for start, stop in pairwise(bounds):
        values = _held_rows(matrix.held, start, stop) if matrix.held is not None else None
        read = None if values is not None else matrix.read
        block = delayed(checked)(values, read, start, stop)
        blocks.append(from_delayed(block, (stop - start, width), dtype=dtype, meta=meta))
    return da.concatenate(blocks)


def _checked_rows(
    values: Any,
    read: Callable[[int, int], Any] | None,
    start: int,
    stop: int,
    *,
    path: str,
    dtype: np.dtype[Any],
    dense: bool,
    need_direction: bool,
) -> Any:
    """Return rows as they are stored, or refuse the first bad value."""
    rows = values if read is None else read(start, stop)
    rows = rows.toarray() if dense and sp.issparse(rows) else rows
    _refuse_not_finite(path, rows, start)
    if need_direction:
        _refuse_zeros(path, rows, start)
    return rows.astype(dtype)


def _refuse_not_finite(path: str, rows: Any, first_row: int) -> None:
    bad = np.argwhere(~np.isfinite(rows.data if sp.issparse(rows) else rows))
    if bad.size:
        at = bad[0]
        row = int(rows_of(rows)[at[0]] if sp.issparse(rows) else at[0])
        column = int(rows.indices[at[0]] if sp.issparse(rows) else at[1])
        value = rows.data[at[0]] if sp.issparse(rows) else rows[tuple(at)]
        raise MatrixError(
            f"{path}, row {first_row + row}, column {column} (both counted from 0) holds {value}: "
            "fill in the value, or drop the row"
        )


def _refuse_zeros(path: str, rows: Any, first_row: int) -> None:
    n_values = np.diff(rows.indptr) if sp.issparse(rows) else (rows != 0).sum(axis=1)
    if sp.issparse(rows):
        n_values = np.bincount(rows_of(rows)[rows.data != 0], minlength=rows.shape[0])
    empty = np.flatnonzero(n_values == 0)
    if empty.size:
        raise MatrixError(
            f"{path}, row {first_row + int(empty[0])} (counted from 0) holds only zeros, and has no cosine: "
            'drop it, or set neighbors.metric = "euclidean"'
        )


def column_note(path: str, columns: Sequence[str], names: str | None) -> str:
    """Return which columns of a table are the matrix, and which its names."""
    listed = ", ".join(map(repr, columns[:LISTED])) + (" …" if len(columns) > LISTED else "")
    named = f"the names are in {names!r}" if names is not None else "rows are called by their numbers"
    return f"{path}: the matrix is {plural(len(columns), 'column')} ({listed}), {named}"


def all_different(names: Sequence[str]) -> bool:
    """Return whether no name stands twice."""
    return len(set(names)) == len(names)


def refuse_equal_names(path: str, names: Iterable[str]) -> None:
    """Refuse names of which two are equal, naming both rows."""
    if found := first_repeat(names):
        name, other, row = found
        raise MatrixError(
            f"{path} has the name {name!r} in rows {other} and {row} (counted from 0): rename or drop one"
        )
