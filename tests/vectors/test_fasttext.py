"""Models of fastText as gensim writes them, and bad files."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from gensim.models import FastText
from gensim.models.fasttext import save_facebook_model

from distembed.formats import streams
from distembed.vectors import VectorFileError, WordVectors, fasttext

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


def test_a_model_that_gensim_trained(model, written, monkeypatch):
    monkeypatch.setattr(streams, "READ_BYTES", 1 << 10)
    monkeypatch.setattr(fasttext, "BLOCK_VALUES", 100)
    read = WordVectors.load(written)  # told by its first bytes: the name alone would mean word2vec
    assert read.words == tuple(model.wv.index_to_key)
    for word in [*read.words, *UNKNOWN]:
        if word != "</s>":
            assert np.allclose(read[word], model.wv.get_vector(word), atol=1e-6)
    first = WordVectors.load(written, max_words=3)
    assert first.words == read.words[:3]
    assert np.array_equal(first[[*first.words, *UNKNOWN]], read[[*first.words, *UNKNOWN]])


def test_fasttext_answers_the_same(model, written):
    program = pytest.importorskip("fasttext")
    theirs, read = program.load_model(str(written)), WordVectors.load(written)
    for word in [*read.words, *UNKNOWN]:
        assert np.allclose(theirs.get_word_vector(word), read[word], atol=1e-5)


def test_the_end_of_a_sentence_has_no_n_grams(model, written):
    """fastText gives `</s>` none, whatever its spelling, and gensim does not know that."""
    row = model.wv.key_to_index["</s>"]
    assert np.allclose(WordVectors.load(written)["</s>"], model.wv.vectors_vocab[row], atol=1e-6)


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


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[: _end(data) - 20], r"is cut short: it ends at byte \d+"),
        (lambda data: data[:100], r"is cut short: it ends at byte 100"),
        (
            lambda data: _with(data, 4, "<i", 10),
            r"version 10, and a model of fastText with .* version 11 or 12",
        ),
        (lambda data: _with(data, 8, "<i", -4), r"its head has -4 components"),
        (lambda data: _with(data, 8, "<i", 7), r"promises 7 components and its matrix 6"),
        (
            lambda data: data.replace(SHAPE, struct.pack("<qq", 506, 6), 1),
            r"a matrix of 506 rows does not belong to 7 words and 500 buckets",
        ),
        (lambda data: _with(data, 84, "<q", 5), r"is a pruned model"),
        (lambda data: _with(data, 64, "<i", 6), r"does not belong to 6 words|is quantized|quantized model"),
        (lambda data: data.replace(b"king\0", b"k\xffng\0"), r"word \d: the word b'k\\xffng' is not utf-8"),
        (
            lambda data: data.replace(b"Queen\0", b"king\0"),
            r"word \d: the word 'king' stands already in word \d",
        ),
        (lambda data: data[:92] + b"a" * 70_000, r"no word ends within 65536 bytes of byte 92"),
        (
            lambda data: data[: _end(data) - 40] + b"\xff" * 40 + data[_end(data) :],
            r"holds NaN or infinity",
        ),
    ],
)
def test_bad_models(tmp_path, written, damage, message):
    path = tmp_path / "bad.bin"
    path.write_bytes(damage(written.read_bytes()))
    with pytest.raises(VectorFileError, match=rf"bad\.bin.*{message}"):
        WordVectors.load(path)


def test_quantized_and_foreign_files(tmp_path, written):
    data = written.read_bytes()
    shape = data.index(SHAPE)
    (tmp_path / "model.ftz").write_bytes(_with(data, shape - 1, "<b", 1))
    with pytest.raises(VectorFileError, match=r"model\.ftz is a quantized model"):
        WordVectors.load(tmp_path / "model.ftz")
    (tmp_path / "v.bin").write_bytes(b"2 2\na 12345678b 12345678")
    with pytest.raises(VectorFileError, match=r"v\.bin begins with 3220320a"):
        WordVectors.load(tmp_path / "v.bin", format="fasttext")
