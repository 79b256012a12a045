"""How well features were carried from one set of rows to another, and how well simple controls do it.

A claim of transfer means something only beside three controls: every row gets the column mean; a ridge
regression on the corresponding pairs; a linear map between the two sets, then the nearest neighbour.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import clone

from distembed.evaluation import blocks
from distembed.execution import compute, map_blocks, one_blas_thread
from distembed.manifold.alignment import FeaturePreservingEmbedding, alignment_eigenpairs
from distembed.manifold.alignment_blocks import procrustes_map, ridge_map, unit_rows
from distembed.manifold.correspondences import Propagation, propagate_correspondences, shared_values
from distembed.neighbors.graphs import components, joint_adjacency
from distembed.validation import seed_of

Float64s = NDArray[np.float64]

BLOCK_MEMORY = 128 * 2**20


class TransferScores(NamedTuple):
    """Inferred against true features.

    Attributes
    ----------
    rmse : over all values
    topic_rmse : (f,)
    topic_correlation : (f,), Pearson; NaN where either column is constant
    hellinger, jensen_shannon : means over rows of distances between rows put on the simplex, in [0, 1] and
        [0, √ln 2] (nats)
    """

    rmse: float
    topic_rmse: Float64s
    topic_correlation: Float64s
    hellinger: float
    jensen_shannon: float


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
    return TransferScores(
        float(np.sqrt(squares.mean())),
        np.sqrt(squares.mean(axis=0)),
        _column_correlations(found, wanted),
        float(np.sqrt(0.5 * ((np.sqrt(p) - np.sqrt(q)) ** 2).sum(axis=1)).mean()),
        float(np.sqrt(np.maximum(_jensen_shannon_divergence(p, q), 0.0)).mean()),
    )


def on_simplex(values: Float64s) -> Float64s:
    """Return rows with negative values set to zero, divided by their sum; rows of zeros become uniform."""
    positive = np.maximum(values, 0.0)
    sums = positive.sum(axis=1, keepdims=True)
    return np.divide(positive, sums, out=np.full_like(positive, 1 / values.shape[1]), where=sums > 0)


def _column_correlations(X: Float64s, Y: Float64s) -> Float64s:
    varies = (np.ptp(X, axis=0) > 0) & (np.ptp(Y, axis=0) > 0)
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    sizes = np.sqrt((X**2).sum(axis=0) * (Y**2).sum(axis=0))
    return np.divide((X * Y).sum(axis=0), sizes, out=np.full(X.shape[1], np.nan), where=varies & (sizes > 0))


def _jensen_shannon_divergence(p: Float64s, q: Float64s) -> Float64s:
    middle = (p + q) / 2
    return (_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2


def _relative_entropy(p: Float64s, q: Float64s) -> Float64s:
    ratio = np.divide(p, q, out=np.ones_like(p), where=(p > 0) & (q > 0))
    return (p * np.log(ratio)).sum(axis=1)


class RetrievalScores(NamedTuple):
    """Where the true counterpart stands among all rows of the first set, by cosine.

    Attributes
    ----------
    mean_reciprocal_rank : in [0, 1]
    hits_1, hits_10 : share of ranks up to 1 and up to 10; a tie of two for the first place is no hit
    ranks : (r,), 1 is best; ties count half
    """

    mean_reciprocal_rank: float
    hits_1: float
    hits_10: float
    ranks: Float64s


def score_retrieval(
    first: Any, second: Any, counterparts: Any, *, block_memory: int = BLOCK_MEMORY
) -> RetrievalScores:
    """Rank the rows of `first` (n × d) by their cosine with each row of `second` (r × d).

    A row of zeros, or one that is not finite, has no direction: it ties with every row.

    Parameters
    ----------
    counterparts : row of `first` that each row of `second` belongs to, (r,)

    Raises
    ------
    ValueError
        If the shapes do not fit, or a counterpart is out of range.
    """
    first, second = (blocks.directions(np.asarray(rows, np.float64)) for rows in (first, second))
    wanted = np.asarray(counterparts, np.int64)
    if wanted.shape != (len(second),) or first.shape[1] != second.shape[1]:
        raise ValueError(
            f"{second.shape} rows to find in {first.shape} have counterparts of shape {wanted.shape}"
        )
    if wanted.size == 0 or wanted.min() < 0 or wanted.max() >= len(first):
        raise ValueError(f"counterparts must be 1 or more numbers from 0 to {len(first) - 1}")
    rows = max(1, block_memory // (4 * 8 * len(first)))
    with one_blas_thread():
        ranks = compute(
            map_blocks(
                _ranks_block,
                da.from_array(second, chunks=(rows, -1)),
                da.from_array(wanted[:, None], chunks=(rows, 1)),
                first=first,
                dtype=np.float64,
                chunks=(da.from_array(wanted, chunks=rows).chunks[0], (1,)),
                meta=np.empty((0, 0)),
            )
        )[:, 0]
    return RetrievalScores(
        float((1 / ranks).mean()), float((ranks <= 1).mean()), float((ranks <= 10).mean()), ranks
    )


def _ranks_block(second: Float64s, wanted: NDArray[np.int64], *, first: Float64s) -> Float64s:
    return blocks.tied_ranks(second @ first.T, wanted[:, 0])[:, None]


# -------------------------------------------------------------------------------------------- controls


def nearest_features(first: Any, second: Any, V1: Any, *, n_neighbors: int = 1) -> Float64s:
    """Return for each row of `second` the mean of V1 over its nearest rows of `first` by cosine, (m × f)."""
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415 - half a second

    search = NearestNeighbors(n_neighbors=n_neighbors).fit(unit_rows(np.asarray(first, np.float64)))
    nearest = search.kneighbors(unit_rows(np.asarray(second, np.float64)), return_distance=False)
    return np.asarray(V1, np.float64)[nearest].mean(axis=1)


def control_features(
    X1: Any, X2: Any, V1: Any, links: sp.csr_array, *, ridge: float = 0.3, n_neighbors: int = 5
) -> dict[str, Float64s]:
    """Return what the plain controls infer for the rows of X2, each (m × f).

    - "mean": the column means of V1;
    - "ridge": a ridge regression from x2 to the values of its counterpart, fitted to the links;
    - "ridge_map": a ridge regression from x2 to x1, then the mean of the `n_neighbors` nearest rows' values;
    - "procrustes": the same with the best rotation instead of the regression;
    - "procrustes_1": the same with the one nearest row.

    Parameters
    ----------
    X1, X2 : dense, (n × d1), (m × d2); rows are divided by their lengths
    links : (n × m), the strongest entry of a column is its counterpart

    Raises
    ------
    ValueError
        If there is no link.
    """
    values, pairs = np.asarray(V1, np.float64), links.tocoo()
    first, rotated, regressed = fit_control_maps(X1, X2, links, ridge=ridge)
    second = unit_rows(np.asarray(X2, np.float64))
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
    """Unit rows of the first set, and images of the second's among them.

    Attributes
    ----------
    first : (n × d1)
    rotated : (m × d1), by the best rotation
    regressed : (m × d1), by ridge regression
    """

    first: Float64s
    rotated: Float64s
    regressed: Float64s


def fit_control_maps(X1: Any, X2: Any, links: sp.csr_array, *, ridge: float = 0.3) -> ControlMaps:
    """Fit the linear maps of `control_features` to the links.

    Raises
    ------
    ValueError
        If there is no link.
    """
    if not links.nnz:
        raise ValueError("the controls are fitted to correspondences, but there are none")
    first, second = unit_rows(np.asarray(X1, np.float64)), unit_rows(np.asarray(X2, np.float64))
    pairs = links.tocoo()
    here, there = first[pairs.row], second[pairs.col]
    with one_blas_thread():
        rotated = second @ procrustes_map(there, here, pairs.data)
        return ControlMaps(first, rotated, ridge_map(there, here, ridge=ridge)(second))


# ------------------------------------------------------------------------------- every method, one draw


class TwoSets(NamedTuple):
    """What every method of transfer is given, beside the correspondences.

    Attributes
    ----------
    first, second : (n × d1), (m × d2)
    graphs : affinity of each set, CSR
    features : (n × f), of the first set; rows that are all NaN are unknown
    """

    first: Any
    second: Any
    graphs: tuple[sp.csr_array, sp.csr_array]
    features: Float64s


class Inference(NamedTuple):
    """What a method infers for the second set, and the space in which it compares the sets, if it has one."""

    features: Float64s
    spaces: tuple[Float64s, Float64s] | None


class MethodScore(NamedTuple):
    """One line of a comparison; correlation is the mean over topics, retrieval NaN without a common space."""

    method: str
    rmse: float
    correlation: float
    hellinger: float
    jensen_shannon: float
    mean_reciprocal_rank: float
    hits_1: float
    hits_10: float


def infer_by_each_method(
    sets: TwoSets, links: sp.csr_array, model: FeaturePreservingEmbedding, *, alignment_components: int = 50
) -> dict[str, Inference]:
    """Return what each method makes of the same correspondences.

    - "mean", "ridge", "ridge_map", "procrustes", "procrustes_1": `control_features`;
    - "alignment": semisupervised alignment (Ham, Lee & Saul 2005), then the mean of the 5 nearest rows' values;
    - "matching", "matching_1": the space of `propagate_correspondences`, then 5 nearest rows or the one;
    - "embedding_given": `model` with the links alone;
    - "embedding": `model` with those found as well, if it propagates.

    All but mean, alignment and embedding need dense rows and are left out for sparse ones.

    Parameters
    ----------
    links : known correspondences, (n × m)
    model : its options are used, its graph is that of `sets`
    """
    known = _without_unknown(sets)
    dense = not sp.issparse(sets.first) and not sp.issparse(sets.second)
    found = _controls(known, links) if dense else {"mean": Inference(_means(known, links), None)}
    found["alignment"] = _aligned(known, links, alignment_components)
    found["embedding_given" if model.propagate else "embedding"] = _embedded(sets, links, model)
    if model.propagate:
        more = propagate_correspondences(
            sets.first,
            sets.second,
            links,
            random_state=seed_of(model.random_state),
            block_memory=model.block_memory,
        )
        found |= _matched(known, more)
        found["embedding"] = _embedded(sets, more.links, model)
    return found


def _without_unknown(sets: TwoSets) -> TwoSets:
    """Return the sets with column means for unknown features: controls have no notion of them."""
    means = np.nanmean(sets.features, axis=0)
    return sets._replace(features=np.where(np.isnan(sets.features), means, sets.features))


def _means(sets: TwoSets, links: sp.csr_array) -> Float64s:
    return np.tile(sets.features.mean(axis=0), (links.shape[1], 1))


def _controls(sets: TwoSets, links: sp.csr_array) -> dict[str, Inference]:
    maps = fit_control_maps(sets.first, sets.second, links)
    spaces = {
        "ridge_map": (maps.first, maps.regressed),
        "procrustes": (maps.first, maps.rotated),
        "procrustes_1": (maps.first, maps.rotated),
    }
    values = control_features(sets.first, sets.second, sets.features, links)
    return {name: Inference(inferred, spaces.get(name)) for name, inferred in values.items()}


def _matched(sets: TwoSets, found: Propagation) -> dict[str, Inference]:
    first, second = found.spaces
    values = np.asarray(sets.features, np.float64)
    return {
        name: Inference(nearest_features(first, second, values, n_neighbors=k), found.spaces)
        for name, k in (("matching", 5), ("matching_1", 1))
    }


def _aligned(sets: TwoSets, links: sp.csr_array, n_components: int) -> Inference:
    adjacency = joint_adjacency(sets.graphs, {(0, 1): links})
    n_left = adjacency.shape[0] - int(components(adjacency).max()) - 1
    _, Z = alignment_eigenpairs(adjacency, min(n_components, n_left))
    first, second = Z[: links.shape[0]], Z[links.shape[0] :]
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415 - half a second

    k = min(5, len(first))
    nearest = NearestNeighbors(n_neighbors=k).fit(first).kneighbors(second, return_distance=False)
    return Inference(sets.features[nearest].mean(axis=1), (first, second))


def _embedded(sets: TwoSets, links: sp.csr_array, model: FeaturePreservingEmbedding) -> Inference:
    adjacency = joint_adjacency(sets.graphs, {(0, 1): links}, weight=model.correspondence_weight)
    fitted = clone(model).fit_graph(adjacency, *shared_values(sets.features, links))
    n = links.shape[0]
    return Inference(fitted.features_[n:], (fitted.embedding_[:n], fitted.embedding_[n:]))


def score_methods(found: dict[str, Inference], true: Any, counterparts: Any, rows: Any) -> list[MethodScore]:
    """Score each method on some rows of the second set.

    Parameters
    ----------
    true : (r × f), of those rows
    counterparts, rows : row of the first set that each belongs to, and its own in the second, (r,)
    """
    return [_score(method, *inference, true, counterparts, rows) for method, inference in found.items()]


def _score(
    method: str, features: Float64s, spaces: Any, true: Any, counterparts: Any, rows: Any
) -> MethodScore:
    scores = score_transfer(features[rows], true)
    place: tuple[float, ...] = (np.nan, np.nan, np.nan)
    if spaces is not None:
        place = score_retrieval(spaces[0], spaces[1][rows], counterparts)[:3]
    correlation = float(np.nan_to_num(scores.topic_correlation).mean())
    return MethodScore(method, scores.rmse, correlation, scores.hellinger, scores.jensen_shannon, *place)


class Interval(NamedTuple):
    """A mean with its confidence interval.

    Attributes
    ----------
    mean, low, high : low = high = mean for one value
    """

    mean: float
    low: float
    high: float


def mean_interval(values: Any, *, level: float = 0.95) -> Interval:
    """Return the mean of independent runs and its Student interval."""
    runs = np.asarray(values, np.float64)
    centre = float(runs.mean())
    if runs.size < 2:
        return Interval(centre, centre, centre)
    half = float(stats.t.ppf((1 + level) / 2, runs.size - 1) * stats.sem(runs))
    return Interval(centre, centre - half, centre + half)
