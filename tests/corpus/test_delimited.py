"""CSV and TSV files as corpora: delimiters, quotes, encodings, bad rows and missing columns."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from distembed.corpus.readers import Corpus, read_corpus
from distembed.corpus.records import CorpusError

ROWS = [("a1", 'Er sagte: "Äpfel; Birnen"', "x"), ("a2", "zwei\nZeilen, mit Komma", "y"), ("a3", "", "x")]


def quoted(delimiter, rows=ROWS, end="\r\n"):
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
    assert [(d.id, d.text, d.label) for d in found] == [tuple(row) for row in ROWS]


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
    assert [d.text for d in read(tmp_path / "q.tsv", format="csv")] == [row[1] for row in ROWS]


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
