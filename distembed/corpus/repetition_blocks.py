"""How much a sample repeats its pairs of words, counted by a share of them that a hash chooses."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from distembed.corpus.growth_blocks import Repetition, expected_pairs, mean_window

COUNTED_PAIRS = 2**18
"""Pairs that are compared to count the distinct ones; of more, a share that a hash chooses, within two per mille."""

BORDER = -2
"""The mark of a place that no window crosses, as in `distembed.counting.blocks`."""

SUBSET, STRETCHES = 4, 32
"""A sample is compared with a fourth of it, made of every fourth of so many stretches of its text."""


def repetition_of(
    stream: NDArray[np.integer], window: int, n_words: int, *, mirrored: bool = False
) -> Repetition:
    """Measure how much a text repeats its pairs, and how this changes as it grows.

    Parameters
    ----------
    stream : int array (tokens,)
        The word of each token, from 0 to `n_words` - 1; -2 at the borders that no window crosses, and -1 for a token
        that takes a place but is no word.
    window : int
        Places that a window spans.
    n_words : int
    mirrored : bool
        Whether a window spans the places after a token, too.
    """
    place = np.arange(len(stream)) * STRETCHES // max(1, len(stream))
    part = stream[place % SUBSET == 0]
    if mirrored:
        stream, part = (np.concatenate([text, [BORDER], text[::-1]]) for text in (stream, part))
    whole, less = (_share_of_pairs(text, window, n_words) for text in (stream, part))
    n_tokens = max(1.0, np.count_nonzero(stream != BORDER) / (1 + mirrored))
    if not whole or not less:
        return Repetition(1.0, n_tokens, 0.0)
    return Repetition(whole, n_tokens, min(0.0, float(np.log(whole / less) / np.log(SUBSET))))


def _share_of_pairs(stream: NDArray[np.integer], window: int, n_words: int) -> float:
    """Return the distinct pairs of a text over those of words that are drawn independently, 0 where there are none."""
    lengths = np.diff(np.flatnonzero(np.concatenate([[True], stream == BORDER, [True]]))) - 1
    counts = np.bincount(stream[stream >= 0], minlength=n_words).astype(float)
    reach = mean_window(lengths[lengths > 0], window)
    expected = expected_pairs(counts, reach, n_tokens=float(lengths.sum()))
    return n_distinct_pairs(stream, window, n_words) / expected if expected else 0.0


def n_distinct_pairs(stream: NDArray[np.integer], window: int, n_words: int) -> int:
    """Count the distinct ordered pairs of words within so many places, by a share of them where they are very many."""
    one_of = max(1, window * len(stream) // COUNTED_PAIRS)
    room = np.empty(len(stream), np.int64)
    found = [np.zeros(0, np.int64)]
    for distance in range(1, min(window, len(stream) - 1) + 1):
        n = _chosen_pairs(stream, distance, n_words, one_of, room)
        found.append(room[:n].copy())
    return one_of * len(np.unique(np.concatenate(found)))


@njit(cache=True, nogil=True)
def _chosen_pairs(
    stream: NDArray[np.integer], distance: int, n_words: int, one_of: int, room: NDArray[np.int64]
) -> int:
    """Write the pairs that the upper bits of the golden ratio's product choose (Knuth's hash); return their number."""
    n, border = 0, -1
    for place in range(len(stream)):
        right = stream[place]
        if right == BORDER:
            border = place
        left = stream[place - distance] if place - distance > border else BORDER
        if left >= 0 and right >= 0:
            pair = np.int64(left) * n_words + right
            if ((np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) % np.uint64(one_of) == 0:
                room[n] = pair
                n += 1
    return n
