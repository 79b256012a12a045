"""What the weightings of counts take in memory and on disk."""

from __future__ import annotations

from distembed.costs import PAIR_BYTES, SCRATCH_FACTOR, STORED_VALUE_BYTES, Cost

FAN_IN = 8


SUM_BYTES = 8
"""Bytes of a sum of a row or a column: a float64 or an int64."""


def block_bytes(n_stored: int, block_memory: int) -> int:
    """Return the bytes of the largest row block of counts: of two blocks of the grid, where one row is very long."""
    return min(block_memory // 8 * 2, PAIR_BYTES * n_stored)


def weighted_block_bytes(n_stored: int, block_memory: int) -> int:
    """Return the peak bytes of a task that weighs a row block of counts."""
    return int(SCRATCH_FACTOR * block_bytes(n_stored, block_memory))


def pmi_cost(
    shape: tuple[int, int],
    n_stored: int,
    n_blocks: int,
    *,
    n_kept: int | None = None,
    row_totals: bool = False,
    column_totals: bool = False,
    block_memory: int,
) -> Cost:
    """Return what `pmi`, `ppmi` and `smoothed_pmi` take for so many counts in so many row blocks.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns of the counts.
    n_stored : int
        The pairs that are counted.
    n_blocks : int
        The row blocks.
    n_kept : int, optional
        The values that are stored; by default all, and fewer where only those above zero are.
    row_totals, column_totals : bool
        Whether these sums are given. Otherwise each block sums its own rows, and a pass before sums its columns.
    block_memory : int
        The bytes a task may use.
    """
    counts = PAIR_BYTES * n_stored
    n_passes = 1 if column_totals else 2
    sums = (0 if row_totals else shape[0]) + (0 if column_totals else n_blocks * shape[1])
    return Cost(
        n_blocks * n_passes,
        n_passes * counts,
        int(STORED_VALUE_BYTES * (n_stored if n_kept is None else n_kept)),
        weighted_block_bytes(n_stored, block_memory),
        SUM_BYTES * sums,
        together=n_blocks,
    )


def shifted_cost(n_stored: int, n_blocks: int, *, block_memory: int) -> Cost:
    """Return what storing shifted positive PMI takes, made of PMI with so many values, all of which may stay."""
    written = int(STORED_VALUE_BYTES * n_stored)
    return Cost(
        n_blocks,
        PAIR_BYTES * n_stored,
        written,
        weighted_block_bytes(n_stored, block_memory),
        keeps=(("shifted_ppmi", written),),
    )


def columns_cost(
    shape: tuple[int, int], n_stored: int, n_blocks: int, *, is_chosen: bool = False, block_memory: int
) -> Cost:
    """Return what storing a space of so many values takes, as `hal_space` and `chosen_columns` give it.

    If columns are chosen by their entropy, two passes sum the columns before.
    """
    n_passes = 3 if is_chosen else 1
    sums = 2 * SUM_BYTES * shape[1] * min(n_blocks, FAN_IN) if is_chosen else 0
    values = PAIR_BYTES * n_stored
    task = weighted_block_bytes(n_stored, block_memory) + sums
    written = int(STORED_VALUE_BYTES * n_stored)
    return Cost(n_passes * n_blocks, n_passes * values, written, task, together=n_blocks)


def document_weights_cost(
    shape: tuple[int, int],
    n_stored: int,
    n_blocks: int,
    *,
    height: int = 1,
    weights_given: bool = False,
    itemsize: int = 4,
    block_memory: int,
) -> Cost:
    """Return what `tf_idf` and `log_entropy` take for so many words of documents in so many row blocks.

    Parameters
    ----------
    shape : (int, int)
        Documents and words.
    n_stored : int
        The words of each document, over all documents.
    n_blocks : int
        The row blocks.
    height : int
        The sums of each column: 1 for tf-idf, 2 for log-entropy.
    weights_given : bool
        Whether the weights of the columns are given. Otherwise a pass over the counts makes them.
    itemsize : int
        The bytes of a weight.
    block_memory : int
        The bytes a task may use.
    """
    n_passes = 1 if weights_given else 2
    of_block = 0 if weights_given else SUM_BYTES * height * shape[1]
    block = min(block_memory, 4 * PAIR_BYTES * n_stored) * (PAIR_BYTES - 4 + itemsize) // PAIR_BYTES
    written = (PAIR_BYTES - 4 + itemsize) * n_stored
    return Cost(
        n_passes * n_blocks,
        n_passes * PAIR_BYTES * n_stored,
        written,
        block + of_block * min(n_blocks, FAN_IN),
        together=n_blocks,
    )
