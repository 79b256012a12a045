"""Mathematics of one block for linear maps from the table to the vectors, and of their combination with imputation.

Letters
-------
A : rows of the table whose vector is known, less their mean, (p × d). T : their vectors, less their mean, (p × s).
V, e : right singular vectors of A and its squared singular values, (d × k) and (k,).
B : weights of a map, (d × s), (AᵀA + ridge I)^-1 AᵀT = V (e + ridge)^-1 VᵀAᵀT.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.linalg.blocks import ROUNDED, row_cosines
from distembed.neighbors.blocks import typical_square

Float64s = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEAST_VALUE = 1e-12
"""Share of the largest squared singular value of the table under which one is rounding."""

LEAST_KERNEL_VALUE = 1e-10
"""Share of the largest eigenvalue of the landmarks' kernel under which one is rounding."""


class RidgePath(NamedTuple):
    """The ridge regressions of the known vectors on their rows of the table, for every ridge."""

    mean: Float64s
    """The mean of the known rows of the table. Shape (d,)."""
    target_mean: Float64s
    """The mean of the known vectors. Shape (s,)."""
    basis: Float64s
    """The right singular vectors of the centered rows. Shape (d, k)."""
    values: Float64s
    """Their squared singular values. Shape (k,)."""
    products: Float64s
    """The basis' coordinates of AᵀT. Shape (k, s)."""
    unit: float
    """The mean squared length of a centered row, in units of which a ridge is given."""


class KernelFeatures(NamedTuple):
    """Coordinates in which the inner product is the kernel exp(-|x - z|² / scale), by landmarks (Nyström)."""

    landmarks: Float64s
    """Rows of the table. Shape (m, d)."""
    scale: float
    """The median of the squared distances between landmarks, see `typical_square`."""
    roots: Float64s
    """The inverse square root of the kernel of the landmarks, less directions that are rounding. Shape (m, k)."""


def fit_kernel_features(landmarks: Float64s) -> KernelFeatures:
    """Return the features of some rows of the table."""
    squares = squared_distances(landmarks, landmarks)
    scale = typical_square(squares, landmarks, landmarks)
    values, basis = np.linalg.eigh(np.exp(-squares / scale))
    kept = values > LEAST_KERNEL_VALUE * values[-1]
    return KernelFeatures(landmarks, scale, basis[:, kept] / np.sqrt(values[kept]))


def kernel_rows(X: Any, features: KernelFeatures) -> Float64s:
    """Return the features of rows of the table, (rows, k)."""
    squares = squared_distances(np.asarray(X, np.float64), features.landmarks)
    return np.asarray(np.exp(-squares / features.scale) @ features.roots)


def squared_distances(X: Float64s, Z: Float64s) -> Float64s:
    """Return the squared distances of rows, (rows of X, rows of Z)."""
    squares = (X**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1) - 2 * X @ Z.T
    return np.maximum(squares, 0.0)


def known_sums(X: Any, Y: Any, known: Bools) -> Float64s:
    """Return the contribution of one row block to the sums of its known rows, (1, d + s)."""
    rows = known[:, 0]
    return np.concatenate([X[rows].sum(axis=0, dtype=np.float64), Y[rows].sum(axis=0, dtype=np.float64)])[
        None
    ]


def known_products(X: Any, Y: Any, known: Bools, *, means: Float64s) -> Float64s:
    """Return the contribution of one row block to Aᵀ[A T], (1, d, d + s)."""
    rows = known[:, 0]
    centered = np.concatenate([X[rows], Y[rows]], axis=1, dtype=np.float64) - means
    return (centered[:, : X.shape[1]].T @ centered)[None]


def path_of_products(products: Float64s, means: Float64s, n_known: int) -> RidgePath:
    """Return the ridge path of Aᵀ[A T], (d, d + s), and the means of the known rows and vectors."""
    d = len(products)
    values, basis = np.linalg.eigh(products[:, :d])
    unit = float(np.trace(products[:, :d])) / n_known
    kept = values > _least_value(values, means[:d], n_known)
    basis = basis[:, kept]
    return RidgePath(means[:d], means[d:], basis, values[kept], basis.T @ products[:, d:], unit)


def path_of_rows(rows: Float64s, n_columns: int) -> RidgePath:
    """Return the ridge path of known rows of the table beside their vectors, (p, d + s), where d is above p."""
    means = rows.mean(axis=0)
    centered = rows - means
    A, T = centered[:, :n_columns], centered[:, n_columns:]
    values, left = np.linalg.eigh(A @ A.T)
    kept = values > _least_value(values, means[:n_columns], len(rows))
    left, values = left[:, kept], values[kept]
    basis = A.T @ left / np.sqrt(values)
    products = np.sqrt(values)[:, None] * (left.T @ T)
    unit = float((A**2).sum()) / len(A)
    return RidgePath(means[:n_columns], means[n_columns:], basis, values, products, unit)


def _least_value(values: Float64s, mean: Float64s, n_known: int) -> float:
    """Return the squared singular value up to which one is rounding, so that rows that are all equal give no map."""
    return max(LEAST_VALUE * float(values[-1]), n_known * ROUNDED**2 * float(mean @ mean))


def map_weights(path: RidgePath, ridge: float) -> Float64s:
    """Return the weights B of the map with a ridge, in units of the mean squared length of a row, (d, s)."""
    return path.basis @ (path.products / (path.values + ridge * path.unit)[:, None])


def map_rows(X: Any, path: RidgePath, weights: Float64s) -> Float64s:
    """Return the vectors that the map gives rows of the table."""
    return path.target_mean + (X - path.mean) @ weights


def centered_cosines(found: Float64s, truth: Float64s, mean: Float64s) -> Float64s:
    """Return the cosine of each vector found with the true one, after the mean of the known vectors is taken off.

    A vector near the mean of all vectors is near every one of them and distinguishes none. A vector that is the mean
    has no direction; its cosine is 0.
    """
    return row_cosines(found - mean, truth - mean)
