"""How large the arrays of the eigensolvers are, from which they and the costs of their users are made."""

from __future__ import annotations

from distembed.costs import PAIR_BYTES, SCRATCH_FACTOR, Cost
from distembed.linalg.eigen import krylov_basis

DENSE_COPIES = 7
"""Matrices of n × n float64 that an eigenproblem in memory takes at most: one with its product, or the product, its
symmetric part, LAPACK's copy and workspace of two, and the vectors. Measured 6.2 to 6.5 on 2,500 and 3,500 rows."""

PIECES_COPIES = 2
"""Bytes of the pieces of a transpose, and of the blocks made of them, over those of the matrix. Measured 1.8 to 2.0."""


def triplets_cost(
    shape: tuple[int, int],
    nnz: int,
    k: int,
    *,
    n_passes: int,
    oversampling: int,
    itemsize: int = 4,
    value_bytes: int = 8,
    block_bytes: int,
    is_stored: bool,
) -> Cost:
    """Return what `largest_singular_triplets` takes, without storing the vectors.

    Parameters
    ----------
    shape, nnz : (int, int), int
        The rows and the columns of the matrix, and its stored values.
    k, n_passes, oversampling : int
        The options of these names.
    itemsize : int
        Bytes of a number of the basis.
    value_bytes : int
        Bytes of a stored value with its column.
    block_bytes : int
        Bytes of a row block of the matrix.
    is_stored : bool
        Whether the checkpoint stores the basis and the product of each pass, and does not keep them in memory.
    """
    short, long = sorted(shape)
    basis = krylov_basis(short, k, block_size=min(k + oversampling, short), n_passes=n_passes)
    columns, passes = basis.columns, basis.most_passes
    kept = 2 * itemsize * short * columns * passes
    matrix = value_bytes * nnz
    n_blocks = max(1, -(-matrix // block_bytes))
    image = itemsize * long * columns
    # Each pass turns the matrix anew.
    pieces = pieces_bytes(shape, matrix, n_blocks)
    rows_of_bases = itemsize * -(-short // n_blocks) * columns * (passes + 3)
    products = 8 * passes * columns**2
    found = 3 * itemsize * long * k + 3 * 8 * short * k
    graphs = passes + 2
    return Cost(
        graphs * (n_blocks**2 + 8 * n_blocks),
        2 * graphs * matrix + (kept * (passes + 1) // 2 if is_stored else 0),
        kept if is_stored else 0,
        int(SCRATCH_FACTOR * min(block_bytes, matrix)) + image + rows_of_bases + 2 * products,
        pieces
        + max(2 * image, found)
        + DENSE_COPIES * 8 * (columns * passes) ** 2
        + (0 if is_stored else kept),
        graphs,
        together=n_blocks,
    )


def pieces_bytes(shape: tuple[int, int], matrix_bytes: int, n_blocks: int) -> int:
    """Return the bytes of a matrix cut for its transpose, of which all pieces are there before it is made."""
    return PIECES_COPIES * matrix_bytes + 4 * n_blocks * (shape[1] + n_blocks)


def transpose_cost(shape: tuple[int, int], nnz: int, *, block_bytes: int) -> Cost:
    """Return what storing the transpose of a sparse matrix takes, in row blocks of so many bytes before and after."""
    matrix = PAIR_BYTES * nnz
    n_blocks = max(1, -(-matrix // block_bytes))
    task = int(SCRATCH_FACTOR * min(block_bytes, matrix))
    shared = pieces_bytes(shape, matrix, n_blocks)
    return Cost(n_blocks**2, matrix, matrix, task, shared, together=n_blocks)


def copy_cost(n_read: int, n_written: int) -> Cost:
    """Return what storing some columns of a dense array takes, which may be one block."""
    return Cost(1, n_read, n_written, n_read + n_written)
