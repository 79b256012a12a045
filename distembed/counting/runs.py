"""Partial counts on disk: sorted runs split by row block, in one file a part.

The file is a row of segments, each one run's rows of one row block (row sizes int32, column indices int32,
values
int32 or int64, little endian), then a JSON table of the segments with the CRC-32 of each, the length and
CRC-32 of
that table, and a closing mark. It is written under a temporary name and moved, so that a file with its name
is whole;
what rots later is found by the checksums.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import numpy as np
from fsspec.core import url_to_fs

from distembed.counting.blocks import Run

_MARK = b"DECOUNT1"
_TAIL = struct.Struct("<QI8s")


class DamagedRunsError(OSError):
    """A file of partial counts is not what was written."""

    def __init__(self, url: str, what: str) -> None:
        super().__init__(f"{url}: {what}; delete the file and run the counting of this part again.")


class RunWriter:
    """Write the segments of one part; the file appears when the `with` block ends without an error."""

    def __init__(self, url: str) -> None:
        self._fs, self._path = url_to_fs(url)
        self._temporary = self._path + ".partial"
        self._segments: list[list[int]] = []
        self._offset = 0

    def __enter__(self) -> Self:
        self._fs.makedirs(self._fs._parent(self._path), exist_ok=True)
        self._file = self._fs.open(self._temporary, "wb")
        return self

    def append(self, block: int, run: Run) -> None:
        """Write one run's rows of one row block."""
        checksum = 0
        for array in (np.diff(run.indptr).astype("<i4"), run.indices, run.values):
            data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data.cast("B")
            checksum = zlib.crc32(data, checksum)
            self._file.write(data)
        width = run.values.dtype.itemsize
        self._segments.append([block, self._offset, len(run.indptr) - 1, len(run.indices), width, checksum])
        self._offset += 4 * (len(run.indptr) - 1) + (4 + width) * len(run.indices)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            table = json.dumps(self._segments).encode()
            self._file.write(table + _TAIL.pack(len(table), zlib.crc32(table), _MARK))
        self._file.close()
        if kind is None:
            self._fs.mv(self._temporary, self._path)
        else:
            self._fs.rm(self._temporary)


def read_runs(url: str, block: int) -> Iterator[Run]:
    """Yield the runs of one row block, checked.

    Raises
    ------
    DamagedRunsError
        If the file is truncated, is not a file of runs, or a checksum differs.
    """
    fs, path = url_to_fs(url)
    with fs.open(path, "rb") as file:
        for number, offset, n_rows, n_entries, width, checksum in _read_table(file, url):
            if number == block:
                size = 4 * n_rows + (4 + width) * n_entries
                file.seek(offset)
                data = bytearray(size)  # writable, as the kernels are compiled for
                if file.readinto(data) != size or zlib.crc32(data) != checksum:
                    raise DamagedRunsError(
                        url, f"the counts of row block {block} at byte {offset} are damaged"
                    )
                yield _unpacked(data, n_rows, n_entries, width)


def _read_table(file: Any, url: str) -> list[list[int]]:
    size = file.seek(0, 2)
    if size >= _TAIL.size:
        file.seek(size - _TAIL.size)
        length, checksum, mark = _TAIL.unpack(file.read(_TAIL.size))
        if mark == _MARK and length <= size - _TAIL.size:
            file.seek(size - _TAIL.size - length)
            table = file.read(length)
            if zlib.crc32(table) == checksum:
                segments: list[list[int]] = json.loads(table)
                return segments
    raise DamagedRunsError(url, f"the table of segments at the end of its {size} bytes is missing or damaged")


def _unpacked(data: bytearray, n_rows: int, n_entries: int, width: int) -> Run:
    sizes = np.frombuffer(data, "<i4", n_rows)
    indices = np.frombuffer(data, "<i4", n_entries, 4 * n_rows)
    values = np.frombuffer(data, f"<i{width}", n_entries, 4 * (n_rows + n_entries))
    return Run(np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]), indices, values)
