"""Delimited text by pyarrow.csv, all columns as strings; what pyarrow takes in silence is refused with its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numba import njit

from distembed.display import first_repeat, plural
from distembed.dtypes import Floats, Int64s
from distembed.formats.encodings import HEAD_BYTES, utf8
from distembed.formats.names import suffix_of

Decimal = Literal[".", ","]
Thousands = Literal["", ".", ",", " ", "'"]

STRING = pa.string()
MAX_BLOCK_BYTES = (1 << 31) - 1
"""The largest block that pyarrow takes: a table is one block, because a row has to fit into one."""
SHOWN = 3
"""Rows or names shown of those that are at fault."""


class DelimitedError(ValueError):
    """Delimited text that is no table: where, and what to do."""


def read_delimited(
    data: bytes,
    name: str,
    *,
    delimiter: str = ",",
    encoding: str = "utf-8",
    skip_rows: int = 0,
    has_options: bool = True,
) -> pa.Table:
    r"""Return delimited text as a table of strings, each cell as it was written.

    Parameters
    ----------
    data : the whole file, unpacked
    name : its path, for errors
    delimiter : one ASCII character
    encoding : of the text; a byte-order mark goes first
    skip_rows : lines above the header
    has_options : whether the user can give these; otherwise the delimiter is found, and errors say how to save the file

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
    data = utf8(data, name, encoding, has_option=has_options)
    if not has_options:
        delimiter = delimiter_of(data[:HEAD_BYTES].decode(errors="ignore"), name)
    if (place := data.find(b"\0")) >= 0:
        raise DelimitedError(
            f"{name}: line {_line_of(data, place)} holds a zero byte: it is no text, or is UTF-16"
        )
    data = _with_line_ends(data)
    begin = 0
    for _ in range(min(skip_rows, data.count(b"\n") + 1)):
        begin = data.find(b"\n", begin) + 1 or len(data)
    body = memoryview(data)[begin:]
    rows = find_rows(body, delimiter)
    if rows.opened >= 0:
        raise DelimitedError(
            f"{name}: the quote that begins a field in line {_line_of(data, begin + rows.opened)} is not closed before "
            'the field ends: close it, or write the quote twice inside quotes ("")'
        )
    if not rows.starts.size:
        raise DelimitedError(f"{name} has no header: give a table whose first row names its columns")
    if (bad := np.flatnonzero(rows.n_fields == 0)).size:
        raise DelimitedError(
            f"{name}: row {bad[0] + 1} is no row of fields: something follows the quote that closes a field, or a "
            "carriage return stands alone: correct it"
        )
    width, end = int(rows.n_fields[0]), int([*rows.starts[1:2], rows.stop][0])
    header = [str(column[0]).strip() for column in parse_rows(body[:end], width, delimiter).columns]
    if found := first_repeat(header):
        raise DelimitedError(f"{name} has the column {found[0]!r} twice: keep one")
    other = next((sign for sign in DELIMITERS if sign in header[0] and sign != delimiter), None)
    if width == 1 and other is not None:
        raise DelimitedError(
            f"{name} has one column, {header[0][:60]!r}: its fields seem to be separated by {other!r}: "
            f"{f'set delimiter = {other!r}, or ' * has_options}save it with {delimiter!r}"
        )
    if (uneven := np.flatnonzero(rows.n_fields != width)).size:
        places = "; ".join(
            f"row {row + 1} has {plural(int(rows.n_fields[row]), 'field')}" for row in uneven[:SHOWN]
        )
        raise DelimitedError(
            f"{name} is not a table: its header has {plural(width, 'field')}, and {plural(uneven.size, 'row')} "
            f"{'has' if uneven.size == 1 else 'have'} another number: {places}: put fields that hold the delimiter in "
            'quotes ("...")'
            f"{', set delimiter if it is another, and skip_rows where rows stand above the header' * has_options}"
        )
    return parse_rows(body[end:], width, delimiter).rename_columns(header)


def _with_line_ends(data: bytes) -> bytes:
    """Return a text whose lines all end with a line feed, those of old editors and the last one too."""
    data = data if b"\n" in data else data.replace(b"\r", b"\n")
    return data if data.endswith(b"\n") else data + b"\n"


def _line_of(data: bytes, place: int) -> int:
    return data.count(b"\n", 0, place) + 1


def parse_rows(
    data: bytes | memoryview,
    width: int,
    delimiter: str,
    *,
    has_quotes: bool = True,
    columns: Sequence[int] | None = None,
    kind: pa.DataType = STRING,
) -> pa.Table:
    r"""Return columns of rows that all have so many fields, as strings or bytes, called "0", "1" and so on.

    Examples
    --------
    >>> from distembed.formats.delimited import parse_rows
    >>> parse_rows(b'a,"b,c"\nd,e\n', 2, ",", columns=[1]).to_pydict()
    {'1': ['b,c', 'e']}
    """
    names = list(map(str, range(width)))
    wanted = names if columns is None else [names[column] for column in columns]
    if not data:
        return pa.table({name: pa.array([], kind) for name in wanted})
    if len(data) > MAX_BLOCK_BYTES:
        raise DelimitedError(
            f"the text has {len(data):,} bytes, more than one table may: store it as Parquet"
        )
    return pacsv.read_csv(
        pa.BufferReader(pa.py_buffer(data)),
        read_options=pacsv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
        parse_options=pacsv.ParseOptions(
            delimiter=delimiter, quote_char='"' if has_quotes else False, newlines_in_values=True
        ),
        convert_options=pacsv.ConvertOptions(
            include_columns=wanted, column_types=dict.fromkeys(names, kind), strings_can_be_null=False
        ),
    )


def first_rows(text: str, delimiter: str, *, has_quotes: bool = True, n_rows: int = 0) -> list[list[str]]:
    r"""Return the header of a text, and so many of the rows below it that have as many fields; [] where it has none.

    Examples
    --------
    >>> from distembed.formats.delimited import first_rows
    >>> first_rows('a,b\n1,"x, y"\n2\n3,z\n', ",", n_rows=2)
    [['a', 'b'], ['1', 'x, y'], ['3', 'z']]
    """
    data = _with_line_ends(text.encode())
    rows = find_rows(data, delimiter, has_quotes=has_quotes)
    if not rows.starts.size or not (width := int(rows.n_fields[0])):
        return []
    stops = [*rows.starts[1:].tolist(), rows.stop]
    chosen = np.flatnonzero(rows.n_fields == width)[: n_rows + 1].tolist()
    joined = b"".join(data[rows.starts[row] : stops[row]] for row in chosen)
    columns = parse_rows(joined, width, delimiter, has_quotes=has_quotes).to_pydict().values()
    return [list(row) for row in zip(*columns, strict=True)]


# ---- the delimiter ------------------------------------------------------------------------------------------------

DELIMITERS = ",;\t|"
SNIFFED_LINES = 50
"""Lines from which the delimiter of a file is found."""
UNNAMED = ("", "Unnamed: 0")
"""What spreadsheet programs call the column of row numbers, and what pandas calls it when it reads theirs."""


def delimiter_of(text: str, name: str) -> str:
    """Return the delimiter of a text file: a tab by its extension, else what cuts its first lines equally, the most."""
    if suffix_of(name) in (".tsv", ".tab"):
        return "\t"

    def score(delimiter: str) -> tuple[float, int]:
        n_fields = find_rows(_with_line_ends(text.encode()), delimiter).n_fields[:SNIFFED_LINES]
        width = int(n_fields[0]) if n_fields.size else 0
        return (float((n_fields == width).mean()) if width > 1 else 0.0, width)

    return max(DELIMITERS, key=score)


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


# ---- rows ---------------------------------------------------------------------------------------------------------
#
# pyarrow takes all of a file after an open quote for one row, and a carriage return for the end of a row.

LINE_FEED, RETURN, QUOTE = 10, 13, 34


class Rows(NamedTuple):
    """The rows of delimited text that are not empty.

    Attributes
    ----------
    starts : int64 (n,), where each begins
    n_fields : int64 (n,), how many fields it has; 0 where it is no row, because something follows the quote that closes
        a field, or a carriage return stands alone
    stop : where the last row ends
    opened : the quote that is open where the text ends, or -1
    is_lost : whether that quote is not closed, however the text goes on: what closes it was to open another, on another
        line
    """

    starts: Int64s
    n_fields: Int64s
    stop: int
    opened: int
    is_lost: bool


def find_rows(data: bytes | memoryview, delimiter: str, *, has_quotes: bool = True) -> Rows:
    """Return the whole rows of a text that begins with one; a row ends with a line feed.

    `has_quotes` says whether quotes enclose fields.
    """
    array = np.frombuffer(data, np.uint8)
    starts, n_fields = np.empty((2, np.count_nonzero(array == LINE_FEED)), np.int64)
    n_rows, *rest = _find_rows(array, ord(delimiter), has_quotes, starts, n_fields)
    return Rows(starts[:n_rows], n_fields[:n_rows], *rest)


@njit(cache=True, nogil=True, _nrt=False)
def _find_rows(
    data: np.ndarray, delimiter: int, has_quotes: bool, starts: np.ndarray, n_fields: np.ndarray
) -> tuple[int, int, int, bool]:
    """Fill in where each row begins and its fields; return the number of rows, and the rest of `Rows`."""
    n_rows, stop, opened, n, wrong, is_long = 0, 0, -1, 1, False, False
    i = 0
    while i < len(data):
        byte = data[i]
        after = data[i + 1] if i + 1 < len(data) else np.uint8(LINE_FEED)
        if opened >= 0:
            if byte == QUOTE and after == QUOTE:
                i += 1
            elif byte == QUOTE:
                is_stray = after not in (delimiter, LINE_FEED, RETURN)
                if is_stray and is_long:
                    return n_rows, stop, opened, True
                opened, wrong = -1, wrong or is_stray
            elif byte == LINE_FEED:
                is_long = True
        elif byte == LINE_FEED:
            if i > stop + 1 or (i == stop + 1 and data[stop] != RETURN):
                starts[n_rows] = stop
                n_fields[n_rows] = 0 if wrong else n
                n_rows += 1
            stop, n, wrong = i + 1, 1, False
        elif byte == delimiter:
            n += 1
        elif byte == RETURN:
            wrong |= after != LINE_FEED
        elif byte == QUOTE and has_quotes and (i == stop or data[i - 1] == delimiter):
            opened, is_long = i, False
        i += 1
    return n_rows, stop, opened, False
