"""How the words of a text spread as it grows: from the counts of a sample to those of the whole.

Notation: V is the number of distinct words of the sample, V1 of those that occur once, t the length of the whole over
that of the sample, and beta the exponent of Heaps' law. Where the words of rank r have counts that fall as
r^(-1 / beta), the whole has V t^beta distinct words (Heaps, 1978), V1 / V tends to beta (Karlin, 1967; the growth
rate of Baayen, 2001), and the share of the words that occur at least c times is
Gamma(c - beta) / (Gamma(1 - beta) Gamma(c)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

LARGEST_EXPONENT = 0.999
"""A sample of nothing but new words would have the exponent 1, at which the shares are not defined."""

SMALLEST_EXPONENT = 0.02
"""A sample in which every word occurs twice would have the exponent 0, at which counts fall without end."""


def heaps_exponent(counts: NDArray[np.int64]) -> float:
    """Return the exponent by which the number of distinct words of a text grows with its length.

    Parameters
    ----------
    counts : int64 array (words,)
        Occurrences of each word in a sample, or the number of documents that hold it; zeros are left out.

    Returns
    -------
    float between 0 and 1: the share of the words that occur once.
    """
    n_types = np.count_nonzero(counts)
    return min(LARGEST_EXPONENT, np.count_nonzero(counts == 1) / n_types) if n_types else 0.0


def n_types(counts: NDArray[np.int64], growth: float) -> int:
    """Estimate the distinct words of a text that is `growth` times as long as a sample, or a part of it."""
    return round(np.count_nonzero(counts) * growth ** heaps_exponent(counts))


def n_types_at_least(counts: NDArray[np.int64], least: int, growth: float) -> int:
    """Estimate how many words occur at least `least` times in a text of which a sample is known.

    Words whose count in the sample is `least / growth` or more are counted; what lies between that number and the next
    whole one, and the words that the sample has not seen, are made up for by the power law of the sample.

    Parameters
    ----------
    counts : int64 array (words,)
        Occurrences of each word in the sample.
    least : int
        The smallest count that is wanted in the whole text.
    growth : float
        The length of the whole text over that of the sample, 1 or more. At 1 the answer is exact.
    """
    if growth <= 1:
        return int(np.count_nonzero(counts >= least))
    seen, beta = max(1, round(least / growth)), heaps_exponent(counts)
    change = beta * np.log(growth) + _log_share(least, beta) - _log_share(seen, beta)
    return round(np.count_nonzero(counts >= seen) * float(np.exp(change)))


def _log_share(least: int, beta: float) -> float:
    """Return the logarithm of the share of words that occur at least so often, up to a constant."""
    return float(gammaln(least - beta) - gammaln(least))


def expected_counts(counts: NDArray[np.int64], n_words: int, growth: float) -> NDArray[np.float64]:
    """Return the expected counts of the most frequent words of a text of which a sample is known.

    Parameters
    ----------
    counts : int64 array (words,)
        Occurrences of each word in the sample.
    n_words : int
        How many of the most frequent words of the whole text are wanted.
    growth : float
        The length of the whole text over that of the sample.

    Returns
    -------
    float64 array (n_words,), falling; words that the sample has not seen continue its power law, and are at least 1.
    """
    scaled: NDArray[np.float64] = np.sort(counts[counts > 0])[::-1].astype(np.float64) * max(growth, 1.0)
    if n_words <= len(scaled) or not len(scaled):
        return scaled[:n_words]
    beta = max(heaps_exponent(counts), SMALLEST_EXPONENT)
    ranks = np.arange(len(scaled) + 1, n_words + 1)
    tail = scaled[-1] * np.exp(np.log(len(scaled) / ranks) / beta)
    return np.concatenate([scaled, np.maximum(tail, 1.0)])


def mean_window(lengths: NDArray[np.int64], window: int) -> float:
    """Return how many tokens precede a token within so many places, on average over all tokens.

    Parameters
    ----------
    lengths : int64 array (segments,)
        Tokens of each stretch of text that a window does not leave: a document, a line or a sentence.
    window : int
        Places that a window spans.

    Returns
    -------
    float: `window` where all segments are long, less where they are short, 0 where there is none.
    """
    reach = (
        np.minimum(lengths - 1, window).clip(0).astype(float)
    )  # token k of a segment has min(k, window) before it
    total = lengths.sum(dtype=float)
    before = reach * (reach + 1) / 2 + (lengths - 1 - reach).clip(0) * window
    return float(before.sum() / total) if total else 0.0
