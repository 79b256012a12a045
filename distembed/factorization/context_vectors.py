"""Vectors of words from their contexts: the left singular vectors of positive PMI.

Levy, Goldberg and Dagan, Improving distributional similarity with lessons learned from word embeddings, TACL 3 (2015),
whose PPMI-SVD with exponent 0 this is. The contexts may be those of either side and of each position apart
(`distembed.directional_contexts`). Later words are placed by their own contexts.
"""

from __future__ import annotations

from typing import NamedTuple

import dask.array as da
import numpy as np
from scipy.sparse import csr_array

from distembed.dtypes import Float32s, Floats
from distembed.linalg.operators import transpose_row_blocks
from distembed.linalg.singular import largest_singular_triplets, scaled_power
from distembed.states import keep, scope
from distembed.weighting.pmi import marginals, ppmi

OVERSAMPLING = 10
"""Vectors of the start of the decomposition beyond those that are kept, as in `distembed.LSA`."""


class PMIWeights(NamedTuple):
    """How counts become positive PMI: see `distembed.ppmi`."""

    context_smoothing: float = 0.75
    negative_samples: float = 1.0


class ContextVectors(NamedTuple):
    """Vectors of words, and what places later words among them."""

    vectors: da.Array
    """U S^exponent. Dask array (n, k), float32."""
    axes: Float32s
    """V S^(exponent - 1): the weighted contexts of a word times this are its vector. Array (m, k)."""
    totals: Floats
    """How often each context was counted. Array (m,)."""
    residual: float
    """The largest relative residual of a singular value; see `SingularTriplets`."""


def context_vectors(
    contexts: da.Array,
    n_components: int,
    *,
    weights: PMIWeights = PMIWeights(),  # noqa: B008 - a frozen record
    exponent: float = 0.0,
    n_passes: int = 4,
    random_state: int = 0,
) -> ContextVectors:
    """Return the left singular vectors of the positive PMI of words with their contexts.

    The weighted contexts, their transpose, and what `largest_singular_triplets` keeps are kept.

    Parameters
    ----------
    contexts : Dask array (n, m) of csr_array row blocks
        How often each word was counted with each context.
    n_components : int
        k.
    weights : PMIWeights
        The weights of the counts.
    exponent : float
        The power of the singular values.
    n_passes : int
        Products with the matrix and its transpose, all of which are made.
    random_state : int
        The seed of the decomposition.

    Raises
    ------
    ValueError
        If there are more components than words, or a count is negative, NaN or infinite.
    """
    with scope("contexts", n_components, weights, n_passes, random_state, contexts):
        totals = marginals(contexts).columns
        weighted = keep("weighted", lambda: ppmi(contexts, column_totals=totals, **weights._asdict()))
        found = largest_singular_triplets(
            weighted,
            n_components,
            transposed=keep("transposed", lambda: transpose_row_blocks(weighted)),
            n_passes=n_passes,
            oversampling=OVERSAMPLING,
            tol=None,
            random_state=random_state,
        )
    left, right = (scaled_power(found.values, power).astype(np.float32) for power in (exponent, exponent - 1))
    return ContextVectors(found.left * left, found.right * right, totals, float(found.residuals.max()))


def placed_words(contexts: csr_array, axes: Float32s, totals: Floats, *, weights: PMIWeights) -> Float32s:
    """Return the vectors (m, k) of later words from their counts with the contexts of `context_vectors`."""
    weighted = ppmi(contexts, column_totals=totals, **weights._asdict())
    return np.asarray(weighted @ axes, np.float32)
