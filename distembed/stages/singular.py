"""What the largest singular values of a sparse matrix take in a job."""

from __future__ import annotations

from functools import partial

from distembed.linalg.blocks import combine_basis, transposed_times_dense
from distembed.linalg.eigen import EIGEN_COPIES, krylov_basis
from distembed.linalg.singular import check_rank
from distembed.plan import Dimensions, StagePlan, stage_plan, task
from distembed.stages.dimensions import PAIR_BYTES


def plan_of_triplets(
    dims: Dimensions,
    k: int,
    *,
    rows: str,
    columns: str,
    values: str,
    n_passes: int,
    oversampling: int,
    itemsize: int = 4,
    name: str = "n_components",
) -> StagePlan:
    """Return what `largest_singular_triplets` takes, with the vectors of both sides stored.

    Each pass reads the matrix, or its transpose where that has more rows; a task has a block of it beside all vectors
    of a block, and its share of their product.

    Parameters
    ----------
    dims : Dimensions
    k, n_passes, oversampling : int
        The options of these names.
    rows, columns, values : str
        The dimensions of the matrix and of its stored values.
    itemsize : int
        Bytes of a number of the vectors.
    name : str
        What errors call k.

    Raises
    ------
    ValueError
        If the matrix is counted, and has fewer rows or columns than k.
    """
    if dims[rows].counted and dims[columns].counted:
        check_rank(k, dims.size(rows), dims.size(columns), name=name)
    short, long = sorted((rows, columns), key=dims.size)
    n = dims.size(short)
    basis = krylov_basis(n, k, block_size=min(k + oversampling, n), n_passes=n_passes)
    block, whole = (partial(size, itemsize=itemsize) for size in (dims.block, dims.whole))
    pairs, vectors = dims.block(values, itemsize=PAIR_BYTES), block(short, basis.columns)
    return stage_plan(
        task(transposed_times_dense, pairs, block(long, basis.columns), output=whole(short, basis.columns)),
        task(combine_basis, block(short, basis.width), output=vectors),
        whole=[
            whole(2, short, basis.columns),
            dims.whole(EIGEN_COPIES, basis.width, basis.width, itemsize=8),
            *[dims.whole(2, values, itemsize=PAIR_BYTES)] * (short == rows),  # cut for its transpose
        ],
        stored=whole(rows, k) + whole(columns, k),
        n_tasks=dims.n_blocks(values),
        states=whole(2, short, basis.width),
    )
