"""Semisupervised alignment: two sets of rows in one space, by the smallest eigenvectors of their joint graph.

J. Ham, D. Lee, L. Saul, Semisupervised alignment of manifolds, AISTATS 2005. A *correspondence* says that a row of
the first set and a row of the second are the same thing. `distembed.manifold.feature_preserving` has the embedding
that also keeps known features.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from distembed.execution import Checkpoint, one_blas_thread, persist
from distembed.linalg.chunks import BLOCK_MEMORY
from distembed.manifold.correspondences import JointGraphEstimator
from distembed.manifold.eigenmaps import smallest_eigenpairs
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.neighbors.distances import Metric
from distembed.neighbors.graphs import (
    Affinity,
    Normalization,
    Symmetry,
    components,
)
from distembed.options import PositiveFloat, PositiveInt, RandomState
from distembed.typing import DenseInMemory, InMemory, MatrixLike
from distembed.validation import seed_of

Float64s = NDArray[np.float64]

__all__ = [
    "FeaturePreservingEmbedding",  # pickled models name this module
    "SemisupervisedAlignment",
    "alignment_eigenpairs",
]


class SemisupervisedAlignment(JointGraphEstimator):
    """Embed two sets of rows by the smallest eigenvectors of their joint Laplacian.

    Minimizes tr(ZᵀLZ) with ZᵀZ = I over the graph [[W1, μC], [μCᵀ, W2]], without the constant vector of each
    connected component.

    Parameters
    ----------
    n_components : int
        Number k of eigenvectors.
    n_neighbors : int
        The number of neighbors of each row in the graph of its set, see `neighbor_affinity`.
    affinity : {"binary", "cosine", "gaussian", "local"}
        The weight of an edge between neighbors.
    symmetry : {"mutual", "union"}
        Which edges are kept: those that both rows list, or those that either lists.
    metric : {"cosine", "euclidean"}
        The distance between rows.
    correspondence_weight : float
        The weight μ of an edge between corresponding rows.
    normalization : {"none", "symmetric"}
        The normalization of the joint Laplacian, see `laplacian`.
    propagate : bool
        Whether further correspondences are found first, see `propagate_correspondences`.
    random_state : int, None, Generator or RandomState
        The seed.
    block_memory : int
        The memory of one task in bytes.
    checkpoint : Checkpoint
        Stores the intermediate arrays, so that a job can be resumed.

    Attributes
    ----------
    embedding_ : array (n + m, k)
        The embedding; the rows of the first set come first.
    eigenvalues_ : array (k,)
        The eigenvalues, rising.
    adjacency_ : CSR array (n + m, n + m)
        The joint graph.
    links_ : CSR array (n × m)
        The correspondences.

    References
    ----------
    Ham, Lee & Saul 2005, Semisupervised alignment of manifolds, section 3.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> X1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # two sets of rows in columns of their own
    >>> X2 = np.array([[10.0, 0.0], [8.0, 2.0], [6.0, 4.0], [4.0, 6.0], [2.0, 8.0]])
    >>> V1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # the features of the first set
    >>> pairs = [[0, 0], [2, 2], [4, 4]]  # rows that correspond
    >>> options = {"n_neighbors": 2, "metric": "euclidean"}
    >>> model = de.SemisupervisedAlignment(n_components=1, **options).fit(X1, X2, pairs)
    >>> model.embedding_.shape
    (10, 1)
    >>> model.transfer(V1).ravel().tolist()  # the features of the nearest row of the first set
    [0.0, 1.0, 2.0, 3.0, 4.0]
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
        normalization: Normalization = "symmetric",
        propagate: bool = False,
        random_state: RandomState = 0,
        block_memory: PositiveInt = BLOCK_MEMORY,
        checkpoint: Checkpoint = persist,
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
        self.block_memory = block_memory
        self.checkpoint = checkpoint

    def fit(self, X1: MatrixLike, X2: MatrixLike, correspondences: InMemory) -> SemisupervisedAlignment:
        """Learn the embedding of both sets.

        Parameters
        ----------
        X1 : array (n, d1)
            The rows of the first set.
        X2 : array (m, d2)
            The rows of the second set.
        correspondences : array or sparse matrix
            Pairs of rows, see `correspondence_matrix`.

        Returns
        -------
        SemisupervisedAlignment
            The estimator itself.

        Raises
        ------
        ValueError
            If the correspondences are none or faulty (`correspondence_matrix`), or k is not below n + m.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # two sets of rows in columns of their own
        >>> X2 = np.array([[10.0, 0.0], [8.0, 2.0], [6.0, 4.0], [4.0, 6.0], [2.0, 8.0]])
        >>> V1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # the features of the first set
        >>> pairs = [[0, 0], [2, 2], [4, 4]]  # rows that correspond
        >>> options = {"n_neighbors": 2, "metric": "euclidean"}
        >>> model = de.SemisupervisedAlignment(n_components=1, **options).fit(X1, X2, pairs)
        >>> model.eigenvalues_.shape, model.links_.nnz
        ((1,), 3)
        """
        sets = self._training_sets(X1, X2)
        self.links_ = self.links_for(sets[0], sets[1], correspondences)
        self.adjacency_ = self._joint_graph(sets, self.links_)
        self.n_first_ = self.links_.shape[0]
        self.eigenvalues_, self.embedding_ = alignment_eigenpairs(
            self.adjacency_,
            self.n_components,
            normalization=self.normalization,
            random_state=seed_of(self.random_state),
        )
        return self

    def transfer(self, V1: DenseInMemory, *, n_neighbors: PositiveInt = 1) -> Float64s:
        """Return for each row of the second set the mean of V1 over its nearest of the first, (m × f).

        Parameters
        ----------
        V1 : array (n, f)
            The features of the first set.
        n_neighbors : int

        Returns
        -------
        float64 array (m, f)

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # two sets of rows in columns of their own
        >>> X2 = np.array([[10.0, 0.0], [8.0, 2.0], [6.0, 4.0], [4.0, 6.0], [2.0, 8.0]])
        >>> V1 = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])  # the features of the first set
        >>> pairs = [[0, 0], [2, 2], [4, 4]]  # rows that correspond
        >>> options = {"n_neighbors": 2, "metric": "euclidean"}
        >>> model = de.SemisupervisedAlignment(n_components=1, **options).fit(X1, X2, pairs)
        >>> model.transfer(V1).ravel().tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0]
        """
        check_is_fitted(self, "embedding_")
        first, second = self.embedding_[: self.n_first_], self.embedding_[self.n_first_ :]
        with one_blas_thread():
            search = NearestNeighbors(n_neighbors=n_neighbors).fit(first)
            nearest = search.kneighbors(second, return_distance=False)
        return np.asarray(V1, np.float64)[nearest].mean(axis=1)


def alignment_eigenpairs(
    adjacency: sp.csr_array,
    n_components: int,
    *,
    normalization: Normalization = "symmetric",
    random_state: int = 0,
) -> tuple[Float64s, Float64s]:
    """Return the smallest eigenvalues and eigenvectors of a graph's Laplacian after those of its parts.

    Raises
    ------
    ValueError
        If n_components exceeds the rows of the graph less its connected parts.
    """
    n_rows, n_parts = adjacency.shape[0], int(components(adjacency).max()) + 1
    if not 1 <= n_components <= n_rows - n_parts:
        raise ValueError(
            f"n_components is {n_components}, but a graph of {n_rows} rows in {n_parts} connected parts has "
            f"{n_rows - n_parts} eigenvectors to choose from: choose 1 to {n_rows - n_parts}"
        )
    return smallest_eigenpairs(
        adjacency, n_components, normalization=normalization, constants=False, random_state=random_state
    )
