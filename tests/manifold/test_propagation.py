"""What each method infers for a second set, and the search for further correspondences, beside brute force."""

from __future__ import annotations

from contextlib import suppress

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from distembed.evaluation.transfer import on_simplex, score_methods, score_transfer
from distembed.linalg.csr import unit_rows
from distembed.manifold import inference, propagation
from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.manifold.inference import TwoSets, by_nearest, infer_by_each_method, linear_controls
from distembed.manifold.propagation import propagate_correspondences
from distembed.neighbors.graphs import neighbor_affinity
from distembed.states import keeping
from tests.evaluation.test_transfer import proportions
from tests.kept_states import KeptStates, KilledError
from tests.manifold.test_alignment import pairs_of, planted


def test_candidates_match_brute_force():
    generator = np.random.default_rng(0)
    first, second = (unit_rows(generator.standard_normal((n, 5))) for n in (9, 10))
    cosines = first @ second.T
    csls = 2 * cosines - np.sort(cosines, 1)[:, 1:].mean(1, keepdims=True) - cosines.mean(axis=0)
    for sets in ((first, second), tuple(da.from_array(rows, chunks=(4, -1)) for rows in (first, second))):
        found = propagation.find_candidates(sets, "cosine")
        assert [len(found.rows), *found.rows[:11], *found.columns[:11]] == [90, *[0] * 10, 1, *range(10), 0]
        np.testing.assert_allclose(found.scores, csls.ravel(), atol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=30, deadline=None)
def test_reweighted_maps_follow_their_formula(seed, n, exponent):
    generator = np.random.default_rng(seed)
    X, Y, weights = generator.standard_normal((n, 4)), generator.standard_normal((n, 5)), generator.random(n)
    links = sp.diags_array(weights, format="csr")
    there, here = propagation.reweighted_maps(
        propagation.linked_product(X, np.zeros(1, np.int64), [Y], links=links), exponent=exponent
    )
    left, strengths, right = np.linalg.svd(X.T @ np.diag(weights) @ Y)
    rank = min(n, 4)
    assert there.shape == (4, rank)
    assert here.shape == (5, rank)
    scale = (strengths[:rank] / strengths[0]) ** (2 * exponent)
    expected = left[:, :rank] @ np.diag(scale) @ right[:rank]
    np.testing.assert_allclose(there @ here.T, expected, atol=1e-8)


def test_large_sets_are_searched_by_blocks_and_from_where_a_search_was_interrupted(monkeypatch):
    """The result is that of sets in memory; no round, fold or search is made again, and none leaves a list behind."""
    X1, X2, _ = planted()
    X1[3] = X2[5] = 0.0
    links = correspondence_matrix(pairs_of(np.arange(10, 70)), 120, 120)
    monkeypatch.setattr(propagation, "N_ROUNDS", 2)
    whole = propagate_correspondences(X1, X2, links)
    monkeypatch.setattr(propagation, "ROWS_AT_ONCE", 0)
    monkeypatch.setattr(propagation, "block_memory", lambda: 6 * 8 * 12 * 50)
    given = da.from_array(X1, chunks=(50, 5)), da.from_array(X2, chunks=(7, -1))
    states, found = KeptStates(0), None
    with keeping(states):
        while found is None:
            states.most += 9
            with suppress(KilledError):
                found = propagate_correspondences(*given, links)
    assert len(set(states.stored)) == len(states.stored) > 27
    assert [name.partition("/")[2] for name in states.arrays if "round" in name] == ["all/round-00002"]
    assert found.spaces[0].numblocks[0] == 3
    assert abs(found.links - whole.links).max() < 1e-6
    assert (found.n_found, found.lost_share) == (whole.n_found, whole.lost_share)
    assert found.temperature == pytest.approx(whole.temperature, rel=1e-4)


def test_a_planted_rotation_is_propagated_and_unrelated_sets_have_no_counterparts(monkeypatch):
    monkeypatch.setattr(propagation, "N_ROUNDS", 3)
    X1, X2, _ = planted()
    unrelated = np.random.default_rng(5).standard_normal(X2.shape)
    for second, n_known, lost in ((X2, 14, 0.5 / 15), (X2, 30, None), (unrelated, 30, None)):
        found = propagate_correspondences(
            X1, second, correspondence_matrix(pairs_of(np.arange(n_known)), 120, 120)
        )
        sums = found.links.sum(axis=0)
        np.testing.assert_allclose(sums[:n_known], 1)
        np.testing.assert_allclose(sums[n_known:], 1 - found.lost_share, atol=0.02)
        if lost is not None:  # of 14 pairs none, and half a pair on each side
            assert found.lost_share == pytest.approx(lost)
        if second is unrelated:
            assert found.lost_share > 0.7
        else:
            assert np.mean(np.asarray(found.links.argmax(axis=0)).ravel() == np.arange(120)) > 0.95
            assert found.links[:, n_known:].max() > 0.9


def test_the_share_of_pairs_that_is_kept_rises_to_all(monkeypatch):
    """Of two equal sets nearly all pairs of the 106 rows without a link are found in every round."""
    X, links = planted()[0], correspondence_matrix(pairs_of(np.arange(14)), 120, 120)
    for n_rounds, share in ((1, 0.3), (2, 1)):
        monkeypatch.setattr(propagation, "N_ROUNDS", n_rounds)
        assert propagate_correspondences(X, X, links).n_found == pytest.approx(106 * share, abs=3)


def test_one_pair_leaves_nothing_to_estimate():
    found = propagate_correspondences(*planted()[:2], correspondence_matrix([(0, 0)], 120, 120))
    assert (found.temperature, found.lost_share) == (propagation.DEFAULT_TEMPERATURE, 0.5)


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
    V, links = proportions(60), known(60, 20)
    monkeypatch.setattr(inference.by_nearest, "__defaults__", (1,))
    found = {name: one.features for name, one in linear_controls(X1, X2, V, links).items()}
    np.testing.assert_allclose(found["mean"], np.tile(V.mean(axis=0), (60, 1)))
    np.testing.assert_allclose(found["procrustes"], V)
    np.testing.assert_allclose(found["procrustes_1"], V)
    first, second = unit_rows(X1), unit_rows(X2)
    expected = Ridge(alpha=0.3).fit(second[:20], V[:20]).predict(second)
    np.testing.assert_allclose(found["ridge"], expected)
    mapped = Ridge(alpha=0.3).fit(second[:20], first[:20]).predict(second)
    np.testing.assert_allclose(found["ridge_map"], by_nearest(first, unit_rows(mapped), V)[0])
    monkeypatch.undo()  # a set of fewer rows than neighbors takes the mean of all
    few = linear_controls(X1[:4], X2[:4], V[:4], known(4, 2))["ridge_map"].features
    np.testing.assert_allclose(few, np.tile(V[:4].mean(axis=0), (4, 1)))
