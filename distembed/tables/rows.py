"""What becomes of rows of a table that have no name, a name twice, or no number in a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from distembed.display import plural
from distembed.dtypes import Float64s, Floats, Int64s, Mask
from distembed.formats.cells import read_numbers, readings
from distembed.formats.tables import SHOWN, TableError, key_column, no_column, some, texts_of
from distembed.linalg.blocks import directions
from distembed.neighbors.distances import Metric
from distembed.tables.sections import TableSection


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

    means: Float64s
    spreads: Float64s
    medians: Float64s


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
    spellings : by name, how the table has it, where a table of names calls it otherwise
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
    spellings: Mapping[str, str] = {}


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


def _kept(domain: Domain, rows: Int64s) -> Domain:
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


def without_named(domain: Domain, dropped: Sequence[str], problems: list[str]) -> Domain:
    """Return a table without the rows of some names; those that it lacks are added to the problems."""
    gone = [row for row, name in enumerate(domain.names) if name in dropped]
    absent = [name for name in dropped if name not in domain.names]
    problems += [
        f"has no name {name!r}, which domain.drop_rows leaves out: correct the key" for name in absent
    ]
    if not gone:
        return domain
    left_out = [LeftOut(domain.names[row], "domain.drop_rows names it") for row in gone]
    rest = _kept(domain, np.setdiff1d(np.arange(len(domain.names)), gone))
    return rest._replace(left_out=[*domain.left_out, *left_out])


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


def _with_medians(domain: Domain, missing: Mask) -> Domain:
    columns = np.flatnonzero(missing.any(axis=0))
    medians = np.zeros(len(domain.columns))
    for column in columns.tolist():
        medians[column] = np.median(domain.matrix[~missing[:, column], column])
    return filled(domain, medians)


def filled(domain: Domain, medians: Float64s) -> Domain:
    """Return a table with the median of its column in every cell without a number."""
    missing = np.isnan(domain.matrix)
    matrix = np.where(missing, medians, domain.matrix).astype(domain.matrix.dtype)
    columns = (domain.columns[column] for column in np.flatnonzero(missing.any(axis=0)))
    note = f"{plural(int(missing.sum()), 'cell')} without a number took the median of the column, in {some(columns)}"
    return domain._replace(matrix=matrix, notes=[*domain.notes, note])


def _without_rows(domain: Domain, missing: Mask) -> Domain:
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


def _without_columns(domain: Domain, missing: Mask) -> Domain:
    gone = np.flatnonzero(missing.any(axis=0))
    kept = np.flatnonzero(~missing.any(axis=0))
    note = (
        f"{plural(gone.size, 'column')} with cells without a number left out: "
        f"{some(domain.columns[column] for column in gone)}"
    )
    columns = [domain.columns[column] for column in kept]
    return domain._replace(matrix=domain.matrix[:, kept], columns=columns, notes=[*domain.notes, note])


def scaled(domain: Domain, *, standardize: bool) -> Domain:
    """Return a domain with its scales and, where it is to be standardized, columns of mean 0 and variance 1.

    A constant column becomes zeros and says nothing.
    """
    d = domain.matrix.shape[1]
    medians = np.array([np.median(column) for column in domain.matrix.T], np.float64)
    if not standardize:
        return domain._replace(scales=Scales(np.zeros(d), np.ones(d), medians))
    matrix = domain.matrix
    scales = Scales(matrix.mean(axis=0, dtype=np.float64), matrix.std(axis=0, dtype=np.float64), medians)
    return domain._replace(matrix=on_scales(matrix, scales), scales=scales)


def on_scales(matrix: Floats, scales: Scales) -> Floats:
    """Return rows less the means and divided by the spreads, in their dtype; zeros where a column has no spread."""
    has_spread = scales.spreads > 0
    measured = matrix - scales.means
    measured /= np.where(has_spread, scales.spreads, 1.0)
    measured[:, ~has_spread] = 0.0
    return measured.astype(matrix.dtype)


def scales_table(domain: Domain) -> pa.Table:
    """Return the columns of a domain with their scales, a row per column."""
    assert domain.scales is not None
    return pa.table({"column": domain.columns, **domain.scales._asdict()})


def scales_of(table: pa.Table) -> Scales:
    """Return the scales that `scales_table` wrote."""
    return Scales(*(np.asarray(table[name], np.float64) for name in Scales._fields))


def column_shares(matrix: Floats, *, metric: Metric) -> Float64s:
    """Return the share of each column in the squared distances between rows, all pairs together, (d,).

    It is that of the column's variance in the sum of all variances; zeros where all rows are equal.
    """
    rows = directions(np.asarray(matrix, np.float64)) if metric == "cosine" else matrix
    variances = rows.var(axis=0, dtype=np.float64)
    total = variances.sum()
    return np.asarray(variances / total if total > 0 else np.zeros_like(variances))


MOST = 0.6
"""Share of the distance above which a column alone decides which names are neighbors; half would be one of two."""


NEARLY_ALL = 0.9
"""Share of the length of all known vectors above which a column is hardly a component of them."""


def warn_of_one_column(domain: Domain, *, metric: Metric) -> str:
    """Return what to say of a column that carries most of the distance between names, "" where none does."""
    largest, share = _most(column_shares(domain.matrix, metric=metric), MOST)
    if not share:
        return ""
    return (
        f"the column {domain.columns[largest]!r} carries {share:.1%} of the distance between names, and all "
        f"{len(domain.columns) - 1} others the rest: set domain.standardize = true, or leave it out with domain.drop"
    )


def warn_of_one_component(known: Domain) -> str:
    """Return what to say of a column of known vectors that is larger than all others, "" where none is."""
    squares = (np.asarray(known.matrix, np.float64) ** 2).sum(axis=0)
    largest, share = _most(squares / max(squares.sum(), np.finfo(float).tiny), NEARLY_ALL)
    if not share:
        return ""
    return (
        f"warning: the column {known.columns[largest]!r} holds {share:.1%} of the length of the known vectors: if it "
        "is no component of them, leave it out with known.drop"
    )


def _most(shares: Float64s, limit: float) -> tuple[int, float]:
    """Return the column of the largest share, and its share, 0 where it is not above the limit."""
    largest = int(shares.argmax())
    return largest, float(shares[largest]) if len(shares) > 1 and shares[largest] > limit else 0.0


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
        where the section does not say what is to become of it; all problems are named at once.
    """
    table = section.table()
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
    return settled(without_empty_rows(found), section, key=key, problems=[])


def without_empty_rows(values: Domain) -> Domain:
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
