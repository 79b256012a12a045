"""Projections, eigenmaps and their graphs against plain dense solutions; kinds, chunks; graphs in several parts."""

from __future__ import annotations

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


# Rows on a wide cone lie apart by more than a right angle, and the nearest are still nearer than the others.
CONE = np.array([[1, 0], [-0.6, 0.8], [-0.5, -0.9], [0.1, -1.0]])


@pytest.mark.parametrize("kind", ["cosine", "binary", "polynomial"])
@pytest.mark.parametrize(
    ("X", "limit"),
    [(some_rows(), {"n_neighbors": 4}), (some_rows(), {"threshold": 0.8}), (CONE, {"n_neighbors": 3})],
)
def test_graph_equals_the_oracle(kind, X, limit):
    expected = plain.affinity(X, k=limit.get("n_neighbors"), threshold=limit.get("threshold"), kind=kind)
    for rows in (X, sp.csr_array(X)):
        graph = neighborhood_graph(rows, affinity=kind, **limit).toarray()
        np.testing.assert_allclose(graph, np.where(expected > 0, np.maximum(expected, 1e-6), 0), atol=1e-12)


def test_threshold_graph_for_any_chunks_has_a_bound_of_its_edges(monkeypatch):
    """In blocks of 16 rows small tiles have few edges each, all of them together too many."""
    X, graph = some_rows(), neighborhood_graph(some_rows(), threshold=0.1)
    monkeypatch.setattr(distances, "block_memory", lambda: 2**12)
    monkeypatch.setattr(module, "MAX_EDGES", graph.nnz // 60 + 1)
    for rows in (sp.csr_array(X), in_blocks(X, (30, 30)), in_blocks(X, (23, 37))):
        found = neighborhood_graph(rows, threshold=0.1)
        np.testing.assert_allclose(found.toarray(), graph.toarray(), atol=1e-12)
    monkeypatch.setattr(module, "MAX_EDGES", (graph.nnz - 1) // 60)
    too_many = r"threshold 0\.1 joins the first \d\d of 60 rows by \d+ pairs.*: raise"
    with pytest.raises(ValueError, match=too_many):
        neighborhood_graph(sp.csr_array(X), threshold=0.1)


@pytest.mark.parametrize("options", [{"alpha": 1.0}, {"alpha": 0.1}, {"constant_column": True}])
@pytest.mark.parametrize("direct_side", [1000, 5])
def test_regression_of_rows_of_every_kind_equals_the_oracle(monkeypatch, options, direct_side):
    """There are more columns than rows for the small alpha, and a constant column is one more."""
    monkeypatch.setattr(ridge, "DIRECT_SIDE", direct_side)
    monkeypatch.setattr(ridge, "PANEL", 7)
    X = some_rows(24, 40) if options == {"alpha": 0.1} else some_rows()
    has_constant = "constant_column" in options
    longer = np.column_stack([X, np.ones(len(X))]) if has_constant else X
    W = plain.spectral_regression(longer, plain.affinity(X, k=6), 5, options.get("alpha", 0.01))
    cut = (len(X) - 17, 17)
    for rows in (X, sp.csr_array(X), sp.csr_matrix(X), da.from_array(X, chunks=(20, 5)), in_blocks(X, cut)):
        model = LocalityPreservingProjection(5, n_neighbors=6, **options, **TIGHT).fit(rows)
        found = model.components_.T
        same_up_to_sign(np.vstack([found, model.intercept_]) if has_constant else found, W, 1e-7)
        vectors = model.set_params(constant_column=not has_constant).transform(rows)  # set for the next fit
        assert isinstance(vectors, da.Array) == isinstance(rows, da.Array)
        same_up_to_sign(np.asarray(vectors), longer @ W, 1e-7)
        assert model.converged_
        assert model.residuals_.max() <= 1e-12
        assert has_constant or not model.intercept_.any()


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


@pytest.mark.parametrize(("kept", "atol"), [(12, 1e-8), (7, 1e-6)])
def test_eigen_within_all_or_some_singular_vectors_equals_the_oracle(kept, atol):
    X = some_rows() - 0.4  # the constant is not in the span
    U, s, V = np.linalg.svd(X, full_matrices=False)
    options = {"n_neighbors": 6, "solver": "eigen", "svd_components": None if kept == 12 else kept}
    model = LocalityPreservingProjection(3, **options).fit(X)
    values, W = plain.projection(U[:, :kept] * s[:kept], plain.affinity(X, k=6), 3)
    np.testing.assert_allclose(model.eigenvalues_, values, atol=atol)
    same_up_to_sign(model.components_.T, V[:kept].T @ W, 10 * atol)


def test_eigen_leaves_the_constant_out_of_all_it_can_give():
    X = some_rows()
    X[:, 3] = 1.0
    model = LocalityPreservingProjection(11, n_neighbors=6, solver="eigen").fit(X)
    values, W = plain.projection(X, model.graph_.toarray(), 12)
    assert abs(values[0]) < 1e-12
    np.testing.assert_allclose(model.eigenvalues_, values[1:], atol=1e-10)
    same_up_to_sign(model.components_.T, W[:, 1:], 1e-7)
    for n_components, rows, message in (
        (12, X, "rank 12, of which one direction is the constant vector: choose at most 11"),
        (1, np.ones((9, 1)), "rank 1, of which one direction is the constant vector: choose at most 0"),
    ):
        with pytest.raises(ValueError, match=message):
            LocalityPreservingProjection(n_components, n_neighbors=6, solver="eigen").fit(rows)


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
    X = np.outer(np.arange(1.0, 31), np.ones(10))
    X[:15, 0] = 0
    vectors = LocalityPreservingProjection(5, n_neighbors=4).fit_transform(X)
    assert np.isfinite(vectors).all()
    assert np.linalg.matrix_rank(vectors, tol=1e-8) <= 2
    with pytest.raises(ValueError, match="n_components is 5 but the rows joined by the graph have rank 2"):
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
    order = rng.permutation(sum(sizes))
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
    for k, zeros, first in ((6, "none", 10), (13, "all", 0)):
        vectors, values = smallest_eigenpairs(graph, k, normalization=normalization, zeros=zeros)
        np.testing.assert_allclose(values, expected[first : first + k], atol=1e-8)
        np.testing.assert_allclose(L @ vectors, vectors * values, atol=1e-6)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-9)
        assert np.all((vectors**3).sum(axis=0) >= 0)
    largest = [np.unique(labels[np.abs(column) > 1e-12]).tolist() for column in vectors.T[:3]]
    assert [np.bincount(labels)[part].tolist() for part in largest] == [[40], [25], [15]]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(2, 7), min_size=1, max_size=5), st.data())
def test_eigenmaps_of_disconnected_graphs(seed, sizes, data):
    S, n = graph_in_parts(sizes, seed).toarray(), sum(sizes)
    k = data.draw(st.integers(1, n - 1))
    found = laplacian_eigenmaps(sp.csr_array(S), k)
    D = np.diag(S.sum(axis=1))
    np.testing.assert_allclose((D - S) @ found.vectors, D @ found.vectors * found.values, atol=1e-9)
    np.testing.assert_allclose(found.vectors.T @ D @ found.vectors, np.eye(k), atol=1e-9)
    np.testing.assert_allclose(found.vectors.T @ D.sum(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(found.values, plain.eigenmaps(S, k)[0], atol=1e-9)
    assert n_parts(sp.csr_array(S)) == len(sizes)
