"""The compiled scanner against Python's `re`, for any text and however the text is cut."""

from __future__ import annotations

import hashlib
import sys
import time
import unicodedata
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distembed as de
from distembed.corpus import blocks
from distembed.corpus import tokenizer as module
from distembed.corpus.inspection import inspect_corpus
from distembed.corpus.records import CorpusError
from distembed.corpus.scanners import CLOSERS, HARD_STOPS, STOPS, CallableScanner, normalized
from distembed.corpus.tokenizer import Tokenizer, class_table, scanner, scripts_without_spaces
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


# ---- the tables of Unicode -----------------------------------------------------------------------------------------


# The characters that the tables of Python 3.12, 3.13 and 3.14 treat otherwise than those of the Python before, in
# hexadecimal. All are new, but for five modifier letters (10FC, A7F2 to A7F4, AB69), which have become lower case.
CHANGED = {
    "14.0.0": "",
    "15.0.0": (
        "0CF3 0ECE 10FC A7F2-A7F4 AB69 10EFD-10EFF 1123F-11241 11F00-11F10 11F12-11F3A 11F3E-11F42 11F50-11F59 1342F "
        "13439-13455 1B132 1B155 1D2C0-1D2D3 1DF25-1DF2A 1E030-1E06D 1E08F 1E4D0-1E4F9 2B739 31350-323AF"
    ),
    "15.1.0": "2EBF0-2EE5D",
    "16.0.0": (
        "0897 1C89-1C8A A7CB-A7CD A7DA-A7DC 105C0-105F3 10D40-10D65 10D69-10D6D 10D6F-10D85 10EC2-10EC4 10EFC "
        "11380-11389 1138B 1138E 11390-113B5 113B7-113C0 113C2 113C5 113C7-113CA 113CC-113D3 113E1-113E2 116D0-116E3 "
        "11BC0-11BE0 11BF0-11BF9 11F5A 13460-143FA 16100-16139 16D40-16D6C 16D70-16D79 18CFF 1CCD6-1CCF9 1E5D0-1E5FA"
    ),
}
VERSION = unicodedata.unidata_version


def code_points(ranges: str) -> list[int]:
    """Return the code points of ranges, both ends included."""
    ends = [[int(end, 16) for end in each.split("-")] for each in ranges.split()]
    return list(chain.from_iterable(range(pair[0], pair[-1] + 1) for pair in ends))


@pytest.mark.skipif(VERSION not in CHANGED, reason=f"the tables of Unicode {VERSION} were not compared yet")
def test_text_without_new_characters_is_cut_alike_by_every_python() -> None:
    changed = code_points(" ".join(CHANGED.values()))
    classes = class_table("unicode", lowercase=True, numbers=True, apostrophes=True).copy()
    classes[changed] = 0
    assert hashlib.sha256(classes.astype("<u4").tobytes()).hexdigest()[:16] == "66fa428882373a04"


# ---- text without spaces -------------------------------------------------------------------------------------------


CHINESE = "今天天气很好，我们去公园散步。"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (CHINESE, ["Chinese"]),
        ("吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。", ["Japanese"]),
        ("ภาษาไทยเป็นภาษาที่สวยงาม", ["Thai"]),
        ("ភាសាខ្មែរជាភាសារបស់", ["Khmer"]),
        ("A report on 東京 and Kyoto, with few words of it in Japanese.", []),
        ("한국어는 띄어쓰기를 한다", []),
        ("हिन्दी भाषा", []),
        ("", []),
    ],
)
def test_the_script_is_told(text: str, names: list[str]) -> None:
    found = scripts_without_spaces(text)
    assert list(found) == names
    assert all(0.2 <= share <= 1.01 for share in found.values())


def notes(path: Path, text: str, **options: str) -> list[str]:
    path.write_text(text, encoding="utf-8")
    return inspect_corpus(de.read_corpus(path, tokenizer=de.Tokenizer(**options)))


def test_a_plan_shows_words_and_names_tokenizers(tmp_path: Path) -> None:
    found = notes(tmp_path / "a.txt", 20 * f"{CHINESE}\n")
    assert "words: 今天天气很好, 我们去公园散步" in found
    [warning] = [note for note in found if "without spaces" in note]
    assert warning.startswith("100% of the letters are Chinese")
    for advice in ('pattern="icu"', "distembed[icu]", "jieba"):
        assert advice in warning
    assert notes(tmp_path / "b.txt", "one two three\n") == ["files: 1 text", "words: one, two, three"]


def test_icu_cuts_words_and_leaves_out_signs(tmp_path: Path) -> None:
    pytest.importorskip("icu4py", reason="ICU is an extra: pip install 'distembed[icu]'")
    words = set(de.Tokenizer(pattern="icu")(f"{CHINESE} Don't ภาษาไทย 1999\n"))
    assert {"今天", "天气", "公园", "don't", "ภาษา", "ไทย"} <= words
    assert not {"，", "1999", " "} & words
    assert "1999" in de.Tokenizer(pattern="icu", numbers=True)("in 1999")
    assert not [note for note in notes(tmp_path / "b.txt", CHINESE, pattern="icu") if "spaces" in note]


def test_icu_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "icu4py", None)
    with pytest.raises(ImportError, match=r"pip install 'distembed\[icu\]'"):
        de.Tokenizer(pattern="icu").function()


def test_a_function_that_fails_is_named_with_file_and_document(tmp_path: Path) -> None:
    def fragile(text: str) -> list[str]:
        return text.split() if "bad" not in text else text.split()[99:][0]

    (tmp_path / "a.txt").write_text("good\ngood too\nbad one\n")
    docs = de.read_corpus(tmp_path / "a.txt", tokenizer=de.Tokenizer(pattern=fragile))
    message = (
        r"fragile.* failed in .*a.txt, document a.txt:14, at 'bad one': IndexError: list index out of range"
    )
    with pytest.raises(CorpusError, match=message):
        docs.tokenize()


def test_a_function_is_called_by_one_thread_at_a_time(tmp_path: Path) -> None:
    inside, most = 0, 0

    def slow(text: str) -> list[str]:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.01)
        inside -= 1
        return text.split()

    for number in range(8):
        (tmp_path / f"{number}.txt").write_text("some words\n")
    assert de.read_corpus(tmp_path, tokenizer=de.Tokenizer(pattern=slow)).tokenize().n_documents == 8
    assert most == 1
