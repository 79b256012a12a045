"""Non-negative factorizations of documents × words, alone and joined with words × words.

Semantic-NMF: Ailem, Salah & Nadif, "Non-negative Matrix Factorization Meets Word Embedding", SIGIR 2017.
NMF: Lee & Seung (2001), and hierarchical alternating least squares, Cichocki & Phan (2009).
Orthogonal NMF: Yoo & Choi, "Orthogonal nonnegative matrix factorization: multiplicative updates on Stiefel
manifolds", IDEAL 2008.

A round is one pass over the row blocks of X and one over those of M, which needs no n × d and no d × d dense
matrix: the product M W that ends a round (for the core and the objective) is the one that begins the next.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from distembed.execution import Checkpoint, compute, map_blocks, one_blas_thread, persist
from distembed.factorization import nmf_blocks as blocks
from distembed.factorization.clustering import (
    Facts,
    check_clusters,
    check_nonnegative,
    spherical_kmeans,
    unit_rows,
)
from distembed.factorization.row_lifts import Array, each, one_lazy_block, row_blocks, total
from distembed.options import RandomState
from distembed.validation import (
    checked_matrix,
    like_input,
    new_matrix,
    seed_of,
    training_matrix,
)

Floats = NDArray[np.float64]

#: Rounds between two checkpoints; convergence is judged as often, as in scikit-learn.
ROUNDS_PER_CHECKPOINT = 10

#: Added to the 0/1 memberships of spherical k-means, since a multiplicative update never leaves zero
#: (Ding, Li & Jordan, PAMI 2010, section 3.3, start k-means-based factorizations so).
MEMBERSHIP_FLOOR = 0.2

#: Sweeps of coordinate descent after each product; the product costs far more (Gillis & Glineur 2012).
HALS_SWEEPS = 4

#: A row is left alone when a sweep moves no coordinate by more than this share of its largest: half the time of
#: four full sweeps on 20 Newsgroups, and as many rounds (tests/benchmarks/TOPICS.md).
HALS_TOLERANCE = 0.03

#: Most sweeps of the convex problem of `transform`, which stops by itself when it has settled.
TRANSFORM_SWEEPS = 500


class Factors(NamedTuple):
    """The state of a factorization after some rounds; n documents, d words, rank k."""

    documents: Array  # Z (n, k), dtype of X
    words: Array  # W (d, k) float64
    core: Array  # S (k, k) float64; the identity where there is no M
    carried: Array  # (d, k) float64: M W where there is an M, else Xᵀ Z
    objective: Array  # (rounds, 1) float64, of the rounds since the last checkpoint


Round = Callable[[Factors], Factors]


class Fit(NamedTuple):
    """One start, carried to its end."""

    factors: Factors
    objective: Floats
    converged: bool


def _keep(checkpoint: Checkpoint, name: str, advance: Callable[[], Factors]) -> Factors:
    """Return the factors kept under a name; make them only if one of them is not kept yet."""
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


def _advance(factors: Factors, one_round: Round, n_rounds: int) -> Factors:
    """Return the factors after some rounds, each of which is computed before the next is planned."""
    losses = []
    for _ in range(n_rounds):
        factors = Factors(*dask.persist(*one_round(factors)))
        losses.append(factors.objective)
    lazy = isinstance(losses[0], da.Array)
    objective = da.concatenate(losses).rechunk(-1) if lazy else np.concatenate(losses)
    return factors._replace(objective=objective)


def _descend(
    X: Array, start: Callable[[], Factors], one_round: Round, *,
    n_iter: int, tol: float, checkpoint: Checkpoint, name: str,
) -> Fit:  # fmt: skip
    """Carry one start to convergence, or through n_iter rounds."""
    factors = _in_memory(_keep(checkpoint, f"{name}-start", start), X)
    history: list[float] = []
    for done in range(0, n_iter, ROUNDS_PER_CHECKPOINT):
        n_rounds = min(ROUNDS_PER_CHECKPOINT, n_iter - done)
        advance = partial(_advance, factors, one_round, n_rounds)
        factors = _in_memory(_keep(checkpoint, f"{name}-round-{done + n_rounds:05d}", advance), X)
        before = history[-1] if history else np.inf
        history.extend(compute(factors.objective).ravel())
        if tol > 0 and before - history[-1] <= tol * before < np.inf:
            return Fit(factors, np.array(history), converged=True)
    return Fit(factors, np.array(history), converged=False)


# --- the rounds -------------------------------------------------------------------------------------------


def _nmf_round(solver: str, X: Array, squares: float, now: Factors) -> Factors:
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


def _orthogonal_round(X: Array, squares: float, now: Factors) -> Factors:
    """Return the factors after one round of orthogonal NMF; `carried` is Xᵀ Z of the round before."""
    rank = now.words.shape[1]
    WXZ = each(_product, now.words, now.carried, rows=rank, columns=rank)
    update = blocks.update_orthogonal_documents
    Z = each(update, X, now.documents, now.words, WXZ, columns=rank, dtype=X.dtype)
    return _words_follow(X, squares, blocks.update_words, now, Z)


def _words_follow(X: Array, squares: float, renew: Callable[..., Any], now: Factors, Z: Array) -> Factors:
    """Return the factors of new document factors: word factors renewed from them, and the loss."""
    XZ, ZZ = _document_sums(X, Z)
    W = each(renew, now.words, XZ, ZZ, columns=now.words.shape[1])
    loss = each(partial(_document_loss, squares), XZ, ZZ, W, rows=1, columns=1)
    return Factors(Z, W, now.core, XZ, loss)


def _semantic_round(X: Array, M: Array, squares: tuple[float, float], weight: float, now: Factors) -> Factors:
    """Return the factors after the three updates of equation 7; `carried` is M W."""
    rank = now.words.shape[1]
    WW = each(blocks.gram, now.words, rows=rank, columns=rank)
    Z = each(blocks.update_documents, X, now.documents, now.words, WW, columns=rank, dtype=X.dtype)
    XZ, ZZ = _document_sums(X, Z)
    renew = partial(blocks.update_semantic_words, weight=weight)
    W = each(renew, now.words, XZ, ZZ, now.carried, now.core, columns=rank)
    MW = _times(M, W)
    S = each(blocks.update_core, now.core, W, MW, columns=rank)
    loss = each(partial(_joint_loss, squares, weight), XZ, ZZ, W, MW, S, rows=1, columns=1)
    return Factors(Z, W, S, MW, loss)


def _document_sums(X: Array, Z: Array) -> tuple[Array, Array]:
    rank = Z.shape[1]
    XZ = total(blocks.transposed_times, X, Z, shape=(X.shape[1], rank))
    return XZ, total(blocks.gram, Z, shape=(rank, rank))


def _times(M: Array, W: Array) -> Array:
    """Return M W, (d, k) float64 in one block."""
    product = each(_exact_times, M, W, columns=W.shape[1])
    return product.rechunk(-1) if isinstance(product, da.Array) else product


def _exact_times(M: csr_array, W: Floats) -> Floats:
    return blocks.times(M, W).astype(np.float64, copy=False)


def _product(A: Floats, B: Floats) -> Floats:
    return A.T @ B


def _document_loss(squares: float, XZ: Floats, ZZ: Floats, W: Floats) -> Floats:
    return np.array([[blocks.document_loss(squares, XZ, ZZ, W)]])


def _joint_loss(
    squares: tuple[float, float], weight: float, XZ: Floats, ZZ: Floats, W: Floats, MW: Floats, S: Floats
) -> Floats:
    semantic = blocks.word_loss(squares[1], MW, W, S)
    return np.array([[blocks.document_loss(squares[0], XZ, ZZ, W) + weight * semantic]])


# --- the starts -------------------------------------------------------------------------------------------


def _start_factors(X: Array, rank: int, init: str, seed: tuple[int, ...], mean: float) -> tuple[Array, Array]:
    """Return the document and word factors to start from."""
    if init == "random":
        return _random_start(X, rank, seed, mean)
    if init == "nndsvd":
        return _nndsvd_start(X, rank, mean)
    return _kmeans_start(X, rank, seed)


def _kmeans_start(X: Array, rank: int, seed: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the memberships, lifted by `MEMBERSHIP_FLOOR`, and the lifted centroids of spherical k-means."""
    found = spherical_kmeans(unit_rows(X), rank, n_iter=50, tol=1e-4, seed=seed, sample=20_000)
    member = partial(blocks.membership, rank=rank, floor=MEMBERSHIP_FLOOR, dtype=X.dtype)
    Z = each(member, found.labels, columns=rank, dtype=X.dtype)
    W = found.centroids.T
    return Z, W + MEMBERSHIP_FLOOR * W.mean(axis=0)


def _random_start(X: Array, rank: int, seed: tuple[int, ...], mean: float) -> tuple[Array, Array]:
    """Return even document factors and word factors from |N(0, mean / k)|: the first update breaks ties."""
    scale = np.sqrt(mean / rank)
    W = scale * np.abs(np.random.default_rng(seed).standard_normal((X.shape[1], rank)))
    return each(partial(_even_rows, rank=rank, value=scale), X, columns=rank, dtype=X.dtype), W


def _even_rows(X: csr_array, *, rank: int, value: float) -> Floats:
    return np.full((X.shape[0], rank), value, X.dtype)


def _nndsvd_start(X: Array, rank: int, mean: float) -> tuple[Array, Array]:
    """Return the signed parts of the leading singular vectors, zeros set to the mean of X.

    Boutsidis & Gallopoulos (2008), variant NNDSVDa, which multiplicative updates need.
    """
    V, values = _right_singular_vectors(X, rank)
    positive, negative = np.sqrt(compute(total(blocks.sign_parts, X, V, shape=(2, rank)))) / values
    up, down = np.linalg.norm(np.maximum(V, 0), axis=0), np.linalg.norm(np.minimum(V, 0), axis=0)
    sign = np.where(positive * up >= negative * down, 1.0, -1.0)
    document_norm, word_norm = np.where(sign > 0, (positive, up), (negative, down))
    strength = np.sqrt(values * document_norm * word_norm)
    part = np.maximum(V * sign, 0) * strength / word_norm
    scale = (sign * strength / (values * document_norm)).reshape(1, -1)
    Z = each(partial(blocks.signed_part, floor=mean), X, V, scale, columns=rank, dtype=X.dtype)
    return Z, np.where(part > 0, part, mean)


def _right_singular_vectors(X: Array, rank: int, *, n_passes: int = 8) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the leading right singular vectors (d, k) and values by subspace iteration on XᵀX."""
    width = min(rank + 10, *X.shape)
    basis, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((X.shape[1], width)))
    for _ in range(n_passes):
        image = compute(total(_squared_times, X, basis, shape=basis.shape))
        basis, _ = np.linalg.qr(image)
    image = compute(total(_squared_times, X, basis, shape=basis.shape))
    projected = basis.T @ image
    eigenvalues, rotation = np.linalg.eigh((projected + projected.T) / 2)
    leading = np.argsort(eigenvalues)[::-1][:rank]
    values = np.sqrt(np.maximum(eigenvalues[leading], np.finfo(np.float64).tiny))
    return basis @ rotation[:, leading], values


def _squared_times(X: csr_array, V: Floats) -> NDArray[Any]:
    return blocks.transposed_times(X, blocks.times(X, V))


# --- the estimators ---------------------------------------------------------------------------------------


class _Factorization(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """What the three estimators share: starts, the choice of the best, labels, new documents, top words."""

    _expected_failed_checks: ClassVar[dict[str, str]] = {
        "check_clustering": "its blobs have negative values, and X may not have any",
    }

    def __init__(
        self,
        n_components: int = 20,
        *,
        init: str = "spherical_kmeans",
        n_iter: int = 100,
        tol: float = 0.0,
        n_init: int = 1,
        random_state: RandomState = 0,
        checkpoint: Checkpoint = persist,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.n_iter = n_iter
        self.tol = tol
        self.n_init = n_init
        self.random_state = random_state
        self.checkpoint = checkpoint

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn may expect: sparse or dense input without negative values."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.word_factors_.shape[1])

    def _check(self, **allowed: tuple[str, ...]) -> None:
        for option, names in allowed.items():
            if getattr(self, option) not in names:
                raise ValueError(f"{option} is {getattr(self, option)!r}; give one of {', '.join(names)}.")
        if self.n_iter < 1 or self.n_init < 1:
            raise ValueError(f"n_iter is {self.n_iter} and n_init is {self.n_init}; both must be 1 or more.")

    def _fit(self, X: Array, start: Callable[[tuple[int, ...]], Factors], one_round: Round) -> None:
        """Carry every start to its end and keep the one of the smallest objective."""
        seed = seed_of(self.random_state)
        ends = (
            _descend(
                X, partial(start, (seed, number)), one_round, n_iter=self.n_iter, tol=self.tol,
                checkpoint=self.checkpoint, name=f"start-{number}",
            )
            for number in range(self.n_init)
        )  # fmt: skip
        best = min(ends, key=lambda end: end.objective[-1])
        self._learn(best)
        if self.tol > 0 and not best.converged:
            warnings.warn(
                f"{type(self).__name__} still gained more than tol={self.tol} in the last rounds of "
                f"{self.n_iter}; raise n_iter, or pass tol=0 for a fixed number of rounds.",
                stacklevel=3,
            )

    def _fit_documents(
        self, X: Any, start: Callable[..., Factors], one_round: Callable[..., Factors]
    ) -> None:
        """Factorize documents × words alone."""
        with one_blas_thread():
            matrix, facts = self._documents(X)
            begin = partial(start, matrix, self.n_components, self.init, facts.mean)
            self._fit(matrix, begin, partial(one_round, matrix, facts.sum_of_squares))
            self._keep_kind(X)

    def _learn(self, fit: Fit) -> None:
        Z, rank = fit.factors.documents, self.n_components
        norms = np.sqrt(np.diag(compute(total(blocks.gram, Z, shape=(rank, rank))))).reshape(1, -1)
        labels = each(blocks.column_shares, Z, norms, columns=1, dtype=np.int64)
        self.labels_ = compute(labels).ravel()
        self.document_factors_ = Z
        self.word_factors_ = compute(fit.factors.words)
        self.objective_, self.converged_ = fit.objective, fit.converged
        self.n_iter_ = fit.objective.size

    def _keep_kind(self, X: Any) -> None:
        """Bring the document factors into memory where X was, though it was cut into blocks."""
        self.document_factors_ = like_input(self.document_factors_, X)

    def fit_transform(self, X: Any, y: object = None) -> Array:
        """Fit and return the document factors."""
        return self.fit(X, y).document_factors_

    def transform(self, X: Any) -> Array:
        """Return the document factors of X for the fixed word factors: ``argmin over Z >= 0 of ‖X - Z Wᵀ‖``.

        Parameters
        ----------
        X : matrix (n, d), non-negative

        Returns
        -------
        array (n, k) in the dtype of X; lazy where X is a Dask array.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If X has another number of words, or holds negative, NaN or infinite values.
        """
        with one_blas_thread():
            matrix = row_blocks(new_matrix(self, X, learnt="word_factors_", nonnegative=True))
            W = self.word_factors_
            solve = partial(blocks.solve_documents, sweeps=TRANSFORM_SWEEPS)
            return like_input(
                each(solve, matrix, W, blocks.gram(W), columns=W.shape[1], dtype=matrix.dtype), X
            )

    def top_words(self, n: int, words: Sequence[str]) -> list[list[str]]:
        """Return for every component its n words of the largest factors, the largest first.

        Raises
        ------
        ValueError
            If there are not as many words as rows of `word_factors_`.
        """
        check_is_fitted(self, "word_factors_")
        n_words = self.word_factors_.shape[0]
        if len(words) != n_words:
            raise ValueError(f"{len(words)} words were given for {n_words} rows of word_factors_.")
        order = np.argsort(-self.word_factors_, axis=0, kind="stable")[:n]
        return [[words[row] for row in column] for column in order.T]

    def _documents(self, X: Any) -> tuple[Array, Facts]:
        """Return X as row blocks, checked, and its facts."""
        # One pass counts values and finds NaN, infinity and negative values.
        matrix = row_blocks(training_matrix(self, X, finite=False))
        facts = check_nonnegative(matrix, name="X")
        check_clusters(matrix, facts, self.n_components)
        self.n_unused_words_ = int(np.count_nonzero(facts.column_counts == 0))
        self.n_empty_documents_ = facts.n_empty_rows
        return matrix, facts


_INITS = ("spherical_kmeans", "random", "nndsvd")


class NMF(_Factorization):
    """Factorize documents × words into non-negative document and word factors.

    Minimizes ``½ ‖X - Z Wᵀ‖²`` over Z, W >= 0.  Equivalent on small input: `sklearn.decomposition.NMF`
    with solver "mu" or "cd" and twice the rank-free loss.

    Parameters
    ----------
    n_components : int
        The rank k.
    solver : {"hals", "multiplicative"}
        Hierarchical alternating least squares reaches the same objective in several times fewer rounds;
        the multiplicative updates are Lee & Seung's.
    init : {"spherical_kmeans", "random", "nndsvd"}
    n_iter : int
        Largest number of rounds.
    tol : float
        Stop when ten rounds gain less than this share of the objective; 0 runs all rounds.
    n_init : int
        Starts; the one of the smallest objective is kept.
    random_state : int, None, Generator or RandomState
    checkpoint : Checkpoint
        Keeps the factors every ten rounds; a job passes one that stores them, and a rerun continues there.

    Attributes
    ----------
    document_factors_ : array (n, k) in the dtype of X, a Dask array where X is one
    word_factors_ : float64 array (d, k)
    objective_ : float64 array, one value a round
    labels_ : int64 array (n,)
        Largest document factor once columns have unit norm; -1 for a document without words.
    n_iter_, converged_, n_unused_words_, n_empty_documents_
    """

    def __init__(
        self,
        n_components: int = 20,
        *,
        solver: str = "hals",
        init: str = "spherical_kmeans",
        n_iter: int = 200,
        tol: float = 1e-4,
        n_init: int = 1,
        random_state: RandomState = 0,
        checkpoint: Checkpoint = persist,
    ) -> None:
        super().__init__(
            n_components, init=init, n_iter=n_iter, tol=tol, n_init=n_init, random_state=random_state,
            checkpoint=checkpoint,
        )  # fmt: skip
        self.solver = solver

    def fit(self, X: Any, y: object = None) -> NMF:  # noqa: ARG002 - scikit-learn's signature
        """Learn the factors of X, documents × words.

        Raises
        ------
        ValueError
            If X holds negative or NaN values, no value, or fewer documents than components, or if an option
            is not one of its names.
        """
        self._check(init=_INITS, solver=("hals", "multiplicative"))
        self._fit_documents(X, _plain_start, partial(_nmf_round, self.solver))
        return self


class OrthogonalNMF(_Factorization):
    """Factorize documents × words with document factors driven to orthonormal columns.

    Minimizes ``½ ‖X - Z Wᵀ‖²`` over Z, W >= 0, ZᵀZ = I by Yoo & Choi's multiplicative updates on the
    Stiefel manifold.  The constraint is met in the limit only, and the objective may rise in a round.

    Parameters and attributes: those of `NMF` without `solver`.
    """

    _expected_failed_checks: ClassVar[dict[str, str]] = (
        _Factorization._expected_failed_checks
        | dict.fromkeys(
            ("check_transformer_general", "check_transformer_data_not_an_array"),
            "document factors of the fit are driven to orthonormal columns, those of `transform` cannot be",
        )
    )

    def fit(self, X: Any, y: object = None) -> OrthogonalNMF:  # noqa: ARG002 - scikit-learn's signature
        """Learn the factors of X, documents × words.

        Raises
        ------
        ValueError
            As `NMF.fit`.
        """
        self._check(init=_INITS)
        self._fit_documents(X, _orthogonal_start, _orthogonal_round)
        return self


class SemanticNMF(_Factorization):
    """Factorize documents × words jointly with words × words, sharing the word factors.

    Minimizes ``½ ‖X - Z Wᵀ‖² + λ ½ ‖M - W S Wᵀ‖²`` over Z, W, S >= 0, S symmetric, where M is positive PMI
    less log N, cut at 0 (Ailem, Salah & Nadif 2017, equation 3, with λ = 1).  The updates of Z and S never
    raise the objective; for that of W it is so in practice, unproven.

    Parameters
    ----------
    n_components : int
        The rank k.
    shift : float
        N: `fit` takes positive PMI and subtracts log N itself.  1 for a matrix that is shifted already.
    semantic_weight : float
        λ, the weight of the second term.
    init : {"spherical_kmeans", "random", "nndsvd"}
    n_iter : int
        Rounds; 100 in the paper.
    tol : float
        Stop when ten rounds gain less than this share of the objective; 0 runs all rounds.
    n_init : int
        Starts; the one of the smallest objective is kept.
    random_state : int, None, Generator or RandomState
    checkpoint : Checkpoint
        Keeps the factors every ten rounds; a job passes one that stores them, and a rerun continues there.

    Attributes
    ----------
    document_factors_ : array (n, k) in the dtype of X, a Dask array where X is one
    word_factors_ : float64 array (d, k)
    core_ : float64 array (k, k), symmetric
    objective_ : float64 array, one value a round
    labels_ : int64 array (n,)
        Largest document factor once columns have unit norm; -1 for a document without words.
    n_iter_, converged_, n_unused_words_, n_empty_documents_
    """

    _expected_failed_checks: ClassVar[dict[str, str]] = (
        _Factorization._expected_failed_checks
        | dict.fromkeys(
            ("check_transformer_general", "check_transformer_data_not_an_array"),
            "document factors of the fit are those after its last round, those of `transform` are converged",
        )
    )

    def __init__(
        self,
        n_components: int = 20,
        *,
        shift: float = 2.0,
        semantic_weight: float = 1.0,
        init: str = "spherical_kmeans",
        n_iter: int = 100,
        tol: float = 0.0,
        n_init: int = 1,
        random_state: RandomState = 0,
        checkpoint: Checkpoint = persist,
    ) -> None:
        super().__init__(
            n_components, init=init, n_iter=n_iter, tol=tol, n_init=n_init, random_state=random_state,
            checkpoint=checkpoint,
        )  # fmt: skip
        self.shift = shift
        self.semantic_weight = semantic_weight

    def fit(self, X: Any, M: Any) -> SemanticNMF:
        """Learn the factors of X, documents × words, and M, words × words.

        Parameters
        ----------
        X : matrix (n, d), non-negative
            tf-idf with rows of unit length in the paper.
        M : matrix (d, d), non-negative, symmetric
            Positive PMI (see `shift`).  Where nothing of it is above log shift, the result is that of `NMF`
            with the multiplicative solver, and a core of zeros.

        Raises
        ------
        ValueError
            If X or M holds negative or NaN values, X no value or fewer documents than components, M is not
            square over the words of X, or not symmetric.
        """
        self._check(init=_INITS)
        if self.shift < 1 or self.semantic_weight < 0:
            raise ValueError(
                f"shift is {self.shift} and semantic_weight is {self.semantic_weight}; give shift >= 1 and "
                "semantic_weight >= 0."
            )
        with one_blas_thread():
            matrix, facts = self._documents(X)
            semantic = _semantic_matrix(M, matrix.shape[1], self.shift)
            matrix, semantic = _alike(matrix, semantic)
            squares = (facts.sum_of_squares, check_nonnegative(semantic, name="M").sum_of_squares)
            plain = partial(_plain_start, matrix, self.n_components, self.init, facts.mean)
            start = partial(_semantic_start, semantic, plain)
            weight = float(self.semantic_weight)
            self._fit(matrix, start, partial(_semantic_round, matrix, semantic, squares, weight))
            self._keep_kind(X)
        return self

    def fit_transform(self, X: Any, M: Any) -> Array:  # type: ignore[override]
        """Fit to X and M and return the document factors."""
        return self.fit(X, M).document_factors_

    def fit_predict(self, X: Any, M: Any) -> NDArray[np.int64]:
        """Fit to X and M and return the labels of the documents."""
        return self.fit(X, M).labels_

    def _learn(self, fit: Fit) -> None:
        super()._learn(fit)
        self.core_ = compute(fit.factors.core)


def _plain_start(X: Array, rank: int, init: str, mean: float, seed: tuple[int, ...]) -> Factors:
    Z, W = _start_factors(X, rank, init, seed, mean)
    return Factors(Z, W, np.eye(rank), np.zeros_like(W), np.zeros((1, 1)))


def _orthogonal_start(X: Array, rank: int, init: str, mean: float, seed: tuple[int, ...]) -> Factors:
    factors = _plain_start(X, rank, init, mean, seed)
    XZ = total(blocks.transposed_times, X, factors.documents, shape=(X.shape[1], rank))
    return factors._replace(carried=XZ)


def _semantic_start(M: Array, plain: Callable[..., Factors], seed: tuple[int, ...]) -> Factors:
    factors = plain(seed)
    MW = compute(_times(M, factors.words))
    return factors._replace(core=blocks.fitted_core(factors.words, MW), carried=MW)


def _semantic_matrix(M: Any, n_words: int, shift: float) -> Array:
    """Return the shifted M as row blocks, refusing one of other words or without symmetry."""
    if getattr(M, "shape", None) != (n_words, n_words):
        raise ValueError(
            f"M has shape {getattr(M, 'shape', None)} and X has {n_words} words; align both to one "
            f"vocabulary, so that M is {n_words} × {n_words}."
        )
    matrix = row_blocks(checked_matrix(M, name="M", finite=False))
    check_nonnegative(matrix, name="M")
    _check_symmetric(matrix)
    if shift == 1:
        return matrix
    if isinstance(matrix, da.Array):
        return map_blocks(_shifted, matrix, shift, dtype=matrix.dtype, meta=matrix._meta)
    return blocks.shifted(matrix, shift=shift)


def _shifted(block: csr_array, shift: float) -> csr_array:
    return blocks.shifted(block, shift=shift)


def _check_symmetric(M: Array) -> None:
    """Raise ValueError unless uᵀ M v = vᵀ M u for random u and v, which one pass over the rows decides."""
    probes = np.random.default_rng(0).random((M.shape[0], 2))
    image = compute(_times(M, probes))
    one, other = probes[:, 0] @ image[:, 1], probes[:, 1] @ image[:, 0]
    if abs(one - other) > 1e-5 * abs(one):
        raise ValueError(
            f"M is not symmetric (uᵀMv = {one:.8g}, vᵀMu = {other:.8g} for random u, v); "
            "count in a symmetric window, or pass (M + M.T) / 2."
        )


def _alike(X: Array, M: Array) -> tuple[Array, Array]:
    """Return both matrices in memory or both as Dask arrays."""
    if isinstance(X, da.Array) == isinstance(M, da.Array):
        return X, M
    return one_lazy_block(X), one_lazy_block(M)


__all__ = ["NMF", "OrthogonalNMF", "SemanticNMF"]
