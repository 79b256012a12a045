"""The stages of an imputation: names and vectors, the graph of the names, its weights, and the missing vectors.

Two stages judge: by known names that are hidden, and by the labels of neighbors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from sklearn.dummy import DummyRegressor

from distembed.display import plural
from distembed.dtypes import Floats, Int64s, Mask
from distembed.evaluation import imputation as judging
from distembed.evaluation.transfer import ranks_of_rows
from distembed.execution import compute, one_blas_thread, tell
from distembed.formats.tables import is_text
from distembed.job.inputs import file_sizes
from distembed.job.model import check_figures
from distembed.job.outputs import ArrayOutput, declared_in
from distembed.job.stage import Context, Counted, OwnItems, StageSpec, System, sections
from distembed.linalg.chunks import row_chunk
from distembed.linalg.columns import RECORDED_STEPS
from distembed.linalg.operators import row_blocks, whole_csr
from distembed.manifold import imputation_systems as systems
from distembed.manifold import regressions
from distembed.manifold.correspondences import known_rows
from distembed.manifold.regressions import KERNEL_ROWS, LINEAR_ROWS, KernelRidge, LinearRidge
from distembed.neighbors.distances import domain_rows
from distembed.plan import Dimension, Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages.graphs import EDGE_BYTES, plan_of_search
from distembed.stages.kept_matrices import KeptRows, kept_stages
from distembed.states import keep, keeping
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import PRESETS, ImputationJob
from distembed.tables.domain import holds_vectors, joined_words, known_size, read_domain, read_known
from distembed.tables.names import NearMiss, advice_on, match_names, near_misses
from distembed.tables.rows import LeftOut, warn_of_one_column
from distembed.tables.sections import DomainSection

POWER_SWEEPS = 400
"""Sweeps of the power iteration, about: a graph of words took 357 to 3e-5."""

TABLE_COPIES, TEXT_COPIES = 4, 4
"""Copies of a table in memory while it is read: the file, its columns, the matrix, and one transformed; and further
ones where the table is text: the file, its cells, and cells made ready to become numbers."""

READ_COPIES, VECTOR_COPIES = 8, 6
"""Copies of the table (of all vectors, in their dtype) that a stage holds beside its tasks: input read and divided, and
solved in float64 before it is stored. Measured on 4,000 to 100,000 names; of vectors 1.5 to 3.8."""

LINEAR_COPIES, KERNEL_COPIES = 7, 6
"""Float64 copies of the fitted rows that the fit of a ridge regression holds, and of a kernel of them."""


def table_dimensions(job: ImputationJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job; what a committed join has counted is not read again.

    The vectors of a word that is no name are known, too, and all names may be known, until both are joined.
    """
    if counted is not None and "join" in counted.stages:
        facts, notes = counted.stages["join"].facts, list[str]()
        (n, d), (_, s) = (counted.workspace.describe(name).spec.shape for name in ("domain", "known_vectors"))
        n_known, n_unknown = facts["n_known"], n - facts["n_known"]
        held = 4 * s * (n_known + facts["n_unmatched_words"])
    else:
        stamp = tuple(file_sizes([job.domain.path]).values())
        (n, d), notes = _read_once(job.domain, stamp)
        n_known, n_unknown, (s, held) = n, n, known_size(job.known)
    memory, n_edges = job.resources.block_memory, n * (job.imputation.min_degree + 2)
    n_hidden = min(n_known, job.evaluation.max_names)
    sizes = f"{n:,} names x {d:,} numbers, vectors of {s} components"
    dimensions = {
        "name": Dimension(n, row_chunk(n, 8 * (d + s), memory)),
        "component": Dimension(s, systems.system_columns(s, n_unknown, memory)),
        "kernel": Dimension(min(n_known, KERNEL_ROWS), regressions.PREDICTED_ROWS),
        "hidden": Dimension(n_hidden, -(-n_hidden // job.evaluation.n_folds)),
        "edge": Dimension(n_edges, systems.entries_per_batch(n_edges, 8 * d, memory)),
        "other": Dimension(held if job.known.keep_others else 0, memory),
    }
    whole = {"column": d, "known": n_known, "unknown": n_unknown, "vector": held}
    whole["fitted"] = min(n_known, LINEAR_ROWS)
    dimensions |= {name: Dimension(size, size) for name, size in whole.items()}
    return Dimensions(dimensions, "\n".join([sizes, *(f"  {note}" for note in notes)]))


@lru_cache(maxsize=1)
def _read_once(section: DomainSection, _stamp: tuple[int, ...]) -> tuple[tuple[int, ...], list[str]]:
    """Return the shape and the notes of a table; the stamp tells versions of its file apart."""
    read = read_domain(section)
    return read.matrix.shape, read.notes


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
    domain, (known, notes) = read_domain(job.domain), read_known(job.known)
    rows, notes = match_names(domain.names, known.words, job.matching), [*domain.notes, *notes]
    unmatched = np.setdiff1d(np.arange(len(known)), rows)
    others = unmatched if job.known.keep_others else unmatched[:0]
    warning = warn_of_one_column(domain, metric=job.imputation.metric)
    for note in ([f"warning: {warning}"] if warning else []) + [f"  {note}" for note in notes]:
        ctx.reporter.note(note)
    ctx.store_table(outputs.VOCABULARY, joined_words(domain, known.words, rows, others))
    misses = near_misses(domain.names, known.words, rows, job.matching)
    for table, kind, found in (
        (outputs.LEFT_OUT, LeftOut, domain.left_out),
        (outputs.NEAR_MISSES, NearMiss, misses),
    ):
        texts = {name: pa.array([getattr(row, name) for row in found], pa.string()) for name in kind._fields}
        ctx.store_table(table, pa.table(texts))
    ctx.store_table(outputs.READING, pa.table({"note": pa.array(notes, pa.string())}))
    if domain.scales is not None:
        scales = {"column": domain.columns, **domain.scales._asdict()}
        ctx.store_table(outputs.DOMAIN_COLUMNS, pa.table(scales))
    targets = np.where((rows >= 0)[:, None], known.vectors[rows], np.float32(np.nan))
    stored: list[tuple[ArrayOutput, Any]] = [
        (outputs.DOMAIN, domain.matrix),
        (outputs.KNOWN_VECTORS, targets),
    ]
    for output, matrix in stored + [(outputs.OTHER_VECTORS, known.vectors[others])] * bool(others.size):
        chunk = row_chunk(len(matrix), matrix.shape[1] * matrix.itemsize, job.resources.block_memory)
        ctx.store(output, da.from_array(matrix, chunks=(chunk, -1)))
    n_names, n_known = len(rows), int((rows >= 0).sum())
    return {
        "n_names": n_names,
        "n_known": n_known,
        "n_imputed": n_names - n_known,
        "n_left_out": len(domain.left_out),
        "n_unmatched_words": len(unmatched),
        "n_other": len(others),
        "one_column": warning,
        "advice": advice_on(misses),
    }


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
    width, memory = dims.size("column"), job.resources.block_memory
    found = plan_of_search(dims, "name", job.imputation.min_degree, width=width, memory=memory)
    edges = dims.whole("edge", itemsize=EDGE_BYTES)
    return found._replace(whole_bytes=found.whole_bytes + 3 * edges, stored_bytes=edges)


def run_graph(ctx: Context) -> dict[str, Any]:
    """Find each name's nearest others and the spanning tree of all."""
    options = ctx.job.imputation
    rows = domain_rows(outputs.DOMAIN.read(ctx.workspace), metric=options.metric)
    graph = systems.mst_knn_graph(rows, options.min_degree)
    ctx.store(outputs.GRAPH, row_blocks(graph, drop_zeros=False))
    return {"n_edges": int(graph.nnz)}


def plan_weights(job: ImputationJob, dims: Dimensions) -> StagePlan:  # noqa: ARG001
    """Return the plan of rebuilding each row from its neighbors: a task has those of a batch of rows."""
    edges = dims.whole("edge", itemsize=EDGE_BYTES)
    needed = min(dims.whole("name", "column", itemsize=8), 2 * dims.block("edge", "column", itemsize=8))
    return stage_plan(
        task(systems.weigh, needed, output=dims.block("edge", 2, itemsize=8)),
        whole=[READ_COPIES * dims.whole("name", "column", itemsize=8), 3 * edges],
        stored=edges,
        n_tasks=dims.n_blocks("edge"),
        states=dims.whole("edge", 2, itemsize=8),
    )


def run_weights(ctx: Context) -> dict[str, Any]:
    """Rebuild each name's row from those of its neighbors."""
    options, graph = ctx.job.imputation, whole_csr(outputs.GRAPH.read(ctx.workspace))
    rows = domain_rows(outputs.DOMAIN.read(ctx.workspace), metric=options.metric)
    form: dict[str, Any] = {"simplex": options.weights == "simplex", "floor": options.floor}
    weights, certificates = systems.reconstruction_weights(rows, graph, **form)
    ctx.store(outputs.WEIGHTS, row_blocks(weights))
    ctx.store_table(outputs.CERTIFICATES, pa.table({"certificate": certificates}))
    return {"worst_certificate": float(certificates.max())}


REGRESSORS: dict[str, Any] = {"ridge": LinearRidge(), "kernel_ridge": KernelRidge()}
"""The methods that know no graph."""


def plan_vectors(job: ImputationJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the missing vectors by the method of the job, or by any where the hold-out chooses."""
    stored = dims.whole("name", "component") + dims.whole("other", itemsize=1)
    method = job.imputation.method
    plans = [plan_systems(job, dims)] if method not in REGRESSORS else []
    plans += [plan_regressions(dims)] if method != "graph" else []
    return in_turn(*plans)._replace(stored_bytes=stored)


def plan_systems(job: ImputationJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the systems of equations, in groups of columns, of vectors or of what a regression left."""
    is_krylov = job.imputation.solver == "krylov"
    rows = dims.size("unknown") + (RECORDED_STEPS if is_krylov else 2 * POWER_SWEEPS)
    given = dims.size("name") * dims.block("component", itemsize=8)
    edges, vectors = dims.whole("edge", itemsize=EDGE_BYTES), dims.whole("name", "component", itemsize=8)
    solve = systems.krylov if is_krylov else systems.power_sweeps
    return stage_plan(
        task(solve, given, output=rows * dims.block("component", itemsize=8)),
        whole=[VECTOR_COPIES * vectors, 3 * edges],
        n_tasks=dims.n_blocks("component"),
        states=rows * dims.whole("component", itemsize=8),
    )


def plan_regressions(dims: Dimensions) -> StagePlan:
    """Return the plan of fitting ridge regressions to known rows, one with a kernel, and of predicting all."""
    whole = [KERNEL_COPIES * dims.whole("kernel", "kernel", itemsize=8)]
    for name in ("column", "component"):
        fitted = LINEAR_COPIES * dims.whole("fitted", name, itemsize=8)
        whole += [dims.whole("known", name, itemsize=8), fitted]
    rows = dims.block("name", "column", itemsize=8) + dims.block("name", "component", itemsize=8)
    kernel = KERNEL_COPIES * dims.block("kernel", itemsize=8) * dims.size("kernel")
    return stage_plan(task(regressions.predict, rows) + kernel, whole=whole, n_tasks=dims.n_blocks("name"))


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Find the missing vectors by the method of the job, and put those of words outside the table below."""
    method = ctx.job.imputation.method
    if method == "auto":
        method = ctx.workspace.stages()["hold_out"].facts["method"]
    X, known = (one.read(ctx.workspace) for one in (outputs.DOMAIN, outputs.KNOWN_VECTORS))
    if method in REGRESSORS:
        is_known = known_rows(known, X.shape[0])
        with one_blas_thread():
            model = regressions.fit_known(REGRESSORS[method], X, known, is_known)
        vectors = regressions.with_known(known, regressions.predictions(model, X, known.shape[1]), is_known)
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
    return systems.impute(W, Y, known_rows(Y, X.shape[0]), X, regressor=regressor, **limits)


# --- hidden names ----------------------------------------------------------------------------------------------

METHODS = {
    "graph": "imputation",
    "ridge": "ridge",
    "kernel_ridge": "kernel ridge",
    "residuals": "ridge, residuals imputed",
}
"""The row of the hold-out in which each method of a job stands; of equal scores the first is chosen."""

CHOSEN = "chosen on the other folds"
"""The row of `imputation.method = "auto"`, whose method for a fold is the best one of the other folds."""

SHUFFLED = "shuffled table"
"""A control: the graph of the table with its rows shuffled."""

BASELINES: Mapping[str, judging.Imputer] = {
    "mean of the 8 nearest known": judging.nearest_mean,
    "the nearest known": partial(judging.nearest_mean, k=1),
    "mean of the known vectors": partial(regressions.impute_by, DummyRegressor()),
}
"""Controls that know no graph."""


def plan_hold_out(job: ImputationJob, dims: Dimensions) -> StagePlan:
    """Return the plan of imputing hidden names by each method in turn, and of judging what they find."""
    known = dims.whole("known", "component", itemsize=8) + dims.whole("hidden", "component", itemsize=8)
    rows = sum(
        dims.whole("fitted", name, itemsize=8) + dims.block("hidden", name, itemsize=8)
        for name in ("column", "component")
    )
    distances = dims.size("fitted") * dims.block("hidden", itemsize=8)
    baseline = [judging.ROW_COPIES * rows, judging.DISTANCE_COPIES * distances]
    cosines = dims.whole("known", "hidden", itemsize=8)
    ranked = task(ranks_of_rows, output=min(cosines, job.resources.block_memory // 4))
    queries = 3 * judging.QUERIES_AT_ONCE * dims.whole("known", itemsize=8)
    found = (len(METHODS) + 2 + len(BASELINES)) * dims.whole("hidden", "component")
    return in_turn(
        plan_systems(job, dims),
        plan_regressions(dims),
        stage_plan(whole=baseline),
        stage_plan(ranked, whole=[judging.ROW_COPIES * known, queries]),
    )._replace(stored_bytes=found)


def run_hold_out(ctx: Context) -> dict[str, Any]:
    """Hide known names in folds, impute them, choose the method, and compare with their true vectors and controls."""
    job, vocabulary = ctx.job, outputs.VOCABULARY.read(ctx.workspace)
    known = np.flatnonzero(np.array(vocabulary["origin"].to_pylist(), object) == "known")
    options = job.evaluation
    n_names, method, rows = min(known.size, options.max_names), job.imputation.method, list[Int64s]()
    if n_names >= judging.JUDGED_NAMES:
        limits = options.model_dump(include={"n_folds", "max_names"})
        rows = judging.hold_out_folds(known, **limits, seed=options.random_state)
    else:
        why = f"fewer than {judging.JUDGED_NAMES} names would judge the table"
        why = too_few_to_choose(n_names) if method == "auto" else why
        ctx.reporter.note(f"hold_out: nothing is hidden: {why}")
    folds = [_fold(ctx, number, rows, known) for number in range(len(rows))]
    hidden = np.concatenate([np.empty(0, np.int64), *rows])
    fold = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
    truth = compute(outputs.KNOWN_VECTORS.read(ctx.workspace)[known])
    means = [truth[~np.isin(known, one)].mean(axis=0, dtype=np.float64) for one in rows]
    own = METHODS.get(method, CHOSEN)
    scores = {
        name: judging.recovery(
            np.concatenate([found[name] for found in folds]),
            np.searchsorted(known, hidden),
            truth,
            labels=vocabulary["label"].take(known).to_pylist(),
            centers=np.repeat(means, [len(one) for one in rows], axis=0),
        )
        for name in sorted(folds[0] if folds else (), key=lambda row: row != own)
    }
    if method == "auto":
        method = _best(scores, fold >= 0) if scores else "graph"
        scores = {CHOSEN: _chosen(scores, fold), **scores} if scores else {}
    words = vocabulary["word"].take(hidden).to_pylist()
    columns: dict[str, list[Any]] = {
        "word": words * len(scores),
        "fold": fold.tolist() * len(scores),
        "method": [name for name in scores for _ in words],
    }
    for name in judging.Recovery._fields:
        columns[name] = [value for score in scores.values() for value in getattr(score, name).tolist()]
    ctx.store_table(outputs.HOLD_OUT_NAMES, pa.table(columns))
    summary = judging.compare_methods(scores, n_known=known.size, seed=options.random_state) if scores else []
    figures = {name: [getattr(row, name) for row in summary] for name in judging.MethodRecovery._fields}
    ctx.store_table(outputs.HOLD_OUT, pa.table(figures))
    counts = {"n_hidden": int(hidden.size), "n_folds": len(folds), "n_known": int(known.size)}
    return {**counts, "method": method}


def too_few_to_choose(n_names: int) -> str:
    """Return why the graph is taken where `imputation.method` is "auto" and few known names can be hidden."""
    names = f"{plural(n_names, 'name')} with a known vector {'is' if n_names == 1 else 'are'}"
    return f"{names} too few to choose a method by, which takes {judging.JUDGED_NAMES}: the graph was taken"


def _best(scores: Mapping[str, judging.Recovery], names: Mask) -> str:
    """Return the method with the largest mean centered cosine of some hidden names."""
    return max(METHODS, key=lambda method: scores[METHODS[method]].centered_cosine[names].mean())


def _chosen(scores: Mapping[str, judging.Recovery], fold: Int64s) -> judging.Recovery:
    """Return how near the hidden names of each fold come by the best method of the other folds."""
    best = [METHODS[_best(scores, fold != number)] for number in range(int(fold.max()) + 1)]
    parts = [[values[fold == number] for values in scores[row]] for number, row in enumerate(best)]
    return judging.Recovery(*map(np.concatenate, zip(*parts, strict=True)))


def _fold(ctx: Context, number: int, folds: list[Int64s], known: Int64s) -> dict[str, Floats]:
    """Return the vectors that every method finds for the hidden names of a fold, by its row."""
    X, Y = (one.read(ctx.workspace) for one in (outputs.DOMAIN, outputs.KNOWN_VECTORS))
    hidden, weights = folds[number], whole_csr(outputs.WEIGHTS.read(ctx.workspace))
    rng = np.random.default_rng((ctx.job.evaluation.random_state, number))
    order = np.arange(weights.shape[0])
    order[known] = rng.permutation(known)
    fitted = np.sort(rng.permutation(np.setdiff1d(known, hidden))[:LINEAR_ROWS])
    rows = np.sort(np.concatenate([fitted, hidden]))
    is_hidden = da.from_array(np.isin(np.arange(Y.shape[0]), hidden)[:, None], chunks=(Y.chunks[0], 1))
    masked = da.where(is_hidden, np.array(np.nan, Y.dtype), Y)

    def graph(W: sp.csr_array, *, residuals: bool = False) -> Floats:
        found: Floats = compute(by_graph(ctx.job, W, X, masked, residuals=residuals)[0][hidden])
        return found

    def without_graph(imputer: judging.Imputer) -> Floats:
        some = (one.astype(np.float64) for one in compute((X[rows], masked[rows])))
        with one_blas_thread():
            return np.asarray(imputer(*some)[np.searchsorted(rows, hidden)], np.float32)

    ways: dict[str, Callable[[], Floats]] = {
        METHODS["graph"]: partial(graph, weights),
        **{
            METHODS[name]: partial(without_graph, partial(regressions.impute_by, model))
            for name, model in REGRESSORS.items()
        },
        METHODS["residuals"]: partial(graph, weights, residuals=True),
        SHUFFLED: partial(graph, weights[order][:, order]),
        **{name: partial(without_graph, imputer) for name, imputer in BASELINES.items()},
    }

    def alone(way: Callable[[], Floats]) -> Floats:
        with keeping(None):  # the vectors of a fold are small enough to be made again
            return way()

    vectors = {
        row: compute(keep(f"fold-{number}-{place}", partial(alone, way)))
        for place, (row, way) in enumerate(ways.items())
    }
    tell("folds", number + 1, len(folds))
    return vectors


# --- the labels of neighbors -----------------------------------------------------------------------------------

KNOWN, ALL, TABLE, SHUFFLED_LABELS = (
    "known vectors only",
    "known and imputed vectors",
    "the table itself",
    "known and imputed vectors, labels shuffled",
)
"""The rows whose neighbors are asked: before and after the imputation, what it is made from, and a control."""


VOTED, AMONG = "{}, {} votes", "k = {}"
"""What the report calls rows with the votes of their neighbors, and the numbers of neighbors."""


IN_PAPER = {
    "rows": [
        VOTED.format(name, votes) for name in (KNOWN, ALL, TABLE, SHUFFLED_LABELS) for votes in judging.VOTES
    ],
    "columns": list(map(AMONG.format, judging.NEIGHBOR_COUNTS)),
}
"""The names that figures of a paper may have."""


LABEL_COPIES = 6
"""Copies of the table and the vectors in memory: as read, in float64, and those of the names that are known."""


def plan_labels(job: ImputationJob, dims: Dimensions) -> StagePlan:
    """Return the plan of searching the neighbors of at most `max_names` names, a few at a time."""
    read = dims.whole("name", "column", itemsize=8) + dims.whole("name", "component")
    n_asked, votes = min(dims.size("name"), job.evaluation.max_names), max(judging.NEIGHBOR_COUNTS) ** 2
    shares = dims.whole(n_asked, votes, itemsize=9)  # if labels are equal, and a share
    queries = dims.whole("name", 3 * judging.QUERIES_AT_ONCE, itemsize=8)
    return stage_plan(queries, whole=[LABEL_COPIES * read, shares])


def run_labels(ctx: Context) -> dict[str, Any]:
    """Classify names by their neighbors, by both kinds of votes, before and after the imputation."""
    options = ctx.job.evaluation
    domain = outputs.DOMAIN.read(ctx.workspace)
    table = outputs.VOCABULARY.read(ctx.workspace).slice(0, domain.shape[0])
    labels = np.array([label or "" for label in table["label"].to_pylist()], object)
    known = np.array(table["origin"].to_pylist(), object) == "known"
    vectors = outputs.VECTORS.read(ctx.workspace)[: domain.shape[0]]
    of_known, labeled = known & (labels != ""), labels != ""
    shuffled = np.random.default_rng(options.random_state).permutation(labels[labeled])
    spaces = {
        KNOWN: (vectors[of_known], labels[of_known].tolist()),
        ALL: (vectors[labeled], labels[labeled].tolist()),
        TABLE: (domain[labeled], labels[labeled].tolist()),
        SHUFFLED_LABELS: (vectors[labeled], shuffled.tolist()),
    }
    found = list[tuple[str, str, int, int, float]]()
    for name, (space, called) in spaces.items():
        n, rows = len(called), compute(space)  # one of them is in memory at a time
        asked = np.sort(np.random.default_rng(options.random_state).permutation(n)[: options.max_names])
        counts = [k for k in judging.NEIGHBOR_COUNTS if k < n]
        for votes in judging.VOTES if counts else ():
            shares = judging.neighbor_label_accuracy(
                rows, called, n_neighbors=counts, weights=votes, judged=asked
            )
            found += [(name, votes, k, n, share) for k, share in shares.items()]
    names = outputs.NEIGHBOR_LABELS.columns
    columns = {name: [row[place] for row in found] for place, name in enumerate(names)}
    ctx.store_table(outputs.NEIGHBOR_LABELS, pa.table(columns))
    return {"n_labels": len(set(labels[labeled].tolist())), "n_names": int(labeled.sum())}


# --- which stages ----------------------------------------------------------------------------------------------


def stages(job: ImputationJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job; that of labels only where its tables name labels.

    The vectors wait for the hidden names where these choose the method.
    """
    joined = sections("domain", "known", "matching", imputation={"metric"}, grid=True)
    graph = sections(imputation={"min_degree", "metric"})
    weights = sections(imputation={"weights", "floor", "metric"})
    solve = {*SOLVE_OPTIONS, "method"}
    solved, judged = sections(imputation=solve), sections("evaluation", imputation=solve)
    both = ("join", "weights")
    specs = [
        StageSpec("join", (), joined, run_join, plan_join, lambda job: check_figures(job, **IN_PAPER)),
        *kept_stages(job, KEPT_DISTANCES.stage_spec),
        StageSpec("graph", ("join",), graph, run_graph, plan_graph),
        StageSpec("weights", ("join", "graph"), weights, run_weights, plan_weights),
        StageSpec("vectors", both, solved, run_vectors, plan_vectors),
        StageSpec("hold_out", both, judged, run_hold_out, plan_hold_out),
    ]
    if job.imputation.method == "auto":
        vectors, hold_out = specs[-2:]
        specs[-2:] = [hold_out, vectors._replace(inputs=(*both, "hold_out"))]
    if job.domain.label_column or job.domain.names_label:
        specs.append(
            StageSpec("neighbor_labels", ("join", "vectors"), sections("evaluation"), run_labels, plan_labels)
        )
    return tuple(specs)


REPORT, VIEWS = "distembed.systems.imputation.report", "distembed.systems.imputation.views"


def report_bytes(_job: ImputationJob, dims: Dimensions) -> int:
    """Return the bytes of all vectors, as they are read and of unit length, and of the graph and its weights."""
    vectors = dims.whole("name", "component") + dims.whole("other", itemsize=1)
    return 2 * (vectors + dims.whole("edge", itemsize=EDGE_BYTES))


SYSTEM = System(
    ImputationJob,
    stages,
    table_dimensions,
    REPORT,
    REPORT,
    inference=VIEWS,
    explanation=VIEWS,
    explorer=REPORT,
    own_items=OwnItems("join", "hold_out", "hidden names, centered cosine", REPORT),
    presets=PRESETS,
    outputs=(*declared_in(outputs), KEPT_DISTANCES.output),
    report_bytes=report_bytes,
)
