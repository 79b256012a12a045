"""Solvers of small or many systems by columns: non-negative least squares, BiCGSTAB, conjugate gradients.

What several columns share is multiplied once for all of them, and every column has scalars of its own. Columns
restart together, so that the answer of one depends on its neighbors within the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit

from distembed.dtypes import Float64s, Mask
from distembed.temporaries import block

# A passive set changes at most a few times its size (Lawson & Hanson 1995, ch. 23); the limit stops a cycle.
STEPS_PER_VARIABLE = 10
# Rows that the record of a solution keeps, thinned where it took more steps: enough for a curve on a page.
RECORDED_STEPS = 256
# Between these the squares of values keep all their digits.
SQUARABLE = 1e-100, 1e100
# Times that conjugate gradients begin from the true residual, from which rounding separates that of the recurrence.
MOST_STARTS = 4


# --------------------------------------------------------------------------- non-negative least squares


@njit(cache=True, nogil=True)
def _solve_passive(H: Float64s, c: Float64s, passive: Mask) -> Float64s:
    """Solve H z = c over the passive variables by Cholesky, zero elsewhere."""
    index = np.nonzero(passive)[0]
    m = index.shape[0]
    L = np.zeros((m, m))
    z = np.zeros(m)
    for a in range(m):
        for b in range(a + 1):
            total = H[index[a], index[b]]
            for t in range(b):
                total -= L[a, t] * L[b, t]
            L[a, b] = np.sqrt(max(total, 1e-300)) if a == b else total / L[b, b]
        total = c[index[a]]
        for t in range(a):
            total -= L[a, t] * z[t]
        z[a] = total / L[a, a]
    for a in range(m - 1, -1, -1):
        for t in range(a + 1, m):
            z[a] -= L[t, a] * z[t]
        z[a] /= L[a, a]
    full = np.zeros(H.shape[0])
    for a in range(m):
        full[index[a]] = z[a]  # `full[index] = z` would take numba two seconds to compile
    return full


@njit(cache=True, nogil=True)
def _step_back(w: Float64s, z: Float64s, passive: Mask) -> Float64s:
    """Move from w towards z until the first passive variable reaches zero, and release those that have."""
    alpha = 1.0
    for a in range(w.shape[0]):
        if passive[a] and z[a] <= 0.0:
            alpha = min(alpha, w[a] / (w[a] - z[a]))
    out = w + alpha * (z - w)
    least = 1e-14 * np.max(np.abs(out))
    for a in range(w.shape[0]):
        if passive[a] and z[a] <= 0.0 and out[a] <= least:
            passive[a] = False
    out[~passive] = 0.0
    return out


@njit(cache=True, nogil=True)
def nonnegative_least_squares(H: Float64s, c: Float64s) -> Float64s:
    """Minimize ½ wᵀH w - cᵀw over w >= 0 for positive definite H, shape (k, k).

    Lawson & Hanson, Solving Least Squares Problems (1995), ch. 23, on the normal equations;
    scipy.optimize.nnls(A, b) with H = AᵀA, c = Aᵀb.
    """
    k = c.shape[0]
    w = np.zeros(k)
    passive = np.zeros(k, np.bool_)
    tolerance = 1e-12 * max(np.max(np.abs(c)), 1e-300)
    for _ in range(STEPS_PER_VARIABLE * k):
        gradient = c - H @ w
        gradient[passive] = -np.inf
        best = int(np.argmax(gradient))
        if gradient[best] <= tolerance:
            break
        passive[best] = True
        z = _solve_passive(H, c, passive)
        if z[best] <= 0.0:  # rounding alone wanted it in
            break
        while np.any(z[passive] <= 0.0):
            w = _step_back(w, z, passive)
            z = _solve_passive(H, c, passive)
        w = z
    return w


# --------------------------------------------------------------------------- BiCGSTAB


def _dots(A: Float64s, B: Float64s) -> Float64s:
    return np.einsum("qc,qc->c", A, B)


def _ratio(a: Float64s, b: Float64s) -> Float64s:
    """Return a / b, and zero where b is zero: the recurrence of a converged column no longer changes."""
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)


def _bicgstab_cycle(
    W: sp.csr_array, Y: Float64s, R: Float64s, target: Float64s, n_steps: int
) -> tuple[Float64s, list[Float64s]]:
    """Improve Y by up to n_steps of BiCGSTAB from residual R, every column with its own scalars.

    Van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992), the algorithm on p. 636. Also returns ‖R‖₂ of each column
    after each step, by its own recurrence.
    """
    sizes = []
    shadow, P = R.copy(), R.copy()
    rho = _dots(shadow, R)
    for _ in range(n_steps):
        V = P - W @ P
        alpha = _ratio(rho, _dots(shadow, V))
        Y += alpha * P
        R -= alpha * V
        T = R - W @ R
        omega = _ratio(_dots(T, R), _dots(T, T))
        Y += omega * R
        R -= omega * T
        sizes.append(np.sqrt(_dots(R, R)))
        if (sizes[-1] <= target).all():
            break
        next_rho = _dots(shadow, R)
        beta = _ratio(next_rho, rho) * _ratio(alpha, omega)
        rho = next_rho
        P -= omega * V
        P *= beta
        P += R
    return Y, sizes


def _unit(*arrays: Float64s) -> float:
    """Return 1, or the power of two to divide values by whose squares would underflow or overflow; no digit changes."""
    largest = max(float(np.abs(values).max(initial=0.0)) for values in arrays)
    if largest == 0 or not np.isfinite(largest) or SQUARABLE[0] < largest < SQUARABLE[1]:
        return 1.0
    return float(2.0 ** np.floor(np.log2(largest)))


def relative_residual(W: sp.csr_array, B: Float64s, Y: Float64s) -> Float64s:
    """Return ‖B - (I - W) Y‖₂ / ‖B‖₂ of each column, shape (1, c); where B is zero, ‖(I - W) Y‖₂."""
    if (unit := _unit(B, Y)) != 1.0:
        return relative_residual(W, B / unit, Y / unit)
    R = B - Y
    R += W @ Y
    sizes = np.sqrt(_dots(B, B))
    return (np.sqrt(_dots(R, R)) / np.where(sizes > 0, sizes, 1.0))[None]


def solve_columns(
    W: sp.csr_array, B: Float64s, start: Float64s, *, tol: float, max_iter: int, cycle: int = 100
) -> Float64s:
    """Solve (I - W) Y = B, all columns at once, by restarted BiCGSTAB, checked against the true residual.

    Parameters
    ----------
    W : sparse (q, q)
        Non-negative, with row sums of at most one and a spectral radius below one.
    B : array (q, c)
        The right-hand sides.
    start : array (1, c)
        The initial value of every row.
    tol : float
        The bound on ‖B_c - (I - W) Y_c‖₂ / ‖B_c‖₂ for every column c.
    max_iter : int
        The largest number of steps, each of which multiplies by W twice.
    cycle : int
        The number of steps between two checks of the true residual.

    Returns
    -------
    float64 array (q + 2 + RECORDED_STEPS, c)
        Y, then the relative residual, the number of steps, and every stride-th entry of the record of
        the relative residual (`record_stride`), NaN after the last, by column.
    """
    if (unit := _unit(B, start)) != 1.0:
        found = solve_columns(W, B / unit, start / unit, tol=tol, max_iter=max_iter, cycle=cycle)
        found[: len(B)] *= unit
        return found
    sizes = np.sqrt(_dots(B, B))
    Y = np.repeat(start, B.shape[0], axis=0)
    record: list[Float64s] = []
    while not (relative_residual(W, B, Y) <= tol).all() and len(record) < max_iter:
        R = B - Y + W @ Y
        Y, steps = _bicgstab_cycle(W, Y, R, 0.5 * tol * sizes, min(cycle, max_iter - len(record)))
        record += steps
    relative = np.reshape(record, (-1, B.shape[1])) / np.where(sizes > 0, sizes, 1.0)
    used = np.full((1, B.shape[1]), float(len(record)))
    stride = record_stride(len(record))
    thin = relative[stride - 1 :: stride]
    thin = np.pad(thin, ((0, RECORDED_STEPS - len(thin)), (0, 0)), constant_values=np.nan)
    return np.concatenate([Y, relative_residual(W, B, Y), used, thin])


def record_stride(n_steps: int) -> int:
    """Return the number of steps between entries of the record: the smallest power of two for which they fit."""
    stride = 1
    while n_steps > stride * RECORDED_STEPS:
        stride *= 2
    return stride


# --------------------------------------------------------------------------- conjugate gradients


class Solution(NamedTuple):
    """The solution of the systems of all columns, and how exact it is."""

    values: Any
    """Shape (n, g)."""
    residuals: Float64s
    """``‖b - A y‖ / ‖b‖`` of each, measured at the end; 0 where b is zero. Shape (g,)."""
    n_iter: int


def conjugate_gradients(
    product: Callable[[Any], Any], right: Any, scales: Any, start: Any = None, *, tol: float, max_iter: int
) -> Solution:
    """Solve A_i y_i = b_i for all i at once, each A_i symmetric positive semidefinite.

    The columns share every product and have step lengths of their own; one that is exact enough no longer changes.
    Every step lowers the energy of each system, so that the objective of an embedding cannot rise however early the
    iteration stops. A column whose right-hand side is zero is zero, as with the pseudo-inverse.

    Parameters
    ----------
    product : callable
        Returns A_i y_i of all columns, (n × g), float32 or float64 as `right` is. Sums are float64.
    right : array (n × g)
        b_i.
    scales : array (n × g) or (n × 1)
        What multiplies the residuals: one over the diagonal of each A_i, or of one that is like all of them (Jacobi).
    start : array (n × g), optional
        The initial values; by default zero.
    tol : float
        The bound on ‖b_i - A_i y_i‖ / ‖b_i‖.
    max_iter : int
        The largest number of steps.
    """
    lengths, scales = _lengths(right), np.broadcast_to(scales, right.shape)
    values = np.zeros_like(right) if start is None else np.where(lengths > 0, start, 0.0)
    residual = right.copy() if start is None else right - product(values)
    left, steps = _lengths(residual), 0
    for _ in range(MOST_STARTS):
        if np.all(left <= tol * lengths) or steps >= max_iter:
            break
        direction = (residual * scales).astype(right.dtype)
        energy = np.einsum("ij,ij->j", residual, direction, dtype=np.float64)
        while np.any(active := left > tol * lengths) and steps < max_iter:
            moved = product(direction)
            curvature = np.einsum("ij,ij->j", direction, moved, dtype=np.float64)
            length = np.divide(energy, curvature, out=np.zeros_like(energy), where=active & (curvature > 0))
            squares, after = _step(length, scales, values, residual, direction, moved)
            _turn(_ratio(after, energy), scales, residual, direction)
            left, energy, steps = np.sqrt(squares), after, steps + 1
        np.subtract(right, product(values), out=residual)
        left = _lengths(residual)
    return Solution(values, _ratio(left, lengths), steps)


@block(temporaries=7)
def solve_shifted(
    shifts: Float64s,
    right: Float64s,
    start: Float64s,
    *,
    laplacian: Any,
    confidence: Float64s,
    order: int,
    **limits: Any,
) -> Float64s:
    """Return the solutions of (L^order + s_i M) y_i = b_i for all i, (n, g), and below them their relative residuals.

    s_i >= 0, and M has the diagonal `confidence`, (n,); the limits are those of `conjugate_gradients`.
    """
    weights = confidence[:, None] * shifts
    scales = np.maximum(laplacian.diagonal(), 0.0)[:, None] ** order + weights
    scales[scales <= 0] = 1.0
    np.divide(1.0, scales, out=scales)

    def product(X: Float64s) -> Any:
        return apply_power(laplacian, X, order) + weights * X

    found, residuals, _ = conjugate_gradients(product, right, scales, start, **limits)
    return np.vstack([found, residuals])


def apply_power(laplacian: Any, X: Float64s, order: int) -> Float64s:
    """Return L^order X."""
    for _ in range(order):
        X = laplacian @ X
    return X


def _lengths(vectors: Any) -> Float64s:
    return np.sqrt(np.einsum("ij,ij->j", vectors, vectors, dtype=np.float64))


@njit(cache=True, nogil=True, fastmath={"contract"})
def _step(lengths, scales, values, residual, direction, moved):  # type: ignore[no-untyped-def]
    """Go one step in place; return ‖r‖² and the energy of each column."""
    squares, energy = np.zeros(len(lengths)), np.zeros(len(lengths))
    for i in range(len(values)):
        for c in range(len(lengths)):
            values[i, c] += lengths[c] * direction[i, c]
            residual[i, c] -= lengths[c] * moved[i, c]
            square = np.float64(residual[i, c]) * np.float64(residual[i, c])
            squares[c] += square
            energy[c] += square * scales[i, c]
    return squares, energy


@njit(cache=True, nogil=True, fastmath={"contract"})
def _turn(turns, scales, residual, direction):  # type: ignore[no-untyped-def]
    """Give each column its next direction, in place."""
    for i in range(len(residual)):
        for c in range(len(turns)):
            direction[i, c] = scales[i, c] * residual[i, c] + turns[c] * direction[i, c]
