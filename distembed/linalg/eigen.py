"""The algebraically largest eigenpairs of a symmetric matrix that is known only by its products.

The method is block Krylov with thick restarts: after s products the basis spans {X, AX, .., A^(s-1) X}, which
contains both ends of the spectrum, so that one huge negative eigenvalue takes one direction of the basis and does not
delay convergence. Where the basis has reached its width, its best Ritz vectors take its place; A times each of them
still lies in their span and that of the block that follows. A pass is three tasks for each row block: the product with
what it has in common with the basis, what it adds to the basis, and the orthonormal block of that. One projection is
enough as long as a few random combinations of the new block have next to nothing in common with the basis, which every
pass sees; otherwise the block is projected once more.

Where hundreds of eigenvalues are close together, as in a graph, block Krylov spaces grow too large to store.
There a polynomial of the matrix that is small on the unwanted eigenvalues is applied to a block of fixed
width.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from scipy.linalg import eigh

from distembed.dtypes import Floats, Int64s, Mask
from distembed.execution import compute, one_blas_thread, tell
from distembed.lift import block, fold, lift, total, total_of_part
from distembed.linalg import blocks
from distembed.linalg.operators import (
    BlockwiseMatrix,
    SymmetricMatrix,
    column_powers,
    column_products,
    dense_blocks,
    times_matrix,
)
from distembed.states import keep, newest

SMALLEST_SHARE = {np.dtype(np.float32): 1e-12, np.dtype(np.float64): 1e-26}
"""Squared relative length below which a direction of a block is rounding error: about ten epsilon squared."""
SHORTENED = 1e-4
"""Squared length after the second projection below which a column was noise inside the basis."""
FILTER_DEGREE = 20
"""Products with the matrix between two orthogonalizations of a filtered block."""
FIRST_DEGREE = 8
"""The same in the first two rounds, where every column still holds the largest eigenvectors: a higher degree
would leave nothing else in float64."""
FILTERED_COLUMNS = 64
"""Columns filtered at a time: three blocks of so many are the filter's whole memory."""
DRAWN_ROWS = 4096
"""Rows of the random start that one generator draws, wherever the row blocks end."""
DRAWN_TOGETHER = 64
"""Rows that are drawn at a time, in float64."""
JUDGED_FROM = 6
"""The pass after which convergence is first judged: fewer are seldom enough, and judging costs an eigenproblem."""
LEAST_RESIDUAL = 10
"""Residual, in epsilons times the largest eigenvalue, that is left to rounding: more passes do not lower it."""


LEAST_BEYOND = 10
"""Ritz vectors beyond k that a restart keeps at least; it keeps half of k beyond."""
BLOCKS_BEYOND = 5
"""Blocks that may follow the kept Ritz vectors until the next restart."""
LEAST_WIDTH = 2048
"""Columns up to which no basis is restarted: their eigenproblem takes a second or two."""
SKETCHES = 4
"""Random combinations of a block that are compared with the basis."""
LARGEST_LOSS = 2**11
"""Length, in epsilons, of what they may have in common with it: in float32 about the root of epsilon, from which on the
projected matrix is no longer exact."""
EIGEN_COPIES = 5
"""Square matrices of an eigenproblem that are there at once: its symmetric part, LAPACK's copy and workspace of two,
and the vectors."""


class KrylovBasis(NamedTuple):
    """The basis in which eigenpairs are looked for."""

    columns: int
    """The columns of the block of each pass."""
    n_passes: int
    """The products that are asked for, and as many more as the eigenpairs need."""
    most_passes: int
    """The passes after which the basis has a column for each row, or all that are asked for."""
    kept: int
    """The Ritz vectors that take the place of a basis that is as wide as it may be."""

    @property
    def width(self) -> int:
        """The most columns of the basis."""
        widest = max(self.kept + BLOCKS_BEYOND * self.columns, LEAST_WIDTH)
        return min(self.columns * self.most_passes, widest)


def krylov_basis(
    n_rows: int, k: int, *, block_size: int | None = None, n_start: int = 0, n_passes: int = 8
) -> KrylovBasis:
    """Return the basis in which k eigenpairs of so many rows are looked for, from some vectors to start with."""
    columns = min(n_rows, max(block_size or k, n_start))
    asked = max(n_passes, -(-k // columns))
    return KrylovBasis(columns, asked, min(asked, -(-n_rows // columns)), k + max(LEAST_BEYOND, k // 2))


class Space(NamedTuple):
    """Ritz vectors, and the block that follows them: the products of both with the matrix say all of the basis."""

    block: da.Array
    """Orthonormal, or zero where not `used`, and orthogonal to the Ritz vectors. Dask array (n, b)."""
    used: Any
    """Shape (b,), boolean."""
    ritz: da.Array
    """Dask array (n, m)."""
    values: Any
    """The eigenvalues of the projected matrix that belong to them. Shape (m,), float64."""
    n_passes: Any
    """The products that were made. Shape (1,)."""


class Eigenpairs(NamedTuple):
    """Eigenvalues in falling order with their vectors."""

    values: Floats
    """Shape (k,), float64."""
    vectors: da.Array
    """Orthonormal columns, each with the sign that makes the sum of its cubes positive. Dask array (n, k)."""
    residuals: Floats
    """``‖A v - value v‖``. Shape (k,), float64."""
    n_passes: int
    """Products with the matrix that were made."""
    converged: bool = True
    """Whether `tol` was met; True where none was given."""


def largest_eigenpairs(
    matrix: BlockwiseMatrix,
    k: int,
    *,
    start: da.Array | None = None,
    block_size: int | None = None,
    n_passes: int = 8,
    tol: float | None = None,
    random_state: int = 0,
    dtype: Any = np.float32,
) -> Eigenpairs:
    """Find the algebraically largest eigenpairs of a symmetric matrix.

    The block of each pass, and the Ritz vectors of each restart, are kept, in the scope of the caller.

    Equivalent to ``scipy.sparse.linalg.eigsh(A, k, which="LA")``, for matrices in row blocks. Where all passes are
    made and their vectors are as many as the rows, the basis is that of the whole space, so that nothing is missed
    whatever the start lacks.

    Parameters
    ----------
    matrix : BlockwiseMatrix
        Products with (n × b) blocks.
    k : int
        Number of pairs.
    start : Dask array (n, s), optional
        Vectors to start from: those of a similar matrix, a direction known to matter.
    block_size : int, optional
        Columns of the first block, `start` filled up with random ones. Default: the larger of s and k.
    n_passes : int
        Most products with the matrix. The basis holds at most ``3/2 k + 5 block_size`` vectors,
        or `LEAST_WIDTH`.
    tol : float, optional
        Stop as soon as every residual is at most ``tol * |value|``, or rounding error; this is judged after
        `JUDGED_FROM` passes and each later one. Default: make all passes.
    random_state : int
        Seed of the random columns, which do not depend on the row blocks.
    dtype : dtype
        float32 or float64: of the basis and the vectors.

    Returns
    -------
    Eigenpairs

    Raises
    ------
    ValueError
        If k is not between 1 and n.

    References
    ----------
    Musco & Musco 2015, Randomized block Krylov methods (algorithm 2).
    """
    n = sum(matrix.row_chunks)
    if not 1 <= k <= n:
        raise ValueError(f"k is {k} but the matrix has {n} rows: choose k between 1 and {n}")
    basis = krylov_basis(
        n, k, block_size=block_size, n_start=0 if start is None else start.shape[1], n_passes=n_passes
    )
    if tol is None and basis.n_passes * basis.columns >= n:
        unit = dense_blocks(np.eye(n, dtype=dtype), matrix.row_chunks)
        return _rayleigh_ritz(unit, matrix.apply(unit).persist(), k)
    number, space = newest("space", Space)
    if not number:
        first = starting_block(
            matrix.row_chunks, basis.columns, start=start, random_state=random_state, dtype=dtype
        )
        squares = compute(fold(total(blocks.gram), "wb", first, shape=(basis.columns,) * 2))
        turn = _turn(squares, first.dtype)
        block = keep("block-1", partial(times_matrix, first, turn))
        space = Space(block, turn.any(axis=0), first[:, :0], np.zeros(0), np.zeros(1, np.int64))
    while True:
        bases, (projected, used, squares), outside, done, is_last = _grow(matrix, space, basis, k, tol)
        if is_last:
            break
        make = partial(_restart, bases, (projected, used, squares), outside, done, basis.kept)
        number += 1
        space = keep("space", make, Space, number=number)
    values, rotation, residuals = _ritz(projected, used, squares, k)
    residuals = np.hypot(residuals, np.finfo(bases[0].dtype).eps * np.abs(values).max())
    is_good = tol is None or _all_small(values, residuals, tol, dtype)
    return Eigenpairs(values, _signed(_combine(bases, rotation)), residuals, done, is_good)


Projected = tuple[Floats, Mask, Floats]
"""QᵀA Q, which columns of Q are not zero, and the Gram matrix of what A times its last block has outside."""


def _grow(
    matrix: BlockwiseMatrix, space: Space, basis: KrylovBasis, k: int, tol: float | None
) -> tuple[list[da.Array], Projected, da.Array, int, bool]:
    """Make passes until the basis is as wide as it may be, the eigenpairs are good, or all passes are made.

    Return the blocks of the basis, what is projected on it, what is outside by row blocks, the passes, and whether it
    was the last.
    """
    used, values, done = (np.asarray(part) for part in compute((space.used, space.values, space.n_passes)))
    bases, block, n_passes = [space.ritz] * bool(len(values)), space.block, int(done[0])
    all_used, projected = np.ones(len(values), bool), np.diag(values)
    while True:
        n_passes += 1
        block, used, found, inside = _multiply(matrix, block, bases, used)
        bases, all_used = [*bases, block], np.concatenate([all_used, used])
        above, square = np.split(inside, [len(projected)])
        projected = np.block([[projected, above], [above.T, (square + square.T) / 2]])
        indices = ",".join(["w", "ab", *["wa"] * len(bases)])
        outside = lift(
            blocks.outside_of_basis, f"{indices}->w", found, inside, *bases, dtype=object, sizes={"w": 1}
        ).persist()
        squares = compute(total_of_part(outside, "squares", shape=(inside.shape[1],) * 2))
        tell("passes", n_passes, basis.n_passes if tol is None else None)
        is_last = n_passes == basis.most_passes or (
            tol is not None
            and n_passes >= JUDGED_FROM
            and _all_small(*_ritz(projected, all_used, squares, k)[::2], tol, block.dtype)
        )
        if is_last or len(projected) + basis.columns > basis.width:
            return bases, (projected, all_used, squares), outside, n_passes, is_last
        turn = _turn(squares, block.dtype)
        used = np.asarray(turn.any(axis=0))
        block = keep(f"block-{n_passes + 1}", partial(_turned, outside, turn, block))


def _multiply(
    matrix: BlockwiseMatrix, block: da.Array, before: list[da.Array], used: Mask
) -> tuple[da.Array, Mask, da.Array, Floats]:
    """Return a block of a basis, which of its columns are not zero, A times it by row blocks, and QᵀA of it.

    Where the block is not orthogonal to those before it, it is projected once more, and multiplied again.
    """
    found, inside, loss = _step(matrix, block, before, used)
    if loss > LARGEST_LOSS * np.finfo(block.dtype).eps:
        if before:
            indices, width = ",".join(["wa"] * len(before)), sum(part.shape[1] for part in before)
            shape = width, block.shape[1]
            common = compute(fold(total(blocks.basis_products), f"wb,{indices}", block, *before, shape=shape))
            indices = f"wb,ab,{indices}->wb"
            block = lift(blocks.remove_basis, indices, block, common, *before, dtype=block.dtype).persist()
        block = _whiten(block, SHORTENED, scaled=False).persist()
        used = np.asarray(compute(column_powers(block, 2)) > 0.5)
        found, inside, _ = _step(matrix, block, before, used)
    return block, used, found, inside


def _step(
    matrix: BlockwiseMatrix, block: da.Array, before: list[da.Array], used: Mask
) -> tuple[da.Array, Floats, float]:
    """Return A X by row blocks, QᵀA X, and what a few combinations of columns of X have in common with the rest of Q.

    X is the last block of Q.
    """
    (function, indices, arrays), width = matrix.product(block), len(used)
    mix = np.random.default_rng(width).standard_normal((width, SKETCHES)) * used[:, None]
    shape = sum(part.shape[1] for part in (*before, block)), width + SKETCHES
    found = lift(
        partial(blocks.multiply, function=function, n_operands=len(arrays)),
        ",".join([*indices, *["wa"] * (len(before) + 1)]) + "->w",
        *arrays, *before, block, dtype=object, sizes={"w": 1}, mix=mix,
    ).persist()  # fmt: skip
    inside, common = np.split(compute(total_of_part(found, "inside", shape=shape)), [width], axis=1)
    common[-width:] -= mix
    return found, inside, float(np.linalg.norm(common, axis=0).max())


def _turn(squares: Floats, dtype: Any) -> Floats:
    """Return what makes the columns of a block orthonormal, or zero, given their Gram matrix."""
    with one_blas_thread():
        return blocks.whitening(squares, threshold=SMALLEST_SHARE[np.dtype(dtype)])


def _turned(outside: da.Array, turn: Floats, like: da.Array) -> da.Array:
    """Return the orthonormal columns of what a product had outside the basis."""
    sizes = {"w": like.chunks[0]}
    return lift(blocks.turned, "w,ab->wb", outside, turn, dtype=like.dtype, sizes=sizes)


def _restart(
    bases: list[da.Array], projected: Projected, outside: da.Array, n_passes: int, kept: int
) -> Space:
    """Return the best Ritz vectors of a basis, and the block that follows them."""
    values, rotation, _ = _ritz(*projected, kept)
    turn = _turn(projected[2], bases[-1].dtype)
    block, ritz = _turned(outside, turn, bases[-1]), _combine(bases, rotation)
    return Space(block, turn.any(axis=0), ritz, values, np.array([n_passes]))


def _ritz(projected: Floats, used: Mask, squares: Floats, k: int) -> tuple[Floats, Floats, Floats]:
    """Return the k largest eigenvalues of QᵀA Q, their vectors, zero where Q is, and the residuals of Q times these.

    A times all but the last block lies within the basis, so that the residual of a Ritz vector is what the product with
    the last block has outside, of which `squares` is the Gram matrix, weighted with the vector's last coordinates.
    """
    with one_blas_thread():
        values, rotation = _ritz_values(projected, used, k)
        last = rotation[-len(squares) :]
        return values, rotation, np.sqrt(np.maximum((last * (squares @ last)).sum(axis=0), 0))


def _signed(vectors: da.Array) -> da.Array:
    """Return vectors with the sign that makes the sum of the cubes of each column positive."""
    vectors = vectors.persist()
    return vectors * np.where(compute(column_powers(vectors, 3)) < 0, -1, 1).astype(vectors.dtype)


def filtered_eigenpairs(
    matrix: SymmetricMatrix,
    k: int,
    *,
    lower: float,
    upper: float,
    extra: int | None = None,
    n_rounds: int = 25,
    tol: float = 1e-8,
    random_state: int = 0,
    dtype: Any = np.float64,
) -> Eigenpairs:
    """Find the algebraically largest eigenpairs of a symmetric matrix whose spectrum has known bounds.

    Subspace iteration with a Chebyshev polynomial of the matrix that is small from `lower` to the smallest
    Ritz value of the block. Unlike a Krylov basis the block has one width throughout, and unlike ARPACK
    everything is a product of blocks. For hundreds of eigenvalues close together. The basis of each round is kept, in
    the scope of the caller, until there is the next.

    Parameters
    ----------
    matrix : SymmetricMatrix
        The matrix, known by its products.
    k : int
        The number of eigenpairs.
    lower, upper : float
        All eigenvalues lie between.
    extra : int, optional
        Columns of the block beyond k; default a fifth of k, and 20 at least.
    n_rounds : int
        Most rounds, each of `FILTER_DEGREE` products.
    tol : float
        Stop as soon as every residual is at most ``tol * max|value|``.
    random_state : int
        The seed.
    dtype : dtype
        float32 or float64, of the vectors.

    Returns
    -------
    Eigenpairs

    Raises
    ------
    ValueError
        If k is not between 1 and n.

    Warns
    -----
    RuntimeWarning
        If `tol` is not reached.

    References
    ----------
    Zhou, Saad, Tiago & Chelikowsky 2006, Self-consistent-field calculations using Chebyshev-filtered subspace
    iteration (algorithm 4.1; the scaled recurrence of algorithm 3.2).
    """
    n = sum(matrix.row_chunks)
    if not 1 <= k <= n:
        raise ValueError(f"k is {k} but the matrix has {n} rows: choose k between 1 and {n}")
    width = min(n, k + (max(20, k // 5) if extra is None else extra))
    begun, basis = newest("basis")
    if not begun:
        block = starting_block(matrix.row_chunks, width, start=None, random_state=random_state, dtype=dtype)
        begun, basis = 1, keep("basis", partial(_orthonormal, block), number=1)
    for number in range(begun, n_rounds + 1):
        product = matrix.apply(basis).persist()
        found = _rayleigh_ritz(basis, product, width)
        n_passes = number + sum(map(_degree, range(1, number)))
        largest = Eigenpairs(found.values[:k], found.vectors[:, :k], found.residuals[:k], n_passes)
        tell("rounds", number)
        if largest.residuals.max() <= tol * np.abs(largest.values).max():
            return largest
        if number < n_rounds:
            make = partial(_filtered_basis, matrix, found, lower, upper, _degree(number))
            basis = keep("basis", make, number=number + 1)
    warnings.warn(
        f"the largest of {k} residuals is {largest.residuals.max():.2g} after {largest.n_passes} passes, above tol "
        f"{tol:g} times the largest eigenvalue: raise n_rounds",
        RuntimeWarning,
        stacklevel=2,
    )
    return largest


def _degree(number: int) -> int:
    """Return the degree of the polynomial after a round."""
    return FIRST_DEGREE if number <= 2 else FILTER_DEGREE


def _filtered_basis(
    matrix: SymmetricMatrix, found: Eigenpairs, lower: float, upper: float, degree: int
) -> da.Array:
    """Return an orthonormal basis of a polynomial of the matrix times the vectors found, in two passes.

    It is the Chebyshev polynomial of the interval from `lower` to the smallest Ritz value, one at `upper`.
    """
    cut = float(found.values[found.values != 0][-1])
    center, half = (cut + lower) / 2, (cut - lower) / 2
    vectors, parts = found.vectors.persist(), []
    for column in range(0, vectors.shape[1], FILTERED_COLUMNS):
        before = vectors[:, column : column + FILTERED_COLUMNS]
        first = ratio = half / (upper - center)
        now = ((matrix.apply(before) - before * center) * (first / half)).persist()
        for _ in range(degree - 1):
            following = 1 / (2 / first - ratio)
            factors: Any = {"center": center, "scale": 2 * following / half, "damping": ratio * following}
            product = matrix.apply(now)
            after = lift(
                blocks.chebyshev_step, "wb,wb,wb->wb", product, now, before, dtype=now.dtype, **factors
            ).persist()
            before, now, ratio = now, after, following
        parts.append(now)
    return _orthonormal(da.concatenate(parts, axis=1).rechunk({1: -1}))


def fix_signs(vectors: Floats) -> Floats:
    """Return vectors with the sign that makes the sum of the cubes of each column positive."""
    return vectors * np.where((vectors**3).sum(axis=0) < 0, -1, 1)


def starting_block(
    row_chunks: tuple[int, ...], width: int, *, start: da.Array | None, random_state: int, dtype: Any
) -> da.Array:
    """Return `start` (n × s), filled up to `width` with standard normal columns drawn by row block."""
    n_given = 0 if start is None else start.shape[1]
    ends = np.cumsum(row_chunks)
    first, last = (da.from_array(rows, chunks=1) for rows in (ends - row_chunks, ends))
    filler = lift(
        normal_rows, "w,w->wb", first, last, dtype=dtype, sizes={"w": row_chunks, "b": width - n_given},
        n_columns=width - n_given, random_state=random_state, dtype_name=np.dtype(dtype).name,
    )  # fmt: skip
    if start is None or width == n_given:
        return filler if start is None else start.astype(dtype)
    sizes = {"b": width}
    return lift(blocks.side_by_side, "wa,wc->wb", start, filler, dtype=dtype, sizes=sizes)


@block(temporaries=0.5)
def normal_rows(first: Int64s, last: Int64s, *, n_columns: int, dtype_name: str, random_state: int) -> Floats:
    """Return standard normal numbers that follow from their rows in the whole array, wherever its blocks end."""
    begin, end = int(first[0]), int(last[0])
    drawn = np.empty((end - begin, n_columns), dtype_name)
    for group in range(begin // DRAWN_ROWS, end // DRAWN_ROWS + 1):
        generator = np.random.default_rng([random_state, group])
        stop = min((group + 1) * DRAWN_ROWS, end)
        for start in range(group * DRAWN_ROWS, stop, DRAWN_TOGETHER):
            rows = generator.standard_normal((min(DRAWN_TOGETHER, stop - start), n_columns))
            if start + len(rows) > begin:
                drawn[max(start - begin, 0) : start + len(rows) - begin] = rows[max(begin - start, 0) :]
    return drawn


def _orthonormal(block: da.Array) -> da.Array:
    """Return an orthonormal basis of the columns of a block, in two passes."""
    once = _whiten(block, SMALLEST_SHARE[np.dtype(block.dtype)])
    return _whiten(once, SHORTENED, scaled=False)


def _whiten(block: da.Array, threshold: float, *, scaled: bool = True) -> da.Array:
    """Return Z T with orthonormal columns, zero where Z had fewer directions than columns."""
    finalize = partial(blocks.whitening, threshold=threshold, scaled=scaled)
    row, width = total(blocks.gram)._replace(finalize=finalize), block.shape[1]
    return times_matrix(block, fold(row, "wb", block, shape=(width, width)))


def _rayleigh_ritz(basis: da.Array, product: da.Array, k: int) -> Eigenpairs:
    """Return the largest eigenpairs within the span of a basis, given A times it."""
    used = compute(column_powers(basis, 2)) > 0.5
    with one_blas_thread():
        projected = compute(column_products(basis, product))
        values, rotation = _ritz_values((projected + projected.T) / 2, used, k)
    vectors = times_matrix(basis, rotation).persist()
    misfit = times_matrix(product, rotation) - vectors * values.astype(vectors.dtype)
    residuals = np.sqrt(compute(column_powers(misfit, 2)))
    return Eigenpairs(values, _signed(vectors), residuals, 1)


def _ritz_values(projected: Floats, kept: Mask, k: int) -> tuple[Floats, Floats]:
    """Return the k largest eigenvalues of the projected matrix and their vectors, zero where not `kept`."""
    inner = projected[np.ix_(kept, kept)]
    found = min(k, len(inner))
    rotation, padded = np.zeros((len(projected), k)), np.zeros(k)
    if found:
        bounds = [len(inner) - found, len(inner) - 1]
        values, vectors = eigh(inner, subset_by_index=bounds, overwrite_a=True)
        rotation[kept, :found], padded[:found] = vectors[:, ::-1], values[::-1]
    return padded, rotation


def _combine(bases: list[da.Array], rotation: Floats) -> da.Array:
    """Return Q C for the bases side by side."""
    indices = ",".join(["ab", *["wa"] * len(bases)])
    return lift(blocks.combine_basis, f"{indices}->wb", rotation, *bases, dtype=bases[0].dtype)


def _all_small(values: Floats, residuals: Floats, tol: float, dtype: Any) -> bool:
    sizes = np.abs(values)
    rounding = LEAST_RESIDUAL * np.finfo(dtype).eps * sizes.max()
    return bool(np.all(residuals <= np.maximum(tol * sizes, rounding)))
