"""What an imputation job will take, before anything runs.

The domain table is read for its size unless a finished stage knows it: it fits in memory, or the job cannot run.
"""

from __future__ import annotations

from typing import NamedTuple

from distembed.manifold.distances import LEAST_ROWS, row_chunk
from distembed.manifold.imputation import COLUMN_BLOCKS, COLUMN_COPIES
from distembed.manifold.neighbors import MERGED_AT_ONCE
from distembed.pipeline.context import file_stamps
from distembed.pipeline.imputation_config import ImputationJob
from distembed.pipeline.plan import Plan, StagePlan
from distembed.pipeline.tables import read_domain, read_known
from distembed.storage.workspace import Workspace

TABLE_COPIES = 3
"""Copies of a table in memory while it is read: its columns, the matrix, and one transformed."""

NEIGHBOR_BYTES = 16
"""Bytes of one neighbour in a list: a float64 distance and a row number."""


class Sizes(NamedTuple):
    """Rows and columns of the domain, components of the vectors."""

    n_names: int
    n_features: int
    n_components: int
    input_bytes: int


def imputation_plan(job: ImputationJob, workspace: Workspace | None = None) -> Plan:
    """Return the plan of a job; what a committed join of `workspace` has counted is not read again."""
    sizes = _sizes(job, workspace)
    text = (
        f"{sizes.n_names:,} names x {sizes.n_features:,} numbers, vectors of {sizes.n_components} components"
    )
    return Plan(job, text, _stages(job, sizes))


def _sizes(job: ImputationJob, workspace: Workspace | None) -> Sizes:
    n_bytes = sum(stamp[1] for stamp in file_stamps([job.domain.path, job.known.path]))
    if workspace is not None and "join" in workspace.stages():
        n, d = workspace.describe("domain").spec.shape
        return Sizes(n, d, workspace.describe("known_vectors").spec.shape[1], n_bytes)
    n, d = read_domain(job.domain).matrix.shape
    known = read_known(job.known.model_copy(update={"max_words": 1}))
    return Sizes(n, d, known.vectors.shape[1], n_bytes)


def _stages(job: ImputationJob, sizes: Sizes) -> tuple[StagePlan, ...]:
    n, d, s, n_bytes = sizes
    block, degree = job.resources.block_memory, job.imputation.min_degree
    domain, vectors, lists = 8 * n * d, 4 * n * s, NEIGHBOR_BYTES * n * degree
    grid = -(-n // row_chunk(n, 8 * d, block))
    edges = 12 * 2 * n * degree
    column_tasks = max(min(COLUMN_BLOCKS, s), -(-COLUMN_COPIES * 8 * n * s // block))
    tile = 4 * min(n, LEAST_ROWS) ** 2
    return (
        StagePlan("join", 1, n_bytes, domain + vectors, TABLE_COPIES * (domain + vectors)),
        StagePlan(
            "graph",
            grid * grid + grid * -(-grid // MERGED_AT_ONCE),
            2 * grid * domain,
            lists + edges,
            block + tile + 3 * lists,
        ),
        StagePlan("weights", COLUMN_BLOCKS, domain + edges, edges, block + 3 * edges),
        StagePlan("vectors", column_tasks, vectors + edges, vectors, block + 3 * edges + vectors // 4),
    )
