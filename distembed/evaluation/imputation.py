"""The quality of imputed vectors: known vectors that are hidden and then imputed, and the labels of neighbors.

Is a hidden vector recovered, and better than by methods that do not know the graph? `recovery` and `compare_methods`
say so name by name, for the report of every job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import pairwise_distances
from sklearn.utils.extmath import weighted_mode

from distembed.dtypes import Float64s, Int64s
from distembed.evaluation.scoring import bootstrap_interval
from distembed.evaluation.transfer import score_retrieval
from distembed.execution import one_blas_thread
from distembed.linalg.blocks import row_cosines
from distembed.linalg.csr import unit_rows

Imputer: TypeAlias = Callable[[Float64s, Float64s], Float64s]
"""Takes X (n, d) and Y (n, s) with rows of NaN; returns Y with those rows filled in."""

# ---- hidden vectors, name by name --------------------------------------------------------------------

ROW_COPIES, DISTANCE_COPIES = 4, 2
"""Float64 copies of the rows of both tables that a method holds, and of the distances of hidden rows to known ones with
their order."""

QUERIES_AT_ONCE = 256
"""Rows whose distances to all others are held at a time."""

LABEL_NEIGHBORS = 10
"""Nearest known names whose label is compared with that of a hidden one."""


def hold_out_folds(known: ArrayLike, *, n_folds: int, max_names: int, seed: int) -> list[Int64s]:
    """Return the rows to hide in each fold: known rows in random order, each in at most one fold.

    Parameters
    ----------
    known : row numbers of the known names
    n_folds : at most so many folds; one name is hidden in each where there are fewer names
    max_names : names hidden in all folds together
    seed : of the order

    Returns
    -------
    Sorted row numbers, int64, one array per fold.
    """
    rows = np.asarray(known, dtype=np.int64)
    order = np.random.default_rng(seed).permutation(rows)[:max_names]
    return [np.sort(fold) for fold in np.array_split(order, min(n_folds, order.size))]


class Recovery(NamedTuple):
    """How near a vector that was found for each hidden name is to its true one."""

    cosine: Float64s
    """Shape (h,), with the true vector; 0 where the vector that was found has no direction."""
    rank: Float64s
    """Shape (h,), of the true vector among all known ones by cosine with what was found; 1 is best, ties count half."""
    label_share: Float64s
    """Shape (h,), share of the `LABEL_NEIGHBORS` nearest known names that have the hidden name's label; NaN where it
    has none.
    """
    centered_cosine: Float64s
    """Shape (h,), with the true vector, after the mean of the known vectors is taken off both."""


def recovery(
    found: ArrayLike,
    hidden: ArrayLike,
    known: ArrayLike,
    *,
    labels: Sequence[str] | None = None,
    centers: ArrayLike | None = None,
) -> Recovery:
    """Compare the vectors that were found for hidden names with all known vectors.

    Parameters
    ----------
    found : shape (h, s)
    hidden : row of `known` of each hidden name, (h,)
    known : true vectors of all known names, hidden or not, shape (p, s)
    labels : p labels, "" where there is none
    centers : the mean of the known vectors when each name was hidden, (h, s); by default that of all known vectors
    """
    rows, vectors = np.asarray(hidden, dtype=np.int64), np.asarray(known)
    answers, truth = np.asarray(found, dtype=np.float64), vectors[rows].astype(np.float64)
    mean = np.asarray(vectors.mean(axis=0, dtype=np.float64) if centers is None else centers)
    centered = row_cosines(answers - mean, truth - mean)
    ranks = score_retrieval(vectors, answers, rows).ranks
    answers = unit_rows(answers)
    cosine = np.einsum("ij,ij->i", answers, unit_rows(truth))
    shares = np.full(rows.size, np.nan)
    if labels is not None and any(labels) and len(vectors) > 1:
        names, n_near = np.asarray(labels), min(LABEL_NEIGHBORS, len(vectors) - 1)
        directions = unit_rows(vectors.astype(np.float64)).T
        nearest, _ = _nearest_others(lambda some: -(answers[some] @ directions), rows, n_near)
        shares = (names[nearest] == names[rows][:, None]).mean(axis=1)
        shares[names[rows] == ""] = np.nan
    return Recovery(cosine, ranks, shares, centered)


def _nearest_others(
    distances_of: Callable[[slice], Float64s], own: Int64s, k: int
) -> tuple[Int64s, Float64s]:
    """Return the k nearest rows of each query and their distances, both (q, k), without the query's own row.

    The distances of a slice of the queries to all rows are held at a time.
    """
    nearest, lengths = np.empty((own.size, k), np.int64), np.empty((own.size, k))
    for start in range(0, own.size, QUERIES_AT_ONCE):
        some = slice(start, start + QUERIES_AT_ONCE)
        with one_blas_thread():
            distances = distances_of(some)
        distances[np.arange(len(distances)), own[some]] = np.inf
        nearest[some] = np.argsort(distances, axis=1, kind="stable")[:, :k]
        lengths[some] = np.take_along_axis(distances, nearest[some], axis=1)
    return nearest, lengths


class MethodRecovery(NamedTuple):
    """A method over all hidden names: means with 95 % bootstrap intervals over the names, NaN where there are too few.

    The gains are those of the first method over this one, name by name: above zero where the first is better.
    """

    method: str
    names: int
    cosine: float
    cosine_low: float
    cosine_high: float
    centered_cosine: float
    centered_low: float
    centered_high: float
    """The same after the mean of the known vectors is taken off both, by which a method is chosen: what is nearly the
    mean of all vectors is near each of them, and tells none from another.
    """
    median_rank: float
    rank_low: float
    rank_high: float
    reciprocal_rank: float
    """Mean of 1 / rank."""
    label_share: float
    centered_gain: float
    centered_gain_low: float
    centered_gain_high: float
    rank_gain: float
    rank_gain_low: float
    rank_gain_high: float


def compare_methods(
    recoveries: Mapping[str, Recovery], *, n_known: int, seed: int = 0
) -> list[MethodRecovery]:
    """Return a row per method, the first method being the one the others are compared with.

    Parameters
    ----------
    recoveries : by method, of the same hidden names in the same order
    n_known : known vectors among which the truth is ranked
    seed : of the bootstrap
    """
    first = next(iter(recoveries.values()))
    return [
        MethodRecovery(
            method,
            each.cosine.size,
            *_with_interval(each.cosine, np.mean, seed),
            *_with_interval(each.centered_cosine, np.mean, seed),
            *_with_interval(each.rank, np.median, seed),
            float((1 / each.rank).mean()),
            float(np.nanmean(each.label_share)) if np.isfinite(each.label_share).any() else np.nan,
            *_with_interval(first.centered_cosine - each.centered_cosine, np.mean, seed),
            *_with_interval((each.rank - first.rank) / n_known, np.mean, seed),
        )
        for method, each in recoveries.items()
    ]


JUDGED_NAMES = 10
"""Hidden names below which nothing is said of a method: a bootstrap of fewer values means little."""


def is_better(row: MethodRecovery) -> bool | None:
    """Return whether the first method is better than that of this row; None for too few names.

    It is where the whole 95 % interval of its gain in centered cosine or in rank lies above zero: a table that says
    nothing of the vectors passes once in twenty times at most. The plain cosine decides nothing, as it is high for
    whatever lies near the mean.
    """
    if row.names < JUDGED_NAMES:
        return None
    return row.centered_gain_low > 0 or row.rank_gain_low > 0


USEFUL_COSINE, USEFUL_RANK = 0.1, 0.25
"""From which centered cosine on, and down to which median rank as a share of the known names, a table is useful: half
of the hidden names then have their true vector among the nearest quarter."""

CHANCE_COSINE, CHANCE_RANK = 0.05, 0.4
"""Below which centered cosine, and above which rank, a table is useless though it beats the shuffled one."""


class Verdict(NamedTuple):
    """What a table is worth for some vectors."""

    word: Literal["useful", "weak", "useless"]
    reason: str
    """A clause that goes on from "because"."""


def judge(own: MethodRecovery, shuffled: MethodRecovery, *, n_known: int) -> Verdict | None:
    """Return what a table is worth by its hidden names; None for too few names.

    Parameters
    ----------
    own : the first method, whose vectors are taken
    shuffled : the same names from the table with its rows in another order, with the gains of `own` over it
    n_known : known vectors among which the truth is ranked
    """
    better = is_better(shuffled)
    if better is None:
        return None
    if not better:
        return Verdict(
            "useless", "hidden names are found no better than from the table with its rows shuffled"
        )
    found = (
        f"the centered cosine with the true vectors is {own.centered_cosine:.3f} and their median rank "
        f"{own.median_rank:.0f} of {n_known:,}"
    )
    rank = own.median_rank / n_known
    if own.centered_cosine < CHANCE_COSINE and rank > CHANCE_RANK:
        return Verdict("useless", f"{found}, where chance has 0 and {n_known / 2:.0f}")
    if own.centered_cosine >= USEFUL_COSINE and rank <= USEFUL_RANK:
        return Verdict("useful", found)
    bounds = f"{USEFUL_COSINE} or more and a rank of {USEFUL_RANK * n_known:.0f} or less"
    return Verdict("weak", f"{found}: better than chance, but a useful table has {bounds}")


def _with_interval(values: Float64s, statistic: Callable[..., Any], seed: int) -> tuple[float, float, float]:
    """Return a statistic of the values and the ends of its bootstrap interval, NaN for fewer than three."""
    interval = bootstrap_interval(partial(statistic, axis=-1), [values], seed)
    return float(statistic(values)), *(interval or (np.nan, np.nan))


# ---- methods without a graph ------------------------------------------------------------------------------


def nearest_mean(X: Float64s, Y: Float64s, *, k: int = 8) -> Float64s:
    """Impute the mean vector of the k known rows nearest in X."""
    known, out = ~np.isnan(Y[:, 0]), Y.copy()
    with one_blas_thread():
        distances = pairwise_distances(X[~known], X[known])
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    out[~known] = Y[known][nearest].mean(axis=1)
    return out


# ---- labels of neighbors: Table 1 of Yao, Yu & Xiao (KDD 2019) -----------------------------------------------

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
    >>> from distembed.evaluation.imputation import neighbor_label_accuracy
    >>> neighbor_label_accuracy([[0.0], [0.1], [5.0], [5.2]], list("aabb"), n_neighbors=[1, 3], weights="distance")
    {1: 1.0, 3: 1.0}
    """
    rows = np.asarray(vectors, dtype=np.float64)
    _, codes = np.unique(np.asarray(labels), return_inverse=True)
    counts = list(n_neighbors)
    if len(rows) != len(codes):
        raise ValueError(f"{len(rows)} vectors came with {len(codes)} labels: give one for each")
    if not counts or min(counts) < 1 or max(counts) >= len(rows):
        raise ValueError(f"n_neighbors = {counts} must lie in 1 … {len(rows) - 1}, the others of each row")
    asked = np.arange(len(rows)) if judged is None else np.asarray(judged, np.int64)
    nearest, weighed = _nearest_others(
        lambda some: pairwise_distances(rows[asked[some]], rows), asked, max(counts)
    )
    voters = codes[nearest]
    accuracies = {}
    for k in counts:
        classes, distances = voters[:, :k], weighed[:, :k]
        shares = np.ones_like(distances)
        if weights == "distance":
            at_zero = distances == 0
            inverse = np.divide(1, distances, out=np.zeros_like(distances), where=~at_zero)
            shares = np.where(at_zero.any(axis=1)[:, None], at_zero, inverse)
        votes, _ = weighted_mode(classes, shares, axis=1)  # of equally many votes the first label
        accuracies[k] = float((votes[:, 0] == codes[asked]).mean())
    return accuracies
