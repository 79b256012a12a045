"""Solvers by columns against dense solutions."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, eye_array, random_array

from distembed.linalg import columns
from distembed.linalg.columns import conjugate_gradients
from distembed.neighbors.graphs import laplacian


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


# --- solvers by columns against what they solve -------------------------------------------------------------


def chain(n):
    """Return the walk on a line: each row the mean of its two neighbors, the ends known."""
    W = np.zeros((n, n))
    for i in range(n):
        near = [j for j in (i - 1, i + 1) if 0 <= j < n]
        W[i, near] = 1 / len(near)
    return sp.csr_array(W)


def test_solve_columns_reports_what_it_could_not_reach():
    W = chain(60)
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
    W = sp.csr_array(np.triu(generator.random((n, n)), 1))
    L = laplacian(sp.csr_array(W + W.T), normalization="none")
    confidence, shifts = generator.random(n), generator.random(g) + 0.1
    targets, start = generator.standard_normal((n, g)), generator.standard_normal((n, g))
    found = columns.solve_shifted(
        L, confidence, shifts, targets, start, order=order, tol=1e-12, max_iter=1000
    )
    power = np.linalg.matrix_power(L.toarray(), order)
    for values, shift, target in zip(found.values.T, shifts, targets.T, strict=True):
        expected = np.linalg.solve(power + shift * np.diag(confidence), target)
        np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-7 * abs(expected).max())
    assert found.residuals.max() <= 1e-11


def test_zero_right_hand_side_gives_zero():
    L = laplacian(sp.csr_array(np.ones((3, 3)) - np.eye(3)))
    nothing, ones = np.zeros((3, 1)), np.ones((3, 1))
    found = columns.solve_shifted(L, np.ones(3), np.zeros(1), nothing, ones, order=1, tol=1e-8, max_iter=9)
    assert not found.values.any()
    assert found.n_iter == 0
