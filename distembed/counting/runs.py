"""Partial counts on disk: sorted runs divided by row block, in one file per task that counts.

The file is a sequence of segments, each of which holds the rows of one row block of one run: seven int64 (the offset of
the segment before it of the same row block, -1 for the first; the row block, rows, entries, bytes per index and per
value, and the CRC-32 of all these and of the data), then row sizes as int32, column indices and values; little endian,
and in two bytes where the numbers of a segment fit them, as most do, because counting waits for the disk. For each row
block two int64 follow: the offset of its last segment, and the CRC-32 of this offset and the number of the block. The
last 16 bytes are the number of row blocks and a closing mark. So a reader of one row block reads nothing of the others,
however many there are. A file that has its final name is complete (`distembed.files`); later damage is found by the
checksums.
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

_MARK = b"DECOUNT4"
_NUMBERS = {2: "<u2", 4: "<i4", 8: "<i8"}
"""The types of the numbers of a segment, by their bytes."""
_HEAD, _CHECKSUM, _BLOCK, _TAIL = map(struct.Struct, ("<6q", "<q", "<2q", "<q8s"))


class DamagedRunsError(OSError):
    """An error in a file of partial counts, whose content is not what was written."""

    def __init__(self, url: str, what: str) -> None:
        super().__init__(f"{url}: {what}; delete the file and run the counting of this partition again.")


@contextmanager
def writing_runs(url: str, n_blocks: int) -> Iterator[Callable[[int, Run], None]]:
    """Yield the function that writes the rows of one row block of one run.

    The file appears when the `with` block ends without an error.
    """
    filesystem, path = url_to_fs(url)
    filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    lasts, offset = [-1] * n_blocks, 0
    with replacing(path, filesystem=filesystem) as partial, filesystem.open(partial, "wb") as file:

        def append(block: int, run: Run) -> None:
            nonlocal offset
            # Two bytes a number if all fit.
            indices, values = (
                np.ascontiguousarray(numbers, "<u2" if numbers.max(initial=0) < 2**16 else numbers.dtype)
                for numbers in (run.indices, run.values)
            )
            sizes = np.diff(run.indptr).astype("<i4")
            head = _HEAD.pack(
                lasts[block], block, len(sizes), len(indices), indices.itemsize, values.itemsize
            )
            data = b"".join(array.data for array in (sizes, indices, values))
            lasts[block] = offset
            checksum = _CHECKSUM.pack(zlib.crc32(data, zlib.crc32(head)))
            offset += file.write(head + checksum) + file.write(data)

        yield append
        entries = (_BLOCK.pack(last, _block_checksum(block, last)) for block, last in enumerate(lasts))
        file.write(b"".join(entries) + _TAIL.pack(n_blocks, _MARK))


def _block_checksum(block: int, last: int) -> int:
    return zlib.crc32(_BLOCK.pack(block, last))


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
        tail = file.read(_TAIL.size)
        n_blocks, mark = _TAIL.unpack(tail) if len(tail) == _TAIL.size else (0, b"")
        index = size - _TAIL.size - _BLOCK.size * n_blocks
        if mark != _MARK or not 0 <= index < size:
            raise DamagedRunsError(url, f"the index at the end of its {size} bytes is missing or damaged")
        if not 0 <= block < n_blocks:
            raise DamagedRunsError(url, f"it has {n_blocks} row blocks, and block {block} is asked for")
        file.seek(index + _BLOCK.size * block)
        offset, checksum = _BLOCK.unpack(file.read(_BLOCK.size))
        if checksum != _block_checksum(block, offset):
            raise DamagedRunsError(url, f"the index of row block {block} is damaged")
        while offset >= 0:
            file.seek(offset)
            head, checksum = file.read(_HEAD.size), file.read(_CHECKSUM.size)
            before, number, n_rows, n_entries, *widths = _HEAD.unpack(head.ljust(_HEAD.size, b"\0"))
            n_bytes = 4 * n_rows + sum(widths) * n_entries
            data = bytearray(n_bytes if 0 <= n_bytes <= index else 0)
            file.readinto(data)
            if number != block or checksum != _CHECKSUM.pack(zlib.crc32(data, zlib.crc32(head))):
                raise DamagedRunsError(url, f"the counts of row block {block} at byte {offset} are damaged")
            run = _unpack(data, n_rows, n_entries, *widths)
            if run.indptr[-1] != n_entries or (np.diff(run.indptr) < 0).any():
                raise DamagedRunsError(url, f"the rows of row block {block} at byte {offset} do not add up")
            yield run
            offset = before


def _unpack(data: bytearray, n_rows: int, n_entries: int, index_width: int, value_width: int) -> Run:
    sizes = np.frombuffer(data, "<i4", n_rows)
    indices = np.frombuffer(data, _NUMBERS[index_width], n_entries, 4 * n_rows)
    values = np.frombuffer(data, _NUMBERS[value_width], n_entries, 4 * n_rows + index_width * n_entries)
    # The kernels are compiled for writable arrays of four and eight bytes.
    kind = np.int64 if value_width == 8 else np.int32
    indptr = np.append(0, np.cumsum(sizes, dtype=np.int64))
    return Run(indptr, indices.astype(np.int32, copy=False), values.astype(kind, copy=False))


def run_bytes(runs: list[Run]) -> int:
    """Return the bytes that runs take in memory."""
    return sum(array.nbytes for run in runs for array in run)
