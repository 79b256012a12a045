"""Block functions of the manifold methods against plain formulas."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import nnls

from distembed.manifold import blocks, cosine_blocks
from tests.references import imputation as oracle

SHAPES = st.tuples(st.integers(3, 30), st.integers(1, 9))
# A coarse grid of values gives many exactly equal distances and equal rows.
COARSE = st.integers(-3, 3).map(float)


def rows_of(dtype):
    return SHAPES.flatmap(lambda shape: hnp.arrays(dtype, shape, elements=COARSE))


def lists_of(X, k, *, groups=None, cut=None, offset=0.0):
    """Return the lists of all rows of X, computed from tiles cut at `cut` and merged."""
    ids = np.arange(len(X))
    groups = ids if groups is None else groups
    edges = [0, *(cut or []), len(X)]
    tiles = [
        blocks.nearest_in_tile(X, groups, X[a:b], ids[a:b], groups[a:b], np.full(X.shape[1], offset), k=k)
        for a, b in itertools.pairwise(edges)
    ]
    return blocks.merge_lists(np.stack(tiles, axis=1))[:, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_nearest_in_tile_orders_by_distance_then_row(dtype, data):
    X = data.draw(rows_of(dtype))
    k = data.draw(st.integers(1, len(X) - 1))
    cut = sorted(data.draw(st.sets(st.integers(1, len(X) - 1), max_size=3)))
    order, D = oracle.nearest(oracle.distances(X), k)
    lists = lists_of(X, k, cut=cut)
    np.testing.assert_array_equal(lists[:, 1], order)
    np.testing.assert_allclose(np.sqrt(lists[:, 0]), D, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearest_in_tile_is_exact_far_from_the_origin(dtype):
    # Distances are 1e-4 of the lengths: a float32 product alone has no correct digit of their squares.
    X = (1e4 + np.random.default_rng(0).random((300, 6))).astype(dtype)
    order, _ = oracle.nearest(oracle.distances(X), 5)
    for offset in (0.0, 1e4):
        np.testing.assert_array_equal(lists_of(X, 5, offset=offset)[:, 1], order)


@pytest.mark.parametrize("scale", [2.0**-90, 2.0**90])
def test_nearest_in_tile_is_exact_where_float32_products_overflow_or_vanish(scale):
    X = np.random.default_rng(0).standard_normal((100, 6)).astype(np.float32)
    lists = lists_of(X * np.float32(scale), 5)
    np.testing.assert_array_equal(lists[:, 1], lists_of(X, 5)[:, 1])


def test_nearest_in_tile_has_the_same_bits_for_any_cut():
    X = np.random.default_rng(1).standard_normal((700, 33)).astype(np.float32)
    whole = lists_of(X, 7)
    assert whole.tobytes() == lists_of(X, 7, cut=[1, 300, 301]).tobytes()
    assert whole.tobytes() == lists_of(X, 7, cut=[256], offset=0.5).tobytes()


def test_nearest_in_tile_leaves_out_the_own_group_and_marks_what_is_missing():
    X = np.arange(6.0)[:, None]
    lists = lists_of(X, 4, groups=np.array([0, 0, 0, 1, 1, 0]))
    np.testing.assert_array_equal(lists[0, 1], [3, 4, -1, -1])
    np.testing.assert_array_equal(lists[3, 1], [2, 1, 5, 0])
    assert np.isinf(lists[0, 0, 2:]).all()


def test_a_mass_of_equal_rows_lists_the_smallest_numbers():
    lists = lists_of(np.ones((500, 5), np.float32), 3, cut=[100, 400])
    np.testing.assert_array_equal(lists[:3, 1], [[1, 2, 3], [0, 2, 3], [0, 1, 3]])
    np.testing.assert_array_equal(lists[499, 1], [0, 1, 2])
    assert not lists[:, 0].any()


@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_sparse_tiles_agree_with_dense_ones(data):
    X = np.abs(data.draw(rows_of(np.float64)))
    X[:, 0] += 1
    X += np.random.default_rng(0).random(X.shape) * (X > 0)
    unit = blocks.unit_rows(X)
    k = data.draw(st.integers(1, len(X) - 1))
    ids = np.arange(len(X))
    sparse = blocks.unit_rows(sp.csr_array(X))
    lists = cosine_blocks.nearest_in_sparse_tile(sparse, ids, sparse, ids, ids, k=k)
    np.testing.assert_allclose(lists[:, 0], lists_of(unit, k)[:, 0], atol=1e-14)


def test_sparse_rows_without_a_common_feature_are_at_distance_one():
    X = blocks.unit_rows(sp.csr_array(np.eye(4)))
    ids = np.arange(4)
    lists = cosine_blocks.nearest_in_sparse_tile(X, ids, X, ids, ids, k=2)
    np.testing.assert_array_equal(lists[:, 0] / 2, 1.0)
    np.testing.assert_array_equal(lists[:, 1], [[1, 2], [0, 2], [0, 1], [0, 1]])


def test_accurate_squares_keep_their_digits_where_rows_nearly_coincide():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 40)) + 1e3
    Z = X + 1e-5 * rng.standard_normal(X.shape)
    exact = ((X.astype(np.longdouble)[:, None] - Z.astype(np.longdouble)) ** 2).sum(axis=-1)
    np.testing.assert_allclose(blocks.accurate_squares(X, Z), exact.astype(float), rtol=1e-11)


def test_row_faults_tell_bad_from_empty():
    X = np.array([[1.0, 0], [np.nan, 1], [0, 0], [np.inf, 1]])
    np.testing.assert_array_equal(blocks.row_faults(X), [0, 1, 2, 1])
    np.testing.assert_array_equal(blocks.row_faults(sp.csr_array(X)), [0, 1, 2, 1])


def test_unit_rows_leave_their_argument_alone():
    X = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(blocks.unit_rows(X), [[0.6, 0.8], [0, 0]])
    np.testing.assert_allclose(blocks.unit_rows(sp.csr_array(X)).toarray(), [[0.6, 0.8], [0, 0]])
    assert X[0, 0] == 3.0


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_boruvka_with_whole_lists_finds_the_tree_of_prim(data):
    X = data.draw(rows_of(np.float64))
    lists = lists_of(X, len(X) - 1)
    groups, edges = np.arange(len(X)), []
    while groups.any():
        found = blocks.boruvka_round(lists, groups)
        assert found.squares.size  # whole lists prove something in every round
        edges += [tuple(sorted(edge)) for edge in found.edges.tolist()]
        groups = found.groups
    D = oracle.distances(X)
    assert len(set(edges)) == len(X) - 1
    np.testing.assert_allclose(
        sum(D[i, j] for i, j in edges), sum(D[i, j] for i, j in oracle.prim(D)), rtol=1e-12
    )


def test_boruvka_takes_no_edge_that_a_short_list_leaves_in_doubt():
    # Rows 0, 1 and 2, 3 are close pairs: lists of one neighbour say nothing about how the pairs join.
    lists = lists_of(np.array([[0.0], [1.0], [5.0], [6.0]]), 1)
    first = blocks.boruvka_round(lists, np.arange(4))
    np.testing.assert_array_equal(first.groups, [0, 0, 2, 2])
    second = blocks.boruvka_round(lists, first.groups)
    assert second.edges.size == 0
    assert second.unsure.all()


@settings(deadline=None, max_examples=30)
@given(
    A=st.tuples(st.integers(1, 9), st.integers(1, 12)).flatmap(
        lambda s: hnp.arrays(float, s, elements=COARSE)
    )
)
def test_simplex_weights_are_on_the_simplex_and_optimal(A):
    w, certificate = blocks.simplex_weights(A)
    assert (w >= 0).all()
    assert w.sum() == pytest.approx(1)
    assert certificate < 1e-8
    plain = oracle.simplex_weights(np.zeros(A.shape[1]), A)
    scale = (A**2).sum(axis=1).mean()
    assert ((w @ A) ** 2).sum() <= ((plain @ A) ** 2).sum() + 1e-8 * scale


def test_simplex_weights_of_a_known_mixture():
    rng = np.random.default_rng(0)
    neighbors = rng.standard_normal((5, 20))
    truth = np.array([0.5, 0.0, 0.2, 0.3, 0.0])
    w, _ = blocks.simplex_weights(neighbors - truth @ neighbors)
    np.testing.assert_allclose(w, truth, atol=1e-9)


def test_equal_neighbours_share_their_weight():
    w, certificate = blocks.simplex_weights(np.array([[1.0, 0], [1.0, 0], [-1.0, 0]]))
    np.testing.assert_allclose(w, [0.25, 0.25, 0.5], atol=1e-6)
    assert certificate < 1e-8
    w, _ = blocks.simplex_weights(np.zeros((4, 3)))
    np.testing.assert_array_equal(w, 0.25)


def test_the_certificate_sees_weights_that_are_not_optimal(monkeypatch):
    A = np.random.default_rng(0).standard_normal((4, 6))
    _w, good = blocks.simplex_weights(A)
    G = A @ A.T
    worse = np.full(4, 0.25)
    assert (worse @ G @ worse - (G @ worse).min()) / np.diag(G).mean() > 1e-3 > good


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 10), st.integers(3, 15))
def test_cone_weights_equal_scipys(seed, k, d):
    rng = np.random.default_rng(seed)
    A, x = rng.standard_normal((k, d)), rng.standard_normal(d)
    w, certificate = blocks.cone_weights(A, x)
    # Gram matrices square the condition of A: with more columns than dimensions digits are lost.
    assert certificate < 1e-6
    residual, plain = np.linalg.norm(x - w @ A), nnls(A.T, x)[1]
    assert residual == pytest.approx(plain, abs=1e-7)


def test_cone_weights_may_all_be_zero():
    w, certificate = blocks.cone_weights(np.array([[1.0, 0.0], [0.5, 0.0]]), np.array([-1.0, 0.0]))
    np.testing.assert_array_equal(w, 0)
    assert certificate == 0
    np.testing.assert_array_equal(blocks.raise_to_floor(w, 0.1, 0.0), 0.5)


@given(
    hnp.arrays(float, st.integers(1, 9), elements=st.sampled_from([0.0, 1e-12, 0.25, 1.0])),
    st.sampled_from([0.0, 1e-6, 0.5]),
)
def test_floor_makes_every_weight_positive(w, least):
    raised = blocks.raise_to_floor(w, 0.1, least)
    assert (raised > 0).all()
    np.testing.assert_allclose(raised, oracle.with_floor(w, 0.1, least), rtol=1e-12)


def test_a_tiny_weight_does_not_make_the_floor_tiny():
    """The last of three neighbours hardly counts: a floor of its weight would let I - W grow singular."""
    X = np.array([[0.0, 0.0], [1.0, 1e-13], [-1.0, 1e-13], [1.0, -3.0]])
    structure = np.array([0]), np.array([0, 3]), np.array([1, 2, 3])
    weights, _ = blocks.reconstruction_weights(X, *structure, 0.1, True)
    plain = blocks.reconstruction_weights(X, *structure, 0.0, True)[0]
    assert 0 < plain[2] < 1e-9
    assert weights.min() == pytest.approx(0.1 * blocks.LEAST_FLOOR / 3, rel=1e-3)


def chain(n):
    """Return the walk on a line: each row the mean of its two neighbours, the ends known."""
    W = np.zeros((n, n))
    for i in range(n):
        near = [j for j in (i - 1, i + 1) if 0 <= j < n]
        W[i, near] = 1 / len(near)
    return sp.csr_array(W)


@pytest.mark.parametrize("n", [3, 10, 60])
def test_solve_columns_interpolates_a_line(n):
    W = chain(n)
    inner = slice(1, n - 1)
    ends = np.array([[0.0, 5.0, 0.0], [1.0, 5.0, 0.0]])
    B = W[inner][:, [0, n - 1]] @ ends
    solved = blocks.solve_columns(
        W[inner][:, inner].tocsr(), B, ends.mean(axis=0)[None], tol=1e-12, max_iter=500
    )
    truth = np.linspace(ends[0], ends[1], n)[inner]
    np.testing.assert_allclose(solved[: n - 2], truth, atol=1e-9)
    assert (solved[n - 2] <= 1e-12).all()


def test_solve_columns_reports_what_it_could_not_reach():
    W = chain(60)
    B = W[1:59][:, [0, 59]] @ np.array([[0.0], [1.0]])
    solved = blocks.solve_columns(W[1:59][:, 1:59].tocsr(), B, np.full((1, 1), 0.5), tol=1e-12, max_iter=5)
    Y = solved[:58]
    true_residual = np.linalg.norm(B - Y + W[1:59][:, 1:59] @ Y) / np.linalg.norm(B)
    assert solved[58, 0] == pytest.approx(true_residual)
    assert solved[58, 0] > 1e-3
    assert solved[59, 0] == 5


def test_power_sweeps_record_every_sweep():
    rng = np.random.default_rng(0)
    W = sp.csr_array(rng.random((5, 5)) / 10)
    B, Y = rng.random((5, 2)), rng.random((5, 2))
    state = blocks.power_sweeps(W, B, Y, n_sweeps=2, lazy=True)
    first = (W @ Y + B + Y) / 2
    second = (W @ first + B + first) / 2
    np.testing.assert_allclose(state[:5], second)
    np.testing.assert_allclose(
        state[5:7], [np.abs(first - Y).sum(axis=0), np.abs(second - first).sum(axis=0)]
    )
    np.testing.assert_allclose(state[7:], [np.abs(Y).sum(axis=0), np.abs(first).sum(axis=0)])


def test_unreached_rows_follow_positive_weights_backwards():
    W = sp.csr_array(
        (np.array([1.0, 1.0, 1.0, 1.0, 0.0]), (np.array([0, 1, 2, 3, 3]), np.array([1, 0, 3, 2, 0]))),
        shape=(4, 4),
    )
    np.testing.assert_array_equal(blocks.unreached_rows(W, np.array([True, False, False, False])), [2, 3])
