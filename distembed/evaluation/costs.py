"""What scoring a space takes in memory and on disk."""

from __future__ import annotations

from distembed.costs import Cost

SCORES_BYTES = 2**16
"""Bytes of the scores of all sets, and of lists of neighbors."""

SETS_BYTES = 2**26
"""Bytes of the sets and of what is computed for their words."""


def scoring_cost(space_bytes: int) -> Cost:
    """Return what scoring a space takes, which is read twice and held as it is and with rows of unit length.

    Of a sparse space the rows of tested words hold nine tenths, and sets of antonyms ask for all rows.
    """
    return Cost(1, 2 * space_bytes, SCORES_BYTES, 2 * space_bytes + SETS_BYTES)
