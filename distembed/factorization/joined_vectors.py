"""Word vectors of several files or models joined word by word; `joined_rows`, beside it, has the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from distembed.display import first_words
from distembed.execution import compute, map_blocks, readers
from distembed.factorization.join_blocks import aligned_rows
from distembed.factorization.joined_rows import (
    check_views,
    check_weights,
    joined_rows,
    learned_weights,
    principal_axes,
    projected_rows,
    view_mean,
)
from distembed.linalg.chunks import BLOCK_MEMORY, batches, row_chunk
from distembed.vectors import WordVectors

Weights = Sequence[float] | Literal["learned"]
"""One number for each view, or how they are found."""

JoinedWords = Literal["intersection", "union"]
"""The words that all views have, or those that any of them has."""


class Joined(NamedTuple):
    """Joined vectors, and the weights that the views have in them."""

    vectors: WordVectors
    weights: tuple[float, ...]


def join_vectors(
    views: Sequence[WordVectors | str | Path],
    *,
    weights: Weights | None = None,
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
    weights : sequence of float, or "learned", optional
        w, above 0, one for each view; by default 1 for each. "learned" finds them without labels, by the pairwise
        inner-product loss that Bollegala (2022) uses, here to the other views, on the words that all views have:

        .. math:: w_j^2 = \operatorname{mean}_{k \ne j}
                  \frac{\langle G_k, G_j \rangle}{\langle G_j, G_j \rangle}

        with G the matrix of all cosines in a view; the largest is 1. `joined_rows.learned_weights` says more.
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

    References
    ----------
    Bollegala, Learning meta word embeddings by unsupervised weighted concatenation of source embeddings, IJCAI 2022.

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
    _given_weights(weights, len(views))
    loaded = [_loaded(view, number) for number, view in enumerate(views, 1)]
    return join_weighted(loaded, weights=weights, words=words, n_components=n_components).vectors


def join_weighted(
    views: Sequence[WordVectors],
    *,
    weights: Weights | None = None,
    words: JoinedWords = "intersection",
    n_components: int | None = None,
) -> Joined:
    """Return the result of `join_vectors`, and with it the weights, which may have been learned."""
    check_views([view.vectors for view in views])
    given = _given_weights(weights, len(views))
    common = _joined_words(views, words)
    chunks = batches(len(common), row_chunk(len(common), 4 * max(map(_width, views)), BLOCK_MEMORY))
    parts = [_aligned(view, common, chunks) for view in views]
    means = compute([view_mean(part) for part in parts])
    chosen = given or tuple(learned_weights(parts, means=means).tolist())
    rows = joined_rows(parts, chosen, means=means)
    if n_components is not None:
        rows = projected_rows(rows, principal_axes(rows, n_components))
    return Joined(WordVectors(common, _filled(rows)), chosen)


def _given_weights(weights: Weights | None, n_views: int) -> tuple[float, ...] | None:
    """Return the weight of each view, None where they are to be learned."""
    if weights is None:
        return (1.0,) * n_views
    if not isinstance(weights, str):
        return check_weights(weights, n_views)
    if weights != "learned":
        raise ValueError(f'weights is {weights!r}: give a number above 0 for each view, or "learned"')
    return None


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


def _width(view: WordVectors) -> int:
    return view.vectors.shape[1]


def _aligned(view: WordVectors, words: Sequence[str], chunks: tuple[int, ...]) -> da.Array:
    """Return the rows of words in a view, zeros for those that it lacks, copied as blocks are read."""
    rows = da.from_array(view.index(words), chunks=(chunks,))
    return map_blocks(
        aligned_rows,
        rows,
        vectors=view.vectors,
        new_axis=1,
        chunks=(chunks, (_width(view),)),
        dtype=np.float32,
        meta=np.empty((0, 0), np.float32),
    )


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
    for read in readers(rows):
        block = read()
        filled[first : first + len(block)] = block
        first += len(block)
    return filled
