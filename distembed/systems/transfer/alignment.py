"""The stages of topic transfer that join documents: known pairs, neighbors within a collection, further pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from distembed.factorization.clustering import check_n_clusters
from distembed.job.stage import Context, Counted
from distembed.linalg.chunks import cut_rows
from distembed.linalg.operators import whole_csr
from distembed.manifold.alignment_rounds import group_width, solve_group
from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding, check_n_components
from distembed.manifold.propagation import CANDIDATES, ROWS_AT_ONCE, propagate_correspondences
from distembed.neighbors.graphs import affinity_rows, joint_adjacency, row_sizes
from distembed.neighbors.search import check_n_neighbors
from distembed.plan import Dimension, Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages.collections import (
    collection_dimensions,
    find_pairs,
    ids_of,
    n_documents_of,
    pair_options,
    sides_of,
)
from distembed.stages.graphs import EDGE_BYTES, eigenvector_bytes, plan_of_affinity, plan_of_search
from distembed.states import keep
from distembed.storage.workspace import Workspace
from distembed.systems.transfer import outputs
from distembed.systems.transfer.features import (
    has_topics,
    inferred_output,
    n_values,
    rows_of,
    scale_of,
    set_bytes,
    set_of,
    store_memory,
    values_to_fit,
)
from distembed.systems.transfer.job import TransferJob

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


def pair_parameters(job: TransferJob, *, side: str) -> dict[str, Any]:
    """Return which pairs of the first collection and another are known."""
    return {"pairs": pair_options(job, side)}


def plan_pairs(job: TransferJob, dims: Dimensions, *, side: str) -> StagePlan:  # noqa: ARG001
    """Return the plan of joining the first collection and another by their ids."""
    both = [dims.whole(f"{one}_document", PAIR_BYTES, itemsize=1) for one in ("first", side)]
    return stage_plan(whole=both, stored=dims.whole(f"{side}_document", 24, itemsize=1))


def run_pairs(ctx: Context, *, side: str) -> dict[str, Any]:
    """Find the documents of the first collection and another that are the same, and which are known to be."""
    first, other = (ids_of(ctx.workspace, one) for one in ("first", side))
    pairs = find_pairs(first, other, side, **pair_options(ctx.job, side))
    correspondence_matrix(
        np.column_stack([pairs.rows, pairs.confidence])[pairs.known], len(first), len(other)
    )
    columns = {"first": pairs.rows[:, 0], side: pairs.rows[:, 1]}
    table = pa.table({**columns, "confidence": pairs.confidence, "known": pairs.known})
    ctx.store_table(outputs.of_side(outputs.PAIRS, side), table)
    return {"n_pairs": len(pairs.known), "n_known": int(pairs.known.sum())}


def plan_graph(job: TransferJob, dims: Dimensions, *, side: str) -> StagePlan:
    """Return the plan of the neighbors within a collection."""
    k, memory = job.alignment.n_neighbors, job.resources.block_memory
    width, values = set_of(job, dims, side)
    row = f"{side}_document"
    return in_turn(
        plan_of_search(dims, row, k, width=width, values=values, memory=memory),
        plan_of_affinity(dims, row, k, memory=memory, stored=True),
    )


def graph_parameters(job: TransferJob, *, side: str) -> dict[str, Any]:  # noqa: ARG001 - all are joined alike
    """Return the options of the graphs."""
    options = {"n_neighbors", "affinity", "symmetry"}
    return {
        "alignment": job.alignment.model_dump(mode="json", include=options),
        "block_memory": job.resources.block_memory,
    }


def run_graph(ctx: Context, *, side: str) -> dict[str, Any]:
    """Join each document with its nearest in its own collection."""
    # By the search's blocks of rows first, each of which reads all lists; then in blocks of about equal size.
    found = keep("graph", partial(_graph_of, ctx, side))
    sizes = row_sizes(found)
    ctx.store(outputs.GRAPH.of(side=side), found.rechunk((cut_rows(sizes), -1)))
    return {"n_edges": int(sizes.sum()) // 2}


def _graph_of(ctx: Context, side: str) -> da.Array:
    options = ctx.job.alignment
    return affinity_rows(
        rows_of(ctx.job, ctx.workspace, side),
        options.n_neighbors,
        affinity=options.affinity,
        symmetry=options.symmetry,
    )


def plan_links(job: TransferJob, dims: Dimensions, *, side: str) -> StagePlan:
    """Return the plan of the search for further pairs of the first collection and another."""
    links, n_pairs = dims.whole(f"{side}_link", LINK_BYTES, itemsize=1), dims.size(f"{side}_known")
    stored = dims.whole(f"{side}_link", EDGE_BYTES, itemsize=1)
    if not job.alignment.propagate:
        return stage_plan(whole=[CANDIDATE_BYTES * n_pairs, links], stored=stored)
    both, memory = ("first", side), job.resources.block_memory
    searches = [
        plan_of_search(dims, f"{one}_document", CANDIDATES, width=set_of(job, dims, one)[0], memory=memory)
        for one in both
    ]
    rows = [set_bytes(job, dims, one, itemsize=8) for one in both]
    are_few = max(dims.size(f"{one}_document") for one in both) <= ROWS_AT_ONCE
    return stage_plan(
        *(search.task_bytes for search in searches),
        whole=[
            dims.whole(f"{side}_document", CANDIDATES * CANDIDATE_BYTES, itemsize=1),
            links,
            *(MAPPED_COPIES * one if are_few else 2 * one for one in rows),
        ],
        stored=stored,
        n_tasks=1 if are_few else sum(search.tasks for search in searches),
    )


def transfer_dimensions(job: TransferJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job: those of its collections, and the most neighbors and pairs of documents.

    Raises
    ------
    ValueError
        If more neighbors, components or topics are asked for than documents that are counted can have.
    """
    dims, options = collection_dimensions(job, counted), model_of(job)
    if dims["document"].counted:
        for side in sides_of(job):
            check_n_neighbors(options.n_neighbors, dims.size(f"{side}_document"))
        check_n_components(options.n_components, dims.size("document"))
    terms = None if counted is None else counted.stages.get("first_terms")
    if terms is not None and has_topics(job) and job.topics.method == "nmf":
        n_filled = int(terms.facts["n_filled"])
        check_n_clusters(job.topics.n_topics, n_filled, dims.size("first_document"))
    more: dict[str, Dimension] = {}
    for side in sides_of(job):
        n, _, is_counted = dims[f"{side}_document"]
        n_edges = 2 * n * options.n_neighbors
        more[f"{side}_edge"] = Dimension(n_edges, n_edges, is_counted)
        if side != "first":
            known = n_known_pairs(job, dims, side)
            n_links = known + (CANDIDATES * n if options.propagate else 0)
            more[f"{side}_known"] = Dimension(known, known, is_counted)
            more[f"{side}_link"] = Dimension(n_links, n_links, is_counted)
    memory, n = job.resources.block_memory, dims.size("document")
    width = group_width(max(1, n), options.n_components, memory)
    more["axis"] = Dimension(options.n_components, width)
    more["feature"] = Dimension(n_values(job, dims), 1)
    return dims.extended(more)


def n_known_pairs(job: TransferJob, dims: Dimensions, side: str) -> int:
    """Return about how many pairs are known: of a share, of all documents of the smaller collection."""
    n_pairs = min(dims.size("first_document"), dims.size(f"{side}_document"))
    options = pair_options(job, side)
    return n_pairs if options["path"] is not None else 1 + int(n_pairs * options["share"])


def link_parameters(job: TransferJob, *, side: str) -> dict[str, Any]:  # noqa: ARG001 - all are sought alike
    """Return whether further pairs are sought, and the memory of a block, which lays the grid."""
    options = {"propagate", "random_state"}
    return {
        "alignment": job.alignment.model_dump(mode="json", include=options),
        "block_memory": job.resources.block_memory,
    }


def known_links(workspace: Workspace, side: str) -> sp.csr_array:
    """Return the known pairs of the first collection and another as a matrix of confidences."""
    table = outputs.of_side(outputs.PAIRS, side).read(workspace)
    rows = np.column_stack([np.asarray(table[name], np.float64) for name in ("first", side, "confidence")])
    sizes = [n_documents_of(workspace, one) for one in ("first", side)]
    return correspondence_matrix(rows[np.asarray(table["known"])], *sizes)


def run_links(ctx: Context, *, side: str) -> dict[str, Any]:
    """Find probable pairs of the first collection and another beside the known ones."""
    links, facts = known_links(ctx.workspace, side), {}
    if ctx.job.alignment.propagate:
        first, other = (rows_of(ctx.job, ctx.workspace, one) for one in ("first", side))
        found = propagate_correspondences(first, other, links, random_state=ctx.job.alignment.random_state)
        links = found.links
        facts = {"temperature": found.temperature, "lost_share": found.lost_share, "found": found.n_found}
    store_memory(ctx, outputs.of_side(outputs.LINKS, side), links)
    return {**facts, "n_links": int(links.nnz)}


def plan_embedding(job: TransferJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the joint graph, and of the embedding: systems of equations, some columns in each task."""
    fit, k = plan_fit(dims, sides_of(job)), job.alignment.n_components
    return fit._replace(stored_bytes=dims.whole("document", k) + dims.whole("document", "feature"))


def plan_fit(dims: Dimensions, sides: Sequence[str]) -> StagePlan:
    """Return the plan of the embedding of some collections, the first before the others, on their joint graph."""
    n, k = sum(dims.size(f"{side}_document") for side in sides), dims.size("axis")
    n_edges = sum(dims.size(f"{side}_edge") for side in sides) + 2 * sum(
        dims.size(f"{side}_link") for side in sides[1:]
    )
    edges, group = EDGE_BYTES * (n_edges + n), n * dims.block("axis", itemsize=8)
    rounds = (
        VALUE_COPIES * n * (dims.whole("axis", itemsize=8) + dims.whole("feature", itemsize=8)) + 3 * edges
    )
    return stage_plan(
        task(solve_group, group, group, output=group),
        whole=[edges, max(rounds, eigenvector_bytes(n, k) + 3 * edges)],
        n_tasks=dims.n_blocks("axis"),
        states=n * dims.whole("axis", itemsize=8),
    )


def model_of(job: TransferJob) -> FeaturePreservingEmbedding:
    """Return the estimator of a job."""
    return FeaturePreservingEmbedding(**job.alignment.model_dump())


def run_embedding(ctx: Context) -> dict[str, Any]:
    """Put all documents into one space, and infer the topics or features of those without."""
    job: TransferJob = ctx.job
    workspace, sides = ctx.workspace, sides_of(job)
    graphs = [whole_csr(outputs.GRAPH.read(workspace, side=side)) for side in sides]
    links = {side: whole_csr(outputs.of_side(outputs.LINKS, side).read(workspace)) for side in sides[1:]}
    every = sp.csr_array(sp.hstack(list(links.values()), format="csr"))
    joined = {(0, number): link for number, link in enumerate(links.values(), start=1)}
    joint = joint_adjacency(graphs, joined, weight=job.alignment.correspondence_weight)
    model = model_of(job).fit_graph(joint, *values_to_fit(job, workspace, every))
    bounds = pairwise(np.cumsum([0, *(graph.shape[0] for graph in graphs)]).tolist())
    rows = {side: slice(*one) for side, one in zip(sides, bounds, strict=True)}
    for side in sides:
        store_memory(ctx, outputs.EMBEDDING.of(side=side), model.embedding_[rows[side]].astype(np.float32))
    _store_inferred(ctx, model, rows)
    ctx.store_table(outputs.OBJECTIVE, pa.table({"objective": model.objective_}))
    for side, one in links.items():
        features = model.features_[rows[side]]
        names = ids_of(workspace, "first")
        columns = sp.csc_array(one)
        best = np.asarray(columns.argmax(axis=0)).ravel()
        chance = np.asarray(columns.max(axis=0).toarray()).ravel()
        counterpart = names.take(pa.array(best, mask=chance <= 0))
        largest = {"topic": features.argmax(axis=1), "share": features.max(axis=1)} if has_topics(job) else {}
        aligned = pa.table(
            {
                "id": ids_of(workspace, side),
                "counterpart": counterpart,
                "probability": chance,
                **largest,
            }
        )
        ctx.store_table(outputs.of_side(outputs.ALIGNED, side), aligned)
    return {"converged": model.converged_, "n_iter": model.n_iter_}


def _store_inferred(ctx: Context, model: FeaturePreservingEmbedding, rows: Mapping[str, slice]) -> None:
    """Store the inferred topics or features, and the regression behind them, in the units of the input."""
    job: TransferJob = ctx.job
    scale = scale_of(job, ctx.workspace)
    regression = outputs.TOPIC_REGRESSION if has_topics(job) else outputs.FEATURE_REGRESSION
    store_memory(ctx, regression, model.regression_ * scale)
    for side, own in rows.items():
        if side != "first" or not has_topics(job):  # whose topics are known
            values = model.features_[own] * scale
            store_memory(ctx, inferred_output(job, side), values.astype(np.float32))
