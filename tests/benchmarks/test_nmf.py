"""Milliseconds a round of the factorizations, beside scikit-learn's; recorded, not asserted."""

from __future__ import annotations

import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array, vstack
from sklearn import decomposition
from threadpoolctl import threadpool_limits

import distembed as de
from distembed.corpus.vocabulary import choose_words
from distembed.counting.documents import count_document_terms
from distembed.factorization.nmf import NMF, SemanticNMF
from distembed.weighting.documents import select_words, tf_idf
from tests.benchmarks.measures import spent

N_DOCUMENTS, N_WORDS, N_VALUES, N_PAIRS, RANK, N_ROUNDS = 7_095, 6_884, 266_624, 2_400_000, 4, 50


@pytest.fixture(scope="module")
def newsgroups(shared):
    """Return tf-idf of 20 Newsgroups, words in four documents or more."""
    corpus = de.read_corpus(str(shared / "data" / "docclust" / "20newsgroups_bydate.jsonl.xz"))
    every = de.build_vocabulary(corpus)
    rules = {"n_documents": 18_846, "min_documents": 4, "stop_words": "english"}
    kept = choose_words(every.words, every.document_counts, **rules)
    counts = count_document_terms(corpus, every).compute()
    return tf_idf(select_words(counts, kept))


@pytest.mark.slow
def test_a_round_beside_scikit_learn(newsgroups):
    """Print the seconds of 20 rounds more, M absent, one thread each: the least of five measurements in turn."""
    X = newsgroups
    print(f"\n{X.shape[0]} x {X.shape[1]}, {X.nnz} non-zeros, float32, one thread")
    for rank in (4, 20):
        W = np.random.default_rng(0).random((X.shape[0], rank), np.float32)
        H = np.random.default_rng(1).random((rank, X.shape[1]), np.float32)

        def theirs(rounds, rank=rank, W=W, H=H):
            model = decomposition.NMF(rank, solver="mu", init="custom", max_iter=rounds, tol=0)
            return model.fit_transform(X, W=W.copy(), H=H.copy())

        def ours(rounds, rank=rank):
            return NMF(rank, solver="multiplicative", init="random", n_iter=rounds, tol=0).fit(X)

        methods = {"scikit-learn mu": theirs, "distembed": ours}
        found = {(name, rounds): [] for name in methods for rounds in (5, 25)}
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            for _ in range(5):
                for (name, rounds), seconds in found.items():
                    seconds.append(spent(methods[name], rounds)[:2])
        for name in methods:
            few, many = (np.min(found[name, rounds], axis=0) for rounds in (5, 25))
            wall, cpu = 1e3 * (many - few) / 20
            print(f"rank {rank:>2}  {name:<16} {cpu:7.1f} ms CPU  {wall:7.1f} ms wall a round")


@pytest.mark.slow
def test_hals_and_multiplicative_updates_at_equal_error(newsgroups):
    X, square = newsgroups, float(newsgroups.power(2).sum())
    for solver, rounds in {"multiplicative": 200, "hals": 60}.items():
        wall, cpu, model = spent(NMF(20, solver=solver, n_iter=rounds, tol=0).fit, X)
        curve = np.sqrt(2 * model.objective_ / square)
        print(
            f"\n{solver}: {cpu / rounds:.3f} s CPU, {wall / rounds:.3f} s wall a round; relative error after"
        )
        print("  ".join(f"{r}: {curve[r - 1]:.5f}" for r in (5, 10, 20, 30, 60, 100, 200) if r <= rounds))


def zipfian(n_rows, n_columns, n_values, seed=0):
    """Return a matrix of rows × words whose words have Zipf's frequencies, float32, built by blocks of rows."""
    random = np.random.default_rng(seed)
    share = 1 / (2.7 + np.arange(n_columns))
    cumulative = np.cumsum(share / share.sum())
    per_row = n_values // n_rows
    blocks = []
    for start in range(0, n_rows, 20_000):
        rows = min(20_000, n_rows - start)
        columns = np.searchsorted(cumulative, random.random(rows * per_row)).astype(np.int32)
        parts = np.ones(columns.size, np.float32), columns, np.arange(0, columns.size + 1, per_row)
        block = csr_array(parts, shape=(rows, n_columns))
        block.sum_duplicates()
        blocks.append(block)
    return blocks


def lazily(blocks):
    meta = csr_array((0, 0), dtype=np.float32)
    delayed = [(dask.delayed(block, pure=False), block.shape, block.dtype) for block in blocks]
    return da.concatenate([da.from_delayed(*each, meta) for each in delayed])


@pytest.mark.slow
@pytest.mark.parametrize("n_values", [10**6, 10**7, 10**8])
def test_a_round_is_linear_in_the_non_zeros(n_values):
    """Print nanoseconds of CPU a non-zero and a round of Semantic-NMF at rank 20: half of them in X, half in M."""
    n_words = 30_000
    X = lazily(zipfian(max(n_values // 300, 1000), n_words, n_values // 2))
    half = csr_array(vstack(zipfian(n_words, n_words, n_values // 4, seed=1), format="csr"))
    M = half + half.T
    del half
    stored = sum(block.nnz for block in dask.compute(*X.to_delayed().ravel())) + M.nnz
    SemanticNMF(20, shift=1, init="random", n_iter=1).fit(X, M)
    seconds = []
    for rounds in (2, 22 if n_values < 10**8 else 7):
        model = SemanticNMF(20, shift=1, init="random", n_iter=rounds)
        seconds.append(spent(model.fit, X, M)[:2])
    wall, cpu = ((b - a) / (rounds - 2) for a, b in zip(*seconds, strict=True))
    each = 1e9 * cpu / stored
    print(f"\n{stored:>11,} non-zeros: {cpu:.3f} s CPU, {wall:.3f} s wall, {each:.1f} ns a non-zero")
