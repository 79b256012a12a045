"""The stages that impute: the graph of the names, the weights of their neighbors, and the missing vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.costs import Cost, add_costs
from distembed.evaluation.costs import labels_cost
from distembed.evaluation.imputation import LabelAccuracy, label_accuracies
from distembed.execution import compute, one_blas_thread
from distembed.job.inputs import file_sizes, recorded_bytes
from distembed.job.outputs import ArrayOutput
from distembed.job.stage import Context, Counted, sections
from distembed.linalg.chunks import row_chunk
from distembed.linalg.operators import row_blocks
from distembed.manifold.imputation import LatentSemanticImputation
from distembed.manifold.imputation_costs import graph_cost, regression_cost, vectors_cost, weights_cost
from distembed.manifold.imputation_systems import known_rows
from distembed.manifold.regressions import KernelRidge, LinearRidge, fit_known, predictions, with_known
from distembed.neighbors.costs import RowSizes
from distembed.neighbors.distances import Metric
from distembed.stages.kept_matrices import KeptRows
from distembed.storage.workspace import Workspace
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import HoldOutSection, ImputationJob
from distembed.tables.domain import Joined, join, join_cost, others_cost, read_domain
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
    read = read_domain(job.domain)
    paths = [job.domain.path, job.known.path, *filter(None, [job.known.counts])]
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
    return join(read_domain(job.domain), known, job.matching, min_count=job.known.min_count)


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
SOLVE_OPTIONS = {"solver", "tol", "max_iter"}


KEPT_DISTANCES = KeptRows(
    outputs.DOMAIN,
    "join",
    "two names' rows of the table",
    lambda job: job.imputation.metric,
    lambda _, sizes: (sizes.domain, True),
)


def estimator_of(job: ImputationJob) -> LatentSemanticImputation:
    """Return the estimator of a job, without a regressor."""
    return LatentSemanticImputation(**job.imputation.model_dump(exclude={"method"}))


def plan_graph(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of the quadratic stage: distances made by tiles."""
    return graph_cost(estimator_of(job), sizes.domain)


def run_graph(ctx: Context) -> dict[str, Any]:
    """Find each name's nearest others and the spanning tree of all."""
    model = estimator_of(ctx.job).fit_graph(outputs.DOMAIN.read(ctx.workspace))
    ctx.store(outputs.GRAPH, row_blocks(model.graph_))
    return {"n_edges": int(model.graph_.nnz)}


def plan_weights(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of rebuilding each row from its neighbors."""
    return weights_cost(estimator_of(job), sizes.domain)


def run_weights(ctx: Context) -> dict[str, Any]:
    """Rebuild each name's row from those of its neighbors."""
    graph, domain = outputs.GRAPH.read(ctx.workspace), outputs.DOMAIN.read(ctx.workspace)
    model = estimator_of(ctx.job).set_graph(graph).fit_weights(domain)
    ctx.store(outputs.WEIGHTS, row_blocks(model.weights_))
    ctx.store_table(outputs.CERTIFICATES, pa.table({"certificate": model.certificate_}))
    return {"worst_certificate": float(model.certificate_.max())}


REGRESSORS: dict[str, Any] = {"ridge": LinearRidge(), "kernel_ridge": KernelRidge()}
"""The methods that know no graph."""


def plan_vectors(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of the systems of equations or of a regression: of all, where the hold-out chooses."""
    method, block_memory = job.imputation.method, job.resources.block_memory
    costs = [others_cost(job.known, sizes.known_bytes)]
    if method not in REGRESSORS:
        model = estimator_of(job).set_params(regressor=None if method == "graph" else LinearRidge())
        costs.append(vectors_cost(model, sizes.domain, sizes.vectors))
    if method in (*REGRESSORS, "auto"):
        options: dict[str, Any] = {"n_known": sizes.n_known, "kernel": method != "ridge"}
        cost = regression_cost(sizes.domain, sizes.vectors, **options, block_memory=block_memory)
        written = 0 if method == "auto" else sizes.vectors.n_bytes
        costs.append(cost._replace(written_bytes=written))
    return add_costs(costs)


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Find the missing vectors by the method of the job, and put those of words outside the table below."""
    method = ctx.job.imputation.method
    if method == "auto":
        method = ctx.workspace.stages()["hold_out"].facts["method"]
    X, known = (one.read(ctx.workspace) for one in (outputs.DOMAIN, outputs.KNOWN_VECTORS))
    if method in REGRESSORS:
        vectors = regressed(REGRESSORS[method], X, known)
        facts, history = {"n_iter": 0, "residual": 0.0, "converged": True}, np.empty((0, 2))
    else:
        model = estimator_of(ctx.job).set_params(regressor=LinearRidge() if method == "residuals" else None)
        model.set_weights(outputs.WEIGHTS.read(ctx.workspace)).fit_vectors(known, X)
        vectors, history = model.vectors_, model.history_
        facts = {"n_iter": model.n_iter_, "residual": model.residual_, "converged": model.converged_}
    steps, measure = history.T
    ctx.store_table(outputs.CONVERGENCE, pa.table({"step": steps.astype(np.int64), "measure": measure}))
    parts = [vectors.rechunk((known.chunks[0], -1))]
    if ctx.workspace.stages()["join"].facts["n_other"]:
        parts.append(outputs.OTHER_VECTORS.read(ctx.workspace))
    ctx.store(outputs.VECTORS, da.concatenate(parts))
    return {**facts, "method": method}


def regressed(regressor: Any, X: da.Array, Y: da.Array) -> da.Array:
    """Return the vectors that a regression on the rows of a table finds, lazily; known ones as they are."""
    known = known_rows(Y, X.shape[0])
    with one_blas_thread():
        model = fit_known(regressor, X, Y, known)
    return with_known(Y, predictions(model, X, Y.shape[1]), known)


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
