"""The factors that belong to given word factors, such as those that several starts have in common."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from distembed.execution import Checkpoint, compute
from distembed.factorization import nmf_blocks as blocks
from distembed.factorization.nmf_rounds import (
    Factors,
    Floats,
    document_loss,
    document_sums,
    joint_loss,
    times,
)
from distembed.factorization.row_lifts import Array, each

Choose = Literal["consensus", "central", "objective"]
"""What is kept of several starts."""

#: Most sweeps of the convex problem of document factors for fixed words, which stops by itself when it has settled.
SOLVING_SWEEPS = 500


def fit_documents(X: Array, words: NDArray[Any]) -> Array:
    """Return argmin over Z >= 0 of ``‖X - Z Wᵀ‖`` for fixed words, by row blocks; lazy where X is a Dask array."""
    solve = partial(blocks.solve_documents, sweeps=SOLVING_SWEEPS)
    return each(solve, X, words, blocks.gram(words), columns=words.shape[1], dtype=X.dtype)


def _keep_documents(checkpoint: Checkpoint, X: Array, words: Floats) -> Array:
    """Return the document factors of given word factors, kept where they are lazy: several results are made of them."""
    Z = fit_documents(X, words)
    return checkpoint("consensus-documents", lambda: Z) if isinstance(Z, da.Array) else Z


def plain_refit(checkpoint: Checkpoint, X: Array, squares: float, words: Floats) -> Factors:
    """Return the factors of given word factors: document factors solved for them, and the loss."""
    Z = _keep_documents(checkpoint, X, words)
    XZ, ZZ = document_sums(X, Z)
    loss = each(partial(document_loss, squares), XZ, ZZ, words, rows=1, columns=1)
    return Factors(Z, words, np.eye(words.shape[1]), XZ, loss)


def semantic_refit(
    checkpoint: Checkpoint,
    X: Array,
    M: Array,
    squares: tuple[float, float],
    weight: float,
    words: Floats,
) -> Factors:
    """Return the factors of given word factors: document factors and the core solved for them, and the loss."""
    Z = _keep_documents(checkpoint, X, words)
    XZ, ZZ = document_sums(X, Z)
    MW = compute(times(M, words))
    S = blocks.fit_core(words, MW)
    loss = each(partial(joint_loss, squares, weight), XZ, ZZ, words, MW, S, rows=1, columns=1)
    return Factors(Z, words, S, MW, loss)
