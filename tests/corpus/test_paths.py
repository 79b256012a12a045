"""The files that paths name, and those among them that cannot be read."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from distembed.corpus.inspection import inspect_corpus
from distembed.corpus.readers import read_corpus
from distembed.corpus.records import CorpusError
from distembed.job.inputs import stamps_at, versions_at


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two texts, in one of its folders too, and what desktops leave beside them."""
    (tmp_path / "texts" / "more").mkdir(parents=True)
    for name in ("b.txt", "more/a.txt"):
        (tmp_path / "texts" / name).write_text("the sea\n")
    for name in (".DS_Store", "~$b.txt", "Thumbs.db", "more/.hidden"):
        (tmp_path / "texts" / name).write_bytes(b"\0\0\0\1Bud1")
    return tmp_path / "texts"


def names(paths: object, **options: str) -> list[str]:
    return [Path(partition.url).name for partition in read_corpus(paths, **options).partitions]  # type: ignore[arg-type]


def test_a_folder_stands_for_its_files_without_hidden_ones(folder: Path) -> None:
    assert names(folder) == names([folder / "b.txt", folder / "more"]) == ["b.txt", "a.txt"]
    assert names(f"{folder}/**") == ["b.txt", "a.txt"]
    (folder / "more" / ".hidden").write_text("the sea\n")
    assert names(f"{folder}/more/.*") == [".hidden"]  # asked for by its name
    (folder.parent / "empty").mkdir()
    message = "empty matches no file; check the path, or give a folder or a glob"
    with pytest.raises(FileNotFoundError, match=message):
        read_corpus(folder.parent / "empty")


def test_links_to_files_are_followed_and_those_to_folders_and_pipes_are_not(folder: Path) -> None:
    os.mkfifo(folder / "pipe.txt")
    (folder / "link.txt").symlink_to(folder / "b.txt")
    (folder / "more" / "loop").symlink_to(folder)
    assert names(folder) == ["b.txt", "link.txt", "a.txt"]
    assert names(folder / "link.txt") == ["link.txt"]
    assert names(folder / "*") == ["b.txt", "link.txt"]
    assert [url.rpartition("/")[2] for url in versions_at(str(folder))] == ["b.txt", "link.txt", "a.txt"]


def test_all_files_that_cannot_be_read_are_named_at_once_or_left_out(folder: Path) -> None:
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


def test_files_are_listed_by_kind_and_those_left_out_with_the_reason(tmp_path: Path) -> None:
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
    assert "files: 4 text" in found
    [unknown] = [note for note in found if "no known extension" in note]
    assert unknown.endswith("): 2 .log (old.log, run.log), 1 without extension (README)")
    assert [Path(record.file).name for record in corpus.refused] == ["b.tar.gz", "bad.txt", "page.html"]
    assert "byte 0xff at offset 54" in corpus.refused[1].reason
    assert corpus.tokenize().n_documents == 4


def test_a_name_that_is_not_utf8_is_named_or_left_out(folder: Path) -> None:
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("the sea\n")
    with pytest.raises(CorpusError, match=r"caf\\xe9\.txt has a name that is not UTF-8; rename the file"):
        read_corpus(folder)
    with pytest.warns(UserWarning, match=r"left out: \S*caf\\xe9\.txt has a name"):
        assert names(folder, bad_records="skip") == ["b.txt", "a.txt"]
    assert list(stamps_at(str(folder))) == ["b.txt", "caf\\xe9.txt", "more/a.txt"]


def test_a_name_that_the_locale_cannot_spell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsencode", lambda name: name.encode("ascii"))
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "ascii")
    with pytest.raises(OSError, match=r"cannot be represented in ascii.*set PYTHONUTF8=1"):
        read_corpus(tmp_path / "ä*.txt")
