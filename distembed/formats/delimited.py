"""Delimited text by pyarrow.csv, all columns as strings; what pyarrow takes in silence is refused with its row."""

from __future__ import annotations

import csv
import io
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numba import njit
from numpy.typing import NDArray

from distembed.display import first_repeat, plural
from distembed.dtypes import Floats, Int64s
from distembed.formats.encodings import utf8

Decimal = Literal[".", ","]
Thousands = Literal["", ".", ",", " ", "'"]

MAX_BLOCK_BYTES = (1 << 31) - 1
"""The largest block that pyarrow takes: a table is one block, because a row has to fit into one."""
SHOWN = 3
"""Rows or names shown of those that are at fault."""


class DelimitedError(ValueError):
    """Delimited text that is no table: where, and what to do."""


def read_delimited(
    data: bytes, name: str, *, delimiter: str = ",", encoding: str = "utf-8", skip_rows: int = 0
) -> pa.Table:
    r"""Return delimited text as a table of strings, each cell as it was written.

    Parameters
    ----------
    data : the whole file, unpacked
    name : its path, for errors
    delimiter : one ASCII character
    encoding : of the text; a byte-order mark goes first
    skip_rows : lines above the header

    Raises
    ------
    DelimitedError
        If rows have more or fewer fields than the header, a quote is not closed, two columns have one name, or there is
        no header; the message has the number of the row or line.
    EncodingError
        If the text is not in its encoding.

    Examples
    --------
    >>> from distembed.formats.delimited import read_delimited
    >>> read_delimited(b'name;price\n"a;b";1,5\n', "t.csv", delimiter=";").to_pydict()
    {'name': ['a;b'], 'price': ['1,5']}
    """
    if len(delimiter) != 1 or not delimiter.isascii():
        raise DelimitedError(f"delimiter is {delimiter!r}: give one ASCII character, such as ';' or a tab")
    data = utf8(data, name, encoding)
    if (place := data.find(b"\0")) >= 0:
        raise DelimitedError(
            f"{name}: line {_line_of(data, place)} holds a zero byte: it is no text, or is UTF-16"
        )
    if b'"' in data and (place := _open_quote(np.frombuffer(data, np.uint8), ord(delimiter))) >= 0:
        raise DelimitedError(
            f"{name}: the quote that begins a field in line {_line_of(data, place)} is not closed before the field "
            'ends: close it, or write the quote twice inside quotes ("")'
        )
    header = _header(data, name, delimiter, skip_rows)
    uneven: list[Any] = []
    try:
        table = pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(
                use_threads=False, skip_rows=skip_rows, block_size=min(len(data) + 1, MAX_BLOCK_BYTES)
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                invalid_row_handler=lambda row: uneven.append(row) or "skip",  # type: ignore[func-returns-value]
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise DelimitedError(
            f"{name} is not a table of separated values ({error}): save it again as CSV"
        ) from None
    if uneven:
        one = len(uneven) == 1
        places = "; ".join(
            f"row {row.number} has {plural(row.actual_columns, 'field')}" for row in uneven[:SHOWN]
        )
        raise DelimitedError(
            f"{name} is not a table: its header has {plural(len(header), 'field')}, and "
            f"{plural(len(uneven), 'row')} {'has' if one else 'have'} another number: {places}: put fields that hold "
            'the delimiter in quotes ("..."), set delimiter if it is another, and skip_rows where rows stand above '
            "the header"
        )
    return table.rename_columns([column.strip() for column in header])


def _line_of(data: bytes, place: int) -> int:
    ends = b"\n" if b"\n" in data else b"\r"
    return data.count(ends, 0, place) + 1


def _header(data: bytes, name: str, delimiter: str, skip_rows: int) -> list[str]:
    """Return the names of the columns; two equal ones, or the fields of another delimiter in one, are refused."""
    lines = io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="")
    for _ in range(skip_rows):
        lines.readline()
    try:
        header = next((row for row in csv.reader(lines, delimiter=delimiter) if row), [])
    except csv.Error as error:
        raise DelimitedError(f"{name} has no header ({error}): save it again as CSV") from None
    if not header:
        raise DelimitedError(f"{name} has no header: give a table whose first row names its columns")
    if found := first_repeat([column.strip() for column in header]):
        raise DelimitedError(f"{name} has the column {found[0]!r} twice: keep one")
    other = next((sign for sign in ";\t|," if sign in header[0] and sign != delimiter), None)
    if len(header) == 1 and other is not None:
        raise DelimitedError(
            f"{name} has one column, {header[0][:60]!r}: its fields seem to be separated by {other!r}: set "
            f"delimiter = {other!r}, or save it with {delimiter!r}"
        )
    return header


@njit(cache=True, nogil=True)
def _open_quote(data: NDArray[np.uint8], delimiter: int) -> int:
    """Return where a quoted field begins whose quote is not closed, -1 where there is none.

    It is not closed if the text ends in it, or if its field goes over a line end and there is more behind the quote
    that ends it: such a quote was to open another field.
    """
    i, begins_field = 0, True
    while i < data.size:
        if not begins_field or data[i] != 34:
            begins_field = data[i] == delimiter or data[i] == 10 or data[i] == 13
            i += 1
            continue
        opened, is_long = i, False
        i += 1
        while i < data.size and (data[i] != 34 or (i + 1 < data.size and data[i + 1] == 34)):
            is_long = is_long or data[i] == 10 or data[i] == 13
            i += 2 if data[i] == 34 else 1
        i += 1
        ends = i == data.size or (i < data.size and (data[i] == delimiter or data[i] == 10 or data[i] == 13))
        if i > data.size or (is_long and not ends):
            return opened
        begins_field = False
    return -1


# ---- numbers ------------------------------------------------------------------------------------------------------

MISSING = pa.array([*pacsv.ConvertOptions().null_values, "None"])
"""Cells that stand for no value: those of pyarrow, and what Python writes."""


class Numbers(NamedTuple):
    """The numbers of a column.

    Attributes
    ----------
    values : float64 (n,), NaN where a cell is missing, or is no number
    wrong : int64, the rows whose cells are no numbers
    is_text : whether no cell begins like a number, so that the column is one of texts
    """

    values: Floats
    wrong: Int64s
    is_text: bool


def numbers(cells: Any, *, decimal: Decimal = ".", thousands: Thousands = "") -> Numbers:
    """Return the numbers in the cells of a column of strings.

    Parameters
    ----------
    cells : pyarrow array of strings
    decimal : the sign before the fraction
    thousands : the sign between groups of three digits; "" where there is none

    Examples
    --------
    >>> import pyarrow as pa
    >>> from distembed.formats.delimited import numbers
    >>> found = numbers(pa.array(["1.234,5", "", "12,3 %"]), decimal=",", thousands=".")
    >>> found.values.tolist(), found.wrong.tolist()
    ([1234.5, nan, nan], [2])
    """
    cells = pc.utf8_trim_whitespace(cells)
    cells = pc.if_else(pc.is_in(cells, value_set=MISSING), None, cells)
    if decimal == "." and not thousands:
        try:
            values = pc.cast(cells, pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
        except pa.ArrowInvalid:
            pass
        else:
            wrong = np.flatnonzero(np.isinf(values))
            values[wrong] = np.nan
            return Numbers(values, wrong, is_text=False)
    point, group = (
        "[.]" if decimal == "." else ",",
        f"[{thousands}\u00a0\u202f]" if thousands == " " else f"[{thousands}]",
    )
    whole = rf"(\d+|\d{{1,3}}({group}\d{{3}})+)" if thousands else r"\d+"
    is_number = pc.match_substring_regex(cells, rf"^[+-]?({whole}({point}\d*)?|{point}\d+)([eE][+-]?\d+)?$")
    plain = pc.replace_substring_regex(cells, group, "") if thousands else cells
    values = pc.if_else(is_number, pc.replace_substring(plain, decimal, "."), None)
    begins = pc.match_substring_regex(cells, r"^[-+.,]?\d")
    return Numbers(
        pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False),
        np.flatnonzero(pc.equal(is_number, False).fill_null(False).to_numpy(zero_copy_only=False)),
        is_text=not pc.any(begins).as_py() and cells.null_count < len(cells),
    )


STYLES: tuple[tuple[Decimal, Thousands], ...] = (
    (".", ""), (",", ""), (",", "."), (".", ","), (",", " "), (".", " "), (".", "'"), (",", "'"),
)  # fmt: skip
"""How numbers are written in some country."""


def remedy(cells: Any, wrong: Int64s) -> str:
    """Return which options make numbers of the cells that are none, or else what to do with them."""
    for decimal, thousands in STYLES:
        if not numbers(cells.take(pa.array(wrong)), decimal=decimal, thousands=thousands).wrong.size:
            options = (
                [f'decimal = "{decimal}"', f'thousands = "{thousands}"']
                if thousands
                else [f'decimal = "{decimal}"']
            )
            return f"set {' and '.join(options)}"
    return "correct or empty it, or leave the column out with drop"
