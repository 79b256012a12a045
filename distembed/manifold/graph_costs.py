"""What searches for neighbors take, the graphs that are made of them, and the smoothest vectors of a graph."""

from __future__ import annotations

from typing import NamedTuple

from distembed.costs import Cost, add_costs
from distembed.linalg.chunks import LEAST_ROWS, row_chunk
from distembed.manifold.eigenmaps import is_small
from distembed.neighbors.distances import VALUE_BYTES, Metric, dense_values, distance_chunk, rows_of_tile
from distembed.neighbors.graph_blocks import MUTUAL_FLOOR
from distembed.neighbors.graphs import Symmetry
from distembed.neighbors.search import LIMITED_BLOCKS, MERGED_AT_ONCE, SPARE_CANDIDATES

LIST_BYTES = 16
"""Bytes of a neighbor in a list: its squared distance and its row number, float64."""
EDGE_BYTES = 12
"""Bytes of an edge of a graph: a weight and a column."""
VERTEX_BYTES = 100
"""Bytes of a vertex while a block of a graph is made: its scale, and the ends of its edges."""
GRAPH_COPIES = 3
"""Copies of a graph or of lists that are held while one is made of the other: before, after, and by columns."""


class MatrixSize(NamedTuple):
    """The size of a matrix of rows: its shape, its stored values where it is sparse, and the bytes of a value."""

    n_rows: int
    n_columns: int
    n_values: int | None = None
    itemsize: int = 8

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

    def compared(self, metric: Metric) -> MatrixSize:
        """Return the size of the rows as they are compared: float32 or float64; unit rows, for cosines, are float64."""
        return self._replace(itemsize=8 if metric == "cosine" else max(4, self.itemsize))


# --- searches --------------------------------------------------------------------------------------------------


def search_cost(rows: MatrixSize, k: int, *, metric: Metric, block_memory: int, reread: bool = False) -> Cost:
    """Return what the search for the k nearest other rows of every row takes.

    Parameters
    ----------
    rows : the rows that are given
    k : neighbors of each row
    metric : the distance between rows
    block_memory : bytes of a task
    reread : whether each task reads its blocks of dense rows again, so that the rows are not held
    """
    lists = LIST_BYTES * rows.n_rows * k
    held = 0 if reread else rows.compared(metric).n_bytes
    if rows.n_values is not None:
        return _sparse_search(rows, k, block_memory)._replace(shared_bytes=held + GRAPH_COPIES * lists)
    grid, task = dense_grid(rows, block_memory), dense_tile(rows, k, metric, block_memory)
    tasks = (
        2 * grid + (grid + -(-grid // MERGED_AT_ONCE)) * grid if reread else grid + 3 * grid * (grid - 1) // 2
    )
    written = (
        lists if reread or grid < LIMITED_BLOCKS else 2 * lists
    )  # and those of each block among its own rows
    return Cost(tasks, grid * rows.n_bytes, written, task, held + GRAPH_COPIES * lists)


def dense_grid(rows: MatrixSize, block_memory: int) -> int:
    """Return the number of row blocks in which dense rows are compared."""
    return -(-rows.n_rows // row_chunk(rows.n_rows, rows.row_bytes, block_memory))


def dense_tile(rows: MatrixSize, k: int, metric: Metric, block_memory: int) -> int:
    """Return the bytes of a task that compares two blocks: both as they are and centered, products, and lists."""
    chunk = row_chunk(rows.n_rows, rows.row_bytes, block_memory)
    row = rows.compared(metric).row_bytes + 8 * rows.n_columns
    return 2 * chunk * (row + 2 * LIST_BYTES * k) + 8 * min(chunk, LEAST_ROWS) ** 2


def _grid(rows: MatrixSize, block_memory: int) -> int:
    """Return the number of row blocks in which rows are compared."""
    if rows.n_values is None:
        return dense_grid(rows, block_memory)
    of_rows = -(-rows.n_rows // rows_of_tile(block_memory))
    return max(of_rows, -(-VALUE_BYTES * rows.n_values // block_memory))


def _sparse_search(rows: MatrixSize, k: int, block_memory: int) -> Cost:
    """Return the cost of a search among sparse rows: candidates by float32 tiles, which are then measured."""
    n_values = rows.n_values or 0
    side, grid = min(rows.n_rows, rows_of_tile(block_memory)), _grid(rows, block_memory)
    candidates = LIST_BYTES * (k + SPARE_CANDIDATES)
    dense = 4 * min(dense_values(block_memory), side * rows.n_columns)
    of_values = min(block_memory, 2 * VALUE_BYTES * n_values)
    task = of_values + dense + 8 * side**2 + 4 * candidates * side
    tasks = grid * (grid + 1) // 2 + grid * (grid + 2 * -(-grid // MERGED_AT_ONCE))
    written = (candidates + LIST_BYTES * k) * rows.n_rows
    return Cost(tasks, 2 * grid * rows.n_bytes, written, task)


def distances_cost(n_rows: int, rows_bytes: int, block_memory: int) -> Cost:
    """Return what the distances between all rows take where they are stored, float32, and read by a search."""
    tasks, kept = 2 * -(-n_rows // distance_chunk(n_rows, block_memory)), 4 * n_rows**2
    return Cost(tasks, tasks * rows_bytes + kept, kept, 2 * block_memory, keeps=(("distances", kept),))


# --- graphs ----------------------------------------------------------------------------------------------------


def most_edges(n_rows: int, k: int, symmetry: Symmetry = "union") -> int:
    """Return the most edges of the symmetric graph of the k nearest neighbors, each counted from both ends."""
    return n_rows * (2 * k if symmetry == "union" else k + min(k, MUTUAL_FLOOR))


def affinity_cost(
    rows: MatrixSize,
    k: int,
    *,
    metric: Metric,
    symmetry: Symmetry,
    block_memory: int,
    reread: bool = False,
    n_edges: int | None = None,
) -> Cost:
    """Return what the symmetric affinity of rows over their nearest neighbors takes.

    Every block of the graph reads the lists of all rows. Beside the options of `search_cost` it depends on the
    `symmetry` and, where they are known, on the edges of the graph.
    """
    search = search_cost(rows, k, metric=metric, block_memory=block_memory, reread=reread)
    making = edges_cost(rows, k, symmetry=symmetry, block_memory=block_memory, n_edges=n_edges)
    shared = search.shared_bytes + making.shared_bytes
    return add_costs([search, making])._replace(shared_bytes=shared)


def edges_cost(
    rows: MatrixSize, k: int, *, symmetry: Symmetry, block_memory: int, n_edges: int | None = None
) -> Cost:
    """Return what the affinity takes of lists that are there."""
    edges = EDGE_BYTES * (most_edges(rows.n_rows, k, symmetry) if n_edges is None else n_edges)
    lists, grid = LIST_BYTES * rows.n_rows * k, _grid(rows, block_memory)
    task = 4 * (lists + 2 * EDGE_BYTES * rows.n_rows * k) // grid + VERTEX_BYTES * rows.n_rows
    return Cost(grid, grid * lists, edges, task, GRAPH_COPIES * edges)


# --- the smoothest vectors -------------------------------------------------------------------------------------

START_COPIES, START_COLUMNS = 9, 20
"""Blocks of vectors that the search for eigenvectors holds, and columns of each beyond those wanted: a fifth of these,
or so many. Measured on 20,000 to 200,000 rows (tests/benchmarks/TRANSFER.md)."""
START_ROUNDS = 6
"""Rounds of that search, about, each of which writes its basis where a checkpoint does."""
SMALL_COPIES = 6
"""Matrices of the size of a small graph's that its eigenvectors need: itself, its copies, LAPACK's, the result."""


def eigenmaps_cost(n_rows: int, n_edges: int, k: int, *, n_rounds: int = START_ROUNDS) -> Cost:
    """Return what the k smoothest vectors of a graph take, which are found in one process or by passes over it.

    Parameters
    ----------
    n_rows, n_edges : of the graph
    k : vectors wanted
    n_rounds : rounds of the search in a graph that is not small
    """
    vectors, edges = 8 * (n_rows + 1) * k, EDGE_BYTES * n_edges
    if is_small(n_rows, k):
        square = 8 * n_rows**2
        return Cost(1, edges, vectors, 0, SMALL_COPIES * square + 3 * (vectors + edges))
    basis = 8 * n_rows * (k + max(START_COLUMNS, k // 5))
    return Cost(n_rounds, n_rounds * edges, vectors + n_rounds * basis, 0, START_COPIES * basis + 3 * edges)


def kept_eigenmaps_cost(n_rows: int, n_edges: int, k: int) -> Cost:
    """Return what `laplacian_eigenmaps` takes where a checkpoint has the vectors: it measures how exact they are."""
    vectors = 8 * (n_rows + 1) * k
    return Cost(1, vectors, 0, 0, 3 * (vectors + EDGE_BYTES * n_edges))
