"""The matrices of Semantic-NMF as it takes them: words × words checked and shifted, and both in memory or both not."""

from __future__ import annotations

import warnings
from typing import Any

import dask.array as da
import numpy as np
from scipy.sparse import csr_array

from distembed.execution import compute, map_blocks
from distembed.factorization import nmf_blocks as blocks
from distembed.factorization.clustering import check_nonnegative
from distembed.factorization.nmf_rounds import times
from distembed.factorization.row_lifts import Array, one_lazy_block, row_blocks
from distembed.validation import check_matrix, refuse_collection


def semantic_matrix(M: Any, n_words: int, shift: float) -> Array:
    """Return the shifted M as row blocks; an M of other words, or one that is not symmetric, is an error."""
    refuse_collection(M, "M")
    if getattr(M, "shape", None) != (n_words, n_words):
        raise ValueError(
            f"M has shape {getattr(M, 'shape', None)} and X has {n_words} words; align both to one "
            f"vocabulary, so that M is {n_words} × {n_words}."
        )
    matrix = row_blocks(check_matrix(M, name="M", finite=False))
    if check_nonnegative(matrix, name="M").is_counts:
        warnings.warn(
            "M holds whole numbers only, as counts do, and no association: the largest counts then outweigh all else. "
            "Pass positive PMI: SemanticNMF(...).fit(X, de.ppmi(counts)).",
            stacklevel=3,
        )
    _check_symmetric(matrix)
    if shift == 1:
        return matrix
    if isinstance(matrix, da.Array):
        return map_blocks(_subtract_shift, matrix, shift, dtype=matrix.dtype, meta=matrix._meta)
    return blocks.subtract_shift(matrix, shift=shift)


def _subtract_shift(block: csr_array, shift: float) -> csr_array:
    return blocks.subtract_shift(block, shift=shift)


def _check_symmetric(M: Array) -> None:
    """Raise ValueError unless uᵀ M v = vᵀ M u for random u and v, which one pass over the rows decides."""
    probes = np.random.default_rng(0).random((M.shape[0], 2))
    image = compute(times(M, probes))
    one, other = probes[:, 0] @ image[:, 1], probes[:, 1] @ image[:, 0]
    if abs(one - other) > 1e-5 * abs(one):
        raise ValueError(
            f"M is not symmetric (uᵀMv = {one:.8g}, vᵀMu = {other:.8g} for random u, v); "
            "count in a symmetric window, or pass (M + M.T) / 2."
        )


def alike(X: Array, M: Array) -> tuple[Array, Array]:
    """Return both matrices in memory or both as Dask arrays."""
    if isinstance(X, da.Array) == isinstance(M, da.Array):
        return X, M
    return one_lazy_block(X), one_lazy_block(M)
