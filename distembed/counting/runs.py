"""Partial counts on disk: sorted runs divided by row block, in one file per partition.

The file is a sequence of segments, each of which holds the rows of one row block of one run (row sizes as
int32, column indices, values; little endian, and in two bytes where the numbers of a segment fit them, as
most do, because counting waits for the disk). They are followed by an index in int64, ordered by row block: for
each segment its offset, rows, entries, bytes per index and per value, and the CRC-32 of its data; then for each
row block the number of its first segment, how many it has, and the CRC-32 of both and of their entries. The last
24 bytes are the numbers of segments and row blocks and a closing mark. So a reader of one row block reads nothing
of the others, however many there are. A file that has its final name is complete (`distembed.files`); later
damage is found by the checksums.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from distembed.counting.blocks import Run
from distembed.files import replacing
from distembed.urls import url_to_fs

_MARK = b"DECOUNT3"
_NUMBERS = {2: "<u2", 4: "<i4", 8: "<i8"}
"""The types of the numbers of a segment, by their bytes."""
_TWO_BYTES = 2**16
_TAIL = struct.Struct("<qq8s")
_SEGMENT, _BLOCK = struct.Struct("<6q"), struct.Struct("<3q")


class DamagedRunsError(OSError):
    """An error in a file of partial counts, whose content is not what was written."""

    def __init__(self, url: str, what: str) -> None:
        super().__init__(f"{url}: {what}; delete the file and run the counting of this partition again.")


class RunWriter:
    """Writes the segments of one partition; the file appears when the `with` block ends without an error.

    Parameters
    ----------
    url : str
        The file.
    n_blocks : int
        The number of row blocks.
    """

    def __init__(self, url: str, n_blocks: int) -> None:
        self._fs, self._path = url_to_fs(url)
        self._open = ExitStack()
        self._segments: list[list[bytes]] = [[] for _ in range(n_blocks)]
        self._offset = 0

    def __enter__(self) -> Self:
        self._fs.makedirs(self._fs._parent(self._path), exist_ok=True)
        partial = self._open.enter_context(replacing(self._path, filesystem=self._fs))
        self._file = self._open.enter_context(self._fs.open(partial, "wb"))
        return self

    def append(self, block: int, run: Run) -> None:
        """Write the rows of one row block of one run."""
        checksum, size = 0, 0
        indices, values = _narrow(run.indices), _narrow(run.values)
        for array in (np.diff(run.indptr).astype("<i4"), indices, values):
            data = array.data.cast("B")
            checksum = zlib.crc32(data, checksum)
            size += self._file.write(data)
        numbers = (len(run.indptr) - 1, len(indices), indices.itemsize, values.itemsize, checksum)
        self._segments[block].append(_SEGMENT.pack(self._offset, *numbers))
        self._offset += size

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._open.__exit__(kind, error, trace)
            return
        with self._open:
            first, blocks = 0, list[bytes]()
            for segments in self._segments:
                entries = b"".join(segments)
                blocks.append(_BLOCK.pack(first, len(segments), _entry_checksum(first, entries)))
                first += len(segments)
                self._file.write(entries)
            self._file.write(b"".join(blocks) + _TAIL.pack(first, len(blocks), _MARK))


def _entry_checksum(first: int, entries: bytes) -> int:
    """Return the checksum of the index of one row block: where its segments stand, and what they are."""
    return zlib.crc32(entries, zlib.crc32(_TAIL.pack(first, len(entries), _MARK)))


def file_size(url: str) -> int:
    """Return the bytes of a file of runs."""
    fs, path = url_to_fs(url)
    return int(fs.size(path))


def read_runs(url: str, block: int) -> Iterator[Run]:
    """Yield the runs of one row block after checking them.

    Raises
    ------
    DamagedRunsError
        If the file is truncated, is not a file of runs, or a checksum differs.
    """
    return (run for _, run in read_blocks(url, block, block + 1))


def read_blocks(url: str, first: int, last: int) -> Iterator[tuple[int, Run]]:
    """Yield the runs of the row blocks first..last-1, each after the number of its block, after checking them.

    Raises
    ------
    DamagedRunsError
        If the file is truncated, is not a file of runs, or a checksum differs.
    """
    fs, path = url_to_fs(url)
    with fs.open(path, "rb") as file:
        for block, segments in enumerate(_read_index(file, url, first, last), first):
            for offset, n_rows, n_entries, *widths, checksum in segments:
                size = 4 * n_rows + sum(widths) * n_entries
                file.seek(offset)
                data = bytearray(size)
                if file.readinto(data) != size or zlib.crc32(data) != checksum:
                    raise DamagedRunsError(
                        url, f"the counts of row block {block} at byte {offset} are damaged"
                    )
                run = _unpack(data, n_rows, n_entries, *widths)
                if run.indptr[-1] != n_entries or (np.diff(run.indptr) < 0).any():
                    raise DamagedRunsError(
                        url, f"the rows of row block {block} at byte {offset} do not add up"
                    )
                yield block, run


def _read_index(file: Any, url: str, first: int, last: int) -> list[list[tuple[int, ...]]]:
    n_segments, n_blocks, begin = _read_tail(file, url)
    if not first < last <= n_blocks:
        raise DamagedRunsError(
            url, f"it has {n_blocks} row blocks, and blocks {first} to {last - 1} are asked for"
        )
    file.seek(begin + _SEGMENT.size * n_segments + _BLOCK.size * first)
    blocks = list(_BLOCK.iter_unpack(file.read(_BLOCK.size * (last - first))))
    start, stop = blocks[0][0], blocks[-1][0] + blocks[-1][1]
    if not 0 <= start <= stop <= n_segments:
        raise DamagedRunsError(url, f"the index of row block {first} is damaged")
    file.seek(begin + _SEGMENT.size * start)
    entries, found = file.read(_SEGMENT.size * (stop - start)), []
    for block, (number, count, checksum) in enumerate(blocks, first):
        place = _SEGMENT.size * (number - start)
        own = entries[place : place + _SEGMENT.size * count] if place >= 0 and count >= 0 else b""
        if _entry_checksum(number, own) != checksum or len(own) != _SEGMENT.size * count:
            raise DamagedRunsError(url, f"the index of row block {block} is damaged")
        found.append(list(_SEGMENT.iter_unpack(own)))
    return found


def _read_tail(file: Any, url: str) -> tuple[int, int, int]:
    """Return the numbers of segments and of row blocks, and the byte at which the index begins."""
    size = file.seek(0, 2)
    if size >= _TAIL.size:
        file.seek(size - _TAIL.size)
        n_segments, n_blocks, mark = _TAIL.unpack(file.read(_TAIL.size))
        begin = size - _TAIL.size - _BLOCK.size * n_blocks - _SEGMENT.size * n_segments
        if mark == _MARK and min(n_segments, n_blocks, begin) >= 0:
            return n_segments, n_blocks, begin
    raise DamagedRunsError(url, f"the index at the end of its {size} bytes is missing or damaged")


def _narrow(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in two bytes if they fit, others unchanged; little endian."""
    narrow = numbers.max(initial=0) < _TWO_BYTES
    return np.ascontiguousarray(numbers, "<u2" if narrow else numbers.dtype.newbyteorder("<"))


def _unpack(data: bytearray, n_rows: int, n_entries: int, index_width: int, value_width: int) -> Run:
    sizes = np.frombuffer(data, "<i4", n_rows)
    indices = np.frombuffer(data, _NUMBERS[index_width], n_entries, 4 * n_rows)
    values = np.frombuffer(data, _NUMBERS[value_width], n_entries, 4 * n_rows + index_width * n_entries)
    # The kernels are compiled for writable arrays of four and eight bytes.
    kind = np.int64 if value_width == 8 else np.int32
    return Run(
        np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        indices.astype(np.int32, copy=False),
        values.astype(kind, copy=False),
    )


def run_bytes(runs: Iterable[Run]) -> int:
    """Return the bytes that runs take in memory."""
    return sum(array.nbytes for run in runs for array in run)
