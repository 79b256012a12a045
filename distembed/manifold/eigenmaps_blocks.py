"""Mathematics of one block for the smoothest vectors of a graph.

Letters
-------
W : affinity of the graph, n × n, symmetric; D = diag(d), d its row sums; c the number of its connected parts.
L : its Laplacian, I - D^-½ W D^-½ or (D - W) over the mean degree.
E : unit vectors of L's eigenvalue 0, one for each part: √d or 1 on it, zero elsewhere, (n × c).
B = b I - L, where b is at least the largest eigenvalue of L: what is smallest for L is largest for B.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from distembed.dtypes import Float64s, Int32s
from distembed.linalg.blocks import sparse_times_dense
from distembed.temporaries import block


class FlippedLaplacian(NamedTuple):
    """A Laplacian whose smallest eigenvalues have become the largest."""

    matrix: sp.csr_array
    """CSR (n × n), B."""
    trivial: sp.csr_array
    """CSR (n × c), E, the part of most vertices first."""
    bound: float


def flipped_laplacian(laplacian: sp.csr_array, constants: Float64s, labels: Int32s) -> FlippedLaplacian:
    """Return B, E and b of a Laplacian.

    Parameters
    ----------
    laplacian : CSR (n × n), L
    constants : (n,), a vector that L takes to zero, without a zero of its own
    labels : (n,), the connected part of each vertex, numbered from 0
    """
    bound = 2 * float(laplacian.diagonal().max(initial=0.0))  # Gershgorin: a row of L sums to zero
    flipped = sp.csr_array(bound * sp.eye_array(laplacian.shape[0], format="csr") - laplacian)
    return FlippedLaplacian(flipped, trivial_vectors(constants, labels), bound)


def trivial_vectors(constants: Float64s, labels: Int32s) -> sp.csr_array:
    """Return E of vertices with these constants and parts, CSR (n × c)."""
    n_vertices = len(labels)
    by_size = np.argsort(-np.bincount(labels), kind="stable")
    columns = np.argsort(by_size, kind="stable")[labels]
    values = constants / np.sqrt(np.bincount(columns, constants**2))[columns]
    shape = (n_vertices, len(by_size))
    return sp.csr_array((values, columns, np.arange(n_vertices + 1)), shape=shape)


def part_vectors(graph: FlippedLaplacian, constant: Float64s, k: int) -> Float64s:
    """Return orthonormal vectors of L's eigenvalue 0, orthogonal to `constant`, (n × min(k, c - 1)).

    They tell the parts apart, the largest first.
    """
    n_parts = graph.trivial.shape[1]
    basis = np.column_stack([graph.trivial.T @ constant, np.eye(n_parts, min(k, n_parts - 1))])
    return graph.trivial @ np.linalg.qr(basis)[0][:, 1:]


@block(temporaries=1)
def deflated_product(
    matrix: sp.csr_array, trivial: sp.csr_array, vectors: Float64s, constants: Float64s, *, bound: float
) -> Float64s:
    """Return rows of (B - b E Eᵀ) X, (rows × k), of those of B and E, X (n × k) and EᵀX (c × k)."""
    product: Float64s = sparse_times_dense(matrix, vectors).astype(np.float64, copy=False)
    product -= bound * sparse_times_dense(trivial, constants)
    return product


def deflate(graph: FlippedLaplacian) -> Float64s:
    """Return B - (b + 1) E Eᵀ, dense: b less the eigenvalues of L, and -1 in place of its zeros."""
    dense = graph.matrix.toarray()
    dense -= (graph.bound + 1) * (graph.trivial @ graph.trivial.T).toarray()
    return dense


def eigenpair_residuals(graph: FlippedLaplacian, vectors: Float64s, values: Float64s) -> Float64s:
    """Return ‖L z - λ z‖, (k,), of unit vectors z (n × k)."""
    misfit = graph.matrix @ vectors
    misfit -= (graph.bound - values) * vectors
    return np.linalg.norm(misfit, axis=0)
