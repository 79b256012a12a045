"""Scores of clusters and topics by hand and by scikit-learn; words that set topics apart, and what documents share."""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations, permutations

import dask.array as da
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse import csr_array, random_array
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from distembed.evaluation import contexts, documents, topics, transfer
from distembed.evaluation.topics import (
    found_again,
    largest_parts,
    mean_shares,
    standardized_log_odds,
    telling_words,
)
from distembed.lift import lift
from distembed.systems.topics import stages
from tests.references.arrays import lazy
from tests.temporaries import assert_declared, measured

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


def by_hand(topic, counts, alone):
    """Return the coherence of a topic by the counts of pairs and the shares of words."""
    pmi, npmi = [], []
    for a, b in combinations(topic, 2):
        if counts[a, b]:
            joint = counts[a, b] / counts.sum()
            pmi.append(np.log(joint / (alone[a] * alone[b])))
            npmi.append(pmi[-1] / -np.log(joint))
        else:
            npmi.append(-1.0)
    return np.mean(pmi), np.mean(npmi), len(npmi), len(pmi)


@pytest.mark.parametrize("name", ROWS)
def test_coherence_by_hand_and_over_blocks(name):
    """p(word) from the pairs or, as Newman et al. (2009) have it, from running words; p(pair) from windows."""
    sparse, words = counts_example(), np.arange(10.0, 20.0)
    top = [[3, 1, 9, 0], [4, 5, 6], [8, 2]]
    counts = sparse.toarray()
    sums = counts.sum(axis=1)
    for running, of_words in ((None, sums), (words, words)):
        expected = np.array([by_hand(topic, counts, of_words / of_words.sum()) for topic in top]).T
        for matrix in (sparse, counts, lazy(sparse, ROWS[name])):
            found = documents.topic_coherence(top, matrix, word_counts=running)
            np.testing.assert_allclose(np.array(found), expected, rtol=1e-12)
    pmi = documents.topic_coherence(top, sparse).pmi
    np.testing.assert_allclose(documents.topic_coherence(top, sparse, sums * 3).pmi, pmi - np.log(3))


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


@pytest.mark.parametrize("rows", [(9,), (4, 5), (1, 1, 7)])
def test_telling_words_are_those_that_other_documents_lack(rows):
    """A word of all documents tells nothing, however often it occurs; a document without a topic is left out."""
    counts = np.zeros((9, 6), np.int32)
    counts[:, 0] = 50
    counts[:4, 1] = 1
    counts[4:8, 2] = 1
    counts[0, 3] = counts[4, 3] = 7
    counts[8, 4] = 1
    counts[0, 5] = 1
    counts[4:7, 5] = 1  # a word of both topics tells of that which holds it more often
    matrix = da.from_array(counts, chunks=(rows, -1)).map_blocks(
        csr_array, meta=csr_array((0, 0), dtype=np.int32)
    )
    labels = np.array([0] * 4 + [1] * 4 + [-1])
    assert telling_words(matrix, labels, 2, 3) == [[1], [2, 5]]
    assert telling_words(matrix, labels, 3, 3)[2] == []


def test_the_log_odds_are_those_of_a_table_of_four_cells():
    held, n_documents = np.array([[3, 0], [1, 5]]), np.array([4, 10])
    a, b, c, d = 3.5, 1.5, 1.5, 9.5
    expected = math.log(a * d / (b * c)) / math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)
    found = standardized_log_odds(held, n_documents)
    assert found[0, 0] == pytest.approx(expected)
    np.testing.assert_allclose(found[0], -found[1])


def test_what_most_documents_of_a_topic_have():
    """Null and "" are no value, and a value of one document is nothing in common."""
    values = pa.chunked_array([["Emma", "Emma", None], ["", "", "", "Emma", "Persuasion"]])
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 2])
    first, *others = largest_parts("title", values, labels, 3)
    assert first is not None
    assert first == ("title", "Emma", 0.5, 3 / 8)
    assert others == [None, None]


def test_a_topic_is_found_again_by_the_overlap_of_its_documents():
    labels = np.array([0, 0, 0, 1, 1, -1])
    same = np.array([1, 1, 1, 0, 0, -1])
    apart = np.array([0, 0, 1, 1, 2, 2])
    np.testing.assert_allclose(found_again(labels, same[np.newaxis], 3), [1, 1, np.nan])
    np.testing.assert_allclose(found_again(labels, np.stack([same, apart]), 2), [5 / 6, 2 / 3])
    assert np.isnan(found_again(labels, np.empty((0, 6), np.int64), 2)).all()


def test_mean_shares_count_the_documents_of_one_source_as_one():
    """The mean is that of the documents; the interval is that of the mean of sources of equal size."""
    shares = np.array([[0.2, 0.8], [0.4, 0.6], [0.9, 0.1], [0.7, 0.3], [0.5, 0.5], [1.0, 0.0]])
    values = ["a", "a", "a", "a", "b", ""]
    sources = ["x", "x", "y", "y", "z", "z"]
    found = mean_shares(values, sources, [shares[:2], shares[2:5], shares[5:]], 2)
    assert found.values == ["a", "b"]
    assert found.n_documents.tolist() == [4, 1]
    assert found.n_sources.tolist() == [2, 1]
    np.testing.assert_allclose(found.means, [[0.55, 0.45], [0.5, 0.5]])
    of_sources = np.array([0.3, 0.8])  # the mean of the first topic in x and in y
    expected = stats.t.ppf(0.975, 1) * of_sources.std(ddof=1) / math.sqrt(2)
    np.testing.assert_allclose(found.errors[0], expected)
    assert np.isnan(found.errors[1]).all()


def test_the_block_functions_of_evaluation_declare_what_they_hold():
    rng = np.random.default_rng(0)
    X = csr_array(random_array((3000, 2000), density=0.15, rng=rng, dtype=np.float32))
    rows, pairs = rng.random((4000, 50)), rng.random((60, 50))
    labels, lengths = rng.integers(0, 20, 3000), np.ones(60)

    def every():
        lift(topics.documents_with_word, "wd,w->td", X, labels, n_topics=20)
        lift(transfer.ranks_of_rows, "rd,r,nd->r", rows[:45], np.arange(45), rows)
        lift(contexts._terms_block, "cd,md,md,m->cm", rows, pairs, pairs, lengths)
        lift(stages._sum_of, "wc,wc->wc", X, X)

    every()
    with measured() as found:
        every()
    assert_declared(found, *found)
