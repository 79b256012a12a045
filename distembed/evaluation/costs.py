"""What scoring a space takes in memory and on disk."""

from __future__ import annotations

from distembed.costs import Cost
from distembed.states import block_memory

SCORES_BYTES = 2**16
"""Bytes of the scores of all sets, and of lists of neighbors."""

SETS_BYTES, SET_COPIES = 2**26, 100
"""Bytes of what is computed for words, and those of the sets over the bytes of their files. Twelve sets of 2.4 MB, the
largest of them compressed, took 284 MB."""

RANKING_COPIES = 4
"""Float64 copies of the cosines of a block of rows with all others, of which each is ranked by them."""

ROW_COPIES, DISTANCE_COPIES = 4, 2
"""Float64 copies of the rows of both tables that a method holds, and of the distances of hidden rows to known ones with
their order."""


def ranking_bytes(n_first: int, n_second: int) -> int:
    """Return the bytes of a task of `score_retrieval`, which takes a block of the second rows."""
    return min(block_memory(), RANKING_COPIES * 8 * n_first * n_second)


def scoring_cost(space_bytes: int, sets_bytes: int) -> Cost:
    """Return what scoring a space takes, which is read twice and held as it is and with rows of unit length.

    `sets_bytes` are those of the files of all sets. Of a sparse space the rows of tested words hold nine tenths, and
    sets of antonyms ask for all rows.
    """
    return Cost(
        1,
        2 * space_bytes + sets_bytes,
        SCORES_BYTES,
        2 * space_bytes + SETS_BYTES + SET_COPIES * sets_bytes,
    )
