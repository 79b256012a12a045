"""Every method of transfer, from the same correspondences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from distembed.evaluation.transfer import on_simplex, score_methods, score_transfer
from distembed.linalg.csr import unit_rows
from distembed.manifold import inference
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.manifold.inference import TwoSets, by_nearest, infer_by_each_method, linear_controls
from distembed.neighbors.graphs import neighbor_affinity
from tests.evaluation.test_transfer import proportions
from tests.manifold.test_alignment import planted


def two_sets(n=80):
    """Return two sets that are one up to a rotation and noise, with proportions smooth over them."""
    first, second, features = planted(n)
    graphs = neighbor_affinity(first, 6), neighbor_affinity(second, 6)
    return TwoSets(first, second, graphs, on_simplex(features + 1))


def known(n, n_known):
    return sp.csr_array((np.ones(n_known), (np.arange(n_known), np.arange(n_known))), shape=(n, n))


@pytest.mark.filterwarnings("ignore:.*joined to no known value")
def test_every_method_infers_from_the_same_pairs():
    sets, rows = two_sets(), np.arange(10, 80)
    model = FeaturePreservingEmbedding(4, regularization=0.1, propagate=True)
    found = infer_by_each_method(sets, known(80, 10), model, printed_rounds=1)
    controls = linear_controls(sets.first, sets.second, sets.features, known(80, 10))
    for name, inferred in controls.items():
        np.testing.assert_array_equal(found[name].features, inferred.features)
    scores = {score.method: score for score in score_methods(found, sets.features[rows], rows, rows)}
    assert set(scores) == {
        *controls, "alignment", "printed", "embedding_given", "matching", "matching_1", "embedding"
    }  # fmt: skip
    assert scores["embedding"].rmse < 0.5 * scores["mean"].rmse
    assert scores["embedding"].rmse < scores["embedding_given"].rmse
    assert scores["matching"].hits_1 > 0.8
    assert np.isnan(scores["mean"].hits_1)
    direct = score_transfer(found["ridge"].features[rows], sets.features[rows])
    assert scores["ridge"].rmse == direct.rmse


@pytest.mark.parametrize("n", [3, 4])
def test_a_set_of_fewer_rows_than_neighbors_takes_the_mean_of_all(n):
    rows = np.random.default_rng(0).standard_normal((n, 2))
    found = linear_controls(rows, rows, rows, known(n, 2))
    np.testing.assert_allclose(found["ridge_map"].features, np.tile(rows.mean(axis=0), (n, 1)))


@pytest.mark.filterwarnings("ignore:.*joined to no known value")
def test_sparse_rows_and_unknown_features_leave_the_graph_methods():
    sets = two_sets()
    features = sets.features.copy()
    features[3] = np.nan
    sparse = sets._replace(
        first=sp.csr_array(sets.first), second=sp.csr_array(sets.second), features=features
    )
    found = infer_by_each_method(sparse, known(80, 20), FeaturePreservingEmbedding(4))
    assert list(found) == ["mean", "alignment", "embedding"]
    assert all(np.isfinite(one.features).all() for one in found.values())


def test_controls(monkeypatch):
    generator = np.random.default_rng(0)
    X1 = generator.standard_normal((60, 6))
    X2 = X1 @ np.linalg.qr(generator.standard_normal((6, 6)))[0]
    V = proportions(60)
    links = sp.csr_array((np.ones(20), (np.arange(20), np.arange(20))), shape=(60, 60))
    monkeypatch.setattr(inference.by_nearest, "__defaults__", (1,))
    inferred = linear_controls(X1, X2, V, links)
    found = {name: one.features for name, one in inferred.items()}
    np.testing.assert_allclose(found["mean"], np.tile(V.mean(axis=0), (60, 1)))
    np.testing.assert_allclose(found["procrustes"], V)
    np.testing.assert_allclose(found["procrustes_1"], V)
    expected = Ridge(alpha=0.3).fit(unit_rows(X2)[:20], V[:20]).predict(unit_rows(X2))
    np.testing.assert_allclose(found["ridge"], expected)
    mapped = Ridge(alpha=0.3).fit(unit_rows(X2)[:20], unit_rows(X1)[:20]).predict(unit_rows(X2))
    np.testing.assert_allclose(found["ridge_map"], by_nearest(unit_rows(X1), unit_rows(mapped), V)[0])
