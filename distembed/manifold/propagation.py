"""Further correspondences of two sets of rows, found from a few known ones by linear maps.

Small sets are read once and searched in memory, without a task. The rows of larger ones are mapped and compared block
by block. In memory are the candidates of both sets, `CANDIDATES` for each row, and the pairs.

Letters
-------
X, Y : rows of two sets, (n × d) and (m × e). c_ij : the confidence that rows i and j correspond.
s_ij : CSLS of a candidate pair, 2 cos_ij - r_i - r_j, r the mean cosine of a row with its listed neighbors.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from distembed.dtypes import Float64s, Int64s
from distembed.execution import compute, one_blas_thread, tell
from distembed.lift import block, first_rows, fold, lift, total
from distembed.linalg.chunks import row_chunk
from distembed.linalg.csr import unit_rows
from distembed.linalg.operators import column_powers, dense_blocks
from distembed.neighbors.blocks import nearest_in_pair
from distembed.neighbors.distances import Metric
from distembed.neighbors.graphs import row_is_used
from distembed.neighbors.search import search_lists
from distembed.states import block_memory, keep, keeping, newest, scope

Spaces = tuple[Any, Any]
"""The rows of both sets: NumPy arrays where both have at most `ROWS_AT_ONCE`, otherwise Dask arrays of row blocks."""

N_ROUNDS = 8
"""Rounds in which the maps are fitted to more pairs each time."""
FIRST_SHARE = 0.3
"""The share of the found pairs that the first round keeps; it rises evenly to all in the last."""
EXPONENT = 0.5
"""The power of the singular values by which directions are weighted, p."""
FOUND_WEIGHT = 0.5
"""The confidence of a pair found, in the fit of the maps."""
CANDIDATES = 10
"""Neighbors in the other set that CSLS averages and chooses among (Conneau et al. 2018, section 2.3)."""
ROWS_AT_ONCE = 4096
"""Rows of both sets up to which a search is one call in memory: it takes less than half a second, and 16 to 176 are
made, each of which would be five graphs of tiny tasks."""
ZERO_STRENGTH = 1e-13
"""Share of the largest singular value under which one is rounding."""
JUDGED_PAIRS = 50
"""Known pairs left out, a fifth at a time, until so many are judged: a fraction is then known to 0.07. Of fewer
than these a tenth is left out at a time and all are judged: half of 25 pairs find far less than 25 do."""
DEFAULT_TEMPERATURE = 0.05
"""Where one known pair leaves nothing to estimate: between translations (0.01) and comparable texts (0.06)."""
TEMPERATURES = (1e-3, 10.0)
LEAST_PROBABILITY = 1e-3
"""Probabilities below it are no edge."""


class Propagation(NamedTuple):
    """Correspondences found from a few known ones."""

    links: sp.csr_array
    """The known confidences, and probabilities for the rows of the second set without a known one. CSR array (n ×
    m).
    """
    spaces: Spaces
    """Unit rows of both sets in the space in which they were last compared: NumPy arrays where both sets have at most
    `ROWS_AT_ONCE` rows, otherwise Dask arrays by row blocks. Tuple of arrays (n × r), (m × r).
    """
    n_found: int
    """The number of found pairs to which the maps of the last round were fitted in addition to the known ones."""
    temperature: float
    lost_share: float
    """The parameters of the probabilities, estimated from known pairs that were left out."""


def propagate_correspondences(
    X1: Any,
    X2: Any,
    links: sp.csr_array,
    *,
    metric: Metric = "cosine",
    random_state: int = 0,
) -> Propagation:
    """Find probable correspondences by two linear maps fitted to the known pairs and to those they find.

    Each round decomposes Σ c_ij x2_j x1_iᵀ = U S Vᵀ over unit rows, takes the sets to one space by U S^p and
    V S^p, and pairs the rows that choose each other there by CSLS, s_ij = 2 cos_ij - r_i - r_j, where r is a
    row's mean cosine with its `CANDIDATES` nearest rows of the other set, which takes from hubs what they have
    too much. The best `FIRST_SHARE` of the pairs is kept in the first round, rising evenly to all in the last.
    Rows with a known correspondence are not paired again. In the end row j of the second set, if it has no known
    correspondence, belongs to candidate i with probability (1 - ε) exp(s_ij / T) / Σ_i' exp(s_i'j / T).

    With p = 0 and as many pairs as dimensions this is the best rotation. From c pairs only c directions are
    known; p > 0 leaves the others out, where a rotation would add chance, and trusts a direction by how much
    the pairs agree on it.

    T (by maximum likelihood) and ε, the share of counterparts that are not among the candidates, come from
    known pairs that were left out of everything before, a fold at a time: where the sets are translations T is
    small and ε near 0, where no map takes one to the other the probabilities are spread and small.

    It assumes vectors made alike (LSA of one rank). Its time is that of 4 to 22 times `N_ROUNDS` neighbor
    searches, the most with few known pairs (`JUDGED_PAIRS`).

    Parameters
    ----------
    X1, X2 : dense NumPy or Dask arrays, (n × d1) and (m × d2); those of more than `ROWS_AT_ONCE` rows are read
        again by every search
    links : known correspondences, (n × m)
    metric : "cosine" compares unit rows, "euclidean" rows less their mean, in units of their root mean square
        (-½ d² stands for the cosine then); the second needs sets that cover the same ground
    random_state : of the folds

    References
    ----------
    Artetxe, Labaka & Agirre 2017 (self-learning) and 2018 (p, there "re-weighting"); Conneau et al. 2018,
    section 2.3 (CSLS).
    """
    sets: Spaces = _comparable(X1, metric), _comparable(X2, metric)
    is_small = max(len(X) for X in sets) <= ROWS_AT_ONCE
    sets = compute(sets) if is_small else sets
    with (
        one_blas_thread(),
        keeping(None) if is_small else nullcontext(),  # which takes longer than to search again
        scope("propagation", metric, random_state, X1, X2, links),
    ):
        with scope("all"):
            spaces, n_found = find_spaces(sets, metric, links)
        temperature, lost = _calibrate(sets, metric, links, random_state)
        with scope("last"):
            found = _with_probabilities(links, find_candidates(spaces, metric), temperature, lost)
    return Propagation(found, spaces, n_found, temperature, lost)


def _comparable(X: Any, metric: Metric) -> da.Array:
    """Return unit rows, or rows less their mean in units of their root mean square, in row blocks."""
    n, d = X.shape
    chunk = n if n <= ROWS_AT_ONCE else row_chunk(n, 8 * d, block_memory())
    rows = dense_blocks(X, chunk).astype(np.float64)
    if metric == "cosine":
        return lift(unit_rows, "wc->wc", rows, dtype=np.float64)
    rows = rows - compute(column_powers(rows, 1)) / n
    size = float(np.sqrt(compute(column_powers(rows, 2)).sum() / n))
    return rows / size if size > 0 else rows


def find_spaces(sets: Spaces, metric: Metric, links: sp.csr_array) -> tuple[Spaces, int]:
    """Return both sets in the space of the last round, and its number of pairs; those of each round are kept."""
    begun, state = newest("round")
    counterparts = np.full(links.shape[1], -1) if state is None else compute(state)
    for number in range(begun, N_ROUNDS):
        make = partial(_improve, sets, metric, links, counterparts, number)
        counterparts = compute(keep("round", make, number=number + 1))
    return _map_sets(sets, metric, links, counterparts), int((counterparts >= 0).sum())


def _improve(
    sets: Spaces, metric: Metric, links: sp.csr_array, counterparts: Int64s, number: int
) -> da.Array:
    """Return the row of the first set that each of the second is paired with, or -1, (m,).

    Of the pairs in which each row is the other's best a share is taken, of equals the smaller row number.
    """
    spaces = _map_sets(sets, metric, links, counterparts)
    rows, columns, scores = find_candidates(spaces, metric, links)
    pairs = np.intersect1d(_best_of_each(rows, scores), _best_of_each(columns, scores))
    share = FIRST_SHARE + (1 - FIRST_SHARE) * number / max(1, N_ROUNDS - 1)
    best = pairs[np.argsort(-scores[pairs], kind="stable")[: int(np.ceil(share * len(pairs)))]]
    found = np.full(links.shape[1], -1)
    found[columns[best]] = rows[best]
    return da.from_array(found, chunks=-1)


def _map_sets(sets: Spaces, metric: Metric, links: sp.csr_array, counterparts: Int64s) -> Spaces:
    """Return both sets in the space that the links and the pairs found fit best."""
    columns = np.flatnonzero(counterparts >= 0)
    pairs = np.full(columns.size, FOUND_WEIGHT), (counterparts[columns], columns)
    links = sp.csr_array(links + sp.csr_array(pairs, shape=links.shape))
    first, second = sets
    sides, shape = (second, first_rows(second), first), (second.shape[1], first.shape[1])
    product = compute(fold(total(linked_product), "wc,w,Nd", *sides, shape=shape, links=links))
    maps = reweighted_maps(product, exponent=EXPONENT)[::-1]
    one, other = (
        lift(mapped, "wc,cr->wr", rows, weights, dtype=np.float64, is_unit=metric == "cosine")
        for rows, weights in zip(sets, maps, strict=True)
    )
    return one, other


class Candidates(NamedTuple):
    """Pairs of rows of two sets that are among each other's nearest, by row and column, with their CSLS."""

    rows: Int64s
    columns: Int64s
    scores: Float64s


def find_candidates(spaces: Spaces, metric: Metric, taken: sp.csr_array | None = None) -> Candidates:
    """Return the candidate pairs of all rows, or of those without a link; rows without direction have none."""
    used = [row_is_used(rows, metric) for rows in spaces]
    if taken is not None:
        used = [
            each & (np.asarray(taken.sum(axis=axis)) == 0) for each, axis in zip(used, (1, 0), strict=True)
        ]
    rows, columns = map(np.flatnonzero, used)
    if not rows.size or not columns.size:
        return Candidates(rows[:0], columns[:0], np.zeros(0))
    here, there = (X if each.all() else X[np.flatnonzero(each)] for X, each in zip(spaces, used, strict=True))
    k = min(CANDIDATES, rows.size, columns.size)
    forth, back = partial(_search_lists, here, there, k), partial(_search_lists, there, here, k)
    lists = keep("forth", forth), keep("back", back)
    i, j, scores = candidate_pairs(*compute(lists))
    return Candidates(rows[i], columns[j], scores)


def _search_lists(rows: Any, columns: Any, k: int) -> Any:
    """Return the neighbor lists (rows, 2, k) of one set in the other."""
    marks = np.zeros(len(rows), np.int64), np.ones(len(columns), np.int64)
    if isinstance(rows, np.ndarray):
        return nearest_in_pair([rows, marks[0], 0], [columns, marks[1], 0], k=k)[0]
    # Float32 products rule pairs out by a bound on their rounding, so that the lists are those of float64.
    return search_lists(rows, columns, marks, k=k, single=True)


# -------------------------------------------------------------------------------------- probabilities


def _calibrate(sets: Spaces, metric: Metric, links: sp.csr_array, random_state: int) -> tuple[float, float]:
    """Return the temperature and the lost share, estimated from folds of known pairs left out in turn."""
    known = links.tocoo()
    if known.nnz < 2:
        return DEFAULT_TEMPERATURE, 0.5
    n_folds = min(known.nnz, 10 if known.nnz < JUDGED_PAIRS else 5)
    folds = np.random.default_rng(random_state).permutation(known.nnz) % n_folds
    n_judged, judged, fold = 0, list[Float64s](), 0

    def find_margins() -> Float64s:
        kept = folds != fold
        rest = sp.csr_array((known.data[kept], (known.row[kept], known.col[kept])), shape=links.shape)
        found = find_candidates(find_spaces(sets, metric, rest)[0], metric)
        return true_margins(found, known.row[~kept], known.col[~kept])

    while n_judged < JUDGED_PAIRS and fold < n_folds:
        margins = compute(keep(f"fold-{fold + 1}", find_margins))
        judged += [row[~np.isnan(row)] for row in margins if not np.isnan(row).all()]
        n_judged, fold = n_judged + len(margins), fold + 1
        tell("folds", fold, n_folds)
    # Half a pair on each side (Krichevsky & Trofimov): no finite sample shows that none is ever lost.
    return likeliest_temperature(judged), (n_judged - len(judged) + 0.5) / (n_judged + 1)


def _with_probabilities(
    links: sp.csr_array, candidates: Candidates, temperature: float, lost: float
) -> sp.csr_array:
    """Return the links, with (1 - ε) exp(s_ij / T) / Σ_i exp(s_ij / T) for the columns j that have none."""
    rows, columns, scores = candidates
    largest = np.full(links.shape[1], -np.inf)
    np.maximum.at(largest, columns, scores / temperature)
    weights = np.exp(scores / temperature - largest[columns])
    chances = (1 - lost) * (weights / np.bincount(columns, weights)[columns])
    kept = (np.asarray(links.sum(axis=0)) == 0)[columns] & (chances >= LEAST_PROBABILITY)
    added = (chances[kept], (rows[kept], columns[kept]))
    return sp.csr_array(links + sp.csr_array(added, shape=links.shape))


# -------------------------------------------------------------------------------------- blocks


@block(temporaries=1)
def mapped(rows: Float64s, weights: Float64s, *, is_unit: bool) -> Float64s:
    """Return the images of rows under a linear map, scaled to length one where the cosine compares them."""
    images = rows @ weights
    return unit_rows(images) if is_unit else images


@block(temporaries=2)
def linked_product(X: Float64s, first: Int64s, others: list[Float64s], *, links: sp.csr_array) -> Float64s:
    """Return Σ c_ij x_j y_iᵀ, (d × e), over the links of rows i of Y, by blocks, and j of X, from `first` on."""
    product, begin = np.zeros((X.shape[1], others[0].shape[1])), 0
    for Y in others:
        pairs = links[begin : begin + len(Y), first[0] : first[0] + len(X)].tocoo()
        weighted = X[pairs.col]
        weighted *= pairs.data[:, None]
        product += weighted.T @ Y[pairs.row]
        begin += len(Y)
    return product


def reweighted_maps(product: Float64s, *, exponent: float) -> tuple[Float64s, Float64s]:
    """Return U S^p (d × r) and V S^p (e × r) of Σ c_ij x_j y_iᵀ = U S Vᵀ, S divided by its largest value.

    They take both sets to the space in which paired rows agree, each direction by how much they do. With p = 0
    and r = d = e, U Vᵀ is the rotation that takes the one set nearest to the other (orthogonal Procrustes).

    References
    ----------
    Artetxe, Labaka & Agirre 2018, Generalizing and improving bilingual word embedding mappings, section 3.
    """
    left, strengths, right = np.linalg.svd(product, full_matrices=False)
    kept = strengths > ZERO_STRENGTH * strengths[0]
    scale = (strengths[kept] / strengths[0]) ** exponent
    return left[:, kept] * scale, right[kept].T * scale


def candidate_pairs(forth: Float64s, back: Float64s) -> Candidates:
    """Return the pairs that the lists of two sets name, from either side, by row and column, with their CSLS.

    Parameters
    ----------
    forth, back : arrays (n, 2, k), (m, 2, k)
        The neighbor lists of each set in the other: squared distances of unit rows, and row numbers.
    """
    own, k = [np.repeat(np.arange(len(lists)), lists.shape[2]) for lists in (forth, back)], len(back)
    near = [lists[:, 1].ravel().astype(np.int64) for lists in (forth, back)]
    keys, first = np.unique(np.concatenate([own[0] * k + near[0], near[1] * k + own[1]]), return_index=True)
    rows, columns = np.divmod(keys, k)
    cosines = 1 - np.concatenate([forth[:, 0].ravel(), back[:, 0].ravel()])[first] / 2
    means = [1 - lists[:, 0].mean(axis=1) / 2 for lists in (forth, back)]
    return Candidates(rows, columns, 2 * cosines - means[0][rows] - means[1][columns])


def _best_of_each(groups: Int64s, scores: Float64s) -> Int64s:
    """Return the position of the largest score of each group, the first of equals."""
    order = np.lexsort((np.arange(len(groups)), -scores, groups))
    return order[np.unique(groups[order], return_index=True)[1]]


def true_margins(candidates: Candidates, rows: Int64s, columns: Int64s) -> Float64s:
    """Return the scores of each true pair's column less its own, (pairs, most candidates), NaN beyond its candidates.

    The row of a pair that is no candidate is NaN throughout.
    """
    order = np.argsort(candidates.columns, kind="stable")
    others, at, scores = (values[order] for values in candidates)
    begin, end = (np.searchsorted(at, columns, side) for side in ("left", "right"))
    margins = np.full((len(rows), int((end - begin).max(initial=1))), np.nan)
    for place, (row, first, last) in enumerate(zip(rows, begin, end, strict=True)):
        own = np.flatnonzero(others[first:last] == row)
        if own.size:
            margins[place, : last - first] = scores[first:last] - scores[first + own[0]]
    return margins


def likeliest_temperature(margins: list[Float64s]) -> float:
    """Return the T that maximizes Π 1 / Σ exp(margin / T), the likelihood of the true pairs."""
    if not margins:
        return TEMPERATURES[1]

    def loss(log_temperature: float) -> float:
        return sum(float(np.logaddexp.reduce(values * np.exp(-log_temperature))) for values in margins)

    return float(np.exp(minimize_scalar(loss, bounds=np.log(TEMPERATURES), method="bounded").x))
