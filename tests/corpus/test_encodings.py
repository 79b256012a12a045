"""The encodings of files: told by their beginnings, set per file, and doubted where they seem to be another."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import struct
import tarfile
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distembed.corpus.errors import CorpusError
from distembed.corpus.readers import read_corpus
from distembed.formats.encodings import HEAD_BYTES, detect_encoding

GERMAN = "Über den Wölken muß die Freiheit größer sein, sagte Frau Käthe früh.\n" * 3


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("latin-1", "cp1252"), ("cp1252", "cp1252"),
        ("utf-16", "utf-16"), ("utf-16-le", "utf-16-le"), ("utf-16-be", "utf-16-be"), ("utf-32", "utf-32"),
    ],
)  # fmt: skip
def test_encodings_are_told_apart(encoding, found):
    assert detect_encoding(GERMAN.encode(encoding)) == found


RUSSIAN = "Все счастливые семьи похожи друг на друга, каждая несчастлива по-своему.\n" * 3
CHINESE = "道可道，非常道。名可名，非常名。 第 1 章\n" * 30
TABLE = "Eine Tabelle mit vielen Strichen:\n" + ("┌" + 40 * "─" + "┐\n") * 5  # their low byte is zero


@pytest.mark.parametrize("text", [RUSSIAN, CHINESE, TABLE])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8"])
def test_utf16_of_any_script_is_known_without_its_mark(text, encoding):
    for size in (len(text.encode(encoding)), 101):  # whole, and cut within a character
        assert detect_encoding(text.encode(encoding)[:size]) == encoding


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


def test_files_of_several_encodings_make_one_corpus(tmp_path):
    paths = write_all(tmp_path)
    with pytest.warns(UserWarning, match=r"zwei\.txt is not UTF-8 and is taken for Windows-1252"):
        corpus = read_corpus(paths)
    words = corpus.tokenize()
    tables = [words.words(partition).select(["word", "count"]).to_pydict() for partition in words.partitions]
    counts = [dict(zip(table["word"], table["count"], strict=True)) for table in tables]
    assert counts[0]["wölken"] == 3
    assert counts == counts[:1] * 4


def test_files_of_a_guessed_encoding_are_named_together(tmp_path):
    for name in "abcde":
        (tmp_path / f"{name}.txt").write_bytes(GERMAN.encode("latin-1"))
    (note,) = read_corpus(tmp_path, section="corpus").notes
    assert note.startswith(f"5 files ({tmp_path / 'a.txt'}, ")
    assert "c.txt and 2 more) are not UTF-8 and are taken for Windows-1252 (western European)" in note
    assert note.endswith("; give corpus.encoding if they are not")


def test_an_encoding_per_file(tmp_path):
    paths = write_all(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corpus = read_corpus(paths, encoding={"zwei.*": "latin-1", "*drei.txt": "auto"})
    assert [part.encoding for part in corpus.partitions] == ["utf-8", "latin-1", "utf-16", "utf-8"]
    with pytest.raises(ValueError, match="encoding is 'latin1x', which Python does not know; give"):
        read_corpus(paths, encoding="latin1x")


def test_utf8_read_as_latin1_is_doubted(tmp_path):
    path = write_all(tmp_path)[0]
    for name, message in {
        "eins.txt": r"eins\.txt is valid UTF-8 and is read as latin-1, so that Ü becomes Ã",
        "drei.txt": r'drei\.txt seems to be UTF-16 and is read as latin-1; give encoding="auto"',
    }.items():
        with pytest.warns(UserWarning, match=message):
            read_corpus(tmp_path / name, encoding="latin-1")
    assert "corpus.encoding" in read_corpus(path, encoding="latin-1", section="corpus").notes[0]


def test_text_that_is_not_in_its_encoding_is_refused_or_left_out(tmp_path):
    (tmp_path / "a.txt").write_bytes(GERMAN.encode("utf-16") + b"\x00\xd8x\x00")
    (tmp_path / "b.txt").write_bytes(GERMAN.encode("utf-16"))
    message = r"a\.txt is not utf-16: illegal .* near byte \d+; give its (corpus.)?encoding=?, or (corpus.)?errors ?="
    with pytest.raises(CorpusError, match=message):
        read_corpus(tmp_path, encoding="utf-16").tokenize()
    corpus = read_corpus(tmp_path, encoding="utf-16", bad_records="skip", section="corpus")
    assert {partition.name for partition in corpus.partitions} == {"b.txt"}
    assert re.search(message, corpus.refused[0].reason)


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
