"""Feature-preserving embeddings: known features of some rows carried to others, in one or two sets.

P. Krafft, S. Mahadevan, Feature-Preserving Embeddings for Topic Transfer. A *correspondence* says that a row of the
first set and a row of the second are the same thing. The features (topic proportions) of the first set are known,
those of the second are wanted. A round solves k sparse systems for the embedding, in tasks of a group of them each, and
a small regression for the features; the graph, Z and V are in the memory of the caller.

L : graph Laplacian, n × n, CSR. c : confidence of each row's known value, (n,), 0 where there is none; C = diag(c).
V : feature values, (n × f). Z : embedding, (n × k). F : regression weights, (k × f).
s, Q : eigenvalues and eigenvectors of F Fᵀ; (L^p + s_i C) (Z Q)_i = (C V Fᵀ Q)_i is system i.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, Literal, NamedTuple, overload

import dask.array as da
import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, TransformerTags
from sklearn.utils.validation import check_is_fitted

from distembed.dtypes import Float64s
from distembed.execution import compute, one_blas_thread, shared, tell
from distembed.lift import lift
from distembed.linalg import columns
from distembed.linalg.operators import times_matrix, whole_rows
from distembed.manifold.correspondences import correspondence_matrix, known_values, shared_values
from distembed.manifold.eigenmaps import place_rows, smallest_eigenpairs
from distembed.manifold.propagation import propagate_correspondences
from distembed.neighbors.distances import Metric
from distembed.neighbors.graphs import (
    Affinity,
    Normalization,
    Symmetry,
    check_graph,
    components,
    degrees_of,
    joint_adjacency,
    laplacian,
    neighbor_affinity,
)
from distembed.options import NonNegativeFloat, PositiveFloat, PositiveInt, RandomState, check_options
from distembed.states import block_memory, keep, newest, scope
from distembed.typing import DenseMatrix, InMemory, MatrixLike, SparseMatrix, VectorLike
from distembed.validation import check_length, check_matrix, seed_of, training_matrix

SYSTEM_COPIES, SYSTEM_GROUPS, LEAST_SYSTEMS = 8, 8, 4
"""Copies of its columns that a task of `solve_shifted` holds, and the most groups and the fewest systems of one: in
smaller groups the sparse product cannot share its index over columns."""
EXPLAINED = 1e-8
"""The least share of the largest known value that a start from eigenvectors explains, beyond rounding."""
ZERO_EIGENVALUE = 1e-13
"""Share of the largest eigenvalue of F Fᵀ under which one is rounding: the pseudo-inverse's cut-off."""
LEAST_ROUGHNESS = 1e-12
"""Roughness of a constant against that of the embedding: it bounds the scale of what L does not see."""


def check_n_components(n_components: int, n: int) -> None:
    """Raise ValueError unless there are as many of n rows as components."""
    if not 1 <= n_components <= n:
        raise ValueError(f"n_components is {n_components}: choose 1 to the {n} rows")


class FeaturePreservingEmbedding(ClassNamePrefixFeaturesOutMixin, BaseEstimator):
    """Embed rows so that the known features are linear in the embedding, and infer the unknown ones.

    Minimizes over Z (n + m × k) and F (k × f)::

        tr(Zᵀ L^p Z) + Σ_i c_i ‖(Z F)_i + v̄ - v_i‖² + λ σ² ‖F‖²

    over rows i with known values v_i (confidence c_i), v̄ their mean, σ² their variance, L the Laplacian of
    the joint graph [[W1, μC], [μCᵀ, W2]]. Rows of the second set with correspondences take the weighted mean
    of the first set's values as known, with the mean confidence, so weighted: Σ_i c_ij² / Σ_i c_ij.

    Why the ridge on F: with λ = 0, the paper's objective, Z -> aZ and F -> F/a keep the fit and shrink the first term
    by a², so that its infimum is that of the fit alone, at a = 0, with no smoothness left. The paper's alternation is
    only stopped early on its way there. With λ > 0 the smallest value over the scale, and over every other invertible
    change of basis, is 2σ√λ ‖L^(p/2) Z F‖_*: the problem is a fit of low rank with the nuclear norm of its roughness as
    penalty, convex in Z F as long as k is at least its rank. λ alone then balances fit against smoothness. λ = 0
    remains possible.

    Parameters
    ----------
    n_components : int
        Dimension k of the embedding; a dimension above the rank of the features gains nothing.
    n_neighbors : int
        Number of neighbors of each row in the graph of its set, see `neighbor_affinity`.
    affinity : "binary", "cosine", "gaussian" or "local"
        The weight of an edge between neighbors.
    symmetry : "mutual" or "union"
        "mutual" keeps an edge if both rows list each other as neighbors, "union" if one of them does.
    metric : "cosine" or "euclidean"
        The distance between rows by which neighbors are sought.
    correspondence_weight : float
        The weight μ of an edge between corresponding rows.
    regularization : float
        The weight λ of the ridge on F, in units of the variance of the features, so that it means the same for
        all features.
    normalization : "none" or "symmetric"
        Normalization of the Laplacian. "none" smooths Z F itself; "symmetric", the paper's, smooths Z F divided by the
        root of the degree: rows with strong links then get larger values than their neighbors.
    smoothness : int
        The order p of the penalty. With few known rows, p = 1 gives almost a constant with a spike at each known row
        (Nadler, Srebro & Zhou 2009), and 2 to 4 continue trends. The condition number of L^p is the p-th power of that
        of L, so that p > 1 suits small graphs only.
    missing : "masked" or "imputed"
        "masked" minimizes the objective above; "imputed" is the paper's loop, which fills unknown values with Z F
        and solves as if all were known. It descends far more slowly, and depends on where it starts.
    init : "alignment" or "random"
        "alignment" starts from the eigenvectors of the joint Laplacian, "random" from Unif(-1, 1) as the paper.
        Where the eigenvectors explain nothing of the known values, as the constant one of a connected graph, the
        start is random.
    center : bool
        Whether v̄ is subtracted; the paper does not, which pulls unknown values to zero.
    propagate : bool
        Whether further correspondences are found first, see `propagate_correspondences`; they count as
        correspondences with their probabilities as confidence.
    max_iter : int
        Largest number of rounds.
    tol : float
        The smallest relative fall of the objective in a round; with 0 there are `max_iter` rounds.
    solver_tol : float
        The largest relative residual of a linear system in a round; a round with a larger one is not the last.
    solver_max_iter : int
        Largest number of steps for a linear system in a round.
    random_state : int, None, Generator or RandomState
        The seed of the random start, and of the factors that propagation compares.

    Attributes
    ----------
    embedding_ : Z, (n + m, k)
    regression_ : F, (k, f)
    features_ : Z F + v̄ for every row of X2; for every row of X in the form of one set
    mean_, variance_ : v̄, (f,), and σ², the mean over features
    objective_ : value before the first round and after each
    converged_, n_iter_ : whether tol was reached with systems solved to solver_tol, and in how many rounds
    solver_residuals_ : largest relative residual of the systems of each round, (``n_iter_``,)
    adjacency_, links_, confidence_ : the joint graph, C, and c_i of all rows

    References
    ----------
    Krafft & Mahadevan, Feature-Preserving Embeddings for Topic Transfer, section 4.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> X1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # two sets of rows in columns of their own
    >>> X2 = np.array([[10.0, 0.0], [8.0, 2.0], [6.0, 4.0], [4.0, 6.0], [2.0, 8.0]])
    >>> V1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # the features of the first set
    >>> pairs = [[0, 0], [2, 2], [4, 4]]  # rows that correspond
    >>> options = {"n_neighbors": 2, "metric": "euclidean", "regularization": 1e-3}
    >>> model = de.FeaturePreservingEmbedding(n_components=2, **options)
    >>> print(model.fit(X1, X2, V1, pairs).features_.round(1).ravel())  # inferred for the second set
    [0.  0.8 2.  3.2 4. ]
    """

    def __init__(
        self,
        n_components: PositiveInt = 20,
        *,
        n_neighbors: PositiveInt = 10,
        affinity: Affinity = "local",
        symmetry: Symmetry = "mutual",
        metric: Metric = "cosine",
        correspondence_weight: PositiveFloat = 1.0,
        regularization: NonNegativeFloat = 1.0,
        normalization: Normalization = "none",
        smoothness: PositiveInt = 1,
        missing: Literal["masked", "imputed"] = "masked",
        init: Literal["alignment", "random"] = "alignment",
        center: bool = True,
        propagate: bool = False,
        max_iter: PositiveInt = 50,
        tol: NonNegativeFloat = 1e-4,
        solver_tol: PositiveFloat = 1e-4,
        solver_max_iter: PositiveInt = 500,
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.affinity = affinity
        self.symmetry = symmetry
        self.metric = metric
        self.correspondence_weight = correspondence_weight
        self.normalization = normalization
        self.propagate = propagate
        self.random_state = random_state
        self.regularization = regularization
        self.smoothness = smoothness
        self.missing = missing
        self.init = init
        self.center = center
        self.max_iter = max_iter
        self.tol = tol
        self.solver_tol = solver_tol
        self.solver_max_iter = solver_max_iter

    def fit(
        self,
        X1: MatrixLike,
        X2: MatrixLike,
        V1: DenseMatrix | None = None,
        correspondences: InMemory | None = None,
    ) -> FeaturePreservingEmbedding:
        """Learn from two sets, or with two arguments from one: fit(X, V).

        Parameters
        ----------
        X1, X2 : (n × d1), (m × d2). In the form of one set X2 is V, (n × f)
        V1 : (n × f), rows that are all NaN are unknown
        correspondences : see `correspondence_matrix`

        Raises
        ------
        ValueError
            If V1 has another number of rows, rows partly NaN, or no known row; if correspondences are none or
            faulty; if n_components exceeds the rows; if an option is unknown.

        Warns
        -----
        ConvergenceWarning
            If a `tol` above 0 is not reached in `max_iter` rounds, or `solver_tol` not in the last of them.
        UserWarning
            If rows are joined to no known value: they get the mean.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X, V = np.arange(5.0)[:, None], np.array([[0.0], [np.nan], [2.0], [3.0], [4.0]])
        >>> model = de.FeaturePreservingEmbedding(n_components=2, n_neighbors=2, metric="euclidean").fit(X, V)
        >>> model.embedding_.shape, model.regression_.shape, model.features_.shape
        ((5, 2), (2, 1), (5, 1))
        """
        if X2 is None:
            raise ValueError(
                "FeaturePreservingEmbedding requires y to be passed, but the target y is None: call fit(X, V) or "
                "fit(X1, X2, V1, correspondences)"
            )
        if V1 is None and correspondences is not None:
            raise ValueError("correspondences are given without V1: call fit(X1, X2, V1, correspondences)")
        check_options(self)
        sets, joined = self._training_sets(*((X1,) if V1 is None else (X1, X2))), {}
        if V1 is None:
            values, confidence = known_values(X2, sets[0].shape[0])
        else:
            pairs = [] if correspondences is None else correspondences
            links = correspondence_matrix(pairs, *(X.shape[0] for X in sets))
            if not links.nnz:
                raise ValueError(
                    "there are no correspondences, so nothing joins the two sets: give at least one pair"
                )
            if self.propagate:
                seed = seed_of(self.random_state)
                found = propagate_correspondences(
                    sets[0], sets[1], links, metric=self.metric, random_state=seed
                )
                links = found.links
            joined = {(0, 1): links}
            values, confidence = shared_values(V1, links)
        names = ("affinity", "symmetry", "metric")
        graph_options: dict[str, Any] = {name: getattr(self, name) for name in names}
        check_n_components(self.n_components, len(values))  # before the long work
        graphs = []
        for number, X in enumerate(sets, start=1):
            with scope(f"set-{number}", self.n_neighbors, graph_options, X):
                graphs.append(neighbor_affinity(X, self.n_neighbors, **graph_options))
        joint = joint_adjacency(graphs, joined, weight=self.correspondence_weight)
        self._fit_graph(joint, values, confidence, sets)
        if joined:
            self.links_ = links
        return self

    def fit_graph(
        self,
        adjacency: SparseMatrix,
        V: DenseMatrix,
        confidence: VectorLike | None = None,
        *,
        sets: tuple[MatrixLike, ...] = (),
    ) -> FeaturePreservingEmbedding:
        """Learn on a given graph: of more than two sets (`joint_adjacency`), or of any other origin.

        Parameters
        ----------
        adjacency : symmetric sparse (N × N)
        V : (N × f), unknown rows NaN
        confidence : (N,), c_i; default 1 for known rows. 0 makes a row unknown.
        sets : the rows behind the graph, needed by `transform` only

        Raises
        ------
        ValueError
            See `fit`; if the adjacency is not symmetric, or it or the confidence is negative, NaN or infinite.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> from scipy.sparse import csr_array
        >>> chain = csr_array(np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1))  # four rows in a row
        >>> V = np.array([[0.0], [np.nan], [np.nan], [3.0]])
        >>> model = de.FeaturePreservingEmbedding(n_components=2, regularization=1e-4).fit_graph(chain, V)
        >>> print(model.features_.round(1).ravel())
        [0. 1. 2. 3.]
        """
        check_options(self)
        graph = check_graph(adjacency, name="adjacency")
        if confidence is not None:
            confidence = check_length(confidence, graph.shape[0], "confidence", of="rows")
        return self._fit_graph(graph, V, confidence, self._training_sets(*sets) if sets else ())

    def _fit_graph(
        self, adjacency: sp.csr_array, V: DenseMatrix, confidence: Float64s | None, sets: tuple[Any, ...]
    ) -> FeaturePreservingEmbedding:
        """Learn on a graph, of rows that are checked as all else is."""
        self.__dict__.pop("links_", None)  # of a fit before
        self._fitted_options = self.get_params(deep=False)  # new rows are placed by what the others were
        self.adjacency_, self.sets_ = adjacency, sets
        self.sizes_ = tuple(rows.shape[0] for rows in sets)
        values, known = known_values(V, adjacency.shape[0])
        weights = known if confidence is None else known * confidence
        check_n_components(self.n_components, len(weights))
        if not weights.any():
            raise ValueError("no row of V is known: give at least one row without NaN")
        mean = weights @ values / weights.sum()
        self.variance_ = float(weights @ ((values - mean) ** 2).mean(axis=1) / weights.sum())
        self.mean_ = mean if self.center else np.zeros_like(mean)
        self.confidence_, parts = weights, components(self.adjacency_)
        unreached = np.bincount(parts, weights)[parts] == 0
        if unreached.any():
            warnings.warn(
                f"{unreached.sum()} rows are joined to no known value and get the mean, "
                f"first rows {np.flatnonzero(unreached)[:5].tolist()}: raise n_neighbors, or add correspondences",
                UserWarning,
                stacklevel=3,
            )
        target = np.where(weights[:, None] > 0, values - self.mean_, 0.0)
        smoother = laplacian(self.adjacency_, normalization=self.normalization)
        with one_blas_thread(), scope("embedding", self.get_params(), self.adjacency_, V, confidence):
            found, self.converged_ = alternate(self, (smoother, weights, target), unreached)
            inferred = found.Z @ found.F + self.mean_
        self.embedding_, self.regression_, self.objective_, self.solver_residuals_ = found
        self._degrees = degrees_of(self.adjacency_)
        self.n_iter_ = len(found.residuals)
        self.features_ = inferred[self.sizes_[0] :] if len(sets) == 2 else inferred
        if (left := found.residuals[-1] if self.n_iter_ else 0.0) > self.solver_tol:
            warnings.warn(
                f"the systems of round {self.n_iter_} were left at a relative residual of {left:.2g} after "
                f"{self.solver_max_iter} steps, above solver_tol {self.solver_tol:g}: raise solver_max_iter",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif not self.converged_ and self.tol > 0:
            warnings.warn(
                f"the objective still fell by more than {self.tol:g} of itself in round {self.n_iter_}: "
                "raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def __sklearn_tags__(self) -> Tags:
        """Return the scikit-learn tags: sparse rows where only cosines are needed; targets of several columns."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse()
        tags.transformer_tags = TransformerTags(preserves_dtype=["float64"])
        tags.target_tags.required = tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    def _takes_sparse(self) -> bool:
        return self.metric == "cosine" and not self.propagate

    def _training_sets(self, *sets: MatrixLike) -> tuple[Any, ...]:
        """Return the sets of rows to learn from, checked; the features of the first are those of the estimator."""
        rules: dict[str, Any] = {"sparse": self._takes_sparse(), "min_rows": 2}
        first = training_matrix(self, sets[0], name="X" if len(sets) == 1 else "X1", **rules)
        others = enumerate(sets[1:], start=2)
        return first, *(check_matrix(X, name=f"X{number}", estimator=self, **rules) for number, X in others)

    @property
    def _n_features_out(self) -> int:
        return int(self.regression_.shape[0])

    @overload
    def transform(self, X: da.Array, *, data_set: int = 0) -> da.Array: ...

    @overload
    def transform(self, X: InMemory, *, data_set: int = 0) -> Float64s: ...

    def transform(self, X: MatrixLike, *, data_set: int = 0) -> Float64s | da.Array:
        """Return the embedding (r × k) of new rows of set 0 or 1: the mean of their neighbors, weighted by nearness.

        It minimizes the first term for the new rows alone, everything else fixed. Rows of zeros are put at
        the origin, where the features are v̄. It is lazy where X is a Dask array: each of its tasks then holds all rows
        of the set.

        Raises
        ------
        ValueError
            If there is no such set, the model was fitted to a graph, or X has other columns than the set or
            holds NaN or infinity.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X, V = np.arange(5.0)[:, None], np.array([[0.0], [np.nan], [2.0], [3.0], [4.0]])
        >>> model = de.FeaturePreservingEmbedding(n_components=2, n_neighbors=2, metric="euclidean").fit(X, V)
        >>> model.transform(np.array([[1.5], [2.5]])).shape
        (2, 2)
        """
        check_is_fitted(self, "embedding_")
        if not 0 <= data_set < len(self.sets_):
            raise ValueError(
                f"data_set is {data_set}, but the model was fitted to {len(self.sets_)} sets of rows"
            )
        fitted, options = self.sets_[data_set], self._fitted_options
        rules: dict[str, Any] = {"sparse": self._takes_sparse(), "reset": None if data_set else False}
        rows = check_matrix(X, estimator=self, **rules)
        if rows.shape[1] != fitted.shape[1]:
            raise ValueError(
                f"X has {rows.shape[1]} features, but set {data_set} of {type(self).__name__} has {fitted.shape[1]}"
            )
        begin, lazy = sum(self.sizes_[:data_set]), isinstance(rows, da.Array)
        of_set = slice(begin, begin + self.sizes_[data_set])
        degrees = self._degrees[of_set]
        degrees = np.sqrt(np.where(degrees > 0, degrees, 1.0))  # a row without an edge has any length
        scale = degrees if options["normalization"] == "symmetric" else np.ones_like(degrees)
        return lift(
            place_rows, "wc->wk", whole_rows(rows) if lazy else rows,
            dtype=np.float64, sizes={"k": self.embedding_.shape[1]}, fitted=shared(fitted) if lazy else fitted,
            embedding=self.embedding_[of_set] / scale[:, None], scale=scale, k=options["n_neighbors"],
            metric=options["metric"],
        )  # fmt: skip

    @overload
    def predict(self, X: da.Array, *, data_set: int = 0) -> da.Array: ...

    @overload
    def predict(self, X: InMemory, *, data_set: int = 0) -> Float64s: ...

    def predict(self, X: MatrixLike, *, data_set: int = 0) -> Float64s | da.Array:
        """Return the features (r × f) of new rows of set 0 or 1; lazily where X is a Dask array.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X, V = np.arange(5.0)[:, None], np.array([[0.0], [np.nan], [2.0], [3.0], [4.0]])
        >>> options = {"n_neighbors": 2, "metric": "euclidean", "regularization": 1e-3}
        >>> model = de.FeaturePreservingEmbedding(n_components=2, **options).fit(X, V)
        >>> print(model.predict(np.array([[2.5]])).round(1))
        [[2.5]]
        """
        embedding = self.transform(X, data_set=data_set)
        if isinstance(embedding, da.Array):
            return times_matrix(embedding, self.regression_) + self.mean_
        with one_blas_thread():
            return np.asarray(embedding @ self.regression_ + self.mean_)


class Embedding(NamedTuple):
    """Z and F, with the objective before the first round and after each, and what was left of the systems of each."""

    Z: Float64s
    F: Float64s
    objective: Float64s
    residuals: Float64s


Problem = tuple[Any, Float64s, Float64s]
"""L, c and V, which are the same in every round."""


def alternate(model: FeaturePreservingEmbedding, problem: Problem, unreached: Any) -> tuple[Embedding, bool]:
    """Improve Z and F in turn until the objective falls by no more than the share tol, and return whether it did.

    Each round is kept. A round whose systems have not converged is never the last, however little the objective fell in
    it. Eigenvectors that are constant over the known rows explain nothing, and no round departs from them: then the
    start is random.
    """
    state, seed = compute(newest("round", Embedding)[1]), seed_of(model.random_state)
    for init in (model.init, "random") if state is None else ():
        if init == "random":
            Z = np.random.default_rng(seed).uniform(-1, 1, (len(unreached), model.n_components))
        else:
            Z = smallest_eigenpairs(model.adjacency_, model.n_components, random_state=seed).vectors
        if model.missing == "masked":
            Z[unreached] = 0.0
        _, confidence, target = problem
        if model.missing == "imputed":
            confidence, target = np.ones_like(confidence), confidence[:, None] * target
        Z, F, value = regress(model, problem, Z, confidence, target)
        state = Embedding(Z, F, np.array([value]), np.zeros(0))
        if np.abs(confidence[:, None] * (Z @ F)).max() > EXPLAINED * np.abs(target).max():
            break
    while True:
        number = len(state.residuals)
        before, value = state.objective[max(0, number - 1)], state.objective[number]
        has_settled = model.tol > 0 and before - value <= model.tol * abs(before)
        if number and has_settled and state.residuals[-1] <= model.solver_tol:
            return state, True
        if number >= model.max_iter:
            return state, False
        make = partial(one_round, model, problem, state)
        state = compute(keep("round", make, Embedding, number=number + 1))
        tell("rounds", number + 1)


def one_round(model: FeaturePreservingEmbedding, problem: Problem, state: Embedding) -> Embedding:
    """Return the best Z for F by k sparse systems, and the best F for that, with their largest relative residual.

    Where unknown values are imputed, Z F fills them before (the paper's step 8.3). That majorizes the objective, so
    that it falls in these rounds too.
    """
    (L, confidence, target), (Z, F, objective, residuals) = problem, state
    if model.missing == "imputed":
        target = confidence[:, None] * target + (1 - confidence[:, None]) * (Z @ F)
        confidence = np.ones_like(confidence)
    shifts, basis = np.linalg.eigh(F @ F.T)
    shifts[shifts < ZERO_EIGENVALUE * max(shifts[-1], 0.0)] = 0.0
    right = (confidence[:, None] * target) @ (F.T @ basis)
    right[:, shifts == 0] = 0.0
    width = group_width(right.shape[0], right.shape[1], block_memory())
    solved = lift(
        columns.solve_shifted, "k,nk,nk->mk", da.from_array(shifts, chunks=width),
        *(da.from_array(values, chunks=(-1, width)) for values in (right, Z @ basis)), dtype=np.float64,
        sizes={"m": len(right) + 1}, laplacian=L, confidence=confidence, order=model.smoothness,
        tol=model.solver_tol, max_iter=model.solver_max_iter,
    )  # fmt: skip
    *_, left = found = compute(solved)
    Z, F, value = regress(model, problem, found[:-1] @ np.ascontiguousarray(basis.T), confidence, target)
    return Embedding(Z, F, np.append(objective, value), np.append(residuals, float(left.max())))


def regress(
    model: FeaturePreservingEmbedding, problem: Problem, Z: Float64s, confidence: Float64s, target: Float64s
) -> tuple[Float64s, Float64s, float]:
    """Return Z and the best F = (ZᵀCZ + ridge I)^+ ZᵀCV for it, in the best scale, and the objective."""
    L, c, V = problem
    ridge, scaled = model.regularization * model.variance_, Z * confidence[:, None]
    gram, right = scaled.T @ Z, scaled.T @ target
    if ridge > 0:
        gram.flat[:: len(gram) + 1] += ridge
        F = np.asarray(np.linalg.solve(gram, right), np.float64)
    else:
        F = np.asarray(np.linalg.pinv(gram, rcond=ZERO_EIGENVALUE, hermitian=True) @ right, np.float64)
    if ridge > 0 and F.any():
        Z, F = balance_factors(Z, F, Z.T @ columns.apply_power(L, Z, model.smoothness), ridge)
    smooth = float(np.trace(Z.T @ columns.apply_power(L, Z, model.smoothness)))
    misfit = float((c[:, None] * (Z @ F - V) ** 2).sum())
    return Z, F, smooth + misfit + ridge * float((F**2).sum())


def balance_factors(Z: Float64s, F: Float64s, roughness: Float64s, ridge: float) -> tuple[Float64s, Float64s]:
    """Return the factors of Z F for which tr(ZᵀLZ) + ridge ‖F‖² is least, 2 √ridge ‖L^½ Z F‖_*.

    With the singular values σ and right vectors W of L^½ Z F: F = ridge^-¼ σ^½ Wᵀ, Z = ridge^¼ Z F W σ^-½. The
    roughness is ZᵀLZ; `LEAST_ROUGHNESS` of the identity is added to L, in units of the roughness of Z, so that
    constants keep a scale. Where that is rounding, the identity alone is left.
    """
    gram, rough = Z.T @ Z, float(np.trace(roughness))
    total = max(float(np.trace(gram)), np.finfo(float).tiny)
    if rough <= np.finfo(float).eps * total:
        roughness, rough = np.zeros_like(gram), total
    squares, basis = np.linalg.eigh(roughness + LEAST_ROUGHNESS * rough * (gram / total))
    root = np.sqrt(np.maximum(squares, 0.0))[:, None] * basis.T
    _, values, right = np.linalg.svd(root @ F, full_matrices=False)
    sizes = np.sqrt(np.maximum(values, ZERO_EIGENVALUE * max(values[0], np.finfo(float).tiny)))
    weights, rotated = np.zeros_like(F), np.zeros_like(Z)
    weights[: len(sizes)] = ridge**-0.25 * sizes[:, None] * right
    rotated[:, : len(sizes)] = ridge**0.25 * (Z @ (F @ right.T)) / sizes
    return rotated, weights


def group_width(n_rows: int, n_systems: int, block_memory: int) -> int:
    """Return the number of systems of one task, from the problem and the memory of a task."""
    fitting = max(1, block_memory // (SYSTEM_COPIES * 8 * n_rows))
    return min(fitting, max(LEAST_SYSTEMS, -(-n_systems // SYSTEM_GROUPS)), n_systems)
