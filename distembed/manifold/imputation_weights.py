"""The weights that rebuild each row from its neighbors, lifted over batches of rows."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.execution import Checkpoint, compute, map_blocks
from distembed.linalg.chunks import COLUMN_BLOCKS
from distembed.manifold import imputation_blocks as blocks


def reconstruction_weights(
    rows: da.Array,
    graph: sp.csr_array,
    *,
    simplex: bool,
    floor: float,
    block_memory: int,
    checkpoint: Checkpoint,
) -> tuple[sp.csr_array, blocks.Float64s]:
    """Return the weights that rebuild each row from its neighbors in the graph, and each row's certificate.

    Parameters
    ----------
    rows : what `domain_rows` returns, dense
    graph : sparse (m, n)
        Row i holds the neighbors of row i, at least one; m is n, or less where only the first rows are to be rebuilt.
    simplex : weights on the simplex, else non-negative least squares divided by its sum
    floor : float
        The share of the smallest positive weight that is added to all weights of a row.
    block_memory : int
        The memory of one task in bytes.
    checkpoint : keeps them under "imputation_weights"

    Returns
    -------
    csr_array, shape (m, n), float64, and float64 array, shape (m,)
    """

    def make() -> da.Array:
        return da.concatenate(
            [
                _batch_weights(rows, graph, start, stop, simplex=simplex, floor=floor)
                for start, stop in _weight_batches(graph.indptr, rows.shape[1] * 8, block_memory)
            ],
            axis=1,
        )

    values = compute(checkpoint("imputation_weights", make))
    W = sp.csr_array((values[0], graph.indices, graph.indptr), shape=graph.shape)
    entries = np.diff(graph.indptr)
    certificates = np.zeros(graph.shape[0])
    certificates[entries > 0] = values[1, graph.indptr[:-1][entries > 0]]
    return W, certificates


def _weight_batches(indptr: Any, row_bytes: int, block_memory: int) -> list[tuple[int, int]]:
    """Divide the rows so that the neighbors of one batch fit the memory of a task."""
    n = indptr.size - 1
    entries = max(1, min(block_memory // (2 * row_bytes), -(-int(indptr[-1]) // COLUMN_BLOCKS)))
    cuts = np.unique(np.searchsorted(indptr, np.arange(0, indptr[-1], entries)))
    return [(int(a), int(b)) for a, b in zip(cuts, [*cuts[1:], n], strict=True) if indptr[b] > indptr[a]]


def _batch_weights(
    rows: da.Array, graph: sp.csr_array, start: int, stop: int, *, simplex: bool, floor: float
) -> da.Array:
    """Return the weights and certificates of the rows start to stop, shape (2, entries), lazily."""
    indptr = graph.indptr[start : stop + 1].astype(np.int64)
    neighbors = graph.indices[indptr[0] : indptr[-1]]
    needed, places = np.unique(np.concatenate([np.arange(start, stop), neighbors]), return_inverse=True)
    return map_blocks(
        _weigh,
        rows[needed].rechunk((-1, -1)),
        rows=places[: stop - start],
        indptr=indptr - indptr[0],
        neighbors=places[stop - start :],
        floor=floor,
        simplex=simplex,
        chunks=((2,), (neighbors.size,)),
        dtype=np.float64,
        meta=np.empty((0, 0)),
    )


def _weigh(
    X: blocks.Floats,
    *,
    rows: blocks.Int64s,
    indptr: blocks.Int64s,
    neighbors: blocks.Int64s,
    floor: float,
    simplex: bool,
) -> blocks.Float64s:
    # A plain function, because Dask names a task by pickling its function: 30 ms for one compiled by numba.
    return blocks.reconstruction_weights(X, rows, indptr, neighbors, floor, simplex)
