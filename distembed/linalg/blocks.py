"""Linear algebra of one block of rows.

Symbols: `A_i` a sparse row block (rows_i × n), `X` a dense block of vectors (n × b), `V` a factor (n × r),
`Q` an orthonormal basis. Sums over rows leave here as float64, so that the sum over blocks loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numba
import numpy as np
from scipy.sparse import csr_array, hstack

from distembed.dtypes import Float64s, Floats
from distembed.linalg.csr import row_range
from distembed.temporaries import block

ROUNDED = 64 * np.finfo(float).eps
"""Share of the lengths of two vectors up to which their difference is rounding."""

NEAR_BYTES = 1 << 20
"""Bytes of the rows of a dense matrix that are read again and again: they stay in the second cache of a core."""


@block(temporaries=0.5)
def sparse_times_dense(block: csr_array, dense: Floats | list[Floats]) -> Floats:
    """Return A_i X, shape (rows_i, b), in the dtype of X, whose rows may come in a list of pieces.

    A stored value needs a row of X. Rows of a piece that stays in a near cache come several times as fast as those from
    all over a large X, so that all of A_i is multiplied with one piece after the other; sums have the order of one
    piece, and its bits.
    """
    pieces = dense if isinstance(dense, list) else [dense]
    out = np.zeros((block.shape[0], pieces[0].shape[1]), dtype=pieces[0].dtype)
    data = block.data.astype(out.dtype, copy=False)
    place, first = block.indptr[:-1].copy(), 0
    for piece in _near_pieces(block, pieces):
        _add_sparse_times_piece(block.indptr, block.indices, data, place, first, piece, out)
        first += len(piece)
    return out


@block(temporaries=1.5)
def transposed_times_dense(block: csr_array, dense: Floats) -> Floats:
    """Return the contribution A_iᵀ Y_i of one row block, shape (n, b), in the dtype of Y."""
    return sparse_times_dense(block.T.tocsr(), dense)


def _near_pieces(block: csr_array, dense: list[Floats]) -> Iterator[Floats]:
    """Yield the rows of a dense matrix in pieces of `NEAR_BYTES`, in one where the block has no order to follow."""
    if not block.has_sorted_indices:
        yield np.ascontiguousarray(np.concatenate(dense) if len(dense) > 1 else dense[0])
        return
    n_cuts = sum(piece.nbytes for piece in dense) // NEAR_BYTES
    is_worth_it = (
        block.nnz >= n_cuts * block.shape[0]
    )  # else most rows would have no value in most of the pieces
    for piece in dense:
        row_bytes = piece.shape[1] * piece.itemsize
        step = max(1, NEAR_BYTES // max(1, row_bytes) if is_worth_it else len(piece))
        for first in range(0, len(piece), step):
            yield np.ascontiguousarray(piece[first : first + step])


@numba.njit(cache=True, nogil=True)
def _end_of_piece(indices, start, end, last_column):  # type: ignore[no-untyped-def]
    while start < end and indices[start] < last_column:
        start += 1
    return start


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _add_sparse_times_piece(indptr, indices, data, place, first, dense, out):  # type: ignore[no-untyped-def]
    # Eight at a time, so that sums are loaded and stored once for eight; they are added in the order of one by one.
    for i in range(len(indptr) - 1):
        row, p = out[i], place[i]
        last = _end_of_piece(indices, p, indptr[i + 1], first + len(dense))
        place[i] = last
        while p + 8 <= last:
            s, t, u, v = data[p], data[p + 1], data[p + 2], data[p + 3]
            w, x, y, z = data[p + 4], data[p + 5], data[p + 6], data[p + 7]
            a, b, d, e = (
                dense[indices[p] - first],
                dense[indices[p + 1] - first],
                dense[indices[p + 2] - first],
                dense[indices[p + 3] - first],
            )
            f, g = dense[indices[p + 4] - first], dense[indices[p + 5] - first]
            h, k = dense[indices[p + 6] - first], dense[indices[p + 7] - first]
            for c in range(row.shape[0]):
                half = row[c] + s * a[c] + t * b[c] + u * d[c] + v * e[c]
                row[c] = half + w * f[c] + x * g[c] + y * h[c] + z * k[c]
            p += 8
        while p < last:
            u, a = data[p], dense[indices[p] - first]
            for c in range(row.shape[0]):
                row[c] += u * a[c]
            p += 1


def sampled_product(block: csr_array, left: Floats, right: Floats | list[Floats]) -> Floats:
    """Return the dot products left_i · right_j of the cells (i, j) that a sparse block stores.

    Parameters
    ----------
    block : csr_array (rows, n)
        Its support is read, its values are not.
    left : (rows, r) array
    right : (n, r) array
        Also a list of pieces, one below the other; it is read in pieces in any case, as by `sparse_times_dense`.

    Returns
    -------
    (nnz,) array in the dtype of `left`
        In the order of `block.data`.
    """
    out = np.empty(block.nnz, dtype=left.dtype)
    left = np.ascontiguousarray(left)
    place, first = block.indptr[:-1].copy(), 0
    for piece in _near_pieces(block, right if isinstance(right, list) else [right]):
        _fill_sampled_product(block.indptr, block.indices, place, first, left, piece, out)
        first += len(piece)
    return out


# Reassociation lets the compiler use vector registers for the sum; the order it picks is fixed at compile
# time, so that the bits are the same in every run.
@numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _fill_sampled_product(indptr, indices, place, first, left, right, out):  # type: ignore[no-untyped-def]
    for i in range(len(indptr) - 1):
        mine, start = left[i], place[i]
        place[i] = _end_of_piece(indices, start, indptr[i + 1], first + len(right))
        for p in range(start, place[i]):
            other = right[indices[p] - first]
            total = mine[0] * other[0]
            for c in range(1, mine.shape[0]):
                total += mine[c] * other[c]
            out[p] = total


@block(temporaries=2)
def gram(block: Floats) -> Floats:
    """Return the contribution ZᵀZ of one row block, shape (b, b), multiplied in float64.

    The square of the condition number of Z has to fit in the precision (CholeskyQR), so that float32
    products would not do.
    """
    wide = block.astype(np.float64, copy=False)
    return wide.T @ wide


@block(temporaries=2.5)
def centered_gram(block: Floats, mean: Floats) -> Floats:
    """Return the contribution of one row block to the second moments about a mean, (d, d), without rows of zeros."""
    centered = block - mean
    centered[~block.any(axis=1)] = 0
    return centered.T @ centered


@block(temporaries=3)
def without_directions(block: Floats, mean: Floats, axes: Floats) -> Floats:
    """Return the rows about a mean less what they have along orthonormal axes (d, k); rows of zeros stay zero."""
    centered = block - mean
    centered -= (centered @ axes) @ axes.T
    centered[~block.any(axis=1)] = 0
    return centered.astype(block.dtype)


@block(temporaries=0.5)
def times_matrix(block: Floats, matrix: Floats) -> Floats:
    """Return the product of one row block with a small matrix, in the dtype of the block."""
    return block @ matrix.astype(block.dtype)


@block(temporaries=0.5)
def basis_products(block: Floats, *basis: Floats) -> Floats:
    """Return the contribution QᵀZ of one row block, shape (columns of all of Q, b), float64."""
    return np.concatenate([q.T @ block for q in basis]).astype(np.float64)


@block(temporaries=0.5)
def side_by_side(left: Floats, right: Floats) -> Floats:
    """Return columns beside others, in the dtype of these."""
    return np.hstack([left.astype(right.dtype), right])


class WithSums(NamedTuple):
    """Vectors of a row block, and what is added up over all blocks."""

    vectors: Floats
    """Shape (rows, b)."""
    sums: Floats
    """Shape (m, b), float64."""


@block(temporaries=0.5)
def with_products(vectors: Floats, *basis: Floats) -> WithSums:
    """Return vectors Z beside their contribution to QᵀZ of the blocks Q of a basis."""
    return WithSums(vectors, basis_products(vectors, *basis))


@block(temporaries=2)
def outside_of_basis(vectors: Floats, coefficients: Floats, *basis: Floats) -> WithSums:
    """Return Z - Q C, and its contribution to the Gram matrix."""
    rest = vectors.copy()
    for q, part in _pieces(coefficients, basis):
        rest -= q @ part.astype(rest.dtype)
    return WithSums(rest, gram(rest))


@block(temporaries=0.5)
def sparse_plus_low_rank(
    block: csr_array, vectors: list[Floats], factor: Floats, common: Floats, *, weight: float
) -> Floats:
    """Return A_i X of ``A = S + weight · V Vᵀ``.

    Parameters
    ----------
    block : csr_array (rows, n), S_i
    vectors : list of arrays (n_j, b), X
    factor, common : (rows, r), (r, b), V_i and VᵀX
    weight : float
    """
    result = sparse_times_dense(block, vectors)
    result += factor @ (weight * common).astype(result.dtype)
    return result


def _pieces(coefficients: Floats, basis: tuple[Floats, ...]) -> Iterator[tuple[Floats, Floats]]:
    """Return each block of a basis with the rows of coefficients that belong to it."""
    ends = np.cumsum([0, *(q.shape[1] for q in basis)])
    return zip(basis, [coefficients[i:j] for i, j in pairwise(ends)], strict=True)


@block(temporaries=1)
def chebyshev_step(
    product: Floats, now: Floats, before: Floats, *, center: float, scale: float, damping: float
) -> Floats:
    """Return (A X - center X) scale - Y damping, the next polynomial of a matrix A times vectors.

    Parameters
    ----------
    product : (rows, b), A X
    now, before : (rows, b), X and Y
    center, scale, damping : float
        The middle of the interval on which the polynomial is small, and the two factors of the recurrence.
    """
    after = now * center
    np.subtract(product, after, out=after)
    after *= scale
    after -= before * damping
    return after


@block(temporaries=1.5)
def combine_basis(coefficients: Floats, *basis: Floats) -> Floats:
    """Return Q C of one row block, shape (rows, columns of C)."""
    result = np.zeros((basis[0].shape[0], coefficients.shape[1]), dtype=basis[0].dtype)
    for q, part in _pieces(coefficients, basis):
        result += q @ part.astype(q.dtype)
    return result


@block(temporaries=2)
def column_powers(*sides: Floats, power: int) -> Floats:
    """Return the sum of a whole power of each column of one row block, or of several side by side, (b,), float64."""
    terms, wide = ",".join(["ij"] * power) + "->j", (side.astype(np.float64, copy=False) for side in sides)
    return np.concatenate([np.einsum(terms, *[side] * power) for side in wide])


def row_cosines(left: Floats, right: Floats, *, of_zeros: float = 0.0) -> Float64s:
    """Return the cosine of each row with the other's row, added in float64, (n,); `of_zeros` where a row is zero."""
    products, squares, others = (
        np.einsum("ij,ij->i", one, other, dtype=np.float64)
        for one, other in ((left, right), (left, left), (right, right))
    )
    lengths = np.sqrt(squares) * np.sqrt(others)
    return np.divide(products, lengths, out=np.full_like(products, of_zeros), where=lengths != 0)


def whitening(gram_matrix: Floats, *, threshold: float, scaled: bool = True) -> Floats:
    """Return T such that the columns of Z T are orthonormal, given ZᵀZ.

    With the columns scaled to unit length, ``ZᵀZ = U Λ Uᵀ`` and ``T = U Λ^-1/2`` (the SVQB method of
    Stathopoulos & Wu 2002, which unlike Cholesky survives dependent columns). A direction whose share
    Λ is not above `threshold` becomes a column of zeros, so that shapes do not depend on the data.

    Parameters
    ----------
    gram_matrix : (b, b) float64
    threshold : float
        Smallest squared length, relative to the columns', of a direction that is kept.
    scaled : bool
        False takes lengths as absolute, for columns that had length 1 before a projection: one that this shortens
        below the square root of `threshold` was rounding error and becomes zero.

    Returns
    -------
    (b, b) float64
    """
    lengths = np.sqrt(np.maximum(np.diag(gram_matrix), 0)) if scaled else np.ones(len(gram_matrix))
    scale = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    values, directions = np.linalg.eigh(gram_matrix * scale[:, None] * scale)
    kept = values > threshold
    return scale[:, None] * directions * np.where(kept, 1 / np.sqrt(np.where(kept, values, 1)), 0)


@block(temporaries=1.5)
def split_columns(block: csr_array, bounds: tuple[int, ...]) -> tuple[csr_array, ...]:
    """Return the pieces of a row block between neighboring column bounds, each as CSR of its columns, sorted."""
    columns = block.T.tocsr()  # once: cutting columns out of rows looks at all of them for every piece
    return tuple(row_range(columns, first, last).copy() for first, last in pairwise(bounds))


@block(temporaries=1)
def stack_columns(pieces: list[csr_array]) -> csr_array:
    """Return sparse pieces of the same rows side by side, as one CSR block with sorted indices."""
    joined = csr_array(hstack(pieces, format="csr"))
    joined.sort_indices()
    return joined
