"""Products, transposes, unit rows and grids of row blocks against dense arithmetic."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from distembed import lift
from distembed.linalg import blocks
from distembed.linalg.chunks import cut_rows, evenly_spaced
from distembed.linalg.csr import canonical_csr, unit_rows
from distembed.linalg.operators import dense_blocks, row_blocks, sparse_times, transpose_row_blocks


def draw_sparse(n, m, seed=0, density=0.2):
    return csr_array(random_array((n, m), density=density, rng=np.random.default_rng(seed), dtype=np.float32))


def draw_dense(n, b, seed=1):
    return np.random.default_rng(seed).standard_normal((n, b)).astype(np.float32)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 9), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_block_products_equal_dense_ones(n, m, b, seed):
    sparse, dense = draw_sparse(n, m, seed, 0.4), draw_dense(m, b, seed)
    np.testing.assert_allclose(blocks.sparse_times_dense(sparse, dense), sparse.toarray() @ dense, atol=1e-5)
    left = draw_dense(n, b, seed + 1)
    expected = (left @ dense.T)[sparse.toarray() != 0]
    np.testing.assert_allclose(blocks.sampled_product(sparse, left, dense), expected, atol=1e-5)


def test_the_pieces_of_a_block_are_freed_one_by_one():
    """One that looks into the whole block would hold all of it until the last piece is stacked."""
    pieces = blocks.split_columns(draw_sparse(30, 40), (0, 10, 40))
    for array in (array for piece in pieces for array in (piece.data, piece.indices)):
        held = array if array.base is None else array.base
        assert held.size == array.size


@pytest.mark.parametrize(("n", "m", "per_block"), [(40, 40, 60), (40, 7, 1), (3, 40, 10_000), (1, 1, 1)])
def test_transpose_of_row_blocks(n, m, per_block):
    matrix = draw_sparse(n, m)
    turned = transpose_row_blocks(row_blocks(matrix, values_per_block=per_block))
    result = turned.compute()
    assert turned.shape == (m, n)
    assert result.has_sorted_indices
    assert result.indices.dtype == np.int32
    np.testing.assert_array_equal(result.toarray(), matrix.toarray().T)


def test_a_product_in_one_process_has_the_bits_of_one_on_a_cluster(monkeypatch):
    """There each block of the vectors is an argument of each task, and here one task makes a list of them."""
    lazy = row_blocks(draw_sparse(60, 60), values_per_block=100)
    vectors = dense_blocks(draw_dense(60, 4), lazy.chunks[0])
    here = sparse_times(lazy, vectors)
    monkeypatch.setattr(lift, "client_in_force", lambda: "a client")
    there = sparse_times(lazy, vectors)
    assert here.chunks == there.chunks
    assert len(here.dask) != len(there.dask)
    np.testing.assert_array_equal(here.compute(scheduler="sync"), there.compute(scheduler="sync"))


def test_products_by_pieces_have_the_bits_of_those_in_one_also_of_columns_in_any_order(monkeypatch):
    sparse, dense, left = draw_sparse(50, 300, density=0.5), draw_dense(300, 8), draw_dense(50, 8)
    whole = blocks.sparse_times_dense(sparse, dense), blocks.sampled_product(sparse, left, dense)
    reversed_rows = (
        sparse.data[::-1].copy(),
        sparse.indices[::-1].copy(),
        (sparse.nnz - sparse.indptr)[::-1].copy(),
    )
    mixed = csr_array(reversed_rows, shape=sparse.shape)
    mixed.has_sorted_indices = False
    pieces = np.split(dense, [3, 3, 200])
    monkeypatch.setattr(blocks, "NEAR_BYTES", 32 * 20)
    for several in ([dense], pieces):
        np.testing.assert_array_equal(blocks.sparse_times_dense(sparse, several), whole[0])
        np.testing.assert_array_equal(blocks.sampled_product(sparse, left, several), whole[1])
    np.testing.assert_allclose(blocks.sparse_times_dense(mixed, pieces), whole[0][::-1], atol=1e-4)


def test_a_product_makes_every_block_of_its_vectors_once():
    """Dask joins what makes a block to each task that reads it, where both are of the same kind."""
    lazy, made = row_blocks(draw_sparse(60, 60), values_per_block=100), []
    vectors = dense_blocks(draw_dense(60, 4), lazy.chunks[0])
    drawn = lift.lift(lambda block: (made.append(len(block)), block)[1], "wc->wc", vectors)
    found = sparse_times(lazy, drawn).compute(scheduler="sync")
    assert len(lazy.chunks[0]) > 5
    assert sorted(made) == sorted(lazy.chunks[0])
    np.testing.assert_array_equal(found, sparse_times(lazy, vectors).compute(scheduler="sync"))


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-560, 2.0**600, 2.0**1000])
def test_rows_whose_squares_underflow_or_overflow_have_a_direction(scale):
    X = np.array([[3.0, 4.0], [0, 0], [1, -7]])
    mixed, expected = X * np.array([[scale], [1], [1]]), unit_rows(X)
    np.testing.assert_allclose(expected[0], [0.6, 0.8], rtol=1e-15)
    np.testing.assert_allclose(unit_rows(mixed), expected, rtol=1e-15)
    np.testing.assert_allclose(unit_rows(sp.csr_array(mixed)).toarray(), expected, rtol=1e-15)
    assert mixed[0, 0] == 3 * scale


def test_unsorted_duplicated_and_zero_cells_are_made_canonical_without_touching_the_input():
    block = sp.csr_array(
        (np.array([1.0, 2, 0, 3]), np.array([2, 2, 0, 1]), np.array([0, 3, 4])), shape=(2, 3)
    )
    clean = canonical_csr(block)
    np.testing.assert_array_equal(clean.toarray(), [[0, 0, 3], [0, 3, 0]])
    assert (clean.nnz, block.nnz) == (2, 4)
    assert canonical_csr(clean) is clean
    assert canonical_csr(clean, np.float32).dtype == np.float32


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_has_no_direction(sparse, value):
    X = np.array([[3.0, 4.0], [value, 1.0], [0.0, 2.0]], np.float32)
    found = unit_rows(sp.csr_array(X) if sparse else X, dtype=np.float32)
    assert found.dtype == np.float32
    expected = np.array([[0.6, 0.8], [0, 0], [0, 1]], np.float32)
    np.testing.assert_array_equal(found.toarray() if sparse else found, expected)


@given(
    st.lists(st.integers(0, 30) | st.integers(0, 900), max_size=40),
    st.integers(0, 1000),
    st.none() | st.integers(1, 9),
)
def test_blocks_of_rows_keep_to_their_values_and_their_rows_and_none_is_empty(sizes, values, rows):
    """A row of more values than a block may hold begins one; a block memory of a few bytes divided by zero."""
    sizes, most = np.array(sizes, int), 2 * max(values, 1) if rows is None else max(values, 1)
    bounds = np.cumsum([0, *cut_rows(sizes, values, rows)])
    assert bounds[-1] == len(sizes)
    for first, stop in pairwise(bounds):
        assert 1 <= stop - first <= (rows + 1 if rows else len(sizes))
        assert sizes[first + 1 : stop].sum() <= most


def test_rows_without_values_are_one_block_where_none_is_limited():
    assert cut_rows(np.zeros(5, int), 100) == (5,)


@pytest.mark.parametrize(
    ("n", "limit", "chosen"), [(0, 3, []), (3, 5, [0, 1, 2]), (10, 4, [0, 3, 6, 9]), (5, 1, [0])]
)
def test_numbers_are_evenly_spaced_from_the_first_to_the_last(n, limit, chosen):
    assert evenly_spaced(n, limit).tolist() == chosen
