"""NMF and Semantic-NMF on real text: the objective falls, and what words have in common helps."""

from __future__ import annotations

import json
import lzma
import re
import warnings

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.sparse import csr_array
from sklearn.metrics import normalized_mutual_info_score

from distembed.corpus.stop_words import stop_words_of
from distembed.factorization.nmf import NMF, SemanticNMF
from distembed.factorization.nmf_blocks import cosine_terms, list_words, weight_terms
from distembed.weighting.documents import document_frequencies, select_words, tf_idf


@pytest.fixture(scope="module")
def classic(shared):
    """A quarter of CLASSIC4: counts of words, SPPMI of a 10-word window (log 2 not yet taken), classes."""
    with lzma.open(shared / "data" / "docclust" / "classic4.jsonl.xz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines][::4]
    tokens = [re.findall(r"[a-z]{2,}", record["text"].lower()) for record in records]
    words = sorted({word for document in tokens for word in document})
    place = {word: i for i, word in enumerate(words)}
    rows = np.repeat(np.arange(len(tokens)), [len(t) for t in tokens])
    columns = np.array([place[word] for document in tokens for word in document])
    counts = csr_array((np.ones(rows.size), (rows, columns)), shape=(len(tokens), len(words)))
    counts.sum_duplicates()
    unwanted = stop_words_of("english")
    is_content = np.array([word not in unwanted for word in words])
    kept = np.flatnonzero((document_frequencies(counts) >= 3) & is_content)
    X = tf_idf(select_words(counts, kept), dtype=np.float64)
    position = np.full(len(words), -1)
    position[kept] = np.arange(kept.size)
    known = position[columns] >= 0
    M = window_pmi(position[columns][known], rows[known], kept.size)
    return X, M, np.array([record["label"] for record in records])


def window_pmi(ids, document, n_words, window=10):
    counts = csr_array((n_words, n_words))
    for gap in range(1, window + 1):
        same = document[:-gap] == document[gap:]
        pair = (ids[:-gap][same], ids[gap:][same])
        counts = counts + csr_array((np.ones(same.sum()), pair), shape=counts.shape)
    counts = (counts + counts.T).tocoo()
    sums = counts.sum(axis=1)
    pmi = np.log(counts.data * sums.sum() / (sums[counts.row] * sums[counts.col]))
    kept = pmi > 0
    return csr_array((pmi[kept], (counts.row[kept], counts.col[kept])), shape=counts.shape)


def test_on_real_text_the_objective_falls_and_semantics_help(classic):
    X, M, classes = classic
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        semantic = SemanticNMF(4, max_iter=60).fit(X, M)
        alone = NMF(4, max_iter=60, tol=0, solver="multiplicative").fit(X)
    for model in (semantic, alone):
        steps = np.diff(model.objective_)
        assert (steps <= 1e-12 * model.objective_[0]).all()
    better, worse = (normalized_mutual_info_score(classes, m.labels_) for m in (semantic, alone))
    assert better > worse + 0.05


# --- the weight of a topic in a document as a sum of terms: exact where least squares has settled -----------


RANDOM = np.random.default_rng(7)
W = RANDOM.random((40, 5))
X = np.where(RANDOM.random(40) < 0.5, RANDOM.random(40), 0.0) + W[:, 2] * (RANDOM.random(40) < 0.8)
WORDS = np.flatnonzero(X)


def test_terms_add_up_where_least_squares_has_settled() -> None:
    """Oracle: SciPy's non-negative least squares, on topics that overlap."""
    z = nnls(W, X)[0]
    topics = np.flatnonzero(z > 1e-6)
    assert topics.size > 1
    for topic in topics.tolist():
        found = weight_terms(X[WORDS], WORDS, z, W, topic)
        assert found.words.sum() + found.topics.sum() == pytest.approx(z[topic])
        assert found.rest == pytest.approx(0, abs=1e-9)
        assert found.topics[topic] == 0
        assert found.topics.sum() < 0


def test_a_weight_that_has_not_settled_leaves_a_rest() -> None:
    z = nnls(W, X)[0] + 0.1
    found = weight_terms(X[WORDS], WORDS, z, W, 2)
    assert abs(found.rest) > 0.01
    assert found.words.sum() + found.topics.sum() + found.rest == pytest.approx(z[2])


def test_a_cosine_is_the_sum_of_its_words() -> None:
    centroids = W / np.linalg.norm(W, axis=0)
    found = cosine_terms(X[WORDS], WORDS, centroids.T @ X, centroids, 3)
    assert found.rest == pytest.approx(0, abs=1e-9)
    assert not found.topics.any()


def test_frequent_words_are_listed_before_rare_ones_of_a_like_weight() -> None:
    factors = np.array([[1.0, 0.0], [0.9, 0.1], [0.1, 0.9], [0.0, 0.2]])
    shares = np.array([0.01, 0.25, 0.25, 0.81])
    assert list_words(factors, shares, 2, frequency_weight=0.0).tolist() == [[0, 1], [2, 3]]
    assert list_words(factors, shares, 3, frequency_weight=0.5).tolist() == [[1, 0, 2], [2, 3, 1]]
