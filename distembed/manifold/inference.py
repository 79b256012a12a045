"""The features that each method infers for the second of two sets.

A result of transfer is meaningful only beside three controls: the column mean for every row; a ridge regression on the
corresponding pairs; and a linear map between the two sets followed by the nearest neighbor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestNeighbors

from distembed.dtypes import Float64s
from distembed.execution import compute, one_blas_thread
from distembed.linalg.csr import unit_rows
from distembed.manifold.correspondences import shared_values
from distembed.manifold.eigenmaps import smallest_eigenpairs
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.manifold.propagation import propagate_correspondences
from distembed.neighbors.graphs import components, joint_adjacency
from distembed.validation import seed_of

AS_PRINTED: Mapping[str, Any] = {
    "regularization": 0.0,
    "normalization": "symmetric",
    "missing": "imputed",
    "init": "random",
    "center": False,
    "propagate": False,
    "tol": 0.0,
    "solver_tol": 1e-8,
    "solver_max_iter": 5000,
}
"""Options with which `FeaturePreservingEmbedding` is the algorithm that the paper prints, for `max_iter` rounds.

Unknown values are replaced by Z F in each round, the start is random, nothing is centered, F has no ridge, and the
joint Laplacian is normalized. The paper names neither the number of rounds nor that of components.
"""


ALIGNMENT_COMPONENTS = 50
"""The components of semisupervised alignment, at most."""
CONTROL_RIDGE = 0.3
"""The ridge of the regressions that an embedding is compared with, whose rows have length one."""
NEAREST = 5
"""Rows of the first set whose features are averaged."""


class TwoSets(NamedTuple):
    """The input of every method of transfer, apart from the correspondences."""

    first: Any
    second: Any
    """The rows of the two sets. Arrays (n × d1), (m × d2)."""
    graphs: tuple[sp.csr_array, sp.csr_array]
    """The affinity of each set."""
    features: Float64s
    """The features of the first set; rows that are all NaN are unknown. Array (n × f)."""


class Inference(NamedTuple):
    """The features that a method infers for the second set, and the space in which it compares the sets, if any."""

    features: Float64s
    spaces: tuple[Float64s, Float64s] | None


def infer_by_each_method(
    sets: TwoSets,
    links: sp.csr_array,
    model: FeaturePreservingEmbedding,
    *,
    printed_rounds: int = 0,
) -> dict[str, Inference]:
    """Return the inference of each method from the same correspondences.

    - "mean", "ridge", "ridge_map", "procrustes", "procrustes_1": `linear_controls`;
    - "alignment": semisupervised alignment (Ham, Lee & Saul 2005), then the mean of the 5 nearest rows' values;
    - "printed": the algorithm that the paper prints, for so many rounds, with the links alone;
    - "matching", "matching_1": the space of `propagate_correspondences`, then 5 nearest rows or the one;
    - "embedding_given": `model` with the links alone;
    - "embedding": `model` with those found as well, if it propagates.

    All but mean, alignment, printed and embedding need dense rows and are left out for sparse ones.

    Parameters
    ----------
    sets : TwoSets
        The rows, graphs and features of the two sets.
    links : known correspondences, (n × m)
    model : its options are used, its graph is that of `sets`
    printed_rounds : int
        The rounds of "printed", which is left out for 0.
    """
    means = np.nanmean(sets.features, axis=0)  # for unknown features, which the controls cannot handle
    values = np.where(np.isnan(sets.features), means, sets.features)
    n, seed = links.shape[0], seed_of(model.random_state)

    def by_embedding(links: sp.csr_array, fitted: FeaturePreservingEmbedding) -> Inference:
        adjacency = joint_adjacency(sets.graphs, {(0, 1): links}, weight=fitted.correspondence_weight)
        fitted = clone(fitted).fit_graph(adjacency, *shared_values(sets.features, links))
        return Inference(fitted.features_[n:], (fitted.embedding_[:n], fitted.embedding_[n:]))

    found = linear_controls(sets.first, sets.second, values, links)
    adjacency = joint_adjacency(sets.graphs, {(0, 1): links})
    n_left = adjacency.shape[0] - int(components(adjacency).max()) - 1
    Z = smallest_eigenpairs(adjacency, min(ALIGNMENT_COMPONENTS, n_left), zeros="none").vectors
    found["alignment"] = by_nearest(Z[:n], Z[n:], values)
    if printed_rounds:
        found["printed"] = by_embedding(links, clone(model).set_params(**AS_PRINTED, max_iter=printed_rounds))
    found["embedding_given" if model.propagate else "embedding"] = by_embedding(links, model)
    if model.propagate:
        more = propagate_correspondences(sets.first, sets.second, links, random_state=seed)
        first, second = (unit_rows(rows) for rows in compute(more.spaces))
        found["matching"] = by_nearest(first, second, values)
        found["matching_1"] = by_nearest(first, second, values, 1)
        found["embedding"] = by_embedding(more.links, model)
    return found


def by_nearest(first: Float64s, second: Float64s, values: Float64s, k: int = NEAREST) -> Inference:
    """Return for each row of `second` the mean of the values of its k nearest rows of `first`."""
    with one_blas_thread():
        search = NearestNeighbors(n_neighbors=min(k, len(first))).fit(first)
        means: Float64s = values[search.kneighbors(second, return_distance=False)].mean(axis=1)
    return Inference(means, (first, second))


def linear_controls(X1: Any, X2: Any, V1: Any, links: sp.csr_array) -> dict[str, Inference]:
    """Return what the plain controls infer for the rows of X2, features of (m × f) each.

    - "mean": the column means of V1;
    - "ridge": a ridge regression from x2 to the values of its counterpart, fitted to the links;
    - "ridge_map": a ridge regression from x2 to x1, then the mean of the 5 nearest rows' values;
    - "procrustes": the same with the best rotation, which has orthonormal rows or columns, instead of the regression;
    - "procrustes_1": the same with the one nearest row.

    Parameters
    ----------
    X1, X2 : (n × d1), (m × d2); rows are divided by their lengths, and of sparse ones there is the mean alone
    V1 : array (n × f)
        The features of the first set.
    links : (n × m), the strongest entry of a column is its counterpart

    Raises
    ------
    ValueError
        If there is no link.
    """
    if not links.nnz:
        raise ValueError("the controls are fitted to correspondences, but there are none")
    values, pairs = np.asarray(V1, np.float64), links.tocoo()
    mean = Inference(np.tile(values.mean(axis=0), (links.shape[1], 1)), None)
    if sp.issparse(X1) or sp.issparse(X2):
        return {"mean": mean}
    first, second = unit_rows(np.asarray(X1, np.float64)), unit_rows(np.asarray(X2, np.float64))
    here, there = first[pairs.row], second[pairs.col]
    with one_blas_thread():
        left, _, right = np.linalg.svd((there * pairs.data[:, None]).T @ here, full_matrices=False)
        rotated = unit_rows(second @ (left @ right))
        ridge = Ridge(alpha=CONTROL_RIDGE)
        regressed = unit_rows(ridge.fit(there, here).predict(second))
        direct = ridge.fit(there, values[pairs.row]).predict(second)
    return {
        "mean": mean,
        "ridge": Inference(direct, None),
        "ridge_map": by_nearest(first, regressed, values),
        "procrustes": by_nearest(first, rotated, values),
        "procrustes_1": by_nearest(first, rotated, values, 1),
    }
