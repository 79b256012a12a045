"""PMI, cut-offs, tf-idf and log-entropy: against plain formulas and scikit-learn, over blocks, on bad input."""

from __future__ import annotations

import weakref
from functools import partial
from itertools import product

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import scipy.stats
from scipy.sparse import csr_array, issparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfTransformer

import distembed as de
from distembed.evaluation.documents import topic_coherence
from distembed.execution import compute
from distembed.lift import fold, total
from distembed.linalg.operators import transpose_row_blocks
from distembed.weighting import blocks, documents, pmi
from tests.references import psdvec as plain
from tests.temporaries import assert_declared, measured


def draw_counts(n=30, m=30, seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(0.3, 4, (n, m))).astype(np.float32)


PAIRS = draw_counts() + np.diag([300.0] + [0] * 29).astype(np.float32)
TEXTS = np.random.default_rng(0).poisson(0.6, (30, 30)).astype(np.float32)
TEXTS[5] = TEXTS[:, 3] = 0  # an empty document, and a word that is not used
TOTALS = np.arange(1, 31)
COLUMNS, CHOSEN = np.array([7, 0, 4]), np.array([3, -1, 11, 0, 2, -1, 1], np.int64)
TOPICS = [[1, 2, 25], [3, 4, 20]]
MASS = TOTALS / TOTALS.sum()


def lifted(counts, chunks, columns=-1):
    blocks = da.from_array(counts, chunks=(chunks, columns))
    return blocks.map_blocks(csr_array, meta=csr_array((0, 0), dtype=np.float32))


def dense_pmi(counts, alpha=1.0, negative=1.0):
    context = counts.sum(0) ** alpha
    with np.errstate(divide="ignore"):
        return np.log(counts / (counts.sum(1)[:, None] * context / context.sum())) - np.log(negative)


def seen_pmi(counts, **options):
    return np.where(counts > 0, dense_pmi(counts, **options), 0)


def plain_entropies(counts):
    share = counts / np.maximum(counts.sum(axis=0), 1)
    entropies = scipy.stats.entropy(share, axis=0)
    return np.where(counts.any(axis=0), 1 - entropies / np.log(len(counts)), 0)


# The counts, what is made of them, and the plain formula, where no other test has it.
FUNCTIONS = {
    "pmi": (PAIRS, pmi.pmi, seen_pmi),
    "pmi, smoothed and shifted": (
        PAIRS,
        partial(pmi.pmi, context_smoothing=0.75, negative_samples=5.0),
        lambda counts: seen_pmi(counts, alpha=0.75, negative=5.0),
    ),
    "ppmi": (PAIRS, pmi.ppmi, lambda counts: np.maximum(dense_pmi(counts), 0)),
    "pmi of given totals": (PAIRS, partial(pmi.pmi, row_totals=TOTALS, column_totals=TOTALS), None),
    "smoothed_pmi": (
        PAIRS,
        lambda counts: pmi.smoothed_pmi(counts, TOTALS).excess,
        lambda counts: plain.smoothed_pmi(counts, counts.sum(1), MASS, 0.02) - np.log(0.02),
    ),
    "marginals": (PAIRS, pmi.marginals, lambda counts: [counts.sum(1), counts.sum(0)]),
    "halving": (PAIRS, lambda counts: pmi.weight_cutoff(counts, "halving"), None),
    "largest_count": (PAIRS, pmi.largest_count, np.max),
    "contexts": (PAIRS, de.directional_contexts, lambda counts: np.hstack([counts, counts.T])),
    "transpose": (PAIRS, transpose_row_blocks, np.transpose),
    "coherence": (PAIRS, lambda counts: topic_coherence(TOPICS, counts), None),
    "tf_idf": (TEXTS, documents.tf_idf, lambda counts: TfidfTransformer().fit_transform(counts).toarray()),
    "tf_idf, sublinear": (
        TEXTS,
        partial(documents.tf_idf, sublinear=True),
        lambda counts: TfidfTransformer(sublinear_tf=True).fit_transform(counts).toarray(),
    ),
    "log_entropy": (TEXTS, documents.log_entropy, lambda counts: np.log1p(counts) * plain_entropies(counts)),
    "tf_idf of frequencies": (TEXTS, partial(documents.tf_idf, frequencies=TOTALS, n_documents=30), None),
    "log_entropy of weights": (TEXTS, partial(documents.log_entropy, weights=TOTALS), None),
    "frequencies": (TEXTS, documents.document_frequencies, lambda counts: (counts > 0).sum(axis=0)),
    "entropies": (TEXTS, documents.entropy_weights, plain_entropies),
    "columns": (
        TEXTS,
        lambda counts: documents.select_words(counts, COLUMNS),
        lambda counts: counts[:, COLUMNS],
    ),
    "pairs": (
        TEXTS,
        lambda counts: documents.select_pairs(counts, CHOSEN),
        lambda counts: np.where((CHOSEN >= 0)[:, None] & (CHOSEN >= 0), counts[np.ix_(CHOSEN, CHOSEN)], 0),
    ),
}
KINDS = {
    "dense": np.asarray,
    "whole": lambda counts: lifted(counts, (30,)),
    "ragged": lambda counts: lifted(counts, (7, 20, 3)),
    "single rows": lambda counts: lifted(counts, (1,) * 30),
    "cut by columns": lambda counts: lifted(counts, (10, 20), 15),
    "ragged columns": lambda counts: lifted(counts, (10, 20), (1, 29)),
    "dense chunks": lambda counts: da.from_array(counts, chunks=(5, 4)),
}


def dense_values(found):
    found = dask.compute(found)[0]
    return found.toarray() if issparse(found) else np.asarray(found)


OF_BLOCKS = ("halving", "largest_count", "transpose")
NO_KIND = [*product(OF_BLOCKS, ["dense"]), ("transpose", "dense chunks")]


@pytest.mark.parametrize(
    ("name", "kind"), [pair for pair in product(FUNCTIONS, KINDS) if pair not in NO_KIND]
)
def test_every_kind_of_counts_has_the_values_of_the_formula(name, kind):
    counts, function, formula = FUNCTIONS[name]
    whole = KINDS["whole"](counts) if name in OF_BLOCKS else csr_array(counts)
    found, expected = function(KINDS[kind](counts)), dense_values(function(whole))
    if name.startswith(("pmi", "ppmi", "tf_idf", "log_entropy")):
        assert isinstance(
            found, np.ndarray if name.startswith("p") and kind == "dense" else (csr_array, da.Array)
        )
        assert kind == "dense" or (found.dtype, found.shape) == (np.float32, (30, 30))
    compare = np.testing.assert_allclose if "entrop" in name else np.testing.assert_array_equal
    compare(dense_values(found), expected)
    if formula is not None:
        np.testing.assert_allclose(expected, formula(counts.astype(float)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_float32_are_added_in_float64(axis):
    """A column of counts that fall as 1 / rank, as those of a frequent word do: sums in float32 lose five digits."""
    values = (1e5 / np.arange(1, 100_001)).astype(np.float32)
    sums = pmi.marginals(csr_array(np.expand_dims(values, 1 - axis)))
    found = sums.columns if axis == 0 else sums.rows
    np.testing.assert_allclose(found, values.sum(dtype=np.float64), rtol=1e-13)


@pytest.mark.parametrize("chunks", [(100,), (50, 50), (31, 68, 1)])
def test_halved_cutoff_equals_the_plain_rule_and_is_none_without_counts(chunks):
    counts = draw_counts(100, 100, seed=3) * 100 + 1
    counts[0, :2] = 90000, 30000  # two of 10,000 cells reach half the root of the first: enough
    found = pmi.weight_cutoff(lifted(counts, chunks), "halving")
    assert found == pytest.approx(plain.halved_cutoff(counts.astype(float)), rel=1e-6)
    assert 10 <= found < 300
    empty = lifted(0 * counts, chunks)
    rules = "halving", "none", 2.5, np.int64(50)
    assert [pmi.weight_cutoff(empty, rule) for rule in rules] == [np.inf, np.inf, 2.5, 50]


CHECKING = ("pmi", "smoothed_pmi", "marginals", "tf_idf", "log_entropy", "frequencies", "entropies")


@pytest.mark.parametrize("bad", [np.nan, -3.0, np.inf])
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name.startswith(CHECKING)])
@pytest.mark.parametrize("kind", ["dense", "ragged"])
def test_a_bad_count_is_named_with_its_place(bad, name, kind):
    counts = PAIRS + 1
    counts[17, 4] = bad
    with pytest.raises(ValueError, match=r"counts holds .* row 17, column 4"):
        da.compute(FUNCTIONS[name][1](KINDS[kind](counts)))


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
    (de.tf_idf, (PAIRS,), {"frequencies": np.array([1, 2]), "n_documents": 12},
     r"frequencies have shape \(2,\) .* each of the 30 words"),
    *((de.tf_idf, (PAIRS,), {"frequencies": np.full(30, bad), "n_documents": 12}, "n_documents is 12; give for each of")
      for bad in (13, -1, np.nan)),
    *((de.log_entropy, (PAIRS,), {"weights": bad}, "for 30 words, or hold NaN")
      for bad in (np.ones(8), np.full(30, np.nan))),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments", "options", "message"), REFUSED)
def test_bad_input_is_refused(function, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments, **options)


PUBLIC = [FUNCTIONS[name][1] for name in ("pmi", "ppmi", "smoothed_pmi", "log_entropy", "tf_idf")]


def names_of_counts(folder):
    tokens = de.read_corpus(folder / "text.txt").tokenize(folder / "tokens")
    words = de.build_vocabulary(tokens)
    pairs = de.count_cooccurrences(tokens, words, scratch=str(folder / "runs"))
    return de.count_document_terms(tokens, words).name, de.ppmi(pairs).name


def test_other_processes_give_equal_bits_and_equal_names(tmp_path, process_pool):
    """States that are made of counts are found by their names."""
    (tmp_path / "text.txt").write_text("a b c a\nb c c\n")
    assert names_of_counts(tmp_path) == process_pool.submit(names_of_counts, tmp_path).result()
    texts = dd.from_pandas(pd.Series(["the sea", "the wind"]), npartitions=2)
    with dask.config.set(scheduler="processes", num_workers=2, pool=process_pool):
        made = dask.compute(*(weigh(lifted(draw_counts(), (7, 20, 3))) for weigh in PUBLIC))
        corpus = de.read_texts(texts)
    assert [document.text for document in corpus.documents()] == ["the sea", "the wind"]
    for weigh, found in zip(PUBLIC, made, strict=True):
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


def test_contexts_of_either_side_are_the_same_with_a_stored_transpose():
    counts = lifted(draw_counts(), (7, 20, 3))
    lazy = de.directional_contexts(counts)
    assert (lazy.dtype, lazy.chunks) == (np.float32, ((7, 20, 3), (60,)))
    stored = de.directional_contexts(counts, transpose_row_blocks(counts, row_chunks=(7, 20, 3)))
    assert (lazy.compute() != stored.compute()).nnz == 0


CONTEXTS = ["the", "sea", "of", "green", "ship", "sand"]


@pytest.mark.parametrize("chunks", [(30,), (7, 20, 3)])
@pytest.mark.parametrize("n_columns", [None, 2, 4])
def test_columns_are_chosen_by_entropy_and_word(chunks, n_columns):
    counts = draw_counts(30, 12)
    counts[:, 3], counts[:, 10] = 0, counts[:, 4]  # an empty column, and two that are equal
    # both halves lose them
    kept = np.flatnonzero(np.tile([word not in ENGLISH_STOP_WORDS for word in CONTEXTS], 2))
    entropies = np.nan_to_num(scipy.stats.entropy(counts[:, kept].astype(float)))
    kept = np.sort(kept[np.argsort(-entropies, kind="stable")[:n_columns]])
    options = {"n_columns": n_columns, "without": ENGLISH_STOP_WORDS}
    lazy = pmi.chosen_columns(lifted(counts, chunks), CONTEXTS, **options)
    assert np.array_equal(lazy.compute().toarray(), counts[:, kept])
    assert pmi.chosen_columns(SPACE, ["a", "b", "c"]) is SPACE


def test_the_words_of_a_single_document_have_their_whole_weight():
    assert documents.entropy_weights(np.array([[2, 0]])).tolist() == [1, 0]


def test_new_documents_take_the_weights_of_the_old():
    old, new = csr_array(TEXTS.astype(float)), csr_array(TEXTS[::-1, ::-1].astype(float))
    frequencies = documents.document_frequencies(old)
    found = documents.tf_idf(new, frequencies=frequencies.tolist(), n_documents=30, dtype=np.float64)
    reference = csr_array(new.toarray() * (frequencies > 0))
    expected = TfidfTransformer().fit(old).transform(reference).toarray()
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12)
    again = documents.log_entropy(old, weights=documents.entropy_weights(old))
    np.testing.assert_array_equal(again.toarray(), documents.log_entropy(old).toarray())


def test_arguments_stay_untouched_and_zeros_are_not_stored():
    entries = np.array([2.0, 0.0, 1.0, 1.0]), np.array([1, 0, 1, 1]), np.array([0, 2, 4])
    counts = csr_array(entries, shape=(2, 2))
    found = documents.tf_idf(counts, normalize=False, smooth=False, dtype=np.float64)
    assert found.nnz == 2
    assert counts.data.tolist() == [2, 0, 1, 1]


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
