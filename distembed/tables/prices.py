"""Prices turned into the correlations of returns: a column is a name, a row is a day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from distembed.display import plural
from distembed.dtypes import Floats, Int64s
from distembed.execution import one_blas_thread
from distembed.formats.tables import TableError, some
from distembed.tables.rows import Domain, LeftOut, read_rows, refusal
from distembed.tables.sections import PricesSection

YEAR_FIRST = re.compile(r"\d{4}([-/.]?)\d{2}\1\d{2}(?!\d)")
"""A date whose order as text is its order in time."""

A_BOUND = re.compile(r"\d{4}([-/.]?\d{2}){0,2}(?!\d)")
"""A year, a month or a day."""


def from_prices(section: PricesSection) -> Domain:
    """Return the correlations of the returns of all columns that have prices enough in the window of dates.

    Raises
    ------
    TableError
        If the table has other cells than dates and numbers, or fewer than two names have returns.
    """
    read, problems = read_rows(section, columns=section.columns)
    if problems:
        raise refusal(section.path, problems)
    rows = _rows_in_time(section, read.names)
    found = returns_of(read.matrix[rows], read.columns, max_missing=section.max_missing)
    if len(found.names) < 2:
        days = [read.names[row] for row in rows.tolist()]
        if twice := next((day for day, after in pairwise(days) if day == after), None):
            raise TableError(
                f"{section.path} has the date {twice!r} in several rows: turn the table: a row is a day, and each "
                "name is a column (DataFrame.pivot in pandas)"
            )
        often, remedy = "every date", "set domain.max_missing = 0.2, which keeps names with gaps"
        if section.max_missing:
            often, remedy = "enough dates", f"raise domain.max_missing, which is {section.max_missing}"
        raise TableError(
            f"{section.path} has prices on {often} for {len(found.names)} names: choose other dates, or {remedy}"
        )
    with one_blas_thread():
        matrix = np.asarray(np.corrcoef(found.matrix, rowvar=False))
    return found._replace(matrix=matrix, notes=[*read.notes, *found.notes])


def _rows_in_time(section: PricesSection, dates: Sequence[str]) -> Int64s:
    """Return the rows of the window from the oldest to the newest."""
    for key in ("first", "last"):
        if (bound := getattr(section, key)) and not A_BOUND.match(bound):
            raise TableError(f"domain.{key} is {bound!r}: write the year first, such as 2020-01-31")
    if other := next((date for date in dates if date and not YEAR_FIRST.match(date)), None):
        raise TableError(
            f"{section.path} has the date {other!r}: write dates with the year first, such as 2020-01-31, and name "
            "their column with domain.name_column"
        )
    digits = [re.sub(r"\D", "", date) for date in dates]
    first, last = (re.sub(r"\D", "", bound or "") for bound in (section.first, section.last))
    # A bound takes in all of its day, or month: what is compared has as many digits as the bound.
    chosen = [
        row
        for row, date in enumerate(digits)
        if date and date[: len(first)] >= first and date[: len(last)] <= last
    ]
    if len(chosen) < 3:
        raise TableError(
            f"{section.path} has {len(chosen)} dates from {section.first} to {section.last}: returns need 3"
        )
    return np.array(sorted(chosen, key=digits.__getitem__), np.int64)


def returns_of(prices: Floats, names: Sequence[str], *, max_missing: float) -> Domain:
    """Return p_t / p_(t-1) - 1 of the names with few gaps, (days, n), each gap filled by the mean of its day.

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
    is_open = (prices > 0).any(axis=1)
    prices = np.where(prices > 0, prices, np.nan)[is_open]
    shares = np.isnan(prices).mean(axis=0) if len(prices) else np.ones(len(names))
    returns = prices[1:] / prices[:-1] - 1
    moves = [np.unique(column[~np.isnan(column)]).size > 1 for column in returns.T]
    left_out = []
    remedy = "choose dates on which it has one with domain.first and domain.last"
    for name, share, is_moving in zip(names, shares.tolist(), moves, strict=True):
        reason = "a price is missing or not positive"
        if max_missing:
            reason = f"{share:.1%} of its prices are missing or not positive, more than domain.max_missing"
        if share > max_missing:
            left_out.append(LeftOut(name, reason, remedy))
        elif not is_moving:
            left_out.append(LeftOut(name, "its price never moves"))
    kept = np.flatnonzero((shares <= max_missing) & np.array(moves, bool))
    returns = returns[:, kept]
    returns = returns[~np.isnan(returns).all(axis=1)]
    gaps = np.isnan(returns)
    if gaps.any():
        returns = np.where(gaps, np.nanmean(returns, axis=1, keepdims=True), returns)
    kept_names, n_closed = [names[column] for column in kept.tolist()], int((~is_open).sum())
    notes = [f"{plural(n_closed, 'date')} on which no name has a price left out"] if n_closed else []
    if gaps.any():
        holed = [kept_names[column] for column in np.flatnonzero(gaps.any(axis=0)).tolist()]
        notes.append(
            f"{plural(int(gaps.sum()), 'daily return')} without a price took the mean of the day, in "
            f"{plural(len(holed), 'name')}: {some(holed)}"
        )
    return Domain(kept_names, returns, kept_names, [""] * len(kept_names), left_out, notes)
