"""LSA of English text beside gensim and scikit-learn, each in a process of its own; recorded, never asserted.

Run it with `pytest -m slow -s tests/benchmarks/test_wordspaces.py`.
"""

from __future__ import annotations

import dask
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD

import distembed as de
from distembed.factorization.lsa import LSA
from distembed.weighting.documents import log_entropy
from tests.benchmarks.inputs import english_tokens, gathered
from tests.benchmarks.measures import alone, peak_bytes, spent, tell

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
