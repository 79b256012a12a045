"""How good imputed vectors are: labels of neighbors, and known vectors that were hidden and found again.

The first is Table 1 of Yao, Yu & Xiao (KDD 2019): does a name's neighborhood hold its own sector? The second asks
more: is a hidden vector itself found, and better than by methods that know no graph? `BASELINES` are those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve
from sklearn.metrics import pairwise_distances

from distembed.evaluation import blocks
from distembed.execution import one_blas_thread
from distembed.linalg.blocks import directions

Floats: TypeAlias = NDArray[np.float64]
Method: TypeAlias = Callable[[Floats, Floats], Any]
"""Takes X (n, d) and Y (n, s) with rows of NaN; returns Y with those rows filled in."""

NEIGHBOR_COUNTS = (2, 5, 8, 10, 15, 20, 30)
"""Table 1 of the paper."""

RIDGES = tuple(10.0 ** np.arange(-4, 4))
"""Ridges tried, in units of the kernel's mean diagonal; the leave-one-out error chooses."""


# ---- labels of neighbors ---------------------------------------------------------------------------------


def neighbor_label_accuracy(
    vectors: ArrayLike, labels: Sequence[Any], *, n_neighbors: Iterable[int] = NEIGHBOR_COUNTS
) -> dict[int, float]:
    """Return the share of rows whose label is that of most of their k nearest others, for each k.

    Distances are Euclidean, equal ones ordered by row; of labels with equally many votes the first in sorted
    order wins, as in sklearn.neighbors.KNeighborsClassifier, of which this is the leave-one-out score.

    Parameters
    ----------
    vectors : shape (n, s), finite
    labels : n labels

    Raises
    ------
    ValueError
        If a k is not in 1 … n - 1, or the numbers of rows and labels differ.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    counts = list(n_neighbors)
    if len(rows) != len(codes):
        raise ValueError(f"{len(rows)} vectors came with {len(codes)} labels: give one for each")
    if not counts or min(counts) < 1 or max(counts) >= len(rows):
        raise ValueError(f"n_neighbors = {counts} must lie in 1 … {len(rows) - 1}, the others of each row")
    nearest = codes[_nearest_others(rows, max(counts))]
    votes = np.cumsum(nearest[:, :, None] == np.arange(len(classes)), axis=1)
    return {k: float((votes[:, k - 1].argmax(axis=1) == codes).mean()) for k in counts}


def _nearest_others(rows: Floats, k: int) -> NDArray[np.int64]:
    with one_blas_thread():
        distances = pairwise_distances(rows)
    np.fill_diagonal(distances, np.inf)
    order: NDArray[np.int64] = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return order


# ---- hidden vectors ---------------------------------------------------------------------------------------


class HoldOutScore(NamedTuple):
    """How near a method came to the vectors hidden from it, in one draw."""

    method: str
    seed: int
    n_hidden: int
    cosine: float  # mean over hidden rows of the cosine to the truth
    median_rank: (
        float  # of the truth among all known vectors by cosine to what was found; 1 is best, ties half
    )
    reciprocal_rank: float  # mean of 1 / rank


def hold_out(
    X: ArrayLike,
    Y: ArrayLike,
    methods: Mapping[str, Method],
    *,
    share: float = 0.2,
    seeds: Iterable[int] = range(10),
) -> list[HoldOutScore]:
    """Hide a share of the known rows of Y, let each method fill them in, and compare with the truth.

    Every method sees the same rows hidden. Rows of Y that are NaN to begin with stay: a method may use their
    rows of X. A row that a method leaves at zero or fills with values that are not finite has no direction: its
    cosine is 0 and it ranks all known vectors alike, the truth in the middle.

    Parameters
    ----------
    X : shape (n, d), finite
    Y : shape (n, s), rows known or NaN throughout
    share : of the known rows, in (0, 1)
    seeds : a draw each

    Raises
    ------
    ValueError
        If the share leaves nothing hidden or nothing known.
    """
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(Y[:, 0]))
    n_hidden = round(share * known.size)
    if not 0 < n_hidden < known.size:
        raise ValueError(
            f"share = {share} of {known.size} known rows hides {n_hidden}: hide some and leave some"
        )
    scores = []
    for seed in seeds:
        hidden = np.sort(np.random.default_rng(seed).permutation(known)[:n_hidden])
        for name, method in methods.items():
            found = _filled_in(method, X, Y, hidden)
            scores.append(HoldOutScore(name, seed, n_hidden, *_compare(found, hidden, known, Y)))
    return scores


def _filled_in(method: Method, X: Floats, Y: Floats, hidden: NDArray[np.int64]) -> Floats:
    masked = Y.copy()
    masked[hidden] = np.nan
    return np.asarray(method(X, masked), dtype=np.float64)[hidden]


def _compare(
    found: Floats, hidden: NDArray[np.int64], known: NDArray[np.int64], Y: Floats
) -> tuple[float, float, float]:
    """Return the mean cosine to the truth, its median rank and mean reciprocal rank."""
    truth = np.searchsorted(known, hidden)
    with one_blas_thread():
        cosines = directions(found) @ directions(Y[known]).T
    ranks = blocks.tied_ranks(cosines, truth)
    cosine = float(cosines[np.arange(hidden.size), truth].mean())
    return cosine, float(np.median(ranks)), float((1 / ranks).mean())


def mean_scores(scores: Iterable[HoldOutScore]) -> list[dict[str, Any]]:
    """Return a row for each method: means over draws, and the standard deviation of the cosine."""
    groups: dict[str, list[HoldOutScore]] = {}
    for score in scores:
        groups.setdefault(score.method, []).append(score)
    return [
        {
            "method": method,
            "draws": len(group),
            "hidden": group[0].n_hidden,
            "cosine": float(np.mean([score.cosine for score in group])),
            "deviation": float(np.std([score.cosine for score in group])),
            "median_rank": float(np.mean([score.median_rank for score in group])),
            "reciprocal_rank": float(np.mean([score.reciprocal_rank for score in group])),
        }
        for method, group in groups.items()
    ]


# ---- methods without a graph ------------------------------------------------------------------------------


def nearest_mean(X: Floats, Y: Floats, *, k: int = 8) -> Floats:
    """Fill in the mean vector of the k rows of X nearest among the known ones."""
    known, out = ~np.isnan(Y[:, 0]), Y.copy()
    with one_blas_thread():
        distances = pairwise_distances(X[~known], X[known])
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    out[~known] = Y[known][nearest].mean(axis=1)
    return out


def nearest_one(X: Floats, Y: Floats) -> Floats:
    """Fill in the vector of the nearest known row."""
    return nearest_mean(X, Y, k=1)


def linear_map(X: Floats, Y: Floats) -> Floats:
    """Fill in a least-squares map of X with a ridge chosen by the leave-one-out error."""
    known, out = ~np.isnan(Y[:, 0]), Y.copy()
    with one_blas_thread():
        out[~known] = _ridge_map(X @ X[known].T, known, Y)
    return out


def kernel_ridge(X: Floats, Y: Floats) -> Floats:
    """Fill in a map of X by the kernel exp(-‖x - z‖² / median), its ridge chosen by the leave-one-out error."""
    known, out = ~np.isnan(Y[:, 0]), Y.copy()
    with one_blas_thread():
        squares = pairwise_distances(X, X[known], metric="sqeuclidean")
        out[~known] = _ridge_map(np.exp(-squares / np.median(squares[known])), known, Y)
    return out


def _ridge_map(kernel: Floats, known: NDArray[np.bool_], Y: Floats) -> Floats:
    """Return the unknown rows by kernel ridge regression with an intercept.

    Parameters
    ----------
    kernel : shape (n, p), of all rows with the known ones
    """
    mean = Y[known].mean(axis=0)
    # centered in the feature space on the known rows: the intercept is then their mean
    kernel = kernel - kernel[known].mean(axis=0)
    kernel = kernel - kernel.mean(axis=1, keepdims=True)
    inside, targets = kernel[known], Y[known] - mean
    unit = inside.trace() / len(inside)
    errors, solutions = zip(*(_left_one_out(inside, ridge * unit, targets) for ridge in RIDGES), strict=True)
    result: Floats = kernel[~known] @ solutions[int(np.argmin(errors))] + mean
    return result


def _left_one_out(kernel: Floats, ridge: float, targets: Floats) -> tuple[float, Floats]:
    """Return the squared leave-one-out error of a ridge, and its dual solution (K + ridge I)^-1 Y.

    With C = (K + ridge I)^-1 and K centered, the hat matrix with its intercept is 11'/p + I - ridge C, and the
    error of row i is its residual over 1 - hat_ii: no row has to be left out for it.
    """
    inverse = solve(kernel + ridge * np.eye(len(kernel)), np.eye(len(kernel)), assume_a="pos")
    dual = inverse @ targets
    freedom = ridge * inverse.diagonal() - 1 / len(kernel)
    return float(((ridge * dual / freedom[:, None]) ** 2).sum()), dual


BASELINES: Mapping[str, Method] = {
    "mean of 8 nearest": nearest_mean,
    "kernel ridge": kernel_ridge,
    "linear map": linear_map,
    "nearest": nearest_one,
}
"""Methods that look only at known rows."""
