"""Stop words: named lists, a list of one's own, and what they do to a vocabulary that keeps capitals."""

from __future__ import annotations

import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

import distembed as de
from distembed.corpus.stop_words import function_words, stop_words_of


def test_a_list_of_ones_own(tmp_path):
    path = tmp_path / "liste.txt"
    path.write_bytes("# Füllwörter\r\nDie\r\nfür\r\n\r\nähm\r\n".encode("utf-16"))
    own = stop_words_of("none", file=path)
    assert own == {"die", "für", "ähm"}
    assert stop_words_of("english", file=path) == stop_words_of("english") | own
    docs = de.read_texts(["Die die Ähm Haus"], tokenizer=de.Tokenizer(lowercase=False))
    assert de.build_vocabulary(docs, stop_words=own).words == ["Haus"]


@pytest.mark.parametrize(
    ("language", "text", "message"),
    [
        ("klingon", None, "stop_words is 'klingon'; give the words themselves, or one of none, english"),
        ("none", "der die\n", "line 1, has 'der die'; give one"),
        ("none", "# nothing\n", "has no stop word"),
        (
            "none",
            "für\nähm\nüber\nmöchte\nfähig\n",
            "is not utf-8: line 1 .* It may be cp1252: correct it, or save it as UTF-8",
        ),
    ],
)
def test_a_list_that_is_none(tmp_path, language, text, message):
    path = None if text is None else tmp_path / "liste.txt"
    if path:
        path.write_text(text, encoding="cp1252")
    with pytest.raises(ValueError, match=message):
        stop_words_of(language, file=path)


@pytest.mark.parametrize("apostrophes", [False, True])
def test_the_english_list_fits_what_the_tokenizer_makes_of_contractions(tmp_path, apostrophes):
    assert stop_words_of("english") > ENGLISH_STOP_WORDS
    (tmp_path / "a.txt").write_text(
        "I don't think it's the lake; we’ll see, they won't, isn't the town's lake won?\n"
    )
    docs = de.read_corpus(tmp_path / "a.txt", tokenizer=de.Tokenizer(apostrophes=apostrophes))
    words = set(de.build_vocabulary(docs, stop_words="english").words)
    assert words == {"think", "lake", "won", "town's" if apostrophes else "town"}


NOUNS = ["haus", "katze", "baum", "stadt"]
GERMAN = ["die", "der", "und", "in", "nach", "zu", "den", "das", "mit", "von", *NOUNS]


def test_the_language_is_that_of_the_most_frequent_words():
    left = [word for word in GERMAN if word not in function_words(GERMAN)]
    assert left == NOUNS
    assert {"the", "of"} <= function_words(GERMAN)
    assert function_words(["haus", "katze", "baum"] * 20) == stop_words_of("english")
