"""The text formats of word2vec and GloVe, a word and its values per line, and the binary format of word2vec.

Lines and records are parsed by compiled loops. A line that the loop cannot parse is passed to a plain Python parser,
which reads unusual lines and describes what is wrong with bad ones.

In binary a header line stands first, then for each word its bytes, a space and little-endian float32 values.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from distembed.dtypes import Float32s, Int64s
from distembed.formats.streams import MAX_LINE_BYTES, Stream
from distembed.vectors.rows import Block, Source, VectorFileError, check_finite, row_blocks, shown

# Powers as decimal literals: each is the float64 nearest to the true power, which 10.0**k is not always.
_POWERS = np.array([float(f"1e{k}") for k in range(65)])
_DIGITS = 18  # decimal digits that fit a 64-bit integer whatever they are
_SLACK = (
    2.0**-50
)  # above the relative error of mantissa, power and their product: 3 roundings of 2^-53 and 1e-17


@njit(cache=True, nogil=True)
def _is_blank(byte: int) -> bool:
    return byte == 32 or byte == 9 or byte == 13  # noqa: PLR1714 (compiled: a tuple test is slower)


@njit(cache=True, nogil=True)
def _digits(data: NDArray[np.uint8], i: int, stop: int) -> tuple[np.int64, int, int, int]:
    """Read `123.456`: its first 18 digits as an integer, its power of ten, the number of digits, its end."""
    mantissa, power, n_kept, n_seen, fraction = np.int64(0), 0, 0, 0, 0
    while i < stop:
        byte = data[i]
        if 48 <= byte <= 57:
            n_seen += 1
            if n_kept < _DIGITS:
                mantissa = mantissa * 10 + (byte - 48)
                n_kept += mantissa > 0
                power -= fraction
            else:
                power += 1 - fraction
        elif byte == 46 and fraction == 0:
            fraction = 1
        else:
            break
        i += 1
    return mantissa, power, n_seen, i


@njit(cache=True, nogil=True)
def _exponent(data: NDArray[np.uint8], i: int, stop: int) -> tuple[int, int]:
    """Read `e-12`; return the exponent and where it ends."""
    if i + 1 >= stop or (data[i] != 101 and data[i] != 69):
        return 0, i
    i += 1
    negative = data[i] == 45
    if data[i] == 45 or data[i] == 43:
        i += 1
    value, first = 0, i
    while i < stop and 48 <= data[i] <= 57 and value < 1000:
        value = value * 10 + (data[i] - 48)
        i += 1
    return (-value if negative else value), (i if i > first else -1)


@njit(cache=True, nogil=True)
def _number(data: NDArray[np.uint8], start: int, stop: int) -> tuple[float, bool]:
    """Return the decimal number in data[start:stop] and whether its rounding to float32 is certain.

    The float64 product of mantissa and power has an error below `_SLACK`; if both ends of that interval round
    to the same float32, that is the correct rounding. The rest (one value in 10^7, and fields that are not
    numbers) is left to Python.
    """
    negative = data[start] == 45
    i = start + 1 if negative or data[start] == 43 else start
    mantissa, power, n_seen, i = _digits(data, i, stop)
    exponent, i = _exponent(data, i, stop)
    power += exponent
    if n_seen == 0 or i != stop or power < -64 or power > 64:
        return 0.0, False
    value = mantissa / _POWERS[-power] if power < 0 else mantissa * _POWERS[power]
    certain = np.float32(value * (1.0 - _SLACK)) == np.float32(value * (1.0 + _SLACK))
    return (-value if negative else value), certain


@njit(cache=True, nogil=True)
def _values(data: NDArray[np.uint8], begin: int, stop: int, out: Float32s) -> int:
    """Read the last `out.size` fields of data[begin:stop]; return where the word before them ends, or -1."""
    for k in range(out.size - 1, -1, -1):
        left = stop
        while left > begin and not _is_blank(data[left - 1]):
            left -= 1
        if left in (stop, begin):
            return -1
        value, certain = _number(data, left, stop)
        if not certain:
            return -1
        out[k] = np.float32(value)
        stop = left
        while stop > begin and _is_blank(data[stop - 1]):
            stop -= 1
    return stop


@njit(cache=True, nogil=True)
def _parse_lines(
    data: NDArray[np.uint8], start: int, out: Float32s, row: int, spans: Int64s
) -> tuple[int, int]:
    """Parse plain lines from `start` until one is not plain or none is left; return (row, position).

    Every line ends with a line end. `out[row]` takes the values and `spans[row]` the word's place.
    """
    while start < data.size:
        end = start
        while data[end] != 10:
            end += 1
        stop = end
        while stop > start and _is_blank(data[stop - 1]):
            stop -= 1
        word_stop = _values(data, start, stop, out[row])
        if word_stop <= start:
            return row, start
        for i in range(start, word_stop):
            if _is_blank(data[i]):
                return row, start
        spans[row, 0], spans[row, 1] = start, word_stop
        row, start = row + 1, end + 1
    return row, start


def read_text(stream: Stream, source: Source, n_components: int | None) -> Iterator[Block]:
    """Yield the rows of a text file in blocks; blank lines are allowed only at its end."""
    n_read, blank = 0, False
    for data in _whole_lines(stream, source.path):
        body = data.rstrip(b" \t\r\n") + b"\n"
        if body != b"\n":
            if blank:
                raise VectorFileError(f"{source.at(n_read)} is blank; remove it")
            if n_components is None:
                n_components = _count_values(body[: body.index(b"\n")], source.path)
            words, vectors = _parse_block(body, source, n_components, n_read)
            check_finite(words, vectors, source, n_read)
            yield words, vectors
            n_read += len(words)
        blank = data.count(b"\n") > body.count(b"\n") or body == b"\n"


def _whole_lines(stream: Stream, name: str) -> Iterator[bytes]:
    """Yield the stream in pieces that end with a line end, which is added to the last line if it is missing."""
    rest: list[bytes] = []
    for chunk in stream.chunks():
        lines, end, tail = chunk.rpartition(b"\n")
        if end:
            yield b"".join([*rest, lines, end])
            rest = []
        rest.append(tail)
        if sum(map(len, rest)) > MAX_LINE_BYTES:
            raise VectorFileError(
                f"{name}: no line end within {MAX_LINE_BYTES >> 20} MiB, so it is no text file of vectors; "
                'give format="word2vec-binary" if it is binary'
            )
    if any(rest):
        yield b"".join([*rest, b"\n"])


def _parse_block(data: bytes, source: Source, n_components: int, n_read: int) -> Block:
    """Parse whole lines: the plain ones compiled, the others one by one."""
    array = np.frombuffer(data, dtype=np.uint8)
    n_lines = data.count(b"\n")
    fewest_bytes = n_lines * (2 * n_components + 2)  # nothing is allocated for what only a header promises
    if fewest_bytes > len(data):
        _refuse_short_line(data, source, n_components, n_read)
    vectors = np.empty((n_lines, n_components), dtype=np.float32)
    spans = np.empty((n_lines, 2), dtype=np.int64)
    row, position, unusual = 0, 0, {}
    while position < len(data):
        row, position = _parse_lines(array, position, vectors, row, spans)
        if position < len(data):
            end = data.index(b"\n", position)
            place = source.at(n_read + row)
            unusual[row], vectors[row] = _parse_line(data[position:end], n_components, place)
            row, position = row + 1, end + 1
    words = [
        source.decode(unusual[i] if i in unusual else data[start:stop], n_read + i)
        for i, (start, stop) in enumerate(spans.tolist())
    ]
    return words, vectors


def _refuse_short_line(data: bytes, source: Source, n_components: int, n_read: int) -> None:
    """Raise the error for the first bad line of a block that has fewer bytes than its values need."""
    for row, line in enumerate(data.removesuffix(b"\n").split(b"\n")):
        _parse_line(line, n_components, source.at(n_read + row))


def _parse_line(line: bytes, n_components: int, place: str) -> tuple[bytes, Float32s]:
    """Parse one line that the compiled loop cannot parse, or raise an error that describes what is wrong with it."""
    fields = _fields(line)
    if not fields:
        raise VectorFileError(f"{place} is blank; remove it")
    if len(fields) <= n_components:
        raise VectorFileError(
            f"{place}: {len(fields) - 1} values after the word {shown(fields[0])}, expected {n_components}; "
            "complete or remove the line"
        )
    values = [_to_float(field) for field in fields[-n_components:]]
    if None in values:
        raise VectorFileError(
            f"{place}: {shown(fields[values.index(None) - n_components])} is not a number; "
            "correct or remove the line"
        )
    word = fields[:-n_components]
    if len(word) > 1 and _to_float(word[-1]) is not None:
        n_values = len(fields) - 1
        raise VectorFileError(
            f"{place}: {n_values} values after the word {shown(word[0])}, expected {n_components}; "
            "correct or remove the line"
        )
    with np.errstate(over="ignore"):
        return b" ".join(word), np.array(values, dtype=np.float32)


def _fields(line: bytes) -> list[bytes]:
    stripped = line.strip(b" \t\r")
    return re.split(rb"[ \t\r]+", stripped) if stripped else []


def _to_float(field: bytes) -> float | None:
    try:
        return float(field) if b"_" not in field else None
    except ValueError:
        return None


def _count_values(line: bytes, name: str) -> int:
    """Return the number of values on a first line without a header; its first field is always the word."""
    fields = _fields(line)[1:]
    n_values = 0
    while n_values < len(fields) and _to_float(fields[-1 - n_values]) is not None:
        n_values += 1
    if n_values == 0:
        raise VectorFileError(f"{name}, line 1: {shown(line)} is not a word and its values; check the format")
    return n_values


def write_text(file: IO[bytes], words: list[str], vectors: Float32s) -> None:
    """Write each value with the fewest digits that are read back as the same float32."""
    for block_words, block in row_blocks(words, vectors):
        columns = [pa.array(np.ascontiguousarray(column)).cast(pa.string()) for column in block.T]
        lines = pc.binary_join_element_wise(pa.array(block_words, pa.string()), *columns, " ")
        file.write("\n".join([*lines.to_pylist(), ""]).encode())


def write_glove(file: IO[bytes], words: list[str], vectors: Float32s) -> None:
    """Write the text; a first word that begins like a byte-order mark has one before it, which readers take off."""
    file.write(codecs.BOM_UTF8 if words and words[0].startswith("\ufeff") else b"")
    write_text(file, words, vectors)


def write_word2vec(file: IO[bytes], words: list[str], vectors: Float32s) -> None:
    """Write the line `n_words n_components`, then the text."""
    file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
    write_text(file, words, vectors)


# ---- binary -----------------------------------------------------------------------------------------------

MAX_WORD_BYTES = 1 << 16  # a longer word means that the header is wrong


@njit(cache=True, nogil=True)
def _parse_records(data: NDArray[np.uint8], out: NDArray[np.uint8], spans: Int64s) -> tuple[int, int]:
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
                f"{source.at(n_read)}: no space after a word in {MAX_WORD_BYTES} bytes; correct the header's "
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
) -> tuple[list[str], Float32s, int]:
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


def write_binary(file: IO[bytes], words: list[str], vectors: Float32s) -> None:
    """Write records as gensim does, without a line end after each."""
    file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
    for block_words, block in row_blocks(words, vectors):
        rows = np.ascontiguousarray(block, dtype="<f4")
        file.write(
            b"".join(
                word.encode() + b" " + row.tobytes() for word, row in zip(block_words, rows, strict=True)
            )
        )
