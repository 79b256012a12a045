"""Reads partitions of text, JSON lines and Parquet files as batches of documents.

Text moves in batches of a few MiB: a longer document is several consecutive spans, and no line, document or
file is ever held whole, except for a JSON line, whose length is limited.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distembed.corpus.streams import (
    BadRecord,
    Batch,
    CorpusError,
    Partition,
    Progress,
    RecordError,
    not_utf8,
    open_url,
    option_text,
    pieces_of,
)
from distembed.parquet import parquet_file, read_batches

# What ends a block. (A line of white space is text.)
BLANK_LINE = re.compile(rb"\n\r?\n")
NO_NEWLINE = re.compile(rb"[^\r\n]")
# The longest blank line, and the line end before it, that may lie before a partition.
LOOKBACK_BYTES = 4
MAX_TITLE_BYTES = 1024
# A JSON line is parsed as a whole.
MAX_JSON_LINE_BYTES = 1 << 28
TOO_LONG = (
    f"has over {MAX_JSON_LINE_BYTES} bytes, which cannot be parsed in bounded memory; "
    "give the text as plain text or Parquet"
)


def read_text(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of a text partition, in the layout it names."""
    return (
        read_blocks(partition, progress) if partition.layout == "blocks" else read_lines(partition, progress)
    )


def document_ids(url: str, offsets: NDArray[np.int64]) -> pa.Array:
    """Return ids of the form "file:byte offset", which can be given without counting the lines before."""
    name = url.rsplit("/", 1)[-1] + ":"
    return pc.binary_join_element_wise(name, pa.array(offsets).cast(pa.string()), "")


def nothing(n: int) -> pa.Array:
    """Return `n` empty strings."""
    return pa.repeat(pa.scalar(""), n)


def no_labels(n: int) -> pa.Array:
    """Return `n` null strings."""
    return pa.nulls(n, pa.string())


def without_cut(data: bytes) -> int:
    """Return the length of the longest prefix that does not cut a code point at its end."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            width = 1 + (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
            return len(data) - back if width > back else len(data)
    return len(data)


def owned_lines(partition: Partition, progress: Progress) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) of the lines that begin in a partition, cut between code points."""
    lookback = 1 if partition.start else 0
    offset, skipping, rest = partition.start - lookback, bool(lookback), b""
    for piece in pieces_of(partition, progress, lookback=lookback):
        data = rest + piece.data
        if skipping:
            newline = data.find(b"\n")
            # A line may be longer than the partition: then no document begins here.
            begin = offset + (newline + 1 if newline >= 0 else len(data))
            if begin == partition.stop:
                return
            rest, offset, skipping = b"", begin, newline < 0
            data = data[newline + 1 :] if newline >= 0 else b""
        elif not piece.owned and (newline := data.find(b"\n")) >= 0:
            yield offset, data[: newline + 1]
            return
        # A carriage return stays with its line end: a line of nothing else is empty.
        keep = len(data) - 1 if data.endswith(b"\r") else without_cut(data)
        if keep > 0:
            yield offset, data[:keep]
        rest, offset = data[keep:], offset + keep
        if offset == partition.stop and data.endswith(b"\n"):
            return
    if rest := rest.rstrip(b"\r"):
        yield offset, rest


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
    return Batch(np.zeros(0, np.uint8), zero, zero, 1, nothing(0), nothing(0), no_labels(0), offset)


def line_batch(partition: Partition, data: bytes, offset: int, *, continues: bool) -> Batch:
    """Divide a piece of text into lines; an empty line is not a document."""
    array = np.frombuffer(data, np.uint8)
    stops = np.flatnonzero(array == ord("\n"))
    n_closed = len(stops)
    if not data.endswith(b"\n"):
        stops = np.append(stops, len(data))
    starts = np.concatenate([[0], stops[:-1] + 1])
    empty = (stops == starts) | (
        (stops == starts + 1) & (array[np.minimum(starts, len(data) - 1)] == ord("\r"))
    )
    empty[0] &= not continues
    empty[n_closed:] = False
    n_closed -= int(empty[:n_closed].sum())
    starts, stops = starts[~empty], stops[~empty]
    begun = starts[1:] if continues else starts
    n = len(begun)
    return Batch(
        array,
        starts,
        stops,
        n_closed,
        document_ids(partition.url, offset + begun),
        nothing(n),
        no_labels(n),
        offset,
    )


class Span(NamedTuple):
    """A piece of text that will be put into a batch; `id` is None where it continues the previous document."""

    text: bytes
    closes: bool
    id: str | None = None
    title: str = ""
    label: str | None = None


NO_SPAN = Span(b"", closes=False)


def batched(spans: Iterator[Span], *, piece_bytes: int) -> Iterator[Batch]:
    """Gather spans into batches of about `piece_bytes`."""
    held: list[Span] = []
    size = 0
    for span in spans:
        held.append(span)
        size += len(span.text) + 64
        # An open span is the last of its batch.
        if size >= piece_bytes or not span.closes:
            yield joined(held)
            held, size = [], 0
    if held:
        yield joined(held)


def joined(spans: list[Span]) -> Batch:
    """Return spans as one batch."""
    stops = np.cumsum([len(span.text) for span in spans], dtype=np.int64)
    begun = [span for span in spans if span.id is not None]
    return Batch(
        data=np.frombuffer(b"".join(span.text for span in spans), np.uint8),
        starts=np.concatenate([np.zeros(1, np.int64), stops[:-1]]),
        stops=stops,
        n_closed=sum(span.closes for span in spans),
        ids=pa.array([span.id for span in begun], pa.string()),
        titles=pa.array([span.title for span in begun], pa.string()),
        labels=pa.array([span.label for span in begun], pa.string()),
    )


def read_blocks(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of text in blocks: blank lines between documents, the title on the first line."""
    return batched(block_spans(partition, progress), piece_bytes=partition.piece_bytes)


def block_spans(partition: Partition, progress: Progress) -> Iterator[Span]:
    """Yield the spans of the blocks that begin in a partition."""
    reader = BlockReader(partition)
    for piece in pieces_of(partition, progress, lookback=reader.lookback):
        yield from reader.feed(piece.data)
        if reader.finished:
            return
    yield from reader.end()


class BlockReader:
    """A state machine that reads text in blocks; `state` describes the text before the next byte to be read.

    The states are "unknown" (inside a block that belongs to the previous partition), "between" (blocks),
    "title" and "text".
    """

    def __init__(self, partition: Partition):
        self.partition = partition
        self.lookback = min(partition.start, LOOKBACK_BYTES)
        self.offset = partition.start - self.lookback
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
            keep = len(sure) - len(sure[-2:]) + len(sure[-2:].rstrip(b"\r\n"))
            if keep > 0:
                yield self._span(self.at + keep, self.at + keep, closes=False)

    def end(self) -> Iterator[Span]:
        """Yield the last block, which the end of the file closes."""
        if self.state == "title":
            self._take_title(self.data[self.at :].rstrip(b"\r\n"))
        if self.state == "text":
            rest = self.data[self.at :].rstrip(b"\r\n")
            yield self._span(self.at + len(rest), len(self.data), closes=True)

    def _step(self) -> Span | None:
        """Make one step; None where more bytes are needed."""
        if self.state == "between":
            return self._begin_block()
        if self.state == "title":
            newline = self.data.find(b"\n", self.at)
            if newline < 0 and len(self.data) - self.at <= MAX_TITLE_BYTES:
                return None
            end = newline if newline >= 0 else self.at + MAX_TITLE_BYTES
            return self._take_title(self.data[self.at : end].rstrip(b"\r"))
        blank = BLANK_LINE.search(self.data, self.at)
        if self.state == "text":
            return (
                None
                if blank is None
                else self._span(blank.start(), blank.end(), closes=True, state="between")
            )
        self._go_to(blank.end() if blank else max(self.at, len(self.data) - LOOKBACK_BYTES))
        self.finished = self.offset >= self.stop
        self.state = "between" if blank else self.state
        return NO_SPAN if blank else None

    def _begin_block(self) -> Span | None:
        begin = NO_NEWLINE.search(self.data, self.at)
        self._go_to(begin.start() if begin else len(self.data))
        if not begin:
            return None
        self.finished = self.offset >= self.stop
        self.id = f"{self.partition.url.rsplit('/', 1)[-1]}:{self.offset}"
        # A block that begins in the bytes looked back at belongs to the partition before.
        self.state = "title" if self.offset >= self.start else "unknown"
        return NO_SPAN

    def _take_title(self, title: bytes) -> Span:
        title = title[: without_cut(title[:MAX_TITLE_BYTES])]
        self._check(title)
        self.title = title.decode("utf-8", "replace")
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
        if self.partition.errors == "strict":
            try:
                text.decode()
            except UnicodeDecodeError as error:
                raise not_utf8_in(self.partition, self.offset + error.start, text[error.start]) from error

    def _go_to(self, place: int) -> None:
        self.offset += place - self.at
        self.at = place


def json_lines(partition: Partition, progress: Progress) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line) of the lines that begin in a partition, whole."""
    held: list[bytes] = []
    begin, size = 0, 0
    for offset, data in owned_lines(partition, progress):
        position = 0
        for line in data.split(b"\n"):
            begin = begin if size else offset + position
            position += len(line) + 1
            size += len(line)
            if size <= MAX_JSON_LINE_BYTES:
                held.append(line)
            elif held:
                held = []
                progress.pass_over(partition, json_error(partition, begin, TOO_LONG))
            if position <= len(data):
                if size <= MAX_JSON_LINE_BYTES:
                    yield begin, b"".join(held)
                held, size = [], 0
    if held:
        yield begin, b"".join(held)


def read_jsonl(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of a partition of JSON lines."""
    return batched(json_spans(partition, progress), piece_bytes=partition.piece_bytes)


def json_spans(partition: Partition, progress: Progress) -> Iterator[Span]:
    """Yield each JSON line's text with its id, title and label."""
    for offset, line in json_lines(partition, progress):
        if not line.strip():
            continue
        try:
            span = json_span(partition, offset, parsed(partition, offset, line.removeprefix(codecs.BOM_UTF8)))
        except RecordError as error:
            progress.pass_over(partition, error)
        else:
            yield span


def json_span(partition: Partition, offset: int, record: dict[str, Any]) -> Span:
    """Return the text of a record with its id, title and label; a text that is null is empty."""
    text_fields, id_field, title_field, label_field = partition.fields
    found = [record[field] for field in text_fields if field in record]
    texts = [text for text in found if text is not None]
    if not found or not all(isinstance(text, str) for text in texts):
        raise json_error(partition, offset, missing_text(partition, record))
    return Span(
        encoded(partition, offset, "\n".join(texts)),
        closes=True,
        id=optional(partition, offset, record, id_field) or f"{partition.url.rsplit('/', 1)[-1]}:{offset}",
        title=optional(partition, offset, record, title_field) or "",
        label=optional(partition, offset, record, label_field),
    )


def parsed(partition: Partition, offset: int, line: bytes) -> dict[str, Any]:
    """Return one JSON line as a record."""
    try:
        record = json.loads(line.decode("utf-8", partition.errors))
    except UnicodeDecodeError as error:
        what = f"is not UTF-8 (byte 0x{line[error.start]:02x} at column {error.start + 1})"
        encoding = option_text(partition.section, "encoding")
        raise json_error(
            partition, offset, f"{what}; give its {encoding}, or {replaced(partition)}"
        ) from error
    except json.JSONDecodeError as error:
        raise json_error(
            partition, offset, f"is not JSON ({error.msg} at column {error.colno}); correct the line"
        ) from error
    except RecursionError as error:
        raise json_error(partition, offset, "is nested too deeply; correct the line") from error
    except ValueError as error:
        digits = sys.get_int_max_str_digits()
        raise json_error(
            partition, offset, f"holds an integer of over {digits} digits; write it as text"
        ) from error
    if not isinstance(record, dict):
        advice = (
            "give one object per line (jq -c '.[]' FILE)" if isinstance(record, list) else "correct the line"
        )
        raise json_error(partition, offset, f"is a JSON {type(record).__name__}, not an object; {advice}")
    return record


def replaced(partition: Partition) -> str:
    """Return how to ask for the replacement of bytes that do not decode."""
    return option_text(partition.section, "errors", "replace")


def missing_text(partition: Partition, record: dict[str, Any]) -> str:
    """Return the description of a record that has no text."""
    text_fields, key = partition.fields[0], option_text(partition.section, "text_field")
    for field in text_fields:
        if record.get(field) is not None and not isinstance(record[field], str):
            return f'holds {type(record[field]).__name__} in "{field}", not text; give {key}'
    fields = " or ".join(f'"{field}"' for field in text_fields)
    return f"has no field {fields} (it has {', '.join(sorted(record)) or 'none'}); give {key}"


def optional(partition: Partition, offset: int, record: dict[str, Any], field: str | None) -> str | None:
    """Return a field as text, None where there is none."""
    value = record.get(field) if field else None
    return None if value is None else encoded(partition, offset, str(value)).decode()


def encoded(partition: Partition, offset: int, text: str) -> bytes:
    """Return text as UTF-8; a lone surrogate is an error, because it is not a character."""
    try:
        return text.encode("utf-8", "strict" if partition.errors == "strict" else "replace")
    except UnicodeEncodeError as error:
        escape = f"\\u{ord(text[error.start]):04x}"
        what = f"holds {escape}, half of a character; correct the line, or give {replaced(partition)}"
        raise json_error(partition, offset, what) from error


def json_error(partition: Partition, offset: int, what: str) -> RecordError:
    """Return an error that names the line; its number is counted only for an error that ends the reading."""
    if partition.bad_records == "skip":
        return RecordError(BadRecord(partition.url, f"byte {offset}", what))
    return RecordError(BadRecord(partition.url, f"line {line_of(partition, offset)}", what))


def line_of(partition: Partition, offset: int) -> int:
    """Return the number of the line that holds a byte of the text of a file, whose beginning is read for it."""
    n_lines, left = 1, offset
    for piece in pieces_of(replace(partition, start=0, stop=None), Progress()):
        n_lines += piece.data[:left].count(b"\n")
        left -= len(piece.data)
        if left <= 0:
            break
    return n_lines


def not_utf8_in(partition: Partition, offset: int, byte: int) -> CorpusError:
    """Return the error for a byte of a file that is not UTF-8, with its line."""
    return not_utf8(partition.url, offset, byte, partition.section, line=line_of(partition, offset))


def read_parquet(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of some row groups of a Parquet file; text is scanned where Arrow has it."""
    with closing(open_url(partition.url, partition.storage_options)) as raw:
        file = parquet_file(raw, buffer_bytes=1 << 20)
        check_columns(partition, file.schema_arrow)
        stop = file.num_row_groups if partition.stop is None else partition.stop
        sizes = [file.metadata.row_group(group).num_rows for group in range(stop)]
        for group in range(partition.start, stop):
            metadata = file.metadata.row_group(group)
            before, n_bytes = progress.n_bytes_read, _stored_bytes(metadata)
            mean_bytes = metadata.total_byte_size // max(metadata.num_rows, 1)
            n_rows = int(np.clip(4 * partition.piece_bytes // max(mean_bytes, 1), 1, 1 << 16))
            columns = sorted({*partition.fields[0], *(field for field in partition.fields[1:] if field)})
            place = RowPlace(group, row=0, n_before=sum(sizes[:group]))
            for records in read_batches(file, n_rows, row_groups=[group], columns=columns):
                n_read = place.row + records.num_rows
                progress.n_bytes_read = before + n_bytes * n_read // metadata.num_rows
                yield parquet_batch(partition, records, place, progress)
                place = place._replace(row=n_read)
            progress.n_bytes_read = before + n_bytes


def _stored_bytes(row_group: Any) -> int:
    """Return the bytes of a row group as it is stored."""
    return sum(row_group.column(k).total_compressed_size for k in range(row_group.num_columns))


class RowPlace(NamedTuple):
    """Where rows begin: their row group, the row in it, and the rows of the groups before."""

    group: int
    row: int
    n_before: int


def check_columns(partition: Partition, schema: pa.Schema) -> None:
    """Check that a Parquet file has the columns asked for, and that they are text."""
    for option, field in checked_fields(partition, schema.names):
        kind = schema.field(field).type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if pa.types.is_nested(kind) or (option == "text_field" and not is_text):
            key = option_text(partition.section, option)
            raise CorpusError(f'{partition.url}: column "{field}" is {kind}, not text; give {key}.')


def checked_fields(partition: Partition, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the options that name a field, each with the name, and check that a table has these columns."""
    texts, *others = partition.fields
    named = zip(("id_field", "title_field", "label_field"), others, strict=True)
    asked = [*(("text_field", field) for field in texts), *((o, field) for o, field in named if field)]
    for option, field in asked:
        if field not in names:
            key, found = (
                option_text(partition.section, option),
                ", ".join(name[:40] for name in names[:20]) or "none",
            )
            raise CorpusError(f'{partition.url} has no column "{field}" (it has {found}); give {key}.')
    return asked


def parquet_batch(
    partition: Partition, records: pa.RecordBatch, place: RowPlace, progress: Progress
) -> Batch:
    """Return the batch of some rows; a null text or title becomes an empty one."""
    columns = {field: as_text(records.column(field)) for field in records.schema.names}
    bad = bad_rows(columns) if partition.errors == "strict" else {}
    for row, field in bad.items():
        reason = f'is not UTF-8 in column "{field}"; correct the row, or give {replaced(partition)}'
        number = f"row {place.n_before + place.row + row + 1}"
        progress.pass_over(partition, RecordError(BadRecord(partition.url, number, reason)))
    rows = np.delete(np.arange(records.num_rows), list(bad))
    columns = {field: column.take(pa.array(rows)) for field, column in columns.items()} if bad else columns
    n, text = len(rows), joined_columns([columns[field] for field in partition.fields[0]])
    ids, titles, labels = (repaired(columns[field]) if field else None for field in partition.fields[1:])
    numbers = pa.array(place.row + rows).cast(pa.string())
    name = f"{partition.url.rsplit('/', 1)[-1]}:{place.group}."
    places = pc.binary_join_element_wise(name, numbers, "")
    _, offsets, data = text.buffers()
    bounds = (
        np.frombuffer(offsets, np.int64)[text.offset : text.offset + n + 1] if n else np.zeros(1, np.int64)
    )
    array = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return Batch(
        array[bounds[0] : bounds[-1]],
        bounds[:-1] - bounds[0],
        bounds[1:] - bounds[0],
        n,
        places if ids is None else pc.coalesce(ids, places),
        nothing(n) if titles is None else titles.fill_null(""),
        labels if labels is not None else no_labels(n),
    )


def as_text(column: pa.Array) -> pa.Array:
    """Return a column as strings."""
    return column if pa.types.is_string(column.type) else column.cast(pa.large_string())


def repaired(column: pa.Array) -> pa.Array:
    """Return texts in which the bytes that are not UTF-8 are replaced."""
    if is_valid(column):
        return column.cast(pa.string())
    values = [value.as_buffer() for value in column]
    texts = [None if value is None else value.to_pybytes().decode("utf-8", "replace") for value in values]
    return pa.array(texts, pa.string())


def is_valid(column: pa.Array) -> bool:
    """Return whether every text of a column is UTF-8, which Parquet files do not ensure."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def bad_rows(columns: dict[str, pa.Array]) -> dict[int, str]:
    """Return the rows that hold a text that is not UTF-8, each with the name of its first such column."""
    found: dict[int, str] = {}
    for field, column in columns.items():
        if not is_valid(column):
            rows = (row for row in range(len(column)) if not is_valid(column.slice(row, 1)))
            found = dict.fromkeys(rows, field) | found
    return dict(sorted(found.items()))


def joined_columns(columns: list[pa.Array]) -> pa.Array:
    """Return columns of text as one, joined by line ends; nulls are left out."""
    columns = [column.cast(pa.large_string()) for column in columns]
    if len(columns) == 1:
        return columns[0]
    return pc.binary_join_element_wise(*columns, pa.scalar("\n", pa.large_string()), null_handling="skip")
