"""The join of several views of the same words, by row blocks: their directions side by side, weighted.

One count matrix answers one question, and another one another: the views are factorized each by itself and joined. No
view is aligned with another, because the cosine of two joined rows is the weighted mean of their cosines in the views.
"""

from __future__ import annotations

from collections.abc import Sequence

import dask.array as da
import numpy as np

from distembed.display import plural
from distembed.dtypes import Float64s, Floats
from distembed.execution import compute, one_blas_thread
from distembed.factorization import join_blocks as blocks
from distembed.lift import fold, lift, total
from distembed.linalg.blocks import centered_gram, gram
from distembed.linalg.eigen import fix_signs
from distembed.linalg.operators import dense_blocks, times_matrix
from distembed.typing import DenseMatrix, Matrix
from distembed.validation import check_matrix

LEAST_COMPONENTS = 2
"""Components of a view: of one number its sign alone is left, once the mean is taken and the length is 1."""


def view_mean(part: da.Array) -> da.Array:
    """Return the mean of the rows that a view has, (d,) float64: of those that are not zero.

    Parameters
    ----------
    part : Dask array (n, d)
        In blocks of whole rows.
    """
    row = total(blocks.row_totals)._replace(finalize=blocks.mean_of_totals)
    return fold(row, "wc", part, shape=part.shape[1:])


def joined_rows(
    parts: Sequence[DenseMatrix], weights: Sequence[float], *, means: Sequence[Floats] | None = None
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
    means : sequence of float64 arrays (d_j,), optional
        m_j, which new rows need that are to be joined as earlier ones were; by default `view_mean` of each view.

    Returns
    -------
    Dask array (n, d_1 + d_2 + ...) float32

    Raises
    ------
    ValueError
        If there is one view only, a view has one component or other numbers of rows, a weight is not above zero, or
        there is not one for each view. If a value is NaN or infinite: when its block is computed.
    """
    views = _checked(parts)
    checked = check_weights(weights, len(views))
    centers = [view_mean(view) for view in views] if means is None else means
    n = len(views)
    indices = ",".join([*["wc"] * n, *["c"] * n])
    width = sum(view.shape[1] for view in views)
    return lift(blocks.join, f"{indices}->wc", *views, *centers, sizes={"c": width}, weights=checked)


def principal_axes(rows: da.Array, n_components: int) -> Float64s:
    """Return the directions in which rows are longest, as columns, those of the largest sums of squares first.

    They are the eigenvectors of ``JᵀJ`` for the rows J, which are not centered: `projected_rows` on these axes have the
    inner products that are nearest to those of the rows, and the views are centered already. Each axis has the sign
    that makes the sum of the cubes of its values positive.

    Parameters
    ----------
    rows : Dask array (n, d)
        In blocks of whole rows.
    n_components : int
        1 to d.

    Returns
    -------
    float64 array (d, n_components)

    Raises
    ------
    ValueError
        If there are more components than columns or rows.
    """
    most = min(rows.shape)
    if not 1 <= n_components <= most:
        raise ValueError(
            f"n_components is {n_components}, and the joined rows are {rows.shape[0]} x {rows.shape[1]}: give 1 to "
            f"{most}, or leave it out to keep all components"
        )
    width = rows.shape[1]
    products = compute(fold(total(gram), "wa", rows, shape=(width, width)))
    with one_blas_thread():
        vectors = np.linalg.eigh(products)[1][:, ::-1][:, :n_components]
        return np.asarray(fix_signs(vectors), np.float64)


def first_directions(rows: da.Array, n: int) -> tuple[Float64s, Float64s]:
    """Return the mean (d,) of rows that are not zero, and their first n principal axes (d, n) about it, as columns."""
    width = rows.shape[1]
    mean = compute(view_mean(rows))
    moments = compute(fold(total(centered_gram), "wa,a", rows, mean, shape=(width, width)))
    with one_blas_thread():
        return mean, np.ascontiguousarray(np.linalg.eigh(moments)[1][:, width - n :])


def projected_rows(rows: da.Array, axes: Floats) -> da.Array:
    """Return the coordinates of rows (n, d) on axes (d, k), a Dask array (n, k) in the row chunks of the rows."""
    return times_matrix(rows, axes)


def check_views(views: Sequence[Matrix]) -> None:
    """Refuse views that cannot be joined, whatever their rows are.

    Raises
    ------
    ValueError
        If there are less than two, or one has less than two components.
    """
    if len(views) < 2:
        raise ValueError(f"a join of {plural(len(views), 'view')} is asked for: give two views or more")
    for number, view in enumerate(views, 1):
        if view.shape[1] < LEAST_COMPONENTS:
            raise ValueError(
                f"view {number} has one component, whose centered rows have no direction but a sign: give a view of "
                f"{LEAST_COMPONENTS} components or more"
            )


def check_weights(weights: Sequence[float], n_views: int) -> tuple[float, ...]:
    """Return the weights of views as numbers.

    Raises
    ------
    ValueError
        If there is not one for each view, or one is not a finite number above zero.
    """
    checked = tuple(float(weight) for weight in weights)
    if len(checked) != n_views:
        raise ValueError(
            f"there are {len(checked)} weights for {n_views} views: give one for each view, in the same order"
        )
    for number, weight in enumerate(checked, 1):
        if not 0 < weight < np.inf:
            raise ValueError(
                f"the weight of view {number} is {weight:g}: give a finite number above 0, or leave that view out"
            )
    return checked


def _checked(parts: Sequence[DenseMatrix]) -> list[da.Array]:
    """Return views as Dask arrays in the row chunks of the first, whose values are checked as they are read."""
    views = [check_matrix(part, name=f"view {number}", sparse=False) for number, part in enumerate(parts, 1)]
    check_views(views)
    for number, view in enumerate(views, 1):
        if len(view) != len(views[0]):
            raise ValueError(
                f"view 1 has {len(views[0])} rows and view {number} has {len(view)}: give views of the same words in "
                "the same order, with rows of zeros for those that a view lacks"
            )
    row_chunks = views[0].chunks[0] if isinstance(views[0], da.Array) else (len(views[0]),)
    return [dense_blocks(view, row_chunks) for view in views]
