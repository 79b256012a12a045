"""PSDVec against plain dense EM and ridge, for every kind and chunking of input, and its bad input."""

import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array

from distembed.factorization import psdvec_core, psdvec_words
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import objective_of
from distembed.linalg.operators import row_blocks
from tests.references import psdvec as plain

N, CORE, D = 90, 60, 5


def draw_counts(n=N, seed=0):
    """Counts of a vocabulary with Zipf frequencies and eight topics."""
    rng = np.random.default_rng(seed)
    frequency = 1 / np.arange(1, n + 1)
    topics = rng.dirichlet(np.full(8, 0.3), n)
    expected = 3000 * np.outer(frequency, frequency) * (topics @ topics.T) * 8
    return rng.poisson(expected).astype(np.float32)


COUNTS = draw_counts()
WORD_COUNTS = COUNTS.sum(0) + 1.0


def chunked(counts, chunks):
    lazy = da.from_array(np.asarray(counts), chunks=(chunks, -1))
    return lazy.map_blocks(csr_array, meta=csr_array((0, 0), dtype=np.float32))


def products(vectors):
    """What is left of vectors up to rotation and sign."""
    array = np.asarray(vectors, float)
    return array @ array.T


@pytest.fixture(autouse=True)
def solver(request, monkeypatch):
    """Take exact eigenvectors, which a dense matrix gives in a tenth of the time, unless a test asks for "krylov"."""
    if getattr(request, "param", "dense") == "dense":
        monkeypatch.setattr(psdvec_core, "largest_eigenpairs", plain.dense_eigenpairs)


KRYLOV = pytest.mark.parametrize("solver", ["krylov"], indirect=True)


def exact(**options):
    """Return a model that makes passes enough for nearly exact eigenvectors."""
    return PSDVec(**{"n_components": D, "first_passes": 24, "n_passes": 6, **options})


@pytest.mark.parametrize(
    ("solver", "counts"),
    [("dense", COUNTS), ("krylov", COUNTS), ("dense", np.kron(np.eye(2), COUNTS[:40, :40]))],
    indirect=["solver"],
)
def test_core_equals_plain_em(counts):
    """Of a vocabulary, and of two that have no pair in common."""
    word_counts = counts.sum(0) + 1.0
    model = exact().fit(counts, word_counts)
    vectors, objective = plain.core(counts.astype(float), counts.sum(1).astype(float), word_counts, d=D)
    np.testing.assert_allclose(model.objective_, objective, rtol=1e-3)
    np.testing.assert_allclose(products(model.vectors_), products(vectors), atol=2e-3)
    assert model.vectors_.dtype == np.float32


@KRYLOV
@pytest.mark.parametrize("extra", [0, 2, 5, 14])
def test_few_more_core_words_than_components_lose_no_direction(extra, monkeypatch):
    """Later rounds start from vectors of which some are zero, where eigenvalues were negative."""
    n = 4 + extra
    model = PSDVec(4).fit(COUNTS[:n, :n], WORD_COUNTS[:n])
    monkeypatch.setattr(psdvec_core, "largest_eigenpairs", plain.dense_eigenpairs)
    dense = PSDVec(4).fit(COUNTS[:n, :n], WORD_COUNTS[:n])
    np.testing.assert_allclose(model.objective_, dense.objective_, rtol=1e-5 if n <= 12 else 2e-3)


@KRYLOV
@pytest.mark.parametrize(("n", "occurrences"), [(5, 1), (20, 0), (1, 7)])
def test_words_without_a_pair_have_vectors_of_zeros(n, occurrences):
    model = PSDVec(min(n, 3)).fit(np.zeros((n, n)), np.full(n, occurrences))
    assert not model.vectors_.any()
    assert not model.objective_.any()
    assert np.isfinite(PSDVec(1).fit(np.array([[5.0]]), [7]).vectors_).all()


def by_plain_ridge(model, **options):
    """Return the vectors of the noncore words on those of the core."""
    u, totals = WORD_COUNTS / WORD_COUNTS.sum(), COUNTS.sum(1)
    sides = COUNTS[CORE:, :CORE].astype(float), COUNTS[:CORE, CORE:].astype(float)
    shares = totals[CORE:], totals[:CORE], u[CORE:], u[:CORE]
    return plain.noncore(*sides, np.asarray(model.core_vectors_, float), *shares, **options)


@pytest.mark.parametrize(
    ("kind", "uniform", "ridge"),
    [
        (np.asarray, 0.0, 2.0),
        (csr_array, 0.5, 2.0),
        (row_blocks, 0.0, 2.0),
        (row_blocks, 0.5, 2.0),
        (np.asarray, 0.0, 0.0),  # the row PSD-unreg of the paper's table
    ],
)
def test_noncore_words_equal_plain_ridge_for_each_kind_of_input(kind, uniform, ridge):
    model = exact(n_core=CORE, uniform_weight=uniform, ridge=ridge).fit(kind(COUNTS), WORD_COUNTS)
    assert isinstance(model.vectors_, da.Array) == (kind is row_blocks)
    expected = by_plain_ridge(model, ridge=max(ridge, 1e-9), uniform=uniform)
    np.testing.assert_allclose(np.asarray(model.vectors_)[CORE:], expected, atol=2e-5 if ridge else 1e-3)
    np.testing.assert_array_equal(np.asarray(model.vectors_)[:CORE], np.asarray(model.core_vectors_))


@pytest.mark.parametrize(("n", "chunks"), [(N, (7, 50, 33)), (70, (1,) * 70)])
def test_the_chunks_of_the_counts_do_not_matter(n, chunks, monkeypatch):
    monkeypatch.setattr(psdvec_words, "MOST_WORDS", 11)
    counts = COUNTS[:n, :n]
    model = exact(n_core=CORE).fit(chunked(counts, chunks), WORD_COUNTS[:n])
    whole = exact(n_core=CORE).fit(counts, WORD_COUNTS[:n])
    assert isinstance(model.vectors_, da.Array)
    np.testing.assert_allclose(model.objective_, whole.objective_, rtol=1e-6)
    np.testing.assert_allclose(products(model.vectors_.compute()), products(whole.vectors_), atol=1e-4)


def noncore_counts(words=slice(CORE, N)):
    """Counts of noncore words left and right of the core words, and the words' occurrences."""
    return COUNTS[words, :CORE].copy(), COUNTS[:CORE, words].copy(), WORD_COUNTS[words]


def test_a_new_word_has_the_vector_of_the_fit_alone_and_among_others():
    totals = COUNTS.sum(1)
    model = exact(n_core=CORE).fit(COUNTS, WORD_COUNTS)
    among = model.transform(*noncore_counts(), new_row_totals=totals[CORE:])
    np.testing.assert_allclose(among, model.vectors_[CORE:], atol=1e-6)
    rows, columns, own = noncore_counts()
    model.set_params(smoothing=0.9, ridge=50.0, uniform_weight=3.0)  # for the next fit
    lazy = model.transform(row_blocks(rows), row_blocks(columns), own, new_row_totals=totals[CORE:])
    np.testing.assert_array_equal(among, lazy.compute())
    for word in (CORE, CORE + 7, N - 1):
        one = slice(word, word + 1)
        alone = model.transform(*noncore_counts(one), new_row_totals=totals[one])
        np.testing.assert_allclose(alone[0], model.vectors_[word], atol=1e-6)


def test_a_model_without_noncore_words_weighs_new_words_like_its_core():
    model = exact().fit(COUNTS[:CORE, :CORE], WORD_COUNTS[:CORE])
    assert (model.noncore_cutoff_, model.noncore_scale_) == (model.weight_cutoff_, model.weight_scale_)
    off_diagonal = COUNTS[:CORE, :CORE] * (1 - np.identity(CORE))
    assert model.weight_scale_ == min(np.sqrt(off_diagonal.max()), model.weight_cutoff_)
    among = model.transform(*noncore_counts())
    np.testing.assert_allclose(
        model.transform(*noncore_counts(slice(80, 81)))[0], among[80 - CORE], atol=1e-6
    )


@pytest.mark.parametrize("order", ["left", "right"])
def test_the_scale_of_noncore_weights_is_the_largest_of_both_orders(order):
    counts = COUNTS.copy()
    counts[(70, 3) if order == "left" else (3, 70)] = 400
    model = PSDVec(D, n_core=CORE, n_iter=1, weight_cutoff="none").fit(counts, WORD_COUNTS)
    assert model.noncore_scale_ == 20


@pytest.mark.parametrize(
    ("d", "rank", "ridge", "uniform"),
    [(D, D, 2.0, 0.1), (50, 50, 2.0, 0.1), (20, 10, 0.0, 0.0), (20, 10, 1e-13, 0.0)],
)
def test_transform_of_another_corpus_uses_its_core_counts_whatever_the_vectors_of_the_core(
    d, rank, ridge, uniform
):
    """Its core words occur three times as often, and so is the whole corpus three times the fit's.

    Words with fewer pairs than dimensions, of which 50 leave some, take another way to the same vectors. Of a core of
    half its rank and next to no ridge no Cholesky factor exists, and least squares do.
    """
    fitted = exact(n_components=d, n_core=CORE, ridge=ridge, uniform_weight=uniform).fit(COUNTS, WORD_COUNTS)
    random = np.random.default_rng(0)
    core = random.standard_normal((CORE, rank)) @ (
        np.eye(d) if rank == d else random.standard_normal((rank, d))
    )
    fitted.core_vectors_ = core.astype(np.float32)
    rows, columns, own = noncore_counts()
    core_counts, core_totals = WORD_COUNTS[:CORE] * 3, COUNTS.sum(1)[:CORE] * 2.0
    vectors = fitted.transform(rows, columns, own, core_counts=core_counts, core_row_totals=core_totals)
    total = WORD_COUNTS.sum() * 3
    expected = plain.noncore(
        rows.astype(float), columns.astype(float), np.asarray(fitted.core_vectors_, float),
        rows.sum(1), core_totals, own / total, core_counts / total, ridge=max(ridge, 1e-5), uniform=uniform,
    )  # fmt: skip
    np.testing.assert_allclose(core @ vectors.T, core @ expected.T, atol=2e-4 if ridge == 2 else 2e-3)


def test_bands_have_their_own_ridge():
    banded = exact(n_core=CORE, ridge=(2, 50), bands=np.array([10, 20])).fit(COUNTS, WORD_COUNTS).vectors_
    low = exact(n_core=CORE, ridge=2).fit(COUNTS, WORD_COUNTS).vectors_
    high = exact(n_core=CORE, ridge=50).fit(COUNTS, WORD_COUNTS).vectors_
    np.testing.assert_allclose(banded, np.concatenate([low[: CORE + 10], high[CORE + 10 :]]), atol=1e-6)
    assert np.linalg.norm(high[CORE:]) < np.linalg.norm(low[CORE:])


def test_the_objective_of_given_vectors_is_that_of_the_fit():
    model, totals = exact().fit(COUNTS, WORD_COUNTS), COUNTS.sum(1).astype(float)
    vectors, counts = da.from_array(np.asarray(model.vectors_)), chunked(COUNTS, (30, 30, 30))
    found, weighting = objective_of(counts, WORD_COUNTS, totals, vectors, exact())
    assert found == pytest.approx(model.objective_[-1], rel=1e-5)
    assert weighting.scale == model.weight_scale_


def test_words_without_counts_get_zero_vectors_and_disturb_nobody():
    counts = COUNTS.copy()
    counts[70], counts[:, 70] = 0, 0
    model = exact(n_core=CORE).fit(counts, WORD_COUNTS)
    np.testing.assert_array_equal(model.vectors_[70], 0)
    assert np.isfinite(model.vectors_).all()
    counts[10], counts[:, 10] = 0, 0
    assert np.isfinite(exact().fit(counts, np.where(counts.sum(0) > 0, WORD_COUNTS, 0)).vectors_).all()


def with_cell(value):
    counts = COUNTS.copy()
    counts[17, 4] = value
    return counts


def fit(counts=COUNTS, word_counts=WORD_COUNTS, row_totals=None, **options):
    return PSDVec(D, **options).fit(counts, word_counts, row_totals)


def transform(n_columns, word_counts):
    """Give words to a model of the core words alone."""
    model = fit(COUNTS[:CORE, :CORE], WORD_COUNTS[:CORE])
    return model.transform(COUNTS[CORE:, :n_columns], COUNTS[:n_columns, CORE:], word_counts)


NO_TOTAL = "words occur in pairs of counts, but their word count or row total is 0"
REFUSED = [
    (lambda: fit(n_core=91), "n_core is 91 but there are 90 words"),
    (lambda: fit(n_core=4), "n_components is 5 but there are 4 core words"),
    (lambda: fit(smoothing=0.0), "smoothing is 0"),
    (lambda: fit(weight_cutoff="half"), "weight_cutoff is 'half'"),
    (lambda: fit(n_core=60, n_iter=1, ridge=(1, 2), bands=(10, 10, 10)), "one ridge for each band"),
    (lambda: fit(n_core=60, n_iter=1, ridge=(1, 2)), "one ridge for each band"),
    (lambda: fit(with_cell(np.nan)), "counts holds NaN or infinity, first in row 17, column 4"),
    (lambda: fit(with_cell(-2)), "Negative values in data: counts holds one in row 17, column 4"),
    (lambda: fit(COUNTS[:80]), "counts are 80 × 90"),
    (lambda: fit(np.zeros((0, 0)), []), "vocabulary is empty"),
    (lambda: fit(word_counts=WORD_COUNTS[:5]), r"word_counts has shape \(5,\)"),
    (lambda: fit(row_totals=[1, 2]), r"row_totals has shape \(2,\)"),
    (lambda: fit(word_counts=-WORD_COUNTS), "Negative values in data"),
    (lambda: fit(word_counts=np.full(90, np.nan)), "word_counts contains NaN"),
    (lambda: fit(word_counts=0 * WORD_COUNTS), NO_TOTAL),
    (lambda: fit(row_totals=np.where(np.arange(N) == 0, 0, COUNTS.sum(1))), NO_TOTAL),
    (lambda: transform(N, WORD_COUNTS[CORE:]), "give m × 60 and 60 × m"),
    (lambda: transform(CORE, WORD_COUNTS), "new_counts has shape"),
    (lambda: transform(CORE, 0 * WORD_COUNTS[CORE:]), NO_TOTAL),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSED)
def test_what_cannot_be_fitted_is_refused_in_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
