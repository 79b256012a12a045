"""Mathematics of one block for imputation: weights that rebuild a row, and sweeps that carry vectors.

Letters
-------
X : rows in the domain space, shape (n, d); x_i is one row.
Y : vectors in the target space, shape (n, s); p of its rows are known, q = n - p are not.
W : reconstruction weights, w_ij >= 0, each row sums to one.
G : Gram matrix of one row's neighbors, seen from that row, shape (k, k).
A : the neighbors of one row as rows, or what they differ from it, shape (k, d).
B : carried sums W_qp Y_p, shape (q, s).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from distembed.dtypes import Float64s, Floats, Int32s, Int64s, Mask
from distembed.linalg.columns import nonnegative_least_squares, relative_residual, solve_columns
from distembed.temporaries import block

Bools = Mask

# Ridge on the diagonal relative to its mean: far below the data's digits, yet it makes the answer unique
# (equal shares) where neighbors coincide.
RIDGE = 1e-10
# Smallest floor under a simplex weight, relative to an equal share: bounds the condition of I - W.
LEAST_FLOOR = 1e-6


@njit(cache=True, nogil=True)
def _with_ridge(G: Float64s) -> Float64s:
    H = G.copy()
    mean = np.trace(G) / G.shape[0]
    for a in range(G.shape[0]):
        H[a, a] += RIDGE * mean
    return H


@njit(cache=True, nogil=True)
def simplex_weights(A: Float64s) -> tuple[Float64s, float]:
    """Return w = argmin ‖Σ_j w_j a_j‖² over w >= 0, Σ w = 1, for rows a_j = x_j - x_i, and its certificate.

    With any m > 0 the minimizer v of vᵀG v + m(Σv - 1)² over v >= 0 is a multiple of w (for a direction w of
    the simplex the best scale leaves m q/(m + q), rising in q = wᵀG w), so one non-negative least squares is
    enough. The certificate is (q - min_j (G w)_j) / mean diagonal of G >= 0: half the Frank-Wolfe duality
    gap, zero exactly at the optimum.
    """
    G = A @ A.T
    k = G.shape[0]
    mean = np.trace(G) / k
    if mean == 0.0:  # every neighbor coincides with the row
        return np.full(k, 1.0 / k), 0.0
    v = nonnegative_least_squares(_with_ridge(G) + mean, np.full(k, mean))
    w = v / np.sum(v)
    gradient = G @ w
    return w, max(0.0, (w @ gradient - np.min(gradient)) / mean)


@njit(cache=True, nogil=True)
def cone_weights(A: Float64s, x: Float64s) -> tuple[Float64s, float]:
    """Return w = argmin ‖x - Σ_j w_j a_j‖² over w >= 0, for rows a_j, and its certificate.

    The certificate is the largest violation of w >= 0, g = Gw - Aᵀx >= 0, w∘g = 0, relative to |Aᵀx|.
    """
    G = A @ A.T
    c = A @ x
    if np.trace(G) == 0.0:
        return np.zeros(c.shape[0]), 0.0
    w = nonnegative_least_squares(_with_ridge(G), c)
    scale = max(np.max(np.abs(c)), 1e-300)
    gradient = G @ w - c
    return w, max(np.max(np.abs(w * gradient)) / scale, max(0.0, -np.min(gradient)) / scale)


@njit(cache=True, nogil=True)
def raise_to_floor(w: Float64s, epsilon: float, least: float) -> Float64s:
    """Add epsilon times the smallest positive weight, or times `least`, to all, and divide by the sum.

    All zero becomes uniform. It keeps every edge of the spanning tree positive, which convergence needs.
    """
    smallest = np.inf
    for value in w:
        if value > 0.0:
            smallest = min(smallest, value)
    if smallest == np.inf:
        return np.full(w.shape[0], 1.0 / w.shape[0])
    raised = w + epsilon * max(smallest, least)
    return raised / np.sum(raised)


@njit(cache=True, nogil=True)
def reconstruction_weights(
    X: Floats, rows: Int64s, indptr: Int64s, neighbors: Int64s, epsilon: float, simplex: bool
) -> Float64s:
    """Return the weights that rebuild each row from its neighbors.

    Parameters
    ----------
    X : array, shape (m, d): the rows and all their neighbors
    rows : int64 array, shape (r,): place in X of each row
    indptr, neighbors : CSR structure over these r rows; neighbors as places in X
    epsilon : floor factor of `raise_to_floor`
    simplex : True for `simplex_weights`, False for `cone_weights`, divided by their sum afterwards

    Returns
    -------
    float64 array, shape (2, entries): weights, and each entry's row's certificate.
    """
    out = np.empty((2, neighbors.shape[0]))
    for i in range(rows.shape[0]):
        start, stop = indptr[i], indptr[i + 1]
        x = X[rows[i]].astype(np.float64)
        A = np.empty((stop - start, X.shape[1]))
        for a in range(stop - start):
            neighbor = neighbors[start + a]
            for j in range(X.shape[1]):
                A[a, j] = X[neighbor, j] - x[j] if simplex else X[neighbor, j]
        if simplex:
            w, certificate = simplex_weights(A)
            least = LEAST_FLOOR / w.shape[0]
        else:
            w, certificate = cone_weights(A, x)
            least = 0.0
        raised = raise_to_floor(w, epsilon, least)
        for a in range(stop - start):
            out[0, start + a], out[1, start + a] = raised[a], certificate
    return out


@block(temporaries=0.5)
def weigh(X: Floats, *, rows: Any, indptr: Any, neighbors: Any, floor: float, simplex: bool) -> Float64s:
    """Return `reconstruction_weights` in rows: the weight of each entry, and the certificate of its row."""
    # A plain function, because Dask names a task by pickling its function: 30 ms for one compiled by numba.
    return reconstruction_weights(X, rows, indptr, neighbors, floor, simplex).T


# --------------------------------------------------------------------------- solving for the vectors


def unreached_rows(W: sp.csr_array, known: Bools) -> Int64s:
    """Return the rows from which no path of positive weights leads to a known row."""
    backward = W.T.tocsr()
    backward.eliminate_zeros()
    return np.flatnonzero(~_find_reached(backward.indptr, backward.indices, known))


@njit(cache=True, nogil=True)
def _find_reached(indptr: Int32s, indices: Int32s, start: Mask) -> Mask:
    reached = start.copy()
    queue = np.empty(start.shape[0], np.int64)
    stop = 0
    for i in range(start.shape[0]):
        if start[i]:
            queue[stop] = i
            stop += 1
    at = 0
    while at < stop:
        for t in range(indptr[queue[at]], indptr[queue[at] + 1]):
            j = indices[t]
            if not reached[j]:
                reached[j] = True
                queue[stop] = j
                stop += 1
        at += 1
    return reached


def _carried_sums(Y: Floats, carried: sp.csr_array, known: Mask) -> Float64s:
    """Return what the known rows of Y give to each unknown row: B = W_qp Y_p, shape (q, s)."""
    return np.asarray(carried @ Y[known].astype(np.float64))


def _known_mean(Y: Floats, known: Mask) -> Float64s:
    return np.asarray(Y[known].mean(axis=0, dtype=np.float64)[None])


@block(temporaries=8)
def krylov(
    Y: Floats, *, inside: sp.csr_array, carried: sp.csr_array, known: Mask, tol: float, max_iter: int
) -> Float64s:
    """Return `solve_columns` of (I - W_qq) Y_q = W_qp Y_p for some columns of Y, (s, q + …), from their means."""
    B, start = _carried_sums(Y, carried, known), _known_mean(Y, known)
    return solve_columns(inside, B, start, tol=tol, max_iter=max_iter).T


@block(temporaries=0.5)
def power_start(Y: Floats, *, inside: sp.csr_array, carried: sp.csr_array, known: Mask) -> Float64s:  # noqa: ARG001
    """Return the state before the first sweep, (s, 2 q): the mean of the known rows for each unknown one."""
    return np.repeat(_known_mean(Y, known).T, 2 * inside.shape[0], axis=1)


@block(temporaries=2)
def power_sweeps(
    Y: Floats,
    state: Float64s,
    *,
    inside: sp.csr_array,
    carried: sp.csr_array,
    known: Mask,
    first: int,
    last: int,
    again: bool = False,
) -> Float64s:
    """Do the sweeps Y_q <- W_qq Y_q + W_qp Y_p from `first` to `last`, and record how far each moved.

    Parameters
    ----------
    Y : array, shape (n, s)
    state : array, shape (s, 2 q + 2 t)
        Of each column the unknown vectors before the last batch of sweeps and after it, ‖ΔY‖₁ of t sweeps, and ‖Y‖₁
        before each.
    inside, carried, known : W_qq, W_qp and the known rows
    first, last : sweeps that were done before, and that are done then
    again : whether to begin with the vectors before the last batch

    Returns
    -------
    float64 array, shape (s, 2 q + 2 last): the state then.
    """
    q, B = inside.shape[0], _carried_sums(Y, carried, known)
    before = np.ascontiguousarray((state[:, :q] if again else state[:, q : 2 * q]).T)
    vectors, moves, sizes = before, np.empty((len(state), last)), np.empty((len(state), last))
    for record, old in zip((moves, sizes), np.split(state[:, 2 * q :], 2, axis=1), strict=True):
        record[:, :first] = old[:, :first]
    for sweep in range(first, last):
        new = inside @ vectors
        new += B
        sizes[:, sweep] = np.abs(vectors).sum(axis=0)
        moves[:, sweep] = np.abs(new - vectors).sum(axis=0)
        vectors = new
    return np.concatenate([before.T, vectors.T, moves, sizes], axis=1)


@block(temporaries=2)
def power_residuals(
    Y: Floats, state: Float64s, *, inside: sp.csr_array, carried: sp.csr_array, known: Mask
) -> Float64s:
    """Return ‖B - (I - W_qq) Y_q‖₂ / ‖B‖₂ of each column of a state, (s, 1)."""
    q = inside.shape[0]
    vectors = np.ascontiguousarray(state[:, q : 2 * q].T)
    return relative_residual(inside, _carried_sums(Y, carried, known), vectors).T


@block(temporaries=0.5)
def fill(Y: Floats, solved: Float64s, *, known: Mask) -> Floats:
    """Return columns of Y with the unknown rows that were solved for them, (s, q)."""
    out = Y.copy()
    out[~known] = solved.T
    return out
