"""How far the words of two sets of vectors lie apart, after a rotation where each has axes of its own."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.execution import one_blas_thread
from distembed.linalg.blocks import directions
from distembed.manifold.alignment_blocks import procrustes_map
from distembed.vectors import WordVectors

AxesMap = Literal["orthogonal", "none"]
"""How the vectors of one side come into the space of the other."""

Float64s = NDArray[np.float64]

FEWEST_WORDS = 2
"""Shared words, at least."""


class ComparedVectors(NamedTuple):
    """Two sets of vectors on the words that they share.

    Attributes
    ----------
    words : list of str
        The shared words, in the order of the first set.
    distances : float64 array (words,)
        1 - cosine; NaN where a vector is zero.
    first, second : WordVectors
        All words of both sides, centered and of unit length, those of the first in the space of the second.
    """

    words: list[str]
    distances: Float64s
    first: WordVectors
    second: WordVectors


def compare_vectors(
    first: WordVectors, second: WordVectors, *, axes: AxesMap = "orthogonal"
) -> ComparedVectors:
    """Compare the vectors of words that two sets share.

    Parameters
    ----------
    first, second : WordVectors
    axes : {"orthogonal", "none"}
        "orthogonal" centers both, scales all vectors to unit length and turns the first by the orthogonal map that
        brings the shared words nearest to the second; "none" compares them as they are, which only vectors that were
        solved against one core allow.

    Returns
    -------
    ComparedVectors

    Raises
    ------
    ValueError
        If fewer words are shared than an orthogonal map needs, or vectors that are not turned differ in length.

    References
    ----------
    Hamilton, Leskovec & Jurafsky, Diachronic word embeddings reveal statistical laws of semantic change, ACL 2016.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> from distembed.manifold.compared_vectors import compare_vectors
    >>> rows = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
    >>> words = [f"w{row}" for row in range(20)]
    >>> turned = de.WordVectors(words, rows[:, [2, 0, 1]])
    >>> bool(compare_vectors(de.WordVectors(words, rows), turned).distances.max() < 1e-6)
    True
    """
    words = [word for word in first.words if word in second]
    width = min(first.vectors.shape[1], second.vectors.shape[1])
    needed = width if axes == "orthogonal" else FEWEST_WORDS
    if len(words) < needed:
        raise ValueError(
            f"the two sides share {len(words):,} words, and the comparison needs {needed:,}: are they of one language, "
            "and written in one case?"
        )
    if axes == "none" and first.vectors.shape[1] != second.vectors.shape[1]:
        raise ValueError(
            f"the vectors have {first.vectors.shape[1]} and {second.vectors.shape[1]} dimensions, so they have no axes "
            "in common: leave out the option, or choose the orthogonal map"
        )
    sides = [_unit(side.vectors, centered=axes == "orthogonal") for side in (first, second)]
    if axes == "orthogonal":
        places = [side.index(words) for side in (first, second)]
        with one_blas_thread():
            turn = procrustes_map(sides[0][places[0]], sides[1][places[1]])
            sides[0] = sides[0] @ turn
    one, other = (
        WordVectors(side.words, rows.astype(np.float32))
        for side, rows in zip((first, second), sides, strict=True)
    )
    return ComparedVectors(words, _distances(one[words], other[words]), one, other)


def _unit(vectors: NDArray[np.float32], *, centered: bool) -> Float64s:
    rows = vectors.astype(np.float64)
    if centered:
        rows = np.where(rows.any(axis=1, keepdims=True), rows - rows.mean(axis=0), 0.0)
    return directions(rows)


def _distances(one: NDArray[np.float32], other: NDArray[np.float32]) -> Float64s:
    first, second = _unit(one, centered=False), _unit(other, centered=False)
    is_known = first.any(axis=1) & second.any(axis=1)
    return np.where(is_known, 1 - (first * second).sum(axis=1), np.nan)
