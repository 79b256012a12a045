"""What reading a table of counts takes in memory and on disk."""

from __future__ import annotations

from distembed.costs import PAIR_BYTES, Cost
from distembed.counting.costs import STORED_PAIR_BYTES, RunSizes
from distembed.counting.count_readers import CELL_BYTES

RUN_CELL_BYTES = 12
"""Bytes of a cell in a file of runs: of its column, and of its count as a fraction."""

WORD_BYTES, LISTED_WORD_BYTES = 200, 20
"""Bytes of a word with its count in memory, while words are sorted, and in a table."""


def block_cells(block_memory: int) -> int:
    """Return the cells of a row block: those of an eighth of the memory of a task, since they are sorted."""
    return max(1, block_memory // 8 // PAIR_BYTES)


def piece_cells(block_memory: int) -> int:
    """Return the cells that a task reads at a time."""
    return max(1, block_memory // CELL_BYTES)


def given_runs(n_cells: int, block_memory: int) -> RunSizes:
    """Return the size of the runs of a table, and its row blocks."""
    return RunSizes(RUN_CELL_BYTES * n_cells, max(1, round(n_cells / block_cells(block_memory))))


def given_words_cost(n_bytes: int, n_words: int) -> Cost:
    """Return what choosing the words of a table takes, which may be counted by its cells."""
    return Cost(1, n_bytes, LISTED_WORD_BYTES * n_words, WORD_BYTES * n_words, exact=False)


def given_parts_cost(n_bytes: int, n_pieces: int, n_words: int, runs: RunSizes, block_memory: int) -> Cost:
    """Return what sorting the pieces of a table takes, which are read twice."""
    task = block_memory + WORD_BYTES * n_words
    return Cost(2 * n_pieces, 2 * n_bytes, runs.n_bytes, task)


def given_counts_cost(n_cells: int, runs: RunSizes, block_memory: int) -> Cost:
    """Return what joining the runs of each row block takes."""
    written = int(STORED_PAIR_BYTES * n_cells)
    return Cost(runs.n_row_blocks, runs.n_bytes, written, block_memory)
