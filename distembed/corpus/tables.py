"""Reads JSON lines, CSV, TSV and Parquet as batches of documents."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distembed.corpus.records import (
    RECORD_BYTES,
    TOO_LONG,
    Batch,
    CorpusError,
    Partition,
    Progress,
    batch_of,
    document_table,
    encoding_advice,
    pieces_of,
    place_of,
    whole_records,
)
from distembed.files import damage_told
from distembed.formats.delimited import find_rows, first_rows, parse_rows
from distembed.formats.encodings import holds_utf8
from distembed.formats.parquet import ParquetFile, is_text, read_batches
from distembed.urls import opened

FIELD_OPTIONS = ("id_field", "title_field", "label_field")
"""The options that name the fields of a document beside its text."""

MISSING = object()
"""What stands for the value of a field that a record lacks."""

# --- JSON lines --------------------------------------------------------------------------------------------


def read_json(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of JSON lines; a line that cannot be read is a bad record."""
    asked = asked_fields(partition)
    for block in whole_records(partition, progress, b"\n"):
        rows: list[list[str | None]] = []
        places: list[int] = []
        offset = block.offset
        for line in block.data.split(b"\n"):
            if line.strip():
                try:
                    rows.append(_json_row(asked, line.removeprefix(codecs.BOM_UTF8)))
                    places.append(offset)
                except CorpusError as error:
                    progress.pass_over(partition, place_of(partition, offset), str(error))
            offset += len(line) + 1
        if rows:
            columns = (pa.array(column, pa.large_string()) for column in zip(*rows, strict=True))
            found = dict(zip(asked, columns, strict=True))
            yield table_batch(partition, progress, found, np.array(places), np.array(places))


def _json_row(asked: Mapping[str, str], line: bytes) -> list[str | None]:
    """Return the fields of a JSON line that are asked for as text, None for one that is null or missing.

    Raises
    ------
    CorpusError
        If it is no JSON object, or has no text; the message is the reason alone.
    """
    try:
        record = json.loads(line.decode())
    except UnicodeDecodeError as error:
        place = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
        raise CorpusError(f"is not UTF-8 ({place}); {encoding_advice(line)}") from error
    except (ValueError, RecursionError) as error:
        wrong = error.msg if isinstance(error, json.JSONDecodeError) else str(error).partition(";")[0]
        raise CorpusError(f"is not JSON ({wrong}); correct the line") from error
    if not isinstance(record, dict):
        is_list = isinstance(record, list)
        advice = "give one object per line (jq -c '.[]' FILE)" if is_list else "correct the line"
        raise CorpusError(f"is a JSON {type(record).__name__}, not an object; {advice}")
    values: list[str | None] = []
    texts = [field for field, option in asked.items() if option == "text_field"]
    if all(value_at(record, field) is MISSING for field in texts):
        fields = " or ".join(f'"{field}"' for field in texts)
        names = ", ".join(name[:40] for name in _field_names(record)[:20]) or "none"
        raise CorpusError(f"has no field {fields} (it has {names}); give text_field=")
    for field, option in asked.items():
        value = value_at(record, field)
        if value is None or value is MISSING:
            values.append(None)
            continue
        if type(value) is not str:
            if option == "text_field" or isinstance(value, list | dict):
                kind = "text" if option == "text_field" else "one value"
                raise CorpusError(f'holds {type(value).__name__} in "{field}", not {kind}; give {option}=')
            value = str(value).lower() if isinstance(value, bool) else str(value)
        values.append(value)
    if b"\\u" in line:
        try:
            "".join(filter(None, values)).encode()
        except UnicodeEncodeError as error:
            escape = f"\\u{ord(error.object[error.start]):04x}"
            raise CorpusError(f"holds {escape}, half of a character; correct the line") from error
    return values


def value_at(record: dict[str, Any], field: str) -> Any:
    """Return the value of a field, of one inside others by a name with dots as "doc.body.text"; MISSING without one."""
    if field in record:
        return record[field]
    inner: Any = record
    for name in field.split("."):
        if not isinstance(inner, dict) or name not in inner:
            return MISSING
        inner = inner[name]
    return inner


def _field_names(record: dict[str, Any], before: str = "") -> list[str]:
    """Return the names of the fields of a record, those inside others with dots, sorted."""
    names: list[str] = []
    for name, value in sorted(record.items()):
        inner = _field_names(value, f"{before}{name}.") if isinstance(value, dict) else []
        names += inner or [f"{before}{name}"]
    return names


# --- tables ------------------------------------------------------------------------------------------------


def asked_fields(partition: Partition) -> dict[str, str]:
    """Return the fields asked for, those of the text first, each with the option that names it."""
    asked = dict.fromkeys(partition.text_fields, "text_field")
    for option in FIELD_OPTIONS:
        asked |= {field: option for field in [getattr(partition, option)] if field and field not in asked}
    return dict.fromkeys([*asked, *partition.carry_fields], "carry_fields") | asked


def check_fields(partition: Partition, names: Sequence[str]) -> dict[str, str]:
    """Return the columns asked for, each with the option that names it.

    Raises
    ------
    CorpusError
        If a table lacks one of them, or has it twice.
    """
    asked = asked_fields(partition)
    for field, option in asked.items():
        if field not in names:
            found = ", ".join(name[:40] for name in names[:20]) or "none"
            raise CorpusError(f'{partition.url} has no column "{field}" (it has {found}); give {option}=.')
        if list(names).count(field) > 1:
            raise CorpusError(f'{partition.url} has the column "{field}" twice; rename one.')
    return asked


def table_batch(
    partition: Partition,
    progress: Progress,
    columns: Mapping[str, pa.Array],
    numbers: NDArray[np.int64],
    places: NDArray[np.int64],
    group: str = "",
) -> Batch:
    """Return the rows of a table as a batch; a null text or title is an empty one.

    A row that holds bytes that are not UTF-8 is a bad record.

    Parameters
    ----------
    partition : Partition
    progress : Progress
        It counts the bad records.
    columns : mapping of str to Array
        The columns asked for, as large strings or large binary.
    numbers : int64 array (n,)
        The ids of rows without one of their own, after the name of the file and the `group`.
    places : int64 array (n,)
        The line of the file where each begins, or its row in a Parquet file.
    group : str
        The row group of a Parquet file.
    """
    found: dict[str, pa.Array] = {}
    bad: dict[int, tuple[str, bytes]] = {}
    for name, column in columns.items():
        try:
            found[name] = column.cast(pa.large_string())
        except pa.ArrowInvalid:
            values = column.to_pylist()
            wrong = {row for row, value in enumerate(values) if value is not None and not holds_utf8(value)}
            bad = {row: (name, values[row]) for row in wrong} | bad
            values = [None if row in wrong else value for row, value in enumerate(values)]
            found[name] = pa.array(values, pa.large_binary()).cast(pa.large_string())
    for row, (name, value) in sorted(bad.items()):
        is_parquet = partition.format == "parquet"
        advice = "correct the row" if is_parquet else encoding_advice(value)
        place = f"{'row' if is_parquet else 'line'} {places[row]}"
        progress.pass_over(partition, place, f'is not UTF-8 in column "{name}"; {advice}')
    ids = pc.binary_join_element_wise(f"{partition.name}:{group}", pa.array(numbers).cast(pa.string()), "")
    if bad:
        good = pa.array(np.delete(np.arange(len(ids)), list(bad)))
        found, ids = {name: column.take(good) for name, column in found.items()}, ids.take(good)
    own_ids, titles, labels = (found.get(getattr(partition, option)) for option in FIELD_OPTIONS)
    if own_ids is not None:
        ids = pc.if_else(pc.equal(own_ids.fill_null(""), ""), ids, own_ids.cast(pa.string()))
    titles = None if titles is None else titles.fill_null("")
    documents = document_table(ids, titles, labels, {field: found[field] for field in partition.carry_fields})
    text, *more = (found[field] for field in partition.text_fields)
    if more:
        # pyarrow leaves out the rows of which it skips all values, so that the texts after them move up.
        text = pc.if_else(reduce(pc.and_, (column.is_null() for column in (text, *more))), "", text)
        line_end = pa.scalar("\n", pa.large_string())
        text = pc.binary_join_element_wise(text, *more, line_end, null_handling="skip")
    return batch_of(text.fill_null(""), documents)


# --- CSV and TSV -------------------------------------------------------------------------------------------


def rows_of(
    partition: Partition, progress: Progress
) -> Iterator[tuple[memoryview, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the rows of a file, the header among them, about a piece of the file at a time.

    With the text come int64 arrays (n,): where each row begins that is not empty, how many fields it has, 0 where it is
    no row of fields, and the line of the file in which it begins.

    Raises
    ------
    CorpusError
        If a quote is never closed: the rows after it cannot be told apart. If a row is too long.
    """
    rest, line, is_first = b"", 1, True
    last = b"\n", True  # the end of the last row
    for piece in chain(pieces_of(partition, progress), [last]):
        data = rest + piece[0]
        if is_first and data:
            data, is_first = data.removeprefix(codecs.BOM_UTF8), False
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        found = find_rows(data, partition.delimiter, has_quotes=partition.format == "csv")
        is_long = len(data) - found.stop > RECORD_BYTES
        if found.opened >= 0 and (found.is_lost or is_long or piece is last):
            place = line + np.searchsorted(ends, found.opened)
            raise CorpusError(
                f"{partition.url}, line {place}, has a quote that is never closed; correct the row, or give "
                'format="tsv" and its delimiter= if quotes are characters like others.'
            )
        if is_long:
            last_line = line + int(np.searchsorted(ends, found.stop))
            raise CorpusError(f"{partition.url}, line {last_line}, {TOO_LONG}.")
        lines = line + np.searchsorted(ends, found.starts)
        if len(found.starts):
            yield memoryview(data)[: found.stop], found.starts, found.n_fields, lines
        rest, line = data[found.stop :], line + int(np.searchsorted(ends, found.stop))


def read_csv(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of a table, a row a document; a row that cannot be read is a bad record."""
    has_quotes, places, width, n_before = partition.format == "csv", dict[str, int](), 0, 0
    for rows in rows_of(partition, progress):
        data, starts, n_fields, lines = rows
        if not width:
            stop = int(starts[1]) if len(starts) > 1 else len(data)
            text = data[:stop].tobytes().decode("utf-8", "replace")
            [header] = first_rows(text, partition.delimiter, has_quotes=has_quotes) or [[]]
            width, places = (
                len(header),
                {name: header.index(name) for name in check_fields(partition, header)},
            )
            data, starts, n_fields, lines = data[stop:], starts[1:] - stop, n_fields[1:], lines[1:]
        good = np.flatnonzero(n_fields == width)
        if len(good) < len(starts):
            stops = [*starts[1:].tolist(), len(data)]
            data = memoryview(b"".join(data[starts[row] : stops[row]] for row in good.tolist()))
            for row in np.flatnonzero(n_fields != width).tolist():
                n = n_fields[row]
                what = f"has {n} fields and the header has {width}" if n else "is no row of fields"
                what += "; correct the row, or give delimiter="
                progress.pass_over(partition, f"line {lines[row]}", what)
        used, kind = list(places.values()), pa.large_binary()
        table = parse_rows(data, width, partition.delimiter, has_quotes=has_quotes, columns=used, kind=kind)
        columns = {name: table[str(place)].combine_chunks() for name, place in places.items()}
        for name in columns.keys() - {*partition.text_fields}:
            is_empty = pc.equal(pc.binary_length(columns[name]), 0)
            columns[name] = pc.if_else(is_empty, None, columns[name])
        yield table_batch(partition, progress, columns, n_before + 1 + good, lines[good])
        n_before += len(starts)


# --- Parquet -----------------------------------------------------------------------------------------------


def read_parquet(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of some row groups of a Parquet file."""
    with damage_told(partition.url, CorpusError, "a Parquet file"), opened(partition.url) as raw:
        file = ParquetFile(raw, buffer_bytes=1 << 20)
        asked = check_fields(partition, file.schema_arrow.names)
        for field, option in asked.items():
            kind = file.schema_arrow.field(field).type
            values = kind.value_type if pa.types.is_dictionary(kind) else kind
            if pa.types.is_nested(values) or (option == "text_field" and not is_text(kind)):
                raise CorpusError(f'{partition.url}: column "{field}" is {kind}, not text; give {option}=.')
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
                numbers = np.arange(row, row + records.num_rows)
                columns = {
                    # Parquet files do not ensure that text is UTF-8.
                    name: records.column(name).cast(pa.large_string()).cast(pa.large_binary())
                    for name in asked
                }
                yield table_batch(partition, progress, columns, numbers, first + 1 + numbers, f"{group}.")
                row += records.num_rows
            progress.n_bytes_read = before + n_bytes
            first += metadata.num_rows


def stored_bytes(row_group: Any) -> int:
    """Return the bytes of a row group of a Parquet file, compressed."""
    return sum(row_group.column(k).total_compressed_size for k in range(row_group.num_columns))
