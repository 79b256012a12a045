"""The encodings of files: UTF-8, that of a byte-order mark, or the one that is given; anything else is an error."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distembed.corpus.readers import read_corpus
from distembed.corpus.records import CorpusError
from distembed.formats.encodings import HEAD_BYTES, detect_encoding, guess_encoding

GERMAN = "Über den Wölken muß die Freiheit größer sein, sagte Frau Käthe früh.\n" * 3


RUSSIAN = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему.\n" * 3
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n" * 40
CHINESE = "道可道，非常道。名可名，非常名。 第 1 章\n" * 30


@pytest.mark.parametrize(
    ("data", "found"),
    [
        *((GERMAN.encode(name), name) for name in ("utf-8", "cp1252", "utf-16", "utf-32")),
        (GERMAN.encode("utf-8-sig"), "utf-8"),
        (RUSSIAN.encode()[:101], "utf-8"),  # cut within a character
        (CHINESE.encode()[:101], "utf-8"),
        (GERMAN.encode() + b"\xff" + GERMAN.encode(), "utf-8"),
        (GERMAN.encode() + b"\0", "utf-8"),
        (("x" * (HEAD_BYTES - 1) + "ä").encode()[:HEAD_BYTES], "utf-8"),
        (b"Caf\xe9", "cp1252"),
    ],
)
def test_encodings_are_told_apart(data, found):
    assert detect_encoding(data) == found


@given(st.text())
def test_what_is_utf8_is_taken_for_it(text):
    if "\0" not in text:
        assert detect_encoding(text.encode()) == "utf-8"


def test_an_encoding_is_that_of_files_that_are_not_utf8_and_have_no_mark(tmp_path):
    encodings = ["utf-8", "latin-1", "utf-16", "utf-8-sig"]
    for encoding in encodings:
        (tmp_path / f"{encoding}.txt").write_bytes(GERMAN.encode(encoding))
    corpus = read_corpus([tmp_path / f"{encoding}.txt" for encoding in encodings], encoding="latin-1")
    assert [part.encoding for part in corpus.partitions] == ["utf-8", "latin-1", "utf-16", "utf-8"]
    assert [document.text for document in corpus.documents()] == 4 * GERMAN.splitlines()


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "cp1252"), (RUSSIAN, "koi8_r"), (RUSSIAN, "cp1251"), (CHINESE, "gb18030"), (JAPANESE, "euc_jp"),
        (JAPANESE, "shift_jis"),
    ],
)  # fmt: skip
def test_what_is_not_utf8_is_an_error_with_the_byte_and_a_guess(tmp_path, text, encoding):
    """It was read as Windows-1252, so that Russian became letters of western Europe."""
    data = text.encode(encoding)
    (tmp_path / "a.txt").write_bytes(data)
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "' + data.split(b"\n")[0] + b'"}')
    (tmp_path / "a.csv").write_bytes(b"text\n" + data.split(b"\n")[0].replace(b",", b""))
    place = next(number for number, byte in enumerate(data) if byte >= 128)
    message = rf"a\.txt is not UTF-8: line 1, byte 0x{data[place]:02x} at offset {place} of the text; .*give encoding="
    with pytest.raises(CorpusError, match=message) as error:
        read_corpus(tmp_path / "a.txt")
    for name in ("a.jsonl", "a.csv"):
        with pytest.raises(CorpusError, match=rf"{name}, line [12], is not UTF-8 .*give encoding="):
            read_corpus(tmp_path / name).tokenize()
    guess = re.search(r'encoding="([\w-]+)"', str(error.value))[1]
    assert guess == encoding
    shown = f"it reads as text in {guess} ('{text.split(chr(10))[0][:30].strip()}" in str(error.value)
    assert shown == (guess != "cp1252")
    assert read_corpus(tmp_path / "a.txt", encoding=guess).tokenize().n_documents
    [first, *_] = read_corpus(tmp_path / "a.txt", encoding=encoding).documents()
    assert first.text == text.split("\n")[0]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("für,größer\n", None), ("der\ndie\nfür\n", None), ("café\n", None), ("año;mañana\n", None),
        ("żółw,łąka,gęś\n", "cp1250"), ("příliš žluťoučký kůň\n", "cp1250"), ("это\nтак\nчто\n", "cp1251"),
        ("bøger på\n", None), ("λέξη,λέξεις\n", "cp1253"), ("東京,大阪\n", "shift_jis"), ("서울,부산\n", "euc_kr"),
    ],
)  # fmt: skip
def test_the_encoding_of_a_few_words_is_guessed(text, encoding):
    """German of two words was cp1006 for charset-normalizer, which is an encoding of Urdu; None is Windows-1252."""
    guess = guess_encoding(text.encode(encoding or "cp1252"))
    assert (guess and guess[0]) == encoding


def test_text_that_is_not_in_its_encoding_is_refused_or_left_out(tmp_path):
    (tmp_path / "a.txt").write_bytes(GERMAN.encode("utf-16") + b"\x00\xd8x\x00")
    (tmp_path / "b.txt").write_bytes(GERMAN.encode("utf-16"))
    (tmp_path / "c.txt").write_bytes(GERMAN.encode("latin-1"))
    message = r"a\.txt is not utf-16: illegal .* near byte \d+; give its encoding=, or errors="
    with pytest.raises(CorpusError, match=message):
        read_corpus(tmp_path / "a.txt")
    with pytest.warns(UserWarning, match=r"left out: .*c\.txt is not UTF-8"):
        corpus = read_corpus(tmp_path, bad_records="skip")
    assert {partition.name for partition in corpus.partitions} == {"b.txt"}
    assert re.search(message, corpus.refused[0].reason)


@pytest.mark.parametrize(
    "data", [b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xe4\xb8"]
)
@pytest.mark.parametrize("layout", ["line", "blocks", "file"])
def test_surrogates_and_overlong_bytes_are_not_utf_8(tmp_path, data, layout):
    path = tmp_path / "f.txt"
    path.write_bytes(b"e\xcc\x81 " + data + b" x")
    with pytest.raises(CorpusError, match=f"byte 0x{data[0]:02x} at offset 4 "):
        read_corpus(path, layout=layout)
    tokens = read_corpus(path, layout=layout, errors="replace").tokenize()
    assert tokens.summaries[0].n_tokens == (0 if layout == "blocks" else 2)  # there, it is the title
