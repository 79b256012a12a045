"""PSDVec on one block of words.

Symbols (Li, Zhu & Miao 2017): `x_ij` counts, `n_i` row totals, `u_j` unigram probabilities, `kappa` the
smoothing; `G = log(kappa) + D` the smoothed PMI and `W` the weights, both only where there are counts;
`S = (W∘G + (W∘G)ᵀ)/2` and `Ws = (W + Wᵀ)/2` on the union of the supports of counts and transposed counts;
`V` vectors (n × d), `R = S - Ws∘(V Vᵀ)` the weighted residual.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from distembed.dtypes import Floats, Int64s
from distembed.linalg.blocks import sampled_product
from distembed.linalg.csr import canonical_csr, rows_of, with_values, without_diagonal
from distembed.temporaries import block
from distembed.weighting.blocks import excess_of_pair

_jit = numba.njit(cache=True, nogil=True)


class PairWeighting(NamedTuple):
    """What turns counts into targets and weights."""

    smoothing: float
    """Smoothing strength kappa, between 0 and 1."""
    cutoff: float
    """Weights are ``min(sqrt(x), cutoff) / scale``."""
    scale: float
    """The largest weight before the division."""


class Pairs(NamedTuple):
    """Counts of pairs of words seen from both sides, on the union of the two supports."""

    support: csr_array
    """A csr_array (rows, n) whose values are not used."""
    weights: Floats
    backward_weights: Floats
    """w_ij and w_ji. Shape (nnz,), float32."""
    targets: Floats
    backward_targets: Floats
    """G_ij and G_ji. Shape (nnz,), float32."""


def weigh_pairs(
    forward: object,
    backward: object,
    row_totals: Floats,
    row_unigram: Floats,
    column_totals: Floats,
    column_unigram: Floats,
    *,
    weighting: PairWeighting,
) -> Pairs:
    """Return weights and targets of both orders of each pair of words.

    Parameters
    ----------
    forward : csr_array (rows, n)
        x_ij, row word left of column word.
    backward : csr_array (rows, n)
        x_ji, the transposed counts of the same words.
    row_totals, row_unigram : (rows,) float64
        n_i and u_i of the row words.
    column_totals, column_unigram : (n,) float64
        n_j and u_j of the column words.
    weighting : PairWeighting
        How counts become weights.

    Raises
    ------
    ValueError
        If a word has pairs, but a total of 0.
    """
    left, right = canonical_csr(forward), canonical_csr(backward)
    capacity = left.nnz + right.nnz
    indices = np.empty(capacity, np.int32)
    values = np.empty((4, capacity), np.float32)
    indptr = np.zeros(left.shape[0] + 1, np.int64)
    sides = row_totals, row_unigram, column_totals, column_unigram
    try:
        size = _merge(left.indptr, left.indices, left.data, right.indptr, right.indices, right.data,
                      *sides, *weighting, indptr, indices, values)  # fmt: skip
    except ZeroDivisionError:
        raise ValueError(
            "words occur in pairs of counts, but their word count or row total is 0: give the occurrences and the row "
            "totals of the words in the text that the pairs come from"
        ) from None
    if size < np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    support = csr_array((np.ones(size, np.bool_), indices[:size].copy(), indptr), shape=left.shape)
    return Pairs(support, *values[:, :size])


# One loop for the union of two sorted supports and the values on it: as separate NumPy passes the same
# took four times as long and eight temporaries of the block's size.
@_jit
def _merge(  # type: ignore[no-untyped-def]
    p1, i1, x1, p2, i2, x2, n_i, u_i, n_j, u_j, smoothing, cutoff, scale, indptr, indices, values
):
    at = 0
    base = np.log(smoothing)
    for row in range(len(p1) - 1):
        a, b = p1[row], p2[row]
        while a < p1[row + 1] or b < p2[row + 1]:
            left = a < p1[row + 1] and (b >= p2[row + 1] or i1[a] <= i2[b])
            right = b < p2[row + 1] and (a >= p1[row + 1] or i2[b] <= i1[a])
            j = i1[a] if left else i2[b]
            indices[at] = j
            x = x1[a] if left else 0.0
            y = x2[b] if right else 0.0
            values[0, at] = min(np.sqrt(x), cutoff) / scale
            values[1, at] = min(np.sqrt(y), cutoff) / scale
            values[2, at] = base + excess_of_pair(x, n_i[row], u_j[j], smoothing)
            values[3, at] = base + excess_of_pair(y, n_j[j], u_i[row], smoothing)
            a += left
            b += right
            at += 1
        indptr[row + 1] = at
    return at


@block(temporaries=1)
def without_core_diagonal(counts: object, first_row: Int64s) -> csr_array:
    """Return counts without the cells (i, i); row 0 of the block is row `first_row` of the matrix."""
    return without_diagonal(canonical_csr(counts), int(first_row[0]))


class CorePairs(NamedTuple):
    """What the rounds of core mode need of the pairs of one row block."""

    start: csr_array
    """The sparse part of the first iterate's matrix."""
    weights: csr_array
    target: csr_array
    """Ws and S, on the same support, without the diagonal."""
    error: Floats
    """What no symmetric matrix can fit. Shape (1,)."""


@block(temporaries=5)
def core_pairs(
    forward: object,
    backward: object,
    own: Floats,
    facing: Floats,
    first_row: Int64s,
    *,
    weighting: PairWeighting,
) -> CorePairs:
    """Return the input of all rounds for one row block of the core, from one merge of both orders.

    Parameters
    ----------
    forward, backward : csr_array (rows, n)
        x_ij and x_ji.
    own, facing : (rows, 2), (n, 2) float64
        n and u of the row words, and of the column words.
    first_row : (1,) array
        The number of the first row word.
    weighting : PairWeighting
        How counts become weights.
    """
    pairs, first = weigh_pairs(forward, backward, *own.T, *facing.T, weighting=weighting), int(first_row[0])
    support, off = pairs.support, pairs.support.indices != rows_of(pairs.support) + first
    # X_0 = G/2 gives A_1 = (G + W∘G)/2 made symmetric, its constant part log(kappa)/2, its sparse one
    # ((D + Dᵀ)/2 + S)/2. Weights on the diagonal of the core are zero, those of D are not.
    total = pairs.weights * pairs.targets + pairs.backward_weights * pairs.backward_targets
    excess = pairs.targets + pairs.backward_targets - 2 * float(np.log(weighting.smoothing))
    start = with_values(support, (excess / 2 + total * off.astype(np.float32) / 2) / 2)
    total, weights = total[off], pairs.weights[off]
    both = weights + pairs.backward_weights[off]
    mean = np.divide(total, both, out=np.zeros_like(total), where=both > 0)
    # No symmetric matrix fits sum w_ij (G_ij - S_ij/Ws_ij)²; the objective of V is this plus sum R²/Ws.
    error = np.array([(weights * (pairs.targets[off] - mean) ** 2).sum(dtype=np.float64)])
    inner = without_diagonal(support, first)
    return CorePairs(start, with_values(inner, both / 2), with_values(inner, total / 2), error)


@block(temporaries=0.5)
def residual(
    target: csr_array, weights: csr_array, own: Floats, everyone: Floats | list[Floats]
) -> csr_array:
    """Return R = S - Ws∘(V Vᵀ) of one row block, on the support of S, float32; V may be a list of pieces."""
    return with_values(target, target.data - weights.data * sampled_product(target, own, everyone))


@block(temporaries=1.5)
def weighted_squares(difference: csr_array, weights: csr_array) -> Floats:
    """Return the contribution ``sum R²/Ws`` of one row block, shape (1,), float64."""
    return np.array([(difference.data.astype(np.float64) ** 2 / weights.data).sum()])


@block(temporaries=8.5)
def solve_new_words(
    forward: object,
    backward: object,
    row_totals: Floats,
    unigram: Floats,
    facing: Floats,
    ridge: Floats,
    core: Floats,
    core_gram: Floats,
    *,
    weighting: PairWeighting,
    uniform_weight: float,
) -> Floats:
    """Return the ridge solutions of a batch of noncore words against fixed core vectors.

    ``v_i = (V1ᵀ diag(w) V1 + mu_i I)^-1 V1ᵀ diag(w) g`` with ``w = w_ij + w_ji`` and g the weighted mean
    of the two targets; core words without a count have weight 0, so that ``V1ᵀ diag(w) V1 = sum w_j v_j v_jᵀ``
    runs over the support only (PSDVec, section 2).
    `uniform_weight` a adds to each order of each pair what the core's first iterate (G + W∘G)/2 has beside W:
    ``2 a V1ᵀV1`` on the left, and ``a (g_ij + g_ji)`` of the support on the right.

    Parameters
    ----------
    forward, backward : csr_array (words, c)
        x_ij and x_ji, the counts with core words in either order.
    row_totals, unigram : (words,) float64
        n and u of the words.
    facing : (c, 2) float64
        Those of the core words.
    ridge : (words,) float64
        mu_i.
    core : (c, d) array
        V1.
    core_gram : (d, d) float64
        V1ᵀV1.
    weighting : PairWeighting
        How counts become weights.
    uniform_weight : float
        The weight that each order of every pair has in addition to its own.

    Returns
    -------
    (words, d) float32
        Zero for a word without any count.
    """
    pairs = weigh_pairs(forward, backward, row_totals, unigram, *facing.T, weighting=weighting)
    weights = pairs.weights + pairs.backward_weights
    moment = (pairs.weights + uniform_weight) * pairs.targets
    moment += (pairs.backward_weights + uniform_weight) * pairs.backward_targets
    roots = np.sqrt(weights)
    right = moment / roots.astype(np.float64)
    out = np.zeros((len(ridge), core.shape[1]), np.float32)
    bounds, indices = pairs.support.indptr, pairs.support.indices
    sizes = np.diff(bounds)
    for mu in np.unique(ridge):
        base = 2 * uniform_weight * core_gram + mu * np.identity(len(core_gram))
        own_ridge = (ridge == mu) & (sizes > 0)
        is_few = own_ridge & (sizes < core.shape[1])
        if np.count_nonzero(is_few) * core.shape[1] <= core.shape[0]:
            is_few[:] = False  # core @ root would cost more than it saves
        few, many = np.flatnonzero(is_few), np.flatnonzero(own_ridge & ~is_few)
        try:
            # The upper triangular T with T Tᵀ the inverse of the base B.
            root = solve_triangular(np.linalg.cholesky(base), np.identity(len(base)), lower=True).T
            if few.size:
                # Systems of the words' own pairs, n × n for n < d. With P the rows ``sqrt(w_j) v_jᵀ T`` of the whitened
                # core, ``(B + ...)^-1 sum m_j v_j = T Pᵀ (I + P Pᵀ)^-1 y``, ``y_j = m_j / sqrt(w_j)``.
                whitened = core @ root.astype(core.dtype)
                out[few] = _solve(bounds, indices, few, whitened, roots, right, base[:0]) @ root.T
            out[many] = _solve(bounds, indices, many, core, roots, right, base)
        except np.linalg.LinAlgError:  # some system is singular (ridge 0), or to the precision of the core
            for word in np.flatnonzero(own_ridge):
                pair = slice(*bounds[word : word + 2])
                rows = core[indices[pair]]
                half = rows * roots[pair, None].astype(rows.dtype)
                normal = base + (half.T @ half).astype(np.float64)
                out[word] = np.linalg.lstsq(normal, rows.T @ moment[pair], rcond=None)[0]
    return out


@_jit
def _solve(indptr, indices, words, vectors, roots, right, base):  # type: ignore[no-untyped-def]
    """Return the solutions of the systems of words, in the type of the vectors: of their own pairs without a base.

    Compiled and without Python's lock: products of so few rows are too short for NumPy's calls.
    """
    out = np.empty((len(words), vectors.shape[1]), vectors.dtype)
    for number, word in enumerate(words):
        first, n = indptr[word], indptr[word + 1] - indptr[word]
        rows = np.empty((n, vectors.shape[1]), vectors.dtype)
        for j in range(n):
            vector, root = vectors[indices[first + j]], roots[first + j]
            for k in range(len(vector)):
                rows[j, k] = root * vector[k]
        moment = right[first : first + n]
        if len(base):
            columns = np.ascontiguousarray(rows.T)
            inner = _plus_gram(base.copy(), columns)
            moment = np.dot(columns, moment.astype(vectors.dtype)).astype(np.float64)
            out[number] = _solve_factored(np.linalg.cholesky(inner), moment)
        else:
            solution = _solve_factored(np.linalg.cholesky(_plus_gram(np.identity(n), rows)), moment)
            out[number] = np.dot(solution.astype(vectors.dtype), rows)
    return out


@_jit
def _plus_gram(matrix, rows):  # type: ignore[no-untyped-def]
    """Add P Pᵀ to the lower triangle of a matrix in float64, the product in the type of P (n × d)."""
    n, panel = len(rows), 96
    for start in range(0, n, panel):
        stop = min(start + panel, n)
        part = np.dot(rows[start:stop], rows[:stop].T)
        for j in range(start, stop):
            for k in range(j + 1):
                matrix[j, k] += part[j - start, k]
    return matrix


@_jit
def _solve_factored(factor, right):  # type: ignore[no-untyped-def]
    """Return the solution of L Lᵀ x = y (n,), both substitutions along the rows of L."""
    n = len(factor)
    solution = np.empty(n)
    for j in range(n):
        left = right[j]
        for k in range(j):
            left -= factor[j, k] * solution[k]
        solution[j] = left / factor[j, j]
    for j in range(n - 1, -1, -1):
        solution[j] /= factor[j, j]
        for k in range(j):
            solution[k] -= factor[j, k] * solution[j]
    return solution
