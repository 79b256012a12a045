"""The word2vec binary format: a header line, then for each word its bytes, a blank and little-endian float32 values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np
from numba import njit
from numpy.typing import NDArray

from distembed.vectors.rows import Block, Source, VectorFileError, check_finite, row_blocks
from distembed.vectors.streams import MAX_LINE_BYTES, Stream

MAX_WORD_BYTES = 1 << 16  # a longer word means that the header is wrong


@njit(cache=True, nogil=True)
def _parse_records(
    data: NDArray[np.uint8], out: NDArray[np.uint8], spans: NDArray[np.int64]
) -> tuple[int, int]:
    """Parse whole records (word, blank, value bytes) from the start of `data`; return (rows, position)."""
    row, start, size = 0, 0, out.shape[1]
    while row < len(out):
        while start < data.size and data[start] == 10:
            start += 1
        stop = start
        while stop < data.size and data[stop] != 32:
            stop += 1
        if stop + 1 + size > data.size:
            break
        spans[row, 0], spans[row, 1] = start, stop
        out[row] = data[stop + 1 : stop + 1 + size]
        row, start = row + 1, stop + 1 + size
    return row, start


def read_binary(stream: Stream, source: Source, n_words: int, n_components: int) -> Iterator[Block]:
    """Yield the records of a word2vec binary file in blocks; a file that is cut short or too long is an error."""
    if 4 * n_components > MAX_LINE_BYTES:
        raise VectorFileError(
            f"{source.path}, line 1: the header promises {n_components} values per word, more than a record "
            f"of {MAX_LINE_BYTES >> 20} MiB holds; correct the header, or name another format="
        )
    rest, n_read = b"", 0
    for chunk in stream.chunks():
        data = rest + chunk
        words, vectors, position = _take_records(data, source, n_words - n_read, n_components, n_read)
        check_finite(words, vectors, source, n_read)
        rest, n_read = data[position:], n_read + len(words)
        if words:
            yield words, vectors
        if n_read == n_words and rest.strip(b"\n"):
            raise VectorFileError(
                f"{source.path}: bytes are left over after the {n_words} words of {n_components} values that "
                f"its header promises; correct the header, or give max_words={n_words} to read those"
            )
        if len(rest) > MAX_WORD_BYTES + 4 * n_components:
            raise VectorFileError(
                f"{source.at(n_read)}: no blank after a word in {MAX_WORD_BYTES} bytes; correct the header's "
                "number of components, or name another format="
            )
    if n_read < n_words:
        remedy = f", or give max_words={n_read} to read what is whole" if n_read else ""
        raise VectorFileError(
            f"{source.at(n_read)} of the {n_words} that the header promises is cut short; it begins at byte "
            f"{stream.position - len(rest)} and the file ends at byte {stream.position}: "
            f"download the file again{remedy}"
        )


def _take_records(
    data: bytes, source: Source, n_left: int, n_components: int, n_read: int
) -> tuple[list[str], NDArray[np.float32], int]:
    """Return the words and vectors of the whole records in `data`, and where the first broken one begins."""
    capacity = min(n_left, len(data) // (4 * n_components + 1))
    raw = np.empty((capacity, 4 * n_components), dtype=np.uint8)
    spans = np.empty((capacity, 2), dtype=np.int64)
    n_rows, position = _parse_records(np.frombuffer(data, dtype=np.uint8), raw, spans)
    words = [
        source.decode(data[start:stop], n_read + row)
        for row, (start, stop) in enumerate(spans[:n_rows].tolist())
    ]
    return words, raw[:n_rows].view("<f4").astype(np.float32, copy=False), position


def write_binary(file: IO[bytes], words: list[str], vectors: NDArray[np.float32]) -> None:
    """Write records as gensim does, without a line end after each."""
    file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
    for block_words, block in row_blocks(words, vectors):
        rows = np.ascontiguousarray(block, dtype="<f4")
        file.write(
            b"".join(
                word.encode() + b" " + row.tobytes() for word, row in zip(block_words, rows, strict=True)
            )
        )
