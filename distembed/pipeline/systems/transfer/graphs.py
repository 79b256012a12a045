"""The stages of topic transfer that join documents: known pairs, neighbors within a collection, further pairs."""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from distembed.costs import Cost
from distembed.linalg.chunks import balanced_chunks
from distembed.manifold.correspondences import correspondence_matrix
from distembed.manifold.joint_graph import prefixed
from distembed.manifold.propagation import CANDIDATES, propagate_correspondences
from distembed.neighbors.graphs import affinity_rows, row_sizes
from distembed.neighbors.search import MERGED_AT_ONCE
from distembed.pipeline.context import Context
from distembed.pipeline.corpus.collections import SIDES, ParallelSizes, find_pairs, sides_of
from distembed.pipeline.systems.transfer.arrays import store, store_memory
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.pipeline.systems.transfer.rows import rows_of
from distembed.pipeline.systems.transfer.sizes import (
    STORED_BYTES,
    VALUE_BYTES,
    edge_bytes,
    n_row_blocks,
    row_bytes,
)
from distembed.storage.workspace import Workspace

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
    first, second = (ctx.workspace.table(f"{side}_documents")["id"].to_pylist() for side in SIDES)
    pairs = find_pairs(first, second, **ctx.job.pairs.model_dump())
    correspondence_matrix(
        np.column_stack([pairs.rows, pairs.confidence])[pairs.known], len(first), len(second)
    )
    columns = {"first": pairs.rows[:, 0], "second": pairs.rows[:, 1]}
    table = pa.table({**columns, "confidence": pairs.confidence, "known": pairs.known})
    ctx.stage.store_table("pairs", table)
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
        meaning = "Affinity of two documents of a collection."
        store(ctx, f"{side}_graph", graph, ("document", "neighbor"), meaning)
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
        checkpoint=prefixed(ctx.stage.checkpoint, side),
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
    meaning = "Probability that two documents are the same; 1 where it is known."
    store_memory(ctx, "links", links, ("first_document", "second_document"), meaning)
    return {**facts, "n_links": int(links.nnz)}
