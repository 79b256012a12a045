"""Locality Preserving Projection of word spaces.

Letters
-------
S : affinity of the graph, n × n, symmetric; D = diag(d), d its row sums; L = D - S.

D. Jurgens and K. Stevens, Capturing Nonlinear Structure in Word Spaces through Dimensionality Reduction, GEMS
2010; X. He and P. Niyogi, Locality Preserving Projections, NIPS 2003; spectral regression: D. Cai, X. He and
J. Han, Spectral Regression for Efficient Regularized Subspace Learning, ICCV 2007.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, overload

import dask.array as da
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, gen_batches

from distembed.dtypes import Float64s, Floats
from distembed.execution import compute, one_blas_thread, whole
from distembed.lift import block, lift
from distembed.linalg.operators import row_blocks, sparse_times
from distembed.linalg.singular import check_rank, largest_singular_triplets
from distembed.manifold.eigenmaps import laplacian_eigenmaps
from distembed.manifold.regressions import ridge_regression
from distembed.neighbors import graphs
from distembed.neighbors.distances import domain_rows
from distembed.neighbors.graph_blocks import edge_squares, edge_weights
from distembed.options import PositiveFloat, PositiveInt, RandomState, check_options
from distembed.states import scope
from distembed.typing import InMemory, MatrixLike, SparseMatrix
from distembed.validation import like_input, new_matrix, seed_of, training_matrix

Affinity = Literal["cosine", "binary", "gaussian", "polynomial", "local"]
Solver = Literal["spectral_regression", "eigen"]

DENSE_SIDE = 2000
"""Smaller side of X up to which `solver="eigen"` decomposes it whole."""
MAX_EDGES = 1000
"""Mean edges of a row above which a threshold graph is refused: 12 GB for a million rows."""
SVD_PASSES, SVD_OVERSAMPLING = 8, 10
"""The most products with XᵀX for the singular vectors of `solver="eigen"`, and vectors beyond those wanted."""
RANK_SHARE = 1e-10
"""Singular values below this share of the largest count as zero."""
CONSTANT_SHARE = 1 - 1e-9
"""Share of the constant vector's squared length in the span of X from which on it counts as inside."""
LEAST_CONDITION = 1e-8
"""Reciprocal condition of XᵀX from which eight digits are left of what is computed with it."""
GRAPH_OPTIONS = ("n_neighbors", "threshold", "affinity", "symmetry", "degree")


class LocalityPreservingProjection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Project rows so that neighbors stay close to each other.

    .. math:: \min_w \sum_{ij} S_{ij} (w^T x_i - w^T x_j)^2 \quad\text{given}\quad w^T X^T D X w = 1

    Parameters
    ----------
    n_components : int
    n_neighbors : int
        Number of nearest rows by cosine to which each row is joined.
    affinity : {"cosine", "binary", "gaussian", "polynomial", "local"}
        Weight of an edge, see `neighborhood_graph`.
    threshold : float, optional
        Join rows with a larger cosine instead of the nearest ones.
    symmetry : {"union", "mutual"}
        Whether one of two rows must be among the other's nearest, or both.
    degree : int
        Degree of the polynomial affinity.
    solver : {"spectral_regression", "eigen"}
        "spectral_regression": the graph's eigenvectors y, then ridge regression of y on the rows, which needs
        products with X only. "eigen": XᵀLX w = λ XᵀDX w within the span of singular vectors of X; holds n ×
        svd_components values.
    alpha : float
        Ridge of the regression.
    constant_column : bool
        Whether the regression has a column of ones in addition to X, as the authors' program has; its coefficients are
        penalized like all others. Rows of zeros are then projected to `intercept_`, not to the zero vector.
    svd_components : int, optional
        For "eigen": number of singular vectors of X to keep. By default all, which requires a small X.
    tol, max_iter : float, int
        Of the regression where no side of X is short enough for Cholesky (`regressions.DIRECT_SIDE`): stop when every
        ‖Xᵀ(y - X w) - alpha w‖ is at most tol ‖Xᵀy‖. The error of the projected rows is then about 5 tol.
    random_state : int, None, Generator or RandomState

    Attributes
    ----------
    components_ : (n_components, n_features) float64
    intercept_ : (n_components,) float64
        The coefficients of the column of ones; zeros without one.
    eigenvalues_ : (n_components,) float64
        λ of L y = λ D y, rising, the constant left out; 0 for each connected component beyond the first.
    graph_ : csr_array (n, n)
    eigenmaps_ : (n, n_components) float64, or None
        Laplacian eigenmaps, y; zero for rows without an edge. None with "eigen".
    eigen_residuals_ : (n_components,) float64, or None
        ‖N z - (1 - λ) z‖ of the unit eigenvectors z = D^½ y of N = D^-½ S D^-½. None with "eigen".
    zero_rows_ : int64 array
        Rows of zeros: no edge, and the zero vector.
    n_graph_components_ : int
        Connected components of the graph, rows without an edge left out.
    n_iter_, converged_, residuals_
        Of the regression: ``residuals_`` are ‖Xᵀ(y - X w) - alpha w‖ / ‖Xᵀy‖, measured at the end.

    References
    ----------
    Jurgens & Stevens, Capturing Nonlinear Structure in Word Spaces through Dimensionality Reduction, GEMS 2010, who
    apply it to words.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> angles = np.linspace(0, 1.5, 8)
    >>> X = np.column_stack([np.cos(angles), np.sin(angles), np.ones(8)])  # points along an arc
    >>> Z = de.LocalityPreservingProjection(n_components=1, n_neighbors=2).fit_transform(X)
    >>> Z.shape
    (8, 1)
    >>> bool((np.diff(Z[:, 0]) > 0).all() or (np.diff(Z[:, 0]) < 0).all())  # the order along the arc
    True
    """

    def __init__(
        self,
        n_components: PositiveInt = 300,
        *,
        n_neighbors: PositiveInt = 20,
        affinity: Affinity = "cosine",
        threshold: float | None = None,
        symmetry: graphs.Symmetry = "union",
        degree: PositiveInt = 2,
        solver: Solver = "spectral_regression",
        alpha: PositiveFloat = 0.01,
        constant_column: bool = False,
        svd_components: PositiveInt | None = None,
        tol: PositiveFloat = 1e-4,
        max_iter: PositiveInt = 500,
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.affinity = affinity
        self.threshold = threshold
        self.symmetry = symmetry
        self.degree = degree
        self.solver = solver
        self.alpha = alpha
        self.constant_column = constant_column
        self.svd_components = svd_components
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    eigenmaps_: Float64s | None
    eigen_residuals_: Float64s | None

    def __sklearn_tags__(self) -> Tags:
        """Return the scikit-learn tags: sparse input is accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def fit(
        self,
        X: MatrixLike,
        y: None = None,  # noqa: ARG002
        *,
        graph: SparseMatrix | None = None,
    ) -> LocalityPreservingProjection:
        """Learn the projection.

        Parameters
        ----------
        X : (n × m) NumPy, SciPy sparse or Dask array, dense or of CSR row blocks
        y : ignored
        graph : sparse (n × n), optional
            A symmetric affinity in place of the neighborhood graph.

        Raises
        ------
        ValueError
            If an option is unknown, X holds NaN, n_neighbors is not less than the rows that are not zero,
            more components are wanted than X or the graph has, or the graph is not a symmetric affinity.

        Warns
        -----
        UserWarning
            If X has rows of zeros.
        RuntimeWarning
            If the regression does not converge.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> angles = np.linspace(0, 1.5, 8)
        >>> X = np.column_stack([np.cos(angles), np.sin(angles), np.ones(8)])  # points along an arc
        >>> model = de.LocalityPreservingProjection(n_components=2, n_neighbors=2).fit(X)
        >>> model.components_.shape, model.n_graph_components_
        ((2, 3), 1)
        """
        rows = training_matrix(self, X, min_rows=2)
        check_options(self)
        if self.constant_column and self.solver == "eigen":
            raise ValueError(
                "constant_column belongs to the regression: leave it out, or use solver 'spectral_regression'"
            )
        n, m = rows.shape
        if self.n_components > (most := min(n - 1, m)):
            raise ValueError(f"n_components is {self.n_components} for an X of {n} x {m}: choose 1 to {most}")
        self.zero_rows_ = np.flatnonzero(~graphs.row_is_used(rows, "cosine"))
        if self.zero_rows_.size:
            warnings.warn(
                f"{self.zero_rows_.size} rows of X are zero, first rows {self.zero_rows_[:5].tolist()}: they have no "
                "neighbors and get the zero vector",
                UserWarning,
                stacklevel=2,
            )
        with one_blas_thread(), scope("lpp", self.get_params(), rows, graph):
            self.graph_ = (
                neighborhood_graph(rows, **{name: getattr(self, name) for name in GRAPH_OPTIONS})
                if graph is None
                else graphs.check_graph(graph, n)
            )
            degrees = graphs.degrees_of(self.graph_)
            if not degrees.any():
                raise ValueError("the graph joins no rows: lower threshold, or use n_neighbors")
            self.n_graph_components_ = n_parts(self.graph_)
            if self.solver == "eigen":
                self._fit_eigen(rows, degrees)
                return self
            seed, limits = seed_of(self.random_state), (self.alpha, self.tol, self.max_iter)
            maps = laplacian_eigenmaps(self.graph_, self.n_components, random_state=seed)
            self.eigenmaps_, self.eigenvalues_ = maps
            unit = np.sqrt(degrees)[:, None] * self.eigenmaps_
            misfit = graphs.laplacian(self.graph_) @ unit - unit * self.eigenvalues_
            self.eigen_residuals_ = np.linalg.norm(misfit, axis=0)
            solved = ridge_regression(rows, self.eigenmaps_, *limits, constant=self.constant_column)
        weights, self.residuals_, self.n_iter_ = solved
        self.components_ = weights[:m].T
        self.intercept_ = weights[-1] if self.constant_column else np.zeros(self.n_components)
        self.converged_ = bool((self.residuals_ <= self.tol).all())
        return self

    @overload
    def transform(self, X: da.Array) -> da.Array: ...

    @overload
    def transform(self, X: InMemory) -> Floats: ...

    def transform(self, X: MatrixLike) -> Floats | da.Array:
        """Return X Wᵀ + intercept, (n × k), for rows of the same features; a Dask array for a Dask array.

        Parameters
        ----------
        X : array (n, m)
            NumPy, SciPy sparse or Dask, dense or of CSR row blocks.

        Returns
        -------
        array (n, k)

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> angles = np.linspace(0, 1.5, 8)
        >>> X = np.column_stack([np.cos(angles), np.sin(angles), np.ones(8)])  # points along an arc
        >>> model = de.LocalityPreservingProjection(n_components=1, n_neighbors=2).fit(X)
        >>> first, new, last = model.transform(np.array([X[3], (X[3] + X[4]) / 2, X[4]]))
        >>> np.allclose(new, (first + last) / 2)  # the projection is linear
        True
        """
        rows = row_blocks(new_matrix(self, X, learned="components_"))
        projected = sparse_times(rows, whole(self.components_.T))
        return like_input(projected + self.intercept_ if self.intercept_.any() else projected, X)

    def _fit_eigen(self, X: Any, degrees: Float64s) -> None:
        """Solve XᵀLX w = λ XᵀDX w, wᵀXᵀDXw = 1, within the span of singular vectors of the rows with an edge.

        Where the constant vector is in the span it would be the first, with λ = 0, and is left out: the others are
        those with 1ᵀDXw = 0 (He and Niyogi 2003, Locality preserving projections, equation 2).
        """
        k, used = self.n_components, np.flatnonzero(degrees)
        graph, degrees = self.graph_[used][:, used], degrees[used]
        left, lengths, right = _span(X[used], self.svd_components, seed_of(self.random_state))
        weighted = left * np.sqrt(degrees)[:, None]
        squares = weighted.T @ weighted
        rough, sums = squares - left.T @ (graph @ left), left.T @ degrees
        share = sums @ scipy.linalg.solve(squares, sums, assume_a="pos") / degrees.sum()
        has_constant, rank = share > CONSTANT_SHARE, left.shape[1]
        if k > (n_choices := rank - has_constant):
            constant = ", of which one direction is the constant vector" if has_constant else ""
            raise ValueError(
                f"n_components is {k} but the rows joined by the graph have rank {rank}{constant}: "
                f"choose at most {n_choices}"
            )
        if has_constant:
            basis = scipy.linalg.null_space(sums[None])
            rough, squares = basis.T @ rough @ basis, basis.T @ squares @ basis
        self.eigenvalues_, directions = scipy.linalg.eigh(rough, squares, subset_by_index=(0, k - 1))
        if has_constant:
            directions = basis @ directions
        projection = right @ (directions / lengths[:, None])
        signs = np.where(((left @ directions) ** 3).sum(axis=0) < 0, -1.0, 1.0)
        self.components_, self.eigenmaps_, self.eigen_residuals_ = (projection * signs).T, None, None
        self.intercept_, self.residuals_ = np.zeros(k), np.zeros(k)
        self.n_iter_, self.converged_ = 1, True


def n_parts(graph: sp.csr_array) -> int:
    """Return the number of connected components of a graph, vertices without an edge left out."""
    return int(graphs.components(graph).max() + 1 - (graphs.degrees_of(graph) == 0).sum())


# --------------------------------------------------------------------------- the graph


def neighborhood_graph(
    X: Any,
    *,
    n_neighbors: int = 20,
    threshold: float | None = None,
    affinity: Affinity = "cosine",
    symmetry: graphs.Symmetry = "union",
    degree: int = 2,
) -> sp.csr_array:
    """Return the symmetric affinity (n × n) of rows that are near by cosine c.

    - "binary": 1;
    - "cosine": c, at least 1e-6;
    - "gaussian": exp(-2 (1 - c) / h), h the mean of 2 (1 - c), the squared distance of unit rows;
    - "polynomial": ((1 + c) / 2)^degree, at least 1e-6;
    - "local": the Gaussian with the rows' own widths; nearest neighbors only.

    Rows of zeros have no edge.

    Parameters
    ----------
    X : (n × m) NumPy, SciPy sparse or Dask array
    n_neighbors : int
        The number of nearest rows.
    threshold : float, optional
        Join rows with c > threshold (0 to 1) instead of the n_neighbors nearest.
    affinity : str
        The weight of an edge, one of the names above.
    symmetry : {"union", "mutual"}
        Whether one of two rows must be among the nearest of the other, or both.
    degree : int
        The degree of the polynomial affinity.

    Raises
    ------
    ValueError
        If an option is unknown, n_neighbors is not less than the rows that are not zero, the threshold is not
        between 0 and 1 or joins rows by more than `MAX_EDGES` edges each in the mean, or X holds NaN.
    """
    if threshold is None:
        return graphs.neighbor_affinity(X, n_neighbors, affinity=affinity, symmetry=symmetry, degree=degree)
    if affinity == "local":
        raise ValueError("affinity 'local' needs nearest neighbors; leave threshold out")
    graph = _threshold_graph(X, threshold)
    # as if all were one row's neighbors
    lists = np.stack([2 - 2 * np.clip(graph.data, -1, 1), graph.indices])[None]
    weighing = {
        "affinity": affinity,
        "metric": "cosine",
        "width": edge_squares(lists, "cosine").sum() / max(1, graph.nnz),
        "degree": degree,
    }
    graph.data = edge_weights(lists, 0, np.zeros(0), **weighing)[0]
    return graph


def _threshold_graph(X: Any, threshold: float) -> sp.csr_array:
    """Return the cosines above a threshold, (n × n), no diagonal.

    The row blocks go one after the other, so that a graph too large is refused before there is more of it.
    """
    if not 0 <= threshold < 1:
        raise ValueError(f"threshold is {threshold}; a cosine from 0 up to 1 is needed")
    kept, n = np.flatnonzero(graphs.row_is_used(X, "cosine")), X.shape[0]
    rows = domain_rows(X[kept], metric="cosine").persist()
    tiles = lift(pairs_above, "ic,jc->ij", rows, rows, dtype=np.float64, sparse=True, threshold=threshold)
    pairs, n_pairs, first = [], 0, 0
    for number, size in enumerate(rows.chunks[0]):
        strip = sp.triu(sp.csr_array(compute(tiles.blocks[number, number:])), 1).tocoo()
        n_pairs += strip.nnz
        if 2 * n_pairs > MAX_EDGES * len(kept):
            raise ValueError(
                f"threshold {threshold} joins the first {first + size} of {len(kept)} rows by {n_pairs} pairs, a "
                f"graph of more than {MAX_EDGES} edges per row: raise it, or use n_neighbors"
            )
        pairs.append((strip.data, kept[first + strip.row], kept[first + strip.col]))
        first += size
    cosines, i, j = map(np.concatenate, zip(*pairs, strict=True))
    upper = sp.csr_array((cosines, (i, j)), shape=(n, n))
    return sp.csr_array(upper + upper.T)


@block(temporaries=1.5)
def pairs_above(X: Any, Z: Any, threshold: float) -> sp.csr_array:
    """Return the cosines above a threshold between unit rows of X and of Z, (r × s), some rows at a time."""
    size = X.nnz if sp.issparse(X) else X.size
    strips = []
    for rows in gen_batches(X.shape[0], max(1, size // (2 * Z.shape[0]))):  # whose cosines are half of X
        cosines = X[rows] @ Z.T
        values = cosines.data if sp.issparse(cosines) else cosines
        values[values <= threshold] = 0
        strips.append(sp.csr_array(cosines))
        strips[-1].eliminate_zeros()
    found = sp.csr_array(sp.vstack(strips, format="csr"))
    found.sort_indices()
    return found


# --------------------------------------------------------------------------- the projection


def _span(X: Any, n_directions: int | None, random_state: int) -> tuple[Float64s, Float64s, Float64s]:
    """Return U (n × r), s (r,) and V (m × r) of X = U diag(s) Vᵀ, up to the directions left out."""
    if n_directions is None:
        if min(X.shape) > DENSE_SIDE:
            raise ValueError(
                f"solver 'eigen' needs svd_components for an X of {X.shape[0]} x {X.shape[1]}: give a "
                "number, or use solver 'spectral_regression'"
            )
        X = compute(X) if isinstance(X, da.Array) else X
        dense = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
        if is_well_conditioned(dense):  # its columns are a basis as good as their singular vectors
            return dense, np.ones(dense.shape[1]), np.eye(dense.shape[1])
        left, values, right = np.linalg.svd(dense, full_matrices=False)
    else:
        check_rank(n_directions, *X.shape, name="svd_components")
        search = {"n_passes": SVD_PASSES, "oversampling": SVD_OVERSAMPLING, "random_state": random_state}
        found = largest_singular_triplets(row_blocks(X), n_directions, dtype=np.float64, **search)
        left, values, right = compute(found.left), found.values, found.right.T
    kept = values > RANK_SHARE * values.max(initial=0.0)
    return left[:, kept], values[kept], right[kept].T


def is_well_conditioned(X: Float64s) -> bool:
    """Return whether XᵀX is positive definite, and its reciprocal condition at least `LEAST_CONDITION`."""
    if X.shape[0] < X.shape[1]:
        return False
    squares = X.T @ X
    size = np.abs(squares).sum(axis=0).max()
    factor, failed = scipy.linalg.lapack.dpotrf(squares)
    return not failed and scipy.linalg.lapack.dpocon(factor, size)[0] >= LEAST_CONDITION
