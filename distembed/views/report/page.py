"""The elements of a report: sections, escaped text, colors for light and dark screens, and the page that joins them.

Figures stand on white on every screen. Their text stays text: it can be searched, in any script.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from distembed.corpus.concordance import Passage
from distembed.display import format_number
from distembed.dtypes import Float64s
from distembed.job.terminal import UNSAFE

DIRECTION_MARKS = "\u061c\u200e\u200f"
"""Parts of Arabic and Hebrew words: they reorder nothing outside the element that holds the word."""

LIGHT = {"ink": "#0b0b0b", "muted": "#5a5954", "rule": "#d9d8d0", "surface": "#fcfcfb", "link": "#2a78d6"}
DARK = {"ink": "#f4f3ef", "muted": "#b5b3aa", "rule": "#3b3a37", "surface": "#1a1a19", "link": "#5598e7"}
"""The colors of a page on light and on dark screens; figures have those of `LIGHT`, on white, on both."""


class Section(NamedTuple):
    """One titled part of a report; `html` is trusted markup, made by the builders of this module.

    One that `is_empty` has nothing to show but a note, and does not come first.
    """

    title: str
    html: str
    is_empty: bool = False


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


def paragraph(text: str) -> str:
    """Return a note as an HTML paragraph."""
    return f'<p class="note">{escaped(text)}</p>'


def note(title: str, text: str) -> Section:
    """Return a section that has nothing to show but a note."""
    return Section(title, paragraph(text), is_empty=True)


def folded(summary: str, html: str) -> str:
    """Return trusted markup that a reader unfolds by its summary, plain text."""
    return f"<details><summary>{escaped(summary)}</summary>\n{html}\n</details>"


def passage_item(passage: Passage) -> str:
    """Return a passage as an item of an HTML list, the words that were looked for in bold, with its document."""
    words = (
        f"<b>{marked(word)}</b>" if place in passage.marked else marked(word)
        for place, word in enumerate(passage.words)
    )
    return f"<li>{' '.join(words)} <small>{escaped(passage.title or passage.document)}</small></li>"


def finite_values(values: ArrayLike) -> Float64s:
    """Return the finite values of an array of any shape, float64."""
    array = np.asarray(values, dtype=np.float64).ravel()
    return array[np.isfinite(array)]


def is_number(value: object) -> bool:
    """Return whether a value is a number and no truth value."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(
        value, (bool, np.bool_)
    )


def group(title: str, sections: Iterable[Section]) -> Section:
    """Put several sections under one title; a part whose title differs keeps it as a subtitle."""
    every = list(sections)
    parts = [s.html if s.title == title else f"<h3>{escaped(s.title)}</h3>\n{s.html}" for s in every]
    html = "\n".join(parts) or paragraph("Nothing to show.")
    return Section(title, html, is_empty=all(s.is_empty for s in every))


def _variables(colors: Mapping[str, str]) -> str:
    return "".join(f"--{role}:{color};" for role, color in colors.items())


_CSS = f"""
:root{{color-scheme:light dark;{_variables(LIGHT)}}}
@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--surface);color:var(--ink);
 font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}}
main{{max-width:48.5rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}}
h1{{font-size:1.9rem;line-height:1.2;margin:0 0 .5rem;letter-spacing:-.01em}}
h2{{font-size:1.25rem;margin:0 0 .75rem;line-height:1.3}}
h3{{font-size:1rem;margin:1.75rem 0 .5rem}}
section{{border-top:1px solid var(--rule);margin-top:2.5rem;padding-top:1.5rem}}
.summary{{max-width:44rem;margin:0 0 1.25rem}}
.note,caption,figcaption{{color:var(--muted);font-size:.875rem}}
nav ul{{list-style:none;
 margin:1.25rem 0 0;padding:0;display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;font-size:.9rem}}
a{{color:var(--link);text-underline-offset:.2em}}
dl{{display:flex;flex-wrap:wrap;gap:1px;margin:1.25rem 0;background:var(--rule);border:1px solid var(--rule)}}
dl div{{background:var(--surface);padding:.6rem .85rem;flex:1 1 8.5rem}}
dt{{color:var(--muted);font-size:.8rem}}
dd{{margin:0;font-size:1.05rem;font-weight:600;overflow-wrap:anywhere}}
figure{{margin:0 0 1.5rem}}
figcaption{{margin-top:.5rem;max-width:46rem}}
.scroll{{overflow-x:auto}}
svg{{display:block;width:100%;min-width:28rem;max-width:42rem;height:auto}}
svg text{{white-space:pre;font-family:inherit!important;paint-order:stroke;stroke:#fff;stroke-width:2px}}
table{{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums lining-nums}}
caption{{caption-side:bottom;text-align:left;padding-top:.6rem}}
caption span{{display:block;max-width:min(46rem,calc(100vw - 2.5rem))}}
th,td{{padding:.35rem .9rem .35rem 0;text-align:left;vertical-align:baseline;
 border-bottom:1px solid var(--rule);
 overflow-wrap:break-word;max-width:26rem}}
thead th{{color:var(--muted);font-weight:500;font-size:.8rem;border-bottom-color:var(--muted)}}
tbody th{{font-weight:600;white-space:nowrap}}
.n{{text-align:right;white-space:nowrap;padding-right:1.1rem}}
.near{{max-width:none}}
.near span{{display:inline-block;margin-right:1rem}}
summary{{cursor:pointer;color:var(--link);margin:.75rem 0}}
code{{font-size:.95em;overflow-wrap:anywhere}}
small{{color:var(--muted);font-size:.8em}}
@media screen and (max-width:32rem){{
 svg{{min-width:0}}
 .folds,.folds tbody,.folds caption{{display:block}}
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
 figure,tr,dl{{break-inside:avoid}}h2,h3{{break-after:avoid}}.scroll{{overflow:visible}}
 svg{{min-width:0;max-width:30rem}}}}
""".strip()
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def render_report(
    title: str,
    summary: str,
    sections: Iterable[Section],
    *,
    facts: Mapping[str, Any] | None = None,
    invitation: str = "",
) -> str:
    """Bind sections into one self-contained HTML page.

    Parameters
    ----------
    title
        Title of the page, plain text.
    summary
        A paragraph below the title, plain text.
    sections
        Parts of the page, in order.
    facts
        A few key figures shown above the sections, name to number or text.
    invitation
        Trusted markup below the summary: where else to look.

    Returns
    -------
    str
        An HTML document. Equal input gives equal text.
    """
    parts = sorted(sections, key=lambda one: one.is_empty)
    links = "".join(f'<li><a href="#s{i}">{escaped(part.title)}</a></li>' for i, part in enumerate(parts, 1))
    body = "\n".join(
        f'<section id="s{i}">\n<h2>{escaped(part.title)}</h2>\n{part.html}\n</section>'
        for i, part in enumerate(parts, 1)
    )
    figures = "".join(
        f"<div><dt>{escaped(name)}</dt><dd>{escaped(format_number(fact) if is_number(fact) else fact)}</dd></div>"
        for name, fact in (facts or {}).items()
    )
    contents = f'<nav aria-label="Contents"><ul>{links}</ul></nav>' if len(parts) > 1 else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escaped(title)}</title>
<style>
{_CSS}
</style>
</head>
<body>
<main>
<header>
<h1>{escaped(title)}</h1>
<p class="summary">{escaped(summary)}</p>
{invitation}
{f"<dl>{figures}</dl>" if figures else ""}
{contents}
</header>
{body}
</main>
</body>
</html>
"""
