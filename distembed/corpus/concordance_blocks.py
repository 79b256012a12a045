"""Where words stand together in one batch of token ids."""

from __future__ import annotations

import numpy as np

from distembed.dtypes import Int32s, Int64s


def meetings(
    ids: Int32s,
    documents: Int64s,
    keywords: Int32s,
    contexts: Int32s,
    pairs: Int64s,
    *,
    window: int,
) -> tuple[Int64s, Int64s, Int64s]:
    """Return where a keyword stands within `window` places of a context word that belongs to it.

    Parameters
    ----------
    ids : (n,) int32
        Token ids; -1 is a border, which no pair crosses and no place counts.
    documents : (n,) int64
        The document of each id.
    keywords, contexts : (n_words,) int32
        The number of the keyword, and of the context word, that an id is; -1 for none.
    pairs : (n_keywords, n_contexts) int64
        The number of each pair that is looked for; -1 for others.
    window : int
        The largest distance, in places.

    Returns
    -------
    place, other, pair : (m,) int64
        The places of the keyword and of the context word among the ids, in the order of the text, and the number of
        their pair.
    """
    tokens = ids >= 0
    keyword, context = (np.where(tokens, numbers[ids], -1) for numbers in (keywords, contexts))
    borders = np.cumsum(~tokens)
    places = np.flatnonzero(keyword >= 0)
    steps = np.array([step for size in range(1, window + 1) for step in (-size, size)])
    own, others = np.repeat(places, len(steps)), (places[:, None] + steps).ravel()
    inside = (others >= 0) & (others < len(ids))
    own, others = own[inside], others[inside]
    met = (context[others] >= 0) & (documents[own] == documents[others]) & (borders[own] == borders[others])
    own, others = own[met], others[met]
    pair = pairs[keyword[own], context[others]]
    found = np.flatnonzero(pair >= 0)
    return own[found], others[found], pair[found]
