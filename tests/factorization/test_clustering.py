"""Spherical k-means: against the plain rounds, over blocks, and where it could go wrong."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array, random_array
from sklearn.metrics import adjusted_rand_score

from distembed.factorization import clustering
from distembed.factorization import nmf_blocks as blocks
from distembed.factorization.clustering import SphericalKMeans, spherical_kmeans
from distembed.linalg.csr import unit_rows
from tests.factorization.test_nmf import CHUNKS, lazy, planted
from tests.references import nmf as plain


def after(n_iter, X, sample=20_000):
    """Return the centroids after some rounds, those of the seeds after none."""
    return spherical_kmeans(X, 3, n_iter=n_iter, tol=0, seed=(0, 0), sample=sample).centroids


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


def test_a_sample_of_documents_seeds_the_same_for_any_blocks():
    X, _, _ = planted()
    np.testing.assert_array_equal(after(0, X, 20), after(0, lazy(X, CHUNKS["ragged"]), 20))


def test_workers_do_not_change_the_bits():
    X, _, _ = planted(dtype=np.float32)
    found = []
    for workers in (1, 4):
        with dask.config.set(scheduler="threads", num_workers=workers):
            found.append(SphericalKMeans(3).fit(lazy(X, CHUNKS["even"])).cluster_centers_.tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("in_blocks", [False, True])
def test_an_empty_cluster_takes_the_farthest_document(in_blocks, monkeypatch):
    """The third seed is the first once more, so that no document is nearest to it."""
    X = csr_array(np.array([[1.0, 0, 0], [1, 0.1, 0], [0, 1, 0.9], [0, 0.2, 1]]))
    X = unit_rows(X)
    matrix = lazy(X, (2, 2)) if in_blocks else X
    monkeypatch.setattr(blocks, "draw_seeds", lambda *_: np.array([0, 2, 0]))
    np.testing.assert_allclose(after(1, matrix)[:, 2], X[3:].toarray().ravel())


def test_no_cluster_ends_empty_on_hard_data():
    X = csr_array(np.vstack([np.eye(6), np.tile([1.0, 1, 0, 0, 0, 0], (30, 1))]))
    for seed in range(10):
        labels = SphericalKMeans(7, random_state=seed).fit(X).labels_
        assert np.unique(labels).size == 7


def test_seeds_differ_from_one_another():
    X = unit_rows(csr_array(np.vstack([np.eye(4)] * 10)))
    for seed in range(20):
        rows = blocks.draw_seeds(X, 4, np.random.default_rng(seed))
        assert np.unique(rows % 4).size == 4


def test_duplicates_alone_still_give_seeds():
    X = unit_rows(csr_array(np.ones((5, 3))))
    assert np.unique(blocks.draw_seeds(X, 4, np.random.default_rng(0))).size == 4
    assert SphericalKMeans(3).fit(X).labels_.shape == (5,)


def test_unit_rows_keep_an_empty_row_and_the_argument():
    X = csr_array(np.array([[0.0, 0, 0], [3, 0, 4], [0, 0, 0]], dtype=np.float32))
    unit = unit_rows(X, dtype=X.dtype)
    np.testing.assert_allclose(unit.toarray(), [[0, 0, 0], [0.6, 0, 0.8], [0, 0, 0]], rtol=1e-6)
    assert X.data.tolist() == [3, 4]
    assert unit.dtype == np.float32
    lazily = clustering.unit_documents(lazy(X, (1, 2)))
    assert isinstance(lazily, da.Array)


def test_an_empty_document_has_no_label():
    X = planted()[0].toarray()
    X[3] = 0
    with pytest.warns(UserWarning, match="1 of 60 documents hold no word"):
        model = SphericalKMeans(3).fit(X)
    assert model.labels_[3] == -1
    assert (np.delete(model.labels_, 3) >= 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_values_are_refused(bad):
    X = planted()[0].toarray()
    X[3, 3] = bad
    with pytest.raises(ValueError, match=r"X holds .* row 3, column 3"):
        SphericalKMeans(3).fit(X)


def test_too_many_clusters_or_too_small_a_sample_are_refused():
    X, _, _ = planted()
    with pytest.raises(ValueError, match="ask for 1 to 60"):
        SphericalKMeans(61).fit(X)
    with pytest.raises(ValueError, match="raise seeding_sample"):
        SphericalKMeans(5, seeding_sample=3).fit(X)


def test_clusters_that_still_move_are_told():
    X, _, _ = planted(rank=6)
    with pytest.warns(UserWarning, match="raise max_iter"):
        assert not SphericalKMeans(6, max_iter=1).fit(X).converged_


@pytest.mark.parametrize("in_blocks", [False, True])
def test_transform_gives_cosines(in_blocks):
    X, _, _ = planted()
    model = SphericalKMeans(3).fit(X)
    matrix = lazy(X, CHUNKS["ragged"]) if in_blocks else X
    dense = X.toarray()
    expected = dense / np.linalg.norm(dense, axis=1, keepdims=True) @ model.cluster_centers_.T
    np.testing.assert_allclose(np.asarray(model.transform(matrix)), expected, rtol=1e-12)
    np.testing.assert_array_equal(expected.argmax(axis=1), model.labels_)


def test_a_large_matrix_in_memory_is_cut_into_blocks():
    X, _, _ = planted()
    with dask.config.set({"distembed.block_memory": 4000}):
        cut = clustering.document_rows(X)
    assert cut.numblocks[0] > 2
    np.testing.assert_array_equal(csr_array(cut.compute()).toarray(), X.toarray())


def test_rows_are_taken_in_the_order_asked_for():
    X, _, _ = planted()
    rows = np.array([59, 0, 8, 7, 38, 39])
    found = clustering.take_rows(lazy(X, CHUNKS["ragged"]), rows)
    np.testing.assert_array_equal(found.toarray(), X[rows].toarray())


@pytest.mark.parametrize("rank", [1, 3, 4, 5, 8, 9, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_times_is_the_product(rank, dtype):
    X = csr_array(random_array((30, 17), density=0.3, rng=np.random.default_rng(rank), dtype=dtype))
    W = np.random.default_rng(1).random((17, rank))
    product = blocks.times(X, W)
    assert product.dtype == dtype
    np.testing.assert_allclose(product, X.toarray() @ W, rtol=1e-5 if dtype == np.float32 else 1e-13)
