"""Parquet files are read in the thread that asks: one of Arrow's that still reads at the end aborts a program."""

from __future__ import annotations

import io
import random
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed import files
from distembed.formats import parquet

READERS = {
    "whole": "whole_table(file)",
    "some columns": "whole_table(file, columns=['word'])",
    "by batches": "list(read_batches(ParquetFile(file), 100, row_groups=[0, 1]))",
    "by batches of a buffer": "list(read_batches(ParquetFile(file, buffer_bytes=1 << 16), 100))",
}
PROGRAM = """
import os, sys, psutil
from distembed.formats.parquet import ParquetFile, read_batches, whole_table
import pyarrow.parquet
before = psutil.Process().num_threads()
for code in sys.argv[2:]:
    with open(sys.argv[1], "rb") as file:
        eval(code)
    print(psutil.Process().num_threads() - before, flush=True)
os._exit(0)  # the threads of Arrow's own way may abort a process that ends
"""


def test_no_thread_is_started_but_by_arrows_own_way(tmp_path):
    path = tmp_path / "table.parquet"
    table = pa.table({"word": [str(i) for i in range(2000)], "count": range(2000)})
    pq.write_table(table, path, row_group_size=500)
    own = "pyarrow.parquet.read_table(file)"
    command = [sys.executable, "-c", PROGRAM, str(path), *READERS.values(), own]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *ours, of_arrow = map(int, done.stdout.split())
    assert ours == [0] * len(READERS)
    assert of_arrow > 0


def test_every_read_of_the_package_says_so():
    calls = re.compile(r"\.(?:read_row_groups?|iter_batches|read_table)\((?:[^()]|\([^()]*\))*\)")
    paths = Path(de.__file__).parent.rglob("*.py")
    found = [call for path in paths for call in calls.findall(path.read_text(encoding="utf-8"))]
    assert len(found) >= 4
    assert [call for call in found if "use_threads=False" not in call] == []


@pytest.mark.parametrize("reader", READERS)
def test_a_flipped_byte_of_a_page_is_no_value(reader, tmp_path):
    """The values are stored as they are: without the checksums the flipped one would be read."""
    path = tmp_path / "table.parquet"
    words = pa.table({"word": [f"word{i:04d}" for i in range(2000)], "count": range(2000)})
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(words, path, row_group_size=1000, **options)
    path.write_bytes(path.read_bytes().replace(b"word0500", b"word0501", 1))
    assert "word0500" not in pq.read_table(path)["word"].to_pylist()
    with path.open("rb") as file, pytest.raises(OSError, match="CRC checksum verification failed"):
        eval(READERS[reader], vars(parquet) | {"file": file})


TEXT = "a" * (1 << 16)
BOMBS = {
    "once": ("text", [TEXT] * 1000, {}),
    "of one length": ("text", pa.array([TEXT.encode()] * 1000, pa.binary(1 << 16)), {}),
    "prefixes of the text before": ("text", [TEXT] * 1000, {"column_encoding": {"text": "DELTA_BYTE_ARRAY"}}),
    "a dot in the name": ("a.text", [TEXT] * 1000, {}),
    "lists": ("text", [[TEXT] * 10] * 100, {}),
    "few in a row group": ("text", [TEXT] * 1000, {"row_group_size": 10}),
}


@pytest.fixture
def small_memory(monkeypatch):
    monkeypatch.setattr(parquet, "BATCH_BYTES", 1 << 20)
    monkeypatch.setattr(files, "UNPACKED_BYTES", 1 << 22)


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("kind", BOMBS)
def test_a_text_that_is_stored_once_does_not_fill_the_memory(kind, tmp_path):
    """A table that no honest file holds is refused unread, however it is stored."""
    name, values, options = BOMBS[kind]
    path, table = tmp_path / "bomb.parquet", pa.table({name: values, "n": range(len(values))})
    dictionary = [] if "column_encoding" in options else [name]
    pq.write_table(table, path, compression="zstd", use_dictionary=dictionary, **options)
    assert path.stat().st_size < 1 << 16
    for columns in (None, [name]):
        with pytest.raises(files.BombError, match=r"bomb\.parquet stores .* unpack to 6[45],\d\d\d,\d\d\d"):
            parquet.whole_table(path, columns=columns)
        file = parquet.ParquetFile(path)
        groups = ([group] for group in range(file.num_row_groups))
        reads = (parquet.read_batches(file, 100, columns=columns, row_groups=group) for group in groups)
        with pytest.raises(files.BombError, match=r"bomb\.parquet stores .* unpack to [\d,]{9,} or more"):
            list(chain.from_iterable(reads))
    assert len(parquet.whole_table(path, columns=["n"])) == len(values)


@pytest.mark.usefixtures("small_memory")
def test_a_batch_has_fewer_rows_where_they_are_large(tmp_path):
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"v": [[0.0] * 10_000] * 100}), path, compression="zstd")
    with pytest.raises(files.BombError):
        parquet.whole_table(path)
    long = pa.table({"text": [random.randbytes(1 << 15).hex() for _ in range(100)]})
    pq.write_table(long, path, compression="zstd")
    sizes = [batch.num_rows for batch in parquet.read_batches(parquet.ParquetFile(path), 1000)]
    assert (sum(sizes), max(sizes)) == (100, 16)


@pytest.mark.parametrize("encoding", parquet.ONE_BY_ONE)
def test_texts_by_their_prefixes_are_measured_and_read(encoding, tmp_path, monkeypatch):
    """A writer may go on by prefixes where its dictionary is full: that is no bomb."""
    monkeypatch.setattr(parquet, "BATCH_BYTES", 1 << 10)
    monkeypatch.setattr(files, "UNPACKED_BYTES", 1 << 12)
    path, words = tmp_path / "t.parquet", pa.table({"word": [f"word{i:05d}" for i in range(2000)]})
    pq.write_table(words, path, use_dictionary=False, column_encoding={"word": encoding})
    assert parquet.whole_table(path).equals(words)


def test_rows_that_are_small_but_more_than_a_file_could_hold_are_refused():
    """Less than 10 KB that hold 216 GB of text were read for hours, a batch after the other."""
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(216_000, np.int32)), pa.array(["a" * 1_000_000]))
    table, file = pa.table({"text": words}), io.BytesIO()
    pq.write_table(table, file, compression="zstd", write_page_checksum=True)
    assert len(file.getvalue()) < 10_000
    with pytest.raises(files.BombError, match=r"bytes that unpack to 216,000,000,000 or more"):
        next(parquet.read_batches(parquet.ParquetFile(file), 100))
