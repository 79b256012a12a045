"""The choice of the ridge of a feature-preserving embedding by pairs that are left out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from distembed.manifold.correspondences import correspondence_matrix, known_values
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.neighbors.graphs import components


class RegularizationChoice(NamedTuple):
    """The result of `choose_regularization`."""

    regularization: float
    """The value with the smallest error."""
    errors: dict[float, float]
    """The root mean square error over the rows left out, by value."""


def choose_regularization(
    model: FeaturePreservingEmbedding,
    X1: Any,
    X2: Any,
    V1: Any,
    correspondences: Any,
    *,
    values: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0),
    random_state: int = 0,
) -> RegularizationChoice:
    """Choose λ by how well half of the pairs' features are inferred from the other half.

    Pairs that share a row are kept or left out together: a row that is left out of one pair and kept in another
    would be known. Pairs whose features are unknown are kept.

    Raises
    ------
    ValueError
        If the pairs with known features fall into fewer than two groups without a row in common, or no value
        leads to a finite error.
    """
    kept, left_out = _halves(
        correspondence_matrix(correspondences, X1.shape[0], X2.shape[0]), V1, random_state
    )
    wanted = np.asarray(V1, np.float64)[left_out.row]
    judged = ~np.isnan(wanted).any(axis=1)
    links = model.links_for(X1, X2, kept)
    errors = {}
    for value in values:
        fitted = clone(model).set_params(regularization=value, propagate=False).fit(X1, X2, V1, links)
        misfit = (fitted.features_[left_out.col] - wanted)[judged]
        errors[value] = float(np.sqrt(np.mean(misfit**2)))
    finite = [value for value in values if np.isfinite(errors[value])]
    if not finite:
        raise ValueError(f"no regularization of {values} gives a finite error: give others, or scale V1")
    return RegularizationChoice(min(finite, key=lambda value: errors[value]), errors)


class _Halves(NamedTuple):
    kept: sp.csr_array
    left_out: sp.coo_array


def _halves(links: sp.csr_array, V1: Any, random_state: int) -> _Halves:
    """Return the pairs to infer from and those to judge by, which share no row."""
    groups = _pair_groups(links, known_values(V1, links.shape[0])[1] > 0)
    n_groups = int(groups.max(initial=-1)) + 1
    if n_groups < 2:
        raise ValueError(
            f"{links.nnz} pairs make {n_groups} groups that share no row and have known features, "
            "which cannot be halved: set regularization by hand"
        )
    first_half = np.random.default_rng(random_state).permutation(n_groups) % 2 == 0
    kept = (groups < 0) | first_half[groups]
    return _Halves(sp.csr_array(_choose(links, kept)), _choose(links, ~kept))


def _pair_groups(links: sp.csr_array, known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the group of each stored pair, numbered from 0: pairs that share a row are of one group.

    -1 for the pairs of a group in which no row of the first set is known.
    """
    rows = links.tocoo().row
    joint = sp.csr_array(sp.block_array([[None, links], [links.T, None]]))
    labels = components(joint)[: links.shape[0]]
    useful = np.unique(labels[rows[known[rows]]])
    return np.where(np.isin(labels[rows], useful), np.searchsorted(useful, labels[rows]), -1)


def _choose(links: sp.csr_array, chosen: NDArray[np.bool_]) -> sp.coo_array:
    pairs = links.tocoo()
    return sp.coo_array((pairs.data[chosen], (pairs.row[chosen], pairs.col[chosen])), shape=links.shape)
