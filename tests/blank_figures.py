"""Figures of reports that are laid out and not drawn: of a small job, drawing them takes as long as a stage.

Each of some 200 tests runs a job to its end for what its stages make, and the report comes with it. Tests of what a
figure shows ask for the fixture `drawn_figures`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from matplotlib.backends.backend_svg import FigureCanvasSVG

DRAW = FigureCanvasSVG.print_svg


def _leave_blank(_canvas: FigureCanvasSVG, file: Any, **_options: Any) -> None:
    file.write('<svg viewBox="0 0 1 1"></svg>')


def leave_figures_blank() -> None:
    """Let a process write an empty SVG in place of each figure."""
    FigureCanvasSVG.print_svg = _leave_blank


@contextmanager
def drawn() -> Iterator[None]:
    """Draw the figures inside the block."""
    FigureCanvasSVG.print_svg = DRAW
    try:
        yield
    finally:
        leave_figures_blank()
