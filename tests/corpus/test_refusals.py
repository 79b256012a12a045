"""What is no corpus is refused: the file, what was wrong, and what to do."""

from __future__ import annotations

import bz2
import gc
import gzip
import json
import os
import re
import struct
import tarfile
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.corpus.inspection import inspect_corpus
from distembed.corpus.parts import chosen_parts, day_of, deal_groups, parts_by_date, parts_by_value
from distembed.corpus.readers import read_corpus
from distembed.corpus.records import CorpusError
from distembed.corpus.stop_words import stop_words_of
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
    *((f"a.{end}", "größer\n".encode("utf-16-le"), {"encoding": "utf-16"}, rf"a\.{end} is not utf-16: .* near byte 0")
      for end in ("txt", "jsonl")),
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


@pytest.fixture
def folder(tmp_path):
    """A folder with two texts, in one of its folders too, and what desktops leave beside them."""
    (tmp_path / "texts" / "more").mkdir(parents=True)
    for name in ("b.txt", "more/a.txt"):
        (tmp_path / "texts" / name).write_text("the sea\n")
    for name in (".DS_Store", "~$b.txt", "Thumbs.db", "more/.hidden"):
        (tmp_path / "texts" / name).write_bytes(b"\0\0\0\1Bud1")
    return tmp_path / "texts"


def files(paths, **options):
    return [Path(partition.url).name for partition in read_corpus(paths, **options).partitions]


def test_a_folder_stands_for_its_files_without_hidden_ones(folder):
    assert files(folder) == files([folder / "b.txt", folder, folder / "*"]) == ["b.txt", "a.txt"]
    assert files(f"{folder}/**") == ["b.txt", "a.txt"]
    (folder / "more" / ".hidden").write_text("the sea\n")
    assert files(f"{folder}/more/.*") == [".hidden"]  # asked for by its name
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
    assert files(folder) == ["b.txt", "link.txt", "a.txt"]
    assert files(folder / "link.txt") == ["link.txt"]
    assert files(folder / "*") == ["b.txt", "link.txt"]
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
        assert files(folder, bad_records="skip") == ["b.txt", "a.txt"]
    with pytest.raises(CorpusError, match="is empty"):
        read_corpus([folder / "c.txt"], bad_records="skip")


def test_a_name_that_is_not_utf8_is_named_or_left_out(folder):
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("the sea\n")
    with pytest.raises(CorpusError, match=r"caf\\xe9\.txt has a name that is not UTF-8; rename the file"):
        read_corpus(folder)
    with pytest.warns(UserWarning, match=r"left out: \S*caf\\xe9\.txt has a name"):
        assert files(folder, bad_records="skip") == ["b.txt", "a.txt"]
    assert list(stamps_at(str(folder))) == ["b.txt", "caf\\xe9.txt", "more/a.txt"]


def test_a_plan_reads_no_further_than_the_beginning_of_a_file(tmp_path):
    packed = gzip.compress(np.random.default_rng(0).bytes(1_000_000).hex().encode())
    corpus = read_corpus(write(tmp_path / "a.txt.gz", packed[: len(packed) // 2]))
    with pytest.raises(CorpusError, match="cannot be read to its end"):
        corpus.tokenize()


def test_a_name_that_the_locale_cannot_spell(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsencode", lambda name: name.encode("ascii"))
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "ascii")
    with pytest.raises(OSError, match=r"cannot be represented in ascii.*set PYTHONUTF8=1"):
        read_corpus(tmp_path / "ä*.txt")


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
def test_bad_json_is_refused_with_its_line_or_left_out(tmp_path, request, line, message):
    gc.disable()  # what Python finalizes at the depth of the nested line fails for want of stack
    request.addfinalizer(gc.enable)
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


# ---- what is no tokenizer, vocabulary, list of words, table, part or list of texts -----------------------------


def tokenizer(**options):
    return lambda _: Tokenizer(**options)("some text")


def names(content):
    return lambda folder: Tokenizer(phrases_file=write(folder / "names.txt", content))("some text")


def stop_words(text):
    return lambda folder: stop_words_of("none", file=write(folder / "liste.txt", text.encode("cp1252")))


def vocabulary(**options):
    return lambda _: de.build_vocabulary(["cat dog", "cat"], **options)


def vocabulary_of(data):
    def load(folder):
        path = folder / "v.parquet"
        pq.write_table(pa.table(data), path) if isinstance(data, dict) else write(path, data)
        de.Vocabulary.load(path)

    return load


def metadata(text):
    def read(folder):
        table = write(folder / "meta.csv", text)
        source = write(folder / "a.txt", "some words")
        read_corpus(source, metadata=table, path_fields=["author"]).tokenize()

    return read


def paths(given):
    return lambda _: read_corpus(given)


def look(name, data, bad_records="error"):
    return lambda folder: inspect_corpus(read_corpus(write(folder / name, data), bad_records=bad_records))


def texts(given, **options):
    return lambda _: de.read_texts(given, **options)


def day(value):
    return lambda _: day_of(value, "the document 'carol'")


WORDS = ["a", "b"]
TEXTS = ["the sea", "", "the wind", "a ship"]
FRAME = pd.DataFrame({"label": ["s", "s", None, "t"], "text": TEXTS, "year": [1865, 1866, 1867, 1870]})
LAZY = dd.from_pandas(FRAME, npartitions=2)
XYZ = parts_by_value(["x", "y", "z"])
BINS = ["1800", "1850", "1900"]
IN_MEMORY = "for texts in memory use read_texts"
LATE = b'{"body": "a"}\n' * 3000 + b'{"text": "a"}\n'
KLINGON = "is 'klingon'; give the words themselves, or one of none, english"
NO_DATE = r"the document 'carol' has .*, which is no date: write a year"
CALLS = [
    (tokenizer(pattern="[a-z"), ValueError, '"module:function"'),
    (tokenizer(border="page"), ValueError, '"sentence"'),
    (tokenizer(normalization="nfd"), ValueError, '"nfkc"'),
    (tokenizer(min_border_tokens=0), ValueError, "min_border_tokens is 0: give an integer of 1 or more"),
    (tokenizer(lowercase="no"), ValueError, "true or false"),
    (tokenizer(pattern="no.such:thing"), ValueError, "cannot be imported"),
    (tokenizer(pattern="math:pi"), TypeError, '"math:pi" is of type float: name a function'),
    (tokenizer(pattern=len), CorpusError, "'int' object is not iterable; correct the function"),
    (tokenizer(pattern=lambda _: [5]), TypeError, "word 5, which is int"),
    (tokenizer(phrases_file="no/names.txt"), CorpusError, r"names\.txt \(phrases_file\) cannot be read"),
    (names(b"Ford\n3M\n"), CorpusError, r"\(phrases_file\) has no name of several words: write one name per line"),
    (names(b"new york\n\xff\xfe x\n"), CorpusError, r"names\.txt.*is not UTF-8|names\.txt.*0xff"),
    (stop_words("der die\n"), ValueError, "line 1, has 'der die'; give one"),
    (stop_words("# nothing\n"), ValueError, "has no stop word"),
    (stop_words("für\nähm\nüber\nmöchte\nfähig\n"), ValueError,
     "is not utf-8: line 1 .* It may be cp1252: correct it, or save it"),
    (vocabulary(min_count=99999), CorpusError, r"min_count is 99999 and the largest count of a word is \d+"),
    (vocabulary(min_count=0), ValueError, "give an integer of 1 or more"),
    (vocabulary(max_size=0), ValueError, "give an integer of 1 or more"),
    (vocabulary(min_documents=0.5), TypeError, "min_documents is 0.5; give a number of documents, or a share"),
    (vocabulary(keep="cat"), TypeError, "keep is the text 'cat'; give a list of words"),
    (vocabulary(min_documents=11), ValueError, "None of 2 words is in 11 or more documents"),
    (vocabulary(stop_words="klingon"), ValueError, KLINGON),
    (vocabulary_of({"word": ["a", "a"], "count": [3, 2]}), ValueError, 't: The word "a" is in the vocabulary twice'),
    (vocabulary_of({"word": WORDS, "count": [2.5, 1]}), ValueError, r": .* count, of whole numbers, .* but .*2\.5"),
    (vocabulary_of({"word": WORDS, "n": [2, 1]}), ValueError, ": a vocabulary needs the columns .*count"),
    (vocabulary_of({"word": ["a", None], "count": [2, 1]}), ValueError, "parquet: row 2 has no word; give it one"),
    (vocabulary_of({"word": WORDS, "count": [2, -1]}), ValueError,
     "parquet: Entry 2 of the vocabulary is the word 'b' with the count -1"),
    (vocabulary_of({"word": WORDS, "count": [2, None]}), ValueError, "parquet: row 2 has no count; give it one"),
    (vocabulary_of(b"a 3\n"), ValueError, r"cannot be read as a Parquet file .* copy or write it again"),
    (lambda folder: de.Vocabulary.load(folder / "v.parquet"), FileNotFoundError, "No such file"),
    (lambda _: de.Vocabulary(WORDS, [2], [1, 1]), ValueError,
     "2 words, 1 counts and 2 document counts were given: give one"),
    (lambda _: de.Vocabulary(pa.array(["a", None]), [2, 1], [1, 1]), ValueError,
     "Entry 2 of the vocabulary is the word None with the count 1"),
    (metadata("file;year\na;1\na;2\n"), CorpusError, 'has two rows of file "a"'),
    (metadata("file\na\n"), CorpusError, "has one column, file"),
    (metadata("file,n_tokens\na,1\n"), CorpusError, 'the column "n_tokens" twice'),
    (metadata("file,author\na,1\n"), CorpusError, 'the column "author" twice'),
    *((day(value), ValueError, NO_DATE) for value in ("old", "1843-13", "1843-02-30", "19.12.1843", "", "18430")),
    (lambda _: parts_by_date(["1843"], ["1800", "1850", "1850"], ["a"]), ValueError,
     r"parts\.bins has 1850 before 1850: give dates that rise"),
    (lambda _: chosen_parts(XYZ, ["x", "x"]), ValueError, r"parts\.names has 'x' twice: name each part once"),
    (lambda _: chosen_parts(XYZ, ["q"]), ValueError, r"parts\.names has 'q'; the parts of the corpus are x, y, z"),
    (lambda _: deal_groups(parts_by_date(["1801", "1802"], BINS, ["a", "b"]), ["a", "b"], 8, 0), ValueError,
     r"the part '1850-1899' has no documents: give other bins"),
    (lambda _: deal_groups(parts_by_value(["x", "x", "y"]), list("abc"), 8, 0), ValueError,
     r"the part 'y' has one document or file alone, 'c'"),
    # what a run would refuse a plan does; after a thousand bad records it is no good beginning
    (look("c.jsonl", LATE), CorpusError, 'has no field "text"'),
    (look("c.jsonl", LATE, "skip"), CorpusError, 'has no field "text"'),
    (look("d.jsonl", b'{"body": "a"}\n', "skip"), CorpusError, 'byte 0, has no field "text"'),
    (look("e.txt", b"some caf\xe9\n"), CorpusError, "line 1, byte 0xe9 at offset 8"),
    (paths(["a.txt", 7]), TypeError, f"number 1 is of the type int.*{IN_MEMORY}"),
    (paths([b"a.txt"]), TypeError, f"number 0 is of the type bytes.*{IN_MEMORY}"),
    (paths(pd.Series(["a.txt"])), TypeError, f"read_corpus takes paths, and a Series was given.*{IN_MEMORY}"),
    (paths(["The sea.\nThe wind."]), ValueError, rf"'The sea.\\nThe wind.', is a text and no path or URL.*{IN_MEMORY}"),
    (paths(["http://127.0.0.1:9/x was the page"]), ValueError, f"is a text and no path or URL.*{IN_MEMORY}"),
    (texts("the sea"), TypeError, "one text was given where a list of texts is needed: put it into brackets"),
    (texts(b"the sea"), TypeError, "one text was given"),
    (texts(de.read_texts(TEXTS)), TypeError, "a corpus was given where texts are needed"),
    (texts([]), ValueError, "there is no text: give at least one"),
    (texts(LAZY[LAZY["year"] < 0]["text"]), ValueError, "there is no text"),
    (texts(["the sea", 3.5]), TypeError, "text 1 is 3.5, of type float: give texts"),
    (texts([*TEXTS, b"\xff"]), TypeError, "text 4 is b'.*', of type bytes: give texts"),
    (texts([1, 2]), TypeError, "text 0 is 1, of type int: give texts"),
    (texts(np.array([TEXTS, TEXTS])), TypeError, r"text 0 is \['the sea', '', 'the wind', 'a ship'\], of type list"),
    (texts(["a", "half \ud800"]), ValueError, "text 1 is not valid Unicode"),
    (texts({"a": "the sea"}), TypeError, "a dict was given where texts are needed"),
    (texts({"the sea"}), TypeError, "a set was given where texts are needed"),
    (texts(7), TypeError, "a int was given where texts are needed"),
    (texts(Path("a.txt")), TypeError, "a (Posix|Windows)Path was given where texts are needed"),
    (texts(FRAME[["label", "year"]]), ValueError, r"no column 'text' \(it has label, year\): give text_field="),
    (texts(LAZY, label_field="kind"), ValueError, "no column 'kind' .*: give label_field="),
    (texts(TEXTS, label_field="kind"), ValueError, r"no column 'kind' \(it has text\): give label_field="),
    (texts(pd.concat([FRAME, FRAME], axis=1)), ValueError, "has the column 'label' twice: rename one"),
    (texts(FRAME.assign(tags=[["a"]] * 4)), TypeError, "the column 'tags' cannot be written as text"),
    (texts(FRAME.assign(mixed=["a", 1, 2.0, []])), TypeError, "the column 'mixed' cannot be written as text"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), CALLS)
def test_what_is_none_of_what_is_asked_for_is_refused(tmp_path, call, error, message):
    with pytest.raises(error, match=message):
        call(tmp_path)
