"""What an imputation job will take, before anything runs.

The domain table is read for its size unless a finished stage knows it: it fits in memory, or the job cannot run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distembed.linalg.chunks import COLUMN_BLOCKS, LEAST_ROWS, ROW_COPIES, row_chunk
from distembed.manifold.imputation import COLUMN_COPIES
from distembed.neighbors.distances import distance_chunk
from distembed.neighbors.search import MERGED_AT_ONCE
from distembed.pipeline.imputation.config import ImputationJob
from distembed.pipeline.imputation.stages import keeps_distances
from distembed.pipeline.imputation.tables import read_domain, read_known
from distembed.pipeline.inputs import file_sizes, recorded_bytes
from distembed.pipeline.plan import Plan, StagePlan
from distembed.storage.workspace import Workspace

TABLE_COPIES = 4
"""Copies of a table in memory while it is read: the file, its columns, the matrix, and one transformed."""

GRAPH_COPIES, WEIGHT_COPIES, VECTOR_COPIES = 3, 8, 12
"""Copies of the domain (vectors: of all vectors, float32) that a stage holds beside its tasks: what is read, cut anew,
and solved in float64 before it is stored. Measured on 4,000 to 100,000 names (tests/benchmarks/IMPUTATION.md)."""

NEIGHBOR_BYTES = 16
"""Bytes of one neighbour in a list: a float64 distance and a row number."""


class Sizes(NamedTuple):
    """Rows and columns of the domain, components of the vectors."""

    n_names: int
    n_features: int
    n_components: int
    input_bytes: int
    domain_bytes: int  # of the matrix in memory


def imputation_plan(job: ImputationJob, workspace: Workspace | None = None) -> Plan:
    """Return the plan of a job; what a committed join of `workspace` has counted is not read again."""
    sizes = _sizes(job, workspace)
    text = (
        f"{sizes.n_names:,} names x {sizes.n_features:,} numbers, vectors of {sizes.n_components} components"
    )
    return Plan(job, text, _stages(job, sizes))


def _sizes(job: ImputationJob, workspace: Workspace | None) -> Sizes:
    done = workspace.stages() if workspace is not None else {}
    if workspace is not None and "join" in done:
        n_bytes = recorded_bytes(done["join"])
        spec = workspace.describe("domain").spec
        width = np.dtype(spec.dtype).itemsize
        n_components = workspace.describe("known_vectors").spec.shape[1]
        n, d = spec.shape
        return Sizes(n, d, n_components, n_bytes, width * n * d)
    matrix = read_domain(job.domain).matrix
    n, d = matrix.shape
    known = read_known(job.known.model_copy(update={"max_words": 1}))
    n_bytes = sum(file_sizes([job.domain.path, job.known.path]).values())
    return Sizes(n, d, known.vectors.shape[1], n_bytes, matrix.nbytes)


def _stages(job: ImputationJob, sizes: Sizes) -> tuple[StagePlan, ...]:
    n, d, s, n_bytes, domain = sizes
    block = job.resources.block_memory
    vectors, edges = 4 * n * s, 12 * 2 * n * job.imputation.min_degree
    column_tasks = max(min(COLUMN_BLOCKS, s), -(-COLUMN_COPIES * 8 * n * s // block))
    weighing = min(block, 2 * 8 * d * (edges // 12) // COLUMN_BLOCKS)
    solving = min(block, COLUMN_COPIES * 8 * n * -(-s // column_tasks))
    return (
        StagePlan("join", 1, n_bytes, domain + vectors, 0, TABLE_COPIES * (domain + vectors)),
        _graph_stage(job, sizes, edges),
        StagePlan(
            "weights", COLUMN_BLOCKS, domain + edges, edges, weighing, WEIGHT_COPIES * domain + 3 * edges
        ),
        StagePlan(
            "vectors", column_tasks, vectors + edges, vectors, solving, VECTOR_COPIES * vectors + 3 * edges
        ),
    )


def _graph_stage(job: ImputationJob, sizes: Sizes, edges: int) -> StagePlan:
    """Return the plan of the quadratic stage: distances made again by tiles, or kept and read."""
    n, domain = sizes.n_names, sizes.domain_bytes
    block = job.resources.block_memory
    lists = NEIGHBOR_BYTES * n * job.imputation.min_degree
    shared = GRAPH_COPIES * domain + 3 * lists
    if keeps_distances(job, n):
        tasks = 2 * -(-n // distance_chunk(n, block))
        return StagePlan(
            "graph", tasks, tasks * domain + 4 * n * n, 4 * n * n + lists + edges, 2 * block, shared
        )
    grid = -(-n // row_chunk(n, domain // n, block))
    tasks = grid * grid + grid * -(-grid // MERGED_AT_ONCE)
    searching = min(block, ROW_COPIES * domain) + 4 * min(n, LEAST_ROWS) ** 2
    return StagePlan("graph", tasks, 2 * grid * domain, lists + edges, searching, shared)
