"""Association of one block of counts.

Symbols: `x` the counts of one block, rows `i` (left words) by columns `j` (right words); `n_i` the total of
row `i` over the whole vocabulary; `u_j` the probability of word `j`; `kappa` the share of the unigram
distribution in Jelinek-Mercer smoothing. Logarithms are natural. Sparse blocks are `csr_array` with sorted
indices and no duplicates; functions on values take the stored values of such a block, not the block.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from distembed.linalg.csr import canonical_csr, rows_of, with_values

Floats = NDArray[np.floating]


def check_counts(block: csr_array, first_row: int = 0) -> csr_array:
    """Return a block of counts if every count is finite and not negative.

    Raises
    ------
    ValueError
        If a count is NaN, infinite or negative; the message names it and its place.
    """
    wrong = ~(np.isfinite(block.data) & (block.data >= 0))
    if wrong.any():
        place = int(np.argmax(wrong))
        row = first_row + int(np.searchsorted(block.indptr, place, side="right")) - 1
        raise ValueError(
            f"counts hold {block.data[place]} at row {row}, column {block.indices[place]}; "
            "counts must be finite and not negative: remove or clip such cells before fitting"
        )
    return block


def column_sums(block: csr_array) -> Floats:
    """Sum each column of a block in float64, shape (columns,)."""
    return np.asarray(np.ones(block.shape[0]) @ block)


def pmi(
    block: object, row_totals: Floats, probabilities: Floats, *, shift: float, positive: bool
) -> csr_array:
    """Return pointwise mutual information on the support of a block.

    ``PMI_ij = log(x_ij / (n_i p_j)) - shift``; with `positive` what is not above zero is not stored.

    Parameters
    ----------
    block : csr_array (rows, columns)
        Counts.
    row_totals : (rows,) float64
        n_i.
    probabilities : (columns,) float64
        p_j, the distribution of context words.
    shift : float
        Subtracted, in nats.
    positive : bool
        Keep only values above zero.

    Returns
    -------
    csr_array (rows, columns) float32
    """
    counts = canonical_csr(block)
    expected = row_totals[rows_of(counts)] * probabilities[counts.indices]
    result = with_values(counts, np.log(counts.data / expected) - shift)
    if positive:
        np.maximum(result.data, 0, out=result.data)
        return canonical_csr(result)
    return result


@numba.njit(cache=True, nogil=True)
def excess_of_pair(x, row_total, unigram, smoothing):  # type: ignore[no-untyped-def]
    """Return D = G - log(kappa), what a count of one pair adds to the smoothed PMI of an unseen pair.

    ``D = log(1 + (1 - kappa) x / (kappa n_i u_j))``, zero where `x` is zero (PSDVec, section 2); float64.
    """
    return np.log1p((1 - smoothing) / smoothing * x / (row_total * unigram)) if x > 0 else 0.0


def excess_of_block(block: object, row_totals: Floats, unigram: Floats, *, smoothing: float) -> csr_array:
    """Return D of `excess_of_pair` on the support of a block, csr_array (rows, columns) float32.

    Parameters
    ----------
    block : csr_array (rows, columns)
        Counts.
    row_totals : (rows,) float64
        n_i.
    unigram : (columns,) float64
        u_j, the probabilities of the words of the columns.
    smoothing : float
        kappa.
    """
    counts = canonical_csr(block)
    expected = row_totals[rows_of(counts)] * unigram[counts.indices]
    return with_values(counts, np.log1p((1 - smoothing) / smoothing * counts.data / expected))


def count_at_least(block: object, thresholds: Floats) -> NDArray[np.int64]:
    """Count the values whose square root reaches each threshold, shape (thresholds,), int64."""
    roots = np.sort(np.sqrt(canonical_csr(block).data, dtype=np.float64))
    return (len(roots) - np.searchsorted(roots, thresholds, side="left")).astype(np.int64)


def largest_values(values: Floats, size: int) -> Floats:
    """Return the `size` largest values in falling order, padded with -inf, float64."""
    padded = np.full(size, -np.inf)
    kept = np.sort(values.astype(np.float64))[::-1][:size]
    padded[: len(kept)] = kept
    return padded


def as_same_kind(result: csr_array, like: object) -> csr_array | NDArray[np.float32]:
    """Return a block dense where `like` is dense, sparse otherwise."""
    return result if issparse(like) else result.toarray()
