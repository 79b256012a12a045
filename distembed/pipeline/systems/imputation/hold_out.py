"""The stage that hides known names and imputes them: what the table says of the vectors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

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
from distembed.execution import compute, map_blocks, persist
from distembed.pipeline.context import Context, sections, stored_sparse
from distembed.pipeline.plan import StagePlan
from distembed.pipeline.systems.imputation.config import HoldOutSection, ImputationJob
from distembed.pipeline.systems.imputation.join import TableSizes, options_parameters
from distembed.pipeline.systems.imputation.solving import SOLVE_OPTIONS, imputation_of, plan_vectors
from distembed.pipeline.tables.files import Floats

IMPUTATION, SHUFFLED, LINEAR, MEAN = "imputation", "shuffled table", "linear map", "mean of the known vectors"
"""What fills in the hidden names: the job's own method, and three controls."""

LINEAR_NAMES = 20_000
"""Known names, at most, that the linear map of a fold is fitted to."""

LINEAR_COPIES = 6
"""Copies in float64 of the table and vectors of these names that the fit of the linear map holds."""


def hold_out_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the options of the hold-out and of the solver."""
    return {**options_parameters(SOLVE_OPTIONS)(job), **sections("evaluation")(job)}


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
