"""How far words moved between two sets of vectors, of which one may be rotated: arrays in, arrays out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]

ROWS_AT_A_TIME = 256
"""Words whose cosines with all others are in memory together."""


def rotation(before: Floats, after: Floats) -> NDArray[np.float64]:
    """Return the orthogonal matrix that brings directions nearest to others (Schönemann 1966).

    Parameters
    ----------
    before, after : arrays (n, d)
        Directions of the same words.
    """
    left, _, right = np.linalg.svd(before.T @ after)
    return np.asarray(left @ right)


def cosines(before: Floats, after: Floats) -> NDArray[np.float64]:
    """Return the cosine of each row of directions with the same row of others."""
    return np.asarray(np.einsum("ij,ij->i", before, after))


def neighbors_kept(before: Floats, after: Floats, n_words: int, n_neighbors: int) -> NDArray[np.float64]:
    """Return which share of the nearest words of each of the first words is the same.

    Parameters
    ----------
    before, after : arrays (n, d)
        Directions of the same words.
    n_words, n_neighbors : int
        The words that are asked about, and their nearest that are compared; fewer where there are fewer.

    Returns
    -------
    float64 array (n_words,)
    """
    n = min(n_neighbors, len(before) - 1)
    shares = np.ones(min(n_words, len(before)))
    for first in range(0, len(shares) if n > 0 else 0, ROWS_AT_A_TIME):
        rows = slice(first, min(first + ROWS_AT_A_TIME, len(shares)))
        near = [_nearest(side, rows, n) for side in (before, after)]
        shares[rows] = [len({*one} & {*other}) / n for one, other in zip(*near, strict=True)]
    return shares


def _nearest(vectors: Floats, rows: slice, n: int) -> list[list[int]]:
    found = vectors[rows] @ vectors.T
    found[np.arange(len(found)), np.arange(rows.start, rows.stop)] = -np.inf
    nearest: list[list[int]] = np.argpartition(-found, n - 1, axis=1)[:, :n].tolist()
    return nearest
