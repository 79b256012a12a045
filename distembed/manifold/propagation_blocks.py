"""Mathematics of one block for the search for further correspondences: maps, candidate pairs, probabilities.

Letters
-------
X, Y : rows of two sets, (n × d) and (m × e). c_ij : the confidence that rows i and j correspond.
s_ij : CSLS of a candidate pair, 2 cos_ij - r_i - r_j, r the mean cosine of a row with its listed neighbors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from distembed.dtypes import Float64s, Int64s
from distembed.linalg.csr import unit_rows
from distembed.temporaries import block

ZERO_STRENGTH = 1e-13
"""Share of the largest singular value under which one is rounding."""


@block(temporaries=0.5)
def mapped(rows: Float64s, weights: Float64s) -> Float64s:
    """Return the images of rows under a linear map."""
    return rows @ weights


@block(temporaries=1)
def mapped_directions(rows: Float64s, weights: Float64s) -> Float64s:
    """Return the images of rows under a linear map, scaled to length one."""
    return unit_rows(rows @ weights)


def linked_product(X: Float64s, Y: Float64s, links: sp.csr_array) -> Float64s:
    """Return Σ c_ij x_j y_iᵀ, (d × e), over the links of rows i of Y (rows) and j of X (columns)."""
    pairs = links.tocoo()
    return (X[pairs.col] * pairs.data[:, None]).T @ Y[pairs.row]


def reweighted_maps(product: Float64s, *, exponent: float) -> tuple[Float64s, Float64s]:
    """Return U S^p (d × r) and V S^p (e × r) of Σ c_ij x_j y_iᵀ = U S Vᵀ, S divided by its largest value.

    They take both sets to the space in which paired rows agree, each direction by how much they do. With p = 0
    and r = d = e, U Vᵀ is `procrustes_map`.

    References
    ----------
    Artetxe, Labaka & Agirre 2018, Generalizing and improving bilingual word embedding mappings, section 3.
    """
    left, strengths, right = np.linalg.svd(product, full_matrices=False)
    kept = strengths > ZERO_STRENGTH * strengths[0]
    scale = (strengths[kept] / strengths[0]) ** exponent
    return left[:, kept] * scale, right[kept].T * scale


class CandidatePairs(NamedTuple):
    """Pairs of rows of two sets that are among each other's nearest."""

    pairs: Int64s
    """Int64, (p × 2)."""
    scores: Float64s
    """Float64, (p,), CSLS."""


def mean_cosines(lists: Float64s) -> Float64s:
    """Return r of each row, (rows,), from its list of squared distances of unit rows."""
    means: Float64s = 1 - lists[:, 0].mean(axis=1) / 2
    return means


def candidate_pairs(
    forth: Float64s, back: sp.csr_array, back_means: Float64s, *, first_row: int = 0
) -> CandidatePairs:
    """Return the pairs that a block of rows of the first set is part of, by row and column, with their CSLS.

    Parameters
    ----------
    forth : array (b, 2, k)
        The neighbor lists of the block in the second set: squared distances of unit rows, and row numbers.
    back : CSR array (b × m)
        The same distances where rows of the second set list rows of the block.
    back_means : array (m,)
        r of the rows of the second set.
    first_row : int
        The number of the first row of the block.
    """
    listed, n_columns = back.tocoo(), back.shape[1]
    i = np.repeat(np.arange(len(forth)), forth.shape[2])
    own, others = i * n_columns + forth[:, 1].ravel().astype(np.int64), listed.row * n_columns + listed.col
    keys, first = np.unique(np.concatenate([own, others]), return_index=True)
    rows, columns = np.divmod(keys, n_columns)
    cosines = 1 - np.concatenate([forth[:, 0].ravel(), listed.data])[first] / 2
    scores = 2 * cosines - mean_cosines(forth)[rows] - back_means[columns]
    return CandidatePairs(np.column_stack([first_row + rows, columns]), scores)


class BestChoice(NamedTuple):
    """The best of what each row was offered so far: its number (-1 for none) and its score."""

    choices: Int64s
    scores: Float64s

    @classmethod
    def none(cls, n_rows: int) -> BestChoice:
        """Return no choice for any row."""
        return cls(np.full(n_rows, -1), np.full(n_rows, -np.inf))

    def improve(self, rows: Int64s, offers: Int64s, scores: Float64s) -> None:
        """Take better offers, in place; of equal ones the first stays."""
        best = best_of_each(rows, scores)
        best = best[scores[best] > self.scores[rows[best]]]
        self.choices[rows[best]], self.scores[rows[best]] = offers[best], scores[best]


def best_of_each(groups: Int64s, scores: Float64s) -> Int64s:
    """Return the position of the largest score of each group, the first of equals."""
    order = np.lexsort((np.arange(len(groups)), -scores, groups))
    return order[np.unique(groups[order], return_index=True)[1]]


def true_margins(candidates: CandidatePairs, rows: Int64s, columns: Int64s) -> Float64s:
    """Return the scores of each true pair's column less its own, (pairs, most candidates), NaN beyond its candidates.

    The row of a pair that is no candidate is NaN throughout.
    """
    order = np.argsort(candidates.pairs[:, 1], kind="stable")
    pairs, scores = candidates.pairs[order], candidates.scores[order]
    begin, end = (np.searchsorted(pairs[:, 1], columns, side) for side in ("left", "right"))
    margins = np.full((len(rows), int((end - begin).max(initial=1))), np.nan)
    for place, (row, first, last) in enumerate(zip(rows, begin, end, strict=True)):
        own = np.flatnonzero(pairs[first:last, 0] == row)
        if own.size:
            margins[place, : last - first] = scores[first:last] - scores[first + own[0]]
    return margins


TEMPERATURES = (1e-3, 10.0)


def likeliest_temperature(margins: list[Float64s]) -> float:
    """Return the T that maximizes Π 1 / Σ exp(margin / T), the likelihood of the true pairs."""
    if not margins:
        return TEMPERATURES[1]

    def loss(log_temperature: float) -> float:
        return sum(float(np.logaddexp.reduce(values * np.exp(-log_temperature))) for values in margins)

    return float(np.exp(minimize_scalar(loss, bounds=np.log(TEMPERATURES), method="bounded").x))
