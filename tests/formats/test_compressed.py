"""Compressed files are read to their ends, or refused by name where they have none."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard

import distembed as de
from distembed import files, read_corpus
from distembed.corpus.records import CorpusError, find_bz2_stream
from distembed.formats.tables import TableError, read_table
from distembed.vectors import VectorFileError, WordVectors

PACK = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}
ROWS = "".join(f"n{i},{i * 37 % 1009}\n" for i in range(20_000))


@pytest.mark.parametrize("end", PACK)
def test_all_streams_of_a_file_are_read(end: str, tmp_path: Path) -> None:
    """fsspec ends after the first frame of Zstandard."""
    path = tmp_path / f"t.csv.{end}"
    path.write_bytes(PACK[end](b"name,a\n") + PACK[end](ROWS.encode()) + PACK[end](b"last,1\n"))
    assert len(read_table(str(path)).columns["a"]) == 20_001
    with files.unpacked(path) as file:
        assert [*file][-1] == b"last,1\n"


@pytest.mark.parametrize("end", PACK)
@pytest.mark.parametrize("lost", [3, 10_000])
def test_a_file_that_is_cut_short_is_refused(end: str, lost: int, tmp_path: Path) -> None:
    """A table of Zstandard without its end was read as far as it went, without an error."""
    table, vectors = tmp_path / f"t.csv.{end}", tmp_path / f"v.glove.{end}"
    table.write_bytes(PACK[end](f"name,a\n{ROWS}".encode())[:-lost])
    vectors.write_bytes(PACK[end](ROWS.replace(",", " ").encode())[:-lost])
    with pytest.raises(
        TableError, match=rf"t\.csv\.{end} cannot be read to its end .*; copy or download it again"
    ):
        read_table(str(table))
    with pytest.raises(VectorFileError, match=rf"v\.glove\.{end} cannot be read to its end"):
        WordVectors.load(vectors)


@pytest.mark.parametrize(("end", "padding"), [("gz", 0), ("gz", 5), ("xz", 0), ("xz", 8), ("bz2", 0)])
def test_streams_begin_after_the_padding_of_those_before(end: str, padding: int) -> None:
    texts = [b"first " * 900, b"second " * 50, b"third " * 300]
    streams = [PACK[end](text) for text in texts]
    kind = {"gz": "gzip"}.get(end, end)
    file = files.Unpacked(io.BytesIO(bytes(padding).join(streams)), kind, "a")
    found: dict[int, bytes] = {}
    while piece := file.read(1000):
        found[file.begin] = found.get(file.begin, b"") + piece
    assert found == {sum(map(len, streams[:n])) + n * padding: texts[n] for n in range(3)}
    with pytest.raises(EOFError, match="near compressed byte"):  # no padding before the first
        files.Unpacked(io.BytesIO(b"\0" + streams[0]), kind, "a").read(1000)


def test_a_stream_of_bz2_is_found_from_a_byte_on_and_before_another() -> None:
    one, other = map(bz2.compress, (b"first " * 900, b"second " * 50))
    for start, stop, expected in (
        (1, float("inf"), len(one)),
        (1, len(one) + 1, len(one)),
        (1, len(one), None),
        (len(one) + 1, float("inf"), None),
    ):
        assert find_bz2_stream(io.BytesIO(one + other), start, stop) == expected


@pytest.mark.parametrize("end", PACK)
def test_what_unpacks_to_far_more_than_it_stores_is_refused_everywhere(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gzip file of 2 MB was read as 2 GB of text; one that says so at its beginning is refused before it is read."""
    monkeypatch.setattr(files, "UNPACKED_BYTES", 1 << 20)
    at_once, late, honest = (tmp_path / f"{name}.txt.{end}" for name in ("once", "late", "lines"))
    bomb = b"\n" * (12 << 20)
    at_once.write_bytes(PACK[end](bomb))
    late.write_bytes(PACK[end]("".join(f"w{i} {random.random()}\n" for i in range(300)).encode() + bomb))
    honest.write_bytes(PACK[end](b"the cat sat on the mat\n" * 40_000))
    for read, path in (
        (de.read_corpus, at_once),
        (lambda path: de.read_corpus(path).tokenize(), late),
        (lambda path: read_table(str(path)), late),
        (lambda path: read_table(str(path)), at_once),
        (WordVectors.load, late),
    ):
        with pytest.raises(files.BombError, match=rf"\w+\.txt\.{end} stores .* no honest file does"):
            read(path)
    assert de.read_corpus(honest).tokenize().n_documents == 40_000


# ---- what a file is by its beginning -------------------------------------------------------------------------------


def zip_text(file: io.BytesIO) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "the sea")


def written(write: Callable[[io.BytesIO], None]) -> bytes:
    write(file := io.BytesIO())
    return file.getvalue()


NO_TEXT = {
    "a ZIP archive or an office document": written(zip_text),
    "a tar archive": tarfile.TarInfo("a.txt").tobuf() + bytes(1024),
    "an array of NumPy": written(lambda file: np.save(file, np.eye(3))),
    "an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(8),
    "a Parquet file": b"PAR1" + bytes(8),
    "compressed with gzip": b"\x1f\x8b\x08" + bytes(8),
    "an HTML page": b"\n<!DOCTYPE html>\n<html><body>404</body></html>\n",
}


@pytest.mark.parametrize("what", NO_TEXT)
def test_vectors_tables_and_corpora_refuse_the_same_files(what: str, tmp_path: Path) -> None:
    for name in ("a.txt", "a.csv"):
        (tmp_path / name).write_bytes(NO_TEXT[what])
    with pytest.raises(VectorFileError, match=rf"a\.txt is {what}, not vectors: \w"):
        WordVectors.load(tmp_path / "a.txt")
    with pytest.raises(TableError, match=rf"a\.csv is {what}, not a table: \w"):
        read_table(str(tmp_path / "a.csv"))
    with pytest.raises(CorpusError, match=rf"a\.txt is {what}, not text: \w"):
        read_corpus(tmp_path / "a.txt")
