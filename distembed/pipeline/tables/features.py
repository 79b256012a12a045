"""The columns of numbers of a table, a row per name."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from distembed.display import plural
from distembed.formats.cells import NumberColumns, read_numbers, readings
from distembed.formats.delimiters import UNNAMED
from distembed.formats.tables import Table, key_column, no_column, some, texts_of
from distembed.pipeline.tables.config import TableSection
from distembed.pipeline.tables.rows import Domain, refusal


def key_and_problems(table: Table, section: TableSection, named: Iterable[str]) -> tuple[str, list[str]]:
    """Return the column of names, and what to say of columns that the section names and that are not there."""
    absent = [name for name in (*section.drop, *named) if name not in table.columns]
    problems = [no_column(table, name) for name in absent]
    if section.name_column is not None and section.name_column not in table.columns:
        raise refusal(section.path, [no_column(table, section.name_column), *problems])
    rest = {name: column for name, column in table.columns.items() if name not in section.drop}
    return key_column(table._replace(columns=rest), section.name_column), problems


def features_of(
    section: TableSection,
    table: Table,
    names: list[str],
    wanted: Iterable[str],
    problems: list[str],
    *,
    remedy: str,
) -> Domain:
    """Return the columns of numbers side by side; what is wrong with them is added to the problems.

    `remedy` says what to do where numbers were misread.
    """
    asked = getattr(section, "columns", ())
    wanted = [name for name in wanted if name in table.columns]
    counting = [name for name in wanted if name in UNNAMED and name not in asked and _counts(table, name)]
    wanted = [name for name in wanted if name not in counting]
    uneven = [name for name in wanted if len(table.columns[name]) != len(names)]
    problems += [
        f"has {len(table.columns[name])} values in the column {name!r} for {len(names)} names: drop it"
        for name in uneven
    ]
    read = read_numbers(table, [name for name in wanted if name not in uneven], decimal=section.decimal)
    notes = [
        *table.notes,
        *(f"row numbers in the column {name!r} ignored" for name in counting),
        *readings(read.numbers, remedy=remedy),
        *_of_other_columns(section, read, problems),
    ]
    if not read.numbers:
        raise refusal(section.path, [*problems, "has no column of numbers beside its names"])
    dtype = np.result_type(*(column.values.dtype for column in read.numbers), np.float32)
    matrix = np.stack([column.values.astype(dtype, copy=False) for column in read.numbers], axis=1)
    matrix[~np.isfinite(matrix)] = np.nan
    columns = [column.name for column in read.numbers]
    unread = {column.name: column.unread for column in read.numbers if column.unread}
    signs = {column.sign for column in read.numbers} - {None}
    decimal = "," if "," in signs else next(iter(signs), None)
    return Domain(names, matrix, columns, [""] * len(names), [], notes, unread, decimal=decimal)


def _counts(table: Table, name: str) -> bool:
    """Return whether a column numbers the rows, from 0 or from 1."""
    texts = texts_of(table.columns[name])
    return texts in ([str(i + first) for i in range(len(texts))] for first in (0, 1))


def _of_other_columns(section: TableSection, read: NumberColumns, problems: list[str]) -> list[str]:
    """Return what to say of columns and cells that hold no numbers; columns asked for by name become problems."""
    asked = getattr(section, "columns", ())
    problems += [
        f"holds {what} in the column {name!r}, not numbers: leave it out of domain.columns"
        for what, names in (("text", read.texts), ("nothing", read.empty))
        for name in names
        if name in asked
    ]
    unread = [column for column in read.numbers if column.unread]
    return [
        f"{plural(len(names), 'column')} of {what} ignored: {some(names)}"
        for what, names in (("text", read.texts), ("no values", read.empty))
        if names
    ] + [
        f"cells that are no numbers count as missing in the column {column.name!r} (such as {column.unread!r})"
        for column in unread
    ]
