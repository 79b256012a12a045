"""The smoothest vectors of a graph: the smallest eigenpairs of its Laplacian, and Laplacian eigenmaps.

A graph with c connected components has the eigenvalue 0 c times. A method that starts from one vector finds only one
vector of an eigenspace; it finds the others through rounding or never. The vectors of eigenvalue 0 are known, so they
are removed first, and the remaining ones are found by a block method.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Float64s, Int32s
from distembed.execution import compute, one_blas_thread
from distembed.lift import lift
from distembed.linalg.eigen import filtered_eigenpairs, fix_signs
from distembed.linalg.operators import gathered, row_blocks, sparse_times
from distembed.manifold import eigenmaps_blocks as blocks
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
    graph = _flipped(adjacency, normalization, components(adjacency))
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


def _flipped(
    adjacency: sp.csr_array, normalization: Normalization, labels: Int32s
) -> blocks.FlippedLaplacian:
    degrees = degrees_of(adjacency)
    # A vertex without an edge is a part of its own, whose constant has any length.
    roots = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    constants = roots if normalization == "symmetric" else np.ones_like(roots)
    return blocks.flipped_laplacian(laplacian(adjacency, normalization=normalization), constants, labels)


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
    flipped = _flipped(inner, "symmetric", labels)

    def make() -> _Found:
        with one_blas_thread():
            first = blocks.part_vectors(flipped, roots, k)
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
    residuals = blocks.eigenpair_residuals(_flipped(inner, "symmetric", labels), unit, eigenvalues)
    return Eigenmaps(vectors, eigenvalues, residuals, int(labels.max()) + 1)


def _nontrivial(
    graph: blocks.FlippedLaplacian, k: int, random_state: int, tol: float
) -> tuple[Float64s, Float64s]:
    """Return the k smallest λ of L after the zeros of its parts, rising, and their orthonormal vectors (n × k)."""
    n = graph.matrix.shape[0]
    if k == 0:
        return np.zeros(0), np.zeros((n, 0))
    if is_small(n, k):
        values, vectors = np.linalg.eigh(blocks.deflate(graph))
        return np.maximum(graph.bound - values[::-1][:k], 0.0), vectors[:, ::-1][:, :k]
    found = filtered_eigenpairs(
        _DeflatedGraph.of(graph), k, lower=0.0, upper=graph.bound, tol=tol, random_state=random_state
    )
    return np.maximum(graph.bound - found.values, 0.0), compute(found.vectors)


class _DeflatedGraph(NamedTuple):
    """The matrix B - b E Eᵀ in row blocks: b minus the eigenvalues of L, and 0 in place of its zeros."""

    matrix: da.Array
    trivial: da.Array
    transposed: da.Array
    bound: float

    @classmethod
    def of(cls, graph: blocks.FlippedLaplacian) -> _DeflatedGraph:
        """Cut a graph into row blocks."""
        matrix = row_blocks(graph.matrix).persist()
        trivial = row_blocks(graph.trivial).rechunk((matrix.chunks[0], -1)).persist()
        transposed = row_blocks(sp.csr_array(graph.trivial.T)).persist()
        return cls(matrix, trivial, transposed, graph.bound)

    @property
    def row_chunks(self) -> tuple[int, ...]:
        """Rows of each block."""
        return tuple(self.matrix.chunks[0])

    def apply(self, vectors: Any) -> da.Array:
        """Return the product with vectors (n × b)."""
        constants = sparse_times(self.transposed, vectors)
        return lift(
            blocks.deflated_product, "wn,wt,nc,tc->wc", self.matrix, self.trivial,
            gathered(vectors), gathered(constants), dtype=vectors.dtype, bound=self.bound,
        )  # fmt: skip
