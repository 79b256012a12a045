"""Models of fastText: what we write, fastText and gensim read; what they write, we read; and bad files."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from gensim.models import FastText
from gensim.models.fasttext import load_facebook_vectors, save_facebook_model

from distembed.formats import streams
from distembed.vectors import VectorFileError, WordVectors, fasttext
from distembed.vectors.subwords import SubwordTable

UNKNOWN = ["kinging", "runs", "東京都", "x", "Ω" * 300]


@pytest.fixture(scope="module")
def written(stringy, tmp_path_factory):
    path = tmp_path_factory.mktemp("fasttext") / "v.fasttext.bin"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fasttext, "DEFAULT_BUCKETS", 100_003)  # few MB, and none of these n-grams meet
        stringy.save(path)
    return path


def test_gensim_composes_the_same_vectors(stringy, written):
    theirs = load_facebook_vectors(str(written))
    assert theirs.index_to_key == list(stringy.words)
    for word in [*stringy.words, *UNKNOWN]:
        assert np.allclose(theirs.get_vector(word), stringy[word], atol=1e-5)


def test_fasttext_composes_the_same_vectors(stringy, written):
    program = pytest.importorskip("fasttext")
    theirs = program.load_model(str(written))
    assert theirs.get_words() == list(stringy.words)
    for word in [*stringy.words, *UNKNOWN]:
        assert np.allclose(theirs.get_word_vector(word), stringy[word], atol=1e-5)
    neighbors = [(n.word, n.similarity) for n in stringy.most_similar("runs", 3)]
    found = theirs.get_nearest_neighbors("runs", k=3)
    assert [(word, pytest.approx(cosine, abs=1e-5)) for cosine, word in found] == neighbors


def test_one_component_is_enough(tmp_path):
    table = SubwordTable([[2.0], [4.0]], [1.0], min_n=3, max_n=3, ngrams=("<ab", "ab>"))
    vectors = WordVectors(["ab"], [[5.0]], subwords=table)
    vectors.save(tmp_path / "v.fasttext.bin")
    read = WordVectors.load(tmp_path / "v.fasttext.bin")
    assert (read.words, read.vectors.tolist()) == (("ab",), [[5.0]])
    assert read["xab"] == pytest.approx(vectors["xab"])


def test_there_and_back(stringy, written, monkeypatch):
    monkeypatch.setattr(streams, "READ_BYTES", 1 << 16)
    monkeypatch.setattr(fasttext, "BLOCK_VALUES", 1000)
    read = WordVectors.load(written)
    assert read.words == stringy.words
    assert np.allclose(read[[*stringy.words, *UNKNOWN]], stringy[[*stringy.words, *UNKNOWN]], atol=1e-5)
    first = WordVectors.load(written, max_words=3)
    assert first.words == stringy.words[:3]
    assert np.array_equal(first[["king", *UNKNOWN]], read[["king", *UNKNOWN]])


def test_vectors_without_n_grams(stringy, tmp_path):
    path = tmp_path / "v.fasttext.bin"
    WordVectors(["a b", "c"], stringy.vectors[:2]).save(path)
    assert np.array_equal(load_facebook_vectors(str(path)).get_vector("a b"), stringy.vectors[0])
    read = WordVectors.load(path)
    assert read.subwords is None
    assert np.array_equal(read.vectors, stringy.vectors[:2])
    message = r"v\.fasttext\.bin: the word 'a\\x00' cannot be written for fastText"
    with pytest.raises(ValueError, match=message):
        WordVectors(["a\0"], [[1.0]]).save(path)


def test_a_model_that_gensim_trained(tmp_path):
    sentences = [["the", "king", "runs"], ["the", "queen", "was", "running"]] * 5
    model = FastText(sentences, vector_size=8, min_count=1, bucket=500, epochs=1, seed=1, workers=1)
    path = tmp_path / "model.bin"
    save_facebook_model(model, str(path))
    read = WordVectors.load(path)  # told by its first bytes: the name alone would mean word2vec
    assert read.words == tuple(model.wv.index_to_key)
    for word in ["king", "running", "kings", "Ω"]:
        assert np.allclose(read[word], model.wv.get_vector(word), atol=1e-6)


def _with(data, place, form, value):
    return data[:place] + struct.pack(form, value) + data[place + struct.calcsize(form) :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-20], r"is cut short: it ends at byte \d+"),
        (lambda data: data[:100], r"is cut short: it ends at byte 100"),
        (
            lambda data: _with(data, 4, "<i", 10),
            r"version 10, and a model of fastText with .* version 11 or 12",
        ),
        (lambda data: _with(data, 8, "<i", -4), r"its head has -4 components"),
        (lambda data: _with(data, 8, "<i", 7), r"promises 7 components and its matrix 6"),
        (
            lambda data: data.replace(struct.pack("<qq", 100_013, 6), struct.pack("<qq", 100_012, 6)),
            r"a matrix of 100012 rows does not belong to 10 words and 100003 buckets",
        ),
        (lambda data: _with(data, 84, "<q", 5), r"is a pruned model"),
        (lambda data: _with(data, 64, "<i", 9), r"does not belong to 9 words|is quantized|quantized model"),
        (lambda data: data.replace(b"king\0", b"k\xffng\0"), r"word 1: the word b'k\\xffng' is not utf-8"),
        (
            lambda data: data.replace(b"Queen\0", b"0.5\0"),
            r"word 6: the word '0\.5' stands already in word 2",
        ),
        (lambda data: data[:92] + b"a" * 70_000, r"no word ends within 65536 bytes of byte 92"),
        (lambda data: data[:-40] + b"\xff" * 40, r"holds NaN or infinity"),
    ],
)
def test_bad_models(tmp_path, written, damage, message):
    path = tmp_path / "bad.bin"
    path.write_bytes(damage(written.read_bytes()))
    with pytest.raises(VectorFileError, match=rf"bad\.bin.*{message}"):
        WordVectors.load(path)


def test_quantized_and_foreign_files(tmp_path, written):
    data = written.read_bytes()
    shape = data.index(struct.pack("<qq", 100_013, 6))
    (tmp_path / "model.ftz").write_bytes(_with(data, shape - 1, "<b", 1))
    with pytest.raises(VectorFileError, match=r"model\.ftz is a quantized model"):
        WordVectors.load(tmp_path / "model.ftz")
    (tmp_path / "v.bin").write_bytes(b"2 2\na 12345678b 12345678")
    with pytest.raises(VectorFileError, match=r"v\.bin begins with 3220320a"):
        WordVectors.load(tmp_path / "v.bin", format="fasttext")


def test_the_end_of_a_sentence_has_no_n_grams(stringy, tmp_path, monkeypatch):
    """fastText gives `</s>` none, whatever its spelling, and gensim does not know that."""
    monkeypatch.setattr(fasttext, "DEFAULT_BUCKETS", 1000)
    table = SubwordTable(np.ones((1, 6)), np.ones(6), ngrams=("</s",))
    vectors = WordVectors(["</s>", "a"], stringy.vectors[:2], subwords=table)
    path = tmp_path / "v.fasttext.bin"
    vectors.save(path)
    assert np.allclose(WordVectors.load(path)["</s>"], stringy.vectors[0], atol=1e-6)
    program = pytest.importorskip("fasttext")
    assert np.allclose(program.load_model(str(path)).get_word_vector("</s>"), stringy.vectors[0], atol=1e-6)


def test_counts_fall_with_the_rank(written):
    theirs = load_facebook_vectors(str(written))
    counts = [theirs.get_vecattr(word, "count") for word in theirs.index_to_key]
    assert counts == sorted(set(counts), reverse=True)
    assert counts[-1] == 1
