"""The encodings of files: UTF-8, that of a byte-order mark, or the one that is given; anything else is an error."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import struct
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distembed.corpus.readers import read_corpus
from distembed.corpus.records import CorpusError
from distembed.formats.encodings import HEAD_BYTES, detect_encoding, guess_encoding

GERMAN = "Über den Wölken muß die Freiheit größer sein, sagte Frau Käthe früh.\n" * 3


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("latin-1", "cp1252"), ("cp1252", "cp1252"),
        ("utf-16", "utf-16"), ("utf-32", "utf-32"),
    ],
)  # fmt: skip
def test_encodings_are_told_apart(encoding, found):
    assert detect_encoding(GERMAN.encode(encoding)) == found


RUSSIAN = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему.\n" * 3
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n" * 40
CHINESE = "道可道，非常道。名可名，非常名。 第 1 章\n" * 30


@pytest.mark.parametrize("text", [RUSSIAN, CHINESE])
def test_utf8_is_known_where_it_is_cut_within_a_character(text):
    assert detect_encoding(text.encode()) == detect_encoding(text.encode()[:101]) == "utf-8"


@given(st.text())
def test_what_is_utf8_is_taken_for_it(text):
    if "\0" not in text:
        assert detect_encoding(text.encode()) == "utf-8"


def test_a_damaged_byte_or_a_cut_character_leaves_utf8():
    assert detect_encoding(GERMAN.encode() + b"\xff" + GERMAN.encode()) == "utf-8"
    cut = ("x" * (HEAD_BYTES - 1) + "ä").encode()[:HEAD_BYTES]
    assert detect_encoding(cut) == "utf-8"
    assert detect_encoding(b"Caf\xe9") == "cp1252"


def write_all(folder):
    names = {"eins": "utf-8", "zwei": "latin-1", "drei": "utf-16", "vier": "utf-8-sig"}
    for name, encoding in names.items():
        (folder / f"{name}.txt").write_bytes(GERMAN.encode(encoding))
    return [folder / f"{name}.txt" for name in names]


def test_an_encoding_is_that_of_files_that_are_not_utf8_and_have_no_mark(tmp_path):
    _, latin, *others = write_all(tmp_path)
    corpus = read_corpus([tmp_path / "eins.txt", *others])
    assert [part.encoding for part in corpus.partitions] == ["utf-8", "utf-16", "utf-8"]
    corpus = read_corpus([tmp_path / "eins.txt", latin, *others], encoding="latin-1")
    assert [part.encoding for part in corpus.partitions] == ["utf-8", "latin-1", "utf-16", "utf-8"]
    words = corpus.tokenize()
    tables = [words.words(partition).select(["word", "count"]).to_pydict() for partition in words.partitions]
    counts = [dict(zip(table["word"], table["count"], strict=True)) for table in tables]
    assert counts[0]["wölken"] == 3
    assert counts == counts[:1] * 4
    with pytest.raises(ValueError, match="encoding is 'latin1x', which Python does not know; give"):
        read_corpus(latin, encoding="latin1x")


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


BINARY = "holds binary data, not text: name files of text"
NO_TEXT = {
    "a.xlsx": (b"PK\x03\x04", r"office document, not text: unpack it \(unzip FILE\), or save it as .* CSV"),
    "a.html": (b"<p>a part of a page", r"is an HTML page, not text: .* as JSON lines \(trafilatura --json\)"),
    "brief.txt": (b"%PDF-1.7 ...", "is a PDF file, not text: save it as plain text"),
    "a.docx": (b"PK\x03\x04 words that look like text\n", r"\(unzip FILE\)"),
    "b.zip": (b"PK\x05\x06 words that look like text\n", r"\(unzip FILE\)"),
    "c.txt": (b"7z\xbc\xaf\x27\x1c words that look like text\n", r"\(7z x FILE\)"),
    "d": (b"Rar!\x1a\x07 words that look like text\n", r"\(unrar x FILE\)"),
    "zahlen.txt": (struct.pack("<3000d", *(number / 7 for number in range(3000))), BINARY),
    "records.txt": (b"".join(name.ljust(12, b"\0") for name in (b"Berlin", b"Paris")) * 9, BINARY),
    "~$letter.txt": (b"\x06Maria" + bytes(49), BINARY),
}


@pytest.mark.parametrize("name", NO_TEXT)
def test_files_that_are_no_text_are_refused(tmp_path, name):
    data, message = NO_TEXT[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CorpusError, match=rf"{re.escape(name)} .*{message}"):
        read_corpus(tmp_path / name)


def test_a_stray_null_leaves_text(tmp_path):
    (tmp_path / "stray.txt").write_bytes(GERMAN.encode() + b"\0")
    assert read_corpus(tmp_path / "stray.txt").partitions[0].encoding == "utf-8"


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, None])
@pytest.mark.parametrize(
    "name", ["a.tar", "a.txt", "a.csv", "a.xml", "a.tar.gz", "a.tgz", "a.tar.xz", "a.tbz2"]
)
def test_tar_archives_are_refused_with_the_command_that_unpacks(tmp_path, name, form):
    """By their content, however they are named and packed; the oldest form (None) has no mark."""
    text = b"Ein Satz mit Worten.\n" * 3000
    entry = tarfile.TarInfo("satz.txt")
    entry.size, entry.uname = len(text), "maria"
    plain = bytearray(entry.tobuf(tarfile.USTAR_FORMAT if form is None else form))
    if form is None:
        plain[257:] = bytes(len(plain) - 257)
        plain[148:156] = b" " * 8
        plain[148:156] = b"%06o\0 " % sum(plain)
    pack = {"gz": gzip.compress, "tgz": gzip.compress, "xz": lzma.compress, "tbz2": bz2.compress}
    data = bytes(plain) + text
    (tmp_path / name).write_bytes(pack.get(name.rpartition(".")[2], bytes)(data))
    with pytest.raises(
        CorpusError, match=rf"{re.escape(name)} is a tar archive, not text: unpack it \(tar -xf FILE\)"
    ):
        read_corpus(tmp_path / name)
