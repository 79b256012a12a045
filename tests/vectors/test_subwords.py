"""n-grams and their hashes equal fastText's, and any string has a vector."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distembed.vectors import ngram_blocks as blocks
from distembed.vectors.subwords import SubwordTable
from tests.references import subwords as reference

ODD_WORDS = [
    "the",
    "a",
    "",
    "größe",
    "日本語",
    "👍🏽",
    "é",
    "e\u0301",
    "x<y>",
    "aaaa",
    "42",
    "\udcff",
    "ß" * 7,
]
LENGTHS = [(1, 1), (1, 4), (2, 2), (3, 6)]


def ngrams(words, min_n, max_n):
    packed = blocks.pack_words(words)
    slices = blocks.word_ngrams(packed, min_n, max_n)
    strings = blocks.unpack(packed, slices, np.arange(len(slices.starts)))
    return [strings[i:j] for i, j in zip(slices.offsets[:-1], slices.offsets[1:], strict=True)]


@pytest.mark.parametrize(("min_n", "max_n"), LENGTHS)
def test_ngrams_are_those_of_the_reference(min_n, max_n):
    assert ngrams(ODD_WORDS, min_n, max_n) == [reference.ngrams(word, min_n, max_n) for word in ODD_WORDS]


@given(st.lists(st.text(max_size=8), max_size=5), st.integers(1, 3), st.integers(0, 4))
def test_ngrams_of_any_text(words, min_n, more):
    max_n = min_n + more
    assert ngrams(words, min_n, max_n) == [reference.ngrams(word, min_n, max_n) for word in words]


@pytest.mark.parametrize(("min_n", "max_n"), LENGTHS)
def test_ngrams_and_hashes_are_those_of_gensim(min_n, max_n):
    """gensim's functions are those by which it reads fastText's own files."""
    inner = pytest.importorskip("gensim.models.fasttext_inner")
    for word in ODD_WORDS:
        if "\udcff" in word:
            continue
        theirs = inner.compute_ngrams_bytes(word, min_n, max_n)
        packed = blocks.pack_words([word])
        slices = blocks.word_ngrams(packed, min_n, max_n)
        assert ngrams([word], min_n, max_n)[0] == [one.decode() for one in theirs]
        buckets = blocks.hash_buckets(packed, slices, 2_000_000).tolist()
        assert buckets == [inner.ft_hash_bytes(one) % 2_000_000 for one in theirs]


def test_hashes_extend_the_sign_of_bytes():
    packed = blocks.pack(["é", "語<", "ab"])
    slices = blocks.Slices(packed.offsets, packed.offsets[:-1], packed.offsets[1:])
    expected = [reference.fnv1a(text) % 1000 for text in ("é", "語<", "ab")]
    assert blocks.hash_buckets(packed, slices, 1000).tolist() == expected


@given(st.lists(st.text("ab", max_size=6), max_size=8))
def test_equal_slices_have_one_number(words):
    packed = blocks.pack_words(words)
    slices = blocks.word_ngrams(packed, 2, 3)
    strings = blocks.unpack(packed, slices, np.arange(len(slices.starts)))
    numbered = blocks.number_slices(packed, slices)
    distinct = list(dict.fromkeys(strings))
    assert [distinct[number] for number in numbered.ids] == strings
    assert blocks.unpack(packed, slices, numbered.first) == distinct
    in_words = [sum(one in reference.ngrams(word, 2, 3) for word in words) for one in distinct]
    assert blocks.occurrences_in_words(numbered.ids, slices.offsets, len(distinct)).tolist() == in_words


def random_rows(n, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@pytest.fixture
def table():
    every = [one for word in ["größe", "the", "aaaa"] for one in reference.ngrams(word, 3, 6)]
    names = tuple(dict.fromkeys(every))
    return SubwordTable(random_rows(len(names)), random_rows(1)[0], ngrams=names)


def test_composed_vectors_are_those_of_the_formula(table):
    rows = {ngram: row for row, ngram in enumerate(table.ngrams)}
    expected = table.mean + reference.averaging(ODD_WORDS, rows, 3, 6) @ table.vectors
    np.testing.assert_allclose(table.compose(ODD_WORDS), expected, rtol=1e-5, atol=1e-6)
    assert table.n_ngrams(["the", ""]).tolist() == [6, 0]
    assert table.n_known(["the", "then", "日本語", ""]).tolist() == [6, 3, 0, 0]


def test_a_script_never_seen_has_the_mean(table):
    np.testing.assert_array_equal(table.compose(["日本語", "", "a"]), [table.mean] * 3)


def test_a_word_has_the_same_vector_alone_and_among_others(table, monkeypatch):
    monkeypatch.setattr("distembed.vectors.subwords.WORDS_TOGETHER", 2)
    words = [*ODD_WORDS, "the" * 3334]
    np.testing.assert_array_equal(table.compose(words), np.vstack([table.compose([word]) for word in words]))
    assert table.averaging(words).shape == (len(words), len(table))
    assert table.compose([]).shape == (0, 5)


def test_buckets_share_vectors():
    table = SubwordTable(random_rows(10), random_rows(1)[0], n_buckets=10)
    rows = dict(zip(range(10), range(10), strict=True))
    A = reference.averaging(ODD_WORDS, rows, 3, 6, key=lambda one: reference.fnv1a(one) % 10)
    np.testing.assert_allclose(table.compose(ODD_WORDS), table.mean + A @ table.vectors, rtol=1e-5, atol=1e-6)


def test_normalized_vectors_have_length_one(table):
    unit = SubwordTable(table.vectors, table.mean, ngrams=table.ngrams, normalized=True).compose(ODD_WORDS)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-6)
    plain = table.compose(ODD_WORDS)
    np.testing.assert_allclose(unit * np.linalg.norm(plain, axis=1)[:, None], plain, rtol=1e-5)


def test_a_table_without_rows_answers_with_the_mean():
    table = SubwordTable(np.empty((0, 5)), np.ones(5), ngrams=())
    np.testing.assert_array_equal(table.compose(["any"]), np.ones((1, 5)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"min_n": 4, "max_n": 3}, "min_n is 4 and max_n is 3"),
        ({"min_n": 0}, "min_n is 0"),
        ({"mean": np.ones(4)}, r"the mean \(4,\)"),
        ({"mean": np.full(5, np.nan)}, "NaN or infinity"),
        ({"n_buckets": 2}, "and not both"),
        ({"ngrams": None}, "and not both"),
        ({"ngrams": ("one",)}, "2 vectors for 1 n-grams"),
        ({"ngrams": ("one", "one")}, "occurs twice"),
        ({"ngrams": None, "n_buckets": 3}, "2 vectors for 3"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        SubwordTable(**({"vectors": random_rows(2), "mean": np.ones(5), "ngrams": ("one", "two")} | changed))


def test_one_string_is_no_list_of_words(table):
    with pytest.raises(TypeError, match="give a list of words"):
        table.compose("the")
