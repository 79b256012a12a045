"""The choice between imputation, a linear map and their combination, on known names that are hidden."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

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


Kernel = Literal["linear", "rbf", "auto"]
KERNELS = ("linear", "rbf")
"""The kernels of a map, the simpler first."""


class Candidate(NamedTuple):
    """A method, "graph", "linear_map" or "combined", with the ridge and the kernel of its map.

    The graph has no map: its ridge is 0 and its kernel "linear".
    """

    method: str
    ridge: float
    kernel: str = KERNELS[0]


def kernels_of(kernel: str) -> tuple[str, ...]:
    """Return the kernels that are tried: both for "auto"."""
    return KERNELS if kernel == "auto" else (kernel,)


def candidates_of(method: str, kernel: str = "linear", ridge: float | None = None) -> list[Candidate]:
    """Return what is tried for a method, a kernel and a ridge; "auto" and None try all of them.

    The graph is the first and the linear maps come before those of the other kernel: of equal scores the first wins.
    """
    ridges = RIDGES if ridge is None else (ridge,)
    maps = itertools.product(kernels_of(kernel), ("linear_map", "combined"), ridges)
    tried = [Candidate("graph", 0.0), *(Candidate(way, value, name) for name, way, value in maps)]
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


class FoldMap(NamedTuple):
    """The input from which the maps of one kernel find the vectors of the names hidden in one fold."""

    rows: Float64s
    """The rows of the table, or the features of the kernel, in the coordinates of the path's basis. Shape (h, k)."""
    departures: Float64s
    """What they differ from the mixtures of known rows that imputation makes of them. Shape (h, k)."""
    path: RidgePath
    """The maps fitted to the names that are not hidden."""


class HiddenFold(NamedTuple):
    """The input from which every method finds the vectors of the names hidden in one fold."""

    graph: Float64s
    """The vectors that imputation finds. Shape (h, s)."""
    maps: Mapping[str, FoldMap]
    """What the maps find them from, by kernel."""

    @property
    def mean(self) -> Float64s:
        """The mean of the vectors that are not hidden, (s,)."""
        return next(iter(self.maps.values())).path.target_mean


HIDDEN_ROWS = {"linear": "table-hidden", "rbf": "features-hidden"}
"""The name under which a checkpoint keeps the mixtures of hidden rows, by kernel."""


def fold_of(
    impute: Callable[[Any], da.Array],
    rows: Mapping[str, da.Array],
    Y: Any,
    hidden: Any,
    *,
    paths: Mapping[str, RidgePath],
    checkpoint: Checkpoint,
) -> HiddenFold:
    """Return what the vectors of hidden names are found from.

    Parameters
    ----------
    impute : callable
        Returns the hidden rows of an array, imputed from the known rows that are not hidden.
    rows : mapping of kernel to Dask array (n, d)
        The rows of the table, or the features of the kernel.
    Y : array (n, s)
        The vectors.
    hidden : int array (h,)
        The rows that are hidden, sorted.
    paths : mapping of kernel to RidgePath
        The maps fitted to the known rows that are not hidden.
    checkpoint : Checkpoint
        Keeps what is imputed.
    """
    vectors = checkpoint("vectors-hidden", partial(impute, Y))
    mixtures = {name: checkpoint(HIDDEN_ROWS[name], partial(impute, values)) for name, values in rows.items()}
    graph, *found = compute((vectors, *mixtures.values(), *(values[hidden] for values in rows.values())))
    float64s = [array.astype(np.float64) for array in found]
    maps = {
        name: _fold_map(of_table, mixed, paths[name])
        for name, mixed, of_table in zip(rows, float64s[: len(rows)], float64s[len(rows) :], strict=True)
    }
    return HiddenFold(graph.astype(np.float64), maps)


def _fold_map(rows: Float64s, mixtures: Float64s, path: RidgePath) -> FoldMap:
    return FoldMap((rows - path.mean) @ path.basis, (rows - mixtures) @ path.basis, path)


def find_vectors(fold: HiddenFold, candidate: Candidate) -> Float64s:
    """Return the vectors that a candidate finds for the hidden names, (h, s)."""
    if candidate.method == "graph":
        return fold.graph
    rows, departures, path = fold.maps[candidate.kernel]
    weights = blocks.basis_weights(path, candidate.ridge)
    if candidate.method == "linear_map":
        return path.target_mean + rows @ weights
    return fold.graph + departures @ weights


def fold_scores(
    fold: HiddenFold, truth: Float64s, candidates: Iterable[Candidate]
) -> dict[Candidate, Float64s]:
    """Return the centered cosine of each hidden name with its true vector, (h,), for every candidate."""
    return {
        one: blocks.centered_cosines(find_vectors(fold, one), truth, fold.mean)
        for one in dict.fromkeys(candidates)
    }


def best_candidate(
    scores: Sequence[Mapping[Candidate, Float64s]], candidates: Iterable[Candidate]
) -> Candidate:
    """Return the candidate with the largest mean over the hidden names of all folds, of equal ones the first."""
    means = mean_scores(scores)
    return max(candidates, key=lambda one: means[one])


def mean_scores(scores: Iterable[Mapping[Candidate, Float64s]]) -> dict[Candidate, float]:
    """Return the mean score of each candidate over the hidden names of all folds."""
    folds = list(scores)
    return {one: float(np.concatenate([fold[one] for fold in folds]).mean()) for one in folds[0]}
