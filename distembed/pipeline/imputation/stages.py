"""The stages of Latent Semantic Imputation: a table and known vectors to a graph, weights and all vectors."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from distembed.execution import compute, delayed
from distembed.linalg.chunks import row_chunk
from distembed.manifold.imputation import LatentSemanticImputation, UnreachedRowsError
from distembed.neighbors.distances import distance_rows
from distembed.pipeline.context import Context, StageSpec, sections
from distembed.pipeline.imputation.config import ImputationJob
from distembed.pipeline.imputation.tables import Joined, join, read_domain, read_known
from distembed.storage.workspace import Workspace

GRAPH_OPTIONS = {"min_degree", "metric", "neighbors"}
WEIGHT_OPTIONS = {"weights", "floor", "metric"}
SOLVE_OPTIONS = {"solver", "tol", "max_iter", "lazy"}


def join_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the sections of both tables and the memory of a block."""
    return {
        **sections("domain", "known", "matching")(job),
        "block_memory": job.resources.block_memory,
    }


def table_files(job: ImputationJob) -> tuple[str, ...]:
    """Return the files of both tables."""
    return tuple(path for path in (job.domain.path, job.domain.names, job.known.path) if path)


def _options(names: set[str]) -> Any:
    def parameters(job: ImputationJob) -> dict[str, Any]:
        return {"imputation": job.imputation.model_dump(mode="json", include=names)}

    return parameters


def graph_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the options of the graph, and the disk its distances may take."""
    return {**_options(GRAPH_OPTIONS)(job), "distance_disk": job.resources.distance_disk}


def keeps_distances(job: ImputationJob, n_names: int) -> bool:
    """Tell whether the distances between all names, float32, are searched for the graph and fit the job's disk."""
    return job.imputation.neighbors == "exact" and 4 * n_names**2 <= (job.resources.distance_disk or 0)


def joined(job: ImputationJob) -> Joined:
    """Read both tables of a job and join them by name."""
    return join(read_domain(job.domain), read_known(job.known), job.matching)


def run_join(ctx: Context) -> dict[str, Any]:
    """Match the names of the table with those of the vectors."""
    job: ImputationJob = ctx.job
    both = joined(job)
    others = both.others if job.known.keep_others else both.others[:0]
    ctx.stage.store_table("vocabulary", both.vocabulary(with_others=job.known.keep_others))
    left_out = both.domain.left_out
    ctx.stage.store_table("left_out", pa.table({"name": list(left_out), "reason": list(left_out.values())}))
    block = job.resources.block_memory
    _store_rows(ctx, "domain", both.domain.matrix, block, meaning="What the table says of each name.")
    _store_rows(
        ctx, "known_vectors", both.targets, block, meaning="Vectors of the names; NaN: none is known."
    )
    if others.size:
        meaning = "Vectors of words that are no name of the table."
        _store_rows(ctx, "other_vectors", both.known.vectors[others], block, meaning=meaning)
    n_known = int((both.rows >= 0).sum())
    return {
        "n_names": len(both.domain.names),
        "n_known": n_known,
        "n_imputed": len(both.domain.names) - n_known,
        "n_left_out": len(left_out),
        "n_unmatched_words": len(both.others),
        "n_other": len(others),
    }


def _store_rows(ctx: Context, name: str, matrix: Any, block_memory: int, *, meaning: str) -> None:
    chunk = row_chunk(len(matrix), matrix.shape[1] * matrix.itemsize, block_memory)
    rows = da.from_array(matrix, chunks=(chunk, -1))
    ctx.stage.store(
        name, rows, dims=("name", "component"), units="", meaning=meaning, progress=ctx.progress(name)
    )


def imputation_of(ctx: Context) -> LatentSemanticImputation:
    """Return the estimator of a job, keeping its states in the stage."""
    job: ImputationJob = ctx.job
    return LatentSemanticImputation(
        **job.imputation.model_dump(),
        block_memory=job.resources.block_memory,
        checkpoint=ctx.stage.checkpoint,
    )


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


def run_weights(ctx: Context) -> dict[str, Any]:
    """Rebuild each name's row from those of its neighbours."""
    graph = stored_sparse(ctx.workspace, "graph")
    model = imputation_of(ctx).set_graph(graph).fit_weights(ctx.workspace.array("domain"))
    _store_sparse(
        ctx, "weights", model.weights_, meaning="Share of each neighbour in a name's row; rows sum to one."
    )
    ctx.stage.store_table("certificates", pa.table({"certificate": model.certificate_}))
    return {"worst_certificate": float(model.certificate_.max())}


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Solve for the missing vectors, and put those of words outside the table below."""
    known = ctx.workspace.array("known_vectors")
    model = imputation_of(ctx).set_weights(stored_sparse(ctx.workspace, "weights"))
    try:
        model.fit_vectors(known)
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
    return {"n_iter": model.n_iter_, "residual": model.residual_, "converged": model.converged_}


def _store_sparse(ctx: Context, name: str, matrix: sp.csr_array, *, meaning: str) -> None:
    """Store a sparse matrix of names by names in the row blocks of the domain."""
    bounds = np.cumsum([0, *ctx.workspace.array("domain").chunks[0]])
    empty = sp.csr_array((0, 0), dtype=matrix.dtype)
    blocks = [
        da.from_delayed(
            delayed(matrix[start:stop]), (stop - start, matrix.shape[1]), matrix.dtype, meta=empty
        )
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
    ctx.stage.store(
        name,
        da.concatenate(blocks),
        dims=("name", "neighbour"),
        units="",
        meaning=meaning,
        progress=ctx.progress(name),
    )


def stored_sparse(workspace: Workspace, name: str) -> sp.csr_array:
    """Return a stored sparse matrix of names by names, in memory: a row has few entries."""
    blocks = compute(workspace.array(name).to_delayed().ravel().tolist())
    return sp.csr_array(sp.vstack(blocks, format="csr"))


STAGES: tuple[StageSpec, ...] = (
    StageSpec("join", (), join_parameters, run_join, table_files),
    StageSpec("graph", ("join",), graph_parameters, run_graph),
    StageSpec("weights", ("join", "graph"), _options(WEIGHT_OPTIONS), run_weights),
    StageSpec("vectors", ("join", "weights"), _options(SOLVE_OPTIONS), run_vectors),
)
