"""Files of texts, tables and vectors alike: compressed ones are read to their ends, and what is none is named."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile

import numpy as np
import pytest
import zstandard

import distembed as de
from distembed import files
from distembed.corpus.records import CorpusError
from distembed.formats.tables import TableError, read_table
from distembed.vectors import VectorFileError

PACK = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}
WORDS = [f"n{i} {i * 37 % 1009}\n" for i in range(20_000)]
READERS = {
    "text": ("t.txt", CorpusError, lambda path: de.read_corpus(path).tokenize().n_documents),
    "table": ("t.csv", TableError, lambda path: len(read_table(str(path)).columns["n0"])),
    "vectors": ("t.glove", VectorFileError, lambda path: len(de.WordVectors.load(path).words)),
}
readers = pytest.mark.parametrize("reader", READERS)


def text_for(reader):
    """Return lines of which a text has 20,000, a table one less, which is its header, and vectors as many."""
    return "".join(WORDS).replace(" ", "," if reader == "table" else " ").encode()


@readers
@pytest.mark.parametrize("end", PACK)
def test_all_streams_of_a_file_are_read_and_one_that_is_cut_short_or_flipped_is_refused(
    reader, end, tmp_path
):
    """fsspec ends after the first frame of Zstandard; a file without its end was read as far as it went."""
    name, error, read = READERS[reader]
    path, data = tmp_path / f"{name}.{end}", text_for(reader)
    path.write_bytes(b"".join(PACK[end](part) for part in (data[:6], data[6:-20], data[-20:])))
    assert read(path) == 20_000 - (reader == "table")
    packed = PACK[end](data)
    flipped = bytearray(packed)
    flipped[-8 if end == "gz" else len(packed) // 2] ^= 1
    place = ".*compressed byte" if end == "bz2" and reader == "text" else ""
    for damaged in (packed[:-3], packed[:-10_000], bytes(flipped))[: 2 if end == "zst" else 3]:
        path.write_bytes(damaged)
        message = rf"{name}\.{end} cannot be read to its end \({place}.*\); copy or download it again"
        with pytest.raises(error, match=message):
            read(path)


@pytest.mark.parametrize(("end", "padding"), [("gz", 0), ("gz", 5), ("xz", 0), ("xz", 8), ("bz2", 0)])
def test_streams_begin_after_the_padding_of_those_before(end, padding):
    texts = [b"first " * 900, b"second " * 50, b"third " * 300]
    streams = [PACK[end](text) for text in texts]
    kind = {"gz": "gzip"}.get(end, end)
    file = files.Unpacked(io.BytesIO(bytes(padding).join(streams)), kind, "a")
    found = {}
    while piece := file.read(1000):
        found[file.begin] = found.get(file.begin, b"") + piece
    assert found == {sum(map(len, streams[:n])) + n * padding: texts[n] for n in range(3)}
    with pytest.raises(EOFError, match="near compressed byte"):  # no padding before the first
        files.Unpacked(io.BytesIO(b"\0" + streams[0]), kind, "a").read(1000)


@readers
@pytest.mark.parametrize("end", PACK)
def test_what_unpacks_to_far_more_than_it_stores_is_refused(reader, end, tmp_path, monkeypatch):
    """A gzip file of 2 MB was read as 2 GB of text; one that says so at its beginning is refused before it is read."""
    monkeypatch.setattr(files, "UNPACKED_BYTES", 1 << 20)
    name, _, read = READERS[reader]
    path, bomb = tmp_path / f"{name}.{end}", b"\n" * (12 << 20)
    random_lines = "".join(f"w{i} {random.random()}\n" for i in range(300)).encode()
    begun = random_lines.replace(b" ", b"," if reader == "table" else b" ")
    for beginning in (begun,) if reader == "vectors" else (begun, b""):
        path.write_bytes(PACK[end](beginning + bomb))
        is_planned = reader == "text" and not beginning  # `plan` reads no more than the beginning
        with pytest.raises(files.BombError, match=rf"{name}\.{end} stores .* no honest file does"):
            de.read_corpus(path) if is_planned else read(path)


def zip_text(file):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "the sea")


def written(write):
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
MEANT = {"text": "not text", "table": "not a table", "vectors": "not vectors"}


@readers
@pytest.mark.parametrize("what", NO_TEXT)
def test_every_reader_refuses_the_same_files(reader, what, tmp_path):
    name, error, read = READERS[reader]
    name = name.replace("glove", "txt")
    (tmp_path / name).write_bytes(NO_TEXT[what])
    with pytest.raises(error, match=rf"{name} is {what}, {MEANT[reader]}: \w"):
        read(tmp_path / name)
