"""The stage that judges the inference within one collection: known values are hidden, and inferred from the others."""

from __future__ import annotations

import warnings
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.costs import Cost
from distembed.evaluation.transfer import MethodScore, score_methods
from distembed.execution import compute, persist
from distembed.manifold.inference import OneSet, infer_within
from distembed.pipeline.context import Context, stored_sparse
from distembed.pipeline.corpus.collections import ParallelSizes
from distembed.pipeline.systems.transfer.arrays import in_memory
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.pipeline.systems.transfer.embedding import embedding_of, fit_bytes, n_systems
from distembed.pipeline.systems.transfer.evaluation import method_names, scores_by_column, scores_schema
from distembed.pipeline.systems.transfer.features import first_values, scores_name
from distembed.pipeline.systems.transfer.rows import rows_of
from distembed.pipeline.systems.transfer.sizes import edge_bytes, row_bytes

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

CONTROL_COPIES = 4
"""Copies of the rows in float64 that ridge regression and the search for the nearest documents hold."""


def plan_hold_out(job: TransferJob, sizes: ParallelSizes) -> Cost:
    """Return the plan of an embedding and the controls for each draw of known documents."""
    n_draws = len(job.evaluation.shares) * job.evaluation.n_seeds
    rows = row_bytes(job, sizes)
    task = fit_bytes(job, sizes) + CONTROL_COPIES * 2 * rows
    return Cost(n_draws * n_systems(job), rows + edge_bytes(job, sizes), 2**14, task, exact=sizes.exact)


def run_hold_out(ctx: Context) -> dict[str, Any]:
    """Judge every method on documents whose values are hidden, over shares and draws of those that are not."""
    options, values = ctx.job.evaluation, first_values(ctx.job, ctx.workspace)
    have = np.flatnonzero(~np.isnan(values).any(axis=1))
    cells = [(share, seed) for share in options.shares for seed in range(options.n_seeds)]
    rows, inferred = [], np.empty((0, values.shape[1]))
    for done, (share, seed) in enumerate(cells if have.size > 2 else []):
        n_known = min(max(2, round(share * have.size)), have.size - 1)
        hidden = np.random.default_rng(seed).permutation(have)[n_known:]
        draw = {"share": share, "n_known": n_known, "seed": seed}
        scores, inferred = _kept(ctx, values, hidden, f"known-{n_known}-draw-{seed}")
        rows += [{**draw, **score._asdict()} for score in scores]
        ctx.progress("evaluation")(done + 1, len(cells))
    ctx.stage.store_table("scores", pa.Table.from_pylist(rows, scores_schema()))
    true = values[hidden] if rows else inferred
    ctx.stage.store_table(scores_name(ctx.job), scores_by_column(ctx.job, inferred, true))
    return {"n_draws": len(rows) // len(method_names(ctx.job)), "n_judged": int(have.size)}


def _kept(ctx: Context, values: Floats, hidden: Rows, name: str) -> tuple[list[MethodScore], Floats]:
    """Return the scores of one draw, and what the embedding infers, kept in the stage under a name."""
    names = method_names(ctx.job)

    def make() -> da.Array:
        scores, inferred = _draw_scores(ctx, values, hidden)
        numbers = np.array([score[1:] for score in scores])
        return da.from_array(np.concatenate([numbers.ravel(), inferred.ravel()]), chunks=-1)

    kept = compute(ctx.stage.checkpoint(name, make))
    n = len(names) * (len(MethodScore._fields) - 1)
    numbers = kept[:n].reshape(len(names), -1).tolist()
    scores = [MethodScore(name, *row) for name, row in zip(names, numbers, strict=True)]
    return scores, kept[n:].reshape(hidden.size, -1)


def _draw_scores(ctx: Context, values: Floats, hidden: Rows) -> tuple[list[MethodScore], Floats]:
    known = values.copy()
    known[hidden] = np.nan
    rows = in_memory(rows_of(ctx.job, ctx.workspace, "first"))
    model = embedding_of(ctx).set_params(checkpoint=persist)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* joined to no known value")
        found = infer_within(OneSet(rows, stored_sparse(ctx.workspace, "first_graph"), known), model)
    scores = score_methods(
        {name: (guess, None) for name, guess in found.items()}, values[hidden], None, hidden
    )
    order = method_names(ctx.job)
    return sorted(scores, key=lambda score: order.index(score.method)), found["embedding"][hidden]
