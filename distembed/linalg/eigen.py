"""The algebraically largest eigenpairs of a symmetric matrix that is known only by its products.

The method is block Krylov with full orthogonalization in two passes, followed by Rayleigh-Ritz: after s
products the basis spans {X, AX, .., A^(s-1) X}, which contains both ends of the spectrum, so that one huge
negative eigenvalue takes one direction of the basis and does not delay convergence. A single
orthogonalization pass in float32 loses the basis within three rounds of PSDVec.

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
from distembed.lift import block, fold, lift, total
from distembed.linalg import blocks
from distembed.linalg.operators import SymmetricMatrix, column_powers, dense_blocks, times_matrix
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

    @property
    def width(self) -> int:
        """The columns of all passes."""
        return self.columns * self.most_passes


def krylov_basis(
    n_rows: int, k: int, *, block_size: int | None = None, n_start: int = 0, n_passes: int = 8
) -> KrylovBasis:
    """Return the basis in which k eigenpairs of so many rows are looked for, from some vectors to start with."""
    columns = min(n_rows, max(block_size or k, n_start))
    asked = max(n_passes, -(-k // columns))
    return KrylovBasis(columns, asked, min(asked, -(-n_rows // columns)))


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

    ``basis-<p>`` and ``product-<p>`` of each pass p are kept, in the scope of the caller.

    Equivalent to ``scipy.sparse.linalg.eigsh(A, k, which="LA")``, for matrices in row blocks. Where all passes are
    made and their vectors are as many as the rows, the basis is that of the whole space, so that nothing is missed
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
        Columns of the first block, `start` filled up with random ones. Default: the larger of s and k.
    n_passes : int
        Most products with the matrix. The basis holds ``n_passes * block_size`` vectors.
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
    width, is_whole = basis.columns, tol is None and basis.n_passes * basis.columns >= n
    first = starting_block(matrix.row_chunks, width, start=start, random_state=random_state, dtype=dtype)
    bases: list[da.Array] = []
    products: list[da.Array] = []
    columns: list[Floats] = []
    for number in range(1, basis.most_passes + 1):
        make = partial(_orthonormal, first, ())
        if products:
            make = partial(_orthonormal, products[-1], tuple(bases), columns[-1])
        if is_whole:
            make = partial(_unit_vectors, matrix.row_chunks, (number - 1) * width, width, dtype)
        bases.append(keep(f"basis-{number}", make))
        products.append(keep(f"product-{number}", partial(matrix.apply, bases[-1])))
        columns.append(compute(_stacked_products(products[-1], tuple(bases))))
        tell("passes", number, basis.n_passes if tol is None else None)
        if tol is not None and number >= JUDGED_FROM and _has_settled(products[-1], columns, k, tol):
            break
    found = _rayleigh_ritz(bases, products, columns, k)
    is_good = tol is None or _all_small(found.values, found.residuals, tol, dtype)
    return found._replace(converged=is_good)


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
        begun, basis = 1, keep("basis", partial(_orthonormal, block, ()), number=1)
    for number in range(begun, n_rounds + 1):
        product = matrix.apply(basis).persist()
        found = _rayleigh_ritz([basis], [product], [compute(_stacked_products(product, (basis,)))], width)
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
    """Return an orthonormal basis of a polynomial of the matrix times the vectors found, in two passes."""
    cut = float(found.values[found.values != 0][-1])
    vectors = found.vectors.persist()
    parts = [
        _filter(matrix, vectors[:, first : first + FILTERED_COLUMNS], lower, cut, upper, degree)
        for first in range(0, vectors.shape[1], FILTERED_COLUMNS)
    ]
    return _orthonormal(da.concatenate(parts, axis=1).rechunk({1: -1}), ())


def _filter(
    matrix: SymmetricMatrix, vectors: da.Array, lower: float, cut: float, upper: float, degree: int
) -> da.Array:
    """Return the Chebyshev polynomial of [lower, cut], one at `upper`, of the matrix, times vectors."""
    center, half = (cut + lower) / 2, (cut - lower) / 2
    first = ratio = half / (upper - center)
    before = vectors
    now = ((matrix.apply(vectors) - vectors * center) * (first / half)).persist()
    for _ in range(degree - 1):
        following = 1 / (2 / first - ratio)
        after = lift(
            blocks.chebyshev_step,
            "wb,wb,wb->wb",
            matrix.apply(now),
            now,
            before,
            center=center,
            scale=2 * following / half,
            damping=ratio * following,
            dtype=now.dtype,
        ).persist()
        before, now, ratio = now, after, following
    return now


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
    if start is None:
        return filler
    return (
        da.concatenate([start.astype(dtype), filler], axis=1).rechunk({1: -1}) if width > n_given else start
    )


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


def _unit_vectors(row_chunks: tuple[int, ...], first: int, width: int, dtype: Any) -> da.Array:
    """Return columns `first` to `first + width` of the identity."""
    n = sum(row_chunks)
    return dense_blocks(np.eye(n, min(width, n - first), -first, dtype=dtype), row_chunks)


def _orthonormal(
    block: da.Array, bases: tuple[da.Array, ...], coefficients: Floats | None = None
) -> da.Array:
    """Return an orthonormal basis of what a block Z adds to the bases before it, in two passes; QᵀZ may be given."""
    smallest = SMALLEST_SHARE[np.dtype(block.dtype)]
    once = _whiten(_project_out(block, bases, coefficients), blocks.whitening, smallest)
    return _whiten(_project_out(once, bases), blocks.renormalizing, SHORTENED)


def _project_out(
    block: da.Array, bases: tuple[da.Array, ...], coefficients: Floats | None = None
) -> da.Array:
    """Return Z - Q QᵀZ."""
    if not bases:
        return block
    inside = _stacked_products(block, bases) if coefficients is None else coefficients
    indices = ",".join(["wb", "ab", *["wa"] * len(bases)])
    return lift(blocks.remove_basis, f"{indices}->wb", block, inside, *bases, dtype=block.dtype)


def _stacked_products(block: da.Array, bases: tuple[da.Array, ...]) -> da.Array:
    """Return QᵀZ for all bases one below the other, float64, one chunk."""
    shape = sum(basis.shape[1] for basis in bases), block.shape[1]
    return fold(
        total(blocks.basis_products), ",".join(["wb", *["wa"] * len(bases)]), block, *bases, shape=shape
    )


def _whiten(block: da.Array, method: Any, threshold: float) -> da.Array:
    """Return Z T with orthonormal columns, zero where Z had fewer directions than columns."""
    row = total(blocks.gram)._replace(finalize=partial(method, threshold=threshold))
    width = block.shape[1]
    return times_matrix(block, fold(row, "wb", block, shape=(width, width)))


def _rayleigh_ritz(
    bases: list[da.Array], products: list[da.Array], columns: list[Floats], k: int
) -> Eigenpairs:
    """Return the largest eigenpairs within the span of the bases, given A times each and QᵀA Q by its block columns."""
    indices, width = ",".join(["wa"] * len(bases)), sum(basis.shape[1] for basis in bases)
    kept = compute(fold(total(blocks.column_powers), indices, *bases, shape=(width,), power=2)) > 0.5
    with one_blas_thread():
        values, rotation = _ritz_values(_projected(columns), kept, k)
    vectors = _combine(bases, rotation)
    misfit = _combine(products, rotation) - vectors * values.astype(vectors.dtype)
    squares, cubes = compute((column_powers(misfit, 2), column_powers(vectors, 3)))
    vectors = vectors * np.where(cubes < 0, -1, 1).astype(vectors.dtype)
    return Eigenpairs(values, vectors, np.sqrt(squares), len(products))


def _projected(columns: list[Floats]) -> Floats:
    """Return QᵀA Q, given its block columns from the top to the diagonal; below it lies what is above, transposed."""
    height = len(columns[-1])
    projected = np.zeros((height, height))
    for column in columns:
        last, first = len(column), len(column) - column.shape[1]
        projected[:last, first:last] = column
        projected[first:last, :last] = column.T
        square = column[first:]
        projected[first:last, first:last] = (square + square.T) / 2
    return projected


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


def _has_settled(product: da.Array, columns: list[Floats], k: int, tol: float) -> bool:
    """Return whether the Ritz pairs have small residuals, given the last product and QᵀA Q by its block columns.

    A times all but the last vectors of the basis lies within it, so that the residual of a Ritz vector is what the
    last product, weighted with the vector's last coordinates, has outside.
    """
    width, projected = columns[-1].shape[1], _projected(columns)
    squares = compute(fold(total(blocks.gram), "wb", product, shape=(width, width)))
    with one_blas_thread():
        values, rotation = _ritz_values(projected, np.asarray(projected.any(axis=0)), k)
        outside = squares - columns[-1].T @ columns[-1]
        last = rotation[-width:]
        residuals = np.sqrt(np.maximum((last * (outside @ last)).sum(axis=0), 0))
    return _all_small(values, residuals, tol, product.dtype)


def _all_small(values: Floats, residuals: Floats, tol: float, dtype: Any) -> bool:
    sizes = np.abs(values)
    rounding = LEAST_RESIDUAL * np.finfo(dtype).eps * sizes.max()
    return bool(np.all(residuals <= np.maximum(tol * sizes, rounding)))
