"""PMI, cut-offs, tf-idf and log-entropy: against plain formulas and scikit-learn, over blocks, on bad input."""

from __future__ import annotations

import weakref
from functools import partial
from itertools import product

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import coo_matrix, csr_array, issparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfTransformer

import distembed as de
from distembed.evaluation.documents import topic_coherence
from distembed.execution import compute
from distembed.lift import fold, total
from distembed.linalg.operators import transpose_row_blocks
from distembed.weighting import blocks, documents, pmi
from tests.references import psdvec as plain
from tests.references.arrays import lazy
from tests.temporaries import assert_declared, measured

CHUNKINGS = [(30,), (10, 10, 10), (7, 20, 3), (1,) * 30]


def draw_counts(n=30, m=30, seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(0.3, 4, (n, m))).astype(np.float32)


def lifted(counts, chunks, columns=-1):
    return da.from_array(counts, chunks=(chunks, columns)).map_blocks(
        csr_array, meta=csr_array((0, 0), dtype=np.float32)
    )


def dense_pmi(counts, alpha=1.0, negative=1.0):
    context = counts.sum(0) ** alpha
    with np.errstate(divide="ignore"):
        return np.log(counts / (counts.sum(1)[:, None] * context / context.sum())) - np.log(negative)


@pytest.mark.parametrize(("alpha", "negative"), [(1.0, 1.0), (0.75, 5.0)])
@pytest.mark.parametrize("chunks", CHUNKINGS)
def test_ppmi_and_pmi_are_the_dense_formula_for_every_kind_and_chunking(chunks, alpha, negative):
    counts = draw_counts()
    options = {"context_smoothing": alpha, "negative_samples": negative}
    expected = dense_pmi(counts.astype(float), alpha, negative)
    result = pmi.ppmi(lifted(counts, chunks), **options)
    assert result.chunks[0] == chunks
    np.testing.assert_allclose(result.compute().toarray(), np.maximum(expected, 0), atol=1e-6)
    kinds = [pmi.pmi(given, **options) for given in (counts, csr_array(counts), lifted(counts, chunks))]
    assert [type(one) for one in kinds] == [np.ndarray, csr_array, da.Array]
    for one in (kinds[1], kinds[2].compute()):
        np.testing.assert_array_equal(one.toarray(), kinds[0])
    np.testing.assert_allclose(kinds[0][counts > 0], expected[counts > 0], atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_float32_are_added_in_float64(axis):
    """A column of counts that fall as 1 / rank, as those of a frequent word do: sums in float32 lose five digits."""
    values = (1e5 / np.arange(1, 100_001)).astype(np.float32)
    sums = pmi.marginals(csr_array(np.expand_dims(values, 1 - axis)))
    found = sums.columns if axis == 0 else sums.rows
    np.testing.assert_allclose(found, values.sum(dtype=np.float64), rtol=1e-13)


OF_COUNTS = {
    "pmi": lambda counts, words: pmi.pmi(counts),
    "pmi of given totals": lambda counts, words: pmi.pmi(counts, row_totals=words, column_totals=words),
    "smoothed_pmi": lambda counts, words: pmi.smoothed_pmi(counts, words).excess,
    "marginals": lambda counts, words: np.vstack(pmi.marginals(counts)),
    "halving": lambda counts, words: pmi.weight_cutoff(counts, "halving"),
    "largest_count": lambda counts, words: pmi.largest_count(counts),
    "contexts": lambda counts, words: pmi.directional_contexts(counts, counts),
    "transpose": lambda counts, words: transpose_row_blocks(counts),
    "coherence": lambda counts, words: np.array(topic_coherence([[1, 2, 25], [3, 4, 20]], counts)),
}


@pytest.mark.parametrize("columns", [15, (1, 29)])
@pytest.mark.parametrize("function", OF_COUNTS.values(), ids=OF_COUNTS.keys())
def test_counts_cut_by_columns_mean_what_whole_rows_mean(function, columns):
    def values(columns):
        result = function(lifted(counts, (10, 20), columns), counts.sum(0))
        result = result.compute() if isinstance(result, da.Array) else result
        return result.toarray() if issparse(result) else result

    counts = draw_counts() + np.diag([300.0] + [0] * 29).astype(np.float32)
    np.testing.assert_array_equal(values(columns), values(-1))


@pytest.mark.parametrize("chunks", [(100,), (50, 50), (31, 68, 1)])
def test_halved_cutoff_equals_the_plain_rule_and_is_none_without_counts(chunks):
    counts = draw_counts(100, 100, seed=3) * 100 + 1
    counts[0, 0] = 90000
    found = pmi.weight_cutoff(lifted(counts, chunks), "halving")
    assert found == pytest.approx(plain.halved_cutoff(counts.astype(float)), rel=1e-6)
    assert 10 <= found < 300
    empty = lifted(0 * counts, chunks)
    assert [pmi.weight_cutoff(empty, rule) for rule in ("halving", "none", 2.5)] == [np.inf, np.inf, 2.5]


@pytest.mark.parametrize("bad", [np.nan, -3.0, np.inf])
@pytest.mark.parametrize(
    ("name", "lazy"),
    [("smoothed_pmi", True), *product(["marginals", "pmi", "pmi of given totals"], [False, True])],
)
def test_a_bad_count_is_named_with_its_place(bad, lazy, name):
    counts = draw_counts() + 1
    counts[17, 4] = bad
    with pytest.raises(ValueError, match=r"counts holds .* row 17, column 4"):
        da.compute(OF_COUNTS[name](lifted(counts, (10, 20)) if lazy else counts, np.ones(30)))


# --- what is public ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", CHUNKINGS)
def test_smoothed_pmi_is_the_reference_for_every_kind_and_chunking(chunks):
    counts, words = draw_counts(), np.arange(1, 31)
    expected = plain.smoothed_pmi(counts.astype(float), counts.sum(1), words / words.sum(), 0.02)
    kinds = (counts, csr_array(counts), lifted(counts, chunks))
    dense, sparse, lazy = (de.smoothed_pmi(given, words).excess for given in kinds)
    for excess in (dense, sparse.toarray(), lazy.compute().toarray()):
        np.testing.assert_allclose(np.log(0.02) + excess, expected, rtol=1e-5, atol=1e-5)
        assert excess.tobytes() == dense.tobytes()


SQUARE = np.ones((2, 2))
SPACE = lifted(draw_counts(30, 3), (30,))
SHAPE = r"12 rows and 24 columns; give counts of words|0 feature\(s\)"
REFUSED = [
    *((de.smoothed_pmi, (SQUARE, [1, 1]), {"smoothing": bad}, f"smoothing is {bad}") for bad in (0, 1, -0.5, np.nan)),
    (de.smoothed_pmi, (SQUARE, [1, 1, 1]), {}, r"word_counts have shape \(3,\) .* each of the 2 words"),
    *((de.smoothed_pmi, (SQUARE, [1, bad]), {}, "not above zero") for bad in (np.nan, 0, -1)),
    (de.pmi, (SQUARE,), {"negative_samples": 0}, "negative_samples is 0"),
    *((pmi.weight_cutoff, (SPACE, rule), {}, f"weight_cutoff is {rule!r}") for rule in ("half", 0, -2.5)),
    *((de.directional_contexts, (csr_array(shape),), {}, SHAPE) for shape in ((12, 24), (12, 0), (0, 0))),
    (pmi.chosen_columns, (-SPACE, ["a", "b", "c"]), {"n_columns": 2}, "Negative values in data: counts"),
    (pmi.chosen_columns, (SPACE, ["a", "b", "c"]), {"n_columns": 4}, "n_columns is 4 of 3 columns"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments", "options", "message"), REFUSED)
def test_bad_input_is_refused(function, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments, **options)


PUBLIC = [
    de.pmi,
    partial(de.ppmi, negative_samples=2.0),
    lambda counts: de.smoothed_pmi(counts, np.arange(1, 31)).excess,
    de.log_entropy,
    de.tf_idf,
]


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_any_workers_give_equal_bits(request, workers):
    pool = {"pool": request.getfixturevalue("process_pool")} if workers == "processes" else {"num_workers": 2}
    made = [weigh(lifted(draw_counts(), (7, 20, 3))) for weigh in PUBLIC]
    for weigh, found in zip(PUBLIC, dask.compute(*made, scheduler=workers, **pool), strict=True):
        alone = weigh(csr_array(draw_counts()))
        for part in ("data", "indices", "indptr"):
            assert getattr(found, part).tobytes() == getattr(alone, part).tobytes()


EMPTY = csr_array((0, 0), dtype=np.float32)


class Read:
    """Counts by row block, which remember how often they are read, and how many blocks are held at a time."""

    def __init__(self):
        self.n_reads, self.most_held = 0, 0
        self.held = weakref.WeakValueDictionary()
        rows = da.from_array(np.arange(30)[:, None], chunks=(10, -1))
        self.counts = rows.map_blocks(self.read, chunks=(rows.chunks[0], (30,)), meta=EMPTY)

    def read(self, rows):
        block = csr_array(draw_counts())[rows[:, 0]]
        self.n_reads += 1
        self.held[self.n_reads] = block
        self.most_held = max(self.most_held, len(self.held))
        return block


@pytest.mark.parametrize(
    ("weigh", "n_passes"),
    [
        (pmi.pmi, 2),
        (partial(pmi.pmi, row_totals=np.full(30, 1000.0)), 2),
        (partial(pmi.pmi, column_totals=np.full(30, 1000.0)), 1),
        (lambda counts: pmi.smoothed_pmi(counts, np.ones(30)).excess, 1),
    ],
)
def test_counts_are_read_once_more_for_the_sums_of_columns_and_not_held(weigh, n_passes):
    """With the sums of columns in its graph Dask held every block of counts until the last was read."""
    source = Read()
    with dask.config.set(scheduler="synchronous"):  # the sums are computed at once
        sizes = fold(total(lambda block: np.int64(block.nnz)), "wc", weigh(source.counts), shape=())
        assert compute(sizes) > 0
    assert source.n_reads == 3 * n_passes
    assert source.most_held == 1


# --- contexts on either side, and the choice of columns ------------------------------------------------------------


@pytest.mark.parametrize("chunks", CHUNKINGS)
def test_contexts_of_either_side_are_counts_and_their_transpose(chunks):
    counts = draw_counts()
    expected, blocks = np.hstack([counts, counts.T]), lifted(counts, chunks)
    lazy = de.directional_contexts(blocks)
    assert (lazy.dtype, lazy.chunks) == (np.float32, (chunks, (60,)))
    stored = de.directional_contexts(blocks, transpose_row_blocks(blocks, row_chunks=chunks))
    for found in (*dask.compute(lazy, stored), de.directional_contexts(coo_matrix(counts))):
        assert isinstance(found, csr_array)
        assert found.has_canonical_format
        assert np.array_equal(found.toarray(), expected)


COLUMNS = ["the", "sea", "of", "green", "ship", "sand"]


@pytest.mark.parametrize("chunks", CHUNKINGS)
@pytest.mark.parametrize("n_columns", [None, 2, 4])
def test_columns_are_chosen_by_entropy_and_word(chunks, n_columns):
    counts = draw_counts(30, 12)
    counts[:, 3], counts[:, 10] = 0, counts[:, 4]  # an empty column, and two that are equal
    # both halves lose them
    kept = np.flatnonzero(np.tile([word not in ENGLISH_STOP_WORDS for word in COLUMNS], 2))
    entropies = np.nan_to_num(scipy.stats.entropy(counts[:, kept].astype(float)))
    kept = np.sort(kept[np.argsort(-entropies, kind="stable")[:n_columns]])
    options = {"n_columns": n_columns, "without": ENGLISH_STOP_WORDS}
    lazy = pmi.chosen_columns(lifted(counts, chunks), COLUMNS, **options)
    assert np.array_equal(lazy.compute().toarray(), counts[:, kept])
    assert pmi.chosen_columns(SPACE, ["a", "b", "c"]) is SPACE


# ---- words in documents -----------------------------------------------------------------------------------------


CHUNKS = {"whole": (12,), "ragged": (1, 7, 4), "single": (1,) * 12}
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


CHOSEN, WORDS = np.array([7, 0, 4]), np.array([3, -1, 11, 0, 2, -1, 1], np.int64)
FUNCTIONS = {
    "tf_idf": (documents.tf_idf, None),
    "log_entropy": (documents.log_entropy, None),
    "frequencies": (documents.document_frequencies, lambda dense: (dense > 0).sum(axis=0)),
    "columns": (lambda counts: documents.select_words(counts, CHOSEN), lambda dense: dense[:, CHOSEN]),
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


def test_new_documents_take_the_weights_of_the_old_and_dense_chunks_serve_too():
    old, new = example(), example(1)
    frequencies = documents.document_frequencies(old)
    found = documents.tf_idf(new, frequencies=frequencies, n_documents=12, dtype=np.float64)
    reference = csr_array(new.toarray() * (frequencies > 0))
    expected = TfidfTransformer().fit(old).transform(reference).toarray()
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12)
    dense = da.from_array(old.toarray(), chunks=(5, 4))
    again = csr_array(documents.tf_idf(dense).compute())
    np.testing.assert_allclose(again.toarray(), documents.tf_idf(old).toarray(), rtol=1e-6)
    again = documents.log_entropy(old, weights=documents.entropy_weights(old))
    np.testing.assert_array_equal(again.toarray(), documents.log_entropy(old).toarray())


ONES = np.ones(9)
WEIGHED = {
    "frequencies": lambda counts, _: documents.document_frequencies(counts),
    "entropies": lambda counts, _: documents.entropy_weights(counts),
    "tf_idf": lambda counts, _: documents.tf_idf(counts),
    "log_entropy": lambda counts, _: documents.log_entropy(counts),
    "of frequencies": lambda counts, given: documents.tf_idf(counts, frequencies=given, n_documents=12),
    "of weights": lambda counts, given: documents.log_entropy(counts, weights=given),
}


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("weigh", WEIGHED.values(), ids=WEIGHED)
def test_bad_counts_are_refused(weigh, bad):
    counts = example().toarray().astype(np.float64)
    counts[7, 4] = bad
    for matrix in (csr_array(counts), lazy(csr_array(counts), CHUNKS["ragged"])):
        with pytest.raises(ValueError, match=r"counts holds .* row 7, column 4"):
            da.compute(weigh(matrix, ONES))


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("of frequencies", np.array([1, 2]), r"frequencies have shape \(2,\) .* each of the 9 words"),
        *(("of frequencies", np.full(9, bad), "n_documents is 12; give for each of the 9") for bad in (13, -1, np.nan)),
        *(("of weights", bad, "for 9 words, or hold NaN") for bad in (np.ones(8), np.full(9, np.nan))),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(name, given, message):
    with pytest.raises(ValueError, match=message):
        WEIGHED[name](example(), given)


def test_arguments_stay_untouched():
    entries = np.array([2.0, 0.0, 1.0, 1.0]), np.array([1, 0, 1, 1]), np.array([0, 2, 4])
    counts = csr_array(entries, shape=(2, 2))
    found = documents.tf_idf(counts, normalize=False, smooth=False, dtype=np.float64)
    assert found.nnz == 2
    assert counts.data.tolist() == [2, 0, 1, 1]


# ---- temporaries ---------------------------------------------------------------------------------------------------


def test_the_block_functions_of_weighting_declare_what_they_hold():
    whole = sp.csr_array(sp.random(6_000, 2_000, density=0.1, random_state=0, format="csr"))
    whole.data = np.ceil(20 * whole.data).astype(np.int32)
    whole[0, 0] = 400
    rows = [da.from_array(whole[at : at + 2_000], chunks=-1, asarray=False) for at in range(0, 6_000, 2_000)]
    counts = da.concatenate(rows)
    pairs = counts[:2_000]
    with measured() as found:
        compute([de.pmi(counts), de.ppmi(counts), de.log_entropy(counts), de.tf_idf(counts, sublinear=True)])
        compute([de.smoothed_pmi(pairs, np.arange(1, 2_001)).excess, de.directional_contexts(pairs)])
        pmi.weight_cutoff(counts, "halving")
        pmi.largest_count(counts)
        compute(documents.select_words(counts, np.arange(0, 2_000, 2)))
        compute(documents.select_pairs(pairs, np.arange(1_999, -1, -1)))
    assert_declared(
        found, blocks.column_sums, blocks.pmi, blocks.excess_of_block, blocks.count_at_least,
        blocks.largest_value, blocks.weigh_tf_idf, blocks.weigh_log_entropy, blocks.column_frequencies,
        blocks.column_entropy_sums, blocks.chosen_columns, blocks.times_sparse, pmi.beside,
    )  # fmt: skip
