"""Latent Dirichlet allocation by scikit-learn's online algorithm, over documents that are read by row blocks.

M. Hoffman, D. Blei, F. Bach, Online Learning for Latent Dirichlet Allocation, NIPS 2010. The topics, k × n_words
numbers, are in memory; of the documents only one block is. The blocks of a pass depend on each other, so that a pass
is one sequence of steps; the topics are kept after each pass.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from scipy.special import psi
from sklearn.decomposition import LatentDirichletAllocation

from distembed.dtypes import Float32s, Float64s, Floats
from distembed.execution import compute, one_blas_thread, tell
from distembed.lift import block, lift
from distembed.options import NonNegativeFloat, PositiveInt
from distembed.states import keep, newest, scope

BATCH_DOCUMENTS = 128
"""Documents of one step, scikit-learn's `batch_size`."""
JUDGED_DOCUMENTS = 500
"""Most documents of the first block on which the likelihood is measured."""


class _Passes(NamedTuple):
    """What is known after some passes."""

    topics: Float32s
    likelihood: Float64s


class OnlineLDA(NamedTuple):
    """The topics of a collection."""

    shares: da.Array
    """The share of each topic in each document; the rows of documents without a word are NaN. Lazy array (n × k),
    float32.
    """
    word_weights: Float32s
    """The expected count of each word in each topic; columns in their proportions are the topics. Array (n_words × k),
    float32.
    """
    likelihood: list[float]
    """The bound on the logarithm of the probability of a word, to base e, of the first documents after each pass."""


def online_lda(
    counts: da.Array,
    n_topics: PositiveInt = 20,
    *,
    n_passes: PositiveInt = 20,
    tol: NonNegativeFloat = 1e-4,
    random_state: int = 0,
) -> OnlineLDA:
    """Learn topics from counts of words, in passes over the documents.

    Parameters
    ----------
    counts : lazy array (n × n_words) of CSR blocks
        How often each word occurs in each document.
    n_topics : int
        The number k of topics.
    n_passes : int
        The largest number of passes over the documents.
    tol : float
        A pass that raises the likelihood of a word by a smaller share of it is the last one.
    random_state : int
        The seed of the start and of the steps.

    Raises
    ------
    ValueError
        If there are fewer documents than topics.

    References
    ----------
    Hoffman, Blei & Bach, Online learning for latent Dirichlet allocation, NIPS 2010.
    """
    counts = counts.astype(np.float64)  # as scikit-learn has its topics, with which it would not take others
    n_documents, n_words = counts.shape
    if n_documents < n_topics:
        raise ValueError(
            f"{n_topics} topics were asked for, and there are {n_documents} documents: choose n_topics of at most "
            f"{n_documents}"
        )
    judged = compute(counts.blocks[0])[:JUDGED_DOCUMENTS]
    first = np.random.RandomState(random_state).gamma(100.0, 0.01, (n_topics, n_words))
    with one_blas_thread(), scope("lda", counts, n_topics, n_passes, tol, random_state):
        number, state = newest("pass", _Passes)
        topics, likelihood = (first, np.empty(0)) if state is None else compute(state)
        gains = np.diff(likelihood)
        while number < n_passes and not (len(gains) and gains[-1] <= tol * abs(likelihood[-2])):
            make = partial(_pass, counts, judged, topics, likelihood, random_state)
            number += 1
            topics, likelihood = compute(keep("pass", make, _Passes, number=number))
            gains = np.diff(likelihood)
            tell("passes", number)
    shares = lift(
        share_topics,
        "wd->wk",
        counts,
        sizes={"k": n_topics},
        model=_model(topics.astype(np.float64), n_documents),
    )
    return OnlineLDA(shares, np.ascontiguousarray(topics.T), likelihood.tolist())


def _model(topics: Floats, n_documents: int) -> LatentDirichletAllocation:
    """Return scikit-learn's model of some topics, as its fit leaves it."""
    model = LatentDirichletAllocation(len(topics), batch_size=BATCH_DOCUMENTS, total_samples=n_documents)
    model.components_, model.n_features_in_ = topics, topics.shape[1]
    model.exp_dirichlet_component_ = np.exp(psi(topics) - psi(topics.sum(axis=1, keepdims=True)))
    model.doc_topic_prior_ = model.topic_word_prior_ = 1 / len(topics)
    return model


def _pass(
    counts: da.Array, judged: sp.csr_array, topics: Floats, likelihood: Float64s, random_state: int
) -> _Passes:
    """Return the topics after one more pass over the documents, block by block, and the likelihood of some of them."""
    number = len(likelihood)
    model = _model(topics.astype(np.float64), counts.shape[0])
    model.random_state_ = np.random.RandomState([random_state, number])
    model.n_batch_iter_ = 1 + number * sum(-(-size // BATCH_DOCUMENTS) for size in counts.chunks[0])
    for part in range(counts.numblocks[0]):
        model.partial_fit(compute(counts.blocks[part]))
    found = model.components_.astype(np.float32)
    judging = _model(found.astype(np.float64), counts.shape[0])
    value = -float(np.log(judging.perplexity(judged, sub_sampling=True)))
    return _Passes(found, np.append(likelihood, value))


@block(temporaries=4)
def share_topics(counts: sp.csr_array, *, model: LatentDirichletAllocation) -> Float32s:
    """Return the share of each topic in a block of documents, NaN for one without a word."""
    shares: Float32s = model.transform(counts).astype(np.float32)
    shares[np.diff(counts.indptr) == 0] = np.nan
    return shares
