"""Projections, eigenmaps and their graphs against plain dense solutions; kinds, chunks; graphs in several parts."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.manifold import eigenmaps
from distembed.manifold import projection as module
from distembed.manifold import regressions as ridge
from distembed.manifold.eigenmaps import laplacian_eigenmaps, smallest_eigenpairs
from distembed.manifold.projection import (
    LocalityPreservingProjection,
    is_well_conditioned,
    n_parts,
    neighborhood_graph,
)
from distembed.neighbors import distances
from distembed.neighbors.graphs import components, laplacian
from tests.references import projection as plain

TIGHT = {"tol": 1e-12, "max_iter": 5000}


def some_rows(n=60, m=12, seed=0, density=0.5):
    rng = np.random.default_rng(seed)
    rows = rng.random((n, m)) * (rng.random((n, m)) < density)
    rows[:, 0] += 0.1  # no row of zeros
    return rows


def same_up_to_sign(a, b, atol):
    signs = np.sign((a * b).sum(axis=0))
    np.testing.assert_allclose(a * signs, b, atol=atol)


def in_blocks(X, chunks):
    meta = sp.csr_array((0, 0), dtype=X.dtype)
    return da.from_array(X, chunks=(chunks, -1)).map_blocks(sp.csr_array, meta=meta)


@pytest.mark.parametrize("kind", ["cosine", "binary", "polynomial"])
@pytest.mark.parametrize("limit", [{"n_neighbors": 4}, {"threshold": 0.8}])
@pytest.mark.parametrize("sparse", [True, False])
def test_graph_equals_the_oracle(kind, limit, sparse):
    X = some_rows()
    graph = neighborhood_graph(sp.csr_array(X) if sparse else X, affinity=kind, **limit)
    expected = plain.affinity(X, k=limit.get("n_neighbors"), threshold=limit.get("threshold"), kind=kind)
    np.testing.assert_allclose(graph.toarray(), expected, atol=1e-12)


@pytest.mark.parametrize("kind", [sp.csr_array, np.asarray])
def test_the_polynomial_tells_negative_cosines_apart(kind):
    """Rows on a wide cone lie apart by more than a right angle, and the nearest are still nearer than the others."""
    X = np.array([[1, 0], [-0.6, 0.8], [-0.5, -0.9], [0.1, -1.0]])
    graph = neighborhood_graph(kind(X), n_neighbors=3, affinity="polynomial").toarray()
    expected = plain.affinity(X, k=3, kind="polynomial")
    np.testing.assert_allclose(graph, np.where(expected > 0, np.maximum(expected, 1e-6), 0), atol=1e-12)
    assert graph[0, 1] < 0.05


@pytest.mark.parametrize("chunks", [(30, 30), (23, 37)])
def test_threshold_graph_for_any_chunks(chunks):
    X = some_rows()
    with dask.config.set({"distembed.block_memory": 2**12}):
        lazy = neighborhood_graph(in_blocks(X, chunks), threshold=0.75)
    np.testing.assert_allclose(lazy.toarray(), neighborhood_graph(X, threshold=0.75).toarray(), atol=1e-12)


def test_too_many_edges_are_refused(monkeypatch):
    """In blocks of 16 rows small tiles have few edges each, all of them together too many."""
    X = sp.csr_array(some_rows())
    monkeypatch.setattr(distances, "block_memory", lambda: 2**12)
    n_edges = neighborhood_graph(X, threshold=0.1).nnz
    monkeypatch.setattr(module, "MAX_EDGES", n_edges // 60 + 1)
    assert neighborhood_graph(X, threshold=0.1).nnz == n_edges
    monkeypatch.setattr(module, "MAX_EDGES", (n_edges - 1) // 60)
    with pytest.raises(
        ValueError, match=r"threshold 0\.1 joins the first \d\d of 60 rows by \d+ pairs.*: raise"
    ):
        neighborhood_graph(X, threshold=0.1)


@pytest.mark.parametrize(("wide", "alpha"), [(False, 1.0), (True, 0.01)])
@pytest.mark.parametrize("direct_side", [1000, 5])
@pytest.mark.parametrize("kind", [sp.csr_array, np.asarray])
def test_regression_equals_the_oracle(monkeypatch, wide, alpha, direct_side, kind):
    monkeypatch.setattr(ridge, "DIRECT_SIDE", direct_side)
    monkeypatch.setattr(ridge, "PANEL", 7)
    X = some_rows(40, 70) if wide else some_rows()
    model = LocalityPreservingProjection(5, n_neighbors=6, alpha=alpha, **TIGHT).fit(kind(X))
    W = plain.spectral_regression(X, plain.affinity(X, k=6), 5, alpha)
    same_up_to_sign(model.components_.T, W, 1e-7)
    same_up_to_sign(model.transform(X), X @ W, 1e-7)
    assert model.converged_
    assert model.residuals_.max() <= 1e-12


@pytest.mark.parametrize("direct_side", [1000, 5])
@pytest.mark.parametrize("kind", [sp.csr_array, np.asarray])
def test_a_constant_column_is_one_more_column_of_the_regression(monkeypatch, direct_side, kind):
    monkeypatch.setattr(ridge, "DIRECT_SIDE", direct_side)
    X = some_rows()
    model = LocalityPreservingProjection(5, n_neighbors=6, constant_column=True, **TIGHT).fit(kind(X))
    longer = np.column_stack([X, np.ones(60)])
    W = plain.spectral_regression(longer, plain.affinity(X, k=6), 5, 0.01)
    same_up_to_sign(np.vstack([model.components_.T, model.intercept_]), W, 1e-7)
    for later in (True, False):  # what is set after the fit is for the next one
        same_up_to_sign(
            np.asarray(model.set_params(constant_column=later).transform(kind(X))), longer @ W, 1e-7
        )
    without = LocalityPreservingProjection(5, n_neighbors=6, **TIGHT).fit(X)
    assert not without.intercept_.any()


def test_badly_conditioned_rows_are_projected_within_their_singular_vectors():
    """Columns that differ in length by 10⁶: a Gram matrix of them has lost twelve of sixteen digits."""
    X = some_rows() - 0.4
    graph = neighborhood_graph(X, n_neighbors=6)
    scaled = X * np.logspace(-6, 0, X.shape[1])
    assert is_well_conditioned(X)
    assert not is_well_conditioned(scaled)
    assert not is_well_conditioned(np.column_stack([X, X[:, 0]]))
    assert not is_well_conditioned(X[:9])
    same = LocalityPreservingProjection(4, solver="eigen").fit(X, graph=graph)
    other = LocalityPreservingProjection(4, solver="eigen").fit(scaled, graph=graph)
    np.testing.assert_allclose(other.eigenvalues_, same.eigenvalues_, atol=1e-9)
    same_up_to_sign(other.transform(scaled), same.transform(X), 1e-7)


def test_eigen_equals_the_oracle():
    X = some_rows() - 0.4  # the constant is not in the span
    model = LocalityPreservingProjection(5, n_neighbors=6, solver="eigen").fit(X)
    values, W = plain.projection(X, plain.affinity(X, k=6), 5)
    np.testing.assert_allclose(model.eigenvalues_, values, atol=1e-10)
    same_up_to_sign(model.components_.T, W, 1e-8)


def test_eigen_leaves_the_constant_out_of_all_it_can_give():
    X = some_rows()
    X[:, 3] = 1.0
    model = LocalityPreservingProjection(11, n_neighbors=6, solver="eigen").fit(X)
    values, W = plain.projection(X, model.graph_.toarray(), 12)
    assert abs(values[0]) < 1e-12
    np.testing.assert_allclose(model.eigenvalues_, values[1:], atol=1e-10)
    same_up_to_sign(model.components_.T, W[:, 1:], 1e-7)
    with pytest.raises(
        ValueError, match="rank 12, of which one direction is the constant vector: choose at most 11"
    ):
        LocalityPreservingProjection(12, n_neighbors=6, solver="eigen").fit(X)
    with pytest.raises(
        ValueError, match="rank 1, of which one direction is the constant vector: choose at most 0"
    ):
        LocalityPreservingProjection(1, n_neighbors=6, solver="eigen").fit(np.ones((9, 1)))


def test_eigen_within_some_singular_vectors():
    X = some_rows() - 0.4
    U, s, V = np.linalg.svd(X, full_matrices=False)
    few = LocalityPreservingProjection(3, n_neighbors=6, solver="eigen", svd_components=7).fit(X)
    values, _ = plain.projection(U[:, :7] * s[:7], plain.affinity(X, k=6), 3)
    np.testing.assert_allclose(few.eigenvalues_, values, atol=1e-6)
    np.testing.assert_allclose(few.components_ @ V[7:].T, 0, atol=1e-6)


@pytest.mark.parametrize("direct_side", [1000, 5])
def test_kinds_and_chunks_agree(monkeypatch, direct_side):
    monkeypatch.setattr(ridge, "DIRECT_SIDE", direct_side)
    X = some_rows()
    model = LocalityPreservingProjection(4, n_neighbors=5, **TIGHT)
    expected = model.fit_transform(X)
    for other in (
        sp.csr_array(X),
        sp.csr_matrix(X),
        da.from_array(X, chunks=(20, 5)),
        in_blocks(X, (23, 37)),
    ):
        found = model.fit_transform(other)
        assert isinstance(found, da.Array) == isinstance(other, da.Array)
        np.testing.assert_allclose(np.asarray(found), expected, atol=1e-8)


def test_zero_rows_are_named_and_stay_zero():
    X = some_rows()
    X[[3, 50]] = 0
    model = LocalityPreservingProjection(4, n_neighbors=5)
    with pytest.warns(UserWarning, match=r"2 rows of X are zero, first rows \[3, 50\]"):
        vectors = model.fit_transform(sp.csr_array(X))
    assert model.zero_rows_.tolist() == [3, 50]
    assert not vectors[[3, 50]].any()
    assert not model.eigenmaps_[[3, 50]].any()
    for graph in (model.graph_, neighborhood_graph(X, threshold=0.5)):
        assert graph[[3, 50]].nnz == graph[:, [3, 50]].nnz == 0
    assert np.isfinite(vectors).all()
    others = np.delete(X, [3, 50], axis=0)
    np.testing.assert_allclose(np.delete(vectors, [3, 50], axis=0), model.fit_transform(others), atol=1e-6)


def test_isolated_vertices_of_a_graph():
    X = some_rows()
    graph = neighborhood_graph(X, n_neighbors=5).tolil()
    graph[7], graph[:, 7] = 0, 0
    for solver in ("spectral_regression", "eigen"):
        model = LocalityPreservingProjection(3, solver=solver).fit(X, graph=graph.tocsr())
        assert np.isfinite(model.transform(X)).all()
    assert not LocalityPreservingProjection(3).fit(X, graph=graph.tocsr()).eigenmaps_[7].any()


def test_more_components_than_the_rank():
    X = np.outer(np.arange(1.0, 31), np.ones(10)) + np.eye(30, 10) * 0
    X[:15, 0] = 0
    vectors = LocalityPreservingProjection(5, n_neighbors=4).fit_transform(X)
    assert np.isfinite(vectors).all()
    assert np.linalg.matrix_rank(vectors, tol=1e-8) <= 2
    with pytest.raises(
        ValueError,
        match="n_components is 5 but the rows joined by the graph have rank 2",
    ):
        LocalityPreservingProjection(5, n_neighbors=4, solver="eigen").fit(X)


def test_regression_that_stops_early_says_so(monkeypatch):
    monkeypatch.setattr(ridge, "DIRECT_SIDE", 5)
    with pytest.warns(RuntimeWarning, match="stopped after 2 steps"):
        model = LocalityPreservingProjection(3, n_neighbors=5, max_iter=2).fit(some_rows())
    assert not model.converged_
    assert model.residuals_.max() > 1e-6


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
    monkeypatch.setattr(eigenmaps, "DENSE_ROWS", dense_rows)
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
    monkeypatch.setattr(eigenmaps, "DENSE_ROWS", dense_rows)
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
