"""Spherical k-means over row blocks: Dhillon & Modha, Machine Learning 42 (2001)."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, overload

import dask.array as da
import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import Tags

from distembed.dtypes import Float64s, Floats, Int64s
from distembed.execution import compute, one_blas_thread, tell
from distembed.factorization.consensus import Choose, Start, consensus_words, run_starts
from distembed.factorization.document_rows import (
    SUM_FAN_IN,
    Array,
    document_rows,
    take_rows,
    times,
    training_documents,
    unit_documents,
)
from distembed.lift import block, fold, lift, total
from distembed.linalg.chunks import evenly_spaced
from distembed.options import NonNegativeFloat, PositiveInt, RandomState, check_options
from distembed.states import scope
from distembed.typing import InMemory, MatrixLike
from distembed.validation import like_input, new_matrix, seed_of

ROUNDS_OF_KMEANS = "rounds of k-means"
"""The name under which these rounds report their progress, because other methods begin with such rounds."""


def spherical_kmeans(
    matrix: Array, n_clusters: int, *, n_iter: int, tol: float, seed: tuple[int, ...], sample: int
) -> Start:
    """Cluster the unit rows of a matrix (see `SphericalKMeans`); the labels are in its row blocks, (n, 1).

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
            f"of the {n_drawn} documents drawn for the start {drawn.shape[0]} hold a word, fewer than the "
            f"{n_clusters} clusters: drop documents without a word, ask for fewer clusters, or draw more "
            "(seeding_sample of SphericalKMeans)"
        )
    seeds = drawn[draw_seeds(drawn, n_clusters, random)]
    centroids: Float64s = np.asarray(seeds.toarray().T, dtype=np.float64)
    objective: list[float] = []
    shape = centroids.shape[0] + 2, n_clusters
    for number in range(n_iter):
        sums = compute(fold(total(cluster_sums), "wd,dk", matrix, centroids, shape=shape, fan_in=SUM_FAN_IN))
        objective.append(float(sums[-1].sum()))
        tell(ROUNDS_OF_KMEANS, number + 1)
        if has_settled(objective, tol):
            break
        moved, empty = sums[:-2], np.flatnonzero(sums[-2] == 0)
        if empty.size:  # an empty cluster takes the document farthest from its own centroid
            cosine = compute(nearest(matrix, centroids))[:, 1]
            farthest = np.argsort(cosine, kind="stable")[: empty.size]
            moved[:, empty] = take_rows(matrix, farthest).toarray().T
        centroids = unit_columns(moved)
    labels = nearest(matrix, centroids)[:, :1].astype(np.int64)
    return Start(labels, np.array(objective), centroids)


def has_settled(objective: Sequence[float] | Float64s, tol: float) -> bool:
    """Return whether the last round gained at most the share `tol` of the objective."""
    return len(objective) > 1 and bool(objective[-1] - objective[-2] <= tol * abs(objective[-1]))


def unit_columns(matrix: Float64s) -> Float64s:
    """Return a matrix with columns of unit length; a column of zeros stays zero."""
    norms = np.linalg.norm(matrix, axis=0)
    return np.asarray(matrix / np.where(norms > 0, norms, 1.0))


def nearest(matrix: Array, centroids: Float64s) -> Array:
    """Return the label of each row and the cosine with its centroid, float64 (n, 2), lazy where the rows are."""
    return lift(nearest_centroid, "wd,dk->wl", matrix, centroids, dtype=np.float64, sizes={"l": 2})


@block(temporaries=0.5)
def nearest_centroid(X: csr_array, C: Floats) -> Floats:
    """Return (rows, 2): label of the nearest centroid and the cosine with it; -1 and 1 for an empty row."""
    cosines = times(X, C)
    labels = cosines.argmax(axis=1)
    empty = np.diff(X.indptr) == 0
    best = cosines[np.arange(labels.size), labels].astype(np.float64)
    return np.column_stack([np.where(empty, -1, labels), np.where(empty, 1.0, best)])


@block(temporaries=1)
def cluster_sums(X: csr_array, C: Floats) -> Floats:
    """Return (d + 2, k): the sum of the rows of each cluster, their number, and the sum of their cosines."""
    labels, cosines = nearest_centroid(X, C).T
    rows = np.flatnonzero(labels >= 0).astype(np.int32)  # the product casts the columns of X to a larger type
    chosen = labels[rows].astype(np.int32)
    shape = (C.shape[1], X.shape[0])
    indicator = csr_array((np.ones(rows.size, np.float64), (chosen, rows)), shape)
    sums = (indicator @ X).toarray().T
    size = np.bincount(chosen, minlength=C.shape[1])
    return np.vstack([sums, size, np.bincount(chosen, cosines[rows], minlength=C.shape[1])])


def draw_seeds(X: csr_array, n_seeds: int, random: np.random.Generator) -> Int64s:
    """Return rows of X drawn as by k-means++ (Arthur & Vassilvitskii 2007) with the distance 1 - cosine.

    Where fewer than n_seeds rows are distinct the rest is drawn evenly from the rows not yet taken.
    """
    distance = (np.diff(X.indptr) > 0).astype(np.float64)
    seeds = np.empty(n_seeds, np.int64)
    for number in range(n_seeds):
        taken = seeds[:number]
        weight = distance if distance.sum() > 0 else np.isin(np.arange(X.shape[0]), taken, invert=True) * 1.0
        seeds[number] = random.choice(X.shape[0], p=weight / weight.sum())
        cosine = times(X, X[seeds[number : number + 1]].toarray().T).ravel()
        gap = 1.0 - cosine.astype(np.float64)
        distance = np.minimum(distance, np.where(gap > 1e-6, gap, 0.0))
    return seeds


class DocumentClusterer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator, ABC):
    """What estimators that label documents have in common: tags, and the weights and the labels of new documents."""

    def __sklearn_tags__(self) -> Tags:
        """Return the scikit-learn tags: rows may be sparse, and a transform keeps their precision."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    _learned: ClassVar[str]
    """The attribute that a fit leaves."""

    def _new_rows(self, X: MatrixLike) -> Array:
        """Return new documents, checked, in row blocks."""
        positive = self.__sklearn_tags__().input_tags.positive_only
        return document_rows(new_matrix(self, X, learned=self._learned, nonnegative=positive))

    @abstractmethod
    def _weigh(self, rows: Array) -> Array:
        """Return the weight of each topic or cluster in each row, (n, k)."""

    @abstractmethod
    def _label(self, rows: Array) -> Array:
        """Return the topic or cluster of each row, int64 (n,)."""

    @overload
    def transform(self, X: da.Array) -> da.Array: ...

    @overload
    def transform(self, X: InMemory) -> Floats: ...

    def transform(self, X: MatrixLike) -> Floats | da.Array:
        """Return the weight of each topic in each row of X: of NMF a factor, of k-means a cosine.

        The factors of a document are ``argmin over z >= 0 of ‖x - W z‖`` for the fixed word factors W.

        Parameters
        ----------
        X : array (n, d)
            Rows as of `fit`: NumPy, SciPy sparse, or Dask array of row blocks.

        Returns
        -------
        array (n, k) in the dtype of X
            A Dask array where X is one.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If X has another number of columns, or holds NaN, infinite values, or negative ones where `fit` takes none.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> new = np.array([[0.0, 5, 0, 0], [0, 0, 0, 0]])  # one about dogs, an empty one
        >>> model = de.NMF(n_components=2).fit(X)
        >>> Z = model.transform(new)
        >>> bool(Z[0].argmax() == model.labels_[0]), Z[1].tolist()
        (True, [0.0, 0.0])
        >>> de.SphericalKMeans(n_clusters=2).fit(X).transform(new).round(2).max(axis=1).tolist()
        [0.71, 0.0]
        """
        with one_blas_thread():
            return like_input(self._weigh(self._new_rows(X)), X)

    @overload
    def predict(self, X: da.Array) -> da.Array: ...

    @overload
    def predict(self, X: InMemory) -> Int64s: ...

    def predict(self, X: MatrixLike) -> Int64s | da.Array:
        """Return the topic or the cluster of each row of X.

        Of NMF it is the largest of the factors, each divided by its `document_norms_`. Of the documents of the fit
        these are its `labels_`, but for the solver "orthogonal" and with a graph, whose documents have a condition that
        new ones cannot meet. Of k-means it is the nearest center.

        Parameters
        ----------
        X : array (n, d)
            Rows as of `fit`: NumPy, SciPy sparse, or Dask array of row blocks.

        Returns
        -------
        int64 array (n,), -1 for a row of zeros
            A Dask array where X is one.

        Raises
        ------
        NotFittedError, ValueError
            As `transform`.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> words = ["cat", "dog", "tax", "vote"]
        >>> X = np.array([[3.0, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 1]])  # documents by words
        >>> new = np.array([[0.0, 5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])  # the last one has no word
        >>> for model in (de.NMF(n_components=2), de.SphericalKMeans(n_clusters=2)):
        ...     found = model.fit(X).predict(new)
        ...     print((found[:2] == model.labels_[[0, 3]]).tolist(), int(found[2]))
        [True, True] -1
        [True, True] -1
        """
        with one_blas_thread():
            return like_input(self._label(self._new_rows(X)), X)


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

    _learned = "cluster_centers_"

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
            It is ignored; scikit-learn's pipelines need it.

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
            matrix, _ = training_documents(self, X, self.n_clusters, nonnegative=False)
            matrix = unit_documents(matrix)

            def run(number: int) -> Start:
                options: dict[str, Any] = {"n_iter": self.max_iter, "tol": self.tol, "seed": (seed, number)}
                return spherical_kmeans(matrix, self.n_clusters, sample=self.seeding_sample, **options)

            ends = run_starts(
                run, Start, self.n_init,
                n_rounds=self.max_iter, what=ROUNDS_OF_KMEANS, in_memory=not isinstance(matrix, da.Array),
            )  # fmt: skip
            self.starts_ = [end._replace(labels=compute(end.labels).ravel()) for end in ends]
            self.n_iter_ = max(end.objective.size for end in ends)
            self.converged_ = all(has_settled(end.objective, self.tol) for end in ends)
            if self.n_init == 1 or self.choose == "objective":
                best = max(self.starts_, key=lambda start: start.objective[-1])
                self.labels_, self.objective_, centers = best
            else:
                centers = unit_columns(consensus_words([start.words for start in self.starts_]))
                labels, cosines = compute(nearest(matrix, centers)).T
                self.labels_ = labels.astype(np.int64)
                self.objective_ = cosines[labels >= 0].sum(keepdims=True)
            self.cluster_centers_: Float64s = np.ascontiguousarray(centers.T, np.float64)
            self.inertia_ = float(np.count_nonzero(self.labels_ >= 0) - self.objective_[-1])
        if not self.converged_:
            self.inertia_ = -self.score(X)  # the centers have moved since the last value of the objective
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
            cosines = compute(nearest(unit_documents(self._new_rows(X)), self.cluster_centers_.T))[:, 1]
            return float(cosines.sum() - len(cosines))

    def _weigh(self, rows: Array) -> Array:
        return lift(times, "wd,dk->wk", unit_documents(rows), self.cluster_centers_.T, dtype=rows.dtype)

    def _label(self, rows: Array) -> Array:
        return nearest(rows, self.cluster_centers_.T)[:, 0].astype(np.int64)


GROUPING_STARTS, GROUPED_DOCUMENTS = 20, 20_000
"""Starts of k-means on what clusterings have in common, and the documents that its centers are found from."""


def common_clusters(
    clusterings: Sequence[Int64s], n_clusters: int, *, like: Array, random_state: int = 0
) -> Array:
    """Return the clusters that several clusterings of the same documents have in common, int64 (n, 1).

    H has a row for each document, and a column for each cluster of each clustering, which is 1 / sqrt(size of the
    cluster) where it holds the document. The rows of the n_clusters left singular vectors of H, at unit length, are
    grouped by k-means. A document that no clustering labels has the label -1.

    Parameters
    ----------
    clusterings : sequence of int64 arrays (n,)
        Labels from 0 to n_clusters - 1, and -1.
    n_clusters : int
    like : matrix (n, d)
        The documents: the result is in its row blocks where it is a Dask array.
    random_state : int
    """
    labels: Any = np.stack(clusterings, axis=1)
    filled = np.flatnonzero((labels >= 0).any(axis=1))
    if isinstance(like, da.Array):
        labels = da.from_array(labels, chunks=(like.chunks[0], -1))
    n_columns = labels.shape[1] * n_clusters
    members = lift(
        memberships, "ws->wc", labels, dtype=np.float64, sparse=True, sizes={"c": n_columns}, rank=n_clusters
    )
    joint = compute(fold(total(joint_sizes), "wc", members, shape=(n_columns, n_columns), fan_in=SUM_FAN_IN))
    scale = 1 / np.sqrt(np.maximum(np.diag(joint), 1))
    values, vectors = (
        each[..., -n_clusters:] for each in np.linalg.eigh(joint * scale * scale[:, np.newaxis])
    )
    basis = scale[:, np.newaxis] * vectors / np.sqrt(np.maximum(values, np.finfo(float).eps))
    rows = document_rows(lift(times, "wc,ck->wk", members, basis, dtype=np.float64))
    sample = take_rows(rows, filled[evenly_spaced(len(filled), GROUPED_DOCUMENTS)])
    model = SphericalKMeans(n_clusters, n_init=GROUPING_STARTS, random_state=random_state).fit(sample)
    return nearest(rows, model.cluster_centers_.T)[:, :1].astype(np.int64)


@block(temporaries=2.5)
def memberships(labels: Int64s, *, rank: int) -> csr_array:
    """Return which clusters of which clusterings hold each document, 1 or nothing, (rows, clusterings × rank)."""
    rows, starts = np.nonzero(labels >= 0)
    columns = starts * rank + labels[rows, starts]
    return csr_array((np.ones(len(rows)), (rows, columns)), (len(labels), labels.shape[1] * rank))


@block(temporaries=1)
def joint_sizes(members: csr_array) -> Float64s:
    """Return how many documents each two clusters have in common."""
    return np.asarray((members.T @ members).toarray())
