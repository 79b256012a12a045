"""The search for further correspondences: as brute force, the same by blocks, and probable only where they are."""

from __future__ import annotations

from functools import partial

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.execution import compute
from distembed.linalg.csr import unit_rows
from distembed.manifold import propagation
from distembed.manifold import propagation_blocks as blocks
from distembed.manifold.alignment_blocks import procrustes_map
from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.manifold.propagation import propagate_correspondences
from distembed.states import keeping
from tests.kept_states import KeptStates

from .test_alignment import pairs_of, planted


def test_mutual_choices_match_brute_force():
    generator = np.random.default_rng(0)
    first, second = (unit_rows(generator.standard_normal((n, 5))) for n in (9, 11))
    cosines = first @ second.T

    def lists(similarity):
        order = np.argsort(-similarity, axis=1)
        near = np.stack([2 - 2 * np.take_along_axis(similarity, order, 1), order.astype(float)], axis=1)
        return da.from_array(near, chunks=(4, -1, -1))

    candidates = propagation._Candidates(lists(cosines), lists(cosines.T), np.arange(9), 5 + np.arange(11))
    csls = 2 * cosines - cosines.mean(axis=1)[:, None] - cosines.mean(axis=0)
    scores = np.concatenate([found.scores for found in candidates.by_block()])
    np.testing.assert_allclose(scores, csls.ravel(), atol=1e-12)
    chosen = {(i, 5 + int(csls[i].argmax())) for i in range(9) if csls[:, csls[i].argmax()].argmax() == i}
    assert {tuple(pair) for pair in candidates.mutual_choices().pairs.tolist()} == chosen


@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=30, deadline=None)
def test_reweighted_maps_follow_their_formula(seed, n, exponent):
    generator = np.random.default_rng(seed)
    X, Y, weights = generator.standard_normal((n, 4)), generator.standard_normal((n, 5)), generator.random(n)
    links = sp.diags_array(weights, format="csr")
    there, here = blocks.reweighted_maps(blocks.linked_product(X, Y, links), exponent=exponent)
    left, strengths, right = np.linalg.svd(X.T @ np.diag(weights) @ Y)
    rank = min(n, 4)
    assert there.shape == (4, rank)
    assert here.shape == (5, rank)
    scale = (strengths[:rank] / strengths[0]) ** (2 * exponent)
    expected = left[:, :rank] @ np.diag(scale) @ right[:rank]
    np.testing.assert_allclose(there @ here.T, expected, atol=1e-8)
    if exponent == 0 and n >= 4:
        np.testing.assert_allclose(there @ here.T, procrustes_map(X, Y, weights), atol=1e-8)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_search_in_one_call_equals_search_by_blocks(metric):
    generator = np.random.default_rng(0)
    first, second = (np.round(generator.standard_normal((n, 5)), 1) for n in (70, 90))
    second[:20] = first[:20]
    if metric == "cosine":
        first, second = unit_rows(first), unit_rows(second)

    def lists(chunk):
        sets = (da.from_array(X, chunks=(chunk, -1)) for X in (first, second))
        return compute(propagation._cross_lists(*sets))

    whole = propagation._cross_lists(first, second)
    for chunk in (-1, 13):
        for one, other in zip(whole, lists(chunk), strict=True):
            np.testing.assert_array_equal(one, other)


def test_large_sets_are_searched_by_blocks_with_the_same_result(monkeypatch):
    X1, X2, _ = planted()
    X1[3] = X2[5] = 0.0
    links = correspondence_matrix(pairs_of(np.arange(10, 70)), 120, 120)
    whole = propagate_correspondences(X1, X2, links, n_rounds=2)
    monkeypatch.setattr(propagation, "ROWS_AT_ONCE", 0)
    monkeypatch.setattr(propagation, "block_memory", lambda: 6 * 8 * 12 * 50)
    given = da.from_array(X1, chunks=(50, 5)), da.from_array(X2, chunks=(7, -1))
    by_blocks = propagate_correspondences(*given, links, n_rounds=2)
    assert by_blocks.spaces[0].numblocks[0] == 3
    assert by_blocks.n_found == whole.n_found
    assert abs(by_blocks.links - whole.links).max() < 1e-6
    assert by_blocks.lost_share == whole.lost_share
    assert by_blocks.temperature == pytest.approx(whole.temperature, rel=1e-4)


def test_a_search_by_blocks_goes_on_where_it_was_interrupted(monkeypatch):
    """Each round, fold and search that was made before is not made again, and leaves no list behind."""
    X1, X2, _ = planted()
    links = correspondence_matrix(pairs_of(np.arange(10, 70)), 120, 120)
    monkeypatch.setattr(propagation, "ROWS_AT_ONCE", 0)
    search, made = propagation._lists_by_blocks, []

    def lists(*given, most):
        if len(made) == most:
            raise KeyboardInterrupt
        made.append(0)
        return search(*given)

    def run(most=1000):
        made.clear()
        monkeypatch.setattr(propagation, "_lists_by_blocks", partial(lists, most=most))
        return propagate_correspondences(X1, X2, links, n_rounds=2)

    expected, n_searches, states = run(), len(made), KeptStates()
    with keeping(states):
        for before in range(n_searches):  # one more search than has been made
            with pytest.raises(KeyboardInterrupt):
                run(most=1 if before else 0)
        found = run()
    assert len(made) == 1
    assert (found.links != expected.links).nnz == 0
    assert (found.n_found, found.temperature) == (expected.n_found, expected.temperature)
    rounds = [name.partition("/")[2] for name in states.arrays if "round" in name]
    assert sorted(rounds) == [f"all/round-00002/{field}" for field in ("counterparts", "n_found")]


def test_the_share_of_pairs_that_is_kept_rises_to_all():
    """Of two equal sets nearly all pairs of the 106 rows without a link are found in every round."""
    X = planted()[0]
    links = correspondence_matrix(pairs_of(np.arange(14)), 120, 120)
    found = propagate_correspondences(X, X, links, n_rounds=4, first_share=0.3)
    np.testing.assert_allclose(found.n_found, 106 * np.linspace(0.3, 1, 4), atol=3)


def test_few_pairs_leave_unknown_directions_out():
    X1, X2, _ = planted(d=40)
    links = correspondence_matrix(pairs_of(np.arange(6)), 120, 120)
    right = {}
    for exponent in (0.0, 0.5):
        found = propagate_correspondences(X1, X2, links, exponent=exponent)
        right[exponent] = np.mean(np.asarray(found.links.argmax(axis=0)).ravel() == np.arange(120))
        assert found.spaces[0].shape == found.spaces[1].shape
    assert right[0.5] > 0.9
    assert right[0.5] >= right[0.0]


def test_planted_rotation_is_propagated_and_features_follow():
    X1, X2, V = planted()
    known = np.arange(14)
    links = correspondence_matrix(pairs_of(known), 120, 120)
    found = propagate_correspondences(X1, X2, links)
    best = found.links.argmax(axis=0)
    assert np.mean(np.asarray(best).ravel() == np.arange(120)) > 0.95
    assert found.lost_share == pytest.approx(
        0.5 / 15
    )  # none of 14 pairs is lost, and half a pair on each side
    assert found.n_found == sorted(found.n_found)
    plain, propagated = (
        FeaturePreservingEmbedding(4, regularization=0.01, propagate=propagate).fit(
            X1, X2, V, pairs_of(known)
        )
        for propagate in (False, True)
    )
    errors = [np.sqrt(np.mean((model.features_ - V)[14:] ** 2)) for model in (plain, propagated)]
    assert errors[1] < 0.2 * errors[0]
    assert errors[0] < np.sqrt(np.mean((V - V.mean(axis=0))[14:] ** 2))


def test_probabilities_say_that_unrelated_sets_have_no_counterparts():
    X1, X2, _ = planted()
    links = correspondence_matrix(pairs_of(np.arange(30)), 120, 120)
    related = propagate_correspondences(X1, X2, links)
    unrelated = propagate_correspondences(X1, np.random.default_rng(5).standard_normal(X2.shape), links)
    for found in (related, unrelated):
        sums = found.links.sum(axis=0)
        np.testing.assert_allclose(sums[:30], 1)
        np.testing.assert_allclose(sums[30:], 1 - found.lost_share, atol=0.02)
    assert related.links[:, 30:].max() > 0.9
    assert unrelated.lost_share > 0.7


@pytest.mark.parametrize("chosen", [[0, 3, 12, 13, 29], [11], list(range(30))])
def test_chosen_rows_are_taken_from_their_blocks(chosen):
    rows = np.random.default_rng(0).standard_normal((30, 2))
    taken = propagation._take_rows(da.from_array(rows, chunks=((10, 4, 7, 9), 2)), np.array(chosen))
    np.testing.assert_array_equal(compute(taken), rows[chosen])
