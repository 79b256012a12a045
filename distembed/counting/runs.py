"""Partial counts on disk: sorted runs divided by row block, in one file per task that counts.

The file is a sequence of segments, each of which holds the rows of one row block of one run: row sizes as int32, column
indices and values; little endian, and in two bytes where the numbers of a segment fit them, as most do, because
counting waits for the disk. After them follow seven int64 for each segment (its row block, place, rows, entries, bytes
per index and per value, and the CRC-32 of its data). The last 24 bytes are the number of segments, the CRC-32 of what
is said of them, and a closing mark. So a reader of one row block reads the data of no other. A file that has its final
name is complete (`distembed.files`); later damage is found by the checksums.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from distembed.counting.blocks import Run
from distembed.files import replacing
from distembed.urls import url_to_fs

_MARK = b"DECOUNT5"
_NUMBERS = {2: "<u2", 4: "<i4", 8: "<i8"}
"""The types of the numbers of a segment, by their bytes."""
_TAIL, _ENTRY_BYTES = struct.Struct("<2q8s"), 7 * 8


class DamagedRunsError(OSError):
    """An error in a file of partial counts, whose content is not what was written."""

    def __init__(self, url: str, what: str) -> None:
        super().__init__(f"{url}: {what}; delete the file and run the counting of this partition again.")


@contextmanager
def writing_runs(url: str) -> Iterator[Callable[[int, Run], None]]:
    """Yield the function that writes the rows of one row block of one run.

    The file appears when the `with` block ends without an error.
    """
    filesystem, path = url_to_fs(url)
    filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    entries = list[tuple[int, ...]]()
    with replacing(path, filesystem=filesystem) as partial, filesystem.open(partial, "wb") as file:

        def append(block: int, run: Run) -> None:
            # Two bytes a number if all fit.
            indices, values = (
                np.ascontiguousarray(numbers, "<u2" if numbers.max(initial=0) < 2**16 else numbers.dtype)
                for numbers in (run.indices, run.values)
            )
            sizes = np.diff(run.indptr).astype("<i4")
            data = b"".join(array.data for array in (sizes, indices, values))
            numbers = len(sizes), len(indices), indices.itemsize, values.itemsize
            entries.append((block, file.tell(), *numbers, zlib.crc32(data)))
            file.write(data)

        yield append
        index = np.array(entries, "<i8").tobytes()
        file.write(index + _TAIL.pack(len(entries), zlib.crc32(index), _MARK))


def read_runs(url: str, block: int) -> Iterator[Run]:
    """Yield the runs of one row block after checking them.

    Raises
    ------
    DamagedRunsError
        If the file is truncated, is not a file of runs, or a checksum differs.
    """
    filesystem, path = url_to_fs(url)
    with filesystem.open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - _TAIL.size, 0))
        n_entries, checksum, mark = _TAIL.unpack(file.read(_TAIL.size).rjust(_TAIL.size, b"\0"))
        start = size - _TAIL.size - _ENTRY_BYTES * n_entries
        index = b""
        if mark == _MARK and 0 <= start < size:
            file.seek(start)
            index = file.read(_ENTRY_BYTES * n_entries)
        if mark != _MARK or zlib.crc32(index) != checksum:
            raise DamagedRunsError(url, f"the index at the end of its {size} bytes is missing or damaged")
        entries = np.frombuffer(index, "<i8").reshape(-1, 7)
        for _, place, n_rows, n_values, *widths, checksum in entries[entries[:, 0] == block].tolist():
            file.seek(place)
            data = file.read(4 * n_rows + sum(widths) * n_values)
            sizes = np.frombuffer(data, "<i4", n_rows) if zlib.crc32(data) == checksum else np.zeros(0)
            if len(sizes) != n_rows or (sizes < 0).any() or sizes.sum() != n_values:
                raise DamagedRunsError(url, f"the counts of row block {block} at byte {place} are damaged")
            indices = np.frombuffer(data, _NUMBERS[widths[0]], n_values, 4 * n_rows)
            values = np.frombuffer(data, _NUMBERS[widths[1]], n_values, 4 * n_rows + widths[0] * n_values)
            # The kernels are compiled for arrays of four and eight bytes.
            kind, indptr = (
                np.int64 if widths[1] == 8 else np.int32,
                np.append(0, np.cumsum(sizes, dtype=np.int64)),
            )
            yield Run(indptr, np.array(indices, np.int32), np.array(values, kind))
