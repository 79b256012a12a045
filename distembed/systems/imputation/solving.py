"""The stages that impute: the graph of the names, the weights of their neighbors, and the missing vectors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.execution import one_blas_thread
from distembed.formats.tables import is_text
from distembed.job.inputs import file_sizes
from distembed.job.outputs import ArrayOutput
from distembed.job.stage import Context, Counted
from distembed.linalg.chunks import row_chunk
from distembed.linalg.columns import RECORDED_STEPS
from distembed.linalg.operators import row_blocks, whole_csr
from distembed.manifold.correspondences import known_rows
from distembed.manifold.imputation_systems import (
    entries_per_batch,
    impute,
    krylov,
    mst_knn_graph,
    power_sweeps,
    reconstruction_weights,
    system_columns,
    weigh,
)
from distembed.manifold.regressions import (
    KERNEL_ROWS,
    LINEAR_ROWS,
    PREDICTED_ROWS,
    KernelRidge,
    LinearRidge,
    fit_known,
    predict,
    predictions,
    with_known,
)
from distembed.neighbors.distances import Metric, domain_rows
from distembed.plan import Dimension, Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages.graphs import EDGE_BYTES, plan_of_search
from distembed.stages.kept_matrices import KeptRows
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import ImputationJob
from distembed.tables.domain import (
    holds_vectors,
    join,
    known_size,
    read_domain,
    read_known,
)
from distembed.tables.names import NearMiss, advice_on, near_misses
from distembed.tables.rows import Domain, LeftOut, warn_of_one_column
from distembed.tables.sections import DomainSection

POWER_SWEEPS = 400
"""Sweeps of the power iteration, about: a graph of words took 357 to 3e-5."""

TABLE_COPIES, TEXT_COPIES = 4, 4
"""Copies of a table in memory while it is read: the file, its columns, the matrix, and one transformed; and further
ones where the table is text: the file, its cells, and cells made ready to become numbers."""

READ_COPIES, VECTOR_COPIES = 8, 12
"""Copies of the table (of all vectors, in their dtype) that a stage holds beside its tasks: input read and divided, and
solved in float64 before it is stored. Measured on 4,000 to 100,000 names (docs/results/imputation.md)."""

LINEAR_COPIES, KERNEL_COPIES = 7, 6
"""Float64 copies of the fitted rows that the fit of a ridge regression holds, and of a kernel of them."""


def table_dimensions(job: ImputationJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job; what a committed join has counted is not read again.

    The vectors of a word that is no name are known, too, and all names may be known, until both are joined.
    """
    if counted is not None and "join" in counted.stages:
        facts, notes = counted.stages["join"].facts, tuple[str, ...]()
        (n, d), (_, s) = (counted.workspace.describe(name).spec.shape for name in ("domain", "known_vectors"))
        n_known, n_unknown = facts["n_known"], n - facts["n_known"]
        held = 4 * s * (n_known + facts["n_unmatched_words"])
    else:
        stamp = tuple(file_sizes([job.domain.path]).values())
        (n, d), notes = _read_once(job.domain, stamp, job.imputation.metric)
        n_known, n_unknown, (s, held) = n, n, known_size(job.known)
    memory, n_edges = job.resources.block_memory, n * (job.imputation.min_degree + 2)
    n_hidden = min(n_known, job.evaluation.max_names)
    sizes = f"{n:,} names x {d:,} numbers, vectors of {s} components"
    dimensions = {
        "name": Dimension(n, row_chunk(n, 8 * (d + s), memory)),
        "component": Dimension(s, system_columns(s, n_unknown, memory)),
        "kernel": Dimension(min(n_known, KERNEL_ROWS), PREDICTED_ROWS),
        "hidden": Dimension(n_hidden, -(-n_hidden // job.evaluation.n_folds)),
        "edge": Dimension(n_edges, entries_per_batch(n_edges, 8 * d, memory)),
        "other": Dimension(held if job.known.keep_others else 0, memory),
    }
    whole = {
        "column": d,
        "known": n_known,
        "unknown": n_unknown,
        "fitted": min(n_known, LINEAR_ROWS),
        "vector": held,
    }
    dimensions |= {name: Dimension(size, size) for name, size in whole.items()}
    return Dimensions(dimensions, "\n".join([sizes, *(f"  {note}" for note in notes)]))


@lru_cache(maxsize=1)
def _read_once(
    section: DomainSection,
    stamp: tuple[int, ...],  # noqa: ARG001 - tells files apart
    metric: Metric,
) -> tuple[tuple[int, int], tuple[str, ...]]:
    read = read_domain(section)
    n, d = read.matrix.shape
    return (n, d), (*read.notes, *filter(None, [advice_on_metric(read, metric)]))


def advice_on_metric(domain: Domain, metric: Metric) -> str:
    """Return what to say of vectors of words that are compared by another distance than is usual, else ""."""
    if not domain.holds_vectors or metric == "cosine":
        return ""
    return (
        "the domain holds vectors of words, which are mostly compared by their directions: imputation.metric = "
        '"cosine" does that'
    )


def plan_join(job: ImputationJob, dims: Dimensions) -> StagePlan:
    """Return the plan of reading and joining both tables."""
    text = is_text(job.domain.path) and not holds_vectors(job.domain.path, job.domain.format)
    stored = dims.whole("name", "column", itemsize=8) + dims.whole("name", "component")
    others = dims.whole("other", itemsize=1)
    copies = TABLE_COPIES + (TEXT_COPIES if text else 0)
    return stage_plan(
        whole=[copies * stored, dims.whole("vector", itemsize=1), others], stored=stored + others
    )


def run_join(ctx: Context) -> dict[str, Any]:
    """Match the names of the table with those of the vectors."""
    job: ImputationJob = ctx.job
    both = join(read_domain(job.domain), read_known(job.known), job.matching)
    warning = warn_of_one_column(both.domain, metric=job.imputation.metric)
    if warning:
        ctx.reporter.note(f"warning: {warning}")
    others = both.others if job.known.keep_others else both.others[:0]
    ctx.store_table(outputs.VOCABULARY, both.vocabulary(with_others=job.known.keep_others))
    notes = [*both.domain.notes, *both.known.notes]
    notes += filter(None, [advice_on_metric(both.domain, job.imputation.metric)])
    for note in notes:
        ctx.reporter.note(f"  {note}")
    misses = near_misses(both.domain.names, both.words, both.rows, job.matching)
    left_out = both.domain.left_out
    for output, kind, rows in (
        (outputs.LEFT_OUT, LeftOut, left_out),
        (outputs.NEAR_MISSES, NearMiss, misses),
    ):
        texts = {name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in kind._fields}
        ctx.store_table(output, pa.table(texts))
    ctx.store_table(outputs.READING, pa.table({"note": pa.array(notes, pa.string())}))
    if (scales := both.domain.scales) is not None:
        ctx.store_table(outputs.DOMAIN_COLUMNS, pa.table({"column": both.domain.columns, **scales._asdict()}))
    block = job.resources.block_memory
    _store_rows(ctx, outputs.DOMAIN, both.domain.matrix, block)
    _store_rows(ctx, outputs.KNOWN_VECTORS, both.targets, block)
    if others.size:
        _store_rows(ctx, outputs.OTHER_VECTORS, both.known.vectors.vectors[others], block)
    n_known = int((both.rows >= 0).sum())
    return {
        "n_names": len(both.domain.names),
        "n_known": n_known,
        "n_imputed": len(both.domain.names) - n_known,
        "n_left_out": len(left_out),
        "n_unmatched_words": len(both.others),
        "n_other": len(others),
        "one_column": warning,
        "advice": advice_on(misses),
    }


def _store_rows(ctx: Context, output: ArrayOutput, matrix: Any, block_memory: int) -> None:
    chunk = row_chunk(len(matrix), matrix.shape[1] * matrix.itemsize, block_memory)
    ctx.store(output, da.from_array(matrix, chunks=(chunk, -1)))


SOLVE_OPTIONS = {"solver", "tol", "max_iter"}

KEPT_DISTANCES = KeptRows(
    outputs.DOMAIN,
    "join",
    "two names' rows of the table",
    lambda job: job.imputation.metric,
    "name",
    lambda _, dims: dims.size("column"),
)


def plan_graph(job: ImputationJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the quadratic stage: distances made by tiles, and searches for the tree."""
    found = plan_of_search(
        dims,
        "name",
        job.imputation.min_degree,
        width=dims.size("column"),
        memory=job.resources.block_memory,
    )
    edges = dims.whole("edge", itemsize=EDGE_BYTES)
    return found._replace(whole_bytes=found.whole_bytes + 3 * edges, stored_bytes=edges)


def run_graph(ctx: Context) -> dict[str, Any]:
    """Find each name's nearest others and the spanning tree of all."""
    options = ctx.job.imputation
    rows = domain_rows(outputs.DOMAIN.read(ctx.workspace), metric=options.metric)
    graph = mst_knn_graph(rows, options.min_degree)
    ctx.store(outputs.GRAPH, row_blocks(graph, drop_zeros=False))
    return {"n_edges": int(graph.nnz)}


def plan_weights(job: ImputationJob, dims: Dimensions) -> StagePlan:  # noqa: ARG001
    """Return the plan of rebuilding each row from its neighbors: a task has those of a batch of rows."""
    needed = min(dims.whole("name", "column", itemsize=8), 2 * dims.block("edge", "column", itemsize=8))
    return stage_plan(
        task(weigh, needed, output=dims.block("edge", 2, itemsize=8)),
        whole=[
            READ_COPIES * dims.whole("name", "column", itemsize=8),
            3 * dims.whole("edge", itemsize=EDGE_BYTES),
        ],
        stored=dims.whole("edge", itemsize=EDGE_BYTES),
        n_tasks=dims.n_blocks("edge"),
        states=dims.whole("edge", 2, itemsize=8),
    )


def run_weights(ctx: Context) -> dict[str, Any]:
    """Rebuild each name's row from those of its neighbors."""
    options, graph = ctx.job.imputation, whole_csr(outputs.GRAPH.read(ctx.workspace))
    rows = domain_rows(outputs.DOMAIN.read(ctx.workspace), metric=options.metric)
    weights, certificates = reconstruction_weights(
        rows, graph, simplex=options.weights == "simplex", floor=options.floor
    )
    ctx.store(outputs.WEIGHTS, row_blocks(weights))
    ctx.store_table(outputs.CERTIFICATES, pa.table({"certificate": certificates}))
    return {"worst_certificate": float(certificates.max())}


REGRESSORS: dict[str, Any] = {"ridge": LinearRidge(), "kernel_ridge": KernelRidge()}
"""The methods that know no graph."""


def plan_vectors(job: ImputationJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the missing vectors, by whatever method, as the hold-out has all."""
    stored = dims.whole("name", "component") + dims.whole("other", itemsize=1)
    return in_turn(plan_systems(job, dims), plan_regressions(dims))._replace(stored_bytes=stored)


def plan_systems(job: ImputationJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the systems of equations, in groups of columns, of vectors or of what a regression left."""
    is_krylov = job.imputation.solver == "krylov"
    rows = dims.size("unknown") + (RECORDED_STEPS if is_krylov else 2 * POWER_SWEEPS)
    given = dims.size("name") * dims.block("component", itemsize=8)
    return stage_plan(
        task(krylov if is_krylov else power_sweeps, given, output=rows * dims.block("component", itemsize=8)),
        whole=[
            VECTOR_COPIES * dims.whole("name", "component", itemsize=8),
            3 * dims.whole("edge", itemsize=EDGE_BYTES),
        ],
        n_tasks=dims.n_blocks("component"),
        states=rows * dims.whole("component", itemsize=8),
    )


def plan_regressions(dims: Dimensions) -> StagePlan:
    """Return the plan of fitting ridge regressions to known rows, one with a kernel, and of predicting all."""
    whole = [KERNEL_COPIES * dims.whole("kernel", "kernel", itemsize=8)]
    for name in ("column", "component"):
        whole += [
            dims.whole("known", name, itemsize=8),
            LINEAR_COPIES * dims.whole("fitted", name, itemsize=8),
        ]
    rows = dims.block("name", "column", itemsize=8) + dims.block("name", "component", itemsize=8)
    kernel = KERNEL_COPIES * dims.block("kernel", itemsize=8) * dims.size("kernel")
    return stage_plan(task(predict, rows) + kernel, whole=whole, n_tasks=dims.n_blocks("name"))


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Find the missing vectors by the method of the job, and put those of words outside the table below."""
    method = ctx.job.imputation.method
    if method == "auto":
        method = ctx.workspace.stages()["hold_out"].facts["method"]
    X, known = (one.read(ctx.workspace) for one in (outputs.DOMAIN, outputs.KNOWN_VECTORS))
    if method in REGRESSORS:
        is_known = known_rows(known, X.shape[0])
        with one_blas_thread():
            model = fit_known(REGRESSORS[method], X, known, is_known)
        vectors = with_known(known, predictions(model, X, known.shape[1]), is_known)
        facts, history = {"n_iter": 0, "residual": 0.0, "converged": True}, np.empty((0, 2))
    else:
        weights = whole_csr(outputs.WEIGHTS.read(ctx.workspace))
        vectors, solved, _ = by_graph(ctx.job, weights, X, known, residuals=method == "residuals")
        history, facts = solved.history, {"n_iter": solved.n_iter, "residual": solved.residual}
        facts["converged"] = solved.converged
    steps, measure = history.T
    ctx.store_table(outputs.CONVERGENCE, pa.table({"step": steps.astype(np.int64), "measure": measure}))
    parts = [vectors.rechunk((known.chunks[0], -1))]
    if ctx.workspace.stages()["join"].facts["n_other"]:
        parts.append(outputs.OTHER_VECTORS.read(ctx.workspace))
    ctx.store(outputs.VECTORS, da.concatenate(parts))
    return {**facts, "method": method}


def by_graph(job: ImputationJob, W: Any, X: da.Array, Y: da.Array, *, residuals: bool = False) -> Any:
    """Return what `impute` does with weights, of the vectors or of the residuals of a ridge regression."""
    regressor = LinearRidge() if residuals else None
    limits = job.imputation.model_dump(include=SOLVE_OPTIONS)
    return impute(W, Y, known_rows(Y, X.shape[0]), X, regressor=regressor, **limits)
