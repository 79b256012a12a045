"""Feature-preserving embeddings: known features of some rows carried to others, in one or two sets.

P. Krafft, S. Mahadevan, Feature-Preserving Embeddings for Topic Transfer. A *correspondence* says that a row of the
first set and a row of the second are the same thing. The features (topic proportions) of the first set are known,
those of the second are wanted.

The graph, the embedding Z (n × k) and V (n × f) are in the memory of the caller, about 8 n (k + f) bytes and 12 bytes
per edge. Tasks run in parallel for the search for neighbors and, in each round, for the k sparse systems of the step in
Z.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, overload

import dask.array as da
import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, TransformerTags
from sklearn.utils.validation import check_is_fitted

from distembed.dtypes import Float64s
from distembed.execution import compute, in_this_thread, one_blas_thread, shared
from distembed.lift import block, lift
from distembed.linalg.operators import times_matrix, whole_rows
from distembed.manifold.alignment_rounds import Problem, alternate, has_settled
from distembed.manifold.correspondences import correspondence_matrix, known_values, shared_values
from distembed.manifold.propagation import propagate_correspondences
from distembed.neighbors.distances import Metric, domain_rows
from distembed.neighbors.graph_blocks import edge_squares
from distembed.neighbors.graphs import (
    LOCAL_NEIGHBOR,
    Affinity,
    Normalization,
    Symmetry,
    components,
    degrees_of,
    joint_adjacency,
    laplacian,
    neighbor_affinity,
    row_is_used,
)
from distembed.neighbors.search import search_lists
from distembed.options import NonNegativeFloat, PositiveFloat, PositiveInt, RandomState, check_options
from distembed.states import scope
from distembed.typing import (
    DenseMatrix,
    InMemory,
    MatrixLike,
    SparseMatrix,
    VectorLike,
    refuse_collection,
)
from distembed.validation import check_matrix, new_matrix, seed_of, training_matrix


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
        >>> X1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # two sets of rows in columns of their own
        >>> X2 = np.array([[10.0, 0.0], [8.0, 2.0], [6.0, 4.0], [4.0, 6.0], [2.0, 8.0]])
        >>> V1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # the features of the first set
        >>> pairs = [[0, 0], [2, 2], [4, 4]]  # rows that correspond
        >>> options = {"n_neighbors": 2, "metric": "euclidean", "regularization": 1e-3}
        >>> model = de.FeaturePreservingEmbedding(n_components=2, **options)
        >>> model = model.fit(X1, X2, V1, pairs)
        >>> model.embedding_.shape, model.regression_.shape, model.features_.shape
        ((10, 2), (2, 1), (5, 1))
        """
        if X2 is None:
            raise ValueError(
                "FeaturePreservingEmbedding requires y to be passed, but the target y is None: call fit(X, V) or "
                "fit(X1, X2, V1, correspondences)"
            )
        if V1 is None and correspondences is not None:
            raise ValueError("correspondences are given without V1: call fit(X1, X2, V1, correspondences)")
        sets, joined = self._training_sets(*((X1,) if V1 is None else (X1, X2))), {}
        if V1 is None:
            values, confidence = known_values(X2, sets[0].shape[0])
        else:
            pairs = [] if correspondences is None else correspondences
            links = correspondence_matrix(pairs, sets[0].shape[0], sets[1].shape[0])
            if not links.nnz:
                raise ValueError(
                    "there are no correspondences, so nothing joins the two sets: give at least one pair"
                )
            if self.propagate:
                options: dict[str, Any] = {"metric": self.metric, "random_state": seed_of(self.random_state)}
                links = propagate_correspondences(sets[0], sets[1], links, **options).links
            self.links_, joined = links, {(0, 1): links}
            values, confidence = shared_values(V1, links)
        graph_options: dict[str, Any] = {
            "affinity": self.affinity, "symmetry": self.symmetry, "metric": self.metric
        }  # fmt: skip
        graphs = []
        for number, X in enumerate(sets, start=1):
            with scope(f"set-{number}", self.n_neighbors, graph_options, X):
                graphs.append(neighbor_affinity(X, self.n_neighbors, **graph_options))
        joint = joint_adjacency(graphs, joined, weight=self.correspondence_weight)
        return self._learn(joint, values, confidence, sets)

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
            See `fit`.

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
        return self._learn(adjacency, V, confidence, self._training_sets(*sets) if sets else ())

    def _learn(
        self,
        adjacency: SparseMatrix,
        V: DenseMatrix,
        confidence: VectorLike | None,
        sets: tuple[Any, ...],
    ) -> FeaturePreservingEmbedding:
        self._fitted_options = self.get_params(deep=False)  # new rows are placed by what the others were
        refuse_collection(adjacency, "adjacency")
        self.adjacency_ = sp.csr_array(adjacency)
        self.sets_ = sets
        self.sizes_ = tuple(rows.shape[0] for rows in sets)
        values, known = known_values(V, self.adjacency_.shape[0])
        weights = known * (1.0 if confidence is None else np.asarray(confidence, np.float64))
        check_n_components(self.n_components, len(weights))
        check_options(self)
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
            found = alternate(Problem(smoother, weights, target, unreached, self))
            inferred = found.Z @ found.F + self.mean_
        self.embedding_, self.regression_, self.objective_, self.solver_residuals_ = found
        self._degrees = degrees_of(self.adjacency_)
        self.converged_, self.n_iter_ = has_settled(found, self), len(found.residuals)
        self.features_ = inferred[self.sizes_[0] :] if len(sets) == 2 else inferred
        left = found.residuals[-1] if self.n_iter_ else 0.0
        if left > self.solver_tol:
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
        check_options(self)
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
        >>> X1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # two sets of rows in columns of their own
        >>> X2 = np.array([[10.0, 0.0], [8.0, 2.0], [6.0, 4.0], [4.0, 6.0], [2.0, 8.0]])
        >>> V1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # the features of the first set
        >>> pairs = [[0, 0], [2, 2], [4, 4]]  # rows that correspond
        >>> model = de.FeaturePreservingEmbedding(n_components=2, n_neighbors=2, metric="euclidean")
        >>> model.fit(X1, X2, V1, pairs).transform(np.array([[1.5], [2.5]])).shape
        (2, 2)
        """
        check_is_fitted(self, "embedding_")
        if not 0 <= data_set < len(self.sets_):
            raise ValueError(
                f"data_set is {data_set}, but the model was fitted to {len(self.sets_)} sets of rows"
            )
        fitted, sparse = self.sets_[data_set], self._takes_sparse()
        if not data_set:
            rows = new_matrix(self, X, learned="embedding_", sparse=sparse)
        else:
            rows = check_matrix(X, estimator=self, sparse=sparse)
            if rows.shape[1] != fitted.shape[1]:
                raise ValueError(
                    f"X has {rows.shape[1]} features, but set {data_set} of {type(self).__name__} has "
                    f"{fitted.shape[1]}"
                )
        is_sparse, as_rows = (sp.issparse(getattr(one, "_meta", one)) for one in (fitted, rows))
        if is_sparse != as_rows:  # as the fitted ones are
            rows = lift(_in_form, "wc->wc", rows, dtype=rows.dtype, sparse=is_sparse, is_sparse=is_sparse)
        begin, options = sum(self.sizes_[:data_set]), self._fitted_options
        of_set = slice(begin, begin + self.sizes_[data_set])
        degrees = np.sqrt(np.maximum(self._degrees[of_set], np.finfo(float).tiny))
        scale = degrees if options["normalization"] == "symmetric" else np.ones_like(degrees)
        lazy = isinstance(rows, da.Array)
        held: list[Any] = [fitted, self.embedding_[of_set] / scale[:, None], scale]
        given = [shared(value) for value in held] if lazy else held
        return lift(
            _place, "wc->wk", whole_rows(rows) if lazy else rows,
            dtype=np.float64, sizes={"k": self.embedding_.shape[1]}, fitted=given[0],
            embedding=given[1], scale=given[2], k=options["n_neighbors"], metric=options["metric"],
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
        >>> X1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # two sets of rows in columns of their own
        >>> X2 = np.array([[10.0, 0.0], [8.0, 2.0], [6.0, 4.0], [4.0, 6.0], [2.0, 8.0]])
        >>> V1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # the features of the first set
        >>> pairs = [[0, 0], [2, 2], [4, 4]]  # rows that correspond
        >>> options = {"n_neighbors": 2, "metric": "euclidean", "regularization": 1e-3}
        >>> model = de.FeaturePreservingEmbedding(n_components=2, **options)
        >>> model = model.fit(X1, X2, V1, pairs)
        >>> print(model.predict(np.array([[7.0, 3.0]]), data_set=1).round(1))
        [[1.4]]
        """
        embedding = self.transform(X, data_set=data_set)
        if isinstance(embedding, da.Array):
            return times_matrix(embedding, self.regression_) + self.mean_
        with one_blas_thread():
            return np.asarray(embedding @ self.regression_ + self.mean_)


@block(temporaries=0.5)
def _in_form(rows: Any, *, is_sparse: bool) -> Any:
    return sp.csr_array(rows) if is_sparse else rows.toarray()


@block(temporaries=6)
def _place(X: Any, *, fitted: Any, embedding: Float64s, scale: Float64s, k: int, metric: Metric) -> Float64s:
    """Return the embedding of new rows (r × k): the mean of those of the fitted rows that they are near to.

    Rows of an embedding are divided by their scale. The weights of the k nearest fitted rows are exp(-d²/h²), h the
    distance to the `LOCAL_NEIGHBOR`-th of them, and sum to one. Where so many fitted rows are equal to a new row that h
    is 0, they share the weight and the others have none.
    """
    used, used_fitted = row_is_used(X, metric), np.flatnonzero(row_is_used(fitted, metric))
    k = min(k, used_fitted.size)
    weights, indices = np.zeros((X.shape[0], k)), np.zeros((X.shape[0], k), np.int64)
    if used.any() and k:
        with in_this_thread(), one_blas_thread():
            rows = domain_rows(X[np.flatnonzero(used)], metric=metric)
            others = domain_rows(fitted[used_fitted], metric=metric)
            marks = np.zeros(rows.shape[0], np.int64), np.ones(others.shape[0], np.int64)
            lists = compute(search_lists(rows, marks[0], others, marks[1], k=k))
        squares = edge_squares(lists, metric) if metric == "cosine" else lists[:, 0]
        own = squares[:, [min(LOCAL_NEIGHBOR, k) - 1]]
        raw = np.exp(-np.divide(squares, own, out=np.where(squares > 0, np.inf, 0.0), where=own > 0))
        weights[used] = raw / raw.sum(axis=1, keepdims=True)
        indices[used] = used_fitted[lists[:, 1].astype(np.int64)]
    means = np.einsum("rj,rjk->rk", weights, embedding[indices])
    return np.asarray(means * np.einsum("rj,rj->r", weights, scale[indices])[:, None])
