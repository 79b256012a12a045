"""Latent Semantic Analysis: the truncated singular value decomposition of a sparse matrix in row blocks.

Landauer, Foltz and Laham, Introduction to Latent Semantic Analysis, Discourse Processes 25 (1998). The
space there is the log-entropy weighted word × document matrix.
"""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from distembed.execution import Checkpoint, one_blas_thread, persist
from distembed.linalg.operators import row_blocks, sparse_times
from distembed.linalg.singular import SingularTriplets, largest_singular_triplets, scaled_power


class LSA(TransformerMixin, BaseEstimator):
    r"""Project rows on the largest right singular vectors, without centring.

    .. math:: X \approx U S V^T, \qquad \text{vectors} = U S^{\text{exponent}}

    ``sklearn.decomposition.TruncatedSVD`` is the equivalent, up to the sign of each component. How the
    decomposition is found, and the options not listed here, are `largest_singular_triplets`'.

    Parameters
    ----------
    n_components : int
    exponent : float
        1 is LSA, 0 the left singular vectors alone.

    Attributes
    ----------
    components_ : (n_components, n_features) array, Vᵀ
    singular_values_ : (n_components,) float64
    residuals_ : (n_components,) float64
        Of each component, relative to the square of its singular value; see `SingularTriplets`.
    """

    def __init__(
        self,
        n_components: int = 300,
        *,
        exponent: float = 1.0,
        n_passes: int = 6,
        oversampling: int = 10,
        tol: float | None = None,
        dtype: Any = np.float32,
        random_state: int = 0,
        checkpoint: Checkpoint = persist,
    ) -> None:
        self.n_components = n_components
        self.exponent = exponent
        self.n_passes = n_passes
        self.oversampling = oversampling
        self.tol = tol
        self.dtype = dtype
        self.random_state = random_state
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: None = None) -> LSA:  # noqa: ARG002 - scikit-learn's signature
        """Learn the components of X, (n × m): NumPy, SciPy sparse or Dask, dense or of CSR row blocks."""
        self._fitted(X)
        return self

    def fit_transform(self, X: Any, y: None = None) -> Any:  # noqa: ARG002 - scikit-learn's signature
        """Learn the components and return U S^exponent, (n × k); a Dask array for a Dask array."""
        found = self._fitted(X)
        scaled = found.left * scaled_power(found.values, self.exponent).astype(self.dtype)
        return scaled if isinstance(X, da.Array) else scaled.compute()

    def transform(self, X: Any) -> Any:
        """Return X V S^(exponent - 1), (n × k), for rows of the same features."""
        if X.shape[1] != self.components_.shape[1]:
            raise ValueError(f"X has {X.shape[1]} columns; the components have {self.components_.shape[1]}")
        scale = scaled_power(self.singular_values_, self.exponent - 1)
        weights = self.components_.T * scale.astype(self.dtype)
        projected = sparse_times(row_blocks(X), da.from_array(weights, chunks=-1))
        return projected if isinstance(X, da.Array) else projected.compute()

    def _fitted(self, X: Any) -> SingularTriplets:
        with one_blas_thread():
            found = largest_singular_triplets(
                row_blocks(X),
                self.n_components,
                n_passes=self.n_passes,
                oversampling=self.oversampling,
                tol=self.tol,
                dtype=self.dtype,
                random_state=self.random_state,
                checkpoint=self.checkpoint,
            )
        self.components_, self.singular_values_ = found.right.T, found.values
        self.residuals_ = found.residuals
        self.n_features_in_ = X.shape[1]
        return found
