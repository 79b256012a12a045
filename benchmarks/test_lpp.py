"""CPU seconds and peak memory of neighbors, graph eigenvectors and regression as the number of words grows.

The default size only shows that the benchmark works. The figures, counted from the English texts of the shared data
(82 M tokens), one size a process because the peak is the process's::

    pytest benchmarks/test_lpp.py -m slow -s -k 25000
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import normalize

import distembed as de
from benchmarks.inputs import drawn_words, gathered
from benchmarks.measures import clock
from distembed.manifold.eigenmaps import laplacian_eigenmaps
from distembed.manifold.projection import neighborhood_graph
from distembed.manifold.regressions import ridge_regression
from distembed.neighbors.search import nearest_neighbors

SIZES = [12_000, 25_000, 100_000]
N_NEIGHBORS, N_COMPONENTS, TOL = 20, 300, 1e-3


def counted(shared, n, tmp_path):
    """Return the n most frequent words by their contexts in a 5-word window, in logarithms."""
    files = [str(f) for f in sorted((shared / "data" / "english").glob("*.txt.xz")) if "vocab" not in f.name]
    tokens = de.read_corpus(files, layout="blocks").tokenize(tmp_path)
    vocabulary = de.build_vocabulary(tokens, max_size=n)
    X = gathered(de.count_cooccurrences(tokens, vocabulary, window=5)).astype(np.float32)
    X.data = np.log1p(X.data)
    return X


def measured(X, n_components):
    nearest_neighbors(X[:60], 3, metric="cosine")  # compiles
    print(f"{X.shape[0]} x {X.shape[1]}, {X.nnz / 1e6:.1f} M stored values")
    k = min(N_NEIGHBORS, X.shape[0] - 1)
    graph = clock("neighbors", neighborhood_graph, X, n_neighbors=k)
    maps = clock("eigenvectors", laplacian_eigenmaps, graph, n_components, tol=TOL**2)

    # Unit rows and a ridge of 1, as in jobs/wordspaces_paper.toml: raw counts are too ill-conditioned for 0.01.
    solved = clock("regression", ridge_regression, normalize(X), maps.vectors, 1.0, TOL, 500)
    print(f"{solved.n_iter} steps, largest residual {solved.residuals.max():.1e}")
    return solved


def test_small():
    assert measured(drawn_words(150, 300), 8).residuals.max() <= TOL


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("n", SIZES)
def test_growth(shared, tmp_path, n):
    X = counted(shared, n, tmp_path)
    assert measured(X, N_COMPONENTS).values.shape == (X.shape[1], N_COMPONENTS)
