"""Partial counts on disk: sorted runs divided by row block, in one file per partition.

The file is a sequence of segments, each of which holds the rows of one row block of one run (row sizes as
int32, column indices, values; little endian, and in two bytes where the numbers of a segment fit them, as
most do, because counting waits for the disk). They are followed by a JSON table of the segments with the
CRC-32 of each, the length and CRC-32 of that table, and a closing mark. A file that has its final name is
complete (`distembed.files`); later damage is found by the checksums.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import numpy as np
from fsspec.core import url_to_fs
from numpy.typing import NDArray

from distembed.counting.blocks import Run
from distembed.files import replacing

_MARK = b"DECOUNT2"
_INTEGERS = {2: "<u2", 4: "<i4", 8: "<i8"}
_TAIL = struct.Struct("<QI8s")


class DamagedRunsError(OSError):
    """An error in a file of partial counts, whose content is not what was written."""

    def __init__(self, url: str, what: str) -> None:
        super().__init__(f"{url}: {what}; delete the file and run the counting of this partition again.")


class RunWriter:
    """Writes the segments of one partition; the file appears when the `with` block ends without an error."""

    def __init__(self, url: str) -> None:
        self._fs, self._path = url_to_fs(url)
        self._open = ExitStack()
        self._segments: list[list[int]] = []
        self._offset = 0

    def __enter__(self) -> Self:
        self._fs.makedirs(self._fs._parent(self._path), exist_ok=True)
        partial = self._open.enter_context(replacing(self._path, filesystem=self._fs))
        self._file = self._open.enter_context(self._fs.open(partial, "wb"))
        return self

    def append(self, block: int, run: Run) -> None:
        """Write the rows of one row block of one run."""
        checksum, size = 0, 0
        indices, values = _narrowed(run.indices), _narrowed(run.values)
        for array in (np.diff(run.indptr).astype("<i4"), indices, values):
            data = array.data.cast("B")
            checksum = zlib.crc32(data, checksum)
            size += self._file.write(data)
        widths = (indices.itemsize, values.itemsize)
        self._segments.append([block, self._offset, len(run.indptr) - 1, len(indices), *widths, checksum])
        self._offset += size

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._open.__exit__(kind, error, trace)
            return
        with self._open:
            table = json.dumps(self._segments).encode()
            self._file.write(table + _TAIL.pack(len(table), zlib.crc32(table), _MARK))


def read_runs(url: str, block: int) -> Iterator[Run]:
    """Yield the runs of one row block after checking them.

    Raises
    ------
    DamagedRunsError
        If the file is truncated, is not a file of runs, or a checksum differs.
    """
    fs, path = url_to_fs(url)
    with fs.open(path, "rb") as file:
        for number, offset, n_rows, n_entries, *widths, checksum in _read_table(file, url):
            if number == block:
                size = 4 * n_rows + sum(widths) * n_entries
                file.seek(offset)
                data = bytearray(size)
                if file.readinto(data) != size or zlib.crc32(data) != checksum:
                    raise DamagedRunsError(
                        url, f"the counts of row block {block} at byte {offset} are damaged"
                    )
                yield _unpacked(data, n_rows, n_entries, *widths)


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


def _narrowed(numbers: NDArray[np.signedinteger[Any]]) -> NDArray[Any]:
    """Return non-negative numbers in two bytes if they fit, otherwise unchanged; little endian."""
    narrow = int(numbers.max(initial=0)) < 2**16
    return np.ascontiguousarray(numbers, "<u2" if narrow else numbers.dtype.newbyteorder("<"))


def _unpacked(data: bytearray, n_rows: int, n_entries: int, index_width: int, value_width: int) -> Run:
    sizes = np.frombuffer(data, "<i4", n_rows)
    indices = np.frombuffer(data, _INTEGERS[index_width], n_entries, 4 * n_rows)
    values = np.frombuffer(data, _INTEGERS[value_width], n_entries, 4 * n_rows + index_width * n_entries)
    # The kernels are compiled for writable arrays of four and eight bytes.
    return Run(
        np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        indices.astype(np.int32, copy=False),
        values.astype(np.int64 if value_width == 8 else np.int32, copy=False),
    )
