"""What the topics of documents are: the words that set them apart, what most of their documents have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.evaluation.topic_blocks import best_overlaps, documents_with_word, standardized_log_odds
from distembed.execution import compute, map_blocks, summed
from distembed.linalg.operators import whole_rows


def telling_words(counts: da.Array, labels: NDArray[np.int64], n_topics: int, n: int) -> list[list[int]]:
    """Return, for each topic, the words that set its documents apart most from those of all other topics.

    A topic can have frequent words first that say nothing of it. The words that its documents hold and others do not,
    such as the names of one book, say what was grouped.

    Parameters
    ----------
    counts : Dask array of csr_array row blocks (documents, words)
        How often a document holds a word.
    labels : (documents,)
        The topic of each document, -1 for none.
    n_topics, n : int
        The number of topics, and of words of each.

    Returns
    -------
    list of lists of int
        The columns of the words, the most telling first; only words that documents of the topic hold more often.

    References
    ----------
    Monroe, Colaresi & Quinn (2008), Fightin' Words, Political Analysis 16(4), equation 22.
    """
    blocks = whole_rows(counts)
    column = da.from_array(labels[:, np.newaxis], chunks=(blocks.chunks[0], 1))
    parts = map_blocks(
        _documents_with_word,
        blocks,
        column,
        n_topics=n_topics,
        chunks=((1,) * blocks.numblocks[0], (n_topics,), (counts.shape[1],)),
        new_axis=2,
        dtype=np.int64,
        meta=np.empty((0, 0, 0), np.int64),
    )
    held = compute(summed(parts))
    scores = standardized_log_odds(held, np.bincount(labels[labels >= 0], minlength=n_topics))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    return [
        [word for word in row.tolist() if scores[topic, word] > 0 and held[topic, word] > 0]
        for topic, row in enumerate(order)
    ]


def _documents_with_word(block: Any, column: NDArray[np.int64], *, n_topics: int) -> NDArray[np.int64]:
    return documents_with_word(block, column[:, 0], n_topics)


class LargestPart(NamedTuple):
    """The value of a column that most documents of a topic have.

    Attributes
    ----------
    column, value : str
        The column of the documents, and the value.
    share, share_of_all : float
        The share of the topic's documents that have it, and the share of all documents.
    """

    column: str
    value: str
    share: float
    share_of_all: float


def largest_parts(
    column: str, values: pa.Array | pa.ChunkedArray, labels: NDArray[np.int64], n_topics: int
) -> list[LargestPart | None]:
    """Return, for each topic, the value of a column that most of its documents have; None where no two have the same.

    Parameters
    ----------
    column : str
        The name of the column.
    values : Arrow array (documents,)
        The value of each document; null and "" are no value.
    labels : (documents,)
        The topic of each document, -1 for none.
    n_topics : int

    Examples
    --------
    >>> import numpy as np
    >>> books = pa.array(["Emma", "Emma", "Persuasion", "Emma", "Emma"])
    >>> largest_parts("title", books, np.array([0, 0, 0, 1, -1]), 2)
    [LargestPart(column='title', value='Emma', share=0.6666666666666666, share_of_all=0.8), None]
    """
    names, codes = np.unique(
        np.array(values.cast(pa.string()).fill_null("").to_pylist(), object), return_inverse=True
    )
    totals = np.bincount(codes, minlength=len(names))
    found: list[LargestPart | None] = []
    for topic in range(n_topics):
        members = codes[labels == topic]
        counts = np.where(names == "", 0, np.bincount(members, minlength=len(names)))
        top = int(counts.argmax())
        shares = float(counts[top] / max(members.size, 1)), float(totals[top] / len(codes))
        found.append(LargestPart(column, str(names[top]), *shares) if counts[top] > 1 else None)
    return found


def found_again(labels: NDArray[np.int64], starts: NDArray[np.int64], n_topics: int) -> NDArray[np.float64]:
    """Return how well other starts find each topic again, from 0 to 1, (topics,).

    It is the mean, over the starts, of the largest Jaccard index of the topic's documents with those of one topic of
    the start; NaN for a topic without documents, and where there is no other start.

    Parameters
    ----------
    labels : (documents,)
        The topic of each document, -1 for none.
    starts : (other starts, documents)
        The topics by each other start.
    n_topics : int

    References
    ----------
    Hennig (2007), Cluster-wise assessment of cluster stability, Computational Statistics & Data Analysis 52(1).
    """
    if not len(starts):
        return np.full(n_topics, np.nan)
    return np.asarray(np.mean([best_overlaps(labels, other, n_topics) for other in starts], axis=0))
