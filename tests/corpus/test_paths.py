"""The files that paths name, and those among them that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from distembed.corpus import CorpusError, read_corpus


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


def test_all_files_that_cannot_be_read_are_named_at_once_or_left_out(folder: Path) -> None:
    (folder / "c.txt").write_bytes(b"")
    with pytest.raises(CorpusError, match=r"^\S*c\.txt is empty \(0 bytes\); remove it"):
        read_corpus(folder)
    (folder / "d.txt").write_bytes(b"%PDF-1.5")
    together = (
        r"2 of 4 files cannot be read: \(1\) \S*c\.txt is empty .*; \(2\) \S*d\.txt is a PDF file, .* "
        r'\(pdftotext FILE\)\. Remove them, or correct them, or leave them out by bad_records="skip"\.'
    )
    with pytest.raises(CorpusError, match=together):
        read_corpus(folder)
    with pytest.warns(UserWarning, match=r"left out: \S*[cd]\.txt is "):
        assert names(folder, bad_records="skip") == ["b.txt", "a.txt"]
    with pytest.raises(CorpusError, match="is empty"):
        read_corpus([folder / "c.txt"], bad_records="skip")
