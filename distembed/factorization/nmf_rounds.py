"""The rounds of a non-negative factorization: what it starts from, its state, the updates, the descent through them.

A round is one pass over the row blocks of X and one over those of M, which needs no n × d and no d × d dense
matrix: the product M W that ends a round (for the core and the objective) is the one that begins the next. Word
factors, core and losses are in memory. The papers are those of `distembed.factorization.nmf`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray

from distembed.dtypes import Float64s
from distembed.execution import compute, tell, where, whole
from distembed.factorization import nmf_blocks as blocks
from distembed.factorization.clustering import (
    check_values,
    document_rows,
    spherical_kmeans,
    unit_documents,
)
from distembed.factorization.consensus import SUM_FAN_IN, Array
from distembed.lift import fold, lift, part, total, total_of_part
from distembed.linalg.blocks import gram
from distembed.states import keep, newest
from distembed.typing import refuse_collection
from distembed.validation import check_matrix

#: Rounds between two states that are kept; convergence is judged as often, as in scikit-learn.
ROUNDS_PER_STATE = 10

#: Sweeps of coordinate descent after each product; the product costs far more (Gillis & Glineur 2012).
HALS_SWEEPS = 4

#: A row is left alone when a sweep moves no coordinate by more than this share of its largest, which saves time and
#: costs no further rounds.
HALS_TOLERANCE = 0.03

#: Squared length of what is left of a matrix, relative to its own, that is rounding error of float32 factors.
ROUNDING = 1e-14


STATE_WORDS = 8
"""Arrays of words × topics in memory while a round ends: the state before, sums, products, and the state after."""

STACKED_SUMS = 2 * SUM_FAN_IN + 1
"""Arrays of words × topics in a task that adds sums: as they are found, stacked, and their sum."""

SAMPLE_COPIES = 3
"""Copies of the documents that seeds are drawn from: by block, joined, and without those that hold no word."""


class Factors(NamedTuple):
    """The state of a factorization after some rounds; n documents, d words, rank k. Z alone may be a Dask array."""

    documents: Array  # Z (n, k), dtype of X
    words: Float64s  # W (d, k)
    core: Float64s  # S (k, k); the identity where there is no M
    carried: Float64s  # (d, k): M W where there is an M, else Xᵀ Z
    objective: Float64s  # one value per round so far


class Graph(NamedTuple):
    """Which documents are neighbors, and the weight λ of ½ tr(Zᵀ (D - A) Z), which pulls their factors together."""

    adjacency: Array  # A (n, n), symmetric, in the row blocks and the dtype of X
    weight: float


class Problem(NamedTuple):
    """What is factorized, all of it checked."""

    X: Array
    squares: float  # ‖X‖²
    mean: float  # of X
    graph: Graph | None = None
    M: Array = None
    word_squares: float = 0.0  # ‖M‖²
    word_weight: float = 0.0  # λ of ½ ‖M - W S Wᵀ‖²


Method = Literal["hals", "multiplicative", "orthogonal", "semantic"]
"""How the factors are updated."""


class Rule(NamedTuple):
    """A method: two updates."""

    documents: Callable[..., Any]
    """(Z, X W, small) -> Z of a row block; `small` is WᵀW, of "orthogonal" Wᵀ Xᵀ Z. With a graph, see `scale_tied`."""
    words: Callable[..., Any]
    """(W, Xᵀ Z, Zᵀ Z) -> W, of "semantic" with M W, S and λ."""


_descend = partial(blocks.descend, sweeps=HALS_SWEEPS, tolerance=HALS_TOLERANCE)

RULES: dict[Method, Rule] = {
    "hals": Rule(_descend, _descend),
    "multiplicative": Rule(blocks.scale, blocks.scale),
    "orthogonal": Rule(blocks.scale, blocks.scale),
    "semantic": Rule(blocks.scale, blocks.scale_semantic),
}


def descend(
    problem: Problem, start: Callable[[], Factors], method: Method, *, n_iter: int, tol: float
) -> Factors:
    """Run one start until it converges, or through n_iter rounds, from the newest state that is kept of it."""
    done, state = newest("round", Factors)
    if state is None:
        state = keep("round", start, Factors, number=0)
    now = _in_client(state, problem.X)
    while done < n_iter and not has_converged(problem, now.objective, tol):
        n_rounds = min(ROUNDS_PER_STATE, n_iter - done)
        advance = partial(_advance, problem, method, now, n_rounds, n_iter)
        now = _in_client(keep("round", advance, Factors, number=done + n_rounds), problem.X)
        done += n_rounds
    return now


def has_converged(problem: Problem, losses: Float64s, tol: float) -> bool:
    """Return whether ten rounds gained less than `tol` of the objective, or it is that of an exact fit.

    Further gains of an exact fit are rounding error.
    """
    if not tol or not losses.size:
        return False
    exact = max(tol**2, ROUNDING) * (problem.squares + problem.word_weight * problem.word_squares) / 2
    judged_before = (losses.size - 1) // ROUNDS_PER_STATE * ROUNDS_PER_STATE
    before = losses[judged_before - 1] if judged_before else np.inf
    return bool(before - losses[-1] <= tol * before < np.inf or losses[-1] <= exact)


def _in_client(state: Factors, X: Array) -> Factors:
    """Return a state, as it was kept, with what is small in memory; document factors are in memory where X is."""
    Z = state.documents if isinstance(X, da.Array) else compute(state.documents)
    return Factors(Z, *compute(state[1:]))


def _advance(problem: Problem, method: Method, now: Factors, n_rounds: int, n_iter: int) -> Factors:
    for _ in range(n_rounds):
        now = one_round(problem, method, now)
        tell("rounds", now.objective.size, n_iter)
    return now


# --- the rounds -------------------------------------------------------------------------------------------


def one_round(problem: Problem, method: Method, now: Factors) -> Factors:
    """Return the factors after one round: equation 7 of Semantic-NMF where there is an M, else an update of NMF.

    One task for each row block makes its document factors, and its part of Xᵀ Z above Zᵀ Z.
    """
    X, Z, W, S, rank = problem.X, now.documents, now.words, now.core, now.words.shape[1]
    small = W.T @ now.carried if method == "orthogonal" else gram(W)
    indices, update = "wd,wk,dk,kl", RULES[method].documents
    graph: tuple[Any, ...] = ()
    if problem.graph is not None:
        indices, graph = f"{indices},wn,Nk", (problem.graph.adjacency, Z)
        update = partial(blocks.scale_tied, weight=problem.graph.weight)
    options: dict[str, Any] = {"dtype": object, "sizes": {"w": 1, "k": 1}, "update": update}
    found = lift(blocks.step_documents, f"{indices}->wk", X, Z, W, small, *graph, **options)
    Z = part(found, "documents", X, columns=rank)
    sums = total_of_part(found, "sums", shape=(X.shape[1] + rank, rank), fan_in=SUM_FAN_IN)
    if isinstance(X, da.Array):
        Z, sums = dask.persist(Z, sums, **where({}))
        sums = compute(sums)
    XZ, ZZ = sums[:-rank], sums[-rank:]
    if method == "orthogonal":  # a round turns a column of length a into one of 1 / a
        lengths = np.sqrt(np.diag(ZZ))
        Z = lift(blocks.divide_columns, "wk,lk->wk", Z, lengths[np.newaxis], dtype=Z.dtype)
        scales = np.where(lengths > 0, lengths, 1.0)
        W, XZ, ZZ = W * scales, XZ / scales, ZZ / np.outer(scales, scales)
    if problem.M is None:
        W, carried = RULES[method].words(W, XZ, ZZ), XZ
    else:
        W = RULES[method].words(W, XZ, ZZ, now.carried, S, problem.word_weight)
        carried = times(problem.M, W)
        S = blocks.update_core(S, W, carried)
    after = Factors(Z, W, S, carried, now.objective)
    return after._replace(objective=np.append(now.objective, _loss(problem, after, XZ, ZZ)))


def _loss(problem: Problem, now: Factors, XZ: Float64s, ZZ: Float64s) -> float:
    """Return the objective of factors, where `carried` is M W if there is an M."""
    loss = blocks.document_loss(problem.squares, XZ, ZZ, now.words)
    if problem.M is not None:
        loss += problem.word_weight * blocks.word_loss(problem.word_squares, now.carried, now.words, now.core)
    if problem.graph is not None:
        A, Z = problem.graph.adjacency, now.documents
        term = fold(total(blocks.graph_loss), "wn,wk,Nk", A, Z, Z, shape=(1, 1), fan_in=SUM_FAN_IN)
        loss += problem.graph.weight * compute(term).item()
    return loss


def times(M: Array, W: Float64s) -> Float64s:
    """Return M W, (d, k), in memory."""
    return np.asarray(compute(lift(blocks.exact_times, "vd,dk->vk", M, W, dtype=np.float64)))


# --- the starts ------------------------------------------------------------------------------------------


Init = Literal["spherical_kmeans", "random"]
"""Where factors start."""

KMEANS_ROUNDS, SEEDING_SAMPLE = 50, 20_000
"""Most rounds of the spherical k-means that factors start from, and the documents that its seeds are drawn from."""

#: Added to the 0/1 memberships of spherical k-means, since a multiplicative update never leaves zero
#: (Ding, Li & Jordan, PAMI 2010, section 3.3, start k-means-based factorizations so).
MEMBERSHIP_FLOOR = 0.2


def start_of(problem: Problem, rank: int, init: Init, method: Method, seed: tuple[int, ...]) -> Factors:
    """Return the factors before the first round.

    At random these are even document factors and word factors from |N(0, mean / k)|: the first update breaks ties.
    Else they are the memberships, lifted by `MEMBERSHIP_FLOOR`, and the lifted centroids of spherical k-means.
    """
    X, S = problem.X, np.eye(rank)
    if init == "random":
        scale = np.sqrt(problem.mean / rank)
        W = scale * np.abs(np.random.default_rng(seed).standard_normal((X.shape[1], rank)))
        Z = _even_documents(X, rank, scale)
    else:
        clusters = spherical_kmeans(
            unit_documents(X), rank, n_iter=KMEANS_ROUNDS, tol=1e-4, seed=seed, sample=SEEDING_SAMPLE
        )
        options: dict[str, Any] = {"rank": rank, "floor": MEMBERSHIP_FLOOR, "value_type": X.dtype}
        Z = lift(blocks.membership, "wl->wk", clusters.labels, dtype=X.dtype, sizes={"k": rank}, **options)
        W = clusters.centroids + MEMBERSHIP_FLOOR * clusters.centroids.mean(axis=0)
    carried = np.zeros_like(W)
    if problem.M is not None:
        carried = times(problem.M, W)
        S = blocks.fit_core(W, carried)
    elif method == "orthogonal":
        lengths = column_norms(Z)
        Z = lift(blocks.divide_columns, "wk,lk->wk", Z, lengths[np.newaxis], dtype=Z.dtype)
        W, shape = W * lengths, W.shape
        carried = compute(fold(total(blocks.transposed_times), "wd,wk", X, Z, shape=shape, fan_in=SUM_FAN_IN))
    return Factors(Z, W, S, carried, np.empty(0))


def column_norms(factors: Array) -> Float64s:
    """Return the Euclidean length of each column of document factors, float64 (k,)."""
    shape = (factors.shape[1],) * 2
    return np.sqrt(np.diag(compute(fold(total(gram), "wk", factors, shape=shape, fan_in=SUM_FAN_IN))))


def _even_documents(X: Array, rank: int, value: float) -> Array:
    return lift(blocks.even_rows, "wd->wk", X, dtype=X.dtype, sizes={"k": rank}, rank=rank, value=value)


# --- the factors of given words ----------------------------------------------------------------------------


#: Most sweeps of the convex problem of document factors for fixed words, which stops by itself when it has settled.
SOLVING_SWEEPS = 500

#: Rounds of the same problem where documents have a graph, as many as Semantic-NMF has by default.
TIED_ROUNDS = 100


def fit_documents(X: Array, words: NDArray[Any]) -> Array:
    """Return argmin over Z >= 0 of ``‖X - Z Wᵀ‖`` for fixed words, by row blocks; lazy where X is a Dask array."""
    small = words, gram(words)
    return lift(blocks.solve_documents, "wd,dk,kl->wk", X, *small, dtype=X.dtype, sweeps=SOLVING_SWEEPS)


def settle_documents(problem: Problem, words: Float64s) -> Array:
    """Return the document factors that are solved for given word factors, kept where X is a Dask array.

    With a graph these are the ones after `TIED_ROUNDS` updates from even ones: the problem is convex, but of all rows.
    """
    X, graph = problem.X, problem.graph

    def fit() -> Array:
        if graph is None:
            return fit_documents(X, words)
        XW = lift(blocks.times, "wd,dk->wk", X, words, dtype=X.dtype)
        XW, Z = dask.persist(XW, _even_documents(X, words.shape[1], 1.0), **where({}))
        update = partial(lift, blocks.tie_documents, "wk,wk,kl,wn,Nk->wk", dtype=X.dtype, weight=graph.weight)
        for _ in range(TIED_ROUNDS):
            (Z,) = dask.persist(update(XW, Z, gram(words), graph.adjacency, Z), **where({}))
        return Z

    return keep("documents", fit) if isinstance(X, da.Array) else fit()


def refit(problem: Problem, words: Float64s) -> Factors:
    """Return the factors of given word factors: document factors and the core solved for them, and the loss."""
    X, rank, Z = problem.X, words.shape[1], settle_documents(problem, words)
    shape = (X.shape[1] + rank, rank)
    sums = compute(fold(total(blocks.document_sums), "wd,wk", X, Z, shape=shape, fan_in=SUM_FAN_IN))
    XZ, ZZ = sums[:-rank], sums[-rank:]
    S, carried = np.eye(rank), XZ
    if problem.M is not None:
        carried = times(problem.M, words)
        S = blocks.fit_core(words, carried)
    found = Factors(Z, words, S, carried, np.empty(0))
    return found._replace(objective=np.array([_loss(problem, found, XZ, ZZ)]))


# --- documents × documents, words × words ------------------------------------------------------------------


def with_graph(problem: Problem, graph: Any, weight: float) -> Problem:
    """Return a problem with a graph of its documents, checked, both in memory or both in the row blocks of X."""
    if graph is None:
        return problem
    refuse_collection(graph, "graph")
    n = problem.X.shape[0]
    if getattr(graph, "shape", None) != (n, n):
        raise ValueError(
            f"graph has shape {getattr(graph, 'shape', None)} and X has {n} documents: give documents × documents"
        )
    adjacency = document_rows(check_matrix(graph, name="graph", finite=False)).astype(problem.X.dtype)
    check_values(adjacency, name="graph")
    _check_symmetric(adjacency, "graph", "pass graph.maximum(graph.T)")
    X, adjacency = alike(problem.X, adjacency)
    if isinstance(X, da.Array):
        adjacency = adjacency.rechunk((X.chunks[0], -1))
    return problem._replace(X=X, graph=Graph(adjacency, float(weight)))


def semantic_matrix(M: Any, n_words: int, shift: float) -> Array:
    """Return the shifted M as row blocks; an M of other words, or one that is not symmetric, is an error."""
    refuse_collection(M, "M")
    if getattr(M, "shape", None) != (n_words, n_words):
        raise ValueError(
            f"M has shape {getattr(M, 'shape', None)} and X has {n_words} words; align both to one "
            f"vocabulary, so that M is {n_words} × {n_words}."
        )
    matrix = document_rows(check_matrix(M, name="M", finite=False))
    if check_values(matrix, name="M").is_counts:
        warnings.warn(
            "M holds whole numbers only, as counts do, and no association: the largest counts then outweigh all else. "
            "Pass positive PMI: SemanticNMF(...).fit(X, de.ppmi(counts)).",
            stacklevel=3,
        )
    _check_symmetric(matrix, "M", "count in a symmetric window, or pass (M + M.T) / 2")
    if shift == 1:
        return matrix
    return lift(blocks.subtract_shift, "vd->vd", matrix, dtype=matrix.dtype, sparse=True, shift=shift)


def _check_symmetric(M: Array, name: str, advice: str) -> None:
    """Raise ValueError unless uᵀ M v = vᵀ M u for random u and v, which one pass over the rows decides."""
    probes = np.random.default_rng(0).random((M.shape[0], 2))
    image = times(M, probes)
    one, other = probes[:, 0] @ image[:, 1], probes[:, 1] @ image[:, 0]
    if abs(one - other) > 1e-5 * abs(one):
        raise ValueError(
            f"{name} is not symmetric (uᵀMv = {one:.8g}, vᵀMu = {other:.8g} for random u, v); {advice}."
        )


def alike(X: Array, M: Array) -> tuple[Array, Array]:
    """Return both matrices in memory or both as Dask arrays."""
    if isinstance(X, da.Array) == isinstance(M, da.Array):
        return X, M
    X, M = (matrix if isinstance(matrix, da.Array) else whole(matrix).persist() for matrix in (X, M))
    return X, M
