"""The core of PSDVec in a job: its counts in row blocks of their own, its dimensions, and what it takes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from distembed.factorization import blocks
from distembed.factorization.psdvec_core import check_core_size, pairs_between, rounds_of
from distembed.job.stage import Context, Counted
from distembed.linalg.blocks import combine_basis, sparse_times_dense
from distembed.linalg.chunks import VALUES_PER_BLOCK, cut_rows
from distembed.linalg.eigen import EIGEN_COPIES, krylov_basis
from distembed.plan import Dimension, Dimensions, StagePlan, stage_plan, task
from distembed.stages import outputs
from distembed.stages.dimensions import PAIR_BYTES
from distembed.storage.workspace import Workspace


def core_block_values(block_memory: int) -> int:
    """Return the values of a row block of the core's counts.

    The blocks of all counts are made for all rows and columns: in the core they would be many and small. Its own, like
    those, take at most an eighth of the block memory.
    """
    return min(VALUES_PER_BLOCK, block_memory // 8 // PAIR_BYTES)


def core_counts(ctx: Context, counts: da.Array, n_core: int) -> da.Array:
    """Return the counts of the core words among each other."""
    row_nonzeros = np.asarray(outputs.ROW_NONZEROS.read(ctx.workspace)["n_nonzero"])
    row_chunks = cut_rows(row_nonzeros[:n_core], core_block_values(ctx.job.resources.block_memory))
    return pairs_between(counts, slice(n_core), slice(n_core)).rechunk({0: row_chunks})


def core_dimensions(
    options: Any, word: Dimension, pair: Dimension, block_memory: int, counted: Counted | None
) -> dict[str, Dimension]:
    """Return "core" and "core_pair": the words of the core, and the pairs of them that are counted, at most.

    Raises
    ------
    ValueError
        If `n_core` or `n_components` is more than the words of a vocabulary that is counted.
    """
    n_core = min(options.n_core or word.size, word.size)
    if word.counted:
        n_core = check_core_size(options.n_core, options.n_components, word.size)
    n_pairs, values = min(pair.size, n_core**2), core_block_values(block_memory)
    if counted is not None and (made := counted.stages.get("cooccurrence")):
        n_pairs = min(n_pairs, int(_row_nonzeros(counted.workspace, made.digest)[:n_core].sum()))
    return {
        "core": blocks_of_rows(n_core, n_pairs, values, word.counted),
        "core_pair": Dimension(n_pairs, min(n_pairs, 2 * values), pair.counted),
    }


@lru_cache(maxsize=4)
def _row_nonzeros(workspace: Workspace, digest: str) -> NDArray[np.int64]:  # noqa: ARG001 - tells versions apart
    """Return how many pairs each row of the counts stores; a run asks for each of its stages."""
    return np.asarray(outputs.ROW_NONZEROS.read(workspace)["n_nonzero"])


def blocks_of_rows(n_rows: int, n_values: int, values_per_block: int, counted: bool) -> Dimension:
    """Return the rows of a sparse matrix that is cut by `cut_rows`, where no block has twice their mean."""
    n_blocks = max(1, -(-n_values // values_per_block))
    return Dimension(n_rows, min(n_rows, -(-2 * n_rows // n_blocks)), counted)


def plan_of_core(
    options: Any, dims: Dimensions, *, core: str = "core", pair: str = "core_pair", beside: int = 0
) -> StagePlan:
    """Return what core mode takes beside some bytes, given the names of its words and pairs among the dimensions.

    Its passes read the counts in both orders beside all vectors of a block. The states are the matrices of the rounds,
    two of which share their columns, the residual, and the Krylov basis of a round.
    """
    rounds, n_core = rounds_of(options, dims.size(core)), dims.size(core)
    basis = krylov_basis(
        n_core, rounds[0].rank, block_size=rounds[0].block_size, n_start=1, n_passes=rounds[0].n_passes
    )
    columns = max(basis.columns, min(n_core, rounds[0].rank + 1))
    width = max(basis.width, columns * max(one.n_passes for one in rounds[1:] or rounds))
    counts, both_orders = dims.block(pair, itemsize=PAIR_BYTES), dims.block(pair, itemsize=2 * PAIR_BYTES)
    sparse = dims.whole(pair, itemsize=2 * PAIR_BYTES)
    return stage_plan(
        task(blocks.core_pairs, counts, counts, output=3 * both_orders),
        task(sparse_times_dense, both_orders, output=dims.block(core, columns)),
        task(combine_basis, dims.block(core, width), output=dims.block(core, columns)),
        whole=[
            dims.whole(core, 2 * columns),
            EIGEN_COPIES * dims.whole(width, width, itemsize=8),
            dims.whole(pair, itemsize=PAIR_BYTES),  # cut for their transpose
            beside,
        ],
        stored=3 * sparse + dims.whole(core, columns),
        n_tasks=dims.n_blocks(pair),
        states=3 * sparse + 2 * dims.whole(core, width),
    )
