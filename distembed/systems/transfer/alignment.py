"""The stages of topic transfer that join documents: known pairs, neighbors within a collection, further pairs."""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.costs import Cost
from distembed.execution import prefixed
from distembed.job.stage import Context, whole_sparse
from distembed.linalg import chunks
from distembed.linalg.chunks import VALUES_PER_BLOCK, balanced_chunks
from distembed.manifold.alignment_rounds import SYSTEM_COPIES, SYSTEM_GROUPS, group_width
from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.manifold.propagation import CANDIDATES, propagate_correspondences
from distembed.neighbors.graphs import affinity_rows, joint_rows, row_sizes
from distembed.neighbors.search import MERGED_AT_ONCE
from distembed.stages.collections import SIDE_DOCUMENTS, SIDES, ParallelSizes, find_pairs, sides_of
from distembed.storage.workspace import Workspace
from distembed.systems.transfer import outputs
from distembed.systems.transfer.features import (
    EDGE_BYTES,
    STORED_BYTES,
    VALUE_BYTES,
    edge_bytes,
    has_topics,
    inferred_output,
    n_row_blocks,
    row_bytes,
    rows_of,
    scale_of,
    store_memory,
    values_to_fit,
)
from distembed.systems.transfer.job import TransferJob

SEARCHES = 18
"""Searches for candidates of one search for pairs: 8 rounds and the last, for all pairs and with one fold left out."""
TILES = 2
"""Memories of a block that a task of a search holds: of two blocks that are read and mapped anew, and the next ones."""
PAIR_BYTES = 400
"""Bytes of a document while both collections are joined by their ids."""
VERTEX_BYTES = 100
"""Bytes of a document while a block of the graph of its collection is made: its scale, and ends of its edges."""
CANDIDATE_BYTES = 128
"""Bytes of a candidate while the pairs of one search are compared: its list, and by the rows of both sets."""
LINK_BYTES = 48
"""Bytes of a link while the links are stored: held, with those that are added, and cut into blocks."""


def pair_search_tasks(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return the tasks of one search for further pairs: a tile for each pair of row blocks, in both directions."""
    grids = [n_row_blocks(job, n, VALUE_BYTES) for n in (sizes.n_first, sizes.n_second)]
    tiles = 2 * grids[0] * grids[1] + sum(-(-grid // MERGED_AT_ONCE) for grid in grids)
    return SEARCHES * tiles if job.alignment.propagate else 0


def matching_bytes(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return the memory that a search for further pairs shares: the candidates of the documents, and the links."""
    n_candidates = CANDIDATES * sizes.n_second if job.alignment.propagate else sizes.n_second
    return (CANDIDATE_BYTES + LINK_BYTES) * n_candidates


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
    grids = [n_row_blocks(job, n, STORED_BYTES) for n in (sizes.n_first, sizes.n_second)]
    tasks = sum(grid * grid + grid * -(-grid // MERGED_AT_ONCE) for grid in grids)
    edges, read = edge_bytes(job, sizes), max(grids) * row_bytes(job, sizes)
    lists = 2 * VALUE_BYTES * sizes.n_documents * job.alignment.n_neighbors
    task = (
        TILES * job.resources.block_memory
        + 4 * (lists + edges) // max(1, sum(grids))
        + VERTEX_BYTES * max(sizes.n_first, sizes.n_second)
    )
    return Cost(tasks, read + lists * max(grids), lists + 2 * edges, task, exact=sizes.exact)


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
    n, tasks = sizes.n_documents, pair_search_tasks(job, sizes)
    written = LINK_BYTES // 4 * CANDIDATES * sizes.n_second
    if not job.alignment.propagate:
        return Cost(1, 20 * n, 20 * n, 0, matching_bytes(job, sizes), exact=sizes.exact)
    grid = n_row_blocks(job, sizes.n_first, VALUE_BYTES)
    lists = 2 * VALUE_BYTES * CANDIDATES * n * SEARCHES if grid > 1 else 0
    read = SEARCHES * (grid + 1) * row_bytes(job, sizes) + lists
    task, shared = TILES * job.resources.block_memory, matching_bytes(job, sizes)
    return Cost(tasks, read, written + lists, task, shared, 2 * SEARCHES, exact=sizes.exact)


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


ROUNDS = 6
"""Rounds of the alternation that a fit takes, about."""


START_COPIES, START_COLUMNS = 9, 20
"""Blocks of vectors that the search for the starting vectors holds, and columns of each beyond those wanted.
Measured on 20,000 to 200,000 rows (tests/benchmarks/TRANSFER.md)."""


def fit_bytes(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return the memory that the embedding shares: the starting vectors, and the graph where it is held."""
    columns = job.alignment.n_components + max(START_COLUMNS, job.alignment.n_components // 5)
    held = min(edge_bytes(job, sizes), job.resources.block_memory)
    return 8 * START_COPIES * sizes.n_documents * columns + 3 * held


def system_bytes(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return the memory of one task of the embedding: some systems, and a block of the graph."""
    width = group_width(sizes.n_documents, job.alignment.n_components, job.resources.block_memory)
    return 8 * SYSTEM_COPIES * sizes.n_documents * width + chunks.STORED_BYTES * VALUES_PER_BLOCK


def n_systems(job: TransferJob) -> int:
    """Return the tasks of all rounds: groups of systems of equations."""
    return min(job.alignment.n_components, SYSTEM_GROUPS) * ROUNDS


def plan_embedding(job: TransferJob, sizes: ParallelSizes) -> Cost:
    """Return the plan of the embedding: systems of equations, some columns in each task."""
    written = 8 * sizes.n_documents * job.alignment.n_components + edge_bytes(job, sizes)
    task, shared = system_bytes(job, sizes), fit_bytes(job, sizes)
    return Cost(n_systems(job), edge_bytes(job, sizes), written, task, shared, exact=sizes.exact)


def embedding_of(ctx: Context) -> FeaturePreservingEmbedding:
    """Return the estimator of a job, which stores its intermediate arrays in the stage."""
    return FeaturePreservingEmbedding(
        **ctx.job.alignment.model_dump(),
        block_memory=ctx.job.resources.block_memory,
        checkpoint=ctx.stage.checkpoint,
    )


def run_embedding(ctx: Context) -> dict[str, Any]:
    """Put all documents into one space, and infer the topics or features of those without."""
    job: TransferJob = ctx.job
    workspace, sides = ctx.workspace, sides_of(job)
    links = whole_sparse(outputs.LINKS.read(workspace)) if len(sides) == 2 else None
    model = embedding_of(ctx).fit_graph(_joint_graph(ctx), *values_to_fit(job, workspace, links))
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
