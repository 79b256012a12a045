"""Stop words: named lists, a list of one's own, and what they do to a vocabulary that keeps capitals."""

from __future__ import annotations

import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

import distembed as de
from distembed.corpus.stop_words import function_words, read_stop_words, stop_words_of


def test_a_list_of_ones_own(tmp_path):
    path = tmp_path / "liste.txt"
    path.write_bytes("# Füllwörter\r\nDie\r\nfür\r\n\r\nähm\r\n".encode("utf-16"))
    assert read_stop_words(path) == {"die", "für", "ähm"}
    assert stop_words_of("none", file=path) == {"die", "für", "ähm"}
    assert stop_words_of("english", file=path) == stop_words_of("english") | {"die", "für", "ähm"}
    docs = de.read_texts(["Die die Ähm Haus"], tokenizer=de.Tokenizer(lowercase=False))
    assert de.build_vocabulary(docs, stop_words=read_stop_words(path)).words == ["Haus"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("der die\n", "line 1, has 'der die'; give one"),
        ("# nothing\n", "has no stop word"),
        ("für\nähm\nüber\nmöchte\nfähig\n", "is not utf-8: line 1 .* It may be cp1252: save it as UTF-8"),
    ],
)
def test_a_list_that_is_none(tmp_path, text, message):
    (tmp_path / "liste.txt").write_text(text, encoding="cp1252")
    with pytest.raises(ValueError, match=message):
        read_stop_words(tmp_path / "liste.txt")


@pytest.mark.parametrize("apostrophes", [False, True])
def test_the_english_list_fits_what_the_tokenizer_makes_of_contractions(tmp_path, apostrophes):
    assert stop_words_of("english") > ENGLISH_STOP_WORDS
    (tmp_path / "a.txt").write_text(
        "I don't think it's the lake; we’ll see, they won't, isn't the town's lake won?\n"
    )
    docs = de.read_corpus(tmp_path / "a.txt", tokenizer=de.Tokenizer(apostrophes=apostrophes))
    words = set(de.build_vocabulary(docs, stop_words="english").words)
    assert words == {"think", "lake", "won", "town's" if apostrophes else "town"}


def test_a_language_without_a_list_is_refused():
    message = "stop_words is 'klingon'; give the words themselves, or one of none, english"
    with pytest.raises(ValueError, match=message):
        stop_words_of("klingon")


def test_the_german_list():
    assert {"der", "und", "für"} <= stop_words_of("german")


GERMAN = [
    "die",
    "der",
    "und",
    "in",
    "nach",
    "zu",
    "den",
    "das",
    "mit",
    "von",
    "haus",
    "katze",
    "baum",
    "stadt",
    "welt",
]


def test_the_language_is_that_of_the_most_frequent_words():
    left = [word for word in GERMAN if word not in function_words(GERMAN)]
    assert left == ["haus", "katze", "baum", "stadt", "welt"]
    assert {"the", "of"} <= function_words(GERMAN)
    assert function_words(["haus", "katze", "baum"] * 20) == stop_words_of("english")
