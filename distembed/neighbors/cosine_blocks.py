"""Mathematics of one tile for the nearest sparse rows by cosine.

Word counts have a few thousand columns that hold nearly all the work, and a long tail that holds none. A tile
therefore multiplies the full columns as dense float32 panels and adds the others from an inverted list, both
into one tile of approximate cosines. Those only choose, with a rigorous bound on their error, the pairs that
are measured in float64.

Letters
-------
X, Z : CSR blocks of unit rows, float64, sorted indices, shapes (r, m) and (c, m).
S : approximate cosines of all pairs of a tile, float32, shape (r, c).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray
from scipy.linalg.blas import sgemm

from distembed.dtypes import Float32s, Float64s, Floats, Int32s
from distembed.temporaries import block

# Additions beyond the d of a product itself in the bound of its rounding: the cast after centring, the two norms, their
# sum, the comparison; generous, since it costs only a few exact distances.
EXTRA_ROUNDINGS = 16
PANEL = 256
"""Dense columns multiplied at a time: the error of their sum grows with it, the speed hardly from 256 on."""
DENSE_SHARE = 0.01
"""Share of a tile's pairs that must meet in a column for a dense product to be cheaper there: it does 45e9
multiplications a second where the sum over an inverted list does 0.45e9 (measured, one core)."""
MOST_DENSE = 8192
"""Dense columns of a tile at most, which bounds the error."""


class Stored(NamedTuple):
    """Rows as compiled functions take them: the arrays of a CSR block, or dense rows, without `indptr`."""

    indptr: NDArray[np.integer]
    indices: NDArray[np.integer]
    data: Floats
    """The values of sparse rows are a row of it, (1, values)."""


def stored_rows(X: Floats | sp.csr_array, part: slice | None = None) -> Stored:
    """Return some rows, by default all."""
    some = X if part is None else X[part]
    if isinstance(some, np.ndarray):
        return Stored(np.empty(0, np.int32), np.empty(0, np.int32), some)
    return Stored(some.indptr, some.indices, some.data[np.newaxis])


def split_columns(X: sp.csr_array, Z: sp.csr_array, dense_values: int) -> tuple[Int32s, int, int]:
    """Return which columns of a tile are worth a dense product and fit; those that X or Z lacks are light.

    Returns
    -------
    int32 array (m,), int, int
        The place of a dense column, from 0, and -1 - place for a light one; the numbers of dense and of light columns.
    """
    most_dense = min(MOST_DENSE, dense_values // (X.shape[0] + Z.shape[0]))
    counts = [np.bincount(block.indices, minlength=block.shape[1]).astype(np.float64) for block in (X, Z)]
    meetings = counts[0] * counts[1]
    least = DENSE_SHARE * X.shape[0] * Z.shape[0]
    if (meetings > least).sum() > most_dense:
        least = np.partition(meetings, -most_dense - 1)[-most_dense - 1]
    dense = meetings > least
    place = np.where(dense, np.cumsum(dense) - 1, -np.cumsum(~dense)).astype(np.int32)
    return place, int(dense.sum()), int((~dense).sum())


def cosine_error(n_features: int) -> float:
    """Return a bound on |S_ij - x_i · z_j| for unit rows.

    With u = 2^-24, each factor is rounded once, a panel of 256 products summed in any order adds (256 +
    `EXTRA_ROUNDINGS`) u Σ|x||z| at most (Higham, Accuracy and Stability of Numerical Algorithms, 2002,
    eq. 3.5), each panel and the light part one rounding more, and Σ|x||z| <= 1. The light part is summed in
    float64, as is x · z, with errors of m 2^-53.
    """
    roundings = PANEL + MOST_DENSE // PANEL + EXTRA_ROUNDINGS
    return 1.01 * roundings * 2.0**-24 + 2 * n_features * 2.0**-53


# --------------------------------------------------------------------------- approximate cosines


def approximate_cosines(X: sp.csr_array, Z: sp.csr_array, *, dense_values: int) -> Float32s:
    """Return S, (r × c), within `cosine_error` of the products of unit rows."""
    place, n_dense, n_light = split_columns(X, Z, dense_values)
    left, right = stored_rows(X), stored_rows(Z)
    scores = np.zeros((X.shape[0], Z.shape[0]), np.float32)
    panels = [np.zeros((-(-n_dense // PANEL), n, PANEL), np.float32) for n in scores.shape]
    _fill_panels(left, place, panels[0])
    _fill_panels(right, place, panels[1])
    # BLAS wants columns: the transpose of a C array is that, so nothing is copied.
    for one, other in zip(*panels, strict=True):
        sgemm(1.0, other.T, one.T, beta=1.0, c=scores.T, trans_a=True, overwrite_c=True)
    del panels
    _add_light(left, right, place, n_light, scores)
    return scores


@njit(cache=True, nogil=True)
def _fill_panels(stored: Stored, place: Int32s, panels: Float32s) -> None:
    """Fill the dense columns of rows into panels, (panels, rows, PANEL); the last panel is filled up with zeros."""
    indptr, indices, data = stored
    width = panels.shape[2]
    for i in range(indptr.shape[0] - 1):
        for p in range(indptr[i], indptr[i + 1]):
            at = place[indices[p]]
            if at >= 0:
                panels[at // width, i, at % width] = data[0, p]


@njit(cache=True, nogil=True)
def _add_light(left: Stored, right: Stored, place: Int32s, n_light: int, scores: Float32s) -> None:
    """Add the light columns' share of every cosine, summed in float64, from an inverted list of the right rows."""
    indptr, indices, data = right
    starts = np.zeros(n_light + 1, np.int64)
    for column in indices:
        if place[column] < 0:
            starts[-place[column]] += 1
    starts = np.cumsum(starts)
    rows = np.empty(starts[-1], np.int32)
    values = np.empty(starts[-1], np.float32)
    free = starts[:-1].copy()
    for i in range(indptr.shape[0] - 1):
        for p in range(indptr[i], indptr[i + 1]):
            if place[indices[p]] < 0:
                light = -1 - place[indices[p]]
                rows[free[light]] = i
                values[free[light]] = data[0, p]
                free[light] += 1
    total = np.zeros(scores.shape[1])
    for i in range(scores.shape[0]):
        for p in range(left.indptr[i], left.indptr[i + 1]):
            light = -1 - place[left.indices[p]]
            if light >= 0:
                value = left.data[0, p]
                for q in range(starts[light], starts[light + 1]):
                    total[rows[q]] += value * values[q]
        for j in range(scores.shape[1]):
            scores[i, j] += total[j]
            total[j] = 0.0


# --------------------------------------------------------------------------- exact distances


@njit(cache=True, nogil=True)
def set_row(X: Stored, i: int, row: Float64s, scale: float) -> None:
    """Write a sparse row, times 1 or 0, into a dense one; a row that is dense itself is measured where it is."""
    if X.indptr.shape[0]:
        for p in range(X.indptr[i], X.indptr[i + 1]):
            row[X.indices[p]] = scale * X.data[0, p]


@njit(cache=True, nogil=True)
def sparse_distance(Z: Stored, j: int, row: Float64s) -> float:
    """Return 2 - 2 z · x for a sparse unit row z and a dense one, summed in the order of the columns.

    Zeros of x add nothing, so that the bits are the same for (x, z) and (z, x).
    """
    total = 0.0
    for q in range(Z.indptr[j], Z.indptr[j + 1]):
        total += Z.data[0, q] * row[Z.indices[q]]
    return 2.0 * max(0.0, 1.0 - total)


@block(temporaries=1.5)
def all_distances(X: sp.csr_array, Z: sp.csr_array) -> Float64s:
    """Return 1 - x_i · z_j of all pairs of sparse unit rows, shape (r, c); the same bits for (i, j) and (j, i)."""
    return np.maximum(0.0, 1.0 - (X @ Z.T).toarray())
