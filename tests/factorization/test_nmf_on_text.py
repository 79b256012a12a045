"""NMF and Semantic-NMF on real text: the objective falls, and what words have in common helps."""

from __future__ import annotations

import json
import lzma
import warnings

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.metrics import normalized_mutual_info_score

import distembed as de
from distembed.factorization.document_factors import list_words, weight_terms
from distembed.factorization.nmf import NMF, SemanticNMF


@pytest.fixture(scope="module")
def classic(shared, tmp_path_factory):
    """A quarter of CLASSIC4: tf-idf, positive PMI of a 10-word window (log 2 not yet taken), classes."""
    path = tmp_path_factory.mktemp("classic") / "quarter.jsonl"
    with lzma.open(shared / "data" / "docclust" / "classic4.jsonl.xz", "rt", encoding="utf-8") as lines:
        quarter = list(lines)[::4]
    path.write_text("".join(quarter), encoding="utf-8")
    docs = de.read_corpus(path)
    vocabulary = de.build_vocabulary(docs, min_documents=3, stop_words="english")
    X = de.tf_idf(de.count_document_terms(docs, vocabulary)).compute()
    M = de.ppmi(de.count_cooccurrences(docs, vocabulary, window=10)).compute()
    return X, M, np.array([json.loads(line)["label"] for line in quarter])


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
        terms, others, rest = weight_terms(X[WORDS], WORDS, z, W, topic)
        assert terms.sum() + others.sum() == pytest.approx(z[topic])
        assert rest == pytest.approx(0, abs=1e-9)
        assert others[topic] == 0
        assert others.sum() < 0


def test_a_weight_that_has_not_settled_leaves_a_rest() -> None:
    z = nnls(W, X)[0] + 0.1
    terms, others, rest = weight_terms(X[WORDS], WORDS, z, W, 2)
    assert abs(rest) > 0.01
    assert terms.sum() + others.sum() + rest == pytest.approx(z[2])


def test_a_cosine_is_the_sum_of_its_words() -> None:
    centroids = W / np.linalg.norm(W, axis=0)
    _, others, rest = weight_terms(X[WORDS], WORDS, centroids.T @ X, centroids, 3, by_cosine=True)
    assert rest == pytest.approx(0, abs=1e-9)
    assert not others.any()


def test_frequent_words_are_listed_before_rare_ones_of_a_like_weight() -> None:
    factors = np.array([[1.0, 0.0], [0.9, 0.1], [0.1, 0.9], [0.0, 0.2]])
    shares = np.array([0.01, 0.25, 0.25, 0.81])
    assert list_words(factors, shares, 2, frequency_weight=0.0) == [[0, 1], [2, 3]]
    assert list_words(factors, shares, 3, frequency_weight=0.5) == [[1, 0, 2], [2, 3, 1]]
