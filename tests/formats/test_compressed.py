"""Compressed files are read to their ends, or refused by name where they have none."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest
import zstandard

from distembed.formats.tables import TableError, read_table
from distembed.urls import opened
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
    with opened(path, "rt", compression="infer") as file:
        assert [*file][-1] == "last,1\n"


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
