"""Values of documents out of a table: ids and columns of numbers, some documents without any."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distembed.display import plural
from distembed.formats.cells import read_numbers, readings
from distembed.formats.tables import key_column, no_column, read_table, some, texts_of
from distembed.pipeline.tables.config import TableSection
from distembed.pipeline.tables.rows import Domain, refusal, settled


def read_values(section: TableSection, *, key: str, columns: Sequence[str] = ()) -> Domain:
    """Return the rows of a table that hold numbers, by their ids.

    Parameters
    ----------
    section : TableSection
        Where the table is, and what becomes of faults in it.
    key : str
        The name of the section in the job file, for messages.
    columns : sequence of str
        The columns that are taken; by default all of numbers.

    Raises
    ------
    TableError
        If the table lacks a column, an id stands twice, or a row that is not empty has a cell without a finite number,
        where the section does not say what is to become of it; all problems are told at once.
    """
    table = read_table(section.path, delimiter=section.delimiter, encoding=section.encoding)
    problems = [no_column(table, name) for name in (*section.drop, *columns) if name not in table.columns]
    left = {name: column for name, column in table.columns.items() if name not in section.drop}
    ids = key_column(table._replace(columns=left), section.name_column)
    wanted = [name for name in columns or left if name in left and name != ids]
    read = read_numbers(table, wanted, decimal=section.decimal)
    problems += [f"holds no numbers in the column {name!r}" for name in (*read.texts, *read.empty) if columns]
    if problems or not read.numbers:
        raise refusal(section.path, problems or ["has no column of numbers beside its ids"])
    names = texts_of(table.columns[ids])
    matrix = np.stack([column.values.astype(np.float64) for column in read.numbers], axis=1)
    matrix[~np.isfinite(matrix)] = np.nan
    unread = {column.name: column.unread for column in read.numbers if column.unread}
    ignored = (
        [f"{plural(len(read.texts), 'column')} of text ignored: {some(read.texts)}"] if read.texts else []
    )
    notes = [*table.notes, *readings(read.numbers, remedy=f"set {key}.decimal"), *ignored]
    found = Domain(
        names,
        matrix,
        [column.name for column in read.numbers],
        [""] * len(names),
        [],
        notes,
        unread,
    )
    return settled(_without_empty_rows(found), section, key=key, problems=[])


def _without_empty_rows(values: Domain) -> Domain:
    """Return the rows with at least one number."""
    filled = np.flatnonzero(~np.isnan(values.matrix).all(axis=1))
    n_empty = len(values.names) - filled.size
    if not n_empty:
        return values
    return values._replace(
        names=[values.names[row] for row in filled.tolist()],
        labels=[""] * filled.size,
        matrix=values.matrix[filled],
        notes=[*values.notes, f"{plural(n_empty, 'row')} without any number"],
    )
