"""Mathematics of one block for neighbours, spanning trees and imputation.

Letters
-------
X : rows in the domain space, shape (n, d); x_i is one row.
Y : vectors in the target space, shape (n, s); p of its rows are known, q = n - p are not.
W : reconstruction weights, w_ij >= 0, each row sums to one.
G : Gram matrix of one row's neighbours, seen from that row, shape (k, k).

A *neighbour list* is one float64 array of shape (rows, 2, k): the squared distances, rising, and the row
numbers (exact in float64 up to 2**53). Lists are ordered by (distance, row number); what is missing is
(inf, -1). One plain array can be reduced by Dask and stored by Zarr, which a pair could not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]

# Products held at once: 256 x 2048 in float64 are 4 MiB, a share of the third-level cache.
PRODUCT_ROWS = 256
PRODUCT_COLUMNS = 2048
# Additions beyond the d of the product itself in the rounding bound of `_filter_rows`: the cast after
# centring, the two norms, their sum, the comparison; generous, since it costs only a few exact distances.
EXTRA_ROUNDINGS = 16

# Products of d such values stay below the largest float32, 3e38, up to d = 10**4.
LARGEST_FLOAT32 = 1e17
# A squared distance below this share of the squared lengths has lost 3 of its 16 digits: measure it again.
CANCELLED = 1e-3
# Relative error of a distance of `distance_rows`: its rounding to float32, once more for a change of metric,
# what `CANCELLED` leaves, and as much again.
STORED_ERROR = 2.0**-22


# --------------------------------------------------------------------------- distances and neighbour lists


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
def _insert(list_: Float64s, value: float, row: float) -> None:
    """Put (value, row) into its place of one sorted list (2, k), dropping the last; nothing if behind."""
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
    """Return all ‖x_i - z_j‖² by a matrix product, measured again where cancellation took its digits."""
    X, Z = X.astype(np.float64, copy=False), Z.astype(np.float64, copy=False)
    sizes = np.einsum("id,id->i", X, X)[:, None] + np.einsum("jd,jd->j", Z, Z)
    squares = sizes - 2.0 * (X @ Z.T)
    _measure_again(X, Z, CANCELLED * sizes, squares)
    return squares


@njit(cache=True, nogil=True)
def _measure_again(X: Float64s, Z: Float64s, limits: Float64s, squares: Float64s) -> None:
    for i in range(squares.shape[0]):
        for j in range(squares.shape[1]):
            if squares[i, j] < limits[i, j]:
                squares[i, j] = squared_distance(X[i], Z[j])


def distance_rows(X: Floats, Z: Floats, *, cosine: bool) -> NDArray[np.float32]:
    """Return ‖x_i - z_j‖, or half its square with `cosine`, to float32's precision; strip by strip."""
    out = np.empty((X.shape[0], Z.shape[0]), np.float32)
    X = X.astype(np.float64, copy=False)
    for j in range(0, Z.shape[0], PRODUCT_COLUMNS):
        strip = slice(j, j + PRODUCT_COLUMNS)
        squares = accurate_squares(X, Z[strip])
        with np.errstate(over="ignore"):  # past float32's range is infinite: `_scan_stored` measures those
            out[:, strip] = squares / 2 if cosine else np.sqrt(squares)
    return out


def empty_lists(n_rows: int, k: int) -> Float64s:
    """Return neighbour lists with nothing in them."""
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
    column_ids: Int64s,
    lists: Float64s,
) -> None:
    """Measure every pair whose lower bound |x|² + |z|² + products can still enter the row's list."""
    last = lists.shape[2] - 1
    for i in range(products.shape[0]):
        limit = lists[i, 0, last] - row_norms[i]
        for j in range(products.shape[1]):
            if products[i, j] + column_norms[j] <= limit and row_groups[i] != column_groups[j]:
                # At distance zero only a smaller row number can still enter: masses of equal rows are cheap.
                if lists[i, 0, last] == 0.0 and column_ids[j] > lists[i, 1, last]:
                    continue
                _insert(lists[i], squared_distance(X[i], Z[j]), np.float64(column_ids[j]))
                limit = lists[i, 0, last] - row_norms[i]


def _filter_rows(X: Floats, centre: Float64s) -> tuple[Floats, Float64s]:
    """Return the centred rows in the precision of X and (1 - 2c)‖x‖², c the rounding bound of their products.

    |fl(a·b) - a·b| <= c |a||b| with c = (d + EXTRA_ROUNDINGS) u (Higham, Accuracy and Stability of Numerical
    Algorithms, 2002, eq. 3.5) and 2|a||b| <= |a|² + |b|², so (1 - 2c)(|a|² + |b|²) - 2 fl(a·b) <= ‖a - b‖².
    What underflow may take from a product is subtracted too; values whose products overflow float32 stay
    in float64.
    """
    centred = X - centre
    if X.dtype == np.float32 and np.abs(centred).max(initial=0.0) < LARGEST_FLOAT32:
        centred = centred.astype(np.float32)
    limits = np.finfo(centred.dtype)
    bound = (X.shape[1] + EXTRA_ROUNDINGS) * float(limits.eps)
    underflow = 4 * X.shape[1] * float(np.finfo(X.dtype).tiny)
    norms = np.einsum("id,id->i", centred, centred, dtype=np.float64)
    return centred, (1.0 - 2.0 * bound) * norms - underflow


def nearest_in_tile(
    X: Floats,
    row_groups: Int64s,
    Z: Floats,
    column_ids: Int64s,
    column_groups: Int64s,
    centre: Float64s,
    *,
    k: int,
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
    centre : float64 array, shape (d,), about the mean; it moves the bound, not the result
    k : length of the lists

    Returns
    -------
    float64 array, shape (r, 2, k): squared distances and row numbers.
    """
    lists = empty_lists(X.shape[0], k)
    rows, row_norms = _filter_rows(X, centre)
    columns, column_norms = _filter_rows(Z, centre)
    rows *= -2
    for i in range(0, X.shape[0], PRODUCT_ROWS):
        part = slice(i, i + PRODUCT_ROWS)
        for j in range(0, Z.shape[0], PRODUCT_COLUMNS):
            strip = slice(j, j + PRODUCT_COLUMNS)
            _scan(
                rows[part] @ columns[strip].T,
                row_norms[part],
                column_norms[strip],
                X[part],
                Z[strip],
                row_groups[part],
                column_groups[strip],
                column_ids[strip],
                lists[part],
            )
    return lists


@njit(cache=True, nogil=True)
def _scan_stored(
    distances: NDArray[np.float32],
    X: Floats,
    Z: Floats,
    row_groups: Int64s,
    column_groups: Int64s,
    lists: Float64s,
) -> None:
    """Measure every pair whose stored distance can still enter the row's list."""
    last = lists.shape[2] - 1
    limits = np.finfo(np.float32)
    for i in range(distances.shape[0]):
        limit = np.inf
        for j in range(distances.shape[1]):
            if distances[i, j] <= limit and row_groups[i] != column_groups[j]:
                # At distance zero only a smaller row number could still enter, and columns come by number.
                if lists[i, 0, last] == 0.0:
                    break
                _insert(lists[i], squared_distance(X[i], Z[j]), np.float64(j))
                limit = np.sqrt(lists[i, 0, last]) * (1.0 + STORED_ERROR) + np.sqrt(limits.tiny)
                if limit > limits.max:
                    limit = np.inf


def nearest_in_distances(
    X: Floats,
    row_groups: Int64s,
    Z: Floats,
    column_groups: Int64s,
    distances: NDArray[np.float32],
    *,
    k: int,
) -> Float64s:
    """Return what `nearest_in_tile` returns for all rows of Z, bit for bit, from distances at hand.

    They only rule pairs out, by their rounding bound; the pairs left are measured again in float64.

    Parameters
    ----------
    distances : float32 array, shape (r, c): Euclidean, each within `STORED_ERROR` of the truth
    """
    lists = empty_lists(X.shape[0], k)
    _scan_stored(distances, X, Z, row_groups, column_groups, lists)
    return lists


@njit(cache=True, nogil=True)
def merge_lists(lists: Float64s) -> Float64s:
    """Merge lists of the same rows, shape (r, m, 2, k), into one, shape (r, 1, 2, k)."""
    merged = np.full((lists.shape[0], 1, 2, lists.shape[3]), np.inf)
    merged[:, :, 1] = -1.0
    for i in range(lists.shape[0]):
        for m in range(lists.shape[1]):
            for t in range(lists.shape[3]):
                if lists[i, m, 1, t] >= 0:
                    _insert(merged[i, 0], lists[i, m, 0, t], lists[i, m, 1, t])
    return merged


@njit(cache=True, nogil=True)
def measured_lists(X: Floats, candidates: Int64s, k: int) -> Float64s:
    """Return the lists, shape (n, 2, k), of the nearest of each row's candidates (n, m), -1 for none."""
    lists = np.full((X.shape[0], 2, k), np.inf)
    lists[:, 1] = -1.0
    for i in range(X.shape[0]):
        for j in candidates[i]:
            if j >= 0 and j != i:
                _insert(lists[i], squared_distance(X[i], X[j]), np.float64(j))
    return lists


def unit_rows(X: Any) -> Any:
    """Divide each row, dense or sparse, by its Euclidean length, in float64; a row of zeros stays one.

    Sparse rows get sorted columns, each once.
    """
    if sp.issparse(X):
        X = sp.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        squares = X.astype(np.float64).multiply(X).sum(axis=1)
        lengths = np.sqrt(np.where(squares > 0, squares, 1.0))
        return sp.csr_array((X.data / np.repeat(lengths, np.diff(X.indptr)), X.indices, X.indptr), X.shape)
    squares = _row_squares(np.ascontiguousarray(X))
    return X / np.sqrt(np.where(squares > 0, squares, 1.0))[:, None]


@njit(cache=True, nogil=True)
def _row_squares(X: Floats) -> Float64s:
    out = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        total = 0.0
        for t in range(X.shape[1]):
            total += np.float64(X[i, t]) * np.float64(X[i, t])
        out[i] = total
    return out


def row_faults(X: Any) -> Int64s:
    """Return per row 1 where a value is not finite, 2 where every value is zero, else 0; shape (r,)."""
    if sp.issparse(X):
        bad = np.zeros(X.shape[0], dtype=bool)
        bad[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[~np.isfinite(X.data)]] = True
        zero = abs(X).sum(axis=1) == 0
    else:
        bad = ~np.isfinite(X).all(axis=1)
        zero = ~(X != 0).any(axis=1)
    return np.where(bad, 1, np.where(zero, 2, 0)).astype(np.int64)


# --------------------------------------------------------------------------- spanning tree


class TreeRound(NamedTuple):
    """What one round of Borůvka's algorithm found from the neighbour lists."""

    edges: Int64s  # (m, 2): tree edges added, as (row, neighbour)
    squares: Float64s  # (m,): their squared lengths
    groups: Int64s  # (n,): component of each row after the round, numbered by its smallest row
    unsure: NDArray[np.bool_]  # (n,): rows whose list is used up and may hide their component's shortest edge


@njit(cache=True, nogil=True)
def _find(parent: Int64s, i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(cache=True, nogil=True)
def _before(square: float, i: int, j: int, other: float, k: int, m: int) -> bool:
    """Tell whether edge (i, j) comes before edge (k, m) in the order (length, smaller end, larger end)."""
    if square != other:
        return square < other
    if min(i, j) != min(k, m):
        return min(i, j) < min(k, m)
    return max(i, j) < max(k, m)


@njit(cache=True, nogil=True)
def _first_outside(lists: Float64s, groups: Int64s, i: int) -> int:
    """Return the place of the first neighbour of row i in another component, k if there is none left."""
    k = lists.shape[2]
    for t in range(k):
        j = np.int64(lists[i, 1, t])
        if j >= 0 and groups[j] != groups[i]:
            return t
    return k


@njit(cache=True, nogil=True)
def _shortest_edges(lists: Float64s, groups: Int64s, from_: Int64s, to: Int64s, squares: Float64s) -> None:
    """Find for each component, numbered by its smallest row, the first leaving edge that the lists know."""
    for i in range(groups.shape[0]):
        t = _first_outside(lists, groups, i)
        if t < lists.shape[2]:
            g = groups[i]
            j = np.int64(lists[i, 1, t])
            if from_[g] < 0 or _before(lists[i, 0, t], i, j, squares[g], from_[g], to[g]):
                from_[g], to[g], squares[g] = i, j, lists[i, 0, t]


@njit(cache=True, nogil=True)
def _unsure_rows(
    lists: Float64s, groups: Int64s, from_: Int64s, to: Int64s, squares: Float64s
) -> NDArray[np.bool_]:
    """Mark the rows whose unknown edges may come before the edge that their component would take."""
    k = lists.shape[2]
    unsure = np.zeros(groups.shape[0], dtype=np.bool_)
    for i in range(groups.shape[0]):
        if _first_outside(lists, groups, i) == k:
            last = k - 1
            while last >= 0 and lists[i, 1, last] < 0:
                last -= 1
            g = groups[i]
            j = np.int64(lists[i, 1, last])
            unsure[i] = (
                last < 0 or from_[g] < 0 or _before(lists[i, 0, last], i, j, squares[g], from_[g], to[g])
            )
    return unsure


@njit(cache=True, nogil=True)
def boruvka_round(lists: Float64s, groups: Int64s) -> TreeRound:
    """Add the shortest leaving edge of every component that the neighbour lists prove.

    All edges a list does not hold come after its last one in the order (length, smaller end, larger end): a
    component's edge is proved when it comes before the last entry of each of its used-up lists. The order has
    no ties, so the edges never close a cycle and the tree is unique, duplicate rows or not.
    """
    n = groups.shape[0]
    from_, to, squares = np.full(n, -1), np.full(n, -1), np.full(n, np.inf)
    _shortest_edges(lists, groups, from_, to, squares)
    unsure = _unsure_rows(lists, groups, from_, to, squares)
    proved = from_ >= 0
    for i in range(n):
        if unsure[i]:
            proved[groups[i]] = False
    parent = groups.copy()
    edges, lengths, m = np.empty((n, 2), np.int64), np.empty(n), 0
    for g in range(n):
        if proved[g]:
            a, b = _find(parent, from_[g]), _find(parent, to[g])
            if a != b:
                parent[max(a, b)] = min(a, b)
                edges[m, 0], edges[m, 1], lengths[m] = from_[g], to[g], squares[g]
                m += 1
    merged = np.empty(n, np.int64)
    for i in range(n):
        merged[i] = _find(parent, i)
    return TreeRound(edges[:m].copy(), lengths[:m].copy(), merged, unsure)


class GrownGraph(NamedTuple):
    """A graph as CSR arrays: the neighbours of row i and their distances, by rising row number."""

    indptr: Int64s
    indices: Int64s
    lengths: Float64s


@njit(cache=True, nogil=True)
def fill_to_degree(
    indptr: Int64s, indices: Int64s, lengths: Float64s, near: Int64s, near_lengths: Float64s, min_degree: int
) -> GrownGraph:
    """Add to each row of a graph its nearest rows not yet linked until it has min_degree.

    Parameters
    ----------
    indptr, indices, lengths : the graph so far, CSR
    near, near_lengths : shape (n, k): row numbers (-1 for none) and distances, nearest first
    """
    n = indptr.shape[0] - 1
    new_indptr = np.zeros(n + 1, np.int64)
    room = indptr[n] + n * min_degree
    new_indices, new_lengths = np.empty(room, np.int64), np.empty(room)
    at = 0
    for i in range(n):
        start = at
        for t in range(indptr[i], indptr[i + 1]):
            new_indices[at], new_lengths[at] = indices[t], lengths[t]
            at += 1
        linked = at
        for t in range(near.shape[1]):
            if at - start < min_degree and near[i, t] >= 0 and near[i, t] not in new_indices[start:linked]:
                new_indices[at], new_lengths[at] = near[i, t], near_lengths[i, t]
                at += 1
        order = np.argsort(new_indices[start:at])
        new_indices[start:at] = new_indices[start:at][order]
        new_lengths[start:at] = new_lengths[start:at][order]
        new_indptr[i + 1] = at
    return GrownGraph(new_indptr, new_indices[:at].copy(), new_lengths[:at].copy())


# --------------------------------------------------------------------------- weights


# Ridge on the diagonal relative to its mean: far below the data's digits, yet it makes the answer unique
# (equal shares) where neighbours coincide.
RIDGE = 1e-10
# A passive set changes at most a few times its size (Lawson & Hanson 1995, ch. 23); the limit stops a cycle.
STEPS_PER_VARIABLE = 10
# Smallest floor under a simplex weight, relative to an equal share: bounds the condition of I - W.
LEAST_FLOOR = 1e-6


@njit(cache=True, nogil=True)
def _solve_passive(H: Float64s, c: Float64s, passive: NDArray[np.bool_]) -> Float64s:
    """Solve H z = c over the passive variables by Cholesky, zero elsewhere."""
    index = np.nonzero(passive)[0]
    m = index.shape[0]
    L = np.zeros((m, m))
    z = np.zeros(m)
    for a in range(m):
        for b in range(a + 1):
            total = H[index[a], index[b]]
            for t in range(b):
                total -= L[a, t] * L[b, t]
            L[a, b] = np.sqrt(max(total, 1e-300)) if a == b else total / L[b, b]
        total = c[index[a]]
        for t in range(a):
            total -= L[a, t] * z[t]
        z[a] = total / L[a, a]
    for a in range(m - 1, -1, -1):
        for t in range(a + 1, m):
            z[a] -= L[t, a] * z[t]
        z[a] /= L[a, a]
    full = np.zeros(H.shape[0])
    full[index] = z
    return full


@njit(cache=True, nogil=True)
def _step_back(w: Float64s, z: Float64s, passive: NDArray[np.bool_]) -> Float64s:
    """Go from w towards z until the first passive variable meets zero, and release those that do."""
    alpha = 1.0
    for a in range(w.shape[0]):
        if passive[a] and z[a] <= 0.0:
            alpha = min(alpha, w[a] / (w[a] - z[a]))
    out = w + alpha * (z - w)
    least = 1e-14 * np.max(np.abs(out))
    for a in range(w.shape[0]):
        if passive[a] and z[a] <= 0.0 and out[a] <= least:
            passive[a] = False
    out[~passive] = 0.0
    return out


@njit(cache=True, nogil=True)
def nonnegative_least_squares(H: Float64s, c: Float64s) -> Float64s:
    """Minimise ½ wᵀH w - cᵀw over w >= 0 for positive definite H, shape (k, k).

    Lawson & Hanson, Solving Least Squares Problems (1995), ch. 23, on the normal equations;
    scipy.optimize.nnls(A, b) with H = AᵀA, c = Aᵀb.
    """
    k = c.shape[0]
    w = np.zeros(k)
    passive = np.zeros(k, np.bool_)
    tolerance = 1e-12 * max(np.max(np.abs(c)), 1e-300)
    for _ in range(STEPS_PER_VARIABLE * k):
        gradient = c - H @ w
        gradient[passive] = -np.inf
        best = int(np.argmax(gradient))
        if gradient[best] <= tolerance:
            break
        passive[best] = True
        z = _solve_passive(H, c, passive)
        if z[best] <= 0.0:  # rounding alone wanted it in
            break
        while np.any(z[passive] <= 0.0):
            w = _step_back(w, z, passive)
            z = _solve_passive(H, c, passive)
        w = z
    return w


@njit(cache=True, nogil=True)
def _with_ridge(G: Float64s) -> Float64s:
    H = G.copy()
    mean = np.trace(G) / G.shape[0]
    for a in range(G.shape[0]):
        H[a, a] += RIDGE * mean
    return H


@njit(cache=True, nogil=True)
def simplex_weights(A: Float64s) -> tuple[Float64s, float]:
    """Return w = argmin ‖Σ_j w_j a_j‖² over w >= 0, Σ w = 1, for rows a_j = x_j - x_i, and its certificate.

    With any m > 0 the minimiser v of vᵀG v + m(Σv - 1)² over v >= 0 is a multiple of w (for a direction w of
    the simplex the best scale leaves m q/(m + q), rising in q = wᵀG w), so one non-negative least squares is
    enough. The certificate is (q - min_j (G w)_j) / mean diagonal of G >= 0: half the Frank-Wolfe duality
    gap, zero exactly at the optimum.
    """
    G = A @ A.T
    k = G.shape[0]
    mean = np.trace(G) / k
    if mean == 0.0:  # every neighbour coincides with the row
        return np.full(k, 1.0 / k), 0.0
    v = nonnegative_least_squares(_with_ridge(G) + mean, np.full(k, mean))
    w = v / np.sum(v)
    gradient = G @ w
    return w, max(0.0, (w @ gradient - np.min(gradient)) / mean)


@njit(cache=True, nogil=True)
def cone_weights(A: Float64s, x: Float64s) -> tuple[Float64s, float]:
    """Return w = argmin ‖x - Σ_j w_j a_j‖² over w >= 0, for rows a_j, and its certificate.

    The certificate is the largest violation of w >= 0, g = Gw - Aᵀx >= 0, w∘g = 0, relative to |Aᵀx|.
    """
    G = A @ A.T
    c = A @ x
    if np.trace(G) == 0.0:
        return np.zeros(c.shape[0]), 0.0
    w = nonnegative_least_squares(_with_ridge(G), c)
    scale = max(np.max(np.abs(c)), 1e-300)
    gradient = G @ w - c
    return w, max(np.max(np.abs(w * gradient)) / scale, max(0.0, -np.min(gradient)) / scale)


@njit(cache=True, nogil=True)
def raise_to_floor(w: Float64s, epsilon: float, least: float) -> Float64s:
    """Add epsilon times the smallest positive weight, or times `least`, to all, and divide by the sum.

    All zero becomes uniform. It keeps every edge of the spanning tree positive, which convergence needs.
    """
    smallest = np.inf
    for value in w:
        if value > 0.0:
            smallest = min(smallest, value)
    if smallest == np.inf:
        return np.full(w.shape[0], 1.0 / w.shape[0])
    raised = w + epsilon * max(smallest, least)
    return raised / np.sum(raised)


@njit(cache=True, nogil=True)
def reconstruction_weights(
    X: Floats, rows: Int64s, indptr: Int64s, neighbors: Int64s, epsilon: float, simplex: bool
) -> Float64s:
    """Return the weights that rebuild each row from its neighbours.

    Parameters
    ----------
    X : array, shape (m, d): the rows and all their neighbours
    rows : int64 array, shape (r,): place in X of each row
    indptr, neighbors : CSR structure over these r rows; neighbours as places in X
    epsilon : floor factor of `raise_to_floor`
    simplex : True for `simplex_weights`, False for `cone_weights`, divided by their sum afterwards

    Returns
    -------
    float64 array, shape (2, entries): weights, and each entry's row's certificate.
    """
    out = np.empty((2, neighbors.shape[0]))
    for i in range(rows.shape[0]):
        start, stop = indptr[i], indptr[i + 1]
        x = X[rows[i]].astype(np.float64)
        A = np.empty((stop - start, X.shape[1]))
        for a in range(stop - start):
            A[a] = X[neighbors[start + a]]
            if simplex:
                A[a] -= x
        if simplex:
            w, certificate = simplex_weights(A)
            least = LEAST_FLOOR / w.shape[0]
        else:
            w, certificate = cone_weights(A, x)
            least = 0.0
        out[0, start:stop] = raise_to_floor(w, epsilon, least)
        out[1, start:stop] = certificate
    return out


# --------------------------------------------------------------------------- solving for the vectors


# Rows that the record of a solution keeps, thinned where it took more steps: enough for a curve on a page.
RECORDED_STEPS = 256


def unreached_rows(W: sp.csr_array, known: NDArray[np.bool_]) -> Int64s:
    """Return the rows from which no path of positive weights leads to a known row."""
    backward = W.T.tocsr()
    backward.eliminate_zeros()
    return np.nonzero(~_reached(backward.indptr, backward.indices, known))[0]


@njit(cache=True, nogil=True)
def _reached(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], start: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    reached = start.copy()
    queue = np.empty(start.shape[0], np.int64)
    stop = 0
    for i in range(start.shape[0]):
        if start[i]:
            queue[stop] = i
            stop += 1
    at = 0
    while at < stop:
        for t in range(indptr[queue[at]], indptr[queue[at] + 1]):
            j = indices[t]
            if not reached[j]:
                reached[j] = True
                queue[stop] = j
                stop += 1
        at += 1
    return reached


def power_sweeps(W: sp.csr_array, B: Float64s, state: Float64s, *, n_sweeps: int, lazy: bool) -> Float64s:
    """Do n_sweeps times Y <- W Y + B, or Y <- (W Y + B + Y)/2 with `lazy`, and record how far each moved.

    Parameters
    ----------
    W : sparse (q, q): weights among the unknown rows
    B : array, shape (q, c): known vectors carried in, W_qp Y_p
    state : array, shape (at least q, c): Y in its first q rows

    Returns
    -------
    float64 array, shape (q + 2 n_sweeps, c): Y, then ‖ΔY‖₁ of each sweep and column, then ‖Y‖₁ before it.
    """
    q = W.shape[0]
    Y = state[:q]
    moves, sizes = np.empty((n_sweeps, B.shape[1])), np.empty((n_sweeps, B.shape[1]))
    for sweep in range(n_sweeps):
        new = W @ Y
        new += B
        if lazy:
            new += Y
            new *= 0.5
        sizes[sweep] = np.abs(Y).sum(axis=0)
        moves[sweep] = np.abs(new - Y).sum(axis=0)
        Y = new
    return np.concatenate([Y, moves, sizes])


def _dots(A: Float64s, B: Float64s) -> Float64s:
    """Return the dot products of corresponding columns."""
    return np.einsum("qc,qc->c", A, B)


def _ratio(a: Float64s, b: Float64s) -> Float64s:
    """Return a / b, zero where b is: a recurrence of a finished column stands still."""
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)


def _bicgstab_cycle(
    W: sp.csr_array, Y: Float64s, R: Float64s, target: Float64s, n_steps: int
) -> tuple[Float64s, list[Float64s]]:
    """Improve Y by up to n_steps of BiCGSTAB from residual R, every column with its own scalars.

    Van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992), the algorithm on p. 636. Also returns ‖R‖₂ of each column
    after each step, by its own recurrence.
    """
    sizes = []
    shadow, P = R.copy(), R.copy()
    rho = _dots(shadow, R)
    for _ in range(n_steps):
        V = P - W @ P
        alpha = _ratio(rho, _dots(shadow, V))
        Y += alpha * P
        R -= alpha * V
        T = R - W @ R
        omega = _ratio(_dots(T, R), _dots(T, T))
        Y += omega * R
        R -= omega * T
        sizes.append(np.sqrt(_dots(R, R)))
        if (sizes[-1] <= target).all():
            break
        next_rho = _dots(shadow, R)
        beta = _ratio(next_rho, rho) * _ratio(alpha, omega)
        rho = next_rho
        P -= omega * V
        P *= beta
        P += R
    return Y, sizes


def relative_residual(W: sp.csr_array, B: Float64s, Y: Float64s) -> Float64s:
    """Return ‖B - (I - W) Y‖₂ / ‖B‖₂ of each column, shape (1, c); where B is zero, ‖(I - W) Y‖₂."""
    R = B - Y
    R += W @ Y
    sizes = np.sqrt(_dots(B, B))
    return (np.sqrt(_dots(R, R)) / np.where(sizes > 0, sizes, 1.0))[None]


def solve_columns(
    W: sp.csr_array, B: Float64s, start: Float64s, *, tol: float, max_iter: int, cycle: int = 100
) -> Float64s:
    """Solve (I - W) Y = B, all columns at once, by restarted BiCGSTAB, checked against the true residual.

    Parameters
    ----------
    W : sparse (q, q), non-negative, row sums at most one, spectral radius below one
    B : array, shape (q, c)
    start : array, shape (1, c): the first guess of every row
    tol : bound on ‖B_c - (I - W) Y_c‖₂ / ‖B_c‖₂ for every column c
    max_iter : most steps; each multiplies by W twice
    cycle : steps between two looks at the true residual

    Returns
    -------
    float64 array, shape (q + 2 + RECORDED_STEPS, c): Y, then the relative residual, the number of steps, and the
    record of `thinned`, by column.
    """
    sizes = np.sqrt(_dots(B, B))
    Y = np.repeat(start, B.shape[0], axis=0)
    record: list[Float64s] = []
    while not (relative_residual(W, B, Y) <= tol).all() and len(record) < max_iter:
        R = B - Y + W @ Y
        Y, steps = _bicgstab_cycle(W, Y, R, 0.5 * tol * sizes, min(cycle, max_iter - len(record)))
        record += steps
    relative = np.reshape(record, (-1, B.shape[1])) / np.where(sizes > 0, sizes, 1.0)
    used = np.full((1, B.shape[1]), float(len(record)))
    return np.concatenate([Y, relative_residual(W, B, Y), used, thinned(relative)])


def record_stride(n_steps: int) -> int:
    """Return the steps from one entry of `thinned` to the next: the least power of two that makes them fit."""
    stride = 1
    while n_steps > stride * RECORDED_STEPS:
        stride *= 2
    return stride


def thinned(record: Float64s) -> Float64s:
    """Return rows stride - 1, 2 stride - 1, … of a record of many steps, RECORDED_STEPS rows, NaN after the last."""
    stride = record_stride(len(record))
    kept = record[stride - 1 :: stride]
    return np.pad(kept, ((0, RECORDED_STEPS - len(kept)), (0, 0)), constant_values=np.nan)
