"""Residuals of any regressor are imputed; the ridge regressions are chosen by the error of leaving one row out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics import pairwise_distances

from distembed.manifold import regressions
from distembed.manifold.imputation import LatentSemanticImputation
from distembed.manifold.regressions import RIDGES, KernelRidge, LinearRidge
from tests.manifold.test_imputation import problem
from tests.references import imputation as oracle


@pytest.mark.parametrize("d", [4, 70])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_regressor_is_fitted_to_known_rows_and_its_residuals_are_imputed(d, metric):
    X, Y = problem(n=90, d=d, n_known=40, dtype=np.float32)
    known = ~np.isnan(Y[:, 0])
    model = LatentSemanticImputation(min_degree=4, regressor=RidgeCV(), metric=metric, tol=1e-10).fit(X, Y)
    mapped = RidgeCV().fit(X[known], Y[known].astype(np.float64)).predict(X)
    residuals = oracle.limit(model.weights_.toarray(), np.where(known[:, None], Y - mapped, np.nan))
    np.testing.assert_allclose(model.vectors_, mapped + residuals, rtol=1e-4, atol=1e-5)
    assert model.vectors_[known].tobytes() == Y[known].tobytes()
    assert model.vectors_.dtype == Y.dtype


def best_ridge(X, Y):
    """Return the ridge regression whose ridge leaves the least error where each row is left out in turn."""

    def left_out_error(model):
        rows = np.arange(len(X))
        found = [model.fit(X[rows != row], Y[rows != row]).predict(X[[row]])[0] for row in rows]
        return ((np.array(found) - Y) ** 2).sum()

    unit = X.var(axis=0).sum()
    return min((Ridge(alpha=ridge * unit) for ridge in RIDGES), key=left_out_error).fit(X, Y)


def test_the_linear_ridge_is_chosen_by_leaving_one_out():
    X, Y = problem(n=30, n_known=30)
    np.testing.assert_allclose(LinearRidge().fit(X, Y).predict(X), best_ridge(X, Y).predict(X), rtol=1e-6)


def test_the_ridge_of_the_kernel_is_chosen_by_leaving_one_out():
    """A regression with a kernel is a linear one on the rows of a root of the kernel."""
    (X, truth), known = problem(n=40, n_known=40), np.arange(40) < 25
    squares = pairwise_distances(X, metric="sqeuclidean")
    values, basis = np.linalg.eigh(np.exp(-squares / np.median(squares[known][:, known])))
    rows = basis * np.sqrt(np.maximum(values, 0))
    found = KernelRidge().fit(X[known], truth[known]).predict(X)
    expected = best_ridge(rows[known], truth[known]).predict(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("regressor", [LinearRidge(), KernelRidge()])
@pytest.mark.parametrize("standardized", [False, True])
def test_most_rows_of_a_table_may_be_equal(regressor, standardized):
    """A category gets its own mean, although the median of the squared distances is 0, or rounding."""
    rng, kinds = np.random.default_rng(0), np.repeat([0, 1, 2, 3], [45, 5, 5, 5])
    X, means = np.eye(4)[kinds], rng.standard_normal((4, 5))
    X = (X - X.mean(axis=0)) / X.std(axis=0) if standardized else X
    Y, known = means[kinds], np.arange(60) % 3 > 0
    np.testing.assert_allclose(regressor.fit(X[known], Y[known]).predict(X), Y, atol=0.02)
    equal, far = np.tile(0.1 * np.arange(1, 4), (13, 1)), np.full((1, 3), 5.0)
    mean = type(regressor)().fit(equal, Y[:13]).predict(far)  # rows that all are give the mean
    np.testing.assert_allclose(mean[0], Y[:13].mean(axis=0))
    assert KernelRidge().fit(equal, np.ones((13, 1))).scale_ == 1.0
    apart = np.repeat([[0.0, 0.1], [2.0, 0.1], [3.0, 0.1]], [45, 10, 5], axis=0)
    assert KernelRidge().fit(apart, np.ones((60, 1))).scale_ == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("name", "regressor"), [("LINEAR_ROWS", LinearRidge()), ("KERNEL_ROWS", KernelRidge())]
)
def test_many_rows_are_drawn_and_the_draw_is_always_the_same(name, regressor, monkeypatch):
    monkeypatch.setattr(regressions, name, 20)
    X, truth = problem(n=90, n_known=90)
    drawn = np.sort(np.random.default_rng(0).permutation(90)[:20])
    few = type(regressor)().fit(X[drawn], truth[drawn]).predict(X)
    assert regressor.fit(X, truth).predict(X).tobytes() == few.tobytes()
