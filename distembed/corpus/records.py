"""Reads partitions of files, whatever their compression, and cuts their text where records end, into batches.

A `Partition` is what one task reads. Uncompressed files are divided by byte range and bz2 files by compressed stream; a
`gz`, `xz` or `zst` file is one partition. The batches of plain text are made here. It has a document on each line,
blocks between blank lines with a title, or a document in each file.

A mark is what ends a record, such as a line end. A partition holds the records from the end of the first mark that
begins in it to the end of the first mark that begins after it; the first partition of a file begins with the file.
Wherever a file is cut, each record is therefore read once and whole.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distembed.files import Unpacked
from distembed.formats.encodings import NOT_ASCII, guess_encoding, holds_utf8, is_utf8
from distembed.formats.names import without_compression
from distembed.formats.streams import unpacking
from distembed.urls import opened

BZ2_STREAM = re.compile(rb"BZh[1-9]1AY&SY")
BZ2_STREAM_BYTES = 10
"""How a stream of bz2 begins: with its magic number and that of its first block, 80 bits together."""

# Text moves in pieces of this size: large enough that a call costs nothing beside its work, small beside a
# worker.
PIECE_BYTES = 1 << 20
# Bad records that are named, of a partition and of a corpus, and characters of the reason of each. All are counted.
NAMED_RECORDS = 20
NAMED_CHARACTERS = 500


class CorpusError(ValueError):
    """An error in a file of the corpus, which cannot be read in the format that was given or guessed."""


class BadRecord(NamedTuple):
    """A record that could not be read: its file, its place in the file, and the reason."""

    file: str
    place: str
    reason: str


@dataclass(frozen=True)
class Partition:
    """A file of a corpus, or a range of one, that is read independently of the others.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> [partition] = docs.partitions
    >>> partition.format, partition.start, partition.stop, partition.compression
    ('text', 0, None, '')
    """

    url: str
    """The file."""
    format: str
    """The format of the file: "mediawiki", "text", "jsonl", "csv", "tsv" or "parquet"."""
    start: int = 0
    stop: int | None = None
    """The range in which the documents begin, in bytes (row groups for Parquet); None means the end of the file."""
    compression: str = ""
    """"", "bz2", "gzip", "xz" or "zstd"."""
    encoding: str = "utf-8"
    errors: str = "strict"
    """The text's encoding, and what happens to bytes that do not decode: "strict" or "replace"."""
    layout: str = "line"
    """For plain text: one document per "line", "blocks" between blank lines with the title first, or one per "file"."""
    text_fields: tuple[str, ...] = ("text",)
    id_field: str | None = None
    title_field: str | None = None
    label_field: str | None = None
    carry_fields: tuple[str, ...] = ()
    """The fields of JSON lines, CSV, TSV and Parquet that are read: those of the text, which are joined, those that are
    None for none, and further ones that documents keep as text.
    """
    namespaces: tuple[int, ...] | None = (0,)
    """The MediaWiki namespaces whose pages are documents; None means all."""
    namespace_names: tuple[tuple[int, str], ...] = ()
    """The key and the name of each namespace of the export."""
    piece_words: int | None = None
    """The words of the pieces into which longer documents are cut; None for whole documents."""
    bad_records: str = "error"
    """"error", or "skip" to leave out the JSON lines, rows and pages that cannot be read."""
    delimiter: str = ","
    """The character between the fields of CSV and TSV."""
    piece_bytes: int = PIECE_BYTES
    n_bytes: int = field(default=0, repr=False)
    """The bytes of the file, as it is stored, that the range takes."""
    name: str = ""
    """The file as its documents know it: its path below the folder that names it, different for each file."""

    @property
    def is_one_document(self) -> bool:
        """Whether the file is one document."""
        return self.format == "text" and self.layout == "file"

    @property
    def is_plain(self) -> bool:
        """Whether its text is read as it is: what may not be UTF-8 is recoded, and so is what it replaces."""
        return is_utf8(self.encoding) and self.errors == "strict"

    @property
    def reading(self) -> list[Any]:
        """The name of the file and how it is read: with the file's content, all that its documents depend on."""
        return [getattr(self, one.name) for one in fields(self) if one.name not in ("url", "n_bytes")]


@dataclass
class Progress:
    """What a task has read, left out and written so far."""

    n_documents: int = 0
    n_tokens: int = 0
    n_words: int = 0
    """What was written; words are rows of the dictionary."""
    n_bytes_read: int = 0
    """Bytes of the file as it is stored."""
    n_bytes_text: int = 0
    """Bytes of UTF-8 text."""
    n_skipped_pages: int = 0
    """Pages left out: those of other namespaces, and redirects."""
    n_short_segments: int = 0
    """Documents, lines or sentences below the minimum length."""
    n_long_tokens: int = 0
    """Tokens above the maximum length, which are left out."""
    n_bad_records: int = 0
    """Records that could not be read."""
    bad_records: list[BadRecord] = field(default_factory=list)
    """The first records that could not be read."""
    most_bad: float = field(default=math.inf, repr=False)
    """At most so many bad records are skipped."""

    def pass_over(self, partition: Partition, place: str, reason: str) -> None:
        """Count and note a bad record, or raise an error where the partition does not skip any."""
        record = BadRecord(partition.url, place, reason)
        if partition.bad_records == "skip":
            self.n_bad_records += 1
            if len(self.bad_records) < NAMED_RECORDS:
                self.bad_records.append(record._replace(reason=reason[:NAMED_CHARACTERS]))
            if self.n_bad_records < self.most_bad:
                return
            record = self.bad_records[0]
        raise CorpusError(f"{record.file}, {record.place}, {record.reason}.")


Piece = tuple[bytes, bool]
"""Consecutive bytes, and whether a document that begins in them belongs to the partition."""


def pieces_of(partition: Partition, progress: Progress) -> Iterator[Piece]:
    """Yield the bytes of a partition, decompressed, and those after it for as long as the caller asks.

    Text in an encoding other than UTF-8 is recoded, and text in which what is not UTF-8 is replaced.
    """
    if partition.is_plain:
        yield from stored_pieces(partition, progress)
        return
    decoder = codecs.getincrementaldecoder(partition.encoding)(partition.errors)
    n_before = 0
    try:
        for data, owned in stored_pieces(partition, progress):
            yield decoder.decode(data).encode(), owned
            n_before += len(data)
        yield decoder.decode(b"", True).encode(), True
    except UnicodeError as error:
        raise not_decoded(partition, error, n_before) from error


def stored_pieces(partition: Partition, progress: Progress) -> Iterator[Piece]:
    """Yield the bytes of a file, unpacked, from the start of a partition or the first stream of bz2 after it."""
    stop, n_before = math.inf if partition.stop is None else partition.stop, progress.n_bytes_read
    with unpacking(partition.url, CorpusError), opened(partition.url) as raw:
        if partition.compression:
            begin = find_bz2_stream(raw, partition.start, stop) if partition.start else 0
            if begin is None:
                return
            raw.seek(begin)
            file, held, is_own = Unpacked(raw, partition.compression, partition.url), b"", True
            while data := file.read(partition.piece_bytes):
                progress.n_bytes_read = n_before + file.n_stored
                was_own, is_own = is_own, begin + file.begin < stop
                if held and (is_own != was_own or len(held) + len(data) > partition.piece_bytes):
                    yield held, was_own
                    held = b""
                held += data
            progress.n_bytes_read = n_before + file.n_stored
            if held:
                yield held, is_own
            return
        position = partition.start
        raw.seek(position)
        room = partition.piece_bytes
        while data := raw.read(int(min(room, stop - position)) if position < stop else room):
            progress.n_bytes_read += len(data)
            yield data, position < stop
            position += len(data)


def find_bz2_stream(raw: IO[bytes], place: int, stop: float) -> int | None:
    """Return where the first stream of bz2 begins from a byte of a file on, None where none begins before another."""
    tail = b""
    raw.seek(place)
    while place < stop + BZ2_STREAM_BYTES - 1 and (data := raw.read(1 << 18)):
        if found := BZ2_STREAM.search(tail + data):
            begin = place - len(tail) + found.start()
            return begin if begin < stop else None
        tail, place = (tail + data)[1 - BZ2_STREAM_BYTES :], place + len(data)
    return None


def not_decoded(partition: Partition, error: UnicodeError, n_before: int = 0) -> CorpusError:
    """Return the error for text that is not in its encoding, after so many bytes that were."""
    # Of UTF-16 without a mark Python says neither.
    reason, start = getattr(error, "reason", error), getattr(error, "start", 0)
    return CorpusError(
        f"{partition.url} is not {partition.encoding}: {reason} near byte {n_before + start}; "
        'give its encoding=, or errors="replace".'
    )


# ---- records -------------------------------------------------------------------------------------------------------

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
    # The end of a mark that may begin another.
    overlap = int(any(mark[:1] == mark[-1:] for mark in marks if len(mark) > 1))
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
        named = zip(batch.texts(), batch.documents["id"].to_pylist(), strict=True)
        for row, (text, name) in enumerate(named):
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
        place, byte = offset + error.start, data[error.start]
        where = f"line {line_of(partition, place)}, byte 0x{byte:02x} at offset {place} of the text"
    return CorpusError(f"{partition.url} is not UTF-8: {where}; {encoding_advice(data)}.")


def encoding_advice(data: bytes) -> str:
    """Return what to do about text that is not UTF-8, with the encoding that it seems to have."""
    guess = guess_encoding(data) if len(NOT_ASCII.findall(data)) >= FEWEST_SIGNS else None
    encoding, seems = "cp1252", ""
    if guess is not None:
        encoding, seems = guess[0], f"it reads as text in {guess[0]} ({guess[1]!r}); "
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
