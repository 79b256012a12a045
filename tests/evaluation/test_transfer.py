from __future__ import annotations

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
    scores = score_transfer(found, true)
    assert scores.rmse == pytest.approx(np.sqrt(np.mean((found - true) ** 2)))
    np.testing.assert_allclose(scores.topic_rmse, np.sqrt(np.mean((found - true) ** 2, axis=0)))
    correlations = [np.corrcoef(found[:, t], true[:, t])[0, 1] for t in range(5)]
    np.testing.assert_allclose(scores.topic_correlation, correlations)
    hellinger = np.mean(np.linalg.norm(np.sqrt(found) - np.sqrt(true), axis=1)) / np.sqrt(2)
    assert scores.hellinger == pytest.approx(hellinger)
    distances = [jensenshannon(p, q) for p, q in zip(found, true, strict=True)]
    assert scores.jensen_shannon == pytest.approx(np.mean(distances))


def test_perfect_and_opposite_inference():
    true = proportions()
    perfect = score_transfer(true, true)
    assert perfect.rmse == perfect.hellinger == 0
    assert perfect.jensen_shannon == pytest.approx(0, abs=1e-7)
    opposite = score_transfer(np.eye(2), np.eye(2)[::-1])
    assert opposite.hellinger == pytest.approx(1)
    assert opposite.jensen_shannon == pytest.approx(np.sqrt(np.log(2)))


def test_constant_column_has_no_correlation():
    true = np.column_stack([np.arange(4.0), np.ones(4)])
    scores = score_transfer(true, true)
    assert scores.topic_correlation[0] == pytest.approx(1)
    assert np.isnan(scores.topic_correlation[1])


def test_negative_values_leave_the_simplex_no_trace():
    found = on_simplex(np.array([[-1.0, 1, 3], [0, 0, 0]]))
    np.testing.assert_allclose(found, [[0, 0.25, 0.75], [1 / 3] * 3])


@pytest.mark.parametrize(
    ("found", "true", "message"),
    [
        (np.ones((2, 3)), np.ones((3, 3)), "shape"),
        (np.ones((0, 3)), np.ones((0, 3)), "shape"),
        (np.full((2, 2), np.nan), np.ones((2, 2)), "NaN"),
    ],
)
def test_bad_scores_input(found, true, message):
    with pytest.raises(ValueError, match=message):
        score_transfer(found, true)


@pytest.mark.parametrize("block_memory", [2**27, 1, 5000])
def test_retrieval_matches_sorting(block_memory):
    generator = np.random.default_rng(0)
    first, second = generator.standard_normal((40, 8)), generator.standard_normal((25, 8))
    wanted = generator.integers(40, size=25)
    cosines = unit_rows(second) @ unit_rows(first).T
    orders = zip(np.argsort(-cosines, axis=1), wanted, strict=True)
    ranks = 1 + np.array([np.flatnonzero(order == i)[0] for order, i in orders])
    with dask.config.set({"distembed.block_memory": block_memory}):
        scores = score_retrieval(first, second, wanted)
    np.testing.assert_array_equal(scores.ranks, ranks)
    assert scores.mean_reciprocal_rank == pytest.approx(np.mean(1 / ranks))
    assert scores.hits_1 == np.mean(ranks == 1)
    assert scores.hits_10 == np.mean(ranks <= 10)


def test_ties_count_half():
    assert score_retrieval(np.ones((3, 2)), np.ones((1, 2)), [1]).ranks.tolist() == [2.0]


def test_a_tie_for_the_last_place_that_counts_is_no_hit():
    twins = score_retrieval(np.eye(3)[[0, 0, 1]], np.eye(3)[:1], [0])
    assert (twins.ranks.tolist(), twins.hits_1, twins.hits_10) == ([1.5], 0.0, 1.0)
    # Nine rows are nearer, two are level with each other: places 10 and 11.
    angles = np.concatenate([np.linspace(0, 0.8, 9), [1.0, 1.0], np.linspace(1.2, 1.5, 4)])
    first = np.column_stack([np.cos(angles), np.sin(angles)])
    tenth = score_retrieval(first, [[1.0, 0.0]], [9])
    assert (tenth.ranks.tolist(), tenth.hits_10) == ([10.5], 0.0)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_a_row_without_direction_finds_nothing(value):
    scores = score_retrieval(np.eye(5), np.full((1, 5), value), [2])
    assert (scores.ranks.tolist(), scores.hits_1) == ([3.0], 0.0)


@pytest.mark.parametrize("counterparts", [[0], [0, 5], [-1, 0]])
def test_bad_counterparts(counterparts):
    with pytest.raises(ValueError, match="counterparts"):
        score_retrieval(np.ones((3, 2)), np.ones((2, 2)), counterparts)


def test_intervals():
    interval = mean_interval([1.0, 2.0, 3.0])
    assert interval.mean == 2
    assert interval.high - interval.mean == pytest.approx(4.302653 / np.sqrt(3), rel=1e-5)
    assert mean_interval([1.0]) == (1, 1, 1)
