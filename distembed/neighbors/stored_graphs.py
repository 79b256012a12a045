"""Graphs in CSR row blocks that are read when they are needed, and what is computed from them by passes.

Each function here has an equivalent in `graphs` for a graph in memory, with the same bits: every row is computed
from itself alone, and what is summed over the rows is summed over an array of one number for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.execution import compute, delayed_blocks, map_blocks, readers, whole
from distembed.linalg import csr
from distembed.linalg.chunks import balanced_chunks
from distembed.linalg.operators import empty_csr, of_each_row, transpose_row_blocks
from distembed.neighbors import graph_blocks as blocks

Float64s = NDArray[np.float64]

_CSR: dict[str, Any] = {"dtype": np.float64, "meta": empty_csr(np.float64)}


def joint_rows(graphs: Sequence[da.Array], links: da.Array | None, *, weight: float = 1.0) -> da.Array:
    """Return `joint_adjacency` of one graph or of two, in row blocks of about equal size.

    Parameters
    ----------
    graphs : Dask arrays of CSR row blocks, (n × n) and (m × m)
    links : Dask array of CSR row blocks, (n × m); None for one graph
    weight : μ, of the links against the affinities
    """
    if links is None:
        joint = map_blocks(blocks.beside, graphs[0], scales=(1.0,), **_CSR)
    else:
        sides = [tuple(graph.chunks[0]) for graph in graphs]
        back = transpose_row_blocks(links, row_chunks=sides[1])
        above = _beside(graphs[0], links.rechunk((sides[0], -1)), (1.0, weight))
        joint = da.concatenate([above, _beside(back, graphs[1], (weight, 1.0))])
    return joint.rechunk((balanced_chunks(row_sizes(joint)), -1))


def _beside(left: da.Array, right: da.Array, scales: tuple[float, float]) -> da.Array:
    chunks = (left.chunks[0], (left.shape[1] + right.shape[1],))
    return map_blocks(blocks.beside, left, right, scales=scales, chunks=chunks, **_CSR)


def row_sizes(graph: da.Array) -> NDArray[np.int64]:
    """Return the number of edges of each vertex, (n,)."""
    return compute(of_each_row(csr.row_sizes, graph, np.int64))


def degrees(graph: da.Array) -> Float64s:
    """Return the sum of each row, (n,)."""
    return compute(of_each_row(csr.row_sums, graph))


def laplacian_rows(graph: da.Array, *, normalization: str) -> da.Array:
    """Return the Laplacian in the row blocks of the graph."""
    shared = whole(degrees(graph)[None])
    return map_blocks(
        _laplacian_rows,
        graph,
        _first_rows(graph),
        shared,
        normalization=normalization,
        chunks=graph.chunks,
        **_CSR,
    )


def _laplacian_rows(block: sp.csr_array, first: Any, shared: Float64s, *, normalization: str) -> sp.csr_array:
    return blocks.laplacian_block(block, shared[0], int(first[0, 0]), normalization)


def flip_rows(laplacian: da.Array, bound: float) -> da.Array:
    """Return b I - L in the row blocks of L."""
    places = _first_rows(laplacian)
    return map_blocks(_flip_rows, laplacian, places, bound=bound, chunks=laplacian.chunks, **_CSR)


def _flip_rows(block: sp.csr_array, first: Any, *, bound: float) -> sp.csr_array:
    return blocks.flip_block(block, bound, int(first[0, 0]))


def _first_rows(graph: da.Array) -> da.Array:
    return da.from_array(np.cumsum((0, *graph.chunks[0]))[:-1, None], chunks=1)


def parts(graph: da.Array) -> NDArray[np.int32]:
    """Return the connected component of each vertex, (n,), numbered from 0 by their smallest vertices."""
    parents = np.arange(graph.shape[0])
    firsts = np.cumsum((0, *graph.chunks[0]))
    for first, part in zip(firsts, delayed_blocks(graph).ravel(), strict=False):
        block = compute(part)
        index = block.indptr.astype(np.int64), block.indices.astype(np.int64)
        blocks.join_parts(parents, *index, int(first))
    return blocks.numbered_parts(parents)


@dataclass(frozen=True)
class RowBlocks:
    """A sparse matrix whose row blocks are read again, one at a time, for each product with vectors in memory."""

    shape: tuple[int, ...]
    readers: tuple[Callable[[], Any], ...]

    @classmethod
    def of(cls, rows: da.Array) -> RowBlocks:
        """Return the row blocks of a Dask array with CSR chunks."""
        return cls(rows.shape, tuple(readers(rows)))

    def __matmul__(self, vectors: Float64s) -> Float64s:
        """Return the product with vectors (m × b), (n × b)."""
        out = np.empty((self.shape[0], vectors.shape[1]))
        for first, block in self._blocks():
            out[first : first + block.shape[0]] = block @ vectors
        return out

    def diagonal(self) -> Float64s:
        """Return the cells (i, i), (n,)."""
        found = np.zeros(self.shape[0])
        for first, block in self._blocks():
            found[first : first + block.shape[0]] = block.diagonal(k=first)
        return found

    def _blocks(self) -> Iterator[tuple[int, sp.csr_array]]:
        first = 0
        for read in self.readers:
            block = read()
            yield first, block
            first += block.shape[0]
