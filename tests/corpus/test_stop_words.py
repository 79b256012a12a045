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
    ("text", "message"),
    [
        ("der die\n", "line 1, has 'der die'; give one"),
        ("# nothing\n", "has no stop word"),
        ("für\nähm\nüber\nmöchte\nfähig\n", "is not utf-8: line 1 .* It may be cp1252: correct it, or save it"),
    ],
)  # fmt: skip
def test_a_list_that_is_none(tmp_path, text, message):
    (tmp_path / "liste.txt").write_text(text, encoding="cp1252")
    with pytest.raises(ValueError, match=message):
        stop_words_of("none", file=tmp_path / "liste.txt")


@pytest.mark.parametrize("apostrophes", [False, True])
def test_the_english_list_fits_what_the_tokenizer_makes_of_contractions(apostrophes):
    assert stop_words_of("english") > ENGLISH_STOP_WORDS
    text = "I don't think it's the lake; we’ll see, they won't, isn't the town's lake won?"
    docs = de.read_texts([text], tokenizer=de.Tokenizer(apostrophes=apostrophes))
    words = set(de.build_vocabulary(docs, stop_words="english").words)
    assert words == {"think", "lake", "won", "town's" if apostrophes else "town"}


def test_the_language_is_that_of_the_most_frequent_words():
    nouns = ["haus", "katze", "baum", "stadt"]
    german = ["die", "der", "und", "in", "nach", "zu", "den", "das", "mit", "von", *nouns]
    found = function_words(german)
    assert [word for word in german if word not in found] == nouns
    assert {"the", "of"} <= found
    assert function_words(["haus", "katze", "baum"] * 20) == stop_words_of("english")
