"""What Latent Semantic Imputation takes in memory and on disk: its graph, weights, systems, maps and new rows."""

from __future__ import annotations

from typing import Any

from distembed.costs import Cost
from distembed.linalg.chunks import row_chunk
from distembed.linalg.columns import RECORDED_STEPS
from distembed.manifold.imputation import CHOICE_FOLDS, CHOICE_ROWS, LatentSemanticImputation
from distembed.manifold.imputation_choice import candidates_of, kernels_of
from distembed.manifold.imputation_maps import LANDMARKS
from distembed.manifold.imputation_rows import edge_chunk, held_whole, most_held
from distembed.manifold.imputation_systems import (
    COLUMN_COPIES,
    SWEEPS_AT_ONCE,
    entries_per_batch,
    system_columns,
)
from distembed.neighbors.costs import (
    EDGE_BYTES,
    GRAPH_COPIES,
    LIST_BYTES,
    RowSizes,
    search_cost,
    stored_search_cost,
)

WEIGHT_COPIES, VECTOR_COPIES = 8, 12
"""Copies of the table (of all vectors, in their dtype) that a step holds beside its tasks: input read and divided, and
solved in float64 before it is stored. Measured on 4,000 to 100,000 names (tests/benchmarks/IMPUTATION.md)."""

POWER_SWEEPS = 400
"""Sweeps of the power iteration, about, where nothing else is known: a graph of words took 357 to 3e-5."""

KRYLOV_PRODUCTS = 80
"""Products with the weights that the default solver makes, about: two in each of the 38 steps of the real prices."""

BLOCK_COPIES = 2
"""Copies of a row block of weights in the task that reads it: as it is read, and its unknown rows."""

MAP_COPIES = 4
"""Copies of the products, or of the known rows, that the fit of a linear map holds."""


def graph_cost(model: LatentSemanticImputation, table: RowSizes, *, reads_distances: bool = False) -> Cost:
    """Return what `fit_graph` takes: distances made by tiles, or read where they are kept; searches for the tree."""
    edges = EDGE_BYTES * most_entries(model, table.n_rows)
    lists = LIST_BYTES * table.n_rows * model.min_degree
    cost = search_cost(table, model.min_degree, metric=model.metric, block_memory=model.block_memory)
    held = GRAPH_COPIES * (table.compared(model.metric).n_bytes + lists + edges)
    if reads_distances:
        cost = stored_search_cost(table, block_memory=model.block_memory)
    return cost._replace(written_bytes=2 * lists + edges, shared_bytes=held)


def most_entries(model: LatentSemanticImputation, n_rows: int) -> int:
    """Return the most neighbors from which rows are rebuilt: the nearest of each, and those in the spanning tree."""
    return n_rows * (model.min_degree + 2)


def weights_cost(model: LatentSemanticImputation, table: RowSizes, *, n_edges: int | None = None) -> Cost:
    """Return what `fit_weights` takes on a graph of so many edges: rows and their neighbors, a batch in each task."""
    n_edges = most_entries(model, table.n_rows) if n_edges is None else n_edges
    compared = table.compared(model.metric)
    n_blocks = n_row_blocks(table.n_rows, n_edges, model.block_memory)
    entries = entries_per_batch(-(-n_edges // n_blocks), 8 * table.n_columns, model.block_memory)
    n_rebuilt = min(table.n_rows, -(-table.n_rows * entries // max(1, n_edges)) + 1)
    needed = min(table.n_rows, entries + 2 * n_rebuilt)
    chunk = row_chunk(table.n_rows, table.row_bytes, model.block_memory)  # in which rows are read
    task = 2 * needed * compared.row_bytes + 4 * LIST_BYTES * entries + 2 * chunk * compared.row_bytes
    written = (LIST_BYTES + EDGE_BYTES) * n_edges + 8 * table.n_rows
    shared = WEIGHT_COPIES * compared.n_bytes + 3 * min(EDGE_BYTES * n_edges, most_held(model.block_memory))
    read = table.n_bytes + 2 * EDGE_BYTES * n_edges  # the graph is counted before it is read
    return Cost(n_blocks * -(-n_edges // (n_blocks * entries)), read, written, task, shared, graphs=n_blocks)


def n_row_blocks(n_rows: int, n_edges: int, block_memory: int) -> int:
    """Return the number of row blocks in which a graph and its weights are read: one, where a process holds all."""
    if held_whole(n_edges, block_memory):
        return 1
    return -(-n_rows // edge_chunk(n_rows, n_edges, block_memory))


# --- vectors ---------------------------------------------------------------------------------------------------


def vectors_cost(
    model: LatentSemanticImputation,
    table: RowSizes,
    vectors: RowSizes,
    *,
    n_edges: int | None = None,
    n_unknown: int | None = None,
    n_sweeps: int = POWER_SWEEPS,
) -> Cost:
    """Return what `fit_vectors` takes: systems of equations, linear maps, and folds where it chooses between them.

    Parameters
    ----------
    model : its options; with "auto", or without a ridge, known rows are hidden in folds to choose
    table, vectors : sizes of X and Y
    n_edges : neighbors in the weights; by default the most there may be
    n_unknown : rows to impute; by default all
    n_sweeps : sweeps of the power iteration
    """
    options: dict[str, Any] = {"n_edges": n_edges, "n_unknown": n_unknown, "n_sweeps": n_sweeps}
    stored = vectors.n_bytes
    if model.method == "graph":
        cost = solving_cost(model, vectors, **options)
        return cost._replace(written_bytes=cost.written_bytes + stored)
    of_maps = [_made_cost(model, table, vectors, kernel, **options) for kernel in kernels_of(model.kernel)]
    cost = _sum([features_cost(model, table), largest_cost(of_maps)])
    if len(candidates_of(model.method, model.kernel, model.ridge)) > 1:
        n_known = vectors.n_rows - (n_unknown or 0)
        n_hidden = min(CHOICE_ROWS, n_known)
        fold = fold_cost(model, table, vectors, -(-n_hidden // CHOICE_FOLDS), **options)
        cost = _sum([cost, *[fold] * min(CHOICE_FOLDS, n_hidden)])
    return cost._replace(written_bytes=cost.written_bytes + stored)


def _made_cost(
    model: LatentSemanticImputation, table: RowSizes, vectors: RowSizes, kernel: str, **options: Any
) -> Cost:
    """Return what the vectors take once a map of a kernel is chosen, beside the features of the kernel."""
    systems = [] if model.method == "linear_map" else [vectors, mapped_table(model, table, kernel)]
    solved = [solving_cost(model, size, **options) for size in systems]
    return _sum([_map_cost(model, table, vectors, kernel), *solved])


def largest_cost(ways: list[Cost]) -> Cost:
    """Return the most that one of several ways takes, where it is not known which is taken."""
    return Cost(
        max(way.tasks for way in ways),
        max(way.read_bytes for way in ways),
        max(way.written_bytes for way in ways),
        max(way.task_bytes for way in ways),
        max(way.shared_bytes for way in ways),
        graphs=max(way.graphs for way in ways),
    )


def _sum(steps: list[Cost]) -> Cost:
    """Return the cost of steps one after the other, which leave nothing but what they write."""
    return Cost(
        sum(step.tasks for step in steps),
        sum(step.read_bytes for step in steps),
        sum(step.written_bytes for step in steps),
        max(step.task_bytes for step in steps),
        sum(sorted(step.shared_bytes for step in steps)[-2:]),
        graphs=sum(step.graphs for step in steps),
    )


def solving_cost(
    model: LatentSemanticImputation,
    values: RowSizes,
    *,
    n_edges: int | None = None,
    n_unknown: int | None = None,
    n_sweeps: int = POWER_SWEEPS,
) -> Cost:
    """Return what the systems of equations take that impute the rows of a matrix, in groups of columns."""
    n, n_columns = values.n_rows, values.n_columns
    q = n if n_unknown is None else n_unknown
    n_edges = most_entries(model, n) if n_edges is None else n_edges
    edges, width = EDGE_BYTES * n_edges, system_columns(n_columns, q, model.block_memory)
    if model.solver == "krylov":
        written, n_products = 8 * n_columns * (q + 2 + RECORDED_STEPS), KRYLOV_PRODUCTS
    else:
        # Every batch is kept, and the last one again up to the sweep where the rule stops.
        n_products = min(n_sweeps, model.max_iter)
        n_batches, last = divmod(n_products, SWEEPS_AT_ONCE)
        rows = (n_batches + 1) * (q + 2 * SWEEPS_AT_ONCE) + q + 2 * last
        written = 8 * n_columns * rows
    recorded = RECORDED_STEPS if model.solver == "krylov" else 2 * SWEEPS_AT_ONCE
    task = width * (8 * COLUMN_COPIES * q + values.itemsize * n + 16 * recorded)
    tasks, read = -(-n_columns // width), values.n_bytes + 2 * edges
    shared = VECTOR_COPIES * values.n_bytes + 3 * min(edges, most_held(model.block_memory))
    if (n_blocks := n_row_blocks(n, n_edges, model.block_memory)) > 1:
        # A task reads the weights from the store for every product, and multiplies by vectors of all rows.
        task += BLOCK_COPIES * -(-edges // n_blocks) + 8 * width * n
        read += edges * n_products * tasks
    return Cost(tasks, read, written, task, shared)


def mapped_table(model: LatentSemanticImputation, table: RowSizes, kernel: str) -> RowSizes:
    """Return the size of what the map of a kernel is linear in: the rows of the table, or the kernel's features."""
    if kernel == "linear":
        return table.compared(model.metric)
    return RowSizes(table.n_rows, min(LANDMARKS, table.n_rows))


def features_cost(model: LatentSemanticImputation, table: RowSizes) -> Cost:
    """Return what the features of a kernel take, which are kept once for all maps; a linear map has none."""
    if model.kernel == "linear":
        return Cost(0, 0, 0, 0, graphs=0)
    rows = mapped_table(model, table, "rbf")
    chunk, m = row_chunk(table.n_rows, table.row_bytes, model.block_memory), rows.n_columns
    task = chunk * (2 * table.compared(model.metric).row_bytes + 4 * 8 * m) + 8 * m * (m + table.n_columns)
    return Cost(-(-table.n_rows // chunk), table.n_bytes, rows.n_bytes, task, 3 * 8 * m * m)


def _map_cost(model: LatentSemanticImputation, table: RowSizes, vectors: RowSizes, kernel: str) -> Cost:
    """Return what fitting a linear map to the known rows takes, and mapping all; features of a kernel are held."""
    rows = mapped_table(model, table, kernel)
    n, m, s = rows.n_rows, rows.n_columns, vectors.n_columns
    chunk = row_chunk(n, 8 * (m + s), model.block_memory)
    task = chunk * (2 * rows.row_bytes + 2 * vectors.row_bytes + 16 * (m + s)) + 8 * m * (m + s)
    held = MAP_COPIES * 8 * min(m, n) * (m + s) + (2 * rows.n_bytes if kernel == "rbf" else 0)
    return Cost(3 * -(-n // chunk), 3 * (rows.n_bytes + vectors.n_bytes), 0, task, held, graphs=3)


def fold_cost(
    model: LatentSemanticImputation,
    table: RowSizes,
    vectors: RowSizes,
    n_hidden: int,
    *,
    n_edges: int | None = None,
    n_unknown: int | None = None,
    n_sweeps: int = POWER_SWEEPS,
) -> Cost:
    """Return what `hidden_fold` takes for so many hidden rows, beside the features of a kernel."""
    q = None if n_unknown is None else n_unknown + n_hidden
    options: dict[str, Any] = {"n_edges": n_edges, "n_unknown": q, "n_sweeps": n_sweeps}
    kernels = kernels_of(model.kernel)
    systems = [vectors, *(mapped_table(model, table, kernel) for kernel in kernels)]
    solved = [hidden_cost(model, size, n_hidden, **options) for size in systems]
    return _sum([*(_map_cost(model, table, vectors, kernel) for kernel in kernels), *solved])


def hidden_cost(
    model: LatentSemanticImputation, values: RowSizes, n_hidden: int, **options: int | None
) -> Cost:
    """Return what imputing so many hidden rows takes, which alone are kept; the options are those of `solving_cost`."""
    solved: dict[str, Any] = options
    return solving_cost(model, values, **solved)._replace(written_bytes=n_hidden * values.row_bytes)
