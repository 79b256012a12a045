"""The compiled scanner against Python's `re`, for any text and however it is cut; names of several words are one."""

from __future__ import annotations

import hashlib
import sys
import time
import unicodedata
from collections import Counter
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distembed as de
from distembed.corpus import blocks
from distembed.corpus.inspection import inspect_corpus
from distembed.corpus.records import CorpusError
from distembed.corpus.scanners import CallableScanner, Scanner, gazetteer, normalized
from distembed.corpus.tokenizer import (
    Tokenizer,
    class_table,
    gazetteer_of,
    scanner,
    scripts_without_spaces,
    words_of,
)
from distembed.encoding.static import unreadable_words
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
    # others stand in short segments alone
    assert sorted(taken) == [word for word, n in enumerate(counts) if n]
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


def test_every_character_is_cut_as_the_oracle_cuts_it_and_composed_as_python_composes_it():
    others = ("Cs", "Cn", "Co", "Cf")  # those of the last that occur are drawn above
    every = [chr(point) for point in range(1, 0x110000) if unicodedata.category(chr(point)) not in others]
    text = " ".join(f"a{character}b" for character in every)
    assert scanned([text.encode()], Tokenizer(numbers=True)) == ids_of([text], numbers=True)
    composed = filter(unicodedata.decomposition, every)
    texts = sorted({unicodedata.normalize("NFD", character) for character in composed})
    found = [text.decode() for text in normalized(batch_of(*map(str.encode, texts)), "nfc").texts()]
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


@pytest.mark.parametrize(
    "words",
    [
        [f"word{'abcdefghij'[k % 10]}{chr(97 + k % 26)}{k:x}" for k in range(40_000)],
        *(
            [first + "a" * (size - 1) + last for first, last in ("a ", "b ", "ab")]
            for size in (7, 8, 9, 15, 16, 1023)
        ),
    ],
    ids=len,
)
def test_ids_stay_as_a_dictionary_grows_and_words_of_every_width_are_told_apart(words):
    text = " ".join(words * 2).replace("  ", " ")
    options = {"pattern": "ascii", "numbers": True}
    assert scanned([text.encode()] * 2, Tokenizer(**options)) == ids_of([text, text], **options)


def test_overlong_token_is_counted_in_bounded_memory():
    machine = scanner(Tokenizer())
    found = machine.scan(batch_of(b"a" * (1 << 22) + b" end"))
    assert found.ids.tolist() == [0]
    assert machine.source.n_long == 1
    assert len(machine.source.state.token) == blocks.TOKEN_WORDS


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
def test_the_script_is_told(text, names):
    assert list(scripts_without_spaces(text)) == names


def notes(path, text, **options):
    path.write_text(text, encoding="utf-8")
    return inspect_corpus(de.read_corpus(path, tokenizer=de.Tokenizer(**options)))


def test_a_plan_shows_words_and_names_tokenizers(tmp_path):
    found = notes(tmp_path / "a.txt", 20 * f"{CHINESE}\n")
    assert "words: 今天天气很好, 我们去公园散步" in found
    [warning] = [note for note in found if "without spaces" in note]
    assert warning.startswith("100% of the letters are Chinese")
    for advice in ('pattern="icu"', "distembed[icu]", "jieba"):
        assert advice in warning
    assert notes(tmp_path / "b.txt", "one two three\n") == ["files: 1 text", "words: one, two, three"]


def test_icu_cuts_words_and_leaves_out_signs(tmp_path):
    pytest.importorskip("icu4py", reason="ICU is an extra: pip install 'distembed[icu]'")
    words = set(de.Tokenizer(pattern="icu")(f"{CHINESE} Don't ภาษาไทย 1999\n"))
    assert {"今天", "天气", "公园", "don't", "ภาษา", "ไทย"} <= words
    assert not {"，", "1999", " "} & words
    assert "1999" in de.Tokenizer(pattern="icu", numbers=True)("in 1999")
    assert not [note for note in notes(tmp_path / "b.txt", CHINESE, pattern="icu") if "spaces" in note]


def test_icu_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "icu4py", None)
    with pytest.raises(ImportError, match=r"pip install 'distembed\[icu\]'"):
        de.Tokenizer(pattern="icu").function()


def test_a_function_that_fails_is_named_with_file_and_document(tmp_path):
    def fragile(text):
        return text.split() if "bad" not in text else text.split()[99:][0]

    (tmp_path / "a.txt").write_text("good\ngood too\nbad one\n")
    docs = de.read_corpus(tmp_path / "a.txt", tokenizer=de.Tokenizer(pattern=fragile))
    message = r"fragile.* failed in .*a.txt, document a.txt:14, at 'bad one': IndexError: list index out of"
    with pytest.raises(CorpusError, match=message):
        docs.tokenize()


def test_a_function_is_called_by_one_thread_at_a_time(tmp_path):
    inside, most = 0, 0

    def slow(text):
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


# ---- names of several words ------------------------------------------------------------------------------------


def joined(tokens, names):
    """Return tokens with names joined: at each place the longest, by trying every name."""
    out, at = [], 0
    while at < len(tokens):
        here = [name for name in names if len(name) > 1 and tuple(tokens[at : at + len(name)]) == name]
        name = max(here, key=len, default=(tokens[at],))
        out.append("_".join(name))
        at += len(name)
    return out


words = st.sampled_from(["a", "b", "c", "bb"])


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(st.lists(words, max_size=30), max_size=3),
    names=st.lists(st.lists(words, min_size=1, max_size=4).map(tuple), max_size=5),
    forget=st.booleans(),
)
def test_names_are_joined_and_counted_as_a_plain_search_joins_them(texts, names, forget):
    """Also where the dictionary is emptied after each text."""
    names = [*names, ("a", "b")]
    data = "\n".join(" ".join(name) for name in names).encode()
    machine = Scanner(words_of(Tokenizer()), gazetteer(data, words_of(Tokenizer()), path="names.txt"))
    counts, documents = Counter(), Counter()
    for text in texts:
        found = machine.scan(batch_of(" ".join(text).encode()))
        known, expected = machine.words()["word"].to_pylist(), joined(text, names)
        assert [known[word] for word in found.ids.tolist() if word >= 0] == expected
        assert found.n_tokens.tolist() == found.id_stops.tolist() == [len(expected)]
        counts.update(expected)
        documents.update(set(expected))
        if forget:
            machine.forget()
    if not forget:
        rows = [row for row in machine.words().to_pylist() if row["count"]]
        assert {row["word"]: row["count"] for row in rows} == counts
        assert {row["word"]: row["document_count"] for row in rows} == documents


BORDERED = "It is new. York is old. But new york is both"
MANY = "New York City Hall in NEW YORK, the new york-city hall; new new york"


@pytest.mark.parametrize(
    ("options", "text", "counts"),
    [
        ({}, MANY, {"new_york": 2, "new_york_city": 2, "hall": 2, "new": 1, "in": 1, "the": 1}),
        ({}, BORDERED, {"new_york": 2}),
        ({"border": "sentence"}, BORDERED, {"new_york": 1, "york": 1, "new": 1}),
        ({"pattern": str.split}, "new york and new_york", {"new_york": 2, "and": 1}),
    ],
)
def test_names_cross_no_border_and_a_function_may_give_them_itself(tmp_path, options, text, counts):
    (tmp_path / "names.txt").write_text("new york\nNew York City\n")
    tokenizer = Tokenizer(phrases_file=str(tmp_path / "names.txt"), **options)
    vocabulary = de.build_vocabulary(de.read_texts([text], tokenizer=tokenizer))
    assert counts.items() <= dict(zip(vocabulary.words, vocabulary.counts.tolist(), strict=True)).items()


def test_the_names_are_cut_like_the_text(tmp_path):
    path = tmp_path / "names.txt"
    path.write_bytes("\ufeffAT&T Inc.\r\n\r\nÉcole  Normale\r\n3M\r\nat T inc\r\nFord\r\n".encode())
    lower = gazetteer_of(Tokenizer(phrases_file=str(path)))
    assert (lower.words, lower.n_single) == (["at_t_inc", "école_normale"], 2)
    exact = gazetteer_of(Tokenizer(phrases_file=str(path), lowercase=False))
    assert exact.words == ["AT_T_Inc", "École_Normale", "at_T_inc"]


@pytest.mark.filterwarnings("ignore:.*no known word")
def test_texts_are_encoded_with_the_names_of_their_corpus(tmp_path):
    (tmp_path / "names.txt").write_text("New York\n")
    rules = Tokenizer(phrases_file=str(tmp_path / "names.txt"))
    vectors = de.WordVectors(["new_york", "old"], [[1, 0], [0, 1]])
    encoder = de.TextEncoder(vectors, tokenizer=rules).fit()
    assert encoder.transform(["NEW york", "york"]).any(axis=1).tolist() == [True, False]
    assert unreadable_words(encoder) == ["new_york"]  # a static model joins no words
