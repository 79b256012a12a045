"""Partitions of CSV and TSV files to batches of documents, one document per row.

The first line names the columns. Rows are read one after the other, so that a field between quotes may hold line
breaks; a file is therefore one partition. A row is held whole, but not more.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from distembed.corpus.documents import MAX_JSON_LINE_BYTES, Span, batched, check_fields, replaced
from distembed.corpus.heads import check_line_ends, read_beginning
from distembed.corpus.streams import (
    BadRecord,
    Batch,
    CorpusError,
    Partition,
    Progress,
    RecordError,
    option_text,
    pieces_of,
)
from distembed.formats.delimiters import DELIMITERS, separated
from distembed.formats.encodings import decoded

MAX_ROW_BYTES = MAX_JSON_LINE_BYTES
"""A longer line, or field, is refused: it could not be read in bounded memory."""


class Row(NamedTuple):
    """The fields of a row, the number of the line where it begins, and that of the line where it ends."""

    fields: list[str]
    first: int
    last: int


class Places(NamedTuple):
    """The places in a row of the text, the id, the title and the label; None for what is not read."""

    texts: list[int]
    others: list[int | None]
    width: int


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
    asked = {*partition.fields[0], *partition.fields[1:]}
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
    csv.field_size_limit(MAX_ROW_BYTES)
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
    return Places([header.index(field) for field in texts], places, len(header))


def read_delimited(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of a CSV or TSV file."""
    return batched(row_spans(partition, progress), piece_bytes=partition.piece_bytes)


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
    if len(row.fields) != places.width:
        raise _row_error(
            partition,
            row,
            f"has {len(row.fields)} fields and the header has {places.width}; {_advice(partition)}",
        )
    texts = "\n".join(row.fields[at] for at in places.texts)
    ident, title, label = (None if at is None else row.fields[at] for at in places.others)
    try:
        text, _ = texts.encode(), [name.encode() for name in (ident, title, label) if name]
    except UnicodeEncodeError as error:
        raise _row_error(
            partition, row, f"is not UTF-8; correct the row, or give {replaced(partition)}"
        ) from error
    return Span(text, closes=True, id=ident or place, title=title or "", label=label or None)


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
                raise CorpusError(_never_closed(partition, first)) from error
            row = Row([], first, reader.line_num)
            wrong = _row_error(partition, row, f"is no row of fields ({error}); {_advice(partition)}")
            progress.pass_over(partition, wrong)
        else:
            if fields:
                yield Row(fields, first, reader.line_num)


def _never_closed(partition: Partition, line: int) -> str:
    return (
        f"{partition.url}, line {line}, has a quote that is never closed; correct the row, or give "
        f"{option_text(partition.section, 'quotes', 'none')} if quotes are characters like others."
    )


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
        if size > MAX_ROW_BYTES:
            raise CorpusError(
                f"{partition.url}, line {number}, has over {MAX_ROW_BYTES:,} bytes, which cannot be read in bounded "
                "memory; give the text as plain text or Parquet."
            )
    if held:
        text = b"".join(held).decode("utf-8", errors)
        yield text.removeprefix("\ufeff") if number == 1 else text


def _cut(data: bytes) -> list[bytes]:
    *lines, rest = data.split(b"\n")
    return [*(line + b"\n" for line in lines), *([rest] if rest else [])]
