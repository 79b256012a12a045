"""The factorizations written plainly and slowly, dense, straight from the formulas."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls


def divide(a, b):
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def hals_round(X, Z, W, sweeps, tolerance):
    """Column by column, every other column fixed; a row of which a sweep moved nothing much rests."""
    Z, W = Z.copy(), W.copy()
    for factor, other, target in ((Z, W, X), (W, Z, X.T)):
        moving = np.ones(len(factor), dtype=bool)
        for _ in range(sweeps):
            before = factor.copy()
            for r in range(factor.shape[1]):
                rest = target - factor @ other.T + np.outer(factor[:, r], other[:, r])
                new = np.maximum(rest @ other[:, r] / (other[:, r] @ other[:, r]), 0)
                factor[moving, r] = new[moving]
            moving &= np.abs(factor - before).max(axis=1) > tolerance * factor.max(axis=1)
    return Z, W


def unit_columns(Z, W):
    """The same product with columns of Z of unit length."""
    lengths = np.linalg.norm(Z, axis=0)
    return Z / lengths, W * lengths


def solve_documents(X, W):
    """The non-negative least squares of each row of X on the columns of W."""
    return np.array([nnls(W, x)[0] for x in X])


def orthogonal_round(X, Z, W):
    """Yoo & Choi (2008), the columns of Z brought to unit length."""
    Z, W = unit_columns(Z * divide(X @ W, Z @ W.T @ X.T @ Z), W)
    return Z, W * divide(X.T @ Z, W @ (Z.T @ Z))


def semantic_round(X, M, Z, W, S, weight, A=None, graph_weight=0.0):
    """Ailem, Salah & Nadif (2017), equation 7, with the weight on M; the documents may be tied by a graph."""
    Z = tied_documents(X, Z, W, np.zeros((len(X), len(X))) if A is None else A, graph_weight)
    W = W * divide(X.T @ Z + 2 * weight * M @ W @ S, W @ (2 * weight * S @ W.T @ W @ S + Z.T @ Z))
    S = S * divide(W.T @ M @ W, W.T @ W @ S @ W.T @ W)
    return Z, W, S


def tied_documents(X, Z, W, A, weight):
    """Cai, He, Han & Huang (2011)."""
    D = np.diag(A.sum(axis=1))
    return Z * divide(X @ W + weight * A @ Z, Z @ W.T @ W + weight * D @ Z)


def graph_nmf_round(X, Z, W, A, weight):
    """Cai, He, Han & Huang (2011), the documents first."""
    Z = tied_documents(X, Z, W, A, weight)
    return Z, W * divide(X.T @ Z, W @ (Z.T @ Z))


def graph_loss(Z, A, weight):
    return weight / 2 * np.trace(Z.T @ (np.diag(A.sum(axis=1)) - A) @ Z)


def nmf_loss(X, Z, W):
    return 0.5 * np.linalg.norm(X - Z @ W.T) ** 2


def semantic_loss(X, M, Z, W, S, weight):
    return nmf_loss(X, Z, W) + weight * 0.5 * np.linalg.norm(M - W @ S @ W.T) ** 2


def spherical_kmeans_round(X, centroids):
    """One assignment and one move of the centroids, unit rows, no cluster empty."""
    labels = (X @ centroids.T).argmax(axis=1)
    sums = np.array([X[labels == r].sum(axis=0) for r in range(len(centroids))])
    return labels, sums / np.linalg.norm(sums, axis=1, keepdims=True)
