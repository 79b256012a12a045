"""Spanning trees over many blocks, and the graphs built on them."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from distembed.neighbors.distances import domain_rows
from distembed.neighbors.search import kept_lists
from distembed.neighbors.spanning_tree import spanning_neighbor_graph, spanning_tree_of
from distembed.states import keeping
from tests.kept_states import KeptStates
from tests.neighbors.test_search import clusters, cut_into, points
from tests.references import imputation as oracle


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


def test_tree_of_rows_that_are_all_equal():
    tree = tree_of(np.ones((30, 4)), 2)
    assert tree.edges.tolist() == [[0, row] for row in range(1, 30)]
    assert not tree.lengths.any()


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


def test_parity_with_the_published_program(shared):
    reference = np.load(shared / "reference" / "imputation_sp500_google.npz")
    near = nearest(reference["aff"], 8)
    tree = tree_from(reference["aff"], near)
    assert tree.lengths.sum() == pytest.approx(float(reference["mst_weight"]), rel=1e-13)
    graph = spanning_neighbor_graph(tree, near, min_degree=8)
    bits = np.unpackbits(reference["graph"], axis=1)[:, :480]
    np.testing.assert_array_equal(graph.toarray() != 0, bits != 0)
