"""Reads JSON lines, CSV, TSV and Parquet as batches of documents."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import reduce
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distembed.corpus.errors import BadRecord, CorpusError, RecordError
from distembed.corpus.record_fields import field_names, has_field, value_at
from distembed.corpus.records import (
    RECORD_BYTES,
    Batch,
    batch_of,
    blocks_of,
    document_table,
    encoding_advice,
    is_utf8,
    place_of,
    record_error,
    repaired,
    too_long,
)
from distembed.corpus.streams import Partition, Piece, Progress, pieces_of
from distembed.files import damage_told
from distembed.formats.csv_blocks import find_rows
from distembed.formats.delimited import first_rows, parse_rows, separated
from distembed.formats.parquet import ParquetFile, read_batches
from distembed.formats.pieces import open_url

# --- JSON lines --------------------------------------------------------------------------------------------


def read_json(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of JSON lines; a line that cannot be read is a bad record."""
    for block in blocks_of(partition, progress, [b"\n"]):
        if block.is_open and not block.continues:
            progress.pass_over(partition, too_long(partition, place_of(partition, block.offset)))
        if block.is_open or block.continues:
            continue
        rows: list[tuple[Any, ...]] = []
        offset = block.offset
        for line in block.data.split(b"\n"):
            if line.strip():
                try:
                    rows.append(json_row(partition, offset, line.removeprefix(codecs.BOM_UTF8), progress))
                except RecordError as error:
                    progress.pass_over(partition, error)
            offset += len(line) + 1
        if rows:
            texts, ids, titles, labels, *carried = zip(*rows, strict=True)
            columns = dict(zip(partition.carried, carried, strict=True))
            yield batch_of(texts, document_table(ids, titles, labels, columns))


def json_row(partition: Partition, offset: int, line: bytes, progress: Progress) -> tuple[Any, ...]:
    """Return the text of a JSON line as UTF-8, its id, title and label, and its further fields.

    A text that is null is empty.

    Raises
    ------
    RecordError
        If it is no JSON object, or has no text.
    """

    def encoded(text: str) -> bytes:
        try:
            return text.encode("utf-8", "strict" if partition.errors == "strict" else "replace")
        except UnicodeEncodeError as error:
            escape = f"\\u{ord(text[error.start]):04x}"
            advice = f"correct the line, or give {partition.option('errors', 'replace')}"
            raise record_error(partition, offset, f"holds {escape}, half of a character; {advice}") from error

    def optional(option: str, field: str | None) -> str | None:
        value = value_at(record, field) if field else None
        if isinstance(value, list | dict):
            key = partition.option(option)
            what = f'holds {type(value).__name__} in "{field}", not one value; give {key}'
            raise record_error(partition, offset, what)
        if isinstance(value, bool):
            return str(value).lower()
        return None if value is None else encoded(str(value)).decode()

    record = _parsed(partition, offset, line, progress)
    text_fields, *others = partition.fields
    found = [value_at(record, field) for field in text_fields if has_field(record, field)]
    texts = [text for text in found if text is not None]
    if not found or not all(isinstance(text, str) for text in texts):
        raise record_error(partition, offset, _missing_text(partition, record))
    ident, title, label = map(optional, ("id_field", "title_field", "label_field"), others)
    carried = (optional("carry_fields", field) for field in partition.carried)
    text = encoded("\n".join(texts))
    return text, ident or f"{partition.name}:{offset}", title or "", label, *carried


def _parsed(partition: Partition, offset: int, line: bytes, progress: Progress) -> dict[str, Any]:
    """Return one JSON line as a record."""
    if partition.errors == "replace":
        line = repaired(progress, line)
    try:
        record = json.loads(line.decode())
    except UnicodeDecodeError as error:
        what = f"is not UTF-8 (byte 0x{line[error.start]:02x} at column {error.start + 1})"
        raise record_error(partition, offset, f"{what}; {encoding_advice(partition, line)}") from error
    except (ValueError, RecursionError) as error:
        wrong = error.msg if isinstance(error, json.JSONDecodeError) else str(error).partition(";")[0]
        raise record_error(partition, offset, f"is not JSON ({wrong}); correct the line") from error
    if not isinstance(record, dict):
        advice = (
            "give one object per line (jq -c '.[]' FILE)" if isinstance(record, list) else "correct the line"
        )
        raise record_error(partition, offset, f"is a JSON {type(record).__name__}, not an object; {advice}")
    return record


def _missing_text(partition: Partition, record: dict[str, Any]) -> str:
    """Return the description of a record that has no text."""
    text_fields, key = partition.fields[0], partition.option("text_field")
    for field in text_fields:
        value = value_at(record, field)
        if value is not None and not isinstance(value, str):
            return f'holds {type(value).__name__} in "{field}", not text; give {key}'
    fields = " or ".join(f'"{field}"' for field in text_fields)
    found = ", ".join(name[:40] for name in field_names(record)[:20]) or "none"
    return f"has no field {fields} (it has {found}); give {key}"


# --- tables ------------------------------------------------------------------------------------------------


def check_fields(partition: Partition, names: Sequence[str]) -> dict[str, str]:
    """Return the columns asked for, each with the option that names it.

    Raises
    ------
    CorpusError
        If a table lacks one of them, or has it twice.
    """
    texts, *others = partition.fields
    asked = dict.fromkeys(texts, "text_field")
    for option, field in zip(("id_field", "title_field", "label_field"), others, strict=True):
        asked |= {field: option} if field and field not in asked else {}
    asked |= {field: "carry_fields" for field in partition.carried if field not in asked}
    for field, option in asked.items():
        if field not in names:
            found = ", ".join(name[:40] for name in names[:20]) or "none"
            key = partition.option(option)
            raise CorpusError(f'{partition.url} has no column "{field}" (it has {found}); give {key}.')
        if list(names).count(field) > 1:
            raise CorpusError(f'{partition.url} has the column "{field}" twice; rename one.')
    return asked


def table_batch(
    partition: Partition,
    progress: Progress,
    columns: Mapping[str, pa.Array],
    ids: pa.Array,
    unit: str,
    places: NDArray[np.int64],
) -> Batch:
    """Return the rows of a table as a batch; a null text or title is an empty one.

    A row that holds bytes that are not UTF-8 is a bad record, or they are replaced.

    Parameters
    ----------
    partition : Partition
    progress : Progress
        It counts the bad records.
    columns : mapping of str to Array
        The columns asked for, as large binary.
    ids : Array
        What stands for an id where there is no column of ids, or a null in it.
    unit : {"line", "row"}
    places : int64 array (n,)
        The line or the row of the file where each begins.
    """
    found: dict[str, pa.Array] = {}
    bad: dict[int, tuple[str, bytes]] = {}
    for name, column in columns.items():
        try:
            found[name] = column.cast(pa.large_string())
        except pa.ArrowInvalid:
            values = column.to_pylist()
            wrong = [row for row, value in enumerate(values) if value is not None and not is_utf8(value)]
            for row in wrong:
                if partition.errors == "strict":
                    bad.setdefault(row, (name, values[row]))
                values[row] = repaired(progress, values[row]) if partition.errors == "replace" else b""
            found[name] = pa.array(values, pa.large_binary()).cast(pa.large_string())
    for row, (name, value) in sorted(bad.items()):
        is_text = partition.format != "parquet"
        advice = (
            encoding_advice(partition, value)
            if is_text
            else f"correct the row, or give {partition.option('errors', 'replace')}"
        )
        reason = f'is not UTF-8 in column "{name}"; {advice}'
        progress.pass_over(partition, RecordError(BadRecord(partition.url, f"{unit} {places[row]}", reason)))
    if bad:
        good = pa.array(np.delete(np.arange(len(ids)), list(bad)))
        found, ids = {name: column.take(good) for name, column in found.items()}, ids.take(good)
    texts, *others = partition.fields
    id_column, titles, labels = (found.get(field) if field else None for field in others)
    documents = document_table(
        ids if id_column is None else pc.coalesce(id_column.cast(pa.string()), ids),
        pa.repeat("", len(ids)) if titles is None else titles.fill_null(""),
        pa.nulls(len(ids)) if labels is None else labels,
        {field: found[field] for field in partition.carried},
    )
    text, *more = (found[field] for field in texts)
    if more:
        # pyarrow leaves out the rows of which it skips all values, so that the texts after them move up.
        is_null = reduce(pc.and_, (column.is_null() for column in (text, *more)))
        text = pc.if_else(is_null, "", text)
        line_end = pa.scalar("\n", pa.large_string())
        text = pc.binary_join_element_wise(text, *more, line_end, null_handling="skip")
    return batch_of(text.fill_null(""), documents)


# --- CSV and TSV -------------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """Some rows of CSV."""

    data: memoryview
    starts: NDArray[np.int64]
    """Where each row begins that is not empty. Int64 array (n,)."""
    n_fields: NDArray[np.int64]
    """How many fields it has; 0 where it is no row of fields. Int64 array (n,)."""
    lines: NDArray[np.int64]
    """The line of the file in which it begins. Int64 array (n,)."""


def rows_of(partition: Partition, progress: Progress) -> Iterator[Rows]:
    """Yield the rows of a file, the header among them, about a piece of the file at a time.

    Raises
    ------
    CorpusError
        If a quote is never closed: the rows after it cannot be told apart. If a row is too long.
    """
    end = Piece(b"\n", owned=True)  # of the last row
    rest, line, is_first = b"", 1, True
    for piece in chain(pieces_of(partition, progress), [end]):
        data = rest + piece.data
        if is_first and data:
            data, is_first = _without_separator(data), False
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        found = find_rows(data, partition.delimiter, has_quotes=partition.quotes == "double")
        is_long = len(data) - found.stop > RECORD_BYTES
        if found.opened >= 0 and (found.is_lost or is_long or piece is end):
            place = line + np.searchsorted(ends, found.opened)
            raise CorpusError(
                f"{partition.url}, line {place}, has a quote that is never closed; correct the row, or give "
                f"{partition.option('quotes', 'none')} if quotes are characters like others."
            )
        if is_long:
            raise too_long(partition, f"line {line + int(np.searchsorted(ends, found.stop))}")
        lines = line + np.searchsorted(ends, found.starts)
        yield Rows(memoryview(data)[: found.stop], found.starts, found.n_fields, lines)
        rest, line = data[found.stop :], line + int(np.searchsorted(ends, found.stop))


def _without_separator(data: bytes) -> bytes:
    """Return the beginning of a table without a byte-order mark; a line that names its separator becomes empty."""
    data = data.removeprefix(codecs.BOM_UTF8)
    is_named = separated(data[:16].decode("utf-8", "replace")).separator is not None
    return data[data.index(b"\n") :] if is_named else data


def read_csv(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of a table, a row a document; a row that cannot be read is a bad record."""
    options = " or ".join(partition.option(option) for option in ("delimiter", "quotes"))
    some = (rows for rows in rows_of(partition, progress) if len(rows.starts))
    first = next(some, None)
    if first is None:
        return
    stop = int(first.starts[1]) if len(first.starts) > 1 else len(first.data)
    has_quotes = partition.quotes == "double"
    text = first.data[:stop].tobytes().decode("utf-8", "replace")
    [header] = first_rows(text, partition.delimiter, has_quotes=has_quotes) or [[]]
    places = {name: header.index(name) for name in check_fields(partition, header)}
    first = Rows(first.data[stop:], first.starts[1:] - stop, first.n_fields[1:], first.lines[1:])
    n_before, width = 0, len(header)
    for rows in chain([first], some):
        data, good = rows.data, np.flatnonzero(rows.n_fields == width)
        if len(good) < len(rows.starts):
            stops = [*rows.starts[1:].tolist(), len(data)]
            data = memoryview(b"".join(data[rows.starts[row] : stops[row]] for row in good.tolist()))
            for row in np.flatnonzero(rows.n_fields != width).tolist():
                n = rows.n_fields[row]
                what = f"has {n} fields and the header has {width}" if n else "is no row of fields"
                reason = f"{what}; correct the row, or give {options}"
                wrong = BadRecord(partition.url, f"line {rows.lines[row]}", reason)
                progress.pass_over(partition, RecordError(wrong))
        table = parse_rows(
            data,
            width,
            partition.delimiter,
            has_quotes=has_quotes,
            columns=list(places.values()),
            kind=pa.large_binary(),
        )
        columns = {name: table[str(place)].combine_chunks() for name, place in places.items()}
        columns |= {
            name: pc.if_else(pc.equal(pc.binary_length(column), 0), None, column)
            for name, column in columns.items()
            if name not in partition.fields[0]
        }
        numbers = pa.array(n_before + 1 + good).cast(pa.string())
        ids = pc.binary_join_element_wise(f"{partition.name}:", numbers, "")
        yield table_batch(partition, progress, columns, ids, "line", rows.lines[good])
        n_before += len(rows.starts)


# --- Parquet -----------------------------------------------------------------------------------------------


def read_parquet(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of some row groups of a Parquet file."""
    with (
        damage_told(partition.url, CorpusError, "a Parquet file"),
        closing(open_url(partition.url)) as raw,
    ):
        file = ParquetFile(raw, buffer_bytes=1 << 20)
        asked = _check_columns(partition, file.schema_arrow)
        stop = file.num_row_groups if partition.stop is None else partition.stop
        first = sum(file.metadata.row_group(group).num_rows for group in range(partition.start))
        for group in range(partition.start, stop):
            metadata = file.metadata.row_group(group)
            before, n_bytes = progress.n_bytes_read, stored_bytes(metadata)
            mean_bytes = metadata.total_byte_size // max(metadata.num_rows, 1)
            n_rows = int(np.clip(4 * partition.piece_bytes // max(mean_bytes, 1), 1, 1 << 16))
            row = 0
            for records in read_batches(file, n_rows, row_groups=[group], columns=sorted(asked)):
                progress.n_bytes_read = before + n_bytes * (row + records.num_rows) // metadata.num_rows
                numbers = pa.array(np.arange(row, row + records.num_rows)).cast(pa.string())
                ids = pc.binary_join_element_wise(f"{partition.name}:{group}.", numbers, "")
                columns = {name: _as_bytes(records.column(name)) for name in asked}
                places = np.arange(first + row + 1, first + row + 1 + records.num_rows)
                yield table_batch(partition, progress, columns, ids, "row", places)
                row += records.num_rows
            progress.n_bytes_read = before + n_bytes
            first += metadata.num_rows


def stored_bytes(row_group: Any) -> int:
    """Return the bytes of a row group of a Parquet file, compressed."""
    return sum(row_group.column(k).total_compressed_size for k in range(row_group.num_columns))


def _check_columns(partition: Partition, schema: pa.Schema) -> dict[str, str]:
    """Check that a Parquet file has the columns asked for, and that they are text; return them with their options."""
    asked = check_fields(partition, schema.names)
    for field, option in asked.items():
        kind = schema.field(field).type
        values = kind.value_type if pa.types.is_dictionary(kind) else kind
        is_text = (
            pa.types.is_string(values) or pa.types.is_large_string(values) or pa.types.is_string_view(values)
        )
        if pa.types.is_nested(values) or (option == "text_field" and not is_text):
            key = partition.option(option)
            raise CorpusError(f'{partition.url}: column "{field}" is {kind}, not text; give {key}.')
    return asked


def _as_bytes(column: pa.Array) -> pa.Array:
    """Return a column as text that may not be UTF-8, which Parquet files do not ensure."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return (column if is_text else column.cast(pa.large_string())).cast(pa.large_binary())
