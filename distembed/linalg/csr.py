"""CSR matrices of one block: canonical form, unit rows, stored values, rows and columns. NumPy and SciPy only."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Float64s = NDArray[np.float64]


def unit_rows(X: Any) -> Any:
    """Divide each row, dense or sparse, by its Euclidean length, in float64; a row of zeros stays one.

    Sparse rows get sorted columns, each once.
    """
    if sp.issparse(X):
        X = sp.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        squares = X.astype(np.float64).multiply(X).sum(axis=1)
        lengths = np.sqrt(np.where(squares > 0, squares, 1.0))
        return sp.csr_array((X.data / np.repeat(lengths, np.diff(X.indptr)), X.indices, X.indptr), X.shape)
    squares = _row_squares(np.ascontiguousarray(X))
    return X / np.sqrt(np.where(squares > 0, squares, 1.0))[:, None]


@njit(cache=True, nogil=True)
def _row_squares(X: Floats) -> Float64s:
    out = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        total = 0.0
        for t in range(X.shape[1]):
            total += np.float64(X[i, t]) * np.float64(X[i, t])
        out[i] = total
    return out
