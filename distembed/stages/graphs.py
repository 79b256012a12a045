"""What searches for neighbors, graphs, their eigenvectors and regressions on them take in a job."""

from __future__ import annotations

from distembed.linalg.chunks import row_chunk
from distembed.manifold.eigenmaps import is_small
from distembed.manifold.regressions import DIRECT_SIDE
from distembed.neighbors.blocks import merge_found, nearest_in_pair, nearest_in_sparse_pair
from distembed.neighbors.distances import VALUE_BYTES, dense_values, rows_of_tile
from distembed.neighbors.graph_blocks import join_edges, listed_edges
from distembed.plan import Dimensions, StagePlan, stage_plan, task

LIST_BYTES = 16
"""Bytes of a neighbor in a list: a float64 value and a row number."""
EDGE_BYTES = 12
"""Bytes of an edge of a graph: a float64 value, and a row number of four bytes. A stored value of unit rows has as
many."""


def eigenvector_bytes(n: int, k: int) -> int:
    """Return what the search for the k smoothest vectors of a graph of n rows holds beside the graph.

    Of a small graph six matrices of its size: itself, its copies, LAPACK's, the result. Of a larger one nine blocks of
    vectors, each of a fifth more columns than are wanted, or of twenty more. Measured on 20,000 to 200,000 rows
    (docs/results/transfer.md).
    """
    return 6 * 8 * n**2 if is_small(n, k) else 9 * 8 * n * (k + max(20, k // 5))


def plan_of_search(
    dims: Dimensions, row: str, k: int, *, width: int, memory: int, values: str = "", itemsize: int = 8
) -> StagePlan:
    """Return what the search for the k nearest of all rows takes, which are in memory while it lasts.

    Parameters
    ----------
    dims : Dimensions
    row : str
        The dimension of the rows.
    k : int
        Neighbors of a row.
    width : int
        Columns of the rows.
    memory : int
        The memory of a task.
    values : str
        The dimension of the stored values of sparse rows; dense ones have none.
    itemsize : int
        Bytes of a value as it is compared: unit rows are float64.
    """
    n, stored = dims.size(row), dims.whole(row, k, itemsize=LIST_BYTES)
    if values:
        side = min(n, rows_of_tile(memory))
        n_values = min(dims.size(values), memory // VALUE_BYTES)
        grid = -(-n // side) + VALUE_BYTES * dims.size(values) // memory
        block, lists = EDGE_BYTES * n_values, LIST_BYTES * side * k
        dense = 4 * min(dense_values(memory), 2 * side * width)
        return stage_plan(
            task(nearest_in_sparse_pair, block, block, lists, lists, output=2 * lists),
            task(merge_found, lists, 2 * lists, output=lists),
            4 * block + dense + 4 * side**2,  # of short rows the cosines of all pairs are more than the rows
            whole=[dims.whole(2, values, itemsize=EDGE_BYTES), 2 * stored],
            stored=stored,
            n_tasks=grid * (3 * grid + 1) // 2,
        )
    chunk = row_chunk(n, itemsize * width, memory)
    grid, block, lists = -(-n // chunk), itemsize * chunk * width, LIST_BYTES * chunk * k
    return stage_plan(
        task(nearest_in_pair, block, block, lists, lists, output=2 * lists),
        task(merge_found, lists, 2 * lists, output=lists),
        whole=[dims.whole(row, width, itemsize=itemsize), 2 * stored],
        stored=stored,
        n_tasks=grid * (3 * grid + 1) // 2,
    )


def plan_of_affinity(dims: Dimensions, row: str, k: int, *, memory: int, stored: bool = False) -> StagePlan:
    """Return what the graph of neighbor lists takes, of which both orders of all edges are in memory at once."""
    n = dims.size(row)
    chunk = min(n, max(1, memory // (LIST_BYTES * k)))
    edges, both = EDGE_BYTES * chunk * k, dims.whole(2, row, k, itemsize=EDGE_BYTES)
    return stage_plan(
        task(listed_edges, LIST_BYTES * chunk * k, dims.whole(row, itemsize=8), output=edges),
        task(join_edges, edges, edges, edges, edges, output=2 * edges),
        whole=[2 * both],
        stored=both if stored else 0,
        n_tasks=-(-n // chunk),
    )


def plan_of_eigenmaps(dims: Dimensions, row: str, edge: str, k: int) -> StagePlan:
    """Return what the k smoothest vectors of a graph in memory take, and the graph itself."""
    n = dims.size(row)
    vectors = dims.whole(row, k, itemsize=8)
    held = eigenvector_bytes(n, k)
    return stage_plan(whole=[dims.whole(3, edge, itemsize=EDGE_BYTES), held, vectors], stored=vectors)


def plan_of_ridge(dims: Dimensions, row: str, k: int, *, width: int, values: str = "") -> StagePlan:
    """Return what the regression of k targets on rows takes, which are held with their transpose."""
    side = min(dims.size(row), width)
    rows = dims.whole(2, values, itemsize=EDGE_BYTES) if values else dims.whole(row, width, itemsize=8)
    products = dims.whole(3, side, side, itemsize=8) if side <= DIRECT_SIDE else 0
    targets = dims.whole(4, row, k, itemsize=8) + dims.whole(4, width, k, itemsize=8)
    return stage_plan(whole=[rows, products, targets], stored=dims.whole(row, k))
