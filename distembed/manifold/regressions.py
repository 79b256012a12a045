"""Ridge regressions of vectors on the rows of a table: what imputation by a graph is compared and combined with."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import pairwise_distances
from sklearn.utils import gen_batches

from distembed.dtypes import Float64s, Mask
from distembed.execution import compute, one_blas_thread, shared
from distembed.lift import block, lift
from distembed.linalg.blocks import ROUNDED
from distembed.linalg.chunks import row_chunk
from distembed.linalg.operators import dense_blocks
from distembed.neighbors.blocks import typical_square
from distembed.states import block_memory

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
            values, basis = eigh(kernel)
        coordinates = basis.T @ (Y - self.mean_)
        least = np.inf
        for ridge in np.array(RIDGES) * unit:
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
    Y = Y.rechunk(found.chunks) if isinstance(Y, da.Array) else Y
    return lift(_keep_known, "wc,wc,wk->wc", Y, found, known[:, None], dtype=Y.dtype)


@block(temporaries=1)
def _keep_known(Y: Any, found: Any, known: Any) -> Any:
    return np.where(known, Y, found).astype(Y.dtype, copy=False)
