"""The smoothest vectors of a graph: the smallest eigenpairs of its Laplacian, and Laplacian eigenmaps.

A graph with c connected components has the eigenvalue 0 c times. A method that starts from one vector finds only one
vector of an eigenspace; it finds the others through rounding or never. The vectors of eigenvalue 0 are known, so they
are removed first, and the remaining ones are found by a block method.

Letters
-------
W : affinity of the graph, n × n, symmetric; D = diag(d), d its row sums; c the number of its connected parts.
L : its Laplacian, I - D^-½ W D^-½ or (D - W) over the mean degree.
E : unit vectors of L's eigenvalue 0, one for each part: √d or 1 on it, zero elsewhere, (n × c).
B = b I - L, where b is at least the largest eigenvalue of L: what is smallest for L is largest for B.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Float64s
from distembed.execution import compute, in_this_thread, one_blas_thread
from distembed.lift import block, lift
from distembed.linalg.blocks import sparse_times_dense
from distembed.linalg.eigen import filtered_eigenpairs, fix_signs
from distembed.linalg.operators import SymmetricMatrix, gathered, row_blocks, sparse_times
from distembed.neighbors import graphs
from distembed.neighbors.distances import Metric
from distembed.neighbors.graph_blocks import unit_squares
from distembed.neighbors.search import nearest_neighbors
from distembed.states import scope

DENSE_ROWS = 1000
"""Vertices up to which a dense eigendecomposition takes less than a second."""


def is_small(n_rows: int, k: int) -> bool:
    """Return whether k vectors of a graph are found by decomposing its matrix whole."""
    return n_rows <= max(DENSE_ROWS, 3 * k)


class Eigenpairs(NamedTuple):
    """Eigenvectors of a graph."""

    vectors: Float64s
    """Shape (n, k), float64."""
    values: Float64s
    """Shape (k,), float64, rising, from 0."""


def smallest_eigenpairs(
    adjacency: sp.csr_array,
    k: int,
    *,
    normalization: graphs.Normalization = "symmetric",
    zeros: Literal["all", "apart", "none"] = "all",
    random_state: int = 0,
    tol: float = 1e-8,
) -> Eigenpairs:
    """Return the k smallest eigenvalues of a graph's Laplacian, rising, and their unit vectors.

    Each connected part has one vector of eigenvalue 0, its constant: they come first, that of the largest part before
    the others. Each vector has the sign that makes the sum of its cubes positive. Up to `DENSE_ROWS` vertices by
    numpy.linalg.eigh, above by `filtered_eigenpairs`.

    Parameters
    ----------
    adjacency : CSR (n × n), a symmetric affinity
    k : from 1 to n, less the vectors of eigenvalue 0 that are left out
    normalization : of the Laplacian, see `laplacian`
    zeros : which vectors of eigenvalue 0 belong to the result: all, or "apart", those orthogonal to the constant of the
        whole graph, which tell its parts from each other, or none
    random_state : int
        The seed.
    tol : every ‖L z - λ z‖ is to be at most tol times a bound on the largest eigenvalue

    Raises
    ------
    ValueError
        If there are fewer than k such vectors.
    """
    degrees, labels = graphs.degrees_of(adjacency), graphs.components(adjacency)
    n, sizes = len(labels), np.bincount(labels)
    n_zeros = {"all": len(sizes), "apart": len(sizes) - 1, "none": 0}[zeros]
    n_choices = n - len(sizes) + n_zeros
    if not 1 <= k <= n_choices:
        raise ValueError(
            f"{k} eigenvectors are wanted, but a graph of {n} rows in {len(sizes)} connected parts "
            f"has {n_choices} to choose from: choose 1 to {n_choices}"
        )
    L, constant = graphs.laplacian(adjacency, normalization=normalization), np.ones(n)
    if (
        normalization == "symmetric"
    ):  # a vertex without an edge is a part of its own, whose constant has any length
        constant = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    columns = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable")[labels]
    values = constant / np.sqrt(np.bincount(columns, constant**2))[columns]
    trivial = sp.csr_array((values, columns, np.arange(n + 1)), shape=(n, len(sizes)))
    bound = 2 * float(L.diagonal().max(initial=0.0))  # Gershgorin: a row of L sums to zero
    flipped = sp.csr_array(bound * sp.eye_array(n, format="csr") - L)
    of_parts = np.eye(len(sizes), min(k, n_zeros))
    with one_blas_thread(), scope("eigenpairs", adjacency, normalization, zeros, k, random_state, tol):
        if zeros == "apart":
            of_parts = np.linalg.qr(np.column_stack([trivial.T @ constant, of_parts]))[0][:, 1:]
        others, rest = _nontrivial(flipped, trivial, bound, k - of_parts.shape[1], random_state, tol)
    vectors = np.asarray(fix_signs(np.column_stack([trivial @ of_parts, rest])), np.float64)
    return Eigenpairs(vectors, np.concatenate([np.zeros(of_parts.shape[1]), others]))


def laplacian_eigenmaps(
    graph: sp.csr_array, k: int, *, random_state: int = 0, tol: float = 1e-8
) -> Eigenpairs:
    """Return the k smallest solutions of L y = λ D y, yᵀDy = 1, the constant one left out.

    The vectors are orthogonal to the constant, and zero for vertices without an edge. A graph of c connected components
    has λ = 0 c times: the first c - 1 vectors tell the components apart, the largest first.
    sklearn.manifold.SpectralEmbedding is the equivalent for connected graphs.

    Parameters
    ----------
    graph : CSR (n × n), a symmetric affinity
    k, random_state, tol : see `smallest_eigenpairs`

    Raises
    ------
    ValueError
        If k is not between 1 and the number of vertices with an edge, less one.

    References
    ----------
    Belkin & Niyogi 2003, Laplacian eigenmaps for dimensionality reduction and data representation.
    """
    degrees = graphs.degrees_of(graph)
    used = np.flatnonzero(degrees)
    if not 1 <= k < used.size:
        raise ValueError(
            f"{k} eigenvectors are wanted but {used.size} vertices have an edge: choose 1 to {used.size - 1}"
        )
    inner, vectors = sp.csr_array(graph[used][:, used]), np.zeros((graph.shape[0], k))
    unit, values = smallest_eigenpairs(inner, k, zeros="apart", random_state=random_state, tol=tol)
    vectors[used] = fix_signs(unit / np.sqrt(degrees[used])[:, None])
    return Eigenpairs(vectors, values)


@block(temporaries=1)
def deflated_product(
    matrix: sp.csr_array, trivial: sp.csr_array, vectors: Float64s, constants: Float64s, *, bound: float
) -> Float64s:
    """Return rows of (B - b E Eᵀ) X, (rows × k), of those of B and E, X (n × k) and EᵀX (c × k)."""
    product: Float64s = sparse_times_dense(matrix, vectors).astype(np.float64, copy=False)
    product -= bound * sparse_times_dense(trivial, constants)
    return product


def _nontrivial(
    B: sp.csr_array, E: sp.csr_array, bound: float, k: int, random_state: int, tol: float
) -> tuple[Float64s, Float64s]:
    """Return the k smallest λ of L after the zeros of its parts, rising, and their orthonormal vectors (n × k).

    They are b less the largest eigenvalues of B - b E Eᵀ, which has 0 in place of L's zeros.
    """
    n = B.shape[0]
    if k == 0:
        return np.zeros(0), np.zeros((n, 0))
    if is_small(n, k):
        dense = B.toarray() - (bound + 1) * (E @ E.T).toarray()  # -1 in place of L's zeros
        values, vectors = np.linalg.eigh(dense)
        return np.maximum(bound - values[::-1][:k], 0.0), vectors[:, ::-1][:, :k]
    matrix = row_blocks(B).persist()
    trivial = row_blocks(E).rechunk((matrix.chunks[0], -1)).persist()
    transposed = row_blocks(sp.csr_array(E.T)).persist()

    def apply(vectors: da.Array) -> da.Array:
        return lift(
            deflated_product, "wn,wt,nc,tc->wc", matrix, trivial, gathered(vectors),
            gathered(sparse_times(transposed, vectors)), dtype=vectors.dtype, bound=bound,
        )  # fmt: skip

    cut = SymmetricMatrix(apply, matrix.chunks[0])
    found = filtered_eigenpairs(cut, k, lower=0.0, upper=bound, tol=tol, random_state=random_state)
    return np.maximum(bound - found.values, 0.0), compute(found.vectors)


# --- new rows among those of an embedding ----------------------------------------------------------------------


@block(temporaries=6.5)
def place_rows(
    X: Any, *, fitted: Any, embedding: Float64s, scale: Float64s, k: int, metric: Metric
) -> Float64s:
    """Return the embedding of new rows (r × k): the mean of those of the fitted rows that they are near to.

    Rows of an embedding are divided by their scale. The weights of the k nearest fitted rows are exp(-d²/h²), h the
    distance to the `LOCAL_NEIGHBOR`-th of them, and sum to one. Where so many fitted rows are equal to a new row that h
    is 0, they share the weight and the others have none.
    """
    is_sparse = sp.issparse(getattr(fitted, "_meta", fitted))
    if is_sparse != sp.issparse(X):
        X = sp.csr_array(X) if is_sparse else X.toarray()
    used, used_fitted = graphs.row_is_used(X, metric), np.flatnonzero(graphs.row_is_used(fitted, metric))
    k = min(k, used_fitted.size)
    weights, indices = np.zeros((X.shape[0], k)), np.zeros((X.shape[0], k), np.int64)
    if used.any() and k:
        with in_this_thread(), one_blas_thread():
            found = nearest_neighbors(X[np.flatnonzero(used)], k, Y=fitted[used_fitted], metric=metric)
            distances, near = compute(tuple(found))
        squares = unit_squares(distances) if metric == "cosine" else distances**2
        own = squares[:, [min(graphs.LOCAL_NEIGHBOR, k) - 1]]
        raw = np.exp(-np.divide(squares, own, out=np.where(squares > 0, np.inf, 0.0), where=own > 0))
        weights[used] = raw / raw.sum(axis=1, keepdims=True)
        indices[used] = used_fitted[near]
    means = np.einsum("rj,rjk->rk", weights, embedding[indices])
    return np.asarray(means * np.einsum("rj,rj->r", weights, scale[indices])[:, None])
