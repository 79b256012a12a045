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
from distembed.linalg.solve import Solution, conjugate_gradients
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
    given = _Normal.of(X, alpha)
    n, m = given.rows.shape
    if min(n, m) > DIRECT_SIDE:
        return conjugate_gradients(given, given.carried(targets).persist(), tol=tol, max_iter=max_iter)
    if m <= n:
        weights = blocks.solve_ridge(given.products(), compute(given.carried(targets)), alpha)
    else:
        turned = given.turned()
        weights = compute(turned.times(whole(blocks.solve_ridge(turned.products(), targets, alpha))))
    return Solution(da.from_array(weights, chunks=-1), np.zeros(weights.shape[1]), 1, converged=True)


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


class _Normal(NamedTuple):
    """The symmetric matrix XᵀX + alpha I of X (n × m) in row blocks."""

    rows: da.Array
    transposed: da.Array | None
    """Xᵀ in row blocks where X is sparse: only products of stored values are made."""
    alpha: float

    @classmethod
    def of(cls, X: Any, alpha: float) -> _Normal:
        """Cut X into row blocks."""
        if not is_sparse(X):
            return cls(dense_rows(X), None, alpha)
        return cls(rows := row_blocks(X), transpose_row_blocks(rows).persist(), alpha)

    def turned(self) -> _Normal:
        """Return the matrix XXᵀ + alpha I."""
        if self.transposed is not None:
            return _Normal(self.transposed, self.rows, self.alpha)
        n, m = self.rows.shape
        return _Normal(self.rows.T.rechunk((row_chunk(m, 8 * n, BLOCK_MEMORY), -1)), None, self.alpha)

    def times(self, vectors: da.Array) -> da.Array:
        """Return X times vectors (m × b)."""
        return (times_matrix if self.transposed is None else sparse_times)(self.rows, vectors)

    def carried(self, vectors: Any) -> da.Array:
        """Return Xᵀ times vectors (n × b)."""
        if self.transposed is None:
            return column_products(self.rows, dense_blocks(vectors, self.rows.chunks[0]))
        return sparse_times(self.transposed, vectors if isinstance(vectors, da.Array) else whole(vectors))

    def products(self) -> Float64s:
        """Return XᵀX, (m × m), a panel of columns at a time; of dense rows each half once."""
        m = self.rows.shape[1]
        products = np.empty((m, m))
        for first in range(0, m, PANEL):
            last = min(first + PANEL, m)
            if self.transposed is None:
                panel = compute(column_products(self.rows[:, first:], self.rows[:, first:last]))
                products[first:, first:last], products[first:last, first:] = panel, panel.T
            else:
                columns = lift(
                    blocks.dense_columns, "wc->wc", self.rows,
                    dtype=np.float64, sizes={"c": last - first}, first=first, last=last,
                )  # fmt: skip
                products[:, first:last] = compute(sparse_times(self.transposed, columns))
            tell("columns", last, m)
        return products

    @property
    def row_chunks(self) -> tuple[int, ...]:
        """The number of rows of each block of vectors, which dense rows take in one."""
        return (self.rows.shape[1],) if self.transposed is None else tuple(self.transposed.chunks[0])

    def apply(self, vectors: da.Array) -> da.Array:
        """Return (XᵀX + alpha I) times vectors (m × b)."""
        return self.carried(self.times(gathered(vectors))) + self.alpha * vectors
