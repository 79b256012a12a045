"""The ridge regression of vectors on character n-grams: one block of columns, by conjugate gradients.

Symbols: `A` the averaging matrix (n words × p n-grams), `Y` centered vectors (n × b), `Z` vectors of n-grams (p × b),
`lambda` the ridge of each column (b,). Every column z of Z solves

    (AᵀA + lambda I) z = Aᵀ y,

which is the minimum of ``sum_w (y_w - A_w z)² + lambda ‖z‖²``. The columns of a block share the products with A,
and each has step lengths of its own: its answer does not depend on its neighbors, where they have the same lambda.
Vectors are float32, sums float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit

from distembed.dtypes import Float32s, Float64s, Floats
from distembed.linalg.blocks import sparse_times_dense
from distembed.temporaries import block

COLUMNS_TOGETHER = 16
"""Columns solved in one task: their float32 values of one n-gram fill a line of the processor's cache."""
MOST_STARTS = 4
"""Largest number of restarts from the true residual, which rounding separates from that of the recurrence."""


class RidgeSystem(NamedTuple):
    """The matrix of the regression in both orders, and the diagonal of its square."""

    matrix: sp.csr_array
    transposed: sp.csr_array
    """A and Aᵀ. Each a csr_array, (n, p) and (p, n), float32."""
    squares: Float64s
    """The diagonal of AᵀA. Float64 (p,)."""


@block(temporaries=5.5)
def solve_ridge(
    columns: Floats, ridges: Float64s, *, system: RidgeSystem, tol: float, max_iter: int
) -> Float32s:
    """Return the vectors of the n-grams for some columns of the vectors of the words, float32 (p, b).

    Parameters
    ----------
    columns : array (n, b)
        Columns of the vectors, not centered.
    ridges : array (1, b)
        lambda of each, above 0.
    system : RidgeSystem
        The matrix.
    tol : float
        The bound on the residual of each column over the length of its right-hand side.
    max_iter : int
        The largest number of steps.
    """
    right = _right_side(columns, _means(columns), system)
    target = tol * _lengths(right)
    solution, residual, n_iter = np.zeros_like(right), right.copy(), 0
    for _ in range(MOST_STARTS):
        if np.all(_lengths(residual) <= target) or n_iter >= max_iter:
            break
        n_iter += _descend(system, ridges[0], solution, residual, target, max_iter - n_iter)
        residual = right - _product(system, ridges[0], solution)
    return solution


@block(temporaries=3)
def means_and_residuals(
    columns: Floats, ridges: Float64s, solution: Float32s, *, system: RidgeSystem
) -> Float64s:
    """Return the mean of each column, and ``‖b - (AᵀA + lambda I) z‖ / ‖b‖``, 0 where b is zero; float64 (2, b)."""
    means = _means(columns)
    right = _right_side(columns, means, system)
    left, lengths = _lengths(right - _product(system, ridges[0], solution)), _lengths(right)
    return np.stack([means, np.divide(left, lengths, out=np.zeros_like(left), where=lengths > 0)])


def _means(columns: Floats) -> Float64s:
    return np.asarray(np.ones(len(columns)) @ columns.astype(np.float64) / len(columns))


def _right_side(columns: Floats, means: Float64s, system: RidgeSystem) -> Float32s:
    centered = (columns - means).astype(np.float32)
    nothing = np.zeros((system.matrix.shape[1], columns.shape[1]), np.float32)
    return _shifted_product(system.transposed, centered, nothing, np.zeros(columns.shape[1]))


def _product(system: RidgeSystem, ridges: Float64s, vectors: Float32s) -> Float32s:
    """Return (AᵀA + lambda I) times vectors."""
    return _shifted_product(system.transposed, sparse_times_dense(system.matrix, vectors), vectors, ridges)


def _shifted_product(transposed: Any, inner: Float32s, vectors: Float32s, ridges: Float64s) -> Float32s:
    out = np.empty((transposed.shape[0], inner.shape[1]), np.float32)
    _fill_product(transposed.indptr, transposed.indices, transposed.data, inner, vectors, ridges, out)
    return out


def _lengths(vectors: Float32s) -> Float64s:
    return np.sqrt(np.einsum("ij,ij->j", vectors, vectors, dtype=np.float64))


def _descend(
    system: RidgeSystem,
    ridges: Float64s,
    solution: Float32s,
    residual: Float32s,
    target: Float64s,
    max_iter: int,
) -> int:
    """Improve a solution until the recurrence gives residuals of the target lengths, in place; return the steps.

    A column that has reached its target no longer changes. The residuals of all columns are scaled by one diagonal
    (Jacobi), that of the smallest lambda among them.
    """
    scales = 1 / (system.squares + ridges.min())
    direction = (residual * scales[:, None]).astype(np.float32)
    energy = np.einsum("ij,ij->j", residual, direction, dtype=np.float64)
    lengths, n_iter = _lengths(residual), 0
    while np.any(active := lengths > target) and n_iter < max_iter:
        product = _product(system, ridges, direction)
        curvature = np.einsum("ij,ij->j", direction, product, dtype=np.float64)
        steps = np.divide(energy, curvature, out=np.zeros_like(energy), where=active & (curvature > 0))
        squares, after = _step(steps, scales, solution, residual, direction, product)
        turns = np.divide(after, energy, out=np.zeros_like(energy), where=energy > 0)
        _turn(turns, scales, residual, direction)
        lengths, energy, n_iter = np.sqrt(squares), after, n_iter + 1
    return n_iter


@njit(cache=True, nogil=True, fastmath={"contract"})
def _fill_product(indptr, indices, data, inner, vectors, ridges, out):  # type: ignore[no-untyped-def]
    total = np.empty(out.shape[1])
    for i in range(len(indptr) - 1):
        for c in range(len(total)):
            total[c] = ridges[c] * vectors[i, c]
        for p in range(indptr[i], indptr[i + 1]):
            value, row = data[p], inner[indices[p]]
            for c in range(len(total)):
                total[c] += value * row[c]
        for c in range(len(total)):
            out[i, c] = total[c]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _step(steps, scales, solution, residual, direction, product):  # type: ignore[no-untyped-def]
    """Go one step in place; return ‖r‖² and rᵀ P r of each column."""
    squares, energy = np.zeros(len(steps)), np.zeros(len(steps))
    for i in range(len(scales)):
        for c in range(len(steps)):
            solution[i, c] += steps[c] * direction[i, c]
            left = np.float32(residual[i, c] - steps[c] * product[i, c])
            residual[i, c] = left
            square = np.float64(left) * left
            squares[c] += square
            energy[c] += square * scales[i]
    return squares, energy


@njit(cache=True, nogil=True, fastmath={"contract"})
def _turn(turns, scales, residual, direction):  # type: ignore[no-untyped-def]
    """Give each column its next direction, in place."""
    for i in range(len(scales)):
        for c in range(len(turns)):
            direction[i, c] = scales[i] * residual[i, c] + turns[c] * direction[i, c]
