"""Word vectors of several files or models joined word by word; `joined_rows`, beside it, has the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from distembed.display import first_words
from distembed.execution import compute
from distembed.factorization.join_blocks import aligned_rows
from distembed.factorization.joined_rows import (
    check_views,
    check_weights,
    joined_rows,
    principal_axes,
    projected_rows,
    view_mean,
)
from distembed.lift import lift
from distembed.linalg.chunks import row_chunk
from distembed.states import block_memory
from distembed.vectors import WordVectors

JoinedWords = Literal["intersection", "union"]
"""The words that all views have, or those that any of them has."""


def join_vectors(
    views: Sequence[WordVectors | str | Path],
    *,
    weights: Sequence[float] | None = None,
    words: JoinedWords = "intersection",
    n_components: int | None = None,
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
    chosen = check_weights([1.0] * len(views) if weights is None else weights, len(views))
    loaded = [_loaded(view, number) for number, view in enumerate(views, 1)]
    check_views([view.vectors for view in loaded])
    common = _joined_words(loaded, words)
    widest = max(view.vectors.shape[1] for view in loaded)
    chunk = row_chunk(len(common), 4 * widest, block_memory())
    parts = [
        lift(
            aligned_rows, "w->wc", da.from_array(view.index(common), chunks=chunk),
            sizes={"c": view.vectors.shape[1]}, vectors=view.vectors,
        )
        for view in loaded
    ]  # fmt: skip
    rows = joined_rows(parts, chosen, means=compute([view_mean(part) for part in parts]))
    if n_components is not None:
        rows = projected_rows(rows, principal_axes(rows, n_components))
    return WordVectors(common, _filled(rows))


def _loaded(view: WordVectors | str | Path, number: int) -> WordVectors:
    if isinstance(view, WordVectors):
        return view
    if not isinstance(view, str | Path):
        raise TypeError(
            f"view {number} is a {type(view).__name__}: give WordVectors(words, vectors), or the path of a file of them"
        )
    return WordVectors.load(view)


def _joined_words(views: Sequence[WordVectors], words: JoinedWords) -> list[str]:
    """Return the words of the joined rows; refuse views without a word in common."""
    if words not in get_args(JoinedWords):
        raise ValueError(f'words is {words!r}: give "intersection" or "union"')
    everything = list(dict.fromkeys(chain.from_iterable(view.words for view in views)))
    common = [word for word in views[0].words if all(word in view for view in views)]
    for number, view in enumerate(views, 1):
        others = [*views[: number - 1], *views[number:]]
        if not any(word in other for other in others for word in view):
            raise ValueError(
                f"view {number}, which begins with {first_words(view.words)}, has no word in common with the others, "
                f"of which the first begins with {first_words(others[0].words)}: give vectors of the same words, in "
                "the same case"
            )
    if words == "intersection" and not common:
        raise ValueError('no word is in all views: give words="union", or leave a view out')
    return everything if words == "union" else common


def _filled(rows: da.Array) -> NDArray[np.float32]:
    """Return all rows in one array, into which they are read a block at a time: no second copy is held."""
    try:
        filled = np.empty(rows.shape, np.float32)
    except MemoryError as error:
        raise MemoryError(
            f"{rows.shape[0]:,} joined rows of {rows.shape[1]} components do not fit the memory: give n_components, or "
            "views of fewer words"
        ) from error
    first = 0
    for number, n_rows in enumerate(rows.chunks[0]):
        filled[first : first + n_rows] = compute(rows.blocks[number], scheduler="synchronous")
        first += n_rows
    return filled
