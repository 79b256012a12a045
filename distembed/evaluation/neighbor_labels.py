"""The labels of neighbors: Table 1 of Yao, Yu & Xiao (KDD 2019).

Do the names near a name have its own label? By leave-one-out classification with the k nearest others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import pairwise_distances

from distembed.execution import one_blas_thread

Floats: TypeAlias = NDArray[np.float64]

NEIGHBOR_COUNTS = (2, 5, 8, 10, 15, 20, 30)
"""Table 1 of the paper."""

VOTES: tuple[Literal["uniform", "distance"], ...] = ("uniform", "distance")
"""Votes of neighbors that count alike, and by the inverse of their distance."""


def neighbor_label_accuracy(
    vectors: ArrayLike,
    labels: Sequence[Any],
    *,
    n_neighbors: Iterable[int] = NEIGHBOR_COUNTS,
    weights: Literal["uniform", "distance"] = "uniform",
    judged: ArrayLike | None = None,
) -> dict[int, float]:
    """Return the share of rows whose label is the one that their k nearest others vote for, for each k.

    This is the leave-one-out score of sklearn.neighbors.KNeighborsClassifier. Distances are Euclidean, equal ones
    ordered by row; of labels with equally many votes the first in sorted order wins.

    Parameters
    ----------
    vectors : shape (n, s), finite
    labels : n labels
    n_neighbors : sequence of int
        The numbers of neighbors k.
    weights : "uniform" or "distance"
        Whether the votes of neighbors count alike, or by the inverse of their distance, as in the authors' program;
        where neighbors lie at distance zero, they alone vote.
    judged : row numbers, optional
        The rows whose label is asked for; by default all.

    Raises
    ------
    ValueError
        If a k is not in 1 … n - 1, or the numbers of rows and labels differ.

    Examples
    --------
    >>> from distembed.evaluation.neighbor_labels import neighbor_label_accuracy
    >>> neighbor_label_accuracy([[0.0], [0.1], [5.0], [5.2]], list("aabb"), n_neighbors=[1, 3], weights="distance")
    {1: 1.0, 3: 1.0}
    """
    rows = np.asarray(vectors, dtype=np.float64)
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    counts = list(n_neighbors)
    if len(rows) != len(codes):
        raise ValueError(f"{len(rows)} vectors came with {len(codes)} labels: give one for each")
    if not counts or min(counts) < 1 or max(counts) >= len(rows):
        raise ValueError(f"n_neighbors = {counts} must lie in 1 … {len(rows) - 1}, the others of each row")
    asked = np.arange(len(rows)) if judged is None else np.asarray(judged, np.int64)
    near = _nearest_others(rows, asked, max(counts))
    is_of_class = codes[near.rows][:, :, None] == np.arange(len(classes))
    return {
        k: float((_votes(is_of_class[:, :k], near.distances[:, :k], weights) == codes[asked]).mean())
        for k in counts
    }


def _votes(
    is_of_class: NDArray[np.bool_], distances: Floats, weights: Literal["uniform", "distance"]
) -> NDArray[np.int64]:
    """Return the class that the neighbors of each row vote for, from (rows, k, classes) and (rows, k)."""
    if weights == "uniform":
        return np.asarray(is_of_class.sum(axis=1).argmax(axis=1))
    at_zero = distances == 0
    inverse = np.divide(1, distances, out=np.zeros_like(distances), where=~at_zero)
    shares = np.where(at_zero.any(axis=1)[:, None], at_zero, inverse)
    return np.asarray((shares[:, :, None] * is_of_class).sum(axis=1).argmax(axis=1))


class _Nearest(NamedTuple):
    rows: NDArray[np.int64]
    distances: Floats


QUERIES_AT_ONCE = 256
"""Rows whose distances to all others are held at a time."""


def _nearest_others(rows: Floats, asked: NDArray[np.int64], k: int) -> _Nearest:
    """Return the k rows nearest to each asked one, itself left out, and their distances, (a, k) each."""
    found: list[NDArray[np.int64]] = []
    lengths: list[Floats] = []
    for start in range(0, asked.size, QUERIES_AT_ONCE):
        queries = asked[start : start + QUERIES_AT_ONCE]
        with one_blas_thread():
            distances = pairwise_distances(rows[queries], rows)
        distances[np.arange(queries.size), queries] = np.inf
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        found.append(order)
        lengths.append(np.take_along_axis(distances, order, axis=1))
    return _Nearest(np.concatenate(found), np.concatenate(lengths))


class LabelAccuracy(NamedTuple):
    """How often the neighbors of names vote for their label."""

    rows: str
    votes: str
    n_neighbors: int
    n_names: int
    accuracy: float


def label_accuracies(
    spaces: Mapping[str, tuple[ArrayLike, Sequence[Any]]], *, max_names: int, seed: int
) -> list[LabelAccuracy]:
    """Return the accuracy of each space by both kinds of votes, for each k of Table 1 that its rows allow.

    Parameters
    ----------
    spaces : vectors and labels by name
    max_names : names that are asked for, at most, drawn at random; their neighbors are searched among all
    seed : of the draw
    """
    found = []
    for name, (vectors, labels) in spaces.items():
        n = len(labels)
        asked = np.sort(np.random.default_rng(seed).permutation(n)[:max_names])
        counts = [k for k in NEIGHBOR_COUNTS if k < n]
        for votes in VOTES if counts else ():
            shares = neighbor_label_accuracy(vectors, labels, n_neighbors=counts, weights=votes, judged=asked)
            found += [LabelAccuracy(name, votes, k, n, share) for k, share in shares.items()]
    return found
