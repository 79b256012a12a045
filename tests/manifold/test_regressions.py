"""Residuals of any regressor are imputed; the ridge regressions are chosen by the error of leaving one row out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics import pairwise_distances

from distembed.manifold import regressions
from distembed.manifold.imputation import LatentSemanticImputation
from distembed.manifold.regressions import (
    RIDGES,
    KernelRidge,
    LinearRidge,
    fit_known,
)
from tests.references import imputation as oracle


def problem(*, n=90, d=4, s=6, n_known=40, seed=0, bend=1.0, slope=1.0):
    """Return rows, vectors that are a linear and a bent map of them, most of them hidden, and all the vectors."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    truth = 3 + slope * X @ rng.standard_normal((d, s)) + bend * np.sin(2 * X @ rng.standard_normal((d, s)))
    Y = truth.astype(np.float32)
    Y[np.sort(rng.permutation(n)[n_known:])] = np.nan
    return X, Y, truth


def found_by(regressor, X, Y):
    """Return the vectors that a regressor finds for the rows of Y that are not known."""
    known = ~np.isnan(Y[:, 0])
    return fit_known(regressor, X, Y, known).predict(X[~known])


@pytest.mark.parametrize("d", [4, 70])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_regressor_is_fitted_to_known_rows_and_its_residuals_are_imputed(d, metric):
    X, Y, _ = problem(d=d)
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
    X, Y, _ = problem(n=30, n_known=30)
    np.testing.assert_allclose(LinearRidge().fit(X, Y).predict(X), best_ridge(X, Y).predict(X), rtol=1e-6)


def test_the_ridge_of_the_kernel_is_chosen_by_leaving_one_out():
    """A regression with a kernel is a linear one on the rows of a root of the kernel."""
    X, Y, truth = problem(n=40, n_known=25)
    known = ~np.isnan(Y[:, 0])
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
    Y = means[kinds]
    Y[::3] = np.nan
    np.testing.assert_allclose(found_by(regressor, X, Y), means[kinds][::3], atol=0.02)
    equal, far = np.tile(0.1 * np.arange(1, 4), (13, 1)), np.full((1, 3), 5.0)
    mean = type(regressor)().fit(equal, means[kinds][:13]).predict(far)  # rows that all are give the mean
    np.testing.assert_allclose(mean[0], means[kinds][:13].mean(axis=0))
    assert KernelRidge().fit(equal, np.ones((13, 1))).scale_ == 1.0
    apart = np.repeat([[0.0, 0.1], [2.0, 0.1], [3.0, 0.1]], [45, 10, 5], axis=0)
    assert KernelRidge().fit(apart, np.ones((60, 1))).scale_ == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("name", "regressor"), [("LINEAR_ROWS", LinearRidge()), ("KERNEL_ROWS", KernelRidge())]
)
def test_many_rows_are_drawn_and_the_draw_is_always_the_same(name, regressor, monkeypatch):
    monkeypatch.setattr(regressions, name, 20)
    X, _, truth = problem()
    drawn = np.sort(np.random.default_rng(0).permutation(90)[:20])
    few = type(regressor)().fit(X[drawn], truth[drawn]).predict(X)
    assert regressor.fit(X, truth).predict(X).tobytes() == few.tobytes()
