"""Ridge regression of many targets on the rows of a matrix: the second half of spectral regression.

Sparse rows go through products of their stored values. Dense rows go through dense products, an order of magnitude
faster for as many values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Float64s
from distembed.execution import compute, tell, whole
from distembed.lift import lift
from distembed.linalg.chunks import row_chunk
from distembed.linalg.operators import (
    column_products,
    dense_blocks,
    gathered,
    row_blocks,
    sparse_times,
    times_matrix,
    transpose_row_blocks,
)
from distembed.linalg.solve import NormalMatrix, Solution, conjugate_gradients
from distembed.manifold import projection_blocks as blocks
from distembed.states import BLOCK_MEMORY

DIRECT_SIDE = 8192
"""Smaller side of X up to which the regression is solved by Cholesky: 0.5 GB, 0.2 Tflop."""
PANEL = 512
"""Columns of XᵀX computed at a time."""


def ridge_regression(X: Any, targets: Float64s, *, alpha: float, tol: float, max_iter: int) -> Solution:
    """Return W = argmin ‖X W - Y‖² + alpha ‖W‖², (m × k).

    By Cholesky where X has a side of `DIRECT_SIDE` or less, else by block conjugate gradients. Scaling by the
    columns, or by singular vectors of X, gained nothing over the block.

    Parameters
    ----------
    X : (n × m) NumPy, SciPy sparse or Dask array, dense or of CSR row blocks
    targets : (n × k) float64, Y
    alpha : float
        The ridge.
    tol, max_iter : float, int
        Of the conjugate gradients.

    Raises
    ------
    ValueError
        If alpha is not above 0.
    """
    if not alpha > 0:
        raise ValueError(f"alpha is {alpha}; give a ridge above 0 (0.01 is usual)")
    direct = min(X.shape) <= DIRECT_SIDE
    if not is_sparse(X):
        rows = dense_rows(X)
        return (
            _direct_dense(rows, targets, alpha)
            if direct
            else _iterated_dense(rows, targets, alpha, tol, max_iter)
        )
    rows = row_blocks(X)
    transposed = transpose_row_blocks(rows).persist()
    if direct:
        return _direct_sparse(rows, transposed, whole(targets), alpha)
    right = sparse_times(transposed, whole(targets)).persist()
    return conjugate_gradients(NormalMatrix(rows, transposed, alpha), right, tol=tol, max_iter=max_iter)


def is_sparse(X: Any) -> bool:
    """Return whether a matrix, or each block of a Dask array, is sparse."""
    return bool(sp.issparse(X) or sp.issparse(getattr(X, "_meta", None)))


def with_ones(X: Any) -> da.Array:
    """Return X (n × m) with a column of ones after its columns, in row blocks, sparse where X is sparse."""
    rows = row_blocks(X) if is_sparse(X) else dense_rows(X)
    sizes = {"c": rows.shape[1] + 1}
    return lift(blocks.with_ones, "wc->wc", rows, dtype=rows.dtype, sparse=is_sparse(X), sizes=sizes)


def dense_rows(X: Any) -> da.Array:
    """Return a dense matrix in row blocks of float64."""
    if isinstance(X, da.Array):
        return X.rechunk({1: -1}).astype(np.float64)
    chunk = row_chunk(X.shape[0], 8 * X.shape[1], BLOCK_MEMORY)
    return dense_blocks(np.asarray(X, np.float64), chunk)


def _solve_rows(W: Float64s) -> Solution:
    return Solution(da.from_array(W, chunks=-1), np.zeros(W.shape[1]), 1, converged=True)


# --------------------------------------------------------------------------- sparse rows


def _direct_sparse(rows: da.Array, transposed: da.Array, Y: da.Array, alpha: float) -> Solution:
    """Solve with XᵀX + alpha I, or with XXᵀ + alpha I where X has fewer rows than columns."""
    if rows.shape[1] <= rows.shape[0]:
        right = compute(sparse_times(transposed, Y))
        return _solve_rows(blocks.solve_ridge(_products_of_columns(rows, transposed), right, alpha))
    dual = blocks.solve_ridge(_products_of_columns(transposed, rows), compute(Y), alpha)
    return _solve_rows(compute(sparse_times(transposed, whole(dual))))


def _products_of_columns(rows: da.Array, transposed: da.Array) -> Float64s:
    """Return XᵀX, (m × m), a panel of columns at a time."""
    m = rows.shape[1]
    products = np.empty((m, m))
    for first in range(0, m, PANEL):
        last = min(first + PANEL, m)
        panel = lift(
            blocks.dense_columns, "wc->wc", rows,
            dtype=np.float64, sizes={"c": last - first}, first=first, last=last,
        )  # fmt: skip
        products[:, first:last] = compute(sparse_times(transposed, panel))
        tell("columns", last, m)
    return products


# --------------------------------------------------------------------------- dense rows


class _DenseNormalMatrix(NamedTuple):
    """The symmetric matrix XᵀX + alpha I of dense row blocks X (n × m)."""

    rows: da.Array
    alpha: float

    @property
    def row_chunks(self) -> tuple[int, ...]:
        """One block: what is multiplied is as long as a row."""
        return (self.rows.shape[1],)

    def apply(self, vectors: da.Array) -> da.Array:
        """Return (XᵀX + alpha I) times vectors (m × b)."""
        return column_products(self.rows, times_matrix(self.rows, gathered(vectors))) + self.alpha * vectors


def _iterated_dense(rows: da.Array, targets: Float64s, alpha: float, tol: float, max_iter: int) -> Solution:
    right = column_products(rows, dense_blocks(targets, rows.chunks[0])).persist()
    return conjugate_gradients(_DenseNormalMatrix(rows, alpha), right, tol=tol, max_iter=max_iter)


def _direct_dense(rows: da.Array, targets: Float64s, alpha: float) -> Solution:
    """Solve with XᵀX + alpha I, or with XXᵀ + alpha I where X has fewer rows than columns."""
    if rows.shape[1] <= rows.shape[0]:
        right = compute(column_products(rows, dense_blocks(targets, rows.chunks[0])))
        return _solve_rows(blocks.solve_ridge(_dense_products(rows), right, alpha))
    turned = rows.T.rechunk((row_chunk(rows.shape[1], 8 * rows.shape[0], BLOCK_MEMORY), -1))
    dual = blocks.solve_ridge(_dense_products(turned), targets, alpha)
    return _solve_rows(compute(times_matrix(turned, dual)))


def _dense_products(rows: da.Array) -> Float64s:
    """Return XᵀX, (m × m), a panel of columns with those after it at a time; the other half is its transpose."""
    m = rows.shape[1]
    products = np.empty((m, m))
    for first in range(0, m, PANEL):
        last = min(first + PANEL, m)
        panel = compute(column_products(rows[:, first:], rows[:, first:last]))
        products[first:, first:last] = panel
        products[first:last, first:] = panel.T
        tell("columns", last, m)
    return products
