"""Milliseconds a round of the factorisations, beside scikit-learn's; recorded, not asserted."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn import decomposition

from distembed.factorization.nmf import NMF, OrthogonalNMF, SemanticNMF

N_DOCUMENTS, N_WORDS, N_VALUES, N_PAIRS, RANK, N_ROUNDS = 7_095, 6_884, 266_624, 2_054_622, 4, 50


@pytest.fixture(scope="module")
def classic_like():
    """Matrices of CLASSIC4's shape and about its number of non-zeros, words of uneven frequency."""
    random = np.random.default_rng(0)
    share = 1 / (200 + np.arange(N_WORDS))
    share /= share.sum()

    def draw(n_rows, n_values, rows):
        place = (rows, random.choice(N_WORDS, n_values, p=share))
        return csr_array((np.ones(n_values), place), shape=(n_rows, N_WORDS))

    X = draw(N_DOCUMENTS, N_VALUES, random.integers(N_DOCUMENTS, size=N_VALUES))
    half = draw(N_WORDS, N_PAIRS // 2, random.choice(N_WORDS, N_PAIRS, p=share))
    return X, csr_array(half + half.T).log1p()


@pytest.mark.parametrize(
    "model",
    [
        NMF(RANK, solver="multiplicative", init="random", n_iter=N_ROUNDS, tol=0),
        NMF(RANK, solver="hals", init="random", n_iter=N_ROUNDS, tol=0),
        OrthogonalNMF(RANK, init="random", n_iter=N_ROUNDS),
        SemanticNMF(RANK, init="random", n_iter=N_ROUNDS),
        decomposition.NMF(RANK, solver="mu", init="random", max_iter=N_ROUNDS, tol=0),
    ],
    ids=["nmf", "hals", "orthogonal", "semantic", "scikit-learn"],
)
def test_rounds(benchmark, classic_like, model):
    X, M = classic_like
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        benchmark.pedantic(lambda: model.fit(X, M), rounds=2, warmup_rounds=1)
    benchmark.extra_info["ms_per_round"] = 1e3 * benchmark.stats.stats.min / N_ROUNDS
    assert getattr(model, "n_iter_", N_ROUNDS) == N_ROUNDS
