"""What the topics of documents are: the words that set them apart, what most of their documents have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse import csr_array

from distembed.dtypes import Float64s, Int64s
from distembed.execution import compute
from distembed.lift import block, fold, total
from distembed.linalg.operators import whole_rows


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
    shape = (n_topics, counts.shape[1])
    held = compute(
        fold(
            total(documents_with_word), "wd,w", whole_rows(counts), labels,
            shape=shape, dtype=np.int64, n_topics=n_topics,
        )
    )  # fmt: skip
    scores = standardized_log_odds(held, np.bincount(labels[labels >= 0], minlength=n_topics))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    return [
        [word for word in row.tolist() if scores[topic, word] > 0 and held[topic, word] > 0]
        for topic, row in enumerate(order)
    ]


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
    >>> import pyarrow as pa
    >>> from distembed.evaluation.topics import largest_parts
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


class MeanShares(NamedTuple):
    """The mean share of each topic in the documents of each value of a column, with 95 % intervals.

    Attributes
    ----------
    values : list of str
        The values, sorted.
    n_documents, n_sources : int64 arrays (values,)
        The documents of a value, and the sources, such as books, that they come from.
    means, errors : float64 arrays (values, topics)
        The mean share over documents, and half the length of its interval; NaN where all documents are of one source.
    """

    values: list[str]
    n_documents: NDArray[np.int64]
    n_sources: NDArray[np.int64]
    means: NDArray[np.float64]
    errors: NDArray[np.float64]

    def ends(self, place: int, topic: int) -> tuple[float, float] | None:
        """Return the ends of the interval of a topic for a value; None where the value has one source."""
        mean, error = float(self.means[place, topic]), float(self.errors[place, topic])
        return None if np.isnan(error) else (max(mean - error, 0.0), min(mean + error, 1.0))


def mean_shares(
    values: Sequence[str], sources: Sequence[str], blocks: Iterable[NDArray[Any]], n_topics: int
) -> MeanShares:
    """Return the mean share of each topic by the values of a column.

    Documents of one source are not independent: pieces of one book are alike. The interval is that of a ratio of sums
    over sources, with the t distribution of one degree of freedom less than there are sources.

    Parameters
    ----------
    values, sources : sequences of str (documents,)
        The value of each document, "" for none, and what it comes from.
    blocks : iterable of (rows, topics) arrays
        The shares of the topics in the documents, in their order.
    n_topics : int

    References
    ----------
    Cochran (1977), Sampling Techniques, section 9A: ratio estimates of clusters of unequal size.
    """
    keys = [f"{value}\0{source}" for value, source in zip(values, sources, strict=True)]
    names, rows = np.unique(np.array(keys, object), return_inverse=True)
    sums, first = np.zeros((len(names), n_topics)), 0
    for part in blocks:
        np.add.at(sums, rows[first : first + len(part)], np.asarray(part, np.float64))
        first += len(part)
    sizes = np.bincount(rows, minlength=len(names))
    owners = np.array([name.partition("\0")[0] for name in names], object)
    found = [value for value in np.unique(owners).tolist() if value]
    groups = [np.flatnonzero(owners == value) for value in found]
    means, errors = np.empty((len(found), n_topics)), np.full((len(found), n_topics), np.nan)
    for row, group in enumerate(groups):
        size, n = sizes[group], len(group)
        means[row] = sums[group].sum(axis=0) / size.sum()
        if n > 1:  # of one source nothing is known of others
            residuals = sums[group] - means[row] * size[:, np.newaxis]
            variance = n / (n - 1) * (residuals**2).sum(axis=0) / size.sum() ** 2
            errors[row] = stats.t.ppf(0.975, n - 1) * np.sqrt(variance)
    n_documents = np.array([sizes[group].sum() for group in groups])
    return MeanShares(found, n_documents, np.array([group.size for group in groups]), means, errors)


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
    sizes, overlaps = np.bincount(labels[labels >= 0], minlength=n_topics), []
    for other in starts:
        both, n_others = (labels >= 0) & (other >= 0), int(other.max(initial=0)) + 1
        cells = labels[both] * n_others + other[both]
        joint = np.bincount(cells, minlength=n_topics * n_others).reshape(n_topics, n_others)
        union = sizes[:, np.newaxis] + np.bincount(other[other >= 0], minlength=n_others) - joint
        overlaps.append((joint / np.maximum(union, 1)).max(axis=1))
    return np.where(sizes > 0, np.mean(overlaps, axis=0), np.nan)
