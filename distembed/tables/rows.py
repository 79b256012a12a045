"""The rows of a table by name: how they are read, and what becomes of a name twice or a cell without a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.display import plural
from distembed.dtypes import Float64s, Floats, Int64s
from distembed.formats.delimited import SHOWN, numbers, remedy
from distembed.formats.tables import TableError, names_of, no_column, read_table, some
from distembed.linalg.csr import unit_rows
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
    scales : how the columns came to one scale; None where they are no columns of one table
    spellings : by name, how the table has it, where a table of names calls it otherwise
    """

    names: list[str]
    matrix: Floats
    columns: list[str]
    labels: list[str]
    left_out: list[LeftOut]
    notes: list[str]
    scales: Scales | None = None
    spellings: Mapping[str, str] = {}

    def without(self, rows: Int64s, left_out: Sequence[LeftOut], note: str) -> Domain:
        """Return the table without some rows, with the reason of each and a note; as it is if there are none."""
        if not rows.size:
            return self
        kept = np.setdiff1d(np.arange(len(self.names)), rows)
        names, labels = ([values[row] for row in kept.tolist()] for values in (self.names, self.labels))
        notes, left_out = [*self.notes, note], [*self.left_out, *left_out]
        return self._replace(
            names=names, labels=labels, matrix=self.matrix[kept], left_out=left_out, notes=notes
        )


def refusal(path: str, problems: Sequence[str]) -> TableError:
    """Return an error that names every problem of a table, each of which goes on from its path ("has no …")."""
    if len(problems) == 1:
        return TableError(f"{path} {problems[0]}")
    listed = "; ".join(f"({number}) it {problem}" for number, problem in enumerate(problems, 1))
    return TableError(f"{path} has {len(problems)} problems: {listed}")


# ---- reading -----------------------------------------------------------------------------------------------------


def read_rows(
    section: TableSection, *, columns: Sequence[str] = (), label: str | None = None
) -> tuple[Domain, list[str]]:
    """Return the names and the numbers of a table, and what is wrong with it.

    Parameters
    ----------
    section : where the table is, and how it is read
    columns : those that are taken; by default all of numbers that have a name
    label : the column of labels

    Raises
    ------
    TableError
        If the file is no table, or has no column of names.
    """
    table = read_table(
        section.path, delimiter=section.delimiter, encoding=section.encoding, skip_rows=section.skip_rows
    )
    asked = [*section.drop, *filter(None, [label, section.name_column]), *columns]
    problems = [no_column(table, name) for name in dict.fromkeys(asked) if name not in table.columns]
    left = {name: column for name, column in table.columns.items() if name not in section.drop}
    key = section.name_column or next(iter(left), "")
    if key not in left:
        raise refusal(section.path, problems or ["has no column of names"])
    names = names_of(table, key)
    labels = names_of(table, label) if label in table.columns else [""] * len(names)
    matrix: dict[str, Floats] = {}
    faults: dict[str, list[tuple[str, Int64s]]] = {}
    ignored: dict[str, list[str]] = {"without a name": [], "of text": [], "of no values": []}
    for name in columns or left:
        if name == key or name not in left or (name == label and not columns):
            continue
        values, wrong = _numbers_of(left[name], section)
        if not name:
            ignored["without a name"].append(name)
        elif name in columns and values is None:
            problems.append(f"holds text in the column {name!r}, not numbers: leave it out of columns")
        elif values is None or (np.isnan(values).all() and not wrong.size and name not in columns):
            ignored["of text" if values is None else "of no values"].append(name)
        else:
            if wrong.size:
                faults.setdefault(remedy(left[name], wrong), []).append((name, wrong))
                values = values.copy()
                values[wrong] = 0.0  # not told as missing, too
            matrix[name] = values
    for advice, cells in faults.items():
        (name, wrong), n_cells = cells[0], sum(wrong.size for _, wrong in cells)
        several = f"{len(cells)} columns ({some(name for name, _ in cells)})"
        where = f"the column {name!r}" if len(cells) == 1 else several
        problems.append(
            f"has {plural(n_cells, 'cell')} without a number in {where}, first {left[name][wrong[0]].as_py()!r} in the "
            f"row of {names[wrong[0]]!r} (row {wrong[0] + 2 + section.skip_rows}): {advice}"
        )
    if not matrix and not problems:
        raise refusal(section.path, ["has no column of numbers beside its names"])
    stacked = np.stack([*matrix.values()], axis=1) if matrix else np.zeros((len(names), 0))
    stacked[~np.isfinite(stacked)] = np.nan
    told = [
        f"{plural(len(own), 'column')} {what} ignored: {some(own)}" for what, own in ignored.items() if own
    ]
    return Domain(names, stacked, [*matrix], labels, [], [*table.notes, *told]), problems


def _numbers_of(column: Any, section: TableSection) -> tuple[Floats | None, Int64s]:
    """Return the numbers of a column, None for one of text, and the rows whose cells are no numbers."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        read = numbers(column, decimal=section.decimal, thousands=section.thousands)
        return None if read.is_text else read.values, read.wrong
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    is_number = any(is_of(column.type) for is_of in tests)
    # of float32 alone a table stays float32, which takes half the memory and half the time of a search
    dtype = pa.float32() if pa.types.is_float32(column.type) else pa.float64()
    return column.cast(dtype, safe=False).to_numpy() if is_number else None, np.zeros(0, np.int64)


def read_values(section: TableSection, *, key: str, columns: Sequence[str] = ()) -> Domain:
    """Return the rows of a table that hold a number, by their names.

    Parameters
    ----------
    section : where the table is, and what becomes of faults in it
    key : the name of the section in the job file, for messages
    columns : those that are taken; by default all of numbers

    Raises
    ------
    TableError
        If there is a problem that the section refuses; all are told at once.
    """
    found, problems = read_rows(section, columns=columns)
    empty = np.flatnonzero(np.isnan(found.matrix).all(axis=1) & bool(found.columns))
    rest = found.without(empty, [], f"{plural(empty.size, 'row')} without any number")
    return settled(rest, section, key, problems)


# ---- a name twice, a cell without a number ------------------------------------------------------------------------


def settled(
    domain: Domain,
    section: TableSection,
    key: str,
    problems: Sequence[str],
    *,
    medians: Float64s | None = None,
) -> Domain:
    """Return a table in which every row has a name of its own and a number in every cell, as its section says.

    Parameters
    ----------
    domain : as it was read
    section : its policies
    key : the name of the section
    problems : found before: they are told together with those found here
    medians : those that fill cells without a number; by default of the columns of the table

    Raises
    ------
    TableError
        If there is a problem that the section refuses.
    """
    found, header = list(problems), 1 + section.skip_rows
    empty = np.flatnonzero([not name for name in domain.names])
    reasons = [f"row {row + header + 1} has no name (the header is row {header})" for row in empty.tolist()]
    note = f"{plural(empty.size, 'row')} without a name left out"
    domain = domain.without(empty, [LeftOut("", reason, "give it a name") for reason in reasons], note)
    twice = [name for name, count in Counter(domain.names).items() if count > 1]
    if twice and section.duplicates == "refuse":
        found.append(
            f'has {plural(len(twice), "name")} twice ({some(twice)}): keep one, or set {key}.duplicates = "first"'
        )
    elif twice:
        further = np.setdiff1d(np.arange(len(domain.names)), np.unique(domain.names, return_index=True)[1])
        note = f"{plural(len(twice), 'name')} stood more than once ({some(twice)}): the first row was kept"
        again = [LeftOut(name, "a further row of this name") for name in twice]
        domain = domain.without(further, again, note)
    if section.missing == "refuse" and (cells := missing_cells(domain)):
        found.append(f'{cells}: fill the cells in, or set {key}.missing = "median" or "drop_row"')
    if found:
        raise refusal(section.path, found)
    missing = np.isnan(domain.matrix)
    if section.missing == "median" and missing.any():
        if medians is None and missing.all(axis=0).any():
            raise refusal(section.path, ["has a column without any number: leave it out with drop"])
        medians = np.nanmedian(domain.matrix, axis=0) if medians is None else medians
        columns = (domain.columns[column] for column in np.flatnonzero(missing.any(axis=0)))
        cells = plural(int(missing.sum()), "cell")
        note = f"{cells} without a number took the median of the column, in {some(columns)}"
        matrix = np.where(missing, medians, domain.matrix)
        domain, missing = domain._replace(matrix=matrix, notes=[*domain.notes, note]), np.isnan(matrix)
    rows = np.flatnonzero(missing.any(axis=1))
    gone = [some(np.array(domain.columns, object)[missing[row]].tolist()) for row in rows.tolist()]
    left_out = [
        LeftOut(domain.names[row], f"no number in {columns}", 'missing = "median" keeps it')
        for row, columns in zip(rows.tolist(), gone, strict=True)
    ]
    domain = domain.without(
        rows, left_out, f"{plural(rows.size, 'name')} with a cell without a number left out"
    )
    if not domain.matrix.size:
        left = f'has nothing left after {key}.missing = "{section.missing}": take another'
        raise refusal(section.path, [left])
    return domain


def missing_cells(domain: Domain) -> str:
    """Return which columns have cells without a number, "" where none has."""
    missing = np.isnan(domain.matrix)
    columns = np.flatnonzero(missing.any(axis=0))
    if not columns.size:
        return ""
    where = [
        f"{missing[:, column].sum()} of {plural(len(domain.names), 'name')} in the column "
        f"{domain.columns[column]!r}, first {domain.names[int(missing[:, column].argmax())]!r}"
        for column in columns[:SHOWN]
    ]
    more = [f"{columns.size - SHOWN} more columns"] if columns.size > SHOWN else []
    return f"has no finite number for {' and '.join([', '.join(where), *more])}"


# ---- scales ------------------------------------------------------------------------------------------------------

ROWS_TOGETHER = 1 << 14
"""Rows of a block of a table whose columns are standardized."""


def scaled(domain: Domain, *, standardize: bool) -> Domain:
    """Return a domain with its scales and, where it is to be standardized, columns of mean 0 and variance 1.

    A constant column becomes zeros and says nothing.
    """
    d = domain.matrix.shape[1]
    medians = np.median(domain.matrix, axis=0).astype(np.float64)
    if not standardize:
        return domain._replace(scales=Scales(np.zeros(d), np.ones(d), medians))
    from dask_ml.preprocessing import StandardScaler  # noqa: PLC0415 - a second, of a job that needs it

    scaler = StandardScaler().fit(da.from_array(domain.matrix.astype(np.float64), chunks=(ROWS_TOGETHER, -1)))
    means, variances = np.asarray(scaler.mean_), np.asarray(scaler.var_)
    is_constant = domain.matrix.min(axis=0) == domain.matrix.max(axis=0)
    scales = Scales(means, np.where(is_constant, 0.0, np.sqrt(variances)), medians)
    return domain._replace(matrix=on_scales(domain.matrix, scales), scales=scales)


def on_scales(matrix: Floats, scales: Scales) -> Floats:
    """Return rows less the means and divided by the spreads, in their dtype; zeros where a column has no spread."""
    has_spread = scales.spreads > 0
    measured = matrix - scales.means
    measured /= np.where(has_spread, scales.spreads, 1.0)
    measured[:, ~has_spread] = 0.0
    return measured.astype(matrix.dtype)


MOST = 0.6
"""Share of the distance above which a column alone decides which names are neighbors; half would be one of two."""


def warn_of_one_column(domain: Domain, *, metric: Metric) -> str:
    """Return what to say of a column that carries most of the distance between names, "" where none does.

    The share of a column in the squared distances between rows, all pairs together, is that of its variance in the sum
    of all variances.
    """
    matrix = domain.matrix
    rows = unit_rows(np.asarray(matrix, np.float64)) if metric == "cosine" else matrix
    variances = rows.var(axis=0, dtype=np.float64)
    largest, total = int(variances.argmax()), variances.sum()
    share = variances[largest] / total if total > 0 else 0.0
    if len(variances) < 2 or share <= MOST:
        return ""
    return (
        f"the column {domain.columns[largest]!r} carries {share:.1%} of the distance between names, and all "
        f"{len(domain.columns) - 1} others the rest: set domain.standardize = true, or leave it out with domain.drop"
    )
