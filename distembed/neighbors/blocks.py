"""Mathematics of one tile of distances, and of the neighbor lists it gives.

Letters
-------
X, Z : rows, shapes (r, d) and (c, d); x_i is one row.

A *neighbor list* is one float64 array of shape (rows, 2, k): the squared distances, rising, and the row numbers
(exact in float64 up to 2**53). Lists are ordered by (distance, row number); what is missing is (inf, -1). One plain
array can be reduced by Dask and stored by Zarr, which a pair could not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit

from distembed.dtypes import Float32s, Float64s, Floats, Int64s
from distembed.linalg.blocks import ROUNDED
from distembed.neighbors.cosine_blocks import (
    EXTRA_ROUNDINGS,
    Stored,
    approximate_cosines,
    cosine_error,
    set_row,
    sparse_distance,
    stored_rows,
)
from distembed.temporaries import block

Given: TypeAlias = list[Any]
"""A block of rows in a search: the rows, their groups, the number of the first, and their lists so far, if any."""

# Products held at once: 256 x 2048 in float64 are 4 MiB, a share of the third-level cache.
PRODUCT_ROWS = 256
PRODUCT_COLUMNS = 2048
# Products whose lower bounds are compared together before each is looked at: one register after another.
SCANNED_TOGETHER = 128
# Products of d such values stay below the largest float32, 3e38, up to d = 10**4.
LARGEST_FLOAT32 = 1e17
# A squared distance below this share of the squared lengths has lost 3 of its 16 digits: measure it again.
CANCELLED = 1e-3


@njit(cache=True, nogil=True)
def squared_distance(x: Floats, y: Floats) -> float:
    """Return ‖x - y‖² summed in float64 from the differences, the same bits for (x, y) and (y, x)."""
    s0 = s1 = s2 = s3 = 0.0
    whole = x.shape[0] - x.shape[0] % 4
    for t in range(0, whole, 4):
        d0 = np.float64(x[t]) - np.float64(y[t])
        d1 = np.float64(x[t + 1]) - np.float64(y[t + 1])
        d2 = np.float64(x[t + 2]) - np.float64(y[t + 2])
        d3 = np.float64(x[t + 3]) - np.float64(y[t + 3])
        s0 += d0 * d0
        s1 += d1 * d1
        s2 += d2 * d2
        s3 += d3 * d3
    for t in range(whole, x.shape[0]):
        d0 = np.float64(x[t]) - np.float64(y[t])
        s0 += d0 * d0
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, nogil=True)
def insert(list_: Float64s, value: float, row: float) -> None:
    """Insert (value, row) into one sorted list (2, k), dropping the last entry, unless it belongs after it."""
    at = list_.shape[1] - 1
    if not (value < list_[0, at] or (value == list_[0, at] and (row < list_[1, at] or list_[1, at] < 0))):
        return
    while at > 0 and (
        value < list_[0, at - 1]
        or (value == list_[0, at - 1] and (row < list_[1, at - 1] or list_[1, at - 1] < 0))
    ):
        list_[0, at] = list_[0, at - 1]
        list_[1, at] = list_[1, at - 1]
        at -= 1
    list_[0, at] = value
    list_[1, at] = row


def accurate_squares(X: Floats, Z: Floats) -> Float64s:
    """Return all ‖x_i - z_j‖² by a matrix product, computed again from differences where cancellation lost digits."""
    X, Z = X.astype(np.float64, copy=False), Z.astype(np.float64, copy=False)
    squares = X @ Z.T
    _squares_of_products(X, Z, np.einsum("id,id->i", X, X), np.einsum("jd,jd->j", Z, Z), squares)
    return squares


@njit(cache=True, nogil=True)
def _squares_of_products(
    X: Float64s, Z: Float64s, row_norms: Float64s, column_norms: Float64s, products: Float64s
) -> None:
    """Replace products by squared distances."""
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            size = row_norms[i] + column_norms[j]
            square = size - 2.0 * products[i, j]
            products[i, j] = squared_distance(X[i], Z[j]) if square < CANCELLED * size else square


def typical_square(squares: Float64s, X: Floats, Z: Floats) -> float:
    """Return the median of all ‖x_i - z_j‖², above zero also where most rows are equal.

    Where half of the squares or more are those of equal rows, as in a one-hot table, it is the median of the others;
    of rows that are all equal it is 1.
    """
    lengths = (X**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1)
    are_apart = squares > ROUNDED * lengths
    if 2 * np.count_nonzero(are_apart) <= squares.size:
        squares = squares[are_apart]
    return float(np.median(squares)) if squares.size else 1.0


@block(temporaries=0.5)
def distance_tile(X: Floats, Z: Floats, *, cosine: bool) -> Float64s:
    """Return ‖x_i - z_j‖, or half its square with `cosine`."""
    squares = accurate_squares(X, Z)
    return np.divide(squares, 2, out=squares) if cosine else np.sqrt(squares, out=squares)


@block(temporaries=2.5)
def distance_rows(X: Floats, Z: Floats, *, cosine: bool) -> Float32s:
    """Return ‖x_i - z_j‖, or half its square with `cosine`, to float32's precision; strip by strip."""
    out = np.empty((X.shape[0], Z.shape[0]), np.float32)
    X = X.astype(np.float64, copy=False)
    for j in range(0, Z.shape[0], PRODUCT_COLUMNS):
        strip = slice(j, j + PRODUCT_COLUMNS)
        with np.errstate(over="ignore"):  # past float32's range is infinite
            out[:, strip] = distance_tile(X, Z[strip], cosine=cosine)
    return out


def empty_lists(n_rows: int, k: int) -> Float64s:
    """Return neighbor lists without entries."""
    lists = np.full((n_rows, 2, k), np.inf)
    lists[:, 1] = -1.0
    return lists


class Side(NamedTuple):
    """The rows or the columns of a tile, as the compiled scan takes them."""

    stored: Stored
    norms: Float64s
    groups: Int64s
    first: int
    """The number of the first row."""
    lists: Float64s
    limits: Float64s
    """The squared distance of each row from which on nothing is of interest."""


@njit(cache=True, nogil=True)
def _scan(products: Floats, left: Side, right: Side, row: Float64s) -> None:
    """Measure every pair whose lower bound row_norm + column_norm + product may enter the list of its row or column."""
    lists, column_lists = left.lists, right.lists
    last, column_last = lists.shape[2] - 1, column_lists.shape[2] - 1
    is_sparse = left.stored.indptr.shape[0] > 0
    room = np.minimum(right.limits, column_lists[:, 0, column_last]) - right.norms
    for i in range(products.shape[0]):
        limit = min(left.limits[i], lists[i, 0, last]) - left.norms[i]
        set_row(left.stored, i, row, 1.0)
        for first in range(0, products.shape[1], SCANNED_TOGETHER):
            stop = min(first + SCANNED_TOGETHER, products.shape[1])
            near = products[i, first:stop]
            if not _any_within(near, right.norms[first:stop], limit, room[first:stop], left.norms[i]):
                continue
            for j in range(first, stop):
                enters = products[i, j] + right.norms[j] <= limit
                is_entered = products[i, j] + left.norms[i] <= room[j]
                if not (enters or is_entered) or left.groups[i] == right.groups[j]:
                    continue
                # At distance zero only a smaller row number can still enter: masses of equal rows are cheap.
                enters &= lists[i, 0, last] != 0.0 or right.first + j < lists[i, 1, last]
                is_entered &= (
                    column_lists[j, 0, column_last] != 0.0 or left.first + i < column_lists[j, 1, column_last]
                )
                if not (enters or is_entered):
                    continue
                if is_sparse:
                    value = sparse_distance(right.stored, j, row)
                else:
                    value = squared_distance(left.stored.data[i], right.stored.data[j])
                if enters:
                    insert(lists[i], value, np.float64(right.first + j))
                    limit = min(left.limits[i], lists[i, 0, last]) - left.norms[i]
                if is_entered:
                    insert(column_lists[j], value, np.float64(left.first + i))
                    room[j] = min(right.limits[j], column_lists[j, 0, column_last]) - right.norms[j]
        set_row(left.stored, i, row, 0.0)


@njit(cache=True, nogil=True)
def _any_within(
    products: Floats, column_norms: Float64s, limit: float, room: Float64s, row_norm: float
) -> bool:
    n_within = 0
    for j in range(
        products.shape[0]
    ):  # without a way out before its end, so that it runs in vector registers
        n_within += (products[j] + column_norms[j] <= limit) | (products[j] + row_norm <= room[j])
    return n_within > 0


Tile: TypeAlias = tuple[slice, slice, Floats, Float64s, Float64s]
"""Some rows of X and of Z, their products p, and norms a and b: a_i + b_j + p_ij is no more than ‖x_i - z_j‖²."""


def _dense_tiles(X: Floats, Z: Floats, *, single: bool) -> Iterator[Tile]:
    """Yield tiles of products of centered rows, with (1 - 2c)‖x‖² of each row, c the rounding bound of a product.

    The center moves the bound, and not the result. The rows are in their precision, or in float32 where they are
    `single`. |fl(a·b) - a·b| <= c |a||b| with c = (d + EXTRA_ROUNDINGS) u (Higham, Accuracy and Stability of Numerical
    Algorithms, 2002, eq. 3.5) and 2|a||b| <= |a|² + |b|², so (1 - 2c)(|a|² + |b|²) - 2 fl(a·b) <= ‖a - b‖².
    What underflow may take from a product is subtracted too; values whose products overflow float32 stay in float64.
    """
    center = Z.mean(axis=0, dtype=np.float64)
    sides = list[tuple[Floats, Float64s]]()
    for given in (X, Z):
        ends = given.max(axis=0, initial=-np.inf) - center, center - given.min(axis=0, initial=np.inf)
        is_single = (single or given.dtype == np.float32) and np.max(ends) < LARGEST_FLOAT32
        centered = np.empty(given.shape, np.float32 if is_single else np.float64)
        for i in range(0, given.shape[0], PRODUCT_ROWS):
            centered[i : i + PRODUCT_ROWS] = given[i : i + PRODUCT_ROWS] - center
        limits = np.finfo(centered.dtype)
        bound = (given.shape[1] + EXTRA_ROUNDINGS) * float(limits.eps)
        underflow = 4 * given.shape[1] * float(limits.tiny)
        norms = np.einsum("id,id->i", centered, centered, dtype=np.float64)
        sides.append((centered, (1.0 - 2.0 * bound) * norms - underflow))
    (rows, row_norms), (columns, column_norms) = sides
    rows *= -2
    room = np.empty(
        min(PRODUCT_ROWS, X.shape[0]) * min(PRODUCT_COLUMNS, Z.shape[0]), np.result_type(rows, columns)
    )
    for i in range(0, X.shape[0], PRODUCT_ROWS):
        part = slice(i, i + PRODUCT_ROWS)
        for j in range(0, Z.shape[0], PRODUCT_COLUMNS):
            strip = slice(j, j + PRODUCT_COLUMNS)
            shape = len(rows[part]), len(columns[strip])
            products = room[: shape[0] * shape[1]].reshape(shape)
            np.matmul(rows[part], columns[strip].T, out=products)
            yield part, strip, products, row_norms[part], column_norms[strip]


def _nearest(tiles: Iterable[Tile], left: Given, right: Given, limits: Float64s, k: int) -> list[Float64s]:
    """Return the lists of X in Z and of Z in X, from tiles that are computed once; see `nearest_in_pair`.

    What lies farther from a row of X than its limit is left out.
    """
    (X, row_groups, first_row, *_), (Z, column_groups, first_column, *others) = left, right
    lists, column_lists = empty_lists(X.shape[0], k), empty_lists(Z.shape[0], k if others else 1)
    column_limits = others[0][:, 0, -1].copy() if others else np.full(Z.shape[0], -np.inf)
    row = np.zeros(X.shape[1])
    for part, strip, products, row_norms, column_norms in tiles:
        first = first_row + (part.start or 0), first_column + (strip.start or 0)
        of_rows = row_norms, row_groups[part], first[0], lists[part], limits[part]
        of_columns = column_norms, column_groups[strip], first[1], column_lists[strip], column_limits[strip]
        sides = Side(stored_rows(X, part), *of_rows), Side(stored_rows(Z, strip), *of_columns)
        _scan(products, *sides, row)
    return [lists, column_lists] if others else [lists]


@block(temporaries=7)
def nearest_in_pair(left: Given, right: Given, *, k: int, single: bool = False) -> list[Float64s]:
    """Return the lists of two blocks in each other, or those of the first alone where the other has none so far.

    A matrix product finds the pairs that can matter, with a rigorous rounding bound; those few are measured
    again from their differences in float64. The result is therefore exact, and has the same bits however the
    rows are cut into tiles.

    Parameters
    ----------
    left, right : list
        The rows, (r, d) or (c, d), float32 or float64; their groups, int64: pairs of one group are left out (a row and
        itself, a component); the number of their first row; and the lists that they have so far, if any: what lies
        farther than their last entries is of no interest.
    k : length of the lists
    single : rule pairs out in float32 although the rows are float64: faster where the rows were float32 once

    Returns
    -------
    list of float64 arrays, shapes (r, 2, k) and (c, 2, k)
    """
    limits = left[3][:, 0, -1].copy() if len(left) > 3 else np.full(len(left[0]), np.inf)
    return _nearest(_dense_tiles(left[0], right[0], single=single), left, right, limits, k)


@block(temporaries=9)
def nearest_in_sparse_pair(left: Given, right: Given, *, k: int, dense_values: int) -> list[Float64s]:
    """Return `nearest_in_pair` of sparse rows of unit length; approximate cosines find the pairs that can matter.

    `dense_values` are the float32 values that the dense columns of both sides may hold.
    """
    X, Z = left[0], right[0]
    products, error = approximate_cosines(X, Z, dense_values=dense_values), cosine_error(X.shape[1])
    products *= -2
    norms = np.full(max(products.shape), 1.0 - error)
    tile = slice(None), slice(None), products, norms[: X.shape[0]], norms[: Z.shape[0]]
    if len(left) > 3:
        limits = left[3][:, 0, -1].copy()
    else:  # measuring sparse rows takes long: k of another group lie within this limit
        limits = 2.0 + least_products(products, left[1], right[1], k) + 2 * error
    return _nearest([tile], left, right, limits, k)


@njit(cache=True, nogil=True)
def least_products(products: Float32s, row_groups: Int64s, column_groups: Int64s, k: int) -> Float64s:
    """Return the k-th smallest product of each row with another group's, (r,); infinity where there are fewer."""
    least = np.empty((products.shape[0], k))
    for i in range(products.shape[0]):
        best = least[i]
        best[:] = np.inf
        for j in range(products.shape[1]):
            value = products[i, j]
            if value < best[k - 1] and row_groups[i] != column_groups[j]:
                at = k - 1
                while at > 0 and value < best[at - 1]:
                    best[at] = best[at - 1]
                    at -= 1
                best[at] = value
    return least[:, k - 1].copy()


@block(temporaries=0.5)
def merge_found(lists: Float64s | None, found: list[Float64s], side: int) -> Float64s:
    """Merge lists with those that a pair of blocks gave one of its sides."""
    return found[side] if lists is None else merge_lists(lists, found[side])


@njit(cache=True, nogil=True)
def merge_lists(lists: Float64s, others: Float64s) -> Float64s:
    """Merge two lists of each of the same rows, (r, 2, k)."""
    merged = lists.copy()
    for i in range(lists.shape[0]):
        for t in range(others.shape[2]):
            if others[i, 1, t] >= 0:
                insert(merged[i], others[i, 0, t], others[i, 1, t])
    return merged
