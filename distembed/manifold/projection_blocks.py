"""Mathematics of one block for Locality Preserving Projection.

Letters
-------
S : affinity of the graph, n × n, symmetric; D = diag(d), d its row sums; L = D - S.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]

CONSTANT_SHARE = 1 - 1e-9
"""Share of the constant vector's squared length in the span of X from which on it counts as inside."""


def pairs_above(X: Any, Z: Any, threshold: float) -> sp.csr_array:
    """Return the cosines above a threshold between unit rows of X and of Z, (r × s)."""
    if sp.issparse(X):
        found = sp.csr_array(X @ Z.T)
        found.data[found.data <= threshold] = 0
        found.eliminate_zeros()
    else:
        cosines = np.asarray(X @ Z.T)
        found = sp.csr_array(np.where(cosines > threshold, cosines, 0))
    found.sort_indices()
    return found


def dense_columns(block: sp.csr_array, *, first: int, last: int) -> Float64s:
    """Return some neighboring columns of one row block, dense, in C order."""
    return np.asarray(block[:, first:last].toarray(), dtype=np.float64, order="C")


def solve_ridge(products: Float64s, right: Float64s, alpha: float) -> Float64s:
    """Return (P + alpha I)^-1 B for P = XᵀX (m × m), which is overwritten."""
    products.flat[:: len(products) + 1] += alpha
    return scipy.linalg.solve(products, right, assume_a="pos", overwrite_a=True)


def locality_directions(X: Float64s, affinity: sp.csr_array, k: int) -> tuple[Float64s, Float64s]:
    """Return the k smallest λ of XᵀLX w = λ XᵀDX w, rising, and their w with wᵀXᵀDXw = 1.

    Where the constant vector is in the span of X it would be the first, with λ = 0, and is left out: the others
    are those with 1ᵀDXw = 0. So there are min(k, r) pairs, or min(k, r - 1).

    Parameters
    ----------
    X : (n × r), of full column rank
    affinity : CSR (n × n), without isolated vertices
    k : int
        The number of directions.

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
    basis = scipy.linalg.null_space(sums[None]) if inside > CONSTANT_SHARE else np.eye(len(sums))
    left, right = basis.T @ left @ basis, basis.T @ right @ basis
    values, directions = scipy.linalg.eigh((left + left.T) / 2, (right + right.T) / 2)
    return values[:k], basis @ directions[:, :k]


def random_signs(n_rows: int, n_columns: int, density: float, generator: np.random.Generator) -> Float64s:
    """Return ±1/√(n_columns density) with probability density/2 each, else 0; (n_rows × n_columns)."""
    out = np.zeros((n_rows, n_columns))
    for row in out:
        draws = generator.random(n_columns)
        row[draws < density] = -1
        row[draws < density / 2] = 1
    out /= np.sqrt(n_columns * density)
    return out
