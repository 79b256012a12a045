"""The choice between imputation, a linear map and their combination, on known names that are hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import ArrayLike, NDArray

from distembed.execution import Checkpoint, compute
from distembed.manifold import imputation_blocks as blocks
from distembed.manifold.imputation_blocks import Float64s, RidgePath

RIDGES = tuple(10.0 ** np.arange(3, -5, -1))
"""Ridges tried, in units of the mean squared length of a row of the table, the smoothest map first."""

LEAST_KNOWN = 10
"""Known names below which nothing can be chosen by hiding some of them."""


class Candidate(NamedTuple):
    """A method, "graph", "linear_map" or "combined", with the ridge of its linear map; 0 for the graph."""

    method: str
    ridge: float


def candidates_of(method: str) -> list[Candidate]:
    """Return what is tried for a method; for "auto" all, the graph first, which wins where all are alike."""
    tried = [Candidate("graph", 0.0)]
    tried += [Candidate("linear_map", ridge) for ridge in RIDGES]
    tried += [Candidate("combined", ridge) for ridge in RIDGES]
    return [one for one in tried if method in ("auto", one.method)]


def hold_out_folds(known: ArrayLike, *, n_folds: int, max_names: int, seed: int) -> list[NDArray[np.int64]]:
    """Return the rows to hide in each fold: known rows in random order, each in at most one fold.

    Parameters
    ----------
    known : row numbers of the known names
    n_folds : at most so many folds; one name is hidden in each where there are fewer names
    max_names : names hidden in all folds together
    seed : of the order

    Returns
    -------
    Sorted row numbers, int64, one array per fold; no fold where fewer than two names are known, since one of
    them has to stay.
    """
    rows = np.asarray(known, dtype=np.int64)
    if rows.size < 2:
        return []
    order = np.random.default_rng(seed).permutation(rows)[:max_names]
    return [np.sort(fold) for fold in np.array_split(order, min(n_folds, order.size))]


class HiddenFold(NamedTuple):
    """The input from which every method finds the vectors of the names hidden in one fold."""

    graph: Float64s
    """The vectors that imputation finds. Shape (h, s)."""
    rows: Float64s
    """The rows of the table. Shape (h, d)."""
    mixtures: Float64s
    """What imputation makes of these rows from the known ones. Shape (h, d)."""
    path: RidgePath
    """The linear maps fitted to the names that are not hidden."""


def fold_of(
    impute: Callable[[Any], da.Array],
    rows: da.Array,
    Y: Any,
    hidden: Any,
    *,
    path: RidgePath,
    checkpoint: Checkpoint,
) -> HiddenFold:
    """Return what the vectors of hidden names are found from.

    Parameters
    ----------
    impute : callable
        Returns the hidden rows of an array, imputed from the known rows that are not hidden.
    rows : Dask array (n, d)
        The rows of the table.
    Y : array (n, s)
        The vectors.
    hidden : int array (h,)
        The rows that are hidden, sorted.
    path : RidgePath
        The linear maps fitted to the known rows that are not hidden.
    checkpoint : Checkpoint
        Keeps what is imputed.
    """
    found = [
        checkpoint(f"{name}-hidden", partial(impute, values))
        for name, values in (("vectors", Y), ("table", rows))
    ]
    vectors, mixtures, of_table = (array.astype(np.float64) for array in compute((*found, rows[hidden])))
    return HiddenFold(vectors, of_table, mixtures, path)


def find_vectors(fold: HiddenFold, candidate: Candidate) -> Float64s:
    """Return the vectors that a candidate finds for the hidden names, (h, s)."""
    if candidate.method == "graph":
        return fold.graph
    weights = blocks.map_weights(fold.path, candidate.ridge)
    if candidate.method == "linear_map":
        return blocks.map_rows(fold.rows, fold.path, weights)
    return fold.graph + (fold.rows - fold.mixtures) @ weights


def fold_scores(fold: HiddenFold, truth: Float64s) -> dict[Candidate, Float64s]:
    """Return the centered cosine of each hidden name with its true vector, (h,), for every candidate."""
    mean = fold.path.target_mean
    return {
        one: blocks.centered_cosines(find_vectors(fold, one), truth, mean) for one in candidates_of("auto")
    }


def best_candidate(scores: Sequence[Mapping[Candidate, Float64s]], method: str) -> Candidate:
    """Return the candidate of a method with the largest mean over the hidden names of all folds."""
    means = mean_scores(scores)
    return max(candidates_of(method), key=lambda one: means[one])


def mean_scores(scores: Iterable[Mapping[Candidate, Float64s]]) -> dict[Candidate, float]:
    """Return the mean score of each candidate over the hidden names of all folds."""
    folds = list(scores)
    return {one: float(np.concatenate([fold[one] for fold in folds]).mean()) for one in folds[0]}
