"""Spherical k-means over row blocks: Dhillon & Modha, Machine Learning 42 (2001)."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple, overload

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import Tags

from distembed.dtypes import Float64s, Floats, Int64s, Mask
from distembed.execution import compute, one_blas_thread, tell
from distembed.factorization import nmf_blocks as blocks
from distembed.factorization.consensus import SUM_FAN_IN, Array, Choose, Start, consensus_words, run_starts
from distembed.lift import block, first_rows, fold, lift, total
from distembed.linalg.csr import canonical_csr, unit_rows
from distembed.linalg.operators import row_blocks
from distembed.options import NonNegativeFloat, PositiveInt, RandomState, check_options
from distembed.states import block_memory, scope
from distembed.typing import InMemory, MatrixLike
from distembed.validation import like_input, new_matrix, seed_of, training_matrix


def document_rows(matrix: Any) -> Array:
    """Return a matrix as one `csr_array`, or as a Dask array of `csr_array` row blocks.

    Parameters
    ----------
    matrix : NumPy array, SciPy sparse matrix or Dask array (rows, columns)
        What `distembed.validation` let pass. A Dask array keeps its row chunks; a matrix in memory is cut where it is
        larger than `block_memory`. float32 stays, every other type becomes float64.
    """
    dtype = np.float32 if matrix.dtype == np.float32 else np.float64
    if isinstance(matrix, da.Array):
        return row_blocks(matrix, dtype=dtype)
    whole = canonical_csr(matrix, dtype)
    n_blocks = -(-(whole.data.nbytes + whole.indices.nbytes) // block_memory())
    return row_blocks(whole, values_per_block=-(-whole.nnz // n_blocks)).persist() if n_blocks > 1 else whole


def take_rows(matrix: Array, rows: NDArray[np.int64]) -> csr_array:
    """Return rows of a matrix, in the order asked for, as one `csr_array` in memory."""
    if not isinstance(matrix, da.Array):
        return matrix[rows]
    order = np.argsort(rows, kind="stable")
    edges = np.cumsum([0, *matrix.chunks[0]])
    owner = np.searchsorted(edges, rows[order], side="right") - 1
    parts = [
        lift(_take, "wd,t->td", matrix.blocks[int(b)], rows[order][owner == b] - edges[b], sparse=True)
        for b in np.unique(owner)
    ]
    return csr_array(vstack(compute(parts), format="csr"))[np.argsort(order, kind="stable")]


@block(temporaries=0.5)
def _take(rows: csr_array, places: NDArray[np.int64]) -> csr_array:
    return rows[places]


class Facts(NamedTuple):
    """The facts that one pass over a non-negative matrix collects."""

    sum_of_squares: float
    mean: float
    n_empty_rows: int
    column_counts: Float64s  # stored values of each column
    is_counts: bool  # whole numbers throughout, and not only ones


def check_values(matrix: Array, *, name: str, nonnegative: bool = True) -> Facts:
    """Return the facts of a matrix after one pass over it.

    Raises
    ------
    ValueError
        If a value is NaN or infinite, or negative where it may not be.
    """
    shape, first = (1, 5 + matrix.shape[1]), first_rows(matrix)
    found = compute(
        fold(
            total(blocks.inspect), "wd,w", matrix, first, shape=shape, fan_in=SUM_FAN_IN, called=name,
            nonnegative=nonnegative,
        )
    )[0]  # fmt: skip
    not_whole, above_one, squares, added, empty = found[:5]
    mean = float(added / np.prod(matrix.shape, dtype=float))
    return Facts(float(squares), mean, int(empty), found[5:], bool(above_one and not not_whole))


def check_n_clusters(n_clusters: int, n_filled: int, n_documents: int) -> None:
    """Raise ValueError unless 1 <= n_clusters <= documents with a word."""
    if not n_filled:
        raise ValueError(f"None of the {n_documents} documents of X holds a value other than zero.")
    if not 1 <= n_clusters <= n_filled:
        raise ValueError(
            f"{n_clusters} components or clusters were asked for, and {n_filled} documents of X hold a word; "
            f"ask for 1 to {n_filled}."
        )


def check_clusters(matrix: Array, facts: Facts, n_clusters: int) -> None:
    """Raise ValueError unless 1 <= n_clusters <= documents with a word, and warn about empty documents."""
    check_n_clusters(n_clusters, matrix.shape[0] - facts.n_empty_rows, matrix.shape[0])
    if facts.n_empty_rows:
        warnings.warn(
            f"{facts.n_empty_rows} of {matrix.shape[0]} documents hold no word: their factors are zero and "
            "their label is -1.",
            stacklevel=4,
        )


ROUNDS_OF_KMEANS = "rounds of k-means"
"""The name under which these rounds report their progress, because other methods begin with such rounds."""


class Clustering(NamedTuple):
    """Clusters of documents: the state of spherical k-means."""

    labels: Array  # (n, 1) int64, -1 for an empty document
    centroids: Float64s  # (d, k), unit columns
    objective: Float64s  # sum of cosines with the own centroid, one value per round
    converged: Mask  # (1,)


def spherical_kmeans(
    matrix: Array, n_clusters: int, *, n_iter: int, tol: float, seed: tuple[int, ...], sample: int
) -> Clustering:
    """Cluster the unit rows of a matrix (see `SphericalKMeans`).

    It starts from k-means++ among `sample` documents, all of them where they are fewer.
    """
    random, n_rows = np.random.default_rng(seed), matrix.shape[0]
    if sample < n_rows:
        drawn = take_rows(matrix, np.sort(random.choice(n_rows, sample, replace=False)))
    else:
        drawn = csr_array(compute(matrix)) if isinstance(matrix, da.Array) else matrix
    n_drawn, drawn = drawn.shape[0], drawn[np.flatnonzero(np.diff(drawn.indptr))]
    if drawn.shape[0] < n_clusters:
        raise ValueError(
            f"Of the {n_drawn} documents drawn for the start {drawn.shape[0]} hold a word, fewer than the "
            f"{n_clusters} clusters; raise seeding_sample."
        )
    seeds = drawn[blocks.draw_seeds(drawn, n_clusters, random)]
    centroids: Float64s = np.asarray(seeds.toarray().T, dtype=np.float64)
    objective: list[float] = []
    converged, shape = False, (centroids.shape[0] + 2, n_clusters)
    for number in range(n_iter):
        sums = compute(
            fold(total(blocks.cluster_sums), "wd,dk", matrix, centroids, shape=shape, fan_in=SUM_FAN_IN)
        )
        objective.append(float(sums[-1].sum()))
        tell(ROUNDS_OF_KMEANS, number + 1)
        converged = len(objective) > 1 and objective[-1] - objective[-2] <= tol * abs(objective[-1])
        if converged:
            break
        moved, empty = sums[:-2], np.flatnonzero(sums[-2] == 0)
        if empty.size:  # an empty cluster takes the document farthest from its own centroid
            cosine = _nearest_cosines(matrix, centroids)[:, 1]
            farthest = np.argsort(cosine, kind="stable")[: empty.size]
            moved[:, empty] = take_rows(matrix, farthest).toarray().T
        norms = np.linalg.norm(moved, axis=0)
        centroids = moved / np.where(norms > 0, norms, 1.0)
    return Clustering(_nearest(matrix, centroids), centroids, np.array(objective), np.array([converged]))


def _nearest(matrix: Array, centroids: Float64s) -> Array:
    return lift(_labels, "wd,dk->wl", matrix, centroids, dtype=np.int64, sizes={"l": 1})


@block(temporaries=0.5)
def _labels(X: csr_array, C: Float64s) -> Int64s:
    return blocks.nearest_centroid(X, C)[:, :1].astype(np.int64)


def _nearest_cosines(matrix: Array, centroids: Float64s) -> Float64s:
    """Return the label of each row and the cosine with its centroid, (n, 2), in memory."""
    form: dict[str, Any] = {"dtype": np.float64, "sizes": {"l": 2}}
    return np.asarray(compute(lift(blocks.nearest_centroid, "wd,dk->wl", matrix, centroids, **form)))


class DocumentClusterer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """The common scikit-learn tags of estimators that label documents, given as sparse or dense rows."""

    def __sklearn_tags__(self) -> Tags:
        """Return the scikit-learn tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class SphericalKMeans(DocumentClusterer):
    """Cluster documents, words or other rows by cosine, out of core.

    Maximizes ``sum_i cos(x_i, c_label(i))`` over unit centers c (Dhillon & Modha 2001), one pass over X a
    round.  The start is k-means++ on the sphere among `seeding_sample` rows drawn evenly; a cluster that
    runs empty takes the row farthest from its own center.  Rows are scaled to unit length first.

    Parameters
    ----------
    n_clusters : int
    max_iter : int
        The largest number of rounds.
    tol : float
        Stop when a round gains less than this share of the objective.
    n_init : int
        Number of starts.
    choose : {"objective", "consensus"}
        What is kept of several starts: the one with the largest objective, or the mean of the centers that they have in
        common.
    random_state : int, None, Generator or RandomState
    seeding_sample : int
        Number of rows from which the centers of the start are drawn.

    Attributes
    ----------
    labels_ : int64 array (n,), -1 for a row of zeros
    cluster_centers_ : float64 array (k, d), unit rows
    objective_ : float64 array, sum of cosines, one value per round; of a consensus one value
    inertia_ : float
        The sum of 1 - cosine.
    n_iter_ : int
        The most rounds that a start has done.
    converged_ : bool
        Whether all starts have met `tol`.
    starts_ : list of Start
        The `labels`, the `objective` and the centers as columns (`words`) of each start.

    References
    ----------
    Dhillon & Modha, Concept decompositions for large sparse text data using clustering, Machine Learning 42, 2001.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> X = de.tf_idf(de.count_document_terms(docs, vocabulary))
    >>> model = de.SphericalKMeans(n_clusters=2, n_init=5).fit(X)
    >>> sorted([model.labels_[:5].tolist(), model.labels_[5:].tolist()])
    [[0, 0, 0, 0, 0], [1, 1, 1, 1]]
    """

    def __init__(
        self,
        n_clusters: PositiveInt = 8,
        *,
        max_iter: PositiveInt = 100,
        tol: NonNegativeFloat = 1e-4,
        n_init: PositiveInt = 1,
        choose: Choose = "objective",
        random_state: RandomState = 0,
        seeding_sample: PositiveInt = 20_000,
    ) -> None:
        self.n_clusters = n_clusters
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.choose = choose
        self.random_state = random_state
        self.seeding_sample = seeding_sample

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    def fit(self, X: MatrixLike, y: object = None) -> SphericalKMeans:  # noqa: ARG002 - scikit-learn's signature
        """Learn the clusters of the rows of X.

        Parameters
        ----------
        X : array (n, d)
            Documents by words, word vectors or other rows: NumPy, SciPy sparse, or Dask array of row blocks.
        y : None
            It is ignored, and stands here for scikit-learn's pipelines.

        Returns
        -------
        SphericalKMeans
            The estimator itself.

        Raises
        ------
        ValueError
            If X is not a matrix, holds NaN or infinite values, or fewer rows than clusters, or if an option is out of
            range.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> model = de.SphericalKMeans(n_clusters=2).fit(X)
        >>> labels = model.labels_.tolist()
        >>> labels[0] == labels[1] != labels[2] == labels[3]
        True
        >>> model.cluster_centers_.shape, model.converged_
        ((2, 4), True)
        """
        check_options(self)
        seed = seed_of(self.random_state)
        with one_blas_thread(), scope("spherical-kmeans", self.get_params(), seed, X):
            # One pass counts values and finds NaN and infinity.
            matrix = document_rows(training_matrix(self, X, finite=False))
            check_clusters(matrix, check_values(matrix, name="X", nonnegative=False), self.n_clusters)
            matrix = unit_documents(matrix)
            cluster = partial(
                spherical_kmeans,
                matrix,
                self.n_clusters,
                n_iter=self.max_iter,
                tol=self.tol,
                sample=self.seeding_sample,
            )
            ends = run_starts(
                lambda number: cluster(seed=(seed, number)), Clustering, self.n_init,
                n_rounds=self.max_iter, what=ROUNDS_OF_KMEANS, in_memory=not isinstance(matrix, da.Array),
            )  # fmt: skip
            labels = [compute(end.labels).ravel() for end in ends]
            self.starts_ = [
                Start(one, end.objective, end.centroids) for one, end in zip(labels, ends, strict=True)
            ]
            self.n_iter_ = max(end.objective.size for end in ends)
            self.converged_ = all(bool(end.converged.all()) for end in ends)
            if self.n_init == 1 or self.choose == "objective":
                best = max(self.starts_, key=lambda start: start.objective[-1])
                self.labels_, self.objective_, centers = best
            else:
                words = consensus_words([start.words for start in self.starts_])
                norms = np.linalg.norm(words, axis=0)
                centers = words / np.where(norms > 0, norms, 1.0)
                nearest = _nearest_cosines(matrix, centers)
                self.labels_ = nearest[:, 0].astype(np.int64)
                self.objective_ = nearest[self.labels_ >= 0, 1].sum(keepdims=True)
            self.cluster_centers_: Float64s = np.ascontiguousarray(centers.T, np.float64)
            self.inertia_ = float(np.count_nonzero(self.labels_ >= 0) - self.objective_[-1])
        if not self.converged_:
            warnings.warn(
                f"Clusters were still changing after {self.max_iter} rounds; raise max_iter.", stacklevel=2
            )
        return self

    def score(self, X: MatrixLike, y: object = None) -> float:  # noqa: ARG002 - scikit-learn's signature
        """Return minus the sum of 1 - cosine of the rows of X with their nearest centers.

        Parameters
        ----------
        X : array (n, d)
        y : None
            It is ignored.

        Returns
        -------
        float

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X = np.array([[1.0, -1.0], [-1.0, 1.0]])
        >>> de.SphericalKMeans(n_clusters=2).fit(X).score(X) > -1e-9
        True
        """
        with one_blas_thread():
            nearest = _nearest_cosines(unit_documents(document_rows(self._new(X))), self.cluster_centers_.T)
            return float(nearest[:, 1].sum() - len(nearest))

    @overload
    def predict(self, X: da.Array) -> da.Array: ...

    @overload
    def predict(self, X: InMemory) -> Int64s: ...

    def predict(self, X: MatrixLike) -> Int64s | da.Array:
        """Return the label of the nearest center of each row of X, -1 for a row of zeros.

        Parameters
        ----------
        X : array (n, d)
            Rows as of `fit`: NumPy, SciPy sparse, or Dask array of row blocks.

        Returns
        -------
        int64 array (n,)
            A Dask array where X is one.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> model = de.SphericalKMeans(n_clusters=2).fit(X)
        >>> new = model.predict(np.array([[0.0, 5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]))
        >>> (new[:2] == model.labels_[[0, 3]]).tolist(), int(new[2])  # the last one has no word
        ([True, True], -1)
        """
        with one_blas_thread():
            matrix = document_rows(self._new(X))
            return like_input(_nearest(matrix, self.cluster_centers_.T)[:, 0], X)

    @overload
    def transform(self, X: da.Array) -> da.Array: ...

    @overload
    def transform(self, X: InMemory) -> Floats: ...

    def transform(self, X: MatrixLike) -> Floats | da.Array:
        """Return the cosine of each row of X with each center, (n, k); lazy where X is a Dask array.

        Parameters
        ----------
        X : array (n, d)
            Rows as of `fit`: NumPy, SciPy sparse, or Dask array of row blocks.

        Returns
        -------
        float64 array (n, k)
            A Dask array where X is one.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> model = de.SphericalKMeans(n_clusters=2).fit(X)
        >>> cosines = model.transform(np.array([[1.0, 1, 0, 0]]))
        >>> np.sort(cosines).round(2).tolist()
        [[0.0, 1.0]]
        """
        with one_blas_thread():
            matrix = unit_documents(document_rows(self._new(X)))
            cosines = lift(blocks.times, "wd,dk->wk", matrix, self.cluster_centers_.T, dtype=matrix.dtype)
            return like_input(cosines, X)

    def _new(self, X: MatrixLike) -> Array:
        return new_matrix(self, X, learned="cluster_centers_")


def unit_documents(matrix: Array) -> Array:
    """Return documents of unit length, in their own precision; an empty one stays empty."""
    units = partial(unit_rows, dtype=matrix.dtype)
    return lift(units, "wd->wd", matrix, dtype=matrix.dtype, sparse=True)
