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

from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Float64s, Int32s
from distembed.execution import compute, one_blas_thread
from distembed.lift import block, lift
from distembed.linalg.blocks import sparse_times_dense
from distembed.linalg.eigen import filtered_eigenpairs, fix_signs
from distembed.linalg.operators import gathered, row_blocks, sparse_times
from distembed.neighbors.graphs import Normalization, components, degrees_of, laplacian
from distembed.states import keep, scope

DENSE_ROWS = 1000
"""Vertices up to which a dense eigendecomposition takes less than a second."""


def is_small(n_rows: int, k: int) -> bool:
    """Return whether k vectors of a graph are found by decomposing its matrix whole."""
    return n_rows <= max(DENSE_ROWS, 3 * k)


def smallest_eigenpairs(
    adjacency: sp.csr_array,
    k: int,
    *,
    normalization: Normalization = "symmetric",
    constants: bool = True,
    random_state: int = 0,
    tol: float = 1e-8,
) -> tuple[Float64s, Float64s]:
    """Return the k smallest eigenvalues (k,) of a graph's Laplacian, rising, and their unit vectors (n × k).

    Each connected part has one vector of eigenvalue 0, its constant: they come first, that of the largest part
    before the others, or are left out. Each vector has the sign that makes the sum of its cubes positive. Up to
    `DENSE_ROWS` vertices by numpy.linalg.eigh, above by `filtered_eigenpairs`.

    Parameters
    ----------
    adjacency : CSR (n × n), a symmetric affinity
    k : from 1 to n, less the connected parts where their constants are left out
    normalization : of the Laplacian, see `laplacian`
    constants : whether the vectors of eigenvalue 0 belong to the result
    random_state : int
        The seed.
    tol : every ‖L z - λ z‖ is to be at most tol times a bound on the largest eigenvalue

    Raises
    ------
    ValueError
        If there are fewer than k such vectors.
    """
    graph = _flip(adjacency, normalization, components(adjacency))
    n_vertices, n_parts = graph.trivial.shape
    n_choices = n_vertices if constants else n_vertices - n_parts
    if not 1 <= k <= n_choices:
        raise ValueError(
            f"{k} eigenvectors are wanted, but a graph of {n_vertices} rows in {n_parts} connected parts "
            f"has {n_choices} to choose from: choose 1 to {n_choices}"
        )
    first = graph.trivial[:, : min(k, n_parts) if constants else 0].toarray()
    with one_blas_thread(), scope("eigenpairs", adjacency, normalization, constants, k, random_state, tol):
        values, others = _nontrivial(graph, k - first.shape[1], random_state, tol)
    vectors = np.asarray(fix_signs(np.column_stack([first, others])), np.float64)
    return np.concatenate([np.zeros(first.shape[1]), values]), vectors


class FlippedLaplacian(NamedTuple):
    """A Laplacian whose smallest eigenvalues have become the largest."""

    matrix: Any
    """CSR (n × n), or a Dask array of its row blocks, B."""
    trivial: Any
    """CSR (n × c), or row blocks, E, the part of most vertices first."""
    bound: float
    """b."""
    transposed: Any = None
    """Row blocks of Eᵀ."""

    @property
    def row_chunks(self) -> tuple[int, ...]:
        """Rows of each block."""
        return tuple(self.matrix.chunks[0])

    def apply(self, vectors: Any) -> da.Array:
        """Return the product of B - b E Eᵀ with vectors (n × b): b minus the eigenvalues of L, and 0 for its zeros."""
        constants = sparse_times(self.transposed, vectors)
        return lift(
            deflated_product, "wn,wt,nc,tc->wc", self.matrix, self.trivial,
            gathered(vectors), gathered(constants), dtype=vectors.dtype, bound=self.bound,
        )  # fmt: skip


@block(temporaries=1)
def deflated_product(
    matrix: sp.csr_array, trivial: sp.csr_array, vectors: Float64s, constants: Float64s, *, bound: float
) -> Float64s:
    """Return rows of (B - b E Eᵀ) X, (rows × k), of those of B and E, X (n × k) and EᵀX (c × k)."""
    product: Float64s = sparse_times_dense(matrix, vectors).astype(np.float64, copy=False)
    product -= bound * sparse_times_dense(trivial, constants)
    return product


def _flip(adjacency: sp.csr_array, normalization: Normalization, labels: Int32s) -> FlippedLaplacian:
    """Return B, E and b of a graph of these parts."""
    degrees = degrees_of(adjacency)
    # A vertex without an edge is a part of its own, whose constant has any length.
    roots = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    constants = roots if normalization == "symmetric" else np.ones_like(roots)
    L, n = laplacian(adjacency, normalization=normalization), len(labels)
    bound = 2 * float(L.diagonal().max(initial=0.0))  # Gershgorin: a row of L sums to zero
    by_size = np.argsort(-np.bincount(labels), kind="stable")
    columns = np.argsort(by_size, kind="stable")[labels]
    values = constants / np.sqrt(np.bincount(columns, constants**2))[columns]
    trivial = sp.csr_array((values, columns, np.arange(n + 1)), shape=(n, len(by_size)))
    return FlippedLaplacian(sp.csr_array(bound * sp.eye_array(n, format="csr") - L), trivial, bound)


class Eigenmaps(NamedTuple):
    """Eigenvectors of a graph."""

    vectors: Float64s
    """y, with yᵀDy = 1, orthogonal to the constant; zero for vertices without an edge. Shape (n, k), float64."""
    eigenvalues: Float64s
    """λ, rising, from 0 to 2. Shape (k,), float64."""
    residuals: Float64s
    """‖N z - (1 - λ) z‖ of the unit eigenvectors z = D^½ y of N = D^-½ S D^-½. Shape (k,), float64."""
    n_graph_components: int


class _Found(NamedTuple):
    """The state of finished eigenmaps: what the graph and these do not say can be measured again."""

    vectors: Any
    eigenvalues: Any


def laplacian_eigenmaps(
    graph: sp.csr_array, k: int, *, random_state: int = 0, tol: float = 1e-8
) -> Eigenmaps:
    """Return the k smallest solutions of L y = λ D y, the constant one left out.

    A graph of c connected components has λ = 0 c times: the first c - 1 vectors tell the components apart,
    the largest first. Up to `DENSE_ROWS` vertices by numpy.linalg.eigh, above by `filtered_eigenpairs`.
    sklearn.manifold.SpectralEmbedding is the equivalent for connected graphs.

    Parameters
    ----------
    graph : CSR (n × n), a symmetric affinity
    k : int
        The number of eigenvectors.
    random_state : int
        The seed.
    tol : every ‖N z - (1 - λ) z‖ is to be at most 2 tol

    Raises
    ------
    ValueError
        If k is not between 1 and the number of vertices with an edge, less one.

    References
    ----------
    Belkin & Niyogi 2003, Laplacian eigenmaps for dimensionality reduction and data representation.
    """
    degrees = degrees_of(graph)
    used = np.flatnonzero(degrees)
    if not 1 <= k < used.size:
        raise ValueError(
            f"{k} eigenvectors are wanted but {used.size} vertices have an edge: choose 1 to {used.size - 1}"
        )
    inner = sp.csr_array(graph[used][:, used])
    labels, roots = components(inner), np.sqrt(degrees[used])
    flipped = _flip(inner, "symmetric", labels)
    # Orthonormal vectors of the eigenvalue 0, orthogonal to the constant: they tell the parts apart.
    n_parts = flipped.trivial.shape[1]
    basis = np.column_stack([flipped.trivial.T @ roots, np.eye(n_parts, min(k, n_parts - 1))])

    def make() -> _Found:
        with one_blas_thread():
            first = flipped.trivial @ np.linalg.qr(basis)[0][:, 1:]
            values, rest = _nontrivial(flipped, k - first.shape[1], random_state, tol)
        spread = np.zeros((graph.shape[0], k))
        spread[used] = fix_signs(np.column_stack([first, rest]) / roots[:, None])
        return _Found(spread, np.concatenate([np.zeros(first.shape[1]), values]))

    with scope("eigenmaps", graph, k, random_state, tol):
        return measured_eigenmaps(graph, *compute(keep("vectors", make, _Found)))


def measured_eigenmaps(graph: sp.csr_array, vectors: Float64s, eigenvalues: Float64s) -> Eigenmaps:
    """Return eigenmaps of a graph that were found before, with what is measured of them."""
    degrees = degrees_of(graph)
    used = np.flatnonzero(degrees)
    inner = sp.csr_array(graph[used][:, used])
    labels = components(inner)
    unit = np.sqrt(degrees[used])[:, None] * vectors[used]
    flipped = _flip(inner, "symmetric", labels)
    misfit = flipped.matrix @ unit
    misfit -= (flipped.bound - eigenvalues) * unit
    return Eigenmaps(vectors, eigenvalues, np.linalg.norm(misfit, axis=0), int(labels.max()) + 1)


def _nontrivial(graph: FlippedLaplacian, k: int, random_state: int, tol: float) -> tuple[Float64s, Float64s]:
    """Return the k smallest λ of L after the zeros of its parts, rising, and their orthonormal vectors (n × k)."""
    n = graph.matrix.shape[0]
    if k == 0:
        return np.zeros(0), np.zeros((n, 0))
    if is_small(n, k):
        dense = graph.matrix.toarray()  # b less the eigenvalues of L, and -1 in place of its zeros
        dense -= (graph.bound + 1) * (graph.trivial @ graph.trivial.T).toarray()
        values, vectors = np.linalg.eigh(dense)
        return np.maximum(graph.bound - values[::-1][:k], 0.0), vectors[:, ::-1][:, :k]
    matrix = row_blocks(graph.matrix).persist()
    trivial = row_blocks(graph.trivial).rechunk((matrix.chunks[0], -1)).persist()
    cut = FlippedLaplacian(matrix, trivial, graph.bound, row_blocks(sp.csr_array(graph.trivial.T)).persist())
    found = filtered_eigenpairs(cut, k, lower=0.0, upper=graph.bound, tol=tol, random_state=random_state)
    return np.maximum(graph.bound - found.values, 0.0), compute(found.vectors)
