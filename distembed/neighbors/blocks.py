"""Mathematics of one tile of distances, and of the neighbor lists it gives.

Letters
-------
X, Z : rows, shapes (r, d) and (c, d); x_i is one row.

A *neighbor list* is one float64 array of shape (rows, 2, k): the squared distances, rising, and the row numbers
(exact in float64 up to 2**53). Lists are ordered by (distance, row number); what is missing is (inf, -1). One plain
array can be reduced by Dask and stored by Zarr, which a pair could not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numba import njit

from distembed.dtypes import Float32s, Float64s, Floats, Int64s
from distembed.linalg.blocks import ROUNDED
from distembed.temporaries import block

# Products held at once: 256 x 2048 in float64 are 4 MiB, a share of the third-level cache.
PRODUCT_ROWS = 256
PRODUCT_COLUMNS = 2048
# Products whose lower bounds are compared together before each is looked at: one register after another.
SCANNED_TOGETHER = 128
# Additions beyond the d of the product itself in the rounding bound of `_filter_rows`: the cast after
# centring, the two norms, their sum, the comparison; generous, since it costs only a few exact distances.
EXTRA_ROUNDINGS = 16

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


@njit(cache=True, nogil=True)
def _scan(
    products: Floats,
    row_norms: Float64s,
    column_norms: Float64s,
    X: Floats,
    Z: Floats,
    row_groups: Int64s,
    column_groups: Int64s,
    row_ids: Int64s,
    column_ids: Int64s,
    lists: Float64s,
    column_lists: Float64s,
    limits: Float64s,
    column_limits: Float64s,
) -> None:
    """Measure every pair whose lower bound row_norm + column_norm + product may enter the list of its row or column."""
    last, column_last = lists.shape[2] - 1, column_lists.shape[2] - 1
    room = np.minimum(column_limits, column_lists[:, 0, column_last]) - column_norms
    for i in range(products.shape[0]):
        limit = min(limits[i], lists[i, 0, last]) - row_norms[i]
        for first in range(0, products.shape[1], SCANNED_TOGETHER):
            stop = min(first + SCANNED_TOGETHER, products.shape[1])
            near = products[i, first:stop]
            if not _any_within(near, column_norms[first:stop], limit, room[first:stop], row_norms[i]):
                continue
            for j in range(first, stop):
                enters = products[i, j] + column_norms[j] <= limit
                is_entered = products[i, j] + row_norms[i] <= room[j]
                if not (enters or is_entered) or row_groups[i] == column_groups[j]:
                    continue
                # At distance zero only a smaller row number can still enter: masses of equal rows are cheap.
                enters &= lists[i, 0, last] != 0.0 or column_ids[j] < lists[i, 1, last]
                is_entered &= (
                    column_lists[j, 0, column_last] != 0.0 or row_ids[i] < column_lists[j, 1, column_last]
                )
                if not (enters or is_entered):
                    continue
                value = squared_distance(X[i], Z[j])
                if enters:
                    insert(lists[i], value, np.float64(column_ids[j]))
                    limit = min(limits[i], lists[i, 0, last]) - row_norms[i]
                if is_entered:
                    insert(column_lists[j], value, np.float64(row_ids[i]))
                    room[j] = min(column_limits[j], column_lists[j, 0, column_last]) - column_norms[j]


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


def _filter_rows(X: Floats, center: Float64s, *, single: bool) -> tuple[Floats, Float64s]:
    """Return the centered rows and (1 - 2c)‖x‖², c the rounding bound of their products.

    The rows are in the precision of X, or in float32 where they are `single`.
    |fl(a·b) - a·b| <= c |a||b| with c = (d + EXTRA_ROUNDINGS) u (Higham, Accuracy and Stability of Numerical
    Algorithms, 2002, eq. 3.5) and 2|a||b| <= |a|² + |b|², so (1 - 2c)(|a|² + |b|²) - 2 fl(a·b) <= ‖a - b‖².
    What underflow may take from a product is subtracted too; values whose products overflow float32 stay in float64.
    """
    ends = X.max(axis=0, initial=-np.inf) - center, center - X.min(axis=0, initial=np.inf)
    is_single = (single or X.dtype == np.float32) and np.max(ends) < LARGEST_FLOAT32
    centered = np.empty(X.shape, np.float32 if is_single else np.float64)
    for i in range(0, X.shape[0], PRODUCT_ROWS):
        centered[i : i + PRODUCT_ROWS] = X[i : i + PRODUCT_ROWS] - center
    limits = np.finfo(centered.dtype)
    bound = (X.shape[1] + EXTRA_ROUNDINGS) * float(limits.eps)
    underflow = 4 * X.shape[1] * float(limits.tiny)
    norms = np.einsum("id,id->i", centered, centered, dtype=np.float64)
    return centered, (1.0 - 2.0 * bound) * norms - underflow


def _products(
    X: Floats, Z: Floats, center: Float64s | None, *, single: bool
) -> Iterator[tuple[slice, slice, Floats, Float64s, Float64s]]:
    """Yield some rows of X, some of Z, the products of both, and what `_filter_rows` gives of each."""
    center = Z.mean(axis=0, dtype=np.float64) if center is None else center
    rows, row_norms = _filter_rows(X, center, single=single)
    columns, column_norms = _filter_rows(Z, center, single=single)
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


def nearest_in_tile(
    X: Floats,
    row_groups: Int64s,
    Z: Floats,
    column_ids: Int64s,
    column_groups: Int64s,
    center: Float64s | None,
    *,
    k: int,
    single: bool = False,
    limits: Float64s | None = None,
) -> Float64s:
    """Return for each row of X the k nearest rows of Z that belong to another group.

    A matrix product finds the pairs that can matter, with a rigorous rounding bound; those few are measured
    again from their differences in float64. The result is therefore exact, and has the same bits however the
    rows are cut into tiles.

    Parameters
    ----------
    X, Z : array, shapes (r, d) and (c, d), float32 or float64
    row_groups, column_groups : int64 array; pairs of one group are left out (a row and itself, a component)
    column_ids : int64 array, shape (c,), rising: the row numbers of Z
    center : float64 array, shape (d,), about the mean, by default that of Z; it moves the bound, not the result
    k : length of the lists
    single : rule pairs out in float32 although the rows are float64: faster where the rows were float32 once
    limits : float64 array, shape (r,): what lies farther from a row is of no interest, and may be left out

    Returns
    -------
    float64 array, shape (r, 2, k): squared distances and row numbers.
    """
    return nearest_in_both(
        X,
        row_groups,  # in place of row numbers, which no list of Z takes
        row_groups,
        Z,
        column_ids,
        column_groups,
        center=center,
        limits=np.full(len(X), np.inf) if limits is None else limits,
        column_limits=None,
        k=k,
        single=single,
    )[0]


def nearest_in_both(
    X: Floats,
    row_ids: Int64s,
    row_groups: Int64s,
    Z: Floats,
    column_ids: Int64s,
    column_groups: Int64s,
    *,
    center: Float64s | None,
    limits: Float64s,
    column_limits: Float64s | None,
    k: int,
    single: bool = False,
) -> tuple[Float64s, Float64s]:
    """Return `nearest_in_tile` of X among Z and of Z among X, bit for bit, from products that are computed once.

    Parameters
    ----------
    X, Z : array, shapes (r, d) and (c, d), float32 or float64
    row_ids, column_ids : int64 array, rising: the row numbers of X and of Z
    row_groups, column_groups : int64 array; pairs of one group are left out
    center : float64 array, shape (d,), about the mean, by default that of Z
    limits, column_limits : float64 array, shapes (r,) and (c,): what lies farther from a row may be left out; None: all
    k : length of the lists
    single : rule pairs out in float32 although the rows are float64

    Returns
    -------
    float64 arrays, shapes (r, 2, k) and (c, 2, k)
    """
    lists, column_lists = (
        empty_lists(X.shape[0], k),
        empty_lists(Z.shape[0], 1 if column_limits is None else k),
    )
    column_limits = np.full(len(Z), -np.inf) if column_limits is None else column_limits
    for part, strip, products, row_norms, column_norms in _products(X, Z, center, single=single):
        _scan(
            products,
            row_norms,
            column_norms,
            X[part],
            Z[strip],
            row_groups[part],
            column_groups[strip],
            row_ids[part],
            column_ids[strip],
            lists[part],
            column_lists[strip],
            limits[part],
            column_limits[strip],
        )
    return lists, column_lists


@block(temporaries=6.5)
def nearest_in_pair(
    X: Floats,
    row_groups: Int64s,
    first_row: int,
    Z: Floats,
    column_groups: Int64s,
    first_column: int,
    near: Float64s | None,
    far: Float64s | None,
    *,
    k: int,
    single: bool,
) -> tuple[Float64s, ...]:
    """Return the lists of two blocks in each other, or those of the first alone where the other has none so far.

    Parameters
    ----------
    X, Z : array, shapes (r, d) and (c, d), float32 or float64
    row_groups, column_groups : int64 array; pairs of one group are left out
    first_row, first_column : the row numbers of X and of Z start here
    near, far : the lists that X and Z have: what lies farther than their last entries is of no interest
    k, single : see `nearest_in_tile`
    """
    column_ids = first_column + np.arange(Z.shape[0])
    if near is None or far is None:
        return (nearest_in_tile(X, row_groups, Z, column_ids, column_groups, None, k=k, single=single),)
    return nearest_in_both(
        X,
        first_row + np.arange(X.shape[0]),
        row_groups,
        Z,
        column_ids,
        column_groups,
        center=None,
        limits=near[:, 0, -1].copy(),
        column_limits=far[:, 0, -1].copy(),
        k=k,
        single=single,
    )


@block(temporaries=2)
def merge_found(lists: Float64s | None, found: tuple[Float64s, ...], side: int) -> Float64s:
    """Merge lists with those that a pair of blocks gave one of its sides."""
    return found[side] if lists is None else merge_lists(np.stack([lists, found[side]], axis=1))[:, 0]


@njit(cache=True, nogil=True)
def merge_lists(lists: Float64s) -> Float64s:
    """Merge lists of the same rows, shape (r, m, 2, k), into one, shape (r, 1, 2, k)."""
    merged = np.full((lists.shape[0], 1, 2, lists.shape[3]), np.inf)
    merged[:, :, 1] = -1.0
    for i in range(lists.shape[0]):
        for m in range(lists.shape[1]):
            for t in range(lists.shape[3]):
                if lists[i, m, 1, t] >= 0:
                    insert(merged[i, 0], lists[i, m, 0, t], lists[i, m, 1, t])
    return merged


def list_rows(lists: Float64s, n_columns: int) -> sp.csr_array:
    """Return lists, shape (r, 2, k), as the rows of a CSR array, shape (r, n_columns), values by column."""
    found = lists[:, 1] >= 0
    indptr = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
    columns = lists[:, 1][found].astype(np.int64)
    rows = sp.csr_array((lists[:, 0][found], columns, indptr), shape=(len(lists), n_columns))
    rows.sort_indices()
    return rows
