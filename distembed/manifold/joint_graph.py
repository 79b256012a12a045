"""The common base of the estimators of two sets of rows: the options of the joint graph, and its construction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from distembed.execution import Checkpoint
from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.propagation import propagate_correspondences
from distembed.neighbors.distances import Metric
from distembed.neighbors.graphs import (
    Affinity,
    Normalization,
    Symmetry,
    joint_adjacency,
    neighbor_affinity,
)
from distembed.options import RandomState, check_options
from distembed.typing import InMemory, Matrix, MatrixLike
from distembed.validation import check_matrix, seed_of, training_matrix


class JointGraphEstimator(BaseEstimator):
    """The common base of both estimators: the options of the joint graph, and its construction."""

    def __init__(
        self,
        n_components: int,
        *,
        n_neighbors: int,
        affinity: Affinity,
        symmetry: Symmetry,
        metric: Metric,
        correspondence_weight: float,
        normalization: Normalization,
        propagate: bool,
        random_state: RandomState,
        block_memory: int,
        checkpoint: Checkpoint,
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

    def __sklearn_tags__(self) -> Tags:
        """Return the scikit-learn tags: sparse rows are accepted where only their cosines are needed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse()
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

    def links_for(self, X1: Matrix, X2: Matrix, correspondences: InMemory) -> sp.csr_array:
        """Return the correspondences to use: those given, and those found if the estimator propagates.

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> X1, X2 = np.array([[0.0], [1.0]]), np.array([[9.0], [8.0], [7.0]])
        >>> links = de.SemisupervisedAlignment().links_for(X1, X2, [[0, 0, 1.0], [1, 2, 0.5]])
        >>> links.toarray().tolist()
        [[1.0, 0.0, 0.0], [0.0, 0.0, 0.5]]
        """
        links = correspondence_matrix(correspondences, X1.shape[0], X2.shape[0])
        if not links.nnz:
            raise ValueError(
                "there are no correspondences, so nothing joins the two sets: give at least one pair"
            )
        if not self.propagate:
            return links
        return propagate_correspondences(
            X1,
            X2,
            links,
            metric=self.metric,
            random_state=seed_of(self.random_state),
            block_memory=self.block_memory,
            checkpoint=prefixed(self.checkpoint, "pairs"),
        ).links

    def _joint_graph(self, sets: tuple[Any, ...], links: sp.csr_array | None) -> sp.csr_array:
        graphs = [
            neighbor_affinity(
                X,
                self.n_neighbors,
                affinity=self.affinity,
                symmetry=self.symmetry,
                metric=self.metric,
                block_memory=self.block_memory,
                checkpoint=prefixed(self.checkpoint, f"set{number}"),
            )
            for number, X in enumerate(sets, start=1)
        ]
        joined = {} if links is None else {(0, 1): links}
        return joint_adjacency(graphs, joined, weight=self.correspondence_weight)


def prefixed(checkpoint: Checkpoint, prefix: str) -> Checkpoint:
    """Return a checkpoint that adds a prefix to the names of its arrays."""

    def keep(name: str, make: Callable[[], da.Array]) -> da.Array:
        return checkpoint(f"{prefix}-{name}", make)

    return keep
