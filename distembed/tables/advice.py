"""What to say of a table before anything is computed: rows and columns that would decide all distances alone."""

from __future__ import annotations

import re

import numpy as np

from distembed.display import plural
from distembed.dtypes import Floats, Int64s
from distembed.formats.tables import some
from distembed.tables.rows import Domain

LARGE_SHARE = 1 / 3
"""Share of the spread of a column that one row has where it is an outlier: so that two rows of totals are two."""

LEAST_ROWS, LEAST_COLUMNS = 10, 2
"""Rows and columns of a table below which nothing is said of it."""

SUMS = {
    "all",
    "average",
    "durchschnitt",
    "gesamt",
    "insgesamt",
    "mean",
    "median",
    "mittelwert",
    "sum",
    "summe",
    "total",
}
"""What a row of sums or means is called."""

AN_ID = re.compile(
    r"(^|[\W_])(id|ids|nr|no|number|index|key|code|zip|plz|isin|cik|gvkey)$|[a-z]I[Dd]$", re.IGNORECASE
)
"""How the names of columns end that number their rows."""


def advice_on(domain: Domain) -> list[str]:
    """Return a sentence on rows that outweigh the others, and on columns of ids."""
    if len(domain.names) < LEAST_ROWS or len(domain.columns) < LEAST_COLUMNS:
        return []
    return [*_of_rows(domain), *_of_ids(domain)]


def _of_rows(domain: Domain) -> list[str]:
    at = outlying_rows(domain.matrix)
    names = [domain.spellings.get(name, name) for name in domain.names]
    sums = [row for row, name in enumerate(names) if name.casefold().removeprefix("grand ") in SUMS]
    found = [names[row] for row in sorted({*at.tolist(), *sums})]
    if not found:
        return []
    one = len(found) == 1
    return [
        f"{plural(len(found), 'row')} {'outweighs' if one else 'outweigh'} all others in half of the columns, or "
        f"{'is' if one else 'are'} called like a sum ({some(found)}): unless {'it is a' if one else 'they are'} "
        f"name{'' if one else 's'} like the others, set domain.drop_rows = [{', '.join(map(_quoted, found[:3]))}]"
    ]


def outlying_rows(matrix: Floats) -> Int64s:
    """Return the rows that have a third of the spread, or more, of half of the columns or more."""
    n_large, n_varying = np.zeros(len(matrix), np.int64), 0
    for column in matrix.T:
        squares = (column.astype(np.float64) - np.median(column)) ** 2
        total = squares.sum()
        if total > 0:
            n_large += squares >= LARGE_SHARE * total
            n_varying += 1
    return np.flatnonzero(2 * n_large >= max(1, n_varying))


def _of_ids(domain: Domain) -> list[str]:
    found = [
        name
        for name, values in zip(domain.columns, domain.matrix.T, strict=True)
        if is_like_an_id(name, values)
    ]
    if not found:
        return []
    return [
        f"{plural(len(found), 'column')} with another whole number in each row "
        f"{'looks like an id' if len(found) == 1 else 'look like ids'} ({some(found)}): set "
        f"domain.drop = [{', '.join(map(_quoted, found[:3]))}] unless the size of the numbers means something"
    ]


def is_like_an_id(name: str, values: Floats) -> bool:
    """Return whether a column holds different whole numbers that run on, or are called like ids."""
    if not (values == np.floor(values)).all() or np.unique(values).size < values.size:
        return False
    runs_on = values.max() - values.min() < 2 * values.size
    return bool(runs_on or AN_ID.search(name))


def _quoted(name: str) -> str:
    return f'"{name}"'
