"""The estimators inside dask-ml's model selection, over documents and over the counts of words."""

from __future__ import annotations

import logging
from typing import Any

import dask
import dask.array as da
import joblib
import numpy as np
import pytest
import sklearn.model_selection
from dask_ml.model_selection import GridSearchCV
from dask_ml.wrappers import ParallelPostFit
from distributed import Client
from scipy import sparse
from sklearn.base import clone

import distembed as de

RNG = np.random.default_rng(0)
DOCUMENTS = sparse.csr_array(RNG.poisson(RNG.gamma(1.0, size=(60, 4)) @ RNG.gamma(0.3, size=(4, 30)) + 0.1))


def explained(model: Any, X: Any, _y: Any = None) -> float:
    """Return the share of held-out documents that their factors explain."""
    dense = sparse.csr_array(X).toarray().astype(float)
    rows = np.asarray(model.transform(X))
    back = np.linalg.lstsq(rows, dense, rcond=None)[0]
    return float(1 - np.linalg.norm(dense - rows @ back) ** 2 / np.linalg.norm(dense) ** 2)


@pytest.mark.parametrize("estimator", [de.NMF(tol=1e-3), de.LSA()])
def test_components_are_chosen_on_held_out_documents(estimator):
    options: dict[str, Any] = {"scoring": explained, "cv": 3, "scheduler": "synchronous"}
    search = GridSearchCV(estimator, {"n_components": [1, 4]}, **options).fit(DOCUMENTS)
    one, four = search.cv_results_["mean_test_score"]
    assert four > one
    assert search.best_params_ == {"n_components": 4}
    alone = clone(estimator).set_params(n_components=4).fit(DOCUMENTS)
    found = search.best_estimator_.transform(DOCUMENTS)
    np.testing.assert_allclose(found, alone.transform(DOCUMENTS), rtol=1e-5, atol=1e-6)


def test_word_vectors_are_chosen_by_a_score_of_words():
    """The counts are one square matrix and no sample: the one split has all of them on both sides."""
    counts = sparse.csr_array(np.triu(RNG.poisson(3.0, size=(40, 40))))
    totals = np.asarray(counts.sum(axis=0)) + np.asarray(counts.sum(axis=1))
    every = np.arange(40)

    def similar(model: de.PSDVec, _X: Any, _y: Any = None) -> float:
        return de.WordVectors([f"w{row}" for row in every], model.vectors_).similarity("w0", "w1")

    options: dict[str, Any] = {"scoring": similar, "cv": [(every, every)], "scheduler": "synchronous"}
    search = GridSearchCV(de.PSDVec(3, n_iter=1), {"smoothing": [0.02, 0.5]}, **options).fit(counts, totals)
    for smoothing, score in zip([0.02, 0.5], search.cv_results_["mean_test_score"], strict=True):
        alone = de.PSDVec(3, n_iter=1, smoothing=smoothing).fit(counts, totals)
        assert score == pytest.approx(similar(alone, counts), abs=1e-5)


# --- on a cluster ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    """Return the client of workers in this process, whose tasks make clients that set Dask's scheduler for good."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    before = dict(dask.config.config)
    with Client(processes=False, set_as_default=False, **options) as one:
        yield one
    dask.config.config.clear()
    dask.config.config.update(before)


@pytest.fixture
def warnings_of_keys(caplog):
    """Return what says how often the scheduler warned that a key has other dependencies in two graphs.

    Such graphs may end in a deadlock. The logger of the scheduler passes nothing on.
    """
    logger = logging.getLogger("distributed.scheduler")
    logger.addHandler(caplog.handler)
    yield lambda: [one.getMessage() for one in caplog.records if "run_spec" in one.getMessage()]
    logger.removeHandler(caplog.handler)


@pytest.mark.parametrize(
    "estimator",
    [de.NMF(tol=1e-2), de.LSA(n_passes=2, tol=None), de.LocalityPreservingProjection(n_neighbors=4)],
    ids=lambda it: type(it).__name__,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_candidates_that_run_at_the_same_time_share_no_key(client, warnings_of_keys, estimator):
    dense = DOCUMENTS.toarray().astype(float)
    search = sklearn.model_selection.GridSearchCV(
        estimator, {"n_components": [1, 2]}, scoring=explained, cv=2, refit=False
    )
    with client.as_current(), joblib.parallel_config(backend="dask"):
        found = search.fit(dense).cv_results_["mean_test_score"]
    assert warnings_of_keys() == []
    np.testing.assert_allclose(found, search.fit(dense).cv_results_["mean_test_score"], rtol=1e-6)


@pytest.mark.parametrize("shape", [(64, 40), (40, 64)], ids=["tall", "wide"])
def test_passes_over_a_lazy_matrix_share_no_key(client, warnings_of_keys, shape):
    rows = da.from_array(np.random.default_rng(0).random(shape), chunks=(shape[0] // 4, -1))
    with client.as_current():
        de.LSA(2, n_passes=3, tol=None, oversampling=1).fit_transform(rows).compute()
    assert warnings_of_keys() == []


@pytest.mark.parametrize("of_csr", [False, True])
@pytest.mark.parametrize(
    ("estimator", "method"),
    [(de.LSA(3), "transform"), (de.NMF(3), "predict"), (de.SphericalKMeans(3), "predict")],
)
def test_a_wrapped_estimator_gives_what_it_gives_alone(estimator, method, of_csr):
    """`ParallelPostFit` calls an estimator in the task of each block; the estimator alone does the same lazily."""
    dense = DOCUMENTS.toarray().astype(float)
    metas = {"transform_meta": np.empty((0, 0)), "predict_meta": np.empty(0, np.int64)}
    wrapped = ParallelPostFit(clone(estimator), **metas).fit(dense)
    X = da.from_array(dense, chunks=(20, -1))
    if of_csr:
        X = X.map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0)))
    lazy, alone = (getattr(one, method)(X) for one in (wrapped, wrapped.estimator))
    assert lazy.numblocks[0] == X.numblocks[0]
    np.testing.assert_allclose(lazy.compute(), alone.compute(), rtol=1e-6)
    np.testing.assert_allclose(lazy.compute(), getattr(wrapped.estimator, method)(dense), rtol=1e-6)
