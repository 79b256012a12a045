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
# Column blocks cut finer than this leave the sparse product no columns to share an index over.
COLUMN_BLOCKS = 16
LEAST_COLUMNS = 8


def cut_rows(costs: NDArray[Any], n_blocks: int) -> tuple[int, ...]:
    """Return the number of rows of each of about `n_blocks` blocks, which cost about the same; no block is empty."""
    if not len(costs):
        return ()
    ends = np.cumsum(costs)
    inner = np.searchsorted(ends, ends[-1] * np.arange(1, n_blocks) / n_blocks)
    return tuple(int(rows) for rows in np.diff(np.unique([0, *inner, len(costs)])))


def balanced_chunks(
    row_sizes: NDArray[np.integer], values_per_block: int = VALUES_PER_BLOCK
) -> tuple[int, ...]:
    """Return the number of rows of each block of a sparse matrix with so many stored values in each row.

    Rows count by their values and by one average row each, so that blocks of many empty rows stay small.
    """
    if not len(row_sizes):
        return ()
    n_blocks = max(1, round(float(row_sizes.sum()) / values_per_block))
    return cut_rows(row_sizes + max(row_sizes.mean(), 1), n_blocks)


def balanced_rows(row_sizes: NDArray[np.integer], block_bytes: int) -> tuple[int, ...]:
    """Return the same for blocks of about `block_bytes`, in which rows count as they do in `balanced_chunks`."""
    costs = (row_sizes + row_sizes.mean()) * STORED_BYTES
    return cut_rows(costs, max(1, -(-int(np.cumsum(costs)[-1]) // block_bytes)))


def row_bounds(sizes: NDArray[np.integer], most_rows: int, most_values: int) -> list[int]:
    """Return where to divide rows with the given numbers of values, so that the rows of a block keep the limits.

    A limit below one row, or one value, is one.
    """
    most_rows, most_values = max(1, most_rows), max(1, most_values)
    use = np.cumsum(1 / most_rows + sizes / most_values)
    cuts = np.searchsorted(use, np.arange(1, int(use[-1]) + 1))
    return sorted({0, len(sizes), *map(int, cuts)})


def row_chunk(n_rows: int, row_bytes: int, block_memory: int) -> int:
    """Return the number of rows of one block, from the problem and the memory of a task."""
    in_memory = max(1, block_memory // (ROW_COPIES * max(1, row_bytes)))
    return min(in_memory, max(LEAST_ROWS, -(-n_rows // ROW_BLOCKS)), max(1, n_rows))


def column_chunk(n_columns: int, column_bytes: int, block_memory: int) -> int:
    """Return the number of columns of one block, of which a task holds `column_bytes` each."""
    in_memory = max(1, block_memory // max(1, column_bytes))
    return min(in_memory, max(LEAST_COLUMNS, -(-n_columns // COLUMN_BLOCKS)))


def batches(n: int, size: int) -> tuple[int, ...]:
    """Return the chunks of n rows in batches of `size`; the last batch holds the remainder."""
    full, rest = divmod(n, size)
    return (size,) * full + ((rest,) if rest else ())


def evenly_spaced(n: int, limit: int) -> NDArray[np.int64]:
    """Return at most `limit` of the numbers 0 to n - 1, evenly from the first to the last, rising."""
    return np.unique(np.linspace(0, n - 1, min(limit, n)).astype(np.int64))
