"""The stage of topic transfer that judges every method on the pairs that are not known."""

from __future__ import annotations

import warnings
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from distembed.dtypes import Float64s, Int64s
from distembed.evaluation.transfer import MethodScore, ranks_of_rows, score_methods, score_transfer
from distembed.execution import compute
from distembed.job.model import check_figures
from distembed.job.outputs import declared_in
from distembed.job.stage import Context, StageSpec, System, sections
from distembed.linalg.operators import whole_csr
from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.inference import ALIGNMENT_COMPONENTS, TwoSets, infer_by_each_method
from distembed.neighbors.graphs import neighbor_affinity
from distembed.plan import Dimensions, StagePlan, stage_plan, task
from distembed.stages.collections import (
    SIDE_OUTPUTS,
    check_pairs,
    collection_stages,
    joining_stage,
    sides_of,
)
from distembed.stages.corpus import SIDES, stage_of
from distembed.stages.graphs import eigenvector_bytes
from distembed.states import keep, keeping
from distembed.storage.workspace import Workspace
from distembed.systems.transfer import outputs
from distembed.systems.transfer.alignment import (
    graph_parameters,
    link_parameters,
    model_of,
    pair_parameters,
    plan_embedding,
    plan_fit,
    plan_graph,
    plan_links,
    plan_pairs,
    run_embedding,
    run_graph,
    run_links,
    run_pairs,
    transfer_dimensions,
)
from distembed.systems.transfer.features import (
    check_features,
    check_vectors,
    feature_parameters,
    first_values,
    fit_parameters,
    has_topics,
    in_memory,
    inferred_output,
    plan_features,
    plan_topics,
    plan_vectors,
    rows_of,
    run_features,
    run_topics,
    run_vectors,
    scale_of,
    scores_output,
    set_bytes,
    vector_parameters,
)
from distembed.systems.transfer.job import PRESETS, TransferJob

METHODS = {
    "mean": "column mean",
    "ridge": "ridge to the topics",
    "ridge_map": "ridge map, 5 nearest",
    "procrustes": "rotation, 5 nearest",
    "procrustes_1": "rotation, nearest",
    "alignment": "semisupervised alignment",
    "printed": "embedding as the paper prints it",
    "matching": "self-trained rotation, 5 nearest",
    "matching_1": "self-trained rotation, nearest",
    "embedding_given": "embedding, given pairs only",
    "embedding": "feature-preserving embedding",
}
"""What the methods of `infer_by_each_method` are called."""

MEASURES = ("rmse", "correlation", "hellinger", "mean_reciprocal_rank", "hits_1", "hits_10")
MEAN = "mean {}"
"""What the mean of a measure over all numbers of known pairs is called."""


def label_of(job: TransferJob, method: str) -> str:
    """Return what a method is called in tables."""
    return METHODS[method] if has_topics(job) else METHODS[method].replace("topics", "features")


def in_paper(job: TransferJob) -> dict[str, list[str]]:
    """Return the names that figures of a paper may have."""
    return {
        "rows": [label_of(job, method) for method in METHODS],
        "columns": list(map(MEAN.format, MEASURES)),
    }


def check_judged(job: TransferJob) -> list[str]:
    """Refuse figures of a paper that are of no method or no measure."""
    check_figures(job, **in_paper(job))
    return []


CONTROL_COPIES = 6
"""Copies of the rows of both sets, in float64, that the methods hold with which an embedding is compared."""


def plan_evaluation(job: TransferJob, dims: Dimensions) -> StagePlan:
    """Return the plan of every method for each draw of known pairs: all rows are in memory, and what a fit holds."""
    fit = plan_fit(dims, SIDES)
    found = plan_links(job, dims, side=SIDES[1])
    cosines = dims.whole(*(f"{side}_document" for side in SIDES), itemsize=8)
    ranked = task(ranks_of_rows, output=min(cosines, job.resources.block_memory // 4))
    rows = [
        set_bytes(job, dims, side) + CONTROL_COPIES * set_bytes(job, dims, side, itemsize=8) for side in SIDES
    ]
    n_documents = sum(dims.size(f"{side}_document") for side in SIDES)
    alignment = eigenvector_bytes(n_documents, ALIGNMENT_COMPONENTS)
    return stage_plan(
        max(fit.task_bytes, found.task_bytes, ranked),
        whole=[*rows, fit.whole_bytes, found.whole_bytes, alignment],
        n_tasks=fit.tasks,
    )


def run_evaluation(ctx: Context) -> dict[str, Any]:
    """Judge every method on the pairs not known of the first and second, over shares and draws of the known ones."""
    options = ctx.job.evaluation
    first, second = (in_memory(rows_of(ctx.job, ctx.workspace, side)) for side in SIDES)
    graphs = [whole_csr(outputs.GRAPH.read(ctx.workspace, side=side)) for side in SIDES]
    values = first_values(ctx.job, ctx.workspace)
    sets = TwoSets(first, second, (graphs[0], graphs[1]), values)
    table = outputs.PAIRS.read(ctx.workspace)
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
    ctx.store_table(outputs.SCORES, pa.Table.from_pylist(rows, scores_schema()))
    facts = {"n_draws": len(cells) if len(pairs) > 1 else 0, "n_pairs": len(pairs)}
    return facts | _judge_embedding(ctx)


def _judge_embedding(ctx: Context) -> dict[str, Any]:
    """Store how well the embedding itself inferred each value of each collection; return a summary of three or more."""
    job, facts = ctx.job, {}
    for side in sides_of(job)[1:]:
        inferred, true, mean = _unknown_pairs(job, ctx.workspace, side)
        ctx.store_table(scores_output(job, side), scores_by_column(job, inferred, true))
        if job.others and len(true):
            error, of_mean = (score_transfer(guess, true).rmse for guess in (inferred, mean))
            facts[side] = {"judged": len(true), "embedding": error, "column_mean": of_mean}
    return {"collections": facts} if facts else {}


def scores_schema() -> pa.Schema:
    """Return the columns of the table of scores: a row for each draw and method."""
    names = {"share": pa.float64(), "n_known": pa.int64(), "seed": pa.int64(), "method": pa.string()}
    return pa.schema(names | dict.fromkeys(MethodScore._fields[1:], pa.float64()))


def _dominated(ctx: Context, sets: TwoSets, pairs: Int64s) -> tuple[TwoSets, Int64s]:
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


def _scores(ctx: Context, sets: TwoSets, pairs: Int64s, n_known: int, seed: int) -> list[MethodScore]:
    """Return the scores of one draw of known pairs, kept in the stage under names of its own."""

    def make() -> da.Array:
        with keeping(None):  # a draw is small enough to be made again
            scores = _draw_scores(ctx, sets, pairs, n_known, seed)
        return da.from_array(np.array([score[1:] for score in scores]), chunks=-1)

    kept = compute(keep(f"known-{n_known}-draw-{seed}", make))
    names = method_names(ctx.job)
    return [MethodScore(name, *row) for name, row in zip(names, kept.tolist(), strict=True)]


def _draw_scores(ctx: Context, sets: TwoSets, pairs: Int64s, n_known: int, seed: int) -> list[MethodScore]:
    order = np.random.default_rng(seed).permutation(len(pairs))
    known, left = pairs[order[:n_known]], pairs[order[n_known:]]
    links = correspondence_matrix(known, *(graph.shape[0] for graph in sets.graphs))
    model = model_of(ctx.job)
    with warnings.catch_warnings():
        # Few known pairs leave some documents without a value; what that costs is what is measured here.
        warnings.filterwarnings("ignore", message=".* joined to no known value")
        found = infer_by_each_method(sets, links, model, printed_rounds=ctx.job.evaluation.printed_rounds)
    scores = score_methods(found, sets.features[left[:, 0]], left[:, 0], left[:, 1])
    return sorted(scores, key=lambda score: method_names(ctx.job).index(score.method))


def method_names(job: TransferJob) -> list[str]:
    """Return the methods that are compared, in the order of their tables."""
    dense = job.representation.kind != "tf_idf"
    controls = ["ridge", "ridge_map", "procrustes", "procrustes_1"] if dense else []
    matching = ["matching", "matching_1", "embedding_given"] if job.alignment.propagate else []
    printed = ["printed"] if job.evaluation.printed_rounds else []
    return ["mean", *controls, "alignment", *printed, *matching, "embedding"]


def _unknown_pairs(job: TransferJob, workspace: Workspace, side: str) -> tuple[Float64s, Float64s, Float64s]:
    """Return for each pair that is not known what the embedding inferred, what is true, and the mean of the first."""
    table, known = outputs.of_side(outputs.PAIRS, side).read(workspace), first_values(job, workspace)
    true = known[np.asarray(table["first"])]
    left = ~np.asarray(table["known"]) & ~np.isnan(true).any(axis=1)
    inferred = np.asarray(compute(inferred_output(job, side).read(workspace))) / scale_of(job, workspace)
    mean = np.broadcast_to(np.nanmean(known, axis=0), true[left].shape)
    return inferred[np.asarray(table[side])[left]], true[left], mean


def scores_by_column(job: TransferJob, inferred: Float64s, true: Float64s) -> pa.Table:
    """Return how well each topic or feature was inferred, without a row where there is nothing to judge."""
    what = "topic" if has_topics(job) else "feature"
    schema = pa.schema([(what, pa.int64()), ("rmse", pa.float64()), ("correlation", pa.float64())])
    if not len(true):
        return schema.empty_table()
    scores = score_transfer(inferred, true)
    columns = [np.arange(true.shape[1]), scores.topic_rmse, scores.topic_correlation]
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)


def stages(job: TransferJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job, each after those it reads."""
    sides = sides_of(job)
    fit = fit_parameters("alignment")
    judge = fit_parameters("evaluation", "alignment")
    of_texts = list(map(collection_stages, sides))
    of_rows = [spec for side in sides for spec in _row_stages(side)]
    pairs, links = ([made(side) for side in sides[1:]] for made in (_pair_stage, _link_stage))
    values = _values_stage(job)
    fitted = (values.name, *(spec.name for spec in (*of_rows[1::2], *links)))
    judged = ("embedding", *(spec.name for spec in pairs))
    # Pairs come before all that takes long: an id that occurs twice, or a faulty file of pairs, is found there.
    return (
        *(spec for specs in of_texts for spec in specs[:2]),  # tokens and documents
        *pairs,
        *(spec for specs in of_texts for spec in specs[2:]),
        *of_rows,
        values,
        *links,
        StageSpec("embedding", fitted, fit, run_embedding, plan_embedding),
        StageSpec("evaluation", judged, judge, run_evaluation, plan_evaluation, check_judged),
    )


def _row_stages(side: str) -> tuple[StageSpec, StageSpec]:
    """Return the stages of the rows of a collection among which neighbors are sought, and of the neighbors."""
    terms, vectors, words = (stage_of(kind, side) for kind in ("terms", "vectors", "vocabulary"))
    rows = StageSpec(vectors, (terms, words), vector_parameters, run_vectors, plan_vectors, check_vectors)
    graph = StageSpec(stage_of("graph", side), (terms, vectors), graph_parameters, run_graph, plan_graph)
    return rows.of(side=side), graph.of(side=side)


def _pair_stage(side: str) -> StageSpec:
    documents = tuple(stage_of("documents", one) for one in ("first", side))
    name = joining_stage("pairs", side)
    pairs = StageSpec(name, documents, pair_parameters, run_pairs, plan_pairs, check_pairs, counts=True)
    return pairs.of(side=side)


def _link_stage(side: str) -> StageSpec:
    rows = [stage_of(kind, one) for one in ("first", side) for kind in ("terms", "vectors")]
    name, inputs = joining_stage("links", side), (*rows, joining_stage("pairs", side))
    return StageSpec(name, inputs, link_parameters, run_links, plan_links).of(side=side)


def _values_stage(job: TransferJob) -> StageSpec:
    """Return the stage that finds what is carried: topics, or the values of a table."""
    if has_topics(job):
        made_of = ("first_tokens", "first_vocabulary", "first_terms")
        return StageSpec("topics", made_of, sections("topics"), run_topics, plan_topics)
    documents = tuple(stage_of("documents", side) for side in SIDES)
    return StageSpec("features", documents, feature_parameters, run_features, plan_features, check_features)


SYSTEM = System(
    TransferJob,
    stages,
    transfer_dimensions,
    "distembed.systems.transfer.report",
    "distembed.systems.transfer.views",
    explorer="distembed.systems.transfer.views",
    outputs=(*SIDE_OUTPUTS, *declared_in(outputs)),
    presets=PRESETS,
)
