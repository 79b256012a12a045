"""Largest eigenpairs, and systems solved by columns, against dense decompositions and solutions."""

from functools import partial

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, diags_array, eye_array, random_array

from distembed.linalg import blocks, columns, eigen
from distembed.linalg.columns import conjugate_gradients
from distembed.linalg.eigen import filtered_eigenpairs, largest_eigenpairs
from distembed.linalg.operators import SymmetricMatrix, row_blocks, sparse_plus_low_rank, sparse_times
from distembed.neighbors.graphs import laplacian
from distembed.states import keeping
from tests.kept_states import KeptStates


def matrix_of(n=120, *, constant=0.0, per_block=500, dtype=np.float32, seed=0):
    half = random_array((n, n), density=0.1, rng=np.random.default_rng(seed), dtype=dtype)
    sparse = csr_array(half + half.T)
    rows = row_blocks(sparse, values_per_block=per_block)
    ones = da.ones((n, 1), chunks=(rows.chunks[0], 1), dtype=dtype)
    return sparse_plus_low_rank(rows, ones, constant), sparse.toarray() + constant


def symmetric(matrix, **options):
    rows = row_blocks(csr_array(matrix), **options)
    return SymmetricMatrix(partial(sparse_times, rows), rows.chunks[0])


@pytest.mark.parametrize(("constant", "per_block"), [(0.0, 10_000), (3.0, 500), (-200.0, 500)])
def test_finds_the_algebraically_largest_beside_one_huge_negative_eigenvalue(constant, per_block):
    matrix, dense = matrix_of(constant=constant, per_block=per_block)
    ones = da.ones((120, 1), chunks=(matrix.row_chunks, 1), dtype=np.float32)
    found = largest_eigenpairs(matrix, 6, start=ones, block_size=10, n_passes=12)
    expected = np.linalg.eigvalsh(dense)[::-1][:6]
    np.testing.assert_allclose(found.values, expected, rtol=1e-4)
    vectors = found.vectors.compute()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(6), atol=2e-6)
    true = np.linalg.norm(dense @ vectors - vectors * found.values, axis=0)
    np.testing.assert_allclose(found.residuals, true, atol=2e-3 * max(1, abs(constant)))


@pytest.mark.parametrize("per_block", [10_000, 1])
def test_an_exhausted_space_gives_all_eigenpairs_exactly(per_block):
    matrix, dense = matrix_of(n=20, per_block=per_block)
    found = largest_eigenpairs(matrix, 20, block_size=8, n_passes=50)
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(dense)[::-1], atol=1e-4)
    assert found.n_passes <= 3
    nothing = largest_eigenpairs(symmetric(np.zeros((30, 30), np.float32)), 3, n_passes=3)
    np.testing.assert_allclose(nothing.values, 0, atol=1e-12)
    assert np.isfinite(nothing.vectors.compute()).all()


def test_tolerance_stops_early_or_is_not_met():
    matrix, dense = matrix_of(dtype=np.float64)
    found = largest_eigenpairs(matrix, 3, block_size=8, n_passes=14, tol=1e-4, dtype=np.float64)
    assert found.n_passes < 14
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(dense)[::-1][:3], rtol=1e-6)
    assert found.converged
    assert np.all(found.residuals <= 1e-4 * found.values)
    assert not largest_eigenpairs(matrix, 3, n_passes=1, tol=1e-8).converged


def test_a_tolerance_that_rounding_prevents_makes_no_more_passes_than_lower_the_residual():
    values = np.concatenate([[1.0], 1e-6 * np.linspace(1, 0.5, 99)])
    matrix = symmetric(np.diag(values))
    found = largest_eigenpairs(matrix, 10, n_passes=9, tol=1e-3)
    assert (found.n_passes, found.converged) == (6, True)
    assert found.residuals.max() > 1e-3 * found.values[-1]


def test_the_start_follows_from_the_rows_and_not_from_their_blocks(monkeypatch):
    monkeypatch.setattr(eigen, "DRAWN_ROWS", 5)
    drawn = [
        eigen.starting_block(chunks, 3, random_state=7, dtype=np.float32).compute(scheduler="sync")
        for chunks in ((23,), (5,) * 4 + (3,), (1,) * 23, (4, 0, 11, 8), (10, 13))
    ]
    for other in drawn[1:]:
        np.testing.assert_array_equal(other, drawn[0])
    assert len(np.unique(drawn[0])) == 69  # no two rows draw the same numbers


@pytest.mark.parametrize("extra", [0, 1, 4, 12])
def test_a_start_that_lacks_directions_costs_none_where_the_passes_span_the_matrix(extra):
    """Vectors of which some are zero, as of negative eigenvalues that were cut off: see PSDVec's rounds."""
    matrix, dense = matrix_of(n=8 + extra)
    start = da.ones((8 + extra, 8), chunks=(matrix.row_chunks, 8), dtype=np.float32)
    found = largest_eigenpairs(matrix, 6, start=start, n_passes=4)
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(dense)[::-1][:6], atol=1e-5)
    np.testing.assert_allclose(found.residuals, 0, atol=1e-5)


@pytest.mark.parametrize("k", [0, 121])
def test_k_out_of_range_is_refused(k):
    with pytest.raises(ValueError, match=f"k is {k} but the matrix has 120 rows"):
        largest_eigenpairs(matrix_of()[0], k)


def test_a_restarted_basis_finds_the_same(monkeypatch):
    monkeypatch.setattr(eigen, "LEAST_WIDTH", 0)
    matrix, dense = matrix_of(n=300, per_block=900)
    ones = da.ones((300, 1), chunks=(matrix.row_chunks, 1), dtype=np.float32)
    states = KeptStates()
    with keeping(states):
        found = largest_eigenpairs(matrix, 6, start=ones, block_size=4, n_passes=40)
    assert [name for name in states.stored if name.endswith("ritz")]
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(dense)[::-1][:6], rtol=1e-5)
    vectors = found.vectors.compute()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(6), atol=5e-6)
    assert np.linalg.norm(dense @ vectors - vectors * found.values, axis=0).max() < 1e-3


def test_a_block_that_is_not_orthogonal_is_projected_again(monkeypatch):
    """A start within rounding of the eigenvectors: what its product adds is noise, and lies in the basis as well."""
    matrix, dense = matrix_of(n=200)
    exact = np.linalg.eigh(dense)[1][:, ::-1][:, :8].astype(np.float32)
    again, whiten = [], blocks.whitening

    def noted(squares, *, scaled=True, **rules):
        again.extend([1] * (not scaled))
        return whiten(squares, scaled=scaled, **rules)

    monkeypatch.setattr(blocks, "whitening", noted)
    start = da.from_array(exact, chunks=(matrix.row_chunks, 8))
    found = largest_eigenpairs(matrix, 8, start=start, n_passes=6)
    assert again
    vectors = found.vectors.compute()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=5e-6)
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(dense)[::-1][:8], rtol=1e-5)


def close_eigenvalues(n=300, seed=0, per_block=900):
    """Return a symmetric matrix whose largest eigenvalues are close together, and itself dense."""
    sparse = random_array((n, n), density=0.03, rng=np.random.default_rng(seed))
    sparse = csr_array(sparse + sparse.T)
    return symmetric(sparse, values_per_block=per_block), sparse.toarray()


@pytest.mark.parametrize(("n", "per_block", "k"), [(300, 10**6, 1), (120, 300, 12), (25, 1, 1)])
def test_filtered_blocks_find_the_largest(n, per_block, k):
    matrix, dense = close_eigenvalues(n, per_block=per_block)
    values, vectors = np.linalg.eigh(dense)
    found = filtered_eigenpairs(matrix, k, lower=values[0] - 0.1, upper=values[-1] + 0.1, tol=1e-9)
    np.testing.assert_allclose(found.values, values[::-1][:k], atol=1e-10)
    ours = found.vectors.compute()
    np.testing.assert_allclose(np.abs((ours * vectors[:, ::-1][:, :k]).sum(axis=0)), 1, atol=1e-9)
    np.testing.assert_allclose(ours.T @ ours, np.eye(k), atol=1e-12)
    true = np.linalg.norm(dense @ ours - ours * found.values, axis=0)
    assert true.max() <= 1e-9 * values[-1] + 1e-12
    assert (ours**3).sum(axis=0).min() > 0


def test_filtered_blocks_find_equal_eigenvalues_as_often_as_they_occur():
    dense = np.diag(np.r_[np.full(5, 2.0), np.full(3, 1.5), np.linspace(0, 1, 192)])
    matrix = symmetric(dense)
    found = filtered_eigenpairs(matrix, 7, lower=0, upper=2)
    np.testing.assert_allclose(found.values, [2] * 5 + [1.5] * 2, atol=1e-12)


def test_filtered_blocks_that_stop_early_say_so():
    matrix, _ = close_eigenvalues()
    with pytest.warns(RuntimeWarning, match="after 10 passes, above tol 1e-08.*raise n_rounds"):
        found = filtered_eigenpairs(matrix, 5, lower=-5, upper=20, n_rounds=2)
    assert found.residuals.max() > 1e-8
    with pytest.raises(ValueError, match="k is 301"):
        filtered_eigenpairs(matrix, 301, lower=-5, upper=20)


def definite(n=80, seed=0):
    half = random_array((n, n), density=0.05, rng=np.random.default_rng(seed))
    return csr_array(half @ half.T + eye_array(n) * np.linspace(0.1, 50, n))


@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-10), (np.float32, 1e-5)])
@pytest.mark.parametrize("has_start", [False, True])
def test_conjugate_gradients_solve_every_column(dtype, tol, has_start):
    matrix, random = definite(40), np.random.default_rng(1)
    right = random.standard_normal((40, 5)).astype(dtype)
    right[:, 2], right[:, 4] = 0, right[:, 0]
    start = random.standard_normal((40, 5)).astype(dtype) if has_start else None
    scales, small = 1 / matrix.diagonal()[:, None], matrix.astype(dtype)
    found = conjugate_gradients(small.__matmul__, right, scales, start, tol=tol, max_iter=100)
    assert found.values.dtype == dtype
    np.testing.assert_allclose(found.values, np.linalg.solve(matrix.toarray(), right), atol=300 * tol)
    left_over = np.linalg.norm(right - small @ found.values, axis=0)
    np.testing.assert_allclose(found.residuals * np.linalg.norm(right, axis=0), left_over, atol=1e-6 * tol)
    assert found.residuals.max() <= tol
    assert not found.values[:, 2].any()
    assert found.n_iter <= 40


def test_conjugate_gradients_that_stop_early_tell_the_true_residual():
    matrix, right = definite(), np.ones((80, 1))
    found = conjugate_gradients(matrix.__matmul__, right, np.ones((80, 1)), tol=1e-9, max_iter=2)
    assert found.n_iter == 2
    assert found.residuals == pytest.approx(np.linalg.norm(right - matrix @ found.values) / np.sqrt(80))


def test_solve_columns_reports_what_it_could_not_reach():
    W = diags_array([0.5, 0.5], offsets=[-1, 1], shape=(60, 60), format="csr")
    B = W[1:59][:, [0, 59]] @ np.array([[0.0], [1.0]])
    solved = columns.solve_columns(W[1:59][:, 1:59].tocsr(), B, np.full((1, 1), 0.5), tol=1e-12, max_iter=5)
    Y = solved[:58]
    true_residual = np.linalg.norm(B - Y + W[1:59][:, 1:59] @ Y) / np.linalg.norm(B)
    assert solved[58, 0] == pytest.approx(true_residual)
    assert solved[58, 0] > 1e-3
    assert solved[59, 0] == 5
    record = solved[60:, 0]  # of the recurrence, whose residual is the true one up to rounding
    assert record[4] == pytest.approx(true_residual, rel=1e-6)
    assert np.isnan(record[5:]).all()


@given(st.integers(0, 10**6), st.integers(2, 25), st.integers(1, 6), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_shifted_systems_match_dense_solve(seed, n, g, order):
    generator = np.random.default_rng(seed)
    W = csr_array(np.triu(generator.random((n, n)), 1))
    L = laplacian(csr_array(W + W.T), normalization="none")
    confidence, shifts = generator.random(n), generator.random(g) + 0.1
    targets, start = generator.standard_normal((n, g)), generator.standard_normal((n, g))
    matrices = {"laplacian": L, "confidence": confidence, "order": order}
    *found, residuals = columns.solve_shifted(shifts, targets, start, **matrices, tol=1e-12, max_iter=1000)
    power = np.linalg.matrix_power(L.toarray(), order)
    for values, shift, target in zip(np.array(found).T, shifts, targets.T, strict=True):
        expected = np.linalg.solve(power + shift * np.diag(confidence), target)
        np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-7 * abs(expected).max())
    assert residuals.max() <= 1e-11


def test_zero_right_hand_side_gives_zero():
    L = laplacian(csr_array(np.ones((3, 3)) - np.eye(3)))
    nothing, ones = np.zeros((3, 1)), np.ones((3, 1))
    matrices = {"laplacian": L, "confidence": np.ones(3), "order": 1}
    assert not columns.solve_shifted(np.zeros(1), nothing, ones, **matrices, tol=1e-8, max_iter=9).any()
