"""Mathematics of the Word-Embedding Association Test (WEAT), Caliskan, Bryson and Narayanan (2017).

Letters, as in the paper: X and Y are two sets of target words, A and B two sets of attribute words; s(w, A, B) is the
mean cosine of w with A minus that with B.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float64s = NDArray[np.float64]

ROUNDING = 1e-12
"""Sums nearer than this are equal: sums of the same numbers in another order differ by less."""
SAMPLES_AT_ONCE = 2**12


class Permutations(NamedTuple):
    """The p-value, the number of partitions that were looked at, and whether they are all there are."""

    p_value: float
    n_partitions: int
    exact: bool


def effect_size(x: Float64s, y: Float64s) -> float:
    r"""Return the effect size of two groups of associations, NaN where all are equal.

    .. math:: d = \frac{\mathrm{mean}_{x \in X} s(x, A, B) - \mathrm{mean}_{y \in Y} s(y, A, B)}
                       {\mathrm{std}_{w \in X \cup Y} s(w, A, B)}

    The standard deviation is that of the population (divisor n), as in the package `wefe`.

    Parameters
    ----------
    x, y : float64 (n,), float64 (m,)
        s(w, A, B) of the words of X and of Y.
    """
    spread = np.concatenate([x, y]).std()
    return float((x.mean() - y.mean()) / spread) if spread > ROUNDING else float("nan")


def permutation_test(
    x: Float64s, y: Float64s, *, max_exact: int, n_samples: int, generator: np.random.Generator
) -> Permutations:
    r"""Return the one-sided p-value of the difference of means under a random partition of X ∪ Y.

    .. math:: p = \Pr_i\left[ s(X_i, Y_i, A, B) \ge s(X, Y, A, B) \right]

    (X_i, Y_i) are the partitions into sets of the sizes of X and Y. Where there are at most `max_exact` of them, all
    are looked at; otherwise `n_samples` random ones and the observed one. The observed partition counts in either
    case, so that p is never 0.

    Parameters
    ----------
    x, y : float64 (n,), float64 (m,)
        s(w, A, B) of the words of X and of Y.
    max_exact : int
        The number of partitions up to which all are looked at.
    n_samples : int
        The number of random partitions where there are more.
    generator : numpy.random.Generator
        What draws them.
    """
    pooled = np.concatenate([x, y])
    exact = comb(pooled.size, x.size) <= max_exact
    sums = _all_sums(pooled, x.size) if exact else _sampled_sums(pooled, x.size, n_samples, generator)
    reached = np.count_nonzero(sums >= x.sum() - ROUNDING)
    n_seen = sums.size + (0 if exact else 1)
    return Permutations(float((reached + (0 if exact else 1)) / n_seen), n_seen, exact)


def _all_sums(pooled: Float64s, size: int) -> Float64s:
    """Return the sum of X_i of every partition, which orders them as the difference of means does."""
    chosen = np.array(list(combinations(range(pooled.size), size)), dtype=np.int64)
    return np.asarray(pooled[chosen].sum(axis=1))


def _sampled_sums(pooled: Float64s, size: int, n_samples: int, generator: np.random.Generator) -> Float64s:
    parts = []
    for start in range(0, n_samples, SAMPLES_AT_ONCE):
        order = generator.random((min(SAMPLES_AT_ONCE, n_samples - start), pooled.size))
        chosen = np.argpartition(order, size - 1, axis=1)[:, :size]
        parts.append(pooled[chosen].sum(axis=1))
    return np.concatenate(parts)
