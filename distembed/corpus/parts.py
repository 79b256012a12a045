"""Parts of a corpus: which each document is of, by a value or a date with bins, and groups to draw from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from datetime import date
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.display import first_repeat

NO_PART = -1
"""The part of a document that is in none."""

DATE = re.compile(r"\s*(-?\d{1,4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?(?:[T ].*)?\s*")
"""A year, a month or a day, as ISO 8601 writes them; a time may follow."""


class Parts(NamedTuple):
    """The parts of a corpus."""

    names: tuple[str, ...]
    """In the order of their names, or of their dates."""
    of: NDArray[np.int32]
    """The part of each document, `NO_PART` for none. Int32 array (documents,)."""


def day_of(value: str, where: str) -> tuple[int, int, int]:
    """Return the day that a date stands for: of a year, or a month, the first.

    Parameters
    ----------
    value : str
        A year, such as 1843, or a date such as 1843-12 or 1843-12-19.
    where : str
        What it is the date of, for the error.

    Raises
    ------
    ValueError
        If it is no date.

    Examples
    --------
    >>> from distembed.corpus.parts import day_of
    >>> day_of("1843-12", "the document carol")
    (1843, 12, 1)
    """
    found = DATE.fullmatch(value)
    parts = [int(part) if part else 1 for part in found.groups()] if found else []
    try:
        date(2000 if parts[0] % 4 == 0 else 2001, *parts[1:])
    except (ValueError, IndexError):
        raise ValueError(
            f"{where} has {value!r}, which is no date: write a year such as 1843, or a date such as 1843-12-19"
        ) from None
    return parts[0], parts[1], parts[2]


def parts_by_value(values: Sequence[str | None]) -> Parts:
    """Return a part for each value; documents without one are in no part.

    Examples
    --------
    >>> from distembed.corpus.parts import parts_by_value
    >>> parts = parts_by_value(["novel", "news", None, "novel"])
    >>> parts.names, parts.of.tolist()
    (('news', 'novel'), [1, 0, -1, 1])
    """
    names = tuple(sorted({value for value in values if value}))
    places = {name: place for place, name in enumerate(names)}
    return Parts(names, np.array([places.get(value or "", NO_PART) for value in values], np.int32))


def parts_by_date(values: Sequence[str | None], edges: Sequence[str], where: Sequence[str]) -> Parts:
    """Return a part for each two consecutive edges: documents from the first on, and before the second.

    One edge makes two parts, before and after it. Documents without a date, or with one outside of all bins, are in no
    part.

    Parameters
    ----------
    values : sequence of str or None
        The date of each document.
    edges : sequence of str
        Rising dates.
    where : sequence of str
        What each document is called in an error.

    Raises
    ------
    ValueError
        If a value or an edge is no date, or the edges do not rise.

    Examples
    --------
    >>> from distembed.corpus.parts import parts_by_date
    >>> parts = parts_by_date(["1843", "1851-06", None], ["1800", "1850", "1900"], ["a", "b", "c"])
    >>> parts.names, parts.of.tolist()
    (('1800-1849', '1850-1899'), [0, 1, -1])
    """
    bounds = [day_of(edge, "parts.bins") for edge in edges]
    for (first, second), (one, other) in zip(pairwise(bounds), pairwise(edges), strict=True):
        if first >= second:
            raise ValueError(f"parts.bins has {one} before {other}: give dates that rise, each once")
    days = [day_of(value, place) if value else None for value, place in zip(values, where, strict=True)]
    names = [f"before {edges[0]}", f"from {edges[0]} on"]
    if len(edges) > 1:
        names = [f"{first} to before {second}" for first, second in pairwise(edges)]
        for number, (begin, end) in enumerate(pairwise(map(str.strip, edges))):
            if begin.isdigit() and end.isdigit():
                names[number] = begin if int(end) == int(begin) + 1 else f"{begin}-{int(end) - 1}"
    rank = [NO_PART if day is None else bisect_right(bounds, day) for day in days]
    of = np.array(rank, np.int32)
    if len(edges) > 1:
        of[of >= 0] -= 1
        of[of == len(names)] = NO_PART
    return Parts(tuple(names), of)


def even_edges(values: Sequence[str | None], years: int, where: Sequence[str]) -> list[str]:
    """Return the edges of bins of so many years that hold all dates, the first a multiple of them.

    Examples
    --------
    >>> from distembed.corpus.parts import even_edges
    >>> even_edges(["1843", "1861", None], 10, ["a", "b", "c"])
    ['1840', '1850', '1860', '1870']
    """
    found = [day_of(value, place)[0] for value, place in zip(values, where, strict=True) if value]
    if not found:
        return []
    first, last = min(found) // years * years, max(found) // years * years + years
    return [str(year) for year in range(first, last + 1, years)]


def chosen_parts(parts: Parts, names: Sequence[str]) -> Parts:
    """Return some of the parts, in the order that they have; documents of the others are in no part.

    Raises
    ------
    ValueError
        If a name is none of a part, or comes twice.
    """
    if unknown := [name for name in names if name not in parts.names]:
        raise ValueError(
            f"parts.names has {unknown[0]!r}; the parts of the corpus are {', '.join(parts.names)}"
        )
    if twice := first_repeat(names):
        raise ValueError(f"parts.names has {twice[0]!r} twice: name each part once")
    kept = [place for place, name in enumerate(parts.names) if name in set(names)]
    renumbered = np.full(len(parts.names) + 1, NO_PART, np.int32)
    renumbered[kept] = np.arange(len(kept))
    return Parts(tuple(parts.names[place] for place in kept), renumbered[parts.of])


# --- groups ----------------------------------------------------------------------------------------------------


def deal_groups(
    parts: Parts, units: Sequence[str], n_groups: int, random_state: int
) -> tuple[NDArray[np.int32], list[int]]:
    """Deal the documents of each part into groups at random, those of one unit into the same.

    The chance depends on the names of the units alone, and not on their order.

    Parameters
    ----------
    parts : Parts
    units : sequence of str
        What is drawn as one: the id of each document, or its file.
    n_groups : int
        The groups of each part; fewer where it has fewer units.
    random_state : int
        Seed of the chance.

    Returns
    -------
    tuple
        The group of each document, int32 (documents,), those of the first part first and the last one that of the
        documents in no part; and the number of groups of each part.

    Raises
    ------
    ValueError
        If a part has no document, or one unit alone.

    Examples
    --------
    >>> from distembed.corpus.parts import deal_groups, parts_by_value
    >>> groups, sizes = deal_groups(parts_by_value(["a", "a", "b", "b", None]), list("pqrst"), 20, 0)
    >>> sizes, groups[4].item(), sorted(groups[:4].tolist())
    ([2, 2], 4, [0, 1, 2, 3])
    """
    names = np.asarray(units, object)
    groups, sizes = np.zeros(len(parts.of), np.int32), list[int]()
    for place, part in enumerate(parts.names):
        rows = np.flatnonzero(parts.of == place)
        if not rows.size:
            raise ValueError(
                f"the part {part!r} has no documents: give other bins, or leave it out of parts.names"
            )
        own = sorted(
            set(names[rows]),
            key=lambda name: (blake2b(f"{random_state}\0{name}".encode(), digest_size=8).digest(), name),
        )
        if len(own) == 1:
            raise ValueError(
                f"the part {part!r} has one document or file alone, {own[0]!r}, and no noise can be measured: join it "
                "with another part (wider bins), or leave it out of parts.names"
            )
        n = min(n_groups, len(own))
        group_of = {name: sum(sizes) + number % n for number, name in enumerate(own)}
        groups[rows] = [group_of[name] for name in names[rows]]
        sizes.append(n)
    groups[parts.of == NO_PART] = sum(sizes)
    return groups, sizes
