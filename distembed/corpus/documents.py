"""Reads partitions of JSON lines and Parquet files as batches of documents, and lines of any text.

Text moves in batches of a few MiB: a longer document is several consecutive spans, and no line, document or
file is ever held whole, except for a JSON line, whose length is limited.
"""

from __future__ import annotations

import codecs
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distembed.corpus.errors import BadRecord, CorpusError, RecordError
from distembed.corpus.heads import check_line_ends, read_beginning
from distembed.corpus.record_fields import field_names, has_field, value_at
from distembed.corpus.streams import Batch, Partition, Progress, not_utf8, option_text, pieces_of
from distembed.files import damage_told
from distembed.formats.delimiters import DELIMITERS, separated
from distembed.formats.encodings import decoded
from distembed.formats.parquet import ParquetFile, read_batches
from distembed.formats.pieces import open_url

# A JSON line is parsed as a whole.
MAX_JSON_LINE_BYTES = 1 << 28
TOO_LONG = (
    f"has over {MAX_JSON_LINE_BYTES} bytes, which cannot be parsed in bounded memory; "
    "give the text as plain text or Parquet"
)


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


class Span(NamedTuple):
    """A piece of text that will be put into a batch; `id` is None where it continues the previous document."""

    text: bytes
    closes: bool
    id: str | None = None
    title: str = ""
    label: str | None = None
    carried: tuple[str | None, ...] = ()


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
        carried=_columns([span.carried for span in begun]),
    )


def _columns(rows: list[tuple[str | None, ...]]) -> tuple[pa.Array, ...]:
    """Return rows of as many values as columns of text."""
    return tuple(pa.array(column, pa.string()) for column in zip(*rows, strict=True))


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
    found = [value_at(record, field) for field in text_fields if has_field(record, field)]
    texts = [text for text in found if text is not None]
    if not found or not all(isinstance(text, str) for text in texts):
        raise json_error(partition, offset, missing_text(partition, record))
    return Span(
        encoded(partition, offset, "\n".join(texts)),
        closes=True,
        id=optional(partition, offset, record, id_field) or f"{partition.name}:{offset}",
        title=optional(partition, offset, record, title_field) or "",
        label=optional(partition, offset, record, label_field),
        carried=tuple(optional(partition, offset, record, field) for field in partition.carried),
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
        value = value_at(record, field)
        if value is not None and not isinstance(value, str):
            return f'holds {type(value).__name__} in "{field}", not text; give {key}'
    fields = " or ".join(f'"{field}"' for field in text_fields)
    found = ", ".join(name[:40] for name in field_names(record)[:20]) or "none"
    return f"has no field {fields} (it has {found}); give {key}"


def optional(partition: Partition, offset: int, record: dict[str, Any], field: str | None) -> str | None:
    """Return a field as text, None where there is none."""
    value = value_at(record, field) if field else None
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
    return 1 + lines_within(replace(partition, start=0, stop=None), offset)


def lines_within(partition: Partition, n_bytes: int) -> int:
    """Return the number of line ends in the first bytes of the text of a partition."""
    n_lines, left = 0, n_bytes
    for piece in pieces_of(partition, Progress()):
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
    with (
        damage_told(partition.url, CorpusError, "a Parquet file"),
        closing(open_url(partition.url)) as raw,
    ):
        file = ParquetFile(raw, buffer_bytes=1 << 20)
        check_columns(partition, file.schema_arrow)
        stop = file.num_row_groups if partition.stop is None else partition.stop
        sizes = [file.metadata.row_group(group).num_rows for group in range(stop)]
        for group in range(partition.start, stop):
            metadata = file.metadata.row_group(group)
            before, n_bytes = progress.n_bytes_read, stored_bytes(metadata)
            mean_bytes = metadata.total_byte_size // max(metadata.num_rows, 1)
            n_rows = int(np.clip(4 * partition.piece_bytes // max(mean_bytes, 1), 1, 1 << 16))
            columns = sorted(
                {
                    *partition.fields[0],
                    *(field for field in partition.fields[1:] if field),
                    *partition.carried,
                }
            )
            row, n_before = 0, sum(sizes[:group])
            for records in read_batches(file, n_rows, row_groups=[group], columns=columns):
                progress.n_bytes_read = before + n_bytes * (row + records.num_rows) // metadata.num_rows
                yield parquet_batch(partition, records, progress, group=group, row=row, n_before=n_before)
                row += records.num_rows
            progress.n_bytes_read = before + n_bytes


def stored_bytes(row_group: Any) -> int:
    """Return the bytes of a row group of a Parquet file, compressed."""
    return sum(row_group.column(k).total_compressed_size for k in range(row_group.num_columns))


def check_columns(partition: Partition, schema: pa.Schema) -> None:
    """Check that a Parquet file has the columns asked for, and that they are text."""
    for option, field in check_fields(partition, schema.names):
        kind = schema.field(field).type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if pa.types.is_nested(kind) or (option == "text_field" and not is_text):
            key = option_text(partition.section, option)
            raise CorpusError(f'{partition.url}: column "{field}" is {kind}, not text; give {key}.')


def check_fields(partition: Partition, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the options that name a field, each with the name, and check that a table has these columns."""
    texts, *others = partition.fields
    named = zip(("id_field", "title_field", "label_field"), others, strict=True)
    carried = [("carry_fields", field) for field in partition.carried]
    asked = [
        *(("text_field", field) for field in texts),
        *((o, field) for o, field in named if field),
        *carried,
    ]
    for option, field in asked:
        if field not in names:
            key, found = (
                option_text(partition.section, option),
                ", ".join(name[:40] for name in names[:20]) or "none",
            )
            raise CorpusError(f'{partition.url} has no column "{field}" (it has {found}); give {key}.')
    return asked


def parquet_batch(
    partition: Partition, records: pa.RecordBatch, progress: Progress, *, group: int, row: int, n_before: int
) -> Batch:
    """Return the batch of some rows of a row group, from `row` on, with so many rows in the groups before.

    A null text or title becomes an empty one.
    """
    columns = {field: as_text(records.column(field)) for field in records.schema.names}
    bad = bad_rows(columns) if partition.errors == "strict" else {}
    for place, field in bad.items():
        reason = f'is not UTF-8 in column "{field}"; correct the row, or give {replaced(partition)}'
        number = f"row {n_before + row + place + 1}"
        progress.pass_over(partition, RecordError(BadRecord(partition.url, number, reason)))
    rows = np.delete(np.arange(records.num_rows), list(bad))
    columns = {field: column.take(pa.array(rows)) for field, column in columns.items()} if bad else columns
    n, text = len(rows), join_columns([columns[field] for field in partition.fields[0]])
    ids, titles, labels = (repaired(columns[field]) if field else None for field in partition.fields[1:])
    numbers = pa.array(row + rows).cast(pa.string())
    name = f"{partition.name}:{group}."
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
        pa.repeat("", n) if titles is None else titles.fill_null(""),
        labels if labels is not None else pa.nulls(n, pa.string()),
        tuple(repaired(columns[field]) for field in partition.carried),
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


def join_columns(columns: list[pa.Array]) -> pa.Array:
    """Return columns of text as one, joined by line ends; nulls are left out."""
    columns = [column.cast(pa.large_string()) for column in columns]
    if len(columns) == 1:
        return columns[0]
    return pc.binary_join_element_wise(*columns, pa.scalar("\n", pa.large_string()), null_handling="skip")


# --- rows of CSV and TSV -----------------------------------------------------------------------------------


class Row(NamedTuple):
    """The fields of a row, the number of the line where it begins, and that of the line where it ends."""

    fields: list[str]
    first: int
    last: int


Places = tuple[list[int], list[int | None], list[int], int]
"""The places in a row of its texts, of its id, title and label, where they are read, and of the fields that are carried
along; and how many fields it has.
"""


def with_columns(partition: Partition) -> Partition:
    """Return a partition of CSV or TSV with its delimiter and quotes, and check that it has the columns asked for.

    Raises
    ------
    CorpusError
        If a column is missing.
    ValueError
        If the delimiter is not one character.
    """
    if partition.delimiter != "auto" and len(partition.delimiter) != 1:
        raise ValueError(f'delimiter is {partition.delimiter!r}; give one character, as ";", or "auto"')
    quotes = partition.quotes
    if quotes == "auto":
        quotes = "none" if partition.format == "tsv" else "double"
    candidates = DELIMITERS if partition.delimiter == "auto" else partition.delimiter
    if partition.format == "tsv":
        candidates = "\t"
    beginning = decoded(read_beginning(partition), partition.encoding, errors="replace")
    text, named = separated(beginning)
    if named and partition.delimiter == "auto":
        candidates = named
    check_line_ends(partition, text)  # again, without the line that names the separator
    asked = {*partition.fields[0], *partition.fields[1:], *partition.carried}
    headers = {one: _header(text, replace(partition, delimiter=one, quotes=quotes)) for one in candidates}
    best = max(headers, key=lambda one: (len(asked & {*headers[one]}), len(headers[one])))
    _places(partition, headers[best])
    return replace(partition, delimiter=best, quotes=quotes)


def _header(text: str, partition: Partition) -> list[str]:
    lines = (f"{line}\n" for line in text.split("\n"))
    try:
        return next((row for row in _reader(lines, partition) if row), [])
    except csv.Error:
        return []


def _reader(lines: Iterator[str], partition: Partition) -> Any:
    """Return a reader of rows: quotes that do not enclose a field are an error where they enclose fields."""
    if partition.quotes == "none":
        return csv.reader(lines, delimiter=partition.delimiter, quoting=csv.QUOTE_NONE)
    return csv.reader(lines, delimiter=partition.delimiter, strict=True)


def _places(partition: Partition, header: Sequence[str]) -> Places:
    """Return where the fields asked for are in a row."""
    for _, field in check_fields(partition, header):
        if header.count(field) > 1:
            raise CorpusError(f'{partition.url} has the column "{field}" twice; rename one.')
    texts, *others = partition.fields
    places = [header.index(field) if field else None for field in others]
    carried = [header.index(field) for field in partition.carried]
    return [header.index(field) for field in texts], places, carried, len(header)


def row_spans(partition: Partition, progress: Progress) -> Iterator[Span]:
    """Yield each row's text with its id, title and label."""
    rows = read_rows(partition, progress)
    header = next(rows, Row([], 1, 1))
    places = _places(partition, header.fields)
    for number, row in enumerate(rows, start=1):
        try:
            yield _span(partition, row, places, f"{partition.name}:{number}")
        except RecordError as error:
            progress.pass_over(partition, error)


def _span(partition: Partition, row: Row, places: Places, place: str) -> Span:
    of_texts, of_others, of_carried, width = places
    if len(row.fields) != width:
        raise _row_error(
            partition,
            row,
            f"has {len(row.fields)} fields and the header has {width}; {_advice(partition)}",
        )
    texts = "\n".join(row.fields[at] for at in of_texts)
    ident, title, label = (None if at is None else row.fields[at] for at in of_others)
    carried = tuple(row.fields[at] or None for at in of_carried)
    try:
        text, _ = texts.encode(), [name.encode() for name in (ident, title, label, *carried) if name]
    except UnicodeEncodeError as error:
        raise _row_error(
            partition, row, f"is not UTF-8; correct the row, or give {replaced(partition)}"
        ) from error
    return Span(text, closes=True, id=ident or place, title=title or "", label=label or None, carried=carried)


def _advice(partition: Partition) -> str:
    delimiter, quotes = (option_text(partition.section, option) for option in ("delimiter", "quotes"))
    return f"correct the row, or give {delimiter} or {quotes}"


def _row_error(partition: Partition, row: Row, what: str) -> RecordError:
    place = f"line {row.first}" if row.last <= row.first else f"lines {row.first} to {row.last}"
    return RecordError(BadRecord(partition.url, place, what))


def read_rows(partition: Partition, progress: Progress) -> Iterator[Row]:
    """Yield the rows of a file that are not empty, the header first; a row that cannot be read is a bad record.

    Raises
    ------
    CorpusError
        If a quote is never closed: the rows after it cannot be told apart.
    """
    reader = _reader(text_lines(partition, progress), partition)
    while True:
        first = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "end of data" in str(error):
                raise CorpusError(
                    f"{partition.url}, line {first}, has a quote that is never closed; correct the row, or give "
                    f"{option_text(partition.section, 'quotes', 'none')} if quotes are characters like others."
                ) from error
            row = Row([], first, reader.line_num)
            wrong = _row_error(partition, row, f"is no row of fields ({error}); {_advice(partition)}")
            progress.pass_over(partition, wrong)
        else:
            if fields:
                yield Row(fields, first, reader.line_num)


def text_lines(partition: Partition, progress: Progress) -> Iterator[str]:
    """Yield the lines of a file with their ends; bytes that do not decode are escaped, or replaced where asked for.

    Raises
    ------
    CorpusError
        If a line is too long to be read in bounded memory.
    """
    errors = "surrogateescape" if partition.errors == "strict" else "replace"
    held: list[bytes] = []
    size, number = 0, 1
    for piece in pieces_of(partition, progress):
        for line in _cut(piece.data):
            held.append(line)
            size += len(line)
            if line.endswith(b"\n"):
                text = b"".join(held).decode("utf-8", errors)
                yield separated(text.removeprefix("\ufeff")).text if number == 1 else text
                held, size, number = [], 0, number + 1
        if size > MAX_JSON_LINE_BYTES:
            raise CorpusError(
                f"{partition.url}, line {number}, has over {MAX_JSON_LINE_BYTES:,} bytes, which cannot be read in "
                "bounded memory; give the text as plain text or Parquet."
            )
    if held:
        text = b"".join(held).decode("utf-8", errors)
        yield text.removeprefix("\ufeff") if number == 1 else text


def _cut(data: bytes) -> list[bytes]:
    *lines, rest = data.split(b"\n")
    return [*(line + b"\n" for line in lines), *([rest] if rest else [])]
