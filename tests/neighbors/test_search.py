"""Neighbors, distances and trees over many blocks."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors

from distembed.lift import block
from distembed.linalg import chunks
from distembed.linalg.csr import unit_rows
from distembed.neighbors import blocks, cosine_blocks, distances, search
from distembed.neighbors.distances import domain_rows, pairwise_distances
from distembed.neighbors.search import nearest_neighbors
from distembed.states import keeping
from tests.kept_states import KeptStates
from tests.neighbors.conftest import cut_into
from tests.references import imputation as oracle


def block_memory(n_bytes):
    return dask.config.set({"distembed.block_memory": n_bytes})


def points(n=24, d=5, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


def clusters(n_clusters=6, size=4, seed=0):
    """Return tight groups, far apart: short neighbor lists stay inside their group."""
    rng = np.random.default_rng(seed)
    centers = 100 * rng.standard_normal((n_clusters, 3))
    return np.repeat(centers, size, axis=0) + rng.standard_normal((n_clusters * size, 3))


def lists_in(X, k, *, metric="euclidean"):
    return search.lists_of(domain_rows(X, metric=metric), k, metric=metric)


def test_neighbors_equal_the_oracle_for_every_cut(cut):
    X = points()
    X[7] = X[3]  # equal rows
    near = nearest_neighbors(X, 6)
    order, D = oracle.nearest(oracle.distances(X), 6)
    np.testing.assert_array_equal(near.indices, order)
    np.testing.assert_allclose(near.distances, D, rtol=1e-13)


@pytest.mark.parametrize(
    ("metric", "make"), [("euclidean", np.asarray), ("cosine", np.asarray), ("cosine", sp.csr_array)]
)
def test_neighbors_of_single_rows_equal_the_oracle(single_rows, metric, make):
    X = points(9)
    X[7] = X[3]
    near = nearest_neighbors(make(X), 4, metric=metric)
    lengths = 1 if metric == "euclidean" else np.linalg.norm(X, axis=1)[:, None]
    order, D = oracle.nearest(oracle.distances(X / lengths), 4)
    np.testing.assert_array_equal(near.indices, order)
    expected = D if metric == "euclidean" else D**2 / 2
    np.testing.assert_allclose(near.distances, expected, rtol=1e-12, atol=1e-15)


def lists_of(rows, k, *, single):
    ids = np.arange(rows.shape[0])
    return search.search_lists(rows, ids, rows, ids, k=k, single=single).compute()


def assert_same_bits(X):
    """Rule pairs out in float32 and in float64; one row is nearer to another than float32 products tell apart."""
    X[7] = X[3] * (1 + 2.0**-20)
    rows = distances.domain_rows(X, metric="cosine")
    assert lists_of(rows, 6, single=True).tobytes() == lists_of(rows, 6, single=False).tobytes()


def test_single_products_give_the_same_bits(cut):
    assert_same_bits(points(dtype=np.float32))


def test_single_products_of_single_rows_give_the_same_bits(single_rows):
    assert_same_bits(points(9, dtype=np.float32))


def test_pairs_nearer_than_float32_tells_apart_are_measured():
    """Rows that float32 rounds to one, far from the mean of all, are ordered by their differences in float64."""
    X = np.repeat([[1.0, 1, 1, 1, 1], [-1, 1, -1, 1, -1]], 200, axis=0) + 3e-8 * points(400)
    rows = distances.domain_rows(da.from_array(X, chunks=(400, -1)))
    plain, single = (lists_of(rows, 6, single=single) for single in (False, True))
    assert single.tobytes() == plain.tobytes()
    order = np.argsort(np.where(np.eye(400), np.inf, oracle.distances(X)), axis=1, kind="stable")[:, :6]
    assert (plain[:, 1] == order).mean() > 0.99  # the oracle rounds too


def test_limits_by_the_own_block_leave_the_lists_as_they_are(monkeypatch):
    X = clusters(40, 5).astype(np.float32)
    whole = lists_in(X, 6).compute()
    monkeypatch.setattr(distances, "row_chunk", lambda n_rows, row_bytes, block_memory: 10)
    assert lists_in(X, 6).compute().tobytes() == whole.tobytes()


@pytest.mark.parametrize("sparse", [False, True])
def test_the_products_of_two_blocks_are_computed_once(monkeypatch, sparse):
    """Each pair of blocks is one tile, which begins with what the rows of both know from their own blocks."""
    X, metric = points(4000, 8, dtype=np.float32), "cosine" if sparse else "euclidean"
    X = sp.csr_array(X) if sparse else X
    whole = lists_in(X, 5, metric=metric).compute()
    limits, nearest = [], blocks._nearest

    def recorded(*given):
        if given[-2] is not None:  # of another block
            limits.extend([given[-3], given[-2][:, 0, -1]])
        return nearest(*given)

    cut_into(400, monkeypatch)
    monkeypatch.setattr(blocks, "_nearest", recorded)
    lists = lists_in(X, 5, metric=metric).compute()
    assert lists.tobytes() == whole.tobytes()
    assert len(limits) == 2 * 45
    assert np.isfinite(limits).all()
    assert (lists[:, 0, -1].max() <= np.array(limits).max(axis=1)).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_every_block_of_rows_is_made_once(monkeypatch, sparse):
    """Neither the search nor what measures its candidates makes the rows of a block again."""
    made = []

    def counted(block):
        made.append(block.shape[0])
        return unit_rows(block)

    monkeypatch.setattr(distances, "unit_rows", block(temporaries=1)(counted))
    cut_into(10, monkeypatch)
    X = np.abs(points()) + 0.1
    nearest_neighbors(sp.csr_array(X) if sparse else X, 5, metric="cosine")
    assert sorted(made) == [4, 10, 10]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbors_have_the_same_bits_however_the_rows_come(dtype, monkeypatch):
    X = points(500, 17, dtype=dtype)
    lists = lists_in(X, 5).compute()
    monkeypatch.setattr(distances, "row_chunk", lambda n_rows, row_bytes, block_memory: 130)
    assert lists_in(X, 5).compute().tobytes() == lists.tobytes()
    for scheduler in ("sync", "threads"):
        with dask.config.set(scheduler=scheduler):
            again = lists_in(da.from_array(X, chunks=(99, 6)), 5).compute()
        assert again.tobytes() == lists.tobytes()


def test_neighbors_agree_with_scikit_learn():
    X = points(3000, 20, dtype=np.float32)
    near = nearest_neighbors(X, 9)
    D, order = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(X.astype(np.float64)).kneighbors()[:2]
    np.testing.assert_array_equal(near.indices, order[:, :9])
    np.testing.assert_allclose(near.distances, D[:, :9], rtol=1e-7)


def test_cosine_neighbors_of_sparse_and_dense_rows_agree(cut):
    X = sp.random_array((24, 40), density=0.2, rng=np.random.default_rng(0), format="csr") + sp.csr_array(
        (np.ones(24), (np.arange(24), np.arange(24) % 5)), shape=(24, 40)
    )
    dense = X.toarray()
    cosines = (dense / np.linalg.norm(dense, axis=1)[:, None]) @ (
        dense / np.linalg.norm(dense, axis=1)[:, None]
    ).T
    _, D = oracle.nearest(1 - cosines, 5)
    for rows in (X, dense, sp.csr_matrix(X)):
        near = nearest_neighbors(rows, 5, metric="cosine")
        np.testing.assert_allclose(near.distances, D, atol=1e-12)
        found = np.take_along_axis(1 - cosines, near.indices, axis=1)
        np.testing.assert_allclose(found, D, atol=1e-12)


def test_cosine_neighbors_of_sparse_dask_chunks():
    X = sp.csr_array(np.abs(points(24, 6)) * (points(24, 6, seed=1) > -0.5) + np.eye(24, 6))
    X = sp.csr_array(X + sp.csr_array(np.eye(24, 6)[:, [5, 0, 1, 2, 3, 4]] + np.eye(1, 6)))
    parts = [da.from_array(X[i : i + 9], chunks=(9, 6), asarray=False) for i in (0, 9, 18)]
    chunked = lists_in(da.concatenate(parts), 4, metric="cosine").compute()
    assert chunked.tobytes() == lists_in(X, 4, metric="cosine").compute().tobytes()


@pytest.mark.parametrize("k", [0, 24, -1])
def test_neighbors_refuse_impossible_k(k):
    with pytest.raises(
        ValueError, match=f"{k} neighbors of .* each of 24 rows has 23 others: ask for 1 to 23"
    ):
        nearest_neighbors(points(), k)


def test_rows_are_checked():
    X = points()
    X[5, 1] = np.nan
    with pytest.raises(
        ValueError, match="X holds NaN or infinity, first in row 5, column 1: drop or fill it"
    ):
        nearest_neighbors(X, 2)
    X[5] = 0
    with pytest.raises(ValueError, match=r"X is zero, which has no cosine, in 1 of 24 rows, first \[5\]"):
        nearest_neighbors(X, 2, metric="cosine")
    with pytest.raises(ValueError, match="metric='cosine' only"):
        nearest_neighbors(sp.csr_array(X), 2)
    with pytest.raises(ValueError, match="'manhattan'"):
        nearest_neighbors(X, 2, metric="manhattan")
    with pytest.raises(ValueError, match="shape"):
        nearest_neighbors(X[0], 2)
    with pytest.raises(ValueError, match="dtype"):
        nearest_neighbors(X.astype(str), 2)


def test_lists_are_kept_and_found_again(monkeypatch):
    kept = KeptStates()
    with keeping(kept):
        first = search.kept_lists(domain_rows(points()), 3).compute()
        monkeypatch.setattr(blocks, "_nearest", None)
        again = search.kept_lists(domain_rows(points()), 3).compute()
    assert again.tobytes() == first.tobytes()
    assert len(kept.stored) == 1
    with keeping(kept), pytest.raises(TypeError, match="not callable"):
        search.kept_lists(domain_rows(points(seed=1)), 3)


def test_blocks_come_from_the_problem_and_the_memory():
    assert chunks.row_chunk(100_000, 1200, 128 * 2**20) == 6250
    assert chunks.row_chunk(10_000_000, 1200, 128 * 2**20) * 1200 * chunks.ROW_COPIES <= 128 * 2**20
    assert chunks.row_chunk(100, 1200, 128 * 2**20) == 100
    assert chunks.row_chunk(100, 10**12, 128 * 2**20) == 1


# --------------------------------------------------------------------------- distances that are kept


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("rows", [24, 8, 7, 1])
def test_distance_rows_are_the_distances_in_float32(rows, metric):
    X = points()
    X[7] = X[3]
    with block_memory(rows * 24 * 56):
        kept = distances.distance_rows(X, metric=metric)
    assert kept.chunks[0][0] == rows
    assert kept.numblocks[1] == 1
    assert kept.dtype == np.float32
    exact = pairwise_distances(X, metric=metric)
    np.testing.assert_array_equal(kept.compute(), exact.astype(np.float32))


# --------------------------------------------------------------------------- sparse rows


def words(n, m, seed=0, density=0.2):
    """Return counts whose columns empty out as those of words do; equal rows among them."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(3, (n, m)) * (rng.random((n, m)) < density / (1 + np.arange(m) / 10))
    counts[np.arange(n), rng.integers(0, m, n)] += 1
    counts[n // 2 : n // 2 + 5] = counts[:5]
    return sp.csr_array(counts.astype(np.float32))


@pytest.mark.parametrize("k", [1, 7, 299])
def test_sparse_neighbors_equal_a_full_product(k):
    X = words(300, 80)
    dense = X.toarray().astype(np.float64)
    unit = dense / np.linalg.norm(dense, axis=1)[:, None]
    with block_memory(2**16):
        distances, indices = nearest_neighbors(X, k, metric="cosine")
        assert lists_in(X, k, metric="cosine").numblocks[0] > 3
    D = 1 - unit @ unit.T
    np.fill_diagonal(D, np.inf)
    np.testing.assert_allclose(distances, np.sort(D, axis=1)[:, :k], atol=1e-12)
    np.testing.assert_allclose(distances, np.take_along_axis(D, indices, axis=1), atol=1e-12)
    assert (np.diff(np.sort(indices, axis=1), axis=1) > 0).all()


def test_sparse_neighbors_have_the_same_bits_for_every_grid_and_scheduler():
    X = words(400, 120)
    lists = lists_in(X, 6, metric="cosine").compute()
    for memory in (2**14, 2**17):
        for scheduler in ("sync", "threads"):
            with dask.config.set(scheduler=scheduler), block_memory(memory):
                again = lists_in(X, 6, metric="cosine").compute()
            assert again.tobytes() == lists.tobytes()


def test_wrong_scores_do_not_survive(monkeypatch):
    """Scores off by almost their bound change what is measured, not the result."""
    X = words(150, 60)
    lists = lists_in(X, 5, metric="cosine").compute()
    exact = cosine_blocks.approximate_cosines
    noise = np.random.default_rng(1)

    def spoiled(X, Z, *, dense_values):
        scores = exact(X, Z, dense_values=dense_values)
        return scores + noise.uniform(-0.04, 0.04, scores.shape).astype(np.float32)

    monkeypatch.setattr(blocks, "approximate_cosines", spoiled)
    monkeypatch.setattr(blocks, "cosine_error", lambda n_features: 0.041)
    again = lists_in(X, 5, metric="cosine").compute()
    assert again.tobytes() == lists.tobytes()


def test_sparse_blocks_are_bounded_in_rows_and_values():
    sizes = np.where(np.arange(20_000) < 300, 500, 1)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    columns = np.concatenate([np.arange(size) for size in sizes])
    X = sp.csr_array((np.ones(indptr[-1], np.float32), columns, indptr), shape=(20_000, 500))
    with block_memory(2**20):
        bounds = np.cumsum([0, *domain_rows(X, metric="cosine").chunks[0]])
    assert np.diff(bounds).max() <= distances.rows_of_tile(2**20) == 256
    assert np.add.reduceat(sizes, bounds[:-1]).max() <= 2**20 // distances.VALUE_BYTES + 500
    assert len(bounds) < 100
