"""What documents keep beside their text: files as documents, parts of paths, carried fields, a table of metadata."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.corpus.partitions import read_partition
from distembed.corpus.readers import Corpus, read_corpus
from distembed.corpus.records import CorpusError

NOVELS = {
    "gaskell/1865/wives.txt": "Molly\n\nand Roger.\n",
    "hardy/1874/crowd.txt": "\ufeffBathsheba and Gabriel.",
}


@pytest.fixture
def novels(tmp_path: Path) -> Path:
    for name, text in NOVELS.items():
        file = tmp_path / "novels" / name
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path / "novels"


def rows(corpus: de.Corpus) -> list[dict[str, Any]]:
    tokens = corpus.tokenize()
    return [row for partition in tokens.partitions for row in tokens.documents(partition).to_pylist()]


def test_a_file_is_a_document_with_its_path_as_id(novels: Path) -> None:
    """Blank lines do not divide it, its title is its name, and a byte-order mark is no text."""
    found = list(de.read_corpus(novels, layout="file").documents())
    assert [(one.id, one.title, one.text) for one in found] == [
        ("gaskell/1865/wives.txt", "wives", NOVELS["gaskell/1865/wives.txt"]),
        ("hardy/1874/crowd.txt", "crowd", NOVELS["hardy/1874/crowd.txt"].removeprefix("\ufeff")),
    ]


def test_the_last_folders_of_a_path_are_columns(novels: Path) -> None:
    found = rows(de.read_corpus(novels, layout="file", path_fields=("author", "year")))
    assert [(row["author"], row["year"]) for row in found] == [("gaskell", "1865"), ("hardy", "1874")]


@pytest.mark.parametrize(
    "key", ["gaskell/1865/wives.txt", "gaskell/1865/wives", "wives.txt", "wives", "doc-1"]
)
def test_a_table_is_joined_by_file_or_id(novels: Path, key: str, tmp_path: Path) -> None:
    """A title of the table is the document's own; a document without a row has nothing, and is counted."""
    table = tmp_path / "meta.csv"
    table.write_text(f"gender,File,title\nf,{key},Wives and Daughters\nm,other,Other\n", encoding="utf-8")
    if key == "doc-1":
        lines = [{"id": "doc-1", "text": "a"}, {"id": "doc-2", "text": "b"}]
        source = tmp_path / "d.jsonl"
        source.write_text("\n".join(map(json.dumps, lines)))
        corpus = de.read_corpus(source, id_field="id", metadata=table)
    else:
        corpus = de.read_corpus(novels, layout="file", metadata=table)
    first, second = rows(corpus)
    assert (first["title"], first["gender"]) == ("Wives and Daughters", "f")
    assert second["gender"] is None
    assert second["title"] == ("" if key == "doc-1" else "crowd")
    parts = corpus.tokenize().partitions
    assert sum(corpus.columns.join(read_partition(part, "documents"))[1] for part in parts) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("file,year\na,1\na,2\n", 'has two rows of file "a"'),
        ("file\na\n", "has one column, file"),
        ("file,n_tokens\na,1\n", 'the column "n_tokens" twice'),
        ("file,author\na,1\n", 'the column "author" twice'),
    ],
)
def test_a_table_that_does_not_fit_is_refused(novels: Path, text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "meta.csv").write_text(text)
    with pytest.raises(CorpusError, match=sentence):
        rows(de.read_corpus(novels, metadata=tmp_path / "meta.csv", path_fields=["author"]))


def test_fields_are_carried_along_from_every_format(tmp_path: Path) -> None:
    """Numbers become text, nulls stay nulls, and a name with dots leads into JSON."""
    records = [{"text": "one", "meta": {"year": 1865, "by": "G"}}, {"text": "two", "meta": {"by": None}}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    found = rows(de.read_corpus(tmp_path / "a.jsonl", carry_fields=("meta.year", "meta.by")))
    assert [(row["meta.year"], row["meta.by"]) for row in found] == [("1865", "G"), (None, None)]
    (tmp_path / "a.csv").write_text("text,year,by\none,1865,G\ntwo,,\n")
    pq.write_table(
        pa.table({"text": ["one", "two"], "year": [1865, None], "by": ["G", None]}), tmp_path / "a.parquet"
    )
    for name in ("a.csv", "a.parquet"):
        found = rows(de.read_corpus(tmp_path / name, carry_fields=("year", "by")))
        assert [(row["year"], row["by"]) for row in found] == [("1865", "G"), (None, None)]


def test_the_text_of_json_may_lie_inside_other_fields(tmp_path: Path) -> None:
    """A field whose own name has dots comes first."""
    records = [{"doc": {"body": {"text": "inside"}}}, {"doc.body.text": "flat", "doc": {}}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    found = de.read_corpus(tmp_path / "a.jsonl", text_field="doc.body.text")
    assert [document.text for document in found.documents()] == ["inside", "flat"]


def test_the_protocol_of_a_url_is_no_folder():
    import fsspec

    fsspec.filesystem("memory").pipe("/shelf/b/x.txt", b"one two\n")
    tokens = de.read_corpus("memory://shelf/b/x.txt", path_fields=("first", "second")).tokenize()
    [row] = tokens.documents(tokens.partitions[0]).to_pylist()
    assert (row["first"], row["second"]) == ("shelf", "b")
    with pytest.raises(CorpusError, match="lies in 2 folders"):
        de.read_corpus("memory://shelf/b/x.txt", path_fields=("scheme", "first", "second"))


# ---- CSV and TSV ---------------------------------------------------------------------------------------------------


CSV_ROWS = [("a1", 'Er sagte: "Äpfel; Birnen"', "x"), ("a2", "zwei\nZeilen, mit Komma", "y"), ("a3", "", "x")]


def quoted(delimiter, rows=CSV_ROWS, end="\r\n"):
    lines = [("id", "body", "kind"), *rows]
    return "".join(delimiter.join('"' + f.replace('"', '""') + '"' for f in row) + end for row in lines)


def read(path, **options):
    names = {"text_field": "body", "id_field": "id", "label_field": "kind"}
    return list(read_corpus(path, **{**names, **options}).documents())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_every_delimiter_and_encoding_is_found(tmp_path, delimiter, encoding):
    (tmp_path / "d.csv").write_bytes(quoted(delimiter).encode(encoding))
    found = read(tmp_path / "d.csv", encoding="cp1252" if encoding == "cp1252" else None)
    assert [(d.id, d.text, d.label) for d in found] == [tuple(row) for row in CSV_ROWS]


def test_rows_are_documents_however_they_are_stored(tmp_path):
    many = [(f"n{k}", f"wort{k} " * 300, "") for k in range(2000)]
    with gzip.open(tmp_path / "d.csv.gz", "wt", newline="") as file:
        file.write(quoted(",", many, "\n"))
    found = read(tmp_path / "d.csv.gz")
    assert [(d.id, d.text, d.label) for d in found] == [(a, b, None) for a, b, _ in many]
    assert read(tmp_path / "d.csv.gz", id_field=None)[1].id == "d.csv.gz:2"


def test_quotes_of_tsv_are_characters(tmp_path):
    (tmp_path / "d.tsv").write_text('id\tbody\tkind\n1\t"5 inch" screens\tz\n2\tan "open quote\t\n')
    assert [d.text for d in read(tmp_path / "d.tsv")] == ['"5 inch" screens', 'an "open quote']
    (tmp_path / "q.tsv").write_text(quoted("\t"))
    assert [d.text for d in read(tmp_path / "q.tsv", format="csv")] == [row[1] for row in CSV_ROWS]


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
    (tmp_path / "d.csv").write_bytes(data)
    names = {"text_field": "body", "id_field": "id", "label_field": "kind"}
    (partition,) = read_corpus(tmp_path / "d.csv", bad_records="skip", **names).partitions
    found = [document.text for document in Corpus((replace(partition, piece_bytes=piece_bytes),)).documents()]
    assert found[: len(texts)] == texts
    if message:
        assert len(found) == len([line for line in data.split(b"\n")[1:] if line.strip(b"\r")]) - 1
        with pytest.raises(CorpusError, match=rf"d\.csv, {message}"):
            read(tmp_path / "d.csv")


def test_a_header_beyond_what_is_sniffed_is_read(tmp_path):
    genes = ",".join(f"ENSG{gene:020}" for gene in range(12_000))
    (tmp_path / "d.csv").write_text(f"id,{genes},body,kind\n1{',0' * 12_000},ein Text,x\n")
    assert [(d.id, d.text, d.label) for d in read(tmp_path / "d.csv")] == [("1", "ein Text", "x")]
