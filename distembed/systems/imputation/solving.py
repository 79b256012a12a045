"""The stages that impute: the graph of the names, the weights of their neighbors, and the missing vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from distembed.costs import Cost, add_costs
from distembed.evaluation.imputation import LabelAccuracy, label_accuracies
from distembed.evaluation.imputation_costs import labels_cost
from distembed.execution import compute, delayed, from_delayed
from distembed.job.inputs import file_sizes, recorded_bytes
from distembed.job.outputs import ArrayOutput
from distembed.job.stage import Context, Counted, sections
from distembed.linalg.chunks import batches, row_chunk
from distembed.linalg.operators import empty_csr
from distembed.manifold.imputation import LatentSemanticImputation
from distembed.manifold.imputation_choice import kernels_of
from distembed.manifold.imputation_costs import graph_cost, largest_cost, vectors_cost, weights_cost
from distembed.manifold.imputation_rows import SparseRows, edge_chunk
from distembed.neighbors.costs import RowSizes, distances_bytes
from distembed.neighbors.distances import Metric
from distembed.stages.kept_matrices import DISTANCES, KeptRows
from distembed.storage.workspace import Workspace
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import HoldOutSection, ImputationJob
from distembed.tables.costs import join_cost, others_cost
from distembed.tables.domain import Joined, join, read_domain
from distembed.tables.known import known_bytes, known_width, read_known
from distembed.tables.names import NearMiss, advice_on, near_misses
from distembed.tables.rows import Domain, LeftOut, scales_table, warn_of_one_column


class TableSizes(NamedTuple):
    """The rows of the domain, the vectors of all its names, and the bytes of their files."""

    domain: RowSizes
    vectors: RowSizes
    input_bytes: int
    n_known: int  # names with a known vector; all names where they are not counted
    known_bytes: int  # of all known vectors in memory, those of words that are no names too
    notes: tuple[str, ...] = ()  # what was done to the table

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        n, d, s = *self.domain[:2], self.vectors.n_columns
        sizes = f"{n:,} names x {d:,} numbers, vectors of {s} components"
        return "\n".join([sizes, *(f"  {note}" for note in self.notes)])


def table_sizes(job: ImputationJob, counted: Counted | None) -> TableSizes:
    """Return the sizes of a job; what a committed join has counted is not read again."""
    if counted is not None and "join" in counted.stages:
        join, facts = counted.stages["join"], counted.stages["join"].facts
        domain, vectors = (_size_of(counted.workspace, name) for name in ("domain", "known_vectors"))
        held = vectors.row_bytes * (facts["n_known"] + facts["n_unmatched_words"])
        return TableSizes(domain, vectors, recorded_bytes(join.parameters), facts["n_known"], held)
    read = read_domain(job.domain, job.matching)
    paths = [job.domain.path, *job.domain.also, job.known.path, *filter(None, [job.known.counts])]
    (n, d), width = read.matrix.shape, known_width(job.known)
    return TableSizes(
        RowSizes(n, d, itemsize=read.matrix.itemsize),
        RowSizes(n, width, itemsize=4),
        sum(file_sizes(paths).values()),
        n,
        known_bytes(job.known, width),
        (*read.notes, *filter(None, [advice_on_metric(read, job.imputation.metric)])),
    )


def _size_of(workspace: Workspace, name: str) -> RowSizes:
    spec = workspace.describe(name).spec
    n, d = spec.shape
    return RowSizes(n, d, itemsize=np.dtype(spec.dtype).itemsize)


def joined(job: ImputationJob) -> Joined:
    """Read both tables of a job and join them by name."""
    known = read_known(job.known, job.matching)
    return join(read_domain(job.domain, job.matching), known, job.matching, min_count=job.known.min_count)


def advice_on_metric(domain: Domain, metric: Metric) -> str:
    """Return what to say of vectors of words that are compared by another distance than is usual, else ""."""
    if not domain.holds_vectors or metric == "cosine":
        return ""
    return (
        "the domain holds vectors of words, which are mostly compared by their directions: imputation.metric = "
        '"cosine" does that'
    )


def join_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the sections of both tables and the memory of a block."""
    return {
        **sections("domain", "known", "matching")(job),
        **options_parameters({"metric"})(job),
        "block_memory": job.resources.block_memory,
    }


def options_parameters(names: set[str]) -> Any:
    """Return a function of a job to its options of these names, the parameters of a stage."""

    def parameters(job: ImputationJob) -> dict[str, Any]:
        return {"imputation": job.imputation.model_dump(mode="json", include=names)}

    return parameters


def plan_join(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of reading and joining both tables."""
    return join_cost(
        job.domain,
        job.known,
        input_bytes=sizes.input_bytes,
        stored_bytes=sizes.domain.n_bytes + sizes.vectors.n_bytes,
        known_bytes=sizes.known_bytes,
    )


def run_join(ctx: Context) -> dict[str, Any]:
    """Match the names of the table with those of the vectors."""
    job: ImputationJob = ctx.job
    both = joined(job)
    warning = warn_of_one_column(both.domain, metric=job.imputation.metric)
    if warning:
        ctx.reporter.note(f"warning: {warning}")
    others = both.others if job.known.keep_others else both.others[:0]
    ctx.store_table(outputs.VOCABULARY, both.vocabulary(with_others=job.known.keep_others))
    notes = [*both.domain.notes, *both.known.notes]
    notes += filter(None, [advice_on_metric(both.domain, job.imputation.metric)])
    for note in notes:
        ctx.reporter.note(f"  {note}")
    misses = near_misses(both.domain.names, both.words, both.matched, job.matching)
    left_out = both.domain.left_out
    ctx.store_table(outputs.LEFT_OUT, _table_of(LeftOut, left_out))
    ctx.store_table(outputs.NEAR_MISSES, _table_of(NearMiss, misses))
    ctx.store_table(outputs.READING, pa.table({"note": pa.array(notes, pa.string())}))
    if job.known.min_count is not None:
        ctx.store_table(outputs.REPLACED, both.replaced())
    if both.domain.scales is not None:
        ctx.store_table(outputs.DOMAIN_COLUMNS, scales_table(both.domain))
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
        "decimal": both.domain.decimal,
        "advice": advice_on(misses),
        **({} if job.known.min_count is None else {"n_replaced": int((both.rare >= 0).sum())}),
    }


def _table_of(kind: type[LeftOut | NearMiss], rows: Sequence[LeftOut | NearMiss]) -> pa.Table:
    """Return records of texts as a table, which has its columns also without a row."""
    return pa.table(
        {name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in kind._fields}
    )


def _store_rows(ctx: Context, output: ArrayOutput, matrix: Any, block_memory: int) -> None:
    chunk = row_chunk(len(matrix), matrix.shape[1] * matrix.itemsize, block_memory)
    ctx.store(output, da.from_array(matrix, chunks=(chunk, -1)))


GRAPH_OPTIONS = {"min_degree", "metric"}
WEIGHT_OPTIONS = {"weights", "floor", "metric"}
SOLVE_OPTIONS = {"solver", "tol", "max_iter", "lazy"}


KEPT_DISTANCES = KeptRows(
    outputs.DOMAIN,
    "join",
    "two names' rows of the table",
    lambda job: job.imputation.metric,
    lambda _, sizes: (sizes.domain, True),
)


def has_distances(job: ImputationJob) -> bool:
    """Return whether a job has the stage of the distances: it keeps them, or where they fit `distance_disk`."""
    return "distances" in job.matrices.keep or job.resources.distance_disk is not None


def keeps_distances(job: ImputationJob, n_names: int) -> bool:
    """Return whether the distances between all names, float32, are kept."""
    return "distances" in job.matrices.keep or distances_bytes(n_names) <= (job.resources.distance_disk or 0)


def distance_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return what is measured, and the disk that decides whether the distances are kept, where the job does not."""
    disk = {} if "distances" in job.matrices.keep else {"distance_disk": job.resources.distance_disk}
    return {**KEPT_DISTANCES.parameters(job), **disk}


def plan_distances(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of the distances between all names, of nothing where they do not fit."""
    if not keeps_distances(job, sizes.domain.n_rows):
        return Cost(0, 0, 0, 0)
    return KEPT_DISTANCES.plan(job, sizes)


def run_distances(ctx: Context) -> dict[str, Any]:
    """Store the distances between all names where they fit."""
    if keeps_distances(ctx.job, outputs.DOMAIN.read(ctx.workspace).shape[0]):
        KEPT_DISTANCES.run(ctx)
    return {}


DISTANCE_STAGE = KEPT_DISTANCES.stage_spec._replace(
    parameters=distance_parameters, run=run_distances, plan=plan_distances
)


def imputation_of(ctx: Context) -> LatentSemanticImputation:
    """Return the estimator of a job, which stores its intermediate arrays in the stage."""
    return estimator_of(ctx.job).set_params(checkpoint=ctx.stage.checkpoint)


def estimator_of(job: ImputationJob) -> LatentSemanticImputation:
    """Return the estimator of a job, which keeps its intermediate arrays in memory."""
    return LatentSemanticImputation(**job.imputation.model_dump(), block_memory=job.resources.block_memory)


def plan_graph(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of the quadratic stage: distances made by tiles, or read where they are kept."""
    reads = keeps_distances(job, sizes.domain.n_rows)
    return graph_cost(estimator_of(job), sizes.domain, reads_distances=reads)


def run_graph(ctx: Context) -> dict[str, Any]:
    """Find each name's nearest others and the spanning tree of all."""
    domain = outputs.DOMAIN.read(ctx.workspace)
    reads = keeps_distances(ctx.job, domain.shape[0])
    distances = DISTANCES.read(ctx.workspace) if reads else None
    model = imputation_of(ctx).fit_graph(domain, distances=distances)
    graph: sp.csr_array = model.graph_
    _store_sparse(ctx, outputs.GRAPH, graph)
    return {"n_edges": int(graph.nnz)}


def plan_weights(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of rebuilding each row from its neighbors."""
    return weights_cost(estimator_of(job), sizes.domain)


def run_weights(ctx: Context) -> dict[str, Any]:
    """Rebuild each name's row from those of its neighbors."""
    graph, domain = outputs.GRAPH.read(ctx.workspace), outputs.DOMAIN.read(ctx.workspace)
    model = imputation_of(ctx).set_graph(graph).fit_weights(domain)
    _store_sparse(ctx, outputs.WEIGHTS, model.weights_)
    ctx.store_table(outputs.CERTIFICATES, pa.table({"certificate": model.certificate_}))
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


def plan_vectors(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of the systems of equations and of the map: the largest, where the hold-out chooses."""
    model = estimator_of(job)
    if model.method == "auto":
        model.set_params(method="combined")
    model.set_params(ridge=model.ridge or 1.0)  # which is chosen before, and so is the kernel
    ways = [
        vectors_cost(model.set_params(kernel=kernel), sizes.domain, sizes.vectors)
        for kernel in kernels_of(job.imputation.kernel)
    ]
    return add_costs([largest_cost(ways), others_cost(job.known, sizes.known_bytes)])


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Solve for the missing vectors, and put those of words outside the table below."""
    known = outputs.KNOWN_VECTORS.read(ctx.workspace)
    model = imputation_of(ctx).set_weights(outputs.WEIGHTS.read(ctx.workspace))
    if ctx.job.imputation.is_chosen:
        chosen = ctx.workspace.stages()["hold_out"].facts
        model.set_params(
            method=chosen["method"], ridge=chosen["ridge"] or None, kernel=chosen.get("kernel", model.kernel)
        )
    model.fit_vectors(known, outputs.DOMAIN.read(ctx.workspace))
    steps, measure = model.history_.T
    ctx.store_table(outputs.CONVERGENCE, pa.table({"step": steps.astype(np.int64), "measure": measure}))
    parts = [model.vectors_.rechunk((known.chunks[0], -1))]
    if ctx.workspace.stages()["join"].facts["n_other"]:
        parts.append(outputs.OTHER_VECTORS.read(ctx.workspace))
    ctx.store(outputs.VECTORS, da.concatenate(parts))
    facts = {"n_iter": model.n_iter_, "residual": model.residual_, "converged": model.converged_}
    return facts | {"method": model.method_, "ridge": model.ridge_, "kernel": model.kernel_}


def _store_sparse(ctx: Context, output: ArrayOutput, matrix: SparseRows) -> None:
    """Store a sparse matrix of names by names in row blocks, which those who find it too large read one at a time."""
    if isinstance(matrix, sp.csr_array):
        chunk = edge_chunk(matrix.shape[0], matrix.nnz, ctx.job.resources.block_memory)
        bounds = range(0, matrix.shape[0], chunk)
        parts = [delayed(matrix[start : start + chunk]) for start in bounds]
        sizes = batches(matrix.shape[0], chunk)
        empty = empty_csr(matrix.dtype)
        made = [
            from_delayed(part, (size, matrix.shape[1]), matrix.dtype, meta=empty)
            for part, size in zip(parts, sizes, strict=True)
        ]
        matrix = da.concatenate(made)
    ctx.store(output, matrix)


KNOWN, ALL, TABLE, SHUFFLED_LABELS = (
    "known vectors only",
    "known and imputed vectors",
    "the table itself",
    "known and imputed vectors, labels shuffled",
)
"""The rows whose neighbors are asked: before and after the imputation, what it is made from, and a control."""


def has_labels(job: ImputationJob) -> bool:
    """Return whether the tables of a job name labels."""
    return bool(job.domain.label_column or job.domain.names_label)


def label_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the options of the evaluation that the labels use."""
    return sections("evaluation")(job)


def plan_labels(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of searching the neighbors of at most `max_names` names, a few at a time."""
    read = sizes.domain.n_bytes + sizes.vectors.n_bytes
    return labels_cost(sizes.domain.n_rows, read, job.evaluation.max_names)


def run_labels(ctx: Context) -> dict[str, Any]:
    """Classify names by their neighbors, by both kinds of votes, before and after the imputation."""
    options: HoldOutSection = ctx.job.evaluation
    domain = outputs.DOMAIN.read(ctx.workspace)
    table = outputs.VOCABULARY.read(ctx.workspace).slice(0, domain.shape[0])
    labels = np.array([label or "" for label in table["label"].to_pylist()], object)
    known = np.array(table["origin"].to_pylist(), object) == "known"
    vectors = outputs.VECTORS.read(ctx.workspace)[: domain.shape[0]]
    of_known, labeled = known & (labels != ""), labels != ""
    shuffled = np.random.default_rng(options.random_state).permutation(labels[labeled])
    spaces = {
        KNOWN: (vectors[of_known], labels[of_known]),
        ALL: (vectors[labeled], labels[labeled]),
        TABLE: (domain[labeled], labels[labeled]),
        SHUFFLED_LABELS: (vectors[labeled], shuffled),
    }
    found = [
        row
        for name, (rows, of_rows) in spaces.items()
        for row in label_accuracies(
            {name: (compute(rows), of_rows.tolist())},
            max_names=options.max_names,
            seed=options.random_state,
        )
    ]
    columns = {name: [getattr(row, name) for row in found] for name in LabelAccuracy._fields}
    ctx.store_table(outputs.NEIGHBOR_LABELS, pa.table(columns))
    return {"n_labels": len(set(labels[labeled].tolist())), "n_names": int(labeled.sum())}
