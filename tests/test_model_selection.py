"""The estimators inside dask-ml's model selection, over documents and over the counts of words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dask_ml.model_selection import GridSearchCV
from scipy import sparse
from sklearn.base import clone

import distembed as de

RNG = np.random.default_rng(0)
DOCUMENTS = sparse.csr_array(RNG.poisson(RNG.gamma(1.0, size=(60, 4)) @ RNG.gamma(0.3, size=(4, 30)) + 0.1))


def explained(model: Any, X: Any, _y: Any = None) -> float:
    """Return the share of held-out documents that their factors explain."""
    dense = X.toarray().astype(float)
    rows = np.asarray(model.transform(X))
    back = np.linalg.lstsq(rows, dense, rcond=None)[0]
    return float(1 - np.linalg.norm(dense - rows @ back) ** 2 / np.linalg.norm(dense) ** 2)


@pytest.mark.parametrize("estimator", [de.NMF(tol=1e-3), de.LSA()])
def test_components_are_chosen_on_held_out_documents(estimator: Any) -> None:
    search = GridSearchCV(
        estimator, {"n_components": [1, 4]}, scoring=explained, cv=3, scheduler="synchronous"
    ).fit(DOCUMENTS)
    one, four = search.cv_results_["mean_test_score"]
    assert four > one
    assert search.best_params_ == {"n_components": 4}
    np.testing.assert_allclose(
        search.best_estimator_.transform(DOCUMENTS),
        clone(estimator).set_params(n_components=4).fit(DOCUMENTS).transform(DOCUMENTS),
        rtol=1e-5,
        atol=1e-6,
    )


def test_word_vectors_are_chosen_by_a_score_of_words() -> None:
    """The counts are one square matrix and no sample: the one split has all of them on both sides."""
    counts = sparse.csr_array(np.triu(RNG.poisson(3.0, size=(40, 40))))
    totals = np.asarray(counts.sum(axis=0)) + np.asarray(counts.sum(axis=1))
    every = np.arange(40)

    def similar(model: de.PSDVec, _X: Any, _y: Any = None) -> float:
        return de.WordVectors([f"w{row}" for row in every], model.vectors_).similarity("w0", "w1")

    search = GridSearchCV(
        de.PSDVec(3, n_iter=1),
        {"smoothing": [0.02, 0.5]},
        scoring=similar,
        cv=[(every, every)],
        scheduler="synchronous",
    ).fit(counts, totals)
    for smoothing, score in zip([0.02, 0.5], search.cv_results_["mean_test_score"], strict=True):
        alone = de.PSDVec(3, n_iter=1, smoothing=smoothing).fit(counts, totals)
        assert score == pytest.approx(similar(alone, counts), abs=1e-5)
