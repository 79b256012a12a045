"""Computations that keep states: killed at any of them, each goes on with the same bits and makes nothing again."""

from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from distembed.factorization.lda import online_lda
from distembed.factorization.lsa import LSA
from distembed.factorization.nmf import NMF, SemanticNMF
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.subwords import SubwordMap
from distembed.linalg import eigen
from distembed.linalg.operators import SymmetricMatrix, row_blocks, sparse_times
from distembed.neighbors.distances import domain_rows
from distembed.neighbors.search import kept_lists
from distembed.neighbors.spanning_tree import spanning_tree_of
from distembed.states import keeping
from tests.kept_states import KeptStates, KilledError

RANDOM = np.random.default_rng(0)
COUNTS = csr_array(
    RANDOM.poisson(RANDOM.gamma(0.4, size=(60, 4)) @ RANDOM.gamma(0.5, size=(4, 40))).astype(float)
)
PAIRS = csr_array(RANDOM.poisson(RANDOM.uniform(0, 2, (40, 40))).astype(float))
PAIRS = csr_array(PAIRS + PAIRS.T)
BLOCKS, PAIR_BLOCKS = row_blocks(COUNTS, values_per_block=500), row_blocks(PAIRS, values_per_block=500)
HALF = random_array((100, 100), density=0.1, rng=RANDOM)
SYMMETRIC = row_blocks(csr_array(HALF + HALF.T), values_per_block=600)
CLUSTERS = np.repeat(100 * RANDOM.standard_normal((20, 3)), 5, axis=0) + RANDOM.standard_normal((100, 3))
WORDS = [stem + ending for stem in ("walk", "talk", "lauf") for ending in ("", "s", "ed", "ing")]


def fitted(model, *given):
    """Fit a model, and return the arrays that it has learned."""
    model.fit(*given)
    return [
        value for name, value in sorted(vars(model).items()) if name.endswith("_") and hasattr(value, "shape")
    ]


def state_of(name):
    """Return the state that an array is a part of."""
    return name.rpartition("/")[0]


def eigenpairs(solve, *given, **options):
    matrix = SymmetricMatrix(lambda vectors: sparse_times(SYMMETRIC, vectors), SYMMETRIC.chunks[0])
    return list(solve(matrix, *given, **options)[:2])


COMPUTATIONS = {
    "LDA": lambda: list(online_lda(BLOCKS, 3, n_passes=3, tol=0)[:2]),
    "NMF": lambda: fitted(NMF(3, max_iter=12, tol=0), COUNTS),
    "SemanticNMF": lambda: fitted(SemanticNMF(3, max_iter=12, n_init=2), BLOCKS, PAIR_BLOCKS),
    "consensus": lambda: fitted(NMF(3, n_init=4, init="random", max_iter=5, tol=0), COUNTS),
    "PSDVec": lambda: fitted(
        PSDVec(5, n_core=30, n_iter=2, first_passes=3, n_passes=2), PAIR_BLOCKS, np.asarray(PAIRS.sum(0)) + 1
    ),
    "LSA": lambda: fitted(LSA(4, n_passes=3, tol=None), BLOCKS),
    "subwords": lambda: fitted(SubwordMap(), WORDS, np.arange(60.0).reshape(12, 5) % 7),
    "eigenpairs": lambda: eigenpairs(eigen.largest_eigenpairs, 6, block_size=4, n_passes=20),
    "filtered": lambda: eigenpairs(eigen.filtered_eigenpairs, 5, lower=-5, upper=8),
    "tree": lambda: list(spanning_tree_of(domain_rows(CLUSTERS), kept_lists(domain_rows(CLUSTERS), 1))[:2]),
}


@pytest.mark.parametrize("name", COMPUTATIONS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_killed_computation_goes_on_with_the_same_bits(name, monkeypatch):
    monkeypatch.setattr(eigen, "LEAST_WIDTH", 0)  # bases are restarted
    compute, states = COMPUTATIONS[name], KeptStates()
    with dask.config.set(scheduler="sync"):
        with keeping(states):
            whole = da.compute(*compute())
        n_states = len(states.stored)
        for most in (n_states // 3, n_states - 1):
            kept = KeptStates(most)
            with keeping(kept), pytest.raises(KilledError):
                da.compute(*compute())
            kept.most = None
            with keeping(kept):
                again = da.compute(*compute())
            assert {*kept.stored} == {*states.stored}
            again_stored = {name for name, n in Counter(kept.stored).items() if n > 1}
            assert {state_of(name) for name in again_stored} <= {state_of(states.stored[most])}
            for one, other in zip(again, whole, strict=True):
                np.testing.assert_array_equal(one, other)
        n_stored = len(kept.stored)
        with keeping(kept):
            da.compute(*compute())
        assert len(kept.stored) == n_stored  # what is finished is found
