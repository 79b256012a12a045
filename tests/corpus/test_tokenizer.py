"""The compiled scanner against Python's `re`, for any text and however the text is cut."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distembed as de
from distembed.corpus import blocks
from distembed.corpus import tokenizer as module
from distembed.corpus.scanners import CLOSERS, HARD_STOPS, STOPS, CallableScanner, normalized
from distembed.corpus.tokenizer import Tokenizer, scanner
from tests.corpus.conftest import batch_of
from tests.references.tokens import ids_of, tokens_of

TEXT = st.text(
    st.one_of(
        st.sampled_from("aab cdefgXYZ'’._\n\r019\"éßİΣσςष्टिहд中。²Ⅳ\u0301"),
        st.sampled_from(
            'aeו\u05b6אל\ufb2a"״׳·\u0387\u2027\u00ad\u200c\u200d\u200b\u200e\ufeff\u0301\u0323ﬁ각\u1100\u1161'
        ),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=120,
)


def scanned(documents: list[bytes], tokenizer: Tokenizer) -> tuple:
    """Return the ids of documents, and the words, counts and documents of those that are counted."""
    machine = scanner(tokenizer)
    result: list[list[int]] = []
    for text in documents:
        found = machine.scan(batch_of(text))
        result.append(found.ids.tolist())
        assert found.n_tokens.tolist() == [sum(k >= 0 for k in result[-1])]
    words, counts, documents = (column.to_pylist() for column in machine.words().columns)
    taken = list(dict.fromkeys(word for row in result for word in row if word >= 0))
    assert sorted(taken) == [
        word for word, n in enumerate(counts) if n
    ]  # others stand in short segments alone
    ids = {-1: -1} | {word: place for place, word in enumerate(taken)}
    found = [[ids[word] for word in row] for row in result]
    return found, *([column[word] for word in taken] for column in (words, counts, documents))


@given(
    documents=st.lists(TEXT, max_size=5),
    border=st.sampled_from(["document", "line"]),
    minimum=st.integers(1, 3),
    options=st.fixed_dictionaries(
        {name: st.booleans() for name in ("lowercase", "numbers", "apostrophes")}
        | {
            "pattern": st.sampled_from(["unicode", "ascii"]),
            "normalization": st.sampled_from(["nfc", "nfkc", "none"]),
        }
    ),
)
@settings(max_examples=120, deadline=None)
def test_scanner_equals_regular_expression(documents, border, minimum, options):
    tokenizer = Tokenizer(border=border, min_border_tokens=minimum, **options)
    expected = ids_of(documents, border=border, minimum=minimum, **options)
    assert scanned([text.encode() for text in documents], tokenizer) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He came. She went.", "he came|she went"),
        ("Mr. J. Smith paid 3.14 at example.com today.", "mr|j smith paid at example com today"),
        ("e.g. this one", "e g this one"),
        ('"Stop!" (Now.) Then what? Nothing', "stop|now|then what|nothing"),
        ("one\ntwo", "one|two"),
        ("他来。她走。", "他来|她走"),
        ("यह है। वह था।", "यह है|वह था"),
        ("İstanbul ΟΔΟΣ snake_case हिन्दी", "istanbul οδοσ snake case हिन्दी"),  # where Python differs
        ("Здесь Й. Иванов. Там", "здесь й иванов|там"),
    ],
)
def test_sentences(text, expected):
    ids, words, _, _ = scanned([text.encode()], Tokenizer(border="sentence"))
    assert " ".join("|" if k < 0 else words[k] for k in ids[0]) == expected.replace("|", " | ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("می‌خواهم ශ්‍රී", "می‌خواهم ශ්‍රී"),
        ("Donau\u00addampf\u00adschiff \u200eabc\u200f", "donaudampfschiff abc"),
        ("col·legi L·lull · a· b", "col·legi l·lull a b"),
        ('צה"ל ד״ר ג\'ירפה צ׳ק וכו׳ "שלום" \'שלום\' x"y ש"x', "צה\"ל ד״ר ג'ירפה צ׳ק וכו׳ שלום שלום x y ש x"),
        ("zero\u200bwidth cafe\u0301 \u1112\u1161\u11ab", "zero width café 한"),
    ],
)
def test_words_of_annex_29(text, expected):
    _, words, _, _ = scanned([text.encode()], Tokenizer())
    assert sorted(words) == sorted(set(expected.split()))


def test_every_decomposed_character_is_composed():
    decomposed = filter(unicodedata.decomposition, map(chr, range(0x110000)))
    texts = sorted({unicodedata.normalize("NFD", character) for character in decomposed})
    encoded = [text.encode() for text in texts]
    found = [text.decode() for text in normalized(batch_of(*encoded), "nfc").texts()]
    assert found == [unicodedata.normalize("NFC", text) for text in texts]


SENTENCES = st.text(st.sampled_from("aBé中 .!?…。\n\"')-9"), max_size=40)


@given(
    documents=st.lists(SENTENCES, max_size=3),
    border=st.sampled_from(["document", "line", "sentence"]),
    minimum=st.integers(1, 2),
    pattern=st.sampled_from([tokens_of, "tests.references.tokens:tokens_of"]),
)
@settings(max_examples=180, deadline=None)
def test_callable_gives_what_the_compiled_scanner_gives(documents, border, minimum, pattern):
    data = [text.encode() for text in documents]
    options = {"border": border, "min_border_tokens": minimum}
    assert isinstance(scanner(Tokenizer(pattern=pattern)).source, CallableScanner)
    assert scanned(data, Tokenizer(pattern=pattern, **options)) == scanned(data, Tokenizer(**options))


@pytest.mark.parametrize("options", [("unicode", True, False, False), ("unicode", False, True, False)])
def test_the_table_says_of_every_character_what_is_known_of_it(options):
    table, (_, lowercase, numbers, _) = module.class_table(*options), options
    signs = {*STOPS, *HARD_STOPS, *CLOSERS, *module.APOSTROPHES, *module.MIDDLES, ".", '"'}
    plain = (point for points in module.ASSIGNED for point in points if chr(point) not in signs)
    wrong = [p for p in plain if table[p] != module.character_class(chr(p), lowercase, numbers, marks=True)]
    assert not wrong


def test_dictionary_grows_and_ids_stay():
    n = 40_000
    text = " ".join(f"word{'abcdefghij'[k % 10]}{chr(97 + k % 26)}{k:x}" for k in range(n))
    options = {"pattern": "ascii", "numbers": True}
    found = scanned([text.encode()] * 2, Tokenizer(**options))
    assert found == ids_of([text, text], **options)


def test_short_segments_leave_no_tokens_behind():
    machine = scanner(Tokenizer(border="line", min_border_tokens=3))
    data = b"new words\nthree old words\nnew words again"
    found = machine.scan(batch_of(data, b"few", b"three more words\nfew"))
    assert found.ids.tolist() == [2, 3, 1, -1, 0, 1, 4, 2, 6, 1]
    assert (found.id_stops.tolist(), found.n_tokens.tolist()) == ([7, 7, 10], [6, 0, 3])
    assert (machine.n_short, machine.source.n_long) == (3, 0)


def test_overlong_token_is_counted_in_bounded_memory():
    machine = scanner(Tokenizer())
    found = machine.scan(batch_of(b"a" * (1 << 22) + b" end"))
    assert found.ids.tolist() == [0]
    assert machine.source.n_long == 1
    assert len(machine.source.state.token) == blocks.TOKEN_WORDS


@pytest.mark.parametrize("size", [7, 8, 9, 15, 16, 17, 1023, 1024])
def test_tokens_of_every_width_are_told_apart(size):
    words = ["a" * size, "a" * (size - 1) + "b", "b" + "a" * (size - 1)]
    text = " ".join(words * 2)
    assert scanned([text.encode()], Tokenizer()) == ids_of([text])


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({}, ["don", "t", "panic", "über"]),
        ({"apostrophes": True, "lowercase": False}, ["Don't", "panic", "Über"]),
        ({"pattern": r"\w+"}, ["don", "t", "panic", "42", "über"]),
        ({"pattern": str.split}, ["don't", "panic,", "42", "über"]),
    ],
)
def test_a_call_shows_the_tokens_of_a_text(options, tokens):
    assert de.Tokenizer(**options)("Don't panic, 42 Über") == tokens
