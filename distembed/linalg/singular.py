"""The largest singular values of a sparse matrix in row blocks, by the shared eigensolver."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from distembed.dtypes import Floats
from distembed.execution import compute
from distembed.lift import Sum, as_it_is, fold
from distembed.linalg.blocks import transposed_times_dense
from distembed.linalg.eigen import Eigenpairs, largest_eigenpairs
from distembed.linalg.operators import (
    SymmetricMatrix,
    column_powers,
    dense_blocks,
    sparse_times,
    transpose_row_blocks,
)
from distembed.states import keep

ZERO_SHARE = 1e-7
"""Singular values below this share of the largest are rounding error of float32, and set to zero."""
UNCERTAIN = 1e-2
"""Residual of a singular value above which its second or third figure is in doubt."""
SQUARED_ROUNDING = 1e-3
"""Rounding error of XᵀX against the square of a singular value above which a large residual is put down to it."""
SUM_FAN_IN = 4
"""Sums that one task adds, each of which is as large as the vectors of the shorter side."""


class SingularTriplets(NamedTuple):
    """The largest singular values with their vectors: X = U S Vᵀ."""

    left: da.Array
    """Dask array (n, k); where there are more rows than columns each reading multiplies the matrix once more."""
    values: Floats
    """0 beyond the rank, where the vectors are zero. Shape (k,), float64, falling."""
    right: Floats
    """Array (m, k)."""
    residuals: Floats
    """``‖XᵀX v - s² v‖ / s²``, or with the roles of rows and columns changed where n < m; 0 where s is. X has a
    singular value within about half of it of s, relatively. Shape (k,), float64.
    """
    n_passes: int
    """Products with XᵀX that were made."""
    converged: bool
    """Whether every residual is at most `tol`, or rounding error; True where no `tol` was given."""


def check_rank(k: int, n: int, m: int, *, name: str = "n_components") -> None:
    """Refuse more singular triplets than a matrix of n rows and m columns has."""
    if not 1 <= k <= min(n, m):
        raise ValueError(f"{name} is {k} but the matrix is {n} x {m}: choose 1 to {min(n, m)}")


def largest_singular_triplets(
    matrix: da.Array,
    k: int,
    *,
    n_passes: int = 16,
    oversampling: int = 10,
    tol: float | None = UNCERTAIN,
    dtype: Any = np.float32,
    random_state: int = 0,
) -> SingularTriplets:
    """Find the largest singular values of a sparse matrix (n × m, row blocks) and their vectors.

    By block Krylov on XᵀX, or XXᵀ where there are fewer rows than columns; the vectors of the longer side
    are the product, so their lengths are the singular values. A component is signed so that the sum of the
    cubes of its shorter side is positive. The vectors of the shorter side are kept, in the scope of the caller, and
    until they are found the passes, and the transpose where there are fewer rows than columns.

    A product with XᵀX has the condition of X squared: its rounding error is epsilon s_1², so that in float32 a
    value of s_1/1000 is known to a few per cent only. The residuals say so; float64 is the remedy.

    Parameters
    ----------
    matrix : Dask array (n × m) of csr_array row blocks
        The matrix.
    k : int
        The number of singular values.
    n_passes : int
        The most products with XᵀX; the basis holds ``k + oversampling`` vectors of the shorter side for each. On
        collections of text 6 to 8 are enough; the flat spectrum of random numbers takes more.
    oversampling : int
        The number of vectors of the start beyond k.
    tol : float, optional
        Stop as soon as every residual (see `SingularTriplets`) is at most this, or rounding error; judged after 6
        passes and each later one. None makes all passes.
    dtype : dtype
        float32 or float64, of the basis and the vectors.
    random_state : int
        The seed. The start follows from it and the shorter side alone, whatever the blocks of the matrix are.

    Raises
    ------
    ValueError
        If k is not between 1 and the smaller dimension.

    Warns
    -----
    ConvergenceWarning
        If `tol` is not met after all passes.
    RuntimeWarning
        If rounding leaves a residual above `UNCERTAIN`.
    """
    n, m = matrix.shape
    check_rank(k, n, m)
    rows = matrix if m <= n else keep("transposed", partial(transpose_row_blocks, matrix))
    side = min(n, m)
    edges = np.linspace(0, side, min(side, rows.numblocks[0]) + 1).astype(int)
    row_chunks = tuple(np.diff(edges).tolist())

    def carry(images: da.Array) -> da.Array:
        """Return Xᵀ times the product of X with vectors, by sums over the row blocks: X is never turned."""
        add, shape = Sum(transposed_times_dense, sum, as_it_is), (side, images.shape[1])
        found = fold(add, "wc,wb", rows, images, shape=shape, dtype=images.dtype, fan_in=SUM_FAN_IN)
        return dense_blocks(found, row_chunks)

    normal = SymmetricMatrix(lambda vectors: carry(sparse_times(rows, vectors)), row_chunks)
    find = partial(
        largest_eigenpairs, normal, k, block_size=min(k + oversampling, side), n_passes=n_passes, tol=tol,
        random_state=random_state, dtype=dtype,
    )  # fmt: skip
    pairs = keep("eigenvectors", find, Eigenpairs)
    passes, converged = (np.asarray(one).item() for one in compute((pairs.n_passes, pairs.converged)))
    vectors = pairs.vectors
    images = sparse_times(rows, vectors)
    powers, carried = compute([column_powers(images, 2), carry(images)])
    values = np.sqrt(powers)
    values[values < ZERO_SHARE * values.max(initial=0.0)] = 0.0
    long = images * scaled_power(values, -1.0).astype(dtype)
    short = vectors * (values > 0)
    left, right = (long, short) if m <= n else (short, long)
    misfit = carried.astype(np.float64) - compute(vectors) * values**2
    residuals = np.linalg.norm(misfit, axis=0) * scaled_power(values, -2.0)
    rounding = np.finfo(dtype).eps * values.max(initial=0.0) ** 2 * scaled_power(values, -2.0)
    lost = (residuals > UNCERTAIN) & (rounding > SQUARED_ROUNDING)
    if lost.any():
        first = int(np.flatnonzero(lost)[0])
        warnings.warn(
            f"singular values from number {first + 1} on, {values[first] / values[0]:.2g} of the first, have a "
            f"residual of up to {residuals[lost].max():.2g} times their square, which {np.dtype(dtype)} cannot lower: "
            "use dtype=np.float64, or fewer components",
            RuntimeWarning,
            stacklevel=2,
        )
    if not converged:
        warnings.warn(
            f"the largest of {k} residuals is {residuals.max():.2g} after {passes} passes, above tol {tol}: "
            "raise n_passes, or tol",
            ConvergenceWarning,
            stacklevel=2,
        )
    return SingularTriplets(
        left.astype(dtype), values, compute(right.astype(dtype)), residuals, passes, bool(converged)
    )


def scaled_power(values: Floats, exponent: float) -> Floats:
    """Return values raised to a power, and 0 where they are 0: a component beyond the rank is a column of zeros."""
    return np.power(values, exponent, out=np.zeros_like(values), where=values > 0)
