"""Block functions of neighbors and trees against plain formulas."""

import functools
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from distembed.linalg.csr import unit_rows
from distembed.neighbors import blocks, cosine_blocks
from distembed.neighbors.graph_blocks import boruvka_round
from tests.references import imputation as oracle

SHAPES = st.tuples(st.integers(3, 30), st.integers(1, 9))
# A coarse grid of values gives many exactly equal distances and equal rows.
COARSE = st.integers(-3, 3).map(float)


def rows_of(dtype):
    return SHAPES.flatmap(lambda shape: hnp.arrays(dtype, shape, elements=COARSE))


def tile(X, Z, groups, column_groups, first=0, k=3, **options):
    """Return the lists of X in Z; those of sparse rows where X is sparse."""
    if sp.issparse(X):
        options["dense_values"] = 60_000
    search = blocks.nearest_in_sparse_pair if sp.issparse(X) else blocks.nearest_in_pair
    return search([X, groups, 0], [Z, column_groups, first], k=k, **options)[0]


def lists_of(X, k, *, groups=None, cut=None):
    groups = np.arange(X.shape[0]) if groups is None else groups
    edges = [0, *(cut or []), X.shape[0]]
    tiles = [tile(X, X[a:b], groups, groups[a:b], a, k) for a, b in itertools.pairwise(edges)]
    return functools.reduce(blocks.merge_lists, tiles)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(deadline=None, max_examples=20)
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
    np.testing.assert_array_equal(lists_of(X, 5)[:, 1], order)


@pytest.mark.parametrize("scale", [2.0**-90, 2.0**90])
def test_nearest_in_tile_is_exact_where_float32_products_overflow_or_vanish(scale):
    X = np.random.default_rng(0).standard_normal((100, 6)).astype(np.float32)
    lists = lists_of(X * np.float32(scale), 5)
    np.testing.assert_array_equal(lists[:, 1], lists_of(X, 5)[:, 1])


@pytest.mark.parametrize(("sparse", "dtype"), [(False, np.float32), (False, np.float64), (True, np.float64)])
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_the_lists_of_a_pair_are_those_of_the_two_tiles(sparse, dtype, data):
    """Whatever both have found so far rules out, of dense rows and of sparse ones."""
    X = data.draw(rows_of(dtype))
    if sparse:
        X[:, 0] = 1 + np.abs(X[:, 0])
        X = unit_rows(sp.csr_array(X.astype(np.float64)))
    n = X.shape[0]
    cut, k = data.draw(st.integers(1, n - 1)), data.draw(st.integers(1, 4))
    groups = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, n)))
    sides = [(X[:cut], groups[:cut], 0), (X[cut:], groups[cut:], cut)]
    none = [blocks.empty_lists(rows.shape[0], k) for rows, *_ in sides]
    own = [tile(rows, rows, held, held, first, k) for rows, held, first in sides]
    alone = [
        tile(rows, others, held, of_others, first, k)
        for (rows, held, _), (others, of_others, first) in (sides, sides[::-1])
    ]
    search = blocks.nearest_in_sparse_pair if sparse else blocks.nearest_in_pair
    options = {"dense_values": 60_000} if sparse else {}
    for so_far in (none, own):
        found = search(*([*side, lists] for side, lists in zip(sides, so_far, strict=True)), k=k, **options)
        for one, other, known in zip(found, alone, so_far, strict=True):
            merged = [blocks.merge_lists(known, lists) for lists in (one, other)]
            assert merged[0].tobytes() == merged[1].tobytes()


def test_nearest_in_tile_leaves_out_the_own_group_and_marks_what_is_missing():
    X = np.arange(6.0)[:, None]
    lists = lists_of(X, 4, groups=np.array([0, 0, 0, 1, 1, 0]))
    np.testing.assert_array_equal(lists[0, 1], [3, 4, -1, -1])
    np.testing.assert_array_equal(lists[3, 1], [2, 1, 5, 0])
    assert np.isinf(lists[0, 0, 2:]).all()


def test_sparse_rows_without_a_common_feature_are_at_distance_one():
    lists = lists_of(unit_rows(sp.csr_array(np.eye(4))), 2)
    np.testing.assert_array_equal(lists[:, 0] / 2, 1.0)
    np.testing.assert_array_equal(lists[:, 1], [[1, 2], [0, 2], [0, 1], [0, 1]])


def test_accurate_squares_keep_their_digits_where_rows_nearly_coincide():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 40)) + 1e3
    Z = X + 1e-5 * rng.standard_normal(X.shape)
    exact = ((X.astype(np.longdouble)[:, None] - Z.astype(np.longdouble)) ** 2).sum(axis=-1)
    np.testing.assert_allclose(blocks.accurate_squares(X, Z), exact.astype(float), rtol=1e-11)


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_boruvka_with_whole_lists_finds_the_tree_of_prim(data):
    X = data.draw(rows_of(np.float64))
    lists = lists_of(X, len(X) - 1)
    groups, edges = np.arange(len(X)), []
    while groups.any():
        found = boruvka_round(lists, groups)
        assert found.squares.size  # whole lists prove something in every round
        edges += [tuple(sorted(edge)) for edge in found.edges.tolist()]
        groups = found.groups
    D = oracle.distances(X)
    assert len(set(edges)) == len(X) - 1
    np.testing.assert_allclose(
        sum(D[i, j] for i, j in edges), sum(D[i, j] for i, j in oracle.prim(D)), rtol=1e-12
    )


def test_boruvka_takes_no_edge_that_a_short_list_leaves_in_doubt():
    # Rows 0, 1 and 2, 3 are close pairs: lists of one neighbor say nothing about how the pairs join.
    lists = lists_of(np.array([[0.0], [1.0], [5.0], [6.0]]), 1)
    first = boruvka_round(lists, np.arange(4))
    np.testing.assert_array_equal(first.groups, [0, 0, 2, 2])
    second = boruvka_round(lists, first.groups)
    assert second.edges.size == 0
    assert second.unsure.all()


# --- cosines of sparse rows --------------------------------------------------------------------------------------


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
    place, n_dense, n_light = cosine_blocks.split_columns(X, X, 10**6)
    met = np.bincount(X.indices, minlength=300).astype(float) ** 2
    assert 0 < n_dense < 300
    assert met[place >= 0].min() > cosine_blocks.DENSE_SHARE * 400**2 >= met[place < 0].max()
    assert sorted(place[place >= 0]) == list(range(n_dense))
    assert sorted(-1 - place[place < 0]) == list(range(n_light))
    place, n_dense, _ = cosine_blocks.split_columns(X, X, 9 * 800)
    assert 0 < n_dense <= 9
    assert met[place >= 0].min() > met[place < 0].max()


def test_distances_have_the_same_bits_both_ways():
    X = unit_rows(counts(60, 200, density=0.9))
    D = cosine_blocks.all_distances(X, X)
    np.testing.assert_array_equal(D, D.T)
    rows = X.toarray()
    np.testing.assert_allclose(D, 1 - rows @ rows.T, atol=1e-14)
