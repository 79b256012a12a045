"""What every estimator promises: scikit-learn's checks, names, seeds, and one answer for every kind and cut of rows."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, NoReturn

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import _num_samples

import distembed as de
from distembed import execution
from distembed.neighbors.distances import domain_rows
from distembed.options import fits, options_of
from distembed.validation import check_matrix, seed_of
from distembed.weighting.pmi import marginals

# --- scikit-learn's checks ---------------------------------------------------------------------------------


class OrthogonalNMF(de.NMF):
    """A name for the test."""


# Estimators of two matrices are shown to scikit-learn's checks, which know one, with the other one filled in.


class OneMatrixSemanticNMF(de.SemanticNMF):
    def fit(self, X, y=None):
        n_words = np.shape(X.toarray() if hasattr(X, "toarray") else np.asarray(X))[-1]
        return super().fit(X, csr_array(np.ones((n_words, n_words))))

    def fit_transform(self, X, y=None):
        return self.fit(X).document_factors_

    def fit_predict(self, X, y=None):
        return self.fit(X).labels_


class OneMatrixPSDVec(de.PSDVec):
    def fit(self, X, y=None):
        return super().fit(X, np.ones(_num_samples(X)))

    def transform(self, X):
        m = _num_samples(X)
        return super().transform(X, csr_array((getattr(self, "n_core_", 1), m)), np.zeros(m))

    def fit_transform(self, X, y=None):
        return self.fit(X).transform(X)


class OneMatrixImputation(de.LatentSemanticImputation):
    def fit(self, X, y=None):
        Y = np.arange(float(_num_samples(X)))[:, None]
        Y[2::3] = np.nan
        return super().fit(X, Y)


class OneMatrixEmbedding(de.FeaturePreservingEmbedding):
    def fit(self, X, y=None):
        return super().fit(X, None if y is None else np.asarray(y).reshape(-1, 1))

    def fit_transform(self, X, y=None):
        return self.fit(X, y).transform(X)


OF_ONE_MATRIX = [
    de.LSA(1, n_passes=1, tol=None),
    de.NMF(2),
    de.SphericalKMeans(2),
    de.LocalityPreservingProjection(1, n_neighbors=3),
]
OF_TWO = [
    OneMatrixSemanticNMF(2),
    OneMatrixPSDVec(1, n_iter=1, n_passes=1, first_passes=1),
    OneMatrixImputation(min_degree=2),
    OneMatrixEmbedding(1, n_neighbors=3, max_iter=2),
]
CHECKED = [*OF_ONE_MATRIX, OrthogonalNMF(2, solver="orthogonal"), *OF_TWO]


@pytest.mark.parametrize("model", CHECKED, ids=lambda model: type(model).__name__)
def test_scikit_learns_checks_pass_but_for_those_the_class_gives_a_reason_for(model):
    expected = getattr(model, "_expected_failed_checks", {})
    assert len(expected) <= 3
    with warnings.catch_warnings(), dask.config.set(scheduler="sync"):
        warnings.simplefilter("ignore")
        results = check_estimator(model, expected_failed_checks=expected, on_skip=None, on_fail=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == set(expected)


# --- new rows for a fitted model, of every kind and in any blocks ----------------------------------------------

ROWS, COLUMNS, N_CORE = 40, 3000, 1000
"""Of documents: so wide that a model is much larger than a task."""

READ: list[int] = []
"""The first rows of the blocks of documents that tasks have made."""


@cache
def documents(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).poisson(0.02, (ROWS, COLUMNS)).astype(np.float64)


def made(block: np.ndarray, block_info: Any = None) -> np.ndarray:
    first = block_info[0]["array-location"][0][0]
    READ.append(first)
    return documents(1)[first : first + len(block)]


def documents_in_blocks(n_blocks: int) -> da.Array:
    """Return documents that are made in the tasks: the graph holds none of them."""
    rows = da.ones((ROWS, COLUMNS), chunks=(ROWS // n_blocks, -1))
    return rows.map_blocks(made, dtype=np.float64, meta=np.empty((0, 0)))


def in_blocks(X: np.ndarray, n_rows: int = 7, *, sparse: bool = False) -> da.Array:
    lazy = da.from_array(X, chunks=(n_rows, -1))
    return lazy.map_blocks(csr_array, meta=csr_array((0, 0), dtype=X.dtype)) if sparse else lazy


KINDS = {
    "array": np.asarray,
    "list": lambda X: X.tolist(),
    "csr_matrix": csr_matrix,
    "csc": lambda X: csr_array(X).tocsc(),
    "blocks": in_blocks,
    "one block": lambda X: in_blocks(X, ROWS),
    "blocks of csr": lambda X: in_blocks(X, sparse=True),
}
EMBEDDING = {"n_neighbors": 4, "max_iter": 2}
OF_DOCUMENTS = {
    "LSA.transform": de.LSA(5, n_passes=2),
    "NMF.transform": de.NMF(5, max_iter=2, tol=0),
    "NMF.predict": de.NMF(5, max_iter=2, tol=0),
    "NMF.transform, orthogonal": de.NMF(5, solver="orthogonal", max_iter=2, tol=0),
    "SemanticNMF.transform": de.SemanticNMF(5, max_iter=2),
    "SemanticNMF.predict": de.SemanticNMF(5, max_iter=2),
    "SphericalKMeans.transform": de.SphericalKMeans(5, max_iter=2),
    "SphericalKMeans.predict": de.SphericalKMeans(5, max_iter=2),
    "LocalityPreservingProjection.transform": de.LocalityPreservingProjection(5, n_neighbors=4),
    "LocalityPreservingProjection.transform, with an intercept": de.LocalityPreservingProjection(
        2, n_neighbors=4, constant_column=True
    ),
    "FeaturePreservingEmbedding.transform": de.FeaturePreservingEmbedding(
        2, normalization="symmetric", **EMBEDDING
    ),
    "FeaturePreservingEmbedding.predict": de.FeaturePreservingEmbedding(2, **EMBEDDING),
}


class Fitted(NamedTuple):
    """A fitted model, its method for new rows, and what makes such rows in so many blocks."""

    model: Any
    answer: Callable[[Any], Any]
    rows: Callable[[int], da.Array]


def words_in_blocks(n_blocks: int) -> da.Array:
    return da.from_array(np.array(WORDS[:ROWS], object), chunks=ROWS // n_blocks)


WORDS = [f"w{number:04d}" for number in range(N_CORE)]
VECTORS = np.random.default_rng(3).random((N_CORE, 20)).astype(np.float32)


def new_words_in_blocks(n_blocks: int) -> da.Array:
    """Return the counts of new words with those of a core."""
    return documents_in_blocks(n_blocks)[:, :N_CORE].map_blocks(csr_array, meta=csr_array((0, 0)))


def psdvec() -> Fitted:
    counts = np.random.default_rng(2).integers(1, 99, (N_CORE, N_CORE))
    model = de.PSDVec(5, n_iter=1).fit(counts, counts.sum(axis=0))
    columns = da.ones((N_CORE, ROWS), chunks=-1).map_blocks(csr_array, meta=csr_array((0, 0)))
    return Fitted(model, lambda rows: model.transform(rows, columns, np.ones(ROWS)), new_words_in_blocks)


def subwords(vectors: Any) -> Fitted:
    model = de.SubwordMap(tol=0.1).fit(WORDS, vectors)
    return Fitted(model, model.transform, words_in_blocks)


def embedding_of_a_lazy_set() -> Fitted:
    model = de.FeaturePreservingEmbedding(2, **EMBEDDING)
    model.fit(in_blocks(documents(), 10), documents()[:, :2])
    return Fitted(model, model.transform, documents_in_blocks)


def encoder() -> Fitted:
    model = de.TextEncoder(de.WordVectors(WORDS, VECTORS))
    return Fitted(model, model.transform, words_in_blocks)


LAZY = "SubwordMap of a Dask array"
"""The model whose own vectors are lazy: its graph is that of their fit."""

OTHERS = {
    "an embedding of a lazy set": embedding_of_a_lazy_set,
    "PSDVec": psdvec,
    "TextEncoder": encoder,
    "SubwordMap": lambda: subwords(VECTORS),
    LAZY: lambda: subwords(in_blocks(VECTORS, 500)),
}


@cache
def fitted(name: str) -> Fitted:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rounds do not converge
        if name in OTHERS:
            return OTHERS[name]()
        X, model = documents(), OF_DOCUMENTS[name]
        model.fit(X, csr_array(X.T @ X) if isinstance(model, de.SemanticNMF) else X[:, :2])
        return Fitted(model, getattr(model, method_of(name)), documents_in_blocks)


def method_of(name: str) -> str:
    return name.split(",", maxsplit=1)[0].split(".")[1]


def spoilt(row: int, column: int, value: float) -> np.ndarray:
    X = documents(1).copy()
    X[row, column] = value
    return X


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OF_DOCUMENTS)
def test_rows_of_every_kind_get_one_answer_and_those_that_do_not_fit_are_refused(name, kind):
    model, answer, _ = fitted(name)
    given = KINDS[kind]
    found, expected = answer(given(documents(1))), answer(documents(1))
    assert isinstance(expected, np.ndarray)
    assert isinstance(found, da.Array if "block" in kind else np.ndarray)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)
    for width in (COLUMNS - 1, COLUMNS + 1):
        with pytest.raises(
            ValueError, match=f"X has {width} features, but .* is expecting {COLUMNS} features"
        ):
            answer(given(np.ones((3, width))))
    for value in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match="X holds NaN or infinity, first in row 17, column 4"):
            np.asarray(answer(given(spoilt(17, 4, value))))
    if model.__sklearn_tags__().input_tags.positive_only:
        with pytest.raises(ValueError, match="Negative values in data: X holds one in row 17, column 4"):
            np.asarray(answer(given(spoilt(17, 4, -0.5))))
    with pytest.raises(NotFittedError):
        getattr(type(model)(), method_of(name))(given(documents(1)))


@pytest.mark.parametrize("name", OF_DOCUMENTS)
def test_columns_that_come_out_have_names(name):
    model = fitted(name).model
    width = model.transform(documents()).shape[1]
    assert model.get_feature_names_out().tolist() == [
        f"{type(model).__name__.lower()}{i}" for i in range(width)
    ]


def refusing(*_graph: object, **_options: object) -> NoReturn:
    raise AssertionError("computed at the call")


def task_bytes(lazy: da.Array) -> list[int]:
    """Return the bytes of each task of an array, as it is sent to another process."""
    (optimized,) = dask.optimize(lazy)
    return [len(cloudpickle.dumps(task)) for task in dict(optimized.__dask_graph__()).values()]


@pytest.mark.parametrize("name", [*OF_DOCUMENTS, *OTHERS])
def test_a_call_computes_nothing_reads_rows_once_and_its_graph_holds_the_model_once(name):
    _, answer, rows = fitted(name)
    with dask.config.set(scheduler=refusing):
        lazy = answer(rows(4))
        assert isinstance(lazy, da.Array)
    assert lazy.numblocks[0] >= 4  # of whatever it computes, rows stay apart
    READ.clear()
    lazy.compute()
    assert sorted(READ) in ([0, 10, 20, 30], [])
    assert bool(READ) == (rows is not words_in_blocks)
    few, many = (sum(task_bytes(answer(rows(n_blocks)))) for n_blocks in (2, 20))
    assert many - few < 18 * 8_000  # the smallest of the models takes 40 kB


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with Client(processes=False, set_as_default=False, **options) as one:
        yield one


@pytest.mark.parametrize("name", sorted({*OF_DOCUMENTS, *OTHERS} - {LAZY}))
def test_a_graph_of_a_cluster_holds_no_model(name, client, monkeypatch):
    monkeypatch.setattr(execution, "LARGEST_LITERAL", 30_000)
    _, answer, rows = fitted(name)
    expected = answer(rows(1)).compute(scheduler="synchronous")
    with client.as_current(), dask.config.set(scheduler=client):
        lazy = answer(rows(4))
        assert max(task_bytes(lazy)) < 60_000
        found = lazy.compute()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_second_sets_have_columns_of_their_own():
    X1, X2 = few(), few()[::-1, :5]
    pairs = [(i, i) for i in range(20)]
    model = de.FeaturePreservingEmbedding(2, n_neighbors=4).fit(X1, X2, X1[:, :2], pairs)
    wrong = X2.copy()
    wrong[3, 1] = np.nan
    assert model.transform(X2, data_set=1).shape == (len(X2), 2)
    with pytest.raises(ValueError, match="X has 8 features, but set 1 of FeaturePreservingEmbedding has 5"):
        model.transform(X1, data_set=1)
    with pytest.raises(ValueError, match="X2 holds NaN or infinity, first in row 3, column 1"):
        model.fit(X1, wrong, X1[:, :2], [(0, 0)])


def test_large_arrays_in_memory_give_arrays_in_memory():
    X = few()
    with dask.config.set({"distembed.block_memory": 500}):
        for model in (de.NMF(3, max_iter=5, tol=0), de.SphericalKMeans(3)):
            assert isinstance(model.fit_transform(X), np.ndarray)
            assert isinstance(model.transform(X), np.ndarray)
            assert isinstance(model.transform(in_blocks(X)), da.Array)


# --- what is taken and what is refused -----------------------------------------------------------------------


def few() -> np.ndarray:
    """Return non-negative rows of eight columns, some values zero, no row empty."""
    random = np.random.default_rng(0)
    values, is_kept = random.random((30, 8)), random.random((30, 8)) < 0.7
    return values * is_kept + np.eye(30, 8) + 0.01


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (da.ones(5), "Expected 2D array, got 1D array instead"),
        (da.ones((5, 2), dtype=complex), "Complex data not supported"),
        (da.ones((5, 2)).astype(object), "X has dtype object: give numbers"),
        (da.ones((5, 0)), r"0 feature\(s\) \(shape=\(5, 0\)\) while a minimum of 1"),
        (da.ones((0, 5)), r"0 sample\(s\) \(shape=\(0, 5\)\) while a minimum of 1"),
        (da.ones((5, 2))[da.ones(5) > 0], r"unknown size: call X.compute_chunk_sizes\(\)"),
    ],
)
def test_dask_arrays_are_held_to_the_rules_of_arrays_in_memory(X, message):
    with pytest.raises(ValueError, match=message):
        de.LSA(1).fit(X)


class Labeled:
    """What this package sees of xarray's DataArray: a collection with its Dask array in `data`."""

    def __init__(self, data):
        self._data, self.shape, self.dtype, self.ndim = data, data.shape, data.dtype, data.ndim

    @property
    def data(self):
        return self._data

    def __dask_graph__(self):
        return self._data.__dask_graph__()

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("gathered")


def frame(X):
    import dask.dataframe

    return dask.dataframe.from_dask_array(X, columns=[f"c{number}" for number in range(X.shape[1])])


NGRAMS = de.SubwordMap().fit(["walk", "walks"], np.ones((2, 2)))
READERS = {
    **{type(model).__name__: (model.fit, "X") for model in OF_ONE_MATRIX},
    "SemanticNMF": (lambda X: de.SemanticNMF(2).fit(few(), X), "M"),
    "PSDVec": (lambda X: de.PSDVec(1).fit(X, np.ones(8)), "counts"),
    "LatentSemanticImputation": (lambda X: de.LatentSemanticImputation().fit(X, few()), "X"),
    "known vectors": (lambda Y: de.LatentSemanticImputation().fit(few(), Y), "Y"),
    "FeaturePreservingEmbedding": (lambda X: de.FeaturePreservingEmbedding(1).fit(X, few()), "X"),
    "counts of ppmi": (de.ppmi, "counts"),
    "counts of tf-idf": (de.tf_idf, "counts"),
    "counts of marginals": (marginals, "counts"),
    "vectors of words": (lambda X: de.WordVectors(WORDS[:30], X), "vectors"),
    "vectors of n-grams": (lambda X: de.SubwordMap().fit(WORDS[:30], X), "vectors"),
    "counts of words": (lambda X: de.PSDVec(1).fit(np.eye(30), X), "word_counts"),
    "known features": (lambda V: de.FeaturePreservingEmbedding(1).fit(few(), V), "V"),
    "an adjacency": (lambda X: de.FeaturePreservingEmbedding(1).fit_graph(X, few()), "adjacency"),
    "a graph": (lambda X: de.LocalityPreservingProjection(1).fit(few(), graph=X), "graph"),
    "words of n-grams": (NGRAMS.transform, "words"),
    "words of a table": (NGRAMS.table_.compose, "words"),
    "texts": (lambda X: de.TextEncoder(de.WordVectors(["a"], [[1.0]])).transform(X), "X"),
    "new rows": (lambda X: de.NMF(2, max_iter=1, tol=0).fit(few()).transform(X), "X"),
    "neighbors": (domain_rows, "X"),
}


@pytest.mark.parametrize("reader", READERS)
def test_other_collections_are_refused_with_the_line_to_type(reader):
    """NumPy gathered them in silence, and the answer came in memory."""
    read, name = READERS[reader]
    for make, line in ((frame, r"\.to_dask_array\(lengths=True\)"), (Labeled, r"\.data")):
        with pytest.raises(TypeError, match=f"^{name} is a lazy .*: give {name}{line}$"):
            read(make(in_blocks(few())))


def test_sparse_blocks_where_rows_are_dense_are_refused():
    with pytest.raises(
        TypeError, match="Sparse data was passed for X, but dense data is required: densify its blocks"
    ):
        de.LatentSemanticImputation().fit(in_blocks(few(), sparse=True), few())


def halves_of_csr(X):
    rows = csr_array(X.astype(np.float32))
    rows.data = rows.data.astype(np.float16)
    return rows


@pytest.mark.parametrize("kind", [np.asarray, in_blocks, halves_of_csr])
def test_halves_are_taken_in_single_precision(kind):
    """SciPy has no sparse matrix of halves, and their sums overflow at 65,504."""
    X = few().astype(np.float16)
    found = check_matrix(kind(X))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray() if isinstance(found, csr_array) else found, X)
    model = de.LocalityPreservingProjection(1, n_neighbors=3)
    expected = model.fit(X.astype(np.float32)).components_
    np.testing.assert_allclose(model.fit(kind(X)).components_, expected, rtol=1e-4)


def test_sums_that_overflow_are_of_finite_values():
    assert check_matrix(np.full((2, 2), np.finfo(np.float64).max)).shape == (2, 2)


def test_semantic_nmf_gives_factors_and_labels_of_both_matrices():
    X, model = few(), de.SemanticNMF(2, max_iter=5)
    factors, labels = model.fit_transform(X, X.T @ X), model.fit_predict(X, X.T @ X)
    model.fit(X, X.T @ X)
    np.testing.assert_array_equal(factors, model.document_factors_)
    np.testing.assert_array_equal(labels, model.labels_)


# --- seeds and counts ---------------------------------------------------------------------------------------


def result_of(model):
    X = few()
    if isinstance(model, de.PSDVec):
        return model.fit(X.T @ X, np.ones(8)).vectors_
    if isinstance(model, de.FeaturePreservingEmbedding):
        return model.fit(X, X[:, :2]).embedding_
    if isinstance(model, de.SemanticNMF):
        return model.fit_transform(X, X.T @ X)
    if isinstance(model, de.LatentSemanticImputation):
        return model.fit(X, X).vectors_
    if isinstance(model, de.SubwordMap):
        return model.fit(WORDS[:30], X).transform(WORDS[:30])
    return model.fit(X).transform(X)


SEEDED = [
    de.LSA(2, n_passes=1, oversampling=0),
    de.NMF(2, init="random", max_iter=1, tol=0),
    de.NMF(2, solver="orthogonal", init="random", max_iter=1, tol=0),
    de.SemanticNMF(2, init="random", max_iter=1),
    de.SphericalKMeans(4, max_iter=1),
    de.LocalityPreservingProjection(2, n_neighbors=4, solver="eigen", svd_components=4),
    de.PSDVec(4, n_iter=1, first_passes=1),
    de.FeaturePreservingEmbedding(2, n_neighbors=4, init="random", max_iter=1),
]


@pytest.mark.parametrize(
    "model", [*SEEDED, de.LatentSemanticImputation(), de.SubwordMap()], ids=lambda model: type(model).__name__
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_changes_no_option_and_a_fitted_model_goes_through_pickle(model):
    before, first = clone(model).get_params(), result_of(model)
    assert model.get_params() == before
    again = pickle.loads(pickle.dumps(model))
    assert again.get_params() == before
    np.testing.assert_array_equal(result_of(clone(again)), first)


@pytest.mark.parametrize("model", SEEDED, ids=lambda model: type(model).__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_kind_of_random_state_is_taken(model):
    def result(random_state):
        return result_of(model.set_params(random_state=random_state))

    np.testing.assert_array_equal(result(7), result(np.int64(7)))
    assert not np.array_equal(result(7), result(8))
    for kind in (np.random.default_rng, np.random.RandomState):
        generator = kind(3)
        assert seed_of(generator) != seed_of(generator)
        first = result(kind(3))
        np.testing.assert_array_equal(first, result(kind(3)))
        np.testing.assert_array_equal(first, result(seed_of(kind(3))))
    assert np.isfinite(result(None)).all()
    for wrong, give in ((-1, "an integer from 0 on"), ("seven", "an integer, or a NumPy Generator, or")):
        with pytest.raises(ValueError, match=f"random_state is {wrong!r}: give {give}"):
            result(wrong)


@pytest.mark.parametrize(
    "estimator", [getattr(de, name) for name in de.__all__ if hasattr(getattr(de, name), "get_params")]
)
def test_a_count_is_a_whole_number_and_no_less_than_its_least(estimator):
    options = {name: option.annotation for name, option in options_of(estimator).items()}
    counts = {name for name, kind in options.items() if fits(3, kind) and not fits(2.5, kind)}
    assert counts - {"random_state"} or estimator is de.TextEncoder
    for name in counts - {"random_state"}:
        below = -1 if fits(0, options[name]) else 0
        for value in (2.0, True, "3", below):
            message = f"{name} is {value!r}: give an integer of {below + 1} or more"
            with pytest.raises(ValueError, match=message):
                result_of(estimator(**{name: value}))
