"""Reads plain text as batches of documents: a line each, or blocks between blank lines with a title."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distembed.corpus.documents import (
    NO_SPAN,
    Span,
    batched,
    not_utf8_in,
    owned_lines,
    without_cut,
)
from distembed.corpus.streams import Batch, Partition, Progress, pieces_of
from distembed.formats.names import without_compression
from distembed.formats.pieces import open_url

# What ends a block. (A line of white space is text.)
BLANK_LINE = re.compile(rb"\n\r?\n")
NO_NEWLINE = re.compile(rb"[^\r\n]")
# The longest blank line, and the line end before it, but for a byte.
BLANK_BYTES = 2
LAST_LINE_END = re.compile(rb"(?:\r?\n|\r)\Z")
LOOKBACK_BYTES = 1 << 16
MAX_TITLE_BYTES = 1024


def read_text(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of a text partition, in the layout it names."""
    if partition.layout == "file":
        return batched(file_spans(partition, progress), piece_bytes=partition.piece_bytes)
    return (
        read_blocks(partition, progress) if partition.layout == "blocks" else read_lines(partition, progress)
    )


def file_spans(partition: Partition, progress: Progress) -> Iterator[Span]:
    """Yield the text of a file as one document, a piece at a time; its title is the name without the extension."""
    name = partition.name
    title = PurePosixPath(without_compression(name)).stem
    ident: str | None = name
    offset, rest = 0, b""
    for piece in pieces_of(partition, progress):
        data = rest + piece.data
        keep = without_cut(data)
        check_utf8(partition, data[:keep], offset)
        yield Span(data[:keep] if offset else data[:keep].removeprefix(codecs.BOM_UTF8), False, ident, title)
        ident, title, offset, rest = None, "", offset + keep, data[keep:]
    check_utf8(partition, rest, offset)
    yield Span(rest, True, ident, title)


def check_utf8(partition: Partition, text: bytes, offset: int) -> None:
    """Check that text of a file from a place on is UTF-8, unless what is not will be replaced."""
    if partition.errors == "strict":
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise not_utf8_in(partition, offset + error.start, text[error.start]) from error


def document_ids(name: str, offsets: NDArray[np.int64]) -> pa.Array:
    """Return ids of the form "file:byte offset", which can be given without counting the lines before."""
    return pc.binary_join_element_wise(f"{name}:", pa.array(offsets).cast(pa.string()), "")


def read_lines(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of text with a document a line."""
    is_open, offset, data = False, 0, b""
    for offset, data in owned_lines(partition, progress):
        yield line_batch(partition, data, offset, continues=is_open)
        is_open = not data.endswith(b"\n")
    if is_open:
        yield closing_batch(offset + len(data))


def closing_batch(offset: int) -> Batch:
    """Return an empty last span, which ends a document left open by the end of the file."""
    zero = np.zeros(1, np.int64)
    return Batch(
        np.zeros(0, np.uint8),
        zero,
        zero,
        1,
        pa.repeat("", 0),
        pa.repeat("", 0),
        pa.nulls(0, pa.string()),
        offset=offset,
    )


def line_batch(partition: Partition, data: bytes, offset: int, *, continues: bool) -> Batch:
    """Divide a piece of text into lines; an empty line is not a document."""
    array = np.frombuffer(data, np.uint8)
    stops = np.flatnonzero(array == ord("\n"))
    n_closed = len(stops)
    if not data.endswith(b"\n"):
        stops = np.append(stops, len(data))
    starts = np.concatenate([[0], stops[:-1] + 1])
    places = starts.copy()
    if offset == 0 and data.startswith(codecs.BOM_UTF8):
        starts[0] = len(codecs.BOM_UTF8)
    empty = (stops == starts) | (
        (stops == starts + 1) & (array[np.minimum(starts, len(data) - 1)] == ord("\r"))
    )
    empty[0] &= not continues
    empty[n_closed:] = False
    n_closed -= int(empty[:n_closed].sum())
    starts, stops, places = starts[~empty], stops[~empty], places[~empty]
    begun = places[1:] if continues else places
    n = len(begun)
    return Batch(
        array,
        starts,
        stops,
        n_closed,
        document_ids(partition.name, offset + begun),
        pa.repeat("", n),
        pa.nulls(n, pa.string()),
        offset=offset,
    )


def read_blocks(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of text in blocks: blank lines between documents, the title on the first line."""
    return batched(block_spans(partition, progress), piece_bytes=partition.piece_bytes)


def block_spans(partition: Partition, progress: Progress) -> Iterator[Span]:
    """Yield the spans of the blocks that begin in a partition."""
    reader = BlockReader(partition, line_ends_before(partition) if partition.start else 0)
    for piece in pieces_of(partition, progress, lookback=reader.lookback):
        yield from reader.feed(piece.data)
        if reader.finished:
            return
    yield from reader.end()


def line_ends_before(partition: Partition) -> int:
    """Return the bytes before a partition back to the last that is no line end, or to the beginning of the file.

    Whether a block begins at the first byte of a partition depends on all of them. A byte-order mark counts as the
    beginning.
    """
    place, least = partition.start, len(codecs.BOM_UTF8)
    with closing(open_url(partition.url)) as raw:
        while place > least:
            first = max(0, place - LOOKBACK_BYTES)
            raw.seek(first)
            place = first + len(raw.read(place - first).rstrip(b"\r\n"))
            if place > max(first, least):
                return partition.start - place + 1
    return partition.start


class BlockReader:
    """A state machine that reads text in blocks; `state` describes the text before the next byte to be read.

    The states are "unknown" (inside a block that belongs to the previous partition), "between" (blocks),
    "title" and "text".
    """

    def __init__(self, partition: Partition, lookback: int):
        self.partition = partition
        self.lookback = lookback
        self.offset = partition.start - lookback
        self.stop = float("inf") if partition.stop is None else partition.stop
        # A file begins as if blank lines came before it; a partition in its middle must find some.
        self.state = "unknown" if self.offset else "between"
        self.start = partition.start
        self.data = b""
        # What lies before `at` has been read. Cutting it off at every step would copy the rest each time.
        self.at = 0
        self.finished = False
        self.id: str | None = None
        self.title = ""

    def feed(self, data: bytes) -> Iterator[Span]:
        """Yield the spans that the next bytes complete, and an open one of what is sure to be text."""
        self.data, self.at = self.data[self.at :] + data, 0
        while not self.finished and (step := self._step()) is not None:
            if step.text or step.closes:
                yield step
        if self.state == "text" and not self.finished:
            sure = self.data[self.at :]
            sure = sure[: without_cut(sure)]
            # The end of a line may turn out to be half of a blank line.
            last = sure[-BLANK_BYTES:]
            keep = len(sure) - len(last) + len(last.rstrip(b"\r\n"))
            if keep > 0:
                yield self._span(self.at + keep, self.at + keep, closes=False)

    def end(self) -> Iterator[Span]:
        """Yield the last block, which the end of the file closes."""
        if self.state == "title":
            self._take_title(self.data[self.at :])
        if self.state == "text":
            rest = LAST_LINE_END.sub(b"", self.data[self.at :])
            yield self._span(self.at + len(rest), len(self.data), closes=True)

    def _step(self) -> Span | None:
        """Make one step; None where more bytes are needed."""
        if self.state == "between":
            return self._begin_block()
        if self.state == "title":
            end = self.data.find(b"\n", self.at, self.at + MAX_TITLE_BYTES)
            if end < 0 and len(self.data) - self.at <= MAX_TITLE_BYTES:
                return None
            return self._take_title(self.data[self.at : end if end >= 0 else self.at + MAX_TITLE_BYTES])
        blank = BLANK_LINE.search(self.data, self.at)
        if self.state == "text":
            return (
                None
                if blank is None
                else self._span(blank.start(), blank.end(), closes=True, state="between")
            )
        self._go_to(blank.end() if blank else max(self.at, len(self.data) - BLANK_BYTES))
        self.finished = self.offset >= self.stop
        self.state = "between" if blank else self.state
        return NO_SPAN if blank else None

    def _begin_block(self) -> Span | None:
        if self.offset == 0:
            if codecs.BOM_UTF8.startswith(self.data):
                return None
            if self.data.startswith((codecs.BOM_UTF8 + b"\n", codecs.BOM_UTF8 + b"\r")):
                self._go_to(len(codecs.BOM_UTF8))
        begin = NO_NEWLINE.search(self.data, self.at)
        self._go_to(begin.start() if begin else len(self.data))
        if not begin:
            return None
        self.finished = self.offset >= self.stop
        self.id = f"{self.partition.name}:{self.offset}"
        # A block that begins in the bytes looked back at belongs to the partition before.
        self.state = "title" if self.offset >= self.start else "unknown"
        return NO_SPAN

    def _take_title(self, line: bytes) -> Span:
        title = line[: without_cut(line)].rstrip(b"\r")
        self._check(title)
        self.title = title.decode("utf-8", "replace")
        if self.offset == 0:
            self.title = self.title.removeprefix("\ufeff")
        self._go_to(self.at + len(title))
        self.state = "text"
        return NO_SPAN

    def _span(self, end: int, go_to: int, *, closes: bool, state: str = "text") -> Span:
        span = Span(self.data[self.at : end], closes, self.id, self.title)
        self._check(span.text)
        self.id, self.title, self.state = None, "", state
        self._go_to(go_to)
        return span

    def _check(self, text: bytes) -> None:
        """Refuse text that is not UTF-8 here, where its place in the file is known: a batch leaves the titles out."""
        check_utf8(self.partition, text, self.offset)

    def _go_to(self, place: int) -> None:
        self.offset += place - self.at
        self.at = place
