"""Ridge regressions: of vectors on the rows of a table, and of many targets on a large matrix.

What imputation by a graph is compared and combined with is fitted to some thousands of rows, with a ridge that is
chosen. The second half of spectral regression has a given ridge: sparse rows go through products of their stored
values, dense rows through dense products, an order of magnitude faster for as many values.
"""

from __future__ import annotations

import warnings
from itertools import count
from typing import Any

import dask.array as da
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import pairwise_distances
from sklearn.utils import gen_batches

from distembed.dtypes import Float64s, Mask
from distembed.execution import compute, one_blas_thread, shared, tell
from distembed.lift import block, lift
from distembed.linalg.blocks import ROUNDED
from distembed.linalg.chunks import row_chunk
from distembed.linalg.columns import Solution, conjugate_gradients
from distembed.linalg.csr import row_lengths
from distembed.linalg.operators import (
    column_powers,
    column_products,
    dense_blocks,
    row_blocks,
    sparse_times,
    times_matrix,
    transpose_row_blocks,
)
from distembed.neighbors.blocks import typical_square
from distembed.states import BLOCK_MEMORY, block_memory

RIDGES = tuple(10.0 ** np.arange(-4, 4))
"""Ridges tried, in units of the mean squared length of a row less the mean; the leave-one-out error chooses."""

LINEAR_ROWS, KERNEL_ROWS = 20_000, 2000
"""Rows, at most, that a linear and a kernel ridge regression are fitted to: this one holds the kernel of all pairs."""

PREDICTED_ROWS = 1024
"""Rows whose kernel with the fitted ones is held at a time."""


class LinearRidge(RegressorMixin, BaseEstimator):
    """A linear ridge regression whose ridge the leave-one-out error chooses among `RIDGES`."""

    def fit(self, X: Float64s, Y: Float64s) -> LinearRidge:
        """Fit at most `LINEAR_ROWS` of the rows, drawn at random."""
        X, Y = _drawn(X, Y, LINEAR_ROWS)
        unit = X.var(axis=0).sum()
        is_flat = unit <= ROUNDED**2 * (X.mean(axis=0) ** 2).sum()  # rows that are all equal give the mean
        self.model_ = (DummyRegressor() if is_flat else RidgeCV(alphas=np.array(RIDGES) * unit)).fit(X, Y)
        return self

    def predict(self, X: Float64s) -> Any:
        """Return the vectors of rows."""
        return self.model_.predict(X)


class KernelRidge(RegressorMixin, BaseEstimator):
    """A ridge regression with the kernel exp(-‖x - z‖² / scale), its ridge chosen as that of `LinearRidge`.

    The scale is the median of the squared distances of the rows, or where most of them are equal, of those that are
    not. The regression has an intercept: the kernel is centered in the feature space.
    """

    def fit(self, X: Float64s, Y: Float64s) -> KernelRidge:
        """Fit at most `KERNEL_ROWS` of the rows, drawn at random."""
        self.rows_, Y = _drawn(X, Y, KERNEL_ROWS)
        squares = pairwise_distances(self.rows_, metric="sqeuclidean")
        self.scale_, self.mean_ = typical_square(squares, self.rows_, self.rows_), Y.mean(axis=0)
        kernel = np.exp(-squares / self.scale_)
        self.kernel_means_ = kernel.mean(axis=0)
        kernel = self._centered(kernel)
        unit = kernel.trace() / len(kernel) or 1.0  # 0 where all rows are equal
        # The eigenvectors serve every ridge. With C = (K + ridge I)^-1 the hat matrix with its intercept is
        # 11'/p + I - ridge C, and the error of a row that is left out is its residual over 1 - hat_ii.
        with one_blas_thread():
            values, basis = scipy.linalg.eigh(kernel)
        coordinates = basis.T @ (Y - self.mean_)
        least, self.dual_ = np.inf, np.zeros_like(coordinates)
        for ridge in np.array(RIDGES) * unit if len(kernel) > 1 else ():  # of one row the vector is the mean
            inverse = 1 / (np.maximum(values, 0.0) + ridge)
            dual = basis @ (inverse[:, None] * coordinates)
            errors = ridge * dual / (ridge * (basis**2 @ inverse) - 1 / len(values))[:, None]
            if (error := (errors**2).sum()) < least:
                least, self.dual_ = error, dual
        return self

    def predict(self, X: Float64s) -> Any:
        """Return the vectors of rows."""
        parts = [X[batch] for batch in gen_batches(len(X), PREDICTED_ROWS)]
        return np.concatenate(
            [self._centered(self._kernel(part)) @ self.dual_ + self.mean_ for part in parts]
        )

    def _kernel(self, X: Float64s) -> Float64s:
        return np.exp(-pairwise_distances(X, self.rows_, metric="sqeuclidean") / self.scale_)

    def _centered(self, kernel: Float64s) -> Float64s:
        kernel = kernel - self.kernel_means_
        return np.asarray(kernel - kernel.mean(axis=1, keepdims=True))


def _drawn(X: Float64s, Y: Float64s, most: int) -> tuple[Float64s, Float64s]:
    """Return at most so many rows of both, drawn at random, in their order."""
    rows = np.sort(np.random.default_rng(0).permutation(len(X))[:most])
    return (X[rows], Y[rows]) if len(rows) < len(X) else (X, Y)


def impute_by(model: Any, X: Float64s, Y: Float64s) -> Float64s:
    """Return Y with what a regressor finds for its rows of NaN."""
    known, out = ~np.isnan(Y[:, 0]), Y.copy()
    out[~known] = fit_known(model, X, Y, known).predict(X[~known])
    return out


def fit_known(model: Any, X: Any, Y: Any, known: Mask) -> Any:
    """Return a clone of a regressor, fitted to the known rows of X and Y in float64."""
    at = np.flatnonzero(known)
    rows, targets = (np.asarray(one, np.float64) for one in compute((X[at], Y[at])))
    return clone(model).fit(rows, targets)


def predictions(model: Any, X: Any, n_columns: int) -> da.Array:
    """Return what a fitted regressor predicts for each row of X, (n, n_columns) float64, lazily by row blocks."""
    chunk = row_chunk(X.shape[0], 8 * (X.shape[1] + n_columns), block_memory())
    return lift(
        predict,
        "wc->wk",
        dense_blocks(X, chunk),
        dtype=np.float64,
        sizes={"k": n_columns},
        model=shared(model),
    )


@block(temporaries=1)
def predict(X: Any, *, model: Any) -> Any:
    """Return what a fitted regressor predicts for a block of rows."""
    # one target comes as (n,)
    return np.asarray(model.predict(np.asarray(X, np.float64)), np.float64).reshape(len(X), -1)


def with_known(Y: Any, found: da.Array, known: Mask) -> da.Array:
    """Return the rows of Y that are known, bit for bit, and others found for the rest, in Y's dtype."""
    cut = found.chunks
    rows = Y.rechunk(cut) if isinstance(Y, da.Array) else da.from_array(Y, chunks=cut)
    return da.where(known[:, None], rows, found).astype(Y.dtype)


# --- many targets on a large matrix ---------------------------------------------------------------------------


DIRECT_SIDE = 8192
"""Smaller side of X up to which the regression is solved by Cholesky: 0.5 GB, 0.2 Tflop."""
PANEL = 512
"""Columns of XᵀX computed at a time."""


def ridge_regression(
    X: Any, targets: Float64s, alpha: float, tol: float, max_iter: int, *, constant: bool = False
) -> Solution:
    """Return W = argmin ‖X W - Y‖² + alpha ‖W‖², (m × k).

    By Cholesky where X has a side of `DIRECT_SIDE` or less, else by conjugate gradients.

    Parameters
    ----------
    X : (n × m) NumPy, SciPy sparse or Dask array, dense or of CSR row blocks
    targets : (n × k) float64, Y
    alpha : float
        The ridge, above 0.
    tol, max_iter : float, int
        Of the conjugate gradients.
    constant : bool
        Whether X has one more column, of ones.

    Warns
    -----
    RuntimeWarning
        If a residual is above `tol` at the end.
    """
    is_sparse = sp.issparse(getattr(X, "_meta", X))
    if is_sparse:
        rows = row_blocks(X)
    else:
        chunk = row_chunk(X.shape[0], 8 * X.shape[1], BLOCK_MEMORY)
        rows = X.rechunk({1: -1}) if isinstance(X, da.Array) else dense_blocks(X, chunk)
        rows = rows.astype(np.float64)
    if constant:
        ones = da.ones((X.shape[0], 1), chunks=(rows.chunks[0], 1), dtype=rows.dtype)
        both = [rows, row_blocks(ones) if is_sparse else ones]
        rows = da.concatenate(both, axis=1).rechunk({1: -1})
    n, m = rows.shape
    turned = transpose_row_blocks(rows).persist() if is_sparse else None
    times: Any = sparse_times if is_sparse else times_matrix

    def carried(vectors: Any) -> da.Array:
        """Return Xᵀ times vectors (n × b)."""
        if turned is not None:
            return sparse_times(turned, vectors)
        return column_products(rows, dense_blocks(vectors, rows.chunks[0]))

    if min(n, m) > DIRECT_SIDE:
        squares = column_powers(rows, 2)
        if turned is not None:
            squares = lift(row_lengths, "wc->w", turned, dtype=np.float64) ** 2
        right, squares = compute((carried(targets), squares))
        numbers, scales = count(1), 1 / (squares + alpha)

        def product(vectors: Float64s) -> Any:
            tell("products", next(numbers))
            return compute(carried(times(rows, vectors))) + alpha * vectors

        found = conjugate_gradients(product, right, scales[:, None], tol=tol, max_iter=max_iter)
        if (largest := found.residuals.max()) > tol:
            warnings.warn(
                f"the ridge regression stopped after {found.n_iter} steps at a relative residual of {largest:.2g}, "
                f"above tol {tol:g}: raise max_iter or tol",
                RuntimeWarning,
                stacklevel=2,
            )
        return found
    if m <= n:
        weights = solve_by_cholesky(rows, turned, alpha, compute(carried(targets)))
    elif turned is not None:
        weights = compute(times(turned, solve_by_cholesky(turned, rows, alpha, targets)))
    else:
        short = rows.T.rechunk((row_chunk(m, 8 * n, BLOCK_MEMORY), -1))
        weights = compute(times(short, solve_by_cholesky(short, None, alpha, targets)))
    return Solution(weights, np.zeros(weights.shape[1]), 1)


def solve_by_cholesky(rows: da.Array, turned: da.Array | None, alpha: float, right: Any) -> Any:
    """Return (XᵀX + alpha I)^-1 times `right` by Cholesky; XᵀX is made a panel of columns at a time.

    Of dense rows, which are not turned, each half of XᵀX is made once; of sparse ones stored values alone are read.
    """
    m = rows.shape[1]
    products = np.empty((m, m))
    for first in range(0, m, PANEL):
        last = min(first + PANEL, m)
        if turned is None:
            panel = compute(column_products(rows[:, first:], rows[:, first:last]))
            products[first:, first:last], products[first:last, first:] = panel, panel.T
        else:
            columns = lift(
                dense_columns, "wc->wc", rows,
                dtype=np.float64, sizes={"c": last - first}, first=first, last=last,
            )  # fmt: skip
            products[:, first:last] = compute(sparse_times(turned, columns))
        tell("columns", last, m)
    products.flat[:: m + 1] += alpha
    return scipy.linalg.solve(products, right, assume_a="pos", overwrite_a=True)


@block(temporaries=0.5)
def dense_columns(block: sp.csr_array, *, first: int, last: int) -> Float64s:
    """Return some neighboring columns of one row block, dense, in C order."""
    return np.asarray(block[:, first:last].toarray(), dtype=np.float64, order="C")
