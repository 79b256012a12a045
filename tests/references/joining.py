"""Joining written plainly: word by word, with dictionaries, and cosine matrices in full."""

from __future__ import annotations

import numpy as np


def directions(view):
    """Return the unit vector of each word of a view {word: vector} from the mean of its vectors that are not zero."""
    present = {word: np.asarray(vector, float) for word, vector in view.items() if np.any(vector)}
    mean = sum(present.values()) / max(len(present), 1)
    found = {}
    for word, vector in view.items():
        centered = present[word] - mean if word in present else np.zeros(len(vector))
        length = np.sqrt(np.sum(centered**2))
        found[word] = centered / length if length > 0 else centered * 0
    return found


def join(views, weights, words):
    """Return the joined vector of each of the words, zeros where a view lacks it."""
    widths = [len(next(iter(view.values()))) for view in views]
    known = [{word: view[word] for word in words if word in view} for view in views]
    units = [directions(view) for view in known]
    return {
        word: np.concatenate(
            [
                weight * unit.get(word, np.zeros(width))
                for unit, weight, width in zip(units, weights, widths, strict=True)
            ]
        )
        for word in words
    }


def nearest_of_rank(rows, rank):
    """Return the matrix of a rank that is nearest to the inner products of rows."""
    left, values, _ = np.linalg.svd(np.asarray(rows, float), full_matrices=False)
    return (left[:, :rank] * values[:rank] ** 2) @ left[:, :rank].T
