"""The state of a non-negative factorization, the rounds that improve it, and the descent through them.

A round is one pass over the row blocks of X and one over those of M, which needs no n × d and no d × d dense
matrix: the product M W that ends a round (for the core and the objective) is the one that begins the next.
The papers are those of `distembed.factorization.nmf`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.execution import Checkpoint, compute, persist, tell
from distembed.factorization import nmf_blocks as blocks
from distembed.factorization.row_lifts import Array, each, total

Floats = NDArray[np.float64]

#: Rounds between two checkpoints; convergence is judged as often, as in scikit-learn.
ROUNDS_PER_CHECKPOINT = 10

#: Sweeps of coordinate descent after each product; the product costs far more (Gillis & Glineur 2012).
HALS_SWEEPS = 4

#: A row is left alone when a sweep moves no coordinate by more than this share of its largest, which saves time and
#: costs no further rounds (tests/benchmarks/TOPICS.md).
HALS_TOLERANCE = 0.03

#: Squared length of what is left of a matrix, relative to its own, that is rounding error of float32 factors.
ROUNDING = 1e-14


class Factors(NamedTuple):
    """The state of a factorization after some rounds; n documents, d words, rank k."""

    documents: Array  # Z (n, k), dtype of X
    words: Array  # W (d, k) float64
    core: Array  # S (k, k) float64; the identity where there is no M
    carried: Array  # (d, k) float64: M W where there is an M, else Xᵀ Z
    objective: Array  # (rounds, 1) float64, of the rounds since the last checkpoint


Round = Callable[[Factors], Factors]


class Fit(NamedTuple):
    """The result of one start after all its rounds."""

    factors: Factors
    objective: Floats
    converged: bool
    n_iter: int


def _keep(checkpoint: Checkpoint, name: str, advance: Callable[[], Factors]) -> Factors:
    """Return the factors stored under a name; compute them only if one of them is not stored yet."""
    if checkpoint is persist:  # a round leaves its factors in memory already
        return advance()
    made = cache(advance)
    kept = (checkpoint(f"{name}-{field}", partial(_lazy_field, made, field)) for field in Factors._fields)
    return Factors(*kept)


def _lazy_field(made: Callable[[], Factors], field: str) -> da.Array:
    value = getattr(made(), field)
    return value if isinstance(value, da.Array) else da.from_array(value, chunks=-1)


def _in_memory(factors: Factors, like: Array) -> Factors:
    """Return the factors as NumPy arrays where the matrix they belong to is in memory."""
    if isinstance(like, da.Array):
        return factors
    return compute(factors)


def _advance(factors: Factors, one_round: Round, done: int, n_rounds: int, n_iter: int) -> Factors:
    """Return the factors after some rounds, each of which is computed before the next is planned."""
    losses = []
    for number in range(done + 1, done + n_rounds + 1):
        factors = Factors(*dask.persist(*one_round(factors)))
        losses.append(factors.objective)
        if not isinstance(factors.objective, da.Array):  # a cluster has only begun what it persists
            tell("rounds", number, n_iter)
    lazy = isinstance(losses[0], da.Array)
    objective = da.concatenate(losses).rechunk(-1) if lazy else np.concatenate(losses)
    return factors._replace(objective=objective)


def descend(
    X: Array, start: Callable[[], Factors], one_round: Round, *,
    squares: float, n_iter: int, tol: float, checkpoint: Checkpoint, name: str,
) -> Fit:  # fmt: skip
    """Run one start until it converges, or through n_iter rounds.

    It has converged when ten rounds gain less than `tol` of the objective, or when the objective is that of an exact
    fit, whose further gains are rounding error.
    """
    exact = max(tol**2, ROUNDING) * squares / 2
    factors = _in_memory(_keep(checkpoint, f"{name}-start", start), X)
    history: list[float] = []
    for done in range(0, n_iter, ROUNDS_PER_CHECKPOINT):
        n_rounds = min(ROUNDS_PER_CHECKPOINT, n_iter - done)
        advance = partial(_advance, factors, one_round, done, n_rounds, n_iter)
        factors = _in_memory(_keep(checkpoint, f"{name}-round-{done + n_rounds:05d}", advance), X)
        before = history[-1] if history else np.inf
        history.extend(compute(factors.objective).ravel())
        tell("rounds", done + n_rounds, n_iter)
        if tol > 0 and (before - history[-1] <= tol * before < np.inf or history[-1] <= exact):
            return Fit(factors, np.array(history), converged=True, n_iter=len(history))
    return Fit(factors, np.array(history), converged=False, n_iter=n_iter)


# --- the rounds -------------------------------------------------------------------------------------------


def nmf_round(solver: str, X: Array, squares: float, now: Factors) -> Factors:
    """Return the factors after one round of NMF."""
    rank = now.words.shape[1]
    if solver == "hals":
        limits: dict[str, Any] = {"sweeps": HALS_SWEEPS, "tolerance": HALS_TOLERANCE}
        update: Callable[..., Any] = partial(blocks.descend_documents, **limits)
        renew: Callable[..., Any] = partial(blocks.coordinate_descent, **limits)
    else:
        update, renew = blocks.update_documents, blocks.update_words
    WW = each(blocks.gram, now.words, rows=rank, columns=rank)
    Z = each(update, X, now.documents, now.words, WW, columns=rank, dtype=X.dtype)
    return _words_follow(X, squares, renew, now, Z)


def orthogonal_round(X: Array, squares: float, now: Factors) -> Factors:
    """Return the factors after one round of orthogonal NMF; `carried` is Xᵀ Z of the round before."""
    rank = now.words.shape[1]
    WXZ = each(_product, now.words, now.carried, rows=rank, columns=rank)
    update = blocks.update_orthogonal_documents
    Z = each(update, X, now.documents, now.words, WXZ, columns=rank, dtype=X.dtype)
    return _words_follow(X, squares, blocks.update_words, now, Z)


def _words_follow(X: Array, squares: float, renew: Callable[..., Any], now: Factors, Z: Array) -> Factors:
    """Return the factors of new document factors: word factors renewed from them, and the loss."""
    XZ, ZZ = document_sums(X, Z)
    W = each(renew, now.words, XZ, ZZ, columns=now.words.shape[1])
    loss = each(partial(document_loss, squares), XZ, ZZ, W, rows=1, columns=1)
    return Factors(Z, W, now.core, XZ, loss)


def semantic_round(X: Array, M: Array, squares: tuple[float, float], weight: float, now: Factors) -> Factors:
    """Return the factors after the three updates of equation 7; `carried` is M W."""
    rank = now.words.shape[1]
    WW = each(blocks.gram, now.words, rows=rank, columns=rank)
    Z = each(blocks.update_documents, X, now.documents, now.words, WW, columns=rank, dtype=X.dtype)
    XZ, ZZ = document_sums(X, Z)
    renew = partial(blocks.update_semantic_words, weight=weight)
    W = each(renew, now.words, XZ, ZZ, now.carried, now.core, columns=rank)
    MW = times(M, W)
    S = each(blocks.update_core, now.core, W, MW, columns=rank)
    loss = each(partial(joint_loss, squares, weight), XZ, ZZ, W, MW, S, rows=1, columns=1)
    return Factors(Z, W, S, MW, loss)


def document_sums(X: Array, Z: Array) -> tuple[Array, Array]:
    """Return XᵀZ and ZᵀZ."""
    rank = Z.shape[1]
    XZ = total(blocks.transposed_times, X, Z, shape=(X.shape[1], rank))
    return XZ, total(blocks.gram, Z, shape=(rank, rank))


def times(M: Array, W: Array) -> Array:
    """Return M W, (d, k) float64 in one block."""
    product = each(_exact_times, M, W, columns=W.shape[1])
    return product.rechunk(-1) if isinstance(product, da.Array) else product


def _exact_times(M: csr_array, W: Floats) -> Floats:
    return blocks.times(M, W).astype(np.float64, copy=False)


def _product(A: Floats, B: Floats) -> Floats:
    return A.T @ B


def document_loss(squares: float, XZ: Floats, ZZ: Floats, W: Floats) -> Floats:
    """Return the objective of NMF, (1, 1)."""
    return np.array([[blocks.document_loss(squares, XZ, ZZ, W)]])


def joint_loss(
    squares: tuple[float, float], weight: float, XZ: Floats, ZZ: Floats, W: Floats, MW: Floats, S: Floats
) -> Floats:
    """Return the objective of Semantic-NMF, (1, 1)."""
    semantic = blocks.word_loss(squares[1], MW, W, S)
    return np.array([[blocks.document_loss(squares[0], XZ, ZZ, W) + weight * semantic]])
