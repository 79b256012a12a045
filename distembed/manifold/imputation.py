"""Latent Semantic Imputation: vectors for rows that have none, from their neighbors among rows that do.

S. Yao, D. Yu, K. Xiao, Enhancing Domain Word Embedding via Latent Semantic Imputation, KDD 2019. The steps
are those of the paper: the MST-kNN graph (algorithm 1), the weights (equation 2) and the fixed point of Y_q
<- W_qp Y_p + W_qq Y_q (equation 7), computed by power iteration or directly as a linear system.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal, overload

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection
from scipy.sparse.csgraph import dijkstra
from sklearn.base import BaseEstimator

from distembed.display import first_words, plural
from distembed.dtypes import Float64s, Floats, Int32s, Mask
from distembed.execution import compute, one_blas_thread
from distembed.linalg.chunks import row_chunk
from distembed.linalg.columns import solve_columns
from distembed.linalg.csr import rows_of
from distembed.manifold import imputation_systems as systems
from distembed.manifold.correspondences import known_rows
from distembed.manifold.regressions import predictions
from distembed.neighbors.distances import Metric, domain_rows
from distembed.neighbors.search import search_lists
from distembed.options import PositiveFloat, PositiveInt, check_options
from distembed.states import block_memory
from distembed.typing import DenseInMemory, DenseMatrix, Frame, SparseMatrix
from distembed.validation import array_of, new_matrix, training_matrix
from distembed.vectors import WordVectors

Solver = Literal["krylov", "power"]

OPTIONS_OF_FIT = ("metric", "min_degree", "weights", "floor")
"""The options that say how the vector of a new row is found: those of the fit, whatever is set after it."""


class LatentSemanticImputation(BaseEstimator):
    """Impute the missing rows of Y from the neighbors of the rows of X.

    Solves Y_q = W_qp Y_p + W_qq Y_q, where row i of W minimizes ‖x_i - Σ_j w_ij x_j‖² over the simplex of i's
    neighbors in the MST-kNN graph of X.

    Parameters
    ----------
    min_degree : int
        Smallest number of neighbors of a row (the paper's delta).
    solver : "krylov" or "power"
        "krylov" solves the linear system by BiCGSTAB; "power" iterates as the paper does.
    tol : float
        When to stop. "krylov": the largest relative residual of a column. "power": the paper's eta, the share of ‖Y_q‖₁
        that the last sweep changed; on graphs that mix slowly it stops too early, so check `residual_`.
    max_iter : int
        Largest number of steps (two products with W each) or sweeps (one product each).
    weights : "simplex" or "normalise_after"
        "simplex" minimizes over the simplex; "normalise_after" divides non-negative least squares by its sum, as
        the authors' program does.
    metric : "euclidean" or "cosine"
        The distance between rows of X.
    floor : float
        The share of a row's smallest positive weight that is added to all its weights (the authors' epsilon).
    regressor : scikit-learn regressor, optional
        A clone of it is fitted to the known rows of X and Y, the graph imputes the residuals of its predictions, and a
        vector is the sum of both. It must predict several targets, as `sklearn.linear_model.RidgeCV()` does.

    Attributes
    ----------
    vectors_ : shape (n, s), of the kind and dtype of Y, a frame for frames; known rows are Y's, bit for bit
    graph_ : csr_array (n, n), distances from a row to those it is rebuilt from
    weights_ : csr_array (n, n), float64, rows sum to one
    certificate_ : float64, shape (n,): optimality of each row's weights before the floor, see
        `imputation_systems.rebuild_rows`
    n_iter_ : steps or sweeps done, the most of any column
    residual_ : largest over columns of ‖W_qp Y_p - (I - W_qq) Y_q‖₂ / ‖W_qp Y_p‖₂
    converged_ : whether `tol` was met
    history_ : shape (steps, 2), float64: how many steps were done, and the solver's own measure of them: "krylov" the
        largest relative residual of a column, by its recurrence; "power" ‖ΔY_q‖₁ / ‖Y_q‖₁. Every second, fourth, …
        step where there were more than `columns.RECORDED_STEPS`
    options_ : the options of the fit by which `infer` finds new rows
    regressor_ : the fitted regressor, None without one

    Notes
    -----
    A known vector of zeros pulls its neighbors towards zero, as any other vector pulls them towards itself.

    Of rows of X at the same distance those of smaller numbers are neighbors. In a table of many equal rows, as a
    one-hot table is, the vectors therefore depend on the order of the rows: nothing in X tells equal rows apart. Chunks
    and workers change nothing.

    References
    ----------
    Yao, Yu & Xiao, Enhancing Domain Word Embedding via Latent Semantic Imputation, KDD 2019: the graph is algorithm 1,
    the weights are equation 2, the fixed point is equation 7.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])  # what is known of four names
    >>> Y = np.array([[0.0, 0.0], [np.nan, np.nan], [4.0, 2.0], [6.0, 3.0]])  # the second has no vector
    >>> model = de.LatentSemanticImputation(min_degree=2).fit(X, Y)
    >>> print(model.vectors_.round(1))
    [[0. 0.]
     [2. 1.]
     [4. 2.]
     [6. 3.]]
    >>> model.converged_, model.weights_.shape
    (True, (4, 4))
    """

    vectors_: Any

    def __init__(
        self,
        *,
        min_degree: PositiveInt = 8,
        solver: Solver = "krylov",
        tol: PositiveFloat = 1e-6,
        max_iter: PositiveInt = 10_000,
        weights: Literal["simplex", "normalise_after"] = "simplex",
        metric: Metric = "euclidean",
        floor: PositiveFloat = 0.1,
        regressor: BaseEstimator | None = None,
    ) -> None:
        self.min_degree = min_degree
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.weights = weights
        self.metric = metric
        self.floor = floor
        self.regressor = regressor

    def fit(
        self, X: DenseMatrix, Y: DenseMatrix | WordVectors, *, graph: SparseMatrix | da.Array | None = None
    ) -> LatentSemanticImputation:
        """Learn the vectors of the rows of Y that are all NaN.

        Parameters
        ----------
        X : NumPy or Dask array or data frame, shape (n, d), no NaN
        Y : NumPy or Dask array, shape (n, s), floats; a row is known, or NaN throughout. Where X and Y are data frames,
            Y has a row for each known name: rows are matched by the index, and `vectors_` is a frame with that of X.
            Beside a data frame Y may be `WordVectors`, whose words are names
        graph : sparse (n, n), optional: row i's stored entries are the rows that i is rebuilt from,
            in place of the MST-kNN graph

        Raises
        ------
        ValueError
            If X holds NaN; if Y has rows that are NaN in part or infinite, or none that is known; if X and Y
            differ in rows, or an index has a name twice; if min_degree is not less than n; if an option has an
            unknown value.
        UnreachedRowsError
            If rows to impute are joined to no known one; its `rows` names them.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])  # what is known of four names
        >>> Y = np.array([[0.0, 0.0], [np.nan, np.nan], [4.0, 2.0], [6.0, 3.0]])  # the second has no vector
        >>> print(de.LatentSemanticImputation(min_degree=2).fit(X, Y).vectors_[1].round(1))
        [2. 1.]
        >>> from scipy.sparse import csr_array
        >>> graph = csr_array(np.array([[0, 1, 0, 0], [1, 0, 0, 1], [0, 1, 0, 1], [0, 1, 1, 0]]))
        >>> model = de.LatentSemanticImputation(floor=1e-6).fit(X, Y, graph=graph)
        >>> print(model.vectors_[1].round(1))  # two thirds of the first name and a third of the last one
        [2. 1.]
        """
        check_options(self)
        # `domain_rows` finds NaN and infinity in the pass that it makes over the rows.
        matrix = training_matrix(self, X, sparse=False, finite=False, min_rows=2)
        given, Y = aligned(X, Y)
        known = known_rows(Y, matrix.shape[0])  # before the long work
        rows = domain_rows(matrix, metric=self.metric)
        if graph is None:
            self.graph_ = systems.mst_knn_graph(rows, self.min_degree)
        else:
            self.graph_ = sp.csr_array(compute(graph) if isinstance(graph, da.Array) else graph, copy=True)
            self.graph_.sum_duplicates()
            if self.graph_.shape != (shape := (len(rows), len(rows))):
                raise ValueError(
                    f"the graph must be {shape[0]} x {shape[0]} like the rows of X, not {self.graph_.shape}"
                )
            if (self.graph_.indices == rows_of(self.graph_)).any():
                raise ValueError("the graph has rows among their own neighbors: clear its diagonal")
        self.weights_, self.certificate_ = systems.reconstruction_weights(
            rows, self.graph_, simplex=self.weights == "simplex", floor=self.floor
        )
        self.options_ = {name: getattr(self, name) for name in OPTIONS_OF_FIT}
        vectors, solution, self.regressor_ = systems.impute(
            self.weights_, Y, known, matrix,
            regressor=self.regressor, solver=self.solver, tol=self.tol, max_iter=self.max_iter,
        )  # fmt: skip
        self.vectors_ = in_frame(vectors, X, given)
        self.n_iter_, self.residual_, self.converged_, self.history_ = solution[1:]
        return self

    @overload
    def fit_transform(self, X: DenseMatrix, Y: da.Array) -> da.Array: ...

    @overload
    def fit_transform(self, X: DenseMatrix, Y: DenseInMemory | WordVectors) -> Floats: ...

    def fit_transform(self, X: DenseMatrix, Y: DenseMatrix | WordVectors) -> Floats | Frame | da.Array:
        """Fit and return `vectors_`.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])  # what is known of four names
        >>> Y = np.array([[0.0, 0.0], [np.nan, np.nan], [4.0, 2.0], [6.0, 3.0]])  # the second has no vector
        >>> print(de.LatentSemanticImputation(min_degree=2).fit_transform(X, Y)[1].round(1))
        [2. 1.]
        """
        vectors: Floats | Frame | da.Array = self.fit(X, Y).vectors_
        return vectors

    def infer(self, X_new: DenseMatrix, X: DenseMatrix, Y: DenseMatrix | WordVectors) -> Floats | da.Array:
        """Return the vectors of rows that `fit` has not seen, from the fitted ones; nothing is fitted again.

        A new row is rebuilt from its `min_degree` nearest rows of X, which have their vectors, with weights as `fit`
        learns them. Its vector is the same mixture of theirs; with a regressor that mixture of their residuals, added
        to the prediction for the row.

        Parameters
        ----------
        X_new : array or data frame (m, d)
            The new rows, in the columns and units of X.
        X, Y : arrays (n, d) and (n, s)
            What `fit` was given.

        Returns
        -------
        array (m, s), of the dtype of `vectors_`

        Raises
        ------
        ValueError
            If X_new has other columns than X, or holds NaN or infinity, or X has other columns or rows than that of the
            fit.
        KeyError
            If X_new is a frame without some columns of X.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [np.nan], [4.0]])
        >>> model = de.LatentSemanticImputation(min_degree=2, floor=1e-9).fit(X, Y)
        >>> model.infer(np.array([[1.5]]), X, Y).round(3).tolist()
        [[3.0]]
        """
        matrix = new_matrix(self, X, learned="vectors_", sparse=False, finite=False, min_rows=2)
        if matrix.shape[0] != (n := len(self.vectors_)):
            raise ValueError(f"X has {matrix.shape[0]} rows, but fit was given {n}: give the same ones")
        given, values = aligned(X, Y)
        known_rows(values, n)
        rows: Any = X_new
        if is_frame(X_new) and is_frame(X):
            rows = rows[list(X.columns)]  # type: ignore[union-attr]
        fitted = array_of(self.vectors_, "vectors_")
        vectors = infer(rows, matrix, fitted, model=self.regressor_, **self.options_)
        return in_frame(vectors, X_new, given)


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame in memory whose rows have names, as pandas has them."""
    return all(hasattr(X, name) for name in ("index", "columns", "reindex")) and not is_dask_collection(X)


def aligned(X: Any, Y: Any) -> tuple[Any, Any]:
    """Return Y, and its values in the order of the rows of X, by their index; rows that Y lacks are NaN.

    Word vectors beside a frame become one. Where not both are data frames, Y stays as it is: its rows are those of X.

    Raises
    ------
    ValueError
        If a name stands twice in an index, or no name stands in both.
    """
    if isinstance(Y, WordVectors) and is_frame(X):
        Y = type(X)(Y.vectors, index=list(Y.words))
    if not (is_frame(X) and is_frame(Y)):
        return Y, array_of(Y, "Y")
    for frame, called in ((X, "X"), (Y, "Y")):
        twice = [str(name) for name, count in Counter(frame.index).items() if count > 1]
        if twice:
            raise ValueError(
                f"the index of {called} has {plural(len(twice), 'name')} more than once ({first_words(twice)}): keep "
                "one row of each"
            )
    if not Y.index.isin(X.index).any():
        begins = [first_words([str(name) for name in frame.index[:3]]) for frame in (X, Y)]
        raise ValueError(
            f"no row of Y is one of X: the index of X begins with {begins[0]}, and that of Y with {begins[1]}; set the "
            "names as the index of both frames"
        )
    return Y, array_of(Y.reindex(X.index), "Y")


def in_frame(vectors: Any, X: Any, Y: Any) -> Any:
    """Return vectors as a frame with the index of X and the columns of Y, where both are frames."""
    if not (is_frame(X) and is_frame(Y)):
        return vectors
    return type(Y)(vectors, index=X.index, columns=Y.columns)


# --- rows that come after a fit -----------------------------------------------------------------------------------


def infer(
    X_new: Any,
    X: Any,
    vectors: Any,
    *,
    model: Any = None,
    min_degree: int,
    metric: Metric,
    weights: str,
    floor: float,
) -> Floats:
    """Return the vectors of new rows from those of X, (m, s): the mixtures that `LatentSemanticImputation.infer` takes.

    Parameters
    ----------
    X_new, X : rows (m, d) and (n, d)
    vectors : NumPy or Dask array (n, s), those of X
    model : the fitted regressor of which `vectors` hold predictions and imputed residuals, optional
    min_degree, metric, weights, floor : see `LatentSemanticImputation`

    Raises
    ------
    ValueError
        If X_new has other columns than X, or holds NaN or infinity.
    """
    rows, X_new = domain_rows(X, metric=metric), array_of(X_new, "X_new")
    if X_new.ndim != 2 or X_new.shape[1] != rows.shape[1]:
        raise ValueError(
            f"X_new has the shape {X_new.shape}, but the rows of X have {rows.shape[1]} columns: give the same ones"
        )
    m, n, k = X_new.shape[0], rows.shape[0], min(min_degree, rows.shape[0])
    with one_blas_thread():
        new = domain_rows(X_new.astype(rows.dtype), metric=metric, name="X_new")
        near = np.sort(compute(search_lists(new, rows, k=k)[:, 1]).astype(np.int64), axis=1) + m
        graph = sp.csr_array((np.ones(k * m), near.ravel(), k * np.arange(m + 1)), shape=(m, m + n))
        both, simplex = da.concatenate([new, rows]), weights == "simplex"
        mixed = systems.reconstruction_weights(both, graph, simplex=simplex, floor=floor)[0][:, m:]
        values, found = vectors, []
        if model is not None:
            values = da.asarray(vectors) - predictions(model, X, vectors.shape[1])
        size = row_chunk(m, 8 * k * values.shape[1], block_memory())
        for part in (mixed[first : first + size] for first in range(0, m, size)):
            needed = np.unique(part.indices)  # the rows that some of them need are read at a time
            found.append(part[:, needed] @ np.asarray(compute(values[needed]), np.float64))
        mixtures = np.concatenate(found)
        if model is not None:
            mixtures = compute(predictions(model, X_new.astype(rows.dtype), vectors.shape[1])) + mixtures
        return np.asarray(mixtures).astype(vectors.dtype)


# --- the composition of an imputed vector -------------------------------------------------------------------------
# The imputed rows solve ``Y_q = W_qp Y_p + W_qq Y_q``, so that ``Y_q = (I - W_qq)^-1 W_qp Y_p``: every imputed vector
# is a mixture of known ones. Its shares are the probabilities that a walk which starts at the row, and steps to a
# neighbor with probability w_ij, ends at each known row (absorption in a Markov chain).


TOLERANCE = 1e-10
"""The relative residual of the shares."""


def known_shares(weights: sp.csr_array, known: Mask, row: int) -> Float64s:
    """Return the shares of the known rows in an imputed one, (n,) float64; they sum to one, those of others are 0.

    ``e_iᵀ (I - W_qq)^-1 W_qp``, by one system with the transposed weights: no inverse is formed.

    Parameters
    ----------
    weights : csr_array (n, n)
        `LatentSemanticImputation.weights_`, whose rows sum to one.
    known : (n,) bool
        Which rows are known.
    row : int
        The row to explain, an imputed one.

    Raises
    ------
    ValueError
        If the row is known, or no path of weights leads from it to a known row.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.manifold.imputation import known_shares
    >>> from scipy.sparse import csr_array
    >>> weights = csr_array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    >>> known_shares(weights, np.array([False, True, False]), 0).round(6).tolist()
    [0.0, 1.0, 0.0]
    """
    if known[row]:
        raise ValueError(f"row {row} is known, and is no mixture of others: choose an imputed row")
    # The rows, in order, that walks from the row can come to before they end at a known row.
    reached = np.flatnonzero(np.isfinite(_distances(weights, known, row)[0]))
    inner, outer = reached[~known[reached]], reached[known[reached]]
    if not outer.size:
        raise ValueError(f"no path of weights leads from row {row} to a known row: connect it to one")
    rows = weights[inner]
    start = (inner == row).astype(np.float64)[:, None]
    inside = sp.csr_array(rows[:, inner].T)
    solved = solve_columns(inside, start, np.zeros((1, 1)), tol=TOLERANCE, max_iter=10_000)
    shares = np.zeros(len(known))
    shares[outer] = rows[:, outer].T @ solved[: len(inner), 0]
    return shares


def _distances(weights: sp.csr_array, known: Mask, row: int) -> tuple[Float64s, Int32s]:
    """Return ``-log`` of the most probable paths from a row, inf where there is none, and the rows before."""
    # A walk ends at a known row, so that no path leads through one; a step of probability 1 keeps a length above 0.
    open_rows = sp.csr_array(sp.diags_array((~known).astype(np.float64)) @ weights)
    open_rows.eliminate_zeros()
    steps = -np.log(np.minimum(open_rows.data, 1 - 1e-15))
    graph = sp.csr_array((steps, open_rows.indices, open_rows.indptr), shape=weights.shape)
    lengths, before = dijkstra(graph, indices=row, return_predecessors=True)
    return lengths, before


def strongest_paths(
    weights: sp.csr_array, known: Mask, row: int, targets: list[int]
) -> list[tuple[list[int], float]]:
    """Return the most probable path from an imputed row to each of some known rows that walks from it end at.

    The rows of each, from the imputed one to the known one, and the product of the weights on it.
    """
    lengths, before = _distances(weights, known, row)
    paths = []
    for end in targets:
        path = [end]
        while path[-1] != row:
            path.append(int(before[path[-1]]))
        paths.append((path[::-1], float(np.exp(-lengths[end]))))
    return paths
