"""An explanation as text for a terminal, as JSON and as an HTML page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from distembed.corpus.concordance import Passage
from distembed.pipeline.explain.record import Explanation, Passages, TermTable
from distembed.pipeline.quantities import format_number, with_typeset_sign
from distembed.pipeline.report.page import Section, escaped, marked, paragraph, render_report
from distembed.pipeline.report.tables import table
from distembed.pipeline.terminal import shown

LEFT_TOKENS = 9
"""Tokens before the first word that is marked in a passage on a terminal."""


def as_text(explanation: Explanation) -> str:
    """Return an explanation as lines of text: sentences, aligned tables, passages with the words in brackets."""
    parts = [explanation.title, *explanation.sentences]
    for one in explanation.tables:
        parts += ["", f"{one.title}:", _aligned(one)]
    for group in explanation.passages:
        parts += ["", f"{group.title}:", *map(_line, group.lines)]
    return "\n".join(shown(line) for part in parts for line in part.split("\n"))


def as_json(explanation: Explanation) -> str:
    """Return an explanation as JSON: its numbers whole, its passages as lists of words."""
    record = {
        "title": explanation.title,
        "sentences": list(explanation.sentences),
        **explanation.facts,
        "tables": {one.title: [dict(row) for row in one.rows] for one in explanation.tables},
        "passages": {group.title: [p._asdict() for p in group.lines] for group in explanation.passages},
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def as_page(explanation: Explanation) -> str:
    """Return an explanation as one HTML page."""
    tables = [
        table(one.title, one.rows, caption=one.caption, formats=_formats(one)) for one in explanation.tables
    ]
    passages = [_passages_section(group) for group in explanation.passages]
    return render_report(explanation.title, " ".join(explanation.sentences), [*tables, *passages])


def _formats(one: TermTable) -> Mapping[str, Callable[[Any], str]]:
    return {column: partial(fixed, decimals=decimals) for column, decimals in one.decimals.items()}


def fixed(value: float, *, decimals: int) -> str:
    """Return a number with so many decimals and a typeset minus sign."""
    return with_typeset_sign(f"{value:.{decimals}f}")


def _aligned(one: TermTable) -> str:
    columns = list(dict.fromkeys(name for row in one.rows for name in row))
    formats = _formats(one)
    cells = [columns] + [[_cell(row.get(name), formats.get(name)) for name in columns] for row in one.rows]
    texts = [any(isinstance(row.get(name), str) for row in one.rows) for name in columns]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    return "\n".join(_justified(line, widths, texts) for line in cells)


def _justified(line: Sequence[str], widths: Sequence[int], texts: Sequence[bool]) -> str:
    """Return one line of a table, texts at the left of their columns and numbers at the right."""
    cells = (
        cell.ljust(width) if is_text else cell.rjust(width)
        for cell, width, is_text in zip(line, widths, texts, strict=True)
    )
    return "  " + "  ".join(cells).rstrip()


def _cell(value: Any, show: Callable[[Any], str] | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return shown(value)
    return (show or format_number)(value)


def _line(passage: Passage) -> str:
    """Return a passage as one line, the words that were looked for in brackets, with its document."""
    first = max(min(passage.marked, default=0) - LEFT_TOKENS, 0)
    words = (
        f"[{word}]" if place in passage.marked else word
        for place, word in enumerate(passage.words)
        if place >= first
    )
    return f"  {' '.join(words)}  ({passage.title or passage.document})"


def _passages_section(group: Passages) -> Section:
    lines = [
        f"<li>{' '.join(_word(passage, place) for place in range(len(passage.words)))} "
        f"<small>{escaped(passage.title or passage.document)}</small></li>"
        for passage in group.lines
    ]
    return Section(group.title, f"<ul>{''.join(lines)}</ul>" if lines else paragraph("No passage was found."))


def _word(passage: Passage, place: int) -> str:
    word = marked(passage.words[place])
    return f"<b>{word}</b>" if place in passage.marked else word
