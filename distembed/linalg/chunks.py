"""The block grids of matrices, which depend on the problem and the memory of a task, never on the workers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

VALUES_PER_BLOCK = 2**20
"""Stored values of one block of a matrix that comes in memory: tasks of about 0.1 s against 200 vectors."""
STORED_BYTES = 8
"""Bytes of a stored value with its column."""
# Copies of a row that one tile task holds: two tiles as stored and centered, in float64 at worst.
ROW_COPIES = 6
# A grid finer than this many row blocks would only add tasks; a coarser one would leave cores idle.
ROW_BLOCKS = 16
# Tiles below this size are dominated by the scheduler, not by the product.
LEAST_ROWS = 2048


def cut_rows(
    row_sizes: NDArray[Any], values_per_block: int = VALUES_PER_BLOCK, rows_per_block: int | None = None
) -> tuple[int, ...]:
    """Return the number of rows of each block of a sparse matrix with so many stored values in each row.

    Blocks cost about the same, half by stored values and half by rows, and none is empty.

    Parameters
    ----------
    row_sizes : array (n,)
    values_per_block : int
        Stored values of a block in the mean, at most; no block has more than twice as many, unless one row has.
    rows_per_block : int, optional
        The most rows of a block, but for one, and it then has at most `values_per_block` values after its first row. By
        default a row costs as much as the values of an average one, so that blocks of many empty rows stay small.
    """
    if not len(row_sizes):
        return ()
    values_per_block = max(1, values_per_block)
    if rows_per_block is None:
        costs = (row_sizes + max(row_sizes.mean(), 1)) / (2 * values_per_block)
    else:
        costs = row_sizes / values_per_block + 1 / max(1, rows_per_block)
    ends = np.cumsum(costs)
    n_blocks = max(1, int(np.ceil(ends[-1])))
    inner = np.searchsorted(ends, ends[-1] * np.arange(1, n_blocks) / n_blocks)
    return tuple(int(rows) for rows in np.diff(np.unique([0, *inner, len(row_sizes)])))


def row_chunk(
    n_rows: int, row_bytes: int, block_memory: int, *, copies: int = ROW_COPIES, least: int = LEAST_ROWS
) -> int:
    """Return the number of rows of one block, from the problem and the memory of a task, which holds copies of each.

    Where memory allows there are no more than `ROW_BLOCKS` blocks, and none has less than `least` rows.
    """
    in_memory = max(1, block_memory // (copies * max(1, row_bytes)))
    return min(in_memory, max(least, -(-n_rows // ROW_BLOCKS)), max(1, n_rows))


def evenly_spaced(n: int, limit: int) -> NDArray[np.int64]:
    """Return at most `limit` of the numbers 0 to n - 1, evenly from the first to the last, rising."""
    return np.unique(np.linspace(0, n - 1, min(limit, n)).astype(np.int64))
