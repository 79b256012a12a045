"""Figures of a report: lines, histograms and bars, drawn by Matplotlib as SVG of the page, or into files."""

from __future__ import annotations

import io
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.ticker import FuncFormatter, NullLocator
from numpy.typing import ArrayLike

from distembed.display import format_number, plural, with_typeset_sign
from distembed.dtypes import Float64s, Int64s
from distembed.formats.streams import writing
from distembed.views.report.page import (
    LIGHT,
    Section,
    escaped,
    finite_values,
    note,
    printable,
    short,
)

Scale = Literal["linear", "log"]
FigureFormat = Literal["svg", "pdf", "png"]


INK, MUTED, RULE = (LIGHT[role] for role in ("ink", "muted", "rule"))
COLORS = ["#2a78d6", "#eb6834", "#1baf7a", "#4a3aa7", "#eda100", "#e34948", "#008300", "#e87ba4"]
"""Hues that stay distinguishable, in this order, with the common color-vision deficiencies."""
SHAPES = "osD^vPX*<"
"""Of the dots of groups: one more than colors, so that no two groups of a chart look the same."""
WIDE = (6.4, 3.7)  # inches; 1 inch is 72 units of the SVG's own coordinates
FONT_SIZE = 10.0
_MAX_POINTS = 400  # drawn per curve: more than the pixels of a screen tell apart
_MAX_MARKERS = 40  # longer lines are drawn without a marker at each value
_MAX_BAR = 44  # characters of the name of a bar
_MAX_KEY = 32  # characters of a name in the key of a line chart
_MAX_INNER_KEY = 4  # lines of a key inside the axes; a longer one stands below them
_NO_METADATA: dict[str, dict[str, None]] = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "pdf": dict.fromkeys(("CreationDate", "ModDate", "Creator", "Producer")),
    "png": {"Software": None},
}
"""What Matplotlib writes into each format unasked: dates, and the version of the program."""
_ORIGIN = {"svg": "Description", "pdf": "Subject", "png": "Description"}
"""What each format calls a sentence on what a figure was made from."""
_FONT = "DejaVu Sans"  # comes with Matplotlib: Latin, Greek, Cyrillic, and more
_OTHER_SCRIPTS = ("Noto Sans", "Source Han Sans", "WenQuanYi", "IPA", "Droid Sans Fallback")
"""How the names of fonts begin that have the characters which the first one lacks."""
_STYLE = {
    "pdf.fonttype": 42,  # fonts that other programs can edit and journals accept
    "svg.fonttype": "none",
    "font.sans-serif": [_FONT],
    "font.size": FONT_SIZE,
    "axes.titlesize": FONT_SIZE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": RULE,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "xtick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.color": RULE,
    "ytick.labelcolor": MUTED,
    "text.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "text.parse_math": False,
}


NO_VALUE = "Nothing to draw: there is no finite value that these axes can show."

PANELS_ACROSS = 3
"""Panels side by side."""

TITLE_CHARACTERS = 34


Layout = Literal["constrained"] | None
"""None: the axes fill the figure."""

_SAVE: ContextVar[Callable[..., None] | None] = ContextVar("save", default=None)
"""What takes the title, the function that draws on fresh axes, the size in inches and the layout of each figure of a
page while `figures_saved` lasts."""


@contextmanager
def _drawn(
    draw: Callable[[Any], None], size: tuple[float, float], layout: Layout, form: FigureFormat, *, salt: str
) -> Iterator[Figure]:
    """Yield a figure in the style of the house, whatever the user's settings are; ids depend on the salt alone."""
    families: set[str] = set()  # Matplotlib takes each character from the first font that has it
    if form != "svg":
        families = {font.name for font in fontManager.ttflist if font.name.startswith(_OTHER_SCRIPTS)}
    style = {"font.family": ["sans-serif", *sorted(families)], "svg.hashsalt": salt}
    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE, **style}), warnings.catch_warnings():
        if form == "svg":
            warnings.filterwarnings("ignore", message="Glyph .* missing")  # its reader has the fonts
        figure = Figure(figsize=size, layout=layout)
        draw(figure.add_subplot() if layout else figure.add_axes((0, 0, 1, 1)))
        yield figure


def figure_section(
    title: str, draw: Callable[[Any], None], *, said: str, caption: str, size: tuple[float, float] = WIDE,
    layout: Layout = "constrained",
) -> Section:  # fmt: skip
    """Return a section with a figure, as SVG, and its caption; `said` is read aloud in its place."""
    if save := _SAVE.get():
        save(title, draw, size, layout)
    alt = f"{title}. {said}"
    salt = sha256(f"{alt}\0{caption}".encode("utf-8", "replace")).hexdigest()[:12]
    buffer = io.StringIO()
    with _drawn(draw, size, layout, "svg", salt=salt) as figure:
        # `savefig` draws twice: the first time only for the layout, which the second finds by itself.
        figure.set_dpi(160)
        FigureCanvasSVG(figure).print_svg(buffer, metadata=_NO_METADATA["svg"])
    # Without the head of a file; the groups of all figures have the same names, which cannot be ids of one page.
    svg = buffer.getvalue().replace('<g id="', '<g class="').partition("<svg ")[2].partition(">")[2]
    view = " ".join(f"{72 * side:g}" for side in size)
    legend = f"<figcaption>{escaped(caption)}</figcaption>" if caption else ""
    image = f'<svg role="img" aria-label="{escaped(alt)}" viewBox="0 0 {view}">{svg.strip()}'
    return Section(title, f'<figure><div class="scroll" tabindex="0">{image}</div>{legend}</figure>')


@contextmanager
def figures_saved(folder: str, form: FigureFormat, *, origin: str) -> Iterator[list[str]]:
    """Write each figure of the pages that are drawn meanwhile into a folder, too, and yield their files."""
    files: list[str] = []

    def save(title: str, *drawing: Any) -> None:
        name = "-".join("".join(c if c.isalnum() else " " for c in short(title.lower(), 60)).split())
        files.append(f"{folder}/{len(files) + 1:02d}-{name}.{form}")
        save_figure(files[-1], *drawing, origin=origin)

    token = _SAVE.set(save)
    try:
        yield files
    finally:
        _SAVE.reset(token)


def save_figure(
    path: str, draw: Callable[[Any], None], size: tuple[float, float] = WIDE, layout: Layout = "constrained", *,
    origin: str = "",
) -> None:  # fmt: skip
    """Draw into a file or URL, which appears whole or not at all; equal drawings and fonts give equal bytes.

    The end of the name says the format: .pdf, .svg or .png (200 dots per inch). `origin`, what the figure was made
    from, is written into its metadata. Matplotlib warns of characters that no installed font has.
    """
    form: FigureFormat = path.rsplit(".", 1)[-1]  # type: ignore[assignment]
    metadata = _NO_METADATA[form] | ({_ORIGIN[form]: printable(origin)} if origin else {})
    with writing(path) as file, _drawn(draw, size, layout, form, salt="distembed") as figure:
        figure.savefig(file, format=form, metadata=metadata, dpi=200)


def _tick(value: float, _position: int | None = None) -> str:
    size = abs(value)
    for unit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if 0.9999 * unit <= size < 1e13:
            return with_typeset_sign(f"{value / unit:.4g}{suffix}")
    return with_typeset_sign(f"{value:.4g}")


def _dress(axes: Any, xlabel: str, ylabel: str, x_scale: Scale, y_scale: Scale) -> None:
    axes.set_xscale(x_scale)
    axes.set_yscale(y_scale)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.tick_params(length=0, which="both")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_tick))
        if axis.get_scale() == "log":
            low, high = axis.get_view_interval()
            if high < 8 * low:
                axis.set_minor_formatter(FuncFormatter(_tick))
            else:
                axis.set_minor_locator(NullLocator())  # its ticks would be drawn without length and label


def largest_groups(groups: Sequence[str], n: int) -> tuple[list[str], int]:
    """Return the groups that get one of n colors, the largest first, and how many others share gray."""
    sizes = Counter(groups)
    ranked = sorted(sizes, key=lambda name: (-sizes[name], name))
    own = ranked if len(ranked) <= n else ranked[: n - 1]
    return own, len(ranked) - len(own)


def spread_points(n: int, scale: Scale) -> Int64s:
    """Choose at most `_MAX_POINTS` of n positions, evenly or evenly in the logarithm, with both ends."""
    if n <= _MAX_POINTS:
        return np.arange(n)
    spaced = np.geomspace(1, n, _MAX_POINTS) - 1 if scale == "log" else np.linspace(0, n - 1, _MAX_POINTS)
    return np.unique(np.rint(spaced).astype(np.int64))


def _whole_ticks(axes: Any, x: Float64s) -> None:
    """Keep the ticks of a linear axis of whole numbers on whole numbers."""
    if axes.get_xscale() == "linear" and bool(np.all(x == np.rint(x))):
        axes.xaxis.get_major_locator().set_params(integer=True)


def line_chart(
    series: Mapping[str, Any],
    title: str,
    *,
    xlabel: str,
    ylabel: str,
    x_scale: Scale = "linear",
    y_scale: Scale = "linear",
    caption: str = "",
    dashed: Iterable[str] = (),
    band: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
) -> Section:
    """Draw values as lines over common axes.

    Parameters
    ----------
    series
        For each name, a one-dimensional array of values (drawn at 1, 2, ...) or a pair (x, values).
        Not-finite points, and points of at most zero on a logarithmic axis, are left out.
    title
        Title of the section.
    xlabel, ylabel
        Quantity and unit of each axis.
    x_scale, y_scale
        "linear" or "log".
    caption
        What the figure shows.
    dashed
        Names of series drawn dashed, as for a fit or a bound.
    band
        Arrays (x, low, high): the range around the first series, drawn as a tint of its color.
    """
    curves = dict[str, tuple[Float64s, Float64s]]()
    for name, values in series.items():
        pair = values if isinstance(values, tuple) else (np.arange(1.0, np.size(values) + 1), values)
        x, y = (np.asarray(side, dtype=np.float64).ravel() for side in pair)
        shown = (
            np.isfinite(x) & np.isfinite(y) & ((x > 0) | (x_scale != "log")) & ((y > 0) | (y_scale != "log"))
        )
        chosen = np.flatnonzero(shown)[spread_points(int(shown.sum()), x_scale)]
        if chosen.size:
            curves[name] = x[chosen], y[chosen]
    if not curves:
        return note(title, NO_VALUE)
    dashed = set(dashed)

    def draw(axes: Any) -> None:
        if band is not None:
            axes.fill_between(*map(np.asarray, band), color=COLORS[0], alpha=0.22, linewidth=0)
        for index, (name, (x, y)) in enumerate(curves.items()):
            marker = {"marker": "o"} if x.size <= _MAX_MARKERS else {}
            style: dict[str, Any] = {"linestyle": "--", "linewidth": 1.2} if name in dashed else marker
            axes.plot(x, y, color=COLORS[index % 8], label=short(name, _MAX_KEY), **style)
        _dress(axes, xlabel, ylabel, x_scale, y_scale)
        if len(curves) > _MAX_INNER_KEY:
            axes.figure.legend(loc="outside lower center", ncols=2)
        elif len(curves) > 1:
            axes.legend()
        _whole_ticks(axes, np.concatenate([x for x, _ in curves.values()]))

    spoken = [
        f"{f'{name}: ' if name else ''}{plural(x.size, 'point')}, "
        f"from {format_number(y[0])} to {format_number(y[-1])}"
        for name, (x, y) in curves.items()
    ]
    said = f"Line chart of {ylabel} against {xlabel}. {'; '.join(spoken)}"
    return figure_section(title, draw, said=said, caption=caption)


BINS = 40


def histogram(
    values: ArrayLike,
    title: str,
    *,
    xlabel: str,
    ylabel: str = "how many",
    x_scale: Scale = "linear",
    y_scale: Scale = "linear",
) -> Section:
    """Draw how often values fall into bins, equal or equal in the logarithm; few whole numbers get one bin each."""
    given = np.asarray(values).size
    shown = finite_values(values)
    shown = shown[shown > 0] if x_scale == "log" else shown
    if not shown.size:
        return note(title, NO_VALUE)
    low, high = float(shown.min()), float(shown.max())
    edges = np.linspace(low, high, BINS + 1)
    if x_scale == "log":
        edges = np.geomspace(low, high, BINS + 1) if high > low else np.array([low / 1.5, low * 1.5])
    elif high - low < BINS and bool(np.all(shown == np.rint(shown))):
        edges = np.arange(low - 0.5, high + 1.0)
    elif not np.all(np.diff(edges) > 0):  # a single value has a bin of its own
        edges = np.array([low - 0.5, high + 0.5])
    heights = np.histogram(shown, edges)[0]

    def draw(axes: Any) -> None:
        axes.stairs(heights, edges, fill=True, color=COLORS[0], edgecolor="white", linewidth=0.4)
        _dress(axes, xlabel, ylabel, x_scale, y_scale)
        _whole_ticks(axes, shown)
        axes.grid(visible=False, axis="x")

    middle = f"median {format_number(float(np.median(shown)))}, mean {format_number(float(shown.mean()))}"
    spread = f"{plural(shown.size, 'value')}, {middle}, largest {format_number(float(shown.max()))}."
    left_out = f" {plural(given - shown.size, 'value')} not shown." if given > shown.size else ""
    return figure_section(title, draw, said=f"Histogram of {xlabel}: {spread}", caption=f"{spread}{left_out}")


def bar_chart(
    values: Mapping[str, float],
    title: str,
    *,
    xlabel: str,
    show: Callable[[float], str] = format_number,
    caption: str = "",
) -> Section:
    """Draw one horizontal bar for each name, in the order given, with its value written at its end."""
    names = [name for name, value in values.items() if math.isfinite(value)]
    heights = [float(values[name]) for name in names]
    if not names:
        return note(title, "Nothing to draw: no value is known.")

    def draw(axes: Any) -> None:
        bars = axes.barh(range(len(names)), heights, height=0.62, color=COLORS[0])
        axes.bar_label(bars, [show(height) for height in heights], padding=4, color=INK)
        _dress(axes, xlabel, "", "linear", "linear")
        axes.set_yticks(range(len(names)), [short(name, _MAX_BAR) for name in names], color=INK)
        axes.invert_yaxis()
        axes.margins(x=0.16)
        axes.grid(visible=False, axis="y")
        axes.spines["bottom"].set_visible(False)

    ends = "; ".join(f"{short(name)} {show(height)}" for name, height in zip(names, heights, strict=True))
    size = (WIDE[0], 0.9 + 0.3 * len(names))
    return figure_section(title, draw, said=f"Bars of {xlabel}: {ends}", caption=caption, size=size)


class Interval(NamedTuple):
    """A value of a chart of intervals.

    Attributes
    ----------
    name : str
        The line that it stands on.
    value : float
    ends : pair of float, or None
        The interval around the value.
    group : str
        What its color says.
    """

    name: str
    value: float
    ends: tuple[float, float] | None = None
    group: str = ""


def interval_chart(
    rows: Iterable[Interval], title: str, *, xlabel: str, caption: str = "", spread: bool = True
) -> Section:
    """Draw values as dots with their intervals, a color and a shape for each group, in the order given.

    Parameters
    ----------
    rows
        The values; those that are not finite are left out.
    title
        Title of the section.
    xlabel
        What the values are.
    caption
        What the figure shows.
    spread
        Whether the values of one name stand below each other, and not on one line.
    """
    known = [row for row in rows if math.isfinite(row.value)]
    if not known:
        return note(title, "Nothing to draw: no value is known.")
    groups: dict[str, list[int]] = {}
    lines: dict[str, list[int]] = {}
    for i, row in enumerate(known):
        groups.setdefault(row.group, []).append(i)
        lines.setdefault(row.name, []).append(i)
    step, level, heights, ticks = 0.6 if spread else 0.0, 0.0, [0.0] * len(known), dict[str, float]()
    for name, members in lines.items():  # the values of one name stand close to each other
        for place, i in enumerate(members):
            heights[i] = level + step * place
        ticks[name] = level + step / 2 * (len(members) - 1)
        level += step * (len(members) - 1) + 1

    def draw(axes: Any) -> None:
        for place, (group, own) in enumerate(groups.items()):
            color = COLORS[place % len(COLORS)]
            for i in own:
                if known[i].ends is not None:
                    axes.plot(known[i].ends, (heights[i],) * 2, color=color, linewidth=1.6, alpha=0.45)
            values, at = [known[i].value for i in own], [heights[i] for i in own]
            shape = SHAPES[place % len(SHAPES)]
            axes.plot(values, at, linestyle="", label=group or None, color=color, marker=shape)
        _dress(axes, xlabel, "", "linear", "linear")
        axes.set_yticks(list(ticks.values()), [short(name, _MAX_KEY) for name in ticks], color=INK)
        axes.set_ylim(max(heights) + 0.6, -0.6)
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        axes.grid(visible=False, axis="y")
        if len(groups) > 1:
            axes.figure.legend(loc="outside lower center", ncols=3)

    ends = "; ".join(f"{short(row.name)} {row.group} {format_number(row.value)}" for row in known)
    key = 0.2 * -(-len(groups) // 3) if len(groups) > 1 else 0.0
    size = (WIDE[0], 1.0 + 0.21 * (max(heights) + 1) + key)
    return figure_section(title, draw, said=f"{xlabel}: {ends}", caption=caption, size=size)


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
            color = COLORS[number % len(COLORS)]
            for height, interval in enumerate(panel):
                if interval.ends is not None:
                    place.plot(interval.ends, (height, height), color=color, linewidth=2, alpha=0.5)
            filled = [color if interval.ends is not None else MUTED for interval in panel]
            place.scatter([interval.value for interval in panel], range(len(panel)), s=16, c=filled, zorder=3)
            place.set_yticks(range(len(panel)), [short(interval.name) for interval in panel], color=INK)
            place.set(xlim=(0, 1.05 * largest), ylim=(len(panel) - 0.5, -0.5))
            place.set_title(short(name, TITLE_CHARACTERS), fontsize="medium")
            place.tick_params(axis="y", length=0)
            place.locator_params(axis="x", nbins=4)
        for place in places[len(panels) :]:
            place.set_axis_off()

    spoken = "; ".join(
        f"{name}: {', '.join(f'{one.name} {format_number(one.value)}' for one in panel)}"
        for name, panel in panels.items()
    )
    size = (WIDE[0] * across / 2, (0.7 + 0.2 * lines) * down)
    return figure_section(title, draw, said=f"{xlabel}. {spoken}", caption=caption, size=size)
