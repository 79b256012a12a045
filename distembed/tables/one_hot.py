"""Columns of text as numbers: a column of 0 and 1 for each of their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from distembed.formats.tables import Table, texts_of

MOST_VALUES = 100
"""Values of a column, at most, that become columns."""


FEW_VALUES = 30
"""Values of a column of text, at most, that are proposed as features; each stands in three rows on average."""


def few_values(table: Table, names: Iterable[str]) -> list[str]:
    """Return what to say of columns of text with few values, nothing where there are none."""
    plain = [name for name in names if getattr(table.columns[name], "ndim", 1) == 1]
    counts = {name: Counter(texts_of(table.columns[name])) for name in plain}
    found = [
        name
        for name, count in counts.items()
        if 2 <= len(count) <= FEW_VALUES
        and 3 * len(count) <= count.total()
        and not all(map(_is_number, count))
    ]
    if not found:
        return []
    listed = ", ".join(f'"{name}"' for name in sorted(found)[:3])
    return [f"domain.one_hot = [{listed}] would take text of few values as features"]


def _is_number(text: str) -> bool:
    return text.replace(".", "").replace(",", "").strip("+-%").isdigit()


def column_of_value(name: str, value: str) -> str:
    """Return what the column of a value is called."""
    return f"{name} = {value}"


def with_values(
    table: Table, names: Sequence[str], problems: list[str], *, only: Iterable[str] | None = None
) -> tuple[Table, list[str]]:
    """Return a table in which columns of text are columns of 0 and 1, and what these are called.

    Parameters
    ----------
    table : Table
    names : sequence of str
        The columns.
    problems : list of str
        What is wrong with one of them is added here.
    only : iterable of str, optional
        The columns of values that an earlier table had: they are all there, and no others.
    """
    columns, found = dict(table.columns), list[str]()
    for name in names:
        if name not in columns:
            continue  # which is told with the other columns that are not there
        texts = np.array(texts_of(columns.pop(name)), object)
        values = sorted({*texts.tolist()} - {""})
        if only is not None:
            values = [one.removeprefix(f"{name} = ") for one in only if one.startswith(f"{name} = ")]
        elif len(values) > MOST_VALUES:
            problems.append(
                f"has {len(values):,} different values in the column {name!r}, of which domain.one_hot takes at most "
                f"{MOST_VALUES}: leave it out"
            )
        for value in values[:MOST_VALUES] if only is None else values:
            found.append(column_of_value(name, value))
            columns[found[-1]] = (texts == value).astype(np.float64)
    return table._replace(columns=columns), found


def evened_spreads(
    spreads: NDArray[np.float64], columns: Sequence[str], names: Iterable[str]
) -> NDArray[np.float64]:
    """Return the spreads of columns, where those of one text have a common one.

    With it a text of K equally frequent values weighs as K - 1 standardized columns, and a rare value no more than a
    frequent one.
    """
    evened = spreads.copy()
    for name in names:
        at = [place for place, column in enumerate(columns) if column.startswith(f"{name} = ")]
        if at:
            evened[at] = np.sqrt((spreads[at] ** 2).sum() / max(1, len(at) - 1))
    return evened
