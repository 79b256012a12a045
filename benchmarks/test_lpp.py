"""CPU seconds and peak memory of neighbors, graph eigenvectors and regression as the number of words grows.

The default size only shows that the benchmark works. The figures, counted from the English texts of the shared data
(82 M tokens), one size a process because the peak is the process's::

    pytest benchmarks/test_lpp.py -m slow -s -k "documents and 100000"
    pytest benchmarks/test_lpp.py -m slow -s -k "contexts and 25000"
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.preprocessing import normalize

import distembed as de
from benchmarks.inputs import drawn_words, gathered
from benchmarks.measures import clock
from distembed.manifold.eigenmaps import laplacian_eigenmaps
from distembed.manifold.projection import LocalityPreservingProjection, neighborhood_graph
from distembed.neighbors.search import nearest_neighbors
from distembed.weighting.documents import log_entropy

SIZES = [12_000, 25_000, 50_000, 100_000]
N_NEIGHBORS, N_COMPONENTS, TOL = 20, 300, 1e-3


def counted(shared, kind, n, tmp_path):
    """Return the n most frequent words by documents (log-entropy) or by the contexts of a 5-word window."""
    files = [str(f) for f in sorted((shared / "data" / "english").glob("*.txt.xz")) if "vocab" not in f.name]
    tokens = de.read_corpus(files, layout="blocks").tokenize(tmp_path)
    vocabulary = de.build_vocabulary(tokens, max_size=n)
    if kind == "contexts":
        return gathered(de.count_cooccurrences(tokens, vocabulary, window=5)).astype(np.float32)
    rows = sp.csr_array(log_entropy(gathered(de.count_document_terms(tokens, vocabulary))).T.tocsr())
    return sp.csr_array(rows[:, rows.sum(axis=0) > 0]).astype(np.float32)


def measured(X, n_components):
    nearest_neighbors(X[:60], 3, metric="cosine")  # compiles
    print(f"{X.shape[0]} x {X.shape[1]}, {X.nnz / 1e6:.1f} M stored values")
    k = min(N_NEIGHBORS, X.shape[0] - 1)
    graph = clock("neighbors", neighborhood_graph, X, n_neighbors=k)
    maps = clock("eigenvectors", laplacian_eigenmaps, graph, n_components, tol=TOL**2)
    print(f"largest residual {maps.residuals.max():.1e}, {maps.n_graph_components} components of the graph")

    # Unit rows and a ridge of 1, as in jobs/wordspaces_paper.toml: raw counts are too ill-conditioned for 0.01.
    model = LocalityPreservingProjection(n_components, alpha=1.0, tol=TOL)
    clock("regression", model.fit, normalize(X), graph=graph, eigenmaps=maps)
    print(f"{model.n_iter_} steps, largest residual {model.residuals_.max():.1e}")
    return model


def test_small():
    model = measured(drawn_words(150, 300), 8)
    assert model.converged_


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", ["documents", "contexts"])
def test_growth(shared, tmp_path, kind, n):
    X = counted(shared, kind, n, tmp_path)
    if kind == "contexts":
        X.data = np.log1p(X.data)
    assert measured(X, N_COMPONENTS).components_.shape == (N_COMPONENTS, X.shape[1])


@pytest.mark.slow
def test_beside_lpproj(monkeypatch):
    lpproj = pytest.importorskip("lpproj", reason="the dense package to compare with is not installed")

    def eigh(*matrices, eigvals=None, turbo=None, **options):  # names that SciPy 1.14 removed
        return scipy.linalg.eigh(*matrices, subset_by_index=eigvals, **options)

    monkeypatch.setattr("lpproj.lpproj.linalg", SimpleNamespace(eigh=eigh))
    X = normalize(np.random.default_rng(0).random((5_000, 2_000)))
    LocalityPreservingProjection(3, n_neighbors=5).fit(X[:60])  # compiles
    # a row counts as the first of its own neighbors there, so that each has an edge to itself
    theirs = lpproj.LocalityPreservingProjection(n_components=100, n_neighbors=21)
    clock("lpproj", theirs.fit, X)

    def fit():
        graph = neighborhood_graph(X, n_neighbors=20, affinity="binary") + sp.eye_array(len(X))
        return LocalityPreservingProjection(100, solver="eigen").fit(X, graph=graph)

    ours = clock("distembed, eigen", fit)
    signs = np.sign((ours.components_.T * theirs.projection_).sum(axis=0))
    off = np.abs(ours.transform(X) - X @ theirs.projection_ * signs).max() / np.abs(ours.transform(X)).max()
    print(f"largest difference of a projected value, as a share of the largest: {off:.1e}")
    clock("distembed, spectral regression", LocalityPreservingProjection(100).fit, X)
