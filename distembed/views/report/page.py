"""The parts of a report, which are data until the page is written: sections, tables, passages, notes, escaped text.

A page has the colors of light and dark screens, and needs no network and no script: styles and figures are inline, and
a content security policy says so to the browser. Equal parts give equal bytes, so that a report can be compared and
cached like any other output of a job. Figures are drawn by `distembed.views.report.figures`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from distembed.corpus.concordance import Passage
from distembed.display import aligned, fixed, format_number, plural
from distembed.dtypes import Float64s
from distembed.job.terminal import UNSAFE, shown

DIRECTION_MARKS = "\u061c\u200e\u200f"
"""Parts of Arabic and Hebrew words: they reorder nothing outside the element that holds the word."""

LIGHT = {"ink": "#0b0b0b", "muted": "#5a5954", "rule": "#d9d8d0", "surface": "#fcfcfb", "link": "#2a78d6"}
DARK = {"ink": "#f4f3ef", "muted": "#b5b3aa", "rule": "#3b3a37", "surface": "#1a1a19", "link": "#5598e7"}
"""The colors of a page on light and on dark screens; figures have those of `LIGHT`, on white, on both."""


def printable(text: object) -> str:
    """Replace what HTML and XML may not hold, and what reorders text: control and bidirectional characters."""
    return UNSAFE.sub(lambda found: found[0] if found[0] in DIRECTION_MARKS else "�", str(text))


def escaped(value: object) -> str:
    """Return a value as text that HTML may hold."""
    return escape(printable(value))


def marked(word: object) -> str:
    """Mark up a word of the data: kept apart from the text around it, whatever its writing direction."""
    pieces = re.findall(
        r"\S{1,32}|\s+", printable(word)
    )  # a very long word may break, between any 32 characters
    return f'<bdi translate="no">{"<wbr>".join(map(escape, pieces))}</bdi>'


_MAX_LABEL = 22  # characters of a word on a figure


def short(word: object, limit: int = _MAX_LABEL) -> str:
    """Return a text cut to at most `limit` characters."""
    text = printable(word)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def finite_values(values: ArrayLike) -> Float64s:
    """Return the finite values of an array of any shape, float64."""
    array = np.asarray(values, dtype=np.float64).ravel()
    return array[np.isfinite(array)]


def is_number(value: object) -> bool:
    """Return whether a value is a number and no truth value."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(
        value, (bool, np.bool_)
    )


class Part(Protocol):
    """A part of a report. One that `is_empty` has nothing to show but a note, and does not come first."""

    @property
    def title(self) -> str:
        """Its title, plain text; "" for that of the section that it stands in."""

    @property
    def is_empty(self) -> bool:
        """Whether it has nothing to show."""

    def html(self, title: str) -> str:
        """Return it as markup; `title` is its own, or that of the section that it stands in."""


class Note(NamedTuple):
    """A sentence; by default one that says what there is not to show."""

    title: str
    text: str
    is_empty: bool = True

    def html(self, title: str = "") -> str:  # noqa: ARG002 - that of every part
        """Return the note as a paragraph."""
        return f'<p class="note">{escaped(self.text)}</p>'


class Section(NamedTuple):
    """Parts under one title; a part with a title of its own keeps it as a subtitle."""

    title: str
    parts: Sequence[Part]

    @property
    def is_empty(self) -> bool:
        """Whether none of its parts has anything to show."""
        return all(part.is_empty for part in self.parts)

    def html(self, title: str) -> str:
        """Return the parts, one below the other, or beside each other where a screen has room for two."""
        every = ""
        for part in self.parts:
            subtitle = f"<h3>{escaped(part.title)}</h3>\n" if part.title not in ("", title) else ""
            every += f"<div>{subtitle}{part.html(part.title or title)}</div>\n"
        return f'<div class="parts">{every}</div>' if every else Note("", "Nothing to show.").html()


class Fold(NamedTuple):
    """A part that a reader unfolds by its summary, plain text."""

    summary: str
    part: Part
    title: str = ""
    is_empty: bool = False

    def html(self, title: str) -> str:
        """Return the part behind its summary."""
        inside = self.part.html(title)
        return f"<details><summary>{escaped(self.summary)}</summary>\n{inside}\n</details>"


class Passages(NamedTuple):
    """Passages of the corpus under a heading: the words that were looked for in bold, each with its document."""

    title: str
    lines: Sequence[Passage]
    is_empty: bool = False

    def html(self, title: str) -> str:  # noqa: ARG002 - that of every part
        """Return the passages as a list."""
        items = ""
        for one in self.lines:
            words = [f"<b>{marked(w)}</b>" if i in one.marked else marked(w) for i, w in enumerate(one.words)]
            items += f"<li>{' '.join(words)} <small>{escaped(one.title or one.document)}</small></li>"
        return f"<ul>{items}</ul>" if items else Note("", "No passage was found.").html()


WIDE_TEXT = 24
"""Characters of a text that has a line of its own, under the other cells of its row, on a narrow screen."""


MOST_COLUMNS = 6
"""Columns of short cells that stand beside each other on a narrow screen; of more, the first has a line of its own."""


class ShownTable(NamedTuple):
    """Rows of a report, or of what a command answers.

    Attributes
    ----------
    title : str
    rows : sequence of mappings
        Column to value, in order of first appearance; underscores in a name become spaces. None and NaN are an en dash,
        a pair of numbers is an interval, and a list has words, or words with their cosine.
    formats : mapping of column to int or function
        The decimals that a column of fractions is written with, or what writes its numbers as text.
    caption : str
        What the rows are, and the units of the columns.
    n_shown : int
        The rows that are not folded.
    """

    title: str
    rows: Sequence[Mapping[str, Any]]
    formats: Mapping[str, int | Callable[[Any], str]] = MappingProxyType({})
    caption: str = ""
    n_shown: int = sys.maxsize

    @property
    def is_empty(self) -> bool:
        """Whether it has no row."""
        return not self.rows

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The values of each column, None where a row has none."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return {name: [row.get(name) for row in self.rows] for name in names}

    def show(self, column: str) -> Callable[[Any], str]:
        """Return what writes the numbers of a column as text."""
        how = self.formats.get(column, format_number)
        return how if callable(how) else partial(fixed, decimals=how)

    def text(self) -> str:
        """Return the table for a terminal: its title, aligned lines, and its caption; "" where it has no row."""
        heading = [f"{self.title}:"] if self.title else []
        return "\n".join([*heading, *self.lines(), *filter(None, [self.caption])]) if self.rows else ""

    def lines(self) -> list[str]:
        """Return the rows as aligned lines of text, below the names of their columns."""
        cells, is_text = list[list[str]](), list[bool]()
        for name, column in self.columns.items():
            cells.append([shown(name), *(shown(cell_text(cell, self.show(name))) for cell in column)])
            is_text.append(any(isinstance(cell, (str, list)) for cell in column))
        return aligned(list(zip(*cells, strict=True)), is_text)

    def html(self, title: str) -> str:
        """Return the table, whose long texts have a line of their own on a narrow screen."""
        if not self.rows:
            return Note("", "No rows.").html()
        if len(self.rows) > self.n_shown:
            first, rest = (
                self._replace(rows=rows, n_shown=sys.maxsize)
                for rows in (self.rows[: self.n_shown], self.rows[self.n_shown :])
            )
            more = Fold(f"{plural(len(rest.rows), 'row')} more", rest)
            return f"{first.html(title)}\n{more.html(title)}"
        columns = self.columns
        wide = {name for name, values in columns.items() if any(map(_is_wide, values))}
        if len(wide) == len(columns):  # not where they are all of a table
            wide = set()
        elif not wide and len(columns) > MOST_COLUMNS:
            wide = {next(iter(columns))}
        heads, cells = "", []
        for name, values in columns.items():
            near = "near " if any(isinstance(value, list) for value in values) else ""
            kind = near + ("w" if name in wide else "n" if any(map(_is_figure, values)) else "")
            label, show = escaped(name.replace("_", " ")), self.show(name)
            heads += f'<th scope="col" class="{kind}">{label}</th>'
            above = f' data-l="{label}"' if wide else ""  # a narrow screen shows the label above the value
            cells.append([f'<td class="{kind}"{above}>{_cell(value, show)}</td>' for value in values])
        body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
        folds = ' class="folds"' if wide else ""
        legend = f"<caption><span>{escaped(self.caption)}</span></caption>" if self.caption else ""
        return (
            f'<div class="scroll" tabindex="0"><table{folds}>{legend}<thead><tr>{heads}</tr></thead>\n'
            f"<tbody>{body}</tbody></table></div>"
        )


def _is_wide(value: object) -> bool:
    return isinstance(value, list) or (isinstance(value, str) and len(value) > WIDE_TEXT)


def _is_figure(value: object) -> bool:
    return isinstance(value, tuple) or is_number(value)


def cell_text(value: Any, show: Callable[[Any], str]) -> str:
    """Return a value as text: a number as `show` writes it, an interval in brackets, a list by commas."""
    if isinstance(value, list):
        return (
            ", ".join(f"{one[0]} {fixed(one[1])}" if isinstance(one, tuple) else str(one) for one in value)
            or "–"
        )
    if isinstance(value, tuple):
        ends = list(map(show, value))
        return "–" if set(ends) == {"–"} else f"[{', '.join(ends)}]"
    return "–" if value is None else show(value) if is_number(value) else str(value)


def _cell(value: Any, show: Callable[[Any], str]) -> str:
    """Return the markup of a value."""
    if isinstance(value, list) and value:
        return "".join(map(_near, value))
    is_plain = value is None or isinstance(value, (list, tuple)) or is_number(value)
    return escape(cell_text(value, show)) if is_plain else marked(value)


def _near(one: object) -> str:
    """Return a word of a list, or a word with its cosine."""
    if not isinstance(one, tuple):
        return f"<span>{marked(one)}</span>"
    return f"<span>{marked(one[0])} <small>{fixed(float(one[1]))}</small></span>"


def _variables(colors: Mapping[str, str]) -> str:
    return "".join(f"--{role}:{color};" for role, color in colors.items())


_CSS = f"""
:root{{color-scheme:light dark;{_variables(LIGHT)}}}
@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--surface);color:var(--ink);overflow-wrap:anywhere;
 font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}}
main{{max-width:71rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}}
h1{{font-size:1.9rem;line-height:1.2;margin:0 0 .5rem;letter-spacing:-.01em}}
h2{{font-size:1.25rem;margin:0 0 .75rem;line-height:1.3}}
h3{{font-size:1rem;margin:1.75rem 0 .5rem}}
section{{border-top:1px solid var(--rule);margin-top:2.5rem;padding-top:1.5rem}}
.summary{{max-width:44rem;margin:0 0 1.25rem}}
.note,caption,figcaption{{color:var(--muted);font-size:.875rem;white-space:pre-line}}
nav ul{{list-style:none;
 margin:1.25rem 0 0;padding:0;display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;font-size:.9rem}}
a{{color:var(--link);text-underline-offset:.2em}}
dl{{display:flex;flex-wrap:wrap;gap:1px;margin:1.25rem 0;background:var(--rule);border:1px solid var(--rule)}}
dl div{{background:var(--surface);padding:.6rem .85rem;flex:1 1 max-content;min-width:8.5rem;max-width:100%}}
dt{{color:var(--muted);font-size:.8rem}}
dd{{margin:0;font-size:1.05rem;font-weight:600}}
.parts{{display:flex;flex-wrap:wrap;gap:0 2.5rem}}
.parts>div{{flex:1 1 100%;min-width:0}}
.parts>div:has(>figure,>ul){{flex:1 1 28rem}}
.parts>div:has(>.scroll){{flex:0 1 auto;max-width:100%}}
figure{{margin:0 0 1.5rem;display:flex;flex-wrap:wrap;align-items:start;gap:.5rem 2rem}}
figure>.scroll{{flex:1 1 28rem;min-width:0;max-width:42rem}}
figcaption{{flex:1 1 14rem;max-width:46rem}}
.scroll{{overflow-x:auto}}
svg{{display:block;width:100%;max-width:42rem;height:auto}}
svg text{{white-space:pre;font-family:inherit!important;paint-order:stroke;stroke:#fff;stroke-width:2px}}
table{{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums lining-nums}}
caption{{caption-side:bottom;text-align:left;padding-top:.6rem}}
caption span{{display:block;max-width:min(46rem,calc(100vw - 2.5rem))}}
th,td{{padding:.35rem .9rem .35rem 0;text-align:left;vertical-align:baseline;
 border-bottom:1px solid var(--rule);
 overflow-wrap:break-word;max-width:26rem}}
thead th{{color:var(--muted);font-weight:500;font-size:.8rem;border-bottom-color:var(--muted)}}
.n{{text-align:right;white-space:nowrap;padding-right:1.1rem}}
th.n{{white-space:normal}}
.w,.near{{max-width:none}}
tr:has(>.near)>:first-child{{font-weight:600}}
.near span{{display:inline-block;margin-right:1rem}}
summary{{cursor:pointer;color:var(--link);margin:.75rem 0}}
code{{font-size:.95em}}
small{{color:var(--muted);font-size:.8em}}
@media screen and (max-width:32rem){{
 table{{font-size:.8rem}}
 th,td{{padding-right:.5rem}}
 .folds{{display:flex;flex-direction:column}}
 .folds tbody,.folds caption{{display:block}}
 .folds caption{{order:1}}
 .folds tr{{display:grid;grid-template-columns:repeat(auto-fit,minmax(6rem,1fr));align-items:end;
  border-bottom:1px solid var(--rule)}}
 .folds th,.folds td{{border-bottom:0;max-width:none}}
 .folds .w{{grid-column:1/-1;order:1;padding-top:0;white-space:normal}}
 .folds .w:first-child{{order:-1;font-weight:600;padding:.35rem 0 0}}
 .folds thead{{display:none}}
 .folds td[data-l]:not(.w:first-child)::before{{content:attr(data-l);display:block;color:var(--muted);font-size:.75rem;
  white-space:normal}}
 .folds .n{{text-align:left}}}}
@media print{{:root{{--surface:#fff}}
 body{{font-size:10.5pt}}main{{max-width:none;padding:0}}nav{{display:none}}
 .parts,figure{{display:block}}figure,tr,dl{{break-inside:avoid}}h2,h3{{break-after:avoid}}.scroll{{overflow:visible}}
 svg{{max-width:30rem}}}}
""".strip()
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


class Page(NamedTuple):
    """A report.

    Attributes
    ----------
    title : str
    summary : str
        A paragraph below the title.
    sections : sequence of parts
        In order; those with nothing to show come last.
    facts : mapping of str to number or text
        A few key figures shown above the sections.
    explorer : str
        The command that makes the page to explore, if any.
    closing : str
        The last lines of a run that draws the report.
    """

    title: str
    summary: str
    sections: Sequence[Part]
    facts: Mapping[str, Any] = MappingProxyType({})
    explorer: str = ""
    closing: str = ""

    def html(self) -> str:
        """Return the report as one self-contained HTML page; equal parts give equal text."""
        parts = sorted(self.sections, key=lambda one: one.is_empty)
        links = "".join(
            f'<li><a href="#s{i}">{escaped(one.title)}</a></li>' for i, one in enumerate(parts, 1)
        )
        body = "\n".join(
            f'<section id="s{i}">\n<h2>{escaped(one.title)}</h2>\n{one.html(one.title)}\n</section>'
            for i, one in enumerate(parts, 1)
        )
        facts = "".join(
            f"<div><dt>{escaped(name)}</dt><dd>{escaped(format_number(fact) if is_number(fact) else fact)}</dd></div>"
            for name, fact in self.facts.items()
        )
        explorer = f"A map with search and neighbors: <code>{escaped(self.explorer)}</code>"
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escaped(self.title)}</title>
<style>
{_CSS}
</style>
</head>
<body>
<main>
<header>
<h1>{escaped(self.title)}</h1>
<p class="summary">{escaped(self.summary)}</p>
{f'<p class="explore note">{explorer}</p>' if self.explorer else ""}
{f"<dl>{facts}</dl>" if facts else ""}
{f'<nav aria-label="Contents"><ul>{links}</ul></nav>' if len(parts) > 1 else ""}
</header>
{body}
</main>
</body>
</html>
"""
