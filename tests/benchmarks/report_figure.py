"""Take a figure out of a report, as an SVG file for a page of the documentation.

``python -m tests.benchmarks.report_figure WORKSPACE TITLE FILE.svg`` writes the figure below the heading TITLE of the
workspace's report in its light colors, which stand on the light and on the dark theme of the site on a light ground.
"""

from __future__ import annotations

import re
import sys
from html import unescape
from pathlib import Path

from distembed.views.report.page import THEME
from tests.benchmarks.measures import run_main

_FIGURE = re.compile(r"<h[23][^>]*>([^<]*)</h[23]>(?:(?!<h[23]).)*?(<svg role=.*?</svg>)", re.DOTALL)


def figures_of(page: str) -> dict[str, str]:
    """Return the first figure below each heading of a report, by the text of the heading."""
    return {unescape(title): svg for title, svg in reversed(_FIGURE.findall(page))}


def standalone(svg: str) -> str:
    """Return the figure of a page as a document of its own, with the colors and the font that the page gave it."""
    for role, (light, _) in THEME.items():
        svg = svg.replace(f"var(--{role})", light)
    frame = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" font-family="sans-serif"'
    ground = f'<rect width="100%" height="100%" fill="{THEME["surface"][0]}"/>'
    svg = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", svg)
    svg = re.sub(r">\s+<", "><", re.sub(r"\bf[0-9a-f]{12}-", "", svg))  # the ids need not be unique on a page
    return re.sub(r"<svg ([^>]*)>", rf"<svg {frame} \1>{ground}", svg, count=1) + "\n"


def main(workspace: Path, title: str, target: Path) -> None:
    figures = figures_of((workspace / "report/index.html").read_text(encoding="utf-8"))
    if title not in figures:
        sys.exit(f"{workspace} has no figure {title!r}: its figures are {', '.join(figures)}")
    target.write_text(standalone(figures[title]), encoding="utf-8")


if __name__ == "__main__":
    run_main(main)
