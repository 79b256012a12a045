"""What every estimator promises to scikit-learn: validation, tags, names, seeds, and equal answers for equal input."""

from __future__ import annotations

import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import _num_samples

import distembed as de
from distembed.neighbors.distances import domain_rows
from distembed.options import fits, options_of
from distembed.validation import check_matrix, seed_of
from distembed.weighting.pmi import marginals

ROWS, COLUMNS = 30, 8


def documents(seed=0):
    """Non-negative rows, some values zero, no row empty."""
    random = np.random.default_rng(seed)
    values, is_kept = random.random((ROWS, COLUMNS)), random.random((ROWS, COLUMNS)) < 0.7
    return values * is_kept + np.eye(ROWS, COLUMNS) + 0.01


def in_blocks(X, *, sparse=False):
    return da.from_array(X, chunks=(7, -1)).map_blocks(
        csr_array if sparse else np.asarray, dtype=X.dtype, meta=csr_array((0, 0)) if sparse else None
    )


KINDS = {
    "list": lambda X: X.tolist(),
    "csr_matrix": csr_matrix,
    "csc": lambda X: csr_array(X).tocsc(),
    "dask": in_blocks,
    "dask of csr": lambda X: in_blocks(X, sparse=True),
}


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


class OrthogonalNMF(de.NMF):
    """A name for the test."""


CHECKED = [
    de.LSA(1, n_passes=1, tol=None),
    de.NMF(2),
    OrthogonalNMF(2, solver="orthogonal"),
    OneMatrixSemanticNMF(2),
    de.SphericalKMeans(2),
    de.LocalityPreservingProjection(1, n_neighbors=3),
    OneMatrixPSDVec(1, n_iter=1, n_passes=1, first_passes=1),
    OneMatrixImputation(min_degree=2),
    OneMatrixEmbedding(1, n_neighbors=3, max_iter=2),
]


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


# --- rows for a fitted model -------------------------------------------------------------------------------

EMBEDDING = de.FeaturePreservingEmbedding(2, n_neighbors=4)
FITTED = {
    "LSA.transform": de.LSA(3, n_passes=2),
    "NMF.transform": de.NMF(3),
    "NMF.transform, orthogonal": de.NMF(3, solver="orthogonal"),
    "SphericalKMeans.transform": de.SphericalKMeans(3),
    "SphericalKMeans.predict": de.SphericalKMeans(3),
    "LocalityPreservingProjection.transform": de.LocalityPreservingProjection(3, n_neighbors=4),
    "FeaturePreservingEmbedding.transform": EMBEDDING,
    "FeaturePreservingEmbedding.predict": EMBEDDING,
}


@pytest.fixture(scope="module", params=FITTED)
def fitted(request):
    model, method = FITTED[request.param], request.param.split(",")[0].split(".")[1]
    X = documents()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, X[:, :2]), method


def spoilt(row, column, value):
    X = documents(1)
    X[row, column] = value
    return X


@pytest.mark.parametrize("kind", ["array", *KINDS])
def test_rows_that_do_not_fit_are_refused(fitted, kind):
    model, method = fitted
    answer = getattr(model, method)

    def given(X):
        return X if kind == "array" else KINDS[kind](X)

    for width in (COLUMNS - 1, COLUMNS + 1, 2000):
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
        getattr(type(model)(), method)(given(documents()))


def test_rows_of_every_kind_get_the_same_answer(fitted):
    model, method = fitted
    X = documents(1)
    expected = getattr(model, method)(X)
    assert isinstance(expected, np.ndarray)
    for kind, make in KINDS.items():
        found = np.asarray(getattr(model, method)(make(X)))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=kind)


def test_second_sets_have_columns_of_their_own():
    X1, X2 = documents(), documents(1)[:, :5]
    pairs = [(i, i) for i in range(20)]
    model = de.FeaturePreservingEmbedding(2, n_neighbors=4).fit(X1, X2, X1[:, :2], pairs)
    assert model.transform(X2, data_set=1).shape == (ROWS, 2)
    with pytest.raises(ValueError, match="X has 8 features, but set 1 of FeaturePreservingEmbedding has 5"):
        model.transform(X1, data_set=1)
    with pytest.raises(ValueError, match="X2 holds NaN or infinity, first in row 3, column 1"):
        model.fit(X1, spoilt(3, 1, np.nan), X1[:, :2], [(0, 0)])


def test_large_arrays_in_memory_give_arrays_in_memory():
    X = documents()
    with dask.config.set({"distembed.block_memory": 500}):
        for model in (de.NMF(3, max_iter=5, tol=0), de.SphericalKMeans(3)):
            assert isinstance(model.fit_transform(X), np.ndarray)
            assert isinstance(model.transform(X), np.ndarray)
            assert isinstance(model.transform(in_blocks(X)), da.Array)


# --- Dask arrays are checked where they are read -----------------------------------------------------------


def counted(X):
    """X in blocks, and a list that grows with every block that is read."""
    read = []

    def seen(block):
        read.append(block.shape)
        return block

    return da.from_array(X, chunks=(7, -1)).map_blocks(seen, dtype=X.dtype, meta=np.empty((0, 0))), read


def test_a_check_reads_no_block_and_lets_each_through_once():
    X, read = counted(documents())
    matrix = check_matrix(X, nonnegative=True)
    assert not read
    np.testing.assert_array_equal(matrix, documents())
    assert len(read) == X.numblocks[0]


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (de.NMF(3), "transform"),
        (de.NMF(3), "predict"),
        (de.SphericalKMeans(3), "transform"),
        (de.SphericalKMeans(3), "predict"),
        (de.LSA(3), "transform"),
    ],
)
def test_new_rows_are_read_once(model, method):
    X, read = counted(documents())
    lazily = getattr(model.fit(documents()), method)(X)
    assert not read
    lazily.compute()
    assert len(read) == X.numblocks[0]


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


COLLECTIONS = {frame: r"\.to_dask_array\(lengths=True\)", Labeled: r"\.data"}
NGRAMS = de.SubwordMap().fit(["walk", "walks"], np.ones((2, 2)))
READERS = {
    **{type(model).__name__: (model.fit, "X") for model in CHECKED if type(model).__module__ != __name__},
    "SemanticNMF": (lambda X: de.SemanticNMF(2).fit(documents(), X), "M"),
    "PSDVec": (lambda X: de.PSDVec(1).fit(X, np.ones(COLUMNS)), "counts"),
    "LatentSemanticImputation": (lambda X: de.LatentSemanticImputation().fit(X, documents()), "X"),
    "known vectors": (lambda Y: de.LatentSemanticImputation().fit(documents(), Y), "Y"),
    "FeaturePreservingEmbedding": (lambda X: de.FeaturePreservingEmbedding(1).fit(X, documents()), "X"),
    "counts of ppmi": (de.ppmi, "counts"),
    "counts of tf-idf": (de.tf_idf, "counts"),
    "counts of marginals": (marginals, "counts"),
    "vectors of words": (lambda X: de.WordVectors(map(str, range(ROWS)), X), "vectors"),
    "vectors of n-grams": (lambda X: de.SubwordMap().fit([f"w{row}" for row in range(ROWS)], X), "vectors"),
    "counts of words": (lambda X: de.PSDVec(1).fit(np.eye(ROWS), X), "word_counts"),
    "known features": (lambda V: de.FeaturePreservingEmbedding(1).fit(documents(), V), "V"),
    "an adjacency": (lambda X: de.FeaturePreservingEmbedding(1).fit_graph(X, documents()), "adjacency"),
    "a graph": (lambda X: de.LocalityPreservingProjection(1).fit(documents(), graph=X), "graph"),
    "words of n-grams": (NGRAMS.transform, "words"),
    "words of a table": (NGRAMS.table_.compose, "words"),
    "texts": (lambda X: de.TextEncoder(de.WordVectors(["a"], [[1.0]])).transform(X), "X"),
    "new rows": (lambda X: de.NMF(2, max_iter=1, tol=0).fit(documents()).transform(X), "X"),
    "neighbors": (domain_rows, "X"),
}


@pytest.mark.parametrize("reader", READERS)
def test_other_collections_are_refused_with_the_line_to_type(reader):
    """NumPy gathered them in silence, and the answer came in memory."""
    read, name = READERS[reader]
    for make, line in COLLECTIONS.items():
        with pytest.raises(TypeError, match=f"^{name} is a lazy .*: give {name}{line}$"):
            read(make(da.from_array(documents(), chunks=(7, -1))))


def test_sparse_blocks_where_rows_are_dense_are_refused():
    X = in_blocks(documents(), sparse=True)
    with pytest.raises(
        TypeError, match="Sparse data was passed for X, but dense data is required: densify its blocks"
    ):
        de.LatentSemanticImputation().fit(X, documents())


def test_the_line_to_type_gives_a_dask_array():
    X = da.from_array(documents(), chunks=(7, -1))
    for taken in (frame(X).to_dask_array(lengths=True), Labeled(X).data):
        assert isinstance(de.LSA(1, n_passes=2).fit(taken).transform(taken), da.Array)


def halves_of_csr(X):
    rows = csr_array(X.astype(np.float32))
    rows.data = rows.data.astype(np.float16)
    return rows


@pytest.mark.parametrize("kind", [np.asarray, in_blocks, halves_of_csr])
def test_halves_are_taken_in_single_precision(kind):
    """SciPy has no sparse matrix of halves, and their sums overflow at 65,504."""
    X = documents().astype(np.float16)
    found = check_matrix(kind(X))
    assert found.dtype == np.float32
    dense = found.toarray() if isinstance(found, csr_array) else np.asarray(found)
    assert dense.dtype == np.float32
    np.testing.assert_array_equal(dense, X)
    model = de.LocalityPreservingProjection(1, n_neighbors=3)
    expected = model.fit(X.astype(np.float32)).components_
    np.testing.assert_allclose(model.fit(kind(X)).components_, expected, rtol=1e-4)


def test_sums_that_overflow_are_of_finite_values():
    assert check_matrix(np.full((2, 2), np.finfo(np.float64).max)).shape == (2, 2)


# --- names, tags, seeds -------------------------------------------------------------------------------------


def test_columns_that_come_out_have_names(fitted):
    model, _ = fitted
    name = type(model).__name__.lower()
    width = np.asarray(model.transform(documents())).shape[1]
    assert model.get_feature_names_out().tolist() == [f"{name}{i}" for i in range(width)]


def test_semantic_nmf_gives_factors_and_labels_of_both_matrices():
    X = documents()
    factors = de.SemanticNMF(2, max_iter=5).fit_transform(X, X.T @ X)
    model = de.SemanticNMF(2, max_iter=5).fit(X, X.T @ X)
    np.testing.assert_array_equal(factors, model.document_factors_)
    np.testing.assert_array_equal(de.SemanticNMF(2, max_iter=5).fit_predict(X, X.T @ X), model.labels_)


def result_of(model):
    X = documents()
    if isinstance(model, de.PSDVec):
        return model.fit(X.T @ X, np.ones(COLUMNS)).vectors_
    if isinstance(model, de.FeaturePreservingEmbedding):
        return model.fit(X, X[:, :2]).embedding_
    if isinstance(model, de.SemanticNMF):
        return model.fit_transform(X, X.T @ X)
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


@pytest.mark.parametrize("model", SEEDED, ids=lambda model: type(model).__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_kind_of_random_state_is_taken(model):
    def result(random_state):
        return result_of(model.set_params(random_state=random_state))

    np.testing.assert_array_equal(result(7), result(np.int64(7)))
    assert not np.array_equal(result(7), result(8))
    for kind in (np.random.default_rng, np.random.RandomState):
        first = result(kind(3))
        np.testing.assert_array_equal(first, result(kind(3)))
        np.testing.assert_array_equal(first, result(seed_of(kind(3))))
    assert np.isfinite(result(None)).all()
    with pytest.raises(ValueError, match="random_state is -1: give an integer from 0 on"):
        result(-1)


OTHER_FITS = {
    de.LatentSemanticImputation: lambda model: model.fit(documents(), documents()),
    de.SubwordMap: lambda model: model.fit([f"word{row}" for row in range(ROWS)], documents()),
}
ESTIMATORS = [getattr(de, name) for name in de.__all__ if hasattr(getattr(de, name), "get_params")]


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        pytest.param(estimator, name, id=f"{estimator.__name__}.{name}")
        for estimator in ESTIMATORS
        for name, option in options_of(estimator).items()
        if name != "random_state" and fits(3, option.annotation) and not fits(2.5, option.annotation)
    ],
)
def test_a_count_is_a_whole_number_and_no_less_than_its_least(estimator, name):
    below = -1 if fits(0, options_of(estimator)[name].annotation) else 0
    for value in (2.0, True, "3", below):
        with pytest.raises(ValueError, match=f"{name} is {value!r}: give an integer of {below + 1} or more"):
            OTHER_FITS.get(estimator, result_of)(estimator(**{name: value}))


def test_a_seed_is_the_integer_itself_and_generators_go_on():
    assert seed_of(12) == 12
    for kind in (np.random.default_rng, np.random.RandomState):
        generator = kind(0)
        assert seed_of(generator) != seed_of(generator)
        assert seed_of(kind(1)) == seed_of(kind(1)) != seed_of(kind(2))
    assert seed_of(None) != seed_of(None)
    with pytest.raises(ValueError, match="random_state is 'seven'"):
        seed_of("seven")
