"""A static model folder, loaded by the libraries that it is for, against the encoder that it was written from."""

from __future__ import annotations

import json
import unicodedata
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import distembed as de
from distembed.corpus.tokenizer import Tokenizer
from distembed.encoding.static import model_card, tokenizer_json

model2vec = pytest.importorskip("model2vec", reason="loads the folder: pip install 'distembed[test]'")

WORDS = ["the", "of", "king", "queen", "été", "don't", "日本語", "[UNK]"]
COUNTS = [500, 300, 20, 18, 7, 5, 3, 1]
VECTORS = de.WordVectors(WORDS, np.random.default_rng(0).normal(size=(8, 6)))
KNOWN = ["The king of the queen", "ÉTÉ don\u2019t", "e\u0301te\u0301, 日本語; King!", "the " * 300]
UNKNOWN = ["the king of Westeros", "xyzzy plugh", "", "12 !? \n\t"]
TOKENIZER = de.Tokenizer(apostrophes=True)


def encoder(**options):
    return de.TextEncoder(VECTORS, counts=COUNTS, tokenizer=TOKENIZER, **options).fit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return de.write_static_model(tmp_path_factory.mktemp("static") / "model", encoder())


@pytest.mark.filterwarnings("ignore:.*no known word")
@pytest.mark.parametrize(
    "options", [{}, {"weighting": "mean"}, {"whitening": "half"}, {"whitening": "component"}]
)
def test_model2vec_gives_the_vectors_of_the_encoder(tmp_path, options):
    chosen, texts = encoder(**options), KNOWN + UNKNOWN
    model = model2vec.StaticModel.from_pretrained(de.write_static_model(tmp_path / "m", chosen))
    np.testing.assert_allclose(model.encode(texts), chosen.transform(texts), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*no known word")
def test_sentence_transformers_gives_them_up_to_the_length_of_texts_with_unknown_words(folder):
    library = pytest.importorskip("sentence_transformers", reason="pip install sentence-transformers")
    model = library.SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(model.encode(KNOWN), encoder().transform(KNOWN), rtol=1e-5, atol=1e-7)
    found, expected = model.encode(UNKNOWN), encoder().transform(UNKNOWN)
    np.testing.assert_allclose(found[0] * 4 / 3, expected[0], rtol=1e-5, atol=1e-7)
    assert not found[1:].any()


def test_a_word_that_looks_like_the_unknown_entry_has_its_own_row(folder):
    model = model2vec.StaticModel.from_pretrained(folder)
    np.testing.assert_array_equal(model.embedding[: len(WORDS)], encoder().rows_)
    assert not model.embedding[-1].any()
    assert model.tokens == (*WORDS, "[[UNK]]")


def test_the_card_has_a_head_that_a_hub_reads(folder):
    hub = pytest.importorskip("huggingface_hub")
    card = hub.ModelCard.load(folder / "README.md")
    assert card.data.library_name == "sentence-transformers"
    assert {"model2vec", "static-embeddings"} <= set(card.data.tags)
    assert "apostrophes" in card.text
    assert "a = 0.001" in card.text
    about = "## Corpus\n\nfour lines"  # where the vectors come from
    assert model_card("m", encoder(), about=about).endswith(f"{about}\n")


def test_a_model_of_ours_is_replaced_and_never_half_written(tmp_path, monkeypatch):
    def files(folder):
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    place = de.write_static_model(tmp_path / "model", encoder())
    (place / "old").touch()
    de.write_static_model(place, encoder(weighting="mean"), card="four lines")
    before = files(place)
    assert "old" not in before
    assert json.loads(before["config.json"])["weighting"] == "mean"
    assert before["README.md"] == b"four lines"
    real = Path.write_text

    def fails(path, *arguments, **options):
        if path.name == "modules.json":
            raise OSError(5, "the disk is gone")
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", fails)
    with pytest.raises(OSError, match="the disk is gone"):
        de.write_static_model(place, encoder())
    assert files(place) == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


PYTHON = de.TextEncoder(VECTORS, tokenizer=de.Tokenizer(pattern="re:findall"))
NO_MODEL = "no model folder that distembed has written: name another folder"


@pytest.mark.parametrize(
    ("place", "given", "error", "message"),
    [
        ("s3://bucket/m", None, ValueError, "s3://bucket/m is a URL"),
        ("nowhere/m", None, FileNotFoundError, r"there is no folder .*nowhere to write m in"),
        ("thesis", None, FileExistsError, NO_MODEL),
        ("thesis/chapter.tex", None, FileExistsError, NO_MODEL),
        ("m", PYTHON, ValueError, "a Python function, and"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(tmp_path, place, given, error, message):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").touch()
    with pytest.raises(error, match=message):
        de.write_static_model(place if "://" in place else tmp_path / place, given or encoder())
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["chapter.tex", "thesis"]


def test_a_text_of_megabytes_is_encoded_whole(folder):
    text = "the king " * 20_000 + "queen " * 20_000
    expected = encoder().transform([text])
    found = model2vec.StaticModel.from_pretrained(folder).encode([text], max_length=None)
    # model2vec sums in float32
    np.testing.assert_allclose(found, expected, atol=0.01 * np.abs(expected).max())


# ---- tokenizer.json ------------------------------------------------------------------------------------------------


tokenizers = pytest.importorskip(
    "tokenizers", reason="reads tokenizer.json: pip install 'distembed[test]', which brings it with model2vec"
)

# What the rules speak of: letters of four scripts, marks, joiners, signs inside words, invisible characters,
# digits of all kinds, letters whose lower case is special, and what separates.
CHARACTERS = (
    "aAbBÇñÉе\u0301\u0327İIıΣσςß'’\"״·‧\u0387אבג\u05f3\u05b0\ufb1f\u00ad\u200b\u200c\u200d\u180e\u2060\u061c12½²Ⅷ٣ "
    ".,-_\n一あع\u064bक\u094dK\u2126ﬁ\U000e0041\U0001d173\U00010400"
)
TOKENIZERS = [
    Tokenizer(),
    Tokenizer(lowercase=False, numbers=True, apostrophes=True),
    Tokenizer(apostrophes=True, normalization="none"),
    Tokenizer(pattern="ascii", numbers=True, apostrophes=True),
]


@cache
def written(options):
    return tokenizers.Tokenizer.from_str(tokenizer_json(options, ["a"]))


def cut(tokenizer, text):
    normal = tokenizer.normalizer.normalize_str(text)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal)]


@pytest.mark.parametrize("options", TOKENIZERS)
@given(texts=st.lists(st.text(CHARACTERS, max_size=14) | st.text(max_size=8), max_size=16))
@example(texts=['צה"ל', "ג'ירפה", 'אב"', 'a"b', 'אבֽ"ג', "col·legi a··b", "it’s"])
@settings(max_examples=30)
def test_words_are_those_of_the_scanner(options, texts):
    # The library knows a newer Unicode than Python: letters that Python does not know yet are left out here.
    for text in ("".join(c for c in one if unicodedata.category(c) not in ("Cn", "Co")) for one in texts):
        assert cut(written(options), text) == options(text), ascii(text)


def test_every_character_of_pythons_unicode_is_of_the_same_kind():
    options = Tokenizer(numbers=True)
    known = [chr(p) for p in range(0x33480) if unicodedata.category(chr(p)) not in ("Cn", "Co", "Cs")]
    text = "".join(f"a{character}b " for character in known)  # a letter or mark joins, all else separates
    assert cut(written(options), text) == options(text)


@pytest.mark.parametrize(("pattern", "apostrophes"), [("unicode", True), ("unicode", False), ("ascii", True)])
def test_words_have_their_rows_and_unknown_ones_the_last(pattern, apostrophes):
    options = Tokenizer(pattern=pattern, apostrophes=apostrophes)
    file = tokenizers.Tokenizer.from_str(tokenizer_json(options, ["king", "don't", "don", "t"]))
    expected = [0, 1, 4] if apostrophes else [0, 2, 3, 4]
    assert file.encode("KING don't xyz").ids == expected


def test_the_forms_of_unicode_are_applied():
    options = Tokenizer(normalization="nfkc")
    assert cut(written(options), "ﬁne ＡＢＣ") == options("ﬁne ＡＢＣ") == ["fine", "abc"]
