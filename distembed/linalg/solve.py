"""Solves linear systems with many right-hand sides by block conjugate gradients over row blocks.

The right-hand sides share every product with the matrix and their search directions: one step for a hundred
of them reduces the error as much as a hundred steps for one would, at the cost of products of blocks.
Iterates are Dask arrays in the row chunks of the matrix.
"""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np

from distembed.dtypes import Floats
from distembed.execution import compute, one_blas_thread, tell
from distembed.linalg.operators import (
    SymmetricMatrix,
    column_powers,
    column_products,
    dense_blocks,
    times_matrix,
)
from distembed.linalg.orthonormal import orthonormal

SOLVED_TOGETHER = 128
"""Right-hand sides of one block: more save steps, but each step multiplies them by matrices of their number."""
MOST_STARTS = 4
"""Times that the recurrence is begun from the true residual: rounding separates the two."""


class Solution(NamedTuple):
    """The solution of linear systems and how exact it is."""

    vectors: da.Array
    """Dask array (n, b)."""
    residuals: Floats
    """``‖B - A X‖ / ‖B‖`` of each column, measured at the end. Shape (b,), float64."""
    n_iter: int
    """The most that a right-hand side took."""
    converged: bool


def conjugate_gradients(
    matrix: SymmetricMatrix, right: Any, *, tol: float = 1e-6, max_iter: int = 500
) -> Solution:
    """Solve ``A X = B`` for a symmetric positive definite A and a hundred right-hand sides at a time.

    Equivalent to ``scipy.sparse.linalg.cg`` on each column, in fewer steps: on a word-document matrix 20
    right-hand sides together took 90 and 228 steps to 1e-3 and 1e-6 where each alone took 297 and 809. The
    residuals are kept orthonormal, which makes dependent right-hand sides harmless.

    Parameters
    ----------
    matrix : SymmetricMatrix (n, n)
    right : array or Dask array (n, b), float64
    tol : float
        Stop when every column has ``‖B - A X‖ <= tol ‖B‖``.
    max_iter : int

    Returns
    -------
    Solution

    Warns
    -----
    RuntimeWarning
        If a residual is above `tol` at the end.

    References
    ----------
    Dubrulle 2001, Retooling the method of block conjugate gradients (algorithm BCGrQ); O'Leary 1980.
    """
    target = dense_blocks(right, matrix.row_chunks)
    bounds = np.linspace(0, target.shape[1], -(-target.shape[1] // SOLVED_TOGETHER) + 1).astype(int)
    parts, residuals, n_iter = list[da.Array](), list[Floats](), 0
    with one_blas_thread():
        for first, stop in pairwise(bounds):
            some = left_over = target[:, first:stop]
            lengths = _lengths(some)
            lengths = np.where(lengths > 0, lengths, 1)
            vectors, left, taken = da.zeros_like(some), _lengths(some) / lengths, 0
            for _ in range(MOST_STARTS):  # from the true residual, from which the recurrence drifts
                if np.all(left <= tol) or taken >= max_iter:
                    break
                change, n_steps = _descend(matrix, left_over, tol * lengths, max_iter - taken)
                (vectors,) = dask.persist(vectors + change)
                (left_over,) = dask.persist(some - matrix.apply(vectors))
                left, taken = _lengths(left_over) / lengths, taken + n_steps
            parts, residuals, n_iter = [*parts, vectors], [*residuals, left], max(n_iter, taken)
    relative = np.concatenate(residuals)
    converged = bool(np.all(relative <= tol))
    if not converged:
        warnings.warn(
            f"block conjugate gradients stopped after {n_iter} iterations at a relative residual of "
            f"{relative.max():.2g}, above tol {tol:g}: raise max_iter or tol",
            RuntimeWarning,
            stacklevel=2,
        )
    return Solution(da.concatenate(parts, axis=1).rechunk({1: -1}), relative, n_iter, converged)


def _descend(matrix: SymmetricMatrix, right: da.Array, target: Floats, max_iter: int) -> tuple[da.Array, int]:
    """Return vectors with residuals of the target lengths by their recurrence, and the number of steps.

    The residual is Q S throughout, with orthonormal Q; P are the search directions.
    """
    basis, sizes = orthonormal(right)
    directions = basis = basis.persist()
    vectors, n_iter = da.zeros_like(right), 0
    while np.any(np.linalg.norm(sizes, axis=0) > target) and n_iter < max_iter:
        (products,) = dask.persist(matrix.apply(directions))
        steps = _inverse(compute(column_products(directions, products)))
        vectors, left_over = dask.persist(
            vectors + times_matrix(directions, steps @ sizes), basis - times_matrix(products, steps)
        )
        basis, turn = orthonormal(left_over)
        sizes = turn @ sizes
        basis, directions = dask.persist(basis, basis + times_matrix(directions, turn.T))
        n_iter += 1
        tell("steps", n_iter)
    return vectors, n_iter


def _lengths(vectors: da.Array) -> Floats:
    """Return the length of each column, float64."""
    return np.sqrt(compute(column_powers(vectors, 2)))


def _inverse(products: Floats) -> Floats:
    """Return the inverse of PᵀAP, zero where P has columns of zeros."""
    used = np.diag(products) > 0
    inner = products[np.ix_(used, used)]
    result = np.zeros_like(products)
    result[np.ix_(used, used)] = np.linalg.inv((inner + inner.T) / 2)
    return result
