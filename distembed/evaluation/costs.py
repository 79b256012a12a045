"""What scoring a space, and judging imputed vectors, takes in memory and on disk."""

from __future__ import annotations

from distembed.costs import Cost
from distembed.evaluation.imputation import NEIGHBOR_COUNTS, QUERIES_AT_ONCE
from distembed.linalg.chunks import BLOCK_MEMORY

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

LABEL_COPIES = 6
"""Copies of the table and the vectors in memory: as read, in float64, and those of the names that are known."""

VOTE_BYTES = 9
"""Bytes of a pair of neighbors that vote: whether their labels are equal, and the share of one for the other's."""

NAME_BYTES = 64
"""Bytes of a name in the table of what a method found: the name, its fold, and four numbers."""


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


def baseline_cost(n_fitted: int, n_hidden: int, *, n_columns: int, n_components: int) -> Cost:
    """Return what a method without a graph takes, of which the vectors of the hidden names are kept.

    Parameters
    ----------
    n_fitted, n_hidden : names with a known vector, and names to find
    n_columns, n_components : of the table, and of the vectors
    """
    rows = (n_fitted + n_hidden) * (n_columns + n_components)
    held = ROW_COPIES * rows + DISTANCE_COPIES * n_fitted * n_hidden
    return Cost(1, 8 * rows, 4 * n_hidden * n_components, 0, 8 * held)


def recovery_cost(n_methods: int, n_known: int, n_hidden: int, n_components: int) -> Cost:
    """Return what `recovery` takes for methods in turn: the known vectors by directions, and ranks by blocks."""
    held = 8 * ROW_COPIES * (n_known + n_hidden) * n_components + 3 * 8 * QUERIES_AT_ONCE * n_known
    names = n_methods * n_hidden
    return Cost(
        n_methods,
        4 * n_known * n_components,
        NAME_BYTES * names,
        ranking_bytes(n_known, n_hidden),
        held,
        graphs=n_methods,
    )


def labels_cost(n_names: int, read_bytes: int, max_names: int) -> Cost:
    """Return what `label_accuracies` takes for names whose rows have so many bytes, a few queries at a time."""
    votes = VOTE_BYTES * max(NEIGHBOR_COUNTS) ** 2 * min(n_names, max_names)
    task = 3 * 8 * QUERIES_AT_ONCE * n_names
    return Cost(1, read_bytes, 0, task, LABEL_COPIES * read_bytes + votes)
