"""Tables of a report: rows of any columns, evaluation scores, nearest words."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple, TypeAlias

from distembed.display import plural
from distembed.evaluation.scoring import FEW_KNOWN
from distembed.pipeline.quantities import format_number
from distembed.pipeline.report.page import (
    Section,
    escaped,
    folded,
    group,
    is_number,
    marked,
    paragraph,
    printable,
    short,
)

Row: TypeAlias = "Mapping[str, Any] | NamedTuple"


def as_mapping(row: Row) -> Mapping[str, Any]:
    """Return a row of a table as a mapping of column to value."""
    return row if isinstance(row, Mapping) else row._asdict()


def _interval(ends: Iterable[float], show: Callable[[Any], str]) -> str:
    shown = [escape(show(end)) for end in ends]
    return "–" if set(shown) == {"–"} else f"[{', '.join(shown)}]"


def _is_pair(value: object) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(map(is_number, value))


def _cell(value: Any, show: Callable[[Any], str] | None, *, wide: bool) -> str:
    """Write one cell; None and NaN are an en dash, pairs are intervals, numbers keep to the right."""
    is_figure = value is None or is_number(value) or _is_pair(value)
    kind = ' class="w"' if wide else ' class="n"' if is_figure else ""
    if value is None:
        text = "–"
    elif _is_pair(value):
        text = _interval(value, show or format_number)
    elif show or is_number(value):
        text = escape(printable((show or format_number)(value)))
    else:
        text = marked(value)
    return f"<td{kind}>{text}</td>"


WIDE_TEXT = 24
"""Characters of a text that has a line of its own, under the other cells of its row, on a narrow screen."""


def _wide_columns(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> set[str]:
    """Return the columns of long texts, none where they are all or nothing of a table."""
    wide = {
        name
        for name in columns
        if any(isinstance(row.get(name), str) and len(row[name]) > WIDE_TEXT for row in rows)
    }
    return wide if len(wide) < len(columns) else set()


def _table(
    rows: Sequence[Mapping[str, Any]], caption: str, formats: Mapping[str, Callable[[Any], str]]
) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    numeric = {
        name for name in columns if any(is_number(row.get(name)) or _is_pair(row.get(name)) for row in rows)
    }
    wide = _wide_columns(rows, columns)
    kinds = {name: " class=w" if name in wide else " class=n" if name in numeric else "" for name in columns}
    head = "".join(f'<th scope="col"{kinds[name]}>{escaped(name.replace("_", " "))}</th>' for name in columns)
    body = "\n".join(
        f"<tr>{''.join(_cell(row.get(name), formats.get(name), wide=name in wide) for name in columns)}</tr>"
        for row in rows
    )
    legend = f"<caption><span>{escaped(caption)}</span></caption>" if caption else ""
    return (
        f'<div class="scroll" tabindex="0"><table{_folding(wide, columns)}>{legend}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def _folding(wide: Collection[str], columns: Sequence[str]) -> str:
    """Return the attributes of a table whose long texts have a line of their own on a narrow screen."""
    return f' class="folds" style="--n:{len(columns) - len(wide)}"' if wide else ""


def table(
    title: str,
    rows: Iterable[Row],
    *,
    caption: str = "",
    formats: Mapping[str, Callable[[Any], str]] | None = None,
) -> Section:
    """Show rows as a table whose columns are their keys, in order of first appearance.

    Parameters
    ----------
    title
        Title of the section.
    rows
        Mappings or named tuples. Underscores in a key become spaces, None and NaN an en dash, a pair of
        numbers an interval.
    caption
        What the rows are, and the units of the columns.
    formats
        For some columns, the function that writes a value as text.
    """
    mappings = [as_mapping(row) for row in rows]
    html = _table(mappings, caption, formats or {}) if mappings else paragraph("No rows.")
    return Section(title, html)


def first_rows(
    rows: Sequence[Any], make: Callable[[Sequence[Any]], Section], *, n_shown: int = 10
) -> Section:
    """Show the first of many rows, and fold the others behind them.

    Parameters
    ----------
    rows
        What the lines of a table are made from.
    make
        Makes the table of some of them.
    n_shown
        Rows shown at once.
    """
    first = make(rows[:n_shown])
    if len(rows) <= n_shown:
        return first
    rest = folded(f"{plural(len(rows) - n_shown, 'row')} more", make(rows[n_shown:]).html)
    return group(first.title, [first, Section(first.title, rest)])


def three_decimals(value: float) -> str:
    """Return a number with three decimals and a typeset minus sign, an en dash for NaN."""
    return "–" if not math.isfinite(value) else f"{value:.3f}".replace("-", "−")


def score_table(scores: Iterable[Row], *, title: str = "Evaluation") -> Section:
    """Show evaluation scores, one row per set: set, task, metric, score, known, total, policy, interval."""
    rows = [dict(as_mapping(score)) for score in scores]
    caption = f"Known: items whose words all have vectors, of the total. {FEW_KNOWN}"
    formats = {"value": three_decimals, "score": three_decimals, "interval": three_decimals}
    return table(title, rows, caption=caption, formats=formats)


def neighbor_table(
    neighbors: Mapping[str, Sequence[tuple[str, float]]],
    *,
    title: str = "Nearest words",
    measure: str = "cosine",
) -> Section:
    """Show the nearest words of each word with their similarity, nearest first."""
    if not neighbors:
        return Section(title, paragraph("No words were asked for."))
    body = "\n".join(
        f'<tr><th scope="row">{marked(short(word))}</th><td class="near">{_nearest(near)}</td></tr>'
        for word, near in neighbors.items()
    )
    said = f"Nearest first; the figure is the {escape(measure)} to the word at the left."
    caption = f"<caption><span>{said}</span></caption>"
    rows = f'<table class="folds" style="--n:1">{caption}<tbody>{body}</tbody></table>'
    return Section(title, f'<div class="scroll" tabindex="0">{rows}</div>')


def _nearest(near: Sequence[tuple[str, float]]) -> str:
    pairs = (
        f"<span>{marked(word)} <small>{three_decimals(float(score))}</small></span>" for word, score in near
    )
    return " ".join(pairs) or "–"
