"""The algebraically largest eigenpairs of a symmetric matrix that is known only by its products.

The method is block Krylov with thick restarts: after s products the basis spans {X, AX, .., A^(s-1) X}, which
contains both ends of the spectrum, so that one huge negative eigenvalue takes one direction of the basis and does not
delay convergence. Where the basis has reached its width, its best Ritz vectors take its place; A times each of them
still lies in their span and that of the block that follows. A pass is three tasks for each row block: the product with
what it has in common with the basis, what it adds to the basis, and the orthonormal block of that.

Where hundreds of eigenvalues are close together, as in a graph, and products cost less than orthogonality, a polynomial
of the matrix that is small on the unwanted eigenvalues is applied to a block of fixed width.
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
from distembed.lift import as_it_is, block, lift
from distembed.linalg import blocks
from distembed.linalg.operators import (
    SymmetricMatrix,
    column_powers,
    column_products,
    dense_blocks,
    times_matrix,
    vectors_with_sums,
)
from distembed.linalg.orthonormal import orthonormal
from distembed.states import keep, newest

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
BLOCKS_BEYOND = 4
"""Blocks that may follow the kept Ritz vectors until the next restart."""
LEAST_WIDTH = 512
"""Columns up to which no basis is restarted: their eigenproblem takes a tenth of a second."""
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
    """All passes that are asked for, or so many that a basis without restarts has a column for each row."""
    kept: int
    """The Ritz vectors that take the place of a basis that is as wide as it may be."""
    width: int
    """The most columns of the basis."""


def krylov_basis(
    n_rows: int, k: int, *, block_size: int | None = None, n_start: int = 0, n_passes: int = 8
) -> KrylovBasis:
    """Return the basis in which k eigenpairs of so many rows are looked for, from some vectors to start with."""
    columns = min(n_rows, max(block_size or k, n_start))
    asked = max(n_passes, -(-k // columns))
    kept, full = k + max(LEAST_BEYOND, k // 2), -(-n_rows // columns)
    widest = max(kept + BLOCKS_BEYOND * columns, LEAST_WIDTH)
    most = min(asked, full) if columns * full <= widest else asked  # a restart drops vectors
    return KrylovBasis(columns, asked, most, kept, min(columns * most, widest))


class Space(NamedTuple):
    """Ritz vectors, and the block that follows them: the products of both with the matrix say all of the basis."""

    ritz: Any
    """Dask array (n, m); empty at first."""
    values: Any
    """The eigenvalues of the projected matrix that belong to them. Shape (m,), float64."""
    residuals: Any
    """``‖A v - value v‖`` of each. Shape (m,), float64."""
    block: Any
    """Orthonormal, or zero where not `used`, and orthogonal to the Ritz vectors. Dask array (n, b); empty at last."""
    used: Any
    """Shape (b,), boolean."""
    progress: Any
    """The products that were made, and whether they were the last. Shape (2,), int64."""


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
    matrix: SymmetricMatrix,
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

    The Ritz vectors of each restart are kept, in the scope of the caller, and the blocks of the passes until then.

    Equivalent to ``scipy.sparse.linalg.eigsh(A, k, which="LA")``, for matrices in row blocks. Where all passes are
    made and the basis may be as wide as the rows are many, it is that of the whole space, so that nothing is missed
    whatever the start lacks.

    Parameters
    ----------
    matrix : SymmetricMatrix
        Products with (n × b) blocks.
    k : int
        Number of pairs.
    start : Dask array (n, s), optional
        Vectors to start from: those of a similar matrix, a direction known to matter.
    block_size : int, optional
        Columns of a block, `start` filled up with random ones. Default: the larger of s and k. So many products with
        single columns find more in narrow blocks, whose polynomials have a higher degree.
    n_passes : int
        Most products with the matrix. The basis holds at most ``3/2 k + 4 block_size`` vectors,
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
    Musco & Musco 2015, Randomized block Krylov methods (algorithm 2); Wu & Simon 2000, Thick-restart Lanczos method
    for large symmetric eigenvalue problems.
    """
    n = sum(matrix.row_chunks)
    _check_number(k, n)
    basis = krylov_basis(
        n, k, block_size=block_size, n_start=0 if start is None else start.shape[1], n_passes=n_passes
    )
    if tol is None and n <= basis.width:
        unit = dense_blocks(np.eye(n, dtype=dtype), matrix.row_chunks)
        return _rayleigh_ritz(unit, matrix.apply(unit).persist(), k)
    number, space = newest("space", Space)
    if not number:
        first = starting_block(
            matrix.row_chunks, basis.columns, start=start, random_state=random_state, dtype=dtype
        )
        found, lengths = orthonormal(first)
        block = keep("block", partial(as_it_is, found))
        nothing = np.zeros(0)
        space = Space(nothing, nothing, nothing, block, lengths.any(axis=1), np.zeros(2, np.int64))
    while not compute(space.progress)[1]:
        number += 1
        make = partial(_grown, matrix, space, basis, k, tol)
        space = keep("space", make, Space, number=number)
    values, residuals, progress = compute((space.values, space.residuals, space.progress))
    residuals = np.hypot(residuals, np.finfo(dtype).eps * np.abs(values).max())
    is_good = tol is None or _all_small(values, residuals, tol, dtype)
    return Eigenpairs(values, _signed(space.ritz), residuals, int(progress[0]), is_good)


def _check_number(k: int, n: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k is {k} but the matrix has {n} rows: choose k between 1 and {n}")


def _grown(matrix: SymmetricMatrix, space: Space, basis: KrylovBasis, k: int, tol: float | None) -> Space:
    """Make passes until the basis is as wide as it may be, the eigenpairs are good, or all passes are made."""
    used, values, progress = (np.asarray(one) for one in compute((space.used, space.values, space.progress)))
    bases, block, n_passes = [space.ritz] * bool(len(values)), space.block, int(progress[0])
    all_used, projected = np.ones(len(values), bool), np.diag(values)
    while True:
        n_passes += 1
        bases, all_used = [*bases, block], np.concatenate([all_used, used])
        indices, product = ",".join(["wb", *["wa"] * len(bases)]), matrix.apply(block)
        product, inside = vectors_with_sums(
            blocks.with_products, indices, product, *bases, n_sums=len(all_used)
        )
        above, square = np.split(inside, [len(projected)])
        projected = np.block([[projected, above], [above.T, (square + square.T) / 2]])
        following, lengths = orthonormal(product, inside, bases)
        tell("passes", n_passes, basis.n_passes if tol is None else None)
        is_last = n_passes == basis.most_passes or (
            tol is not None
            and n_passes >= JUDGED_FROM
            and _all_small(*_ritz(projected, all_used, lengths, k)[::2], tol, block.dtype)
        )
        used = np.asarray(lengths.any(axis=1))
        if is_last or len(projected) + basis.columns > basis.width:
            break
        block = keep(f"block-{n_passes + 1}", partial(as_it_is, following))
    values, rotation, residuals = _ritz(projected, all_used, lengths, k if is_last else basis.kept)
    indices = ",".join(["ab", *["wa"] * len(bases)])
    ritz = lift(blocks.combine_basis, f"{indices}->wb", rotation, *bases, dtype=block.dtype)
    progress = np.array([n_passes, is_last])
    return Space(ritz, values, residuals, np.zeros(0) if is_last else following, used, progress)


def _ritz(projected: Floats, used: Mask, outside: Floats, k: int) -> tuple[Floats, Floats, Floats]:
    """Return the k largest eigenvalues of QᵀA Q, their vectors, zero where Q is, and the residuals of Q times these.

    A times all but the last block lies within the basis, so that the residual of a Ritz vector is what the product with
    the last block has outside, which are orthonormal vectors times `outside`, weighted with the last coordinates.
    """
    with one_blas_thread():
        values, rotation = _ritz_values(projected, used, k)
        return values, rotation, np.linalg.norm(outside @ rotation[-len(outside) :], axis=0)


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
    n_rounds: int = 25,
    tol: float = 1e-8,
    random_state: int = 0,
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
    n_rounds : int
        Most rounds, each of `FILTER_DEGREE` products.
    tol : float
        Stop as soon as every residual is at most ``tol * max|value|``.
    random_state : int
        The seed.

    Returns
    -------
    Eigenpairs
        In float64.

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
    _check_number(k, n)
    width, degrees = min(n, k + max(20, k // 5)), [FIRST_DEGREE] * 2 + [FILTER_DEGREE] * n_rounds
    begun, basis = newest("basis")
    if not begun:
        block = starting_block(matrix.row_chunks, width, random_state=random_state, dtype=np.float64)
        begun, basis = 1, keep("basis", lambda: orthonormal(block)[0], number=1)
    for number in range(begun, n_rounds + 1):
        found = _rayleigh_ritz(basis, matrix.apply(basis).persist(), width)
        n_passes = number + sum(degrees[: number - 1])
        largest = Eigenpairs(found.values[:k], found.vectors[:, :k], found.residuals[:k], n_passes)
        tell("rounds", number)
        if largest.residuals.max() <= tol * np.abs(largest.values).max():
            return largest
        if number < n_rounds:
            make = partial(_filtered_basis, matrix, found, lower, upper, degrees[number - 1])
            basis = keep("basis", make, number=number + 1)
    warnings.warn(
        f"the largest of {k} residuals is {largest.residuals.max():.2g} after {largest.n_passes} passes, above tol "
        f"{tol:g} times the largest eigenvalue: raise n_rounds",
        RuntimeWarning,
        stacklevel=2,
    )
    return largest


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
    return orthonormal(da.concatenate(parts, axis=1).rechunk({1: -1}))[0]


def fix_signs(vectors: Floats) -> Floats:
    """Return vectors with the sign that makes the sum of the cubes of each column positive."""
    return vectors * np.where((vectors**3).sum(axis=0) < 0, -1, 1)


def starting_block(
    row_chunks: tuple[int, ...], width: int, *, start: da.Array | None = None, random_state: int, dtype: Any
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


def _all_small(values: Floats, residuals: Floats, tol: float, dtype: Any) -> bool:
    sizes = np.abs(values)
    rounding = LEAST_RESIDUAL * np.finfo(dtype).eps * sizes.max()
    return bool(np.all(residuals <= np.maximum(tol * sizes, rounding)))
