"""The stages that impute: the graph of the names, the weights of their neighbors, and the missing vectors."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from distembed.costs import Cost
from distembed.execution import delayed, from_delayed
from distembed.linalg.chunks import COLUMN_BLOCKS, LEAST_ROWS, ROW_COPIES, row_chunk
from distembed.manifold.imputation import LatentSemanticImputation, UnreachedRowsError
from distembed.manifold.imputation_maps import LANDMARKS
from distembed.manifold.imputation_systems import COLUMN_COPIES
from distembed.neighbors.distances import distance_chunk, distance_rows
from distembed.pipeline.context import Context, stored_sparse
from distembed.pipeline.systems.imputation.config import ImputationJob
from distembed.pipeline.systems.imputation.join import TableSizes, options_parameters

GRAPH_OPTIONS = {"min_degree", "metric", "neighbors"}
WEIGHT_OPTIONS = {"weights", "floor", "metric"}
SOLVE_OPTIONS = {"solver", "tol", "max_iter", "lazy"}


GRAPH_COPIES, WEIGHT_COPIES, VECTOR_COPIES = 3, 8, 12
"""Copies of the domain (vectors: of all vectors, float32) that a stage holds beside its tasks: input read and divided,
and solved in float64 before it is stored. Measured on 4,000 to 100,000 names (tests/benchmarks/IMPUTATION.md)."""

NEIGHBOR_BYTES = 16
"""Bytes of one neighbor in a list: a float64 distance and a row number."""


def graph_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the options of the graph, and the disk its distances may take."""
    return {**options_parameters(GRAPH_OPTIONS)(job), "distance_disk": job.resources.distance_disk}


def keeps_distances(job: ImputationJob, n_names: int) -> bool:
    """Return whether the distances between all names, float32, are searched for the graph and fit the job's disk."""
    return job.imputation.neighbors == "exact" and 4 * n_names**2 <= (job.resources.distance_disk or 0)


def _edge_bytes(job: ImputationJob, sizes: TableSizes) -> int:
    return 12 * 2 * sizes.n_names * job.imputation.min_degree


def imputation_of(ctx: Context) -> LatentSemanticImputation:
    """Return the estimator of a job, which stores its intermediate arrays in the stage."""
    return estimator_of(ctx.job).set_params(checkpoint=ctx.stage.checkpoint)


def estimator_of(job: ImputationJob) -> LatentSemanticImputation:
    """Return the estimator of a job, which keeps its intermediate arrays in memory."""
    return LatentSemanticImputation(**job.imputation.model_dump(), block_memory=job.resources.block_memory)


def plan_graph(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of the quadratic stage: distances made again by tiles, or kept and read."""
    edges = _edge_bytes(job, sizes)
    n, domain = sizes.n_names, sizes.domain_bytes
    block = job.resources.block_memory
    lists = NEIGHBOR_BYTES * n * job.imputation.min_degree
    shared = GRAPH_COPIES * domain + 3 * lists
    if keeps_distances(job, n):
        tasks = 2 * -(-n // distance_chunk(n, block))
        kept = 4 * n * n
        return Cost(
            tasks,
            tasks * domain + kept,
            kept + lists + edges,
            2 * block,
            shared,
            keeps=(("distances", kept),),
        )
    grid = -(-n // row_chunk(n, domain // n, block))
    # Of each pair of blocks a search, and its lists added to those of both.
    tasks = grid + 3 * grid * (grid - 1) // 2
    searching = min(block, ROW_COPIES * domain) + 4 * min(n, LEAST_ROWS) ** 2
    return Cost(tasks, grid * domain, lists + edges, searching, shared)


def run_graph(ctx: Context) -> dict[str, Any]:
    """Find each name's nearest others and the spanning tree of all."""
    domain = ctx.workspace.array("domain")
    distances = _kept_distances(ctx, domain) if keeps_distances(ctx.job, domain.shape[0]) else None
    model = imputation_of(ctx).fit_graph(domain, distances=distances)
    meaning = "Distance of each name (row) to those it is rebuilt from."
    _store_sparse(ctx, "graph", model.graph_, meaning=meaning)
    return {"n_edges": int(model.graph_.nnz), "recall": model.recall_}


def _kept_distances(ctx: Context, domain: da.Array) -> da.Array:
    """Store the distances between all names, each block of rows once, and return them opened."""
    metric = ctx.job.imputation.metric
    return ctx.stage.store(
        "distances",
        distance_rows(domain, metric=metric, block_memory=ctx.job.resources.block_memory),
        dims=("name", "other"),
        units="",
        meaning=f"Distance between two names' rows of the table, {metric}.",
        progress=ctx.progress("distances"),
    )


def plan_weights(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of rebuilding each row from its neighbors."""
    edges, domain = _edge_bytes(job, sizes), sizes.domain_bytes
    task = min(job.resources.block_memory, 2 * 8 * sizes.n_features * (edges // 12) // COLUMN_BLOCKS)
    return Cost(COLUMN_BLOCKS, domain + edges, edges, task, WEIGHT_COPIES * domain + 3 * edges)


def run_weights(ctx: Context) -> dict[str, Any]:
    """Rebuild each name's row from those of its neighbors."""
    graph = stored_sparse(ctx.workspace, "graph")
    model = imputation_of(ctx).set_graph(graph).fit_weights(ctx.workspace.array("domain"))
    _store_sparse(
        ctx, "weights", model.weights_, meaning="Share of each neighbor in a name's row; rows sum to one."
    )
    ctx.stage.store_table("certificates", pa.table({"certificate": model.certificate_}))
    return {"worst_certificate": float(model.certificate_.max())}


def map_options(job: ImputationJob) -> set[str]:
    """Return the options of the linear map that are not at their defaults: with these a stage is as it was before."""
    options = job.imputation
    named = {"method", "ridge"} if options.method != "graph" else set()
    return named | ({"kernel"} if options.kernel != "linear" else set())


def vector_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the options of the solver, and the method and its map where it is not the graph alone."""
    names = map_options(job) if job.imputation.method != "graph" else set()
    options: dict[str, Any] = options_parameters({*SOLVE_OPTIONS, *names})(job)
    return options


def map_columns(job: ImputationJob, sizes: TableSizes) -> int:
    """Return the columns that the map is linear in: those of the table, or of the kernel's features."""
    return sizes.n_features if job.imputation.kernel == "linear" else min(LANDMARKS, sizes.n_names)


def feature_bytes(job: ImputationJob, sizes: TableSizes) -> int:
    """Return the bytes of the kernel's features, float64, which a stage keeps while it runs; the table has none."""
    return 8 * sizes.n_names * map_columns(job, sizes) if job.imputation.kernel == "rbf" else 0


def plan_vectors(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of the systems of equations, in groups of columns."""
    plan = plan_solving(job, sizes, sizes.n_components)
    if job.imputation.method == "graph":
        return plan
    of_table = plan_solving(job, sizes, map_columns(job, sizes))
    return plan._replace(
        tasks=plan.tasks + of_table.tasks,
        read_bytes=plan.read_bytes + of_table.read_bytes,
        written_bytes=plan.written_bytes + 2 * of_table.written_bytes + feature_bytes(job, sizes),
        task_bytes=max(plan.task_bytes, of_table.task_bytes),
        shared_bytes=plan.shared_bytes
        + of_table.shared_bytes
        + map_bytes(job, sizes)
        + 2 * feature_bytes(job, sizes),
        graphs=2,
    )


def plan_solving(job: ImputationJob, sizes: TableSizes, n_columns: int) -> Cost:
    """Return the plan of one system of equations for so many columns, which are written once."""
    n, block = sizes.n_names, job.resources.block_memory
    solved, edges = 4 * n * n_columns, _edge_bytes(job, sizes)
    n_tasks = max(min(COLUMN_BLOCKS, n_columns), -(-COLUMN_COPIES * 8 * n * n_columns // block))
    task = min(block, COLUMN_COPIES * 8 * n * -(-n_columns // n_tasks))
    return Cost(n_tasks, solved + edges, solved, task, VECTOR_COPIES * solved + 3 * edges)


def map_bytes(job: ImputationJob, sizes: TableSizes) -> int:
    """Return the bytes that fitting a map holds: its products, or the known rows where they are fewer."""
    n_columns = map_columns(job, sizes)
    return 4 * 8 * min(n_columns, sizes.n_names) * (n_columns + sizes.n_components)


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Solve for the missing vectors, and put those of words outside the table below."""
    known = ctx.workspace.array("known_vectors")
    model = imputation_of(ctx).set_weights(stored_sparse(ctx.workspace, "weights"))
    if ctx.job.imputation.is_chosen:
        chosen = ctx.workspace.stages()["hold_out"].facts
        model.set_params(method=chosen["method"], ridge=chosen["ridge"] or None)
    try:
        model.fit_vectors(known, ctx.workspace.array("domain"))
    except UnreachedRowsError as error:
        words = ctx.workspace.table("vocabulary")["word"]
        names = ", ".join(words[int(row)].as_py() for row in error.rows[:5])
        raise ValueError(
            f"no known vector is joined to {error.rows.size} of the names, first: {names}"
        ) from error
    steps, measure = model.history_.T
    ctx.stage.store_table("convergence", pa.table({"step": steps.astype(np.int64), "measure": measure}))
    parts = [model.vectors_.rechunk((known.chunks[0], -1))]
    if ctx.workspace.stages()["join"].facts["n_other"]:
        parts.append(ctx.workspace.array("other_vectors"))
    ctx.stage.store(
        "vectors",
        da.concatenate(parts),
        dims=("word", "component"),
        units="",
        meaning="Vectors, known ones as they came; row i is word i of vocabulary.parquet.",
        progress=ctx.progress("vectors"),
    )
    facts = {"n_iter": model.n_iter_, "residual": model.residual_, "converged": model.converged_}
    return facts | {"method": model.method_, "ridge": model.ridge_}


def _store_sparse(ctx: Context, name: str, matrix: sp.csr_array, *, meaning: str) -> None:
    """Store a sparse matrix of names by names in the row blocks of the domain."""
    bounds = np.cumsum([0, *ctx.workspace.array("domain").chunks[0]])
    empty = sp.csr_array((0, 0), dtype=matrix.dtype)
    blocks = [
        from_delayed(delayed(matrix[start:stop]), (stop - start, matrix.shape[1]), matrix.dtype, meta=empty)
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
    ctx.stage.store(
        name,
        da.concatenate(blocks),
        dims=("name", "neighbor"),
        units="",
        meaning=meaning,
        progress=ctx.progress(name),
    )
