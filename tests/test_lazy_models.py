"""What a fitted model promises on Dask arrays: the call computes nothing, and the graph holds the model once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from scipy.sparse import csr_array

import distembed as de
from distembed import execution

COLUMNS, RANK, N_CORE = 3000, 5, 2000
WORDS = [f"w{number:04d}" for number in range(2000)]


def some_rows(block: np.ndarray, block_info: Any = None) -> np.ndarray:
    """Return rows of documents for a block of ones, those of the place of the block."""
    first = block_info[0]["array-location"][0][0]
    return np.stack(
        [np.random.default_rng(first + i).poisson(0.02, block.shape[1]) for i in range(len(block))]
    )


def documents(n_blocks: int) -> da.Array:
    """Return 40 documents, which are made in the tasks: the graph holds none of them."""
    rows = da.ones((40, COLUMNS), chunks=(40 // n_blocks, -1), dtype=np.float32)
    return rows.map_blocks(some_rows, dtype=np.float32, meta=np.empty((0, 0), np.float32))


def fitted(model: Any) -> Any:
    X = np.random.default_rng(1).poisson(0.02, (60, COLUMNS)).astype(np.float32)
    return model.fit(X, csr_array(X.T @ X) if isinstance(model, de.SemanticNMF) else X[:, :2])


def of_rows(model: Any, method: str = "transform") -> Callable[[], Callable[[int], da.Array]]:
    def make() -> Callable[[int], da.Array]:
        answer = getattr(fitted(model), method)
        return lambda n_blocks: answer(documents(n_blocks))

    return make


def embedding_of_a_lazy_set() -> Callable[[int], da.Array]:
    model = de.FeaturePreservingEmbedding(2, n_neighbors=4, max_iter=2)
    lazy = documents(4)
    model.fit(lazy, np.asarray(lazy)[:, :2])
    return lambda n_blocks: model.transform(documents(n_blocks))


def sparse(rows: da.Array) -> da.Array:
    return rows.map_blocks(csr_array, meta=csr_array((0, 0), dtype=np.float32))


def vectors_of_new_words() -> Callable[[int], da.Array]:
    counts = np.random.default_rng(2).integers(1, 99, (N_CORE, N_CORE))
    model = de.PSDVec(RANK, n_iter=1).fit(counts, counts.sum(axis=0))
    columns = sparse(da.ones((N_CORE, 40), chunks=(-1, -1), dtype=np.float32))
    return lambda n_blocks: model.transform(sparse(documents(n_blocks)[:, :N_CORE]), columns, np.ones(40))


def words(n_blocks: int) -> da.Array:
    return da.from_array(np.array(WORDS[:40], object), chunks=40 // n_blocks)


def vectors_of_texts() -> Callable[[int], da.Array]:
    vectors = de.WordVectors(WORDS, np.random.default_rng(3).random((len(WORDS), 20)))
    encoder = de.TextEncoder(vectors)
    return lambda n_blocks: encoder.transform(words(n_blocks))


def vectors_of_strings(*, lazy: bool = False) -> Callable[[int], da.Array]:
    vectors = np.random.default_rng(3).random((len(WORDS), 20)).astype(np.float32)
    model = de.SubwordMap(tol=0.1).fit(WORDS, da.from_array(vectors, chunks=(500, -1)) if lazy else vectors)
    return lambda n_blocks: model.transform(words(n_blocks))


LAZY = "SubwordMap of a Dask array"
"""The model whose own vectors are lazy: its graph is that of their fit."""

MODELS = {
    "LSA": of_rows(de.LSA(RANK, n_passes=2)),
    "NMF": of_rows(de.NMF(RANK, max_iter=2, tol=0)),
    "NMF.predict": of_rows(de.NMF(RANK, max_iter=2, tol=0), "predict"),
    "orthogonal NMF": of_rows(de.NMF(RANK, solver="orthogonal", max_iter=2, tol=0)),
    "SemanticNMF": of_rows(de.SemanticNMF(RANK, max_iter=2)),
    "SemanticNMF.predict": of_rows(de.SemanticNMF(RANK, max_iter=2), "predict"),
    "SphericalKMeans": of_rows(de.SphericalKMeans(RANK, max_iter=2)),
    "SphericalKMeans.predict": of_rows(de.SphericalKMeans(RANK, max_iter=2), "predict"),
    "LocalityPreservingProjection": of_rows(de.LocalityPreservingProjection(RANK, n_neighbors=4)),
    "regression with an intercept": of_rows(
        de.LocalityPreservingProjection(2, n_neighbors=4, constant_column=True)
    ),
    "FeaturePreservingEmbedding": of_rows(
        de.FeaturePreservingEmbedding(2, n_neighbors=4, max_iter=2, normalization="symmetric")
    ),
    "FeaturePreservingEmbedding.predict": of_rows(
        de.FeaturePreservingEmbedding(2, n_neighbors=4, max_iter=2), "predict"
    ),
    "an embedding of a lazy set": embedding_of_a_lazy_set,
    "PSDVec": vectors_of_new_words,
    "TextEncoder": vectors_of_texts,
    "SubwordMap": vectors_of_strings,
    LAZY: lambda: vectors_of_strings(lazy=True),
}


@pytest.fixture(scope="module", params=MODELS)
def answer(request):
    """Return what a fitted model gives for rows in so many blocks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rounds do not converge
        return MODELS[request.param]()


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with Client(processes=False, set_as_default=False, **options) as one:
        yield one


def refusing(*_graph: object, **_options: object) -> NoReturn:
    raise AssertionError("computed at the call")


def task_bytes(lazy: da.Array) -> list[int]:
    """Return the bytes of each task of an array, as it is sent to another process."""
    (optimized,) = dask.optimize(lazy)
    return [len(cloudpickle.dumps(task)) for task in dict(optimized.__dask_graph__()).values()]


def test_a_call_computes_nothing(answer):
    with dask.config.set(scheduler=refusing):
        lazy = answer(4)
        assert isinstance(lazy, da.Array)
        with pytest.raises(AssertionError, match="computed at the call"):
            lazy.compute()
    assert lazy.numblocks[0] >= 4  # of whatever it computes, rows stay apart


def test_a_graph_holds_the_model_once(answer):
    few, many = (sum(task_bytes(answer(n_blocks))) for n_blocks in (2, 20))
    assert many - few < 18 * 8_000  # the smallest of the models takes 120 kB


@pytest.mark.parametrize("answer", sorted({*MODELS} - {LAZY}), indirect=True)
def test_a_graph_of_a_cluster_holds_no_model(answer, client, monkeypatch):
    monkeypatch.setattr(execution, "LARGEST_LITERAL", 30_000)
    expected = answer(1).compute(scheduler="synchronous")
    with client.as_current(), dask.config.set(scheduler=client):
        lazy = answer(4)
        assert max(task_bytes(lazy)) < 60_000
        found = lazy.compute()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
