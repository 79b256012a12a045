"""What becomes of rows of a table that have no name, a name twice, or no number in a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.display import plural
from distembed.formats.tables import SHOWN, Floats, TableError, some
from distembed.pipeline.tables.config import TableSection


class LeftOut(NamedTuple):
    """A name of the table that has no row in what was made of it."""

    name: str
    reason: str
    suggestion: str = ""


class Scales(NamedTuple):
    """What the columns of a table are measured by, and what fills a missing cell, (d,) float64 each.

    Attributes
    ----------
    means, spreads : the mean and the standard deviation that a column is centered and divided by; 0 and 1 where it is
        left as it is
    medians : of the columns as they were read
    """

    means: NDArray[np.float64]
    spreads: NDArray[np.float64]
    medians: NDArray[np.float64]


class Domain(NamedTuple):
    """What is known of every name.

    Attributes
    ----------
    names : n names
    matrix : (n, d); while the table is read, NaN stands for a missing number
    columns : d names
    labels : n labels, "" where there is none
    left_out : names without a row
    notes : what was done to the table, one sentence each
    unread : by column, a cell that is neither missing nor a number
    holds_vectors : whether rows are vectors of words, which are compared by their directions
    decimal : the decimal sign of the cells, None where none has one; the comma where columns differ
    scales : how the columns came to one scale; None where they are no columns of one table
    """

    names: list[str]
    matrix: Floats
    columns: list[str]
    labels: list[str]
    left_out: list[LeftOut]
    notes: list[str]
    unread: Mapping[str, str] = {}
    holds_vectors: bool = False
    scales: Scales | None = None
    decimal: Literal[".", ","] | None = None


def refusal(path: str, problems: Sequence[str]) -> TableError:
    """Return an error that names every problem of a table, each of which goes on from its path ("has no …")."""
    if len(problems) == 1:
        return TableError(f"{path} {problems[0]}")
    listed = "; ".join(f"({number}) it {problem}" for number, problem in enumerate(problems, 1))
    return TableError(f"{path} has {len(problems)} problems: {listed}")


def settled(domain: Domain, section: TableSection, *, key: str, problems: Sequence[str]) -> Domain:
    """Return a table in which every row has a name of its own and a number in every cell, as its section says.

    Parameters
    ----------
    domain : as it was read
    section : its policies
    key : the name of the section
    problems : found before: they are told together with those found here

    Raises
    ------
    TableError
        If there is a problem that the section refuses.
    """
    found = list(problems)
    domain = _without_empty_names(domain)
    if section.duplicates == "refuse":
        found += duplicate_problems(domain.names, key=key)
    else:
        domain = _without_duplicates(domain, average=section.duplicates == "mean")
    if section.missing == "refuse":
        found += _missing_problems(domain, key=key)
    if found:
        raise refusal(section.path, found)
    return _without_missing(domain, section, key=key)


def _kept(domain: Domain, rows: NDArray[np.int64]) -> Domain:
    """Return some rows of a table, in order."""
    names, labels = ([values[row] for row in rows.tolist()] for values in (domain.names, domain.labels))
    return domain._replace(names=names, labels=labels, matrix=domain.matrix[rows])


def _without_empty_names(domain: Domain) -> Domain:
    empty = [row for row, name in enumerate(domain.names) if not name]
    if not empty:
        return domain
    left_out = [
        LeftOut("", f"row {row + 2} has no name (the header is row 1)", "give it a name") for row in empty
    ]
    lines = ", ".join(str(row + 2) for row in empty[:5]) + (" …" if len(empty) > 5 else "")
    note = f"{plural(len(empty), 'row')} without a name left out (row {lines}, the header being row 1)"
    rest = _kept(domain, np.setdiff1d(np.arange(len(domain.names)), empty))
    return rest._replace(left_out=[*domain.left_out, *left_out], notes=[*domain.notes, note])


# ---- a name twice -----------------------------------------------------------------------------------------


def duplicate_problems(names: Sequence[str], *, key: str) -> list[str]:
    """Return what to say of names that stand more than once."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if not twice:
        return []
    what = f"the name {twice[0]!r} twice" if len(twice) == 1 else f"{len(twice)} names twice ({some(twice)})"
    return [f'has {what}: keep one, or set {key}.duplicates = "first" or "mean"']


def _without_duplicates(domain: Domain, *, average: bool) -> Domain:
    """Return the first row of each name, or the mean of its rows in every column, missing numbers left out."""
    _, first, group, counts = np.unique(
        domain.names, return_index=True, return_inverse=True, return_counts=True
    )
    more = np.flatnonzero(counts > 1)
    if not more.size:
        return domain
    matrix = domain.matrix.copy()
    for index in more if average else ():
        rows = domain.matrix[group == index]
        seen = ~np.isnan(rows).all(axis=0)
        matrix[first[index], seen] = np.nanmean(rows[:, seen], axis=0)
    names = [domain.names[first[index]] for index in more]
    note = (
        f"{plural(len(names), 'name')} stood more than once ({some(names)}): "
        f"{'the rows were averaged' if average else 'the first row was kept'}"
    )
    left_out = [] if average else [LeftOut(name, "a further row of this name") for name in names]
    kept = _kept(domain._replace(matrix=matrix), np.sort(first))
    return kept._replace(left_out=[*domain.left_out, *left_out], notes=[*domain.notes, note])


# ---- a cell without a number ------------------------------------------------------------------------------


def _missing_problems(domain: Domain, *, key: str) -> list[str]:
    cells = missing_cells(domain)
    choices = f'{key}.missing = "median", "drop_row" or "drop_column"'
    return [f"{cells}: fill the cells in, or set {choices}"] if cells else []


def missing_cells(domain: Domain) -> str:
    """Return which columns have cells without a number, "" where none has."""
    missing = np.isnan(domain.matrix)
    columns = np.flatnonzero(missing.any(axis=0))
    if not columns.size:
        return ""
    where = [
        f"{missing[:, column].sum()} of {plural(len(domain.names), 'name')} in the column "
        f"{domain.columns[column]!r}, first "
        f"{domain.names[int(missing[:, column].argmax())]!r}{_holding(domain.unread.get(domain.columns[column]))}"
        for column in columns[:SHOWN]
    ]
    more = [f"{columns.size - SHOWN} more columns"] if columns.size > SHOWN else []
    return f"has no finite number for {' and '.join([', '.join(where), *more])}"


def _holding(cell: str | None) -> str:
    return f" (one holds {cell!r})" if cell else ""


def _without_missing(domain: Domain, section: TableSection, *, key: str) -> Domain:
    """Return the table without missing numbers: filled in, or without their rows or columns."""
    missing = np.isnan(domain.matrix)
    if not missing.any():
        return domain
    without = {"median": _with_medians, "drop_row": _without_rows, "drop_column": _without_columns}
    domain = without[section.missing](domain, missing)
    if not domain.matrix.size:
        raise refusal(
            section.path, [f'has nothing left after {key}.missing = "{section.missing}": take another']
        )
    return domain


def _with_medians(domain: Domain, missing: NDArray[np.bool_]) -> Domain:
    columns = np.flatnonzero(missing.any(axis=0))
    medians = np.zeros(len(domain.columns))
    for column in columns.tolist():
        medians[column] = np.median(domain.matrix[~missing[:, column], column])
    return filled(domain, medians)


def filled(domain: Domain, medians: NDArray[np.float64]) -> Domain:
    """Return a table with the median of its column in every cell without a number."""
    missing = np.isnan(domain.matrix)
    matrix = np.where(missing, medians, domain.matrix).astype(domain.matrix.dtype)
    columns = (domain.columns[column] for column in np.flatnonzero(missing.any(axis=0)))
    note = f"{plural(int(missing.sum()), 'cell')} without a number took the median of the column, in {some(columns)}"
    return domain._replace(matrix=matrix, notes=[*domain.notes, note])


def _without_rows(domain: Domain, missing: NDArray[np.bool_]) -> Domain:
    rows = np.flatnonzero(missing.any(axis=1))
    left_out = [
        LeftOut(
            domain.names[row],
            f"no number in {some(domain.columns[column] for column in np.flatnonzero(missing[row]))}",
            'missing = "median" keeps it',
        )
        for row in rows.tolist()
    ]
    note = f"{plural(rows.size, 'name')} with a cell without a number left out"
    rest = _kept(domain, np.flatnonzero(~missing.any(axis=1)))
    return rest._replace(left_out=[*domain.left_out, *left_out], notes=[*domain.notes, note])


def _without_columns(domain: Domain, missing: NDArray[np.bool_]) -> Domain:
    gone = np.flatnonzero(missing.any(axis=0))
    kept = np.flatnonzero(~missing.any(axis=0))
    note = (
        f"{plural(gone.size, 'column')} with cells without a number left out: "
        f"{some(domain.columns[column] for column in gone)}"
    )
    columns = [domain.columns[column] for column in kept]
    return domain._replace(matrix=domain.matrix[:, kept], columns=columns, notes=[*domain.notes, note])
