"""How fast word spaces are reduced and scored; recorded, never asserted.

Beside scikit-learn: `pytest tests/benchmarks/test_wordspaces.py --benchmark-only`.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD

from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import AssociationSet
from distembed.factorization.lsa import LSA
from distembed.manifold.projection import (
    LocalityPreservingProjection,
    laplacian_eigenmaps,
    neighborhood_graph,
)
from distembed.vectors import WordVectors

N_WORDS, N_FEATURES, N_COMPONENTS = 1_500, 3_000, 50


@pytest.fixture(scope="module")
def space():
    """Return words of 40 topics whose features fall off as word frequencies do."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(40, 0.05), N_WORDS) @ rng.dirichlet(np.full(N_FEATURES, 0.02), 40)
    return sp.csr_array(np.log1p(rng.poisson(2_000 * topics)).astype(np.float32))


def relative_error(space, vectors, components):
    left = np.linalg.norm(space.toarray() - vectors @ components)
    return left / np.linalg.norm(space.toarray())


def test_lsa(benchmark, space):
    model = LSA(N_COMPONENTS)
    model.fit(space[:60])  # compiles
    vectors = benchmark.pedantic(model.fit_transform, args=(space,), rounds=1)
    benchmark.extra_info["relative error"] = float(relative_error(space, vectors, model.components_))
    benchmark.extra_info["words/s"] = round(N_WORDS / benchmark.stats.stats.mean)


@pytest.mark.parametrize("n_iter", [5, 15])
def test_lsa_scikit_learn(benchmark, space, n_iter):
    model = TruncatedSVD(N_COMPONENTS, n_iter=n_iter, random_state=0)
    vectors = benchmark.pedantic(model.fit_transform, args=(space,), rounds=1)
    benchmark.extra_info["relative error"] = float(relative_error(space, vectors, model.components_))


def test_graph(benchmark, space):
    neighborhood_graph(space[:60], n_neighbors=5)  # compiles
    graph = benchmark.pedantic(neighborhood_graph, args=(space,), rounds=1)
    benchmark.extra_info["pairs/s"] = round(N_WORDS**2 / benchmark.stats.stats.mean)
    assert graph.shape == (N_WORDS, N_WORDS)


def test_eigenmaps(benchmark, space):
    graph = neighborhood_graph(space)
    maps = benchmark.pedantic(laplacian_eigenmaps, args=(graph, N_COMPONENTS), rounds=1)
    benchmark.extra_info["edges"] = int(graph.nnz)
    assert maps.vectors.shape == (N_WORDS, N_COMPONENTS)


@pytest.mark.parametrize("solver", ["spectral_regression", "eigen"])
def test_projection(benchmark, space, solver):
    graph = neighborhood_graph(space)
    model = LocalityPreservingProjection(N_COMPONENTS, solver=solver)
    benchmark.pedantic(model.fit, args=(space,), kwargs={"graph": graph}, rounds=1)
    benchmark.extra_info["words/s"] = round(N_WORDS / benchmark.stats.stats.mean)
    assert model.converged_


def test_normed_priming(benchmark):
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in range(5_000)]
    vectors = WordVectors(words, rng.normal(size=(5_000, 300)))
    pairs = sorted({(int(a), int(b)) for a, b in rng.integers(5_000, size=(30_000, 2))})
    norms = AssociationSet("norms", [(words[a], words[b]) for a, b in pairs], rng.random(len(pairs)))
    scores = benchmark.pedantic(evaluate_sets, args=(vectors, [norms]), rounds=1)
    benchmark.extra_info["pairs/s"] = round(len(pairs) / benchmark.stats.stats.mean)
    assert scores[0].known > 2_000
