"""How fast word spaces are reduced and scored; recorded, never asserted.

Beside scikit-learn: `pytest tests/benchmarks/test_wordspaces.py --benchmark-enable --benchmark-only`. Beside gensim and
scikit-learn on English text, each in a process of its own: `pytest -m slow -s tests/benchmarks/test_wordspaces.py`.
"""

from __future__ import annotations

import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import dask
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD

import distembed as de
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import AssociationSet
from distembed.factorization.lsa import LSA
from distembed.manifold.eigenmaps import laplacian_eigenmaps
from distembed.manifold.projection import (
    LocalityPreservingProjection,
    neighborhood_graph,
)
from distembed.vectors import WordVectors
from distembed.weighting.documents import log_entropy
from tests.benchmarks.measures import note_rate

N_COMPONENTS = 50


@pytest.fixture(scope="module")
def space(is_measured):
    """Return words of 40 topics whose features fall off as word frequencies do."""
    n_words, n_features = (1_500, 3_000) if is_measured else (200, 400)
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(40, 0.05), n_words) @ rng.dirichlet(np.full(n_features, 0.02), 40)
    return sp.csr_array(np.log1p(rng.poisson(2_000 * topics)).astype(np.float32))


def relative_error(space, vectors, components):
    left = np.linalg.norm(space.toarray() - vectors @ components)
    return left / np.linalg.norm(space.toarray())


def test_lsa(benchmark, space):
    model = LSA(N_COMPONENTS)
    model.fit(space[:60])  # compiles
    vectors = benchmark.pedantic(model.fit_transform, args=(space,), rounds=1)
    benchmark.extra_info["relative error"] = float(relative_error(space, vectors, model.components_))
    note_rate(benchmark, "words/s", space.shape[0])


@pytest.mark.parametrize("n_iter", [5, 15])
def test_lsa_scikit_learn(benchmark, space, n_iter):
    model = TruncatedSVD(N_COMPONENTS, n_iter=n_iter, random_state=0)
    vectors = benchmark.pedantic(model.fit_transform, args=(space,), rounds=1)
    benchmark.extra_info["relative error"] = float(relative_error(space, vectors, model.components_))


def test_graph(benchmark, space):
    neighborhood_graph(space[:60], n_neighbors=5)  # compiles
    graph = benchmark.pedantic(neighborhood_graph, args=(space,), rounds=1)
    note_rate(benchmark, "pairs/s", space.shape[0] ** 2)
    assert graph.shape == (space.shape[0], space.shape[0])


def test_eigenmaps(benchmark, space):
    graph = neighborhood_graph(space)
    maps = benchmark.pedantic(laplacian_eigenmaps, args=(graph, N_COMPONENTS), rounds=1)
    benchmark.extra_info["edges"] = int(graph.nnz)
    assert maps.vectors.shape == (space.shape[0], N_COMPONENTS)


@pytest.mark.parametrize("solver", ["spectral_regression", "eigen"])
def test_projection(benchmark, space, solver):
    graph = neighborhood_graph(space)
    model = LocalityPreservingProjection(N_COMPONENTS, solver=solver)
    benchmark.pedantic(model.fit, args=(space,), kwargs={"graph": graph}, rounds=1)
    note_rate(benchmark, "words/s", space.shape[0])
    assert model.converged_


def test_normed_priming(benchmark, is_measured):
    n_words = 5_000 if is_measured else 200
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in range(n_words)]
    vectors = WordVectors(words, rng.normal(size=(n_words, 300)))
    pairs = sorted({(int(a), int(b)) for a, b in rng.integers(n_words, size=(6 * n_words, 2))})
    norms = AssociationSet("norms", [(words[a], words[b]) for a, b in pairs], rng.random(len(pairs)))
    scores = benchmark.pedantic(evaluate_sets, args=(vectors, [norms]), rounds=1)
    note_rate(benchmark, "pairs/s", len(pairs))
    assert scores[0].known > 0.4 * n_words


class Measured(NamedTuple):
    """What a decomposition took, and ||X - U Uᵀ X|| / ||X|| of its vectors of the words."""

    cpu_seconds: float
    wall_seconds: float
    megabytes: float
    relative_error: float


SOLVERS = {
    "LSA, 3 passes": {"n_passes": 3},
    "LSA, 4 passes": {"n_passes": 4},
    "LSA, 6 passes (default)": {"n_passes": 6},
    "gensim, power_iters 0": {"power_iters": 0},
    "gensim, power_iters 2 (default)": {"power_iters": 2},
    "gensim, power_iters 4": {"power_iters": 4},
    "gensim, multi-pass stochastic": {"onepass": False, "power_iters": 2},
    "scikit-learn randomized, n_iter 2": {"algorithm": "randomized", "n_iter": 2},
    "scikit-learn randomized, n_iter 5 (default)": {"algorithm": "randomized", "n_iter": 5},
    "scikit-learn arpack": {"algorithm": "arpack"},
}


def decomposed(solver, matrix, k):
    """Return orthonormal vectors of the words, (n_words, k), from words x documents."""
    options = SOLVERS[solver]
    if solver.startswith("LSA"):
        with dask.config.set(scheduler="threads", num_workers=2):
            model = LSA(k, **options).fit(matrix.T.tocsr())  # so that the components are of the words
        return model.components_.T
    if solver.startswith("gensim"):
        from gensim.matutils import Sparse2Corpus
        from gensim.models import LsiModel

        corpus = Sparse2Corpus(matrix.tocsc(), documents_columns=True)
        names = {i: str(i) for i in range(matrix.shape[0])}
        return LsiModel(corpus, id2word=names, num_topics=k, random_seed=0, **options).projection.u
    return TruncatedSVD(k, random_state=0, **options).fit(matrix.T.tocsr()).components_.T


def measure(solver, path, k):
    """Decompose a matrix in this process, which does nothing else."""
    matrix = sp.load_npz(path).tocsr()
    if solver.startswith("LSA"):
        LSA(4).fit(matrix[:60].T.tocsr())  # compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu, wall = time.process_time(), time.perf_counter()
    vectors = decomposed(solver, matrix, k)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    above = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    basis, _ = np.linalg.qr(vectors.astype(np.float64))
    kept = np.linalg.norm((matrix.T @ basis).ravel()) / np.linalg.norm(matrix.data.astype(np.float64))
    return Measured(cpu, wall, above, float(np.sqrt(max(1 - kept**2, 0))))


@pytest.fixture(scope="module")
def english(shared, tmp_path_factory):
    """Return a file with the log-entropy weighted words x documents of English Wikipedia."""
    files = [shared / "data/english" / f"{name}.txt.xz" for name in ("enwiki2018-0", "simplewiki2021-0")]
    corpus = de.read_corpus(
        [str(file) for file in files], layout="blocks", tokenizer=de.Tokenizer(pattern="ascii")
    )
    tokens = corpus.tokenize()
    counts = de.count_document_terms(tokens, de.build_vocabulary(tokens, min_count=5, max_size=20_000))
    blocks = dask.compute(*log_entropy(counts).to_delayed().ravel())
    path = tmp_path_factory.mktemp("english") / "matrix.npz"
    sp.save_npz(path, sp.vstack(blocks).T.tocsr(), compressed=False)
    return path


@pytest.mark.slow
def test_lsa_of_english(english):
    pytest.importorskip("gensim")
    matrix = sp.load_npz(english)
    print(
        f"\n{matrix.shape[0]:,} words x {matrix.shape[1]:,} documents, {matrix.nnz:,} values, 300 components"
    )
    for solver in SOLVERS:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found = pool.submit(measure, solver, english, 300).result()
        print(
            f"{solver:<46}{found.cpu_seconds:8.1f} s CPU{found.wall_seconds:8.1f} s wall"
            f"{found.megabytes:8.0f} MB above the matrix, error {found.relative_error:.5f}",
            flush=True,
        )
