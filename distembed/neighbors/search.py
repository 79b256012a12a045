"""Nearest neighbors of many rows: each pair of row blocks is a task, whose lists serve both sides.

Dense rows are measured in the tile that finds them. Sparse rows go two ways: approximate cosines of each pair of
blocks name candidates, and these are measured; the few rows whose candidates the error of the first step leaves in
doubt are searched again in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.base import tokenize

from distembed.display import plural
from distembed.dtypes import Int64s
from distembed.lift import array_of_tasks, first_rows, lift, task_function
from distembed.neighbors import blocks, cosine_blocks
from distembed.neighbors.distances import Metric, dense_values, domain_rows
from distembed.states import block_memory, keep, scope

SINGLE_FEATURES = 4096
"""Values of a dense row of unit length up to which pairs are ruled out in float32: the bound of their rounding stays
under a thousandth, so that few more are measured, and products take half the time."""
SPARE_CANDIDATES = 12
"""Candidates of a sparse row beyond k: at 12,000 words no row was left in doubt with them."""


@dataclass(frozen=True)
class Neighbors:
    """The k nearest rows of each row, nearest first, ties by row number."""

    lists: da.Array
    """Float64 Dask array, shape (n, 2, k): squared Euclidean distances (of unit rows for "cosine") and row numbers;
    (inf, -1) where there are fewer than k.
    """
    metric: Metric

    @property
    def indices(self) -> da.Array:
        """Row numbers, int64, shape (n, k); -1 where there are fewer than k."""
        return self.lists[:, 1].astype(np.int64)

    @property
    def distances(self) -> da.Array:
        """Distances in the metric, float64, shape (n, k), rising; 1 - cosine for "cosine"."""
        squares = self.lists[:, 0]
        return squares / 2 if self.metric == "cosine" else np.sqrt(squares)


def nearest_neighbors(X: Any, k: int, *, metric: Metric = "euclidean") -> Neighbors:
    """Find the k nearest other rows of every row of X, exactly, and keep the lists.

    Rows equal to each other are each other's neighbors at distance zero. The bits do not depend on the
    blocks. sklearn.neighbors.NearestNeighbors(algorithm="brute") is the equivalent in memory.

    Parameters
    ----------
    X : array, shape (n, d): NumPy or Dask; SciPy sparse or CSR-chunked Dask for metric="cosine"
    k : neighbors wanted, less than n
    metric : "euclidean" or "cosine"

    Raises
    ------
    ValueError
        If k is not in 1 … n - 1, or `domain_rows` refuses X.
    """
    return nearest_rows(domain_rows(X, metric=metric), k, metric=metric)


def nearest_rows(rows: da.Array, k: int, *, metric: Metric = "euclidean") -> Neighbors:
    """Return the result of `nearest_neighbors` for rows that `domain_rows` returned for the metric."""
    near = neighbors_of(rows, k, metric=metric)
    with scope("neighbors", near.lists):
        return Neighbors(keep("lists", lambda: near.lists), metric)


def neighbors_of(
    rows: da.Array, k: int, *, metric: Metric = "euclidean", columns: da.Array | None = None
) -> Neighbors:
    """Return the result of `nearest_rows` before anything is computed; of `columns`, the nearest rows among them."""
    ids, single = np.arange(rows.shape[0]), metric == "cosine" and rows.shape[1] <= SINGLE_FEATURES
    among, groups = (rows, ids) if columns is None else (columns, np.arange(columns.shape[0]))
    check_n_neighbors(k, len(ids), n_of_y=None if columns is None else len(groups))
    own = ids if columns is None else np.full(len(ids), -1)  # no row of X is left out as one of Y
    return Neighbors(search_lists(rows, own, among, groups, k=k, single=single), metric)


def check_n_neighbors(k: int, n: int, *, n_of_y: int | None = None) -> None:
    """Raise ValueError unless each of n rows has k others, or so many rows of Y."""
    n_others = n - 1 if n_of_y is None else n_of_y
    if not 1 <= k <= n_others:
        found = plural(n_others, "other") if n_of_y is None else f"{plural(n_others, 'row')} of Y"
        raise ValueError(
            f"{k} neighbors of each row are asked for, but each of {plural(n, 'row')} has "
            f"{found}: {f'ask for 1 to {n_others}' if n_others > 0 else 'give two rows or more'}"
        )


def search_lists(
    rows: da.Array,
    row_groups: Int64s,
    columns: da.Array,
    column_groups: Int64s,
    *,
    k: int,
    single: bool = False,
) -> da.Array:
    """Return the lists, shape (r, 2, k), of the k nearest `columns` of another group for each of `rows`.

    Rows and columns are what `domain_rows` returns; sparse rows must have unit length. Nothing is computed here. All
    rows are in memory while their lists are searched.

    Parameters
    ----------
    rows, columns : Dask arrays (r, d) and (c, d)
    row_groups, column_groups : int64 arrays; pairs of one group are left out (a row and itself, a component)
    k : length of the lists
    single : pairs of dense rows are ruled out in float32: for rows that were float32, or are of unit length and short
    """
    sides = Side.of(rows, row_groups), Side.of(columns, column_groups)
    if not sp.issparse(rows._meta):
        return _pair_lists(*sides, blocks.nearest_in_pair, k, single=single)
    most, tile = dense_values(block_memory()), cosine_blocks.tile_candidates
    candidates = _pair_lists(*sides, tile, k + SPARE_CANDIDATES, dense_values=most)
    return lift(
        cosine_blocks.measure_candidates,
        "id,ipq,i,Jd,J->ick",
        rows,
        candidates,
        da.from_array(row_groups, chunks=(rows.chunks[0],)),
        columns,
        first_rows(columns),
        dtype=np.float64,
        sizes={"c": 2, "k": k},
        column_groups=column_groups,
        k=k,
    )


class Side(NamedTuple):
    """Rows that are compared, by blocks."""

    rows: da.Array
    groups: Int64s
    firsts: list[int]
    """The number of the first row of each block."""

    @classmethod
    def of(cls, rows: da.Array, groups: Int64s) -> Side:
        """Return rows with the groups that they belong to."""
        return cls(rows, groups, np.cumsum((0, *rows.chunks[0]))[:-1].tolist())


def _pair_lists(left: Side, right: Side, tile: Callable[..., Any], k: int, **options: Any) -> da.Array:
    """Return lists, (r, 2, k), merged from those that a tile gives of each pair of blocks.

    Of rows among themselves each row first looks in its own block, which rules out most of the others, and a pair is
    searched once for the lists of both. Lists are merged one after another, so that few of them wait.

    The tile takes rows, their groups and the number of the first, of one block and of another, and the lists that both
    have found so far, or None. It returns the lists of both; the second ones are not read where it was given None.
    """
    of_itself = left.rows is right.rows and np.array_equal(left.groups, right.groups)
    token = tokenize(left.rows.name, left.groups, right.rows.name, right.groups, tile, k, options)
    search, merge = task_function(tile, k=k, **options), task_function(blocks.merge_found)
    step, name = search.__name__, f"neighbor-lists-{token}"
    tasks: dict[Any, Any] = {}
    blocks_of = []
    for side, (rows, groups, firsts) in enumerate((left, right)):
        parts = np.split(groups, firsts[1:])
        tasks |= {(f"groups-{token}", side, i): part for i, part in enumerate(parts)}
        blocks_of.append(
            [((rows.name, i, 0), (f"groups-{token}", side, i), first) for i, first in enumerate(firsts)]
        )
    n_left, n_right = map(len, blocks_of)
    found: list[list[Any]] = [[] for _ in range(n_left)]

    def add(i: int, j: int, *so_far: Any) -> None:
        tasks[f"{step}-{token}", i, j] = (search, *blocks_of[0][i], *blocks_of[1][j], *so_far)
        found[i].append(((f"{step}-{token}", i, j), 0))

    if of_itself:
        for i in range(n_left):
            add(i, i, None, None)
        for i, j in combinations(range(n_left), 2):
            add(i, j, (f"merge-{name}", i, 0), (f"merge-{name}", j, 0))
            found[j].append(((f"{step}-{token}", i, j), 1))
    else:
        for i, j in product(range(n_left), range(n_right)):
            add(i, j, None, None)
    for i, tiles in enumerate(found):
        keys = [(f"merge-{name}", i, n) for n in range(len(tiles) - 1)] + [(name, i, 0, 0)]
        for key, before, (one, side) in zip(keys, [None, *keys], tiles, strict=False):
            tasks[key] = (merge, before, one, side)
    sources = [left.rows] if of_itself else [left.rows, right.rows]
    return array_of_tasks(name, tasks, sources, (left.rows.chunks[0], (2,), (k,)), np.empty((0, 0, 0)))
