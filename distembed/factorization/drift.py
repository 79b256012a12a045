"""How far words moved between two sets of vectors, and what it takes to know."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.costs import Cost
from distembed.execution import one_blas_thread
from distembed.factorization import drift_blocks
from distembed.linalg.blocks import directions

Floats = NDArray[np.floating]

COMPARED_WORDS, COMPARED_NEIGHBORS = 1000, 10
"""The most frequent words whose nearest words are compared, and how many of these."""

ROW_BYTES = 40
"""Bytes of a word in the table of the drift."""


class Drift(NamedTuple):
    """How far each word moved.

    Attributes
    ----------
    cosines : float64 array (n,)
        Of its vector with the one before.
    neighbors_kept : float64 array (n,)
        The share of its nearest words that is the same; NaN where it was not asked.
    """

    cosines: NDArray[np.float64]
    neighbors_kept: NDArray[np.float64]

    @property
    def share_kept(self) -> float:
        """The mean share of the nearest words that is the same."""
        return float(np.nanmean(self.neighbors_kept)) if len(self.neighbors_kept) else 1.0


def drift_of(before: Floats, after: Floats, *, is_turned: bool) -> Drift:
    """Compare two sets of vectors of the same words, frequent words first.

    Parameters
    ----------
    before, after : arrays (n, d)
    is_turned : bool
        Whether one set may be a rotation of the other, which is then undone.
    """
    with one_blas_thread():
        first, second = directions(np.asarray(before, np.float64)), directions(np.asarray(after, np.float64))
        turned = first @ drift_blocks.rotation(first, second) if is_turned else first
        asked = drift_blocks.neighbors_kept(first, second, COMPARED_WORDS, COMPARED_NEIGHBORS)
    kept = np.full(len(first), np.nan)
    kept[: len(asked)] = asked
    return Drift(drift_blocks.cosines(turned, second), kept)


def drift_cost(n_words: int, n_components: int) -> Cost:
    """Return what comparing two sets of vectors takes, all of which are in memory, with the cosines of some words."""
    n_values = n_words * n_components
    rows = 8 * min(drift_blocks.ROWS_AT_A_TIME, n_words) * n_words
    return Cost(1, 8 * n_values, ROW_BYTES * n_words, 32 * n_values + 2 * rows, exact=False)
