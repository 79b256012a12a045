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
from sklearn.utils import gen_batches

from distembed.dtypes import Float64s
from distembed.temporaries import block

CONSTANT_SHARE = 1 - 1e-9
"""Share of the constant vector's squared length in the span of X from which on it counts as inside."""
LEAST_CONDITION = 1e-8
"""Reciprocal condition of XᵀX from which on eight digits are left of what is computed with it."""


@block(temporaries=1.5)
def pairs_above(X: Any, Z: Any, threshold: float) -> sp.csr_array:
    """Return the cosines above a threshold between unit rows of X and of Z, (r × s), some rows at a time."""
    size = X.nnz if sp.issparse(X) else X.size
    strips = []
    for rows in gen_batches(X.shape[0], max(1, size // (2 * Z.shape[0]))):  # whose cosines are half of X
        if sp.issparse(X):
            cosines = sp.csr_array(X[rows] @ Z.T)
            cosines.data[cosines.data <= threshold] = 0
            cosines.eliminate_zeros()
        else:
            dense = np.asarray(X[rows] @ Z.T)
            dense[dense <= threshold] = 0
            cosines = sp.csr_array(dense)
        strips.append(cosines)
    found = sp.csr_array(sp.vstack(strips, format="csr"))
    found.sort_indices()
    return found


@block(temporaries=0.5)
def dense_columns(block: sp.csr_array, *, first: int, last: int) -> Float64s:
    """Return some neighboring columns of one row block, dense, in C order."""
    return np.asarray(block[:, first:last].toarray(), dtype=np.float64, order="C")


@block(temporaries=0.5)
def with_ones(block: Any) -> Any:
    """Return a block of rows, sparse or dense, with a column of ones after its columns."""
    n, m = block.shape
    if sp.issparse(block):
        ends = block.indptr[1:]
        indptr = block.indptr + np.arange(n + 1, dtype=block.indptr.dtype)
        parts = np.insert(block.data, ends, 1), np.insert(block.indices, ends, m), indptr
        return sp.csr_array(parts, shape=(n, m + 1))
    return np.hstack([block, np.ones((n, 1), block.dtype)])


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
    weighted = X * np.sqrt(degrees)[:, None]
    right = weighted.T @ weighted
    left = right - X.T @ (affinity @ X)
    sums, volume = X.T @ degrees, degrees.sum()
    if sums @ scipy.linalg.solve(right, sums, assume_a="pos") / volume <= CONSTANT_SHARE:
        return _smallest_pairs(left, right, k)
    basis = scipy.linalg.null_space(sums[None])
    values, directions = _smallest_pairs(basis.T @ left @ basis, basis.T @ right @ basis, k)
    return values, basis @ directions


def _smallest_pairs(left: Float64s, right: Float64s, k: int) -> tuple[Float64s, Float64s]:
    """Return the k smallest λ of A w = λ B w, rising, and their w with wᵀBw = 1."""
    k = min(k, len(left))
    return (
        scipy.linalg.eigh(left, right, subset_by_index=(0, k - 1)) if k else (np.zeros(0), np.zeros((0, 0)))
    )


def is_well_conditioned(X: Float64s) -> bool:
    """Return whether XᵀX is positive definite, and its reciprocal condition at least `LEAST_CONDITION`."""
    if X.shape[0] < X.shape[1]:
        return False
    squares = X.T @ X
    size = np.abs(squares).sum(axis=0).max()
    factor, failed = scipy.linalg.lapack.dpotrf(squares)
    return not failed and scipy.linalg.lapack.dpocon(factor, size)[0] >= LEAST_CONDITION
