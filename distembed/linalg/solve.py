"""Linear systems with many right-hand sides, by conjugate gradients over row blocks.

Each right-hand side has its own step lengths but all share every product with the matrix, which is where the
time goes. Iterates are Dask arrays in the row chunks of the matrix.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray

from distembed.execution import one_blas_thread
from distembed.linalg import blocks
from distembed.linalg.operators import SymmetricMatrix, dense_blocks, sparse_times, transpose_row_blocks

Floats = NDArray[np.floating]


class Solution(NamedTuple):
    """The solution of linear systems and how exact it is.

    Attributes
    ----------
    vectors : Dask array (n, b)
    residuals : (b,) float64
        ``‖B - A X‖ / ‖B‖`` of each column as the recurrence has it.
    n_iter : int
    converged : bool
    """

    vectors: da.Array
    residuals: Floats
    n_iter: int
    converged: bool


class NormalMatrix(NamedTuple):
    """The symmetric matrix ``XᵀX + alpha I`` of a sparse X (n × m), for ridge regression.

    Attributes
    ----------
    matrix, transposed : Dask arrays (n, m), (m, n) of csr_array row blocks
    alpha : float
    """

    matrix: da.Array
    transposed: da.Array
    alpha: float

    @property
    def row_chunks(self) -> tuple[int, ...]:
        """Rows of each block."""
        return tuple(self.transposed.chunks[0])

    def apply(self, vectors: da.Array) -> da.Array:
        """Return (XᵀX + alpha I) times vectors (m × b)."""
        return sparse_times(self.transposed, sparse_times(self.matrix, vectors)) + self.alpha * vectors


def conjugate_gradients(
    matrix: SymmetricMatrix,
    right: Any,
    *,
    start: da.Array | None = None,
    diagonal: Floats | None = None,
    tol: float = 1e-6,
    max_iter: int = 500,
) -> Solution:
    """Solve ``A X = B`` for a symmetric positive definite A and many right-hand sides.

    Equivalent to ``scipy.sparse.linalg.cg`` on each column.

    Parameters
    ----------
    matrix : SymmetricMatrix (n, n)
    right : array or Dask array (n, b), float32 or float64
        B; the iterates have its dtype.
    start : Dask array (n, b), optional
        Default zero.
    diagonal : (n,) array, optional
        Of A, for Jacobi preconditioning; all above zero.
    tol : float
        Stop when every column has ``‖B - A X‖ <= tol ‖B‖``.
    max_iter : int

    Returns
    -------
    Solution

    Warns
    -----
    RuntimeWarning
        If `max_iter` is reached first.
    """
    chunks = matrix.row_chunks
    target = dense_blocks(right, chunks)
    scale = None if diagonal is None else dense_blocks(1 / np.asarray(diagonal)[:, None], chunks)
    with one_blas_thread():
        solution = _iterate(matrix, target, start, scale, tol, max_iter)
    if not solution.converged:
        warnings.warn(
            f"conjugate gradients stopped after {solution.n_iter} iterations at a relative residual of "
            f"{solution.residuals.max():.2g}, above tol {tol:g}: raise max_iter or give the diagonal",
            RuntimeWarning,
            stacklevel=2,
        )
    return solution


def ridge(matrix: da.Array, right: Any, *, alpha: float, tol: float = 1e-6, max_iter: int = 500) -> Solution:
    """Return ``W = argmin ‖X W - B‖² + alpha ‖W‖²`` for a sparse X (n × m) and many right-hand sides (n × b).

    Conjugate gradients on the normal equations; with alpha above zero their condition is bounded.
    Equivalent to ``scipy.sparse.linalg.lsqr(X, b, damp=sqrt(alpha))`` on each column.

    Raises
    ------
    ValueError
        If `alpha` is not above zero.
    """
    if not alpha > 0:
        raise ValueError(f"alpha is {alpha}; give a ridge above 0 (0.01 is usual)")
    transposed = transpose_row_blocks(matrix)
    target = sparse_times(transposed, dense_blocks(right, tuple(matrix.chunks[0])))
    normal = NormalMatrix(matrix, transposed, alpha)
    return conjugate_gradients(normal, target, tol=tol, max_iter=max_iter)


def _iterate(  # noqa: PLR0917 - the state of one iteration
    matrix: SymmetricMatrix,
    right: da.Array,
    start: da.Array | None,
    scale: da.Array | None,
    tol: float,
    max_iter: int,
) -> Solution:
    vectors = da.zeros_like(right) if start is None else dense_blocks(start, matrix.row_chunks)
    left_over = right if start is None else right - matrix.apply(vectors)
    direction = _scaled(left_over, scale)
    norms, squares, descent = da.compute(
        _dots(right, right), _dots(left_over, left_over), _dots(left_over, direction)
    )
    norms = np.where(norms > 0, norms, 1)
    n_iter = 0
    while np.any(squares > tol**2 * norms) and n_iter < max_iter:
        (product,) = dask.persist(matrix.apply(direction))
        step = _ratio(descent, _dots(direction, product).compute()).astype(right.dtype)
        vectors, left_over = dask.persist(vectors + direction * step, left_over - product * step)
        scaled = _scaled(left_over, scale)
        squares, after = da.compute(_dots(left_over, left_over), _dots(left_over, scaled))
        (direction,) = dask.persist(scaled + direction * _ratio(after, descent).astype(right.dtype))
        descent, n_iter = after, n_iter + 1
    residuals = np.sqrt(squares / norms)
    return Solution(vectors, residuals, n_iter, bool(np.all(residuals <= tol)))


def _dots(left: da.Array, right: da.Array) -> da.Array:
    """Return the dot product of each pair of columns, float64."""
    chunks = ((1,) * left.numblocks[0], (left.shape[1],))
    partial = da.map_blocks(blocks.column_dots, left, right, chunks=chunks, dtype=np.float64)
    return partial.sum(axis=0, split_every=8)


def _scaled(vectors: da.Array, scale: da.Array | None) -> da.Array:
    return vectors if scale is None else (vectors * scale).astype(vectors.dtype)


def _ratio(above: Floats, below: Floats) -> Floats:
    """Return a quotient, 0 for columns that are solved exactly."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
