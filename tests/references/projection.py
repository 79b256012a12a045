"""Locality Preserving Projection written plainly with dense matrices, from the paper's steps: the oracle."""

from __future__ import annotations

import numpy as np
import scipy.linalg


def cosines(X):
    lengths = np.linalg.norm(X, axis=1)
    return X @ X.T / np.outer(lengths, lengths)


def affinity(X, *, k=None, threshold=None, kind="cosine", degree=2):
    """Steps 1 and 2: join near rows, weigh the edges."""
    c, n = cosines(X), len(X)
    joined = np.zeros((n, n), bool)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        if threshold is None:
            near = sorted(others, key=lambda j: (-round(c[i, j], 12), j))[:k]
        else:
            near = [j for j in others if c[i, j] > threshold]
        joined[i, near] = joined[near, i] = True
    weights = {
        "binary": np.ones_like(c),
        "cosine": np.maximum(c, 1e-6),
        "polynomial": ((1 + c) / 2) ** degree,
    }[kind]
    return np.where(joined, weights, 0.0)


def generalized(left, right, k):
    """Return the k smallest solutions of left w = value right w, and their vectors."""
    values, vectors = scipy.linalg.eigh(left, right)
    return values[:k], vectors[:, :k]


def eigenmaps(S, k):
    """Solve L y = value D y and drop the constant vector."""
    D = np.diag(S.sum(axis=1))
    values, vectors = generalized(D - S, D, k + 1)
    return values[1:], vectors[:, 1:]


def spectral_regression(X, S, k, alpha):
    """Return W of equations 3 and 4."""
    _, Y = eigenmaps(S, k)
    return np.linalg.solve(X.T @ X + alpha * np.eye(X.shape[1]), X.T @ Y)


def projection(X, S, k):
    """Return the solution of equation 2; X has full column rank and does not span the constant."""
    D = np.diag(S.sum(axis=1))
    return generalized(X.T @ (D - S) @ X, X.T @ D @ X, k)
