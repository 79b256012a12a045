"""At the cause of equal bits: while anything of the public interface computes, no second thread of BLAS works.

A product is no function call that Python could show, so that the threads of BLAS themselves are asked for the processor
time that they have taken; `tests/test_architecture.py` looks for decompositions in the source.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.linalg
from scipy.sparse import csr_array
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import distembed as de
from distembed.evaluation.contexts import similarity_terms
from distembed.evaluation.imputation import nearest_mean, neighbor_label_accuracy, recovery
from distembed.evaluation.sparse_space import nearest_words
from distembed.evaluation.transfer import score_retrieval
from distembed.evaluation.wordsets import EvaluationSet
from distembed.manifold.regressions import KernelRidge, LinearRidge

N, D, K = 300, 120, 30
"""Rows, columns and components of which OpenBLAS gives each product to all its threads."""

SCHEDULED = Path("/proc/self/task")


def processor_time() -> dict[str, int]:
    found = {}
    for thread in SCHEDULED.iterdir():
        with suppress(OSError):  # it has ended
            found[thread.name] = int((thread / "schedstat").read_text().split()[0])
    return found


@pytest.fixture(scope="module")
def helpers():
    """Return the threads with which the BLAS of NumPy and that of SciPy help the thread that calls them."""
    if not sys.platform.startswith("linux") or not processor_time():
        pytest.skip("the processor time of a thread is read from Linux's /proc/self/task/*/schedstat")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores: BLAS starts no second thread on one")
    matrix = np.ones((600, 600))
    with threadpool_limits(limits=2):
        before = processor_time()
        for _ in range(20):
            matrix @ matrix
            scipy.linalg.blas.dgemm(1.0, matrix, matrix)
        ran = {thread: total - before.get(thread, 0) for thread, total in processor_time().items()}
        own = ran.pop(str(threading.get_native_id()))
        # each helps in half of the products, with half of each
        busy = {thread for thread, part in ran.items() if part > 0.3 * own / 2}
        assert busy, "no second thread of BLAS took part in a product"
        yield busy


LEAST_HELP = 1_000_000
"""Nanoseconds: who has helped looks for more work for many times as long.

On a busy machine a thread that did nothing was seen to wake for less than a twentieth.
"""


def helped(helpers, function):
    """Return whether the helpers work while a function runs."""

    def ran():
        return sum(taken for thread, taken in processor_time().items() if thread in helpers)

    deadline, before, last = time.monotonic() + 30, ran(), -1
    while before != last and time.monotonic() < deadline:  # until they no longer look for more work
        time.sleep(0.03)
        before, last = ran(), before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rounds do not converge
        function()
    time.sleep(0.03)  # the time of a thread that runs is added at the next tick of the clock
    return ran() - before > LEAST_HELP


RANDOM = np.random.default_rng(0)
SHARES = RANDOM.dirichlet(np.full(20, 0.2), N)
COUNTS = RANDOM.poisson(40 * SHARES @ SHARES.T).astype(np.float32)
TABLE = csr_array(COUNTS)
X = RANDOM.normal(size=(N, D))
KNOWN = np.where(np.arange(N)[:, None] < N // 2, X[:, : D // 2], np.nan)
NAMES = [f"w{number}" for number in range(N)]
VECTORS = de.WordVectors(NAMES, X.astype(np.float32))
PAIRS = np.stack([np.arange(60)] * 2, axis=1)
SENTENCES = [" ".join(RANDOM.choice(NAMES, 5)) for _ in range(N)]
COMPOSED = de.WordVectors(
    NAMES,
    X,
    subwords=de.SubwordTable(
        X[:200], X[0], min_n=2, max_n=2, ngrams=[f"{i:03}"[:1] + f"{i:03}" for i in range(200)]
    ),
)
TOTALS = COUNTS.sum(axis=0) + 1.0


def later_words(counts: Any) -> Any:
    """Return the vectors of words that come after those of a core, in memory or lazy like the counts."""
    core, later = np.s_[: N // 2], np.s_[N // 2 :]
    model = de.PSDVec(D // 2, first_passes=2).fit(counts[core, core], TOTALS[core])
    return model.transform(counts[later, core], counts[core, later], TOTALS[later])


def embedding(**options: Any) -> Any:
    model = de.FeaturePreservingEmbedding(K, max_iter=3, **options)
    return model.fit(X, X[:, ::-1], np.abs(X[:, :60]), PAIRS)


def imputed_later(**options: Any) -> None:
    de.LatentSemanticImputation(**options).fit(X, KNOWN).infer(X[:50] + 0.1, X, KNOWN)


def evaluated(task: str, n_words: int, *values: Any, groups: Any = ()) -> None:
    """Answer a set of items of so many words, or texts, each."""
    texts = task in ("sentences", "classification")
    items = list(zip(*[iter(SENTENCES if texts else NAMES)] * n_words, strict=True))
    asked = EvaluationSet("s", task, items, *values, groups=groups)
    if texts:
        de.evaluate_sentences(de.TextEncoder(VECTORS, weighting="mean"), [asked])
    else:
        de.evaluate(VECTORS, [asked])


def encoded(**options: Any) -> None:
    encoder = de.TextEncoder(VECTORS, counts=np.arange(N) + 1, **options).fit(SENTENCES)
    encoder.transform(SENTENCES)


HALVES = ["a", "b"] * (N // 2)
PROJECTION = de.LocalityPreservingProjection(K, n_neighbors=10)
WORK = {
    "LSA": lambda: de.LSA(K).fit_transform(TABLE),
    "PSDVec": lambda: de.PSDVec(D // 2, n_core=N // 2, first_passes=2).fit(TABLE, TOTALS),
    "PSDVec of later words": lambda: later_words(TABLE),
    "NMF": lambda: de.NMF(K, max_iter=3).fit_transform(TABLE),
    "SemanticNMF": lambda: de.SemanticNMF(K, max_iter=3).fit(TABLE, np.log1p(COUNTS + COUNTS.T)),
    "orthogonal NMF": lambda: de.NMF(K, solver="orthogonal", max_iter=3, tol=0).fit_transform(TABLE),
    "consensus of NMF": lambda: de.NMF(K, max_iter=3, n_init=3).fit(TABLE),
    "SphericalKMeans": lambda: de.SphericalKMeans(K, max_iter=3).fit(TABLE).transform(TABLE),
    "projection": lambda: clone(PROJECTION).fit_transform(X),
    "projection by eigenvectors": lambda: clone(PROJECTION).set_params(solver="eigen").fit_transform(X),
    "imputation": imputed_later,
    "imputation of residuals": lambda: imputed_later(regressor=LinearRidge()),
    "imputation of residuals of a kernel": lambda: imputed_later(regressor=KernelRidge()),
    "recovery": lambda: recovery(X[: N // 2], np.arange(N // 2), X[:, ::-1], labels=HALVES),
    "nearest_mean": lambda: nearest_mean(X, KNOWN),
    "neighbor_label_accuracy": lambda: neighbor_label_accuracy(X, HALVES),
    "score_retrieval": lambda: score_retrieval(X, X, np.arange(N)),
    "nearest_words": lambda: nearest_words(da.from_array(X, chunks=(N // 2, -1)), NAMES, NAMES),
    "embedding": lambda: embedding().predict(np.tile(X, (4, 1)) + 0.1),
    "embedding that propagates": lambda: embedding(propagate=True),
    "SubwordMap": lambda: de.SubwordMap().fit(NAMES, X),
    "nearest words": lambda: VECTORS.most_similar("w1"),
    "analogy": lambda: VECTORS.most_similar(positive=["w2", "w3"], negative=["w1"]),
    "postprocess": lambda: VECTORS.postprocess(n_components_removed=3),
    "postprocess with n-grams": lambda: COMPOSED.postprocess(n_components_removed=60),
    "TextEncoder": encoded,
    "TextEncoder, whitened": lambda: encoded(whitening="full"),
    "sentences": lambda: evaluated("sentences", 2, RANDOM.random(N // 2)),
    "classes of sentences": lambda: evaluated("classification", 1, groups=[(name, "") for name in HALVES]),
    "analogies": lambda: evaluated("analogy", 4, groups=["all"] * (N // 4)),
    "categories": lambda: evaluated("categorization", 1, groups=HALVES),
    "explain_similarity": lambda: de.explain_similarity(VECTORS, "w1", "w2"),
    "similarity_terms": lambda: similarity_terms(X[:100], X[100:200], X),
}


COUNTED = da.from_array(COUNTS, chunks=(N // 3, -1)).map_blocks(csr_array, meta=csr_array((0, 0), dtype="f4"))
ROWS = da.from_array(X, chunks=(N // 3, -1))
COMPUTED_LATER = {
    "LSA": lambda: de.LSA(K).fit(COUNTED).transform(COUNTED),
    "PSDVec": lambda: later_words(COUNTED),
    "NMF": lambda: de.NMF(K, max_iter=3, tol=0).fit(COUNTED).transform(COUNTED),
    "projection": lambda: clone(PROJECTION).fit(ROWS).transform(ROWS),
    "imputation of residuals": lambda: (
        de.LatentSemanticImputation(regressor=LinearRidge()).fit(ROWS, da.from_array(KNOWN)).vectors_
    ),
}
"""What makes a lazy array: whoever computes it knows nothing of what its blocks need."""


def test_a_product_outside_of_the_guard_is_seen(helpers):
    matrix = np.ones((600, 600))
    assert helped(helpers, lambda: matrix @ matrix)


@pytest.mark.parametrize("name", WORK)
def test_one_thread_of_blas_works(helpers, name):
    assert not helped(helpers, WORK[name])


@pytest.mark.parametrize("name", COMPUTED_LATER)
def test_one_thread_of_blas_works_when_a_result_is_computed_later(helpers, name):
    assert not helped(helpers, COMPUTED_LATER[name]().compute)
