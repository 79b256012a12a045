"""The stage of topic transfer that puts all documents into one space and infers the topics or features of some."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.costs import Cost
from distembed.linalg.chunks import STORED_BYTES, VALUES_PER_BLOCK
from distembed.manifold.alignment_rounds import SYSTEM_COPIES, SYSTEM_GROUPS, group_width
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.neighbors.graphs import joint_rows, row_sizes
from distembed.pipeline.context import Context, stored_sparse, whole_sparse
from distembed.pipeline.corpus.collections import SIDES, ParallelSizes, sides_of
from distembed.pipeline.systems.transfer.arrays import store_memory
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.pipeline.systems.transfer.features import has_topics, inferred_name, scale_of, values_to_fit
from distembed.pipeline.systems.transfer.sizes import EDGE_BYTES, edge_bytes
from distembed.storage.workspace import Workspace

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
    return 8 * SYSTEM_COPIES * sizes.n_documents * width + STORED_BYTES * VALUES_PER_BLOCK


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
    links = stored_sparse(workspace, "links") if len(sides) == 2 else None
    model = embedding_of(ctx).fit_graph(_joint_graph(ctx), *values_to_fit(job, workspace, links))
    n = workspace.array(f"{sides[0]}_graph").shape[0]
    dims = ("document", "component")
    meaning = "Place of a document in the space of all documents."
    for side, rows in zip(sides, (slice(0, n), slice(n, None)), strict=False):
        store_memory(ctx, f"{side}_embedding", model.embedding_[rows].astype(np.float32), dims, meaning)
    _store_inferred(ctx, model, n)
    ctx.stage.store_table("objective", pa.table({"objective": model.objective_}))
    if links is not None:
        ctx.stage.store_table("aligned", _aligned_table(job, workspace, links, model.features_[n:]))
    return {"converged": model.converged_, "n_iter": model.n_iter_}


def _joint_graph(ctx: Context) -> Any:
    """Return the joint graph, in memory if a block may be so large, else in row blocks on disk that are read again."""
    sides = sides_of(ctx.job)
    graphs = [ctx.workspace.array(f"{side}_graph") for side in sides]
    links = ctx.workspace.array("links") if len(sides) == 2 else None
    weight = ctx.job.alignment.correspondence_weight
    joint = ctx.stage.checkpoint("joint-graph", lambda: joint_rows(graphs, links, weight=weight))
    stored = EDGE_BYTES * int(row_sizes(joint).sum())
    return whole_sparse(joint) if stored <= ctx.job.resources.block_memory else joint


def _store_inferred(ctx: Context, model: FeaturePreservingEmbedding, n_first: int) -> None:
    """Store the inferred topics or features, and the regression behind them, in the units of the input."""
    job: TransferJob = ctx.job
    scale, what = scale_of(job, ctx.workspace), "topic" if has_topics(job) else "feature"
    meaning = f"{what.capitalize()}s of a document are the mean ones plus its place times this."
    store_memory(ctx, "regression", model.regression_ * scale, ("component", what), meaning)
    inferred = {} if job.second is None else {inferred_name(job): model.features_[n_first:]}
    if not has_topics(job):
        inferred["inferred_features"] = model.features_[:n_first]
    meaning = f"Inferred {'share of a topic' if what == 'topic' else 'feature'} of a document."
    for name, values in inferred.items():
        store_memory(ctx, name, (values * scale).astype(np.float32), ("document", what), meaning)


def _aligned_table(job: TransferJob, workspace: Workspace, links: sp.csr_array, features: Floats) -> pa.Table:
    """Return for each document of the second collection its likeliest counterpart, and its largest topic if any."""
    names = [workspace.table(f"{side}_documents")["id"].to_numpy(zero_copy_only=False) for side in SIDES]
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
