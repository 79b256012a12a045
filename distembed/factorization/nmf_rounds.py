"""The rounds of a non-negative factorization: the updates of each method, the descent, its starts and its refit.

Letters, as in Ailem, Salah & Nadif (SIGIR 2017): X (n, d) documents by words, M (d, d) words by words, A (n, n)
documents by their neighbors, Z (n, k) document factors, W (d, k) word factors, S (k, k) core. X, M and A are
`csr_array` or Dask arrays of their row blocks; Z has the dtype of X, and its row blocks; W, S and every sum are float64
and in memory.

A round is one pass over the row blocks of X and one over those of M, which needs
no n × d and no d × d dense matrix: the product M W that ends a round (for the core and the objective) is the one that
begins the next. The papers are those of `distembed.factorization.nmf`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import dask
import dask.array as da
import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.dtypes import Float64s, Floats, Int64s
from distembed.execution import compute, tell, where
from distembed.factorization.clustering import spherical_kmeans
from distembed.factorization.document_rows import SUM_FAN_IN, Array, document_sums, times, unit_documents
from distembed.lift import block, fold, lift, part, total, total_of_part
from distembed.linalg.blocks import gram
from distembed.states import keep, newest

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


class Problem(NamedTuple):
    """What is factorized, all of it checked."""

    X: Array
    squares: float  # ‖X‖²
    mean: float  # of X
    M: Array = None
    word_squares: float = 0.0  # ‖M‖²
    word_weight: float = 0.0  # λ of ½ ‖M - W S Wᵀ‖²
    A: Array = None  # symmetric, in the row blocks and the dtype of X
    graph_weight: float = 0.0  # λ of ½ tr(Zᵀ (D - A) Z), D the sums of the rows of A


# --- the updates ---------------------------------------------------------------------------------------------------


def multiply_by_ratio(factor: Floats, numerator: Floats, denominator: Floats) -> NDArray[Any]:
    """Return factor ∘ numerator / denominator, 0 where the denominator is 0."""
    ratio = np.divide(numerator, denominator, out=np.zeros_like(factor), where=denominator > 0)
    ratio *= factor
    return ratio


@block(temporaries=3)
def scale(
    Z: Floats,
    XW: Floats,
    WW: Floats,
    A: csr_array | None = None,
    every: Sequence[Floats] = (),
    *,
    weight: float = 0.0,
) -> NDArray[Any]:
    """Return Z ∘ (X W) / (Z WᵀW): Lee & Seung (2001), theorem 1, and equation 7a.

    With Wᵀ Xᵀ Z in place of WᵀW it is equation 18 of Yoo & Choi (2008). With some rows of a graph A it is ``Z ∘ (X W +
    λ A Z) / (Z WᵀW + λ D Z)``, D the sums of the rows of A, of Cai et al. (2011); `every` are all row blocks of Z, of
    which Z is one.
    """
    denominator = Z @ WW.astype(Z.dtype, copy=False)
    if A is not None:
        XW = XW + weight * neighbor_sums(A, every)
        denominator = denominator + weight * np.asarray(A.sum(axis=1), Z.dtype).reshape(-1, 1) * Z
    return multiply_by_ratio(Z, XW, denominator)


def neighbor_sums(A: csr_array, every: Sequence[Floats]) -> Floats:
    """Return A Z of a Z in row blocks, which are not joined."""
    sums, first = np.zeros((A.shape[0], every[0].shape[1]), every[0].dtype), 0
    for piece in every:
        sums += A[:, first : first + len(piece)] @ piece
        first += len(piece)
    return sums


def update_core(S: Float64s, W: Float64s, MW: Float64s) -> Float64s:
    """Return S ∘ (Wᵀ M W) / (WᵀW S WᵀW), kept symmetric: equation 7c."""
    WW = gram(W)
    updated = multiply_by_ratio(S, W.T @ MW, WW @ S @ WW)
    return (updated + updated.T) / 2


def descend(Z: Floats, XW: Floats, WW: Floats, *, sweeps: int, tolerance: float = 1e-8) -> NDArray[Any]:
    """Return Z after cyclic coordinate descent of every row z on ½ zᵀ(WW)z - zᵀ(xW), z >= 0.

    A row stops when a sweep moves no coordinate by more than `tolerance` of its largest one.
    Cichocki & Phan (2009); several sweeps a round: Gillis & Glineur (2012).
    """
    solved = np.array(Z)
    _descend_rows(solved, XW, WW, sweeps, tolerance)
    return solved


@numba.njit(cache=True, nogil=True)
def _descend_rows(Z: Any, XW: Any, WW: Any, sweeps: int, tolerance: float) -> None:
    rank = WW.shape[0]
    z = np.empty(rank)
    for i in range(Z.shape[0]):
        for r in range(rank):  # an assignment of arrays would compile the text of its error for two seconds
            z[r] = Z[i, r]
        for _ in range(sweeps):
            largest = moved = 0.0
            for r in range(rank):
                if WW[r, r] <= 0:
                    z[r] = 0.0
                    continue
                slope = XW[i, r]
                for s in range(rank):
                    slope -= WW[r, s] * z[s]
                new = max(0.0, z[r] + slope / WW[r, r])
                moved = max(moved, abs(new - z[r]))
                largest = max(largest, new)
                z[r] = new
            if moved <= tolerance * largest:
                break
        for r in range(rank):
            Z[i, r] = z[r]


def fit_core(W: Float64s, MW: Float64s) -> Float64s:
    """Return the non-negative part of argmin_S ‖M - W S Wᵀ‖, with zeros lifted to a small value.

    A multiplicative update never leaves zero, so an entry that the unconstrained fit makes negative
    starts at 1 % of the mean entry.
    """
    inverse = np.linalg.pinv(gram(W))
    core = np.maximum(inverse @ (W.T @ MW) @ inverse, 0)
    return np.maximum((core + core.T) / 2, 0.01 * core.mean())


Method = Literal["hals", "multiplicative", "orthogonal", "semantic"]
"""How the factors are updated; with a graph, the documents by `scale`."""

# --- the rounds ----------------------------------------------------------------------------------------------------


class DocumentStep(NamedTuple):
    """What a round makes of one block of documents."""

    documents: Floats
    """Their factors Z. Shape (rows, k)."""
    sums: Float64s
    """Xᵀ Z and below it Zᵀ Z: their part of what the word factors follow. Shape (d + k, k)."""


@block(temporaries=0.5)
def step_documents(
    X: csr_array, Z: Floats, W: Floats, small: Floats, *graph: Any, update: Callable[..., Floats]
) -> DocumentStep:
    """Return the document factors after an update, of which `small` is WᵀW or what stands for it, and their sums.

    A graph is its rows, and all row blocks of Z.
    """
    Z = update(Z, times(X, W), small, *graph)
    return DocumentStep(Z, document_sums(X, Z))


def one_round(problem: Problem, method: Method, now: Factors) -> Factors:
    """Return the factors after one round: equation 7 of Semantic-NMF where there is an M, else an update of NMF.

    One task for each row block makes its document factors, and its part of Xᵀ Z above Zᵀ Z. The columns of Z of
    "orthogonal" have unit length after it: without, a round turns a column of length a into one of 1 / a.
    """
    X, Z, W, S, rank = problem.X, now.documents, now.words, now.core, now.words.shape[1]
    small = W.T @ now.carried if method == "orthogonal" else gram(W)
    update: Callable[..., Any] = scale
    if method == "hals":
        update = partial(descend, sweeps=HALS_SWEEPS, tolerance=HALS_TOLERANCE)
    graph = () if problem.A is None else (problem.A, Z)
    found = lift(
        step_documents, "wd,wk,dk,kl,wn,Nk->wk" if graph else "wd,wk,dk,kl->wk", X, Z, W, small, *graph,
        dtype=object, sizes={"w": 1, "k": 1},
        update=partial(scale, weight=problem.graph_weight) if graph else update,
    )  # fmt: skip
    Z = part(found, "documents", X, columns=rank)
    sums = total_of_part(found, "sums", shape=(X.shape[1] + rank, rank), fan_in=SUM_FAN_IN)
    if isinstance(X, da.Array):
        Z, sums = dask.persist(Z, sums, **where({}))
        sums = compute(sums)
    XZ, ZZ = sums[:-rank], sums[-rank:]
    if method == "orthogonal":
        lengths = np.sqrt(np.diag(ZZ))
        lengths[lengths == 0] = 1
        Z, W, XZ, ZZ = Z / lengths.astype(Z.dtype), W * lengths, XZ / lengths, ZZ / np.outer(lengths, lengths)
    if problem.M is None:
        W, carried = update(W, XZ, ZZ), XZ
    else:
        # W ∘ (XᵀZ + 2λ M W S) / (W (2λ S WᵀW S + ZᵀZ)): equation 7b with the weight λ on M
        weight = 2 * problem.word_weight
        W = scale(W, XZ + weight * (now.carried @ S), weight * (S @ small @ S) + ZZ)
        carried = word_products(problem.M, W)
        S = update_core(S, W, carried)
    after = Factors(Z, W, S, carried, now.objective)
    return after._replace(objective=np.append(now.objective, loss_of(problem, after, XZ, ZZ)))


def word_products(M: Array, W: Float64s) -> Float64s:
    """Return M W, (d, k), in memory."""
    return np.asarray(compute(lift(times, "vd,dk->vk", M, W, dtype=M.dtype)), np.float64)


def loss_of(problem: Problem, now: Factors, XZ: Float64s, ZZ: Float64s) -> float:
    """Return the objective of factors, where `carried` is M W if there is an M; all terms are traces of small matrices.

    ``½‖X - Z Wᵀ‖² = ½ (‖X‖² - 2 tr(Wᵀ Xᵀ Z) + tr(ZᵀZ WᵀW))``, and with M ``λ ½‖M - W S Wᵀ‖²`` = ``λ ½ (‖M‖² - 2 tr(S
    WᵀMW) + tr(S WᵀW S WᵀW))``, and with a graph ``λ ½ tr(Zᵀ (D - A) Z)``.
    """
    W, S, WW = now.words, now.core, gram(now.words)
    loss = 0.5 * (problem.squares - 2 * np.vdot(W, XZ) + np.vdot(ZZ, WW))
    if problem.M is not None:
        WWS, of_M = WW @ S, problem.word_squares - 2 * np.vdot(S, W.T @ now.carried)
        loss += problem.word_weight * 0.5 * (of_M + np.vdot(WWS.T, WWS))
    if problem.A is not None:
        Z = now.documents
        term = fold(total(graph_loss), "wn,wk,Nk", problem.A, Z, Z, shape=(1, 1), fan_in=SUM_FAN_IN)
        loss += problem.graph_weight * compute(term).item()
    return float(loss)


@block(temporaries=4)
def graph_loss(A: csr_array, Z: Floats, every: Sequence[Floats]) -> Floats:
    """Return the share of some rows in ½ tr(Zᵀ (D - A) Z), (1, 1); `every` are all row blocks of Z."""
    neighbors = neighbor_sums(A, every)
    differences = np.asarray(A.sum(axis=1), np.float64).reshape(-1, 1) * Z
    differences -= neighbors
    del neighbors
    return np.array([[0.5 * np.vdot(Z.astype(np.float64, copy=False), differences)]])


def run_rounds(
    problem: Problem,
    method: Method,
    number: int,
    *,
    rank: int,
    init: Init,
    seed: int,
    n_iter: int,
    tol: float,
) -> Factors:
    """Run one start until it converges, or through n_iter rounds, from the newest state that is kept of it."""
    done, state = newest("round", Factors)
    if state is None:
        start = partial(start_of, problem, rank, init, method, (seed, number))
        state = keep("round", start, Factors, number=0)
    while True:
        # what is small is in memory, whatever was kept; document factors are where X is
        Z = state.documents if isinstance(problem.X, da.Array) else compute(state.documents)
        now = Factors(Z, *compute(state[1:]))
        if done >= n_iter or has_converged(problem, now.objective, tol):
            return now._replace(carried=np.empty((0, rank)))
        done = min(done + ROUNDS_PER_STATE, n_iter)
        while now.objective.size < done:
            now = one_round(problem, method, now)
            tell("rounds", now.objective.size, n_iter)
        state = keep("round", partial(Factors, *now), Factors, number=done)


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


# --- the starts ----------------------------------------------------------------------------------------------------


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
        spread = np.sqrt(problem.mean / rank)
        W = spread * np.abs(np.random.default_rng(seed).standard_normal((X.shape[1], rank)))
        Z = _even_documents(X, rank, spread)
    else:
        clusters = spherical_kmeans(
            unit_documents(X), rank, n_iter=KMEANS_ROUNDS, tol=1e-4, seed=seed, sample=SEEDING_SAMPLE
        )
        Z = memberships_of(clusters.labels, rank, MEMBERSHIP_FLOOR, X.dtype)
        W = clusters.words + MEMBERSHIP_FLOOR * clusters.words.mean(axis=0)
    carried = np.zeros_like(W)
    if problem.M is not None:
        carried = word_products(problem.M, W)
        S = fit_core(W, carried)
    elif method == "orthogonal":
        lengths = column_norms(Z)
        lengths[lengths == 0] = 1
        Z, W = Z / lengths.astype(Z.dtype), W * lengths
        carried = sums_of(X, Z)[:-rank]
    return Factors(Z, W, S, carried, np.empty(0))


def memberships_of(labels: Array, rank: int, floor: float, dtype: Any) -> Array:
    """Return `membership` of labels (n, 1), in their row blocks."""
    options: dict[str, Any] = {"rank": rank, "floor": floor, "value_type": dtype}
    return lift(membership, "wl->wk", labels, dtype=dtype, sizes={"k": rank}, **options)


@block(temporaries=0.5)
def membership(labels: Int64s, *, rank: int, floor: float, value_type: Any) -> Floats:
    """Return Z with 1 + floor at a row's label and floor elsewhere; a row labeled -1 is zero."""
    Z = np.full((labels.size, rank), floor, value_type)
    Z[np.arange(labels.size), labels.ravel()] += 1
    Z[labels.ravel() < 0] = 0
    return Z


def _even_documents(X: Array, rank: int, value: float) -> Array:
    """Return document factors that are all of one value, in the row blocks of X."""
    shape = (X.shape[0], rank)
    if isinstance(X, da.Array):
        return da.full(shape, value, dtype=X.dtype, chunks=(X.chunks[0], rank))
    return np.full(shape, value, X.dtype)


def column_norms(factors: Array) -> Float64s:
    """Return the Euclidean length of each column of document factors, float64 (k,)."""
    shape = (factors.shape[1],) * 2
    return np.sqrt(np.diag(compute(fold(total(gram), "wk", factors, shape=shape, fan_in=SUM_FAN_IN))))


def sums_of(X: Array, Z: Array) -> Float64s:
    """Return Xᵀ Z and below it Zᵀ Z, (d + k, k), in memory."""
    shape = (X.shape[1] + Z.shape[1], Z.shape[1])
    return np.asarray(compute(fold(total(document_sums), "wd,wk", X, Z, shape=shape, fan_in=SUM_FAN_IN)))


# --- the factors of given words ------------------------------------------------------------------------------------


#: Most sweeps of the convex problem of document factors for fixed words, which stops by itself when it has settled.
SOLVING_SWEEPS = 500

#: Rounds of the same problem where documents have a graph, as many as Semantic-NMF has by default.
TIED_ROUNDS = 100


def fit_documents(X: Array, words: NDArray[Any]) -> Array:
    """Return argmin over Z >= 0 of ``‖X - Z Wᵀ‖`` for fixed words, by row blocks; lazy where X is a Dask array."""
    return lift(solve_documents, "wd,dk,kl->wk", X, words, gram(words), dtype=X.dtype)


@block(temporaries=0.5)
def solve_documents(X: csr_array, W: Floats, WW: Floats) -> Floats:
    """Return argmin over Z >= 0 of ½‖X - Z Wᵀ‖² for fixed W, started at zero."""
    return descend(np.zeros((X.shape[0], W.shape[1]), X.dtype), times(X, W), WW, sweeps=SOLVING_SWEEPS)


def settle_documents(problem: Problem, words: Float64s) -> Array:
    """Return the document factors that are solved for given word factors, kept where X is a Dask array.

    With a graph these are the ones after `TIED_ROUNDS` updates from even ones: the problem is convex, but of all rows.
    """
    X = problem.X

    def fit() -> Array:
        if problem.A is None:
            return fit_documents(X, words)
        XW = lift(times, "wd,dk->wk", X, words, dtype=X.dtype)
        XW, Z = dask.persist(XW, _even_documents(X, words.shape[1], 1.0), **where({}))
        update = partial(lift, scale, "wk,wk,kl,wn,Nk->wk", dtype=X.dtype, weight=problem.graph_weight)
        for _ in range(TIED_ROUNDS):
            (Z,) = dask.persist(update(Z, XW, gram(words), problem.A, Z), **where({}))
        return Z

    return keep("documents", fit) if isinstance(X, da.Array) else fit()


def refit(problem: Problem, words: Float64s) -> Factors:
    """Return the factors of given word factors: document factors and the core solved for them, and the loss."""
    X, rank, Z = problem.X, words.shape[1], settle_documents(problem, words)
    sums, S, carried = sums_of(X, Z), np.eye(rank), np.empty((0, rank))
    if problem.M is not None:
        carried = word_products(problem.M, words)
        S = fit_core(words, carried)
    found = Factors(Z, words, S, carried, np.empty(0))
    return found._replace(objective=np.array([loss_of(problem, found, sums[:-rank], sums[-rank:])]))
