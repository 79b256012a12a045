from __future__ import annotations

from functools import partial

import dask
import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from distembed.evaluation.transfer import mean_interval, on_simplex, score_retrieval, score_transfer
from distembed.linalg.csr import unit_rows


def proportions(n=30, f=5, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(f, 0.3), n)


def test_scores_follow_their_formulas():
    found, true = proportions(seed=1), proportions(seed=2)
    true[:, 4] = 0.25  # has no correlation
    scores, (p, q) = score_transfer(found, true), (on_simplex(values) for values in (found, true))
    assert scores.rmse == pytest.approx(np.sqrt(np.mean((found - true) ** 2)))
    np.testing.assert_allclose(scores.topic_rmse, np.sqrt(np.mean((found - true) ** 2, axis=0)))
    correlations = [np.corrcoef(found[:, t], true[:, t])[0, 1] for t in range(4)]
    np.testing.assert_allclose(scores.topic_correlation, [*correlations, np.nan])
    hellinger = np.mean(np.linalg.norm(np.sqrt(p) - np.sqrt(q), axis=1)) / np.sqrt(2)
    assert scores.hellinger == pytest.approx(hellinger)
    assert scores.jensen_shannon == pytest.approx(np.mean(jensenshannon(p, q, axis=1)))


def test_negative_values_leave_the_simplex_no_trace():
    found = on_simplex(np.array([[-1.0, 1, 3], [0, 0, 0]]))
    np.testing.assert_allclose(found, [[0, 0.25, 0.75], [1 / 3] * 3])


@pytest.mark.parametrize("block_memory", [2**27, 1, 5000])
def test_retrieval_matches_sorting(block_memory):
    generator = np.random.default_rng(0)
    first, second = generator.standard_normal((40, 8)), generator.standard_normal((25, 8))
    wanted = generator.integers(40, size=25)
    orders = zip(np.argsort(-(unit_rows(second) @ unit_rows(first).T), axis=1), wanted, strict=True)
    ranks = 1 + np.array([np.flatnonzero(order == i)[0] for order, i in orders])
    with dask.config.set({"distembed.block_memory": block_memory}):
        scores = score_retrieval(first, second, wanted)
    np.testing.assert_array_equal(scores.ranks, ranks)
    assert scores.mean_reciprocal_rank == pytest.approx(np.mean(1 / ranks))
    assert (scores.hits_1, scores.hits_10) == (np.mean(ranks == 1), np.mean(ranks <= 10))


# Nine rows are nearer, two are level with each other: places 10 and 11.
ANGLES = np.concatenate([np.linspace(0, 0.8, 9), [1.0, 1.0], np.linspace(1.2, 1.5, 4)])
TIES = [
    (np.ones((3, 2)), np.ones((1, 2)), 1, (2.0, 0, 1)),
    (np.eye(3)[[0, 0, 1]], np.eye(3)[:1], 0, (1.5, 0, 1)),
    (np.column_stack([np.cos(ANGLES), np.sin(ANGLES)]), [[1.0, 0.0]], 9, (10.5, 0, 0)),
    *(
        (np.eye(5), np.full((1, 5), without_direction), 2, (3.0, 0, 1))
        for without_direction in (0, np.nan, np.inf)
    ),
]


@pytest.mark.parametrize(("first", "second", "wanted", "expected"), TIES)
def test_ties_count_half_and_one_for_the_last_place_that_counts_is_no_hit(first, second, wanted, expected):
    scores = score_retrieval(first, second, [wanted])
    assert (*scores.ranks, scores.hits_1, scores.hits_10) == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(score_transfer, np.ones((2, 3)), np.ones((3, 3))), "shape"),
        (partial(score_transfer, np.ones((0, 3)), np.ones((0, 3))), "shape"),
        (partial(score_transfer, np.full((2, 2), np.nan), np.ones((2, 2))), "NaN"),
        (partial(score_retrieval, np.ones((3, 2)), np.ones((2, 2)), [0]), "counterparts of shape"),
        (partial(score_retrieval, np.ones((3, 2)), np.ones((2, 2)), [0, 5]), "numbers from 0 to 2"),
        (partial(score_retrieval, np.ones((3, 2)), np.ones((2, 2)), [-1, 0]), "numbers from 0 to 2"),
    ],
)
def test_what_cannot_be_scored_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_intervals():
    np.testing.assert_allclose(mean_interval([1, 2, 3]), 2 + np.array([0, -1, 1]) * 4.302653 / 3**0.5, 1e-5)
    np.testing.assert_equal(mean_interval([1.0]), (1, np.nan, np.nan))
