"""Conjugate gradients and ridge against dense solutions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, eye_array, random_array

from distembed.linalg import solve
from distembed.linalg.operators import SparsePlusLowRank, row_blocks, transpose_row_blocks
from distembed.linalg.solve import NormalMatrix, conjugate_gradients


def definite(n=80, seed=0):
    half = random_array((n, n), density=0.05, rng=np.random.default_rng(seed))
    return csr_array(half @ half.T + eye_array(n) * np.linspace(0.1, 50, n))


@pytest.mark.parametrize(("per_block", "together"), [(10_000, 128), (100, 128), (100, 3), (10_000, 1)])
def test_conjugate_gradients_solve_every_column(monkeypatch, per_block, together):
    monkeypatch.setattr(solve, "SOLVED_TOGETHER", together)
    sparse = definite(40)
    matrix = SparsePlusLowRank(row_blocks(sparse, values_per_block=per_block))
    right = np.random.default_rng(1).standard_normal((40, 4))
    right[:, 2] = 0
    found = conjugate_gradients(matrix, right, tol=1e-10)
    vectors = found.vectors.compute()
    np.testing.assert_allclose(vectors, np.linalg.solve(sparse.toarray(), right), atol=1e-8)
    left_over = np.linalg.norm(right - sparse @ vectors, axis=0)
    np.testing.assert_allclose(found.residuals * np.linalg.norm(right, axis=0), left_over, atol=1e-12)
    assert found.converged
    assert found.n_iter < 40


def test_a_block_shares_its_directions():
    """80 right-hand sides span everything: one step; ten of them need a tenth of what one needs."""
    matrix = SparsePlusLowRank(row_blocks(definite()))
    right = np.random.default_rng(1).standard_normal((80, 80))
    assert conjugate_gradients(matrix, right, tol=1e-8).n_iter == 1
    alone = conjugate_gradients(matrix, right[:, :1], tol=1e-8).n_iter
    assert conjugate_gradients(matrix, right[:, :20], tol=1e-8).n_iter <= 0.3 * alone


def test_dependent_right_hand_sides():
    sparse = definite()
    matrix = SparsePlusLowRank(row_blocks(sparse, values_per_block=300))
    some = np.random.default_rng(1).standard_normal((80, 3))
    right = some @ np.array([[1.0, 2, 0, 1e-9, 3], [0, 1, 0, 1, 0], [0, 5, 0, 1, 3]])
    found = conjugate_gradients(matrix, right, tol=1e-9)
    np.testing.assert_allclose(found.vectors.compute(), np.linalg.solve(sparse.toarray(), right), atol=1e-7)
    assert found.converged
    nothing = conjugate_gradients(matrix, np.zeros((80, 2)))
    assert not nothing.vectors.compute().any()
    assert nothing.n_iter == 0


def test_stopping_early_is_said_and_warned():
    matrix = SparsePlusLowRank(row_blocks(definite()))
    with pytest.warns(RuntimeWarning, match="after 2 iterations"):
        found = conjugate_gradients(matrix, np.ones((80, 1)), max_iter=2)
    assert not found.converged


def test_ridge_equals_the_dense_solution():
    sparse = csr_array(random_array((60, 30), density=0.2, rng=np.random.default_rng(3)))
    right = np.random.default_rng(4).standard_normal((60, 5))
    dense = sparse.toarray()
    rows = row_blocks(sparse, values_per_block=50)
    matrix = NormalMatrix(rows, transpose_row_blocks(rows), 0.1)
    found = conjugate_gradients(matrix, dense.T @ right, tol=1e-10)
    expected = np.linalg.solve(dense.T @ dense + 0.1 * np.eye(30), dense.T @ right)
    np.testing.assert_allclose(found.vectors.compute(), expected, atol=1e-7)
