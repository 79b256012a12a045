"""The files that paths name, and those among them that cannot be read."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.corpus import readers
from distembed.corpus.inspection import inspect_corpus
from distembed.corpus.partitions import tokenize_partition
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


# ---- many small files in one task ----------------------------------------------------------------------------------


N_FILES, FEWEST = 80, 64


@pytest.fixture
def bundle_folder(small_files, monkeypatch):
    monkeypatch.setattr(readers, "FEWEST_BUNDLES", FEWEST)
    return small_files


@pytest.fixture(scope="module")
def small_files(tmp_path_factory):
    """80 files of four formats, of a document or two each."""
    rng, bundle_folder = np.random.default_rng(0), tmp_path_factory.mktemp("bundles") / "files"
    words = np.array([f"w{'abcdefgh'[n % 8]}{'xyz'[n % 3]}{'klmno'[n % 5]}" for n in range(120)])
    bundle_folder.mkdir()
    for number in range(N_FILES):
        texts = [" ".join(words[rng.integers(0, len(words), 20)]) for _ in range(1 + number % 2)]
        place = bundle_folder / f"{number:04d}"
        if number % 4 == 0:
            place.with_suffix(".txt").write_text("\n".join(texts) + "\n")
        elif number % 4 == 1:
            place.with_suffix(".txt.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
        elif number % 4 == 2:
            place.with_suffix(".jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        else:
            pq.write_table(pa.table({"text": texts}), place.with_suffix(".parquet"))
    return bundle_folder


def test_a_task_reads_several_small_files(bundle_folder):
    docs = de.read_corpus(bundle_folder)
    assert FEWEST / 2 <= len(docs.bundles) < len(docs.partitions) == N_FILES
    assert tuple(one for bundle in docs.bundles for one in bundle) == docs.partitions
    room = 2 * sum(one.n_bytes for one in docs.partitions) // FEWEST
    for most, bundles in (
        (room, docs.bundles),
        (200, de.read_corpus(bundle_folder, partition_bytes=200).bundles),
    ):
        assert all(len(bundle) == 1 or sum(one.n_bytes for one in bundle) <= most for bundle in bundles)
    few = de.read_corpus(sorted(bundle_folder.iterdir())[:50])
    assert all(len(bundle) == 1 for bundle in few.bundles)


def test_files_that_are_added_leave_most_bundles_as_they_are(bundle_folder, monkeypatch):
    monkeypatch.setattr(readers, "FEWEST_BUNDLES", 10)  # where bundles are long, all would move
    files = sorted(bundle_folder.iterdir())
    before, now = (
        {tuple(one.url for one in bundle) for bundle in de.read_corpus(some).bundles}
        for some in (files[:5] + files[10:], files)
    )
    others = {url for bundle in now - before for url in bundle}
    assert others >= {str(file) for file in files[5:10]}
    assert len(others) < 30


def test_the_documents_and_counts_are_those_of_a_task_for_each_file(bundle_folder, monkeypatch):
    bundled = de.read_corpus(bundle_folder).tokenize()
    monkeypatch.setattr(readers, "FEWEST_BUNDLES", 10**9)
    single = de.read_corpus(bundle_folder).tokenize()
    assert len(bundled.partitions) < len(single.partitions) == N_FILES
    vocabulary = de.build_vocabulary(single)
    assert de.build_vocabulary(bundled).to_pandas().equals(vocabulary.to_pandas())
    for count in (de.count_document_terms, de.count_cooccurrences):
        one, other = (count(tokens, vocabulary).compute() for tokens in (bundled, single))
        assert (one != other).nnz == 0
    names = ("n_documents", "n_tokens", "n_bytes_read", "n_bytes_text")
    found, wanted = (
        (
            [row for part in tokens.partitions for row in tokens.documents(part).to_pylist()],
            [sum(getattr(summary, name) for summary in tokens.summaries) for name in names],
        )
        for tokens in (bundled, single)
    )
    assert found == wanted


@pytest.mark.parametrize("pattern", ["unicode", "shlex:split"])
def test_an_error_names_the_file_in_its_bundle(bundle_folder, tmp_path, pattern):
    (tmp_path / "bad.txt").write_bytes(b"good words\n" * 30_000 + b"bad \xff byte\n")
    paths = [bundle_folder / "0000.txt", tmp_path / "bad.txt", bundle_folder / "0008.txt"]
    docs = de.read_corpus(paths, encoding="utf-8", tokenizer=de.Tokenizer(pattern=pattern))
    first, broken, last = docs.partitions
    with pytest.raises(CorpusError, match=r"bad\.txt"):
        tokenize_partition([first, broken, last], docs.tokenizer, str(tmp_path / "part"))
    assert not list(tmp_path.glob("part*"))
    tokenize_partition([replace(broken, stop=1000), last], docs.tokenizer, str(tmp_path / "part"))
