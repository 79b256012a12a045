"""Mathematics of one tile for the nearest sparse rows by cosine.

Word counts have a few thousand columns that hold nearly all the work, and a long tail that holds none. A tile
therefore multiplies the full columns as dense float32 panels and adds the others from an inverted list, both
into one tile of approximate cosines. Those only choose candidates, with a rigorous bound on their error;
the candidates are measured in float64.

Letters
-------
X, Z : CSR blocks of unit rows, float64, sorted indices, shapes (r, m) and (c, m).
S : approximate cosines of all pairs of a tile, float32, shape (r, c).

Neighbor lists are those of `blocks`. A *candidate list* has the same form, with -S for the distances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray
from scipy.linalg.blas import sgemm

from distembed.dtypes import Float32s, Float64s, Int32s, Int64s, Mask
from distembed.neighbors.blocks import EXTRA_ROUNDINGS, PRODUCT_ROWS, empty_lists, insert, merge_lists
from distembed.temporaries import block

PANEL = 256
"""Dense columns multiplied at a time: the error of their sum grows with it, the speed hardly from 256 on."""
DENSE_SHARE = 0.01
"""Share of a tile's pairs that must meet in a column for a dense product to be cheaper there: it does 45e9
multiplications a second where the sum over an inverted list does 0.45e9 (measured, one core)."""
MOST_DENSE = 8192
"""Dense columns of a tile at most, which bounds the error."""


class Stored(NamedTuple):
    """The three arrays of a CSR block, as compiled functions take them."""

    indptr: NDArray[np.integer]
    indices: NDArray[np.integer]
    data: Float64s


def _stored(X: sp.csr_array) -> Stored:
    return Stored(X.indptr, X.indices, X.data)


class ColumnSplit(NamedTuple):
    """The division of a tile's columns into dense and light ones."""

    place: Int32s
    """The place of a dense column, from 0; -1 - place for a light one. Int32 array (m,)."""
    n_dense: int
    n_light: int
    """The number of dense and of light columns."""


def split_columns(X: sp.csr_array, Z: sp.csr_array, dense_values: int) -> ColumnSplit:
    """Return which columns of a tile are worth a dense product and fit; those that X or Z lacks are light."""
    most_dense = min(MOST_DENSE, dense_values // (X.shape[0] + Z.shape[0]))
    meetings = column_counts(X) * column_counts(Z)
    least = DENSE_SHARE * X.shape[0] * Z.shape[0]
    if (meetings > least).sum() > most_dense:
        least = np.partition(meetings, -most_dense - 1)[-most_dense - 1]
    dense = meetings > least
    place = np.where(dense, np.cumsum(dense) - 1, -np.cumsum(~dense)).astype(np.int32)
    return ColumnSplit(place, int(dense.sum()), int((~dense).sum()))


def column_counts(block: sp.csr_array) -> Float64s:
    """Return the number of rows of a block in which each column is stored, (m,)."""
    return np.bincount(block.indices, minlength=block.shape[1]).astype(np.float64)


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
    split = split_columns(X, Z, dense_values)
    scores = np.zeros((X.shape[0], Z.shape[0]), np.float32)
    # BLAS wants columns: the transpose of a C array is that, so nothing is copied.
    for left, right in zip(_dense_panels(X, split), _dense_panels(Z, split), strict=True):
        sgemm(1.0, right.T, left.T, beta=1.0, c=scores.T, trans_a=True, overwrite_c=True)
    starts, rows, values = _invert(_stored(Z), split.place, split.n_light)
    _add_light(_stored(X), split.place, starts, rows, values, scores)
    return scores


def _dense_panels(X: sp.csr_array, split: ColumnSplit) -> Float32s:
    """Return the dense columns, shape (panels, rows, PANEL); the last panel is filled up with zeros."""
    panels = np.zeros((-(-split.n_dense // PANEL), X.shape[0], PANEL), np.float32)
    _fill_panels(_stored(X), split.place, panels)
    return panels


@njit(cache=True, nogil=True)
def _fill_panels(stored: Stored, place: Int32s, panels: Float32s) -> None:
    indptr, indices, data = stored
    width = panels.shape[2]
    for i in range(indptr.shape[0] - 1):
        for p in range(indptr[i], indptr[i + 1]):
            at = place[indices[p]]
            if at >= 0:
                panels[at // width, i, at % width] = data[p]


@njit(cache=True, nogil=True)
def _invert(stored: Stored, place: Int32s, n_light: int) -> tuple[Int64s, Int32s, Float32s]:
    """Return where each light column's entries start, and their rows and values."""
    indptr, indices, data = stored
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
                values[free[light]] = data[p]
                free[light] += 1
    return starts, rows, values


@njit(cache=True, nogil=True)
def _add_light(
    stored: Stored, place: Int32s, starts: Int64s, rows: Int32s, values: Float32s, scores: Float32s
) -> None:
    """Add the light columns' share of every cosine, summed in float64."""
    indptr, indices, data = stored
    total = np.zeros(scores.shape[1])
    for i in range(scores.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            light = -1 - place[indices[p]]
            if light >= 0:
                value = data[p]
                for q in range(starts[light], starts[light + 1]):
                    total[rows[q]] += value * values[q]
        for j in range(scores.shape[1]):
            scores[i, j] += total[j]
            total[j] = 0.0


# --------------------------------------------------------------------------- candidates


class TileCandidates(NamedTuple):
    """Candidate lists of the rows and of the columns of a tile, (r, 2, K) and (c, 2, K)."""

    rows: Float64s
    columns: Float64s


@block(temporaries=8)
def tile_candidates(
    X: sp.csr_array,
    row_groups: Int64s,
    first_row: int,
    Z: sp.csr_array,
    column_groups: Int64s,
    first_column: int,
    near: Float64s | None = None,  # noqa: ARG001 - a score is measured later, and rules nothing out
    far: Float64s | None = None,  # noqa: ARG001
    *,
    dense_values: int,
    k: int,
) -> TileCandidates:
    """Return the k largest approximate cosines of each row and of each column with another group's.

    Parameters
    ----------
    X : csr_array (r, m)
        Unit rows.
    row_groups, column_groups : int64 arrays; pairs of one group are left out (a row and itself, a component)
    first_row, first_column : the row numbers of X and of Z start here
    Z : csr_array (c, m)
        Unit rows.
    near, far : lists so far, of which nothing is used
    dense_values : float32 values that the dense columns of both sides may hold
    k : length of the lists
    """
    scores = approximate_cosines(X, Z, dense_values=dense_values)
    rows, columns = _empty_candidates(X.shape[0], k), _empty_candidates(Z.shape[0], k)
    _collect(scores, row_groups, column_groups, *rows, *columns)
    return TileCandidates(_as_lists(*rows, first_column), _as_lists(*columns, first_row))


def _empty_candidates(n: int, k: int) -> tuple[Float32s, Int32s]:
    return np.full((n, k), -np.inf, np.float32), np.full((n, k), -1, np.int32)


def _as_lists(scores: Float32s, places: Int32s, first: int) -> Float64s:
    """Return candidate lists with row numbers for the places in a tile."""
    found = np.where(places >= 0, places + first, -1)
    return np.stack([-scores.astype(np.float64), found.astype(np.float64)], axis=1)


@njit(cache=True, nogil=True)
def _collect(
    scores: Float32s,
    row_groups: Int64s,
    column_groups: Int64s,
    row_best: Float32s,
    row_at: Int32s,
    column_best: Float32s,
    column_at: Int32s,
) -> None:
    """Insert every score into the falling lists of its row and its column; equal scores keep their order."""
    last = row_best.shape[1] - 1
    column_limits = np.full(scores.shape[1], -np.inf, np.float32)
    for i in range(scores.shape[0]):
        row_limit = np.float32(-np.inf)
        for j in range(scores.shape[1]):
            score = scores[i, j]
            if (score > row_limit or score > column_limits[j]) and row_groups[i] != column_groups[j]:
                if score > row_limit:
                    _enter(row_best[i], row_at[i], score, j)
                    row_limit = row_best[i, last]
                if score > column_limits[j]:
                    _enter(column_best[j], column_at[j], score, i)
                    column_limits[j] = column_best[j, last]


@njit(cache=True, nogil=True)
def _enter(best: Float32s, places: Int32s, score: float, place: int) -> None:
    at = best.shape[0] - 1
    while at > 0 and score > best[at - 1]:
        best[at] = best[at - 1]
        places[at] = places[at - 1]
        at -= 1
    best[at] = score
    places[at] = place


# --------------------------------------------------------------------------- exact distances


@njit(cache=True, nogil=True)
def _fill_row(X: Stored, i: int, row: Float64s) -> None:
    for p in range(X.indptr[i], X.indptr[i + 1]):
        row[X.indices[p]] = X.data[p]


@njit(cache=True, nogil=True)
def _clear_row(X: Stored, i: int, row: Float64s) -> None:
    for p in range(X.indptr[i], X.indptr[i + 1]):
        row[X.indices[p]] = 0.0


@njit(cache=True, nogil=True)
def _distance(Z: Stored, j: int, row: Float64s) -> float:
    """Return 2 - 2 z · x for a sparse unit row z and a dense one, summed in the order of the columns.

    Zeros of x add nothing, so that the bits are the same for (x, z) and (z, x).
    """
    total = 0.0
    for q in range(Z.indptr[j], Z.indptr[j + 1]):
        total += Z.data[q] * row[Z.indices[q]]
    return 2.0 * max(0.0, 1.0 - total)


@njit(cache=True, nogil=True)
def _measure_candidates(
    X: Stored, Z: Stored, first: int, row: Float64s, candidates: Float64s, lists: Float64s
) -> None:
    stop = first + Z.indptr.shape[0] - 1
    for i in range(candidates.shape[0]):
        found = candidates[i, 1]
        if np.any((found >= first) & (found < stop)):
            _fill_row(X, i, row)
            for j in found:
                if first <= j < stop:
                    insert(lists[i], _distance(Z, np.int64(j) - first, row), j)
            _clear_row(X, i, row)


@block(temporaries=0.5)
def measure_candidates(
    X: sp.csr_array,
    candidates: Float64s,
    row_groups: Int64s,
    columns: list[sp.csr_array],
    firsts: list[Int64s],
    *,
    column_groups: Int64s,
    k: int,
) -> Float64s:
    """Return the k nearest of each row's candidates, (r, 2, k), exactly; rows in doubt are searched again.

    Parameters
    ----------
    X : csr_array (r, m)
        Unit rows.
    candidates : candidate lists, (r, 2, K)
    row_groups, column_groups : int64 arrays; pairs of one group are left out
    columns : blocks of unit rows, among which the candidates are
    firsts : the row number that each block begins with
    k : int
        The number of neighbors.
    """
    lists, row = empty_lists(X.shape[0], k), np.zeros(X.shape[1])
    for Z, first in zip(columns, firsts, strict=True):
        _measure_candidates(_stored(X), _stored(Z), int(first[0]), row, candidates, lists)
    unsure = uncertain_rows(lists, candidates, error=cosine_error(X.shape[1]))
    if not unsure.any():
        return lists
    some, groups, found = X[unsure], row_groups[unsure], empty_lists(int(unsure.sum()), k)
    for Z, first in zip(columns, firsts, strict=True):
        ids = int(first[0]) + np.arange(Z.shape[0])
        again = nearest_in_sparse_tile(some, groups, Z, ids, column_groups[ids], k=k)
        found = merge_lists(np.stack([found, again], axis=1))[:, 0]
    lists[unsure] = found
    return lists


@block(temporaries=0.5)
def all_distances(X: sp.csr_array, Z: sp.csr_array) -> Float64s:
    """Return 1 - x_i · z_j of all pairs of sparse unit rows, shape (r, c); the same bits for (i, j) and (j, i)."""
    distances = np.empty((X.shape[0], Z.shape[0]))
    _fill_distances(_stored(X), _stored(Z), np.zeros(X.shape[1]), distances)
    return distances


@njit(cache=True, nogil=True)
def _fill_distances(X: Stored, Z: Stored, row: Float64s, distances: Float64s) -> None:
    for i in range(distances.shape[0]):
        _fill_row(X, i, row)
        for j in range(distances.shape[1]):
            distances[i, j] = _distance(Z, j, row) / 2
        _clear_row(X, i, row)


def uncertain_rows(lists: Float64s, candidates: Float64s, *, error: float) -> Mask:
    """Return the rows, (r,), that a pair left out of their candidates could still belong to.

    Every pair left out has a cosine of at most the last candidate's plus the error.
    """
    least = 2.0 * (1.0 + candidates[:, 0, -1] - error)
    return np.isfinite(candidates[:, 0, -1]) & (lists[:, 0, -1] >= least)


def nearest_in_sparse_tile(
    X: sp.csr_array,
    row_groups: Int64s,
    Z: sp.csr_array,
    column_ids: Int64s,
    column_groups: Int64s,
    *,
    k: int,
) -> Float64s:
    """Return the k nearest rows of Z to each row of X, exactly, whatever is equal: for few rows of X.

    The result of `blocks.nearest_in_tile`, for sparse rows of unit length. Products in float64 choose what is
    measured, and only an error of float64 is allowed for.
    """
    lists = empty_lists(X.shape[0], k)
    transposed = Z.T.tocsr()
    row = np.zeros(X.shape[1])
    for i in range(0, X.shape[0], PRODUCT_ROWS):
        part = slice(i, i + PRODUCT_ROWS)
        some = X[part]
        products = (some @ transposed).toarray()
        _scan_products(
            products,
            _stored(some),
            row_groups[part],
            _stored(Z),
            column_groups,
            column_ids,
            row,
            lists[part],
        )
    return lists


@njit(cache=True, nogil=True)
def _scan_products(
    products: Float64s,
    X: Stored,
    row_groups: Int64s,
    Z: Stored,
    column_groups: Int64s,
    column_ids: Int64s,
    row: Float64s,
    lists: Float64s,
) -> None:
    last = lists.shape[2] - 1
    slack = 4 * row.shape[0] * 2.0**-53
    for i in range(products.shape[0]):
        _fill_row(X, i, row)
        for j in range(products.shape[1]):
            near = 2.0 * (1.0 - products[i, j]) - slack <= lists[i, 0, last]
            if near and row_groups[i] != column_groups[j]:
                # At distance zero only a smaller row number can still enter: masses of equal rows are cheap.
                if lists[i, 0, last] == 0.0 and column_ids[j] > lists[i, 1, last]:
                    continue
                insert(lists[i], _distance(Z, j, row), np.float64(column_ids[j]))
        _clear_row(X, i, row)
