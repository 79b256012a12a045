"""Counting written plainly: two loops over the words of each document, exact fractions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np


def weight(distance: int, window: int, weighting: str) -> Fraction:
    return {
        "flat": Fraction(1),
        "harmonic": Fraction(1, distance),
        "ramp": Fraction(window + 1 - distance),
        "dynamic": Fraction(window + 1 - distance, window),
    }[weighting]


def segments(document: Sequence[str | None]) -> Iterable[list[str]]:
    """Split a document at its borders (None)."""
    segment: list[str] = []
    for word in [*document, None]:
        if word is None:
            yield segment
            segment = []
        else:
            segment.append(word)


def cooccurrences(
    documents: Iterable[Sequence[str | None]],
    words: Sequence[str],
    *,
    window: int = 5,
    direction: str = "symmetric",
    weighting: str = "flat",
    oov: str = "keep_position",
) -> np.ndarray:
    """Return the matrix of exact fractions (dtype object)."""
    number = {word: i for i, word in enumerate(words)}
    left = np.full((len(words), len(words)), Fraction(0), object)
    for document in documents:
        for segment in segments(document):
            text = [word for word in segment if oov == "keep_position" or word in number]
            for place, word in enumerate(text):
                for distance in range(1, window + 1):
                    if place >= distance and word in number and text[place - distance] in number:
                        i, j = number[text[place - distance]], number[word]
                        left[i, j] += weight(distance, window, weighting)
    if direction == "symmetric":
        return left + left.T
    return left.T if direction == "right" else left


def document_terms(documents: Iterable[Sequence[str | None]], words: Sequence[str]) -> np.ndarray:
    return np.array([[list(document).count(word) for word in words] for document in documents])
