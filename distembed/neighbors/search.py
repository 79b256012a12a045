"""Nearest neighbors of many rows: each pair of row blocks is a task, their lists merge in a fixed tree.

Dense rows are measured in the tile that finds them. Sparse rows go two ways: approximate cosines of each pair of
blocks, once for both directions, name candidates, and these are measured; the few rows whose candidates the
error of the first step leaves in doubt are searched again in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.graph_manipulation import clone

from distembed.display import plural
from distembed.dtypes import Float64s, Int64s
from distembed.execution import (
    Checkpoint,
    blockwise,
    compute,
    delayed,
    delayed_blocks,
    from_delayed,
    held_by_cluster,
    map_blocks,
    one_blas_thread,
    persist,
    reduction,
    single_tasks,
)
from distembed.linalg.chunks import BLOCK_MEMORY
from distembed.linalg.operators import column_powers
from distembed.neighbors import blocks, cosine_blocks
from distembed.neighbors.distances import (
    Metric,
    dense_values,
    domain_rows,
)

SINGLE_FEATURES = 4096
"""Values of a dense row of unit length up to which pairs are ruled out in float32: the bound of their rounding stays
under a thousandth, so that few more are measured, and products take half the time."""
LIMITED_BLOCKS = 8
"""Column blocks from which on the rows first look for neighbors in their own block, to rule out most of the others."""
SPARE_CANDIDATES = 12
"""Candidates of a sparse row beyond k: at 12,000 words no row was left in doubt with them."""


MERGED_AT_ONCE = 8
"""Lists of one row that one task merges."""


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


def nearest_neighbors(
    X: Any,
    k: int,
    *,
    metric: Metric = "euclidean",
    block_memory: int = BLOCK_MEMORY,
    checkpoint: Checkpoint = persist,
    reread: bool = False,
) -> Neighbors:
    """Find the k nearest other rows of every row of X, exactly.

    Rows equal to each other are each other's neighbors at distance zero. The bits do not depend on the
    blocks. sklearn.neighbors.NearestNeighbors(algorithm="brute") is the equivalent in memory.

    Parameters
    ----------
    X : array, shape (n, d): NumPy or Dask; SciPy sparse or CSR-chunked Dask for metric="cosine"
    k : neighbors wanted, less than n
    metric : "euclidean" or "cosine"
    block_memory : int
        The memory of one task in bytes.
    checkpoint : keeps the result under "neighbors", and before it the "neighbor-candidates" of sparse rows
    reread : each task reads its blocks of dense rows again, so that memory never holds all rows: for a Dask array
        that is cheap to read, and not in the memory of a cluster already

    Raises
    ------
    ValueError
        If k is not in 1 … n - 1, or `domain_rows` refuses X.
    """
    rows = domain_rows(X, metric=metric, block_memory=block_memory)
    single = metric == "cosine" and rows.shape[1] <= SINGLE_FEATURES
    options: dict[str, Any] = {"block_memory": block_memory, "checkpoint": checkpoint, "single": single}
    if reread and not sp.issparse(rows._meta) and not held_by_cluster(rows):
        rows, options = single_tasks(rows), {**options, "reread": True}
    return nearest_rows(rows, k, metric=metric, **options)


class Products(NamedTuple):
    """How the products of dense rows are taken: in float32, of blocks that are read again.

    `lazy` ones compute nothing before their result is asked for, of sparse rows, too.
    """

    single: bool = False
    reread: bool = False
    lazy: bool = False


def nearest_rows(
    rows: da.Array,
    k: int,
    *,
    metric: Metric = "euclidean",
    block_memory: int = BLOCK_MEMORY,
    checkpoint: Checkpoint = persist,
    reread: bool = False,
    single: bool = False,
    lazy: bool = False,
) -> Neighbors:
    """Return the result of `nearest_neighbors` for rows that `domain_rows` returned for the metric.

    Parameters
    ----------
    rows : array
        The rows, as `domain_rows` returns them.
    k : int
        The number of neighbors.
    metric : str
        The distance between rows.
    block_memory : int
        The memory of one task in bytes.
    checkpoint : Checkpoint
        Stores the intermediate arrays, so that a job can be resumed.
    reread : each task reads its blocks of dense rows again, so that memory never holds all rows
    single : pairs of dense rows are ruled out in float32: for rows that were float32, or are of unit length and short
    lazy : nothing is computed before the lists are, which have the same bits; not with `reread`
    """
    n_others = rows.shape[0] - 1
    if not 1 <= k <= n_others:
        raise ValueError(
            f"{k} neighbors of each row are asked for, but each of {plural(n_others + 1, 'row')} has "
            f"{plural(n_others, 'other')}: {f'ask for 1 to {n_others}' if n_others > 0 else 'give two rows or more'}"
        )
    ids = np.arange(rows.shape[0])
    products = Products(single=single, reread=reread, lazy=lazy)
    options: dict[str, Any] = {"block_memory": block_memory, "checkpoint": checkpoint, "products": products}

    def make() -> da.Array:
        return search_lists(rows, ids, rows, ids, k=k, **options)

    with one_blas_thread():
        return Neighbors(checkpoint("neighbors", make), metric)


def search_lists(
    rows: da.Array,
    row_groups: Int64s,
    columns: da.Array,
    column_groups: Int64s,
    *,
    k: int,
    block_memory: int = BLOCK_MEMORY,
    checkpoint: Checkpoint = persist,
    products: Products = Products(),  # noqa: B008 - a frozen record
) -> da.Array:
    """Return the lists, shape (r, 2, k), of the k nearest `columns` of another group for each of `rows`.

    Rows and columns are what `domain_rows` returns; sparse rows must have unit length. Of sparse rows the candidates
    are searched at once, and kept by the checkpoint as "neighbor-candidates"; of dense rows in many blocks, the
    "neighbor-limits".
    """
    if not sp.issparse(rows._meta):
        return _search_dense(rows, row_groups, columns, column_groups, k, checkpoint, products)
    options = {"dense_values": dense_values(block_memory), "k": k + SPARE_CANDIDATES}

    def make() -> da.Array:
        return find_candidates(rows, row_groups, columns, column_groups, **options)

    search = _search_sparse_lazily if products.lazy else _search_sparse
    return search(rows, row_groups, columns, column_groups, k, checkpoint("neighbor-candidates", make))


# --------------------------------------------------------------------------- dense rows


def _search_dense(
    rows: da.Array,
    row_groups: Int64s,
    columns: da.Array,
    column_groups: Int64s,
    k: int,
    checkpoint: Checkpoint,
    products: Products,
) -> da.Array:
    """Return `search_lists` of dense rows: tiles in which few pairs are measured."""
    center = None if products.lazy else compute(column_powers(columns, 1)) / columns.shape[0]
    options: dict[str, Any] = {"center": center, "k": k, "single": products.single}
    marks, limits = _along(row_groups, rows), None
    if rows is columns and not products.reread and np.array_equal(row_groups, column_groups):
        return _search_pairs(rows, row_groups, None if products.lazy else checkpoint, options)
    if rows is columns and rows.numblocks[0] >= LIMITED_BLOCKS:
        limits = _limits([rows, "id", marks, "i"], checkpoint, options)
    ids, groups = np.arange(columns.shape[0]), column_groups

    def lists_of(rows: da.Array, marks: Any, limits: Any, columns: da.Array) -> da.Array:
        arguments = [
            rows,
            "id",
            marks,
            "i",
            columns,
            "jd",
            _along(ids, columns),
            "j",
            _along(groups, columns),
            "j",
        ]
        return _lists_of_tiles(_dense_tile, [*arguments, limits, None if limits is None else "i"], **options)

    if not products.reread:
        return lists_of(rows, marks, limits, columns)
    # Blocks under names of their own for each block of rows are let go between its tiles.
    parts = [
        (rows.blocks[i], marks.blocks[i], None if limits is None else limits.blocks[i])
        for i in range(rows.numblocks[0])
    ]
    return da.concatenate([lists_of(*part, clone(columns)) for part in parts])


def _search_pairs(
    rows: da.Array, groups: Int64s, checkpoint: Checkpoint | None, options: dict[str, Any]
) -> da.Array:
    """Return `search_lists` of dense rows among themselves: the products of a pair of blocks serve the lists of both.

    Each row first looks in its own block, which rules out most of the others where there are many; the lists of this
    search are kept by the checkpoint, without which nothing is computed here.
    """
    k = options["k"]
    shape: dict[str, Any] = {"new_axes": {"c": 2, "k": k}, "dtype": np.float64, "meta": np.empty((0, 0, 0))}
    ids = np.arange(rows.shape[0])
    marked = [rows, "id", _along(ids, rows), "i", _along(groups, rows), "i"]
    own, limits = blockwise(_own_lists, "ick", *marked, **shape, **options), np.full(rows.shape[0], np.inf)
    is_limited = rows.numblocks[0] >= LIMITED_BLOCKS
    if is_limited and checkpoint is not None:
        kept = checkpoint("neighbors-in-block", lambda: own)
        own, limits = kept.rechunk((rows.chunks[0], -1, -1)), compute(kept[:, 0, -1])
    tile, merge = delayed(blocks.nearest_in_both, pure=True), delayed(_with_found, pure=True)
    bounds = list(pairwise(np.cumsum((0, *rows.chunks[0]))))
    marks = [[delayed(each[a:b], pure=True) for each in (ids, groups, limits)] for a, b in bounds]
    pieces = list(delayed_blocks(rows).ravel())
    lists = list(delayed_blocks(own).ravel())
    if is_limited and checkpoint is None:
        farthest = delayed(_farthest, pure=True)
        marks = [[*mark[:2], farthest(each)] for mark, each in zip(marks, lists, strict=True)]
    for i, j in combinations(range(len(pieces)), 2):
        (row_ids, row_groups, near), (column_ids, column_groups, column_near) = marks[i], marks[j]
        found = tile(
            *(pieces[i], row_ids, row_groups, pieces[j], column_ids, column_groups),
            limits=near,
            column_limits=column_near,
            **options,
        )
        lists[i], lists[j] = merge(lists[i], found, 0), merge(lists[j], found, 1)
    parts = [
        from_delayed(one, (size, 2, k), np.float64) for one, size in zip(lists, rows.chunks[0], strict=True)
    ]
    return da.concatenate(parts)


def _own_lists(X: Any, ids: Any, groups: Any, *, center: Any, **options: Any) -> Float64s:
    return blocks.nearest_in_tile(X[0], groups, X[0], ids, groups, center, **options)


def _farthest(lists: Float64s) -> Float64s:
    return np.ascontiguousarray(lists[:, 0, -1])


def _with_found(lists: Float64s, found: tuple[Float64s, ...], side: int) -> Float64s:
    return blocks.merge_lists(np.stack([lists, found[side]], axis=1))[:, 0]


def _limits(marked: list[Any], checkpoint: Checkpoint, options: dict[str, Any]) -> da.Array:
    """Return how far the k-th neighbor of each row is at most, float64, shape (n,): it is as near in its own block."""

    def make() -> da.Array:
        return blockwise(_own_limits, "i", *marked, dtype=np.float64, meta=np.empty(0), **options)

    kept = checkpoint("neighbor-limits", make)
    return da.from_array(compute(kept), chunks=kept.chunks)


def _own_limits(X: Any, groups: Any, *, center: Any, **options: Any) -> Float64s:
    ids = np.arange(X[0].shape[0])
    return _farthest(blocks.nearest_in_tile(X[0], groups, X[0], ids, groups, center, **options))


def _lists_of_tiles(tile: Any, arguments: list[Any], k: int, **options: Any) -> da.Array:
    """Return lists, (r, 2, k), merged from those of the tiles (i, j)."""
    tiles = blockwise(
        tile,
        "ijck",
        *arguments,
        k=k,
        **options,
        new_axes={"c": 2, "k": k},
        adjust_chunks={"j": 1},
        align_arrays=False,  # all arrays have the grid of the rows already
        dtype=np.float64,
        meta=np.empty((0, 0, 0, 0)),
    )
    return reduction(
        tiles,
        chunk=_keep,
        combine=_merge,
        aggregate=_merge_last,
        axis=1,
        split_every=MERGED_AT_ONCE,
        dtype=np.float64,
        concatenate=True,
        meta=np.empty((0, 0, 0)),
    )


def _along(values: Any, rows: da.Array) -> da.Array:
    return da.from_array(values, chunks=(rows.chunks[0], *((-1,) * (values.ndim - 1))))


def _dense_tile(
    X: Any, groups: Any, Z: Any, ids: Any, column_groups: Any, limits: Any, *, center: Any, **options: Any
) -> Float64s:
    # Blocks of a contracted dimension arrive in a list; every array here has one block of columns.
    lists = blocks.nearest_in_tile(X[0], groups, Z[0], ids, column_groups, center, limits=limits, **options)
    return lists[:, None]


def _keep(lists: Float64s, axis: Any, keepdims: bool) -> Float64s:  # noqa: ARG001
    return lists


def _merge(lists: Float64s, axis: Any, keepdims: bool) -> Float64s:  # noqa: ARG001
    return blocks.merge_lists(np.ascontiguousarray(lists))


def _merge_last(lists: Float64s, axis: Any, keepdims: bool) -> Float64s:
    return _merge(lists, axis, keepdims)[:, 0]


# --------------------------------------------------------------------------- sparse rows


def _search_sparse(
    rows: da.Array,
    row_groups: Int64s,
    columns: da.Array,
    column_groups: Int64s,
    k: int,
    candidates: da.Array,
) -> da.Array:
    """Return `search_lists` of sparse rows: candidates, their distances, and a second look where in doubt."""
    ids = _along(np.arange(columns.shape[0]), columns)
    wanted = candidates.rechunk((rows.chunks[0], -1, -1))
    tiles = [rows, "id", columns, "jd", ids, "j", wanted, "ipq"]
    lists = persist("neighbor-lists", lambda: _lists_of_tiles(_measure_tile, tiles, k))
    error = cosine_blocks.cosine_error(columns.shape[1])
    unsure = compute(
        map_blocks(cosine_blocks.uncertain_rows, lists, wanted, error=error, drop_axis=(1, 2), dtype=bool)
    )
    if not unsure.any():
        return lists
    again = np.flatnonzero(unsure)
    arguments = [rows[again], "id", _along(row_groups[again], rows[again]), "i", columns, "jd", ids, "j"]
    found = _lists_of_tiles(_certain_tile, [*arguments, _along(column_groups, columns), "j"], k)
    return _replace_rows(lists, again, found)


def _search_sparse_lazily(
    rows: da.Array,
    row_groups: Int64s,
    columns: da.Array,
    column_groups: Int64s,
    k: int,
    candidates: da.Array,
) -> da.Array:
    """Return the result of `_search_sparse`: every tile looks again, at those of its rows that are in doubt."""
    ids, wanted = _along(np.arange(columns.shape[0]), columns), candidates.rechunk((rows.chunks[0], -1, -1))
    lists = _lists_of_tiles(_measure_tile, [rows, "id", columns, "jd", ids, "j", wanted, "ipq"], k)
    unsure = map_blocks(
        cosine_blocks.uncertain_rows,
        lists,
        wanted,
        error=cosine_blocks.cosine_error(columns.shape[1]),
        drop_axis=(1, 2),
        dtype=bool,
        meta=np.empty(0, bool),
    )
    marked = [_along(row_groups, rows), "i", columns, "jd", ids, "j", _along(column_groups, columns), "j"]
    found = _lists_of_tiles(_doubtful_tile, [rows, "id", *marked, unsure, "i"], k)
    return blockwise(
        _looked_again,
        "ick",
        *(lists, "ick", found, "ick", unsure, "i"),
        align_arrays=False,
        dtype=np.float64,
        meta=np.empty((0, 0, 0)),
    )


def _looked_again(lists: Float64s, found: Float64s, unsure: Any) -> Float64s:
    return np.where(unsure[:, None, None], found, lists)


def _doubtful_tile(
    X: Any, groups: Any, Z: Any, ids: Any, column_groups: Any, unsure: Any, *, k: int
) -> Float64s:
    lists = blocks.empty_lists(len(unsure), k)
    if unsure.any():
        some = X[0][unsure]
        lists[unsure] = cosine_blocks.nearest_in_sparse_tile(
            some, groups[unsure], Z[0], ids, column_groups, k=k
        )
    return lists[:, None]


def _measure_tile(X: Any, Z: Any, ids: Any, candidates: Any, *, k: int) -> Float64s:
    return cosine_blocks.measure_candidates(X[0], Z[0], ids, candidates[0][0], k=k)[:, None]


def _certain_tile(X: Any, groups: Any, Z: Any, ids: Any, column_groups: Any, *, k: int) -> Float64s:
    return cosine_blocks.nearest_in_sparse_tile(X[0], groups, Z[0], ids, column_groups, k=k)[:, None]


def _replace_rows(lists: da.Array, places: Int64s, found: da.Array) -> da.Array:
    """Return lists with those at some rows replaced, in the chunks they had."""
    source = np.arange(lists.shape[0])
    source[places] = lists.shape[0] + np.arange(places.size)
    return da.concatenate([lists, found])[source].rechunk(lists.chunks)


def find_candidates(
    rows: da.Array,
    row_groups: Int64s,
    columns: da.Array,
    column_groups: Int64s,
    *,
    dense_values: int,
    k: int,
) -> da.Array:
    """Return the candidate lists, (r, 2, k), of `rows` among `columns`; of rows among themselves once a pair."""
    tile = delayed(cosine_blocks.tile_candidates, pure=True, nout=2)
    itself = rows.name == columns.name and np.array_equal(row_groups, column_groups)
    left, right = _pieces(rows, row_groups), _pieces(columns, column_groups)
    parts: list[list[Any]] = [[] for _ in left]
    for i, one in enumerate(left):
        for j, other in enumerate(right[i:] if itself else right, start=i if itself else 0):
            forth, back = tile(*one, *other, dense_values=dense_values, k=k)
            parts[i].append(forth)
            if itself and j > i:
                parts[j].append(back)
    lists = [
        from_delayed(_merge_in_tree(part), (size, 2, k), dtype=np.float64)
        for part, size in zip(parts, rows.chunks[0], strict=True)
    ]
    return da.concatenate(lists)


def _pieces(rows: da.Array, groups: Int64s) -> list[tuple[Any, Any, int]]:
    starts = np.cumsum((0, *rows.chunks[0]))
    marks = [delayed(groups[a:b], pure=True) for a, b in pairwise(starts)]
    return list(zip(delayed_blocks(rows).ravel(), marks, map(int, starts), strict=False))


def _merge_in_tree(parts: list[Any]) -> Any:
    """Return delayed lists merged by a tree that depends on their number only."""
    merge = delayed(_merge_listed, pure=True)
    while len(parts) > 1:
        parts = [merge(parts[i : i + MERGED_AT_ONCE]) for i in range(0, len(parts), MERGED_AT_ONCE)]
    return parts[0]


def _merge_listed(lists: list[Float64s]) -> Float64s:
    return blocks.merge_lists(np.stack(lists, axis=1))[:, 0]
