"""Products and transposes of row-chunked matrices against dense arithmetic."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from distembed import lift
from distembed.linalg import blocks
from distembed.linalg.operators import (
    dense_blocks,
    row_blocks,
    sparse_times,
    transpose_row_blocks,
)


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


def test_products_by_pieces_have_the_bits_of_those_in_one(monkeypatch):
    sparse, dense, left = draw_sparse(50, 300, density=0.5), draw_dense(300, 8), draw_dense(50, 8)
    whole = blocks.sparse_times_dense(sparse, dense), blocks.sampled_product(sparse, left, dense)
    pieces = np.split(dense, [3, 3, 200])
    monkeypatch.setattr(blocks, "NEAR_BYTES", 32 * 20)
    for several in ([dense], pieces):
        np.testing.assert_array_equal(blocks.sparse_times_dense(sparse, several), whole[0])
        np.testing.assert_array_equal(blocks.sampled_product(sparse, left, several), whole[1])


def test_products_by_pieces_take_columns_in_any_order():
    sparse, dense = draw_sparse(20, 60, density=0.5), draw_dense(60, 3)
    mixed = csr_array(
        (sparse.data[::-1].copy(), sparse.indices[::-1].copy(), (sparse.nnz - sparse.indptr)[::-1].copy())
    )
    mixed.has_sorted_indices = False
    found = blocks.sparse_times_dense(mixed, np.split(dense, 4))
    np.testing.assert_allclose(found, (sparse.toarray() @ dense)[::-1], atol=1e-5)


def test_a_product_makes_every_block_of_its_vectors_once():
    """Dask joins what makes a block to each task that reads it, where both are of the same kind."""
    lazy, made = row_blocks(draw_sparse(60, 60), values_per_block=100), []
    vectors = dense_blocks(draw_dense(60, 4), lazy.chunks[0])
    drawn = lift.lift(lambda block: (made.append(len(block)), block)[1], "wc->wc", vectors)
    found = sparse_times(lazy, drawn).compute(scheduler="sync")
    assert len(lazy.chunks[0]) > 5
    assert sorted(made) == sorted(lazy.chunks[0])
    np.testing.assert_array_equal(found, sparse_times(lazy, vectors).compute(scheduler="sync"))
