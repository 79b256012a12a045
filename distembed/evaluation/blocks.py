"""Mathematics of one block of evaluation: the best answers to analogies, ranks, purity."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse import csr_array

TIE = 1e-12
"""Cosines nearer than this are equal: products of unit rows in another order differ by less."""
COSMUL_EPSILON = np.float32(1e-3)  # Levy & Goldberg 2014, equation 4


class Answers(NamedTuple):
    """The best word of a block for each question and its score, by 3CosAdd and by 3CosMul."""

    add_score: NDArray[np.float32]
    add_row: NDArray[np.int64]
    mul_score: NDArray[np.float32]
    mul_row: NDArray[np.int64]


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _largest(values: NDArray[np.float32]) -> np.float32:
    largest = values[0]
    for value in values:
        largest = max(largest, value)
    return largest


@njit(cache=True, nogil=True)
def _first_of(values: NDArray[np.float32], wanted: np.float32) -> int:
    i = 0
    while values[i] != wanted:
        i += 1
    return i


@njit(cache=True, nogil=True)
def _answer(scores: NDArray[np.float32], excluded: NDArray[np.int64], first: int) -> tuple[np.float32, int]:
    """Return the largest score outside the excluded rows, and its row; of equal ones the first."""
    for row in excluded:
        if first <= row < first + scores.size:
            scores[row - first] = -np.inf
    best = _largest(scores)
    return best, first + _first_of(scores, best)


@njit(cache=True, nogil=True)
def _scan(
    cosines: NDArray[np.float32],
    questions: NDArray[np.int64],
    excluded: NDArray[np.int64],
    first: int,
    epsilon: np.float32,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
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
    block: NDArray[np.float32],
    asked: NDArray[np.float32],
    questions: NDArray[np.int64],
    excluded: NDArray[np.int64],
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
    score: NDArray[np.float32],
    row: NDArray[np.int64],
    other: NDArray[np.float32],
    other_row: NDArray[np.int64],
) -> NDArray[np.bool_]:
    return (score > other) | ((score == other) & (row < other_row))


@njit(cache=True, nogil=True)
def _sparse_dots(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], data: NDArray[np.float32], pairs: NDArray[np.int64]
) -> NDArray[np.float64]:
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


def sparse_dots(rows: csr_array, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the dot product of each pair of rows, float64 (p,); `rows` has sorted indices, pairs (p, 2)."""
    return _sparse_dots(rows.indptr.astype(np.int64), rows.indices, rows.data, pairs)


def spearman(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Spearman's correlation along the last axis, ties with their mean rank; NaN for a constant.

    Equal to scipy.stats.spearmanr, for many samples at once.
    """
    ranks_x, ranks_y = stats.rankdata(x, axis=-1), stats.rankdata(y, axis=-1)
    dx = ranks_x - ranks_x.mean(axis=-1, keepdims=True)
    dy = ranks_y - ranks_y.mean(axis=-1, keepdims=True)
    spread = np.sqrt((dx * dx).sum(axis=-1) * (dy * dy).sum(axis=-1))
    covariance = (dx * dy).sum(axis=-1)
    return np.divide(covariance, spread, out=np.full_like(spread, np.nan), where=spread > 0)


def tied_ranks(cosines: NDArray[np.float64], wanted: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the rank of one column in each row, float64 (r,): 1 is the largest, and equal ones count half.

    Parameters
    ----------
    cosines : (r, n), finite
    wanted : the column of each row, (r,)
    """
    above = cosines - np.take_along_axis(cosines, wanted[:, None], axis=1)
    equal = np.count_nonzero(np.abs(above) <= TIE, axis=1)
    return 1 + np.count_nonzero(above > TIE, axis=1) + (equal - 1) / 2


def in_majority(clusters: NDArray[np.int64], classes: NDArray[np.int64]) -> NDArray[np.bool_]:
    r"""Return for each item whether its class is the most frequent of its cluster; both are int64 (n,) from 0.

    Their mean is the purity :math:`\frac1n \sum_k \max_j |cluster_k \cap class_j|`; among equally frequent
    classes of a cluster the first counts.
    """
    table = np.zeros((clusters.max() + 1, classes.max() + 1), dtype=np.int64)
    np.add.at(table, (clusters, classes), 1)
    return np.asarray(table.argmax(axis=1)[clusters] == classes)


def choose(cosines: NDArray[np.float64]) -> float:
    """Return 1 where the first cosine is the largest, 1/k where k tie for it, 0 where another is larger."""
    top = cosines.max()
    return float(1.0 / np.count_nonzero(cosines == top)) if cosines[0] == top else 0.0


def outlier_position(similarities: NDArray[np.float64]) -> int:
    """Return how many words of a group are strictly more similar to the rest than the last one, the outlier.

    `similarities` is (n + 1, n + 1) and symmetric. The similarity of a word to the rest is its mean over the
    others, which orders words as the compactness of Camacho-Collados and Navigli (2016), equation 1, does.
    The outlier is detected if the result is n.
    """
    rest = similarities.sum(axis=1) - np.diag(similarities)
    return int(np.count_nonzero(rest[:-1] > rest[-1]))
