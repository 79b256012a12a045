"""The stage that hides known names and imputes them: what the table says of the vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from distembed.display import plural
from distembed.dtypes import Floats, Int64s, Mask
from distembed.evaluation.imputation import (
    DISTANCE_COPIES,
    JUDGED_NAMES,
    QUERIES_AT_ONCE,
    ROW_COPIES,
    Imputer,
    MethodRecovery,
    Recovery,
    compare_methods,
    hold_out_folds,
    mean_vector,
    nearest_mean,
    nearest_one,
    recovery,
)
from distembed.evaluation.transfer import ranks_of_rows
from distembed.execution import compute, one_blas_thread
from distembed.job.outputs import declared_in
from distembed.job.stage import Context, OwnItems, StageSpec, System, sections
from distembed.lift import block, lift
from distembed.linalg.operators import whole_csr
from distembed.manifold.regressions import LINEAR_ROWS, impute_by
from distembed.plan import Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages.kept_matrices import kept_stages
from distembed.states import keep, keeping
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import PRESETS, HoldOutSection, ImputationJob
from distembed.systems.imputation.solving import (
    GRAPH_OPTIONS,
    KEPT_DISTANCES,
    REGRESSORS,
    SOLVE_OPTIONS,
    WEIGHT_OPTIONS,
    by_graph,
    check_labels,
    has_labels,
    join_parameters,
    label_parameters,
    options_parameters,
    plan_graph,
    plan_join,
    plan_labels,
    plan_regression,
    plan_systems,
    plan_vectors,
    plan_weights,
    run_graph,
    run_join,
    run_labels,
    run_vectors,
    run_weights,
    table_dimensions,
)

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
    "the nearest known": nearest_one,
    "mean of the known vectors": mean_vector,
}
"""Controls that know no graph."""


def own_row(job: ImputationJob) -> str:
    """Return the row of the hold-out that the method of a job stands in."""
    return METHODS.get(job.imputation.method, CHOSEN)


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
        plan_systems(job, dims),
        plan_systems(job, dims, residuals=True),
        plan_regression(dims, kernel=True),
        baseline,
        stage_plan(ranked, whole=[ROW_COPIES * known, 3 * QUERIES_AT_ONCE * dims.whole("known", itemsize=8)]),
    )._replace(stored_bytes=found)


def run_hold_out(ctx: Context) -> dict[str, Any]:
    """Hide known names in folds, impute them, choose the method, and compare with their true vectors and controls."""
    vocabulary, seed = outputs.VOCABULARY.read(ctx.workspace), ctx.job.evaluation.random_state
    known = np.flatnonzero(np.array(vocabulary["origin"].to_pylist(), object) == "known")
    rows = _folds(ctx, known)
    folds = [_fold(ctx, number, rows, known) for number in range(len(rows))]
    hidden = np.concatenate([np.empty(0, np.int64), *rows])
    fold = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
    truth = compute(outputs.KNOWN_VECTORS.read(ctx.workspace)[known])
    means = [truth[~np.isin(known, one)].mean(axis=0, dtype=np.float64) for one in rows]
    centers = [np.tile(mean, (len(one), 1)) for mean, one in zip(means, rows, strict=True)]
    scores = {
        method: recovery(
            np.concatenate([found[method] for found in folds]),
            np.searchsorted(known, hidden),
            truth,
            labels=vocabulary["label"].take(known).to_pylist(),
            centers=np.concatenate(centers),
        )
        for method in sorted(folds[0] if folds else (), key=lambda row: row != own_row(ctx.job))
    }
    method = ctx.job.imputation.method
    if method == "auto":
        method = _best(scores, fold >= 0) if scores else "graph"
        scores = {CHOSEN: _chosen(scores, fold), **scores} if scores else {}
    ctx.store_table(outputs.HOLD_OUT_NAMES, _names_table(scores, vocabulary["word"].take(hidden), fold))
    summary = compare_methods(scores, n_known=known.size, seed=seed) if scores else []
    columns = {name: [getattr(row, name) for row in summary] for name in MethodRecovery._fields}
    ctx.store_table(outputs.HOLD_OUT, pa.table(columns))
    counts = {"n_hidden": int(hidden.size), "n_folds": len(folds), "n_known": int(known.size)}
    return {**counts, "method": method}


def _folds(ctx: Context, known: Int64s) -> list[Int64s]:
    """Return the rows to hide in each fold: none where they are too few to judge a table or to choose a method by."""
    options: HoldOutSection = ctx.job.evaluation
    if min(known.size, options.max_names) < JUDGED_NAMES:
        why = f"fewer than {JUDGED_NAMES} names would judge the table"
        if ctx.job.imputation.method == "auto":
            why = too_few_to_choose(min(known.size, options.max_names))
        ctx.reporter.note(f"hold_out: nothing is hidden: {why}")
        return []
    return hold_out_folds(
        known, n_folds=options.n_folds, max_names=options.max_names, seed=options.random_state
    )


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
    hidden = folds[number]
    rng = np.random.default_rng((ctx.job.evaluation.random_state, number))
    weights = whole_csr(outputs.WEIGHTS.read(ctx.workspace))
    order = np.arange(weights.shape[0])
    order[known] = rng.permutation(known)
    fitted = np.sort(rng.permutation(np.setdiff1d(known, hidden))[:LINEAR_ROWS])
    rows = np.sort(np.concatenate([fitted, hidden]))
    found = partial(_by_graph, ctx, hidden)
    alone = partial(_by_rows, ctx, hidden, rows)
    ways: dict[str, Callable[[], Floats]] = {
        METHODS["graph"]: partial(found, weights),
        **{METHODS[name]: partial(alone, partial(impute_by, one)) for name, one in REGRESSORS.items()},
        METHODS["residuals"]: partial(found, weights, residuals=True),
        SHUFFLED: partial(found, weights[order][:, order]),
        **{name: partial(alone, imputer) for name, imputer in BASELINES.items()},
    }
    vectors = {
        row: compute(keep(f"fold-{number}-{place}", partial(_alone, way)))
        for place, (row, way) in enumerate(ways.items())
    }
    ctx.progress("folds")(number + 1, len(folds))
    return vectors


def _alone(way: Callable[[], Floats]) -> Floats:
    with keeping(None):  # the vectors of a fold are small enough to be made again
        return way()


def _by_graph(ctx: Context, hidden: Int64s, weights: sp.csr_array, *, residuals: bool = False) -> Floats:
    """Return the vectors that imputation finds for hidden names."""
    X, vectors = (one.read(ctx.workspace) for one in (outputs.DOMAIN, outputs.KNOWN_VECTORS))
    is_hidden = np.zeros((vectors.shape[0], 1), bool)
    is_hidden[hidden] = True
    mask = da.from_array(is_hidden, chunks=(vectors.chunks[0], 1))
    masked = lift(_hide, "wc,wk->wc", vectors, mask, dtype=vectors.dtype)
    return compute(by_graph(ctx.job, weights, X, masked, residuals=residuals).vectors[hidden])


@block(temporaries=0.5)
def _hide(vectors: Floats, is_hidden: Mask) -> Floats:
    return np.where(is_hidden, np.nan, vectors).astype(vectors.dtype, copy=False)


def _by_rows(ctx: Context, hidden: Int64s, rows: Int64s, imputer: Imputer) -> Floats:
    """Return the vectors that an imputer without a graph finds for hidden names among some rows."""
    X, Y = (
        compute(one.read(ctx.workspace)[rows]).astype(np.float64)
        for one in (outputs.DOMAIN, outputs.KNOWN_VECTORS)
    )
    at = np.searchsorted(rows, hidden)
    Y[at] = np.nan
    with one_blas_thread():
        return np.asarray(imputer(X, Y)[at], np.float32)


def _names_table(scores: Mapping[str, Recovery], words: pa.ChunkedArray, fold: Int64s) -> pa.Table:
    """Return a row per hidden name and method: its fold, cosine, rank and the share of neighbors of its label."""
    columns: dict[str, list[Any]] = {name: [] for name in ("word", "fold", "method", *Recovery._fields)}
    for method, score in scores.items():
        columns["word"] += words.to_pylist()
        columns["fold"] += fold.tolist()
        columns["method"] += [method] * fold.size
        for name, values in score._asdict().items():
            columns[name] += values.tolist()
    return pa.table(columns)


def stages(job: ImputationJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job; that of labels only where its tables name labels.

    The vectors wait for the hidden names where these choose the method.
    """
    is_chosen = job.imputation.method == "auto"
    after = ("join", "weights", "hold_out") if is_chosen else ("join", "weights")
    solving = options_parameters({*SOLVE_OPTIONS, "method"})
    vectors = StageSpec("vectors", after, solving, run_vectors, plan_vectors)
    hold_out = StageSpec(
        "hold_out",
        ("join", "weights"),
        lambda job: {**solving(job), **sections("evaluation")(job)},
        run_hold_out,
        plan_hold_out,
    )
    labels = StageSpec("neighbor_labels", ("join", "vectors"), label_parameters, run_labels, plan_labels)
    return (
        StageSpec("join", (), join_parameters, run_join, plan_join, check_labels),
        *kept_stages(job, KEPT_DISTANCES.stage_spec),
        StageSpec("graph", ("join",), options_parameters(GRAPH_OPTIONS), run_graph, plan_graph),
        StageSpec(
            "weights", ("join", "graph"), options_parameters(WEIGHT_OPTIONS), run_weights, plan_weights
        ),
        *((hold_out, vectors) if is_chosen else (vectors, hold_out)),
        *((labels,) if has_labels(job) else ()),
    )


SYSTEM = System(
    ImputationJob,
    stages,
    table_dimensions,
    "distembed.systems.imputation.views",
    "distembed.systems.imputation.views",
    inference="distembed.systems.imputation.inference",
    explanation="distembed.systems.imputation.explanation",
    explorer="distembed.systems.imputation.views",
    own_items=OwnItems(
        "join",
        "hold_out",
        "hidden names, centered cosine",
        "distembed.systems.imputation.evaluation_report",
    ),
    presets=PRESETS,
    outputs=(*declared_in(outputs), KEPT_DISTANCES.output),
)
