"""What judging imputed vectors takes in memory and on disk: methods that know no graph, and votes of neighbors."""

from __future__ import annotations

from distembed.costs import Cost
from distembed.evaluation.imputation import QUERIES_AT_ONCE

LINEAR_COPIES = 6
"""Float64 copies of the rows of both tables that the fit of a linear map holds."""

KERNEL_COPIES = 4
"""Copies of a kernel, or of the distances of hidden rows to known ones, that a method holds."""

LABEL_COPIES = 6
"""Copies of the table and the vectors in memory: as read, in float64, and those of the names that are known."""


def baseline_cost(n_fitted: int, n_hidden: int, n_columns: int, n_components: int, *, kernel: bool) -> Cost:
    """Return what a method without a graph takes, of which the vectors of the hidden names are kept.

    Parameters
    ----------
    n_fitted, n_hidden : names with a known vector, and names to find
    n_columns, n_components : of the table, and of the vectors
    kernel : whether the method holds a kernel of all pairs of known names, else distances from the hidden ones
    """
    rows = (n_fitted + n_hidden) * (n_columns + n_components)
    pairs = n_fitted * max(n_hidden, n_fitted if kernel else 0)
    held = 8 * (LINEAR_COPIES * rows + KERNEL_COPIES * pairs)
    return Cost(1, 8 * rows, 4 * n_hidden * n_components, 0, held)


def labels_cost(n_names: int, read_bytes: int) -> Cost:
    """Return what `label_accuracies` takes for names whose rows have so many bytes, a few queries at a time."""
    return Cost(1, read_bytes, 0, 3 * 8 * QUERIES_AT_ONCE * n_names, LABEL_COPIES * read_bytes)
