"""Mathematics of one block for feature-preserving embeddings and linear maps between two sets of vectors.

Letters
-------
L : graph Laplacian, n × n, symmetric, positive semidefinite, CSR.
m : confidence of the known value of each row, (n,), 0 where there is none; M = diag(m).
V : feature values, (n × f). Z : embedding, (n × k). F : regression weights, (k × f).
s, Q : eigenvalues and eigenvectors of F Fᵀ; (L + s_i M) (Z Q)_i = (M V Fᵀ Q)_i is system i.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distembed.dtypes import Float64s

ZERO_EIGENVALUE = 1e-13
"""Share of the largest eigenvalue of F Fᵀ under which one is rounding: the pseudo-inverse's cut-off."""


LEAST_ROUGHNESS = 1e-12
"""Roughness of a constant against that of the embedding: it bounds the scale of what L does not see."""


def regression_weights(Z: Float64s, V: Float64s, confidence: Float64s, ridge: float) -> Float64s:
    """Return F = (ZᵀMZ + ridge I)^+ ZᵀMV, (k × f)."""
    scaled = Z * confidence[:, None]
    gram, target = scaled.T @ Z, scaled.T @ V
    if ridge > 0:
        gram.flat[:: len(gram) + 1] += ridge
        weights: Any = np.linalg.solve(gram, target)
        return weights
    return np.asarray(np.linalg.pinv(gram, rcond=ZERO_EIGENVALUE, hermitian=True) @ target, np.float64)


def decoupling_basis(F: Float64s) -> tuple[Float64s, Float64s]:
    """Return s (k,) and Q (k × k) with F Fᵀ = Q diag(s) Qᵀ, eigenvalues that are rounding set to zero."""
    shifts, basis = np.linalg.eigh(F @ F.T)
    shifts[shifts < ZERO_EIGENVALUE * max(shifts[-1], 0.0)] = 0.0
    return np.maximum(shifts, 0.0), basis


def balance_factors(Z: Float64s, F: Float64s, roughness: Float64s, ridge: float) -> tuple[Float64s, Float64s]:
    """Return the factors of Z F for which tr(ZᵀLZ) + ridge ‖F‖² is least, 2 √ridge ‖L^½ Z F‖_*.

    With the singular values σ and right vectors W of L^½ Z F: F = ridge^-¼ σ^½ Wᵀ, Z = ridge^¼ Z F W σ^-½.

    Parameters
    ----------
    Z : array (n × k)
        The embedding.
    F : array (k × f)
        The regression weights.
    roughness : ZᵀLZ, (k × k); `LEAST_ROUGHNESS` of the identity is added to L, so that constants keep a scale
    ridge : float
        The weight of the penalty on F.
    """
    gram = Z.T @ Z
    gram /= max(float(np.trace(gram)), np.finfo(float).tiny)
    squares, basis = np.linalg.eigh(roughness + LEAST_ROUGHNESS * np.trace(roughness) * gram)
    root = np.sqrt(np.maximum(squares, 0.0))[:, None] * basis.T
    _, values, right = np.linalg.svd(root @ F, full_matrices=False)
    sizes = np.sqrt(np.maximum(values, ZERO_EIGENVALUE * max(values[0], np.finfo(float).tiny)))
    weights = np.zeros_like(F)
    weights[: len(sizes)] = ridge**-0.25 * sizes[:, None] * right
    rotated = np.zeros_like(Z)
    rotated[:, : len(sizes)] = ridge**0.25 * (Z @ (F @ right.T)) / sizes
    return rotated, weights


def procrustes_map(X: Float64s, Y: Float64s, weights: Float64s | None = None) -> Float64s:
    """Return the R (d × e) with orthonormal rows or columns that minimizes Σ w_i ‖x_i R - y_i‖².

    scipy.linalg.orthogonal_procrustes is the equivalent without weights.
    """
    left, _, right = np.linalg.svd(
        (X if weights is None else X * weights[:, None]).T @ Y, full_matrices=False
    )
    return left @ right


class LinearMap(NamedTuple):
    """x -> x weights + intercept."""

    weights: Float64s
    intercept: Float64s

    def __call__(self, X: Float64s) -> Float64s:
        """Return the images of the rows of X."""
        return X @ self.weights + self.intercept


def ridge_map(X: Float64s, Y: Float64s, *, ridge: float) -> LinearMap:
    """Return the map that minimizes ‖X W + 1cᵀ - Y‖² + ridge ‖W‖²; sklearn's Ridge does the same."""
    center, mean = X.mean(axis=0), Y.mean(axis=0)
    shifted = X - center
    gram = shifted.T @ shifted
    gram.flat[:: len(gram) + 1] += ridge
    weights = np.linalg.solve(gram, shifted.T @ (Y - mean))
    return LinearMap(weights, mean - center @ weights)
