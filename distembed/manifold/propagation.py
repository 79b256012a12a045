"""Further correspondences of two sets of rows, found from a few known ones by linear maps.

Small sets are read once and searched in memory, without a task. The rows of larger ones are read and mapped block
by block, and compared tile by tile: no task holds more than a few blocks of them. In memory are the candidates of
one set, 12 bytes for each of `CANDIDATES` per row, and the pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Float64s, Int64s
from distembed.execution import compute, one_blas_thread, tell
from distembed.lift import block, first_rows, lift
from distembed.linalg.chunks import row_chunk
from distembed.linalg.csr import unit_rows
from distembed.linalg.operators import column_powers, dense_blocks
from distembed.manifold import propagation_blocks as blocks
from distembed.neighbors import blocks as neighbor_blocks
from distembed.neighbors.distances import Metric
from distembed.neighbors.graphs import row_is_used
from distembed.neighbors.search import search_lists
from distembed.states import block_memory, keep, keeping, newest, scope

Rows: TypeAlias = Any
"""The rows of a set: a NumPy array where both have at most `ROWS_AT_ONCE`, otherwise a Dask array of row blocks."""
Spaces: TypeAlias = tuple[Rows, Rows]

N_ROUNDS = 8
"""Rounds in which the maps are fitted to more pairs each time."""
CANDIDATES = 10
"""Neighbors in the other set that CSLS averages and chooses among (Conneau et al. 2018, section 2.3)."""
ROWS_AT_ONCE = 4096
"""Rows of both sets up to which a search is one call in memory: it takes less than half a second, and 16 to 176 are
made, each of which would be five graphs of tiny tasks."""


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
    n_found: list[int]
    """The number of found pairs to which the maps of each round were fitted in addition to the known ones."""
    temperature: float
    lost_share: float
    """The parameters of the probabilities, estimated from known pairs that were left out."""


def propagate_correspondences(
    X1: Any,
    X2: Any,
    links: sp.csr_array,
    *,
    n_rounds: int = N_ROUNDS,
    first_share: float = 0.3,
    found_weight: float = 0.5,
    exponent: float = 0.5,
    metric: Metric = "cosine",
    random_state: int = 0,
) -> Propagation:
    """Find probable correspondences by two linear maps fitted to the known pairs and to those they find.

    Each round decomposes Σ c_ij x2_j x1_iᵀ = U S Vᵀ over unit rows, takes the sets to one space by U S^p and
    V S^p, and pairs the rows that choose each other there by CSLS, s_ij = 2 cos_ij - r_i - r_j, where r is a
    row's mean cosine with its `CANDIDATES` nearest rows of the other set, which takes from hubs what they have
    too much. The best `first_share` of the pairs is kept in the first round, rising evenly to all in the last.
    Rows with a known correspondence are not paired again. In the end row j of the second set, if it has no known
    correspondence, belongs to candidate i with probability (1 - ε) exp(s_ij / T) / Σ_i' exp(s_i'j / T).

    With p = 0 and as many pairs as dimensions this is the best rotation. From c pairs only c directions are
    known; p > 0 leaves the others out, where a rotation would add chance, and trusts a direction by how much
    the pairs agree on it.

    T (by maximum likelihood) and ε, the share of counterparts that are not among the candidates, come from
    known pairs that were left out of everything before, a fold at a time: where the sets are translations T is
    small and ε near 0, where no map takes one to the other the probabilities are spread and small.

    It assumes vectors made alike (LSA of one rank). Its time is that of 4 to 22 times `n_rounds` neighbor
    searches, the most with few known pairs (`JUDGED_PAIRS`).

    Parameters
    ----------
    X1, X2 : dense NumPy or Dask arrays, (n × d1) and (m × d2); those of more than `ROWS_AT_ONCE` rows are read
        again by every search
    links : known correspondences, (n × m)
    n_rounds : int
        The number of rounds.
    first_share : float
        The share of the found pairs that the first round keeps.
    found_weight : c_ij of a pair found, in the fit of the maps
    exponent : p
    metric : "cosine" compares unit rows, "euclidean" rows less their mean, in units of their root mean square
        (-½ d² stands for the cosine then); the second needs sets that cover the same ground
    random_state : of the folds

    References
    ----------
    Artetxe, Labaka & Agirre 2017 (self-learning) and 2018 (p, there "re-weighting"); Conneau et al. 2018,
    section 2.3 (CSLS).
    """
    rows: Spaces = _comparable(X1, metric), _comparable(X2, metric)
    is_small = max(len(X) for X in rows) <= ROWS_AT_ONCE
    if is_small:
        rows = compute(rows)
    search = _Search(*rows, n_rounds, first_share, found_weight, exponent, metric)
    options = n_rounds, first_share, found_weight, exponent, metric, random_state
    with (
        one_blas_thread(),
        keeping(None) if is_small else nullcontext(),  # which takes longer than to search again
        scope("propagation", *options, X1, X2, links),
    ):
        with scope("all"):
            spaces, n_found = search.spaces(links)
        temperature, lost = _calibrate(search, links, random_state)
        with scope("last"):
            found = _with_probabilities(links, search.candidates(spaces), temperature, lost)
    return Propagation(found, spaces, n_found, temperature, lost)


class _Found(NamedTuple):
    """The pairs found in a round: the counterpart of each row of the second set, or -1, and their number so far."""

    counterparts: Int64s
    n_found: Int64s
    """Of each round, -1 for those to come."""


class _Search(NamedTuple):
    """Two sets of unit rows, and the search for their pairs."""

    first: Rows
    second: Rows
    n_rounds: int
    first_share: float
    found_weight: float
    exponent: float
    metric: Metric

    def spaces(self, links: sp.csr_array) -> tuple[Spaces, list[int]]:
        """Return both sets in the space of the last round, and the pairs found in each round, which are kept."""
        begun, state = newest("round", _Found)
        found = compute(state) or _Found(np.full(links.shape[1], -1), np.full(self.n_rounds, -1))
        for number in range(begun, self.n_rounds):
            make = partial(self._round, links, found, number)
            found = compute(keep("round", make, _Found, number=number + 1))
        return self.mapped(self._added(links, found)), found.n_found.tolist()

    def _round(self, links: sp.csr_array, found: _Found, number: int) -> _Found:
        candidates = self.candidates(self.mapped(self._added(links, found)), links)
        pairs, scores = candidates.mutual_choices()
        share = self.first_share + (1 - self.first_share) * number / max(1, self.n_rounds - 1)
        kept = pairs[np.argsort(-scores, kind="stable")[: int(np.ceil(share * len(scores)))]]
        counterparts, n_found = np.full(links.shape[1], -1), found.n_found.copy()
        counterparts[kept[:, 1]], n_found[number] = kept[:, 0], len(kept)
        return _Found(counterparts, n_found)

    def _added(self, links: sp.csr_array, found: _Found) -> sp.csr_array:
        """Return the links with the pairs found."""
        columns = np.flatnonzero(found.counterparts >= 0)
        weights = np.full(columns.size, self.found_weight)
        pairs = (weights, (found.counterparts[columns], columns))
        return sp.csr_array(links + sp.csr_array(pairs, shape=links.shape))

    def mapped(self, links: sp.csr_array) -> Spaces:
        """Return both sets in the space that the links fit best."""
        there, here = blocks.reweighted_maps(
            _linked_product(self.second, self.first, links), exponent=self.exponent
        )
        return self._through(self.first, here), self._through(self.second, there)

    def _through(self, rows: Rows, weights: Float64s) -> Rows:
        step = blocks.mapped_directions if self.metric == "cosine" else blocks.mapped
        return lift(step, "wc,cr->wr", rows, weights, dtype=np.float64)

    def candidates(self, spaces: Spaces, taken: sp.csr_array | None = None) -> _Candidates:
        """Return the candidate pairs of all rows, or of those without a link; rows without direction have none."""
        here, there = (row_is_used(rows, self.metric) for rows in spaces)
        if taken is not None:
            here &= np.asarray(taken.sum(axis=1)) == 0
            there &= np.asarray(taken.sum(axis=0)) == 0
        rows, columns = np.flatnonzero(here), np.flatnonzero(there)
        if not rows.size or not columns.size:
            empty = np.zeros((0, 2, 0))
            return _Candidates(empty, empty, rows[:0], columns[:0])
        sides = _take_rows(spaces[0], rows), _take_rows(spaces[1], columns)
        return _Candidates(*_cross_lists(*sides), rows, columns)


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


def _linked_product(left: Rows, right: Rows, links: sp.csr_array) -> Float64s:
    """Return Σ c_ij left_j right_iᵀ over the links c (rows of `right` × rows of `left`), from tiles of blocks.

    The blocks of a Dask array `left` are read again for each block of `right`.
    """
    if isinstance(left, np.ndarray):
        return blocks.linked_product(left, right, links)
    total = np.zeros((left.shape[1], right.shape[1]))
    for first, Y in _row_blocks(right):
        options = {"Y": Y, "links": links[first : first + len(Y)]}
        sizes, begin = {"w": 1}, first_rows(left)
        for part in compute(
            lift(_tile_product, "wc,w->w", left, begin, dtype=object, sizes=sizes, **options)
        ):
            if part is not None:
                total += part
    return total


@block(temporaries=2)
def _tile_product(X: Float64s, first: Int64s, *, Y: Float64s, links: sp.csr_array) -> Float64s | None:
    of_block = links[:, first[0] : first[0] + len(X)]
    return blocks.linked_product(X, Y, of_block) if of_block.nnz else None


def _row_blocks(rows: Rows) -> Iterator[tuple[int, Float64s]]:
    if isinstance(rows, np.ndarray):
        yield 0, rows
        return
    for number, first in enumerate(compute(first_rows(rows)).tolist()):
        yield first, compute(rows.blocks[number])


def _take_rows(rows: Rows, chosen: Int64s) -> Rows:
    """Return the chosen rows, those of each block in a block of their own; blocks without any are left out."""
    if chosen.size == rows.shape[0]:
        return rows
    if isinstance(rows, np.ndarray):
        return rows[chosen]
    begin = compute(first_rows(rows))
    sizes = np.diff(np.searchsorted(chosen, [*begin, rows.shape[0]]))
    some = np.flatnonzero(sizes)
    first = da.from_array(begin[some], chunks=1)
    taken = {"w": tuple(sizes[some].tolist())}
    return lift(
        _chosen_rows, "wc,w->wc", rows.blocks[some], first, dtype=np.float64, sizes=taken, chosen=chosen
    )


@block(temporaries=0.5)
def _chosen_rows(rows: Float64s, first: Int64s, *, chosen: Int64s) -> Float64s:
    begin, end = np.searchsorted(chosen, (first[0], first[0] + len(rows)))
    return rows[chosen[begin:end] - first[0]]


def _cross_lists(first: Rows, second: Rows) -> tuple[Rows, Rows]:
    """Return the neighbor lists (rows, 2, k) of each set in the other."""
    k = min(CANDIDATES, first.shape[0], second.shape[0])
    if isinstance(first, np.ndarray):
        return _whole_lists(first, second, k), _whole_lists(second, first, k)
    forth = keep("forth", partial(_lists_by_blocks, first, second, k))
    return forth, keep("back", partial(_lists_by_blocks, second, first, k))


def _lists_by_blocks(rows: da.Array, columns: da.Array, k: int) -> da.Array:
    marks = np.zeros(rows.shape[0], np.int64), np.ones(columns.shape[0], np.int64)
    # Float32 products rule pairs out by a bound on their rounding, so that the lists are those of float64.
    return search_lists(rows, marks[0], columns, marks[1], k=k, single=True)


def _whole_lists(rows: Float64s, columns: Float64s, k: int) -> Float64s:
    marks, ids = np.zeros(len(rows), np.int64), np.arange(len(columns))
    return neighbor_blocks.nearest_in_tile(
        rows, marks, columns, ids, np.ones_like(ids), columns.mean(axis=0), k=k
    )


# -------------------------------------------------------------------------------------- candidates


class _Candidates(NamedTuple):
    """Neighbor lists of some rows of each set in the other, which candidate pairs are made of block by block."""

    forth: Rows
    back: Rows
    """The lists, in memory or by row blocks. Arrays (rows, 2, k) and (columns, 2, k)."""
    rows: Int64s
    columns: Int64s
    """The numbers of those rows in their sets. Int64."""

    def mutual_choices(self) -> blocks.CandidatePairs:
        """Return the pairs in which each row is the other's best; of equal scores the smaller row number."""
        own = blocks.BestChoice.none(self.rows.size)
        others = blocks.BestChoice.none(self.columns.size)
        for pairs, scores in self._by_block():
            own.improve(pairs[:, 0], pairs[:, 1], scores)
            others.improve(pairs[:, 1], pairs[:, 0], scores)
        mutual = np.flatnonzero(others.choices[own.choices] == np.arange(self.rows.size))
        return self._numbered(np.column_stack([mutual, own.choices[mutual]]), own.scores[mutual])

    def by_block(self) -> Iterator[blocks.CandidatePairs]:
        """Return all pairs, those of a block of rows at a time, by row and column."""
        return (self._numbered(*found) for found in self._by_block())

    def _numbered(self, pairs: Int64s, scores: Float64s) -> blocks.CandidatePairs:
        return blocks.CandidatePairs(
            np.column_stack([self.rows[pairs[:, 0]], self.columns[pairs[:, 1]]]), scores
        )

    def _by_block(self) -> Iterator[blocks.CandidatePairs]:
        if not self.rows.size or not self.columns.size:
            return
        lists = [part for _, part in _row_blocks(self.back)]
        means = np.concatenate([blocks.mean_cosines(part) for part in lists])
        listed = sp.vstack([neighbor_blocks.list_rows(part, self.rows.size) for part in lists], format="csr")
        by_row = sp.csr_array(listed.T)
        del lists, listed
        for first, part in _row_blocks(self.forth):
            yield blocks.candidate_pairs(part, by_row[first : first + len(part)], means, first_row=first)


JUDGED_PAIRS = 50
"""Known pairs left out, a fifth at a time, until so many are judged: a fraction is then known to 0.07. Of fewer
than these a tenth is left out at a time and all are judged: half of 25 pairs find far less than 25 do."""


def _calibrate(search: _Search, links: sp.csr_array, random_state: int) -> tuple[float, float]:
    """Return the temperature and the lost share, estimated from folds of known pairs left out in turn."""
    known = links.tocoo()
    if known.nnz < 2:
        return DEFAULT_TEMPERATURE, 0.5
    n_folds, n_used = folds_of(known.nnz)
    folds = np.random.default_rng(random_state).permutation(known.nnz) % n_folds
    n_judged, judged = 0, []
    for fold in range(n_used):
        rows, columns, kept = known.row[folds == fold], known.col[folds == fold], folds != fold
        rest = sp.csr_array((known.data[kept], (known.row[kept], known.col[kept])), shape=links.shape)
        margins = compute(keep(f"fold-{fold + 1}", partial(_margins, search, rest, rows, columns)))
        judged += [row[~np.isnan(row)] for row in margins if not np.isnan(row).all()]
        n_judged += len(rows)
        tell("folds", fold + 1, n_folds)
    # Half a pair on each side (Krichevsky & Trofimov): no finite sample shows that none is ever lost.
    return blocks.likeliest_temperature(judged), (n_judged - len(judged) + 0.5) / (n_judged + 1)


def _margins(search: _Search, links: sp.csr_array, rows: Int64s, columns: Int64s) -> Float64s:
    """Return `true_margins` of pairs that the links lack, a row for each, NaN beyond its candidates."""
    found = search.candidates(search.spaces(links)[0])
    return blocks.true_margins(_among(found, columns), rows, columns)


def folds_of(n_known: int) -> tuple[int, int]:
    """Return into how many folds so many known pairs are cut, and how many of these are left out in turn."""
    if n_known < 2:
        return 1, 0
    n_folds = min(n_known, 10 if n_known < JUDGED_PAIRS else 5)
    sizes = [len(range(fold, n_known, n_folds)) for fold in range(n_folds)]
    judged_before = np.cumsum([0, *sizes[:-1]])
    return n_folds, int((judged_before < JUDGED_PAIRS).sum())


DEFAULT_TEMPERATURE = 0.05
"""Where one known pair leaves nothing to estimate: between translations (0.01) and comparable texts (0.06)."""


def _among(candidates: _Candidates, columns: Int64s) -> blocks.CandidatePairs:
    """Return the candidate pairs of some rows of the second set."""
    pairs, scores = [np.zeros((0, 2), np.int64)], [np.zeros(0)]
    for found in candidates.by_block():
        wanted = np.isin(found.pairs[:, 1], columns)
        pairs.append(found.pairs[wanted])
        scores.append(found.scores[wanted])
    return blocks.CandidatePairs(np.concatenate(pairs), np.concatenate(scores))


def _with_probabilities(
    links: sp.csr_array, candidates: _Candidates, temperature: float, lost: float
) -> sp.csr_array:
    """Return the links, with (1 - ε) exp(s_ij / T) / Σ_i exp(s_ij / T) for the columns j that have none."""
    free = np.asarray(links.sum(axis=0)) == 0
    largest, total = np.full(free.size, -np.inf), np.zeros(free.size)
    for pairs, scores in candidates.by_block():
        np.maximum.at(largest, pairs[:, 1], scores / temperature)
    for pairs, scores in candidates.by_block():
        np.add.at(total, pairs[:, 1], np.exp(scores / temperature - largest[pairs[:, 1]]))
    rows, columns, chances = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for pairs, scores in candidates.by_block():
        j = pairs[:, 1]
        chance = (1 - lost) * (np.exp(scores / temperature - largest[j]) / total[j])
        kept = free[j] & (chance >= LEAST_PROBABILITY)
        rows.append(pairs[kept, 0])
        columns.append(j[kept])
        chances.append(chance[kept])
    added = (np.concatenate(chances), (np.concatenate(rows), np.concatenate(columns)))
    return sp.csr_array(links + sp.csr_array(added, shape=links.shape))


LEAST_PROBABILITY = 1e-3
"""Probabilities below it are no edge."""
