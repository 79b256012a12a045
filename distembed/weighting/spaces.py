"""Word spaces assembled from counts: the two halves of HAL, and the choice of columns by their entropy.

Lund and Burgess, Producing high-dimensional semantic spaces from lexical co-occurrence, Behavior Research
Methods, Instruments & Computers 28 (1996).
"""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]


def hal_space(following: da.Array, preceding: da.Array) -> da.Array:
    """Return the two halves of HAL side by side: words after a word, then words before it.

    Parameters
    ----------
    following : Dask array (n, n) of csr_array row blocks
        How often column j stands after row i: `count_cooccurrences(..., window=10, direction="left",
        weighting="ramp")`.
    preceding : Dask array (n, n) of csr_array row blocks
        Its transpose, in the same row chunks: `transpose_row_blocks(following)`, or counts with
        direction="right".

    Returns
    -------
    Dask array (n, 2n) of csr_array row blocks, lazy

    Raises
    ------
    ValueError
        If the halves differ in shape or in row chunks.
    """
    if following.shape != preceding.shape or following.chunks[0] != preceding.chunks[0]:
        raise ValueError(
            f"the halves have shapes {following.shape} and {preceding.shape} in row chunks "
            f"{following.chunks[0]} and {preceding.chunks[0]}; give counts and their transpose"
        )
    dtype = np.result_type(following.dtype, preceding.dtype)
    chunks = (following.chunks[0], (following.shape[1] + preceding.shape[1],))
    return da.map_blocks(
        _beside, following, preceding, chunks=chunks, dtype=dtype, meta=csr_array((0, 0), dtype=dtype)
    )


def _beside(left: csr_array, right: csr_array) -> csr_array:
    joined = csr_array(hstack([left, right], format="csr"))
    joined.sort_indices()
    return joined


def column_entropies(matrix: da.Array) -> Float64s:
    r"""Return the entropy of each column over the rows, float64 (m,), in nats; 0 for an empty column.

    .. math:: H_j = -\sum_i p_{ij} \log p_{ij}, \quad p_{ij} = x_{ij} / \sum_i x_{ij}

    scipy.stats.entropy(X, axis=0) is the equivalent for a dense array.

    Raises
    ------
    ValueError
        If a value is negative, NaN or infinite.
    """
    sums = da.map_blocks(
        _entropy_sums,
        matrix,
        chunks=((1,) * matrix.numblocks[0], (2,), (matrix.shape[1],)),
        new_axis=2,
        dtype=np.float64,
        meta=np.empty((0, 0, 0)),
    )
    totals, logs = sums.sum(axis=0, split_every=8).compute()
    if not np.isfinite(logs).all():
        raise ValueError("the matrix holds a negative, NaN or infinite value; give counts or weights >= 0")
    used = totals > 0
    entropies = np.zeros(len(totals))
    entropies[used] = np.log(totals[used]) - logs[used] / totals[used]
    return np.maximum(entropies, 0.0)


def _entropy_sums(block: Any) -> Float64s:
    """Return (1, 2, m): the sums of x and of x log x of each column; NaN where a value is no weight."""
    values = block.data.astype(np.float64)
    good = np.isfinite(values) & (values >= 0)
    logs = np.zeros_like(values)
    np.log(values, out=logs, where=good & (values > 0))
    terms = np.where(good, values * logs, np.nan)
    m = block.shape[1]
    sums = [np.bincount(block.indices, v, m).astype(np.float64) for v in (values, terms)]
    return np.stack(sums)[None]


def highest_columns(scores: Float64s, n_columns: int) -> Int64s:
    """Return the columns with the highest scores, rising by number; of equal ones those that come first.

    Raises
    ------
    ValueError
        If n_columns is not between 1 and the number of columns.
    """
    if not 1 <= n_columns <= len(scores):
        raise ValueError(f"n_columns is {n_columns} of {len(scores)} columns; choose 1 to {len(scores)}")
    return np.sort(np.argsort(-scores, kind="stable")[:n_columns]).astype(np.int64)


def select_columns(matrix: da.Array, columns: Int64s) -> da.Array:
    """Return some columns of a sparse matrix in row blocks, in the order given; lazy."""
    return matrix.map_blocks(
        _columns_of,
        columns=columns,
        chunks=(matrix.chunks[0], (len(columns),)),
        dtype=matrix.dtype,
        meta=csr_array((0, 0), dtype=matrix.dtype),
    )


def _columns_of(block: csr_array, *, columns: Int64s) -> csr_array:
    chosen = csr_array(block[:, columns])
    chosen.sort_indices()
    return chosen
