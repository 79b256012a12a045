"""tf-idf and log-entropy: against scikit-learn and the formula, over blocks, on bad input."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfTransformer

from distembed.weighting import documents
from tests.references.arrays import lazy

CHUNKS = {"whole": (12,), "even": (4, 4, 4), "ragged": (1, 7, 4), "single": (1,) * 12}
counts_of = arrays(np.int64, st.tuples(st.integers(1, 8), st.integers(1, 6)), elements=st.integers(0, 5))


def example(seed=0, n_words=9):
    """Return counts with an empty document and a word that is not used."""
    counts = np.random.default_rng(seed).poisson(0.6, (12, n_words))
    counts[5] = counts[:, 3] = 0
    return csr_array(counts)


@settings(deadline=None, max_examples=50)
@given(counts_of, st.booleans())
def test_tf_idf_is_that_of_scikit_learn(counts, sublinear):
    expected = TfidfTransformer(sublinear_tf=sublinear).fit_transform(csr_array(counts)).toarray()
    found = documents.tf_idf(counts, sublinear=sublinear, dtype=np.float64)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12)


@settings(deadline=None, max_examples=50)
@given(counts_of)
def test_log_entropy_is_the_formula(counts):
    n_docs = counts.shape[0]
    expected, weights = np.zeros(counts.shape), np.zeros(counts.shape[1])
    for j in range(counts.shape[1]):
        total = counts[:, j].sum()
        if not total:
            continue
        share = counts[counts[:, j] > 0, j] / total
        weights[j] = max(1 + (share * np.log(share)).sum() / (np.log(n_docs) or 1.0), 0)
        expected[:, j] = np.log1p(counts[:, j]) * weights[j]
    np.testing.assert_allclose(documents.entropy_weights(counts), weights, rtol=1e-9, atol=1e-12)
    found = documents.log_entropy(counts, dtype=np.float64).toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


COLUMNS, WORDS = np.array([7, 0, 4]), np.array([3, -1, 11, 0, 2, -1, 1], np.int64)
FUNCTIONS = {
    "tf_idf": (documents.tf_idf, None),
    "log_entropy": (documents.log_entropy, None),
    "frequencies": (documents.document_frequencies, lambda dense: (dense > 0).sum(axis=0)),
    "columns": (lambda counts: documents.select_words(counts, COLUMNS), lambda dense: dense[:, COLUMNS]),
    "pairs": (
        lambda counts: documents.select_pairs(counts, WORDS),
        lambda dense: np.where((WORDS >= 0)[:, None] & (WORDS >= 0), dense[np.ix_(WORDS, WORDS)], 0),
    ),
}


@pytest.mark.parametrize("name", CHUNKS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_blocks_do_not_change_the_values(function, name):
    call, oracle = FUNCTIONS[function]
    counts = example(n_words=12 if function == "pairs" else 9)
    whole, made = call(counts), call(lazy(counts, CHUNKS[name]))
    found = csr_array(made.compute() if isinstance(made, da.Array) else made)
    compare = np.testing.assert_allclose if function == "log_entropy" else np.testing.assert_array_equal
    compare(found.toarray(), csr_array(whole).toarray())
    if oracle is not None:
        np.testing.assert_array_equal(np.squeeze(found.toarray()), oracle(counts.toarray()))
    if function in ("tf_idf", "log_entropy"):
        assert made.chunks == (CHUNKS[name], (9,))
        assert isinstance(made._meta, csr_array)
        assert found.dtype == np.float32
        assert np.isfinite(found.toarray()).all()
        assert not found.toarray()[5].any()
        assert not found.toarray()[:, 3].any()


def test_dask_arrays_of_dense_chunks_serve_too():
    dense = da.from_array(example().toarray(), chunks=(5, 4))
    found = csr_array(documents.tf_idf(dense).compute())
    np.testing.assert_allclose(found.toarray(), documents.tf_idf(example()).toarray(), rtol=1e-6)


def test_pairs_of_no_word_are_empty():
    nothing = documents.select_pairs(example(n_words=12), np.full(4, -1))
    assert (nothing.shape, nothing.nnz) == ((4, 4), 0)


def test_new_documents_take_the_weights_of_the_old():
    old, new = example(), example(1)
    frequencies = documents.document_frequencies(old)
    found = documents.tf_idf(new, frequencies=frequencies, n_documents=12, dtype=np.float64)
    reference = csr_array(new.toarray() * (frequencies > 0))
    expected = TfidfTransformer().fit(old).transform(reference).toarray()
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12)
    again = documents.log_entropy(old, weights=documents.entropy_weights(old))
    np.testing.assert_array_equal(again.toarray(), documents.log_entropy(old).toarray())


ONES = np.ones(9)


def of_frequencies(counts, frequencies=ONES):
    return documents.tf_idf(counts, frequencies=frequencies, n_documents=12)


def of_weights(counts, weights=ONES):
    return documents.log_entropy(counts, weights=weights)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize(
    "weigh",
    [
        documents.document_frequencies,
        documents.entropy_weights,
        documents.tf_idf,
        documents.log_entropy,
        of_frequencies,
        of_weights,
    ],
)
def test_bad_counts_are_refused(weigh, bad):
    counts = example().toarray().astype(np.float64)
    counts[7, 4] = bad
    for matrix in (csr_array(counts), lazy(csr_array(counts), CHUNKS["ragged"])):
        with pytest.raises(ValueError, match=r"counts holds .* row 7, column 4"):
            da.compute(weigh(matrix))


@pytest.mark.parametrize(
    ("weigh", "given", "message"),
    [
        (of_frequencies, np.array([1, 2]), r"frequencies have shape \(2,\) .* each of the 9 words"),
        *((of_frequencies, np.full(9, bad), "n_documents is 12; give for each of the 9") for bad in (13, -1, np.nan)),
        *((of_weights, bad, "for 9 words, or hold NaN") for bad in (np.ones(8), np.full(9, np.nan))),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(weigh, given, message):
    with pytest.raises(ValueError, match=message):
        weigh(example(), given)


def test_a_list_is_no_matrix():
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        documents.tf_idf([1, 2])


def test_arguments_stay_untouched():
    entries = np.array([2.0, 0.0, 1.0, 1.0]), np.array([1, 0, 1, 1]), np.array([0, 2, 4])
    counts = csr_array(entries, shape=(2, 2))
    found = documents.tf_idf(counts, normalize=False, smooth=False, dtype=np.float64)
    assert found.nnz == 2
    assert counts.data.tolist() == [2, 0, 1, 1]
