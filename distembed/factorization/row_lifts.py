"""Applies block functions to all rows of a matrix, in memory or distributed, with the same arithmetic.

It corresponds to `linalg.operators`, which is for matrices that are always distributed. Here a matrix that
fits one block stays a `csr_array` in memory, and a function applied to it is a plain call: a hundred rounds
on a small matrix are a hundred calls without a graph. Any other matrix is a Dask array whose chunks are
`csr_array` blocks of rows by all columns. Small dense matrices (words × rank, rank × rank) are NumPy arrays
in the first case and Dask arrays of one chunk in the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from distembed.execution import BlockFunction, compute, delayed, delayed_blocks, map_blocks, step_of, whole
from distembed.linalg import operators
from distembed.linalg.chunks import BLOCK_MEMORY
from distembed.linalg.csr import canonical_csr

Array = Any  # numpy.ndarray, csr_array or dask.array.Array

#: Partial sums added at a time; with words × rank partial sums it bounds the memory of one addition.
FAN_IN = 4


def row_blocks(matrix: Any, *, block_memory: int = BLOCK_MEMORY) -> Array:
    """Return a matrix as one `csr_array`, or as a Dask array of `csr_array` row blocks.

    Parameters
    ----------
    matrix : NumPy array, SciPy sparse matrix or Dask array (rows, columns)
        What `distembed.validation` let pass. A Dask array keeps its row chunks.  float32 stays, every other type
        becomes float64.
    block_memory : int
        Bytes above which a matrix in memory is cut into several row blocks.
    """
    dtype = np.float32 if matrix.dtype == np.float32 else np.float64
    if isinstance(matrix, da.Array):
        rows = operators.whole_rows(matrix)
        return map_blocks(canonical_csr, rows, dtype, dtype=dtype, meta=csr_array((0, 0), dtype=dtype))
    whole = canonical_csr(matrix, dtype)
    size = whole.data.nbytes + whole.indices.nbytes
    if size <= block_memory:
        return whole
    n_blocks = -(-size // block_memory)
    return operators.row_blocks(whole, values_per_block=-(-whole.nnz // n_blocks)).persist()


def one_lazy_block(matrix: Array) -> da.Array:
    """Return a matrix in memory as a Dask array of one block; a Dask array is returned unchanged."""
    if isinstance(matrix, da.Array):
        return matrix
    return operators.row_blocks(matrix, values_per_block=max(matrix.nnz, 1)).persist()


def each(
    function: Callable[..., Any],
    *arrays: Array,
    columns: int,
    dtype: Any = np.float64,
    rows: int | None = None,
) -> Array:
    """Return function(blocks…) for each row block of the first array, of `columns` columns.

    An array of one block is given whole to every call.  `rows`: the number of rows of the result, where the
    arrays have one block and it differs from theirs.
    """
    if not any(isinstance(array, da.Array) for array in arrays):
        return BlockFunction(_call_in_c_order)(*arrays, function=function)
    lifted = [_one_block(array) for array in arrays]
    row_chunks = lifted[0].chunks[0] if rows is None else (rows,)
    return map_blocks(
        _call_in_c_order, *lifted, function=function, step=step_of(function), dtype=dtype, meta=np.empty((0, 0), dtype),
        chunks=(row_chunks, (columns,)),
    )  # fmt: skip


def total(function: Callable[..., Any], matrix: Array, *arrays: Array, shape: tuple[int, int]) -> Array:
    """Return the sum over row blocks of function(blocks…), float64, added in a tree of fixed shape."""
    if not any(isinstance(array, da.Array) for array in (matrix, *arrays)):
        return BlockFunction(_call_in_c_order)(matrix, *arrays, function=function)
    lifted = [_one_block(array) for array in (matrix, *arrays)]
    n_blocks = lifted[0].numblocks[0]
    stacked = map_blocks(
        _call_in_c_order, *lifted, function=function, step=step_of(function), dtype=np.float64, meta=np.empty((0, 0)),
        chunks=((shape[0],) * n_blocks, (shape[1],)),
    )  # fmt: skip
    while n_blocks > 1:
        n_blocks = -(-n_blocks // FAN_IN)
        stacked = _add_in_order(stacked, shape, n_blocks)
    return stacked


def _add_in_order(stacked: da.Array, shape: tuple[int, int], n_blocks: int) -> da.Array:
    """Add the partial sums of a stack in their order, FAN_IN at a time."""
    starts = range(0, stacked.numblocks[0], FAN_IN)
    heights = tuple(shape[0] * min(FAN_IN, stacked.numblocks[0] - start) for start in starts)
    merged = stacked.rechunk((heights, shape[1]))
    return map_blocks(
        _fold,
        merged,
        shape,
        dtype=np.float64,
        meta=np.empty((0, 0)),
        chunks=((shape[0],) * n_blocks, (shape[1],)),
    )


def _fold(block: NDArray[Any], shape: tuple[int, int]) -> NDArray[Any]:
    """Add the matrices that are stacked vertically in a block, in their order."""
    return np.add.reduce(block.reshape(-1, *shape), axis=0)


def _call_in_c_order(*arrays: Any, function: Callable[..., Any]) -> Any:
    """Call a block function so that its result is in C order: in another order, sums have other last bits."""
    return np.ascontiguousarray(function(*arrays))


def _one_block(array: Array) -> da.Array:
    return array if isinstance(array, da.Array) else whole(array)


def take_rows(matrix: Array, indices: NDArray[np.int64]) -> csr_array:
    """Return rows of a matrix, in the order of `indices`, as one `csr_array` in memory."""
    if not isinstance(matrix, da.Array):
        return matrix[indices]
    order = np.argsort(indices, kind="stable")
    edges = np.cumsum([0, *matrix.chunks[0]])
    owner = np.searchsorted(edges, indices[order], side="right") - 1
    take = delayed(_take)
    parts = [
        take(delayed_blocks(matrix.blocks[int(b), 0]).item(), indices[order][owner == b] - edges[b])
        for b in np.unique(owner)
    ]
    found = vstack(compute(parts), format="csr")
    return csr_array(found)[np.argsort(order, kind="stable")]


def _take(block: csr_array, rows: NDArray[np.int64]) -> csr_array:
    return block[rows]
