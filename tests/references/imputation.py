"""Latent Semantic Imputation written plainly from the paper's formulas: the oracle of distembed.manifold."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def distances(X):
    X = np.asarray(X, dtype=np.float64)
    return np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=-1))


def nearest(D, k):
    """Return indices and distances of the k nearest others, ordered by (distance, index)."""
    n = D.shape[0]
    order = np.array(
        [sorted((j for j in range(n) if j != i), key=lambda j, i=i: (D[i, j], j))[:k] for i in range(n)]
    )
    return order, np.take_along_axis(D, order, axis=1)


def prim(D):
    """Return the edges of the minimum spanning tree of a full matrix; edges of length zero count."""
    n = D.shape[0]
    edges, inside = [], [0]
    while len(inside) < n:
        outside = [j for j in range(n) if j not in inside]
        _, i, j = min((D[i, j], i, j) for i in inside for j in outside)
        edges.append((min(i, j), max(i, j)))
        inside.append(j)
    return sorted(edges)


def mst_knn_graph(X, min_degree):
    """Return the boolean matrix of algorithm 1: row i holds the rows that i is rebuilt from."""
    D = distances(X)
    A = np.zeros(D.shape, dtype=bool)
    for i, j in prim(D):
        A[i, j] = A[j, i] = True
    order, _ = nearest(D, D.shape[0] - 1)
    for i in range(D.shape[0]):
        for j in order[i]:
            if A[i].sum() >= min_degree:
                break
            A[i, j] = True
    return A


def simplex_weights(x, neighbors):
    """Minimize ‖x - Σ w_j a_j‖² over the simplex with a general-purpose solver."""
    k = len(neighbors)
    scale = max(1e-300, ((neighbors - x) ** 2).sum(axis=1).mean())
    found = minimize(
        lambda w: ((x - w @ neighbors) ** 2).sum() / scale,
        np.full(k, 1 / k),
        jac=lambda w: -2 * neighbors @ (x - w @ neighbors) / scale,
        bounds=[(0, 1)] * k,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(k)},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return np.where(found.x > 1e-6, found.x, 0.0)  # the solver leaves rounding where the answer is zero


def with_floor(w, epsilon, least=0.0):
    if not (w > 0).any():
        return np.full(len(w), 1 / len(w))
    w = w + epsilon * max(w[w > 0].min(), least)
    return w / w.sum()


def limit(W, Y):
    """Return (I - W_qq)^-1 W_qp Y_p put into the rows of Y that are NaN."""
    known = ~np.isnan(Y).any(axis=1)
    out = np.array(Y, dtype=np.float64)
    q = (~known).sum()
    out[~known] = np.linalg.solve(
        np.eye(q) - W[np.ix_(~known, ~known)], W[np.ix_(~known, known)] @ out[known]
    )
    return out


def power(W, Y, tol, lazy, max_iter):
    """Iterate Y_q <- W_q Y from the mean of the known rows; return it and the number of sweeps."""
    known = ~np.isnan(Y).any(axis=1)
    out = np.array(Y, dtype=np.float64)
    out[~known] = out[known].mean(axis=0)
    W = W[~known]
    for sweep in range(1, max_iter + 1):
        old = out[~known].copy()
        new = W @ out
        out[~known] = (new + old) / 2 if lazy else new
        if np.abs(out[~known] - old).sum() < tol * np.abs(old).sum():
            return out, sweep
    return out, max_iter


def impute(X, Y, min_degree, epsilon=0.1):
    """Return Y imputed with simplex weights and the linear system's solution."""
    A = mst_knn_graph(X, min_degree)
    W = np.zeros(A.shape)
    for i in range(len(X)):
        W[i, A[i]] = with_floor(simplex_weights(X[i], X[A[i]]), epsilon)
    return limit(W, Y)
