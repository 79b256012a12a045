"""The stage that hides known names and imputes them: what the table says of the vectors."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.costs import Cost, add_costs
from distembed.display import plural
from distembed.evaluation import imputation as methods
from distembed.evaluation.imputation import (
    JUDGED_NAMES,
    Method,
    MethodRecovery,
    Recovery,
    compare_methods,
    recovery,
)
from distembed.evaluation.imputation_costs import baseline_cost, recovery_cost
from distembed.execution import compute, map_blocks, persist
from distembed.formats.tables import Floats
from distembed.job.outputs import declared_in
from distembed.job.stage import Context, OwnItems, StageSpec, System, sections
from distembed.manifold.imputation_blocks import Float64s
from distembed.manifold.imputation_choice import (
    LEAST_KNOWN,
    Candidate,
    HiddenFold,
    best_candidate,
    candidates_of,
    find_vectors,
    fold_scores,
    hold_out_folds,
    kernels_of,
    mean_scores,
)
from distembed.manifold.imputation_costs import features_cost, fold_cost, hidden_cost
from distembed.manifold.imputation_maps import KERNEL_FEATURES
from distembed.manifold.imputation_rows import SparseRows
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import HoldOutSection, ImputationJob, ImputationSection
from distembed.systems.imputation.presets import PRESETS
from distembed.systems.imputation.solving import (
    DISTANCE_STAGE,
    GRAPH_OPTIONS,
    KEPT_DISTANCES,
    SOLVE_OPTIONS,
    WEIGHT_OPTIONS,
    TableSizes,
    estimator_of,
    has_distances,
    has_labels,
    imputation_of,
    join_parameters,
    label_parameters,
    map_options,
    options_parameters,
    plan_graph,
    plan_join,
    plan_labels,
    plan_vectors,
    plan_weights,
    run_graph,
    run_join,
    run_labels,
    run_vectors,
    run_weights,
    table_sizes,
    vector_parameters,
)

IMPUTATION, CHOSEN = "imputation", "chosen on the other folds"
MAPS = {"linear": "linear map", "rbf": "kernel map"}
"""What the maps are called, by kernel."""


class Way(NamedTuple):
    """What a job can take: a method and a kernel, "auto" where they are chosen; the ridge always may be."""

    method: str
    kernel: str


def row_name(method: str, kernel: str) -> str:
    """Return the row of the hold-out in which a method with a kernel stands."""
    if method == "graph":
        return IMPUTATION
    return MAPS[kernel] if method == "linear_map" else f"{IMPUTATION} and {MAPS[kernel]}"


def own_row(options: ImputationSection) -> str:
    """Return the row of the hold-out that the method of a job stands in."""
    if options.method == "graph" or "auto" not in (options.method, options.kernel):
        return row_name(options.method, options.kernel)
    return CHOSEN


def ways_of(options: ImputationSection) -> dict[str, Way]:
    """Return what a job can take by the row of the hold-out; its own first.

    Of each fold the ridge, and what is chosen, is chosen by the names of the other folds.
    """
    plain = [Way("graph", "linear")]
    plain += [
        Way(method, name) for name in kernels_of(options.kernel) for method in ("linear_map", "combined")
    ]
    ways = {row_name(*way): way for way in plain}
    own = own_row(options)
    chosen = Way(options.method if own == CHOSEN else "auto", options.kernel)
    return dict(sorted({**ways, CHOSEN: chosen}.items(), key=lambda item: item[0] != own))


SHUFFLED, KERNEL, RIDGE, NEAREST_8, NEAREST, MEAN = (
    "shuffled table",
    "kernel ridge",
    "ridge by squared error",
    "mean of the 8 nearest known",
    "the nearest known",
    "mean of the known vectors",
)
"""Controls: the graph of the table with its rows shuffled, and methods that know no graph."""

BASELINES = {
    KERNEL: "kernel_ridge",
    RIDGE: "linear_map",
    NEAREST_8: "nearest_mean",
    NEAREST: "nearest_one",
    MEAN: "mean_vector",
}
"""The function of `distembed.evaluation.imputation` that each method which knows no graph is."""

KERNEL_NAMES = 2000
"""Known names, at most, that kernel ridge is fitted to: it holds the kernel of all pairs of them."""


def baselines_of(options: ImputationSection) -> dict[str, str]:
    """Return the controls of a job: not the kernel ridge where the job's own maps are of the same kernel."""
    return {name: way for name, way in BASELINES.items() if name != KERNEL or options.kernel == "linear"}


LINEAR_NAMES = 20_000
"""Known names, at most, that the other baselines of a fold are fitted to."""


def hold_out_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the options of the hold-out and of the solver, and by what it judges: once by the plain cosine."""
    options = options_parameters({*SOLVE_OPTIONS, *map_options(job)})(job)
    return {**options, **sections("evaluation")(job), "judged_by": "centered_cosine"}


def plan_hold_out(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of imputing hidden names: per fold what all methods do, and vectors on a shuffled graph."""
    model, n_folds = estimator_of(job), job.evaluation.n_folds
    n, width = sizes.n_known, sizes.vectors.n_columns
    n_hidden = min(job.evaluation.max_names, n)
    of_fold = -(-n_hidden // n_folds)
    fold = [
        fold_cost(model, sizes.domain, sizes.vectors, of_fold),
        hidden_cost(model, sizes.vectors, of_fold),
    ]
    baselines = baselines_of(job.imputation)
    for name, method in baselines.items():
        n_fitted = min(n, KERNEL_NAMES if name == KERNEL else LINEAR_NAMES)
        widths = {"n_columns": sizes.domain.n_columns, "n_components": width}
        fold.append(baseline_cost(getattr(methods, method), n_fitted, of_fold, **widths))
    judged = recovery_cost(len(ways_of(job.imputation)) + 1 + len(baselines), n, n_hidden, width)
    return add_costs([features_cost(model, sizes.domain), *(n_folds * fold), judged])


class _Fold(NamedTuple):
    """What is found for the names that are hidden in a fold.

    Attributes
    ----------
    hidden : what the methods of a job find them from
    baselines : (h, s) each, by name
    scores : the centered cosine of each name, by candidate
    """

    hidden: HiddenFold
    baselines: dict[str, Floats]
    scores: dict[Candidate, Float64s]


def run_hold_out(ctx: Context) -> dict[str, Any]:
    """Hide known names in folds, impute them, choose the method, and compare with their true vectors and controls."""
    vocabulary, seed = outputs.VOCABULARY.read(ctx.workspace), ctx.job.evaluation.random_state
    known = np.flatnonzero(np.array(vocabulary["origin"].to_pylist(), object) == "known")
    _check_choice(ctx.job, known.size)
    rows = _folds(ctx, known)
    folds = [_fold(ctx, number, rows, known) for number in range(len(rows))]
    hidden = np.concatenate([np.empty(0, np.int64), *rows])
    truth = compute(outputs.KNOWN_VECTORS.read(ctx.workspace)[known])
    centers = [np.tile(fold.hidden.mean, (len(at), 1)) for fold, at in zip(folds, rows, strict=True)]
    found = _found(ctx.job, folds)
    scores = {
        method: recovery(
            vectors,
            np.searchsorted(known, hidden),
            truth,
            labels=vocabulary["label"].take(known).to_pylist(),
            centers=np.concatenate(centers),
        )
        for method, vectors in found.items()
    }
    ctx.store_table(outputs.HOLD_OUT_NAMES, _names_table(scores, vocabulary["word"].take(hidden), rows))
    summary = compare_methods(scores, n_known=known.size, seed=seed) if scores else []
    columns = {name: [getattr(row, name) for row in summary] for name in MethodRecovery._fields}
    ctx.store_table(outputs.HOLD_OUT, pa.table(columns))
    facts = {"n_hidden": int(hidden.size), "n_folds": len(folds), "n_known": int(known.size)}
    return facts | _choice(ctx, [fold.scores for fold in folds])


def _folds(ctx: Context, known: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the rows to hide in each fold: none where they are too few to judge a table or to choose a method by."""
    options: HoldOutSection = ctx.job.evaluation
    if ctx.job.imputation.method == "auto" and known.size < LEAST_KNOWN:
        ctx.reporter.note(f"hold_out: nothing is hidden: {too_few_to_choose(known.size)}")
        return []
    if min(known.size, options.max_names) < JUDGED_NAMES and not ctx.job.imputation.is_chosen:
        ctx.reporter.note(
            f"hold_out: nothing is hidden: fewer than {JUDGED_NAMES} names would judge the table"
        )
        return []
    return hold_out_folds(
        known, n_folds=options.n_folds, max_names=options.max_names, seed=options.random_state
    )


def too_few_to_choose(n_known: int) -> str:
    """Return why the graph is taken where `imputation.method` is "auto" and few names are known."""
    names = f"{plural(n_known, 'name')} with a known vector {'is' if n_known == 1 else 'are'}"
    return f"{names} too few to choose a method by, which takes {LEAST_KNOWN}: the graph was taken"


def _check_choice(job: ImputationJob, n_known: int) -> None:
    """Raise ValueError where there are too few known names to choose a map by; "auto" then takes the graph."""
    if job.imputation.method != "auto" and job.imputation.is_chosen and n_known < LEAST_KNOWN:
        raise ValueError(
            f"imputation.method is {job.imputation.method!r}, which is chosen on known names that are hidden, but "
            f'{plural(n_known, "name")} matched a known vector: set imputation.method = "graph", or give at least '
            f"{LEAST_KNOWN} known names"
        )


def _choice(ctx: Context, scores: list[dict[Candidate, Float64s]]) -> dict[str, Any]:
    """Store the mean score of every candidate, and return the one to take."""
    means = mean_scores(scores) if scores else {}
    candidates = _candidates(ctx.job.imputation)
    best = best_candidate(scores, candidates) if scores else candidates[0]
    columns = {
        "method": pa.array([one.method for one in means], pa.string()),
        "ridge": pa.array([one.ridge for one in means], pa.float64()),
        "centered_cosine": pa.array(list(means.values()), pa.float64()),
        "kernel": pa.array([one.kernel for one in means], pa.string()),
    }
    ctx.store_table(outputs.CHOICE, pa.table(columns))
    return best._asdict()


def _candidates(options: ImputationSection) -> list[Candidate]:
    """Return what the job chooses among; one candidate where nothing is left to choose."""
    return candidates_of(options.method, options.kernel, options.ridge)


def _found(job: ImputationJob, folds: list[_Fold]) -> dict[str, Floats]:
    """Return what every method finds for all hidden names, the job's own first, (names, s) each."""
    if not folds:
        return {}
    own = own_row(job.imputation)
    methods = {
        name: np.concatenate(
            [
                find_vectors(fold.hidden, _candidate(job, way, folds, number, is_own=name == own))
                for number, fold in enumerate(folds)
            ]
        )
        for name, way in ways_of(job.imputation).items()
    }
    baselines = {
        name: np.concatenate([fold.baselines[name] for fold in folds]) for name in folds[0].baselines
    }
    return {**methods, **baselines}


def _candidate(job: ImputationJob, way: Way, folds: list[_Fold], number: int, *, is_own: bool) -> Candidate:
    """Return what a way is in a fold: its ridge is the job's, or chosen by the names of the other folds."""
    candidates = candidates_of(*way, job.imputation.ridge if is_own else None)
    if len(candidates) == 1:
        return candidates[0]
    return best_candidate([fold.scores for other, fold in enumerate(folds) if other != number], candidates)


def _fold(ctx: Context, number: int, folds: list[NDArray[np.int64]], known: NDArray[np.int64]) -> _Fold:
    """Return what every method finds for the hidden names of a fold."""
    hidden = folds[number]
    rng = np.random.default_rng((ctx.job.evaluation.random_state, number))
    X, Y = (one.read(ctx.workspace) for one in (outputs.DOMAIN, outputs.KNOWN_VECTORS))
    order = np.arange(len(X))
    order[known] = rng.permutation(known)
    fitted = rng.permutation(np.setdiff1d(known, hidden))[:LINEAR_NAMES]
    keep, name = ctx.stage.checkpoint, f"fold-{number}"
    # The features of the kernel are those of all known rows of the table, the same in every fold.
    model = imputation_of(ctx).set_params(
        checkpoint=lambda part, make: keep(part if part == KERNEL_FEATURES else f"{name}-{part}", make)
    )
    model.set_weights(outputs.WEIGHTS.read(ctx.workspace))
    found = model.hidden_fold(X, Y, hidden)
    make = partial(_rows_of_shuffled, ctx, model.weights_, order, hidden)
    baselines = {SHUFFLED: keep(f"{name}-shuffled", make)}
    for place, (baseline, method) in enumerate(baselines_of(ctx.job.imputation).items()):
        of_names = fitted[:KERNEL_NAMES] if baseline == KERNEL else fitted
        make = partial(_mapped_rows, ctx, getattr(methods, method), of_names, hidden)
        baselines[baseline] = keep(f"{name}-baseline-{place}", make)
    ctx.progress("folds")(number + 1, len(folds))
    tried = [*candidates_of("auto", ctx.job.imputation.kernel), *_candidates(ctx.job.imputation)]
    scores = fold_scores(found, compute(Y[hidden]).astype(np.float64), tried)
    return _Fold(found, {method: compute(vectors) for method, vectors in baselines.items()}, scores)


def _rows_of_shuffled(
    ctx: Context, weights: SparseRows, order: NDArray[np.int64], hidden: NDArray[np.int64]
) -> da.Array:
    """Return the vectors that imputation finds for hidden names on the table with its rows in another order.

    Its graph is the graph, in that order. Weights in row blocks stay as they are: the vectors take the order back.
    """
    vectors = outputs.KNOWN_VECTORS.read(ctx.workspace)
    is_hidden = np.zeros((vectors.shape[0], 1), bool)
    is_hidden[hidden] = True
    mask = da.from_array(is_hidden, chunks=(vectors.chunks[0], 1))
    masked, rows = map_blocks(_hide, vectors, mask, dtype=vectors.dtype, chunks=vectors.chunks), hidden
    if isinstance(weights, da.Array):
        masked, rows = masked[np.argsort(order)], order[hidden]
    else:
        weights = weights[order][:, order]
    model = (
        imputation_of(ctx)
        .set_params(checkpoint=persist, method="graph")
        .set_weights(weights)
        .fit_vectors(masked)
    )
    return da.from_array(compute(model.vectors_[rows]), chunks=-1)


def _hide(vectors: Floats, is_hidden: NDArray[np.bool_]) -> Floats:
    return np.where(is_hidden, np.nan, vectors).astype(vectors.dtype, copy=False)


def _mapped_rows(
    ctx: Context, method: Method, fitted: NDArray[np.int64], hidden: NDArray[np.int64]
) -> da.Array:
    """Return the vectors that a method without a graph finds for hidden names from others, in one block."""
    rows = np.sort(np.concatenate([fitted, hidden]))
    X, Y = (
        compute(one.read(ctx.workspace)[rows]).astype(np.float64)
        for one in (outputs.DOMAIN, outputs.KNOWN_VECTORS)
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


def stages(job: ImputationJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job; that of labels only where its tables name labels.

    The vectors wait for the hidden names where these choose the method.
    """
    chosen = job.imputation.is_chosen
    after = ("join", "weights", "hold_out") if chosen else ("join", "weights")
    vectors = StageSpec("vectors", after, vector_parameters, run_vectors, plan_vectors)
    hold_out = StageSpec("hold_out", ("join", "weights"), hold_out_parameters, run_hold_out, plan_hold_out)
    labels = StageSpec("neighbor_labels", ("join", "vectors"), label_parameters, run_labels, plan_labels)
    searched = ("join", "distances") if has_distances(job) else ("join",)
    return (
        # Its plan reads the whole table, as it does itself.
        StageSpec("join", (), join_parameters, run_join, plan_join, counted_first_bytes=sys.maxsize),
        *((DISTANCE_STAGE,) if has_distances(job) else ()),
        StageSpec("graph", searched, options_parameters(GRAPH_OPTIONS), run_graph, plan_graph),
        StageSpec(
            "weights", ("join", "graph"), options_parameters(WEIGHT_OPTIONS), run_weights, plan_weights
        ),
        *((hold_out, vectors) if chosen else (vectors, hold_out)),
        *((labels,) if has_labels(job) else ()),
    )


SYSTEM = System(
    ImputationJob,
    stages,
    table_sizes,
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
