"""Linear maps between two sets of vectors, and the features they transfer: the baselines of transfer.

A result of transfer is meaningful only beside three controls: the column mean for every row; a ridge
regression on the corresponding pairs; and a linear map between the two sets followed by the nearest neighbor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from distembed.execution import one_blas_thread
from distembed.linalg.blocks import directions
from distembed.manifold.alignment_blocks import procrustes_map, ridge_map

Float64s = NDArray[np.float64]


def nearest_features(first: Any, second: Any, V1: Any, *, n_neighbors: int = 1) -> Float64s:
    """Return for each row of `second` the mean of V1 over its nearest rows of `first` by cosine, (m × f)."""
    search = NearestNeighbors(n_neighbors=n_neighbors).fit(directions(np.asarray(first, np.float64)))
    nearest = search.kneighbors(directions(np.asarray(second, np.float64)), return_distance=False)
    return np.asarray(V1, np.float64)[nearest].mean(axis=1)


def control_features(
    X1: Any, X2: Any, V1: Any, links: sp.csr_array, *, ridge: float = 0.3, n_neighbors: int = 5
) -> dict[str, Float64s]:
    """Return the features that the plain controls infer for the rows of X2, each (m × f).

    - "mean": the column means of V1;
    - "ridge": a ridge regression from x2 to the values of its counterpart, fitted to the links;
    - "ridge_map": a ridge regression from x2 to x1, then the mean of the `n_neighbors` nearest rows' values;
    - "procrustes": the same with the best rotation instead of the regression;
    - "procrustes_1": the same with the one nearest row.

    Parameters
    ----------
    X1, X2 : dense, (n × d1), (m × d2); rows are divided by their lengths
    V1 : array (n × f)
        The features of the first set.
    links : (n × m), the strongest entry of a column is its counterpart
    ridge : float
        The ridge of the regressions.
    n_neighbors : int
        The number of nearest rows.

    Raises
    ------
    ValueError
        If there is no link.
    """
    values, pairs = np.asarray(V1, np.float64), links.tocoo()
    first, rotated, regressed = fit_control_maps(X1, X2, links, ridge=ridge)
    second = directions(np.asarray(X2, np.float64))
    with one_blas_thread():
        direct = ridge_map(second[pairs.col], values[pairs.row], ridge=ridge)(second)
    return {
        "mean": np.tile(values.mean(axis=0), (len(second), 1)),
        "ridge": direct,
        "ridge_map": nearest_features(first, regressed, values, n_neighbors=n_neighbors),
        "procrustes": nearest_features(first, rotated, values, n_neighbors=n_neighbors),
        "procrustes_1": nearest_features(first, rotated, values),
    }


class ControlMaps(NamedTuple):
    """Unit rows of the first set, and images of the second's among them."""

    first: Float64s
    """Shape (n × d1)."""
    rotated: Float64s
    """Shape (m × d1), by the best rotation."""
    regressed: Float64s
    """Shape (m × d1), by ridge regression."""


def fit_control_maps(X1: Any, X2: Any, links: sp.csr_array, *, ridge: float = 0.3) -> ControlMaps:
    """Fit the linear maps of `control_features` to the links.

    Raises
    ------
    ValueError
        If there is no link.
    """
    if not links.nnz:
        raise ValueError("the controls are fitted to correspondences, but there are none")
    first, second = directions(np.asarray(X1, np.float64)), directions(np.asarray(X2, np.float64))
    pairs = links.tocoo()
    here, there = first[pairs.row], second[pairs.col]
    with one_blas_thread():
        rotated = second @ procrustes_map(there, here, pairs.data)
        return ControlMaps(first, rotated, ridge_map(there, here, ridge=ridge)(second))
