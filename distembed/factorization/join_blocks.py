r"""Several views of the same words side by side: one block of rows.

Symbols: `V_j` the rows of view j (rows × d_j), `m_j` its mean (d_j,), `w_j` its weight, `U_j` the directions of the
rows ``V_j - m_j``, and `G_j` = U_j U_jᵀ their inner products, which are cosines. A row of zeros is a word that a view
lacks: it has no part in the mean, and stays zero. The joined rows are

    J = [w_1 U_1, w_2 U_2, ...],    J Jᵀ = sum_j w_j² G_j.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distembed.dtypes import Float32s, Float64s, Floats, Int64s
from distembed.linalg.blocks import ROUNDED
from distembed.linalg.csr import unit_rows
from distembed.temporaries import block


@block(temporaries=0.5)
def aligned_rows(rows: Int64s, *, vectors: Floats) -> Floats:
    """Return the rows of vectors of so many numbers, (rows, d), and zeros for each that is -1."""
    found = vectors[rows]
    found[rows < 0] = 0
    return found


@block(temporaries=0.5)
def row_totals(block: Floats) -> Float64s:
    """Return the sum of the rows of a block, and after it how many of them are not zero, (d + 1,)."""
    sums = block.sum(axis=0, dtype=np.float64)
    return np.append(sums, np.count_nonzero(_is_present(block)))


def mean_of_totals(totals: Float64s) -> Float64s:
    """Return m_j, (d,), from the sum of the `row_totals` of all blocks; zero where a view has no rows."""
    return totals[:-1] / max(totals[-1], 1)


@block(temporaries=1.5)
def centered_directions(block: Floats, mean: Floats) -> Float64s:
    """Return U_j, (rows, d_j); a row that is zero, or is the mean but for rounding, stays or becomes zero."""
    centered = block - mean
    is_apart = np.abs(centered).max(axis=1) > ROUNDED * np.abs(mean).max()
    centered[~(is_apart & _is_present(block))] = 0.0
    return np.asarray(unit_rows(centered), np.float64)


@block(temporaries=2.5)
def join(*blocks: Floats, weights: Sequence[float]) -> Float32s:
    """Return J, (rows, d_1 + d_2 + ...), of all V_j followed by all m_j."""
    rows, means = blocks[: len(weights)], blocks[len(weights) :]
    parts = zip(rows, means, weights, strict=True)
    joined = np.empty((len(rows[0]), sum(view.shape[1] for view in rows)), np.float32)
    first = 0
    for view, mean, weight in parts:
        joined[:, first : first + view.shape[1]] = weight * centered_directions(view, mean)
        first += view.shape[1]
    return joined


def _is_present(block: Floats) -> Any:
    return block.any(axis=1)
