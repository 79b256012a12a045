"""How much each column of a table decides: a column that outweighs all others is named."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distembed.formats.tables import Floats
from distembed.linalg.blocks import directions
from distembed.neighbors.distances import Metric
from distembed.pipeline.tables.rows import Domain


def column_shares(matrix: Floats, *, metric: Metric) -> NDArray[np.float64]:
    """Return the share of each column in the squared distances between rows, all pairs together, (d,).

    It is that of the column's variance in the sum of all variances; zeros where all rows are equal.
    """
    rows = directions(np.asarray(matrix, np.float64)) if metric == "cosine" else matrix
    variances = rows.var(axis=0, dtype=np.float64)
    total = variances.sum()
    return np.asarray(variances / total if total > 0 else np.zeros_like(variances))


MOST = 0.6
"""Share of the distance above which a column alone decides which names are neighbors; half would be one of two."""


NEARLY_ALL = 0.9
"""Share of the length of all known vectors above which a column is hardly a component of them."""


def warn_of_one_column(domain: Domain, *, metric: Metric) -> str:
    """Return what to say of a column that carries most of the distance between names, "" where none does."""
    largest, share = _most(column_shares(domain.matrix, metric=metric), MOST)
    if not share:
        return ""
    return (
        f"the column {domain.columns[largest]!r} carries {share:.1%} of the distance between names, and all "
        f"{len(domain.columns) - 1} others the rest: set domain.standardize = true, or leave it out with domain.drop"
    )


def warn_of_one_component(known: Domain) -> str:
    """Return what to say of a column of known vectors that is larger than all others, "" where none is."""
    squares = (np.asarray(known.matrix, np.float64) ** 2).sum(axis=0)
    largest, share = _most(squares / max(squares.sum(), np.finfo(float).tiny), NEARLY_ALL)
    if not share:
        return ""
    return (
        f"warning: the column {known.columns[largest]!r} holds {share:.1%} of the length of the known vectors: if it "
        "is no component of them, leave it out with known.drop"
    )


def _most(shares: NDArray[np.float64], limit: float) -> tuple[int, float]:
    """Return the column of the largest share, and its share, 0 where it is not above the limit."""
    largest = int(shares.argmax())
    return largest, float(shares[largest]) if len(shares) > 1 and shares[largest] > limit else 0.0
