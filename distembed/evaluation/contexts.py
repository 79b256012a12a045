"""Why two words are near: their cosine as a sum over context words, term by term.

Vectors that fit an association matrix, as those of `PSDVec` fit PMI, are coordinates without names. The rotation into
the coordinates of the context words changes no product and gives each coordinate a name.

 Symbols: U the vectors of the contexts (c × d), u_j its rows; L = UᵀU; v, w the vectors of two words. The rows
u_j L^-1/2 form a tight frame (sum_j L^-1/2 u_jᵀ u_j L^-1/2 = I), and so

    v · w = sum_j (v L^-1/2 u_jᵀ) (w L^-1/2 u_jᵀ)

for every v and w in the span of U. Where U holds the vectors of all words, v_i L^-1/2 u_jᵀ is the cell (i, j) of the
positive semidefinite square root of V Vᵀ, the fitted association of word i with word j.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from distembed.dtypes import Float64s
from distembed.execution import compute, one_blas_thread
from distembed.lift import block, lift
from distembed.linalg.operators import column_products, dense_blocks
from distembed.vectors.word_vectors import WordVectors

SMALLEST_EIGENVALUE = 1e-9
"""Directions of a smaller share of the largest eigenvalue count as absent: float32 vectors do not resolve them."""

ROWS_AT_ONCE = 8192
"""Context vectors that are taken into float64 at a time."""


class SimilarityTerms(NamedTuple):
    """The cosine of pairs of vectors, and the part of it that each context makes."""

    cosines: Float64s
    """One for each pair; 0 where a vector is zero. Shape (m,), float64."""
    terms: Float64s
    """The part of every context; a row sums to the cosine, less `rest`. Shape (m, c), float64."""
    rest: Float64s
    """What lies outside the span of the contexts: 0, to rounding, where they span the vectors. Shape (m,), float64."""


def similarity_terms(first: Any, second: Any, contexts: Any) -> SimilarityTerms:
    """Return the cosine of pairs of vectors as a sum over context vectors.

    ``cos(v, w) = sum_j (v L^-1/2 u_jᵀ) (w L^-1/2 u_jᵀ) / (|v| |w|)`` with u_j the contexts and ``L = UᵀU``. A term is
    positive where both words are associated with the context, or neither; negative where one of them is.

    Parameters
    ----------
    first, second : (m, d) arrays
        The vectors of each pair.
    contexts : (c, d) array or Dask array of row blocks
        The vectors of the contexts: those of the core words, or of all words.

    Returns
    -------
    SimilarityTerms

    Raises
    ------
    ValueError
        If the arrays differ in their components.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.evaluation.contexts import similarity_terms
    >>> vectors = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> found = similarity_terms(vectors[:1], vectors[1:2], vectors)
    >>> bool(np.isclose(found.terms.sum(), found.cosines[0]))
    True
    """
    v, w = (np.atleast_2d(np.asarray(side, np.float64)) for side in (first, second))
    if not v.shape == w.shape or v.shape[1] != contexts.shape[1]:
        raise ValueError(
            f"the pairs have shapes {v.shape} and {w.shape} and the contexts {tuple(contexts.shape)}: "
            "give pairs of equal shape, with the components of the contexts"
        )
    rows = contexts if isinstance(contexts, da.Array) else dense_blocks(contexts, ROWS_AT_ONCE)
    with one_blas_thread():
        # L^-1/2, float64 (d, d), on the directions that L has, and zero on the others
        values, directions = np.linalg.eigh(np.asarray(compute(column_products(rows, rows)), np.float64))
        present = values > SMALLEST_EIGENVALUE * max(values[-1], 0.0)
        directions = directions[:, present]
        root = np.asarray((directions / np.sqrt(values[present])) @ directions.T)
        lengths = np.sqrt((v * v).sum(axis=1) * (w * w).sum(axis=1))
        found = lift(_terms_block, "cd,md,md,m->cm", rows, v @ root, w @ root, lengths, dtype=np.float64)
        terms = compute(found).T
    products = (v * w).sum(axis=1)
    cosines = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return SimilarityTerms(cosines, terms, cosines - terms.sum(axis=1))


@block(temporaries=2)
def _terms_block(rows: Any, first: Float64s, second: Float64s, lengths: Float64s) -> Float64s:
    """Return ``a_kj b_kj / length_k`` of each context j and pair k, (contexts, pairs); 0 for a length of 0.

    a and b are ``v L^-1/2 u_jᵀ`` of the words of the pair, from ``v L^-1/2`` (pairs, d).
    """
    strengths = (np.asarray(rows.astype(np.float64) @ turned.T) for turned in (first, second))
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return np.multiply(*strengths) * scale


class ContextTerm(NamedTuple):
    """A context word, and its part of the cosine of two words."""

    word: str
    term: float


class SimilarityExplanation(NamedTuple):
    """The contexts that make the cosine of two words."""

    first: str
    second: str
    cosine: float
    raising: list[ContextTerm]
    """The contexts that raise the cosine most, the largest first."""
    lowering: list[ContextTerm]
    """The contexts that lower it most, the lowest first."""
    other_raising: float
    other_lowering: float
    """The sums of the other contexts that raise the cosine, and of those that lower it."""
    rest: float
    """What no context makes: 0, to rounding, where the contexts span the vectors."""
    n_contexts: int
    n_half: int
    """All contexts, and how many of the largest terms together reach half of the cosine."""


def explain_similarity(
    vectors: WordVectors,
    first: str,
    second: str,
    *,
    contexts: WordVectors | None = None,
    n: int = 10,
    n_lowering: int = 3,
) -> SimilarityExplanation:
    """Return the contexts that make two words similar: the largest terms of their cosine, which sum to it.

    Parameters
    ----------
    vectors : WordVectors
    first, second : str
        The two words.
    contexts : WordVectors, optional
        The context words: the core words of a model, or any words of the same space. By default all words.
    n, n_lowering : int
        The number of contexts that raise the cosine, and that lower it.

    Returns
    -------
    SimilarityExplanation

    Raises
    ------
    UnknownWordError
        If a word has no vector.
    ValueError
        If the two words are the same, or one of them has a vector of zeros.

    Examples
    --------
    >>> import distembed as de
    >>> vectors = de.WordVectors(["king", "queen"], [[2.0, 1.0], [1.0, 2.0]])
    >>> contexts = de.WordVectors(["crown", "he"], [[1.0, 1.0], [1.0, -1.0]])
    >>> found = de.explain_similarity(vectors, "king", "queen", contexts=contexts)
    >>> round(found.cosine, 2)
    0.8
    >>> [(term.word, round(term.term, 2)) for term in found.raising + found.lowering]
    [('crown', 0.9), ('he', -0.1)]
    """
    if n < 1 or n_lowering < 0:
        raise ValueError(f"n is {n} and n_lowering is {n_lowering}; give 1 or more, and 0 or more")
    rows = vectors[[first, second]]
    if first == second:
        raise ValueError(
            f"both words are {first!r}: a word's cosine with itself is 1; give two different words"
        )
    for word, row in zip((first, second), rows, strict=True):
        if not row.any():
            raise ValueError(
                f"the vector of {word!r} is zero: the word co-occurs with no context word, and is near to nothing"
            )
    space = contexts or vectors
    found = similarity_terms(rows[:1], rows[1:], space.vectors)
    terms, cosine = found.terms[0], float(found.cosines[0])
    order = np.argsort(-terms, kind="stable")
    n_raising = int((terms > 0).sum())
    raising, lowering = order[:n][terms[order[:n]] > 0], order[::-1][:n_lowering]
    lowering = lowering[terms[lowering] < 0]
    reached = np.cumsum(terms[order[:n_raising]]) >= cosine / 2
    return SimilarityExplanation(
        first,
        second,
        cosine,
        [ContextTerm(space.words[j], float(terms[j])) for j in raising],
        [ContextTerm(space.words[j], float(terms[j])) for j in lowering],
        float(terms[terms > 0].sum() - terms[raising].sum()),
        float(terms[terms < 0].sum() - terms[lowering].sum()),
        float(found.rest[0]),
        len(terms),
        int(np.argmax(reached)) + 1 if reached.any() else 0,
    )
