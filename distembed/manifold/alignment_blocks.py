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
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

Float64s = NDArray[np.float64]

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


def balanced(Z: Float64s, F: Float64s, roughness: Float64s, ridge: float) -> tuple[Float64s, Float64s]:
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
    squares, basis = np.linalg.eigh(roughness + LEAST_ROUGHNESS * np.trace(roughness) * _relative_gram(Z))
    root = np.sqrt(np.maximum(squares, 0.0))[:, None] * basis.T
    _, values, right = np.linalg.svd(root @ F, full_matrices=False)
    sizes = np.sqrt(np.maximum(values, ZERO_EIGENVALUE * max(values[0], np.finfo(float).tiny)))
    weights = np.zeros_like(F)
    weights[: len(sizes)] = ridge**-0.25 * sizes[:, None] * right
    rotated = np.zeros_like(Z)
    rotated[:, : len(sizes)] = ridge**0.25 * (Z @ (F @ right.T)) / sizes
    return rotated, weights


def _relative_gram(Z: Float64s) -> Float64s:
    gram = Z.T @ Z
    return gram / max(float(np.trace(gram)), np.finfo(float).tiny)


def procrustes_map(X: Float64s, Y: Float64s, weights: Float64s | None = None) -> Float64s:
    """Return the R (d × e) with orthonormal rows or columns that minimizes Σ w_i ‖x_i R - y_i‖².

    scipy.linalg.orthogonal_procrustes is the equivalent without weights.
    """
    left, _, right = np.linalg.svd(
        (X if weights is None else X * weights[:, None]).T @ Y, full_matrices=False
    )
    return left @ right


def reweighted_maps(
    X: Float64s, Y: Float64s, weights: Float64s, *, exponent: float
) -> tuple[Float64s, Float64s]:
    """Return U S^p (d × r) and V S^p (e × r) of Σ w_i x_i y_iᵀ = U S Vᵀ, S divided by its largest value.

    They take both sets to the space in which paired rows agree, each direction by how much they do. With p = 0
    and r = d = e, U Vᵀ is `procrustes_map`.

    References
    ----------
    Artetxe, Labaka & Agirre 2018, Generalizing and improving bilingual word embedding mappings, section 3.
    """
    left, strengths, right = np.linalg.svd((X * weights[:, None]).T @ Y, full_matrices=False)
    kept = strengths > ZERO_EIGENVALUE * strengths[0]
    scale = (strengths[kept] / strengths[0]) ** exponent
    return left[:, kept] * scale, right[kept].T * scale


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


class CandidatePairs(NamedTuple):
    """Pairs of rows of two sets that are among each other's nearest.

    Attributes
    ----------
    pairs : int64, (p × 2)
    scores : float64, (p,), CSLS
    """

    pairs: NDArray[np.int64]
    scores: Float64s


def candidate_pairs(forth: Float64s, back: Float64s) -> CandidatePairs:
    """Return the listed pairs of rows of two sets with CSLS_ij = 2 cos_ij - r_i - r_j.

    r is the mean cosine of a row with its listed neighbors.

    Parameters
    ----------
    forth, back : neighbor lists of each set in the other, (rows, 2, k): squared distances of unit rows and
        row numbers
    """
    i = np.repeat(np.arange(len(forth)), forth.shape[2])
    j = np.repeat(np.arange(len(back)), back.shape[2])
    pairs = np.concatenate(
        [np.column_stack([i, forth[:, 1].ravel()]), np.column_stack([back[:, 1].ravel(), j])]
    ).astype(np.int64)
    pairs, first = np.unique(pairs, axis=0, return_index=True)
    cosines = 1 - np.concatenate([forth[:, 0].ravel(), back[:, 0].ravel()])[first] / 2
    means = [1 - lists[:, 0].mean(axis=1) / 2 for lists in (forth, back)]
    return CandidatePairs(pairs, 2 * cosines - means[0][pairs[:, 0]] - means[1][pairs[:, 1]])


def mutual_choices(candidates: CandidatePairs) -> CandidatePairs:
    """Return the pairs in which each row is the other's best; of equal scores the smaller row number."""
    pairs, scores = candidates
    both = np.intersect1d(best_of_each(pairs[:, 0], scores), best_of_each(pairs[:, 1], scores))
    return CandidatePairs(pairs[both], scores[both])


def best_of_each(groups: NDArray[np.int64], scores: Float64s) -> NDArray[np.int64]:
    """Return the position of the largest score of each group, the first of equals."""
    order = np.lexsort((np.arange(len(groups)), -scores, groups))
    return order[np.unique(groups[order], return_index=True)[1]]


def softmax_of_each(groups: NDArray[np.int64], values: Float64s) -> Float64s:
    """Return exp(value) over its sum within each group."""
    n_groups = int(groups.max()) + 1 if groups.size else 0
    largest = np.full(n_groups, -np.inf)
    np.maximum.at(largest, groups, values)
    raised = np.exp(values - largest[groups])
    return raised / np.bincount(groups, raised, n_groups)[groups]


def true_margins(
    candidates: CandidatePairs, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> list[Float64s]:
    """Return for each true pair among the candidates the scores of its column less the true one's."""
    order = np.argsort(candidates.pairs[:, 1], kind="stable")
    pairs, scores = candidates.pairs[order], candidates.scores[order]
    begin, end = (np.searchsorted(pairs[:, 1], columns, side) for side in ("left", "right"))
    margins = []
    for row, first, last in zip(rows, begin, end, strict=True):
        own = np.flatnonzero(pairs[first:last, 0] == row)
        if own.size:
            margins.append(scores[first:last] - scores[first + own[0]])
    return margins


def likeliest_temperature(margins: list[Float64s], *, bounds: tuple[float, float] = (1e-3, 10.0)) -> float:
    """Return the T that maximizes Π 1 / Σ exp(margin / T), the likelihood of the true pairs."""
    if not margins:
        return bounds[1]

    def loss(log_temperature: float) -> float:
        return sum(float(np.logaddexp.reduce(values * np.exp(-log_temperature))) for values in margins)

    return float(np.exp(minimize_scalar(loss, bounds=np.log(bounds), method="bounded").x))
