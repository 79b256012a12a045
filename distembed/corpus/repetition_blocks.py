"""How much a sample repeats its pairs of words, counted by a share of them that a hash chooses."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from distembed.corpus.growth_blocks import Repetition, mean_window, spread_of

COUNTED_PAIRS = 2**19
"""Pairs that are remembered to count the distinct ones; of more, a share that a hash chooses, within 0.3 %."""

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
    stretches = np.array_split(stream, STRETCHES)
    whole, less = (
        _spread(text, window, n_words, mirrored) for text in (stream, np.concatenate(stretches[::SUBSET]))
    )
    n_tokens = max(1.0, float(np.count_nonzero(stream != BORDER)))
    return Repetition(whole, n_tokens, max(0.0, (whole - less) / float(np.log(SUBSET))))


def _spread(stream: NDArray[np.integer], window: int, n_words: int, mirrored: bool) -> float:
    """Return the spread of the rates of a text's pairs (`Repetition`), 0 where it has none."""
    lengths = np.diff(np.flatnonzero(np.concatenate([[True], stream == BORDER, [True]]))) - 1
    counts = np.bincount(stream[stream >= 0], minlength=n_words).astype(float)
    reach = (1 + mirrored) * mean_window(lengths[lengths > 0], window)
    n_pairs = n_distinct_pairs(stream, window, n_words, mirrored=mirrored)
    return spread_of(n_pairs, counts, reach, n_tokens=float(lengths.sum())) if n_pairs else 0.0


def n_distinct_pairs(
    stream: NDArray[np.integer], window: int, n_words: int, *, mirrored: bool = False
) -> int:
    """Count the distinct ordered pairs of words within so many places, by a share of them where they are very many.

    A pair that is `mirrored` counts in both orders.
    """
    one_of = max(1, window * len(stream) // COUNTED_PAIRS)
    # Up to twice `COUNTED_PAIRS` are chosen, so that half of the table stays empty.
    table = np.full(1 << (4 * COUNTED_PAIRS - 1).bit_length(), -1, np.int64)
    return one_of * int(_distinct_pairs(stream, window, n_words, mirrored, (2**32 - 1) // one_of, table))


@njit(cache=True, nogil=True)
def _distinct_pairs(
    stream: NDArray[np.integer],
    window: int,
    n_words: int,
    mirrored: bool,
    limit: int,
    table: NDArray[np.int64],
) -> int:
    """Count the pairs whose hash is at most `limit`, of 32 bits.

    The hash is the upper half of two products, as in SplitMix64 (Steele et al., 2014). The table, of a power of two
    entries, all -1, remembers the pairs.
    """
    n, mask = 0, len(table) - 1
    for place in range(len(stream)):
        right = np.int64(stream[place])
        if right < 0:
            continue
        for before in range(place - 1, max(place - window, 0) - 1, -1):
            left = np.int64(stream[before])
            if left == BORDER:
                break
            if left < 0:
                continue
            pair = min(left, right) * n_words + max(left, right) if mirrored else left * n_words + right
            mixed = np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
            if np.int64(mixed >> np.uint64(32)) > limit:
                continue
            slot = np.int64(mixed >> np.uint64(8)) & mask
            while table[slot] != -1 and table[slot] != pair:
                slot = (slot + 1) & mask
            if table[slot] == -1:
                table[slot] = pair
                n += 2 if mirrored and left != right else 1
    return n
