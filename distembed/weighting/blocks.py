"""Association of one block of counts, and the weights of one block of documents.

Symbols: `x` the counts of one block, rows `i` (left words) by columns `j` (right words); `n_i` the total of
row `i` over the whole vocabulary; `u_j` the probability of word `j`; `kappa` the share of the unigram
distribution in Jelinek-Mercer smoothing. Logarithms are natural. Sparse blocks are `csr_array` with sorted
indices and no duplicates; functions on values take the stored values of such a block, not the block.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from scipy.sparse import csr_array

from distembed.dtypes import Float64s, Floats, Int64s
from distembed.linalg.csr import canonical_csr, rows_of, unit_rows, with_values
from distembed.temporaries import block


@block(temporaries=1)
def column_sums(block: csr_array) -> Floats:
    """Sum each column of a block in float64, shape (columns,)."""
    return np.asarray(np.ones(block.shape[0]) @ block)


@block(temporaries=2.5)
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
    return canonical_csr(result) if positive else result


@numba.njit(cache=True, nogil=True)
def excess_of_pair(x, row_total, unigram, smoothing):  # type: ignore[no-untyped-def]
    """Return D = G - log(kappa), what a count of one pair adds to the smoothed PMI of an unseen pair.

    ``D = log(1 + (1 - kappa) x / (kappa n_i u_j))``, zero where `x` is zero (PSDVec, section 2); float64.
    """
    return np.log1p((1 - smoothing) / smoothing * x / (row_total * unigram)) if x > 0 else 0.0


@block(temporaries=2)
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


@block(temporaries=2)
def count_at_least(block: object, thresholds: Floats) -> Int64s:
    """Count the values whose square root reaches each threshold, shape (thresholds,), int64."""
    roots = np.sort(np.sqrt(canonical_csr(block).data, dtype=np.float64))
    return (len(roots) - np.searchsorted(roots, thresholds, side="left")).astype(np.int64)


@block(temporaries=0)
def largest_value(block: Any) -> float:
    """Return the largest value of a block, 0 of an empty one."""
    return float(block.max()) if min(block.shape) else 0.0


# --- documents by words ------------------------------------------------------------------------------------------


@block(temporaries=3)
def weigh_tf_idf(block: Any, idf: Float64s, *, sublinear: bool, normalize: bool, dtype: Any) -> csr_array:
    """Return tf · idf of one block, its rows of unit length if `normalize`."""
    counts = canonical_csr(block)
    frequency = counts.data.astype(np.float64)
    values = (1 + np.log(frequency) if sublinear else frequency) * idf[counts.indices]
    weighted = with_values(counts, values, np.float64 if normalize else dtype)
    return unit_rows(weighted, dtype=dtype) if normalize else weighted


@block(temporaries=1)
def weigh_log_entropy(block: Any, weight: Float64s, *, dtype: Any) -> csr_array:
    """Return log(1 + tf) · weight of one block."""
    counts = canonical_csr(block)
    return with_values(counts, np.log1p(counts.data.astype(np.float64)) * weight[counts.indices], dtype)


@block(temporaries=1)
def column_frequencies(block: Any) -> Int64s:
    """Return the number of rows of the block that contain each word, (words,)."""
    return np.bincount(canonical_csr(block).indices, minlength=block.shape[1])


@block(temporaries=3)
def column_entropy_sums(block: Any) -> Float64s:
    """Return (2, words): the sum of tf and of tf log tf over the rows of the block."""
    counts = canonical_csr(block)
    frequency = counts.data.astype(np.float64)
    logs = frequency * np.log(frequency)
    return np.vstack([np.bincount(counts.indices, value, counts.shape[1]) for value in (frequency, logs)])


@block(temporaries=0)
def chosen_columns(block: Any, columns: Int64s) -> csr_array:
    """Return the given columns of one block, in the order given."""
    return canonical_csr(csr_array(block)[:, columns])


@block(temporaries=1)
def times_sparse(block: Any, places: csr_array) -> csr_array:
    """Return the product of one block with a sparse matrix."""
    return csr_array(csr_array(block) @ places)
