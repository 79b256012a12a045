"""Distances between rows, block by block, and the grid of row blocks that every search uses.

The search for neighbors and the spanning tree compute the distances they need, tile by tile, by matrix
products. They can also read stored distances (`distance_rows`, shared with other users), with the same bits
as a result.
"""

from __future__ import annotations

from itertools import pairwise
from math import isqrt
from typing import Any, Literal

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Floats, Int64s
from distembed.execution import blockwise, compute, map_blocks
from distembed.linalg.chunks import BLOCK_MEMORY, row_bounds, row_chunk
from distembed.linalg.csr import row_range, row_sizes, unit_rows
from distembed.linalg.operators import of_each_row, whole_rows
from distembed.neighbors import blocks
from distembed.validation import array_of

Metric = Literal["euclidean", "cosine"]

# float32 copies of a row of distances that the task which makes, stores or searches it holds, and float64 copies of
# the strip of it that is being made.
DISTANCE_COPIES, STRIP_COPIES = 4, 5
# Bytes that a task of sparse rows may hold for each stored value: the two blocks of a tile as given and as unit
# rows, one of them in float32 by columns as well.
VALUE_BYTES = 32


def rows_of_tile(block_memory: int) -> int:
    """Return the largest number of rows of a sparse block: its float32 tile takes a quarter of a task's memory."""
    return max(1, isqrt(block_memory // 16))


def dense_values(block_memory: int) -> int:
    """Return the number of float32 values that a sparse tile may hold in dense columns: half of a task's memory."""
    return block_memory // 8


def _check_rows(X: da.Array, metric: Metric, name: str) -> None:
    """Raise ValueError for rows that hold NaN or infinity, or only zeros where the cosine needs a direction."""
    faults = compute(
        map_blocks(
            blocks.row_faults, X, chunks=(X.chunks[0], 1), dtype=np.int64, meta=np.empty((0, 0), np.int64)
        )
    )
    _refuse_rows(faults[:, 0], 0, metric, name)


def _refuse_rows(faults: Int64s, first_row: int, metric: Metric, name: str) -> None:
    bad = first_row + np.nonzero(faults == 1)[0]
    if bad.size:
        raise ValueError(
            f"{name} holds NaN or infinity in {bad.size} of {faults.size} rows, first {bad[:5].tolist()}: drop or fill "
            "them"
        )
    empty = first_row + np.nonzero(faults == 2)[0]
    if metric == "cosine" and empty.size:
        raise ValueError(
            f"{name} is zero, which has no cosine, in {empty.size} of {faults.size} rows, first {empty[:5].tolist()}: "
            "drop them"
        )


def _checked_block(block: Any, *, metric: Metric, called: str, block_info: Any = None) -> Any:
    """Return a block of rows as it is; `_refuse_rows` of its own rows."""
    first_row = block_info[0]["array-location"][0][0] if block_info else 0
    _refuse_rows(blocks.row_faults(block)[:, 0], first_row, metric, called)
    return block


def domain_rows(
    X: Any,
    *,
    metric: Metric = "euclidean",
    block_memory: int = BLOCK_MEMORY,
    lazy: bool = False,
    name: str = "X",
) -> da.Array:
    """Return X checked, in floats and cut into row blocks; rows of unit length for the cosine metric.

    Parameters
    ----------
    X : NumPy, SciPy sparse or Dask array, shape (n, d). It is read once per search: pass a Dask array that is
        cheap to read (persisted, or from a store).
    metric : "euclidean", or "cosine" (sparse rows allowed), which measures rows of unit length
    block_memory : int
        The memory of one task in bytes.
    lazy : bool
        Whether nothing is read before the rows are: each block is then checked when it is read, and sparse rows of a
        Dask array stay in the blocks that they have.
    name : str
        What errors call X.

    Raises
    ------
    ValueError
        If X is not two-dimensional, not numeric, has NaN or infinite values, rows of zeros under "cosine",
        or is sparse under "euclidean".
    """
    if metric not in ("euclidean", "cosine"):
        raise ValueError(f"metric must be 'euclidean' or 'cosine', not {metric!r}")
    X = X if sp.issparse(X) else array_of(X, name)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{name} must have rows and columns, but its shape is {X.shape}")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"the rows must be numbers, but their dtype is {X.dtype}: convert them to float32")
    wanted = np.float32 if X.dtype.kind == "f" and X.dtype.itemsize <= 4 else np.float64
    X = X.astype(wanted, copy=False)
    sparse = sp.issparse(X) or sp.issparse(getattr(X, "_meta", None))
    if sparse and metric == "euclidean":
        raise ValueError("sparse rows are measured by metric='cosine' only: pass a dense X for 'euclidean'")
    rows = _sparse_row_blocks(X, block_memory, lazy=lazy) if sparse else _dense_row_blocks(X, block_memory)
    if lazy:
        rows = map_blocks(_checked_block, rows, metric=metric, called=name, dtype=rows.dtype, meta=rows._meta)
    else:
        _check_rows(rows, metric, name)
    if metric == "cosine":
        meta = sp.csr_array((0, 0), dtype=np.float64) if sparse else np.empty((0, 0))
        rows = map_blocks(unit_rows, rows, dtype=np.float64, meta=meta)
    return rows


def _dense_row_blocks(X: Any, block_memory: int) -> da.Array:
    chunk = row_chunk(X.shape[0], X.shape[1] * X.dtype.itemsize, block_memory)
    return X.rechunk((chunk, -1)) if isinstance(X, da.Array) else da.from_array(X, chunks=(chunk, -1))


def _sparse_row_blocks(X: Any, block_memory: int, *, lazy: bool) -> da.Array:
    """Return sparse rows in blocks bounded in rows and in stored values: frequent words have the fullest rows."""
    X = whole_rows(X) if isinstance(X, da.Array) else sp.csr_array(X)
    if lazy and isinstance(X, da.Array):
        return X
    sizes = compute(of_each_row(row_sizes, X, np.int64)) if isinstance(X, da.Array) else row_sizes(X)
    bounds = sparse_bounds(sizes, block_memory)
    if isinstance(X, da.Array):
        return X.rechunk((tuple(np.diff(bounds).tolist()), -1))
    meta = sp.csr_array((0, 0), dtype=X.dtype)
    parts = [row_range(X, first, stop) for first, stop in pairwise(bounds)]
    return da.concatenate(
        [da.from_array(part, chunks=part.shape, asarray=False, name=False, meta=meta) for part in parts]
    )


def sparse_bounds(sizes: Int64s, block_memory: int) -> list[int]:
    """Return where to cut sparse rows with the given numbers of stored values."""
    return row_bounds(sizes, rows_of_tile(block_memory), block_memory // VALUE_BYTES)


def distance_rows(X: Any, *, metric: Metric = "euclidean", block_memory: int = BLOCK_MEMORY) -> da.Array:
    """Return the distances between all rows of X as a lazy float32 Dask array, in blocks of whole rows, to be kept.

    The same as `pairwise_distances` to float32's precision. Stored, it takes 4 n² bytes. Every task holds all rows of
    X. Dense rows only.
    """
    rows = domain_rows(X, metric=metric, block_memory=block_memory)
    chunk = distance_chunk(rows.shape[0], block_memory)
    return blockwise(
        _distance_rows,
        "ij",
        rows.rechunk((chunk, -1)),
        "id",
        rows.rechunk((-1, -1)),
        "jd",
        cosine=metric == "cosine",
        align_arrays=False,
        dtype=np.float32,
        meta=np.empty((0, 0), np.float32),
    )


def distance_chunk(n_rows: int, block_memory: int) -> int:
    """Return the number of rows of one block of `distance_rows`."""
    return min(n_rows, max(1, block_memory // distance_row_bytes(n_rows)))


def distance_row_bytes(n_rows: int) -> int:
    """Return the bytes that a task of `distance_rows` takes for each of its rows."""
    strip = min(n_rows, blocks.PRODUCT_COLUMNS)
    return 4 * DISTANCE_COPIES * n_rows + 8 * STRIP_COPIES * strip


def _distance_rows(X: list[Floats], Z: list[Floats], *, cosine: bool) -> Any:
    return blocks.distance_rows(X[0], Z[0], cosine=cosine)
