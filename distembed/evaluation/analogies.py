"""Analogies a : a2 :: b : ? by 3CosAdd and 3CosMul: the kernel, and its tasks over blocks of candidates."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np
from numba import njit

from distembed.dtypes import Float32s, Int64s
from distembed.evaluation.scoring import unit_rows
from distembed.execution import compute, delayed
from distembed.states import block_memory
from distembed.vectors import WordVectors

MAX_BLOCK_WORDS = 4096  # more words a block make rows of cosines that leave the processor's cache
MIN_BLOCK_WORDS = 64  # fewer words a block are products too small to be fast
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


def answer_analogies(vectors: WordVectors, questions: Int64s) -> Answers:
    r"""Return the best answers to analogies a : a2 :: b : ?, questions int64 (q, 3) as rows of the vectors.

    .. math:: \cos(x, a_2) - \cos(x, a) + \cos(x, b), \qquad
              \frac{(\cos(x, a_2) + 1)(\cos(x, b) + 1)}{\cos(x, a) + 1 + 0.001}

    One task per block of candidates: the cosines with the distinct question words (19,544 questions ask about
    900) are computed once and shared by all questions. The vectors are in this process, so the tasks run on
    its threads; block borders depend on the questions and `block_memory` only, so that the bits do not
    depend on the threads.
    """
    distinct, places = np.unique(questions, return_inverse=True)
    asked, places = unit_rows(vectors, distinct), places.reshape(questions.shape).astype(np.int64)
    step = int(np.clip(block_memory() // (4 * len(distinct)), MIN_BLOCK_WORDS, MAX_BLOCK_WORDS))

    def best_from(start: int) -> Answers:
        block = unit_rows(vectors, np.arange(start, min(start + step, len(vectors))))
        return Answers(*_scan(asked @ block.T, places, questions, start, COSMUL_EPSILON))

    tasks = [delayed(best_from)(start) for start in range(0, len(vectors), step)]
    return reduce(better, compute(tasks, scheduler="threads"))


def better(left: Answers, right: Answers) -> Answers:
    """Return for each question the better of two answers; of equal ones that of the smaller row."""
    found = list[np.ndarray]()
    for (score, row), (other, other_row) in ((right[:2], left[:2]), (right[2:], left[2:])):
        wins = (score > other) | ((score == other) & (row < other_row))
        found += [np.where(wins, score, other), np.where(wins, row, other_row)]
    return Answers(*found)
