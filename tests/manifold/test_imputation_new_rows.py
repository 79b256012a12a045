"""Rows that come after the fit: the plain method on the fitted vectors, with and without a regressor."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import pairwise_distances

from distembed.linalg.csr import unit_rows
from distembed.manifold.imputation import LatentSemanticImputation, known_shares, strongest_paths
from distembed.manifold.imputation_systems import LEAST_FLOOR
from tests.references import imputation as oracle

from .test_regressions import problem

K = 4


def plain_mixtures(new, X, values):
    """Return Σ w v over the K nearest rows of X for each new row, by a general-purpose solver."""
    found = []
    for row, distances in zip(new, pairwise_distances(new, X), strict=True):
        near = np.sort(np.argsort(distances, kind="stable")[:K])
        weights = oracle.with_floor(oracle.simplex_weights(row, X[near]), 0.1, LEAST_FLOOR / K)
        found.append(weights @ np.asarray(values[near], np.float64))
    return np.array(found)


def fitted(**options):
    """Return a model fitted to all rows but the last 15, that part of the problem, and the last rows."""
    X, Y, _ = problem()
    return LatentSemanticImputation(min_degree=K, **options).fit(X[:-15], Y[:-15]), X[:-15], Y[:-15], X[-15:]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("regressor", [None, Ridge()])
def test_a_new_row_is_the_mixture_of_its_nearest_rows_vectors(metric, regressor):
    """With a regressor that of their residuals, added to the prediction for the row."""
    model, X, Y, new = fitted(metric=metric, regressor=regressor)
    of_metric, known = unit_rows if metric == "cosine" else np.asarray, ~np.isnan(Y[:, 0])
    plain = DummyRegressor(strategy="constant", constant=np.zeros(Y.shape[1]))
    plain = (regressor or plain).fit(X[known], Y[known].astype(np.float64))
    mixtures = plain_mixtures(of_metric(new), of_metric(X), model.vectors_ - plain.predict(X))
    found = model.infer(new, X, Y)
    assert found.dtype == Y.dtype
    np.testing.assert_allclose(found, plain.predict(new) + mixtures, rtol=1e-3, atol=1e-3)
    many = model.infer(np.tile(new, (6, 1)), X, Y)  # more rows than those of the fit
    np.testing.assert_allclose(many, np.tile(found, (6, 1)), rtol=1e-6)


def test_options_that_are_set_after_the_fit_change_nothing():
    model, X, Y, new = fitted(metric="cosine")
    expected = model.infer(new, X, Y)
    model.set_params(metric="euclidean", min_degree=2, weights="normalise_after", floor=0.5)
    np.testing.assert_array_equal(model.infer(new, X, Y), expected)


def test_the_kind_the_blocks_and_the_memory_change_nothing():
    model, X, Y, new = fitted(regressor=Ridge())
    expected = model.infer(new, X, Y)
    with dask.config.set({"distembed.block_memory": 2**12}):
        cut = model.infer(da.from_array(new, chunks=(4, 2)), da.from_array(X, chunks=(20, -1)), Y)
    np.testing.assert_allclose(cut, expected, rtol=1e-6)
    assert expected[:1].tobytes() == model.infer(new[:1], X, Y).tobytes()


def test_shares_are_those_of_the_inverse_and_mix_to_the_imputed_vector():
    rng, known = np.random.default_rng(3), np.arange(50) < 15
    X, Y = rng.normal(size=(50, 4)), np.where(known[:, None], rng.normal(size=(50, 6)), np.nan)
    model = LatentSemanticImputation(min_degree=4, tol=1e-10).fit(X, Y)
    W = model.weights_.toarray()
    absorbed = np.linalg.inv(np.eye(35) - W[15:, 15:]) @ W[15:, :15]
    for row in (15, 49):
        shares = known_shares(model.weights_, known, row)
        np.testing.assert_allclose(shares[:15], absorbed[row - 15], atol=1e-8)
        assert not shares[15:].any()
        np.testing.assert_allclose(shares[:15] @ Y[:15], model.vectors_[row], atol=1e-7)


def test_the_path_is_the_most_probable_one_and_ends_at_the_first_known_row():
    W = np.zeros((5, 5))
    W[0, [1, 2]] = 0.4, 0.6
    W[1, [3]] = 1.0
    W[2, [3, 4]] = 0.5, 0.5
    W[3, [4]] = 1.0  # known: no walk goes on from here
    W[4, [3]] = 1.0
    known = np.array([False, False, False, True, True])
    to_third, to_fourth = strongest_paths(sp.csr_array(W), known, 0, [3, 4])
    assert to_third == ([0, 1, 3], pytest.approx(0.4))
    assert to_fourth == ([0, 2, 4], pytest.approx(0.3))
    np.testing.assert_allclose(known_shares(sp.csr_array(W), known, 0), [0, 0, 0, 0.7, 0.3])
