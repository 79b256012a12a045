import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import csgraph
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import kneighbors_graph

from distembed.neighbors.graphs import (
    affinity_rows,
    components,
    degrees_of,
    joint_adjacency,
    laplacian,
    neighbor_affinity,
)


def rows(n=50, d=6, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def neighbor_mask(X, k):
    return kneighbors_graph(X / np.linalg.norm(X, axis=1, keepdims=True), k).toarray() > 0


def random_graph(n, density=0.2, seed=0):
    upper = sp.random_array((n, n), density=density, rng=np.random.default_rng(seed), format="csr")
    upper = sp.triu(upper, 1)
    return sp.csr_array(upper + upper.T)


@pytest.mark.parametrize("affinity", ["binary", "cosine", "gaussian", "local"])
@pytest.mark.parametrize("symmetry", ["union", "mutual"])
def test_edges_are_the_neighbors_and_weights_symmetric(affinity, symmetry):
    X = rows()
    graph = neighbor_affinity(X, 8, affinity=affinity, symmetry=symmetry).toarray()
    near, nearest = neighbor_mask(X, 8), neighbor_mask(X, 3)
    expected = near | near.T if symmetry == "union" else (near & near.T) | nearest | nearest.T
    np.testing.assert_array_equal(graph > 0, expected)
    np.testing.assert_allclose(graph, graph.T, rtol=1e-12)
    assert graph.max() <= 1
    assert not graph.diagonal().any()


def test_weights_follow_their_formulas():
    X = rows()
    cosines = cosine_similarity(X)
    near = neighbor_mask(X, 8)
    squares = np.where(near, 2 - 2 * cosines, np.nan)
    own = np.sqrt(np.sort(squares, axis=1)[:, 6])
    both = near | near.T
    for affinity, expected in (
        ("cosine", np.maximum(cosines, 1e-6)),
        ("gaussian", np.exp(-(2 - 2 * cosines) / np.nanmean(squares))),
        ("local", np.exp(-(2 - 2 * cosines) / np.outer(own, own))),
    ):
        graph = neighbor_affinity(X, 8, affinity=affinity).toarray()
        np.testing.assert_allclose(graph[both], np.maximum(expected, 1e-6)[both], rtol=1e-9)


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array, lambda X: da.from_array(X, chunks=(7, 3))])
def test_rows_of_zeros_have_no_edge(wrap):
    X = rows()
    X[[3, 20]] = 0
    graph = neighbor_affinity(wrap(X), 5)
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    assert np.flatnonzero(degrees == 0).tolist() == [3, 20]
    whole = neighbor_affinity(np.delete(X, [3, 20], axis=0), 5).toarray()
    np.testing.assert_allclose(
        np.delete(np.delete(graph.toarray(), [3, 20], 0), [3, 20], 1), whole, rtol=1e-12
    )


def with_options(**options):
    return lambda: neighbor_affinity(rows(), **{"n_neighbors": 5, **options})


def with_links(sets, link):
    return lambda: joint_adjacency([random_graph(5), random_graph(4)], {sets: sp.csr_array(link)})


NEGATIVE = np.diag([2.0, -1.0, 1.0, 1.0, 1.0])[:, :4]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (with_options(affinity="rbf"), "affinity is 'rbf'"),
        (with_options(symmetry="both"), "symmetry is 'both'"),
        (with_options(affinity="cosine", metric="euclidean"), "not 'euclidean'"),
        (with_options(n_neighbors=50), "50 neighbors of each row are asked for"),
        (with_links((1, 0), np.eye(4, 5)), r"\(1, 0\) have shape \(4, 5\)"),
        (
            with_links((0, 2), np.eye(5, 4)),
            r"\(0, 2\) have shape .* give those of sets \(a, b\) with a < b of \[5, 4\] rows",
        ),
        (with_links((0, 1), np.eye(4, 4)), r"have shape \(4, 4\)"),
        (with_links((0, 1), NEGATIVE), "the least weight -1"),
        (lambda: laplacian(random_graph(30), normalization="left"), "normalization is 'left'"),
    ],
)
def test_bad_options_and_links_are_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_joint_graph_of_three_sets():
    graphs = [random_graph(n, seed=n) for n in (5, 4, 3)]
    links = {(0, 1): sp.csr_array(np.eye(5, 4)), (0, 2): sp.csr_array(np.eye(5, 3))}
    joint = joint_adjacency(graphs, links, weight=2.0).toarray()
    np.testing.assert_allclose(joint, joint.T)
    np.testing.assert_allclose(joint[:5, 5:9], 2 * np.eye(5, 4))
    np.testing.assert_allclose(joint[:5, 9:], 2 * np.eye(5, 3))
    assert not joint[5:9, 9:].any()
    for graph, begin in zip(graphs, (0, 5, 9), strict=True):
        end = begin + graph.shape[0]
        np.testing.assert_allclose(joint[begin:end, begin:end], graph.toarray())


@pytest.mark.parametrize("normalization", ["symmetric", "none"])
def test_a_laplacian_is_that_of_scipy_and_isolated_vertices_cost_nothing(normalization):
    """The plain one is divided by the mean degree."""
    graph, is_symmetric = random_graph(30), normalization == "symmetric"
    expected = csgraph.laplacian(graph, normed=is_symmetric).toarray()
    expected = expected if is_symmetric else expected / graph.sum(axis=1).mean()
    np.testing.assert_allclose(laplacian(graph, normalization=normalization).toarray(), expected, atol=1e-12)
    graph = sp.csr_array(sp.block_diag([sp.coo_array(random_graph(10, density=0.8)), sp.csr_array((2, 2))]))
    matrix = laplacian(graph, normalization=normalization).toarray()
    assert np.isfinite(matrix).all()
    assert not matrix[10:].any()
    assert np.linalg.eigvalsh(matrix).min() > -1e-12
    assert laplacian(sp.csr_array((3, 3)), normalization=normalization).nnz == 0
    assert components(graph).tolist() == [0] * 10 + [1, 2]


@pytest.mark.parametrize(
    ("affinity", "symmetry"), [("cosine", "union"), ("local", "mutual"), ("gaussian", "union")]
)
def test_a_graph_made_by_row_blocks_is_the_same(affinity, symmetry):
    X = rows(90).astype(np.float32)
    X[[0, 31, 89]] = 0
    whole = neighbor_affinity(X, 6, affinity=affinity, symmetry=symmetry)
    with dask.config.set({"distembed.block_memory": 6 * X.shape[1] * 4 * 20}):
        blocks = affinity_rows(da.from_array(X, chunks=(40, 3)), 6, affinity=affinity, symmetry=symmetry)
    assert blocks.numblocks[0] == 5
    assert blocks.shape == (90, 90)
    assert (sp.csr_array(blocks.compute()) != whole).nnz == 0
    for chunks in ((90, 6), (25, 3), (1, 6)):
        lazy = da.from_array(X, chunks=chunks)
        assert (neighbor_affinity(lazy, 6, affinity=affinity, symmetry=symmetry) != whole).nnz == 0


@pytest.mark.parametrize(("affinity", "sparse"), [("gaussian", True), ("local", True), ("local", False)])
def test_parallel_rows_are_as_near_as_equal_ones(affinity, sparse):
    """Their unit rows differ by rounding, which is no scale to measure other distances by."""
    rows = np.random.default_rng(0).random((3, 6))
    X = np.vstack([rows[:1].repeat(9, axis=0), rows[:1] * np.array([[3], [7], [0.1]]), rows[1:]])
    graph = neighbor_affinity(sp.csr_array(X) if sparse else X, 10, affinity=affinity).toarray()
    group = graph[:12, :12]
    np.testing.assert_array_equal(group[group > 0], 1)


def test_degrees_of_float32_are_added_in_float64():
    weights = (1 / np.arange(1, 10_001)).astype(np.float32)
    degrees = degrees_of(sp.csr_array(weights[None]))
    np.testing.assert_allclose(degrees, weights.sum(dtype=np.float64), rtol=1e-13)
