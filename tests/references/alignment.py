"""Feature-preserving embeddings as printed: the dense Kronecker system and pseudo-inverses (section 4)."""

from __future__ import annotations

import numpy as np


def grid_toy():
    """Return the paper's toy: 16 points of a grid (16 × 2) and their feature x·[-10, 10]ᵀ (16 × 1)."""
    first, second = np.meshgrid(np.linspace(-0.2, 0.5, 4), np.linspace(-0.5, 0.8, 4), indexing="ij")
    points = np.column_stack([first.ravel(), second.ravel()])
    return points, points @ np.array([[-10.0], [10.0]])


def best_regression(Z, V, confidence, ridge):
    """F = (ZᵀMZ + λI)^+ ZᵀMV."""
    M = np.diag(confidence)
    return np.linalg.pinv(Z.T @ M @ Z + ridge * np.eye(Z.shape[1]), rcond=1e-13) @ Z.T @ M @ V


def best_embedding(L, F, V, confidence):
    """vec(Z) = (I ⊗ L + F Fᵀ ⊗ M)^+ vec(M V Fᵀ), columns stacked."""
    M, k = np.diag(confidence), F.shape[0]
    system = np.kron(np.eye(k), L) + np.kron(F @ F.T, M)
    right = (M @ V @ F.T).T.ravel()
    return (np.linalg.pinv(system, rcond=1e-12, hermitian=True) @ right).reshape(k, -1).T


def objective(L, Z, F, V, confidence, *, ridge):
    """tr(ZᵀLZ) + Σ c_i ‖(ZF - V)_i‖² + λ‖F‖²."""
    misfit = (confidence[:, None] * (Z @ F - V) ** 2).sum()
    return np.trace(Z.T @ L @ Z) + misfit + ridge * (F**2).sum()


def alternate(L, V, known, Z, n_rounds):
    """Steps 3 to 8, λ = 0: unknown rows of V are zero, then Z F of the round before. Return Z, F."""
    everywhere = np.ones(len(V))
    F = best_regression(Z, np.where(known[:, None], V, 0.0), everywhere, 0.0)
    for _ in range(n_rounds):
        filled = np.where(known[:, None], V, Z @ F)
        Z = best_embedding(L, F, filled, everywhere)
        F = best_regression(Z, filled, everywhere, 0.0)
    return Z, F


def smallest_objective(L, v, confidence, *, ridge, n_rounds=500):
    """Return the least of 2 √ridge (aᵀLa)^½ + Σ c_i (a_i - v_i)², the objective of one feature for the best k.

    Each round makes the quadratic function that touches the first term from above at the a before as small as
    it can be.
    """
    M, a = np.diag(confidence), v.copy()
    for _ in range(n_rounds):
        a = np.linalg.solve(np.sqrt(ridge) / np.sqrt(a @ L @ a) * L + M, M @ v)
    return 2 * np.sqrt(ridge * (a @ L @ a)) + confidence @ (a - v) ** 2


def nearness(x, fitted, k, neighbor=7):
    """Return the weight of every fitted row for a new row: exp(-d²/h²) of the k nearest, h the 7th of their distances.

    Where h is 0 the limit of h -> 0: the rows at the distance 0 share the weight.
    """
    squares = ((fitted - x) ** 2).sum(axis=1)
    nearest = sorted(range(len(fitted)), key=lambda row: (squares[row], row))[:k]
    h2 = squares[nearest[min(neighbor, k) - 1]]
    weights = np.zeros(len(fitted))
    for row in nearest:
        weights[row] = np.exp(-squares[row] / h2) if h2 > 0 else float(squares[row] == 0)
    return weights / weights.sum()
