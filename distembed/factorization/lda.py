"""Latent Dirichlet allocation by gensim's online algorithm, over documents that are read in batches.

M. Hoffman, D. Blei, F. Bach, Online Learning for Latent Dirichlet Allocation, NIPS 2010. The topics, k × n_words
float32 numbers, are in memory; of the documents only one batch is. The batches of a pass depend on each other, so
that a pass is one sequence of steps; the topics are stored after each pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.execution import Checkpoint, compute, map_blocks, one_blas_thread, persist, tell
from distembed.extras import optional
from distembed.options import NonNegativeFloat, PositiveInt

BATCH_DOCUMENTS = 2000
"""Documents of one step, gensim's `chunksize`."""
DECAY, OFFSET = 0.5, 1.0
"""The step sizes are (OFFSET + t)^-DECAY for the t-th, gensim's defaults."""
USER = "online LDA"
JUDGED_DOCUMENTS = 500
"""Number of the first documents on which the likelihood is measured."""


class OnlineLDA(NamedTuple):
    """The topics of a collection."""

    shares: da.Array
    """The share of each topic in each document; the rows of documents without a word are NaN. Lazy array (n × k),
    float32.
    """
    word_weights: NDArray[np.float32]
    """The expected count of each word in each topic; columns in their proportions are the topics. Array (n_words × k),
    float32.
    """
    likelihood: list[float]
    """The bound on the logarithm of the probability of a word, to base e, after each pass: gensim's `log_perplexity` of
    the first documents.
    """


def online_lda(
    counts: da.Array,
    n_topics: PositiveInt = 20,
    *,
    n_passes: PositiveInt = 20,
    tol: NonNegativeFloat = 1e-4,
    random_state: int = 0,
    checkpoint: Checkpoint = persist,
) -> OnlineLDA:
    """Learn topics from counts of words, in passes over the documents, as gensim's `LdaModel` does.

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
    ImportError
        If gensim is not installed.
    ValueError
        If there are fewer documents than topics.

    References
    ----------
    Hoffman, Blei & Bach, Online learning for latent Dirichlet allocation, NIPS 2010.
    """
    if counts.shape[0] < n_topics:
        raise ValueError(
            f"{n_topics} topics were asked for, and there are {counts.shape[0]} documents: choose n_topics of at "
            f"most {counts.shape[0]}"
        )
    model = _model(n_topics, counts.shape, random_state)
    judged = _bags(next(_batches(counts, JUDGED_DOCUMENTS)))
    likelihood: list[float] = []
    with one_blas_thread():
        for number in range(n_passes):
            make = partial(_pass, model, counts, number, random_state)
            _restore(model, np.asarray(compute(checkpoint(f"pass-{number}", make))))
            likelihood.append(_likelihood(model, judged, counts.shape[0], random_state))
            tell("passes", number + 1)
            if number and likelihood[-1] - likelihood[-2] <= tol * abs(likelihood[-2]):
                break
    return OnlineLDA(_shares(model, counts, random_state), model.state.sstats.T.copy(), likelihood)


def _model(n_topics: int, shape: tuple[int, int], random_state: int) -> Any:
    models = optional("gensim.models", user=USER, extra="lda")
    utils = optional("gensim.utils", user=USER, extra="lda")
    model = models.LdaModel(
        num_topics=n_topics, id2word=utils.FakeDict(shape[1]), random_state=random_state, eval_every=None
    )
    model.state.numdocs = shape[0]
    return model


def _pass(model: Any, counts: da.Array, number: int, random_state: int) -> da.Array:
    """Improve the topics by every batch of documents in turn, and return the expected counts of words in them."""
    n_seen = counts.shape[0] if number else 0
    model.random_state = np.random.RandomState([random_state, number])
    for batch in _batches(counts, BATCH_DOCUMENTS):
        step = (OFFSET + number + n_seen / BATCH_DOCUMENTS) ** -DECAY
        found = type(model.state)(model.eta, model.state.sstats.shape, model.dtype)
        model.do_estep(_bags(batch), found)
        model.do_mstep(step, found, extra_pass=True)
        n_seen += 0 if number else batch.shape[0]
    return da.from_array(model.state.sstats.copy(), chunks=-1)


def _restore(model: Any, expected: NDArray[np.float32]) -> None:
    model.state.sstats = expected.copy()
    model.sync_state()


def _batches(counts: da.Array, size: int) -> Iterator[sp.csr_array]:
    """Yield the rows of an array in order, in matrices of `size` rows; the last may have fewer."""
    held: sp.csr_array = sp.csr_array((0, counts.shape[1]), dtype=counts.dtype)
    for number in range(counts.numblocks[0]):
        held = sp.csr_array(sp.vstack([held, compute(counts.blocks[number])], format="csr"))
        n_whole = held.shape[0] // size * size
        for first in range(0, n_whole, size):
            yield held[first : first + size]
        held = held[n_whole:]
    if held.shape[0]:
        yield held


def _bags(batch: sp.csr_array) -> list[list[tuple[int, float]]]:
    """Return the documents of a batch as gensim takes them, a list of numbers and counts of words each."""
    ends = batch.indptr.tolist()
    words, numbers = batch.indices.tolist(), batch.data.tolist()
    return [list(zip(words[a:b], numbers[a:b], strict=True)) for a, b in pairwise(ends)]


def _likelihood(model: Any, judged: Any, n_documents: int, random_state: int) -> float:
    """Return gensim's bound on the logarithm of the probability of a word of some documents."""
    model.random_state = np.random.RandomState(random_state)
    return float(model.log_perplexity(judged, total_docs=n_documents))


def _shares(model: Any, counts: da.Array, random_state: int) -> da.Array:
    return map_blocks(
        _shares_of_block,
        counts,
        model=model,
        random_state=random_state,
        dtype=np.float32,
        chunks=(counts.chunks[0], (model.num_topics,)),
        meta=np.empty((0, 0), np.float32),
    )


def _shares_of_block(
    block: sp.csr_array, *, model: Any, random_state: int, block_id: tuple[int, ...]
) -> NDArray[np.float32]:
    own = copy(model)
    own.random_state = np.random.RandomState([random_state, block_id[0]])
    starts = range(0, block.shape[0], BATCH_DOCUMENTS)
    weights = [own.inference(_bags(block[first : first + BATCH_DOCUMENTS]))[0] for first in starts]
    shares = np.concatenate(weights)
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.diff(block.indptr) == 0] = np.nan
    return shares
