"""Distances, neighbors and trees: of each kind of rows, lazy, equal for every cut, memory and scheduler."""

from itertools import pairwise

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

import distembed as de
from distembed.linalg.csr import unit_rows
from distembed.neighbors import blocks, cosine_blocks, distances, search
from distembed.neighbors.distances import domain_rows
from distembed.neighbors.search import kept_lists
from distembed.neighbors.spanning_tree import spanning_neighbor_graph, spanning_tree_of
from distembed.states import keeping
from tests.kept_states import KeptStates
from tests.references import imputation as oracle

N, D = 24, 6
CUTS = {"whole": (24,), "even": (8, 8, 8), "ragged": (1, 16, 7), "single rows": (1,) * 24}


def single(X):
    return X.astype(np.float32)


KINDS = {
    "euclidean": ("euclidean", np.asarray),
    "euclidean float32": ("euclidean", single),
    "cosine": ("cosine", np.asarray),
    "cosine float32": ("cosine", single),
    "sparse": ("cosine", sp.csr_array),
    "sparse matrix": ("cosine", sp.csr_matrix),
}
of_each_kind = pytest.mark.parametrize(
    ("kind", "cut"),
    [
        ("euclidean", "ragged"),
        ("euclidean", "whole"),
        ("euclidean float32", "single rows"),
        ("cosine", "even"),
        ("cosine float32", "ragged"),
        ("sparse", "ragged"),
        ("sparse", "single rows"),
        ("sparse matrix", "even"),
    ],
)


def points(n=N, d=D, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


def rows_with_zeros():
    """Return rows with zeros, two of them equal, two nearly so."""
    random = np.random.default_rng(0)
    X = random.standard_normal((N, D)) * (random.random((N, D)) > 0.3)
    X[:, 0] += 3
    X[7], X[9] = X[3], X[3] * (1 + 1e-9)
    return X


def clusters(n_clusters=6, size=4, seed=0):
    """Return tight groups, far apart: short neighbor lists stay inside their group."""
    rng = np.random.default_rng(seed)
    centers = 100 * rng.standard_normal((n_clusters, 3))
    return np.repeat(centers, size, axis=0) + rng.standard_normal((n_clusters * size, 3))


def words(n, m, seed=0, density=0.2):
    """Return counts whose columns empty out as those of words do; equal rows among them."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(3, (n, m)) * (rng.random((n, m)) < density / (1 + np.arange(m) / 10))
    counts[np.arange(n), rng.integers(0, m, n)] += 1
    counts[n // 2 :][:5] = counts[: min(5, n - n // 2)]
    return sp.csr_array(counts.astype(np.float32))


def cut_into(chunk, monkeypatch):
    """Let the grid have blocks of so many rows."""
    monkeypatch.setattr(distances, "row_chunk", lambda n_rows, row_bytes, block_memory: chunk)
    monkeypatch.setattr(
        distances,
        "cut_rows",
        lambda sizes, *_: tuple(np.diff([*range(0, len(sizes), chunk), len(sizes)]).tolist()),
    )


def block_memory(n_bytes):
    return dask.config.set({"distembed.block_memory": n_bytes})


class Source:
    """Rows cut into blocks, which count how often they are read; the values of sparse ones are counted at once."""

    def __init__(self, X, rows):
        self.X, self.n_reads = sp.csr_array(X) if sp.issparse(X) else X, 0
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
    X, Y = ((rows.toarray() if sp.issparse(rows) else rows).astype(np.float64) for rows in (X, Y))
    if metric == "euclidean":
        return np.sqrt(((X[:, None] - Y[None]) ** 2).sum(axis=-1))
    lengths = np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(Y, axis=1))
    return 1 - X @ Y.T / lengths


def assert_nearest(found, expected, k):
    """The k smallest distances of each row, rising; of equal ones the smaller number comes first."""
    distances, indices = map(np.asarray, found)
    assert (distances.dtype, indices.dtype) == (np.float64, np.int64)
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :k], rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(
        np.take_along_axis(expected, indices, axis=1), distances, rtol=1e-7, atol=1e-12
    )
    is_level = np.diff(distances, axis=1) == 0
    assert (np.diff(indices, axis=1)[is_level] > 0).all()
    assert (np.diff(np.sort(indices, axis=1), axis=1) > 0).all()


def lists_in(X, k, *, metric="euclidean"):
    return search.search_lists(domain_rows(X, metric=metric), k=k, single=metric == "cosine")


@of_each_kind
def test_distances_are_those_of_the_formula_and_lazy(kind, cut):
    metric, make = KINDS[kind]
    X, Y = make(rows_with_zeros()), make(np.abs(rows_with_zeros()[:11])[::-1])
    found = de.pairwise_distances(X, Y, metric=metric)
    assert (type(found), found.dtype) == (np.ndarray, np.float64)
    np.testing.assert_allclose(found, plain_distances(X, Y, metric), rtol=1e-10, atol=1e-14)
    alone = de.pairwise_distances(X, metric=metric)
    np.testing.assert_array_equal(alone, de.pairwise_distances(X, X, metric=metric))
    np.testing.assert_array_equal(alone, alone.T)
    source = Source(X, CUTS[cut])
    with block_memory(2**13):
        lazy = de.pairwise_distances(source.lazy, metric=metric)
    assert isinstance(lazy, da.Array)
    assert source.n_reads == source.n_counted
    np.testing.assert_allclose(lazy.compute(scheduler="synchronous"), alone, rtol=1e-10, atol=1e-14)
    assert source.n_reads >= len(CUTS[cut])


def test_distances_of_rows_that_nearly_coincide_keep_their_digits():
    X = 1e3 + np.arange(12.0).reshape(4, 3) * 1e-7
    np.testing.assert_allclose(de.pairwise_distances(X), plain_distances(X, X, "euclidean"), rtol=1e-11)


@of_each_kind
def test_neighbors_are_the_nearest_lazy_and_of_the_same_bits(kind, cut):
    metric, make = KINDS[kind]
    X = make(rows_with_zeros())
    expected = plain_distances(X, X, metric)
    np.fill_diagonal(expected, np.inf)
    for k in (1, 5, 23):
        whole, source = de.nearest_neighbors(X, k, metric=metric), Source(X, CUTS[cut])
        assert_nearest(whole, expected, k)
        with block_memory(2**11):
            found = de.nearest_neighbors(source.lazy, k, metric=metric)
        assert isinstance(found.distances, da.Array)
        assert source.n_reads == source.n_counted
        for one, other in zip(dask.compute(*found, scheduler="synchronous"), whole, strict=True):
            assert one.tobytes() == other.tobytes()


@settings(max_examples=60)
@given(data=st.data(), kind=st.sampled_from([*KINDS]), shape=st.tuples(st.integers(3, 30), st.integers(1, 9)))
def test_of_many_equal_distances_and_rows_the_smaller_numbers_come_first_in_any_blocks(data, kind, shape):
    metric, make = KINDS[kind]
    X = data.draw(hnp.arrays(np.float64, shape, elements=st.integers(-3, 3).map(float)))
    if metric == "cosine":
        X[:, 0] = 1 + np.abs(X[:, 0])
    k, rows = data.draw(st.integers(1, len(X) - 1)), data.draw(st.integers(1, len(X)))
    whole = de.nearest_neighbors(make(X), k, metric=metric)
    with pytest.MonkeyPatch.context() as patch:
        cut_into(rows, patch)
        cut = de.nearest_neighbors(make(X), k, metric=metric)
    assert (cut.distances.tobytes(), cut.indices.tobytes()) == (
        whole.distances.tobytes(), whole.indices.tobytes(),
    )  # fmt: skip
    if metric == "euclidean":  # whose squares are whole numbers here
        order, D = oracle.nearest(oracle.distances(X), k)
        np.testing.assert_array_equal(whole.indices, order)
        np.testing.assert_allclose(whole.distances, D, rtol=1e-14)
    else:
        expected = plain_distances(X, X, metric)
        np.fill_diagonal(expected, np.inf)
        assert_nearest(whole, expected, k)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("scale", "offset"), [(1, 1e4), (2.0**-90, 0), (2.0**90, 0)])
def test_neighbors_are_exact_where_products_in_float32_have_no_digit_overflow_or_vanish(dtype, scale, offset):
    X = ((offset + np.random.default_rng(0).random((300, 6))) * scale).astype(dtype)
    order, _ = oracle.nearest(oracle.distances(X.astype(np.float64)), 5)
    np.testing.assert_array_equal(de.nearest_neighbors(X, 5).indices, order)


def test_sparse_rows_without_a_common_feature_are_at_distance_one():
    found = de.nearest_neighbors(sp.csr_array(np.eye(4)), 2, metric="cosine")
    np.testing.assert_array_equal(found.distances, 1)
    np.testing.assert_array_equal(found.indices, [[1, 2], [0, 2], [0, 1], [0, 1]])


@of_each_kind
def test_neighbors_among_other_rows_are_the_nearest_of_them(kind, cut):
    """A row of X that is equal to one of Y, of the same number too, has it as a neighbor."""
    metric, make = KINDS[kind]
    X = rows_with_zeros()
    Y = np.concatenate([X[3:10], X[:3] + 0.25])
    X, Y = make(X), make(Y)
    expected = plain_distances(X, Y, metric)
    for rows in (X, Source(X, CUTS[cut]).lazy):
        assert_nearest(dask.compute(*de.nearest_neighbors(rows, 5, Y=Y, metric=metric)), expected, 5)
    assert_nearest(de.nearest_neighbors(X[:2], Y.shape[0], Y=Y, metric=metric), expected[:2], Y.shape[0])


@of_each_kind
def test_a_tree_is_that_of_all_distances(kind, cut):
    metric, make = KINDS[kind]
    X = make(rows_with_zeros())
    edges, lengths = de.spanning_tree(X, metric=metric)
    distances = de.pairwise_distances(X, metric=metric)
    np.testing.assert_allclose(lengths, distances[tuple(edges.T)], atol=1e-12)
    least = minimum_spanning_tree(distances + 1e-6 * ~np.eye(N, dtype=bool))  # SciPy takes zero for no edge
    np.testing.assert_allclose(lengths.sum(), least.sum() - 1e-6 * (N - 1), atol=1e-9)
    again = de.spanning_tree(Source(X, CUTS[cut]).lazy, metric=metric)
    assert again.edges.tobytes() == edges.tobytes()
    assert again.lengths.tobytes() == lengths.tobytes()
    with pytest.raises(ValueError, match="give two rows or more"):
        de.spanning_tree(X[:1], metric=metric)


@pytest.mark.parametrize(("k", "memory"), [(1, 2**14), (7, 2**16), (299, 2**18)])
def test_more_rows_have_the_same_bits_in_any_memory_and_their_nearest(k, memory):
    """Sparse rows of words, with masses of equal ones, and dense rows in single precision."""
    for X, metric in ((words(300, 80), "cosine"), (points(300, 17, dtype=np.float32), "euclidean")):
        expected = plain_distances(X, X, metric)
        np.fill_diagonal(expected, np.inf)
        whole = lists_in(X, k, metric=metric).compute()
        with block_memory(memory), dask.config.set(scheduler="threads"):
            assert_nearest(de.nearest_neighbors(X, k, metric=metric), expected, k)
            lists = lists_in(X, k, metric=metric)
            assert lists.numblocks[0] > 1 or memory == 2**18
            assert lists.compute().tobytes() == whole.tobytes()
    again = lists_in(da.from_array(X, chunks=(99, 6)), k)  # columns that are cut, too
    assert again.compute().tobytes() == whole.tobytes()


FAULTS = {
    np.nan: ("euclidean", "holds NaN or infinity, first in row 19, column 0: drop or fill it"),
    0: ("cosine", r"is zero, which has no cosine, in 1 of \d+ rows, first \[19\]"),
}


@pytest.mark.parametrize(("lazy", "which"), [(False, "X"), (True, "Y")])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_row_is_named_with_its_matrix(lazy, which, fault):
    metric, sentence = FAULTS[fault]
    given = {"X": rows_with_zeros(), "Y": rows_with_zeros()}
    given[which][19] = fault
    if lazy:
        given = {name: da.from_array(value, chunks=(10, -1)) for name, value in given.items()}
    for measure in (de.pairwise_distances, lambda X, **other: de.nearest_neighbors(X, 2, **other)):
        with pytest.raises(ValueError, match=rf"{which} {sentence}"):
            da.compute(measure(**given, metric=metric))


X, COSINE = points(), {"metric": "cosine"}


@pytest.mark.parametrize(
    ("given", "options", "sentence"),
    [
        ((X, 2), {"Y": X[:, :2]}, "rows of X have 6 values and those of Y 2: they must agree"),
        ((X, 2), {"Y": sp.csr_array(X), **COSINE}, "one of X and Y is sparse"),
        ((sp.csr_array(X), 2), {}, "metric='cosine' only"),
        ((X, 2), {"metric": "manhattan"}, "metric must be .* not 'manhattan'"),
        ((X[0], 2), {}, "shape"),
        ((X.astype(str), 2), {}, "dtype"),
        *(((X, k), {}, f"{k} neighbors of .* each of 24 rows has 23 others: ask for 1 to 23") for k in (0, 24, -1)),
        ((da.from_array(X), 24), {}, "24 neighbors of each row are asked for"),
        ((X[:1], 1), {}, "each of 1 row has 0 others: give two rows or more"),
        ((X, 4), {"Y": X[:3]}, "4 neighbors of each row are asked for, but each of 24 rows has 3 rows of Y"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_refused(given, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        de.nearest_neighbors(*given, **options)
    if "neighbors" not in sentence and "others" not in sentence:
        with pytest.raises(ValueError, match=sentence):
            de.pairwise_distances(given[0], **options)


@settings(max_examples=40)
@given(
    st.integers(1, 30),
    st.integers(1, 700),
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    st.sampled_from([0, 20, 300, 10_000, 100_000]),
)
def test_approximate_cosines_stay_within_their_error(n, m, seed, density, dense_values):
    X, Z = (unit_rows(words(rows, m, seed + rows, density)) for rows in (n, 17))
    scores = cosine_blocks.approximate_cosines(X, Z, dense_values=dense_values)
    assert scores.dtype == np.float32
    assert np.abs(scores - X.toarray() @ Z.toarray().T).max() <= cosine_blocks.cosine_error(m)


def test_wrong_scores_do_not_survive(monkeypatch):
    """Scores off by almost their bound change what is measured, not the result."""
    X = words(150, 60)
    lists = lists_in(X, 5, metric="cosine").compute()
    exact, noise = cosine_blocks.approximate_cosines, np.random.default_rng(1)

    def spoiled(X, Z, *, dense_values):
        scores = exact(X, Z, dense_values=dense_values)
        return scores + noise.uniform(-0.04, 0.04, scores.shape).astype(np.float32)

    monkeypatch.setattr(blocks, "approximate_cosines", spoiled)
    monkeypatch.setattr(blocks, "cosine_error", lambda n_features: 0.041)
    assert lists_in(X, 5, metric="cosine").compute().tobytes() == lists.tobytes()


def nearest(X, k, metric="euclidean"):
    return kept_lists(domain_rows(X, metric=metric), k, metric=metric)


def tree_from(X, lists, metric="euclidean"):
    return spanning_tree_of(domain_rows(X, metric=metric), lists)


def tree_of(X, k, metric="euclidean"):
    return tree_from(X, nearest(X, k, metric), metric)


@pytest.mark.parametrize(
    ("rows", "k", "make"),
    [(24, 3, points), (8, 1, clusters), (7, 3, clusters), (23, 23, points), (1, 1, clusters), (1, 3, points)],
)
def test_tree_weighs_as_much_as_scipys(rows, k, make, monkeypatch):
    """Of blocks of so many rows; the last may have one alone."""
    cut_into(rows, monkeypatch)
    X = make()
    tree = tree_of(X, k)
    assert tree.lengths.sum() == pytest.approx(minimum_spanning_tree(oracle.distances(X)).sum(), rel=1e-12)
    assert sorted(map(tuple, tree.edges.tolist())) == oracle.prim(oracle.distances(X))


@pytest.mark.parametrize(("seed", "k"), [(0, 1), (1, 2), (2, 5), (3, 1)])
def test_tree_of_equal_rows_and_equal_distances(seed, k):
    X = np.random.default_rng(seed).integers(0, 3, (40, 3)).astype(np.float32)
    tree = tree_of(X, k)
    D = oracle.distances(X)
    assert tree.lengths.sum() == pytest.approx(sum(D[i, j] for i, j in oracle.prim(D)), rel=1e-12)
    edges = sp.csr_array((np.ones(39), tree.edges.T), shape=(40, 40))
    assert connected_components(edges, directed=False)[0] == 1


def test_tree_does_not_depend_on_the_length_of_the_lists():
    X = clusters(20, 5)
    searches, trees = {}, []
    for k in (1, 4, 8, 99):
        with keeping(searches.setdefault(k, KeptStates())):
            trees.append(tree_of(X, k))
    assert len({tree.edges.tobytes() + tree.lengths.tobytes() for tree in trees}) == 1
    assert len(searches[1].stored) > 1
    assert len(searches[99].stored) == 1  # the lists


def test_tree_wants_lists_of_its_rows():
    with pytest.raises(ValueError, match="24 rows, but there are neighbors of 10"):
        tree_from(points(), nearest(points(10), 2))


@pytest.mark.parametrize("make", [points, clusters])
def test_graph_is_the_papers(make):
    X = make()
    near = nearest(X, 5)
    graph = spanning_neighbor_graph(tree_from(X, near), near, min_degree=5)
    dense = np.zeros(graph.shape, dtype=bool)
    dense[np.repeat(np.arange(24), np.diff(graph.indptr)), graph.indices] = True
    np.testing.assert_array_equal(dense, oracle.mst_knn_graph(X, 5))
    assert graph.has_sorted_indices
    with pytest.raises(ValueError, match="cannot give 6"):
        spanning_neighbor_graph(tree_from(X, near), near, min_degree=6)


def test_graph_keeps_edges_of_length_zero():
    X = np.repeat(points(5), 4, axis=0)
    near = nearest(X, 3)
    graph = spanning_neighbor_graph(tree_from(X, near), near, min_degree=3)
    assert (np.diff(graph.indptr) >= 3).all()
    assert (graph.data == 0).sum() >= 2 * 15
