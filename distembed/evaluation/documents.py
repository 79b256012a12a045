"""The quality of clusters and topics: agreement with labels, coherence of words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from distembed.dtypes import Float64s, Int64s
from distembed.execution import compute
from distembed.lift import lift
from distembed.linalg.csr import row_sums
from distembed.linalg.operators import whole_csr, whole_rows
from distembed.weighting.blocks import chosen_columns


class ClusteringScores(NamedTuple):
    """Agreement of clusters with classes, each at most 1."""

    nmi: float  # normalized mutual information, arithmetic mean in the denominator
    ari: float  # adjusted Rand index
    accuracy: float  # share of documents right under the best one-to-one matching of clusters to classes
    purity: float  # share of documents of their cluster's largest class


def clustering_scores(classes: ArrayLike, labels: ArrayLike) -> ClusteringScores:
    """Compare cluster labels with the classes known, as scikit-learn's metrics do.

    Parameters
    ----------
    classes, labels : (documents,)
        A label -1, of a document without words, counts as a cluster of its own.

    Raises
    ------
    ValueError
        If the lengths differ or are 0.
    """
    truth, found = np.asarray(classes), np.asarray(labels)
    if truth.shape != found.shape or truth.ndim != 1 or not truth.size:
        raise ValueError(
            f"Classes have shape {truth.shape}, labels {found.shape}; give one of each per document."
        )
    table = contingency_matrix(truth, found)
    matched = table[linear_sum_assignment(table, maximize=True)].sum()
    return ClusteringScores(
        float(normalized_mutual_info_score(truth, found)),
        float(adjusted_rand_score(truth, found)),
        float(matched / truth.size),
        float(table.max(axis=0).sum() / truth.size),
    )


class TopicCoherence(NamedTuple):
    """Mean association of the pairs of a topic's top words in a reference corpus, one value a topic."""

    pmi: Float64s  # nats, over pairs that occur together
    npmi: Float64s  # -1 to 1; a pair that never occurs together counts -1
    n_pairs: Int64s  # pairs whose words are both in the reference corpus
    n_joint: Int64s  # of these, pairs that occur together


def topic_coherence(
    topics: Sequence[Sequence[int]],
    counts: Any,
    totals: ArrayLike | None = None,
    *,
    word_counts: ArrayLike | None = None,
) -> TopicCoherence:
    """Return the coherence of topics: Newman, Karimi & Cavedon (2009) and Bouma (2009).

    ``PMI(i, j) = log(p_ij / (p_i p_j))``, ``NPMI = PMI / -log p_ij``, ``p_ij = c_ij / c`` with c the sum of the totals.
    p_i is the probability of a word: its share of the running words with `word_counts`, of the pairs without.

    Parameters
    ----------
    topics : sequences of word ids
        The top words of each topic as rows of `counts`; -1 for a word that the reference corpus lacks.
    counts : matrix (words, words), symmetric
        Co-occurrence counts of the reference corpus (the paper: a window of 5 words to both sides).
        A Dask array of csr_array row blocks is read once, only the blocks that hold a top word.
    totals : (words,), optional
        Row sums of the counts over the whole vocabulary; computed from `counts` if absent.
    word_counts : (words,), optional
        How often each word of the whole vocabulary occurs in the reference corpus; p_i is then as Newman, Karimi &
        Cavedon have it, and Ailem, Salah & Nadif (2017).

    Returns
    -------
    TopicCoherence
        NaN for a topic without a pair to judge.

    Raises
    ------
    ValueError
        If an id is not a row of counts, or the totals belong to another number of words.
    """
    known = np.unique([word for topic in topics for word in topic if word >= 0]).astype(np.int64)
    n_words = counts.shape[0]
    if known.size and known[-1] >= n_words:
        raise ValueError(f"Word id {known[-1]} is not a row of the {n_words} × {counts.shape[1]} counts.")
    counts = whole_rows(counts) if isinstance(counts, da.Array) else counts
    if totals is None:
        totals = compute(lift(row_sums, "wc->w", counts, dtype=np.float64))
    sums = np.asarray(totals, dtype=np.float64)
    if sums.shape != (n_words,):
        raise ValueError(f"Totals have shape {sums.shape}; give one for each of {n_words} words.")
    columns = lift(chosen_columns, "wc,k->wk", counts, known, dtype=np.float64, sparse=True)
    joint = (whole_csr(columns[known]) if isinstance(counts, da.Array) else columns[known]).toarray()
    place = {int(word): position for position, word in enumerate(known)}
    places = [[place[word] for word in dict.fromkeys(topic) if word >= 0] for topic in topics]
    occurrences = sums if word_counts is None else np.asarray(word_counts, dtype=np.float64)
    if occurrences.shape != (n_words,):
        raise ValueError(f"Word counts have shape {occurrences.shape}; give one for each of {n_words} words.")
    shares, joint, rows = occurrences[known] / occurrences.sum(), joint / sums.sum(), []
    for topic in places:
        pairs = np.array(list(combinations([word for word in topic if shares[word] > 0], 2)), int).reshape(
            -1, 2
        )
        a, b = pairs.T
        probability = joint[a, b]
        met = probability > 0
        pmi, normal = np.log(probability[met] / (shares[a] * shares[b])[met]), np.full(len(pairs), -1.0)
        surprise = -np.log(probability[met])
        normal[met] = np.divide(pmi, surprise, out=np.ones_like(pmi), where=surprise > 0)
        means = (float(values.mean()) if values.size else np.nan for values in (pmi, normal))
        rows.append((*means, len(pairs), int(met.sum())))
    return TopicCoherence(*(np.array(column) for column in zip(*rows, strict=True)))
