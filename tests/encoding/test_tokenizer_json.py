"""The regular expression of a `tokenizer.json`, run by the `tokenizers` library, against the compiled scanner."""

from __future__ import annotations

import unicodedata
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distembed.corpus.tokenizer import Tokenizer
from distembed.encoding.static import tokenizer_json

tokenizers = pytest.importorskip(
    "tokenizers", reason="reads tokenizer.json: pip install 'distembed[test]', which brings it with model2vec"
)

# What the rules speak of: letters of four scripts, marks, joiners, signs inside words, invisible characters,
# digits of all kinds, letters whose lower case is special, and what separates.
CHARACTERS = (
    "aAbBÇñÉе\u0301\u0327İIıΣσςß'’\"״·‧\u0387אבג\u05f3\u05b0\ufb1f\u00ad\u200b\u200c\u200d\u180e\u2060\u061c12½²Ⅷ٣ "
    ".,-_\n一あع\u064bक\u094dK\u2126ﬁ\U000e0041\U0001d173\U00010400"
)
OPTIONS = [
    Tokenizer(),
    Tokenizer(lowercase=False, numbers=True, apostrophes=True),
    Tokenizer(apostrophes=True, normalization="none"),
    Tokenizer(pattern="ascii", numbers=True, apostrophes=True),
]


@cache
def written(options: Tokenizer) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(tokenizer_json(options, ["a"]))


def cut(tokenizer: tokenizers.Tokenizer, text: str) -> list[str]:
    normal = tokenizer.normalizer.normalize_str(text)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal)]


@pytest.mark.parametrize("options", OPTIONS)
@given(texts=st.lists(st.text(CHARACTERS, max_size=14) | st.text(max_size=8), max_size=40))
@example(texts=['צה"ל', "ג'ירפה", 'אב"', 'a"b', 'אבֽ"ג', "col·legi a··b", "it’s"])
@settings(max_examples=30)
def test_words_are_those_of_the_scanner(options: Tokenizer, texts: list[str]) -> None:
    # The library knows a newer Unicode than Python: letters that Python does not know yet are left out here.
    for text in ("".join(c for c in one if unicodedata.category(c) not in ("Cn", "Co")) for one in texts):
        assert cut(written(options), text) == options(text), ascii(text)


def test_every_character_of_pythons_unicode_is_of_the_same_kind() -> None:
    options = Tokenizer(numbers=True)
    known = [chr(p) for p in range(0x33480) if unicodedata.category(chr(p)) not in ("Cn", "Co", "Cs")]
    text = "".join(f"a{character}b " for character in known)  # a letter or mark joins, all else separates
    assert cut(written(options), text) == options(text)


@pytest.mark.parametrize(("pattern", "apostrophes"), [("unicode", True), ("unicode", False), ("ascii", True)])
def test_words_have_their_rows_and_unknown_ones_the_last(pattern: str, apostrophes: bool) -> None:
    options = Tokenizer(pattern=pattern, apostrophes=apostrophes)
    file = tokenizers.Tokenizer.from_str(tokenizer_json(options, ["king", "don't", "don", "t"]))
    expected = [0, 1, 4] if apostrophes else [0, 2, 3, 4]
    assert file.encode("KING don't xyz").ids == expected


def test_the_forms_of_unicode_are_applied() -> None:
    options = Tokenizer(normalization="nfkc")
    assert cut(written(options), "ﬁne ＡＢＣ") == options("ﬁne ＡＢＣ") == ["fine", "abc"]
