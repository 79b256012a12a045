"""Mathematics of what topics are: words that set their documents apart, and how well starts find them again."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.sparse import csr_array

from distembed.dtypes import Float64s, Int64s
from distembed.temporaries import block


@block(temporaries=1)
def documents_with_word(counts: csr_array, labels: Int64s, *, n_topics: int) -> Int64s:
    """Return how many documents of each topic hold each word, (topics, words), for a block of documents.

    A document of the label -1 belongs to no topic and is left out.
    """
    held = csr_array((np.ones(counts.nnz, np.int32), counts.indices, counts.indptr), shape=counts.shape)
    rows = np.flatnonzero(labels >= 0).astype(np.int32)
    shape = (n_topics, counts.shape[0])
    members = csr_array((np.ones(rows.size, np.int32), (labels[rows].astype(np.int32), rows)), shape=shape)
    return np.asarray((members @ held).toarray(), np.int64)


def standardized_log_odds(held: Int64s, n_documents: Int64s) -> Float64s:
    """Return how far each word sets a topic apart from all others, in standard deviations, (topics, words).

    It is the log of the odds that a document of the topic holds the word, over the odds that one of another topic
    does, divided by its standard deviation: equation 22 of Monroe, Colaresi & Quinn (2008), with counts of documents
    and a prior of half a document.

    Parameters
    ----------
    held : (topics, words)
        The documents of a topic that hold the word.
    n_documents : (topics,)
        The documents of a topic.
    """
    size = n_documents[:, np.newaxis]
    others, rest = held.sum(axis=0) - held, size.sum() - size
    cells = [cell + 0.5 for cell in (held, size - held, others, rest - others)]
    log_odds = np.log(cells[0] / cells[1]) - np.log(cells[2] / cells[3])
    return np.asarray(log_odds / np.sqrt(sum(1 / cell for cell in cells)))


def best_overlaps(labels: Int64s, other: Int64s, n_topics: int) -> Float64s:
    """Return, for each topic, the largest Jaccard index of its documents with those of a topic of another start.

    Parameters
    ----------
    labels, other : (documents,)
        The topic of each document, -1 for none.
    n_topics : int

    Returns
    -------
    float64 array (topics,)
        1: the other start has the same documents as one topic; NaN for a topic without documents.
    """
    both = (labels >= 0) & (other >= 0)
    n_others = int(other.max(initial=0)) + 1
    cells = labels[both] * n_others + other[both]
    joint = np.bincount(cells, minlength=n_topics * n_others).reshape(n_topics, n_others)
    sizes = np.bincount(labels[labels >= 0], minlength=n_topics)
    union = sizes[:, np.newaxis] + np.bincount(other[other >= 0], minlength=n_others) - joint
    best = (joint / np.maximum(union, 1)).max(axis=1)
    return np.where(sizes > 0, best, np.nan)


def share_interval(sums: Float64s, sizes: Int64s) -> tuple[Float64s, Float64s]:
    """Return the mean share of each topic, and half of its 95 % interval; NaN for one source.

    Parameters
    ----------
    sums : (sources, topics)
        The shares of a topic, added up over the documents of a source.
    sizes : (sources,)
        The documents of a source.
    """
    n = len(sizes)
    mean = sums.sum(axis=0) / sizes.sum()
    if n < 2:
        return mean, np.full(len(mean), np.nan)
    residuals = sums - mean * sizes[:, np.newaxis]
    variance = n / (n - 1) * (residuals**2).sum(axis=0) / sizes.sum() ** 2
    return mean, np.asarray(stats.t.ppf(0.975, n - 1) * np.sqrt(variance))
