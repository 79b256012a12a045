"""Text vectors: the formula, whatever the batches; words that are unknown; what scikit-learn asks for."""

from __future__ import annotations

import pickle
import string
from operator import methodcaller

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import distembed as de
from distembed.encoding import encoder as module
from distembed.encoding.encoder import word_shares
from tests.references.texts import text_vectors

WORDS = list(string.ascii_lowercase)
MATRIX = np.random.default_rng(0).normal(size=(26, 6)).astype(np.float32)
COUNTS = np.arange(100, 74, -1)
VECTORS = de.WordVectors(WORDS, MATRIX)
TEXTS = ["a b c", "A, b! zz b", "", "zz 7", "x y z " * 50]


class Ngrams:
    """A table that composes what begins with a q, and knows nothing of other words."""

    def compose(self, words):
        return np.array([np.arange(6.0) + len(word) for word in words], np.float32)

    def n_known(self, words):
        return np.array([word.startswith("q") for word in words], np.int64)


class Composing(de.WordVectors):
    subwords = Ngrams()


@pytest.mark.filterwarnings("ignore:.*no known word")
@settings(max_examples=25)
@given(st.lists(st.text(alphabet="abcxyzABÄ ,1\n", max_size=30), max_size=8))
def test_a_vector_is_the_weighted_mean_of_unit_vectors(texts):
    found = de.TextEncoder(VECTORS, counts=COUNTS, whitening="none").transform(texts)
    assert found.dtype == np.float32
    expected = text_vectors(texts, WORDS, MATRIX, COUNTS)
    np.testing.assert_allclose(found, expected.reshape(-1, 6), rtol=1e-5, atol=1e-7)


@pytest.mark.filterwarnings("ignore:.*no known word")
def test_bits_do_not_depend_on_batches_or_neighbors(monkeypatch):
    encoder = de.TextEncoder(VECTORS, counts=COUNTS, whitening="half")
    whole = encoder.transform(TEXTS)
    monkeypatch.setattr(module, "TASK_TEXTS", 2)
    assert np.array_equal(encoder.transform(iter(TEXTS)), whole)
    assert np.array_equal(encoder.transform(TEXTS[::-1])[::-1], whole)
    lazy = encoder.transform(da.from_array(np.array(TEXTS, dtype=object), chunks=2))
    assert lazy.shape == (5, 6)
    assert lazy.dtype == np.float32
    assert np.array_equal(lazy.compute(), whole)


def test_texts_without_known_words_are_zero_and_counted():
    encoder = de.TextEncoder(VECTORS)
    with pytest.warns(UserWarning, match="^2 of 5 texts have no known word: the vector is zero"):
        found = encoder.transform(TEXTS)
    assert encoder.n_without_words_ == 2
    assert np.flatnonzero(~found.any(axis=1)).tolist() == [2, 3]
    assert encoder.transform(["a"]).any()
    assert encoder.n_without_words_ == 0
    assert encoder.transform([]).shape == (0, 6)


def test_words_are_composed_where_their_ngrams_are_known():
    encoder = de.TextEncoder(Composing(WORDS, MATRIX), whitening="none", counts=COUNTS)
    assert (encoder.fit().unknown_, de.TextEncoder(VECTORS).fit().unknown_) == ("subwords", "skip")
    part = module.encode_batch(encoder, module.batch_of(["qq a", "zz a", "a"]))
    assert part.n_known.tolist() == [2, 1, 1]
    composed = np.arange(6.0) + 2
    weights = 1e-3 / (1e-3 + COUNTS / COUNTS.sum())
    of_a = weights[0] * MATRIX[0] / np.linalg.norm(MATRIX[0])
    both = (of_a + weights.max() * composed / np.linalg.norm(composed)) / 2
    np.testing.assert_allclose(part.vectors, [both, of_a, of_a], rtol=1e-5)


def moments_of(vectors, whitening, counts=None):
    """Return the spreads of the rows of an encoder, each word as often as it occurs."""
    encoder = de.TextEncoder(de.WordVectors(WORDS, vectors), counts=counts, whitening=whitening).fit()
    rows, shares = encoder.rows_.astype(float), word_shares(VECTORS, counts)[0]
    return np.linalg.eigvalsh(rows.T @ (rows * shares[:, None]))


@pytest.mark.parametrize("whitening", ["half", "full", "component"])
def test_whitening_is_learned_from_the_vocabulary(whitening):
    """The second moments of the rows are those that the definition asks for."""
    plain = moments_of(MATRIX, "none", COUNTS)
    expected = {"half": np.sqrt(plain), "full": np.ones(6), "component": [0, *plain[:-1]]}[whitening]
    np.testing.assert_allclose(moments_of(MATRIX, whitening, COUNTS), expected, rtol=1e-4, atol=1e-9)


BASIS = np.linalg.qr(np.random.default_rng(4).normal(size=(6, 3)))[0]
PLANE = MATRIX[:, :3].astype(float) @ BASIS.T
"""Three directions in six components."""
FEW = np.where(np.arange(26)[:, None] < 3, MATRIX, 0)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("vectors", "rank"), [(np.zeros((26, 6)), 0), (np.ones((26, 6)), 1), (FEW, 3), (PLANE, 3)]
)
def test_rows_are_whitened_along_what_they_span(vectors, rank, kind):
    """What rounding adds in the other directions stays out of the texts."""
    found = moments_of(vectors.astype(kind).astype(np.float32), "full")
    np.testing.assert_allclose(found, [0] * (6 - rank) + [1] * rank, atol=1e-3)


@pytest.mark.parametrize(
    ("n_words", "options", "expected"),
    [
        (26, {}, "full"),
        (12, {}, "full"),
        (11, {}, "half"),
        (1, {}, "half"),
        (26, {"weighting": "mean"}, "none"),
        (11, {"whitening": "full"}, "full"),
    ],
)
def test_words_are_whitened_fully_where_there_are_two_per_component(n_words, options, expected):
    """Full whitening makes as many words as components orthogonal."""
    vectors = de.WordVectors(WORDS[:n_words], MATRIX[:n_words])
    encoder = de.TextEncoder(vectors, **options).fit()
    named = de.TextEncoder(vectors, **{**options, "whitening": expected}).fit()
    assert encoder.whitening_ == expected
    assert np.array_equal(encoder.rows_, named.rows_)


def test_counts_are_given_or_follow_zipf():
    shares, source = word_shares(VECTORS, None)
    assert source == "Zipf's law, by the order of the words"
    np.testing.assert_allclose(shares, 1 / np.arange(1, 27) / np.sum(1 / np.arange(1, 27)))
    by_word = word_shares(VECTORS, dict(zip(WORDS[:25], COUNTS, strict=False)))[0]
    assert by_word[-1] == by_word[-2]


@pytest.mark.parametrize(
    ("words", "options"),
    [("ab", {}), (["Paris", "b2", "l'an"], {"lowercase": False, "numbers": True, "apostrophes": True})],
)
def test_the_tokenizer_follows_the_words(words, options):
    encoder = de.TextEncoder(de.WordVectors(words, np.eye(len(words)))).fit()
    assert encoder.tokenizer_ == de.Tokenizer(**options)
    assert encoder.transform([words[0]]).argmax() == 0


FRAME = pd.DataFrame({"id": [1, 2], "text": ["a b", "b b"]})
TABLE = r"X is a table, .*: give one, such as X\['text'\]"


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ("a text", TypeError, r"X is one text.*give \[text\]"),
        (["a", None], TypeError, "text 1 is None, of type NoneType"),
        (["a", 3], TypeError, "text 1 is 3, of type int"),
        (["a"] * 4096 + [3], TypeError, "text 4096 is 3, of type int"),
        (pd.Series(["a", pd.NA], dtype=object), TypeError, "text 1 is <NA>, of type NAType"),
        (pd.DataFrame([["a", "b"]], columns=["x", "x"]), ValueError, "the table has the column 'x' twice"),
        (["a\ud800"], ValueError, "not valid Unicode"),
        *((table, TypeError, TABLE) for table in (FRAME, FRAME[["text"]], pa.Table.from_pandas(FRAME))),
    ],
)
def test_what_is_no_list_of_texts_is_refused(texts, error, message):
    with pytest.raises(error, match=message):
        de.TextEncoder(VECTORS).transform(texts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weighting": "idf"}, 'weighting is \'idf\': give "sif" or "mean"'),
        ({"whitening": "all"}, "whitening is 'all'"),
        ({"a": 0}, "a is 0: give "),
        ({"unknown": "subwords"}, "the vectors have no table of n-grams"),
        ({"counts": [1, 2]}, r"counts has shape \(2,\), but there are 26 words"),
        ({"counts": -COUNTS}, "finite ones of 0 or more"),
        ({"counts": 0 * COUNTS}, "not all of them 0"),
    ],
)
def test_options_are_checked(options, message):
    lazy = da.from_array(np.array(TEXTS, dtype=object), chunks=1)
    for use in (methodcaller("fit"), methodcaller("transform", lazy), methodcaller("encode", [])):
        with pytest.raises(ValueError, match=message):
            use(de.TextEncoder(VECTORS, **options))


@pytest.mark.parametrize(
    "change",
    [
        {"vectors": de.WordVectors(["b", "g", "h"], [[1, 0], [2, 1], [0, 3]])},
        {"a": 0.5},
        {"weighting": "mean"},
        {"counts": COUNTS[::-1]},
        {"whitening": "half"},
        {"whitening": "none"},
        {"tokenizer": de.Tokenizer(lowercase=False)},
    ],
)
@pytest.mark.filterwarnings("ignore:.*no known word")
def test_a_parameter_that_is_changed_counts_from_the_next_fit(change):
    """Word rows of one space beside the words of another would be wrong, or memory of something else."""
    texts = ["g h", "A b"]
    encoder, other = de.TextEncoder(VECTORS).fit(), de.TextEncoder(**{"vectors": VECTORS, **change})
    lazy = encoder.transform(da.from_array(np.array(texts, dtype=object), chunks=1))
    before, expected = encoder.transform(texts), other.transform(texts)
    encoder.set_params(**change)
    np.testing.assert_array_equal(encoder.transform(texts), before)
    np.testing.assert_array_equal(encoder.fit().transform(texts), expected)
    np.testing.assert_array_equal(lazy.compute(), before)
    np.testing.assert_array_equal(encoder.rows_, other.rows_)
    assert (encoder.counts_source_, encoder.tokenizer_) == (other.counts_source_, other.tokenizer_)


def test_it_is_a_scikit_learn_transformer():
    encoder = de.TextEncoder(VECTORS, counts=COUNTS)
    assert clone(encoder).vectors is VECTORS
    again = pickle.loads(pickle.dumps(encoder.fit()))
    expected = encoder.transform(["a b", "b b"])
    for texts in (["a b", "b b"], FRAME["text"]):
        np.testing.assert_array_equal(again.transform(texts), expected)
    names = [f"textencoder{number}" for number in range(6)]
    assert encoder.get_feature_names_out().tolist() == names
    assert list(encoder.set_output(transform="pandas").transform(["a"]).columns) == names
