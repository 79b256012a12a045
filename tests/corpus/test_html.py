"""HTML pages are documents without their markup, and a folder of all sorts of files says what each is taken for."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import distembed as de
from distembed.corpus.errors import CorpusError
from distembed.corpus.inspection import inspect_corpus
from distembed.formats.encodings import declared_encoding

PAGE = """<!DOCTYPE html><html><head><title>Ships &amp;
 the sea</title><style>.class { color: red }</style><script>var x = "<p>no</p>";</script></head>
<body class="a"><p>Ships <b>sa</b>il.</p><ul><li>one</li><li>two</li></ul><script>more()</script>
caf&eacute; &lt;here&gt;</body></html>"""


def document(path: Path, **options: str) -> de.corpus.Document:
    [found] = de.read_corpus(path, **options).documents()
    return found


@pytest.mark.parametrize("name", ["page.html", "page.HTM", "page", "page.txt", "page.html.gz"])
def test_a_page_is_its_text(tmp_path: Path, name: str) -> None:
    """Inline elements part no words and others do; entities are characters; scripts and styles are no text."""
    data = PAGE.encode()
    if name.endswith(".gz"):
        import gzip

        data = gzip.compress(data)
    (tmp_path / name).write_bytes(data)
    found = document(tmp_path / name)
    assert (found.id, found.title) == (name, "Ships & the sea")
    assert found.text.split() == ["Ships", "sail.", "one", "two", "café", "<here>"]


def test_a_page_that_is_asked_for_as_text_is_text(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    docs = de.read_corpus(tmp_path / "page.html", format="text")
    assert "class" in de.build_vocabulary(docs).words
    docs = de.read_corpus(tmp_path / "page.html")
    assert sorted(de.build_vocabulary(docs).words) == ["café", "here", "one", "sail", "ships", "two"]


@pytest.mark.parametrize("n_bytes", [1, 3, 7, 64])
def test_the_pieces_of_a_page_make_no_difference(tmp_path: Path, n_bytes: int) -> None:
    from dataclasses import replace

    from distembed.corpus.readers import documents_of

    (tmp_path / "page.html").write_text(PAGE.replace("&eacute;", "é"), encoding="utf-8")
    [partition] = de.read_corpus(tmp_path / "page.html").partitions
    [found] = documents_of(replace(partition, piece_bytes=n_bytes))
    assert found.title == "Ships & the sea"
    assert found.text.split() == ["Ships", "sail.", "one", "two", "café", "<here>"]


def test_a_page_may_declare_its_encoding(tmp_path: Path) -> None:
    page = '<html><meta http-equiv="Content-Type" content="text/html; charset=iso-8859-2"><p>Łódź'
    (tmp_path / "page.html").write_bytes(page.encode("iso-8859-2"))
    assert document(tmp_path / "page.html").text.split() == ["Łódź"]
    assert declared_encoding(b'<meta charset="klingon">') is None
    assert declared_encoding(b"<p>no</p>") is None


@pytest.mark.parametrize("left", ["<!-- open", "<a href='x", "<!--<!--<a <b", "</p"])
def test_what_is_open_at_the_end_of_a_page_is_no_text(tmp_path: Path, left: str) -> None:
    (tmp_path / "page.html").write_text(f"<html><p>one &lt; two</p>{left}")
    assert document(tmp_path / "page.html").text.split() == ["one", "<", "two"]


def test_a_damaged_page_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_bytes(b"<html><p>good\n" * 3 + "äöü".encode() + b"\xff</p>")
    with pytest.raises(CorpusError, match=r"page.html is not UTF-8: line 4, byte 0xff at offset 48"):
        document(tmp_path / "page.html")


def mess(folder: Path) -> Path:
    """Write a folder of texts, a page, files without a known extension, an archive, and a damaged text."""
    folder.mkdir()
    for name in ("a.txt", "run.log", "old.log", "README"):
        (folder / name).write_text("a line of text\n")
    (folder / "page.html").write_text(PAGE, encoding="utf-8")
    with tarfile.open(folder / "b.tar.gz", "w:gz") as archive:
        archive.add(folder / "a.txt", "a.txt")
    (folder / "bad.txt").write_bytes("äöü".encode() * 9 + b"\xff\n")
    return folder


def test_files_are_listed_by_kind_and_count(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"b\.tar\.gz is a tar archive, not text: unpack it"):
        de.read_corpus(mess(tmp_path / "mess"))
    found = inspect_corpus(de.read_corpus(tmp_path / "mess", bad_records="skip", section="corpus"))
    assert "files: 4 text, 1 HTML" in found
    [unknown] = [note for note in found if "no known extension" in note]
    assert unknown.endswith("): 2 .log (old.log, run.log), 1 without extension (README)")


def test_files_left_out_are_listed_with_the_reason(tmp_path: Path) -> None:
    """An archive, and a text whose beginning does not decode; the others are read."""
    corpus = de.read_corpus(mess(tmp_path / "mess"), bad_records="skip", section="corpus")
    assert [record.file.rpartition("/")[2] for record in corpus.refused] == ["b.tar.gz", "bad.txt"]
    assert "byte 0xff at offset 54" in corpus.refused[1].reason
    assert corpus.tokenize().n_documents == 5
