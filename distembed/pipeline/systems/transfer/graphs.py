"""The stages of topic transfer that join documents: known pairs, neighbors within a collection, further pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from distembed.manifold.correspondences import correspondence_matrix, propagate_correspondences
from distembed.manifold.joint_graph import prefixed
from distembed.neighbors.graphs import neighbor_affinity
from distembed.neighbors.search import MERGED_AT_ONCE
from distembed.pipeline.context import Context
from distembed.pipeline.corpus.collections import SIDES, ParallelSizes, find_pairs, sides_of
from distembed.pipeline.plan import StagePlan
from distembed.pipeline.systems.transfer.arrays import in_memory, store_memory
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.pipeline.systems.transfer.rows import rows_of
from distembed.pipeline.systems.transfer.sizes import edge_bytes, n_row_blocks, row_bytes
from distembed.storage.workspace import Workspace

SEARCH_COPIES = 6
"""Copies of the rows of both collections that the search for pairs holds in memory."""

SEARCHES = 24
"""Neighbor searches of one search for pairs: 8 rounds, for all pairs and with each half left out."""


def _search_tasks(job: TransferJob, sizes: ParallelSizes) -> int:
    grid = n_row_blocks(job, sizes)
    return grid * grid + grid * -(-grid // MERGED_AT_ONCE)


def pair_search_tasks(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return the tasks of one search for further pairs."""
    return SEARCHES * _search_tasks(job, sizes) if job.alignment.propagate else 0


def matching_bytes(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return the memory of the stage of links."""
    rows = 8 * sizes.n_documents * job.representation.n_components
    searching = SEARCH_COPIES * rows + job.resources.block_memory
    return searching if job.alignment.propagate else edge_bytes(job, sizes)


def plan_pairs(job: TransferJob, sizes: ParallelSizes) -> StagePlan:  # noqa: ARG001
    """Return the plan of joining both collections by their ids."""
    n = sizes.n_documents
    return StagePlan(1, 20 * n, 24 * n, 200 * n, exact=sizes.exact)


def run_pairs(ctx: Context) -> dict[str, Any]:
    """Find the documents of both collections that are the same, and which of them are known to be."""
    first, second = (ctx.workspace.table(f"{side}_documents")["id"].to_pylist() for side in SIDES)
    pairs = find_pairs(first, second, **ctx.job.pairs.model_dump())
    correspondence_matrix(
        np.column_stack([pairs.rows, pairs.confidence])[pairs.known], len(first), len(second)
    )
    columns = {"first": pairs.rows[:, 0], "second": pairs.rows[:, 1]}
    table = pa.table({**columns, "confidence": pairs.confidence, "known": pairs.known})
    ctx.stage.store_table("pairs", table)
    return {"n_pairs": len(pairs.known), "n_known": int(pairs.known.sum())}


def plan_graphs(job: TransferJob, sizes: ParallelSizes) -> StagePlan:
    """Return the plan of the neighbors within each collection."""
    edges, read = edge_bytes(job, sizes), 2 * n_row_blocks(job, sizes) * row_bytes(job, sizes)
    task = job.resources.block_memory + 3 * edges
    return StagePlan(_search_tasks(job, sizes), read, edges, task, exact=sizes.exact)


def graph_parameters(job: TransferJob) -> dict[str, Any]:
    """Return the options of the graphs."""
    options = {"n_neighbors", "affinity", "symmetry"}
    return {
        "alignment": job.alignment.model_dump(mode="json", include=options),
        "block_memory": job.resources.block_memory,
    }


def run_graphs(ctx: Context) -> dict[str, Any]:
    """Join each document with its nearest in its own collection."""
    options, facts = ctx.job.alignment, {}
    for side in sides_of(ctx.job):
        graph = neighbor_affinity(
            rows_of(ctx.job, ctx.workspace, side),
            options.n_neighbors,
            affinity=options.affinity,
            symmetry=options.symmetry,
            block_memory=ctx.job.resources.block_memory,
            checkpoint=prefixed(ctx.stage.checkpoint, side),
        )
        meaning = "Affinity of two documents of a collection."
        store_memory(ctx, f"{side}_graph", graph, ("document", "neighbor"), meaning)
        facts[f"{side}_n_edges"] = graph.nnz // 2
    return facts


def plan_links(job: TransferJob, sizes: ParallelSizes) -> StagePlan:
    """Return the plan of the search for further pairs."""
    written, task = edge_bytes(job, sizes), matching_bytes(job, sizes)
    return StagePlan(pair_search_tasks(job, sizes), row_bytes(job, sizes), written, task, exact=sizes.exact)


def link_parameters(job: TransferJob) -> dict[str, Any]:
    """Return whether further pairs are sought."""
    return {"alignment": job.alignment.model_dump(mode="json", include={"propagate", "random_state"})}


def known_links(workspace: Workspace) -> sp.csr_array:
    """Return the known pairs as a matrix of confidences."""
    table = workspace.table("pairs")
    rows = np.column_stack(
        [np.asarray(table[name], np.float64) for name in ("first", "second", "confidence")]
    )
    sizes = [workspace.table(f"{side}_documents").num_rows for side in SIDES]
    return correspondence_matrix(rows[np.asarray(table["known"])], *sizes)


def run_links(ctx: Context) -> dict[str, Any]:
    """Find probable pairs beside the known ones."""
    links, facts = known_links(ctx.workspace), {}
    if ctx.job.alignment.propagate:
        first, second = (in_memory(rows_of(ctx.job, ctx.workspace, side)) for side in SIDES)
        found = propagate_correspondences(
            first,
            second,
            links,
            random_state=ctx.job.alignment.random_state,
            block_memory=ctx.job.resources.block_memory,
        )
        links = found.links
        facts = {"temperature": found.temperature, "lost_share": found.lost_share, "found": found.n_found}
    meaning = "Probability that two documents are the same; 1 where it is known."
    store_memory(ctx, "links", links, ("first_document", "second_document"), meaning)
    return {**facts, "n_links": int(links.nnz)}
