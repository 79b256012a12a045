"""The stages of Latent Semantic Imputation: a table and known vectors to a graph, weights and all vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.evaluation.imputation import (
    Method,
    MethodRecovery,
    Recovery,
    compare_methods,
    hold_out_folds,
    linear_map,
    mean_vector,
    recovery,
)
from distembed.execution import compute, delayed, map_blocks, persist
from distembed.linalg.chunks import COLUMN_BLOCKS, LEAST_ROWS, ROW_COPIES, row_chunk
from distembed.manifold.imputation import (
    COLUMN_COPIES,
    LatentSemanticImputation,
    UnreachedRowsError,
)
from distembed.neighbors.distances import distance_chunk, distance_rows
from distembed.neighbors.search import MERGED_AT_ONCE
from distembed.pipeline.context import Context, Counted, StageSpec, System, sections, stored_sparse
from distembed.pipeline.inputs import file_sizes, recorded_bytes
from distembed.pipeline.plan import StagePlan
from distembed.pipeline.systems.imputation.config import HoldOutSection, ImputationJob
from distembed.pipeline.tables.domain import Joined, join, read_domain, read_known, warn_of_one_column
from distembed.pipeline.tables.files import Floats, is_text
from distembed.pipeline.tables.names import NearMiss, advice_on, near_misses
from distembed.pipeline.tables.rows import LeftOut

# --- the stages ----------------------------------------------------------------------------------------------

GRAPH_OPTIONS = {"min_degree", "metric", "neighbors"}
WEIGHT_OPTIONS = {"weights", "floor", "metric"}
SOLVE_OPTIONS = {"solver", "tol", "max_iter", "lazy"}


TABLE_COPIES = 4
"""Copies of a table in memory while it is read: the file, its columns, the matrix, and one transformed."""

TEXT_COPIES = 4
"""Further copies where the table is text: the file, its cells, and cells made ready to become numbers."""

GRAPH_COPIES, WEIGHT_COPIES, VECTOR_COPIES = 3, 8, 12
"""Copies of the domain (vectors: of all vectors, float32) that a stage holds beside its tasks: input read and divided,
and solved in float64 before it is stored. Measured on 4,000 to 100,000 names (tests/benchmarks/IMPUTATION.md)."""

NEIGHBOR_BYTES = 16
"""Bytes of one neighbor in a list: a float64 distance and a row number."""


class TableSizes(NamedTuple):
    """Rows and columns of the domain, components of the vectors."""

    n_names: int
    n_features: int
    n_components: int
    input_bytes: int
    domain_bytes: int  # of the matrix in memory
    notes: tuple[str, ...] = ()  # what was done to the table

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        sizes = (
            f"{self.n_names:,} names x {self.n_features:,} numbers, vectors of {self.n_components} components"
        )
        return "\n".join([sizes, *(f"  {note}" for note in self.notes)])


def table_sizes(job: ImputationJob, counted: Counted | None) -> TableSizes:
    """Return the sizes of a job; what a committed join has counted is not read again."""
    if counted is not None and "join" in counted.stages:
        workspace, n_bytes = counted.workspace, recorded_bytes(counted.stages["join"])
        spec = workspace.describe("domain").spec
        width = np.dtype(spec.dtype).itemsize
        n_components = workspace.describe("known_vectors").spec.shape[1]
        n, d = spec.shape
        return TableSizes(n, d, n_components, n_bytes, width * n * d)
    domain = read_domain(job.domain)
    n, d = domain.matrix.shape
    known = read_known(job.known.model_copy(update={"max_words": 1})).vectors
    n_bytes = sum(file_sizes([job.domain.path, job.known.path]).values())
    return TableSizes(n, d, known.vectors.shape[1], n_bytes, domain.matrix.nbytes, tuple(domain.notes))


def join_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the sections of both tables and the memory of a block."""
    return {
        **sections("domain", "known", "matching")(job),
        **_options({"metric"})(job),
        "block_memory": job.resources.block_memory,
    }


def _options(names: set[str]) -> Any:
    def parameters(job: ImputationJob) -> dict[str, Any]:
        return {"imputation": job.imputation.model_dump(mode="json", include=names)}

    return parameters


def graph_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the options of the graph, and the disk its distances may take."""
    return {**_options(GRAPH_OPTIONS)(job), "distance_disk": job.resources.distance_disk}


def keeps_distances(job: ImputationJob, n_names: int) -> bool:
    """Return whether the distances between all names, float32, are searched for the graph and fit the job's disk."""
    return job.imputation.neighbors == "exact" and 4 * n_names**2 <= (job.resources.distance_disk or 0)


def joined(job: ImputationJob) -> Joined:
    """Read both tables of a job and join them by name."""
    return join(read_domain(job.domain), read_known(job.known), job.matching)


def _vector_bytes(sizes: TableSizes) -> int:
    return 4 * sizes.n_names * sizes.n_components


def _edge_bytes(job: ImputationJob, sizes: TableSizes) -> int:
    return 12 * 2 * sizes.n_names * job.imputation.min_degree


def plan_join(job: ImputationJob, sizes: TableSizes) -> StagePlan:
    """Return the plan of reading and joining both tables."""
    written = sizes.domain_bytes + _vector_bytes(sizes)
    copies = TABLE_COPIES + (TEXT_COPIES if is_text(job.domain.path) else 0)
    return StagePlan(1, sizes.input_bytes, written, 0, copies * written)


def run_join(ctx: Context) -> dict[str, Any]:
    """Match the names of the table with those of the vectors."""
    job: ImputationJob = ctx.job
    both = joined(job)
    warning = warn_of_one_column(both.domain, metric=job.imputation.metric)
    if warning:
        ctx.reporter.note(f"warning: {warning}")
    others = both.others if job.known.keep_others else both.others[:0]
    ctx.stage.store_table("vocabulary", both.vocabulary(with_others=job.known.keep_others))
    notes = [*both.domain.notes, *both.known.notes]
    for note in notes:
        ctx.reporter.note(f"  {note}")
    misses = near_misses(both.domain.names, both.words, both.rows, job.matching)
    left_out = both.domain.left_out
    ctx.stage.store_table("left_out", _table_of(LeftOut, left_out))
    ctx.stage.store_table("near_misses", _table_of(NearMiss, misses))
    ctx.stage.store_table("reading", pa.table({"note": pa.array(notes, pa.string())}))
    block = job.resources.block_memory
    _store_rows(ctx, "domain", both.domain.matrix, block, meaning="What the table says of each name.")
    _store_rows(
        ctx, "known_vectors", both.targets, block, meaning="Vectors of the names; NaN: none is known."
    )
    if others.size:
        meaning = "Vectors of words that are no name of the table."
        _store_rows(ctx, "other_vectors", both.known.vectors.vectors[others], block, meaning=meaning)
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


def _table_of(kind: type[LeftOut | NearMiss], rows: Sequence[LeftOut | NearMiss]) -> pa.Table:
    """Return records of texts as a table, which has its columns also without a row."""
    return pa.table(
        {name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in kind._fields}
    )


def _store_rows(ctx: Context, name: str, matrix: Any, block_memory: int, *, meaning: str) -> None:
    chunk = row_chunk(len(matrix), matrix.shape[1] * matrix.itemsize, block_memory)
    rows = da.from_array(matrix, chunks=(chunk, -1))
    ctx.stage.store(
        name, rows, dims=("name", "component"), units="", meaning=meaning, progress=ctx.progress(name)
    )


def imputation_of(ctx: Context) -> LatentSemanticImputation:
    """Return the estimator of a job, which stores its intermediate arrays in the stage."""
    job: ImputationJob = ctx.job
    return LatentSemanticImputation(
        **job.imputation.model_dump(),
        block_memory=job.resources.block_memory,
        checkpoint=ctx.stage.checkpoint,
    )


def plan_graph(job: ImputationJob, sizes: TableSizes) -> StagePlan:
    """Return the plan of the quadratic stage: distances made again by tiles, or kept and read."""
    edges = _edge_bytes(job, sizes)
    n, domain = sizes.n_names, sizes.domain_bytes
    block = job.resources.block_memory
    lists = NEIGHBOR_BYTES * n * job.imputation.min_degree
    shared = GRAPH_COPIES * domain + 3 * lists
    if keeps_distances(job, n):
        tasks = 2 * -(-n // distance_chunk(n, block))
        kept = 4 * n * n
        return StagePlan(
            tasks,
            tasks * domain + kept,
            kept + lists + edges,
            2 * block,
            shared,
            keeps=(("distances", kept),),
        )
    grid = -(-n // row_chunk(n, domain // n, block))
    tasks = grid * grid + grid * -(-grid // MERGED_AT_ONCE)
    searching = min(block, ROW_COPIES * domain) + 4 * min(n, LEAST_ROWS) ** 2
    return StagePlan(tasks, 2 * grid * domain, lists + edges, searching, shared)


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


def plan_weights(job: ImputationJob, sizes: TableSizes) -> StagePlan:
    """Return the plan of rebuilding each row from its neighbors."""
    edges, domain = _edge_bytes(job, sizes), sizes.domain_bytes
    task = min(job.resources.block_memory, 2 * 8 * sizes.n_features * (edges // 12) // COLUMN_BLOCKS)
    return StagePlan(COLUMN_BLOCKS, domain + edges, edges, task, WEIGHT_COPIES * domain + 3 * edges)


def run_weights(ctx: Context) -> dict[str, Any]:
    """Rebuild each name's row from those of its neighbors."""
    graph = stored_sparse(ctx.workspace, "graph")
    model = imputation_of(ctx).set_graph(graph).fit_weights(ctx.workspace.array("domain"))
    _store_sparse(
        ctx, "weights", model.weights_, meaning="Share of each neighbor in a name's row; rows sum to one."
    )
    ctx.stage.store_table("certificates", pa.table({"certificate": model.certificate_}))
    return {"worst_certificate": float(model.certificate_.max())}


def plan_vectors(job: ImputationJob, sizes: TableSizes) -> StagePlan:
    """Return the plan of the systems of equations, in groups of columns."""
    n, s, block = sizes.n_names, sizes.n_components, job.resources.block_memory
    vectors, edges = _vector_bytes(sizes), _edge_bytes(job, sizes)
    n_tasks = max(min(COLUMN_BLOCKS, s), -(-COLUMN_COPIES * 8 * n * s // block))
    task = min(block, COLUMN_COPIES * 8 * n * -(-s // n_tasks))
    return StagePlan(n_tasks, vectors + edges, vectors, task, VECTOR_COPIES * vectors + 3 * edges)


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


# --- known names hidden and imputed ---------------------------------------------------------------------------

IMPUTATION, SHUFFLED, LINEAR, MEAN = "imputation", "shuffled table", "linear map", "mean of the known vectors"
"""What fills in the hidden names: the job's own method, and three controls."""

LINEAR_NAMES = 20_000
"""Known names, at most, that the linear map of a fold is fitted to."""

LINEAR_COPIES = 6
"""Copies in float64 of the table and vectors of these names that the fit of the linear map holds."""


def hold_out_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the options of the hold-out and of the solver."""
    return {**_options(SOLVE_OPTIONS)(job), **sections("evaluation")(job)}


def plan_hold_out(job: ImputationJob, sizes: TableSizes) -> StagePlan:
    """Return the plan of imputing hidden names: per fold a system of equations on the graph and a shuffled one."""
    solving, n_graphs = plan_vectors(job, sizes), 2 * job.evaluation.n_folds
    n_hidden = min(job.evaluation.max_names, sizes.n_names)
    fitted = 8 * min(sizes.n_names, LINEAR_NAMES) * (sizes.n_features + sizes.n_components)
    return solving._replace(
        tasks=n_graphs * solving.tasks,
        read_bytes=n_graphs * solving.read_bytes,
        written_bytes=4 * 8 * n_hidden * sizes.n_components,
        shared_bytes=solving.shared_bytes + LINEAR_COPIES * fitted,
        graphs=n_graphs,
    )


def run_hold_out(ctx: Context) -> dict[str, Any]:
    """Hide known names in folds, impute them, and compare with their true vectors and with three controls."""
    options: HoldOutSection = ctx.job.evaluation
    vocabulary, seed = ctx.workspace.table("vocabulary"), options.random_state
    known = np.flatnonzero(np.array(vocabulary["origin"].to_pylist(), object) == "known")
    folds = hold_out_folds(known, n_folds=options.n_folds, max_names=options.max_names, seed=seed)
    found = [_fold_vectors(ctx, number, folds, known) for number in range(len(folds))]
    labels = vocabulary["label"].take(known).to_pylist()
    truth = compute(ctx.workspace.array("known_vectors")[known])
    hidden = np.concatenate([np.empty(0, np.int64), *folds])
    scores = {
        method: recovery(
            np.concatenate([fold[method] for fold in found]),
            np.searchsorted(known, hidden),
            truth,
            labels=labels,
        )
        for method in (found[0] if found else ())
    }
    ctx.stage.store_table("hold_out_names", _names_table(scores, vocabulary["word"].take(hidden), folds))
    summary = compare_methods(scores, n_known=known.size, seed=seed) if scores else []
    columns = {name: [getattr(row, name) for row in summary] for name in MethodRecovery._fields}
    ctx.stage.store_table("hold_out", pa.table(columns))
    return {"n_hidden": int(hidden.size), "n_folds": len(folds), "n_known": int(known.size)}


def _fold_vectors(
    ctx: Context, number: int, folds: list[NDArray[np.int64]], known: NDArray[np.int64]
) -> dict[str, Floats]:
    """Return the vectors that each method finds for the hidden names of a fold, (h, s) each."""
    weights, hidden = stored_sparse(ctx.workspace, "weights"), folds[number]
    rng = np.random.default_rng((ctx.job.evaluation.random_state, number))
    # The graph of a table whose rows were permuted among the known names is the graph, permuted alike.
    order = np.arange(weights.shape[0])
    order[known] = rng.permutation(known)
    shuffled = weights[order][:, order]
    fitted = rng.permutation(np.setdiff1d(known, hidden))[:LINEAR_NAMES]
    keep, name = ctx.stage.checkpoint, f"fold-{number}"
    found = {
        IMPUTATION: keep(f"{name}-imputed", partial(_imputed_rows, ctx, weights, hidden)),
        SHUFFLED: keep(f"{name}-shuffled", partial(_imputed_rows, ctx, shuffled, hidden)),
        LINEAR: keep(f"{name}-mapped", partial(_mapped_rows, ctx, linear_map, fitted, hidden)),
        MEAN: keep(f"{name}-mean", partial(_mapped_rows, ctx, mean_vector, fitted, hidden)),
    }
    ctx.progress("folds")(number + 1, len(folds))
    return {method: compute(vectors) for method, vectors in found.items()}


def _imputed_rows(ctx: Context, weights: sp.csr_array, hidden: NDArray[np.int64]) -> da.Array:
    """Return the vectors that imputation finds for hidden names, in one block."""
    vectors = ctx.workspace.array("known_vectors")
    is_hidden = np.zeros((vectors.shape[0], 1), bool)
    is_hidden[hidden] = True
    mask = da.from_array(is_hidden, chunks=(vectors.chunks[0], 1))
    masked = map_blocks(_hide, vectors, mask, dtype=vectors.dtype, chunks=vectors.chunks)
    model = imputation_of(ctx).set_params(checkpoint=persist).set_weights(weights).fit_vectors(masked)
    return da.from_array(compute(model.vectors_[hidden]), chunks=-1)


def _hide(vectors: Floats, is_hidden: NDArray[np.bool_]) -> Floats:
    return np.where(is_hidden, np.nan, vectors).astype(vectors.dtype, copy=False)


def _mapped_rows(
    ctx: Context, method: Method, fitted: NDArray[np.int64], hidden: NDArray[np.int64]
) -> da.Array:
    """Return the vectors that a method without a graph finds for hidden names from others, in one block."""
    rows = np.sort(np.concatenate([fitted, hidden]))
    X, Y = (
        compute(ctx.workspace.array(name)[rows]).astype(np.float64) for name in ("domain", "known_vectors")
    )
    at = np.searchsorted(rows, hidden)
    Y[at] = np.nan
    return da.from_array(method(X, Y)[at].astype(np.float32), chunks=-1)


def _names_table(
    scores: Mapping[str, Recovery], words: pa.ChunkedArray, folds: list[NDArray[np.int64]]
) -> pa.Table:
    """Return a row per hidden name and method: its fold, cosine, rank and the share of neighbors of its label."""
    fold = np.repeat(np.arange(len(folds)), [len(hidden) for hidden in folds])
    columns: dict[str, list[Any]] = {name: [] for name in ("word", "fold", "method", *Recovery._fields)}
    for method, score in scores.items():
        columns["word"] += words.to_pylist()
        columns["fold"] += fold.tolist()
        columns["method"] += [method] * fold.size
        for name, values in score._asdict().items():
            columns[name] += values.tolist()
    return pa.table(columns)


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
        dims=("name", "neighbor"),
        units="",
        meaning=meaning,
        progress=ctx.progress(name),
    )


def stages(job: ImputationJob) -> tuple[StageSpec, ...]:  # noqa: ARG001 - the same for every job
    """Return the stages of a job."""
    return (
        StageSpec("join", (), join_parameters, run_join, plan_join),
        StageSpec("graph", ("join",), graph_parameters, run_graph, plan_graph),
        StageSpec("weights", ("join", "graph"), _options(WEIGHT_OPTIONS), run_weights, plan_weights),
        StageSpec("vectors", ("join", "weights"), _options(SOLVE_OPTIONS), run_vectors, plan_vectors),
        StageSpec("hold_out", ("join", "weights"), hold_out_parameters, run_hold_out, plan_hold_out),
    )


SYSTEM = System(
    ImputationJob,
    stages,
    table_sizes,
    "distembed.pipeline.systems.imputation.report",
    "distembed.pipeline.systems.imputation.exports",
    explanation="distembed.pipeline.systems.imputation.explanation",
    explorer="distembed.pipeline.systems.imputation.explorer",
)
