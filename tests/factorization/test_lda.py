"""Online LDA over blocks: scikit-learn's own result, and resumed after any pass."""

from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from distembed.factorization import lda
from distembed.factorization.lda import online_lda
from distembed.linalg.operators import row_blocks

N_DOCUMENTS, N_WORDS, N_TOPICS = 90, 60, 3


@pytest.fixture(scope="module")
def planted():
    """Return counts of documents with a topic each, every topic with a third of the words, and the topics."""
    rng = np.random.default_rng(0)
    topics = rng.integers(N_TOPICS, size=N_DOCUMENTS)
    rates = np.full((N_DOCUMENTS, N_WORDS), 0.02)
    for row, topic in enumerate(topics):
        rates[row, 20 * topic : 20 * topic + 20] = 1.5
    counts = rng.poisson(rates).astype(np.int32)
    counts[7] = 0
    return sp.csr_array(counts), topics


def blocks(counts, *sizes):
    ends = np.cumsum((0, *sizes))
    return da.concatenate([row_blocks(counts[a:b]) for a, b in pairwise(ends)])


def test_planted_topics_are_found(planted):
    counts, topics = planted
    found = online_lda(blocks(counts, 40, 50), N_TOPICS, n_passes=30)
    shares = found.shares.compute()
    assert np.isnan(shares[7]).all()
    known = np.delete(np.arange(N_DOCUMENTS), 7)
    np.testing.assert_allclose(shares[known].sum(axis=1), 1, atol=1e-5)
    pairs = {(topics[row], int(shares[row].argmax())) for row in known}
    assert len(pairs) == N_TOPICS
    assert np.all(np.diff(found.likelihood)[:-1] > 0)
    assert len(found.likelihood) < 30
    best = found.word_weights.argmax(axis=1).reshape(N_TOPICS, 20)
    assert (np.ptp(best, axis=1) == 0).all()


def test_the_topics_are_those_of_scikit_learn(planted):
    counts = planted[0]
    mine = online_lda(blocks(counts.astype(np.float32), 40, 50), N_TOPICS, n_passes=2, tol=0)
    model = lda._model(np.random.RandomState(0).gamma(100.0, 0.01, (N_TOPICS, N_WORDS)), N_DOCUMENTS)
    model.n_batch_iter_ = 1
    for number in range(2):
        model.random_state_ = np.random.RandomState([0, number])
        for part in (counts[:40], counts[40:]):
            model.partial_fit(part)
    np.testing.assert_allclose(mine.word_weights.T, model.components_, rtol=1e-5)
    known = np.delete(np.arange(N_DOCUMENTS), 7)
    np.testing.assert_allclose(mine.shares.compute()[known], model.transform(counts)[known], atol=1e-5)
    assert mine.likelihood[-1] == pytest.approx(-np.log(model.perplexity(counts[:40], sub_sampling=True)))


def test_too_few_documents_are_refused(planted):
    with pytest.raises(ValueError, match="there are 5 documents: choose n_topics of at most 5"):
        online_lda(blocks(planted[0][:5], 5), 6)
