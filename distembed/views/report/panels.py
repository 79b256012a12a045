"""Small charts side by side: values with their intervals, a panel for each group, all on one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from distembed.display import format_number
from distembed.views.report.figures import COLORS, INK, MUTED, WIDE, Drawing, Interval, figure_section
from distembed.views.report.page import Section, short

PANELS_ACROSS = 3
"""Panels side by side."""

TITLE_CHARACTERS = 34


def panel_chart(
    panels: Mapping[str, Sequence[Interval]], title: str, *, xlabel: str, caption: str = ""
) -> Section:
    """Draw points with their intervals, a line for each and a panel for each group."""
    across = max(1, min(PANELS_ACROSS, len(panels)))
    down = -(-len(panels) // across)
    ends = [interval.ends or (interval.value,) * 2 for panel in panels.values() for interval in panel]
    largest = max((end for _, end in ends), default=1.0) or 1.0
    lines = max((len(panel) for panel in panels.values()), default=1)

    def draw(axes: Any) -> None:
        figure = axes.figure
        axes.remove()
        places = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
        for number, (place, (name, panel)) in enumerate(zip(places, panels.items(), strict=False)):
            _panel(place, name, panel, largest, COLORS[number % len(COLORS)])
        for place in places[len(panels) :]:
            place.set_axis_off()

    spoken = "; ".join(
        f"{name}: {', '.join(f'{one.name} {format_number(one.value)}' for one in panel)}"
        for name, panel in panels.items()
    )
    drawing = Drawing(draw, (WIDE[0] * across / 2, (0.7 + 0.2 * lines) * down))
    return figure_section(title, drawing, said=f"{xlabel}. {spoken}", caption=caption)


def _panel(axes: Any, title: str, panel: Sequence[Interval], largest: float, color: str) -> None:
    for height, interval in enumerate(panel):
        if interval.ends is not None:
            axes.plot(interval.ends, (height, height), color=color, linewidth=2, alpha=0.5)
    filled = [color if interval.ends is not None else MUTED for interval in panel]
    axes.scatter([interval.value for interval in panel], range(len(panel)), s=16, c=filled, zorder=3)
    axes.set_yticks(range(len(panel)), [short(interval.name) for interval in panel], color=INK)
    axes.set(xlim=(0, 1.05 * largest), ylim=(len(panel) - 0.5, -0.5))
    axes.set_title(short(title, TITLE_CHARACTERS), fontsize="medium")
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=4)
