"""Files of word vectors: word2vec text and binary, GloVe text, Parquet, safetensors.

Every format is read as a stream of blocks, `(words, float32 array)`, and gathered by one function, which is
the only place that checks numbers, duplicates and counts. Beside the finished matrix a reader holds one
block of the file (`READ_BYTES`). Text is parsed by a compiled loop; the lines it does not understand go one
by one to a plain Python parser, which reads the unusual ones and names what is wrong with the bad ones.
Nothing is ever unpickled.

=================  ===========================================================================================
word2vec           text, first line `n_words n_components`, then `word value value ...`
word2vec-binary    first line as above, then for each word its bytes, one blank, little-endian float32 values;
                   a line end before a word is skipped (the C program writes one, gensim does not)
glove              word2vec text without its first line
parquet            columns `word` (string) and `vector` (list of float32)
safetensors        `vectors` float32 (n, d); `words` uint8, the UTF-8 bytes of all words joined; `offsets`
                   int64 (n + 1,): word i is `words[offsets[i]:offsets[i + 1]]`
=================  ===========================================================================================

Text and binary may be compressed (.gz, .bz2, .xz, .zst by the name's end). A path may be any fsspec URL.

**Words with blanks.** Text is read from the right: the last d fields are the values, everything before them
is the word, so GloVe's `. . .` is read as written. A line is refused when the field before the values is a
number, because then it has too many values rather than a word with blanks. Binary ends a word at the first
blank. Writing text or binary refuses words that hold blanks, tabs or line ends, or are empty, because other
programs would misread the file; `space="_"` writes another character in their place, Parquet and
safetensors keep every word as it is.
"""

from __future__ import annotations

import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, get_args

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import safetensors
import safetensors.numpy
from fsspec.implementations.local import LocalFileSystem
from numba import njit
from numpy.typing import NDArray

from distembed.files import replacing

Format = Literal["auto", "word2vec", "word2vec-binary", "glove", "parquet", "safetensors"]
Block = tuple[list[str], NDArray[np.float32]]

READ_BYTES = 8 << 20  # text parsed at a time: large against a line, small against any matrix worth loading
HEAD_BYTES = 1 << 16  # looked at to recognise a format
BLOCK_VALUES = 1 << 21  # float32 values handled at a time elsewhere: 8 MiB
MAX_LINE_BYTES = 64 << 20  # a longer "line" is not a line: some 5 million values
MAX_WORD_BYTES = 1 << 16  # a longer "word" in a binary file means that its header is wrong

_SUFFIX_FORMATS: dict[str, Format] = {
    ".txt": "word2vec",
    ".vec": "word2vec",
    ".w2v": "word2vec",
    ".glove": "glove",
    ".bin": "word2vec-binary",
    ".parquet": "parquet",
    ".safetensors": "safetensors",
}
_COMPRESSION_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_DAMAGED: tuple[type[Exception], ...] = (EOFError, OSError, zlib.error, lzma.LZMAError)
with suppress(ImportError):
    import zstandard

    _DAMAGED = (*_DAMAGED, zstandard.ZstdError)


class VectorFileError(ValueError):
    """A file of word vectors holds something other than word vectors."""


class WordRows(NamedTuple):
    """The rows of a file of word vectors."""

    words: list[str]
    vectors: NDArray[np.float32]


class _Source(NamedTuple):
    """The name of one file, how its rows are counted in errors, and how its words are decoded."""

    path: str
    unit: str
    first: int
    encoding: str = "utf-8"
    errors: str = "strict"

    def at(self, row: int) -> str:
        return f"{self.path}, {self.unit} {self.first + row}"

    def decode(self, word: bytes, row: int) -> str:
        try:
            return word.decode(self.encoding, self.errors)
        except UnicodeDecodeError as error:
            raise VectorFileError(
                f"{self.at(row)}: the word {word!r} is not {self.encoding}; "
                'name the encoding (encoding="latin-1") or replace what cannot be read (errors="replace")'
            ) from error


# ---------------------------------------------------------------------------------------------------- reading


def read_vectors(
    path: str | Path,
    *,
    format: Format = "auto",  # noqa: A002 (the word every reader of files uses for this)
    max_words: int | None = None,
    encoding: str = "utf-8",
    errors: Literal["strict", "replace", "ignore"] = "strict",
    duplicates: Literal["error", "first"] = "error",
) -> WordRows:
    """Read words and vectors from a file or fsspec URL of any format of this module.

    Parameters
    ----------
    path
        File or URL; text and binary are decompressed by the name's end.
    format
        "auto" goes by the name's end and the first bytes: two whole numbers on the first line are a
        word2vec header, control characters after it mean binary, no header means GloVe text.
    max_words
        Read only the first words of the file.
    encoding, errors
        Of the words, in text and binary files; any encoding that agrees with ASCII on blanks and digits.
    duplicates
        "first" keeps the first of equal words instead of refusing the file.

    Returns
    -------
    WordRows
        words, and vectors float32 (n_words, n_components).

    Raises
    ------
    VectorFileError
        A short or long line, a value that is not a finite number, a duplicate word, a header that disagrees
        with the contents, a truncated or empty file, a word in another encoding: each with file, line and
        remedy.
    FileNotFoundError
        There is no such file.
    """
    name = str(path)
    if max_words is not None and max_words < 1:
        raise ValueError(f"max_words is {max_words}; give 1 or more")
    if (chosen := _reading_format(name, format)) == "safetensors":
        rows = _gather(_read_safetensors(name), name, None, max_words)
        return _without_duplicates(rows, _Source(name, "row", 0), duplicates)
    with _reading(name) as file:
        if chosen == "parquet":
            rows = _gather(_read_parquet(file, name), name, None, max_words)
            return _without_duplicates(rows, _Source(name, "row", 0), duplicates)
        stream = _Stream(file, _read_head(file, name))
        if chosen == "auto":
            chosen = _sniff(stream.head, name)
        rows, source = _read_stream(stream, name, chosen, max_words, encoding=encoding, errors=errors)
        return _without_duplicates(rows, source, duplicates)


def _read_stream(
    stream: _Stream, name: str, chosen: Format, max_words: int | None, *, encoding: str, errors: str
) -> tuple[WordRows, _Source]:
    """Read word2vec text or binary or GloVe text."""
    if chosen == "glove":
        source = _Source(name, "line", 1, encoding, errors)
        return _gather(_read_text(stream, source, None), name, None, max_words), source
    n_words, n_components = _read_header(stream, name)
    if chosen == "word2vec":
        source = _Source(name, "line", 2, encoding, errors)
        return _gather(_read_text(stream, source, n_components), name, n_words, max_words), source
    source = _Source(name, "record", 1, encoding, errors)
    return _gather(_read_binary(stream, source, n_words, n_components), name, n_words, max_words), source


def _reading_format(name: str, chosen: Format) -> Format:
    if chosen not in get_args(Format):
        raise ValueError(f"format is {chosen!r}; give one of {', '.join(get_args(Format))}")
    by_suffix = _SUFFIX_FORMATS.get(_suffix(name))
    return by_suffix if chosen == "auto" and by_suffix in ("parquet", "safetensors") else chosen


def _suffix(name: str) -> str:
    stem = name
    for compression in _COMPRESSION_SUFFIXES:
        stem = stem.removesuffix(compression)
    return Path(stem).suffix.lower()


@contextmanager
def _reading(name: str) -> Iterator[IO[bytes]]:
    """Open for reading, decompressing by the name's end; name a file whose compressed data is damaged."""
    try:
        opened = fsspec.open(name, "rb", compression="infer")
    except ValueError as error:
        raise VectorFileError(
            f"{name}: {error}; for .zst install distembed[zstd], or decompress it first"
        ) from error
    try:
        with opened as file:
            yield file
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except _DAMAGED as error:
        raise VectorFileError(
            f"{name} cannot be read to its end ({error}); copy or download it again"
        ) from error


class _Stream:
    """The bytes of a file whose first ones were already read: `take_line`, then `chunks`."""

    def __init__(self, file: IO[bytes], head: bytes) -> None:
        self._file = file
        self.head = head

    def take_line(self) -> bytes:
        while b"\n" not in self.head and len(self.head) < MAX_LINE_BYTES:
            more = self._file.read(READ_BYTES)
            if not more:
                break
            self.head += more
        line, _, self.head = self.head.partition(b"\n")
        return line

    def chunks(self) -> Iterator[bytes]:
        chunk, self.head = self.head, b""
        yield chunk
        while chunk := self._file.read(READ_BYTES):
            yield chunk


def _read_head(file: IO[bytes], name: str) -> bytes:
    """Return the first bytes without a UTF-8 byte-order mark; refuse an empty file and UTF-16."""
    head = file.read(HEAD_BYTES)
    if not head.strip():
        raise VectorFileError(f"{name} is empty; give a file with one word and its values a line")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise VectorFileError(f"{name} is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {name}")
    return head.removeprefix(b"\xef\xbb\xbf")


def _sniff(head: bytes, name: str) -> Format:
    """Recognise word2vec text, word2vec binary or GloVe text by the name's end and the first bytes."""
    first, _, rest = head.partition(b"\n")
    if not re.fullmatch(rb"\s*\d+[ \t]+\d+\s*", first):
        return "glove"
    is_binary = _suffix(name) == ".bin" or re.search(rb"[\x00-\x08\x0e-\x1f]", rest)
    return "word2vec-binary" if is_binary else "word2vec"


def _read_header(stream: _Stream, name: str) -> tuple[int, int]:
    line = stream.take_line()
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields) or int(fields[1]) == 0:
        raise VectorFileError(
            f"{name}, line 1: {_shown(line)} is not a word2vec header `n_words n_components`; "
            'give format="glove" for a text file without a header'
        )
    return int(fields[0]), int(fields[1])


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _gather(blocks: Iterable[Block], name: str, n_promised: int | None, max_words: int | None) -> WordRows:
    """Collect blocks into one matrix and check the promised count.

    The matrix grows by `ndarray.resize`, which the allocator serves in place for large arrays, so that no
    second copy is held.
    """
    words: list[str] = []
    vectors = np.empty((0, 0), dtype=np.float32)
    wanted = n_promised if max_words is None else max_words
    for block_words, block in blocks:
        n_kept = len(block) if max_words is None else min(len(block), max_words - len(words))
        vectors = _extended(vectors, len(words), block[:n_kept], wanted)
        words.extend(block_words[:n_kept])
        if len(words) == max_words:
            break
    if n_promised is not None and len(words) != (
        n_promised if max_words is None else min(n_promised, max_words)
    ):
        raise VectorFileError(
            f"{name}, line 1: the header promises {n_promised} words and the file holds {len(words)}; "
            "download it again, correct the header, or give "
            f"max_words={min(n_promised, len(words))} to read those"
        )
    if not words:
        raise VectorFileError(f"{name} holds no words; give a file with one word and its values a line")
    vectors.resize((len(words), vectors.shape[1]), refcheck=False)
    return WordRows(words, vectors)


def _extended(
    vectors: NDArray[np.float32], n_filled: int, block: NDArray[np.float32], n_wanted: int | None
) -> NDArray[np.float32]:
    """Append a block to the filled rows, making room for a quarter more (not above the number wanted)."""
    n_needed = n_filled + len(block)
    if vectors.shape[1] == 0:
        vectors = np.empty((0, block.shape[1]), dtype=np.float32)
    if n_needed > len(vectors):
        room = n_needed + n_needed // 4
        n_rows = room if n_wanted is None else max(n_needed, min(room, n_wanted))
        vectors.resize((n_rows, block.shape[1]), refcheck=False)
    vectors[n_filled:n_needed] = block
    return vectors


def _check_finite(words: list[str], block: NDArray[np.float32], source: _Source, n_read: int) -> None:
    bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
    if bad.size:
        row = int(bad[0])
        value = block[row][~np.isfinite(block[row])][0]
        raise VectorFileError(
            f"{source.at(n_read + row)}: the vector of {words[row]!r} holds {value}; "
            "remove that word or train it again"
        )


def _without_duplicates(rows: WordRows, source: _Source, duplicates: str) -> WordRows:
    seen: dict[str, int] = {}
    repeated = [row for row, word in enumerate(rows.words) if seen.setdefault(word, row) != row]
    if not repeated:
        return rows
    if duplicates == "first":
        return WordRows(list(seen), rows.vectors[np.fromiter(seen.values(), dtype=np.int64)])
    word = rows.words[repeated[0]]
    raise VectorFileError(
        f"{source.at(repeated[0])}: the word {word!r} stands already in {source.unit} "
        f'{source.first + seen[word]}; give duplicates="first" to keep the first of each'
    )


# ------------------------------------------------------------------------------------------------------- text

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
    """Read `e-12` and return the exponent and where it ends."""
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

    The float64 product of mantissa and power is off by less than `_SLACK`; where both ends of that interval
    round to the same float32, that is the correct rounding. The rest (one value in 10^7, and what is no
    number) is left to Python.
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
def _values(data: NDArray[np.uint8], begin: int, stop: int, out: NDArray[np.float32]) -> int:
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
    data: NDArray[np.uint8], start: int, out: NDArray[np.float32], row: int, spans: NDArray[np.int64]
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


def _read_text(stream: _Stream, source: _Source, n_components: int | None) -> Iterator[Block]:
    """Yield the rows of a text file in blocks; blank lines are allowed at its end only."""
    n_read, blank = 0, False
    for data in _whole_lines(stream, source.path):
        body = data.rstrip(b" \t\r\n") + b"\n"
        if body != b"\n":
            if blank:
                raise VectorFileError(f"{source.at(n_read)} is blank; remove it")
            if n_components is None:
                n_components = _count_values(body[: body.index(b"\n")], source.path)
            words, vectors = _parse_block(body, source, n_components, n_read)
            _check_finite(words, vectors, source, n_read)
            yield words, vectors
            n_read += len(words)
        blank = data.count(b"\n") > body.count(b"\n") or body == b"\n"


def _whole_lines(stream: _Stream, name: str) -> Iterator[bytes]:
    """Cut the stream after line ends, and end the last line where the file does not."""
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


def _parse_block(data: bytes, source: _Source, n_components: int, n_read: int) -> Block:
    """Parse whole lines: the plain ones compiled, the others one by one."""
    array = np.frombuffer(data, dtype=np.uint8)
    n_lines = data.count(b"\n")
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


def _parse_line(line: bytes, n_components: int, place: str) -> tuple[bytes, NDArray[np.float32]]:
    """Read one line that is not plain, or say what is wrong with it."""
    fields = _fields(line)
    if not fields:
        raise VectorFileError(f"{place} is blank; remove it")
    if len(fields) <= n_components:
        raise VectorFileError(
            f"{place}: {len(fields) - 1} values after the word {_shown(fields[0])}, expected {n_components}; "
            "complete or remove the line"
        )
    values = [_to_float(field) for field in fields[-n_components:]]
    if None in values:
        raise VectorFileError(
            f"{place}: {_shown(fields[values.index(None) - n_components])} is not a number; "
            "correct or remove the line"
        )
    word = fields[:-n_components]
    if len(word) > 1 and _to_float(word[-1]) is not None:
        n_values = len(fields) - 1
        raise VectorFileError(
            f"{place}: {n_values} values after the word {_shown(word[0])}, expected {n_components}; "
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
    """Count the numbers at the end of a first line without a header; its first field is always the word."""
    fields = _fields(line)[1:]
    n_values = 0
    while n_values < len(fields) and _to_float(fields[-1 - n_values]) is not None:
        n_values += 1
    if n_values == 0:
        raise VectorFileError(
            f"{name}, line 1: {_shown(line)} is not a word and its values; check the format"
        )
    return n_values


# ------------------------------------------------------------------------------------------- word2vec binary


@njit(cache=True, nogil=True)
def _parse_records(
    data: NDArray[np.uint8], out: NDArray[np.uint8], spans: NDArray[np.int64]
) -> tuple[int, int]:
    """Take whole records (word, blank, value bytes) from the start of `data`; return (rows, position)."""
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


def _read_binary(stream: _Stream, source: _Source, n_words: int, n_components: int) -> Iterator[Block]:
    """Yield the records of a word2vec binary file in blocks; refuse one cut short or with bytes left over."""
    rest, n_read = b"", 0
    for chunk in stream.chunks():
        data = rest + chunk
        words, vectors, position = _take_records(data, source, n_words - n_read, n_components, n_read)
        _check_finite(words, vectors, source, n_read)
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
        raise VectorFileError(
            f"{source.at(n_read)} of the {n_words} that the header promises is cut short; download the file "
            f"again, or give max_words={n_read} to read what is whole"
        )


def _take_records(
    data: bytes, source: _Source, n_left: int, n_components: int, n_read: int
) -> tuple[list[str], NDArray[np.float32], int]:
    capacity = min(n_left, len(data) // (4 * n_components) + 1)
    raw = np.empty((capacity, 4 * n_components), dtype=np.uint8)
    spans = np.empty((capacity, 2), dtype=np.int64)
    n_rows, position = _parse_records(np.frombuffer(data, dtype=np.uint8), raw, spans)
    words = [
        source.decode(data[start:stop], n_read + row)
        for row, (start, stop) in enumerate(spans[:n_rows].tolist())
    ]
    return words, raw[:n_rows].view("<f4").astype(np.float32, copy=False), position


# ------------------------------------------------------------------------------------ Parquet and safetensors


def _read_parquet(file: IO[bytes], name: str) -> Iterator[Block]:
    try:
        table = pq.ParquetFile(file, page_checksum_verification=True)
    except pa.ArrowInvalid as error:
        raise VectorFileError(
            f"{name} is not a whole Parquet file ({error}); write or download it again"
        ) from error
    columns = table.schema_arrow.names
    if not {"word", "vector"} <= set(columns):
        raise VectorFileError(
            f"{name} has the columns {columns}; it needs `word` (string) and `vector` (list of float)"
        )
    n_read, width = 0, None
    for batch in table.iter_batches(batch_size=1 << 12, columns=["word", "vector"]):
        words, vectors = _parquet_rows(batch, name, n_read)
        width = width or vectors.shape[1]
        if vectors.shape[1] != width:
            raise VectorFileError(
                f"{name}, row {n_read}: {vectors.shape[1]} values, expected {width}; write it again"
            )
        _check_finite(words, vectors, _Source(name, "row", 0), n_read)
        yield words, vectors
        n_read += len(words)


def _parquet_rows(batch: pa.RecordBatch, name: str, first: int) -> Block:
    words, lists = batch.column("word"), batch.column("vector")
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    values = lists.flatten()
    if words.null_count or lists.null_count or values.null_count:
        raise VectorFileError(
            f"{name}, rows {first} to {first + len(batch)}: a word or value is missing; write it again"
        )
    short = np.flatnonzero(lengths != lengths[0])
    if short.size or lengths[0] == 0:
        row = int(short[0]) if short.size else 0
        raise VectorFileError(
            f"{name}, row {first + row}: {lengths[row]} values, expected {lengths[0] or 1}; write it again"
        )
    matrix = values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return words.cast(pa.string()).to_pylist(), matrix.reshape(len(batch), int(lengths[0]))


def _read_safetensors(name: str) -> Iterator[Block]:
    try:
        tensors = _safetensors_arrays(name)
    except safetensors.SafetensorError as error:
        raise VectorFileError(
            f"{name} is not a whole safetensors file ({error}); write or download it again"
        ) from error
    missing = {"vectors", "words", "offsets"} - set(tensors)
    if missing:
        raise VectorFileError(
            f"{name} holds the tensors {sorted(tensors)} and lacks {sorted(missing)}: it has no words; "
            "load it with safetensors and give the words yourself: WordVectors(words, vectors)"
        )
    blob, offsets, vectors = tensors["words"].tobytes(), tensors["offsets"], tensors["vectors"]
    if (
        vectors.ndim != 2
        or offsets.shape != (len(vectors) + 1,)
        or np.any(np.diff(offsets) < 0)
        or (offsets[0], offsets[-1]) != (0, len(blob))
    ):
        raise VectorFileError(f"{name}: words, offsets and vectors disagree; write it again")
    source = _Source(name, "row", 0)
    spans = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    words = [source.decode(blob[start:stop], row) for row, (start, stop) in enumerate(spans)]
    step = max(1, BLOCK_VALUES // max(vectors.shape[1], 1))
    for start in range(0, len(words), step):
        block = vectors[start : start + step].astype(np.float32, copy=False)
        _check_finite(words[start : start + step], block, source, start)
        yield words[start : start + step], block


def _safetensors_arrays(name: str) -> dict[str, NDArray[Any]]:
    filesystem, local = fsspec.url_to_fs(name)
    if isinstance(filesystem, LocalFileSystem):
        return dict(safetensors.numpy.load_file(local))
    return dict(safetensors.numpy.load(filesystem.cat_file(local)))


# ---------------------------------------------------------------------------------------------------- writing


def write_vectors(
    path: str | Path,
    words: list[str],
    vectors: NDArray[np.float32],
    *,
    format: Format | None = None,  # noqa: A002
    space: str | None = None,
) -> None:
    """Write words and vectors to a file or fsspec URL; a local file appears whole or not at all.

    Parameters
    ----------
    path
        File or URL. Text and binary are compressed by the name's end (.gz, .bz2, .xz, .zst).
    words, vectors
        n words and float32 (n, d), finite.
    format
        Default by the name's end: .txt .vec .w2v word2vec text, .bin word2vec binary, .glove, .parquet,
        .safetensors.
    space
        Written in place of blanks, tabs and line ends inside words (text and binary).

    Raises
    ------
    ValueError
        The format cannot be told from the name, or a word cannot be written in it.
    """
    name = str(path)
    chosen = format or _SUFFIX_FORMATS.get(_suffix(name))
    if chosen is None or chosen == "auto" or chosen not in get_args(Format):
        raise ValueError(
            f"the format of {name} cannot be told from its name; "
            f"give format= one of {', '.join(get_args(Format)[1:])}"
        )
    if chosen in ("parquet", "safetensors") and name.endswith(_COMPRESSION_SUFFIXES):
        raise ValueError(
            f"{name}: {chosen} files are not compressed as a whole; leave out {Path(name).suffix}"
        )
    if chosen == "safetensors":
        _write_safetensors(name, words, vectors)
        return
    if chosen != "parquet":
        words = _written_words(words, chosen, space)
    with _writing(name) as file:
        _WRITERS[chosen](file, words, vectors)


def _written_words(words: list[str], chosen: str, space: str | None) -> list[str]:
    """Return the words as written, with blanks replaced or refused."""
    if space is not None:
        words = [re.sub(r"[ \t\r\n]", space, word) for word in words]
    bad = next((word for word in words if not word or re.search(r"[ \t\r\n]", word)), None)
    if bad is not None:
        raise ValueError(
            f"the word {bad!r} cannot be written as {chosen}, which ends words at blanks; "
            'give space="_", or save as .parquet or .safetensors'
        )
    return words


@contextmanager
def _writing(name: str) -> Iterator[IO[bytes]]:
    """Open for writing, compressed as the name says; the file appears when the block ends without an error."""
    filesystem, target = fsspec.url_to_fs(name)
    compression = fsspec.utils.infer_compression(name)
    with (
        replacing(target, filesystem=filesystem) as partial,
        fsspec.open(filesystem.unstrip_protocol(partial), "wb", compression=compression) as file,
    ):
        yield file


def _row_blocks(words: list[str], vectors: NDArray[np.float32]) -> Iterator[Block]:
    step = max(1, BLOCK_VALUES // vectors.shape[1])
    for start in range(0, len(words), step):
        yield words[start : start + step], vectors[start : start + step]


def _write_text(file: IO[bytes], words: list[str], vectors: NDArray[np.float32]) -> None:
    """Write each value with the fewest digits that read back as the same float32."""
    for block_words, block in _row_blocks(words, vectors):
        columns = [pa.array(np.ascontiguousarray(column)).cast(pa.string()) for column in block.T]
        lines = pc.binary_join_element_wise(pa.array(block_words, pa.string()), *columns, " ")
        file.write("\n".join([*lines.to_pylist(), ""]).encode())


def _write_word2vec(file: IO[bytes], words: list[str], vectors: NDArray[np.float32]) -> None:
    file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
    _write_text(file, words, vectors)


def _write_binary(file: IO[bytes], words: list[str], vectors: NDArray[np.float32]) -> None:
    file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
    for block_words, block in _row_blocks(words, vectors):
        rows = np.ascontiguousarray(block, dtype="<f4")
        file.write(
            b"".join(
                word.encode() + b" " + row.tobytes() for word, row in zip(block_words, rows, strict=True)
            )
        )


def _write_parquet(file: IO[bytes], words: list[str], vectors: NDArray[np.float32]) -> None:
    kind = pa.list_(pa.float32(), vectors.shape[1])
    schema = pa.schema([("word", pa.string()), ("vector", kind)])
    with pq.ParquetWriter(
        file, schema, compression="zstd", use_dictionary=False, write_page_checksum=True
    ) as writer:
        for block_words, block in _row_blocks(words, vectors):
            values = pa.array(np.ascontiguousarray(block).ravel())
            lists = pa.FixedSizeListArray.from_arrays(values, vectors.shape[1])
            writer.write_batch(pa.record_batch([pa.array(block_words, pa.string()), lists], schema=schema))


_WRITERS: dict[str, Callable[[IO[bytes], list[str], NDArray[np.float32]], None]] = {
    "word2vec": _write_word2vec,
    "glove": _write_text,
    "word2vec-binary": _write_binary,
    "parquet": _write_parquet,
}


def _write_safetensors(name: str, words: list[str], vectors: NDArray[np.float32]) -> None:
    encoded = [word.encode() for word in words]
    tensors = {
        "vectors": np.ascontiguousarray(vectors),
        "words": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        "offsets": np.cumsum([0, *map(len, encoded)], dtype=np.int64),
    }
    filesystem, target = fsspec.url_to_fs(name)
    if not isinstance(filesystem, LocalFileSystem):
        filesystem.pipe_file(target, safetensors.numpy.save(tensors))
        return
    with replacing(target) as partial:
        safetensors.numpy.save_file(tensors, partial)
