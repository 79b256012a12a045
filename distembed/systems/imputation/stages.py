"""The stages of an imputation, and those that judge it: known names that are hidden, and the labels of neighbors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from sklearn.dummy import DummyRegressor

from distembed.display import plural
from distembed.dtypes import Floats, Int64s, Mask
from distembed.evaluation.imputation import (
    DISTANCE_COPIES,
    JUDGED_NAMES,
    NEIGHBOR_COUNTS,
    QUERIES_AT_ONCE,
    ROW_COPIES,
    VOTES,
    Imputer,
    MethodRecovery,
    Recovery,
    compare_methods,
    hold_out_folds,
    nearest_mean,
    neighbor_label_accuracy,
    recovery,
)
from distembed.evaluation.transfer import ranks_of_rows
from distembed.execution import compute, one_blas_thread, tell
from distembed.job.model import check_figures
from distembed.job.outputs import declared_in
from distembed.job.stage import Context, OwnItems, StageSpec, System, sections
from distembed.linalg.operators import whole_csr
from distembed.manifold.regressions import LINEAR_ROWS, impute_by
from distembed.plan import Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages.kept_matrices import kept_stages
from distembed.states import keep, keeping
from distembed.systems.imputation import outputs, solving
from distembed.systems.imputation.job import PRESETS, HoldOutSection, ImputationJob
from distembed.systems.imputation.solving import REGRESSORS

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

BASELINES: Mapping[str, Imputer] = {
    "mean of the 8 nearest known": nearest_mean,
    "the nearest known": partial(nearest_mean, k=1),
    "mean of the known vectors": partial(impute_by, DummyRegressor()),
}
"""Controls that know no graph."""


def plan_hold_out(job: ImputationJob, dims: Dimensions) -> StagePlan:
    """Return the plan of imputing hidden names by each method in turn, and of judging what they find."""
    known = dims.whole("known", "component", itemsize=8) + dims.whole("hidden", "component", itemsize=8)
    baseline = stage_plan(
        whole=[
            ROW_COPIES * (dims.whole("fitted", name, itemsize=8) + dims.block("hidden", name, itemsize=8))
            for name in ("column", "component")
        ]
        + [DISTANCE_COPIES * dims.size("fitted") * dims.block("hidden", itemsize=8)]
    )
    cosines = dims.whole("known", "hidden", itemsize=8)
    ranked = task(ranks_of_rows, output=min(cosines, job.resources.block_memory // 4))
    found = (len(METHODS) + 2 + len(BASELINES)) * dims.whole("hidden", "component")
    return in_turn(
        solving.plan_systems(job, dims),
        solving.plan_regressions(dims),
        baseline,
        stage_plan(ranked, whole=[ROW_COPIES * known, 3 * QUERIES_AT_ONCE * dims.whole("known", itemsize=8)]),
    )._replace(stored_bytes=found)


def run_hold_out(ctx: Context) -> dict[str, Any]:
    """Hide known names in folds, impute them, choose the method, and compare with their true vectors and controls."""
    job, vocabulary = ctx.job, outputs.VOCABULARY.read(ctx.workspace)
    known = np.flatnonzero(np.array(vocabulary["origin"].to_pylist(), object) == "known")
    options: HoldOutSection = job.evaluation
    n_names, method, rows = min(known.size, options.max_names), job.imputation.method, list[Int64s]()
    if n_names >= JUDGED_NAMES:
        limits = {"n_folds": options.n_folds, "max_names": options.max_names}
        rows = hold_out_folds(known, **limits, seed=options.random_state)
    else:
        why = f"fewer than {JUDGED_NAMES} names would judge the table"
        why = too_few_to_choose(n_names) if method == "auto" else why
        ctx.reporter.note(f"hold_out: nothing is hidden: {why}")
    folds = [_fold(ctx, number, rows, known) for number in range(len(rows))]
    hidden = np.concatenate([np.empty(0, np.int64), *rows])
    fold = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
    truth = compute(outputs.KNOWN_VECTORS.read(ctx.workspace)[known])
    means = [truth[~np.isin(known, one)].mean(axis=0, dtype=np.float64) for one in rows]
    own = METHODS.get(method, CHOSEN)
    scores = {
        name: recovery(
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
    for name in Recovery._fields:
        columns[name] = [value for score in scores.values() for value in getattr(score, name).tolist()]
    ctx.store_table(outputs.HOLD_OUT_NAMES, pa.table(columns))
    summary = compare_methods(scores, n_known=known.size, seed=options.random_state) if scores else []
    figures = {name: [getattr(row, name) for row in summary] for name in MethodRecovery._fields}
    ctx.store_table(outputs.HOLD_OUT, pa.table(figures))
    counts = {"n_hidden": int(hidden.size), "n_folds": len(folds), "n_known": int(known.size)}
    return {**counts, "method": method}


def too_few_to_choose(n_names: int) -> str:
    """Return why the graph is taken where `imputation.method` is "auto" and few known names can be hidden."""
    names = f"{plural(n_names, 'name')} with a known vector {'is' if n_names == 1 else 'are'}"
    return f"{names} too few to choose a method by, which takes {JUDGED_NAMES}: the graph was taken"


def _best(scores: Mapping[str, Recovery], names: Mask) -> str:
    """Return the method with the largest mean centered cosine of some hidden names."""
    return max(METHODS, key=lambda method: scores[METHODS[method]].centered_cosine[names].mean())


def _chosen(scores: Mapping[str, Recovery], fold: Int64s) -> Recovery:
    """Return how near the hidden names of each fold come by the best method of the other folds."""
    best = [METHODS[_best(scores, fold != number)] for number in range(int(fold.max()) + 1)]
    parts = [[values[fold == number] for values in scores[row]] for number, row in enumerate(best)]
    return Recovery(*map(np.concatenate, zip(*parts, strict=True)))


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
        found: Floats = compute(solving.by_graph(ctx.job, W, X, masked, residuals=residuals)[0][hidden])
        return found

    def without_graph(imputer: Imputer) -> Floats:
        some = (one.astype(np.float64) for one in compute((X[rows], masked[rows])))
        with one_blas_thread():
            return np.asarray(imputer(*some)[np.searchsorted(rows, hidden)], np.float32)

    ways: dict[str, Callable[[], Floats]] = {
        METHODS["graph"]: partial(graph, weights),
        **{
            METHODS[name]: partial(without_graph, partial(impute_by, one)) for name, one in REGRESSORS.items()
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
    "rows": [VOTED.format(name, votes) for name in (KNOWN, ALL, TABLE, SHUFFLED_LABELS) for votes in VOTES],
    "columns": list(map(AMONG.format, NEIGHBOR_COUNTS)),
}
"""The names that figures of a paper may have."""


LABEL_COPIES = 6
"""Copies of the table and the vectors in memory: as read, in float64, and those of the names that are known."""


def plan_labels(job: ImputationJob, dims: Dimensions) -> StagePlan:
    """Return the plan of searching the neighbors of at most `max_names` names, a few at a time."""
    read = dims.whole("name", "column", itemsize=8) + dims.whole("name", "component")
    n_asked, votes = min(dims.size("name"), job.evaluation.max_names), max(NEIGHBOR_COUNTS) ** 2
    return stage_plan(
        dims.whole("name", 3 * QUERIES_AT_ONCE, itemsize=8),
        whole=[
            LABEL_COPIES * read,
            dims.whole(n_asked, votes, itemsize=9),
        ],  # if labels are equal, and a share
    )


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
        KNOWN: (vectors[of_known], labels[of_known].tolist()),
        ALL: (vectors[labeled], labels[labeled].tolist()),
        TABLE: (domain[labeled], labels[labeled].tolist()),
        SHUFFLED_LABELS: (vectors[labeled], shuffled.tolist()),
    }
    found = list[tuple[str, str, int, int, float]]()
    for name, (space, called) in spaces.items():
        n, rows = len(called), compute(space)  # one of them is in memory at a time
        asked = np.sort(np.random.default_rng(options.random_state).permutation(n)[: options.max_names])
        counts = [k for k in NEIGHBOR_COUNTS if k < n]
        for votes in VOTES if counts else ():
            shares = neighbor_label_accuracy(rows, called, n_neighbors=counts, weights=votes, judged=asked)
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
    solve = {*solving.SOLVE_OPTIONS, "method"}
    solved, judged = sections(imputation=solve), sections("evaluation", imputation=solve)
    both = ("join", "weights")
    specs = [
        StageSpec(
            "join",
            (),
            joined,
            solving.run_join,
            solving.plan_join,
            lambda job: check_figures(job, **IN_PAPER),
        ),
        *kept_stages(job, solving.KEPT_DISTANCES.stage_spec),
        StageSpec("graph", ("join",), graph, solving.run_graph, solving.plan_graph),
        StageSpec("weights", ("join", "graph"), weights, solving.run_weights, solving.plan_weights),
        StageSpec("vectors", both, solved, solving.run_vectors, solving.plan_vectors),
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


SYSTEM = System(
    ImputationJob,
    stages,
    solving.table_dimensions,
    "distembed.systems.imputation.report",
    "distembed.systems.imputation.report",
    inference="distembed.systems.imputation.views",
    explanation="distembed.systems.imputation.views",
    explorer="distembed.systems.imputation.report",
    own_items=OwnItems(
        "join", "hold_out", "hidden names, centered cosine", "distembed.systems.imputation.report"
    ),
    presets=PRESETS,
    outputs=(*declared_in(outputs), solving.KEPT_DISTANCES.output),
)
