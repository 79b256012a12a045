"""Models of fastText as gensim writes them, and bad files."""

from __future__ import annotations

import gzip
import struct
from itertools import pairwise

import numpy as np
import pytest
from gensim.models import FastText
from gensim.models.fasttext import save_facebook_model
from hypothesis import given
from hypothesis import strategies as st

from distembed.vectors import VectorFileError, WordVectors
from distembed.vectors.subwords import SubwordTable, hashes, word_ngrams
from tests.references import subwords as reference

UNKNOWN = ["kinging", "walks", "東京都", "x", "Ω" * 300]


@pytest.fixture(scope="module")
def model():
    sentences = [["the", "king", "runs", "</s>"], ["the", "Queen", "was", "running", "</s>"]] * 5
    return FastText(sentences, vector_size=6, min_count=1, bucket=500, epochs=1, seed=1, workers=1)


@pytest.fixture(scope="module")
def written(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("fasttext") / "model.bin"
    save_facebook_model(model, str(path))
    return path


def test_a_model_that_gensim_trained(model, written, monkeypatch, tmp_path):
    monkeypatch.setattr("distembed.vectors.rows.BLOCK_VALUES", 100)
    read = WordVectors.load(written)  # told by its first bytes: the name alone would mean word2vec
    assert read.words == tuple(model.wv.index_to_key)
    for word in [*read.words, *UNKNOWN]:
        if word != "</s>":
            assert np.allclose(read[word], model.wv.get_vector(word), atol=1e-6)
    # fastText gives `</s>` no n-grams, whatever its spelling, and gensim does not know that
    row = model.wv.key_to_index["</s>"]
    assert np.allclose(read["</s>"], model.wv.vectors_vocab[row], atol=1e-6)
    (tmp_path / "model.bin.gz").write_bytes(gzip.compress(written.read_bytes()))
    assert np.array_equal(WordVectors.load(tmp_path / "model.bin.gz").vectors, read.vectors)
    first = WordVectors.load(written, max_words=3)
    assert first.words == read.words[:3]
    assert np.array_equal(first[[*first.words, *UNKNOWN]], read[[*first.words, *UNKNOWN]])


def test_a_model_without_n_grams(model, tmp_path):
    without = FastText([["a", "b"]] * 5, vector_size=6, min_count=1, max_n=0, epochs=1, seed=1, workers=1)
    save_facebook_model(without, str(tmp_path / "v.bin"))
    read = WordVectors.load(tmp_path / "v.bin")
    assert read.subwords is None
    assert np.array_equal(read.vectors, without.wv.vectors_vocab)


SHAPE = struct.pack("<qq", 507, 6)
"""The rows and columns of the matrix of a model of seven words and 500 buckets."""


def _end(data):
    """Return where the rows of the buckets end."""
    return data.index(SHAPE) + len(SHAPE) + 4 * 507 * 6


def _with(data, place, form, value):
    return data[:place] + struct.pack(form, value) + data[place + struct.calcsize(form) :]


DAMAGED = [
    (lambda data: data[: _end(data) - 20], r"cannot be read as a model of fastText \(.*\): take a whole one"),
    (lambda data: data[:20], r"\(it is cut short|\(unpack requires"),
    (lambda data: data[:110], r"\(it is cut short"),  # in a word: gensim alone would look for its end for ever
    (lambda data: data[:92] + b"a" * 70_000, r"\(it is cut short"),
    (lambda data: _with(data, 68, "<i", 1 << 30), r"cannot be read"),
    (lambda data: _with(data, 64 + 4, "<i", 1 << 28), r"do not fit a matrix of the shape"),
    (lambda data: _with(data, 8, "<i", 7), r"7 components do not fit a matrix of the shape \(507, 6\)"),
    (lambda data: data.replace(SHAPE, struct.pack("<qq", 506, 6), 1), r"500 buckets and .* shape \(506, 6\)"),
    (lambda data: data.replace(SHAPE, struct.pack("<qq", 1 << 40, 6), 1), r"cannot be read"),
    (lambda data: _with(data, 84, "<q", 5), r"cannot be read"),  # pruned
    (lambda data: _with(data, 64, "<i", 6), r"cannot be read"),
    (lambda data: data.replace(b"king\0", b"k\xffng\0"), r"word \d: the word b'k\\xffng' is not utf-8"),
    (lambda data: data.replace(b"Queen\0", b"king\0"), r"7 words, 6 of them different"),
    (lambda data: data[: _end(data) - 40] + b"\xff" * 40 + data[_end(data) :], r"hold NaN or infinity"),
    (lambda data: b"2 2\na 12345678b 12345678", r"begins with 3220320a"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), DAMAGED)
def test_bad_models(tmp_path, written, damage, message):
    path = tmp_path / "bad.bin"
    path.write_bytes(damage(written.read_bytes()))
    with pytest.raises(VectorFileError, match=rf"bad\.bin.*{message}"):
        WordVectors.load(path, format="fasttext" if "begins" in message else "auto")


# --- n-grams and their hashes equal fastText's, and any string has a vector ---------------------------------


ODD_WORDS = [
    "the", "a", "", "größe", "日本語", "👍🏽", "é", "e\u0301", "x<y>", "aaaa", "42", "\udcff", "ß" * 7,
]  # fmt: skip
LENGTHS = [(1, 1), (1, 4), (2, 2), (3, 6)]


def ngrams(words, min_n, max_n):
    found = word_ngrams(words, min_n, max_n)
    strings = found.strings(np.arange(len(found.starts)))
    return [strings[i:j] for i, j in pairwise(found.offsets)]


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
        found = word_ngrams([word], min_n, max_n)
        assert ngrams([word], min_n, max_n)[0] == [one.decode() for one in theirs]
        keys = hashes(found.data, found.starts, found.stops).tolist()
        assert keys == [inner.ft_hash_bytes(one) for one in theirs]


def random_rows(n, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


KNOWN = tuple(dict.fromkeys(one for word in ("größe", "the", "aaaa") for one in reference.ngrams(word, 3, 6)))
TABLE = SubwordTable(random_rows(len(KNOWN)), random_rows(1)[0], ngrams=KNOWN)
TABLES = {
    "n-grams": (TABLE, {key: row for row, key in enumerate(TABLE.ngrams.tolist())}, reference.fnv1a),
    "buckets": (
        SubwordTable(random_rows(10), random_rows(1)[0]),
        {row: row for row in range(10)},
        lambda one: reference.fnv1a(one) % 10,
    ),
}


@pytest.mark.parametrize("kind", TABLES)
def test_composed_vectors_are_those_of_the_formula_alone_and_among_others(kind, monkeypatch):
    table, rows, key = TABLES[kind]
    expected = table.mean + reference.averaging(ODD_WORDS, rows, 3, 6, key=key) @ table.vectors
    np.testing.assert_allclose(table.compose(ODD_WORDS), expected, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr("distembed.vectors.subwords.WORDS_TOGETHER", 2)
    words = [*ODD_WORDS, "the" * 3334]
    np.testing.assert_array_equal(table.compose(words), np.vstack([table.compose([word]) for word in words]))
    assert table.compose([]).shape == (0, 5)
    with pytest.raises(TypeError, match="give a list of words"):
        table.compose("the")


def test_strings_without_known_n_grams_have_the_mean_and_normalized_vectors_length_one():
    assert TABLE.n_ngrams(["the", ""]).tolist() == [6, 0]
    assert TABLE.n_known(["the", "then", "日本語", ""]).tolist() == [6, 3, 0, 0]
    np.testing.assert_array_equal(TABLE.compose(["日本語", "", "a"]), [TABLE.mean] * 3)  # a script never seen
    none = SubwordTable(np.empty((0, 5)), np.ones(5), ngrams=())
    np.testing.assert_array_equal(none.compose(["any"]), np.ones((1, 5)))
    unit = SubwordTable(TABLE.vectors, TABLE.mean, ngrams=KNOWN, normalized=True).compose(ODD_WORDS)
    plain = TABLE.compose(ODD_WORDS)
    np.testing.assert_allclose(unit, plain / np.linalg.norm(plain, axis=1)[:, None], rtol=1e-5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"min_n": 4, "max_n": 3}, "min_n is 4 and max_n is 3"),
        ({"min_n": 0}, "min_n is 0"),
        ({"mean": np.ones(4)}, r"the mean \(4,\)"),
        ({"mean": np.full(5, np.nan)}, "NaN or infinity"),
        ({"ngrams": ("one",)}, "2 vectors for 1 n-grams"),
        ({"ngrams": ("one", "one")}, "occurs twice"),
        ({"ngrams": np.array([1, 1], np.uint32)}, "occurs twice"),
        ({"ngrams": np.array([[1], [2]], np.uint32)}, "give one for each"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        SubwordTable(**({"vectors": random_rows(2), "mean": np.ones(5), "ngrams": ("one", "two")} | changed))
