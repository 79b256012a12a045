"""The public distances and neighbors: of the kind of what they are given, lazy, equal for every cut and scheduler."""

from __future__ import annotations

from itertools import pairwise

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import minimum_spanning_tree

import distembed as de
from tests.references import imputation as oracle

N, D, K = 24, 6, 5
CUTS = {"whole": (24,), "even": (8, 8, 8), "ragged": (1, 16, 7), "single rows": (1,) * 24}
METRICS = ["euclidean", "cosine"]
KINDS = [("euclidean", np.asarray), ("cosine", np.asarray), ("cosine", sp.csr_array)]


def points():
    """Return rows with zeros, two of them equal, two nearly so."""
    random = np.random.default_rng(0)
    X = random.standard_normal((N, D)) * (random.random((N, D)) > 0.3)
    X[:, 0] += 3
    X[7], X[9] = X[3], X[3] * (1 + 1e-9)
    return X


def block_memory(n_bytes):
    return dask.config.set({"distembed.block_memory": n_bytes})


class Source:
    """Rows cut into blocks, which count how often they are read; the values of sparse ones are counted at once."""

    def __init__(self, X, rows):
        self.X, self.n_reads = X, 0
        self.n_counted = len(rows) if sp.issparse(X) else 0
        meta = sp.csr_array((0, 0)) if sp.issparse(X) else np.empty((0, 0))
        self.lazy = da.concatenate(
            [
                da.from_delayed(dask.delayed(self.read)(a, b), (b - a, X.shape[1]), X.dtype, meta)
                for a, b in pairwise(np.cumsum([0, *rows]).tolist())
            ]
        )

    def read(self, start, stop):
        self.n_reads += 1
        return self.X[start:stop]


def plain_distances(X, Y, metric):
    if metric == "euclidean":
        return np.sqrt(((X[:, None] - Y[None]) ** 2).sum(axis=-1))
    lengths = np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(Y, axis=1))
    return 1 - X @ Y.T / lengths


@pytest.mark.parametrize(("metric", "make"), KINDS)
def test_distances_are_those_of_the_formula(metric, make):
    X, Y = points(), np.abs(points()[:11])[::-1]
    found = de.pairwise_distances(make(X), make(Y), metric=metric)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, plain_distances(X, Y, metric), rtol=1e-10, atol=1e-14)
    alone = de.pairwise_distances(make(X), metric=metric)
    np.testing.assert_array_equal(alone, de.pairwise_distances(make(X), make(X), metric=metric))


def test_distances_of_rows_that_nearly_coincide_keep_their_digits():
    X = 1e3 + np.arange(12.0).reshape(4, 3) * 1e-7
    np.testing.assert_allclose(de.pairwise_distances(X), plain_distances(X, X, "euclidean"), rtol=1e-11)


@pytest.mark.parametrize("rows", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize(("metric", "make"), KINDS)
def test_distances_of_a_dask_array_are_lazy_and_the_same(metric, make, rows):
    source = Source(make(points()), rows)
    with block_memory(2**13):
        found = de.pairwise_distances(source.lazy, metric=metric)
    assert isinstance(found, da.Array)
    assert source.n_reads == source.n_counted
    expected = de.pairwise_distances(make(points()), metric=metric)
    np.testing.assert_allclose(found.compute(scheduler="synchronous"), expected, rtol=1e-10, atol=1e-14)
    assert source.n_reads >= len(rows)


@pytest.mark.parametrize("rows", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize(("metric", "make"), KINDS)
def test_neighbors_of_a_dask_array_are_lazy_and_have_the_same_bits(metric, make, rows):
    source = Source(make(points()), rows)
    with block_memory(2**11):
        found = de.nearest_neighbors(source.lazy, K, metric=metric)
    assert isinstance(found.distances, da.Array)
    assert source.n_reads == source.n_counted
    expected = de.nearest_neighbors(make(points()), K, metric=metric)
    assert isinstance(expected.distances, np.ndarray)
    for one, other in zip(dask.compute(*found, scheduler="synchronous"), expected, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(("metric", "make"), KINDS)
def test_neighbors_are_those_of_the_reference(metric, make):
    X = points()
    lengths = 1 if metric == "euclidean" else np.linalg.norm(X, axis=1)[:, None]
    order, apart = oracle.nearest(oracle.distances(X / lengths), K)
    distances, indices = de.nearest_neighbors(make(X), K, metric=metric)
    expected = apart if metric == "euclidean" else apart**2 / 2
    np.testing.assert_allclose(distances, expected, rtol=1e-6, atol=1e-14)
    assert (indices == order).mean() > 0.95  # the oracle rounds too
    assert indices.dtype == np.int64


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize(("metric", "make"), KINDS)
def test_any_workers_give_equal_bits(request, metric, make, workers):
    X = make(points())
    meta = sp.csr_array((0, 0)) if sp.issparse(X) else np.empty((0, 0))
    parts = [da.from_delayed(dask.delayed(X[a : a + 8]), (8, D), X.dtype, meta) for a in range(0, N, 8)]
    lazy = da.concatenate(parts)
    with block_memory(2**11):
        found = [de.pairwise_distances(lazy, metric=metric), *de.nearest_neighbors(lazy, K, metric=metric)]
    alone = dask.compute(*found, scheduler="synchronous")
    pool = {"pool": request.getfixturevalue("process_pool")} if workers == "processes" else {"num_workers": 2}
    for one, other in zip(dask.compute(*found, scheduler=workers, **pool), alone, strict=True):
        assert one.tobytes() == other.tobytes()


FAULTS = {
    np.nan: ("euclidean", "holds NaN or infinity, first in row 19, column 0"),
    0: ("cosine", r"is zero, which has no cosine, in 1 of \d+ rows, first \[19\]"),
}


@pytest.mark.parametrize("lazy", [False, True], ids=["in memory", "lazy"])
@pytest.mark.parametrize("which", ["X", "Y"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_row_is_named_with_its_matrix(lazy, which, fault):
    metric, words = FAULTS[fault]
    given = {"X": points(), "Y": points()}
    given[which][19] = fault
    if lazy:
        given = {name: da.from_array(value, chunks=(10, -1)) for name, value in given.items()}
    with pytest.raises(ValueError, match=rf"{which} {words}"):
        da.compute(de.pairwise_distances(**given, metric=metric))


def test_rows_that_cannot_be_compared_are_refused():
    X = points()
    with pytest.raises(ValueError, match="rows of X have 6 values and those of Y 2: they must agree"):
        de.pairwise_distances(X, X[:, :2])
    with pytest.raises(ValueError, match="one of X and Y is sparse"):
        de.pairwise_distances(X, sp.csr_array(X), metric="cosine")
    with pytest.raises(ValueError, match="metric='cosine' only"):
        de.pairwise_distances(sp.csr_array(X))
    with pytest.raises(ValueError, match="metric must be"):
        de.pairwise_distances(X, metric="manhattan")
    with pytest.raises(ValueError, match="24 neighbors of each row are asked for"):
        de.nearest_neighbors(da.from_array(X), 24)
    with pytest.raises(ValueError, match="each of 1 row has 0 others: give two rows or more"):
        de.nearest_neighbors(X[:1], 1)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("metric", "make"), KINDS)
def test_a_tree_is_that_of_all_distances(metric, make, cut):
    X = points()
    edges, lengths = de.spanning_tree(make(X), metric=metric)
    distances = de.pairwise_distances(X, metric=metric)
    np.testing.assert_allclose(lengths, distances[tuple(edges.T)], atol=1e-12)
    least = minimum_spanning_tree(distances + 1e-6 * ~np.eye(N, dtype=bool))  # SciPy takes zero for no edge
    np.testing.assert_allclose(lengths.sum(), least.sum() - 1e-6 * (N - 1), atol=1e-9)
    again = de.spanning_tree(Source(make(X), CUTS[cut]).lazy, metric=metric)
    assert again.edges.tobytes() == edges.tobytes()
    assert again.lengths.tobytes() == lengths.tobytes()
    with pytest.raises(ValueError, match="give two rows or more"):
        de.spanning_tree(make(X[:1]), metric=metric)


@pytest.mark.parametrize(("metric", "kind"), KINDS)
@pytest.mark.parametrize("cut", ["whole", "ragged", "single rows"])
def test_neighbors_among_other_rows_are_the_nearest_of_them(metric, kind, cut):
    """A row of X that is equal to one of Y, of the same number too, has it as a neighbor."""
    X = points()
    Y = np.concatenate([X[3:10], X[:3] + 0.25])
    expected = plain_distances(X, Y, metric)
    order = np.argsort(expected.round(9), axis=1, kind="stable")[:, :K]
    given = X if cut == "whole" else Source(kind(X), CUTS[cut]).lazy
    found = dask.compute(
        *de.nearest_neighbors(given if cut != "whole" else kind(X), K, Y=kind(Y), metric=metric)
    )
    distances, indices = map(np.asarray, found)
    np.testing.assert_allclose(distances, np.take_along_axis(expected, order, axis=1), atol=1e-7)
    np.testing.assert_allclose(np.take_along_axis(expected, indices, axis=1), distances, atol=1e-7)
    all_of_them = de.nearest_neighbors(kind(X[:2]), len(Y), Y=kind(Y), metric=metric).indices
    np.testing.assert_array_equal(np.sort(all_of_them), np.tile(np.arange(len(Y)), (2, 1)))


def test_neighbors_among_rows_of_another_kind_are_refused():
    X = points()
    with pytest.raises(ValueError, match="6 values and those of Y 5"):
        de.nearest_neighbors(X, 2, Y=X[:, :5])
    with pytest.raises(ValueError, match="one of X and Y is sparse"):
        de.nearest_neighbors(X, 2, Y=sp.csr_array(X), metric="cosine")
    with pytest.raises(
        ValueError, match="4 neighbors of each row are asked for, but each of 24 rows has 3 rows of Y"
    ):
        de.nearest_neighbors(X, 4, Y=X[:3])
