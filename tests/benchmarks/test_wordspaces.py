"""How fast word spaces are reduced and scored; recorded, never asserted.

Beside scikit-learn: `pytest tests/benchmarks/test_wordspaces.py --benchmark-enable --benchmark-only`. Beside gensim and
scikit-learn on English text, each in a process of its own: `pytest -m slow -s tests/benchmarks/test_wordspaces.py`.
"""

from __future__ import annotations

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
from distembed.manifold.projection import LocalityPreservingProjection, neighborhood_graph
from distembed.vectors import WordVectors
from distembed.weighting.documents import log_entropy
from tests.benchmarks.inputs import drawn_words, english_tokens, gathered
from tests.benchmarks.measures import alone, note_rate, peak_bytes, spent, tell

N_COMPONENTS = 50


@pytest.fixture(scope="module")
def space(is_measured):
    return drawn_words(*((1_500, 3_000) if is_measured else (200, 400)))


def relative_error(space, vectors, components):
    left = np.linalg.norm(space.toarray() - vectors @ components)
    return left / np.linalg.norm(space.toarray())


@pytest.mark.parametrize(
    "model",
    [LSA(N_COMPONENTS), *(TruncatedSVD(N_COMPONENTS, n_iter=n, random_state=0) for n in (5, 15))],
    ids=["ours", "scikit-learn, 5", "scikit-learn, 15"],
)
def test_lsa(benchmark, space, model):
    LSA(N_COMPONENTS).fit(space[:60])  # compiles
    vectors = benchmark.pedantic(model.fit_transform, args=(space,), rounds=1)
    benchmark.extra_info["relative error"] = float(relative_error(space, vectors, model.components_))
    note_rate(benchmark, "words/s", space.shape[0])


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
        corpus = pytest.importorskip("gensim.matutils").Sparse2Corpus(matrix.tocsc(), documents_columns=True)
        names = {i: str(i) for i in range(matrix.shape[0])}
        learn = pytest.importorskip("gensim.models").LsiModel
        return learn(corpus, id2word=names, num_topics=k, random_seed=0, **options).projection.u
    return TruncatedSVD(k, random_state=0, **options).fit(matrix.T.tocsr()).components_.T


def measure(solver, path, k):
    """Decompose a matrix in this process, which does nothing else; print the time, memory, ||X - U Uᵀ X|| / ||X||."""
    matrix = sp.load_npz(path).tocsr()
    if solver.startswith("LSA"):
        LSA(4).fit(matrix[:60].T.tocsr())  # compiles
    before = peak_bytes()
    found = spent(decomposed, solver, matrix, k)
    above = (peak_bytes() - before) / 2**20
    basis, _ = np.linalg.qr(found.result.astype(np.float64))
    kept = np.linalg.norm((matrix.T @ basis).ravel()) / np.linalg.norm(matrix.data.astype(np.float64))
    error = np.sqrt(max(1 - kept**2, 0))
    tell(f"{solver:<46}{found}, {above:.0f} MB above the matrix, error {error:.5f}")


@pytest.fixture(scope="module")
def english(shared, tmp_path_factory):
    """Return a file with the log-entropy weighted words x documents of English Wikipedia."""
    tokens = english_tokens(shared)
    counts = de.count_document_terms(tokens, de.build_vocabulary(tokens, min_count=5, max_size=20_000))
    path = tmp_path_factory.mktemp("english") / "matrix.npz"
    sp.save_npz(path, gathered(log_entropy(counts)).T.tocsr(), compressed=False)
    return path


@pytest.mark.slow
def test_lsa_of_english(english):
    pytest.importorskip("gensim")
    matrix = sp.load_npz(english)
    n_words, n_documents = matrix.shape
    tell(f"\n{n_words:,} words x {n_documents:,} documents, {matrix.nnz:,} values, 300 components")
    for solver in SOLVERS:
        alone(measure, solver, english, 300)
