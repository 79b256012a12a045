"""Graphs and weights that no process holds: row blocks, each read by the task that needs it.

The columns of the vectors are independent of each other, so that a task solves some of them and sends nothing. Weights
that take more than `block_memory` it reads by row blocks, for each product again. The products, and with them the
vectors, have the bits of those with the whole weights, for any blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, TypeAlias

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.execution import (
    compute,
    delayed,
    delayed_blocks,
    held_by_cluster,
    map_blocks,
    readers,
    sent,
)
from distembed.linalg.csr import row_sizes
from distembed.linalg.operators import empty_csr, of_each_row, row_blocks
from distembed.manifold import imputation_blocks as blocks
from distembed.neighbors.costs import EDGE_BYTES

SparseRows: TypeAlias = sp.csr_array | da.Array
"""A sparse matrix in memory, or a Dask array of CSR blocks of whole rows that is not held."""

BLOCK_SHARE = 4
"""A row block takes at most this part of what a process holds of a matrix."""

LEAST_HELD = 2**20
"""Bytes of a matrix that a process holds whatever the memory of a task: to read a block takes some milliseconds."""


def most_held(block_memory: int) -> int:
    """Return the bytes of a graph or its weights that a process holds."""
    return max(block_memory, LEAST_HELD)


def held_whole(n_edges: int, block_memory: int) -> bool:
    """Return whether a process holds all of a matrix of so many stored values."""
    return EDGE_BYTES * n_edges <= most_held(block_memory)


def edge_chunk(n_rows: int, n_edges: int, block_memory: int) -> int:
    """Return the number of rows of a block of a graph or its weights, as it is stored and read."""
    of_all = BLOCK_SHARE * EDGE_BYTES * max(1, n_edges)
    return max(1, min(n_rows, most_held(block_memory) * n_rows // of_all))


def sparse_rows(matrix: Any, block_memory: int) -> SparseRows:
    """Return a sparse matrix in memory, or a Dask array as it is where it is too large to be held whole.

    The blocks that a cluster holds are held whole, too: a task cannot read one in the middle of its work.
    """
    if not isinstance(matrix, da.Array):
        return sp.csr_array(matrix)
    rows = row_blocks(matrix)
    n_edges = int(compute(of_each_row(row_sizes, rows, np.int64)).sum())
    if held_whole(n_edges, block_memory) or held_by_cluster(matrix):
        return sp.csr_array(sp.vstack(compute(delayed_blocks(rows).ravel().tolist()), format="csr"))
    return rows


def without_duplicates(rows: SparseRows) -> SparseRows:
    """Return a copy whose rows are sorted by column and hold each column once."""
    if isinstance(rows, sp.csr_array):
        return _canonical(rows)
    return map_blocks(_canonical, rows, dtype=rows.dtype, meta=empty_csr(rows.dtype))


def _canonical(block: sp.csr_array) -> sp.csr_array:
    block = block.copy()
    block.sum_duplicates()
    return block


def row_bounds(rows: da.Array) -> list[tuple[int, int]]:
    """Return the first row of each block, and the one after its last."""
    return list(pairwise(np.cumsum([0, *rows.chunks[0]]).tolist()))


def each_block(rows: SparseRows) -> Iterator[tuple[int, sp.csr_array]]:
    """Yield the first row of each block and the block, one of which is in memory at a time."""
    if isinstance(rows, sp.csr_array):
        yield 0, rows
        return
    for read, (first, _) in zip(readers(rows), row_bounds(rows), strict=True):
        yield first, read()


def unreached_rows(W: SparseRows, known: blocks.Bools) -> blocks.Int64s:
    """Return the rows from which no path of positive weights leads to a known row, by rounds over the row blocks."""
    if isinstance(W, sp.csr_array):
        return blocks.unreached_rows(W, known)
    find, parts, bounds = delayed(blocks.reached_rows), delayed_blocks(W).ravel(), row_bounds(W)
    before, reached = np.zeros_like(known), known
    while (reached != before).any():
        before, shared = reached, sent(reached)
        rounds = [find(part, shared, first_row=first) for part, (first, _) in zip(parts, bounds, strict=True)]
        reached = np.concatenate(compute(rounds))
    return np.flatnonzero(~reached)


class UnknownRows:
    """The unknown rows of weights W (n × n), of which a task holds one block at a time.

    Parameters
    ----------
    W : Dask array (n, n)
        CSR blocks of whole rows.
    known : bool array (n,)
    """

    def __init__(self, W: da.Array, known: blocks.Bools) -> None:
        self.known = known
        self.shape = (int((~known).sum()),) * 2
        self.blocks: list[tuple[Callable[[], Any], blocks.Int64s]] = [
            (read, np.flatnonzero(~known[first:stop]))
            for read, (first, stop) in zip(readers(W), row_bounds(W), strict=True)
            if not known[first:stop].all()
        ]

    def __matmul__(self, Y: blocks.Float64s) -> blocks.Float64s:
        """Return W_qq Y of vectors of the unknown rows, (q, c)."""
        whole = np.zeros((len(self.known), Y.shape[1]))
        whole[~self.known] = Y
        return self._times(whole)

    def carried(self, Y: blocks.Floats) -> blocks.Float64s:
        """Return W_qp Y_p of vectors of all rows, (q, c); the unknown ones are not read."""
        return self._times(np.where(self.known[:, None], Y.astype(np.float64, copy=False), 0.0))

    def _times(self, whole: blocks.Float64s) -> blocks.Float64s:
        # A block is multiplied with the columns of all rows: zeros change no sum, and to take some columns is slower.
        out, first = np.empty((self.shape[0], whole.shape[1])), 0
        for read, unknown in self.blocks:
            out[first : first + len(unknown)] = read()[unknown] @ whole
            first += len(unknown)
        return out


def carried_sums(weights: UnknownRows, Y: blocks.Floats) -> blocks.Float64s:
    """Return what the known rows of Y give to each unknown row: B = W_qp Y_p, shape (q, s)."""
    return weights.carried(Y)
