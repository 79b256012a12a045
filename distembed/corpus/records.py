"""Cuts the text of a partition where its records end, and hands its documents on in batches: those of plain text here.

Plain text has a document on each line, blocks between blank lines with a title, or a document in each file.

A mark is what ends a record, such as a line end. A partition holds the records from the end of the first mark that
begins in it to the end of the first mark that begins after it; the first partition of a file begins with the file.
Wherever a file is cut, each record is therefore read once and whole.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distembed.corpus.streams import CorpusError, Partition, Progress, pieces_of
from distembed.formats.encodings import NOT_ASCII, guess_encoding, holds_utf8
from distembed.formats.names import without_compression

RECORD_BYTES = 1 << 26
"""A longer JSON line, row or page is a bad record, because it is parsed as a whole."""

TEXT_BYTES = 1 << 23
"""A longer document of plain text is cut into several. The longest novels have 5 MB."""

FEWEST_SIGNS = 8
"""Bytes beyond ASCII from which on an encoding is guessed."""

CUT_BYTES = 1 << 12
"""So far back the white space is searched after which a long document is cut."""

HEADS = ("id", "title", "label")
"""The columns of every document."""


BLANK_LINE = re.compile(rb"\n\r?\n")
"""What ends a block. (A line of white space is text.)"""
LAST_LINE_END = re.compile(rb"(?:\r?\n|\r)\Z")
MAX_TITLE_BYTES = 1024


class Block(NamedTuple):
    """Whole records, or a piece of one that is longer than a limit."""

    offset: int
    """Where its first record begins: in the text of the file, or in that of the streams of a partition."""
    data: bytes
    piece: int
    """The number of the piece, from 1; 0 for whole records."""
    is_last: bool
    """Whether the file ends with it."""


def blocks_of(  # noqa: C901 - one loop over the pieces
    partition: Partition, progress: Progress, marks: Sequence[bytes], *, limit: int = RECORD_BYTES
) -> Iterator[Block]:
    """Yield the records of a partition that end in one of some marks, about a piece of the file at a time.

    A record over `limit` bytes comes in pieces. Without marks a file is one record. The last block of a file may be
    empty. A block begins with the end of the mark before where that may begin a mark itself.
    """
    pattern = re.compile(b"|".join(map(re.escape, marks)) or b"(?!)")
    width = max(map(len, marks), default=1)
    overlap = int(
        any(mark[:1] == mark[-1:] for mark in marks if len(mark) > 1)
    )  # of the end of a mark with another
    data, offset, begin, seen, number = bytearray(), partition.start, partition.start, 0, 0
    has_begun, end_of_own = False, offset  # so far the bytes end in which a mark of the partition may begin

    def last_end() -> int:
        """Return the end of the last mark of the partition; 0 where there is none."""
        stop = max(end_of_own - offset, 0) - 1
        places = [(data.rfind(mark, seen, stop + len(mark)), len(mark)) for mark in marks]
        return max((place + n_bytes for place, n_bytes in places if place >= 0), default=0)

    def take(n_bytes: int, *, goes_on: bool = False, is_last: bool = False) -> Block:
        nonlocal offset, begin, seen, number
        with memoryview(data) as view:  # a slice of the array would be a copy of its own
            taken = Block(begin, bytes(view[:n_bytes]), number + (goes_on or number > 0), is_last)
        n_done = n_bytes if goes_on else max(0, n_bytes - overlap)
        del data[:n_done]
        offset, seen = offset + n_done, 0
        number, begin = (number + 1, begin) if goes_on else (0, offset)
        return taken

    for piece, is_own in pieces_of(partition, progress):
        data += piece
        end_of_own += len(piece) if is_own else 0
        has_begun = has_begun or partition.start == 0
        if not has_begun:  # what is before the first mark is of the partition before
            found = pattern.search(data)
            has_begun = found is not None and offset + found.start() < end_of_own
            n_skipped = found.end() - overlap if found else max(0, len(data) - width + 1)
            del data[:n_skipped]
            offset = begin = offset + n_skipped
            if not has_begun and (found or (not is_own and offset >= end_of_own)):
                return
            if not has_begun:
                continue
        if number and (found := pattern.search(data, seen)):
            is_end = last_end() == 0
            yield take(found.end())
            if is_end:
                return
        if not number:
            if end := last_end():
                yield take(end)
            if not is_own and (found := pattern.search(data, max(seen, end_of_own - offset))):
                yield take(found.end())
                return
        while len(data) >= limit + width:
            # After white space, or else between two code points.
            place = max(data.rfind(space, limit - CUT_BYTES, limit) for space in (b" ", b"\n", b"\t")) + 1
            ends = (at for at in range(limit, limit - 4, -1) if data[at] & 0xC0 != 0x80)
            yield take(place if place > 1 else next(ends, limit), goes_on=True)
        seen = max(0, len(data) - width + 1)
    if has_begun:
        yield take(len(data), is_last=True)


class Batch(NamedTuple):
    """Some documents."""

    data: NDArray[np.uint8]
    """UTF-8 text. Uint8 array."""
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    """The spans of the text of each document. Int64 arrays (n,)."""
    documents: pa.Table
    """Their ids, titles, labels and further columns."""

    @property
    def n_bytes(self) -> int:
        """The bytes of the text."""
        return int((self.stops - self.starts).sum())

    def texts(self) -> Iterator[bytes]:
        """Yield the text of each document."""
        spans = zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        return (self.data[start:stop].tobytes() for start, stop in spans)


def batch_of(texts: Sequence[bytes] | pa.Array, documents: pa.Table | None = None) -> Batch:
    """Return texts, in bytes or as large strings without nulls, and their documents, or nameless ones, as a batch."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_binary())
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets or bytes(8), np.int64)[array.offset : array.offset + len(array) + 1]
    text = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
    if documents is None:
        documents = document_table(pa.nulls(len(array), pa.string()))
    return Batch(text, bounds[:-1] - bounds[0], bounds[1:] - bounds[0], documents)


WORD = re.compile(rb"\S+")


def in_pieces(batches: Iterable[Batch], n_words: int) -> Iterator[Batch]:
    """Yield documents in pieces of so many words between white space, each a document with its number in the id.

    A document that is no longer than a piece stays as it is.
    """
    for batch in batches:
        texts, rows, names = list[bytes](), list[int](), list[str]()
        for row, (text, name) in enumerate(
            zip(batch.texts(), batch.documents["id"].to_pylist(), strict=True)
        ):
            begins = [found.start() for found in WORD.finditer(text)]
            pieces = [text[begin:end] for begin, end in pairwise([0, *begins[n_words::n_words], len(text)])]
            texts += pieces
            rows += [row] * len(pieces)
            names += [name] if len(pieces) == 1 else [f"{name}#{k}" for k in range(1, len(pieces) + 1)]
        documents = batch.documents.take(pa.array(rows, pa.int64()))
        yield batch_of(texts, documents.set_column(0, "id", pa.array(names, pa.string())))


def document_table(
    ids: Sequence[str] | pa.Array,
    titles: Sequence[str] | pa.Array | None = None,
    labels: Sequence[str | None] | pa.Array | None = None,
    carried: Mapping[str, Sequence[str | None] | pa.Array] | None = None,
) -> pa.Table:
    """Return the columns of documents; a field that is carried along as "title" or "label" goes before the other."""
    titles = pa.repeat("", len(ids)) if titles is None else titles
    labels = pa.nulls(len(ids)) if labels is None else labels
    columns = {
        name: pa.array(column, pa.string()) if not isinstance(column, pa.Array) else column.cast(pa.string())
        for name, column in [*zip(HEADS, (ids, titles, labels), strict=True), *(carried or {}).items()]
    }
    return pa.table(columns)


# --- plain text --------------------------------------------------------------------------------------------


def text_blocks(
    partition: Partition, progress: Progress, marks: Sequence[bytes]
) -> Iterator[tuple[Block, str, int]]:
    """Yield the blocks of plain text, which is UTF-8.

    With each come what the id of its document has at its end, where it is a piece of one that is longer than
    `TEXT_BYTES`, and the bytes of a byte-order mark before the text.
    """
    for block in blocks_of(partition, progress, marks, limit=TEXT_BYTES):
        if not holds_utf8(block.data):
            raise not_utf8(partition, block.data, block.offset)
        has_mark = block.offset == 0 and block.piece < 2 and block.data.startswith(codecs.BOM_UTF8)
        yield block, f"#{block.piece}" if block.piece else "", len(codecs.BOM_UTF8) * has_mark


def read_lines(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of text with a document a line; an empty line is none."""
    for block, piece, n_mark in text_blocks(partition, progress, [b"\n"]):
        array = np.frombuffer(block.data, np.uint8)
        stops = np.append(np.flatnonzero(array == ord("\n")), len(array))
        places = np.append(0, stops[:-1] + 1)
        starts = places.copy()
        starts[0] += n_mark
        stops[-1] -= block.is_last and block.data.endswith(b"\r")
        is_filled, single = stops > starts + 1, np.flatnonzero(stops == starts + 1)
        is_filled[single] = array[starts[single]] != ord("\r")
        offsets = pa.array(block.offset + places[is_filled]).cast(pa.string())
        ids = pc.binary_join_element_wise(f"{partition.name}:", offsets, piece, "")
        yield Batch(array, starts[is_filled], stops[is_filled], document_table(ids))


def read_blocks(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of text in blocks: blank lines between documents, the title on the first line."""
    title, place = b"", 0
    for block, piece, n_first in text_blocks(partition, progress, [b"\n\n", b"\n\r\n"]):
        texts, ids, titles, begin, n_mark = [], [], [], 0, n_first
        for end, after in [*(found.span() for found in BLANK_LINE.finditer(block.data)), (None, 0)]:
            text = block.data[begin + n_mark : end]
            if end is None and block.is_last:
                text = LAST_LINE_END.sub(b"", text)
            n_line_ends = len(text) - len(text := text.lstrip(b"\r\n")) if block.piece < 2 else 0
            if text:
                if block.piece < 2:  # the pieces of a document have its place and title
                    place = block.offset + begin + (n_line_ends and n_mark + n_line_ends)
                    stop = len(text[:MAX_TITLE_BYTES].partition(b"\n")[0])
                    while text[stop : stop + 1] and text[stop] & 0xC0 == 0x80:  # not inside a character
                        stop -= 1
                    title = text[:stop].rstrip(b"\r")
                    text = text[len(title) :]
                ids.append(f"{partition.name}:{place}{piece}")
                titles.append(title.decode())
                texts.append(text)
            begin, n_mark = after, 0
        yield batch_of(texts, document_table(ids, titles))


def read_file(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the text of a file as one document; its title is the name without the extension."""
    title = PurePosixPath(without_compression(partition.name)).stem
    for block, piece, n_mark in text_blocks(partition, progress, []):
        yield batch_of([block.data[n_mark:]], document_table([partition.name + piece], [title]))


# --- what is wrong with a text -----------------------------------------------------------------------------


def not_utf8(partition: Partition, data: bytes, offset: int) -> CorpusError:
    """Return the error for text, from a place of the file on, that is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        place = offset + error.start
        where = (
            f"line {line_of(partition, place)}, byte 0x{data[error.start]:02x} at offset {place} of the text"
        )
    return CorpusError(f"{partition.url} is not UTF-8: {where}; {encoding_advice(data)}.")


def encoding_advice(data: bytes) -> str:
    """Return what to do about text that is not UTF-8, with the encoding that it seems to have."""
    guess = guess_encoding(data) if len(NOT_ASCII.findall(data)) >= FEWEST_SIGNS else None
    seems = "" if guess is None else f"it reads as text in {guess.encoding} ({guess.text!r}); "
    encoding = "cp1252" if guess is None else guess.encoding
    return f'{seems}give encoding="{encoding}" (or what it is), or errors="replace"'


def line_of(partition: Partition, offset: int) -> int:
    """Return the number of the line that holds a byte of the text of a file, whose beginning is read for it."""
    n_lines, left = 1, offset
    for piece, _ in pieces_of(replace(partition, start=0, stop=None), Progress()):
        n_lines += piece[:left].count(b"\n")
        left -= len(piece)
        if left <= 0:
            break
    return n_lines


def place_of(partition: Partition, offset: int) -> str:
    """Return the place of a record; its line is counted only for an error that ends the reading."""
    return f"byte {offset}" if partition.bad_records == "skip" else f"line {line_of(partition, offset)}"


TOO_LONG = f"has over {RECORD_BYTES:,} bytes, too many for a record; give the text as plain text or Parquet"
"""What is wrong with a record that is too long to be read as a whole."""


def whole_records(partition: Partition, progress: Progress, mark: bytes) -> Iterator[Block]:
    """Yield the blocks of records that are parsed as a whole; one that is too long for that is a bad record."""
    for block in blocks_of(partition, progress, [mark]):
        if block.piece == 1:
            progress.pass_over(partition, place_of(partition, block.offset), TOO_LONG)
        if not block.piece:
            yield block
