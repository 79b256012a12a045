"""Solvers by columns against what they solve."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.linalg import columns
from distembed.neighbors.graphs import laplacian


def chain(n):
    """Return the walk on a line: each row the mean of its two neighbors, the ends known."""
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
    solved = columns.solve_columns(
        W[inner][:, inner].tocsr(), B, ends.mean(axis=0)[None], tol=1e-12, max_iter=500
    )
    truth = np.linspace(ends[0], ends[1], n)[inner]
    np.testing.assert_allclose(solved[: n - 2], truth, atol=1e-9)
    assert (solved[n - 2] <= 1e-12).all()


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
    found = columns.solve_shifted(L, confidence, shifts, targets, start, order=order, tol=1e-12)
    power = np.linalg.matrix_power(L.toarray(), order)
    for i in range(g):
        expected = np.linalg.solve(power + shifts[i] * np.diag(confidence), targets[:, i])
        np.testing.assert_allclose(found.values[:, i], expected, rtol=1e-6, atol=1e-7 * abs(expected).max())
    assert found.residuals.max() <= 1e-11


def test_zero_right_hand_side_gives_zero():
    L = laplacian(sp.csr_array(np.ones((3, 3)) - np.eye(3)))
    found = columns.solve_shifted(L, np.ones(3), np.zeros(1), np.zeros((3, 1)), np.ones((3, 1)))
    assert not found.values.any()
    assert found.n_iter == 0
