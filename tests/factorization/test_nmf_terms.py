"""The weight of a topic in a document as a sum of terms: exact where least squares has settled."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from distembed.factorization.nmf_blocks import cosine_terms, list_words, weight_terms

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
