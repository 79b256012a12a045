"""What people read: numbers, bytes, seconds and lists as text, and objects in a notebook as a small table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

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


def format_number(value: float) -> str:
    """Write a number for reading: whole numbers grouped by thousands, others to four significant digits."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}".replace("-", "−")
    return with_typeset_sign(f"{value:,.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value:.4g}")


def format_bytes(n_bytes: float) -> str:
    """Write a number of bytes in the binary unit that leaves one to four digits before the point."""
    if not math.isfinite(n_bytes):
        return "–"
    power = min(int(math.log2(abs(n_bytes)) // 10), 6) if abs(n_bytes) >= 1 else 0
    unit = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")[power]
    return f"{n_bytes / 1024**power:.{1 if power else 0}f} {unit}"


def format_size(n_bytes: int) -> str:
    """Write a number of bytes without loss as a job file takes it: `64MiB`, or plain digits."""
    units = (("GiB", 30), ("MiB", 20), ("KiB", 10))
    return next(
        (f"{n_bytes >> power}{unit}" for unit, power in units if n_bytes % (1 << power) == 0), str(n_bytes)
    )


def measured(facts: Mapping[str, Any], name: str) -> float | None:
    """Return a number that a stage recorded; None where its record has none: another program may have written it."""
    value = facts.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def format_seconds(seconds: float) -> str:
    """Write a duration as seconds, minutes or hours."""
    if not math.isfinite(seconds):
        return "–"
    if round(seconds, 1) < 60:
        return f"{seconds:.{2 if seconds < 10 else 1}f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{round(whole / 60) // 60:,} h {round(whole / 60) % 60:02d} min"


def fixed(value: float, decimals: int = 3) -> str:
    """Return a number with so many decimals and a typeset minus sign, an en dash for one that is not finite."""
    return with_typeset_sign(f"{value:.{decimals}f}") if math.isfinite(value) else "–"


def aligned(rows: Sequence[Sequence[str]], is_text: Sequence[bool]) -> list[str]:
    """Return rows of text as lines: texts stand at the left of their columns, and numbers at the right."""
    sides = [str.ljust if one else str.rjust for one in is_text]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = (
        [side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)] for row in rows
    )
    return ["  ".join(row).rstrip() for row in cells]


def with_typeset_sign(number: str) -> str:
    """Write a number's signs as a reader expects them: a true minus, no padded exponent."""
    return number.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e").replace("-", "−")
