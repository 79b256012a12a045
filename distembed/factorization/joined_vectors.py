r"""Several views of the same words joined: their directions side by side, weighted, by row blocks or in memory.

One count matrix answers one question, and another one another: the views are factorized each by itself and joined. No
view is aligned with another, because the cosine of two joined rows is the weighted mean of their cosines in the views.

Symbols: `V_j` the rows of view j (rows × d_j), `m_j` its mean (d_j,), `w_j` its weight, `U_j` the directions of the
rows ``V_j - m_j``, and `G_j` = U_j U_jᵀ their inner products, which are cosines. A row of zeros is a word that a view
lacks: it has no part in the mean, and stays zero. The joined rows are

    J = [w_1 U_1, w_2 U_2, ...],    J Jᵀ = sum_j w_j² G_j.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

import dask.array as da
import numpy as np

from distembed.display import first_words, plural
from distembed.dtypes import Float32s, Float64s, Floats, Int64s
from distembed.execution import compute, one_blas_thread
from distembed.lift import fold, lift, total
from distembed.linalg.blocks import ROUNDED, centered_gram
from distembed.linalg.chunks import row_chunk
from distembed.linalg.csr import unit_rows
from distembed.linalg.eigen import fix_signs
from distembed.linalg.operators import dense_blocks, times_matrix
from distembed.options import PositiveFloat, PositiveInt, check_options
from distembed.states import block_memory
from distembed.temporaries import block
from distembed.vectors import WordVectors

LEAST_COMPONENTS = 2
"""Components of a view: of one number its sign alone is left, once the mean is taken and the length is 1."""


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
    return np.append(sums, np.count_nonzero(block.any(axis=1)))


@block(temporaries=1.5)
def centered_directions(block: Floats, mean: Floats) -> Float64s:
    """Return U_j, (rows, d_j); a row that is zero, or is the mean but for rounding, stays or becomes zero."""
    centered = block - mean
    is_apart = np.abs(centered).max(axis=1) > ROUNDED * np.abs(mean).max()
    centered[~(is_apart & block.any(axis=1))] = 0.0
    return np.asarray(unit_rows(centered), np.float64)


@block(temporaries=2.5)
def join(*blocks: Floats, weights: Sequence[float]) -> Float32s:
    """Return J, (rows, d_1 + d_2 + ...), of all V_j followed by all m_j."""
    rows, means, first = blocks[: len(weights)], blocks[len(weights) :], 0
    joined = np.empty((len(rows[0]), sum(view.shape[1] for view in rows)), np.float32)
    for view, mean, weight in zip(rows, means, weights, strict=True):
        joined[:, first : first + view.shape[1]] = weight * centered_directions(view, mean)
        first += view.shape[1]
    return joined


def view_mean(part: da.Array) -> da.Array:
    """Return the mean (d,) of the rows of blocks (n, d) that are not zero, float64; zero where there are none."""
    row = total(row_totals)._replace(finalize=lambda totals: totals[:-1] / max(totals[-1], 1))
    return fold(row, "wc", part, shape=part.shape[1:])


def joined_rows(
    parts: Sequence[Floats | da.Array], weights: Sequence[float], means: Sequence[Floats | da.Array]
) -> da.Array:
    r"""Return the directions of the centered rows of several views side by side, weighted, lazily.

    .. math:: j_i = \left[ w_1 \frac{v_{1i} - m_1}{\|v_{1i} - m_1\|},\; w_2 \frac{v_{2i} - m_2}{\|v_{2i} - m_2\|},
              \dots \right]

    A row of zeros is a word that a view lacks: it is not in the mean, and its part stays zero. Where no view lacks a
    word, the cosine of two joined rows is the mean of their cosines in the views, weighted by the squares of w.

    Parameters
    ----------
    parts : sequence of arrays (n, d_j)
        The views: row i of each belongs to word i. The result has the row chunks of the first.
    weights : sequence of float
        w_j, above 0, one for each view.
    means : sequence of float64 arrays (d_j,)
        m_j: `view_mean` of each view, or of that to whose rows others are joined later.

    Returns
    -------
    Dask array (n, d_1 + d_2 + ...) float32

    Raises
    ------
    ValueError
        If a view has less than two components.
    """
    for number, part in enumerate(parts, 1):
        if part.shape[1] < LEAST_COMPONENTS:
            raise ValueError(
                f"view {number} has one component, whose centered rows have no direction but a sign: give a view of "
                f"{LEAST_COMPONENTS} components or more"
            )
    row_chunks = parts[0].chunks[0] if isinstance(parts[0], da.Array) else (len(parts[0]),)
    views = [dense_blocks(part, row_chunks) for part in parts]
    indices = ",".join([*["wc"] * len(views), *["c"] * len(views)])
    width = sum(view.shape[1] for view in views)
    return lift(join, f"{indices}->wc", *views, *means, sizes={"c": width}, weights=tuple(weights))


def principal_axes(rows: da.Array, n: int, mean: Floats) -> Float64s:
    """Return the n directions in which rows about a mean (d,) are longest, as columns (d, n), the longest first.

    Rows of zeros are left out. Each axis has the sign that makes the sum of the cubes of its values positive. About a
    mean of zero the coordinates of the rows on the axes have the inner products that are nearest to those of the rows.
    """
    moments = compute(fold(total(centered_gram), "wa,a", rows, mean, shape=(rows.shape[1],) * 2))
    with one_blas_thread():
        return np.asarray(fix_signs(np.linalg.eigh(moments)[1][:, ::-1][:, :n]), np.float64, order="C")


def join_vectors(
    views: Sequence[WordVectors | str | Path],
    *,
    weights: Sequence[PositiveFloat] | None = None,
    words: Literal["intersection", "union"] = "intersection",
    n_components: PositiveInt | None = None,
) -> WordVectors:
    r"""Join the vectors that several views have of the same words: their directions side by side, weighted.

    .. math:: j_w = \left[ w_1 \frac{v_{1w} - m_1}{\|v_{1w} - m_1\|},\; w_2 \frac{v_{2w} - m_2}{\|v_{2w} - m_2\|},
              \dots \right]

    m is the mean of the rows of a view that are joined. Nothing has to be aligned: the cosine of two words that all
    views have is the mean of their cosines in the views, weighted by the squares of w. Words are matched as they are
    written; case is not changed. Tables of n-grams are left out: `SubwordMap` learns one from the joined vectors.

    Parameters
    ----------
    views : sequence of WordVectors, str or Path
        Two or more, of two components or more each; a path is loaded as by `WordVectors.load`.
    weights : sequence of float, optional
        w, above 0, one for each view; by default 1 for each.
    words : {"intersection", "union"}
        The words that all views have, in the order of the first; or also those that some views lack, in the order in
        which the views bring them. Where a view lacks a word, its part of the row is zero.
    n_components : int, optional
        The number of principal axes of the joined rows that are kept, which are not centered again: the inner products
        of the result are the nearest of its rank. By default the rows have the components of all views together.

    Returns
    -------
    WordVectors

    Raises
    ------
    ValueError
        If there is one view only, a view has one component or no word in common with another, a weight is not above
        zero, there is not one for each view, or more components are asked for than there are.
    TypeError
        If a view is neither word vectors nor a path.

    Examples
    --------
    >>> import distembed as de
    >>> topics = de.WordVectors(["cat", "dog", "tax", "vote"], [[2, 1], [2, 2], [-2, 1], [-2, 2]])
    >>> forms = de.WordVectors(["dog", "cat", "vote"], [[1, 0, 0], [0, 1, 0], [0, 0, 3]])
    >>> joined = de.join_vectors([topics, forms], weights=[1, 0.5])
    >>> joined
    WordVectors(3 words, 5 components: 'cat', 'dog', 'vote')
    >>> print(joined["cat"].round(2))
    [ 0.89 -0.45 -0.13  0.27 -0.4 ]
    >>> de.join_vectors([topics, forms], words="union", n_components=2)
    WordVectors(4 words, 2 components: 'cat', 'dog', 'tax', …)
    """
    if isinstance(views, str | Path | WordVectors):
        raise TypeError(f"views is one {type(views).__name__}: give a list of two or more")
    check_options(join_vectors, {"weights": weights, "words": words, "n_components": n_components})
    chosen = [1.0] * len(views) if weights is None else [float(weight) for weight in weights]
    if len(chosen) != len(views) or len(views) < 2:
        raise ValueError(
            f"there are {plural(len(views), 'view')} and {plural(len(chosen), 'weight')}: give two views or more, and "
            "one weight for each, in the same order"
        )
    for number, view in enumerate(views, 1):
        if not isinstance(view, str | Path | WordVectors):
            raise TypeError(
                f"view {number} is a {type(view).__name__}: give WordVectors(words, vectors), or the path of a file of "
                "them"
            )
    loaded = [view if isinstance(view, WordVectors) else WordVectors.load(view) for view in views]
    n_views = Counter(chain.from_iterable(view.words for view in loaded))
    for number, view in enumerate(loaded, 1):
        if all(n_views[word] == 1 for word in view):
            raise ValueError(
                f"view {number}, which begins with {first_words(view.words)}, has no word in common with the others: "
                "give vectors of the same words, in the same case"
            )
    joined = [word for word, n in n_views.items() if words == "union" or n == len(loaded)]
    if not joined:
        raise ValueError('no word is in all views: give words="union", or leave a view out')
    widths = [view.vectors.shape[1] for view in loaded]
    chunk = row_chunk(len(joined), 4 * max(widths), block_memory())
    parts = [
        lift(
            aligned_rows, "w->wc", da.from_array(view.index(joined), chunks=chunk), sizes={"c": width},
            vectors=view.vectors,
        )
        for view, width in zip(loaded, widths, strict=True)
    ]  # fmt: skip
    rows = joined_rows(parts, chosen, compute([view_mean(part) for part in parts]))
    if n_components is not None:
        if n_components > (most := min(rows.shape)):
            raise ValueError(
                f"n_components is {n_components}, and the joined rows are {rows.shape[0]} x {rows.shape[1]}: give 1 to "
                f"{most}, or leave it out to keep all components"
            )
        rows = times_matrix(rows, principal_axes(rows, n_components, np.zeros(rows.shape[1])))
    # Read a block at a time: no second copy is held.
    vectors = np.empty(rows.shape, np.float32)
    da.store(rows, vectors, lock=False, scheduler="synchronous")
    return WordVectors(joined, vectors)
