"""One look at the beginning of a file tells each reader what it is."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from distembed import WordVectors, read_corpus
from distembed.corpus.records import CorpusError
from distembed.formats.tables import TableError, read_table
from distembed.vectors import VectorFileError


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
