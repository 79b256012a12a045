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


def example(seed=0):
    random = np.random.default_rng(seed)
    counts = random.poisson(0.6, (12, 9))
    counts[5] = 0
    counts[:, 3] = 0
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
    expected = np.zeros(counts.shape)
    for j in range(counts.shape[1]):
        total = counts[:, j].sum()
        if not total:
            continue
        share = counts[counts[:, j] > 0, j] / total
        weight = 1 + (share * np.log(share)).sum() / (np.log(n_docs) or 1.0)
        expected[:, j] = np.log1p(counts[:, j]) * max(weight, 0)
    found = documents.log_entropy(counts, dtype=np.float64).toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CHUNKS)
@pytest.mark.parametrize("weigh", [documents.tf_idf, documents.log_entropy])
def test_blocks_do_not_change_the_weights(weigh, name):
    counts = example()
    found = weigh(lazy(counts, CHUNKS[name]))
    assert isinstance(found, da.Array)
    assert found.chunks == (CHUNKS[name], (9,))
    assert isinstance(found._meta, csr_array)
    computed = csr_array(found.compute())
    assert computed.dtype == np.float32
    compare = np.testing.assert_array_equal if weigh is documents.tf_idf else np.testing.assert_allclose
    compare(computed.toarray(), weigh(counts).toarray())


@pytest.mark.parametrize("name", CHUNKS)
def test_frequencies_and_selection_over_blocks(name):
    counts = example()
    blocks = lazy(counts, CHUNKS[name])
    expected = (counts.toarray() > 0).sum(axis=0)
    frequencies = documents.document_frequencies(blocks)
    assert frequencies.dtype == np.int64
    np.testing.assert_array_equal(frequencies, expected)
    columns = np.array([7, 0, 4])
    chosen = documents.select_words(blocks, columns)
    assert chosen.shape == (12, 3)
    np.testing.assert_array_equal(csr_array(chosen.compute()).toarray(), counts.toarray()[:, columns])


def test_dask_arrays_of_dense_chunks_serve_too():
    counts = example()
    dense = da.from_array(counts.toarray(), chunks=(5, 4))
    found = csr_array(documents.tf_idf(dense).compute())
    np.testing.assert_allclose(found.toarray(), documents.tf_idf(counts).toarray(), rtol=1e-6)


def test_an_empty_document_and_an_unused_word_stay_zero():
    for weigh in (documents.tf_idf, documents.log_entropy):
        found = weigh(example()).toarray()
        assert np.isfinite(found).all()
        assert not found[5].any()
        assert not found[:, 3].any()


def test_new_documents_take_the_weights_of_the_old():
    old, new = example(), example(1)
    frequencies = documents.document_frequencies(old)
    fitted = TfidfTransformer().fit(old)
    found = documents.tf_idf(new, frequencies=frequencies, n_documents=12, dtype=np.float64)
    known = frequencies > 0
    reference = csr_array(new.toarray() * known)
    np.testing.assert_allclose(found.toarray(), fitted.transform(reference).toarray(), rtol=1e-12)
    weights = documents.entropy_weights(old)
    again = documents.log_entropy(old, weights=weights)
    np.testing.assert_array_equal(again.toarray(), documents.log_entropy(old).toarray())


def test_entropy_weights_at_their_ends():
    counts = np.array([[1, 3, 0], [1, 0, 0], [1, 0, 0]])
    np.testing.assert_allclose(documents.entropy_weights(counts), [0, 1, 0], atol=1e-12)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize(
    "weigh",
    [
        documents.document_frequencies,
        documents.entropy_weights,
        documents.tf_idf,
        documents.log_entropy,
        lambda counts: documents.tf_idf(counts, frequencies=np.ones(9), n_documents=12),
        lambda counts: documents.log_entropy(counts, weights=np.ones(9)),
    ],
)
def test_bad_counts_are_refused(weigh, bad):
    counts = example().toarray().astype(np.float64)
    counts[7, 4] = bad
    counts = csr_array(counts)
    for matrix in (counts, lazy(counts, CHUNKS["ragged"])):
        with pytest.raises(ValueError, match=r"counts holds .* row 7, column 4"):
            da.compute(weigh(matrix))


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"frequencies have shape \(2,\) .* each of the 9 words"):
        documents.tf_idf(example(), frequencies=np.array([1, 2]), n_documents=12)
    for bad in (np.full(9, 13), np.full(9, -1), np.full(9, np.nan)):
        with pytest.raises(ValueError, match="n_documents is 12; give for each of the 9 words"):
            documents.tf_idf(example(), frequencies=bad, n_documents=12)
    for bad in (np.ones(8), np.full(9, np.nan)):
        with pytest.raises(ValueError, match="for 9 words, or hold NaN"):
            documents.log_entropy(example(), weights=bad)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        documents.tf_idf([1, 2])


def test_arguments_stay_untouched():
    counts = csr_array(
        (np.array([2.0, 0.0, 1.0, 1.0]), np.array([1, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 2)
    )
    data = counts.data.copy()
    found = documents.tf_idf(counts, normalize=False, smooth=False, dtype=np.float64)
    assert found.nnz == 2
    np.testing.assert_array_equal(counts.data, data)


@pytest.mark.parametrize("name", CHUNKS)
def test_pairs_of_other_words_over_blocks(name):
    random = np.random.default_rng(0)
    size = sum(CHUNKS[name])
    counts = random.poisson(0.6, (size, size))
    words = np.array([3, -1, size - 1, 0, 2, -1, 1], np.int64)
    expected = np.where((words >= 0)[:, None] & (words >= 0), counts[np.ix_(words, words)], 0)
    for matrix in (counts, csr_array(counts), lazy(csr_array(counts), CHUNKS[name])):
        found = documents.select_pairs(matrix, words)
        found = found.compute() if isinstance(found, da.Array) else found
        np.testing.assert_array_equal(found.toarray(), expected)
        assert found.has_canonical_format
    nothing = documents.select_pairs(csr_array(counts), np.full(4, -1))
    assert nothing.shape == (4, 4)
    assert nothing.nnz == 0
