"""Block functions of the sparse neighbor search against plain products."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.linalg.csr import unit_rows
from distembed.neighbors import cosine_blocks


def counts(n=40, m=60, seed=0, density=0.3, dtype=np.float32):
    """Return counts whose columns empty out as those of words do; no row of zeros."""
    rng = np.random.default_rng(seed)
    share = density / (1 + np.arange(m) / 8)
    values = rng.poisson(4, (n, m)) * (rng.random((n, m)) < share)
    values[np.arange(n), rng.integers(0, m, n)] += 1
    return sp.csr_array(values.astype(dtype))


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(1, 30),
    m=st.integers(1, 700),
    seed=st.integers(0, 1000),
    density=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    dense_values=st.sampled_from([0, 20, 300, 10_000, 100_000]),
)
def test_approximate_cosines_stay_within_their_error(n, m, seed, density, dense_values):
    X = unit_rows(counts(n, m, seed, density))
    Z = unit_rows(counts(17, m, seed + 1, density))
    scores = cosine_blocks.approximate_cosines(X, Z, dense_values=dense_values)
    assert scores.dtype == np.float32
    error = np.abs(scores - X.toarray() @ Z.toarray().T).max()
    assert error <= cosine_blocks.cosine_error(m)


def test_columns_are_split_by_what_they_cost():
    X = counts(400, 300)
    split = cosine_blocks.split_columns(X, X, 10**6)
    met = cosine_blocks.column_counts(X) ** 2
    assert 0 < split.n_dense < 300
    assert met[split.place >= 0].min() > cosine_blocks.DENSE_SHARE * 400**2 >= met[split.place < 0].max()
    assert sorted(split.place[split.place >= 0]) == list(range(split.n_dense))
    assert sorted(-1 - split.place[split.place < 0]) == list(range(split.n_light))
    few = cosine_blocks.split_columns(X, X, 9 * 800)
    assert 0 < few.n_dense <= 9
    assert met[few.place >= 0].min() > met[few.place < 0].max()


def test_candidates_are_the_largest_scores_both_ways():
    X, Z = unit_rows(counts(30)), unit_rows(counts(25, seed=1))
    groups = np.arange(30) % 5, np.arange(25) % 5
    found = cosine_blocks.tile_candidates(X, groups[0], 100, Z, groups[1], 200, dense_values=60_000, k=6)
    scores = cosine_blocks.approximate_cosines(X, Z, dense_values=60_000).astype(float)
    scores[groups[0][:, None] == groups[1]] = -np.inf
    for lists, S, first in ((found.rows, scores, 200), (found.columns, scores.T, 100)):
        order = np.argsort(-S, axis=1, kind="stable")[:, :6]
        np.testing.assert_array_equal(lists[:, 1], order + first)
        np.testing.assert_array_equal(lists[:, 0], -np.take_along_axis(S, order, axis=1))


def test_candidates_missing_from_a_small_tile_are_marked():
    X = unit_rows(counts(3))
    ids = np.arange(3)
    found = cosine_blocks.tile_candidates(X, ids, 0, X, ids, 0, dense_values=60_000, k=5)
    assert (found.rows[:, 1, 2:] == -1).all()
    assert np.isinf(found.rows[:, 0, 2:]).all()


def test_distances_have_the_same_bits_both_ways():
    X = unit_rows(counts(60, 200, density=0.9))
    ids = np.arange(60)
    D = np.full((60, 60), np.nan)
    lists = cosine_blocks.nearest_in_sparse_tile(X, ids, X, ids, ids, k=59)
    D[ids[:, None], lists[:, 1].astype(int)] = lists[:, 0]
    np.testing.assert_array_equal(D, D.T)


def test_measured_candidates_equal_the_certain_search():
    X = unit_rows(counts(50))
    ids = np.arange(50)
    certain = cosine_blocks.nearest_in_sparse_tile(X, ids, X, ids, ids, k=4)
    every = np.full((50, 2, 50), -1.0)
    every[:, 0] = np.inf  # nothing was cut
    every[:, 1] = np.where(ids == ids[:, None], -1, ids)
    parts, firsts = [X[:20], X[20:]], [np.array([0]), np.array([20])]
    found = cosine_blocks.measure_candidates(X, every, ids, parts, firsts, column_groups=ids, k=4)
    assert found.tobytes() == certain.tobytes()


def test_rows_whose_candidates_are_cut_short_are_searched_again():
    X = unit_rows(counts(50))
    ids = np.arange(50)
    certain = cosine_blocks.nearest_in_sparse_tile(X, ids, X, ids, ids, k=4)
    none = np.full((50, 2, 4), -1.0)
    parts, firsts = [X[:20], X[20:]], [np.array([0]), np.array([20])]
    found = cosine_blocks.measure_candidates(X, none, ids, parts, firsts, column_groups=ids, k=4)
    assert found.tobytes() == certain.tobytes()


def test_a_row_is_uncertain_where_what_was_cut_could_be_nearer():
    lists = np.zeros((3, 2, 2))
    lists[:, 0, -1] = 2 * (1 - 0.5)  # the second neighbor has the cosine 0.5
    candidates = np.zeros((3, 2, 4))
    candidates[:, 0, -1] = [-0.49, -0.4999, np.inf]  # the last candidate's score; nothing was cut
    assert cosine_blocks.uncertain_rows(lists, candidates, error=1e-3).tolist() == [False, True, False]
