"""The stages that impute: the graph of the names, the weights of their neighbors, and the missing vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from distembed.costs import Cost
from distembed.evaluation.imputation import QUERIES_AT_ONCE, LabelAccuracy, label_accuracies
from distembed.execution import compute, delayed, from_delayed
from distembed.formats.tables import is_text
from distembed.job.inputs import file_sizes, recorded_bytes
from distembed.job.outputs import ArrayOutput
from distembed.job.stage import Context, Counted, sections, whole_sparse
from distembed.linalg.chunks import COLUMN_BLOCKS, LEAST_ROWS, ROW_COPIES, row_chunk
from distembed.manifold.imputation import LatentSemanticImputation, UnreachedRowsError
from distembed.manifold.imputation_maps import LANDMARKS
from distembed.manifold.imputation_systems import COLUMN_COPIES
from distembed.neighbors.distances import Metric, distance_chunk, distance_rows
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import HoldOutSection, ImputationJob
from distembed.tables.domain import Joined, join, read_domain
from distembed.tables.known import holds_vectors, known_bytes, known_width, read_known
from distembed.tables.names import NearMiss, advice_on, near_misses
from distembed.tables.rows import Domain, LeftOut, scales_table, warn_of_one_column

TABLE_COPIES = 4
"""Copies of a table in memory while it is read: the file, its columns, the matrix, and one transformed."""

TEXT_COPIES = 4
"""Further copies where the table is text: the file, its cells, and cells made ready to become numbers."""


class TableSizes(NamedTuple):
    """Rows and columns of the domain, components of the vectors."""

    n_names: int
    n_features: int
    n_components: int
    input_bytes: int
    domain_bytes: int  # of the matrix in memory
    notes: tuple[str, ...] = ()  # what was done to the table
    known_bytes: int = 0  # of all known vectors in memory, those of words that are no names too

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
        workspace, n_bytes = counted.workspace, recorded_bytes(counted.stages["join"].parameters)
        spec = workspace.describe("domain").spec
        width = np.dtype(spec.dtype).itemsize
        n_components = workspace.describe("known_vectors").spec.shape[1]
        n, d = spec.shape
        return TableSizes(n, d, n_components, n_bytes, width * n * d)
    domain = read_domain(job.domain, job.matching)
    n, d = domain.matrix.shape
    read = [job.domain.path, *job.domain.also, job.known.path, *filter(None, [job.known.counts])]
    notes = (*domain.notes, *filter(None, [advice_on_metric(domain, job.imputation.metric)]))
    n_bytes = sum(file_sizes(read).values())
    width = known_width(job.known)
    held = known_bytes(job.known, width)
    return TableSizes(n, d, width, n_bytes, domain.matrix.nbytes, notes, held)


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


def vector_bytes(sizes: TableSizes) -> int:
    """Return the bytes of the vectors of all names, float32."""
    return 4 * sizes.n_names * sizes.n_components


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
    written = sizes.domain_bytes + vector_bytes(sizes)
    text = is_text(job.domain.path) and not holds_vectors(job.domain.path, job.domain.format)
    copies = TABLE_COPIES + (TEXT_COPIES if text else 0)
    # Of tables side by side, the names that are in one only are read too.
    beside = sizes.input_bytes if job.domain.also else 0
    others = sizes.known_bytes if job.known.keep_others else 0
    shared = copies * written + beside + sizes.known_bytes + others
    return Cost(1, sizes.input_bytes, written + others, 0, shared)


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
    domain = outputs.DOMAIN.read(ctx.workspace)
    distances = _kept_distances(ctx, domain) if keeps_distances(ctx.job, domain.shape[0]) else None
    model = imputation_of(ctx).fit_graph(domain, distances=distances)
    _store_sparse(ctx, outputs.GRAPH, model.graph_)
    return {"n_edges": int(model.graph_.nnz), "recall": model.recall_}


def _kept_distances(ctx: Context, domain: da.Array) -> da.Array:
    """Store the distances between all names, each block of rows once, and return them opened."""
    metric = ctx.job.imputation.metric
    distances = distance_rows(domain, metric=metric, block_memory=ctx.job.resources.block_memory)
    return ctx.store(outputs.DISTANCES.of(metric=metric), distances)


def plan_weights(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of rebuilding each row from its neighbors."""
    edges, domain = _edge_bytes(job, sizes), sizes.domain_bytes
    task = min(job.resources.block_memory, 2 * 8 * sizes.n_features * (edges // 12) // COLUMN_BLOCKS)
    return Cost(COLUMN_BLOCKS, domain + edges, edges, task, WEIGHT_COPIES * domain + 3 * edges)


def run_weights(ctx: Context) -> dict[str, Any]:
    """Rebuild each name's row from those of its neighbors."""
    graph = whole_sparse(outputs.GRAPH.read(ctx.workspace))
    model = imputation_of(ctx).set_graph(graph).fit_weights(outputs.DOMAIN.read(ctx.workspace))
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
    known = outputs.KNOWN_VECTORS.read(ctx.workspace)
    model = imputation_of(ctx).set_weights(whole_sparse(outputs.WEIGHTS.read(ctx.workspace)))
    if ctx.job.imputation.is_chosen:
        chosen = ctx.workspace.stages()["hold_out"].facts
        model.set_params(method=chosen["method"], ridge=chosen["ridge"] or None)
    try:
        model.fit_vectors(known, outputs.DOMAIN.read(ctx.workspace))
    except UnreachedRowsError as error:
        words = outputs.VOCABULARY.read(ctx.workspace)["word"]
        names = ", ".join(words[int(row)].as_py() for row in error.rows[:5])
        raise ValueError(
            f"no known vector is joined to {error.rows.size} of the names, first: {names}"
        ) from error
    steps, measure = model.history_.T
    ctx.store_table(outputs.CONVERGENCE, pa.table({"step": steps.astype(np.int64), "measure": measure}))
    parts = [model.vectors_.rechunk((known.chunks[0], -1))]
    if ctx.workspace.stages()["join"].facts["n_other"]:
        parts.append(outputs.OTHER_VECTORS.read(ctx.workspace))
    ctx.store(outputs.VECTORS, da.concatenate(parts))
    facts = {"n_iter": model.n_iter_, "residual": model.residual_, "converged": model.converged_}
    return facts | {"method": model.method_, "ridge": model.ridge_}


def _store_sparse(ctx: Context, output: ArrayOutput, matrix: sp.csr_array) -> None:
    """Store a sparse matrix of names by names in the row blocks of the domain."""
    bounds = np.cumsum([0, *outputs.DOMAIN.read(ctx.workspace).chunks[0]])
    empty = sp.csr_array((0, 0), dtype=matrix.dtype)
    blocks = [
        from_delayed(delayed(matrix[start:stop]), (stop - start, matrix.shape[1]), matrix.dtype, meta=empty)
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
    ctx.store(output, da.concatenate(blocks))


KNOWN, ALL, TABLE, SHUFFLED_LABELS = (
    "known vectors only",
    "known and imputed vectors",
    "the table itself",
    "known and imputed vectors, labels shuffled",
)
"""The rows whose neighbors are asked: before and after the imputation, what it is made from, and a control."""

LABEL_COPIES = 6
"""Copies of the table and the vectors in memory: as read, in float64, and those of the names that are known."""


def has_labels(job: ImputationJob) -> bool:
    """Return whether the tables of a job name labels."""
    return bool(job.domain.label_column or job.domain.names_label)


def label_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the options of the evaluation that the labels use."""
    return sections("evaluation")(job)


def plan_labels(job: ImputationJob, sizes: TableSizes) -> Cost:  # noqa: ARG001 - as all stages
    """Return the plan of searching the neighbors of at most `max_names` names, a few at a time."""
    read = sizes.domain_bytes + vector_bytes(sizes)
    task = 3 * 8 * QUERIES_AT_ONCE * sizes.n_names
    return Cost(1, read, 0, task, LABEL_COPIES * read)


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
