"""What is no corpus is refused: the file, what was wrong, and what to do."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import re
import struct
import tarfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distembed.corpus.readers import read_corpus
from distembed.corpus.records import CorpusError
from distembed.corpus.tokenizer import Tokenizer
from distembed.job.inputs import stamps_at, versions_at
from tests.corpus.conftest import total, write

CR = r"carriage returns alone; convert it: tr '\\r' '\\n'"
BINARY = "holds binary data, not text: name files of text"
UNZIP = r"office document, not text: unpack it \(unzip FILE\)"
QUOTE = r'line 3, has a quote that is never closed; .* format="tsv"'
TITLES = {"text_field": ("title", "b")}
NUMBERS = struct.pack("<3000d", *(number / 7 for number in range(3000)))
NAMES = b"".join(name.ljust(12, b"\0") for name in (b"Berlin", b"Paris")) * 9
REFUSED = [
    # what holds no text
    ("t.txt", b"", {}, "is empty"),
    ("t.txt.bz2", b"", {}, "is empty"),
    ("t.txt.bz2", bz2.compress(b""), {}, ": no document found"),
    ("t.txt", b"\n\n\n", {}, ": no document found"),
    ("t.parquet", pa.table({"text": pa.array([], pa.string())}), {}, ": no document found"),
    ("a.xlsx", b"PK\x03\x04", {}, rf"{UNZIP}, or save it as .* CSV"),
    ("b.zip", b"PK\x05\x06 words that look like text\n", {}, UNZIP),
    ("c.txt", b"7z\xbc\xaf\x27\x1c words that look like text\n", {}, r"\(7z x FILE\)"),
    ("d", b"Rar!\x1a\x07 words that look like text\n", {}, r"\(unrar x FILE\)"),
    ("brief.txt", b"%PDF-1.7 ...", {}, "is a PDF file, not text: save it as plain text"),
    ("a.html", b"<p>a part of a page", {}, r"is an HTML page, .* as JSON lines \(trafilatura --json\)"),
    ("zahlen.txt", NUMBERS, {}, BINARY),
    ("records.txt", NAMES, {}, BINARY),
    ("~$letter.txt", b"\x06Maria" + bytes(49), {}, BINARY),
    *((name, b"cat sat\rdog ran\r", {}, CR) for name in ("a.txt", "a.jsonl", "a.csv")),
    ("a.txt", b"cat sat\rdog ran\r", {"layout": "blocks"}, CR),
    ("bad.txt", b"good\n" * 500_000 + b"b\xff d\n", {"layout": "file"}, "line 500001, byte 0xff at offset 2500001"),
    ("t.txt", b"A title\n\n\xefnother\n", {"layout": "blocks"}, r"is not UTF-8: line 3, byte 0xef at offset 9"),
    ("a.txt", "größer\n".encode("utf-16") + b"\x00\xd8x\x00", {},
     r"a\.txt is not utf-16: illegal .* near byte \d+; give its encoding=, or errors="),
    # MediaWiki
    ("x.xml", b"some text", {}, "not a MediaWiki export"),
    # JSON lines
    ("t.jsonl", b'{"title": "x"}\n', TITLES | {"text_field": ("a", "b")}, 'has no field "a" or "b"'),
    ("t.jsonl", b'{"doc.body.text": "x"}', {"text_field": "body"}, r'has no field "body" \(it has doc.body.text\)'),
    # tables
    ("d.csv", b"id;body\n1;x\n", {}, r'd\.csv has no column "text" \(it has id, body\); give text_field=\.'),
    ("d.csv", b"text\nx\n", {"id_field": "who"}, 'no column "who" .* give id_field='),
    ("d.csv", b"text,text\na,b\n", {}, 'has the column "text" twice; rename one'),
    ("d.csv", b"text\nx\n", {"carry_fields": ["month"]}, 'no column "month"'),
    ("d.csv", b"text\na\n", {"delimiter": "tab"}, "delimiter is 'tab'; give one character"),
    *(
        ("d.csv", b'id,text,kind\n1,gut,x\n2,"offen,y\n' + rest, {"bad_records": "skip"}, QUOTE)
        for rest in (b"3,verloren,z\n", b'3,"noch, einer",z\n', b'3,"a ""b"" c",z', b"")
    ),
    ("t.parquet", b"no parquet", {}, r"cannot be read as a Parquet file \(\w+ .*\)"),
    ("t.parquet", pa.table({"body": ["x"]}), {}, r'no column "text" \(it has body\); give text_field='),
    ("t.parquet", pa.table({"title": ["x"]}), TITLES, 'no column "b"'),
    ("t.parquet", pa.table({"text": ["x"]}), {"carry_fields": ["month"]}, 'no column "month"'),
    ("t.parquet", pa.table({"text": ["a"], "body": [["x"]]}), {"id_field": "body"},
     r'column "body" is list<.*>, not text; give id_field='),
    # options
    ("t.txt", b"x", {"format": "pdf"}, "format is"),
    ("t.txt", b"x", {"layout": "page"}, "layout is"),
    ("t.txt", b"x", {"errors": "ignore"}, "errors is"),
    ("t.txt", b"x", {"bad_records": "drop"}, "bad_records is"),
    ("t.txt", b"x", {"partition_bytes": 0}, "partition_bytes is"),
    ("t.txt", b"x", {"piece_words": 0}, "piece_words is 0: give an integer of 1 or more"),
    ("t.txt", b"x", {"encoding": "latin1x"}, "encoding is 'latin1x', which is no encoding of text that"),
    ("t.txt", b"x", {"encoding": "rot13"}, "encoding is 'rot13', which is no encoding of text that"),
    ("t.txt", b"x", {"path_fields": [f"f{n}" for n in range(40)]}, r"lies in \d+ folders, and path_fields= names 40"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "options", "message"), REFUSED)
def test_a_file_that_is_no_corpus_is_refused(tmp_path, name, data, options, message):
    if isinstance(data, bytes):
        (tmp_path / name).write_bytes(data)
    else:
        pq.write_table(data, tmp_path / name)
    options = {"encoding": "utf-8"} | options if name == "bad.txt" else options
    with pytest.raises(ValueError, match=message):
        read_corpus(tmp_path / name, **options).tokenize()


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        (["a.txt", 7], TypeError, "number 1 is of the type int"),
        ([b"a.txt"], TypeError, "number 0 is of the type bytes"),
        (pd.Series(["a.txt"]), TypeError, "read_corpus takes paths, and a Series was given"),
        (["The sea.\nThe wind."], ValueError, "'The sea.\\\\nThe wind.', is a text and no path or URL"),
        (["http://127.0.0.1:9/x was the page"], ValueError, "is a text and no path or URL"),
    ],
)
def test_what_is_no_path_is_refused_before_anything_is_opened(given, error, sentence, monkeypatch):
    def opens_nothing(*_):
        raise AssertionError

    monkeypatch.setattr("distembed.corpus.readers.find_files", opens_nothing)
    with pytest.raises(error, match=sentence) as raised:
        read_corpus(given)
    assert "for texts in memory use read_texts" in str(raised.value)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, None])
@pytest.mark.parametrize(
    ("name", "pack"), [("a.txt", bytes), ("a.tar.gz", gzip.compress), ("a.tbz2", bz2.compress)]
)
def test_tar_archives_are_refused_by_their_content(tmp_path, name, pack, form):
    """The oldest form (None) has no mark."""
    text = b"Ein Satz mit Worten.\n" * 3000
    entry = tarfile.TarInfo("satz.txt")
    entry.size, entry.uname = len(text), "maria"
    plain = bytearray(entry.tobuf(tarfile.USTAR_FORMAT if form is None else form))
    if form is None:
        plain[257:] = bytes(len(plain) - 257)
        plain[148:156] = b" " * 8
        plain[148:156] = b"%06o\0 " % sum(plain)
    message = rf"{re.escape(name)} is a tar archive, not text: unpack it \(tar -xf FILE\)"
    with pytest.raises(CorpusError, match=message):
        read_corpus(write(tmp_path / name, pack(bytes(plain) + text)))


# ---- the files that paths name ---------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A folder with two texts, in one of its folders too, and what desktops leave beside them."""
    (tmp_path / "texts" / "more").mkdir(parents=True)
    for name in ("b.txt", "more/a.txt"):
        (tmp_path / "texts" / name).write_text("the sea\n")
    for name in (".DS_Store", "~$b.txt", "Thumbs.db", "more/.hidden"):
        (tmp_path / "texts" / name).write_bytes(b"\0\0\0\1Bud1")
    return tmp_path / "texts"


def names(paths, **options):
    return [Path(partition.url).name for partition in read_corpus(paths, **options).partitions]


def test_a_folder_stands_for_its_files_without_hidden_ones(folder):
    assert names(folder) == names([folder / "b.txt", folder / "more"]) == ["b.txt", "a.txt"]
    assert names(f"{folder}/**") == ["b.txt", "a.txt"]
    (folder / "more" / ".hidden").write_text("the sea\n")
    assert names(f"{folder}/more/.*") == [".hidden"]  # asked for by its name
    (folder.parent / "empty").mkdir()
    for none in ("empty", "*.xml"):
        message = f"{re.escape(none)} matches no file; check the path, or give a folder or a glob"
        with pytest.raises(FileNotFoundError, match=message):
            read_corpus(folder.parent / none)
    gone = read_corpus(folder / "b.txt")
    (folder / "b.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"b\.txt: there is no such file; check its name"):
        gone.tokenize()


def test_links_to_files_are_followed_and_those_to_folders_and_pipes_are_not(folder):
    os.mkfifo(folder / "pipe.txt")
    (folder / "link.txt").symlink_to(folder / "b.txt")
    (folder / "more" / "loop").symlink_to(folder)
    assert names(folder) == ["b.txt", "link.txt", "a.txt"]
    assert names(folder / "link.txt") == ["link.txt"]
    assert names(folder / "*") == ["b.txt", "link.txt"]
    assert [url.rpartition("/")[2] for url in versions_at(str(folder))] == ["b.txt", "link.txt", "a.txt"]


def test_all_files_that_cannot_be_read_are_named_at_once_or_left_out(folder):
    (folder / "c.txt").write_bytes(b"")
    with pytest.raises(CorpusError, match=r"^\S*c\.txt is empty \(0 bytes\); remove it"):
        read_corpus(folder)
    (folder / "d.txt").write_bytes(b"%PDF-1.5")
    together = (
        r"2 of 4 files cannot be read: \(1\) \S*c\.txt is empty .*; \(2\) \S*d\.txt is a PDF file, .* "
        r'\(pdftotext FILE\)\. Remove them, or correct them, or leave them out by bad_records="skip"'
    )
    with pytest.raises(CorpusError, match=together):
        read_corpus(folder)
    with pytest.warns(UserWarning, match=r"left out: \S*[cd]\.txt is "):
        assert names(folder, bad_records="skip") == ["b.txt", "a.txt"]
    with pytest.raises(CorpusError, match="is empty"):
        read_corpus([folder / "c.txt"], bad_records="skip")


def test_a_name_that_is_not_utf8_is_named_or_left_out(folder):
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("the sea\n")
    with pytest.raises(CorpusError, match=r"caf\\xe9\.txt has a name that is not UTF-8; rename the file"):
        read_corpus(folder)
    with pytest.warns(UserWarning, match=r"left out: \S*caf\\xe9\.txt has a name"):
        assert names(folder, bad_records="skip") == ["b.txt", "a.txt"]
    assert list(stamps_at(str(folder))) == ["b.txt", "caf\\xe9.txt", "more/a.txt"]


def test_a_name_that_the_locale_cannot_spell(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsencode", lambda name: name.encode("ascii"))
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "ascii")
    with pytest.raises(OSError, match=r"cannot be represented in ascii.*set PYTHONUTF8=1"):
        read_corpus(tmp_path / "ä*.txt")


# ---- records that are left out --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "x"', "is not JSON"),
        (b'{"body": "x"}', r'has no field "text" \(it has body\); give text_field='),
        (b'{"text": 5}', r'holds int in "text"'),
        (b"[1]", "is a JSON list"),
        (b'{"text": "a", "key": "\\ud800"}', r"holds \\ud800, half of a character"),
        (b'{"text": "a \\udfff"}', r"holds \\udfff, half of a character"),
        (b'{"text": "a", "name": "\\ud8ff"}', r"holds \\ud8ff, half of a character"),
        (b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", r"is not JSON \(maximum recursion"),
        (b'{"text": "a", "n": ' + b"9" * 5000 + b"}", r"is not JSON \(.*limit \(4300 digits\)"),
        (b'{"text": "", "class": ["x", "y"]}', r'holds list in "class", not one value; give label_field='),
        (b'{"text": "", "name": {"k": 1}}', r'holds dict in "name", not one value; give title_field='),
        (b'{"text": "na\xefve"}', r"is not UTF-8 \(byte 0xef at column 13\)"),
    ],
)  # fmt: skip
def test_bad_json_is_refused_with_its_line_or_left_out(tmp_path, line, message):
    path = write(tmp_path / "t.jsonl", b'{"text": "a b"}\n{"text": "c"}\n' + line + b"\n")
    options = {"id_field": "key", "title_field": "name", "label_field": "class", "encoding": "utf-8"}
    for partition_bytes in (1 << 20, max(20, len(line))):
        with pytest.raises(CorpusError, match=f"line 3, {message}"):
            read_corpus(path, partition_bytes=partition_bytes, **options).tokenize()
    summary = total(read_corpus(path, bad_records="skip", **options).tokenize().summaries)
    assert (summary.n_documents, summary.n_bad_records) == (2, 1)
    (skipped,) = summary.bad_records
    assert (skipped.file, skipped.place) == (path, "byte 30")
    assert re.search(message, skipped.reason)


def test_bad_records_are_all_counted_and_the_first_named_in_short(tmp_path):
    long = json.dumps({f"{number:04}": 1 for number in range(999)})
    path = write(tmp_path / "a.jsonl", (f"{long}\n" * 25 + "x" * 600 + '\n{"text": "good"}\n').encode())
    [summary] = read_corpus(path, bad_records="skip").tokenize().summaries
    assert (summary.n_bad_records, summary.n_documents) == (26, 1)
    assert len(summary.bad_records) == len(total([summary, summary]).bad_records) == 20
    assert max(len(record.reason) for record in summary.bad_records) < 200


def test_parquet_rows_that_are_not_utf_8(tmp_path):
    raw = pa.array([b"one", b"tw\xff", None, b"\xfe", b"five"])
    text = pa.StringArray.from_buffers(5, *(raw.buffers()[k] for k in (1, 2, 0)))
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"text": text, "name": text}), path, row_group_size=2)
    with pytest.raises(CorpusError, match=r't\.parquet, row 2, is not UTF-8 in column "text"'):
        read_corpus(path).tokenize()
    corpus = read_corpus(path, bad_records="skip")
    found = [(document.id, document.text) for document in corpus.documents()]
    assert found == [("t.parquet:0.0", "one"), ("t.parquet:1.0", ""), ("t.parquet:2.0", "five")]
    bad = total(corpus.tokenize().summaries).bad_records
    assert [record.place for record in bad] == ["row 2", "row 4"]


# ---- tokenizers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"pattern": "[a-z"}, ValueError, '"module:function"'),
        ({"border": "page"}, ValueError, '"sentence"'),
        ({"normalization": "nfd"}, ValueError, '"nfkc"'),
        ({"min_border_tokens": 0}, ValueError, "min_border_tokens is 0: give an integer of 1 or more"),
        ({"lowercase": "no"}, ValueError, "true or false"),
        ({"pattern": "no.such:thing"}, ValueError, "cannot be imported"),
        ({"pattern": "math:pi"}, TypeError, '"math:pi" is of type float: name a function'),
        ({"pattern": len}, CorpusError, "'int' object is not iterable; correct the function"),
        ({"pattern": lambda _: [5]}, TypeError, "word 5, which is int"),
    ],
)
def test_what_is_no_tokenizer_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        Tokenizer(**options)("some text")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"names\.txt \(phrases_file\) cannot be read"),
        (b"Ford\n3M\n", r"names\.txt \(phrases_file\) has no name of several words: write one name per line"),
        (b"new york\n\xff\xfe x\n", r"names\.txt.*is not UTF-8|names\.txt.*0xff"),
    ],
)
def test_a_file_that_holds_no_names_is_refused(tmp_path, content, message):
    path = tmp_path / "names.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        Tokenizer(phrases_file=str(path))("some text")
