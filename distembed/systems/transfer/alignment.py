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

from distembed.costs import Cost, add_costs
from distembed.job.stage import Context, whole_sparse
from distembed.linalg.chunks import balanced_chunks
from distembed.manifold.alignment_costs import (
    embedding_cost,
    graph_costs,
    joint_edges,
    links_cost,
    most_links,
)
from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.manifold.propagation import propagate_correspondences
from distembed.neighbors.graphs import affinity_rows, joint_adjacency, row_sizes
from distembed.stages.collections import ParallelSizes, find_pairs, ids_of, pair_options, sides_of
from distembed.states import keep
from distembed.storage.workspace import Workspace
from distembed.systems.transfer import outputs
from distembed.systems.transfer.features import (
    has_topics,
    inferred_output,
    n_values,
    rows_of,
    scale_of,
    sets_of,
    store_memory,
    values_to_fit,
)
from distembed.systems.transfer.job import TransferJob

PAIR_BYTES = 400
"""Bytes of a document while two collections are joined by their ids."""


def pair_parameters(job: TransferJob, *, side: str) -> dict[str, Any]:
    """Return which pairs of the first collection and another are known."""
    return {"pairs": pair_options(job, side)}


def plan_pairs(job: TransferJob, sizes: ParallelSizes, *, side: str) -> Cost:  # noqa: ARG001
    """Return the plan of joining the first collection and another by their ids."""
    n = sizes.n_of["first"] + sizes.n_of[side]
    return Cost(1, 20 * n, 24 * n, PAIR_BYTES * n, exact=sizes.exact)


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


def plan_graphs(job: TransferJob, sizes: ParallelSizes, *, sides: Sequence[str]) -> Cost:
    """Return the plan of the neighbors within some collections."""
    model, sets = model_of(job), sets_of(job, sizes, sides)
    return add_costs(graph_costs(model, sets, reread=True))._replace(exact=sizes.exact)


def graph_parameters(job: TransferJob) -> dict[str, Any]:
    """Return the options of the graphs."""
    options = {"n_neighbors", "affinity", "symmetry"}
    return {
        "alignment": job.alignment.model_dump(mode="json", include=options),
        "block_memory": job.resources.block_memory,
    }


def run_graphs(ctx: Context, *, sides: Sequence[str]) -> dict[str, Any]:
    """Join each document with its nearest in its own collection."""
    facts = {}
    for side in sides:
        # By the search's blocks of rows first, each of which reads all lists; then in blocks of about equal size.
        found = keep(f"{side}-graph", partial(_graph_of, ctx, side))
        sizes = row_sizes(found)
        graph = found.rechunk((balanced_chunks(sizes), -1))
        ctx.store(outputs.GRAPH.of(side=side), graph)
        facts[f"{side}_n_edges"] = int(sizes.sum()) // 2
    return facts


def _graph_of(ctx: Context, side: str) -> da.Array:
    options = ctx.job.alignment
    return affinity_rows(
        rows_of(ctx.job, ctx.workspace, side),
        options.n_neighbors,
        affinity=options.affinity,
        symmetry=options.symmetry,
    )


def plan_links(job: TransferJob, sizes: ParallelSizes, *, side: str) -> Cost:
    """Return the plan of the search for further pairs of the first collection and another."""
    sets = sets_of(job, sizes, ("first", side))
    cost = links_cost(model_of(job), *sets, n_pairs=n_known_pairs(job, sizes, side))
    return cost._replace(exact=sizes.exact)


def n_known_pairs(job: TransferJob, sizes: ParallelSizes, side: str) -> int:
    """Return about how many pairs are known: of a share, of all documents of the smaller collection."""
    n_pairs, options = min(sizes.n_of["first"], sizes.n_of[side]), pair_options(job, side)
    return n_pairs if options["path"] is not None else 1 + int(n_pairs * options["share"])


def n_edges(job: TransferJob, sizes: ParallelSizes, sides: Sequence[str]) -> int:
    """Return the most edges of the joint graph of some collections, the first before the others."""
    model = model_of(job)
    n_links = sum(most_links(model, sizes.n_of[side], n_known_pairs(job, sizes, side)) for side in sides[1:])
    return joint_edges(model, sets_of(job, sizes, sides), n_links)


def link_parameters(job: TransferJob) -> dict[str, Any]:
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
    sizes = [len(ids_of(workspace, one)) for one in ("first", side)]
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


def plan_embedding(job: TransferJob, sizes: ParallelSizes) -> Cost:
    """Return the plan of the joint graph, and of the embedding: systems of equations, some columns in each task."""
    n_rows, edges = sizes.n_documents, n_edges(job, sizes, sides_of(job))
    cost = embedding_cost(model_of(job), n_rows, n_values(job, sizes), n_edges=edges)
    return cost._replace(exact=sizes.exact)


def model_of(job: TransferJob) -> FeaturePreservingEmbedding:
    """Return the estimator of a job."""
    return FeaturePreservingEmbedding(**job.alignment.model_dump())


def run_embedding(ctx: Context) -> dict[str, Any]:
    """Put all documents into one space, and infer the topics or features of those without."""
    job: TransferJob = ctx.job
    workspace, sides = ctx.workspace, sides_of(job)
    graphs = [whole_sparse(outputs.GRAPH.read(workspace, side=side)) for side in sides]
    links = {side: whole_sparse(outputs.of_side(outputs.LINKS, side).read(workspace)) for side in sides[1:]}
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
        names = np.array(ids_of(workspace, "first"), object)
        columns = sp.csc_array(one)
        best = np.asarray(columns.argmax(axis=0)).ravel()
        chance = np.asarray(columns.max(axis=0).toarray()).ravel()
        counterpart = [name if p > 0 else None for name, p in zip(names[best], chance, strict=True)]
        largest = {"topic": features.argmax(axis=1), "share": features.max(axis=1)} if has_topics(job) else {}
        aligned = pa.table(
            {
                "id": ids_of(workspace, side),
                "counterpart": pa.array(counterpart, pa.string()),
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
