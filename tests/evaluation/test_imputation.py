"""Hidden vectors are found again; baselines equal scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from distembed.evaluation import imputation as evaluation
from distembed.manifold.imputation_choice import hold_out_folds


def problem(n=40, d=5, s=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    Y = X @ rng.standard_normal((d, s)) + 0.01 * rng.standard_normal((n, s))
    return X, Y


def test_a_perfect_method_finds_the_truth_and_a_constant_one_does_not():
    X, Y = problem()
    Y[:10] = np.nan
    methods = {"truth": lambda _, __: Y, "constant": lambda _, masked: np.ones_like(masked)}
    scores = evaluation.hold_out(X, Y, methods, seeds=range(3))
    rows = {row["method"]: row for row in evaluation.mean_scores(scores)}
    assert rows["truth"]["cosine"] == pytest.approx(1.0)
    assert rows["truth"]["median_rank"] == 1.0
    assert rows["truth"]["hidden"] == 6
    assert rows["constant"]["median_rank"] > 3


@pytest.mark.parametrize("filling", [0.0, np.nan, np.inf])
def test_a_vector_without_direction_is_no_answer(filling):
    """It is as near to one known vector as to the next: the truth ranks in the middle of them."""
    X, Y = problem()
    (score,) = evaluation.hold_out(X, Y, {"none": lambda _, __: np.full_like(Y, filling)}, seeds=[0])
    assert score.cosine == 0.0
    assert score.median_rank == 20.5
    assert score.reciprocal_rank == pytest.approx(1 / 20.5)


def test_a_truth_that_is_there_twice_ranks_between_first_and_second():
    X, Y = problem(n=20)
    X, Y = np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0)
    (score,) = evaluation.hold_out(X, Y, {"truth": lambda _, __: Y}, seeds=[0])
    assert score.cosine == pytest.approx(1.0)
    assert (score.median_rank, score.reciprocal_rank) == (1.5, pytest.approx(2 / 3))


def test_hidden_rows_are_nan_and_the_same_for_every_method():
    X, Y = problem()
    seen = []

    def spy(_, masked):
        seen.append(np.isnan(masked).all(axis=1))
        return np.ones_like(masked)

    evaluation.hold_out(X, Y, {"a": spy, "b": spy}, seeds=[0, 1])
    assert [mask.sum() for mask in seen] == [8] * 4
    assert (seen[0] == seen[1]).all()
    assert (seen[0] != seen[2]).any()


@pytest.mark.parametrize("share", [0.0, 1.0, 0.01])
def test_a_share_that_hides_nothing_or_all_is_refused(share):
    with pytest.raises(ValueError, match="share"):
        evaluation.hold_out(*problem(), evaluation.BASELINES, share=share)


@pytest.mark.parametrize("name", evaluation.BASELINES)
def test_a_baseline_leaves_known_rows_and_fills_the_others(name):
    X, Y = problem()
    Y[::5] = np.nan
    out = evaluation.BASELINES[name](X, Y)
    known = ~np.isnan(Y[:, 0])
    np.testing.assert_array_equal(out[known], Y[known])
    assert np.isfinite(out).all()


def test_a_linear_truth_is_found_by_the_linear_map():
    X, Y = problem()
    truth = Y.copy()
    Y[::5] = np.nan
    assert np.abs(evaluation.linear_map(X, Y)[::5] - truth[::5]).max() < 0.1


def test_the_leave_one_out_error_is_the_one_of_leaving_one_out():
    X, Y = problem(n=20)
    centered, targets = X - X.mean(axis=0), Y - Y.mean(axis=0)
    values, basis = np.linalg.eigh(centered @ centered.T)
    error, dual = evaluation._leave_one_out(values, basis, basis.T @ targets, 0.3)
    model = Ridge(alpha=0.3)
    left_out = cross_val_predict(model, X, Y, cv=LeaveOneOut())
    assert error == pytest.approx(((left_out - Y) ** 2).sum())
    np.testing.assert_allclose(centered.T @ dual, model.fit(X, Y).coef_.T)


def test_a_map_with_nothing_to_learn_is_the_mean():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, 80)), 3 + rng.standard_normal((60, 4))
    Y[:20] = np.nan
    mean = Y[20:].mean(axis=0)
    for method in (evaluation.linear_map, evaluation.kernel_ridge):
        assert np.abs(method(X, Y)[:20] - mean).max() < 0.5


@pytest.mark.parametrize("standardized", [False, True])
def test_most_rows_of_a_table_may_be_equal(standardized):
    """A category gets its own mean from a map, although the median of the squared distances is 0, or rounding."""
    rng, kinds = np.random.default_rng(0), np.repeat([0, 1, 2, 3], [45, 5, 5, 5])
    X, means = np.eye(4)[kinds], rng.standard_normal((4, 5))
    X = (X - X.mean(axis=0)) / X.std(axis=0) if standardized else X
    Y = means[kinds]
    Y[::3] = np.nan
    for method in (evaluation.linear_map, evaluation.kernel_ridge):
        np.testing.assert_allclose(method(X, Y), means[kinds], atol=0.02)


def test_known_rows_that_are_all_equal_give_the_mean():
    X, Y = np.tile([0.1, 0.2, 0.3], (13, 1)), np.random.default_rng(0).standard_normal((13, 4))
    X[-1], Y[-1] = 5.0, np.nan
    for method in (evaluation.linear_map, evaluation.kernel_ridge):
        np.testing.assert_allclose(method(X, Y)[-1], Y[:-1].mean(axis=0))


def test_the_mean_of_nearest_is_a_mean():
    X = np.array([[0.0], [1.0], [5.0], [0.4]])
    Y = np.array([[1.0], [3.0], [9.0], [np.nan]])
    assert evaluation.nearest_mean(X, Y, k=2)[3] == [2.0]
    assert evaluation.nearest_one(X, Y)[3] == [1.0]


def test_every_known_row_is_hidden_once_and_some_stay():
    known = np.arange(3, 50, 2)
    folds = hold_out_folds(known, n_folds=5, max_names=1000, seed=0)
    assert sorted(np.concatenate(folds)) == known.tolist()
    assert max(map(len, folds)) - min(map(len, folds)) <= 1
    assert sum(map(len, hold_out_folds(known, n_folds=5, max_names=7, seed=0))) == 7
    assert [fold.size for fold in hold_out_folds([4, 9], n_folds=5, max_names=7, seed=0)] == [1, 1]
    assert hold_out_folds([4], n_folds=5, max_names=7, seed=0) == []


def test_recovery_is_that_of_the_hold_out():
    _, Y = problem()
    hidden, found = np.arange(5), Y[:5] + 0.3 * np.random.default_rng(1).standard_normal((5, 6))
    score = evaluation.recovery(found, hidden, Y)
    cosine, rank, reciprocal = evaluation._compare(found, hidden, np.arange(40), Y)
    assert (score.cosine.mean(), np.median(score.rank)) == (pytest.approx(cosine), rank)
    assert (1 / score.rank).mean() == pytest.approx(reciprocal)
    assert np.isnan(score.label_share).all()


def test_the_mean_of_all_has_a_cosine_and_no_centered_one():
    _, Y = problem()
    Y = Y + 10
    mean = Y[5:].mean(axis=0)
    found = np.tile(mean, (5, 1))
    score = evaluation.recovery(found, np.arange(5), Y, centers=found)
    assert score.cosine.min() > 0.9
    assert not score.centered_cosine.any()
    truth = evaluation.recovery(Y[:5], np.arange(5), Y, centers=found)
    np.testing.assert_allclose(truth.centered_cosine, 1)


def test_the_hidden_name_is_no_neighbor_of_its_own():
    Y = np.array([[1.0, 0], [1, 0.1], [1, 0.2], [0, 1]])
    score = evaluation.recovery(Y[:1], [0], Y, labels=["a", "a", "b", ""])
    assert score.label_share == [pytest.approx(1 / 3)]
    assert np.isnan(evaluation.recovery(Y[3:], [3], Y, labels=["a", "a", "b", ""]).label_share).all()


def test_gains_are_of_the_first_method_over_the_others():
    rng = np.random.default_rng(0)
    good = evaluation.Recovery(
        rng.uniform(0.5, 0.9, 60),
        rng.integers(1, 10, 60).astype(float),
        np.full(60, np.nan),
        rng.uniform(0.2, 0.6, 60),
    )
    poor = evaluation.Recovery(good.cosine, good.rank + 30, good.label_share, good.centered_cosine - 0.2)
    first, second = evaluation.compare_methods({"good": good, "poor": poor}, n_known=60)
    assert (first.centered_gain, second.centered_gain) == (0, pytest.approx(0.2))
    assert second.rank_gain == pytest.approx(0.5)
    assert first.cosine_low < first.cosine < first.cosine_high
    assert evaluation.is_better(second)
    assert not evaluation.is_better(first)
    for worse in (
        good._replace(centered_cosine=good.centered_cosine - 0.2),
        good._replace(rank=good.rank + 30),
    ):
        assert evaluation.is_better(evaluation.compare_methods({"good": good, "worse": worse}, n_known=60)[1])
    flattered = good._replace(cosine=good.cosine - 0.2)  # worse by the plain cosine alone
    assert not evaluation.is_better(
        evaluation.compare_methods({"good": good, "flattered": flattered}, n_known=60)[1]
    )
    few = evaluation.Recovery(*(values[:2] for values in good))
    assert evaluation.is_better(evaluation.compare_methods({"good": few}, n_known=60)[0]) is None


def verdict_of(answers, known):
    """Return the verdict on answers beside those of a shuffled table."""
    shuffled = np.random.default_rng(1).permutation(answers)
    rows = np.arange(len(known))
    both = {
        name: evaluation.recovery(found, rows, known) for name, found in (("own", answers), ("s", shuffled))
    }
    own, control = evaluation.compare_methods(both, n_known=len(known))
    return evaluation.judge(own, control, n_known=len(known))


@pytest.mark.parametrize(
    ("signal", "word", "reason"),
    [
        (2.0, "useful", "median rank 1 of 600"),
        (0.08, "weak", "a useful table has 0.1 or more and a rank of 150 or less"),
        (0.02, "useless", "where chance has 0 and 300"),
        (0.0, "useless", "no better than from the table with its rows shuffled"),
    ],
)
def test_a_table_is_useful_weak_or_useless_for_a_reason(signal, word, reason):
    """One that is better than chance by a hair, as a cosine of .024 and rank 282 of 578, was called better."""
    rng = np.random.default_rng(0)
    known = rng.standard_normal((600, 100))
    found = verdict_of(signal * known + rng.standard_normal((600, 100)), known)
    assert (found.word, reason in found.reason) == (word, True), found


def test_too_few_hidden_names_give_no_verdict():
    known = np.random.default_rng(0).standard_normal((9, 5))
    assert verdict_of(known, known) is None
