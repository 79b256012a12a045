"""The rounds of a non-negative factorization: what it starts from, its state, the updates, the descent through them.

A round is one pass over the row blocks of X and one over those of M, which needs no n × d and no d × d dense
matrix: the product M W that ends a round (for the core and the objective) is the one that begins the next.
The papers are those of `distembed.factorization.nmf`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.dtypes import Float64s
from distembed.execution import Checkpoint, blockwise, compute, map_blocks, persist, tell
from distembed.factorization import nmf_blocks as blocks
from distembed.factorization.clustering import check_nonnegative, spherical_kmeans, unit_rows
from distembed.factorization.row_lifts import Array, each, one_lazy_block, row_blocks, total
from distembed.typing import refuse_collection
from distembed.validation import check_matrix

#: Rounds between two checkpoints; convergence is judged as often, as in scikit-learn.
ROUNDS_PER_CHECKPOINT = 10

#: Sweeps of coordinate descent after each product; the product costs far more (Gillis & Glineur 2012).
HALS_SWEEPS = 4

#: A row is left alone when a sweep moves no coordinate by more than this share of its largest, which saves time and
#: costs no further rounds.
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
    objective: Float64s
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


class Graph(NamedTuple):
    """Which documents are neighbors, and the weight λ of ½ tr(Zᵀ (D - A) Z), which pulls their factors together."""

    adjacency: Array  # A (n, n), symmetric, in the row blocks and the dtype of X
    weight: float


# --- the rounds -------------------------------------------------------------------------------------------


def nmf_round(solver: str, X: Array, squares: float, now: Factors, graph: Graph | None = None) -> Factors:
    """Return the factors after one round of NMF, by multiplicative updates where documents have a graph."""
    rank = now.words.shape[1]
    if graph is not None:
        Z = updated_documents(X, now.documents, now.words, graph)
        return _with_graph(_words_follow(X, squares, blocks.update_words, now, Z), graph)
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


def updated_documents(X: Array, Z: Array, W: Array, graph: Graph | None) -> Array:
    """Return the document factors after a multiplicative update."""
    rank = W.shape[1]
    WW = each(blocks.gram, W, rows=rank, columns=rank)
    if graph is None:
        return each(blocks.update_documents, X, Z, W, WW, columns=rank, dtype=X.dtype)
    return _tied(each(blocks.times, X, W, columns=rank, dtype=X.dtype), Z, WW, graph)


def _tied(XW: Array, Z: Array, WW: Array, graph: Graph) -> Array:
    """Return the document factors after an update for fixed words."""
    update = partial(blocks.update_tied_documents, weight=graph.weight)
    of_rows = XW, Z, WW, graph.adjacency, _neighbor_sums(graph.adjacency, Z)
    return each(update, *of_rows, columns=Z.shape[1], dtype=Z.dtype)


def _neighbor_sums(A: Array, Z: Array) -> Array:
    """Return A Z; each task is given all blocks of Z."""
    if not isinstance(A, da.Array):
        return _sums_of_block([A], [Z])
    form: dict[str, Any] = {"dtype": Z.dtype, "meta": np.empty((0, 0), Z.dtype), "align_arrays": False}
    return blockwise(_sums_of_block, "ik", A, "im", Z, "jk", concatenate=False, **form)


def _sums_of_block(A: Sequence[csr_array], Z: Sequence[Array]) -> Array:
    return blocks.neighbor_sums(A[0], Z)


def _with_graph(factors: Factors, graph: Graph | None) -> Factors:
    """Return factors with the term of the graph in their objective."""
    if graph is None:
        return factors
    A, Z = graph.adjacency, factors.documents
    term = total(blocks.graph_loss, A, Z, _neighbor_sums(A, Z), shape=(1, 1))
    return factors._replace(objective=factors.objective + graph.weight * term)


def semantic_round(
    X: Array,
    M: Array,
    squares: tuple[float, float],
    weight: float,
    graph: Graph | None,
    now: Factors,
) -> Factors:
    """Return the factors after the three updates of equation 7; `carried` is M W."""
    rank = now.words.shape[1]
    Z = updated_documents(X, now.documents, now.words, graph)
    XZ, ZZ = document_sums(X, Z)
    renew = partial(blocks.update_semantic_words, weight=weight)
    W = each(renew, now.words, XZ, ZZ, now.carried, now.core, columns=rank)
    MW = times(M, W)
    S = each(blocks.update_core, now.core, W, MW, columns=rank)
    loss = each(partial(joint_loss, squares, weight), XZ, ZZ, W, MW, S, rows=1, columns=1)
    return _with_graph(Factors(Z, W, S, MW, loss), graph)


def document_sums(X: Array, Z: Array) -> tuple[Array, Array]:
    """Return XᵀZ and ZᵀZ, by one sum over the row blocks."""
    rank = Z.shape[1]
    sums = total(blocks.document_sums, X, Z, shape=(X.shape[1] + rank, rank))
    return sums[:-rank], sums[-rank:]


def times(M: Array, W: Array) -> Array:
    """Return M W, (d, k) float64 in one block."""
    product = each(_exact_times, M, W, columns=W.shape[1])
    return product.rechunk(-1) if isinstance(product, da.Array) else product


def _exact_times(M: csr_array, W: Float64s) -> Float64s:
    return blocks.times(M, W).astype(np.float64, copy=False)


def _product(A: Float64s, B: Float64s) -> Float64s:
    return A.T @ B


def document_loss(squares: float, XZ: Float64s, ZZ: Float64s, W: Float64s) -> Float64s:
    """Return the objective of NMF, (1, 1)."""
    return np.array([[blocks.document_loss(squares, XZ, ZZ, W)]])


def joint_loss(
    squares: tuple[float, float],
    weight: float,
    XZ: Float64s,
    ZZ: Float64s,
    W: Float64s,
    MW: Float64s,
    S: Float64s,
) -> Float64s:
    """Return the objective of Semantic-NMF, (1, 1)."""
    semantic = blocks.word_loss(squares[1], MW, W, S)
    return np.array([[blocks.document_loss(squares[0], XZ, ZZ, W) + weight * semantic]])


# --- the starts ------------------------------------------------------------------------------------------


Init = Literal["spherical_kmeans", "random"]
"""Where factors start."""

KMEANS_ROUNDS, SEEDING_SAMPLE = 50, 20_000
"""Most rounds of the spherical k-means that factors start from, and the documents that its seeds are drawn from."""

#: Added to the 0/1 memberships of spherical k-means, since a multiplicative update never leaves zero
#: (Ding, Li & Jordan, PAMI 2010, section 3.3, start k-means-based factorizations so).
MEMBERSHIP_FLOOR = 0.2


def plain_start(X: Array, rank: int, init: str, mean: float, seed: tuple[int, ...]) -> Factors:
    """Return the factors before the first round of NMF, made by `init`, see `Init`."""
    Z, W = _random_start(X, rank, seed, mean) if init == "random" else _kmeans_start(X, rank, seed)
    return Factors(Z, W, np.eye(rank), np.zeros_like(W), np.zeros((1, 1)))


def orthogonal_start(X: Array, rank: int, init: str, mean: float, seed: tuple[int, ...]) -> Factors:
    """Return the factors before the first round of orthogonal NMF, whose `carried` is Xᵀ Z."""
    factors = plain_start(X, rank, init, mean, seed)
    XZ = total(blocks.transposed_times, X, factors.documents, shape=(X.shape[1], rank))
    return factors._replace(carried=XZ)


def semantic_start(M: Array, plain: Callable[..., Factors], seed: tuple[int, ...]) -> Factors:
    """Return the factors before the first round of Semantic-NMF, whose `carried` is M W."""
    factors = plain(seed)
    MW = compute(times(M, factors.words))
    return factors._replace(core=blocks.fit_core(factors.words, MW), carried=MW)


def _kmeans_start(X: Array, rank: int, seed: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the memberships, lifted by `MEMBERSHIP_FLOOR`, and the lifted centroids of spherical k-means."""
    found = spherical_kmeans(
        unit_rows(X), rank, n_iter=KMEANS_ROUNDS, tol=1e-4, seed=seed, sample=SEEDING_SAMPLE
    )
    member = partial(blocks.membership, rank=rank, floor=MEMBERSHIP_FLOOR, dtype=X.dtype)
    Z = each(member, found.labels, columns=rank, dtype=X.dtype)
    W = found.centroids.T
    return Z, W + MEMBERSHIP_FLOOR * W.mean(axis=0)


def _random_start(X: Array, rank: int, seed: tuple[int, ...], mean: float) -> tuple[Array, Array]:
    """Return even document factors and word factors from |N(0, mean / k)|: the first update breaks ties."""
    scale = np.sqrt(mean / rank)
    W = scale * np.abs(np.random.default_rng(seed).standard_normal((X.shape[1], rank)))
    return each(partial(_even_rows, rank=rank, value=scale), X, columns=rank, dtype=X.dtype), W


def _even_rows(X: csr_array, *, rank: int, value: float) -> Float64s:
    return np.full((X.shape[0], rank), value, X.dtype)


# --- the factors of given words ----------------------------------------------------------------------------


Choose = Literal["consensus", "objective"]
"""What is kept of several starts."""

#: Most sweeps of the convex problem of document factors for fixed words, which stops by itself when it has settled.
SOLVING_SWEEPS = 500

#: Rounds of the same problem where documents have a graph, as many as Semantic-NMF has by default.
TIED_ROUNDS = 100


def fit_documents(X: Array, words: NDArray[Any]) -> Array:
    """Return argmin over Z >= 0 of ``‖X - Z Wᵀ‖`` for fixed words, by row blocks; lazy where X is a Dask array."""
    solve = partial(blocks.solve_documents, sweeps=SOLVING_SWEEPS)
    return each(solve, X, words, blocks.gram(words), columns=words.shape[1], dtype=X.dtype)


def _fit_tied_documents(X: Array, words: NDArray[Any], graph: Graph) -> Array:
    """Return document factors after `TIED_ROUNDS` updates from even ones: the problem is convex, but of all rows."""
    rank = words.shape[1]
    even = each(partial(_even_rows, rank=rank, value=1.0), X, columns=rank, dtype=X.dtype)
    XW, Z = dask.persist(each(blocks.times, X, words, columns=rank, dtype=X.dtype), even)
    for _ in range(TIED_ROUNDS):
        (Z,) = dask.persist(_tied(XW, Z, blocks.gram(words), graph))
    return Z


def _keep_documents(checkpoint: Checkpoint, X: Array, words: Float64s, graph: Graph | None) -> Array:
    """Return the document factors of given word factors, kept where they are lazy: several results are made of them."""
    fit = partial(fit_documents, X, words)
    if graph is not None:
        fit = partial(_fit_tied_documents, X, words, graph)
    return checkpoint("consensus-documents", fit) if isinstance(X, da.Array) else fit()


def plain_refit(
    checkpoint: Checkpoint, X: Array, squares: float, graph: Graph | None, words: Float64s
) -> Factors:
    """Return the factors of given word factors: document factors solved for them, and the loss."""
    Z = _keep_documents(checkpoint, X, words, graph)
    XZ, ZZ = document_sums(X, Z)
    loss = each(partial(document_loss, squares), XZ, ZZ, words, rows=1, columns=1)
    return _with_graph(Factors(Z, words, np.eye(words.shape[1]), XZ, loss), graph)


def semantic_refit(
    checkpoint: Checkpoint,
    X: Array,
    M: Array,
    squares: tuple[float, float],
    weight: float,
    graph: Graph | None,
    words: Float64s,
) -> Factors:
    """Return the factors of given word factors: document factors and the core solved for them, and the loss."""
    Z = _keep_documents(checkpoint, X, words, graph)
    XZ, ZZ = document_sums(X, Z)
    MW = compute(times(M, words))
    S = blocks.fit_core(words, MW)
    loss = each(partial(joint_loss, squares, weight), XZ, ZZ, words, MW, S, rows=1, columns=1)
    return _with_graph(Factors(Z, words, S, MW, loss), graph)


# --- documents × documents, words × words ------------------------------------------------------------------


def tied(X: Array, graph: Any, weight: float) -> tuple[Array, Graph | None]:
    """Return X and the graph of its documents, checked, both in memory or both in the row blocks of X."""
    if graph is None:
        return X, None
    refuse_collection(graph, "graph")
    n = X.shape[0]
    if getattr(graph, "shape", None) != (n, n):
        raise ValueError(
            f"graph has shape {getattr(graph, 'shape', None)} and X has {n} documents: give documents × documents"
        )
    adjacency = row_blocks(check_matrix(graph, name="graph", finite=False)).astype(X.dtype)
    check_nonnegative(adjacency, name="graph")
    _check_symmetric(adjacency, "graph", "pass graph.maximum(graph.T)")
    X, adjacency = alike(X, adjacency)
    if isinstance(X, da.Array):
        adjacency = adjacency.rechunk((X.chunks[0], -1))
    return X, Graph(adjacency, float(weight))


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
    _check_symmetric(matrix, "M", "count in a symmetric window, or pass (M + M.T) / 2")
    if shift == 1:
        return matrix
    if isinstance(matrix, da.Array):
        return map_blocks(blocks.subtract_shift, matrix, shift=shift, dtype=matrix.dtype, meta=matrix._meta)
    return blocks.subtract_shift(matrix, shift=shift)


def _check_symmetric(M: Array, name: str, advice: str) -> None:
    """Raise ValueError unless uᵀ M v = vᵀ M u for random u and v, which one pass over the rows decides."""
    probes = np.random.default_rng(0).random((M.shape[0], 2))
    image = compute(times(M, probes))
    one, other = probes[:, 0] @ image[:, 1], probes[:, 1] @ image[:, 0]
    if abs(one - other) > 1e-5 * abs(one):
        raise ValueError(
            f"{name} is not symmetric (uᵀMv = {one:.8g}, vᵀMu = {other:.8g} for random u, v); {advice}."
        )


def alike(X: Array, M: Array) -> tuple[Array, Array]:
    """Return both matrices in memory or both as Dask arrays."""
    if isinstance(X, da.Array) == isinstance(M, da.Array):
        return X, M
    return one_lazy_block(X), one_lazy_block(M)
