"""Spherical k-means, and what several starts of it and of NMF have in common."""

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from distembed import NMF, SemanticNMF
from distembed.factorization import clustering, consensus
from distembed.factorization.clustering import SphericalKMeans, spherical_kmeans
from distembed.factorization.consensus import consensus_words
from distembed.factorization.nmf import common_topics
from distembed.linalg.csr import unit_rows
from tests.factorization.test_nmf import CHUNKS, lazy, planted
from tests.references import nmf as plain


def after(n_iter, X, sample=20_000):
    """Return the centroids after some rounds, those of the seeds after none."""
    return spherical_kmeans(X, 3, n_iter=n_iter, tol=0, seed=(0, 0), sample=sample).words


def test_rounds_equal_the_oracle():
    X = unit_rows(planted()[0])
    seeds = after(0, X)
    model = SphericalKMeans(3, tol=0).fit(X)
    centroids = seeds.T
    for _ in range(model.n_iter_ - 1):
        _, centroids = plain.spherical_kmeans_round(X.toarray(), centroids)
    np.testing.assert_allclose(model.cluster_centers_, centroids, rtol=1e-12)
    np.testing.assert_array_equal(model.labels_, (X.toarray() @ centroids.T).argmax(axis=1))
    assert model.converged_
    assert (np.diff(model.objective_) >= -1e-12).all()
    assert model.objective_[-1] == pytest.approx((X.toarray() @ centroids.T).max(axis=1).sum())
    for matrix in (2 * X, lazy(X, CHUNKS["ragged"])):
        np.testing.assert_allclose(np.asarray(model.transform(matrix)), X.toarray() @ centroids.T, rtol=1e-12)


def test_planted_clusters_are_found_whatever_the_length_of_rows():
    X, _, topic = planted(seed=2)
    scaled = csr_array(X.toarray() * np.random.default_rng(0).uniform(0.1, 10, (60, 1)))
    model = SphericalKMeans(3, n_init=3).fit(scaled)
    assert adjusted_rand_score(topic, model.labels_) > 0.9
    np.testing.assert_array_equal(model.predict(scaled), model.labels_)
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1)


@pytest.mark.parametrize("in_blocks", [False, True])
def test_rows_with_negative_values_are_clustered(in_blocks):
    """LSA and word vectors have them: clusters on opposite sides are told apart."""
    random = np.random.default_rng(0)
    truth = np.arange(80) % 4
    centers = np.array([[1.0, 0, 0], [-1, 0, 0], [0, 1, -1], [0, -1, 1]])
    X = centers[truth] * random.uniform(0.5, 2, (80, 1)) + 0.1 * random.standard_normal((80, 3))
    model = SphericalKMeans(4, n_init=5).fit(da.from_array(X, chunks=(30, 3)) if in_blocks else X)
    assert adjusted_rand_score(truth, model.labels_) == 1
    np.testing.assert_array_equal(np.asarray(model.predict(X)), model.labels_)
    cosines = X / np.linalg.norm(X, axis=1, keepdims=True) @ model.cluster_centers_.T
    assert model.inertia_ == pytest.approx((1 - cosines.max(axis=1)).sum())


@pytest.mark.parametrize("name", CHUNKS)
def test_blocks_do_not_change_the_clusters(name):
    X, _, _ = planted()
    whole = SphericalKMeans(3).fit(X)
    parts = SphericalKMeans(3).fit(lazy(X, CHUNKS[name]))
    np.testing.assert_array_equal(parts.labels_, whole.labels_)
    np.testing.assert_allclose(parts.cluster_centers_, whole.cluster_centers_, rtol=1e-12)
    np.testing.assert_array_equal(after(0, X, 20), after(0, lazy(X, CHUNKS[name]), 20))  # seeds of a sample


@pytest.mark.parametrize("in_blocks", [False, True])
def test_an_empty_cluster_takes_the_farthest_document(in_blocks, monkeypatch):
    """The third seed is the first once more, so that no document is nearest to it."""
    X = csr_array(np.array([[1.0, 0, 0], [1, 0.1, 0], [0, 1, 0.9], [0, 0.2, 1]]))
    X = unit_rows(X)
    matrix = lazy(X, (2, 2)) if in_blocks else X
    monkeypatch.setattr(clustering, "draw_seeds", lambda *_: np.array([0, 2, 0]))
    np.testing.assert_allclose(after(1, matrix)[:, 2], X[3:].toarray().ravel())


def test_no_cluster_ends_empty_on_hard_data():
    X = csr_array(np.vstack([np.eye(6), np.tile([1.0, 1, 0, 0, 0, 0], (30, 1))]))
    for seed in range(10):
        labels = SphericalKMeans(7, random_state=seed).fit(X).labels_
        assert np.unique(labels).size == 7
    assert SphericalKMeans(3).fit(np.ones((5, 3))).labels_.shape == (5,)


def with_a_row(values):
    X = planted(rank=6)[0].toarray()
    X[3] = values
    return X


def test_an_empty_document_and_clusters_that_still_move_are_told():
    with pytest.warns(UserWarning, match="1 of 60 documents hold no word"):
        model = SphericalKMeans(3).fit(with_a_row(0))
    assert np.flatnonzero(model.labels_ < 0).tolist() == [3]
    with pytest.warns(UserWarning, match="raise max_iter"):
        model = SphericalKMeans(6, max_iter=1).fit(with_a_row(1))
    assert (model.converged_, -model.score(with_a_row(1))) == (False, pytest.approx(model.inertia_))


@pytest.mark.parametrize(
    ("options", "value", "sentence"),
    [
        ({}, np.nan, r"X holds .* row 3, column 0"),
        ({}, np.inf, r"X holds .* row 3, column 0"),
        ({"n_clusters": 61}, 1, "ask for 1 to 60"),
        (
            {"n_clusters": 5, "seeding_sample": 3},
            1,
            r"ask for fewer clusters, or draw more \(seeding_sample of",
        ),
    ],
)
def test_what_cannot_be_clustered_is_refused(options, value, sentence):
    with pytest.raises(ValueError, match=sentence):
        SphericalKMeans(**{"n_clusters": 3} | options).fit(with_a_row(value))


@pytest.mark.parametrize("in_blocks", [False, True])
def test_what_clusterings_have_in_common_is_nearer_to_the_truth_than_each(in_blocks):
    """Each puts a third of the documents anywhere; one document has no cluster, whatever its row."""
    random, truth = np.random.default_rng(0), np.arange(90) % 3
    clusterings = [np.where(random.random(90) < 0.35, random.integers(3, size=90), truth) for _ in range(6)]
    clusterings = [random.permutation(3)[labels] for labels in clusterings]
    for labels in clusterings:
        labels[5] = -1
    X = csr_array(np.ones((90, 2)))
    like = lazy(X, (40, 3, 47)) if in_blocks else X
    found = np.asarray(clustering.common_clusters(clusterings, 3, like=like)).ravel()
    assert found[5] == -1
    best = max(adjusted_rand_score(truth, labels) for labels in clusterings)
    assert adjusted_rand_score(truth, found) > best + 0.3


@pytest.mark.parametrize("in_blocks", [False, True])
def test_topics_in_common_are_mean_rows_and_weights_their_least_squares(in_blocks):
    X, _, topic = planted(seed=2)
    model = common_topics(lazy(X, CHUNKS["ragged"]) if in_blocks else X, [topic, topic], 3)
    groups = [X[topic == number].sum(axis=0) for number in range(3)]
    means = np.stack([row / np.linalg.norm(row) for row in groups], axis=1)
    order = [int(np.abs(model.word_factors_ - mean[:, None]).sum(axis=0).argmin()) for mean in means.T]
    np.testing.assert_allclose(model.word_factors_[:, order], means, rtol=1e-6)
    Z = plain.solve_documents(X.toarray(), model.word_factors_)
    np.testing.assert_allclose(np.asarray(model.document_factors_), Z, atol=1e-6)
    np.testing.assert_array_equal(model.labels_, Z.argmax(axis=1))


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
    found = consensus.label_agreement(labels)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        pair = labels[one], labels[other]
        assert found[0][one, other] == pytest.approx(normalized_mutual_info_score(*pair))
        assert found[1][one, other] == pytest.approx(adjusted_rand_score(*pair))
        assert found[0][one, other] == found[0][other, one]
    labels[:, :10] = -1  # documents without a word change nothing
    without = consensus.label_agreement(labels[:, 10:])
    np.testing.assert_array_equal(consensus.label_agreement(labels)[0], without[0])
    assert (np.array(consensus.label_agreement(np.zeros((2, 5), np.int64))) == 1).all()  # they divide nothing
    nmi = np.array([[1, 0.2, 0.3], [0.2, 1, 0.9], [0.3, 0.9, 1]])
    np.testing.assert_allclose(consensus.mean_agreement(nmi), [0.25, 0.55, 0.6])
    assert consensus.mean_agreement(np.ones((1, 1))).tolist() == [1]


def test_topics_of_starts_move_until_each_is_in_the_group_of_its_nearest_mean():
    words = np.random.default_rng(10).random((30, 40)) ** 4  # groups that move for several rounds
    labels = consensus.group_topics(cosines_of(words), 4)
    means = cosines_of(np.hstack([words, consensus_words(np.split(words, 10, axis=1))]))[:40, 40:]
    np.testing.assert_array_equal(means.argmax(axis=1), labels)


def test_an_empty_group_takes_a_topic():
    """Two starts of a topic that is there twice leave the second group without one."""
    words = np.array([[1.0, 1], [0, 0]])
    np.testing.assert_allclose(consensus_words([words, 2 * words]), words)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4))
def test_the_words_of_a_consensus_are_the_means_of_its_groups(seed, n_groups, n_starts):
    random = np.random.default_rng(seed)
    words = random.random((5, n_groups * n_starts)) * random.choice([0.1, 1, 9], n_groups * n_starts)
    labels = consensus.group_topics(cosines_of(words), n_groups)
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
