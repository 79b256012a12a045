"""The stages of topic transfer: pairs, neighbors, further pairs and the embedding, and the judge of every method.

The methods are judged on the pairs of the first two collections that are not known.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from distembed.dtypes import Int64s
from distembed.evaluation.transfer import MethodScore, ranks_of_rows, score_methods, score_transfer
from distembed.execution import compute, tell
from distembed.factorization.document_rows import check_n_clusters
from distembed.job.model import check_figures
from distembed.job.outputs import declared_in
from distembed.job.stage import Context, Counted, StageSpec, System, sections
from distembed.linalg import columns
from distembed.linalg.chunks import cut_rows
from distembed.linalg.operators import whole_csr
from distembed.manifold import feature_preserving as embeddings
from distembed.manifold import inference
from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.propagation import CANDIDATES, ROWS_AT_ONCE, propagate_correspondences
from distembed.neighbors.graphs import (
    affinity_rows,
    joint_adjacency,
    neighbor_affinity,
    row_is_used,
    row_sizes,
)
from distembed.neighbors.search import check_n_neighbors
from distembed.plan import Dimension, Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages import collections
from distembed.stages.collections import ids_of, n_documents_of, pair_options
from distembed.stages.corpus import of_collection
from distembed.stages.graphs import EDGE_BYTES, eigenvector_bytes, plan_of_affinity, plan_of_search
from distembed.states import keep, keeping
from distembed.storage.workspace import Workspace
from distembed.systems.transfer import features, outputs
from distembed.systems.transfer.features import first_values, rows_of, scale_of, set_bytes, store_memory
from distembed.systems.transfer.job import PRESETS, TransferJob

PAIR_BYTES = 200
"""Bytes of a document while two collections are joined by their ids."""
CANDIDATE_BYTES = 128
"""Bytes of a candidate while the pairs of one search are compared: its list, and by the rows of both sets."""
LINK_BYTES = 48
"""Bytes of a link while the links are stored: held, with those that are added, and cut into blocks."""
MAPPED_COPIES = 4
"""Copies in float64 of rows that are searched in memory: as given, of unit length, mapped, and centered."""
VALUE_COPIES = 4
"""Copies of the values of the features, of what is fitted to them, and of the embedding that a round holds."""
CONTROL_COPIES = 6
"""Copies of the rows of both sets, in float64, that the methods hold with which an embedding is compared."""

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


def transfer_dimensions(job: TransferJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job: those of its collections, and the most neighbors and pairs of documents.

    Raises
    ------
    ValueError
        If more neighbors, components or topics are asked for than documents that are counted can have.
    """
    dims, options = collections.collection_dimensions(job, counted), job.alignment
    if dims["document"].counted:
        for side in job.collections:
            check_n_neighbors(options.n_neighbors, dims.size(f"{side}_document"))
        embeddings.check_n_components(options.n_components, dims.size("document"))
    terms = None if counted is None else counted.stages.get(f"{job.first}_terms")
    if terms is not None and job.has_topics and job.topics.method == "nmf":
        n_filled = int(terms.facts["n_filled"])
        check_n_clusters(job.topics.n_topics, n_filled, dims.size(f"{job.first}_document"))
    more: dict[str, Dimension] = {}
    for side, section in job.collections.items():
        n, _, is_counted = dims[f"{side}_document"]
        n_edges, n_pairs = 2 * n * options.n_neighbors, min(dims.size(f"{job.first}_document"), n)
        # of a share, about so many pairs are known; of a file, at most all documents of the smaller collection
        known = n_pairs if section.pairs is not None else 1 + int(n_pairs * job.pairs.share)
        n_links = known + (CANDIDATES * n if options.propagate else 0)
        for name, size in (("edge", n_edges), ("known", known), ("link", n_links)):
            more[f"{side}_{name}"] = Dimension(size, size, is_counted)
    width = embeddings.group_width(
        max(1, dims.size("document")), options.n_components, job.resources.block_memory
    )
    more["axis"] = Dimension(options.n_components, width)
    more["feature"] = Dimension(features.n_values(job, dims), 1)
    return dims.extended(more)


def model_of(job: TransferJob) -> embeddings.FeaturePreservingEmbedding:
    """Return the estimator of a job."""
    return embeddings.FeaturePreservingEmbedding(**job.alignment.model_dump())


# --- pairs, neighbors, further pairs ---------------------------------------------------------------------------


def plan_pairs(job: TransferJob, dims: Dimensions, *, side: str) -> StagePlan:
    """Return the plan of joining the first collection and another by their ids."""
    both = [dims.whole(f"{one}_document", PAIR_BYTES, itemsize=1) for one in (job.first, side)]
    return stage_plan(whole=both, stored=dims.whole(f"{side}_document", 24, itemsize=1))


def run_pairs(ctx: Context, *, side: str) -> dict[str, Any]:
    """Find the documents of the first collection and another that are the same, and which are known to be."""
    ids = {one: ids_of(ctx.workspace, one) for one in (ctx.job.first, side)}
    pairs = collections.find_pairs(ids, **pair_options(ctx.job, side))
    correspondence_matrix(
        np.column_stack([pairs.rows, pairs.confidence])[pairs.known], *(len(one) for one in ids.values())
    )
    columns = {"first": pairs.rows[:, 0], "other": pairs.rows[:, 1]}
    table = pa.table({**columns, "confidence": pairs.confidence, "known": pairs.known})
    ctx.store_table(outputs.PAIRS.of(side=side), table)
    return {"n_pairs": len(pairs.known), "n_known": int(pairs.known.sum())}


def plan_graph(job: TransferJob, dims: Dimensions, *, side: str) -> StagePlan:  # noqa: ARG001
    """Return the plan of the neighbors within a collection."""
    k, memory = job.alignment.n_neighbors, job.resources.block_memory
    width, values = features.set_of(job, dims)
    search = plan_of_search(dims, "document", k, width=width, values=values, memory=memory)
    return in_turn(search, plan_of_affinity(dims, "document", k, memory=memory, stored=True))


def _graph_options(job: TransferJob) -> dict[str, Any]:
    return job.alignment.model_dump(include={"affinity", "symmetry"})


def run_graph(ctx: Context, *, side: str) -> dict[str, Any]:
    """Join each document with its nearest in its own collection."""
    rows, k = rows_of(ctx.job, ctx.workspace, side), ctx.job.alignment.n_neighbors
    # By the search's blocks of rows first, each of which reads all lists; then in blocks of about equal size.
    found = keep("graph", lambda: affinity_rows(rows, k, **_graph_options(ctx.job)))
    sizes = row_sizes(found)
    ctx.store(outputs.GRAPH.of(side=side), found.rechunk((cut_rows(sizes), -1)))
    return {"n_edges": int(sizes.sum()) // 2}


def plan_links(job: TransferJob, dims: Dimensions, *, side: str) -> StagePlan:
    """Return the plan of the search for further pairs of the first collection and another."""
    links, n_pairs = dims.whole(f"{side}_link", LINK_BYTES, itemsize=1), dims.size(f"{side}_known")
    stored = dims.whole(f"{side}_link", EDGE_BYTES, itemsize=1)
    if not job.alignment.propagate:
        return stage_plan(whole=[CANDIDATE_BYTES * n_pairs, links], stored=stored)
    both, memory = [dims.part(f"{one}_") for one in (job.first, side)], job.resources.block_memory
    searches = [
        plan_of_search(part, "document", CANDIDATES, width=features.set_of(job, part)[0], memory=memory)
        for part in both
    ]
    are_few = max(part.size("document") for part in both) <= ROWS_AT_ONCE
    copies = MAPPED_COPIES if are_few else 2
    found = dims.whole(f"{side}_document", CANDIDATES * CANDIDATE_BYTES, itemsize=1)
    return stage_plan(
        *(search.task_bytes for search in searches),
        whole=[found, links, *(copies * set_bytes(job, part, itemsize=8) for part in both)],
        stored=stored,
        n_tasks=1 if are_few else sum(search.tasks for search in searches),
    )


def known_links(job: TransferJob, workspace: Workspace, side: str) -> sp.csr_array:
    """Return the known pairs of the first collection and another as a matrix of confidences."""
    table = outputs.PAIRS.read(workspace, side=side)
    rows = np.column_stack([np.asarray(table[name], np.float64) for name in ("first", "other", "confidence")])
    sizes = [n_documents_of(workspace, one) for one in (job.first, side)]
    return correspondence_matrix(rows[np.asarray(table["known"])], *sizes)


def run_links(ctx: Context, *, side: str) -> dict[str, Any]:
    """Find probable pairs of the first collection and another beside the known ones."""
    links, facts = known_links(ctx.job, ctx.workspace, side), {}
    if ctx.job.alignment.propagate:
        first, other = (rows_of(ctx.job, ctx.workspace, one) for one in (ctx.job.first, side))
        found = propagate_correspondences(first, other, links, random_state=ctx.job.alignment.random_state)
        links = found.links
        facts = {"temperature": found.temperature, "lost_share": found.lost_share, "found": found.n_found}
    store_memory(ctx, outputs.LINKS.of(side=side), links)
    return {**facts, "n_links": int(links.nnz)}


# --- the embedding ---------------------------------------------------------------------------------------------


def plan_embedding(job: TransferJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the joint graph, and of the embedding: systems of equations, some columns in each task."""
    fit, k = plan_fit(dims, tuple(job.collections)), job.alignment.n_components
    return fit._replace(stored_bytes=dims.whole("document", k) + dims.whole("document", "feature"))


def plan_fit(dims: Dimensions, sides: Sequence[str]) -> StagePlan:
    """Return the plan of the embedding of some collections, the first before the others, on their joint graph."""
    n, k = sum(dims.size(f"{side}_document") for side in sides), dims.size("axis")
    n_links = sum(dims.size(f"{side}_link") for side in sides[1:])
    edges = EDGE_BYTES * (sum(dims.size(f"{side}_edge") for side in sides) + 2 * n_links + n)
    group, values = n * dims.block("axis", itemsize=8), dims.whole("feature", itemsize=8)
    rounds = VALUE_COPIES * n * (dims.whole("axis", itemsize=8) + values) + 3 * edges
    return stage_plan(
        task(columns.solve_shifted, group, group, output=group),
        whole=[edges, max(rounds, eigenvector_bytes(n, k) + 3 * edges)],
        n_tasks=dims.n_blocks("axis"),
        states=n * dims.whole("axis", itemsize=8),
    )


def run_embedding(ctx: Context) -> dict[str, Any]:
    """Put all documents into one space, and infer the topics or features of those without."""
    job: TransferJob = ctx.job
    workspace, scale = ctx.workspace, scale_of(job, ctx.workspace)
    graphs = [whole_csr(outputs.GRAPH.read(workspace, side=side)) for side in job.collections]
    links = [whole_csr(outputs.LINKS.read(workspace, side=side)) for side in job.others]
    joined = {(0, number): link for number, link in enumerate(links, start=1)}
    joint = joint_adjacency(graphs, joined, weight=job.alignment.correspondence_weight)
    bounds = pairwise(np.cumsum([0, *(graph.shape[0] for graph in graphs)]).tolist())
    rows = {side: slice(*one) for side, one in zip(job.collections, bounds, strict=True)}
    every = sp.csr_array(sp.hstack(links, format="csr"))
    model = model_of(job).fit_graph(joint, *features.values_to_fit(job, workspace, rows, every))
    store_memory(
        ctx, outputs.REGRESSION, model.regression_ * scale
    )  # in the units of the input, as the values
    for side, own in rows.items():
        store_memory(ctx, outputs.EMBEDDING.of(side=side), model.embedding_[own].astype(np.float32))
        if side != job.first or not job.has_topics:  # whose topics are known
            values = (model.features_[own] * scale).astype(np.float32)
            store_memory(ctx, features.inferred_output(job, side), values)
    ctx.store_table(outputs.OBJECTIVE, pa.table({"objective": model.objective_}))
    for side, link in zip(job.others, links, strict=True):
        columns, found = sp.csc_array(link), model.features_[rows[side]]
        best = np.asarray(columns.argmax(axis=0)).ravel()
        chance = np.asarray(columns.max(axis=0).toarray()).ravel()
        counterpart = ids_of(workspace, job.first).take(pa.array(best, mask=chance <= 0))
        aligned = {"id": ids_of(workspace, side), "counterpart": counterpart, "probability": chance}
        if job.has_topics:
            aligned |= {"topic": found.argmax(axis=1), "share": found.max(axis=1)}
        ctx.store_table(outputs.ALIGNED.of(side=side), pa.table(aligned))
    return {"converged": model.converged_, "n_iter": model.n_iter_}


# --- the judge of every method ---------------------------------------------------------------------------------


def label_of(job: TransferJob, method: str) -> str:
    """Return what a method is called in tables."""
    return METHODS[method] if job.has_topics else METHODS[method].replace("topics", "features")


def method_names(job: TransferJob) -> list[str]:
    """Return the methods that are compared, in the order of their tables."""
    dense = job.representation.kind != "tf_idf"
    controls = ["ridge", "ridge_map", "procrustes", "procrustes_1"] if dense else []
    matching = ["matching", "matching_1", "embedding_given"] if job.alignment.propagate else []
    printed = ["printed"] if job.evaluation.printed_rounds else []
    return ["mean", *controls, "alignment", *printed, *matching, "embedding"]


def in_paper(job: TransferJob) -> dict[str, list[str]]:
    """Return the names that figures of a paper may have."""
    columns = list(map(MEAN.format, MEASURES))
    return {"rows": [label_of(job, method) for method in METHODS], "columns": columns}


def plan_evaluation(job: TransferJob, dims: Dimensions) -> StagePlan:
    """Return the plan of every method for each draw of known pairs: all rows are in memory, and what a fit holds."""
    sides = job.judged
    fit, found = plan_fit(dims, sides), plan_links(job, dims, side=sides[1])
    sizes = [f"{side}_document" for side in sides]
    cosines = dims.whole(*sizes, itemsize=8)
    ranked = task(ranks_of_rows, output=min(cosines, job.resources.block_memory // 4))
    parts = [dims.part(f"{side}_") for side in sides]
    rows = [set_bytes(job, part) + CONTROL_COPIES * set_bytes(job, part, itemsize=8) for part in parts]
    alignment = eigenvector_bytes(sum(map(dims.size, sizes)), inference.ALIGNMENT_COMPONENTS)
    return stage_plan(
        max(fit.task_bytes, found.task_bytes, ranked),
        whole=[*rows, fit.whole_bytes, found.whole_bytes, alignment],
        n_tasks=fit.tasks,
    )


def run_evaluation(ctx: Context) -> dict[str, Any]:
    """Judge every method on the pairs not known of the first two, over shares and draws of the known ones."""
    options, job, workspace = ctx.job.evaluation, ctx.job, ctx.workspace
    read = [rows_of(job, workspace, side) for side in job.judged]
    first, second = (whole_csr(rows) if sp.issparse(rows._meta) else compute(rows) for rows in read)
    graphs = [whole_csr(outputs.GRAPH.read(workspace, side=side)) for side in job.judged]
    sets = inference.TwoSets(first, second, (graphs[0], graphs[1]), first_values(job, workspace))
    table = outputs.PAIRS.read(workspace, side=job.judged[1])
    pairs = np.column_stack([np.asarray(table["first"]), np.asarray(table["other"])])
    pairs = pairs[~np.isnan(sets.features[pairs[:, 0]]).any(axis=1)]
    if options.topic is not None:
        sets, pairs = _dominated(ctx, sets, pairs)
    shares: dict[int, float] = {}
    for share in options.shares if len(pairs) > 1 else ():
        shares.setdefault(min(max(1, round(share * len(pairs))), len(pairs) - 1), share)  # each draw once
    cells = [(n_known, seed) for n_known in shares for seed in range(options.n_seeds)]
    rows = []
    for done, (n_known, seed) in enumerate(cells):
        draw = {"share": shares[n_known], "n_known": n_known, "seed": seed}
        rows += [{**draw, **score._asdict()} for score in _scores(ctx, sets, pairs, n_known, seed)]
        tell("draws", done + 1, len(cells))
    names = {"share": pa.float64(), "n_known": pa.int64(), "seed": pa.int64(), "method": pa.string()}
    schema = pa.schema(names | dict.fromkeys(MethodScore._fields[1:], pa.float64()))
    ctx.store_table(outputs.SCORES, pa.Table.from_pylist(rows, schema))
    judged = {side: _judge_embedding(ctx, side) for side in job.others}
    facts = {side: found for side, found in judged.items() if found["judged"]}
    return {"n_draws": len(cells), "n_pairs": len(pairs), "collections": facts}


def _dominated(ctx: Context, sets: inference.TwoSets, pairs: Int64s) -> tuple[inference.TwoSets, Int64s]:
    """Return the documents dominated by a topic with their counterparts as two sets, and their pairs.

    Raises
    ------
    ValueError
        If these are fewer than three, or fewer than two of a set hold a word.
    """
    options, job = ctx.job.evaluation, ctx.job
    shares = sets.features[pairs[:, 0]]
    kept = pairs[(shares[:, options.topic] >= options.topic_share) & (shares.argmax(axis=1) == options.topic)]
    first, second = sets.first[kept[:, 0]], sets.second[kept[:, 1]]
    used = [int(row_is_used(rows, "cosine").sum()) for rows in (first, second)]
    if len(kept) < 3 or min(used) < 2:  # a document without a word is near to no other
        raise ValueError(
            f"{min(used)} documents with a counterpart have {options.topic_share:g} of topic {options.topic} or more: "
            "take another evaluation.topic, or a smaller evaluation.topic_share"
        )
    graphs = [
        neighbor_affinity(rows, min(job.alignment.n_neighbors, n - 1), **_graph_options(job))
        for rows, n in zip((first, second), used, strict=True)
    ]
    some = inference.TwoSets(first, second, (graphs[0], graphs[1]), sets.features[kept[:, 0]])
    return some, np.column_stack([np.arange(len(kept))] * 2)


def _scores(
    ctx: Context, sets: inference.TwoSets, pairs: Int64s, n_known: int, seed: int
) -> list[MethodScore]:
    """Return the scores of one draw of known pairs, kept in the stage under names of its own."""
    names = method_names(ctx.job)

    def make() -> da.Array:
        order = np.random.default_rng(seed).permutation(len(pairs))
        known, left = pairs[order[:n_known]], pairs[order[n_known:]]
        links = correspondence_matrix(known, *(graph.shape[0] for graph in sets.graphs))
        rounds = ctx.job.evaluation.printed_rounds
        with keeping(None), warnings.catch_warnings():  # a draw is small enough to be made again
            # Few known pairs leave some documents without a value; what that costs is what is measured here.
            warnings.filterwarnings("ignore", message=".* joined to no known value")
            found = inference.infer_by_each_method(sets, links, model_of(ctx.job), printed_rounds=rounds)
            ordered = {name: found[name] for name in names}
            scores = score_methods(ordered, sets.features[left[:, 0]], left[:, 0], left[:, 1])
        return da.from_array(np.array([score[1:] for score in scores]), chunks=-1)

    kept = compute(keep(f"known-{n_known}-draw-{seed}", make))
    return [MethodScore(name, *row) for name, row in zip(names, kept.tolist(), strict=True)]


def _judge_embedding(ctx: Context, side: str) -> dict[str, Any]:
    """Store how well the embedding inferred each value of a collection, and return its error and the column mean's.

    It is judged on the pairs that are not known.
    """
    job, workspace = ctx.job, ctx.workspace
    table, known = outputs.PAIRS.read(workspace, side=side), first_values(job, workspace)
    true = known[np.asarray(table["first"])]
    left = ~np.asarray(table["known"]) & ~np.isnan(true).any(axis=1)
    true, rows = true[left], np.asarray(table["other"])[left]
    facts: dict[str, float] = {"judged": int(left.sum())}
    schema = pa.schema([("value", pa.int64()), ("rmse", pa.float64()), ("correlation", pa.float64())])
    scored = schema.empty_table()
    if len(true):
        inferred = compute(features.inferred_output(job, side).read(workspace)) / scale_of(job, workspace)
        mean = np.broadcast_to(np.nanmean(known, axis=0), true.shape)
        scores, of_mean = (score_transfer(guess, true) for guess in (inferred[rows], mean))
        facts |= {"embedding": scores.rmse, "column_mean": of_mean.rmse}
        columns = [np.arange(true.shape[1]), scores.topic_rmse, scores.topic_correlation]
        scored = pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)
    ctx.store_table(outputs.VALUE_SCORES.of(side=side), scored)
    return facts


# --- which stages ----------------------------------------------------------------------------------------------


def stages(job: TransferJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job, each after those it reads.

    Pairs come before all that takes long: an id that occurs twice, or a faulty file of pairs, is found there.
    """
    first, others = job.first, job.others

    def named(kinds: Sequence[str], *sides: str) -> tuple[str, ...]:
        return tuple(f"{side}_{kind}" for side in sides for kind in kinds)

    def of_pairs(job: TransferJob, *, side: str) -> dict[str, Any]:
        return {"pairs": pair_options(job, side)}

    form = sections("representation")
    has_vectors = job.representation.kind == "lsa"
    compared = ("vectors",) if has_vectors else ("terms",)
    vectors = StageSpec("vectors", ("terms",), form, features.run_vectors, features.plan_vectors)
    of_graph = sections(alignment={"n_neighbors", "affinity", "symmetry"}, grid=True)
    graph = StageSpec("graph", compared, of_graph, run_graph, plan_graph)
    kinds = [vectors, graph] if has_vectors else [graph]
    of_texts = {side: collections.collection_stages(side) for side in job.collections}
    of_links = sections(alignment={"propagate", "random_state"}, grid=True)
    pairs, links = [], []
    for side in others:
        inputs = named(("documents",), first, side)
        spec = StageSpec(
            f"{side}_pairs", inputs, of_pairs, run_pairs, plan_pairs, collections.check_pairs, counts=True
        )
        pairs.append(spec.of(side=side))
        inputs = (*named(compared, first, side), spec.name)
        links.append(StageSpec(f"{side}_links", inputs, of_links, run_links, plan_links).of(side=side))
    if job.has_topics:
        inputs = named(("tokens", "vocabulary", "terms"), first)
        values = StageSpec("topics", inputs, sections("topics"), features.run_topics, features.plan_topics)
    else:
        inputs = named(("documents",), *job.collections)
        run, plan = features.run_features, features.plan_features
        tables = features.feature_parameters
        values = StageSpec("features", inputs, tables, run, plan, features.check_features)
    units: dict[str, Any] = {} if job.has_topics else {"features": {"standardize"}}
    fitted = (values.name, *named(("graph",), *job.collections), *named(("links",), *others))
    of_fit, judged = sections("alignment", **units), ("embedding", *named(("pairs",), *others))
    of_scores = sections("evaluation", "alignment", **units)

    def check(job: TransferJob) -> list[str]:
        return check_figures(job, **in_paper(job))

    return (
        *(spec for specs in of_texts.values() for spec in specs[:2]),  # tokens and documents
        *pairs,
        *(spec for specs in of_texts.values() for spec in specs[2:]),
        *(of_collection(spec, side) for side in job.collections for spec in kinds),
        values,
        *links,
        StageSpec("embedding", fitted, of_fit, run_embedding, plan_embedding),
        StageSpec("evaluation", judged, of_scores, run_evaluation, plan_evaluation, check),
    )


REPORT = "distembed.systems.transfer.report"
SYSTEM = System(
    TransferJob,
    stages,
    transfer_dimensions,
    REPORT,
    REPORT,
    explorer=REPORT,
    outputs=(*collections.SIDE_OUTPUTS, *declared_in(outputs)),
    presets=PRESETS,
    # the embedding of all documents, and their values
    report_bytes=lambda _job, dims: sum(dims.whole("document", of, itemsize=8) for of in ("axis", "feature")),
)
