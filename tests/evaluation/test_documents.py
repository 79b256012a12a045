"""Scores of clusters and topics: by hand, by scikit-learn, over blocks, on bad input."""

from __future__ import annotations

from functools import partial
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from distembed.evaluation import documents
from tests.references.arrays import lazy

ROWS = {"whole": (10,), "even": (5, 5), "ragged": (1, 6, 3), "single": (1,) * 10}


def counts_example():
    counts = np.random.default_rng(0).poisson(1.0, (10, 10))
    return csr_array(counts + counts.T)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 2)), min_size=1, max_size=20))
def test_clustering_scores_are_their_definitions(pairs):
    classes, labels = np.array(pairs).T
    found = documents.clustering_scores(classes, labels)
    assert found.nmi == pytest.approx(normalized_mutual_info_score(classes, labels))
    assert found.ari == pytest.approx(adjusted_rand_score(classes, labels))
    clusters = np.unique(labels)
    purity = sum(np.bincount(classes[labels == c]).max() for c in clusters) / len(pairs)
    assert found.purity == pytest.approx(purity)
    names = [0, 1, 2, 3]
    best = max(
        sum(((labels == c) & (classes == name)).sum() for c, name in zip(clusters, order, strict=False))
        for order in permutations(names)
    )
    assert found.accuracy == pytest.approx(best / len(pairs))


def test_a_permutation_of_labels_is_perfect():
    assert documents.clustering_scores(["a", "b", "c", "a"], [2, 0, 1, 2]) == (1, 1, 1, 1)


def by_hand(topic, counts, sums):
    pmi, npmi = [], []
    total = sums.sum()
    for a, b in combinations(topic, 2):
        if counts[a, b]:
            pmi.append(np.log(counts[a, b] * total / (sums[a] * sums[b])))
            npmi.append(pmi[-1] / -np.log(counts[a, b] / total))
        else:
            npmi.append(-1.0)
    return np.mean(pmi), np.mean(npmi), len(npmi), len(pmi)


@pytest.mark.parametrize("name", ROWS)
def test_coherence_by_hand_and_over_blocks(name):
    counts = counts_example()
    topics = [[3, 1, 9, 0], [4, 5, 6], [8, 2]]
    sums = counts.toarray().sum(axis=1)
    expected = np.array([by_hand(topic, counts.toarray(), sums) for topic in topics]).T
    for matrix in (counts, counts.toarray(), lazy(counts, ROWS[name])):
        found = documents.topic_coherence(topics, matrix)
        np.testing.assert_allclose(np.array(found), expected, rtol=1e-12)
    larger = documents.topic_coherence(topics, counts, sums * 3)
    np.testing.assert_allclose(larger.pmi, expected[0] - np.log(3))


def test_coherence_with_the_probabilities_of_words():
    """By hand: p(word) from running words, p(pair) from windows, as Newman et al. (2009) have it."""
    counts = counts_example().toarray()
    words = np.arange(10.0, 20.0)
    found = documents.topic_coherence([[3, 1, 9]], counts, word_counts=words)
    pairs = [(a, b) for a, b in combinations([3, 1, 9], 2) if counts[a, b]]
    joint = np.array([counts[pair] / counts.sum() for pair in pairs])
    alone = np.array([words[a] * words[b] / words.sum() ** 2 for a, b in pairs])
    assert found.pmi[0] == pytest.approx(np.log(joint / alone).mean())


def test_coherence_of_unknown_repeated_and_lonely_words():
    counts = counts_example().toarray()
    counts[7], counts[:, 7] = 0, 0
    found = documents.topic_coherence([[3, -1, 1, 3, 7], [2], [-1, -1], []], csr_array(counts))
    assert found.n_pairs.tolist() == [1, 0, 0, 0]
    assert np.isnan(found.pmi[1:]).all()
    assert np.isnan(found.npmi[1:]).all()


def test_independent_words_have_no_coherence_and_inseparable_ones_the_most():
    sums = np.arange(1.0, 6.0)
    independent = np.outer(sums, sums) / sums.sum()
    found = documents.topic_coherence([[0, 1, 2, 3, 4]], independent)
    assert abs(found.pmi[0]) < 1e-12
    together = np.zeros((4, 4))
    together[0, 1] = together[1, 0] = together[2, 3] = together[3, 2] = 5
    assert documents.topic_coherence([[0, 1]], together).npmi[0] == pytest.approx(1)
    assert documents.topic_coherence([[0, 2]], together).npmi[0] == -1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(documents.clustering_scores, [1, 2], [1]), "give one of each per document"),
        (partial(documents.clustering_scores, [], []), "give one of each per document"),
        (partial(documents.clustering_scores, [[1]], [[1]]), "give one of each per document"),
        (partial(documents.topic_coherence, [[1, 10]]), "Word id 10 is not a row of the 10 × 10 counts"),
        (
            partial(documents.topic_coherence, [[1]], totals=np.ones(9)),
            r"Totals have shape \(9,\); give one for",
        ),
        (
            partial(documents.topic_coherence, [[1]], word_counts=np.ones(3)),
            r"Word counts have shape \(3,\); give",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(*([counts_example()] if call.func is documents.topic_coherence else []))
