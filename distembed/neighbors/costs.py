"""What a search for neighbors, and what is made of its lists, take in memory and on disk."""

from __future__ import annotations

from typing import NamedTuple

from distembed.costs import Cost, add_costs
from distembed.linalg.chunks import LEAST_ROWS, row_chunk
from distembed.neighbors.distances import (
    VALUE_BYTES,
    Metric,
    dense_values,
    distance_chunk,
    rows_of_tile,
)
from distembed.neighbors.graph_blocks import MUTUAL_FLOOR
from distembed.neighbors.graphs import Symmetry
from distembed.neighbors.search import SPARE_CANDIDATES

LIMITED_BLOCKS, MERGED_AT_ONCE = 8, 8

LIST_BYTES = 16
"""Bytes of one neighbor in a list: a float64 value and a row number."""

EDGE_BYTES = 12
"""Bytes of an edge of a graph: a float64 value and a row number of four bytes."""

GRAPH_COPIES = 3
"""Copies of a graph or of lists that are held while one is made of the other: before, after, and by columns."""

SPARSE_BYTES = 48
"""Bytes of a stored value of sparse rows while they are searched: read, of unit length, and by columns. Measured 22 to
39 with all lists, on 800,000 to 3,200,000 values."""

ROW_BYTES = 200
"""Bytes of a row beside its values: its name, its number, its group, and its limit."""

VERTEX_BYTES = 100
"""Bytes of a row while a block of an affinity is made: its scale, and ends of its edges."""

HELD_COPIES = 3
"""Copies of all rows while the distances between them are stored: in blocks, joined, and as they are joined."""


class RowSizes(NamedTuple):
    """The rows of a matrix: its shape, its stored values where it is sparse, and the bytes of a value."""

    n_rows: int
    n_columns: int
    n_values: int | None = None
    itemsize: int = 8

    @property
    def is_sparse(self) -> bool:
        """Whether only some values are stored."""
        return self.n_values is not None

    @property
    def row_bytes(self) -> int:
        """The bytes of a dense row."""
        return self.itemsize * self.n_columns

    @property
    def n_stored(self) -> int:
        """The stored values: all of them, of dense rows."""
        return self.n_rows * self.n_columns if self.n_values is None else self.n_values

    @property
    def n_bytes(self) -> int:
        """The bytes in memory; a sparse value has a column of four bytes."""
        if self.n_values is None:
            return self.n_rows * self.row_bytes
        return (self.itemsize + 4) * self.n_values + 8 * self.n_rows

    def compared(self, metric: Metric) -> RowSizes:
        """Return the size of the rows as they are compared: float32 or float64; unit rows, for cosines, are float64."""
        return self._replace(itemsize=8 if metric == "cosine" else max(4, self.itemsize))

    def n_blocks(self, block_memory: int) -> int:
        """Return the number of row blocks in which rows are compared."""
        if self.n_values is None:
            return -(-self.n_rows // row_chunk(self.n_rows, self.row_bytes, block_memory))
        of_values = VALUE_BYTES * self.n_values // block_memory
        return -(-self.n_rows // rows_of_tile(block_memory)) + of_values


# --- searches --------------------------------------------------------------------------------------------------


def search_cost(
    rows: RowSizes,
    n_neighbors: int,
    *,
    metric: Metric,
    block_memory: int,
    reread: bool = False,
) -> Cost:
    """Return what `nearest_rows` takes: a pair of row blocks is a task.

    Parameters
    ----------
    rows : the rows that are given
    n_neighbors : of each row
    metric : the option of this name
    block_memory : bytes of a task
    reread : whether dense rows and lists stay on disk, and each task reads its blocks again
    """
    lists = LIST_BYTES * rows.n_rows * n_neighbors
    if rows.is_sparse:
        return _sparse_cost(rows, n_neighbors, block_memory)
    grid, task = rows.n_blocks(block_memory), dense_tile(rows, n_neighbors, metric, block_memory)
    written = (
        lists if reread or grid < LIMITED_BLOCKS else 2 * lists
    )  # and those of each block among its own rows
    if reread:
        task += 2 * MERGED_AT_ONCE * lists // grid
        tasks = (2 * grid + -(-grid // MERGED_AT_ONCE) + 1) * grid
        return Cost(tasks, grid * rows.n_bytes, written, task, ROW_BYTES * rows.n_rows, together=grid**2)
    held = rows.compared(metric).n_bytes
    tasks = grid + 3 * grid * (grid - 1) // 2
    return Cost(tasks, grid * rows.n_bytes, written, task, held + GRAPH_COPIES * lists, together=grid**2)


def dense_tile(rows: RowSizes, n_neighbors: int, metric: Metric, block_memory: int) -> int:
    """Return the bytes of a task that compares two blocks: both as they are and centered, products, and lists."""
    chunk = row_chunk(rows.n_rows, rows.row_bytes, block_memory)
    row = rows.compared(metric).row_bytes + 8 * rows.n_columns
    return 2 * chunk * (row + 2 * LIST_BYTES * n_neighbors) + 8 * min(chunk, LEAST_ROWS) ** 2


def _sparse_cost(rows: RowSizes, n_neighbors: int, block_memory: int) -> Cost:
    """Return the cost of a search among sparse rows: candidates by float32 tiles, which are then measured."""
    side, grid = min(rows.n_rows, rows_of_tile(block_memory)), rows.n_blocks(block_memory)
    candidates = LIST_BYTES * (n_neighbors + SPARE_CANDIDATES)
    dense = 4 * min(dense_values(block_memory), side * rows.n_columns)
    of_values = min(block_memory, 2 * VALUE_BYTES * rows.n_stored)
    task = of_values + dense + 8 * side**2 + 4 * candidates * side
    tasks = grid * (grid + 1) // 2 + grid * (grid + 2 * -(-grid // MERGED_AT_ONCE))
    written = (candidates + LIST_BYTES * n_neighbors) * rows.n_rows
    shared = SPARSE_BYTES * rows.n_stored + (GRAPH_COPIES * candidates + ROW_BYTES) * rows.n_rows
    return Cost(tasks, 2 * grid * rows.n_bytes, written, task, shared, together=grid**2)


def distances_cost(rows: RowSizes, *, metric: Metric = "euclidean", block_memory: int) -> Cost:
    """Return what storing the distances between all rows takes, float32: all tasks share all rows."""
    chunk = distance_chunk(rows.n_rows, block_memory)
    n_blocks, kept = -(-rows.n_rows // chunk), distances_bytes(rows.n_rows)
    return Cost(
        n_blocks + rows.n_blocks(block_memory),
        2 * rows.n_bytes,  # they are checked before
        kept,
        chunk * (16 * rows.n_rows + 40 * min(rows.n_rows, 2048)),
        HELD_COPIES * rows.compared(metric).n_bytes,
        keeps=(("distances", kept),),
    )


def distances_bytes(n_rows: int) -> int:
    """Return the bytes of the distances between so many rows, float32."""
    return 4 * n_rows**2


# --- graphs ----------------------------------------------------------------------------------------------------


def most_edges(n_rows: int, n_neighbors: int, symmetry: Symmetry = "union") -> int:
    """Return the most edges of the symmetric graph of nearest neighbors, each counted from both ends."""
    of_others = n_neighbors if symmetry == "union" else min(n_neighbors, MUTUAL_FLOOR)
    return n_rows * (n_neighbors + of_others)


def affinity_cost(
    rows: RowSizes,
    n_neighbors: int,
    *,
    metric: Metric = "cosine",
    symmetry: Symmetry = "union",
    block_memory: int,
    reread: bool = False,
    n_edges: int | None = None,
) -> Cost:
    """Return what the symmetric affinity of rows over their nearest neighbors takes, with the search.

    Every block of the graph reads the lists of all rows. Beside the options of `search_cost` it depends on the
    `symmetry` and, where they are known, on the edges of the graph. With `reread` the graph stays on disk.
    """
    search = search_cost(rows, n_neighbors, metric=metric, block_memory=block_memory, reread=reread)
    making = edges_cost(rows, n_neighbors, symmetry=symmetry, block_memory=block_memory, n_edges=n_edges)
    shared = search.shared_bytes + (0 if reread else making.shared_bytes)
    return add_costs([search, making])._replace(shared_bytes=shared)


def edges_cost(
    rows: RowSizes, n_neighbors: int, *, symmetry: Symmetry, block_memory: int, n_edges: int | None = None
) -> Cost:
    """Return what the affinity takes of lists that are there."""
    edges = EDGE_BYTES * (most_edges(rows.n_rows, n_neighbors, symmetry) if n_edges is None else n_edges)
    lists, grid = LIST_BYTES * rows.n_rows * n_neighbors, rows.n_blocks(block_memory)
    task = 4 * (lists + 2 * EDGE_BYTES * rows.n_rows * n_neighbors) // grid + VERTEX_BYTES * rows.n_rows
    return Cost(grid, grid * lists, edges, task, GRAPH_COPIES * edges)
