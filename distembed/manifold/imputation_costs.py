"""What Latent Semantic Imputation takes in memory and on disk: its graph, weights and systems, and regressions."""

from __future__ import annotations

from distembed import states
from distembed.costs import Cost, add_costs
from distembed.linalg.chunks import row_chunk
from distembed.linalg.columns import RECORDED_STEPS
from distembed.manifold.imputation import LatentSemanticImputation
from distembed.manifold.imputation_systems import (
    COLUMN_COPIES,
    SWEEPS_AT_ONCE,
    entries_per_batch,
    system_columns,
)
from distembed.manifold.regressions import KERNEL_ROWS, LINEAR_ROWS, PREDICTED_ROWS
from distembed.neighbors.costs import EDGE_BYTES, GRAPH_COPIES, LIST_BYTES, RowSizes, search_cost

WEIGHT_COPIES, VECTOR_COPIES = 8, 12
"""Copies of the table (of all vectors, in their dtype) that a step holds beside its tasks: input read and divided, and
solved in float64 before it is stored. Measured on 4,000 to 100,000 names (tests/benchmarks/IMPUTATION.md)."""

POWER_SWEEPS = 400
"""Sweeps of the power iteration, about, where nothing else is known: a graph of words took 357 to 3e-5."""

LINEAR_COPIES, KERNEL_COPIES, PREDICTION_COPIES = 7, 6, 4
"""Float64 copies of the fitted rows that the fit of a ridge regression holds, of a kernel of them, and of a row block
that is predicted."""


def graph_cost(model: LatentSemanticImputation, table: RowSizes) -> Cost:
    """Return what `fit_graph` takes: distances made by tiles, and searches for the tree."""
    edges = EDGE_BYTES * most_entries(model, table.n_rows)
    lists = LIST_BYTES * table.n_rows * model.min_degree
    cost = search_cost(table, model.min_degree, metric=model.metric, block_memory=states.block_memory())
    held = GRAPH_COPIES * (table.compared(model.metric).n_bytes + lists + edges)
    return cost._replace(written_bytes=2 * lists + edges, shared_bytes=held)


def most_entries(model: LatentSemanticImputation, n_rows: int) -> int:
    """Return the most neighbors from which rows are rebuilt: the nearest of each, and those in the spanning tree."""
    return n_rows * (model.min_degree + 2)


def weights_cost(model: LatentSemanticImputation, table: RowSizes, *, n_edges: int | None = None) -> Cost:
    """Return what `fit_weights` takes on a graph of so many edges: rows and their neighbors, a batch in each task."""
    n_edges = most_entries(model, table.n_rows) if n_edges is None else n_edges
    compared = table.compared(model.metric)
    entries = entries_per_batch(n_edges, 8 * table.n_columns, states.block_memory())
    n_rebuilt = min(table.n_rows, -(-table.n_rows * entries // max(1, n_edges)) + 1)
    needed = min(table.n_rows, entries + 2 * n_rebuilt)
    chunk = row_chunk(table.n_rows, table.row_bytes, states.block_memory())  # in which rows are read
    task = 2 * needed * compared.row_bytes + 4 * LIST_BYTES * entries + 2 * chunk * compared.row_bytes
    written = (LIST_BYTES + EDGE_BYTES) * n_edges + 8 * table.n_rows
    shared = WEIGHT_COPIES * compared.n_bytes + 3 * EDGE_BYTES * n_edges
    return Cost(-(-n_edges // entries), table.n_bytes + EDGE_BYTES * n_edges, written, task, shared)


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
    """Return what `fit_vectors` takes: systems of equations, and the regression whose residuals they impute.

    Parameters
    ----------
    model : its options; a regressor counts as a `LinearRidge`
    table, vectors : sizes of X and Y
    n_edges : neighbors in the weights; by default the most there may be
    n_unknown : rows to impute; by default all
    n_sweeps : sweeps of the power iteration
    """
    solved = vectors if model.regressor is None else vectors._replace(itemsize=8)
    costs = [solving_cost(model, solved, n_edges=n_edges, n_unknown=n_unknown, n_sweeps=n_sweeps)]
    if model.regressor is not None:
        n_known = vectors.n_rows - (n_unknown or 0)
        costs.append(regression_cost(table, vectors, n_known=n_known, block_memory=states.block_memory()))
    cost = add_costs(costs)
    return cost._replace(written_bytes=cost.written_bytes + vectors.n_bytes)


def regression_cost(
    table: RowSizes, vectors: RowSizes, *, n_known: int, kernel: bool = False, block_memory: int
) -> Cost:
    """Return what fitting a ridge regression to the known rows takes, and predicting all.

    Parameters
    ----------
    table, vectors : sizes of X and Y
    n_known : rows of which the vector is known
    kernel : whether it is a `KernelRidge`
    block_memory : of a task
    """
    n_columns = table.n_columns + vectors.n_columns
    fitted = min(n_known, KERNEL_ROWS if kernel else LINEAR_ROWS)
    held = n_known * n_columns + LINEAR_COPIES * fitted * n_columns
    batch = 0
    if kernel:
        held += KERNEL_COPIES * fitted * (fitted + vectors.n_columns)
        batch = KERNEL_COPIES * fitted * PREDICTED_ROWS
    chunk = row_chunk(table.n_rows, 8 * n_columns, block_memory)
    read = n_known * (table.row_bytes + vectors.row_bytes) + table.n_bytes
    task = 8 * (PREDICTION_COPIES * chunk * n_columns + batch)
    return Cost(-(-table.n_rows // chunk), read, 0, task, 8 * held)


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
    edges, width = EDGE_BYTES * n_edges, system_columns(n_columns, q, states.block_memory())
    if model.solver == "krylov":
        written = 8 * n_columns * (q + 2 + RECORDED_STEPS)
    else:
        # Every batch is kept, and the last one again up to the sweep where the rule stops.
        n_products = min(n_sweeps, model.max_iter)
        n_batches, last = divmod(n_products, SWEEPS_AT_ONCE)
        rows = (n_batches + 1) * (q + 2 * SWEEPS_AT_ONCE) + q + 2 * last
        written = 8 * n_columns * rows
    recorded = RECORDED_STEPS if model.solver == "krylov" else 2 * SWEEPS_AT_ONCE
    task = width * (8 * COLUMN_COPIES * q + values.itemsize * n + 16 * recorded)
    tasks, read = -(-n_columns // width), values.n_bytes + 2 * edges
    shared = VECTOR_COPIES * values.n_bytes + 3 * edges
    return Cost(tasks, read, written, task, shared)
