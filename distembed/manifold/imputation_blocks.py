"""Mathematics of one block for imputation: weights that rebuild a row, sweeps that carry vectors, and linear maps.

Letters
-------
X : rows in the domain space, shape (n, d); x_i is one row.
Y : vectors in the target space, shape (n, s); p of its rows are known, q = n - p are not.
W : reconstruction weights, w_ij >= 0, each row sums to one.
G : Gram matrix of one row's neighbors, seen from that row, shape (k, k).
A : rows of X whose vector is known, less their mean, (p × d). T : their vectors, less their mean, (p × s).
V, e : right singular vectors of A and its squared singular values, (d × k) and (k,).
B : carried sums W_qp Y_p, (q, s); of a linear map its weights, (d × s),
    (AᵀA + ridge I)^-1 AᵀT = V (e + ridge)^-1 VᵀAᵀT.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from distembed.linalg.blocks import ROUNDED, row_cosines
from distembed.linalg.columns import nonnegative_least_squares
from distembed.neighbors.blocks import typical_square

Floats = NDArray[np.floating]
Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Ridge on the diagonal relative to its mean: far below the data's digits, yet it makes the answer unique
# (equal shares) where neighbors coincide.
RIDGE = 1e-10
# Smallest floor under a simplex weight, relative to an equal share: bounds the condition of I - W.
LEAST_FLOOR = 1e-6
# Share of the largest squared singular value of the table under which one is rounding.
LEAST_VALUE = 1e-12
# Share of the largest eigenvalue of the landmarks' kernel under which one is rounding.
LEAST_KERNEL_VALUE = 1e-10


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


# --------------------------------------------------------------------------- solving for the vectors


def unreached_rows(W: sp.csr_array, known: Bools) -> Int64s:
    """Return the rows from which no path of positive weights leads to a known row."""
    return np.nonzero(~reached_rows(W, known, first_row=0))[0]


def reached_rows(W: sp.csr_array, reached: Bools, *, first_row: int) -> Bools:
    """Return from which rows of a block of W a path of positive weights within it leads to a row that is reached.

    Parameters
    ----------
    W : CSR array (b × n)
        The block.
    reached : bool array (n,)
        The rows that are reached already.
    first_row : int
        The number of the first row of the block.
    """
    backward = W.T.tocsr()
    backward.eliminate_zeros()
    found = _find_reached(backward.indptr, backward.indices, reached, first_row)
    return found[first_row : first_row + W.shape[0]]


@njit(cache=True, nogil=True)
def _find_reached(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], start: NDArray[np.bool_], first_row: int
) -> NDArray[np.bool_]:
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
            j = first_row + indices[t]
            if not reached[j]:
                reached[j] = True
                queue[stop] = j
                stop += 1
        at += 1
    return reached


def carried_sums(weights: sp.csr_array, Y: Floats, *, known: NDArray[np.bool_]) -> Float64s:
    """Return what the known rows of Y give to each unknown row: B = W_qp Y_p, shape (q, s)."""
    return weights @ Y[known].astype(np.float64)


def known_mean(Y: Floats, *, known: NDArray[np.bool_]) -> Float64s:
    """Return the mean of the known rows of Y, from which the sweeps start, shape (1, s)."""
    return Y[known].mean(axis=0, dtype=np.float64)[None]


def same_start(start: Float64s, B: Float64s) -> Float64s:
    """Return the state before the first sweep: the same row for each row of B."""
    return np.repeat(start, B.shape[0], axis=0)


def power_sweeps(W: sp.csr_array, B: Float64s, state: Float64s, *, n_sweeps: int, lazy: bool) -> Float64s:
    """Do n_sweeps times Y <- W Y + B, or Y <- (W Y + B + Y)/2 with `lazy`, and record how far each moved.

    Parameters
    ----------
    W : sparse (q, q): weights among the unknown rows
    B : array, shape (q, c): known vectors carried in, W_qp Y_p
    state : array, shape (at least q, c): Y in its first q rows
    n_sweeps : int
        The number of sweeps.
    lazy : bool
        Whether a sweep averages the result with Y.

    Returns
    -------
    float64 array, shape (q + 2 n_sweeps, c): Y, then ‖ΔY‖₁ of each sweep and column, then ‖Y‖₁ before it.
    """
    q = W.shape[0]
    Y = state[:q]
    moves, sizes = np.empty((n_sweeps, B.shape[1])), np.empty((n_sweeps, B.shape[1]))
    for sweep in range(n_sweeps):
        new = W @ Y
        new += B
        if lazy:
            new += Y
            new *= 0.5
        sizes[sweep] = np.abs(Y).sum(axis=0)
        moves[sweep] = np.abs(new - Y).sum(axis=0)
        Y = new
    return np.concatenate([Y, moves, sizes])


# --- linear maps ------------------------------------------------------------------------------------------


class RidgePath(NamedTuple):
    """The ridge regressions of the known vectors on their rows of the table, for every ridge."""

    mean: Float64s
    """The mean of the known rows of the table. Shape (d,)."""
    target_mean: Float64s
    """The mean of the known vectors. Shape (s,)."""
    basis: Float64s
    """The right singular vectors of the centered rows. Shape (d, k)."""
    values: Float64s
    """Their squared singular values. Shape (k,)."""
    products: Float64s
    """The basis' coordinates of AᵀT. Shape (k, s)."""
    unit: float
    """The mean squared length of a centered row, in units of which a ridge is given."""


class KernelFeatures(NamedTuple):
    """Coordinates in which the inner product is the kernel exp(-|x - z|² / scale), by landmarks (Nyström)."""

    landmarks: Float64s
    """Rows of the table. Shape (m, d)."""
    scale: float
    """The median of the squared distances between landmarks, see `typical_square`."""
    roots: Float64s
    """The inverse square root of the kernel of the landmarks, less directions that are rounding. Shape (m, k)."""


def fit_kernel_features(landmarks: Float64s) -> KernelFeatures:
    """Return the features of some rows of the table."""
    squares = squared_distances(landmarks, landmarks)
    scale = typical_square(squares, landmarks, landmarks)
    values, basis = np.linalg.eigh(np.exp(-squares / scale))
    kept = values > LEAST_KERNEL_VALUE * values[-1]
    return KernelFeatures(landmarks, scale, basis[:, kept] / np.sqrt(values[kept]))


def kernel_rows(X: Any, features: KernelFeatures) -> Float64s:
    """Return the features of rows of the table, (rows, k)."""
    squares = squared_distances(np.asarray(X, np.float64), features.landmarks)
    return np.asarray(np.exp(-squares / features.scale) @ features.roots)


def squared_distances(X: Float64s, Z: Float64s) -> Float64s:
    """Return the squared distances of rows, (rows of X, rows of Z)."""
    squares = (X**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1) - 2 * X @ Z.T
    return np.maximum(squares, 0.0)


def known_sums(X: Any, Y: Any, known: Bools) -> Float64s:
    """Return the contribution of one row block to the sums of its known rows, (1, d + s)."""
    rows = known[:, 0]
    return np.concatenate([X[rows].sum(axis=0, dtype=np.float64), Y[rows].sum(axis=0, dtype=np.float64)])[
        None
    ]


def known_products(X: Any, Y: Any, known: Bools, *, means: Float64s) -> Float64s:
    """Return the contribution of one row block to Aᵀ[A T], (1, d, d + s)."""
    rows = known[:, 0]
    centered = np.concatenate([X[rows], Y[rows]], axis=1, dtype=np.float64) - means
    return (centered[:, : X.shape[1]].T @ centered)[None]


def path_of_products(products: Float64s, means: Float64s, n_known: int) -> RidgePath:
    """Return the ridge path of Aᵀ[A T], (d, d + s), and the means of the known rows and vectors."""
    d = len(products)
    values, basis = np.linalg.eigh(products[:, :d])
    unit = float(np.trace(products[:, :d])) / n_known
    kept = values > _least_value(values, means[:d], n_known)
    basis = basis[:, kept]
    return RidgePath(means[:d], means[d:], basis, values[kept], basis.T @ products[:, d:], unit)


def path_of_rows(rows: Float64s, n_columns: int) -> RidgePath:
    """Return the ridge path of known rows of the table beside their vectors, (p, d + s), where d is above p."""
    means = rows.mean(axis=0)
    centered = rows - means
    A, T = centered[:, :n_columns], centered[:, n_columns:]
    values, left = np.linalg.eigh(A @ A.T)
    kept = values > _least_value(values, means[:n_columns], len(rows))
    left, values = left[:, kept], values[kept]
    basis = A.T @ left / np.sqrt(values)
    products = np.sqrt(values)[:, None] * (left.T @ T)
    unit = float((A**2).sum()) / len(A)
    return RidgePath(means[:n_columns], means[n_columns:], basis, values, products, unit)


def _least_value(values: Float64s, mean: Float64s, n_known: int) -> float:
    """Return the squared singular value up to which one is rounding, so that rows that are all equal give no map."""
    return max(LEAST_VALUE * float(values[-1]), n_known * ROUNDED**2 * float(mean @ mean))


def map_weights(path: RidgePath, ridge: float) -> Float64s:
    """Return the weights B of the map with a ridge, in units of the mean squared length of a row, (d, s)."""
    return path.basis @ basis_weights(path, ridge)


def basis_weights(path: RidgePath, ridge: float) -> Float64s:
    """Return the weights of the map for rows in the coordinates of the path's basis, (k, s)."""
    return path.products / (path.values + ridge * path.unit)[:, None]


def known_weights(path: RidgePath, ridge: float, A: Float64s, x: Float64s) -> Float64s:
    """Return the weights c of the known vectors with which x B = Σ c_i y_i, (p,); their sum is zero.

    A are the known rows of the table, (p, d), and x is a difference of rows, (d,).
    """
    coordinates = (x @ path.basis) / (path.values + ridge * path.unit)
    weights: Float64s = ((A - path.mean) @ path.basis) @ coordinates
    return weights


def map_rows(X: Any, path: RidgePath, weights: Float64s) -> Float64s:
    """Return the vectors that the map gives rows of the table."""
    return path.target_mean + (X - path.mean) @ weights


def centered_cosines(found: Float64s, truth: Float64s, mean: Float64s) -> Float64s:
    """Return the cosine of each vector found with the true one, after the mean of the known vectors is taken off.

    A vector near the mean of all vectors is near every one of them and distinguishes none. A vector that is the mean
    has no direction; its cosine is 0.
    """
    return row_cosines(found - mean, truth - mean)
