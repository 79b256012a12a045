"""Further correspondences of two sets of rows, found from a few known ones by linear maps.

Small sets are read once and searched in memory, without a task. The rows of larger ones are read and mapped block
by block, and compared tile by tile: no task holds more than a few blocks of them. In memory are the candidates of
one set, 12 bytes for each of `CANDIDATES` per row, and the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Float64s, Int64s
from distembed.execution import (
    Checkpoint,
    compute,
    delayed,
    delayed_blocks,
    held_by_cluster,
    map_blocks,
    one_blas_thread,
    persist,
    single_tasks,
    tell,
)
from distembed.linalg.blocks import directions
from distembed.linalg.chunks import BLOCK_MEMORY, row_chunk
from distembed.linalg.operators import column_powers
from distembed.manifold import propagation_blocks as blocks
from distembed.neighbors import blocks as neighbor_blocks
from distembed.neighbors.distances import Metric
from distembed.neighbors.graphs import row_is_used
from distembed.neighbors.search import Products, search_lists

Rows: TypeAlias = "Float64s | da.Array"
"""The rows of a set: in memory where both sets have at most `ROWS_AT_ONCE`, otherwise by row blocks."""
Spaces: TypeAlias = tuple[Rows, Rows]

_DENSE: dict[str, Any] = {"dtype": np.float64, "meta": np.empty((0, 0))}

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
    block_memory: int = BLOCK_MEMORY,
    checkpoint: Checkpoint = persist,
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
    block_memory : int
        The memory of one task in bytes. It lays the grid of sets of more than `ROWS_AT_ONCE` rows.
    checkpoint : Checkpoint
        Keeps the neighbor lists of each search between such sets.

    References
    ----------
    Artetxe, Labaka & Agirre 2017 (self-learning) and 2018 (p, there "re-weighting"); Conneau et al. 2018,
    section 2.3 (CSLS).
    """
    rows: Spaces = _comparable(X1, metric, block_memory), _comparable(X2, metric, block_memory)
    if max(len(X) for X in rows) <= ROWS_AT_ONCE:
        rows = compute(rows)
    search = _Search(*rows, n_rounds, first_share, found_weight, exponent, metric, checkpoint)
    with one_blas_thread():
        spaces, n_found = search.spaces(links, "all")
        temperature, lost = _calibrate(search, links, random_state)
        candidates = search.candidates(spaces, "last")
        found = _with_probabilities(links, candidates, temperature, lost)
    return Propagation(found, spaces, n_found, temperature, lost)


class _Search(NamedTuple):
    """Two sets of unit rows, and the search for their pairs."""

    first: Rows
    second: Rows
    n_rounds: int
    first_share: float
    found_weight: float
    exponent: float
    metric: Metric
    checkpoint: Checkpoint

    def spaces(self, links: sp.csr_array, name: str) -> tuple[Spaces, list[int]]:
        """Return both sets in the space of the last round, and the pairs found in each round."""
        found, n_found = links, []
        for number in range(self.n_rounds):
            candidates = self.candidates(self.mapped(found), f"{name}-{number + 1}", links)
            pairs, scores = candidates.mutual_choices()
            share = self.first_share + (1 - self.first_share) * number / max(1, self.n_rounds - 1)
            kept = pairs[np.argsort(-scores, kind="stable")[: int(np.ceil(share * len(scores)))]]
            n_found.append(len(kept))
            added = (np.full(len(kept), self.found_weight), (kept[:, 0], kept[:, 1]))
            found = sp.csr_array(links + sp.csr_array(added, shape=links.shape))
        return self.mapped(found), n_found

    def mapped(self, links: sp.csr_array) -> Spaces:
        """Return both sets in the space that the links fit best."""
        there, here = blocks.reweighted_maps(
            _linked_product(self.second, self.first, links), exponent=self.exponent
        )
        return self._through(self.first, here), self._through(self.second, there)

    def _through(self, rows: Rows, weights: Float64s) -> Rows:
        step = blocks.mapped_directions if self.metric == "cosine" else np.matmul
        if isinstance(rows, np.ndarray):
            return step(rows, weights)
        chunks = (rows.chunks[0], (weights.shape[1],))
        return map_blocks(partial(_image, step, weights), rows, chunks=chunks, **_DENSE)

    def candidates(self, spaces: Spaces, name: str, taken: sp.csr_array | None = None) -> _Candidates:
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
        return _Candidates(*_cross_lists(*sides, name, self.checkpoint), rows, columns)


def _image(step: Callable[[Float64s, Float64s], Float64s], weights: Float64s, rows: Float64s) -> Float64s:
    return step(rows, weights)


def _comparable(X: Any, metric: Metric, block_memory: int) -> da.Array:
    """Return unit rows, or rows less their mean in units of their root mean square, in row blocks."""
    n, d = X.shape
    chunk = n if n <= ROWS_AT_ONCE else row_chunk(n, 8 * d, block_memory)
    given = X.rechunk((chunk, -1)) if isinstance(X, da.Array) else da.from_array(X, chunks=(chunk, -1))
    rows = given.astype(np.float64)
    if metric == "cosine":
        return map_blocks(directions, rows, **_DENSE)
    rows = rows - compute(column_powers(rows, 1)) / n
    size = float(np.sqrt(compute(column_powers(rows, 2)).sum() / n))
    return rows / size if size > 0 else rows


def _linked_product(left: Rows, right: Rows, links: sp.csr_array) -> Float64s:
    """Return Σ c_ij left_j right_iᵀ over the links c (rows of `right` × rows of `left`), from tiles of blocks.

    The blocks of a Dask array `left` are read again for each block of `right`.
    """
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return blocks.linked_product(left, right, links)
    assert isinstance(left, da.Array)
    assert isinstance(right, da.Array)
    total = np.zeros((left.shape[1], right.shape[1]))
    product = delayed(blocks.linked_product, pure=True)
    columns, rows = (list(zip(_bounds(X), delayed_blocks(X).ravel(), strict=True)) for X in (left, right))
    for (first, stop), Y in rows:
        strip = links[first:stop]
        parts = [product(X, Y, strip[:, begin:end]) for (begin, end), X in columns if strip[:, begin:end].nnz]
        for part in compute(parts):
            total += part
    return total


def _row_blocks(rows: Rows) -> Iterator[tuple[int, Float64s]]:
    if isinstance(rows, np.ndarray):
        yield 0, rows
        return
    for (first, _), part in zip(_bounds(rows), delayed_blocks(rows).ravel(), strict=True):
        yield first, compute(part)


def _bounds(rows: da.Array) -> list[tuple[int, int]]:
    return list(pairwise(np.cumsum([0, *rows.chunks[0]]).tolist()))


def _take_rows(rows: Rows, chosen: Int64s) -> Rows:
    """Return the chosen rows, those of each block in a block of their own; blocks without any are left out."""
    if chosen.size == rows.shape[0]:
        return rows
    if isinstance(rows, np.ndarray):
        return _rows_at(rows, numbers=chosen)
    parts = []
    for number, (first, stop) in enumerate(_bounds(rows)):
        begin, end = np.searchsorted(chosen, (first, stop))
        if begin < end:
            taken, chunks = chosen[begin:end] - first, ((int(end - begin),), rows.chunks[1])
            parts.append(map_blocks(_rows_at, rows.blocks[number], numbers=taken, chunks=chunks, **_DENSE))
    return da.concatenate(parts)


def _rows_at(rows: Float64s, *, numbers: Int64s) -> Float64s:
    return rows[numbers]


def _cross_lists(first: Rows, second: Rows, name: str, checkpoint: Checkpoint) -> tuple[Rows, Rows]:
    """Return the neighbor lists (rows, 2, k) of each set in the other."""
    k = min(CANDIDATES, first.shape[0], second.shape[0])
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return _whole_lists(first, second, k), _whole_lists(second, first, k)
    assert isinstance(first, da.Array)
    assert isinstance(second, da.Array)
    forth = checkpoint(f"{name}-forth", partial(_lists_by_blocks, first, second, k))
    return forth, checkpoint(f"{name}-back", partial(_lists_by_blocks, second, first, k))


def _lists_by_blocks(rows: da.Array, columns: da.Array, k: int) -> da.Array:
    marks = np.zeros(rows.shape[0], np.int64), np.ones(columns.shape[0], np.int64)
    # Float32 products rule pairs out by a bound on their rounding, so that the lists are those of float64.
    held = held_by_cluster(rows) or held_by_cluster(columns)
    products = Products(single=True, reread=not held)
    sides = (rows, columns) if held else (single_tasks(rows), single_tasks(columns))
    return search_lists(sides[0], marks[0], sides[1], marks[1], k=k, products=products)


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
        name = f"fold-{fold + 1}"
        candidates = search.candidates(search.spaces(rest, name)[0], f"{name}-last")
        judged += blocks.true_margins(_among(candidates, columns), rows, columns)
        n_judged += len(rows)
        tell("folds", fold + 1, n_folds)
    # Half a pair on each side (Krichevsky & Trofimov): no finite sample shows that none is ever lost.
    return blocks.likeliest_temperature(judged), (n_judged - len(judged) + 0.5) / (n_judged + 1)


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
