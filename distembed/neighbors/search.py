"""Nearest neighbors of many rows: each pair of row blocks is a task, whose lists serve both sides.

A product of the two blocks bounds the distances of all pairs from below, and the few that a list may take are measured:
dense rows by their differences, sparse ones of unit length by exact cosines.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.base import tokenize

from distembed.display import plural
from distembed.dtypes import Float64s, Int64s
from distembed.execution import compute
from distembed.lift import array_of_tasks, task_function
from distembed.neighbors import blocks
from distembed.neighbors.distances import Metric, both_sides, dense_values
from distembed.states import block_memory, keep, scope
from distembed.typing import MatrixLike

SINGLE_FEATURES = 4096
"""Values of a dense row of unit length up to which pairs are ruled out in float32: the bound of their rounding stays
under a thousandth, so that few more are measured, and products take half the time."""


class NearestRows(NamedTuple):
    """The nearest rows of each row: their distances, rising, and their row numbers, both (n, k)."""

    distances: Float64s | da.Array
    """float64."""
    indices: Int64s | da.Array
    """int64; of equal distances the smaller number comes first."""


def nearest_neighbors(
    X: MatrixLike, n_neighbors: int, *, Y: MatrixLike | None = None, metric: Metric = "euclidean"
) -> NearestRows:
    """Find the nearest other rows of every row, or the nearest rows of Y, exactly.

    The bits of the result do not depend on how the rows are cut into blocks, nor on the number of workers.

    Parameters
    ----------
    X : array, sparse matrix or Dask array, shape (n, d)
        The rows; sparse ones are measured by the cosine.
    n_neighbors : int
        How many neighbors of each row are found, from 1 to n - 1, or to the number of rows of Y.
    Y : array, sparse matrix or Dask array, shape (m, d), optional
        The rows among which the neighbors are; by default the other rows of X.
    metric : "euclidean" or "cosine"
        What is measured: ``‖x_i - x_j‖`` or ``1 - cos(x_i, x_j)``.

    Returns
    -------
    NearestRows
        `distances` and `indices`, shape (n, n_neighbors), in the order of `sklearn.neighbors`' ``kneighbors``: Dask
        arrays if X or Y is one, which has not been read yet, but for counting the values of sparse rows; otherwise
        NumPy arrays. Compute both together, as ``dask.compute(*found)``.

    Raises
    ------
    ValueError
        If `n_neighbors` is out of range, or X or Y is what `pairwise_distances` refuses.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [3.0, 1.5]])
    >>> distances, indices = de.nearest_neighbors(X, 2)
    >>> print(indices)
    [[1 2]
     [0 2]
     [3 1]
     [2 1]]
    >>> print(distances.round(2))
    [[1.  3. ]
     [1.  2. ]
     [1.5 2. ]
     [1.5 2.5]]
    >>> print(de.nearest_neighbors(np.array([[2.5, 1.0]]), 1, Y=X).indices)
    [[3]]
    """
    rows, columns = both_sides(X, Y, metric)
    lists = search_lists(rows, columns, k=n_neighbors, single=metric == "cosine")
    squares = lists[:, 0]
    found = NearestRows(squares / 2 if metric == "cosine" else np.sqrt(squares), lists[:, 1].astype(np.int64))
    is_lazy = isinstance(X, da.Array) or isinstance(Y, da.Array)
    return found if is_lazy else NearestRows(*compute(tuple(found)))


def kept_lists(rows: da.Array, k: int, *, metric: Metric = "euclidean") -> da.Array:
    """Return the `search_lists` of rows among themselves, which are computed and kept."""
    lists = search_lists(rows, k=k, single=metric == "cosine")
    with scope("neighbors", lists):
        return keep("lists", lambda: lists)


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
    columns: da.Array | None = None,
    groups: tuple[Int64s, Int64s] | None = None,
    *,
    k: int,
    single: bool = False,
) -> da.Array:
    """Return the lists, shape (r, 2, k), of the k nearest `columns` of another group for each of `rows`.

    They hold squared Euclidean distances and row numbers, nearest first, ties by row number.

    They are merged from those that a tile gives of each pair of blocks. Of rows among themselves each row first looks
    in its own block, which rules out most of the others, and a pair is searched once for the lists of both. Lists are
    merged one after another, so that few of them wait; (inf, -1) fills a list where there are fewer than k. Nothing is
    computed here, and all rows are in memory while their lists are searched.

    Parameters
    ----------
    rows, columns : Dask arrays (r, d) and (c, d)
        What `domain_rows` returns; sparse rows must have unit length. Without columns they are the rows.
    groups : int64 arrays (r,) and (c,)
        Pairs of one group are left out, such as a component; by default a row and itself.
    k : length of the lists; without groups there must be as many others
    single : pairs of dense rows of at most `SINGLE_FEATURES` values are ruled out in float32, which unit length allows
    """
    if groups is None:
        check_n_neighbors(k, rows.shape[0], n_of_y=None if columns is None else columns.shape[0])
        own = np.arange(rows.shape[0])
        # no row of X is left out as one of Y
        groups = (own, own) if columns is None else (np.full_like(own, -1), np.arange(columns.shape[0]))
    columns = rows if columns is None else columns
    single &= rows.shape[1] <= SINGLE_FEATURES
    of_itself = rows is columns and np.array_equal(*groups)
    is_sparse = sp.issparse(rows._meta)
    tile = blocks.nearest_in_sparse_pair if is_sparse else blocks.nearest_in_pair
    options: dict[str, Any] = (
        {"dense_values": dense_values(block_memory())} if is_sparse else {"single": single}
    )
    token = tokenize(rows.name, columns.name, groups, tile, k, options)
    search, merge = task_function(tile, k=k, **options), task_function(blocks.merge_found)
    step, name = f"{search.__name__}-{token}", f"neighbor-lists-{token}"
    tasks: dict[Any, Any] = {}
    blocks_of = []
    for side, (array, of_rows) in enumerate(zip((rows, columns), groups, strict=True)):
        firsts = np.cumsum((0, *array.chunks[0]))[:-1].tolist()
        parts = np.split(of_rows, firsts[1:])
        tasks |= {(f"groups-{token}", side, i): part for i, part in enumerate(parts)}
        blocks_of.append(
            [[(array.name, i, 0), (f"groups-{token}", side, i), first] for i, first in enumerate(firsts)]
        )
    n_left, n_right = map(len, blocks_of)
    found: list[list[Any]] = [[((step, i, i), 0)] if of_itself else [] for i in range(n_left)]
    tasks |= {(step, i, i): (search, blocks_of[0][i], blocks_of[1][i]) for i in range(n_left) if of_itself}
    for i, j in combinations(range(n_left), 2) if of_itself else product(range(n_left), range(n_right)):
        left, right = (
            [*blocks_of[side][at], *([(f"merge-{name}", at, 0)] if of_itself else [])]
            for side, at in ((0, i), (1, j))
        )
        tasks[step, i, j] = (search, left, right)
        found[i].append(((step, i, j), 0))
        if of_itself:
            found[j].append(((step, i, j), 1))
    for i, tiles in enumerate(found):
        keys = [(f"merge-{name}", i, n) for n in range(len(tiles) - 1)] + [(name, i, 0, 0)]
        for key, before, (one, side) in zip(keys, [None, *keys], tiles, strict=False):
            tasks[key] = (merge, before, one, side)
    sources = [rows] if of_itself else [rows, columns]
    return array_of_tasks(name, tasks, sources, (rows.chunks[0], (2,), (k,)), np.empty((0, 0, 0)))
