"""Latent Semantic Imputation: vectors for rows that have none, from their neighbors among rows that do.

S. Yao, D. Yu, K. Xiao, Enhancing Domain Word Embedding via Latent Semantic Imputation, KDD 2019. The steps
are those of the paper: the MST-kNN graph (algorithm 1), the weights (equation 2) and the fixed point of Y_q
<- W_qp Y_p + W_qq Y_q (equation 7), computed by power iteration or directly as a linear system.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, overload

import dask.array as da
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from distembed.execution import Checkpoint, compute, one_blas_thread, persist, prefixed
from distembed.linalg.chunks import BLOCK_MEMORY
from distembed.manifold.imputation_choice import (
    LEAST_KNOWN,
    Candidate,
    HiddenFold,
    Kernel,
    best_candidate,
    candidates_of,
    fold_of,
    fold_scores,
    hold_out_folds,
    kernels_of,
    mean_scores,
)
from distembed.manifold.imputation_frames import aligned, in_frame, same_columns
from distembed.manifold.imputation_maps import (
    OPTIONS_OF_FIT,
    fit_ridge_path,
    infer_vectors,
    rows_of_kernel,
    with_departures,
    with_mapped_rows,
)
from distembed.manifold.imputation_rows import sparse_rows, without_duplicates
from distembed.manifold.imputation_systems import (
    Solution,
    UnreachedRowsError,
    check_graph,
    filled,
    imputed_rows,
    known_rows,
    reconstruction_weights,
    solve,
)
from distembed.neighbors.distances import Metric, as_euclidean, domain_rows
from distembed.neighbors.search import nearest_rows
from distembed.neighbors.spanning_tree import spanning_neighbor_graph, spanning_tree_of
from distembed.options import PositiveFloat, PositiveInt, RandomState, check_options
from distembed.typing import DenseInMemory, DenseMatrix, Floats, Frame, SparseMatrix
from distembed.validation import array_of, seed_of, training_matrix

Solver = Literal["krylov", "power"]
Method = Literal["graph", "linear_map", "combined", "auto"]

CHOICE_FOLDS, CHOICE_ROWS = 5, 2000
"""Number of folds of known rows that are hidden to choose a method, and the largest number of hidden rows."""

__all__ = ["LatentSemanticImputation", "UnreachedRowsError"]


class LatentSemanticImputation(BaseEstimator):
    """Impute the missing rows of Y from the neighbors that the rows of X have.

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
    lazy : bool
        Whether "power" iterates with (W + I)/2, as the authors' program does; the limit is the same.
    floor : float
        The share of a row's smallest positive weight that is added to all its weights (the authors' epsilon).
    block_memory : int
        The memory of one task in bytes.
    checkpoint : Checkpoint
        Keeps the neighbor lists, tree searches, weights and solved columns, so that a job resumes.
    method : "graph", "linear_map", "combined" or "auto"
        "graph" is Latent Semantic Imputation; "linear_map" a ridge regression of the known vectors on their rows of X;
        "combined" imputes the residuals of that map and adds them to it; "auto" hides some known rows and takes the
        method that finds their vectors best, by the cosine after the mean of the known vectors is subtracted.
    ridge : float, optional
        The ridge of the map, in units of the mean squared length of a known row of X less the mean. By default, the
        value that finds hidden known rows best.
    kernel : "linear", "rbf" or "auto"
        "linear": the map is linear in the rows of X. "rbf": a kernel ridge regression with the kernel exp(-‖x - z‖² /
        scale), whose scale is the median squared distance of known rows that differ. "auto": the one of both that
        finds hidden known rows best; with `method="auto"` it is chosen with the method.
    random_state : int, None, Generator or RandomState
        The seed of the known rows that are hidden for a choice, and of those that span the kernel's features. None and
        a generator draw one for each fit; the checkpoint keeps it as "seed", so that a fit that resumes has the same.

    Attributes
    ----------
    vectors_ : shape (n, s), of the kind and dtype of Y, a frame for frames; known rows are Y's, bit for bit
    graph_ : csr_array (n, n), distances from a row to those it is rebuilt from; a Dask array of CSR row blocks where
        `set_graph` was given one of more than `block_memory`
    weights_ : csr_array (n, n), float64, rows sum to one; a Dask array of CSR row blocks where the graph is one
    certificate_ : float64, shape (n,): optimality of each row's weights before the floor, see `blocks`
    n_iter_ : steps or sweeps done, the most of any column
    residual_ : largest over columns of ‖W_qp Y_p - (I - W_qq) Y_q‖₂ / ‖W_qp Y_p‖₂
    converged_ : whether `tol` was met
    history_ : shape (steps, 2), float64: how many steps were done, and the solver's own measure of them: "krylov" the
        largest relative residual of a column, by its recurrence; "power" ‖ΔY_q‖₁ / ‖Y_q‖₁. Every second, fourth, …
        step where there were more than `columns.RECORDED_STEPS`
    seed_, options_ : the seed of the fit, and its options by which `infer` finds new rows
    method_, ridge_, kernel_ : the method, and the ridge and kernel of its map; the graph has no map: 0 and "linear"
    choice_ : the mean score of each `Candidate`, where one was chosen. The best one's is optimistic, since it was
        chosen by it

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
        lazy: bool = False,
        floor: PositiveFloat = 0.1,
        block_memory: PositiveInt = BLOCK_MEMORY,
        checkpoint: Checkpoint = persist,
        method: Method = "graph",
        ridge: PositiveFloat | None = None,
        kernel: Kernel = "linear",
        random_state: RandomState = 0,
    ) -> None:
        self.min_degree = min_degree
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.weights = weights
        self.metric = metric
        self.lazy = lazy
        self.floor = floor
        self.block_memory = block_memory
        self.checkpoint = checkpoint
        self.method = method
        self.ridge = ridge
        self.kernel = kernel
        self.random_state = random_state

    def fit(
        self, X: DenseMatrix, Y: DenseMatrix, *, graph: SparseMatrix | da.Array | None = None
    ) -> LatentSemanticImputation:
        """Learn the vectors of the rows of Y that are all NaN.

        Parameters
        ----------
        X : NumPy or Dask array or data frame, shape (n, d), no NaN
        Y : NumPy or Dask array, shape (n, s), floats; a row is known, or NaN throughout. Where X and Y are data frames,
            Y has a row for each known name: rows are matched by the index, and `vectors_` is a frame with that of X
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
        matrix = self._training_matrix(X)
        known_rows(array_of(aligned(X, Y), "Y"), matrix.shape[0])  # before the long work
        rows = self._domain_rows(matrix)
        if graph is None:
            self._learn_graph(rows)
        else:
            self.set_graph(graph)
        self._learn_weights(rows)
        return self.fit_vectors(Y, X)

    def fit_graph(self, X: DenseMatrix, *, distances: da.Array | None = None) -> LatentSemanticImputation:
        """Learn `graph_`, the MST-kNN graph of the rows of X: the first third of `fit`.

        Parameters
        ----------
        X : array (n, d)
            The rows.
        distances : what `distance_rows` gave for X in the same metric, where it is kept on disk or in memory; it gives
            the same graph, bit for bit, and saves computing the distances

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])  # what is known of four names
        >>> Y = np.array([[0.0, 0.0], [np.nan, np.nan], [4.0, 2.0], [6.0, 3.0]])  # the second has no vector
        >>> graph = de.LatentSemanticImputation(min_degree=2).fit_graph(X).graph_
        >>> graph[[0]].indices.tolist(), graph[[0]].data.tolist()  # neighbors of the first row, distances
        ([1, 2], [1.0, 2.0])
        """
        check_options(self)
        self._learn_graph(self._domain_rows(self._training_matrix(X)), distances)
        return self

    def set_graph(self, graph: SparseMatrix | da.Array) -> LatentSemanticImputation:
        """Take a graph learned before, or one's own; see `fit`.

        Parameters
        ----------
        graph : sparse (n, n), or Dask array of sparse row blocks
            Row i's stored entries are the rows that i is rebuilt from. A Dask array that takes more than
            `block_memory` is read by row blocks, and `weights_` will be such an array.

        Returns
        -------
        LatentSemanticImputation
            The estimator itself.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])  # what is known of four names
        >>> Y = np.array([[0.0, 0.0], [np.nan, np.nan], [4.0, 2.0], [6.0, 3.0]])  # the second has no vector
        >>> graph = de.LatentSemanticImputation(min_degree=2).fit_graph(X).graph_
        >>> model = de.LatentSemanticImputation().set_graph(graph).fit_weights(X).fit_vectors(Y)
        >>> print(model.vectors_[1].round(1))
        [2. 1.]
        """
        self.graph_ = without_duplicates(sparse_rows(graph, self.block_memory))
        return self

    def fit_weights(self, X: DenseMatrix) -> LatentSemanticImputation:
        """Learn `weights_` and `certificate_` on the graph: the second third of `fit`.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])  # what is known of four names
        >>> Y = np.array([[0.0, 0.0], [np.nan, np.nan], [4.0, 2.0], [6.0, 3.0]])  # the second has no vector
        >>> model = de.LatentSemanticImputation(min_degree=2, floor=1e-6).fit_graph(X).fit_weights(X)
        >>> print(model.weights_.toarray()[1].round(2))  # the second row is halfway between its neighbors
        [0.5 0.  0.5 0. ]
        """
        check_options(self)
        check_is_fitted(self, "graph_")
        self._learn_weights(self._domain_rows(self._training_matrix(X)))
        return self

    def _training_matrix(self, X: DenseMatrix) -> Any:
        # `domain_rows` finds NaN and infinity in the pass that it makes over the rows.
        return training_matrix(self, X, sparse=False, finite=False, min_rows=2)

    def _domain_rows(self, matrix: Any) -> da.Array:
        return domain_rows(matrix, metric=self.metric, block_memory=self.block_memory)

    def _learn_graph(self, rows: da.Array, distances: da.Array | None = None) -> None:
        with one_blas_thread():
            self.graph_ = self._build_graph(rows, as_euclidean(distances, self.metric))

    def _learn_weights(self, rows: da.Array) -> None:
        check_graph(self.graph_, rows.shape[0])
        with one_blas_thread():
            self.weights_, self.certificate_ = reconstruction_weights(
                rows,
                self.graph_,
                simplex=self.weights == "simplex",
                floor=self.floor,
                block_memory=self.block_memory,
                checkpoint=self.checkpoint,
            )

    def set_weights(self, weights: SparseMatrix | da.Array) -> LatentSemanticImputation:
        """Take the weights of an earlier `fit_weights`, sparse (n, n), rows summing to one.

        Parameters
        ----------
        weights : sparse (n, n), or Dask array of sparse row blocks
            Rows sum to one. A Dask array that takes more than `block_memory` is read by row blocks, one at a time in
            each task of `fit_vectors`.

        Returns
        -------
        LatentSemanticImputation
            The estimator itself.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> from scipy.sparse import csr_array
        >>> weights = csr_array(np.array([[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]]))
        >>> Y = np.array([[0.0, 0.0], [np.nan, np.nan], [4.0, 2.0]])
        >>> print(de.LatentSemanticImputation().set_weights(weights).fit_vectors(Y).vectors_.round(3))
        [[0. 0.]
         [2. 1.]
         [4. 2.]]
        """
        self.weights_ = sparse_rows(weights, self.block_memory)
        return self

    def fit_vectors(self, Y: DenseMatrix, X: DenseMatrix | None = None) -> LatentSemanticImputation:
        """Learn `vectors_`, `n_iter_`, `residual_` and `converged_`: the last third of `fit`.

        Parameters
        ----------
        Y : array (n, s)
            The vectors, as for `fit`.
        X : array (n, d), optional
            The rows that `fit_weights` was given, which every `method` but "graph" reads.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])  # what is known of four names
        >>> Y = np.array([[0.0, 0.0], [np.nan, np.nan], [4.0, 2.0], [6.0, 3.0]])  # the second has no vector
        >>> model = de.LatentSemanticImputation(min_degree=2).fit_graph(X).fit_weights(X)
        >>> print(model.fit_vectors(Y).vectors_[1].round(1))
        [2. 1.]
        """
        check_options(self)
        check_is_fitted(self, "weights_")
        frames, Y = (X, Y), array_of(aligned(X, Y), "Y")
        known = known_rows(Y, self.weights_.shape[0])
        if self.method != "graph" and X is None:
            raise ValueError(f"method is {self.method!r}, which reads the rows of X: call fit_vectors(Y, X)")
        self.seed_ = self._draw_seed()
        self.options_ = {name: getattr(self, name) for name in OPTIONS_OF_FIT}
        with one_blas_thread():
            if self.method == "graph":
                self.method_, self.ridge_, self.kernel_ = Candidate("graph", 0.0)
                self._solve(Y, known)
            else:
                self._fit_by_choice(Y, known, X)
        self.vectors_ = in_frame(self.vectors_, *frames)
        return self

    def _draw_seed(self) -> int:
        """Return the seed, or one that is drawn and kept by the checkpoint."""
        seed = seed_of(self.random_state)
        if isinstance(self.random_state, (int, np.integer)):
            return seed
        return int(compute(self.checkpoint("seed", lambda: da.from_array(np.array([seed]))))[0])

    def _map_rows(self, X: Any, known: Any) -> dict[str, da.Array]:
        """Return by kernel what the map is linear in: the rows of X, or features of them."""
        rows = self._domain_rows(self._training_matrix(X))
        options: dict[str, Any] = {"seed": self.seed_, "checkpoint": self.checkpoint}
        return {kernel: rows_of_kernel(rows, known, kernel, **options) for kernel in kernels_of(self.kernel)}

    def _fit_by_choice(self, Y: Any, known: Any, X: Any) -> None:
        rows = self._map_rows(X, known)
        self.method_, self.ridge_, self.kernel_ = self._choose(Y, known, rows)
        if self.method_ == "graph":
            self._solve(Y, known)
        else:
            self._map(Y, known, rows[self.kernel_])

    @overload
    def fit_transform(self, X: DenseMatrix, Y: da.Array) -> da.Array: ...

    @overload
    def fit_transform(self, X: DenseMatrix, Y: DenseInMemory) -> Floats: ...

    def fit_transform(self, X: DenseMatrix, Y: DenseMatrix) -> Floats | Frame | da.Array:
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

    def infer(self, X_new: DenseMatrix, X: DenseMatrix, Y: DenseMatrix) -> Floats | da.Array:
        """Return the vectors of rows that `fit` has not seen, from the fitted ones; nothing is fitted again.

        A new row is rebuilt from its `min_degree` nearest rows of X, which have their vectors, with weights as `fit`
        learns them. Its vector is the same mixture of theirs; "combined" adds the linear map of what the row differs
        from the mixture of rows, and "linear_map" is the map alone, of the kernel `kernel_`.

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
            If X_new has other columns than X, or holds NaN or infinity.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [np.nan], [4.0]])
        >>> model = de.LatentSemanticImputation(min_degree=2, floor=1e-9).fit(X, Y)
        >>> model.infer(np.array([[1.5]]), X, Y).round(3).tolist()
        [[3.0]]
        """
        check_is_fitted(self, "vectors_")
        if not hasattr(self, "seed_"):  # the vectors are those of a job
            self.seed_ = self._draw_seed()
        matrix, given = self._training_matrix(X), (X_new, Y)
        known = known_rows(Y := array_of(aligned(X, Y), "Y"), matrix.shape[0])
        with one_blas_thread():
            return in_frame(infer_vectors(self, same_columns(X_new, X), matrix, Y, known), *given)

    def _build_graph(self, rows: da.Array, distances: da.Array | None) -> sp.csr_array:
        if self.min_degree >= (n := rows.shape[0]):
            raise ValueError(f"min_degree = {self.min_degree} needs more rows than the {n} of X: lower it")
        # The rows have unit length already where the metric is cosine: their lists are of Euclidean distances.
        options: dict[str, Any] = {"distances": distances, "block_memory": self.block_memory}
        near = nearest_rows(rows, self.min_degree, **options, checkpoint=self.checkpoint)
        tree = spanning_tree_of(rows, near, distances=distances, checkpoint=self.checkpoint)
        return spanning_neighbor_graph(tree, near, min_degree=self.min_degree)

    def _solution(self, Y: Any, known: Any, checkpoint: Checkpoint) -> Solution:
        names = ("solver", "tol", "max_iter", "lazy", "block_memory")
        options = {name: getattr(self, name) for name in names}
        return solve(self.weights_, Y, known, **options, checkpoint=checkpoint)

    def _solve(self, Y: Any, known: Any) -> None:
        solved = self._solution(Y, known, self.checkpoint)
        self.vectors_ = filled(Y, solved.vectors, known)
        self.n_iter_, self.residual_, self.converged_ = solved.n_iter, solved.residual, solved.converged
        self.history_ = solved.history

    def _map(self, Y: Any, known: Any, rows: da.Array) -> None:
        path = fit_ridge_path(rows, Y, known, block_memory=self.block_memory)
        options: dict[str, Any] = {"block_memory": self.block_memory}
        if self.method_ == "linear_map":
            vectors = with_mapped_rows(Y, rows, known, path, self.ridge_, **options)
            self.n_iter_, self.residual_, self.converged_ = 0, 0.0, True
            self.history_ = np.empty((0, 2))
        else:
            self._solve(Y, known)
            solved = self._solution(rows, known, prefixed(self.checkpoint, "table-"))
            mixtures = filled(rows, solved.vectors, known)
            vectors = with_departures(self.vectors_, rows, mixtures, path, self.ridge_, **options)
        self.vectors_ = vectors if isinstance(Y, da.Array) else compute(vectors)

    def _choose(self, Y: Any, known: Any, rows: dict[str, da.Array]) -> Candidate:
        """Return the method, ridge and kernel to use: those given, or the best on known rows that are hidden."""
        candidates = candidates_of(self.method, self.kernel, self.ridge)
        if len(candidates) == 1:
            return candidates[0]
        if known.sum() < LEAST_KNOWN:
            raise ValueError(
                f"method is {self.method!r}, which is chosen on known rows that are hidden, but {known.sum()} rows of "
                f'Y are known: choose method = "graph", or give at least {LEAST_KNOWN} known rows'
            )
        options = {"n_folds": CHOICE_FOLDS, "max_names": CHOICE_ROWS, "seed": self.seed_}
        folds = hold_out_folds(np.flatnonzero(known), **options)
        scores = [
            fold_scores(
                self._hidden_fold(rows, Y, known, hidden, prefixed(self.checkpoint, f"fold-{number}-")),
                compute(Y[hidden]).astype(np.float64),
                candidates,
            )
            for number, hidden in enumerate(folds)
        ]
        self.choice_ = mean_scores(scores)
        return best_candidate(scores, candidates)

    def hidden_fold(self, X: DenseMatrix, Y: DenseMatrix, hidden: NDArray[np.integer]) -> HiddenFold:
        """Return what every method finds the vectors of known rows from, when they are hidden.

        Parameters
        ----------
        X : array (n, d)
            The rows that `fit_weights` was given.
        Y : array (n, s)
            The vectors, as for `fit`.
        hidden : int array (h,)
            The rows to hide, sorted, which are known.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])  # what is known of four names
        >>> Y = np.array([[0.0, 0.0], [np.nan, np.nan], [4.0, 2.0], [6.0, 3.0]])  # the second has no vector
        >>> model = de.LatentSemanticImputation(min_degree=2, floor=1e-6).fit_graph(X).fit_weights(X)
        >>> fold = model.hidden_fold(X, Y, np.array([2]))
        >>> print(fold.graph.round(1), Y[2])  # the vector that is found for the third name, and its own
        [[4. 2.]] [4. 2.]
        """
        check_options(self)
        check_is_fitted(self, "weights_")
        known = known_rows(Y, self.weights_.shape[0])
        self.seed_ = self._draw_seed()
        with one_blas_thread():
            return self._hidden_fold(self._map_rows(X, known), Y, known, hidden, self.checkpoint)

    def _hidden_fold(
        self, rows: dict[str, da.Array], Y: Any, known: Any, hidden: Any, checkpoint: Checkpoint
    ) -> HiddenFold:
        kept = known.copy()
        kept[hidden] = False
        impute = partial(self._impute, kept, hidden)
        options: dict[str, Any] = {"block_memory": self.block_memory}
        paths = {kernel: fit_ridge_path(values, Y, kept, **options) for kernel, values in rows.items()}
        return fold_of(impute, rows, Y, hidden, paths=paths, checkpoint=checkpoint)

    def _impute(self, known: Any, rows: Any, values: Any) -> da.Array:
        return imputed_rows(self._solution(values, known, persist), known, rows, values.dtype)
