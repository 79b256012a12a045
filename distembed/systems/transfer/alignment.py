"""The stages of topic transfer that join documents: known pairs, neighbors within a collection, further pairs."""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.costs import Cost, add_costs
from distembed.execution import Checkpoint, on_disk, prefixed
from distembed.job.stage import Context, whole_sparse
from distembed.linalg.chunks import balanced_chunks
from distembed.manifold.alignment_costs import (
    embedding_cost,
    graph_costs,
    joint_cost,
    joint_edges,
    links_cost,
    most_links,
)
from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.manifold.propagation import propagate_correspondences
from distembed.neighbors.costs import EDGE_BYTES
from distembed.neighbors.graphs import affinity_rows, joint_rows, row_sizes
from distembed.stages.collections import SIDE_DOCUMENTS, SIDES, ParallelSizes, find_pairs, sides_of
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
"""Bytes of a document while both collections are joined by their ids."""


def plan_pairs(job: TransferJob, sizes: ParallelSizes) -> Cost:  # noqa: ARG001
    """Return the plan of joining both collections by their ids."""
    n = sizes.n_documents
    return Cost(1, 20 * n, 24 * n, PAIR_BYTES * n, exact=sizes.exact)


def run_pairs(ctx: Context) -> dict[str, Any]:
    """Find the documents of both collections that are the same, and which of them are known to be."""
    first, second = (SIDE_DOCUMENTS.read(ctx.workspace, side=side)["id"].to_pylist() for side in SIDES)
    pairs = find_pairs(first, second, **ctx.job.pairs.model_dump())
    correspondence_matrix(
        np.column_stack([pairs.rows, pairs.confidence])[pairs.known], len(first), len(second)
    )
    columns = {"first": pairs.rows[:, 0], "second": pairs.rows[:, 1]}
    table = pa.table({**columns, "confidence": pairs.confidence, "known": pairs.known})
    ctx.store_table(outputs.PAIRS, table)
    return {"n_pairs": len(pairs.known), "n_known": int(pairs.known.sum())}


def plan_graphs(job: TransferJob, sizes: ParallelSizes) -> Cost:
    """Return the plan of the neighbors within each collection."""
    model, sets = model_of(job), sets_of(job, sizes)
    stored = [joint_cost(rows.n_rows, joint_edges(model, [rows])) for rows in sets]
    return add_costs([*graph_costs(model, sets, reread=True), *stored])._replace(exact=sizes.exact)


def graph_parameters(job: TransferJob) -> dict[str, Any]:
    """Return the options of the graphs."""
    options = {"n_neighbors", "affinity", "symmetry"}
    return {
        "alignment": job.alignment.model_dump(mode="json", include=options),
        "block_memory": job.resources.block_memory,
    }


def run_graphs(ctx: Context) -> dict[str, Any]:
    """Join each document with its nearest in its own collection."""
    facts = {}
    for side in sides_of(ctx.job):
        # By the search's blocks of rows first, each of which reads all lists; then in blocks of about equal size.
        found = ctx.stage.checkpoint(f"{side}-graph", partial(_graph_of, ctx, side))
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
        block_memory=ctx.job.resources.block_memory,
        checkpoint=prefixed(ctx.stage.checkpoint, f"{side}-"),
        reread=True,
    )


def plan_links(job: TransferJob, sizes: ParallelSizes) -> Cost:
    """Return the plan of the search for further pairs."""
    cost = links_cost(model_of(job), *sets_of(job, sizes), n_pairs=n_known_pairs(job, sizes))
    return cost._replace(exact=sizes.exact)


def n_known_pairs(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return about how many pairs are known: of a share, of all documents of the smaller collection."""
    n_pairs = min(sizes.n_first, sizes.n_second)
    return n_pairs if job.pairs.path is not None else 1 + int(n_pairs * job.pairs.share)


def n_edges(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return the most edges of the joint graph of all documents."""
    n_links = most_links(model_of(job), sizes.n_second, n_known_pairs(job, sizes))
    return joint_edges(model_of(job), sets_of(job, sizes), n_links)


def link_parameters(job: TransferJob) -> dict[str, Any]:
    """Return whether further pairs are sought, and the memory of a block, which lays the grid."""
    options = {"propagate", "random_state"}
    return {
        "alignment": job.alignment.model_dump(mode="json", include=options),
        "block_memory": job.resources.block_memory,
    }


def known_links(workspace: Workspace) -> sp.csr_array:
    """Return the known pairs as a matrix of confidences."""
    table = outputs.PAIRS.read(workspace)
    rows = np.column_stack(
        [np.asarray(table[name], np.float64) for name in ("first", "second", "confidence")]
    )
    sizes = [SIDE_DOCUMENTS.read(workspace, side=side).num_rows for side in SIDES]
    return correspondence_matrix(rows[np.asarray(table["known"])], *sizes)


def run_links(ctx: Context) -> dict[str, Any]:
    """Find probable pairs beside the known ones."""
    links, facts = known_links(ctx.workspace), {}
    if ctx.job.alignment.propagate:
        first, second = (rows_of(ctx.job, ctx.workspace, side) for side in SIDES)
        found = propagate_correspondences(
            first,
            second,
            links,
            random_state=ctx.job.alignment.random_state,
            block_memory=ctx.job.resources.block_memory,
            checkpoint=ctx.stage.checkpoint,
        )
        links = found.links
        facts = {"temperature": found.temperature, "lost_share": found.lost_share, "found": found.n_found}
    store_memory(ctx, outputs.LINKS, links)
    return {**facts, "n_links": int(links.nnz)}


Floats = NDArray[np.float64]


def plan_embedding(job: TransferJob, sizes: ParallelSizes) -> Cost:
    """Return the plan of the joint graph, and of the embedding: systems of equations, some columns in each task."""
    n_rows, edges = sizes.n_documents, n_edges(job, sizes)
    fit = embedding_cost(
        model_of(job), n_rows, n_values(job, sizes), n_edges=edges, graph_memory=job.resources.block_memory
    )
    return add_costs([joint_cost(n_rows, edges), fit])._replace(exact=sizes.exact)


def model_of(job: TransferJob, checkpoint: Checkpoint = on_disk) -> FeaturePreservingEmbedding:
    """Return the estimator of a job."""
    return FeaturePreservingEmbedding(
        **job.alignment.model_dump(), block_memory=job.resources.block_memory, checkpoint=checkpoint
    )


def run_embedding(ctx: Context) -> dict[str, Any]:
    """Put all documents into one space, and infer the topics or features of those without."""
    job: TransferJob = ctx.job
    workspace, sides = ctx.workspace, sides_of(job)
    links = whole_sparse(outputs.LINKS.read(workspace)) if len(sides) == 2 else None
    model = model_of(job, ctx.stage.checkpoint).fit_graph(
        _joint_graph(ctx), *values_to_fit(job, workspace, links)
    )
    n = outputs.GRAPH.read(workspace, side=sides[0]).shape[0]
    for side, rows in zip(sides, (slice(0, n), slice(n, None)), strict=False):
        store_memory(ctx, outputs.EMBEDDING.of(side=side), model.embedding_[rows].astype(np.float32))
    _store_inferred(ctx, model, n)
    ctx.store_table(outputs.OBJECTIVE, pa.table({"objective": model.objective_}))
    if links is not None:
        ctx.store_table(outputs.ALIGNED, _aligned_table(job, workspace, links, model.features_[n:]))
    return {"converged": model.converged_, "n_iter": model.n_iter_}


def _joint_graph(ctx: Context) -> Any:
    """Return the joint graph, in memory if a block may be so large, else in row blocks on disk that are read again."""
    sides = sides_of(ctx.job)
    graphs = [outputs.GRAPH.read(ctx.workspace, side=side) for side in sides]
    links = outputs.LINKS.read(ctx.workspace) if len(sides) == 2 else None
    weight = ctx.job.alignment.correspondence_weight
    joint = ctx.stage.checkpoint("joint-graph", lambda: joint_rows(graphs, links, weight=weight))
    stored = EDGE_BYTES * int(row_sizes(joint).sum())
    return whole_sparse(joint) if stored <= ctx.job.resources.block_memory else joint


def _store_inferred(ctx: Context, model: FeaturePreservingEmbedding, n_first: int) -> None:
    """Store the inferred topics or features, and the regression behind them, in the units of the input."""
    job: TransferJob = ctx.job
    scale = scale_of(job, ctx.workspace)
    regression = outputs.TOPIC_REGRESSION if has_topics(job) else outputs.FEATURE_REGRESSION
    store_memory(ctx, regression, model.regression_ * scale)
    inferred = {} if job.second is None else {inferred_output(job): model.features_[n_first:]}
    if not has_topics(job):
        inferred[outputs.INFERRED_FEATURES] = model.features_[:n_first]
    for output, values in inferred.items():
        store_memory(ctx, output, (values * scale).astype(np.float32))


def _aligned_table(job: TransferJob, workspace: Workspace, links: sp.csr_array, features: Floats) -> pa.Table:
    """Return for each document of the second collection its likeliest counterpart, and its largest topic if any."""
    names = [SIDE_DOCUMENTS.read(workspace, side=side)["id"].to_numpy(zero_copy_only=False) for side in SIDES]
    columns = sp.csc_array(links)
    best = np.asarray(columns.argmax(axis=0)).ravel()
    chance = np.asarray(columns.max(axis=0).toarray()).ravel()
    counterpart = [name if p > 0 else None for name, p in zip(names[0][best], chance, strict=True)]
    largest = {"topic": features.argmax(axis=1), "share": features.max(axis=1)} if has_topics(job) else {}
    return pa.table(
        {
            "id": names[1].tolist(),
            "counterpart": pa.array(counterpart, pa.string()),
            "probability": chance,
            **largest,
        }
    )
