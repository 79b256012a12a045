"""Matrices too large to hold as one array: row-chunked sparse, and sparse plus low rank.

A distributed sparse matrix is a Dask array of row blocks (rows_i × all columns) whose chunks are
`csr_array`; a distributed set of vectors is a Dask array with the same row chunks and one column chunk.
Matrices in memory become a few such blocks (`row_blocks`), so that there is one mechanism.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from distembed.dtypes import Floats
from distembed.execution import client_in_force, compute, whole
from distembed.lift import block, fold, lift, part, total, total_of_part
from distembed.linalg import blocks
from distembed.linalg.chunks import VALUES_PER_BLOCK, cut_rows
from distembed.linalg.csr import canonical_csr, row_range


class SymmetricMatrix(NamedTuple):
    """What the eigensolvers need to know of a symmetric matrix."""

    apply: Callable[[da.Array], da.Array]
    """Returns the product with vectors (n × b), in the same row chunks."""
    row_chunks: tuple[int, ...]
    """Rows of each block."""


def whole_csr(matrix: da.Array) -> csr_array:
    """Return a Dask array of CSR row blocks in memory, with the zeros that it stores."""
    csr = partial(canonical_csr, drop_zeros=False)
    found = compute(lift(csr, "wc->w", whole_rows(matrix), dtype=object, sizes={"w": 1}))
    return csr_array(vstack(found.tolist(), format="csr"))


def whole_rows(matrix: da.Array) -> da.Array:
    """Return a Dask array (n × m) whose blocks hold all columns of their rows."""
    return matrix.rechunk({1: -1}) if matrix.numblocks[1] > 1 else matrix


def row_blocks(
    matrix: Any,
    *,
    dtype: Any = None,
    values_per_block: int = VALUES_PER_BLOCK,
    row_chunks: tuple[int, ...] | None = None,
    drop_zeros: bool = True,
) -> da.Array:
    """Return a matrix as a Dask array of CSR row blocks: sorted and without duplicates.

    Parameters
    ----------
    matrix : sparse matrix or array, array, or Dask array (n, m)
    dtype : dtype, optional
        The type of the result; by default that of the matrix.
    values_per_block : int
        Stored values in one block of a matrix in memory, about: see `cut_rows`. Frequent words come first and have the
        fullest rows.
    row_chunks : tuple of int, optional
        The rows of each block; by default those of a Dask array, or of `values_per_block`.
    drop_zeros : bool
        Whether stored zeros go; in a graph they are edges of length zero.

    Returns
    -------
    Dask array (n, m) with csr_array chunks of all columns
    """
    if isinstance(matrix, da.Array):
        rows = matrix.rechunk((row_chunks, -1)) if row_chunks else whole_rows(matrix)
        dtype = rows.dtype if dtype is None else dtype
        canonical = partial(canonical_csr, dtype=dtype, drop_zeros=drop_zeros)
        return lift(canonical, "wc->wc", rows, dtype=dtype, sparse=True)
    csr = canonical_csr(matrix, dtype, drop_zeros=drop_zeros)
    chunks = row_chunks or cut_rows(np.diff(csr.indptr), values_per_block)
    parts = [whole(row_range(csr, i, j)) for i, j in pairwise(np.cumsum([0, *chunks]).tolist())]
    return da.concatenate(parts) if len(parts) > 1 else parts[0]


def dense_blocks(array: Any, row_chunks: int | tuple[int, ...]) -> da.Array:
    """Return dense vectors (n × b) as a Dask array in the given row chunks."""
    chunks = (row_chunks, -1)
    return array.rechunk(chunks) if isinstance(array, da.Array) else da.from_array(array, chunks=chunks)


def gathered(vectors: da.Array) -> da.Array:
    """Return vectors as an array of one block: the side of a product that every row block reads."""
    return vectors.rechunk((-1, -1))


FAN_IN = 16
"""Small matrices, one of each row block, that one task adds: as many as a grid has blocks where memory allows."""


def column_powers(vectors: da.Array, power: int) -> da.Array:
    """Return the sum over the rows of a whole power of each column, shape (b,), float64."""
    return fold(
        total(blocks.column_powers), "wb", vectors, shape=vectors.shape[1:], fan_in=FAN_IN, power=power
    )


def column_products(left: da.Array, right: da.Array) -> da.Array:
    """Return leftᵀ right (a × b, float64) of two sets of vectors in the same row chunks."""
    shape = (left.shape[1], right.shape[1])
    return fold(total(blocks.basis_products), "wb,wa", right, left, shape=shape, fan_in=FAN_IN)


def vectors_with_sums(
    function: Any, indices: str, vectors: da.Array, *others: Any, n_sums: int
) -> tuple[da.Array, Floats]:
    """Return the vectors (n × b) that a function makes in `WithSums`, and its sums (n_sums × b), from one task each."""
    found = lift(function, f"{indices}->wb", vectors, *others, dtype=object, sizes={"w": 1, "b": 1}).persist()
    sums = compute(total_of_part(found, "sums", shape=(n_sums, vectors.shape[1]), fan_in=FAN_IN))
    return part(found, "vectors", vectors, columns=vectors.shape[1]), sums


def times_matrix(vectors: da.Array, matrix: da.Array | Floats) -> da.Array:
    """Return vectors (n × a) times a small matrix (a × b), in the row chunks and dtype of the vectors."""
    return lift(blocks.times_matrix, "wa,ab->wb", vectors, matrix, dtype=vectors.dtype)


def sparse_times(matrix: da.Array, vectors: da.Array) -> da.Array:
    """Return the product of a sparse matrix (n × m, row blocks) with vectors (m × b), in n's row chunks.

    Every task has all of the vectors, in their own row blocks; nothing else is as large as m.
    """
    rows = whole_rows(matrix) if isinstance(matrix, da.Array) else matrix
    return lift(blocks.sparse_times_dense, "wc,Cb->wb", rows, vectors, dtype=vectors.dtype)


def transpose_row_blocks(matrix: da.Array, *, row_chunks: tuple[int, ...] | None = None) -> da.Array:
    """Return the transpose of a sparse matrix of row blocks, as row blocks.

    Each block is cut at the output's bounds in one task, and each output block stacks its pieces: with
    B blocks B² pieces, each moved once on a cluster. Without `row_chunks` a square matrix keeps its chunks, and another
    one gets as many blocks as it had, of equal numbers of rows.
    """
    n, m = matrix.shape
    if row_chunks is not None:
        sizes = row_chunks
    elif n == m:
        sizes = matrix.chunks[0]
    else:
        edges = np.linspace(0, m, min(max(m, 1), matrix.numblocks[0]) + 1).astype(int)
        sizes = tuple(int(size) for size in np.diff(edges))
    bounds = tuple(int(bound) for bound in np.cumsum([0, *sizes]))
    alone = {"w": 1, "c": 1}
    cut = lift(blocks.split_columns, "wc->wc", whole_rows(matrix), dtype=object, sizes=alone, bounds=bounds)
    places, shape = da.arange(len(sizes), chunks=1), {"j": sizes, "k": n}
    if client_in_force() is None:  # in one process a piece is not moved, and not a task of its own
        return lift(_stack_pieces_at, "WC,j->jk", cut, places, dtype=matrix.dtype, sparse=True, sizes=shape)
    pieces = lift(_piece_at, "wC,j->wj", cut, places, dtype=object)
    return lift(blocks.stack_columns, "Wj->jk", pieces, dtype=matrix.dtype, sparse=True, sizes=shape)


@block(temporaries=1)
def _stack_pieces_at(rows: list[tuple[csr_array, ...]], place: NDArray[np.integer]) -> csr_array:
    return blocks.stack_columns([pieces[place[0]] for pieces in rows])


@block(temporaries=0.5)
def _piece_at(rows: list[tuple[csr_array, ...]], place: NDArray[np.integer]) -> csr_array:
    return rows[0][place[0]]


def count_values(matrix: da.Array) -> int:
    """Return how many values a sparse array stores."""
    return int(compute(fold(total(_n_values), "wc", matrix, shape=(), dtype=np.int64)))


@block(temporaries=0.5)
def _n_values(rows: Any) -> int:
    return int(rows.nnz)


def sparse_plus_low_rank(sparse: da.Array, factor: da.Array, weight: float = 1.0) -> SymmetricMatrix:
    """Return the symmetric matrix ``A = S + weight · V Vᵀ``, never formed, V in the row chunks of S."""

    def apply(vectors: da.Array) -> da.Array:
        return lift(
            blocks.sparse_plus_low_rank, "wc,Cb,wr,rb->wb",
            whole_rows(sparse), vectors, factor, column_products(factor, vectors), dtype=vectors.dtype, weight=weight,
        )  # fmt: skip

    return SymmetricMatrix(apply, sparse.chunks[0])
