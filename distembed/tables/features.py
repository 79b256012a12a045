"""Prices turned into the correlations of returns: a column is a name, a row is a day."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.display import plural
from distembed.dtypes import Float64s, Floats, Int64s, Mask
from distembed.execution import one_blas_thread
from distembed.formats.cells import NumberColumns, read_numbers, readings
from distembed.formats.delimiters import UNNAMED
from distembed.formats.tables import Table, TableError, key_column, no_column, some, texts_of
from distembed.tables.rows import Domain, LeftOut, refusal
from distembed.tables.sections import DomainSection, TableSection


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


YEAR_FIRST = re.compile(r"\d{4}([-/.]?)\d{2}\1\d{2}(?!\d)")
"""A date whose order as text is its order in time."""

A_BOUND = re.compile(r"\d{4}([-/.]?\d{2}){0,2}(?!\d)")
"""A year, a month or a day."""

A_PRICE = re.compile(r"[-+]?\d+[.,]\d+")
"""What stands in a column of prices, and in none of dates."""


class Returns(NamedTuple):
    """The returns of the names that are kept, (days, n), none of them missing.

    Attributes
    ----------
    matrix : (days, n)
    names : n names
    left_out : the other names, each with the reason
    notes : what was done, one sentence each
    """

    matrix: Floats
    names: list[str]
    left_out: list[LeftOut]
    notes: list[str]


def from_prices(section: DomainSection, table: Table, key: str, problems: list[str]) -> Domain:
    """Return the correlations of the returns of all columns that have prices enough in the window of dates."""
    dates = np.array(texts_of(table.columns[key]))
    rows = _rows_in_time(section, dates)
    wanted = section.columns or [name for name in table.columns if name not in (key, *section.drop)]
    series = features_of(section, table, dates.tolist(), wanted, problems, remedy="set domain.decimal")
    found = returns_of(series.matrix[rows], series.columns, max_missing=section.max_missing)
    if len(found.names) < 2:
        raise TableError(_too_few(section, len(found.names), dates[rows]))
    with one_blas_thread():
        matrix: Float64s = np.asarray(np.corrcoef(found.matrix, rowvar=False))
    notes = [*series.notes, *found.notes]
    return Domain(found.names, matrix, found.names, [""] * len(found.names), found.left_out, notes)


def _rows_in_time(section: DomainSection, dates: NDArray[np.str_]) -> Int64s:
    """Return the rows of the window from the oldest to the newest."""
    for key in ("first", "last"):
        _refuse_other_dates(key, getattr(section, key))
    digits = np.array([re.sub(r"\D", "", date) for date in dates.tolist()])
    first, last = (re.sub(r"\D", "", bound or "") for bound in (section.first, section.last))
    # A bound takes in all of its day, or month: what is compared has as many digits as the bound.
    within = [date[: len(first)] >= first and date[: len(last)] <= last for date in digits.tolist()]
    chosen = (dates != "") & np.array(within, dtype=bool)
    other = [date for date in dates[dates != ""].tolist() if not YEAR_FIRST.match(date)]
    if prices := [date for date in other if A_PRICE.fullmatch(date)]:
        raise TableError(
            f"{section.path} has {prices[0]!r} where dates are looked for: name the column of dates with "
            "domain.name_column"
        )
    if other:
        raise TableError(
            f"{section.path} has the date {other[0]!r}: write dates with the year first, such as 2020-01-31"
        )
    if chosen.sum() < 3:
        raise TableError(
            f"{section.path} has {chosen.sum()} dates from {section.first} to {section.last}: returns need 3"
        )
    return np.flatnonzero(chosen)[np.argsort(digits[chosen], kind="stable")]


def _refuse_other_dates(key: str, bound: str | None) -> None:
    if bound and not A_BOUND.match(bound):
        raise TableError(f"domain.{key} is {bound!r}: write the year first, such as 2020-01-31")


def _too_few(section: DomainSection, n_names: int, dates: NDArray[np.str_]) -> str:
    several, counts = np.unique(dates, return_counts=True)
    if (counts > 1).any():
        return (
            f"{section.path} has the date {str(several[counts.argmax()])!r} in {counts.max()} rows: turn the table so "
            "that a row is a day and each name is a column (DataFrame.pivot in pandas)"
        )
    if section.max_missing:
        return (
            f"{section.path} has prices on enough dates for {n_names} names: choose other dates, or raise "
            f"domain.max_missing, which is {section.max_missing}"
        )
    return (
        f"{section.path} has prices on every date for {n_names} names: choose other dates, or set "
        "domain.max_missing = 0.2, which keeps names with gaps"
    )


def returns_of(prices: Floats, names: Sequence[str], *, max_missing: float) -> Returns:
    """Return p_t / p_(t-1) - 1 of the names with few gaps, each gap filled by the mean of its day.

    A price that is missing, or not positive, takes two returns with it: that of its day and that of the next. Each gets
    the mean of the returns that the other names have on that day (Yao, Yu and Xiao 2019, section 5.2). Days on which
    no name has a price are left out first.

    Parameters
    ----------
    prices : (days, n), oldest first
        NaN where there is none.
    names : n names
    max_missing : float
        The share of the days, at most, on which a name that is kept may lack a price.
    """
    open_days = (prices > 0).any(axis=1)
    missing = ~(prices[open_days] > 0)
    prices = np.where(missing, np.nan, prices[open_days])
    shares = missing.mean(axis=0) if len(prices) else np.ones(len(names))
    dense = shares <= max_missing
    returns = prices[1:, dense] / prices[:-1, dense] - 1
    moves = np.zeros(len(names), bool)
    moves[dense] = [np.unique(column[~np.isnan(column)]).size > 1 for column in returns.T]
    left_out = [
        _left_out(name, share, max_missing)
        for name, share, kept in zip(names, shares.tolist(), moves.tolist(), strict=True)
        if not kept
    ]
    closed = _closed_days(int((~open_days).sum()))
    filled, gaps = _with_means_of_days(returns[:, moves[dense]])
    kept_names = [name for name, kept in zip(names, moves.tolist(), strict=True) if kept]
    return Returns(filled, kept_names, left_out, [*closed, *_of_gaps(gaps, kept_names)])


def _left_out(name: str, share: float, max_missing: float) -> LeftOut:
    """Return why a name has no returns: it has gaps, or its price never moves."""
    if share <= max_missing:
        return LeftOut(name, "its price never moves")
    reason = "a price is missing or not positive"
    if max_missing:
        reason = f"{share:.1%} of its prices are missing or not positive, more than domain.max_missing"
    return LeftOut(name, reason, "choose dates on which it has one with domain.first and domain.last")


def _closed_days(n_days: int) -> list[str]:
    return [f"{plural(n_days, 'date')} on which no name has a price left out"] if n_days else []


def _with_means_of_days(returns: Floats) -> tuple[Floats, Mask]:
    """Return the returns with the mean of the day in every gap, without days of gaps only, and the gaps."""
    gaps: Mask = np.isnan(returns)
    if not gaps.any():
        return returns, gaps
    some_known = ~gaps.all(axis=1)
    returns, gaps = returns[some_known], gaps[some_known]
    return np.where(gaps, np.nanmean(returns, axis=1, keepdims=True), returns), gaps


def _of_gaps(gaps: Mask, names: Sequence[str]) -> list[str]:
    """Return what to say of filled gaps, nothing where there are none."""
    holed = [name for name, n_gaps in zip(names, gaps.sum(axis=0).tolist(), strict=True) if n_gaps]
    if not holed:
        return []
    return [
        f"{plural(int(gaps.sum()), 'daily return')} without a price took the mean of the day, in "
        f"{plural(len(holed), 'name')}: {some(holed)}"
    ]
