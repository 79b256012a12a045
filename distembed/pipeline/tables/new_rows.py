"""New rows of a domain table, read as the table of the job was: the same columns, on the same scales."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distembed.formats.cells import Decimal, NumberColumns, read_numbers, readings
from distembed.formats.tables import Floats, Table, TableError, no_column, read_table, texts_of
from distembed.pipeline.tables.config import DomainSection
from distembed.pipeline.tables.domain import renamed
from distembed.pipeline.tables.features import key_and_problems
from distembed.pipeline.tables.rows import Domain, Scales, filled, missing_cells, settled
from distembed.pipeline.tables.scales import on_scales
from distembed.pipeline.tables.vector_files import from_vectors, holds_vectors


def read_new_rows(
    section: DomainSection, columns: Sequence[str], scales: Scales, *, decimal: Decimal | None = None
) -> Domain:
    """Return new rows in the columns of an earlier table and on its scales; other columns are ignored.

    An empty cell takes the median of its column in the earlier table where the section says `missing = "median"`.

    Parameters
    ----------
    section : DomainSection
        That of the job, with the path of the new table.
    columns : sequence of str
        The columns of the earlier table.
    scales : Scales
        Of these columns.
    decimal : "." or ",", optional
        The decimal sign of the earlier table, for cells such as 1,234 that are numbers with either.

    Raises
    ------
    TableError
        If the table lacks a column, a name stands twice, or a cell holds no finite number, where the section does
        not say what is to become of it; or if it holds no row.
    """
    problems: list[str] = []
    if holds_vectors(section.path, section.format):
        domain = _components(section, columns)
    else:
        domain = _cells(section, columns, decimal, problems)
    if not domain.names:
        raise TableError(f"{section.path} has no row: give one per new name")
    if section.missing == "median" and not problems and np.isnan(domain.matrix).any():
        domain = filled(domain, scales.medians)
    if section.missing != "drop_row" and (cells := missing_cells(domain)):
        problems.append(f'{cells}: fill the cells in, or set domain.missing = "median" or "drop_row"')
    domain = settled(
        renamed(domain, section),
        section.model_copy(update={"missing": "drop_row"}),
        key="domain",
        problems=problems,
    )
    return domain._replace(matrix=on_scales(domain.matrix, scales), scales=scales)


def _components(section: DomainSection, columns: Sequence[str]) -> Domain:
    """Return vectors of words, which have as many components as the earlier ones."""
    domain = from_vectors(section)
    if len(domain.columns) != len(columns):
        raise TableError(
            f"{section.path} holds vectors of {len(domain.columns)} components, but the job has {len(columns)} columns "
            "per name: give vectors of the same set"
        )
    return domain


def _cells(
    section: DomainSection, columns: Sequence[str], decimal: Decimal | None, problems: list[str]
) -> Domain:
    """Return the columns of a table that the earlier one had; what is wrong with them is added to the problems."""
    table = read_table(section.path, delimiter=section.delimiter, encoding=section.encoding)
    drop = tuple(name for name in section.drop if name in table.columns)
    key, _ = key_and_problems(table, section.model_copy(update={"drop": drop}), [])
    if key in columns:
        raise TableError(
            f"{section.path} has numbers of the job in the column {key!r}, where names are looked for: name the column "
            "of names with domain.name_column"
        )
    names, wanted = texts_of(table.columns[key]), set(columns)
    # A matrix is a column of the file, and each column of the matrix has its number in brackets.
    held = [name for name in table.columns if name in wanted or f"{name}[0]" in wanted]
    read = read_numbers(table, held, decimal=section.decimal, ties=decimal)
    matrix = np.zeros((len(names), len(columns)))
    values = {column.name: column.values for column in read.numbers}
    for place, column in enumerate(columns):
        fault = _fault(column, len(names), values, read, table)
        if fault:
            problems.append(fault)
        else:
            matrix[:, place] = values.get(column, np.nan)
    matrix[~np.isfinite(matrix)] = np.nan
    unread = {column.name: column.unread for column in read.numbers if column.unread}
    notes = [*table.notes, *readings(read.numbers)]
    return Domain(names, matrix, list(columns), [""] * len(names), [], notes, unread)


def _fault(column: str, n_names: int, values: dict[str, Floats], read: NumberColumns, table: Table) -> str:
    """Return what is wrong with a column that the job reads, "" where nothing is."""
    if column in values:
        n_values = len(values[column])
        return (
            ""
            if n_values == n_names
            else f"has {n_values} values in the column {column!r} for {n_names} names"
        )
    if column in read.empty:
        return ""
    if column in read.texts:
        return f"holds text in the column {column!r}, where the job has read numbers"
    return f"{no_column(table, column)}, and the job reads it"
