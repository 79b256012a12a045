"""Numbers out of the cells of a table: decimal commas, thousands separators, signs of currency, missing values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distembed.display import plural
from distembed.dtypes import Floats
from distembed.formats.parquet import is_text
from distembed.formats.tables import Table, as_array, some

Decimal = Literal[".", ","]

MISSING = (
    "",
    "-",
    "–",
    "—",
    ".",
    "..",
    "?",
    "na",
    "n/a",
    "n.a.",
    "#n/a",
    "nan",
    "null",
    "none",
    "nil",
    "missing",
)
"""Cells that stand for no value, in lower case."""

TRUTH = {"true": "1", "false": "0"}
"""Cells that are truth values, in lower case, and their numbers."""

_BLANKS = (" ", "['’]", r"\x{00A0}", r"\x{2009}", r"\x{202F}")
"""What groups thousands beside a decimal point as beside a comma: spaces of several widths, and apostrophes."""


def _number(point: str, other: str) -> str:
    """Return what a number looks like: no group of thousands follows a 0, and one sign stands between all of them."""
    grouped = "|".join(rf"[1-9]\d{{0,2}}({sign}\d{{3}})+" for sign in (*_BLANKS, other))
    return rf"^[+-]?((\d+|{grouped})({point}\d*)?|{point}\d+)([eE][+-]?\d+)?$"


NUMBERS: dict[Decimal, str] = {".": _number(r"\.", ","), ",": _number(",", r"\.")}
"""What a number looks like with a decimal point, and with a decimal comma; the other sign groups thousands."""

_GROUPING: dict[Decimal, str] = {".": "|".join((*_BLANKS, ",")), ",": "|".join((*_BLANKS, r"\."))}

SIGN_OF_DELIMITER: dict[str, Decimal] = {";": ",", ",": "."}
"""The decimal sign of a text file whose numbers do not tell it: programs write semicolons because of decimal commas."""

SIGNS = r"[$€£¥%]"
"""Signs of currency, and percent, that are taken off a number."""


DECIMAL_COMMAS = "decimal commas"
DECIMAL_POINTS = "decimal points"
"""Told only where nothing but a guess speaks for them."""


class Numbers(NamedTuple):
    """The numbers of one column.

    Attributes
    ----------
    name : of the column, with its number where it is part of a matrix
    values : (n,), NaN where there is none
    unread : the first cell that is neither missing nor a number, "" where there is none
    reading : what was made of the cells before they were numbers, such as "decimal commas"
    example : a cell of which it was made
    sign : the decimal sign, None where the cells are the same with either
    """

    name: str
    values: Floats
    unread: str = ""
    reading: str = ""
    example: str = ""
    sign: Decimal | None = None


class NumberColumns(NamedTuple):
    """The columns of numbers, and the names of those that hold text and of those that hold nothing."""

    numbers: list[Numbers]
    texts: list[str]
    empty: list[str]


def read_numbers(
    table: Table, wanted: Iterable[str], *, decimal: Decimal | Literal["auto"], ties: Decimal | None = None
) -> NumberColumns:
    """Return the numbers in the wanted columns of a table.

    A column of text holds numbers if at least half of its cells that are not missing are numbers.

    Parameters
    ----------
    table : the table
    wanted : columns of it; those of a matrix are numbered
    decimal : the decimal sign, or "auto": the one with which more cells of a column are numbers; where both serve, the
        one on which the other columns agree; else the one that goes with the delimiter; else the point
    ties : the decimal sign where both serve in a column, whatever the other columns have
    """
    names = list(wanted)
    cells = {name: _cells(table.columns[name]) for name in names if _is_text(table.columns[name])}
    signs = _decimal_signs(cells, decimal, ties, table.delimiter)
    result = NumberColumns([], [], [])
    for name in names:
        if name in cells and cells[name].null_count == len(cells[name]):
            result.empty.append(name)
        elif sign := signs.get(name):
            result.numbers.append(_read(name, cells[name], sign))
        elif name not in cells and _is_number(table.columns[name]):
            result.numbers.extend(_typed(name, table.columns[name]))
        else:
            result.texts.append(name)
    return result


def readings(columns: Iterable[Numbers], *, remedy: str = "set domain.decimal") -> list[str]:
    """Return a sentence for each way in which cells were read that is not a matter of course, and the remedy."""
    found: dict[str, list[Numbers]] = {}
    for column in columns:
        if column.reading:
            found.setdefault(column.reading, []).append(column)
    return [
        f"{reading} were read in {plural(len(group), 'column')}: {some(column.name for column in group)} "
        f"(such as {group[0].example!r}); {remedy} if that is wrong"
        for reading, group in found.items()
    ]


# ---- columns that have a type of their own -----------------------------------------------------------------


def _is_text(column: Any) -> bool:
    if isinstance(column, np.ndarray):
        return column.ndim == 1 and column.dtype.kind in "UO"
    return is_text(column.type)


def _is_number(column: Any) -> bool:
    if isinstance(column, np.ndarray):
        return column.dtype.kind in "fiub" and column.ndim <= 2
    kind = column.type
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _typed(name: str, column: Any) -> list[Numbers]:
    """Return the columns of numbers that a column of a binary file holds, more than one where it is a matrix."""
    values = as_array(column)
    if values.dtype.kind == "O":  # decimal numbers, and truth values of which some are missing
        values = np.array([np.nan if value is None else float(value) for value in values])
    if values.ndim == 1:
        return [Numbers(name, values)]
    return [Numbers(f"{name}[{i}]", values[:, i]) for i in range(values.shape[1])]


# ---- cells that are text ------------------------------------------------------------------------------------


def _cells(column: Any) -> Any:
    """Return the cells of a column of text without spaces at their ends, null where no value is given."""
    if isinstance(column, np.ndarray):
        column = pa.chunked_array([pa.array([str(value) for value in column], pa.string())])
    cells = pc.utf8_trim_whitespace(column)
    if _as_plain(cells) is not None:
        return cells
    lowered = pc.utf8_lower(cells)
    for truth, number in TRUTH.items():
        cells = pc.if_else(pc.equal(lowered, truth), number, cells)
    return pc.if_else(pc.is_in(lowered, value_set=pa.array(MISSING)), None, cells)


class _Sign(NamedTuple):
    """The decimal sign of a column of cells, None where they are the same with either, and whether it is a guess."""

    sign: Decimal | None
    is_guess: bool = False


def _decimal_signs(
    columns: Mapping[str, Any], decimal: Decimal | Literal["auto"], ties: Decimal | None, delimiter: str
) -> dict[str, _Sign | None]:
    """Return the decimal sign of each column of cells, None for one of text."""
    if decimal != "auto":
        return {name: _sign_if_numbers(cells, decimal) for name, cells in columns.items()}
    signs = {name: _likely_sign(cells) for name, cells in columns.items()}
    agreed = [sign for sign in NUMBERS if sign in signs.values()]
    known = agreed[0] if len(agreed) == 1 else ties or SIGN_OF_DELIMITER.get(delimiter)
    other = _Sign(known or ".", is_guess=known is None)
    by_verdict: dict[str | None, _Sign | None] = {
        ".": _Sign("."),
        ",": _Sign(","),
        "same": _Sign(None),
        "either": other,
        None: None,
    }
    return {name: by_verdict[sign] for name, sign in signs.items()}


def _likely_sign(cells: Any) -> Decimal | Literal["either", "same"] | None:
    """Return what the cells of one column say of their decimal sign, None where they are text.

    A sign with which more cells are numbers is theirs. Where both serve equally well, the cells are the same with
    either, or nothing in this column decides: 1.234 is little more than one, or a thousand.
    """
    bare = _without_signs(cells)
    point, comma = (pc.match_substring_regex(bare, NUMBERS[sign]) for sign in NUMBERS)
    points, commas, both = (_count(mask) for mask in (point, comma, pc.and_(point, comma)))
    if _as_plain(cells) is None and 2 * max(points, commas) < len(cells) - cells.null_count:
        return None
    if points != commas:
        return "." if points > commas else ","
    has_sign = pc.and_(pc.and_(point, comma), pc.match_substring_regex(bare, "[.,]"))
    return "either" if both < points or _count(has_sign) else "same"


def _count(mask: Any) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _sign_if_numbers(cells: Any, sign: Decimal) -> _Sign | None:
    numbers = _count(pc.match_substring_regex(_without_signs(cells), NUMBERS[sign]))
    return _Sign(sign) if 2 * numbers >= len(cells) - cells.null_count else None


def _as_plain(cells: Any) -> Any:
    """Return the cells as floating-point numbers, None unless all are written as Python writes them."""
    try:
        return pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        return None


def _without_signs(cells: Any) -> Any:
    """Return cells without signs of currency and percent; what is in brackets, or has a long minus, is negative."""
    cells = pc.utf8_trim_whitespace(pc.replace_substring_regex(cells, SIGNS, ""))
    cells = pc.replace_substring_regex(cells, r"^\((.*)\)$", r"-\1")
    return pc.replace_substring_regex(cells, "^−", "-")


def _read(name: str, cells: Any, found: _Sign) -> Numbers:
    """Return the numbers in cells of text, and what had to be made of the cells."""
    sign: Decimal = found.sign or "."
    plain = _as_plain(cells)
    if plain is not None and sign == "." and not found.is_guess:
        return Numbers(name, plain.to_numpy(), sign=found.sign)
    bare = _without_signs(cells)
    is_number = pc.match_substring_regex(bare, NUMBERS[sign])
    ungrouped = pc.replace_substring_regex(bare, _GROUPING[sign], "")
    numbers = pc.if_else(is_number, pc.replace_substring(ungrouped, sign, "."), None)
    unread = pc.drop_null(pc.filter(cells, pc.invert(is_number)))
    return Numbers(
        name,
        pc.cast(numbers, pa.float64()).to_numpy(),
        unread=unread[0].as_py() if len(unread) else "",
        sign=found.sign,
        **_reading(cells, bare, ungrouped, is_number, found),
    )


def _reading(cells: Any, bare: Any, ungrouped: Any, is_number: Any, decimal: _Sign) -> dict[str, str]:
    """Return in words what had to be made of cells that are numbers, and one of them."""
    changes = {
        DECIMAL_COMMAS: pc.match_substring(ungrouped, ",") if decimal.sign == "," else None,
        DECIMAL_POINTS: pc.match_substring(ungrouped, ".") if decimal.is_guess else None,
        "thousands separators": pc.not_equal(bare, ungrouped),
        "signs beside the digits": pc.not_equal(cells, bare),
    }
    found = {
        what: pc.filter(cells, pc.fill_null(pc.and_(mask, is_number), fill_value=False))
        for what, mask in changes.items()
        if mask is not None
    }
    found = {what: examples for what, examples in found.items() if len(examples)}
    if not found:
        return {}
    *most, last = found
    reading = f"{', '.join(most)} and {last}" if most else last
    return {"reading": reading, "example": next(iter(found.values()))[0].as_py()}
