"""The similarity of two words as a sum over context words, on one block of contexts.

Symbols: `U` the vectors of the contexts (c × d), `u_j` its rows; `L = UᵀU`; `v`, `w` the vectors of two words.
The rows ``u_j L^-1/2`` form a tight frame (``sum_j L^-1/2 u_jᵀ u_j L^-1/2 = I``), and so

``v · w = sum_j (v L^-1/2 u_jᵀ) (w L^-1/2 u_jᵀ)``

for every v and w in the span of U. Where U holds the vectors of all words, ``v_i L^-1/2 u_jᵀ`` is the cell (i, j) of
the positive semidefinite square root of ``V Vᵀ``, the fitted association of word i with word j.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Float64s = NDArray[np.float64]

SMALLEST_EIGENVALUE = 1e-9
"""Directions of a smaller share of the largest eigenvalue count as absent: float32 vectors do not resolve them."""


def inverse_root(gram: Floats) -> Float64s:
    """Return ``L^-1/2`` (d, d), float64, on the directions that L has, zero on the others."""
    values, directions = np.linalg.eigh(np.asarray(gram, np.float64))
    present = values > SMALLEST_EIGENVALUE * max(values[-1], 0.0)
    kept = directions[:, present]
    return np.asarray((kept / np.sqrt(values[present])) @ kept.T)


def strengths(contexts: Floats, turned: Float64s) -> Float64s:
    """Return ``v L^-1/2 u_jᵀ`` of every context and word, float64 (contexts, words), from ``v L^-1/2`` (words, d)."""
    return np.asarray(contexts.astype(np.float64) @ turned.T)


def unit_products(first: Float64s, second: Float64s, lengths: Float64s) -> Float64s:
    """Return ``a_kj b_kj / length_k`` for each pair k and context j, float64 (contexts, pairs); 0 for a length of 0."""
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return first * second * scale
