"""The smoothest vectors of graphs against dense solutions and scikit-learn; graphs in several parts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.manifold import eigenmaps as module
from distembed.manifold.eigenmaps import laplacian_eigenmaps, smallest_eigenpairs
from distembed.manifold.projection import n_parts, neighborhood_graph
from distembed.neighbors.graphs import components, laplacian
from tests.manifold.test_projection import same_up_to_sign, some_rows
from tests.references import projection as plain

SIZES = (10, 40, 1, 25, 8, 12, 15, 1, 9, 11)


def graph_in_parts(sizes=SIZES, seed=0):
    """Return a graph of as many dense parts, one of a single vertex having no edge, their vertices shuffled."""
    rng = np.random.default_rng(seed)
    parts = [np.triu(0.1 + rng.random((size, size)), 1) for size in sizes]
    whole = sp.block_diag([sp.coo_array(part + part.T) for part in parts], format="csr")
    order = rng.permutation(whole.shape[0])
    return sp.csr_array(whole[order][:, order])


@pytest.mark.parametrize("dense_rows", [1000, 5])
@pytest.mark.parametrize("normalization", ["symmetric", "none"])
def test_no_vector_is_lost_where_the_graph_has_parts(monkeypatch, dense_rows, normalization):
    """A method that starts from one vector finds a few of the ten zeros, and misnumbers what follows."""
    monkeypatch.setattr(module, "DENSE_ROWS", dense_rows)
    graph = graph_in_parts()
    labels = components(graph)
    L = laplacian(graph, normalization=normalization)
    expected = np.linalg.eigvalsh(L.toarray())
    vectors, values = smallest_eigenpairs(graph, 6, normalization=normalization, zeros="none")
    np.testing.assert_allclose(values, expected[10:16], atol=1e-8)
    np.testing.assert_allclose(L @ vectors, vectors * values, atol=1e-6)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(6), atol=1e-9)
    assert np.all((vectors**3).sum(axis=0) >= 0)
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    scale = np.sqrt(degrees) if normalization == "symmetric" else np.ones(132)
    for part in range(10):
        np.testing.assert_allclose((scale[:, None] * vectors)[labels == part].sum(axis=0), 0, atol=1e-9)
    vectors, values = smallest_eigenpairs(graph, 13, normalization=normalization)
    largest = [np.unique(labels[np.abs(column) > 1e-12]).tolist() for column in vectors.T[:3]]
    assert [np.bincount(labels)[part].tolist() for part in largest] == [[40], [25], [15]]
    np.testing.assert_allclose(values, expected[:13], atol=1e-8)
    np.testing.assert_allclose(L @ vectors, vectors * values, atol=1e-6)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(13), atol=1e-9)


@pytest.mark.parametrize("dense_rows", [1000, 5])
@pytest.mark.parametrize("n_islands", [1, 4])
def test_eigenmaps_equal_the_oracle(monkeypatch, dense_rows, n_islands):
    monkeypatch.setattr(module, "DENSE_ROWS", dense_rows)
    islands = [sp.coo_array(some_rows(30, 6, seed)) for seed in range(n_islands)]
    graph = neighborhood_graph(sp.block_diag(islands, format="csr"), n_neighbors=5)
    found = laplacian_eigenmaps(graph, 6)
    values, vectors = plain.eigenmaps(graph.toarray(), 6)
    np.testing.assert_allclose(found.values, values, atol=1e-8)
    assert (found.values == 0).sum() == n_islands - 1 == n_parts(graph) - 1
    if n_islands == 1:
        same_up_to_sign(found.vectors, vectors, 1e-7)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(2, 7), min_size=1, max_size=5), st.data())
def test_eigenmaps_of_disconnected_graphs(seed, sizes, data):
    rng = np.random.default_rng(seed)
    parts = [np.triu(0.1 + rng.random((size, size)), 1) for size in sizes]
    S = sp.block_diag([sp.coo_array(part + part.T) for part in parts], format="csr").toarray()
    n = len(S)
    k = data.draw(st.integers(1, n - 1))
    found = laplacian_eigenmaps(sp.csr_array(S), k)
    D = np.diag(S.sum(axis=1))
    np.testing.assert_allclose((D - S) @ found.vectors, D @ found.vectors * found.values, atol=1e-9)
    np.testing.assert_allclose(found.vectors.T @ D @ found.vectors, np.eye(k), atol=1e-9)
    np.testing.assert_allclose(found.vectors.T @ D.sum(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(found.values, plain.eigenmaps(S, k)[0], atol=1e-9)
    assert n_parts(sp.csr_array(S)) == len(sizes)
