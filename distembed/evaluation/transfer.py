"""The quality of features that were transferred from one set of rows to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from scipy import stats
from scipy.spatial.distance import jensenshannon

from distembed.dtypes import Float64s, Int64s
from distembed.evaluation.scoring import pearson
from distembed.execution import compute
from distembed.lift import block, lift
from distembed.linalg.csr import unit_rows
from distembed.states import block_memory

TIE = 1e-12
"""Cosines nearer than this are equal: products of unit rows in another order differ by less."""


class TransferScores(NamedTuple):
    """Inferred against true features."""

    rmse: float
    topic_rmse: Float64s
    """Shape (f,)."""
    topic_correlation: Float64s
    """Shape (f,), Pearson; NaN where either column is constant."""
    hellinger: float
    jensen_shannon: float
    """Means over rows of distances between rows put on the simplex, in [0, 1] and [0, √ln 2] (nats)."""


def score_transfer(inferred: Any, true: Any) -> TransferScores:
    """Compare inferred features with true ones, both (r × f).

    Hellinger: √(½ Σ (√p - √q)²). Jensen-Shannon: √(½ KL(p‖m) + ½ KL(q‖m)), m = (p + q)/2, as
    scipy.spatial.distance.jensenshannon.

    Raises
    ------
    ValueError
        If the shapes differ, there is no row, or a value is not finite.
    """
    found, wanted = (np.asarray(values, np.float64) for values in (inferred, true))
    if found.shape != wanted.shape or found.ndim != 2 or not found.size:
        raise ValueError(
            f"inferred features have shape {found.shape}, the true ones {wanted.shape}: give equal ones"
        )
    if not (np.isfinite(found).all() and np.isfinite(wanted).all()):
        raise ValueError("a feature value is NaN or infinite: score the rows that have values")
    squares = (found - wanted) ** 2
    p, q = on_simplex(found), on_simplex(wanted)
    varies = (np.ptp(found, axis=0) > 0) & (np.ptp(wanted, axis=0) > 0)
    return TransferScores(
        float(np.sqrt(squares.mean())),
        np.sqrt(squares.mean(axis=0)),
        np.where(varies, pearson(found.T, wanted.T), np.nan),
        float(np.sqrt(0.5 * ((np.sqrt(p) - np.sqrt(q)) ** 2).sum(axis=1)).mean()),
        float(jensenshannon(p, q, axis=1).mean()),
    )


def on_simplex(values: Float64s) -> Float64s:
    """Return rows with negative values set to zero, divided by their sum; rows of zeros become uniform."""
    positive = np.maximum(values, 0.0)
    sums = positive.sum(axis=1, keepdims=True)
    return np.divide(positive, sums, out=np.full_like(positive, 1 / values.shape[1]), where=sums > 0)


class RetrievalScores(NamedTuple):
    """Where the true counterpart stands among all rows of the first set, by cosine."""

    mean_reciprocal_rank: float
    """In [0, 1]."""
    hits_1: float
    hits_10: float
    """Share of ranks up to 1 and up to 10; a tie of two for the first place is no hit."""
    ranks: Float64s
    """Shape (r,), 1 is best; ties count half."""


def score_retrieval(first: Any, second: Any, counterparts: Any) -> RetrievalScores:
    """Rank the rows of `first` (n × d) by their cosine with each row of `second` (r × d).

    A row of zeros, or one that is not finite, has no direction and ties with every row.

    Parameters
    ----------
    first : array (n × d)
        The rows to rank.
    second : array (r × d)
        The rows whose counterparts are sought.
    counterparts : int array (r,)
        The row of `first` that belongs to each row of `second`.

    Raises
    ------
    ValueError
        If the shapes do not match, or a counterpart is out of range.
    """
    first, second = (unit_rows(np.asarray(rows, np.float64)) for rows in (first, second))
    wanted = np.asarray(counterparts, np.int64)
    if wanted.shape != (len(second),) or first.shape[1] != second.shape[1]:
        raise ValueError(
            f"{second.shape} rows to find in {first.shape} have counterparts of shape {wanted.shape}"
        )
    if wanted.size == 0 or wanted.min() < 0 or wanted.max() >= len(first):
        raise ValueError(f"counterparts must be 1 or more numbers from 0 to {len(first) - 1}")
    rows = max(1, block_memory() // (4 * 8 * len(first)))
    asked = da.from_array(second, chunks=(rows, -1))
    ranks = compute(lift(ranks_of_rows, "rd,r,nd->r", asked, wanted, first, dtype=np.float64))
    return RetrievalScores(
        float((1 / ranks).mean()), float((ranks <= 1).mean()), float((ranks <= 10).mean()), ranks
    )


@block(temporaries=3)
def ranks_of_rows(second: Float64s, wanted: Int64s, first: Float64s) -> Float64s:
    """Return the rank of a wanted row of `first` by the cosine with each row of `second`; equal ones count half."""
    cosines = second @ first.T
    above = cosines - np.take_along_axis(cosines, wanted[:, None], axis=1)
    equal = np.count_nonzero(np.abs(above) <= TIE, axis=1)
    return 1 + np.count_nonzero(above > TIE, axis=1) + (equal - 1) / 2


# ------------------------------------------------------------------------------------ several methods


class MethodScore(NamedTuple):
    """One line of a comparison; correlation is the mean over topics, retrieval NaN without a common space.

    A topic whose values are all the same counts as 0 in the mean.
    """

    method: str
    rmse: float
    correlation: float
    hellinger: float
    jensen_shannon: float
    mean_reciprocal_rank: float
    hits_1: float
    hits_10: float


Inferred = tuple[Float64s, tuple[Float64s, Float64s] | None]
"""Features of every row of the second set, and both sets in the space in which a method compares them, if any."""


def score_methods(
    found: Mapping[str, Inferred], true: Any, counterparts: Any, rows: Any
) -> list[MethodScore]:
    """Score each method on some rows of the second set.

    Parameters
    ----------
    found : dict
        The result of each method by its name.
    true : (r × f), of those rows
    counterparts, rows : row of the first set that each belongs to, and its own in the second, (r,)
    """
    rated = []
    for method, (features, spaces) in found.items():
        scores, place = score_transfer(features[rows], true), (np.nan,) * 3
        if spaces is not None:
            place = score_retrieval(spaces[0], spaces[1][rows], counterparts)[:3]
        correlation = float(np.nan_to_num(scores.topic_correlation).mean())
        distances = scores.hellinger, scores.jensen_shannon
        rated.append(MethodScore(method, scores.rmse, correlation, *distances, *place))
    return rated


class Interval(NamedTuple):
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float


def mean_interval(values: Any, *, level: float = 0.95) -> Interval:
    """Return the mean of independent runs and its Student interval, whose ends are NaN for a single run."""
    runs = np.asarray(values, np.float64)
    center = float(runs.mean())
    if runs.size < 2:
        return Interval(center, np.nan, np.nan)
    half = float(stats.t.ppf((1 + level) / 2, runs.size - 1) * stats.sem(runs))
    return Interval(center, center - half, center + half)
