"""Candidates for the nearest neighbors of sparse rows: by approximate cosines of each pair of row blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np

from distembed.dtypes import Float64s, Int64s
from distembed.execution import delayed, delayed_blocks, from_delayed
from distembed.neighbors import blocks, cosine_blocks

MERGED_AT_ONCE = 8
"""Lists of one row that one task merges."""


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
