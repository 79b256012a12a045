"""Mathematics of one block for Locality Preserving Projection.

Letters
-------
S : affinity of the graph, n × n, symmetric; D = diag(d), d its row sums; L = D - S.
N = D^-½ S D^-½, whose eigenvectors z with eigenvalue 1 - λ give the y = D^-½ z of L y = λ D y.
E : unit vectors of N's eigenvalue 1, one a connected component: √d on it, zero elsewhere, (n × c).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]

CONSTANT_SHARE = 1 - 1e-9
"""Share of the constant vector's squared length in the span of X from which on it counts as inside."""


class NormalizedGraph(NamedTuple):
    """A graph without isolated vertices, normalised.

    Attributes
    ----------
    matrix : CSR (n × n), N
    roots : (n,), √d
    trivial : CSR (n × c), E, the largest component first
    """

    matrix: sp.csr_array
    roots: Float64s
    trivial: sp.csr_array


def normalized_graph(affinity: sp.csr_array, labels: NDArray[np.int32]) -> NormalizedGraph:
    """Return N, √d and E of a graph whose connected components are labelled from 0."""
    degrees = np.asarray(affinity.sum(axis=1), dtype=np.float64).ravel()
    roots = np.sqrt(degrees)
    scale = sp.diags_array(1 / roots)
    by_size = np.argsort(-np.bincount(labels), kind="stable")
    columns = np.argsort(by_size, kind="stable")[labels]
    values = roots / np.sqrt(np.bincount(columns, degrees))[columns]
    trivial = sp.csr_array((values, columns, np.arange(len(labels) + 1)), shape=(len(labels), len(by_size)))
    return NormalizedGraph(sp.csr_array(scale @ affinity @ scale), roots, trivial)


def component_vectors(graph: NormalizedGraph, k: int) -> Float64s:
    """Return orthonormal vectors of N's eigenvalue 1, orthogonal to the constant y, (n × min(k, c - 1)).

    They tell the components apart, the largest first.
    """
    c = graph.trivial.shape[1]
    constant = graph.trivial.T @ graph.roots
    basis = np.column_stack([constant, np.eye(c, min(k, c - 1))])
    return graph.trivial @ np.linalg.qr(basis)[0][:, 1:]


def deflated_product(graph: NormalizedGraph, X: Float64s) -> Float64s:
    """Return (N + I - 3 E Eᵀ) X: the eigenvalues of N plus one, 0 to 2, and -1 for the trivial ones."""
    return graph.matrix @ X + X - 3 * (graph.trivial @ (graph.trivial.T @ X))


def eigenmap_residuals(graph: NormalizedGraph, vectors: Float64s, values: Float64s) -> Float64s:
    """Return ‖N z - (1 - λ) z‖, (k,), of the unit z = D^½ y for y (n × k)."""
    z = graph.roots[:, None] * vectors
    misfit = graph.matrix @ z
    z *= 1 - values
    misfit -= z
    return np.linalg.norm(misfit, axis=0)


def pairs_above(X: Any, Z: Any, threshold: float, max_pairs: int) -> sp.csr_array:
    """Return the cosines above a threshold between unit rows of X and of Z, (r × s).

    Raises
    ------
    ValueError
        If there are more than max_pairs.
    """
    if sp.issparse(X):
        found = sp.csr_array(X @ Z.T)
        found.data[found.data <= threshold] = 0
        found.eliminate_zeros()
    else:
        cosines = np.asarray(X @ Z.T)
        found = sp.csr_array(np.where(cosines > threshold, cosines, 0))
    if found.nnz > max_pairs:
        raise ValueError(
            f"threshold {threshold} joins {found.nnz} pairs of {X.shape[0]} rows with {Z.shape[0]}; "
            "raise it, or use n_neighbors"
        )
    found.sort_indices()
    return found


def dense_columns(block: sp.csr_array, *, first: int, last: int) -> Float64s:
    """Return some neighbouring columns of one row block, dense, in C order."""
    return np.asarray(block[:, first:last].toarray(), dtype=np.float64, order="C")


def solve_ridge(products: Float64s, right: Float64s, alpha: float) -> Float64s:
    """Return (P + alpha I)^-1 B for P = XᵀX (m × m), which is overwritten."""
    products.flat[:: len(products) + 1] += alpha
    return scipy.linalg.solve(products, right, assume_a="pos", overwrite_a=True)


def locality_directions(X: Float64s, affinity: sp.csr_array, k: int) -> tuple[Float64s, Float64s]:
    r"""Return the k smallest λ of XᵀLX w = λ XᵀDX w, rising, and their w (r × k) with wᵀXᵀDXw = 1.

    Where the constant vector is in the span of X it would be the first, with λ = 0, and is left out.

    Parameters
    ----------
    X : (n × r), of full column rank
    affinity : CSR (n × n), without isolated vertices

    References
    ----------
    He and Niyogi 2003, Locality preserving projections, equation 2.
    """
    degrees = np.asarray(affinity.sum(axis=1)).ravel()
    weighted = X * degrees[:, None]
    right = X.T @ weighted
    left = right - X.T @ (affinity @ X)
    sums, volume = weighted.sum(axis=0), degrees.sum()
    inside = sums @ scipy.linalg.solve(right, sums, assume_a="pos") / volume
    if inside > CONSTANT_SHARE:
        left = left + 2 * np.outer(sums, sums) / volume
    values, directions = scipy.linalg.eigh((left + left.T) / 2, (right + right.T) / 2)
    return values[:k], directions[:, :k]


def random_signs(n_rows: int, n_columns: int, density: float, generator: np.random.Generator) -> Float64s:
    """Return ±1/√(n_columns density) with probability density/2 each, else 0; (n_rows × n_columns)."""
    out = np.zeros((n_rows, n_columns))
    for row in out:
        draws = generator.random(n_columns)
        row[draws < density] = -1
        row[draws < density / 2] = 1
    out /= np.sqrt(n_columns * density)
    return out
