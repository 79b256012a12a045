"""Files of tables, by the ends of their names: delimited text, Parquet, and workbooks, read to named columns.

What is read here fits in memory: a row is a name, and names are few beside the words of a corpus.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, time
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from distembed.display import first_repeat
from distembed.extras import optional
from distembed.files import damage_told, read_small, refuse_bomb
from distembed.formats.delimited import SHOWN, DelimitedError, read_delimited
from distembed.formats.encodings import EncodingError
from distembed.formats.heads import OLD_OFFICE, sniffed
from distembed.formats.names import suffix_of
from distembed.formats.parquet import whole_table
from distembed.formats.streams import unpacking
from distembed.urls import opened


class TableError(ValueError):
    """A table that does not hold what the job says."""


class Table(NamedTuple):
    """The columns of a file by name, and what to say of how it was read.

    Attributes
    ----------
    path : where it lies
    columns : PyArrow chunked arrays, of strings where the file is text
    notes : one sentence each
    """

    path: str
    columns: dict[str, Any]
    notes: list[str]


# ---- reading ----------------------------------------------------------------------------------------------


def read_table(
    path: str,
    *,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    skip_rows: int = 0,
    has_options: bool = True,
) -> Table:
    """Read a table; what stands in a text file is text, as it was written.

    Parameters
    ----------
    path : file or URL, with the end of a compression or without
    delimiter : between the fields of a text file; by default a tab where the name ends in .tsv or .tab, else a comma
    encoding : of a text file without a byte-order mark
    skip_rows : rows above the header of a text file or a sheet
    has_options : whether the user can give these; otherwise the delimiter is found, and errors say how to save the file

    Raises
    ------
    TableError
        If two columns have one name, rows differ in their number of fields, or the file is no table.
    """
    suffix = suffix_of(path)
    if suffix in READERS:
        with damage_told(path, TableError, f"a {READERS[suffix][0]}"):
            table, notes = READERS[suffix][1](path, skip_rows)
        if found := first_repeat(table.column_names):
            raise TableError(f"{path} has the column {found[0]!r} twice: keep one")
    else:
        with unpacking(path, TableError):
            data, notes = read_small(path), []
        what, way = sniffed(data, path)
        if what:
            raise TableError(f"{path} is {what}, not a table: {way}")
        delimiter = delimiter or ("\t" if suffix in (".tsv", ".tab") else ",")
        try:
            table = read_delimited(
                data,
                path,
                delimiter=delimiter,
                encoding=encoding,
                skip_rows=skip_rows,
                has_options=has_options,
            )
        except (DelimitedError, EncodingError) as error:
            raise TableError(str(error)) from None
    return Table(path, dict(zip(table.column_names, table.columns, strict=True)), notes)


def is_text(path: str) -> bool:
    """Return whether a table is read as text, by the end of its name."""
    return suffix_of(path) != ".parquet"


def _read_parquet(path: str, _: int) -> tuple[pa.Table, list[str]]:
    """Return a Parquet file, an index of pandas before the others; one that only numbers the rows is left out."""
    with opened(path, "rb") as file:
        table = whole_table(file)
    try:
        described = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        index = [name for name in described if isinstance(name, str) and name in table.column_names]
    except (LookupError, RecursionError, TypeError, ValueError):  # not as pandas writes it
        index = []
    names = [*index, *(name for name in table.column_names if name not in index)]
    columns = {name: _plain(table[name]) for name in names if table.column_names.count(name) == 1}
    if len(columns) < table.num_columns:
        return table, []  # which is refused for a name that stands twice
    numbering = [
        name
        for name in index
        if name.startswith("__index_level_") and pa.types.is_integer(columns[name].type)
    ]
    return pa.table({name: column for name, column in columns.items() if name not in numbering}), []


def _plain(column: Any) -> Any:
    """Return the values of a dictionary for their codes, times in microseconds, and text for bytes that are UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if str(column.type).startswith(("binary", "large_binary", "fixed_size_binary", "string_view", "null")):
        try:
            return column.cast(pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            return column
    return column


def _read_workbook(path: str, skip_rows: int) -> tuple[pa.Table, list[str]]:
    """Return the sheet that was open when a workbook was saved; formulas are their last values."""
    openpyxl = optional("openpyxl", user=path, extra="excel")
    file = io.BytesIO(read_small(path))
    with zipfile.ZipFile(file) as parts:
        sizes = parts.infolist()
    refuse_bomb(path, sum(part.compress_size for part in sizes), sum(part.file_size for part in sizes))
    book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    sheet = book.active
    if not hasattr(sheet, "iter_rows"):
        raise TableError(f"{path} was saved with a sheet open that has no cells: open another, and save it")
    found = islice(sheet.iter_rows(values_only=True), skip_rows, None)
    rows = [row for row in found if any(map(cell_text, row))]
    if not rows:
        raise TableError(f"{path} has no header in the sheet {sheet.title!r}: open another, and save it")
    width = max(place + 1 for row in rows for place, value in enumerate(row) if cell_text(value))
    header, *cells = ([*row[:width], *[None] * (width - len(row))] for row in rows)
    columns = zip(*cells, strict=True) if cells else [()] * width
    table = pa.table([*map(_cells, columns)], names=[cell_text(name).strip() for name in header])
    names = ", ".join(map(repr, book.sheetnames))
    notes = [f"{path}: the sheet {sheet.title!r} was read, of {names}"] if len(book.sheetnames) > 1 else []
    return table, notes


def _cells(values: Sequence[Any]) -> pa.Array:
    """Return the cells of a column of a workbook as text, or as numbers where all are and some have a fraction."""
    kinds = {type(value) for value in values if value is not None}
    if float in kinds and kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array(map(cell_text, values), pa.string())


def _refuse_workbook(path: str, _: int) -> tuple[pa.Table, list[str]]:
    raise TableError(f"{path} is {OLD_OFFICE[0]}: save it as .xlsx, or its sheet as CSV, and give that file")


Reader: TypeAlias = Callable[[str, int], tuple[pa.Table, list[str]]]
READERS: dict[str, tuple[str, Reader]] = {
    ".parquet": ("Parquet file", _read_parquet),
    ".pq": ("Parquet file", _read_parquet),
    ".xlsx": ("workbook", _read_workbook),
    ".xlsm": ("workbook", _read_workbook),
    **dict.fromkeys((".xls", ".xlsb", ".ods", ".numbers"), ("workbook", _refuse_workbook)),
}
"""What reads a table that is no text, by the end of its name: what it is called, and the function."""


# ---- columns ----------------------------------------------------------------------------------------------


def cell_text(value: Any) -> str:
    """Return a value as it is written in a text file: whole numbers without a point, dates without a midnight."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, datetime):
        return str(value.date() if value.time() == time() else value.replace(tzinfo=None))
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def texts_of(column: Any) -> list[str]:
    """Return the values of a column as text without spaces at its ends, "" for a missing one."""
    return [cell_text(value).strip() for value in column.to_pylist()]


def names_of(table: Table, column: str) -> list[str]:
    """Return the names in a column, as text; a table without it, or with bytes in it, is refused."""
    if column not in table.columns:
        raise TableError(f"{table.path} {no_column(table, column)}")
    if pa.types.is_binary(table.columns[column].type):
        raise TableError(
            f"{table.path} holds bytes in the column {column!r} that are not UTF-8: write names as text, or take "
            "another column"
        )
    return texts_of(table.columns[column])


def some(names: Iterable[str]) -> str:
    """Return the first few of some names in quotes, and how many more there are."""
    names = list(names)
    return ", ".join(map(repr, names[:SHOWN])) + (
        f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    )


def no_column(table: Table, name: str) -> str:
    """Return what to say of a column that is not there."""
    return f"has no column {name!r}; it has {some(table.columns)}"
