"""Latent Dirichlet allocation by scikit-learn's online algorithm, over documents that are read by row blocks.

M. Hoffman, D. Blei, F. Bach, Online Learning for Latent Dirichlet Allocation, NIPS 2010. The topics, k × n_words
numbers, are in memory; of the documents only one block is. The blocks of a pass depend on each other, so that a pass
is one sequence of steps; the topics are stored after each pass.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from scipy.special import psi
from sklearn.decomposition import LatentDirichletAllocation

from distembed.dtypes import Float32s, Floats
from distembed.execution import Checkpoint, compute, map_blocks, one_blas_thread, persist, tell
from distembed.options import NonNegativeFloat, PositiveInt

BATCH_DOCUMENTS = 128
"""Documents of one step, scikit-learn's `batch_size`."""
JUDGED_DOCUMENTS = 500
"""Most documents of the first block on which the likelihood is measured."""


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
    checkpoint: Checkpoint = persist,
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
    checkpoint : Checkpoint
        Stores the topics after each pass, so that a job can be resumed.

    Raises
    ------
    ValueError
        If there are fewer documents than topics.

    References
    ----------
    Hoffman, Blei & Bach, Online learning for latent Dirichlet allocation, NIPS 2010.
    """
    n_documents, n_words = counts.shape
    if n_documents < n_topics:
        raise ValueError(
            f"{n_topics} topics were asked for, and there are {n_documents} documents: choose n_topics of at most "
            f"{n_documents}"
        )
    judged = compute(counts.blocks[0])[:JUDGED_DOCUMENTS]
    topics = np.random.RandomState(random_state).gamma(100.0, 0.01, (n_topics, n_words))
    likelihood: list[float] = []
    with one_blas_thread():
        for number in range(n_passes):
            make = partial(_pass, counts, topics, number, random_state)
            topics = np.asarray(compute(checkpoint(f"pass-{number}", make)), np.float64)
            found = _model(topics, n_documents)
            likelihood.append(-float(np.log(found.perplexity(judged, sub_sampling=True))))
            tell("passes", number + 1)
            if number and likelihood[-1] - likelihood[-2] <= tol * abs(likelihood[-2]):
                break
    shares = map_blocks(
        _shares,
        counts,
        model=found,
        dtype=np.float32,
        meta=np.empty((0, 0), np.float32),
        chunks=(counts.chunks[0], (n_topics,)),
    )
    return OnlineLDA(shares, topics.T.astype(np.float32), likelihood)


def _model(topics: Floats, n_documents: int) -> LatentDirichletAllocation:
    """Return scikit-learn's model of some topics, as its fit leaves it."""
    model = LatentDirichletAllocation(len(topics), batch_size=BATCH_DOCUMENTS, total_samples=n_documents)
    model.components_, model.n_features_in_ = topics, topics.shape[1]
    model.exp_dirichlet_component_ = np.exp(psi(topics) - psi(topics.sum(axis=1, keepdims=True)))
    model.doc_topic_prior_ = model.topic_word_prior_ = 1 / len(topics)
    return model


def _pass(counts: da.Array, topics: Floats, number: int, random_state: int) -> da.Array:
    """Return the topics after a pass over the documents, block by block."""
    model = _model(topics, counts.shape[0])
    model.random_state_ = np.random.RandomState([random_state, number])
    model.n_batch_iter_ = 1 + number * sum(-(-size // BATCH_DOCUMENTS) for size in counts.chunks[0])
    for block in range(counts.numblocks[0]):
        model.partial_fit(compute(counts.blocks[block]))
    return da.from_array(model.components_.astype(np.float32), chunks=-1)


def _shares(block: sp.csr_array, *, model: LatentDirichletAllocation) -> Float32s:
    shares: Float32s = model.transform(block).astype(np.float32)
    shares[np.diff(block.indptr) == 0] = np.nan
    return shares
