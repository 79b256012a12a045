"""Ridge regression of many targets on the rows of a matrix: the second half of spectral regression.

Sparse rows go through products of their stored values. Dense rows go through dense products, an order of magnitude
faster for as many values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.linalg
import scipy.sparse as sp

from distembed.dtypes import Float64s
from distembed.execution import compute, tell, whole
from distembed.lift import block, lift
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
from distembed.states import BLOCK_MEMORY

DIRECT_SIDE = 8192
"""Smaller side of X up to which the regression is solved by Cholesky: 0.5 GB, 0.2 Tflop."""
PANEL = 512
"""Columns of XᵀX computed at a time."""


def ridge_regression(
    X: Any, targets: Float64s, alpha: float, tol: float, max_iter: int, *, constant: bool = False
) -> Solution:
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
    constant : bool
        Whether X has one more column, of ones.

    Raises
    ------
    ValueError
        If alpha is not above 0.
    """
    if not alpha > 0:
        raise ValueError(f"alpha is {alpha}; give a ridge above 0 (0.01 is usual)")
    if sp.issparse(getattr(X, "_meta", X)):
        rows = _with_ones(row_blocks(X)) if constant else row_blocks(X)
        normal = _Normal(rows, transpose_row_blocks(rows).persist(), alpha)
    else:
        chunk = row_chunk(X.shape[0], 8 * X.shape[1], BLOCK_MEMORY)
        rows = X.rechunk({1: -1}) if isinstance(X, da.Array) else dense_blocks(X, chunk)
        rows = rows.astype(np.float64)
        normal = _Normal(_with_ones(rows) if constant else rows, None, alpha)
    n, m = normal.rows.shape
    if min(n, m) > DIRECT_SIDE:
        return conjugate_gradients(normal, normal.carried(targets).persist(), tol=tol, max_iter=max_iter)
    turned = normal if m <= n else normal.turned()
    right, products = compute(normal.carried(targets)) if m <= n else targets, turned.products()
    products.flat[:: len(products) + 1] += alpha
    weights = scipy.linalg.solve(products, right, assume_a="pos", overwrite_a=True)
    if m > n:
        weights = compute(turned.times(whole(weights)))
    return Solution(da.from_array(weights, chunks=-1), np.zeros(weights.shape[1]), 1, converged=True)


class _Normal(NamedTuple):
    """The symmetric matrix XᵀX + alpha I of X (n × m) in row blocks."""

    rows: da.Array
    transposed: da.Array | None
    """Xᵀ in row blocks where X is sparse: only products of stored values are made."""
    alpha: float

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
                    dense_columns, "wc->wc", self.rows,
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


def _with_ones(rows: da.Array) -> da.Array:
    """Return rows with a column of ones after their columns."""
    sizes, is_sparse = {"c": rows.shape[1] + 1}, sp.issparse(rows._meta)
    return lift(with_ones, "wc->wc", rows, dtype=rows.dtype, sparse=is_sparse, sizes=sizes)


@block(temporaries=0.5)
def with_ones(block: Any) -> Any:
    """Return a block of rows, sparse or dense, with a column of ones after its columns."""
    n, m = block.shape
    if not sp.issparse(block):
        return np.hstack([block, np.ones((n, 1), block.dtype)])
    ends, indptr = block.indptr[1:], block.indptr + np.arange(n + 1, dtype=block.indptr.dtype)
    return sp.csr_array(
        (np.insert(block.data, ends, 1), np.insert(block.indices, ends, m), indptr), (n, m + 1)
    )


@block(temporaries=0.5)
def dense_columns(block: sp.csr_array, *, first: int, last: int) -> Float64s:
    """Return some neighboring columns of one row block, dense, in C order."""
    return np.asarray(block[:, first:last].toarray(), dtype=np.float64, order="C")
