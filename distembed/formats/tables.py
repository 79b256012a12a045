"""Files of tables: CSV (any compression, delimiter and encoding), workbooks, Parquet and npz, read to named columns.

What is read here fits in memory: a row is a name, and names are few beside the words of a corpus.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.lib import format as npy
from numpy.typing import NDArray

from distembed.display import first_repeat, plural
from distembed.files import damage_told, read_small, refuse_bomb
from distembed.formats.delimiters import delimiter_of, separated
from distembed.formats.encodings import ONE_BYTE, decoded, guess_encoding
from distembed.formats.heads import WORKBOOKS, sniffed
from distembed.formats.names import WORKBOOK_SUFFIXES, suffix_of
from distembed.formats.parquet import whole_table
from distembed.formats.workbooks import SUFFIXES, WorkbookError, cell_text, read_sheet
from distembed.urls import opened

Columns: TypeAlias = Mapping[str, NDArray[Any]]

FIRST_LINE_BYTES = 12
"""No line `sep=;` is as long."""
SHOWN = 3
"""Names shown of a list that is at fault."""


class TableError(ValueError):
    """A table that does not hold what the job says."""


class Table(NamedTuple):
    """The columns of a file by name, and what to say of how it was read.

    Attributes
    ----------
    path : where it lies
    columns : PyArrow chunked arrays, of strings where the file is CSV; NumPy arrays, also matrices, of an npz file
    notes : one sentence each
    delimiter : between the fields of a text file
    """

    path: str
    columns: dict[str, Any]
    notes: list[str]
    delimiter: str = ""


# ---- reading ----------------------------------------------------------------------------------------------


def read_table(path: str, *, delimiter: str = "auto", encoding: str = "auto", skip_rows: int = 0) -> Table:
    """Read a table; what stands in a CSV file is text, as it was written.

    Parameters
    ----------
    path : file or URL, with the end of a compression or without
    delimiter : between the fields of a CSV file; "auto" finds a comma, semicolon, tab or vertical bar
    encoding : of a CSV file; "auto" takes a byte order mark, else UTF-8, else Windows-1252
    skip_rows : rows above the header of a CSV file or a sheet

    Raises
    ------
    TableError
        If two columns have one name, rows differ in their number of fields, or the file is no table.
    """
    suffix = suffix_of(path)
    if path.lower().endswith(WORKBOOK_SUFFIXES):
        raise _workbook(path)
    if suffix == ".npz":
        with (
            damage_told(path, TableError, "an npz file"),
            opened(path, "rb") as file,
            np.load(file) as arrays,
        ):
            for name in arrays.files:
                refuse_large_member(path, arrays, name)
            return Table(path, {name: _decoded_array(arrays[name]) for name in arrays.files}, [])
    if suffix == ".parquet":
        with damage_told(path, TableError, "a Parquet file"), opened(path, "rb") as file:
            found = whole_table(file)
        refuse_twice(path, "column", found.column_names)
        return Table(path, _columns_of_parquet(found), [])
    data = read_small(path)
    if path.lower().endswith(SUFFIXES):
        return _read_workbook(path, data, skip_rows)
    text, note = _as_utf8(path, data, encoding)
    return _read_csv(path, _without_rows(text, skip_rows), delimiter, [note] if note else [])


def read_columns(path: str) -> Columns:
    """Read the columns of a table by name, as NumPy arrays; see `read_table`."""
    return {name: as_array(column) for name, column in read_table(path).columns.items()}


def as_array(column: Any) -> NDArray[Any]:
    """Return a column as a NumPy array, one of strings as Python's."""
    return column if isinstance(column, np.ndarray) else column.to_numpy()


def is_text(path: str) -> bool:
    """Return whether a table is read as text, by the end of its name."""
    return suffix_of(path) not in (".npz", ".parquet")


def _workbook(path: str) -> TableError:
    return TableError(
        f"{path} is a workbook of a spreadsheet program: save it as .xlsx, or its sheet as CSV, and give that file"
    )


def _read_workbook(path: str, data: bytes, skip_rows: int) -> Table:
    try:
        text, notes = read_sheet(io.BytesIO(data), path)
    except WorkbookError as error:
        raise TableError(str(error)) from error
    table = _read_csv(path, _without_rows(text, skip_rows), ",", notes)
    return table._replace(delimiter="")


def _without_rows(text: bytes, n_rows: int) -> bytes:
    """Return a text whose first lines are empty, so that the others keep their numbers."""
    return b"\n" * n_rows + text.split(b"\n", n_rows)[-1]


def _as_utf8(path: str, data: bytes, encoding: str) -> tuple[bytes, str]:
    """Return a text file as UTF-8 without a byte order mark, and what to say of its encoding."""
    head = sniffed(data, path)
    if head.what in WORKBOOKS:
        raise _workbook(path)
    if head.what:
        raise TableError(f"{path} is {head.what}, not a table: {head.remedy}")
    if encoding != "auto" and not data.startswith(codecs.BOM_UTF8):
        return _decoded(path, data, encoding).encode(), ""
    guessed = _of_encoding(path, data) if head.encoding == ONE_BYTE else ""
    return _decoded(path, data, head.encoding).encode(), guessed


def _of_encoding(path: str, data: bytes) -> str:
    """Return what to say of a table that is taken for Windows-1252, and of the encoding that it may have instead."""
    note = f"{path} is not UTF-8 and was read as Windows-1252"
    guess = guess_encoding(data)
    if guess is None:
        return note
    return f'{note}; in {guess.encoding} it reads {guess.text!r}: if that is right, set encoding = "{guess.encoding}"'


def _decoded(path: str, data: bytes, encoding: str) -> str:
    try:
        return decoded(data, encoding)
    except LookupError:
        raise TableError(
            f'{path}: there is no encoding {encoding!r}: set encoding = "auto" or "latin-1"'
        ) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TableError(
            f"{path} is not {encoding}: line {line} holds the byte {data[error.start]:#04x}; set another encoding"
        ) from None


def _read_csv(path: str, text: bytes, delimiter: str, notes: list[str]) -> Table:
    """Read delimited text, every field as it stands."""
    first, end, rest = text.partition(b"\n")
    named = separated((first[:FIRST_LINE_BYTES] + end).decode(errors="ignore")).separator
    if named:
        text = end + rest
    found = (
        delimiter
        if delimiter != "auto"
        else named or delimiter_of(text[: 1 << 20].decode(errors="ignore"), path)
    )
    if found not in (",", "\t") and delimiter == "auto":
        notes = [*notes, f"{path}: the fields are separated by {found!r}"]
    sample = io.StringIO(text[: 1 << 20].decode(errors="ignore"), newline="")
    head = next((row for row in csv.reader(sample, delimiter=found) if row), [])
    names = [name.strip() for name in head]
    refuse_twice(path, "column", names)
    uneven: list[Any] = []
    options = pacsv.ParseOptions(
        delimiter=found,
        newlines_in_values=True,
        invalid_row_handler=lambda row: uneven.append(row) or "skip",  # type: ignore[func-returns-value]
    )
    table = _parsed(path, text, options, head)
    if uneven:
        raise TableError(_uneven(path, uneven))
    return Table(path, dict(zip(names, table.columns, strict=True)), notes, found)


def _parsed(path: str, text: bytes, options: Any, head: list[str]) -> pa.Table:
    try:
        return pacsv.read_csv(
            pa.BufferReader(text),
            read_options=pacsv.ReadOptions(use_threads=False),
            parse_options=options,
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(head, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise TableError(
            f"{path} is not a table of separated values ({error}): save it again as CSV"
        ) from None


def _uneven(path: str, rows: list[Any]) -> str:
    shown = "; ".join(f"line {row.number} has {plural(row.actual_columns, 'field')}" for row in rows[:SHOWN])
    return (
        f"{path} is not a table: its header has {plural(rows[0].expected_columns, 'field')}, and "
        f"{plural(len(rows), 'row')} {'has' if len(rows) == 1 else 'have'} another number: {shown}: put fields that "
        'hold the delimiter in quotes ("..."), and set skip_rows where rows stand above the header'
    )


# ---- columns ----------------------------------------------------------------------------------------------


def refuse_twice(path: str, kind: str, names: Iterable[str]) -> None:
    """Refuse names of which two are equal."""
    if found := first_repeat(names):
        raise TableError(f"{path} has the {kind} {found[0]!r} twice: keep one")


def texts_of(column: Any) -> list[str]:
    """Return the values of a column as text without spaces at its ends, "" for a missing one."""
    values = column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
    return [cell_text(value).strip() for value in values]


def column_of(table: Table, name: str) -> Any:
    """Return the column of a name, or refuse a table without it, or with bytes in it."""
    if name not in table.columns:
        raise TableError(f"{table.path} {no_column(table, name)}")
    column = table.columns[name]
    if column.dtype.kind == "S" if isinstance(column, np.ndarray) else pa.types.is_binary(column.type):
        raise TableError(
            f"{table.path} holds bytes in the column {name!r} that are not UTF-8: write names as text, or take "
            "another column"
        )
    return column


def no_column(table: Table, name: str) -> str:
    """Return what to say of a column that is not there."""
    return f"has no column {name!r}; it has {some(table.columns)}"


def some(names: Iterable[str]) -> str:
    """Return the first few of some names in quotes, and how many more there are."""
    names = list(names)
    return ", ".join(map(repr, names[:SHOWN])) + (
        f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    )


def key_column(table: Table, name: str | None) -> str:
    """Return the column of names: the one asked for, else the first that is no matrix."""
    if name is not None:
        column_of(table, name)
        return name
    plain = [name for name, values in table.columns.items() if getattr(values, "ndim", 1) == 1]
    if not plain:
        raise TableError(f"{table.path} has no column of names; it has {some(table.columns)}")
    column_of(table, plain[0])
    return plain[0]


# ---- binary files ------------------------------------------------------------------------------------------

_UNNAMED_INDEX = "__index_level_"
"""What pandas calls an index without a name, with its number."""


def _columns_of_parquet(table: pa.Table) -> dict[str, Any]:
    """Return the columns of a table by name, those of an index of pandas before the others.

    An index of numbers that has no name is left out: it numbers the rows.
    """
    columns = dict(zip(table.column_names, map(_decoded_column, table.columns), strict=True))
    index = [name for name in _index_of_pandas(table) if name in columns]
    first = {name: columns.pop(name) for name in index}
    return {
        name: column
        for name, column in (first | columns).items()
        if not (name.startswith(_UNNAMED_INDEX) and pa.types.is_integer(column.type))
    }


def _index_of_pandas(table: pa.Table) -> list[str]:
    """Return the names of the columns that were an index; an index that only counts has none."""
    try:
        described = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
        return [name for name in described["index_columns"] if isinstance(name, str)]
    except (LookupError, RecursionError, TypeError, ValueError):  # not as pandas writes it
        return []


def _decoded_column(column: Any) -> Any:
    """Return the values of a dictionary for their codes, times in microseconds, and text for bytes that are UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_large_binary(kind) or str(kind) == "binary_view":
        column = column.cast(pa.binary())
    if pa.types.is_binary(column.type) or pa.types.is_null(kind) or str(kind) == "string_view":
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            return column
    return column


HALVES = 0xD800 >> 11
"""The first bits of halves of surrogate pairs, which are no characters."""


def _decoded_array(array: NDArray[Any]) -> NDArray[Any]:
    """Return text for bytes of an array that are UTF-8, and times in microseconds; other arrays as they are.

    Raises
    ------
    ValueError
        If it holds text with numbers that are no characters.
    """
    if array.dtype.kind == "U":
        codes = np.frombuffer(array.astype(array.dtype.newbyteorder("=")).tobytes(), np.uint32)
        if ((codes > sys.maxunicode) | (codes >> 11 == HALVES)).any():
            raise ValueError("its text is not Unicode")
    if array.dtype.kind == "M":
        return array.astype("datetime64[us]")
    if array.dtype.kind == "S":
        try:
            return np.char.decode(array, "utf-8")
        except UnicodeDecodeError:
            return array
    return array


def npy_header(file: Any) -> tuple[Any, bool, np.dtype[Any]]:
    """Read the head of an npy file: its shape, whether it is stored by columns, and its dtype."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        return read(file)
    except MemoryError as error:  # for as many bytes as it says that it has
        raise ValueError("its head is cut off") from error


def refuse_large_member(path: str, arrays: Any, name: str) -> None:
    """Refuse an array of an npz file whose head promises far more than the file holds.

    Raises
    ------
    BombError
        If it does.
    """
    with arrays.zip.open(_member(arrays, name)) as file:
        shape, _, dtype = npy_header(file)
    stored = arrays.zip.getinfo(_member(arrays, name)).compress_size
    refuse_bomb(f"{path} ({name})", stored, math.prod(shape) * dtype.itemsize)


def _member(arrays: Any, name: str) -> str:
    return name if name in arrays.zip.namelist() else f"{name}.npy"
