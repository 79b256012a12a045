"""What a search for neighbors, and what is made of its lists, take in memory and on disk."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from distembed.costs import Cost
from distembed.linalg.chunks import LEAST_ROWS, ROW_COPIES, row_chunk
from distembed.neighbors.distances import Metric, distance_chunk, sparse_bounds
from distembed.neighbors.graph_blocks import MUTUAL_FLOOR
from distembed.neighbors.graphs import Symmetry
from distembed.neighbors.search import MERGED_AT_ONCE, SEARCHED, SEARCHED_SHARE, SPARE_CANDIDATES, Measure

READ_COPIES = 4
"""Copies of a block in the task that reads it: as it was read, which values are finite, converted, written."""

LIST_BYTES = 16
"""Bytes of one neighbor in a list: a float64 value and a row number."""

EDGE_BYTES = 12
"""Bytes of an edge of a graph: a float64 value and a row number of four bytes."""

EDGE_COPIES = 6
"""Copies of the graph in memory while its components are found."""

TREE_EDGE_BYTES = 24
"""Bytes of an edge of a spanning tree: both rows and its length."""

SPARSE_BYTES = 48
"""Bytes of a stored value of sparse rows while they are searched: read, of unit length, and by columns."""

ROW_BYTES = 200
"""Bytes of a row beside its values: its name, its number, its group, and its limit."""

VERTEX_BYTES = 100
"""Bytes of a row while a block of an affinity is made: its scale, and ends of its edges."""

APPROXIMATE_COPIES = 4
"""Float64 copies of all rows while nearest-neighbor descent searches them."""


class RowSizes(NamedTuple):
    """The rows of a matrix, and how many values of how many bytes are stored of them."""

    n_rows: int
    n_columns: int
    n_stored: int
    itemsize: int = 4
    is_sparse: bool = False

    @property
    def stored_bytes(self) -> int:
        """The bytes of the rows as they are stored."""
        return (self.itemsize + (4 if self.is_sparse else 0)) * self.n_stored

    def n_blocks(self, block_memory: int) -> int:
        """Return the row blocks of a search."""
        n = self.n_rows
        if self.is_sparse:
            return len(sparse_bounds(np.full(n, self.n_stored // n), block_memory)) - 1
        return -(-n // row_chunk(n, self.stored_bytes // n, block_memory))


def rows_cost(sizes: RowSizes, input_bytes: int, *, held_bytes: int = 0, block_memory: int) -> Cost:
    """Return what storing the rows of a file takes, of which its format holds some bytes at once."""
    n_blocks, written = sizes.n_blocks(block_memory), sizes.stored_bytes
    shared = held_bytes + ROW_BYTES * sizes.n_rows
    return Cost(n_blocks, input_bytes, written, READ_COPIES * written // n_blocks, shared)


def tile_bytes(sizes: RowSizes, metric: Measure, block_memory: int) -> int:
    """Return the bytes of a task that measures a pair of row blocks: the rows, and the products of both blocks."""
    # The cosine measures rows of unit length, which are float64 whatever is stored.
    unit_bytes = (8 - sizes.itemsize) * sizes.n_stored if metric == "cosine" else 0
    rows = min(block_memory, 2 * (ROW_COPIES * sizes.stored_bytes + unit_bytes))
    return rows + 4 * min(sizes.n_rows, LEAST_ROWS) ** 2


def search_cost(
    sizes: RowSizes,
    n_neighbors: int,
    *,
    metric: Measure = "euclidean",
    search: Literal["exact", "approximate"] = "exact",
    n_sampled: int = 1000,
    block_memory: int,
) -> Cost:
    """Return what `nearest_rows` or `approximate_rows` take for rows on disk: a pair of row blocks is a task."""
    n, grid, stored = sizes.n_rows, sizes.n_blocks(block_memory), sizes.stored_bytes
    lists = LIST_BYTES * n * n_neighbors
    shared = ROW_BYTES * n
    if search == "approximate":
        n_searched = max(SEARCHED, SEARCHED_SHARE * (n_neighbors + 1))
        shared += 8 * APPROXIMATE_COPIES * n * sizes.n_columns + 3 * LIST_BYTES * n * n_searched
        sample = (8 * sizes.n_columns + LIST_BYTES * n_neighbors) * min(n_sampled, n)
        return Cost(grid, stored, lists, 0, shared + sample)
    chunk, n_candidates = -(-n // grid), n_neighbors + SPARE_CANDIDATES
    merged = 2 * (MERGED_AT_ONCE + 1) * LIST_BYTES * chunk * n_candidates
    if sizes.is_sparse:
        shared += SPARSE_BYTES * sizes.n_stored + 3 * LIST_BYTES * n * n_candidates
    tile = tile_bytes(sizes, metric, block_memory)
    tasks = 2 * grid * grid + grid * (-(-grid // MERGED_AT_ONCE) + 1)
    return Cost(tasks, grid * stored, lists, tile + merged, shared)


def graph_cost(sizes: RowSizes, n_neighbors: int, *, block_memory: int) -> Cost:
    """Return what writing the lists of neighbors takes, as a CSR array and as a table of edges."""
    n, n_blocks = sizes.n_rows, sizes.n_blocks(block_memory)
    lists, edges = LIST_BYTES * n * n_neighbors, EDGE_BYTES * n * n_neighbors
    task = 8 * lists // n_blocks + ROW_BYTES * n
    return Cost(2 * n_blocks, 2 * lists, 2 * edges, task, EDGE_COPIES * edges)


def tree_cost(sizes: RowSizes, n_neighbors: int, search: Cost) -> Cost:
    """Return what the spanning tree takes after a search of this cost: it searches again what the lists leave open."""
    lists = LIST_BYTES * sizes.n_rows * n_neighbors
    return search._replace(
        read_bytes=search.read_bytes + lists,
        written_bytes=TREE_EDGE_BYTES * sizes.n_rows,
        shared_bytes=search.shared_bytes + sizes.stored_bytes + EDGE_COPIES * lists,
    )


def distances_cost(sizes: RowSizes, *, block_memory: int) -> Cost:
    """Return what keeping the distances between all rows takes; the search that reads them has as many tasks."""
    n_blocks = -(-sizes.n_rows // distance_chunk(sizes.n_rows, block_memory))
    written = 4 * sizes.n_rows**2
    return Cost(
        n_blocks, n_blocks * sizes.stored_bytes, written, 2 * block_memory, keeps=(("distances", written),)
    )


def affinity_cost(
    sizes: RowSizes,
    n_neighbors: int,
    *,
    metric: Metric = "cosine",
    symmetry: Symmetry = "union",
    block_memory: int,
) -> Cost:
    """Return what `affinity_rows` takes, with the search: a task of either reads its two blocks again."""
    n, grid = sizes.n_rows, sizes.n_blocks(block_memory)
    of_others = n_neighbors if symmetry == "union" else min(n_neighbors, MUTUAL_FLOOR)
    lists, edges = LIST_BYTES * n * n_neighbors, EDGE_BYTES * n * (n_neighbors + of_others)
    searching = 2 * tile_bytes(sizes, metric, block_memory)
    task = searching + 4 * (lists + edges) // grid + VERTEX_BYTES * n
    tasks = grid * grid + grid * -(-grid // MERGED_AT_ONCE)
    held = SPARSE_BYTES * sizes.n_stored if sizes.is_sparse else 0
    return Cost(tasks, grid * (sizes.stored_bytes + lists), lists + 2 * edges, task, held)
