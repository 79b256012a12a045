"""Mathematics of evaluation: analogies, ranks, purity, associations and priming, and terms of a similarity."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import stats
from scipy.sparse import csr_array

from distembed.dtypes import Float32s, Float64s, Floats, Int32s, Int64s, Mask

TIE = 1e-12
"""Cosines nearer than this are equal: products of unit rows in another order differ by less."""
COSMUL_EPSILON = np.float32(1e-3)  # Levy & Goldberg 2014, equation 4


class Answers(NamedTuple):
    """The best word of a block for each question and its score, by 3CosAdd and by 3CosMul."""

    add_score: Float32s
    add_row: Int64s
    mul_score: Float32s
    mul_row: Int64s


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _largest(values: Float32s) -> np.float32:
    largest = values[0]
    for value in values:
        largest = max(largest, value)
    return largest


@njit(cache=True, nogil=True)
def _first_of(values: Float32s, wanted: np.float32) -> int:
    i = 0
    while values[i] != wanted:
        i += 1
    return i


@njit(cache=True, nogil=True)
def _answer(scores: Float32s, excluded: Int64s, first: int) -> tuple[np.float32, int]:
    """Return the largest score outside the excluded rows, and its row; of equal ones the first."""
    for row in excluded:
        if first <= row < first + scores.size:
            scores[row - first] = -np.inf
    best = _largest(scores)
    return best, first + _first_of(scores, best)


@njit(cache=True, nogil=True)
def _scan(
    cosines: Float32s,
    questions: Int64s,
    excluded: Int64s,
    first: int,
    epsilon: np.float32,
) -> tuple[Float32s, Int64s, Float32s, Int64s]:
    n, one = len(questions), np.float32(1)
    add_score, mul_score = np.empty(n, np.float32), np.empty(n, np.float32)
    add_row, mul_row = np.empty(n, np.int64), np.empty(n, np.int64)
    scores = np.empty(cosines.shape[1], np.float32)
    for q in range(n):
        to_a, to_a2, to_b = cosines[questions[q, 0]], cosines[questions[q, 1]], cosines[questions[q, 2]]
        for j in range(scores.size):
            scores[j] = to_a2[j] - to_a[j] + to_b[j]
        add_score[q], add_row[q] = _answer(scores, excluded[q], first)
        for j in range(scores.size):
            scores[j] = (to_a2[j] + one) * (to_b[j] + one) / (to_a[j] + one + epsilon)
        mul_score[q], mul_row[q] = _answer(scores, excluded[q], first)
    return add_score, add_row, mul_score, mul_row


def best_answers(
    block: Float32s,
    asked: Float32s,
    questions: Int64s,
    excluded: Int64s,
    first: int,
) -> Answers:
    r"""Return the best answer to each analogy among the words of one block.

    .. math:: \cos(x, a_2) - \cos(x, a) + \cos(x, b), \qquad
              \frac{(\cos(x, a_2) + 1)(\cos(x, b) + 1)}{\cos(x, a) + 1 + 0.001}

    The cosines of the block with the distinct words asked about are one product, shared by all questions.

    Parameters
    ----------
    block
        Unit vectors of the candidates, float32 (m, d).
    asked
        Unit vectors of the distinct question words, float32 (u, d).
    questions
        a, a2, b as rows of `asked`, int64 (q, 3).
    excluded
        Rows of the whole vocabulary that may not answer, int64 (q, 3).
    first
        Row of the whole vocabulary of the block's first word.
    """
    return Answers(*_scan(asked @ block.T, questions, excluded, first, COSMUL_EPSILON))


def better(left: Answers, right: Answers) -> Answers:
    """Return for each question the better of two answers; of equal ones that of the smaller row."""
    add = _wins(right.add_score, right.add_row, left.add_score, left.add_row)
    mul = _wins(right.mul_score, right.mul_row, left.mul_score, left.mul_row)
    return Answers(
        np.where(add, right.add_score, left.add_score),
        np.where(add, right.add_row, left.add_row),
        np.where(mul, right.mul_score, left.mul_score),
        np.where(mul, right.mul_row, left.mul_row),
    )


def _wins(
    score: Float32s,
    row: Int64s,
    other: Float32s,
    other_row: Int64s,
) -> Mask:
    return (score > other) | ((score == other) & (row < other_row))


@njit(cache=True, nogil=True)
def _sparse_dots(indptr: Int64s, indices: Int32s, data: Float32s, pairs: Int64s) -> Float64s:
    dots = np.zeros(len(pairs))
    for i in range(len(pairs)):
        p, q = indptr[pairs[i, 0]], indptr[pairs[i, 1]]
        p_end, q_end = indptr[pairs[i, 0] + 1], indptr[pairs[i, 1] + 1]
        while p < p_end and q < q_end:
            if indices[p] < indices[q]:
                p += 1
            elif indices[p] > indices[q]:
                q += 1
            else:
                dots[i] += np.float64(data[p]) * np.float64(data[q])
                p += 1
                q += 1
    return dots


def sparse_dots(rows: csr_array, pairs: Int64s) -> Float64s:
    """Return the dot product of each pair of rows, float64 (p,); `rows` has sorted indices, pairs (p, 2)."""
    return _sparse_dots(rows.indptr.astype(np.int64), rows.indices, rows.data, pairs)


def spearman(x: Float64s, y: Float64s) -> Float64s:
    """Return Spearman's correlation along the last axis, ties with their mean rank; NaN for a constant.

    Equal to scipy.stats.spearmanr, for many samples at once.
    """
    return pearson(stats.rankdata(x, axis=-1), stats.rankdata(y, axis=-1))


def pearson(x: Float64s, y: Float64s) -> Float64s:
    """Return Pearson's correlation along the last axis; NaN for a constant.

    Equal to scipy.stats.pearsonr, for many samples at once.
    """
    dx = x - x.mean(axis=-1, keepdims=True)
    dy = y - y.mean(axis=-1, keepdims=True)
    spread = np.sqrt((dx * dx).sum(axis=-1) * (dy * dy).sum(axis=-1))
    covariance = (dx * dy).sum(axis=-1)
    return np.divide(covariance, spread, out=np.full_like(spread, np.nan), where=spread > 0)


def tied_ranks(cosines: Float64s, wanted: Int64s) -> Float64s:
    """Return the rank of one column in each row, float64 (r,): 1 is the largest, and equal ones count half.

    Parameters
    ----------
    cosines : (r, n), finite
    wanted : the column of each row, (r,)
    """
    above = cosines - np.take_along_axis(cosines, wanted[:, None], axis=1)
    equal = np.count_nonzero(np.abs(above) <= TIE, axis=1)
    return 1 + np.count_nonzero(above > TIE, axis=1) + (equal - 1) / 2


def in_majority(clusters: Int64s, classes: Int64s) -> Mask:
    r"""Return for each item whether its class is the most frequent of its cluster; both are int64 (n,) from 0.

    Their mean is the purity :math:`\frac1n \sum_k \max_j |cluster_k \cap class_j|`; among equally frequent
    classes of a cluster the first counts.
    """
    table = np.zeros((clusters.max() + 1, classes.max() + 1), dtype=np.int64)
    np.add.at(table, (clusters, classes), 1)
    return np.asarray(table.argmax(axis=1)[clusters] == classes)


def choose(cosines: Float64s) -> float:
    """Return 1 where the first cosine is the largest, 1/k where k tie for it, 0 where another is larger."""
    top = cosines.max()
    return float(1.0 / np.count_nonzero(cosines == top)) if cosines[0] == top else 0.0


# ---- associations and priming --------------------------------------------------------------------------------
#
# Letters: W_ab is the share of people who answer word b to cue a; S1, S2, S3 are the strengths of association of
# Jurgens and Stevens (2010), section 4.2, after Steyvers, Shiffrin and Nelson (2004).


def associative_strengths(cues: Int64s, targets: Int64s, shares: Float64s) -> dict[str, Float64s]:
    r"""Return the three strengths of each pair by their names, float64 (n,) each.

    .. math:: S1_{ab} = W_{ab}, \quad S2_{ab} = W_{ab} + W_{ba}, \quad
              S3_{ab} = S2_{ab} + \sum_c S2_{ac} S2_{cb}

    c runs over the cues. W is 0 where nobody answered and for words that were no cue. Only the listed pairs
    of S2² are computed.

    Parameters
    ----------
    cues, targets : int64 (n,)
        Words as numbers from 0; no pair twice.
    shares : float64 (n,)
        W of each pair.
    """
    n_words = int(max(cues.max(), targets.max())) + 1
    W = csr_array((shares, (cues, targets)), shape=(n_words, n_words))
    S2 = csr_array(W + W.T)
    through_cues = S2[:, np.unique(cues)]
    direct = np.asarray(S2[cues, targets]).ravel()
    indirect = np.asarray(through_cues[cues].multiply(through_cues[targets]).sum(axis=1)).ravel()
    return {"S1": shares, "S2": direct, "S3": direct + indirect}


def spearman_of_untied(strengths: Float64s, cosines: Float64s) -> float:
    r"""Return the rank correlation by which S-Space's first public code scored a cue; NaN for one pair.

    .. math:: 1 - \frac{6 \sum_{i < m} (i - r_i)^2}{n^3 - n}

    Of equal strengths only the last pair stays, m of n. i is its rank among the m strengths, r_i that of its cosine
    among all n, equal cosines having the last rank of them. As n counts the pairs that have vanished, ties alone
    bring the value near 1; without ties it is Spearman's correlation. See `chance_of_untied`.

    Parameters
    ----------
    strengths, cosines : float64 (n,)
        Of the targets of one cue.
    """
    n = strengths.size
    if n < 2:
        return math.nan
    distinct, from_the_end = np.unique(strengths[::-1], return_index=True)
    ranks = np.searchsorted(np.sort(cosines), cosines[n - 1 - from_the_end], side="right") - 1
    squares = ((np.arange(distinct.size) - ranks) ** 2).sum()
    return float(1 - 6 * squares / (n**3 - n))


def chance_of_untied(strengths: Float64s) -> float:
    r"""Return the mean of `spearman_of_untied` over all orders of different cosines; NaN for one pair.

    .. math:: E (i - r_i)^2 = \left(i - \frac{n-1}{2}\right)^2 + \frac{n^2 - 1}{12}
    """
    n, m = strengths.size, np.unique(strengths).size
    if n < 2:
        return math.nan
    squares = ((np.arange(m) - (n - 1) / 2) ** 2).sum() + m * (n * n - 1) / 12
    return float(1 - 6 * squares / (n**3 - n))


def unrelated_cosines(cosines: Float64s, target_ids: Int64s) -> Float64s:
    """Return for each prime its mean cosine with the targets of all other pairs, NaN if there are none.

    A pair with the same target word does not count as another pair. Padó and Lapata (2007), section 4.1.

    Parameters
    ----------
    cosines : array (m, m)
        The cosine of prime i with the target of pair j.
    target_ids : int64 array (m,)
        Equal numbers for equal target words.
    """
    other = target_ids[:, None] != target_ids
    n_others = other.sum(axis=1)
    sums = np.where(other, cosines, 0).sum(axis=1)
    return np.divide(sums, n_others, out=np.full(len(sums), np.nan), where=n_others > 0)


# ---- the similarity of two words as a sum over context words -------------------------------------------------
#
# Symbols: U the vectors of the contexts (c × d), u_j its rows; L = UᵀU; v, w the vectors of two words. The rows
# u_j L^-1/2 form a tight frame (sum_j L^-1/2 u_jᵀ u_j L^-1/2 = I), and so
#
#     v · w = sum_j (v L^-1/2 u_jᵀ) (w L^-1/2 u_jᵀ)
#
# for every v and w in the span of U. Where U holds the vectors of all words, v_i L^-1/2 u_jᵀ is the cell (i, j) of the
# positive semidefinite square root of V Vᵀ, the fitted association of word i with word j.

SMALLEST_EIGENVALUE = 1e-9
"""Directions of a smaller share of the largest eigenvalue count as absent: float32 vectors do not resolve them."""


def inverse_root(gram: Floats) -> Float64s:
    """Return ``L^-1/2`` (d, d), float64, on the directions that L has, zero on the others."""
    values, directions = np.linalg.eigh(np.asarray(gram, np.float64))
    present = values > SMALLEST_EIGENVALUE * max(values[-1], 0.0)
    kept = directions[:, present]
    return np.asarray((kept / np.sqrt(values[present])) @ kept.T)
