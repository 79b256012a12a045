"""Non-negative factorization and spherical clustering of ONE block of rows.

Letters, as in Ailem, Salah & Nadif (SIGIR 2017): X (n, d) documents by words, M (d, d) words by words,
A (n, n) documents by their neighbors, Z (n, k) document factors, W (d, k) word factors, S (k, k) core; C (d, k) unit
centroids, a column each. X, M and A are `csr_array`; Z has the dtype of X; W, S and every sum are float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.dtypes import Float64s, Floats, Int64s
from distembed.linalg.blocks import gram
from distembed.linalg.csr import canonical_csr, check_block
from distembed.temporaries import block

#: Up to this rank sums held in registers beat SciPy, which writes its output once per non-zero; above it SciPy is
#: faster.
REGISTER_RANK = 8


@block(temporaries=0.5)
def times(X: csr_array, W: Floats) -> Floats:
    """Return X W, (rows, k) in the dtype of X."""
    rank = W.shape[1]
    if rank > REGISTER_RANK:
        return np.asarray(X @ W.astype(X.dtype, copy=False))
    width = 4 if rank <= 4 else REGISTER_RANK
    padded = np.zeros((W.shape[0], width))
    padded[:, :rank] = W
    product = np.empty((X.shape[0], width), X.dtype)
    (_times4 if width == 4 else _times8)(X.data, X.indices, X.indptr, padded, product)
    return np.ascontiguousarray(product[:, :rank])


@numba.njit(cache=True, nogil=True)
def _times4(data: Any, indices: Any, indptr: Any, W: Any, out: Any) -> None:
    for i in range(indptr.size - 1):
        s0 = s1 = s2 = s3 = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            v, j = data[p], indices[p]
            s0 += v * W[j, 0]
            s1 += v * W[j, 1]
            s2 += v * W[j, 2]
            s3 += v * W[j, 3]
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = s0, s1, s2, s3


@numba.njit(cache=True, nogil=True)
def _times8(data: Any, indices: Any, indptr: Any, W: Any, out: Any) -> None:
    for i in range(indptr.size - 1):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            v, j = data[p], indices[p]
            s0 += v * W[j, 0]
            s1 += v * W[j, 1]
            s2 += v * W[j, 2]
            s3 += v * W[j, 3]
            s4 += v * W[j, 4]
            s5 += v * W[j, 5]
            s6 += v * W[j, 6]
            s7 += v * W[j, 7]
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = s0, s1, s2, s3
        out[i, 4], out[i, 5], out[i, 6], out[i, 7] = s4, s5, s6, s7


@block(temporaries=0.5)
def exact_times(M: csr_array, W: Float64s) -> Float64s:
    """Return M W, (rows, k) float64."""
    return times(M, W).astype(np.float64, copy=False)


@block(temporaries=0.5)
def even_rows(X: csr_array, *, rank: int, value: float) -> Floats:
    """Return document factors that are all of one value, (rows, rank) in the dtype of X."""
    return np.full((X.shape[0], rank), value, X.dtype)


@block(temporaries=0.5)
def transposed_times(X: csr_array, Z: Floats) -> Float64s:
    """Return Xᵀ Z, (d, k), multiplied and added in float64."""
    sums = np.zeros((X.shape[1], Z.shape[1]))
    _add_transposed_times(X.data, X.indices, X.indptr, np.ascontiguousarray(Z), sums)
    return sums


@block(temporaries=0.5)
def document_sums(X: csr_array, Z: Floats) -> Float64s:
    """Return Xᵀ Z and below it Zᵀ Z, (d + k, k) float64."""
    rank = Z.shape[1]
    sums = np.zeros((X.shape[1] + rank, rank))
    _add_transposed_times(X.data, X.indices, X.indptr, np.ascontiguousarray(Z), sums[:-rank])
    sums[-rank:] = gram(Z)
    return sums


# Compiled, because SciPy adds in the precision of X, or else copies its values to float64.
@numba.njit(cache=True, nogil=True)
def _add_transposed_times(data: Any, indices: Any, indptr: Any, Z: Any, out: Any) -> None:
    for i in range(indptr.size - 1):
        row = Z[i]
        for p in range(indptr[i], indptr[i + 1]):
            value, sums = np.float64(data[p]), out[indices[p]]
            for c in range(row.size):
                sums[c] += value * row[c]


def multiply_by_ratio(factor: Floats, numerator: Floats, denominator: Floats) -> NDArray[Any]:
    """Return factor ∘ numerator / denominator, 0 where the denominator is 0."""
    ratio = np.divide(numerator, denominator, out=np.zeros_like(factor), where=denominator > 0)
    ratio *= factor
    return ratio


# --- the updates of a round: of documents (Z, X W, WᵀW), and alike of words (W, Xᵀ Z, Zᵀ Z) ----------------


def scale(Z: Floats, XW: Floats, WW: Floats) -> NDArray[Any]:
    """Return Z ∘ (X W) / (Z WᵀW): Lee & Seung (2001), theorem 1, and equation 7a.

    With Wᵀ Xᵀ Z in place of WᵀW it is equation 18 of Yoo & Choi (2008).
    """
    return multiply_by_ratio(Z, XW, Z @ WW.astype(Z.dtype, copy=False))


def scale_tied(
    Z: Floats, XW: Floats, WW: Floats, A: csr_array, every: Sequence[Floats], *, weight: float
) -> NDArray[Any]:
    """Return Z ∘ (X W + λ A Z) / (Z WᵀW + λ D Z), D the sums of the rows of A: Cai et al. (2011).

    `every` are all row blocks of Z, of which Z is one.
    """
    denominator = Z @ WW.astype(Z.dtype, copy=False) + weight * _degrees(A, Z.dtype) * Z
    return multiply_by_ratio(Z, XW + weight * neighbor_sums(A, every), denominator)


def scale_semantic(
    W: Float64s, XZ: Float64s, ZZ: Float64s, MW: Float64s, S: Float64s, weight: float
) -> Float64s:
    """Return W ∘ (XᵀZ + 2λ M W S) / (W (2λ S WᵀW S + ZᵀZ)): equation 7b with the weight λ on M."""
    return scale(W, XZ + 2 * weight * (MW @ S), 2 * weight * (S @ gram(W) @ S) + ZZ)


def update_core(S: Float64s, W: Float64s, MW: Float64s) -> Float64s:
    """Return S ∘ (Wᵀ M W) / (WᵀW S WᵀW), kept symmetric: equation 7c."""
    WW = gram(W)
    updated = multiply_by_ratio(S, W.T @ MW, WW @ S @ WW)
    return (updated + updated.T) / 2


def descend(Z: Floats, XW: Floats, WW: Floats, *, sweeps: int, tolerance: float = 1e-8) -> NDArray[Any]:
    """Return Z after cyclic coordinate descent of every row z on ½ zᵀ(WW)z - zᵀ(xW), z >= 0.

    A row stops when a sweep moves no coordinate by more than `tolerance` of its largest one.
    Cichocki & Phan (2009); several sweeps a round: Gillis & Glineur (2012).
    """
    solved = np.array(Z)
    _descend(solved, XW, WW, sweeps, tolerance)
    return solved


@numba.njit(cache=True, nogil=True)
def _descend(Z: Any, XW: Any, WW: Any, sweeps: int, tolerance: float) -> None:
    rank = WW.shape[0]
    z = np.empty(rank)
    for i in range(Z.shape[0]):
        for r in range(rank):  # an assignment of arrays would compile the text of its error for two seconds
            z[r] = Z[i, r]
        for _ in range(sweeps):
            largest = moved = 0.0
            for r in range(rank):
                if WW[r, r] <= 0:
                    z[r] = 0.0
                    continue
                slope = XW[i, r]
                for s in range(rank):
                    slope -= WW[r, s] * z[s]
                new = max(0.0, z[r] + slope / WW[r, r])
                moved = max(moved, abs(new - z[r]))
                largest = max(largest, new)
                z[r] = new
            if moved <= tolerance * largest:
                break
        for r in range(rank):
            Z[i, r] = z[r]


def _degrees(A: csr_array, dtype: Any) -> Floats:
    return np.asarray(A.sum(axis=1), dtype).reshape(-1, 1)


def neighbor_sums(A: csr_array, parts: Sequence[Floats]) -> Floats:
    """Return A Z of a Z in row blocks, which are not joined."""
    sums = np.zeros((A.shape[0], parts[0].shape[1]), parts[0].dtype)
    first = 0
    for part in parts:
        sums += A[:, first : first + len(part)] @ part
        first += len(part)
    return sums


def fit_core(W: Float64s, MW: Float64s) -> Float64s:
    """Return the non-negative part of argmin_S ‖M - W S Wᵀ‖, with zeros lifted to a small value.

    A multiplicative update never leaves zero, so an entry that the unconstrained fit makes negative
    starts at 1 % of the mean entry.
    """
    inverse = np.linalg.pinv(gram(W))
    core = np.maximum(inverse @ (W.T @ MW) @ inverse, 0)
    return np.maximum((core + core.T) / 2, 0.01 * core.mean())


class DocumentStep(NamedTuple):
    """What a round makes of one block of documents."""

    documents: Floats
    """Their factors Z. Shape (rows, k)."""
    sums: Float64s
    """Xᵀ Z and below it Zᵀ Z: their part of what the word factors follow. Shape (d + k, k)."""


@block(temporaries=0.5)
def step_documents(
    X: csr_array, Z: Floats, W: Floats, small: Floats, *graph: Any, update: Callable[..., Floats]
) -> DocumentStep:
    """Return the document factors after an update, of which `small` is WᵀW or what stands for it, and their sums.

    A graph is its rows, and all row blocks of Z.
    """
    Z = update(Z, times(X, W), small, *graph)
    return DocumentStep(Z, document_sums(X, Z))


@block(temporaries=3)
def tie_documents(
    XW: Floats, Z: Floats, WW: Floats, A: csr_array, every: Sequence[Floats], *, weight: float
) -> Floats:
    """Return document factors after `scale_tied` of products that all rounds have in common."""
    return scale_tied(Z, XW, WW, A, every, weight=weight)


@block(temporaries=0.5)
def solve_documents(X: csr_array, W: Floats, WW: Floats, *, sweeps: int) -> Floats:
    """Return argmin over Z >= 0 of ½‖X - Z Wᵀ‖² for fixed W, started at zero."""
    return descend(np.zeros((X.shape[0], W.shape[1]), X.dtype), times(X, W), WW, sweeps=sweeps)


@block(temporaries=0.5)
def divide_columns(Z: Floats, lengths: Floats) -> Floats:
    """Return Z with its columns divided by their lengths, (1, k), a column of zeros as it is."""
    return np.asarray(Z / np.where(lengths > 0, lengths, 1.0).astype(Z.dtype))


def document_loss(XX: float, XZ: Floats, ZZ: Floats, W: Floats) -> float:
    """Return ½‖X - Z Wᵀ‖² = ½ (‖X‖² - 2 tr(Wᵀ Xᵀ Z) + tr(ZᵀZ WᵀW))."""
    return float(0.5 * (XX - 2 * np.vdot(W, XZ) + np.vdot(ZZ, gram(W))))


def word_loss(MM: float, MW: Floats, W: Floats, S: Floats) -> float:
    """Return ½‖M - W S Wᵀ‖² = ½ (‖M‖² - 2 tr(S WᵀMW) + tr(S WᵀW S WᵀW))."""
    WWS = gram(W) @ S
    return float(0.5 * (MM - 2 * np.vdot(S, W.T @ MW) + np.vdot(WWS.T, WWS)))


@block(temporaries=4)
def graph_loss(A: csr_array, Z: Floats, every: Sequence[Floats]) -> Floats:
    """Return the share of some rows in ½ tr(Zᵀ (D - A) Z), (1, 1); `every` are all row blocks of Z."""
    neighbors = neighbor_sums(A, every)
    differences = _degrees(A, np.float64) * Z
    differences -= neighbors
    del neighbors
    return np.array([[0.5 * np.vdot(Z.astype(np.float64, copy=False), differences)]])


@block(temporaries=2)
def column_shares(Z: Floats, norms: Floats) -> Int64s:
    """Return for every row the column that is largest once columns have unit norm, -1 for a zero row."""
    relative = Z.astype(np.float64)
    relative /= np.where(norms > 0, norms, 1.0)
    largest = relative.argmax(axis=1)
    del relative
    return np.where(Z.max(axis=1) > 0, largest, -1).reshape(-1, 1)


def topic_shares(Z: Floats, norms: Floats) -> Floats:
    """Return the rows of Z, its columns brought to unit norm, as shares that sum to one; a zero row stays zero.

    The largest share of a row is that of `column_shares`.
    """
    relative = Z / np.where(norms > 0, norms, 1.0)
    sums = relative.sum(axis=1, keepdims=True)
    return np.asarray(relative / np.where(sums > 0, sums, 1.0))


FREQUENCY_WEIGHT = 0.5
"""Default power of the share of documents by which the words of Semantic-NMF are ordered."""


def list_words(W: Floats, shares: Floats, n: int, *, frequency_weight: float) -> Int64s:
    """Return the words of each topic with the largest ``W ∘ shares ** frequency_weight``, falling, (k, n).

    The word factors of Semantic-NMF follow M, and are large for rare words that occur together, as positive PMI is:
    they are like the lift p(w | t) / p(w), and W times p(w) is like p(w | t). A power between 0 and 1 compromises
    between the two, like the relevance of Sievert & Shirley (2014).

    Parameters
    ----------
    W : (d, k) array
        The word factors.
    shares : (d,) array
        The share of the documents that hold each word.
    n : int
    frequency_weight : float
        The power; 0 orders by the factors alone.
    """
    weights = W * shares[:, np.newaxis] ** frequency_weight if frequency_weight else W
    return np.argsort(-weights, axis=0, kind="stable")[:n].T


class WeightTerms(NamedTuple):
    """The weight of a topic in a document as a sum."""

    words: Floats
    """The term of each word of the document. Shape (m,), float64."""
    topics: Floats
    """What each other topic explains already, not above zero; 0 for the topic itself. Shape (k,), float64."""
    rest: float
    """What the rounds had not settled when they ended."""


def weight_terms(values: Floats, words: Int64s, z: Floats, W: Floats, topic: int) -> WeightTerms:
    """Return the terms of ``z_t = (sum_j x_j w_jt - sum_s≠t z_s (w_s · w_t)) / (w_t · w_t)``.

    This is the condition that ``min ‖x - W z‖²`` over ``z >= 0`` puts on a weight that is not zero.

    Parameters
    ----------
    values : (m,) array
        x on the words of the document.
    words : (m,) int64
        The rows of these words in W.
    z : (k,) array
        The weights of the topics in the document.
    W : (d, k) array
        The word factors.
    topic : int
        t.
    """
    products = W.T @ W[:, topic]
    length = products[topic] or 1.0
    topics = -z * products / length
    topics[topic] = 0.0
    terms = values * W[words, topic] / length
    return WeightTerms(terms, topics, float(z[topic] - terms.sum() - topics.sum()))


def cosine_terms(values: Floats, words: Int64s, z: Floats, centroids: Floats, topic: int) -> WeightTerms:
    """Return the terms of a cosine with a unit centroid, ``sum_j x_j c_jt``, in the form of `weight_terms`."""
    terms = values * centroids[words, topic]
    return WeightTerms(terms, np.zeros(len(z)), float(z[topic] - terms.sum()))


@block(temporaries=0.5)
def membership(labels: Int64s, *, rank: int, floor: float, value_type: Any) -> Floats:
    """Return Z with 1 + floor at a row's label and floor elsewhere; a row labeled -1 is zero."""
    Z = np.full((labels.size, rank), floor, value_type)
    Z[np.arange(labels.size), labels.ravel()] += 1
    Z[labels.ravel() < 0] = 0
    return Z


@block(temporaries=2)
def inspect(X: csr_array, first_row: Int64s, *, called: str, nonnegative: bool = True) -> Floats:
    """Return (1, 5 + d): not whole, above one, squares, sum, empty rows, counts of columns; see `check_block`."""
    check_block(X, first_row, called=called, nonnegative=nonnegative)
    facts = np.empty((1, 5 + X.shape[1]))
    exact = X.data.astype(np.float64, copy=False)
    facts[0, :5] = (
        np.count_nonzero(X.data != np.floor(X.data)),
        np.count_nonzero(exact > 1),
        np.vdot(exact, exact),
        exact.sum(),
        np.count_nonzero(np.diff(X.indptr) == 0),
    )
    del exact
    facts[0, 5:] = np.bincount(X.indices, minlength=X.shape[1])
    return facts


@block(temporaries=2)
def subtract_shift(M: csr_array, *, shift: float) -> csr_array:
    """Return max(M - log shift, 0) on the support of M."""
    moved = M.data - np.log(shift)
    np.maximum(moved, 0, out=moved)
    return canonical_csr(csr_array((moved.astype(M.dtype), M.indices, M.indptr), M.shape), M.dtype)


@block(temporaries=0.5)
def nearest_centroid(X: csr_array, C: Floats) -> Floats:
    """Return (rows, 2): label of the nearest centroid and the cosine with it; -1 and 1 for an empty row."""
    cosines = times(X, C)
    labels = cosines.argmax(axis=1)
    empty = np.diff(X.indptr) == 0
    best = cosines[np.arange(labels.size), labels].astype(np.float64)
    return np.column_stack([np.where(empty, -1, labels), np.where(empty, 1.0, best)])


@block(temporaries=1)
def cluster_sums(X: csr_array, C: Floats) -> Floats:
    """Return (d + 2, k): the sum of the rows of each cluster, their number, and the sum of their cosines."""
    labels, cosines = nearest_centroid(X, C).T
    rows = np.flatnonzero(labels >= 0).astype(np.int32)  # the product casts the columns of X to a larger type
    chosen = labels[rows].astype(np.int32)
    shape = (C.shape[1], X.shape[0])
    indicator = csr_array((np.ones(rows.size, np.float64), (chosen, rows)), shape)
    sums = (indicator @ X).toarray().T
    size = np.bincount(chosen, minlength=C.shape[1])
    return np.vstack([sums, size, np.bincount(chosen, cosines[rows], minlength=C.shape[1])])


def draw_seeds(X: csr_array, n_seeds: int, random: np.random.Generator) -> Int64s:
    """Return rows of X drawn as by k-means++ (Arthur & Vassilvitskii 2007) with the distance 1 - cosine.

    Where fewer than n_seeds rows are distinct the rest is drawn evenly from the rows not yet taken.
    """
    distance = (np.diff(X.indptr) > 0).astype(np.float64)
    seeds = np.empty(n_seeds, np.int64)
    for number in range(n_seeds):
        taken = seeds[:number]
        weight = distance if distance.sum() > 0 else np.isin(np.arange(X.shape[0]), taken, invert=True) * 1.0
        seeds[number] = random.choice(X.shape[0], p=weight / weight.sum())
        cosine = times(X, X[seeds[number : number + 1]].toarray().T).ravel()
        gap = 1.0 - cosine.astype(np.float64)
        distance = np.minimum(distance, np.where(gap > 1e-6, gap, 0.0))
    return seeds
