"""Orthonormal bases of vectors in row blocks, by their Gram matrices."""

from __future__ import annotations

from collections.abc import Sequence

import dask.array as da
import numpy as np

from distembed.dtypes import Floats
from distembed.execution import compute, one_blas_thread
from distembed.lift import fold, total
from distembed.linalg import blocks
from distembed.linalg.operators import times_matrix, vectors_with_sums

SMALLEST_SHARE = {np.dtype(np.float32): 1e-12, np.dtype(np.float64): 1e-26}
"""Squared relative length below which a direction of a block is rounding error: about ten epsilon squared."""
SHORTENED = 1e-4
"""Squared length after the second projection below which a column was noise inside the basis."""
LARGEST_GROWTH = 2**6
"""How often what vectors lose to rounding may be as large beside a basis: what a block loses, the next multiply."""
LARGEST_GROWTH_ALONE = 2**11
"""The same of a block alone: in float32 up to the root of epsilon."""


def orthonormal(
    vectors: da.Array, inside: Floats | None = None, bases: Sequence[da.Array] = ()
) -> tuple[da.Array, Floats]:
    """Return Q, lazily, and C of vectors ``Z = P B + Q C``, given an orthonormal basis P and ``B = PᵀZ``.

    The columns of Q are orthonormal and orthogonal to P, and zero, as the rows of C, where Z has fewer directions. One
    pass is enough as long as Q C is not much smaller than Z; otherwise there is a second.

    Parameters
    ----------
    vectors : Dask array (n, b)
    inside : (m, b) array, optional
    bases : Dask arrays (n, m_i), optional
        P side by side.
    """
    inside = np.zeros((0, vectors.shape[1])) if inside is None else inside
    rest, squares = _outside(vectors, inside, bases)
    with one_blas_thread():
        turn = blocks.whitening(squares, threshold=SMALLEST_SHARE[np.dtype(vectors.dtype)])
        lost = np.vstack([inside, np.diag(np.sqrt(np.maximum(np.diag(squares), 0)))]) @ turn
    found, coefficients = times_matrix(rest, turn), turn.T @ squares
    if np.linalg.norm(lost, axis=0).max(initial=0) <= (LARGEST_GROWTH if bases else LARGEST_GROWTH_ALONE):
        return found, coefficients
    found, inside = found.persist(), np.zeros((0, found.shape[1]))
    if bases:
        indices, shape = ",".join(["wa"] * len(bases)), (sum(one.shape[1] for one in bases), found.shape[1])
        inside = compute(fold(total(blocks.basis_products), f"wb,{indices}", found, *bases, shape=shape))
    rest, squares = _outside(found, inside, bases)
    with one_blas_thread():
        turn = blocks.whitening(squares, threshold=SHORTENED, scaled=False)
    return times_matrix(rest, turn), turn.T @ squares @ coefficients


def _outside(vectors: da.Array, inside: Floats, bases: Sequence[da.Array]) -> tuple[da.Array, Floats]:
    """Return Z - P B, and its Gram matrix."""
    indices = ",".join(["wb", "ab", *["wa"] * len(bases)])
    return vectors_with_sums(
        blocks.outside_of_basis, indices, vectors, inside, *bases, n_sums=vectors.shape[1]
    )
