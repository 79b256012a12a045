"""The stage of topic transfer that puts both collections into one space and infers the topics of the second."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.manifold.alignment import FeaturePreservingEmbedding
from distembed.manifold.alignment_rounds import SYSTEM_COPIES, SYSTEM_GROUPS
from distembed.manifold.correspondences import shared_values
from distembed.neighbors.graphs import joint_adjacency
from distembed.pipeline.context import Context, stored_sparse
from distembed.pipeline.corpus.collections import SIDES, ParallelSizes
from distembed.pipeline.plan import StagePlan
from distembed.pipeline.systems.transfer.arrays import in_memory, store_memory
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.pipeline.systems.transfer.sizes import edge_bytes
from distembed.storage.workspace import Workspace

Floats = NDArray[np.float64]


ROUNDS = 6
"""Rounds of the alternation that a fit takes, about."""


def fit_bytes(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return the memory of one task of the embedding."""
    columns = max(1, job.alignment.n_components // SYSTEM_GROUPS)
    return edge_bytes(job, sizes) + 8 * SYSTEM_COPIES * sizes.n_documents * columns


def n_systems(job: TransferJob) -> int:
    """Return the tasks of all rounds: groups of systems of equations."""
    return min(job.alignment.n_components, SYSTEM_GROUPS) * ROUNDS


def plan_embedding(job: TransferJob, sizes: ParallelSizes) -> StagePlan:
    """Return the plan of the embedding: systems of equations, some columns in each task."""
    written = 8 * sizes.n_documents * job.alignment.n_components
    return StagePlan(
        n_systems(job), edge_bytes(job, sizes), written, fit_bytes(job, sizes), exact=sizes.exact
    )


def embedding_of(ctx: Context) -> FeaturePreservingEmbedding:
    """Return the estimator of a job, which stores its intermediate arrays in the stage."""
    return FeaturePreservingEmbedding(
        **ctx.job.alignment.model_dump(),
        block_memory=ctx.job.resources.block_memory,
        checkpoint=ctx.stage.checkpoint,
    )


def run_embedding(ctx: Context) -> dict[str, Any]:
    """Put both collections into one space and infer the topics of the second."""
    workspace = ctx.workspace
    links = stored_sparse(workspace, "links")
    graphs = [stored_sparse(workspace, f"{side}_graph") for side in SIDES]
    adjacency = joint_adjacency(graphs, {(0, 1): links}, weight=ctx.job.alignment.correspondence_weight)
    model = embedding_of(ctx).fit_graph(
        adjacency, *shared_values(in_memory(workspace.array("topics")), links)
    )
    n = links.shape[0]
    dims = ("document", "component")
    meaning = "Place of a document in the space of both collections."
    for side, rows in zip(SIDES, (slice(0, n), slice(n, None)), strict=True):
        store_memory(ctx, f"{side}_embedding", model.embedding_[rows].astype(np.float32), dims, meaning)
    meaning = "Topics of a document are the mean topics plus its place times this."
    store_memory(ctx, "regression", model.regression_, ("component", "topic"), meaning)
    meaning = "Inferred share of a topic in a document of the second collection."
    store_memory(ctx, "second_topics", model.features_[n:].astype(np.float32), ("document", "topic"), meaning)
    ctx.stage.store_table("objective", pa.table({"objective": model.objective_}))
    ctx.stage.store_table("aligned", _aligned_table(workspace, links, model.features_[n:]))
    return {"converged": model.converged_, "n_iter": model.n_iter_}


def _aligned_table(workspace: Workspace, links: sp.csr_array, features: Floats) -> pa.Table:
    """Return for each document of the second collection its likeliest counterpart and its largest topic."""
    names = [workspace.table(f"{side}_documents")["id"].to_numpy(zero_copy_only=False) for side in SIDES]
    columns = sp.csc_array(links)
    best = np.asarray(columns.argmax(axis=0)).ravel()
    chance = np.asarray(columns.max(axis=0).toarray()).ravel()
    counterpart = [name if p > 0 else None for name, p in zip(names[0][best], chance, strict=True)]
    return pa.table(
        {
            "id": names[1].tolist(),
            "counterpart": pa.array(counterpart, pa.string()),
            "probability": chance,
            "topic": features.argmax(axis=1),
            "share": features.max(axis=1),
        }
    )
