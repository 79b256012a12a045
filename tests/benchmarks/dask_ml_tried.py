"""What dask-ml and Dask's own decompositions do on Dask arrays here, beside scikit-learn or NumPy on the same numbers.

    python -m tests.benchmarks.dask_ml_tried

prints a table in Markdown: a row for each thing tried, and what came of it. `docs/explanation/dask_ml.md` has it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import dask.array as da
import numpy as np
import sklearn.cluster
import sklearn.linear_model
import sklearn.metrics
import sklearn.preprocessing
from dask_ml import cluster, decomposition, metrics, model_selection, preprocessing, wrappers
from distributed import Client
from scipy import sparse

import distembed as de

PACKAGES = ("dask-ml", "dask", "distributed", "scikit-learn", "numpy", "scipy")
CENTERS = np.random.default_rng(0).normal(scale=20, size=(5, 8))


def dense(dtype: Any = np.float64) -> np.ndarray:
    """Return 600 rows about five centers."""
    random = np.random.default_rng(1)
    return (CENTERS[random.integers(5, size=600)] + random.normal(size=(600, 8))).astype(dtype)


def blocks(X: np.ndarray, *, csr: bool = False) -> da.Array:
    lazy = da.from_array(X, chunks=(200, -1))
    return lazy.map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0), dtype=X.dtype)) if csr else lazy


def kmeans(init: str) -> str:
    X = dense()
    found = cluster.KMeans(5, init=init, random_state=0).fit(blocks(X)).inertia_
    best = sklearn.cluster.KMeans(5, n_init=10, random_state=0).fit(X).inertia_
    return f"works: sum of squares {float(found) / best:.3f} of scikit-learn's"


def truncated_svd(*, csr: bool) -> str:
    X = dense()
    model = decomposition.TruncatedSVD(3, algorithm="randomized", random_state=0).fit(blocks(X, csr=csr))
    values = np.asarray(model.singular_values_)
    return f"works: {relative_error(values, np.linalg.svd(X, compute_uv=False)[:3])}"


def distances() -> str:
    X = dense()
    found = metrics.pairwise_distances(blocks(X), blocks(X[:50]), metric="euclidean").compute()
    return f"works: {relative_error(found, sklearn.metrics.pairwise_distances(X, X[:50]))}"


def incremental_search() -> str:
    X, y = dense(), (dense()[:, 0] > 0).astype(int)
    with cluster_of_threads():
        search = model_selection.IncrementalSearchCV(
            sklearn.linear_model.SGDClassifier(random_state=0),
            {"alpha": [1e-4, 1e-2]},
            max_iter=3,
            random_state=0,
        )
        search.fit(blocks(X), da.from_array(y, chunks=200), classes=[0, 1])
    return f"works: best score {search.best_score_:.2f}"


def spectrum(rows: int = 1000, columns: int = 400) -> np.ndarray:
    """Return a matrix with singular values that fall from 1,000 as those of word counts do."""
    random = np.random.default_rng(2)
    left, right = (np.linalg.qr(random.normal(size=(n, columns)))[0] for n in (rows, columns))
    return left * (1000 / np.arange(1, columns + 1) ** 1.5) @ right.T


def compressed(dtype: Any, n_power_iter: int, *, csr: bool = False, **options: Any) -> str:
    X = spectrum().astype(dtype)
    lazy = blocks(X, csr=csr)
    values = da.linalg.svd_compressed(lazy, 100, n_power_iter=n_power_iter, seed=0, **options)[1].compute()
    true = np.linalg.svd(spectrum(), compute_uv=False)[:100]
    return f"answers: {relative_error(values, true)}"


def own_lsa() -> str:
    X = spectrum().astype(np.float32)
    values = de.LSA(100, tol=None, n_passes=8).fit(blocks(X, csr=True)).singular_values_
    return f"answers: {relative_error(values, np.linalg.svd(spectrum(), compute_uv=False)[:100])}"


def scaler() -> str:
    X = dense()
    found = preprocessing.StandardScaler().fit_transform(blocks(X))
    assert isinstance(found, da.Array)
    return (
        f"works, lazily: {largest_difference(found, sklearn.preprocessing.StandardScaler().fit_transform(X))}"
    )


def grid_search() -> str:
    X = abs(dense())
    search = model_selection.GridSearchCV(
        de.LSA(), {"n_components": [1, 3]}, scoring=lambda model, X, y=None: len(model.components_), cv=2
    )
    return f"works: chooses {search.fit(X).best_params_}"


def parallel_post_fit() -> str:
    X = abs(dense())
    wrapped = wrappers.ParallelPostFit(de.LSA(3), transform_meta=np.empty((0, 0), np.float32)).fit(X)
    return (
        f"works, lazily: {largest_difference(wrapped.transform(blocks(X)), wrapped.estimator.transform(X))}"
    )


def relative_error(found: np.ndarray, true: np.ndarray) -> str:
    where = true > 0
    return f"largest relative error {np.max(abs(found[where] - true[where]) / true[where]):.0e}"


def largest_difference(found: Any, expected: np.ndarray) -> str:
    return f"largest difference {np.max(abs(np.asarray(found) - expected)):.0e} from one array"


TRIED: dict[str, Callable[[], str]] = {
    'KMeans, init="k-means++"': lambda: kmeans("k-means++"),
    'KMeans, init="k-means&#124;&#124;"': lambda: kmeans("k-means||"),
    "TruncatedSVD, dense blocks": lambda: truncated_svd(csr=False),
    "TruncatedSVD, CSR blocks": lambda: truncated_svd(csr=True),
    "pairwise_distances with a Dask Y": distances,
    "IncrementalSearchCV on a cluster of threads": incremental_search,
    "da.linalg.svd_compressed, float32, 2 power steps": lambda: compressed(np.float32, 2),
    "da.linalg.svd_compressed, float32, 4 power steps": lambda: compressed(np.float32, 4),
    "da.linalg.svd_compressed, float64, 4 power steps": lambda: compressed(np.float64, 4),
    'da.linalg.svd_compressed, float32, 4 power steps, iterator="QR"': lambda: compressed(
        np.float32, 4, iterator="QR"
    ),
    "da.linalg.svd_compressed, CSR blocks": lambda: compressed(np.float32, 2, csr=True),
    "distembed.LSA, float32, CSR blocks, 8 passes": own_lsa,
    "StandardScaler": scaler,
    "GridSearchCV around distembed.LSA": grid_search,
    "ParallelPostFit around distembed.LSA": parallel_post_fit,
}


@contextmanager
def cluster_of_threads() -> Iterator[None]:
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None):
        yield


def outcome(attempt: Callable[[], str]) -> str:
    """Return what an attempt says, or the first line of its error."""
    try:
        return attempt()
    except Exception as error:  # noqa: BLE001 - any is an outcome
        sentence = (str(error).strip().splitlines() or [""])[0][:110]
        return f"{type(error).__name__}: {sentence}".replace("|", "&#124;")


def table() -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    rows = [f"| {name} | {outcome(attempt)} |" for name, attempt in TRIED.items()]
    return "\n".join([f"With {versions}:", "", "| tried on Dask arrays | outcome |", "|---|---|", *rows])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(table())
