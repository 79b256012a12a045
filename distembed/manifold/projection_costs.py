"""What Locality Preserving Projection takes in memory and on disk: its graph, eigenvectors and regression.

The smoothest vectors of a graph are also what other methods begin with.
"""

from __future__ import annotations

from typing import Any

from distembed.costs import Cost, add_costs
from distembed.linalg.chunks import row_chunk
from distembed.linalg.costs import triplets_cost
from distembed.linalg.solve import SOLVED_TOGETHER
from distembed.manifold.eigenmaps import is_small
from distembed.manifold.projection import (
    MAX_EDGES,
    SVD_OVERSAMPLING,
    SVD_PASSES,
    LocalityPreservingProjection,
)
from distembed.manifold.ridge import DIRECT_SIDE, PANEL
from distembed.neighbors.costs import (
    EDGE_BYTES,
    GRAPH_COPIES,
    LIST_BYTES,
    RowSizes,
    affinity_cost,
    edges_cost,
    most_edges,
    search_cost,
)
from distembed.neighbors.distances import rows_of_tile
from distembed.states import block_memory

TILE_COPIES = 3
"""Copies of a tile of cosines in float64 while those above a threshold are kept."""

PRODUCT_COPIES = 3
"""Copies of the products of all columns, or of all rows, that the regression holds: the sum, and LAPACK's."""

HELD_BLOCK = 2**23
"""Bytes of a row block of rows that come in memory."""

BLOCK_COPIES = 3
"""Copies of a row block in a task that multiplies it: as it is read, decoded, and of unit length or transposed."""

STEP_COPIES = 8
"""Blocks of vectors that a step of the conjugate gradients holds."""

SPAN_COPIES, PAIR_COPIES = 4, 6
"""Copies of the rows within their singular vectors (themselves, weighted, as the graph sums them up), and of the
products that the eigenproblem decomposes."""


START_COPIES, START_COLUMNS = 9, 20
"""Blocks of vectors that the search for eigenvectors holds, and columns of each beyond those wanted: a fifth of these,
or so many. Measured on 20,000 to 200,000 rows (tests/benchmarks/TRANSFER.md)."""

START_ROUNDS = 6
"""Rounds of that search, about, each of which writes its basis where a checkpoint does."""

SMALL_COPIES = 6
"""Matrices of the size of a small graph's that its eigenvectors need: itself, its copies, LAPACK's, the result."""


def neighborhood_cost(
    model: LocalityPreservingProjection, rows: RowSizes, *, n_edges: int | None = None
) -> Cost:
    """Return what the graph of near rows takes; `n_edges` are its edges, by default the most there may be.

    Lists of neighbors are kept, or the graph of a threshold. The graph of the lists is made in memory.
    """
    k, memory = model.n_neighbors, block_memory()
    if model.threshold is None:
        search = search_cost(rows, k, metric="cosine", block_memory=memory)
        graph = affinity_cost(
            rows, k, metric="cosine", symmetry=model.symmetry, block_memory=memory, n_edges=n_edges
        )
        return graph._replace(written_bytes=search.written_bytes)
    edges = _threshold_bytes(rows, n_edges)
    if rows.n_values is None:
        chunk = row_chunk(rows.n_rows, rows.row_bytes, block_memory())
    else:
        chunk = min(rows.n_rows, rows_of_tile(block_memory()))
    grid, compared = -(-rows.n_rows // chunk), rows.compared("cosine").n_bytes
    task = TILE_COPIES * 8 * chunk**2 + 2 * compared // grid
    tasks = grid * (grid + 3) // 2
    return Cost(tasks, rows.n_bytes, edges, task, compared + GRAPH_COPIES * edges, graphs=grid)


def kept_neighborhood_cost(
    model: LocalityPreservingProjection, rows: RowSizes, *, n_edges: int | None = None
) -> Cost:
    """Return what the graph of near rows takes where a checkpoint has what `neighborhood_cost` says is kept."""
    if model.threshold is not None:
        edges = _threshold_bytes(rows, n_edges)
        return Cost(1, edges, 0, 0, GRAPH_COPIES * edges)
    options: dict[str, Any] = {"symmetry": model.symmetry, "block_memory": block_memory()}
    making = edges_cost(rows, model.n_neighbors, **options, n_edges=n_edges)
    lists = GRAPH_COPIES * LIST_BYTES * rows.n_rows * model.n_neighbors
    checked = making.read_bytes + rows.n_bytes  # the rows are checked again
    return making._replace(read_bytes=checked, written_bytes=0, shared_bytes=making.shared_bytes + lists)


def _threshold_bytes(rows: RowSizes, n_edges: int | None) -> int:
    """Return the bytes of the graph of a threshold, with row numbers of eight bytes."""
    return LIST_BYTES * (MAX_EDGES * rows.n_rows if n_edges is None else n_edges) + 8 * (rows.n_rows + 1)


def graph_edges(model: LocalityPreservingProjection, n_rows: int) -> int:
    """Return the most edges that the graph of so many rows may have."""
    if model.threshold is not None:
        return MAX_EDGES * n_rows
    return most_edges(n_rows, model.n_neighbors, model.symmetry)


def projection_cost(
    model: LocalityPreservingProjection,
    rows: RowSizes,
    *,
    n_edges: int | None = None,
    n_rounds: int = START_ROUNDS,
    has_maps: bool = False,
    block_bytes: int = HELD_BLOCK,
) -> Cost:
    """Return what the projection takes after its graph: eigenvectors and a regression on them, or an eigenproblem.

    `n_rounds` are those of `eigenmaps_cost`, and `has_maps` says whether a checkpoint has the eigenvectors. A row block
    has `block_bytes`.
    """
    n_edges = graph_edges(model, rows.n_rows) if n_edges is None else n_edges
    if model.solver == "eigen":
        return _eigen_cost(model, rows, n_edges, block_bytes)
    maps = (
        kept_eigenmaps_cost(rows.n_rows, n_edges, model.n_components)
        if has_maps
        else eigenmaps_cost(rows.n_rows, n_edges, model.n_components, n_rounds=n_rounds)
    )
    solved = ridge_cost(
        rows, model.n_components, constant_column=model.constant_column, block_bytes=block_bytes
    )
    return Cost(
        maps.tasks + solved.tasks,
        maps.read_bytes + solved.read_bytes,
        maps.written_bytes + solved.written_bytes,
        max(maps.task_bytes, solved.task_bytes),
        max(maps.shared_bytes, solved.shared_bytes)
        + 8 * rows.n_rows * model.n_components
        + EDGE_BYTES * n_edges,
        graphs=2,
    )


def ridge_cost(
    rows: RowSizes, n_targets: int, *, constant_column: bool = False, block_bytes: int = HELD_BLOCK
) -> Cost:
    """Return what the regression of so many targets on the rows takes: by Cholesky, or by conjugate gradients."""
    n, m = rows.n_rows, rows.n_columns + constant_column
    held = rows.n_bytes if rows.n_values is None else 2 * rows.n_bytes
    held += 8 * constant_column * n
    targets, side = 8 * n_targets * (n + m), min(n, m)
    n_blocks = max(1, held // block_bytes)
    if side > DIRECT_SIDE:
        width = 8 * min(n_targets, SOLVED_TOGETHER) * (n + m)
        return Cost(
            4 * n_blocks * START_ROUNDS,
            held,
            0,
            2 * width + BLOCK_COPIES * held // n_blocks,
            held + targets + STEP_COPIES * width,
        )
    n_panels = -(-side // PANEL)
    task = 2 * 8 * min(PANEL, side) * (n + m) + 8 * n_targets * side + BLOCK_COPIES * held // n_blocks
    products = PRODUCT_COPIES * 8 * side**2
    return Cost(2 * n_blocks * n_panels, n_panels * held, 0, task, held + targets + products)


def _eigen_cost(model: LocalityPreservingProjection, rows: RowSizes, n_edges: int, block_bytes: int) -> Cost:
    """Return the cost of the eigenproblem of the rows, whole or within their singular vectors."""
    n, m = rows.n_rows, rows.n_columns
    edges = EDGE_BYTES * n_edges
    if model.svd_components is None:
        held = 8 * m * (SPAN_COPIES * n + PAIR_COPIES * m) + edges + rows.n_bytes
        return Cost(1, rows.n_bytes, 0, 0, held)
    wanted = model.svd_components
    found = triplets_cost(
        (n, m),
        rows.n_stored,
        wanted,
        n_passes=SVD_PASSES,
        oversampling=SVD_OVERSAMPLING,
        itemsize=8,
        value_bytes=rows.itemsize + 4,
        block_bytes=block_bytes,
        is_stored=True,
    )
    span = 8 * wanted * (SPAN_COPIES * n + 2 * m) + PAIR_COPIES * 8 * wanted**2
    return add_costs([found, Cost(1, 0, 0, 0, span + edges + rows.n_bytes)])


def product_cost(
    rows: RowSizes, n_components: int, *, itemsize: int = 8, block_bytes: int = HELD_BLOCK
) -> Cost:
    """Return what products of rows with a vector of each feature take: `transform`.

    `itemsize` are the bytes of a number as it is stored; it is computed in float64. A row block has `block_bytes`.
    """
    vectors, result = 8 * rows.n_columns * n_components, 8 * rows.n_rows * n_components
    n_blocks = max(1, rows.n_bytes // block_bytes)
    task = (BLOCK_COPIES * rows.n_bytes + 2 * result) // n_blocks
    return Cost(n_blocks, rows.n_bytes, itemsize * rows.n_rows * n_components, task, vectors)


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
