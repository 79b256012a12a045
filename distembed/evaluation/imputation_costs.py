"""What judging imputed vectors takes in memory and on disk: methods that know no graph, ranks, votes of neighbors."""

from __future__ import annotations

from distembed.costs import Cost
from distembed.evaluation.costs import ranking_bytes
from distembed.evaluation.imputation import NEIGHBOR_COUNTS, QUERIES_AT_ONCE

ROW_COPIES, DISTANCE_COPIES = 4, 2
"""Float64 copies of the rows of both tables that a method holds, and of the distances of hidden rows to known ones with
their order."""

LABEL_COPIES = 6
"""Copies of the table and the vectors in memory: as read, in float64, and those of the names that are known."""

VOTE_BYTES = 9
"""Bytes of a pair of neighbors that vote: whether their labels are equal, and the share of one for the other's."""

NAME_BYTES = 64
"""Bytes of a name in the table of what a method found: the name, its fold, and four numbers."""


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
