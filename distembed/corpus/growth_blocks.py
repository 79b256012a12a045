"""How the words and the pairs of a text spread as it grows: from those of a sample to those of the whole.

Notation: V is the number of distinct words of the sample, V1 of those that one draw found, t the length of the whole
over that of the sample, and beta the exponent of Heaps' law. Where the words of rank r have counts that fall as
r^(-1 / beta), the whole has V t^beta distinct words (Heaps, 1978), V1 / V tends to beta (Karlin, 1967; the growth
rate of Baayen, 2001), and the share of the words that are drawn at least c times is
Gamma(c - beta) / (Gamma(1 - beta) Gamma(c)). A draw is a document where there are enough of them: a rare word comes
several times in the document that it comes in (Church and Gale, 1995), so that the share of the words that occur once
says less of the words to come than the share of those that one document holds.
"""

from __future__ import annotations

from math import lgamma
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from distembed.dtypes import Float64s, Int64s

LARGEST_EXPONENT = 0.999
"""A sample of nothing but new words would have the exponent 1, at which the shares are not defined."""

SMALLEST_EXPONENT = 0.02
"""A sample in which every word is drawn twice would have the exponent 0, at which counts fall without end."""

MANY_DOCUMENTS = 100
"""Fewer documents than this are no sample of documents: their tokens are the draws."""

RARE_DOCUMENTS = 5
"""A word that no more documents of a sample hold is a rare one."""


class SpreadLaw(NamedTuple):
    """The law by which rare words spread."""

    exponent: float
    """The exponent by which the number of distinct words grows with the text, from 0 to 1."""
    burst: float = 1.0
    """The occurrences of a rare word per draw."""


def spread_law(counts: Int64s, document_counts: Int64s, n_documents: int) -> SpreadLaw:
    """Return the law by which the rare words of a sample spread.

    Parameters
    ----------
    counts, document_counts : int64 arrays (words,)
        Occurrences of each word in the sample, and the number of documents that hold it.
    n_documents : int
        Documents of the sample. Where there are few of them, a token is a draw, otherwise a document.
    """
    if n_documents < MANY_DOCUMENTS:
        return SpreadLaw(heaps_exponent(counts))
    rare = document_counts <= RARE_DOCUMENTS
    draws = document_counts[rare].sum()
    return SpreadLaw(heaps_exponent(document_counts), float(counts[rare].sum() / draws) if draws else 1.0)


def heaps_exponent(draws: Int64s) -> float:
    """Return the exponent by which the number of distinct words of a text grows with its length.

    Parameters
    ----------
    draws : int64 array (words,)
        Occurrences of each word in a sample, or the number of documents that hold it; zeros are left out.

    Returns
    -------
    float between 0 and 1: the share of the words that were drawn once.
    """
    n_types = np.count_nonzero(draws)
    return min(LARGEST_EXPONENT, np.count_nonzero(draws == 1) / n_types) if n_types else 0.0


def n_types(counts: Int64s, growth: float, law: SpreadLaw) -> int:
    """Estimate the distinct words of a text that is `growth` times as long as a sample, or a part of it."""
    return round(np.count_nonzero(counts) * growth**law.exponent)


def n_types_at_least(counts: Int64s, least: int, growth: float, law: SpreadLaw) -> int:
    """Estimate how many words occur at least `least` times in a text of which a sample is known.

    Words whose count in the sample is `least / growth` or more are counted; what lies between that number and the next
    whole one, and the words that the sample has not seen, are made up for by the law of the sample.

    Parameters
    ----------
    counts : int64 array (words,)
        Occurrences of each word in the sample.
    least : int
        The smallest count that is wanted in the whole text.
    growth : float
        The length of the whole text over that of the sample, 1 or more. At 1 the answer is exact.
    law : SpreadLaw
        The law of the sample.
    """
    if growth <= 1:
        return int(np.count_nonzero(counts >= least))
    seen = max(1, round(least / growth))
    change = law.exponent * np.log(growth) + _log_share(least, law) - _log_share(seen, law)
    return round(np.count_nonzero(counts >= seen) * float(np.exp(change)))


def _log_share(least: int, law: SpreadLaw) -> float:
    """Return the logarithm of the share of words that occur at least so often, up to a constant."""
    draws = max(1.0, least / law.burst)
    return lgamma(draws - law.exponent) - lgamma(draws)


def expected_counts(counts: Int64s, n_words: int, growth: float, law: SpreadLaw) -> Float64s:
    """Return the expected counts of the most frequent words of a text of which a sample is known.

    Parameters
    ----------
    counts : int64 array (words,)
        Occurrences of each word in the sample.
    n_words : int
        How many of the most frequent words of the whole text are wanted.
    growth : float
        The length of the whole text over that of the sample.
    law : SpreadLaw
        The law of the sample.

    Returns
    -------
    float64 array (n_words,), falling, and at least 1. The counts of rare words, seen or not, are those that the law
    gives their ranks: the words that a sample holds once are those that it happens to hold.
    """
    scaled: Float64s = np.sort(counts[counts > 0])[::-1].astype(np.float64) * max(growth, 1.0)
    if (growth <= 1 and n_words <= len(scaled)) or not len(scaled):
        return scaled[:n_words]
    frequent = scaled[: np.count_nonzero(counts > RARE_DOCUMENTS * law.burst)][:n_words]
    ranks = np.arange(len(frequent) + 1, n_words + 1)
    beta = max(law.exponent, SMALLEST_EXPONENT)
    log_draws = (np.log(len(scaled) / ranks) - lgamma(1 - beta)) / beta
    rare = law.burst * max(growth, 1.0) * np.exp(log_draws)
    return np.concatenate([frequent, np.clip(rare, 1.0, frequent[-1] if len(frequent) else None)])


# --- pairs -----------------------------------------------------------------------------------------------------


class Repetition(NamedTuple):
    """How far the rates of the pairs of a text are spread around those of words that are drawn independently.

    A text repeats itself: some pairs come much more often than their words let expect, and most hardly ever. Their
    rates are taken to be those of independent words times a gamma variable of mean 1 and variance exp(`spread`) - 1, so
    that the counts are negative binomial (Church and Gale, 1995, of words in documents). The spread is that of a text
    of `n_tokens` tokens, and grows by `growth`, which is not below 0, where a text becomes e times as long.
    """

    spread: float
    n_tokens: float
    growth: float

    def at(self, n_tokens: float) -> float:
        """Return the spread in a text of so many tokens."""
        return max(0.0, self.spread + self.growth * float(np.log(max(n_tokens, 1.0) / self.n_tokens)))


LARGEST_SPREAD = 10.0
"""A text in which all pairs are repetitions would have a spread without end."""


def expected_pairs(
    counts: Float64s, window: float, *, n_tokens: float, spread: float = 0.0, n_bins: int = 200
) -> int:
    """Estimate the distinct ordered pairs within `window` places, of words that have few bins by their counts.

    With the rate r = window c_i c_j / N, N being all tokens, of the vocabulary or not, P(pair i, j is seen) is
    1 - exp(-r) where words are drawn independently, and 1 - (1 + r / k)^-k where the rates have a `spread`
    (`Repetition`), k being the shape 1 / (exp(spread) - 1) of its gamma distribution.
    """
    counts = np.sort(np.asarray(counts, dtype=float))[::-1]
    if not counts.sum() > 0:
        return 0
    edges = np.unique(np.geomspace(1, len(counts) + 1, n_bins + 1).astype(int)) - 1
    widths = np.diff(edges)
    means = np.add.reduceat(counts, edges[:-1]) / widths
    rates = window / max(n_tokens, counts.sum()) * means[:, None] * means[None, :]
    if spread > 0:
        shape = 1 / np.expm1(spread)
        rates = shape * np.log1p(rates / shape)
    return int(widths @ -np.expm1(-rates) @ widths)


def spread_of(n_pairs: float, counts: Float64s, window: float, *, n_tokens: float) -> float:
    """Return the spread with which so many distinct pairs are expected, by bisection; 0 where no spread is needed."""
    least, most = 0.0, LARGEST_SPREAD
    if expected_pairs(counts, window, n_tokens=n_tokens) <= n_pairs:
        return 0.0
    for _ in range(20):
        middle = (least + most) / 2
        found = expected_pairs(counts, window, n_tokens=n_tokens, spread=middle)
        least, most = (middle, most) if found > n_pairs else (least, middle)
    return most


def mean_window(lengths: Int64s, window: int) -> float:
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


# --- repetition --------------------------------------------------------------------------------------------

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
    table: Int64s,
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
