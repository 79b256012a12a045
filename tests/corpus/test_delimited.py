"""CSV and TSV files as corpora: delimiters, quotes, encodings, bad rows and missing columns."""

from __future__ import annotations

import gzip

import pytest

from distembed.corpus.errors import CorpusError
from distembed.corpus.readers import read_corpus

ROWS = [("a1", 'Er sagte: "Äpfel; Birnen"', "x"), ("a2", "zwei\nZeilen, mit Komma", "y"), ("a3", "", "x")]


def quoted(delimiter, rows=ROWS, end="\r\n"):
    lines = [("id", "body", "kind"), *rows]
    return "".join(delimiter.join('"' + f.replace('"', '""') + '"' for f in row) + end for row in lines)


def read(path, **options):
    names = {"text_field": "body", "id_field": "id", "label_field": "kind"}
    return list(read_corpus(path, **{**names, **options}).documents())


@pytest.mark.filterwarnings("ignore:.*taken for Windows-1252")
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_every_delimiter_and_encoding_is_found(tmp_path, delimiter, encoding):
    (tmp_path / "d.csv").write_bytes(quoted(delimiter).encode(encoding))
    found = read(tmp_path / "d.csv")
    assert [(d.id, d.text, d.label) for d in found] == [tuple(row) for row in ROWS]


@pytest.mark.parametrize("first", ["sep=|\r\n", '"sep=|"\n'])
def test_the_line_that_names_the_separator_for_excel_is_no_header(tmp_path, first):
    rows = [*ROWS, ("a4", "ends here", "x")]
    (tmp_path / "d.csv").write_bytes((first + quoted("|", rows)).encode("utf-8-sig"))
    assert [document.text for document in read(tmp_path / "d.csv")] == [row[1] for row in rows]
    (tmp_path / "d.csv").write_text(first + "id|body|kind\n1|two\n")
    with pytest.raises(CorpusError, match="line 3, has 2 fields"):
        read(tmp_path / "d.csv")


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
    assert [d.text for d in read(tmp_path / "q.tsv", quotes="double")] == [row[1] for row in ROWS]


BAD = {
    "1,ein Text,x\n2,zu,viele,Felder\n": "line 3, has 4 fields and the header has 3;",
    '1,"ein" Text,x\n': "line 2, is no row of fields",
    "1,\udcff,x\n": "line 2, is not UTF-8; correct the row, or give errors=",
}


@pytest.mark.parametrize(("rows", "message"), BAD.items(), ids=["width", "quote", "bytes"])
def test_a_bad_row_is_named_or_left_out(tmp_path, rows, message):
    path, text = tmp_path / "d.csv", f"id,body,kind\n{rows}3,noch einer,y\n"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(CorpusError, match=message):
        read(path, encoding="utf-8")
    assert "noch einer" in [d.text for d in read(path, encoding="utf-8", bad_records="skip")]
    with pytest.raises(CorpusError, match=r"corpus\.(delimiter or corpus\.quotes|errors = \"replace\")"):
        read(path, encoding="utf-8", section="corpus")


def test_a_quote_that_is_never_closed_is_not_skipped(tmp_path):
    (tmp_path / "d.csv").write_text('id,body,kind\n1,gut,x\n2,"offen,y\n3,verloren,z\n')
    with pytest.raises(CorpusError, match=r'line 3, has a quote that is never closed; .* quotes="none"'):
        read(tmp_path / "d.csv", bad_records="skip")


def test_missing_columns_are_named_before_anything_is_read(tmp_path):
    (tmp_path / "d.csv").write_text(quoted(";"))
    message = r'd\.csv has no column "text" \(it has id, body, kind\); give text_field=\.'
    with pytest.raises(CorpusError, match=message):
        read_corpus(tmp_path / "d.csv")
    with pytest.raises(CorpusError, match=r'no column "who" .* give corpus\.id_field\.'):
        read_corpus(tmp_path / "d.csv", text_field="body", id_field="who", section="corpus")
    (tmp_path / "twice.csv").write_text("text,text\na,b\n")
    with pytest.raises(CorpusError, match='has the column "text" twice; rename one'):
        read_corpus(tmp_path / "twice.csv")
    (tmp_path / "mac.csv").write_bytes(b"id,text\r1,a\r")
    with pytest.raises(CorpusError, match=r"carriage returns alone; convert it: tr '\\r' '\\n'"):
        read_corpus(tmp_path / "mac.csv")
    with pytest.raises(ValueError, match=r"delimiter is 'tab'; give one character"):
        read(tmp_path / "d.csv", delimiter="tab")
