"""Records of every format are the same documents, whole and split; what a plan says of them before it reads them."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.corpus import inspection, planning, records, tables
from distembed.corpus.inspection import inspect_corpus, sample_text
from distembed.corpus.partitions import open_partition, read_partition, tokenize_partition
from distembed.corpus.readers import Corpus, read_corpus
from distembed.corpus.records import CorpusError
from tests.corpus.conftest import COMPRESS, HEAD, page, write


def rows(corpus):
    tokens = corpus.tokenize()
    return [row for partition in tokens.partitions for row in tokens.documents(partition).to_pylist()]


@pytest.mark.parametrize("extension", COMPRESS)
def test_compressed_text(tmp_path, extension):
    lines = [f"line {k} with words" for k in range(5000)]
    path = write(tmp_path / f"text.txt{extension}", COMPRESS[extension]("\n".join(lines).encode()))
    assert [document.text for document in read_corpus(path).documents()] == lines


FIELDS = ("key", "title", "body", "kind", "year")
ROWS = [
    (None, "One", 'two, "é"', "x", 1865),
    ("b", None, "three\nzweite", None, None),
    ("c", "four", None, "y", 1867),
    ("d", None, None, "x", 1868),  # keeps its place: those after it got the ids of the texts before them
    *((f"n{k}", f"Titel {k}", "ein Wort" * 300, "z", k) for k in range(200)),
]


def stored(path, rows):
    """Write rows as what the name of a file says; in Parquet, behind a file without any row group."""
    found = [dict(zip(FIELDS, row, strict=True)) for row in rows]
    if path.suffix == ".parquet":
        table = pa.Table.from_pylist(found)
        pq.ParquetWriter(path.with_name("a.parquet"), table.schema).close()
        pq.write_table(table, path, row_group_size=40, compression="none", use_dictionary=False)
    elif path.suffix == ".jsonl":
        write(path, codecs.BOM_UTF8 + "\n".join(map(json.dumps, found)).encode() + b"\n\n")
    else:
        csv.writer(text := io.StringIO()).writerows([FIELDS, *rows])
        write(path, gzip.compress(text.getvalue().encode()))


@pytest.mark.parametrize(
    ("name", "place", "is_divided"),
    [("d.jsonl", "d.jsonl:0", True), ("d.csv.gz", "d.csv.gz:1", False), ("d.parquet", "d.parquet:0.0", True)],
)
def test_records_are_the_same_documents_in_every_format_whole_and_split(tmp_path, name, place, is_divided):
    """Numbers become text, the fields of a text are joined, and a null text is an empty document."""
    stored(tmp_path / name, ROWS)
    options = {
        "id_field": "key",
        "title_field": "title",
        "label_field": "kind",
        "text_field": ("title", "body"),
    }
    whole = list(read_corpus(tmp_path, **options).documents())
    assert [(*one[:3], one.text.strip()) for one in whole] == [
        (key or place, title or "", kind, "\n".join(filter(None, (title, body))))
        for key, title, body, kind, _ in ROWS
    ]
    split = read_corpus(tmp_path, partition_bytes=1 << 14, carry_fields=["year", "kind"], **options)
    assert (len(split.partitions) > 2) == is_divided
    assert list(split.documents()) == whole
    found = [(row["year"], row["label"]) for row in rows(split)]
    assert found == [(year if year is None else str(year), kind) for *_, kind, year in ROWS]


def test_a_name_with_dots_leads_into_json(tmp_path):
    """A field whose own name has dots comes first."""
    found = [
        {"doc": {"body": {"text": "inside"}}, "meta": {"year": 1865, "by": "G"}},
        {"doc.body.text": "flat", "doc": {}, "meta": {"by": None}},
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, found)))
    corpus = read_corpus(path, text_field="doc.body.text", carry_fields=("meta.year", "meta.by"))
    assert [document.text for document in corpus.documents()] == ["inside", "flat"]
    assert [(row["meta.year"], row["meta.by"]) for row in rows(corpus)] == [("1865", "G"), (None, None)]


def test_files_of_one_name_have_their_folders_in_the_ids(tmp_path):
    """Below the folder that was given, or, where several were, below the one that they have in common."""
    names = ["d/a/x.txt", "d/b/c/x.txt", "d/x.txt", "y.txt"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one\ntwo\n")
    for paths, layout, ids in (
        (tmp_path, "line", [f"{name}:{offset}" for name in names for offset in (0, 4)]),
        ([tmp_path / "d/a", tmp_path / "y.txt"], "blocks", ["x.txt:0", "y.txt:0"]),
        ([tmp_path / "d/a", tmp_path / "d/b/c"], "file", ["a/x.txt", "b/c/x.txt"]),
    ):
        assert [document.id for document in read_corpus(paths, layout=layout).documents()] == ids


def test_remote_files_are_read_and_a_store_that_fails_is_named(monkeypatch):
    """The protocol of a URL is no folder."""
    filesystem, url = fsspec.filesystem("memory"), "memory://shelf/b/x.txt"
    filesystem.pipe("/shelf/b/x.txt", b"one two\nthree\n")
    corpus = read_corpus("memory://shelf/b/*.txt", partition_bytes=4, path_fields=("first", "second"))
    assert [(row["first"], row["second"], row["n_tokens"]) for row in rows(corpus)] == [
        ("shelf", "b", 2),
        ("shelf", "b", 1),
    ]
    with pytest.raises(CorpusError, match="lies in 2 folders"):
        read_corpus(url, path_fields=("scheme", "first", "second"))
    tokenize_partition(corpus.partitions[0], corpus.tokenizer, "memory://parts/part-0")
    assert filesystem.exists("/parts/part-0.tokens.parquet")
    assert not [name for name in filesystem.ls("/parts", detail=False) if "partial" in name]

    def fail(*_args, **_options):
        raise OSError(5, "SlowDown")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.exists", fail)
    message = r"store of memory://parts/part-0\.tokens\.parquet failed.*SlowDown"
    with pytest.raises(ConnectionError, match=message):
        open_partition("memory://parts/part-0", "tokens")


LONG = "long " * 500
TOO_LONG = {
    "t.jsonl": (f'{{"text": "one"}}\n{{"text": "{LONG}"}}\n{{"text": "two"}}', r"line [23]"),
    "t.csv": (f"text\none\n{LONG}\ntwo\n", r"line [23]"),
    "t.xml": (HEAD + page(1, "one") + page(2, LONG) + page(3, "two") + "</mediawiki>", "line 18"),
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_a_record_too_long_to_be_held_is_a_bad_one(tmp_path, monkeypatch, name):
    data, place = TOO_LONG[name]
    monkeypatch.setattr(tables, "RECORD_BYTES", 2000)
    monkeypatch.setattr(records, "RECORD_BYTES", 2000)
    monkeypatch.setattr(records.blocks_of, "__kwdefaults__", {"limit": 2000})
    (partition,) = read_corpus(write(tmp_path / name, data), bad_records="skip").partitions
    partition = replace(partition, piece_bytes=500)
    if name != "t.csv":  # whose rows are found by their quotes
        assert [document.text for document in Corpus((partition,)).documents()] == ["one", "two"]
    with pytest.raises(CorpusError, match=rf"{place}, has over .* give the text as plain text or Parquet"):
        list(Corpus((replace(partition, bad_records="error"),)).documents())


# ---- what documents keep beside their text ---------------------------------------------------------------------


NOVELS = {
    "gaskell/1865/wives.txt": "Molly\n\nand Roger.\n",
    "hardy/1874/crowd.txt": "\ufeffBathsheba and Gabriel.",
}


@pytest.fixture
def novels(tmp_path):
    for name, text in NOVELS.items():
        file = tmp_path / "novels" / name
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path / "novels"


def test_a_file_is_a_document_with_its_path_as_id_and_its_last_folders_as_columns(novels):
    """Blank lines do not divide it, its title is its name, and a byte-order mark is no text."""
    corpus = read_corpus(novels, layout="file", path_fields=("author", "year"))
    assert [(one.id, one.title, one.text) for one in corpus.documents()] == [
        ("gaskell/1865/wives.txt", "wives", NOVELS["gaskell/1865/wives.txt"]),
        ("hardy/1874/crowd.txt", "crowd", NOVELS["hardy/1874/crowd.txt"].removeprefix("\ufeff")),
    ]
    assert [(row["author"], row["year"]) for row in rows(corpus)] == [("gaskell", "1865"), ("hardy", "1874")]


@pytest.mark.parametrize(
    "key", ["gaskell/1865/wives.txt", "gaskell/1865/wives", "wives.txt", "wives", "doc-1"]
)
def test_a_table_is_joined_by_file_or_id(novels, key, tmp_path):
    """A title of the table is the document's own; a document without a row has nothing, and is counted."""
    table = write(tmp_path / "meta.csv", f"gender,File,title\nf,{key},Wives and Daughters\nm,other,Other\n")
    if key == "doc-1":
        source = write(tmp_path / "d.jsonl", '{"id": "doc-1", "text": "a"}\n{"id": "doc-2", "text": "b"}\n')
        corpus = read_corpus(source, id_field="id", metadata=table)
    else:
        corpus = read_corpus(novels, layout="file", metadata=table)
    first, second = rows(corpus)
    assert (first["title"], first["gender"]) == ("Wives and Daughters", "f")
    assert (second["title"], second["gender"]) == ("" if key == "doc-1" else "crowd", None)
    parts = corpus.tokenize().partitions
    assert sum(corpus.columns.join(read_partition(part, "documents"))[1] for part in parts) == 1


# ---- CSV and TSV -----------------------------------------------------------------------------------------------


NAMES = {"text_field": "body", "id_field": "id", "label_field": "kind"}
CSV_ROWS = [("a1", 'Er sagte: "Äpfel; Birnen"', "x"), ("a2", "zwei\nZeilen, mit Komma", "y"), ("a3", "", "x")]


def quoted(delimiter):
    lines = [("id", "body", "kind"), *CSV_ROWS]
    return "".join(delimiter.join('"' + f.replace('"', '""') + '"' for f in row) + "\r\n" for row in lines)


def read(path, **options):
    return [(d.id, d.text, d.label) for d in read_corpus(path, **NAMES, **options).documents()]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_every_delimiter_and_encoding_is_found(tmp_path, delimiter, encoding):
    path = write(tmp_path / "d.csv", quoted(delimiter).encode(encoding))
    assert read(path, encoding="cp1252" if encoding == "cp1252" else None) == CSV_ROWS


def test_quotes_of_tsv_are_characters(tmp_path):
    path = write(tmp_path / "d.tsv", 'id\tbody\tkind\n1\t"5 inch" screens\tz\n2\tan "open quote\t\n')
    assert read(path) == [("1", '"5 inch" screens', "z"), ("2", 'an "open quote', None)]
    assert read(write(tmp_path / "q.tsv", quoted("\t")), format="csv") == CSV_ROWS


def test_a_header_beyond_what_is_sniffed_is_read(tmp_path):
    genes = ",".join(f"ENSG{gene:020}" for gene in range(12_000))
    path = write(tmp_path / "d.csv", f"id,{genes},body,kind\n1{',0' * 12_000},ein Text,x\n")
    assert read(path) == [("1", "ein Text", "x")]


WIDTH = "has {} fields and the header has 3; correct the row, or give delimiter="
NO_ROW = "is no row of fields"
DAMAGED = {
    "nul": (b"id,body,kind\n1,ein\0Text" + b" a" * 99 + b",x\n", ["ein\0Text" + " a" * 99], None),
    "long row": (b"id,body,kind\n1,a,x,\n2,b,y\n", ["b"], f"line 2, {WIDTH.format(4)}"),
    "short row": (b"id,body,kind\n1\n2,b,y\n", ["b"], f"line 2, {WIDTH.format(1)}"),
    "empty lines": (b"\n\r\nid,body,kind\r\n\r\n1,a,x\r\n\n2,b,y", ["a", "b"], None),
    "blank line": (b"id,body,kind\n \n1,a,x\n", ["a"], f"line 2, {WIDTH.format(1)}"),
    "quote inside": (b'id,body,kind\n1,5" wide,x\n2,b,y\n', ['5" wide'], None),
    "text after a quote": (b'id,body,kind\n1,"a" b,x\n2,"b",y\n', ["b"], f"line 2, {NO_ROW}"),
    "space before a quote": (b'id,body,kind\n1, "a",x\n', [' "a"'], None),
    "mark": (b"\xef\xbb\xbfid,body,kind\n1,a,x\n", ["a"], None),
    "lone return": (b"id,body,kind\n1,a\rb,x\n2,b,y\n", ["b"], f"line 2, {NO_ROW}"),
    "return in quotes": (b'id,body,kind\n1,"a\rb",x\n', ["a\rb"], None),
    "no line end": (b'id,body,kind\n1,"a",x', ["a"], None),
    "not utf-8": (b"id,body,kind\n1,a\xff,x\n2,b,y\n", ["b"],
                  'line 2, is not UTF-8 in column "body"; .*give encoding='),
    "utf-16": ("id,body,kind\n1,ä,x\n".encode("utf-16"), ["ä"], None),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("piece_bytes", [7, 1 << 20])
def test_damaged_tables_lose_their_bad_rows_and_no_other(tmp_path, name, piece_bytes):
    data, texts, message = DAMAGED[name]
    path = write(tmp_path / "d.csv", data)
    (partition,) = read_corpus(path, bad_records="skip", **NAMES).partitions
    found = [document.text for document in Corpus((replace(partition, piece_bytes=piece_bytes),)).documents()]
    assert found[: len(texts)] == texts
    if message:
        assert len(found) == len([line for line in data.split(b"\n")[1:] if line.strip(b"\r")]) - 1
        with pytest.raises(CorpusError, match=rf"d\.csv, {message}"):
            read(path)


def test_files_are_listed_by_kind_and_those_left_out_with_the_reason(tmp_path):
    """An archive, a page, and a text whose beginning does not decode are left out; the others are read."""
    for name in ("a.txt", "run.log", "old.log", "README"):
        (tmp_path / name).write_text("a line of text\n")
    (tmp_path / "page.html").write_text("<!doctype html><p>Ships sail.")
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.txt", "a.txt")
    (tmp_path / "bad.txt").write_bytes("äöü".encode() * 9 + b"\xff\n")
    with pytest.warns(UserWarning, match="left out"):
        corpus = read_corpus(tmp_path, bad_records="skip")
    found = inspect_corpus(corpus)
    assert {"files: 4 text", "words: a, line, of, text"} < {*found}
    [unknown] = [note for note in found if "no known extension, taken for text (format= sets" in note]
    assert unknown.endswith("): 2 .log (old.log, run.log), 1 without extension (README)")
    assert [Path(record.file).name for record in corpus.refused] == ["b.tar.gz", "bad.txt", "page.html"]
    assert "byte 0xff at offset 54" in corpus.refused[1].reason
    assert corpus.tokenize().n_documents == 4


def test_the_beginning_of_a_file_is_read_once_until_the_file_changes(tmp_path, monkeypatch):
    """A plan asks for the corpus of its job six times."""
    path, looked, look = tmp_path / "a.txt", [], planning._plan_file
    monkeypatch.setattr(
        planning, "_plan_file", lambda file, *a, **k: looked.append(file) or look(file, *a, **k)
    )
    path.write_text("naïve\n", encoding="utf-8")
    assert {read_corpus(path).partitions[0].encoding for _ in range(3)} == {"utf-8"}
    assert len(looked) == 1
    path.write_bytes("naïve ones\n".encode("utf-16"))
    assert read_corpus(path).partitions[0].encoding == "utf-16"


N_DOCUMENTS = 4000


def sampled(path, **options):
    corpus = de.read_corpus(path, **options)
    return sample_text(corpus.bundles, corpus.tokenizer)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz", "a.parquet"])
def test_a_small_corpus_is_counted_whole_and_a_part_of_one_stands_for_its_share_of_the_bytes(
    tmp_path, name, monkeypatch
):
    """Of documents of ten tokens: eight of two words of their own, one of all, and one that comes once."""
    texts = []
    for number in range(N_DOCUMENTS):
        own = f"{'abcdefghij'[number % 10] * 3} {'klmnopqrst'[number % 10] * 3} "
        texts.append(own * 4 + "all new" + "".join(chr(97 + int(digit)) for digit in str(number)))
    path, lines = tmp_path / name, "\n".join(texts).encode()
    if name == "a.parquet":
        pq.write_table(pa.table({"text": texts}), path, compression="none", use_dictionary=False)
    elif name == "a.jsonl":
        write(path, "\n".join(json.dumps({"text": text}) for text in texts))
    else:
        write(path, gzip.compress(lines) if name == "a.txt.gz" else lines)
    n_bytes = path.stat().st_size
    # A named function is not called.
    sample = sampled(path, tokenizer=de.Tokenizer(pattern="no.such.module:function"))
    assert (sample.n_documents, sample.n_tokens) == (N_DOCUMENTS, 10 * N_DOCUMENTS)
    assert sample.n_bytes == pytest.approx(n_bytes, rel=0.01)
    assert len(sample.counts) == 21 + N_DOCUMENTS
    assert sample.counts.max() == sample.document_counts.max() == N_DOCUMENTS
    if name in ("a.txt", "a.jsonl"):  # which are divided
        monkeypatch.setattr(inspection, "SAMPLE_BYTES", 1 << 15)
        monkeypatch.setattr(inspection, "SAMPLE_PIECE", 1 << 12)
        part, again = (sampled(path, partition_bytes=1 << 14) for _ in range(2))
        assert part.n_bytes < n_bytes / 2
        assert pytest.approx(part.n_tokens * n_bytes / part.n_bytes, rel=0.3) == 10 * N_DOCUMENTS
        np.testing.assert_array_equal(part.counts, again.counts)
