"""The HTML representation of objects in a notebook: a title and a small table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MAX_ROWS = 10
"""Rows of a table: enough to see what is there, whatever its size."""


def html_view(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], *, n_more: int = 0
) -> str:
    """Return a titled HTML table; every cell is escaped and isolated from the writing direction of its neighbors.

    `n_more` is the number of rows that are left out, which the last line gives.
    """
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(
        f"<tr>{''.join(f'<td><bdi>{escape(str(cell))}</bdi></td>' for cell in row)}</tr>" for row in rows
    )
    more = f"<p>and {n_more:,} more</p>" if n_more > 0 else ""
    return f"<p><b>{escape(title)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def first_words(words: Sequence[str], *, n: int = 3) -> str:
    """Return the first words as one line, quoted, with an ellipsis where there are more."""
    return ", ".join([*map(repr, words[:n]), *(["…"] if len(words) > n else [])])


def plural(n: int, noun: str) -> str:
    """Return a number with its noun: "1 word", "2 words"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def first_repeat(names: Iterable[str]) -> tuple[str, int, int] | None:
    """Return the first name that stands twice, and both of its places; None where all are different."""
    places: dict[str, int] = {}
    repeats = (
        (name, place, row) for row, name in enumerate(names) if (place := places.setdefault(name, row)) < row
    )
    return next(repeats, None)
