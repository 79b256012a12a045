"""Cells of a table of counts as sorted runs, and the runs of a row block as one sparse matrix."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.counting.blocks import Run


class GivenCells(NamedTuple):
    """Cells of a table.

    Attributes
    ----------
    first : int
        The number of the first cell in the table, from 1 on, for errors.
    rows, columns : int32 arrays (n,)
    values : float64 array (n,)
    """

    first: int
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]


class PairTwiceError(ValueError):
    """An error in a table that has a cell twice: its row and column."""

    def __init__(self, row: int, column: int) -> None:
        super().__init__(f"the cell of row {row} and column {column} is there twice")
        self.row, self.column = row, column


def first_fault(values: NDArray[np.float64]) -> int | None:
    """Return the place of the first value that is NaN, infinite or negative; None if there is none."""
    wrong = ~((values >= 0) & (values < np.inf))
    return int(np.argmax(wrong)) if wrong.any() else None


def renumbered(cells: GivenCells, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> GivenCells:
    """Return the cells above zero whose row and column have a new number, with it; -1 stands for none."""
    new_rows, new_columns = rows[cells.rows], columns[cells.columns]
    kept = (new_rows >= 0) & (new_columns >= 0) & (cells.values > 0)
    return GivenCells(cells.first, new_rows[kept], new_columns[kept], cells.values[kept])


def sorted_runs(cells: GivenCells, bounds: Sequence[int]) -> list[Run]:
    """Return the cells of each row block, by rising row and column.

    Raises
    ------
    PairTwiceError
        If a cell is there twice.
    """
    order = np.lexsort((cells.columns, cells.rows))
    rows, columns, values = cells.rows[order], cells.columns[order], cells.values[order]
    _refuse_twice(rows, columns)
    ends = np.searchsorted(rows, np.arange(bounds[0], bounds[-1] + 1))
    found = []
    for first, last in pairwise(bounds):
        indptr = ends[first - bounds[0] : last - bounds[0] + 1].astype(np.int64)
        part = slice(indptr[0], indptr[-1])
        found.append(Run(indptr - indptr[0], columns[part], values[part]))
    return found


def _refuse_twice(rows: NDArray[np.int32], columns: NDArray[np.int32]) -> None:
    twice = np.flatnonzero((rows[1:] == rows[:-1]) & (columns[1:] == columns[:-1]))
    if twice.size:
        raise PairTwiceError(int(rows[twice[0]]), int(columns[twice[0]]))


def joined_runs(runs: Sequence[Run], n_rows: int, n_columns: int, dtype: np.dtype[Any]) -> csr_array:
    """Return the cells of all runs of a row block as a matrix of `dtype`.

    Raises
    ------
    PairTwiceError
        If a cell is in two of them; its row is that of the block.
    """
    rows = np.concatenate([np.empty(0, np.int32), *(_rows_of(run) for run in runs)])
    columns = np.concatenate([np.empty(0, np.int32), *(run.indices for run in runs)])
    values = np.concatenate([np.empty(0), *(run.values for run in runs)])
    (run,) = sorted_runs(GivenCells(1, rows, columns, values), (0, n_rows))
    index = np.int32 if len(columns) <= np.iinfo(np.int32).max else np.int64
    parts = (run.values.astype(dtype), run.indices.astype(index, copy=False), run.indptr.astype(index))
    return csr_array(parts, shape=(n_rows, n_columns))


def _rows_of(run: Run) -> NDArray[np.int32]:
    return np.repeat(np.arange(len(run.indptr) - 1, dtype=np.int32), np.diff(run.indptr))
