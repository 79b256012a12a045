"""The ridge regression of vectors on character n-grams: one block of columns, by conjugate gradients.

Symbols: `A` the averaging matrix (n words × p n-grams), `Y` centered vectors (n × b), `Z` vectors of n-grams (p × b),
`lambda` the ridge of each column (b,). Every column z of Z solves

    (AᵀA + lambda I) z = Aᵀ y,

which is the minimum of ``sum_w (y_w - A_w z)² + lambda ‖z‖²``. The columns of a block share the products with A,
and each has step lengths of its own: its answer does not depend on its neighbors, where they have the same lambda.
Vectors are float32, sums float64.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numba import njit

from distembed.dtypes import Float32s, Float64s, Floats
from distembed.linalg.blocks import sparse_times_dense
from distembed.linalg.columns import conjugate_gradients
from distembed.temporaries import block

COLUMNS_TOGETHER = 16
"""Columns solved in one task: their float32 values of one n-gram fill a line of the processor's cache."""


@block(temporaries=5.5)
def solve_ridge(
    columns: Floats,
    ridges: Float64s,
    *,
    matrix: sp.csr_array,
    transposed: sp.csr_array,
    tol: float,
    max_iter: int,
) -> Float32s:
    """Return the vectors of the n-grams for some columns of the vectors of the words, float32 (p + 2, b).

    Below them stand the residual of each column over the length of its right-hand side, and the mean of the column.

    Parameters
    ----------
    columns : array (n, b)
        Columns of the vectors, not centered.
    ridges : array (1, b)
        lambda of each, above 0.
    matrix, transposed : csr_array (n, p), (p, n) float32
        A and Aᵀ.
    tol : float
        The bound on the residual of each column.
    max_iter : int
        The largest number of steps.
    """
    means, n_ngrams = np.ones(len(columns)) @ columns.astype(np.float64) / len(columns), matrix.shape[1]

    def shifted_product(inner: Float32s, vectors: Float32s, shifts: Float64s) -> Float32s:
        out = np.empty((n_ngrams, len(shifts)), np.float32)
        arrays = transposed.indptr, transposed.indices, transposed.data
        _fill_product(*arrays, inner, vectors, shifts, out)
        return out

    def product(vectors: Float32s) -> Float32s:
        return shifted_product(sparse_times_dense(matrix, vectors), vectors, ridges[0])

    nothing = np.broadcast_to(np.float32(0), (n_ngrams, columns.shape[1]))
    right = shifted_product((columns - means).astype(np.float32), nothing, np.zeros(columns.shape[1]))
    # The diagonal of AᵀA with the smallest lambda: one for all columns.
    squares = np.bincount(matrix.indices, matrix.data.astype(np.float64) ** 2, minlength=n_ngrams)
    scales = 1 / (squares + ridges.min())
    found = conjugate_gradients(product, right, scales[:, None], tol=tol, max_iter=max_iter)
    return np.vstack([found.values, found.residuals.astype(np.float32), means.astype(np.float32)])


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
