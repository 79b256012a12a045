"""What several starts have in common: agreement of labels, groups of topics, and the consensus of word factors."""

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from distembed import NMF, SemanticNMF, SphericalKMeans
from distembed.factorization import consensus as blocks
from distembed.factorization.consensus import consensus_words


@pytest.fixture(scope="module")
def topics():
    """Return the word factors of three topics with words of their own, (60, 3)."""
    random = np.random.default_rng(0)
    return np.kron(np.eye(3), random.random((20, 1))) + 0.01 * random.random((60, 3))


@pytest.fixture(scope="module")
def documents(topics):
    random = np.random.default_rng(2)
    members = np.eye(3)[random.integers(3, size=90)] + 0.05
    return csr_array(random.poisson(3 * members @ topics.T).astype(np.float64))


def cosines_of(words):
    unit = words / np.linalg.norm(words, axis=0)
    return unit.T @ unit


def test_agreement_is_that_of_scikit_learn():
    random = np.random.default_rng(0)
    labels = random.integers(4, size=(3, 200))
    labels[1] = (labels[0] + (random.random(200) < 0.2)) % 4
    found = blocks.label_agreement(labels)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        pair = labels[one], labels[other]
        assert found[0][one, other] == pytest.approx(normalized_mutual_info_score(*pair))
        assert found[1][one, other] == pytest.approx(adjusted_rand_score(*pair))
        assert found[0][one, other] == found[0][other, one]
    labels[:, :10] = -1  # documents without a word change nothing
    without = blocks.label_agreement(labels[:, 10:])
    np.testing.assert_array_equal(blocks.label_agreement(labels)[0], without[0])
    assert (np.array(blocks.label_agreement(np.zeros((2, 5), np.int64))) == 1).all()  # they divide nothing
    nmi = np.array([[1, 0.2, 0.3], [0.2, 1, 0.9], [0.3, 0.9, 1]])
    np.testing.assert_allclose(blocks.mean_agreement(nmi), [0.25, 0.55, 0.6])
    assert blocks.mean_agreement(np.ones((1, 1))).tolist() == [1]


def test_an_empty_group_takes_a_topic():
    """Two starts of a topic that is there twice leave the second group without one."""
    words = np.array([[1.0, 1], [0, 0]])
    np.testing.assert_allclose(consensus_words([words, 2 * words]), words)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4))
def test_the_words_of_a_consensus_are_the_means_of_its_groups(seed, n_groups, n_starts):
    random = np.random.default_rng(seed)
    words = random.random((5, n_groups * n_starts)) * random.choice([0.1, 1, 9], n_groups * n_starts)
    labels = blocks.group_topics(cosines_of(words), n_groups)
    unit = words / np.linalg.norm(words, axis=0)
    expected = np.stack([unit[:, labels == group].mean(axis=1) for group in range(n_groups)], axis=1)
    np.testing.assert_allclose(consensus_words(np.split(words, n_starts, axis=1)), expected, rtol=1e-5)


@pytest.mark.parametrize("choose", ["consensus", "objective"])
def test_several_starts_find_the_documents_topics(documents, choose):
    truth = documents.toarray().reshape(90, 3, 20).sum(axis=2).argmax(axis=1)
    model = NMF(3, n_init=4, init="random", choose=choose, tol=0, max_iter=40).fit(documents)
    filled = model.labels_ >= 0
    assert adjusted_rand_score(truth[filled], model.labels_[filled]) > 0.9
    assert model.objective_.size == (1 if choose == "consensus" else 40)


@pytest.mark.parametrize("in_blocks", [False, True])
def test_a_consensus_is_what_its_starts_give(documents, in_blocks):
    M = csr_array(np.log1p((documents.T @ documents).toarray()))
    X = da.from_array(documents.toarray(), chunks=(30, 60)) if in_blocks else documents
    model = SemanticNMF(3, n_init=3, init="random", max_iter=5).fit(X, M)
    words = [start.words for start in model.starts_]
    np.testing.assert_array_equal(model.word_factors_, consensus_words(words))
    assert len({array.tobytes() for array in words}) == 3  # the starts begin with numbers of their own
    assert model.core_.shape == (3, 3)
    np.testing.assert_array_equal(model.predict(documents), model.labels_)


def test_centers_have_a_consensus(documents):
    model = SphericalKMeans(3, n_init=4, choose="consensus").fit(documents)
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1)
    np.testing.assert_array_equal(model.labels_, model.predict(documents))
    assert model.score(documents) == pytest.approx(-model.inertia_)
