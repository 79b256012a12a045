"""What scoring a space takes in memory and on disk."""

from __future__ import annotations

from distembed.costs import Cost
from distembed.linalg.chunks import BLOCK_MEMORY

SCORES_BYTES = 2**16
"""Bytes of the scores of all sets, and of lists of neighbors."""

SETS_BYTES, SET_COPIES = 2**26, 100
"""Bytes of what is computed for words, and those of the sets over the bytes of their files. Twelve sets of 2.4 MB, the
largest of them compressed, took 284 MB."""


RANKING_COPIES = 4
"""Float64 copies of the cosines of a block of rows with all others, of which each is ranked by them."""


def ranking_bytes(n_first: int, n_second: int) -> int:
    """Return the bytes of a task of `score_retrieval`, which takes a block of the second rows."""
    return min(BLOCK_MEMORY, RANKING_COPIES * 8 * n_first * n_second)


def sets_cost(sets_bytes: int) -> Cost:
    """Return what reading sets takes, of the bytes of their files."""
    return Cost(0, sets_bytes, 0, 0, SET_COPIES * sets_bytes)


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


def words_cost(n_words: int, n_components: int, *, table_bytes: int, sets_bytes: int, n_threads: int) -> Cost:
    """Return what scoring vectors of words takes, beside a table of n-grams, of the bytes of the files of all sets.

    The vectors are held twice, as blocks beside the whole and then with their rows of unit length. Sets ask about no
    more words than they have bytes.
    """
    vectors = 4 * n_words * n_components
    cosines = min(BLOCK_MEMORY, 4 * n_words * min(n_words, sets_bytes))
    task = 2 * vectors + n_threads * cosines + SETS_BYTES
    read, held = vectors + table_bytes + sets_bytes, table_bytes + SET_COPIES * sets_bytes
    return Cost(1, read, SCORES_BYTES, task, held)
