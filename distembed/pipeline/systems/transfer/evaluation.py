"""The stage of topic transfer that judges every method on the pairs that are not known."""

from __future__ import annotations

import warnings
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.costs import Cost
from distembed.evaluation.transfer import MethodScore, score_methods, score_transfer
from distembed.execution import compute, persist
from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.inference import TwoSets, infer_by_each_method
from distembed.neighbors.graphs import neighbor_affinity
from distembed.pipeline.context import Context, stored_sparse
from distembed.pipeline.corpus.collections import SIDES, ParallelSizes
from distembed.pipeline.systems.transfer.arrays import in_memory
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.pipeline.systems.transfer.embedding import embedding_of, fit_bytes, n_systems
from distembed.pipeline.systems.transfer.features import (
    first_values,
    has_topics,
    inferred_name,
    scale_of,
    scores_name,
)
from distembed.pipeline.systems.transfer.graphs import matching_bytes, pair_search_tasks
from distembed.pipeline.systems.transfer.rows import rows_of
from distembed.pipeline.systems.transfer.sizes import edge_bytes, row_bytes
from distembed.storage.workspace import Workspace

Floats = NDArray[np.float64]


HELD_COPIES = 12
"""Copies of the rows of both collections, in float32, that the compared methods hold."""


def plan_evaluation(job: TransferJob, sizes: ParallelSizes) -> Cost:
    """Return the plan of an embedding and a search for each draw of known pairs."""
    n_draws = len(job.evaluation.shares) * job.evaluation.n_seeds
    read = row_bytes(job, sizes) + edge_bytes(job, sizes)
    task = matching_bytes(job, sizes) + fit_bytes(job, sizes)
    n_tasks = n_draws * (n_systems(job) + pair_search_tasks(job, sizes))
    # The controls take the rows in memory, which are read even where there is no draw.
    held = (HELD_COPIES if n_draws else 1) * row_bytes(job, sizes)
    return Cost(n_tasks, read, 2**14, task, held, exact=sizes.exact)


def run_evaluation(ctx: Context) -> dict[str, Any]:
    """Judge every method on the pairs not known, over shares and draws of the known ones."""
    options = ctx.job.evaluation
    sets = _two_sets(ctx)
    table = ctx.workspace.table("pairs")
    pairs = np.column_stack([np.asarray(table["first"]), np.asarray(table["second"])])
    pairs = pairs[~np.isnan(sets.features[pairs[:, 0]]).any(axis=1)]
    if options.topic is not None:
        sets, pairs = _dominated(ctx, sets, pairs)
    cells = [(share, seed) for share in options.shares for seed in range(options.n_seeds)]
    rows = []
    for done, (share, seed) in enumerate(cells if len(pairs) > 1 else []):
        n_known = min(max(1, round(share * len(pairs))), len(pairs) - 1)
        draw = {"share": share, "n_known": n_known, "seed": seed}
        rows += [{**draw, **score._asdict()} for score in _scores(ctx, sets, pairs, n_known, seed)]
        ctx.progress("evaluation")(done + 1, len(cells))
    ctx.stage.store_table("scores", pa.Table.from_pylist(rows, scores_schema()))
    ctx.stage.store_table(scores_name(ctx.job), _value_scores(ctx.job, ctx.workspace))
    return {"n_draws": len(cells) if len(pairs) > 1 else 0, "n_pairs": len(pairs)}


def scores_schema() -> pa.Schema:
    """Return the columns of the table of scores: a row for each draw and method."""
    names = {"share": pa.float64(), "n_known": pa.int64(), "seed": pa.int64(), "method": pa.string()}
    return pa.schema(names | dict.fromkeys(MethodScore._fields[1:], pa.float64()))


def _two_sets(ctx: Context) -> TwoSets:
    first, second = (in_memory(rows_of(ctx.job, ctx.workspace, side)) for side in SIDES)
    graphs = [stored_sparse(ctx.workspace, f"{side}_graph") for side in SIDES]
    values = first_values(ctx.job, ctx.workspace)
    return TwoSets(first, second, (graphs[0], graphs[1]), values)


def _dominated(ctx: Context, sets: TwoSets, pairs: NDArray[np.int64]) -> tuple[TwoSets, NDArray[np.int64]]:
    """Return the documents dominated by a topic with their counterparts as two sets, and their pairs.

    Raises
    ------
    ValueError
        If these are fewer than three.
    """
    options = ctx.job.evaluation
    share = sets.features[pairs[:, 0], options.topic]
    kept = pairs[
        (share >= options.topic_share) & (sets.features[pairs[:, 0]].argmax(axis=1) == options.topic)
    ]
    if len(kept) < 3:
        raise ValueError(
            f"{len(kept)} documents with a counterpart have {options.topic_share:g} of topic {options.topic} or more: "
            "take another evaluation.topic, or a smaller evaluation.topic_share"
        )
    first, second = sets.first[kept[:, 0]], sets.second[kept[:, 1]]
    graphs = _graph_of(ctx, first), _graph_of(ctx, second)
    some = TwoSets(first, second, graphs, sets.features[kept[:, 0]])
    return some, np.column_stack([np.arange(len(kept))] * 2)


def _graph_of(ctx: Context, rows: Any) -> sp.csr_array:
    """Return the graph of some documents, made as that of all is."""
    options = ctx.job.alignment
    k = min(options.n_neighbors, rows.shape[0] - 1)
    return neighbor_affinity(rows, k, affinity=options.affinity, symmetry=options.symmetry)


def _scores(
    ctx: Context, sets: TwoSets, pairs: NDArray[np.int64], n_known: int, seed: int
) -> list[MethodScore]:
    """Return the scores of one draw of known pairs, kept in the stage under names of its own."""

    def make() -> da.Array:
        scores = _draw_scores(ctx, sets, pairs, n_known, seed)
        return da.from_array(np.array([score[1:] for score in scores]), chunks=-1)

    kept = compute(ctx.stage.checkpoint(f"known-{n_known}-draw-{seed}", make))
    names = method_names(ctx.job)
    return [MethodScore(name, *row) for name, row in zip(names, kept.tolist(), strict=True)]


def _draw_scores(
    ctx: Context, sets: TwoSets, pairs: NDArray[np.int64], n_known: int, seed: int
) -> list[MethodScore]:
    order = np.random.default_rng(seed).permutation(len(pairs))
    known, left = pairs[order[:n_known]], pairs[order[n_known:]]
    links = correspondence_matrix(known, *(graph.shape[0] for graph in sets.graphs))
    model = embedding_of(ctx).set_params(checkpoint=persist)
    with warnings.catch_warnings():
        # Few known pairs leave some documents without a value; what that costs is what is measured here.
        warnings.filterwarnings("ignore", message=".* joined to no known value")
        found = infer_by_each_method(sets, links, model, printed_rounds=ctx.job.evaluation.printed_rounds)
    scores = score_methods(found, sets.features[left[:, 0]], left[:, 0], left[:, 1])
    return sorted(scores, key=lambda score: method_names(ctx.job).index(score.method))


def method_names(job: TransferJob) -> list[str]:
    """Return the methods that are compared, in the order of their tables."""
    if job.second is None:
        return ["mean", "ridge", "nearest", "embedding"]
    dense = job.representation.kind != "tf_idf"
    controls = ["ridge", "ridge_map", "procrustes", "procrustes_1"] if dense else []
    matching = ["matching", "matching_1", "embedding_given"] if job.alignment.propagate else []
    printed = ["printed"] if job.evaluation.printed_rounds else []
    return ["mean", *controls, "alignment", *printed, *matching, "embedding"]


def _value_scores(job: TransferJob, workspace: Workspace) -> pa.Table:
    """Return how well each topic or feature was inferred by the embedding itself, over the pairs not known."""
    table, known = workspace.table("pairs"), first_values(job, workspace)
    left = ~np.asarray(table["known"]) & ~np.isnan(known[np.asarray(table["first"])]).any(axis=1)
    inferred = np.asarray(compute(workspace.array(inferred_name(job)))) / scale_of(job, workspace)
    rows = np.asarray(table["second"])[left]
    return scores_by_column(job, inferred[rows], known[np.asarray(table["first"])[left]])


def scores_by_column(job: TransferJob, inferred: Floats, true: Floats) -> pa.Table:
    """Return how well each topic or feature was inferred, without a row where there is nothing to judge."""
    what = "topic" if has_topics(job) else "feature"
    schema = pa.schema([(what, pa.int64()), ("rmse", pa.float64()), ("correlation", pa.float64())])
    if not len(true):
        return schema.empty_table()
    scores = score_transfer(inferred, true)
    columns = [np.arange(true.shape[1]), scores.topic_rmse, scores.topic_correlation]
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)
