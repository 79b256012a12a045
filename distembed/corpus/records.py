"""Cuts the text of a partition where its records end, and hands its documents on in batches.

A mark is what ends a record, such as a line end. A partition holds the records from the end of the first mark that
begins in it to the end of the first mark that begins after it; the first partition of a file begins with the file.
Wherever a file is cut, each record is therefore read once and whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus.errors import BadRecord, CorpusError, RecordError
from distembed.corpus.streams import Partition, Progress, option_text, pieces_of
from distembed.formats.encodings import NOT_ASCII, guess_encoding

RECORD_BYTES = 1 << 26
"""A longer JSON line, row or page is a bad record, because it is parsed as a whole."""

TEXT_BYTES = 1 << 23
"""Plain text comes in pieces where a document is longer. The longest novels have 5 MB."""

FEWEST_SIGNS = 8
"""Bytes beyond ASCII from which on an encoding is guessed."""

CUT_BYTES = 1 << 12
"""So far back the white space is searched after which a long document is cut."""

HEADS = ("id", "title", "label")
"""The columns of every document."""


class Block(NamedTuple):
    """Whole records, or a piece of one that is longer than a limit."""

    offset: int
    """Where it begins: in the text of the file, or in that of the streams of a partition."""
    data: bytes
    continues: bool
    """Whether it begins inside a record; then it holds nothing else."""
    is_open: bool
    """Whether it ends inside a record; then it holds nothing else."""
    is_last: bool
    """Whether the file ends with it."""


def blocks_of(
    partition: Partition, progress: Progress, marks: Sequence[bytes], *, limit: int = RECORD_BYTES
) -> Iterator[Block]:
    """Yield the records of a partition that end in one of some marks, about a piece of the file at a time.

    A record over `limit` bytes comes in pieces. Without marks a file is one record. The last block of a file may be
    empty. A block begins with the end of the mark before where that may begin a mark itself.
    """
    border = Border(marks)
    data, offset, seen, has_begun, continues = bytearray(), 0, 0, False, False

    def take(n_bytes: int, *, is_open: bool = False, is_last: bool = False) -> Block:
        nonlocal offset, seen, continues
        with memoryview(data) as view:  # a slice of the array would be a copy of its own
            taken = Block(offset, bytes(view[:n_bytes]), continues, is_open, is_last)
        n_done = n_bytes if is_open else max(0, n_bytes - border.overlap)
        del data[:n_done]
        offset, seen, continues = offset + n_done, 0, is_open
        return taken

    for begin, piece, end_of_own, is_own in _from_first_mark(partition, progress, border):
        offset, has_begun = (offset if has_begun else begin), True
        data += piece
        if continues and (end := border.first(data, seen)):
            is_end = border.last(data, seen, end_of_own - offset) == 0
            yield take(end)
            if is_end:
                return
        if not continues:
            if end := border.last(data, seen, end_of_own - offset):
                yield take(end)
            if not is_own and (end := border.first(data, max(seen, end_of_own - offset))):
                yield take(end)
                return
        while len(data) >= limit + border.width:
            yield take(_place_to_cut(data, limit), is_open=True)
        seen = max(0, len(data) - border.width + 1)
    if has_begun:
        yield take(len(data), is_last=True)


class Border:
    """Where records end: after any of some marks."""

    def __init__(self, marks: Sequence[bytes]) -> None:
        self.marks = marks
        self.pattern = re.compile(b"|".join(map(re.escape, marks)) or b"(?!)")
        self.width = max(map(len, marks), default=1)
        pairs = [(one, other[:k]) for one in marks for other in marks for k in range(len(other))]
        self.overlap = max((len(b) for a, b in pairs if a != b and a.endswith(b)), default=0)
        """The bytes at the end of a mark with which another may begin."""

    def first(self, data: bytearray, begin: int) -> int:
        """Return the end of the first mark that begins at a place or after it; 0 where there is none."""
        found = self.pattern.search(data, max(begin, 0))
        return found.end() if found else 0

    def last(self, data: bytearray, begin: int, stop: int) -> int:
        """Return the end of the last mark that begins between two places; 0 where there is none."""
        stops = [(max(stop, 0) + len(mark) - 1, mark) for mark in self.marks]
        places = [(data.rfind(mark, begin, end), len(mark)) for end, mark in stops]
        return max((place + n for place, n in places if place >= 0), default=0)


def _from_first_mark(
    partition: Partition, progress: Progress, border: Border
) -> Iterator[tuple[int, bytes, int, bool]]:
    """Yield the bytes from the first record of a partition on, in pieces.

    With each comes where it begins, where so far the bytes end in which a mark of the partition may begin, and whether
    the piece is among them.
    """
    offset = end_of_own = partition.start
    rest, has_begun = b"", offset == 0
    for piece, is_own in pieces_of(partition, progress):
        end_of_own += len(piece) if is_own else 0
        rest += piece
        if not has_begun:
            found = border.pattern.search(rest)
            has_begun = found is not None and offset + found.start() < end_of_own
            n_skipped = found.end() - border.overlap if found else max(0, len(rest) - border.width + 1)
            rest, offset = rest[n_skipped:], offset + n_skipped
            if not has_begun and (found or (not is_own and offset >= end_of_own)):
                return
        if has_begun:
            yield offset, rest, end_of_own, is_own
            rest, offset = b"", offset + len(rest)


def _place_to_cut(data: bytearray, limit: int) -> int:
    """Return where to cut data: after white space, or else between two code points."""
    place = max(data.rfind(space, limit - CUT_BYTES, limit) for space in (b" ", b"\n", b"\t"))
    if place > 0:
        return place + 1
    return next((at for at in range(limit, limit - 4, -1) if data[at] & 0xC0 != 0x80), limit)


class Batch(NamedTuple):
    """Some documents, or a piece of one that is longer than `TEXT_BYTES`."""

    data: NDArray[np.uint8]
    """UTF-8 text. Uint8 array."""
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    """The spans of the text of each document. Int64 arrays (n,)."""
    documents: pa.Table
    """The id, title, label and further columns of the documents that begin here: n, or none where the first span
    continues the document of the batch before.
    """
    is_open: bool = False
    """Whether the last document goes on in the next batch."""

    @property
    def continues(self) -> bool:
        """Whether the first span continues the document of the batch before."""
        return len(self.starts) > self.documents.num_rows

    @property
    def n_closed(self) -> int:
        """The number of documents that end here."""
        return len(self.starts) - self.is_open

    @property
    def n_bytes(self) -> int:
        """The bytes of the text."""
        return int((self.stops - self.starts).sum())

    def texts(self) -> Iterator[bytes]:
        """Yield the text of each span."""
        spans = zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        return (self.data[start:stop].tobytes() for start, stop in spans)


def batch_of(texts: Sequence[bytes] | pa.Array, documents: pa.Table, *, is_open: bool = False) -> Batch:
    """Return texts, in bytes or as large strings without nulls, and their documents as a batch."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_binary())
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets or bytes(8), np.int64)[array.offset : array.offset + len(array) + 1]
    text = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
    return Batch(text, bounds[:-1] - bounds[0], bounds[1:] - bounds[0], documents, is_open)


WORD = re.compile(rb"\S+")


def in_pieces(batches: Iterable[Batch], n_words: int) -> Iterator[Batch]:
    """Yield documents in pieces of so many words between white space, each a document with its number in the id.

    A document that is no longer than a piece stays as it is.
    """
    number, n_seen, last = 1, 0, pa.table({})  # of the document that goes on: pieces, words, and columns
    for batch in (batch for batch in batches if len(batch.starts)):
        every = pa.concat_tables([last, batch.documents]) if batch.continues else batch.documents
        texts: list[bytes] = []
        rows: list[int] = []
        names: list[str] = []
        for row, (text, name) in enumerate(zip(batch.texts(), every["id"].to_pylist(), strict=True)):
            is_new, is_closed = row > 0 or not batch.continues, row < batch.n_closed
            number, n_seen = (1, 0) if is_new else (number, n_seen)
            begins = [found.start() for found in WORD.finditer(text)]
            cuts = begins[-n_seen % n_words if n_seen else n_words :: n_words]
            bounds = [0, *cuts, len(text)]
            texts += [text[begin:end] for begin, end in pairwise(bounds)]
            rows += [row] * (len(cuts) + 1)
            is_whole = is_new and is_closed and not cuts
            names += [name if is_whole else f"{name}#{number + k}" for k in range(len(cuts) + 1)]
            number, n_seen = number + len(cuts), n_seen + len(begins)
        documents = every.take(pa.array(rows, pa.int64())).set_column(0, "id", pa.array(names, pa.string()))
        # A piece of a document that began before, or that goes on, is alone in its batch.
        ends = {0, int(batch.continues), len(rows) - int(batch.is_open), len(rows)}
        for begin, end in pairwise(sorted(ends)):
            own = documents.slice(begin, end - begin if begin or not batch.continues else 0)
            yield batch_of(texts[begin:end], own, is_open=batch.is_open and end == len(rows))
        last = every.slice(len(every) - 1)


def document_table(
    ids: Sequence[str] | pa.Array,
    titles: Sequence[str] | pa.Array,
    labels: Sequence[str | None] | pa.Array,
    carried: Mapping[str, Sequence[str | None] | pa.Array] | None = None,
) -> pa.Table:
    """Return the columns of documents; a field that is carried along as "title" or "label" goes before the other."""
    columns = {
        name: pa.array(column, pa.string()) if not isinstance(column, pa.Array) else column.cast(pa.string())
        for name, column in [*zip(HEADS, (ids, titles, labels), strict=True), *(carried or {}).items()]
    }
    return pa.table(columns)


def is_utf8(data: bytes | NDArray[np.uint8]) -> bool:
    """Return whether text is UTF-8."""
    bounds = pa.py_buffer(np.array([0, len(data)], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, bounds, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def repaired(progress: Progress, text: bytes) -> bytes:
    """Return text in which bytes that are not UTF-8 are replaced, and count them."""
    valid = text.decode("utf-8", "ignore").encode()
    progress.n_replaced += len(text) - len(valid)
    return text if len(valid) == len(text) else text.decode("utf-8", "replace").encode()


def not_utf8(partition: Partition, data: bytes, offset: int) -> CorpusError:
    """Return the error for text, from a place of the file on, that is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        place = offset + error.start
        where = (
            f"line {line_of(partition, place)}, byte 0x{data[error.start]:02x} at offset {place} of the text"
        )
    return CorpusError(f"{partition.url} is not UTF-8: {where}; {encoding_advice(partition, data)}.")


def encoding_advice(partition: Partition, data: bytes) -> str:
    """Return what to do about text that is not UTF-8, with the encoding that it seems to have."""
    guess = guess_encoding(data) if len(NOT_ASCII.findall(data)) >= FEWEST_SIGNS else None
    seems = "" if guess is None else f"it reads as text in {guess.encoding} ({guess.text!r}); "
    encoding = option_text(partition.section, "encoding", "cp1252" if guess is None else guess.encoding)
    return f"{seems}give {encoding} (or what it is), or {replaced(partition)}"


def replaced(partition: Partition) -> str:
    """Return how to ask for the replacement of bytes that do not decode."""
    return option_text(partition.section, "errors", "replace")


def line_of(partition: Partition, offset: int) -> int:
    """Return the number of the line that holds a byte of the text of a file, whose beginning is read for it."""
    n_lines, left = 1, offset
    for piece in pieces_of(replace(partition, start=0, stop=None), Progress()):
        n_lines += piece.data[:left].count(b"\n")
        left -= len(piece.data)
        if left <= 0:
            break
    return n_lines


def record_error(partition: Partition, offset: int, what: str) -> RecordError:
    """Return an error that names a record, by its line or its place in the text."""
    return RecordError(BadRecord(partition.url, place_of(partition, offset), what))


def place_of(partition: Partition, offset: int) -> str:
    """Return the place of a record; its line is counted only for an error that ends the reading."""
    return f"byte {offset}" if partition.bad_records == "skip" else f"line {line_of(partition, offset)}"


def too_long(partition: Partition, place: str) -> RecordError:
    """Return the error for a record that is too long to be read as a whole."""
    what = f"has over {RECORD_BYTES:,} bytes, which cannot be read in bounded memory; give the text as plain text"
    return RecordError(BadRecord(partition.url, place, f"{what} or Parquet"))
