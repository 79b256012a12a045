"""Figures of a report as inline SVG: lines, histograms and bars, drawn by Matplotlib."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from html import escape
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator
from numpy.typing import ArrayLike, NDArray

from distembed.display import format_number, plural, with_typeset_sign
from distembed.formats.streams import writing
from distembed.views.report.fonts import fit_fonts
from distembed.views.report.page import (
    THEME,
    Floats,
    Section,
    escaped,
    finite_values,
    paragraph,
    printable,
    short,
)

Scale = Literal["linear", "log"]


INK, MUTED, RULE, SURFACE = (THEME[role][0] for role in ("ink", "muted", "rule", "surface"))
COLORS = [light for role, (light, _) in THEME.items() if role.startswith("c")]
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
_STYLE = {
    "pdf.fonttype": 42,  # fonts that other programs can edit and journals accept
    "svg.fonttype": "none",
    "font.size": FONT_SIZE,
    "axes.titlesize": FONT_SIZE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": RULE,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
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
    "path.simplify": True,
}


class Drawing(NamedTuple):
    """A figure that is drawn when it is asked for, on a page or into a file.

    Attributes
    ----------
    draw : callable
        Draws on fresh axes.
    size : tuple of float
        Width and height in inches.
    layout : "constrained" or None
        None: the axes fill the figure.
    """

    draw: Callable[[Any], None]
    size: tuple[float, float] = WIDE
    layout: Literal["constrained"] | None = "constrained"


@contextmanager
def _drawn(drawing: Drawing, *, salt: str, background: str) -> Iterator[Figure]:
    """Yield a figure in the style of the house, whose ids depend on nothing but the salt."""
    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader of an SVG has the fonts
        figure = Figure(figsize=drawing.size, layout=drawing.layout, facecolor=background)
        drawing.draw(figure.add_subplot() if drawing.layout else figure.add_axes((0, 0, 1, 1)))
        yield figure


def html_figure(
    draw: Callable[[Any], None],
    *,
    alt: str,
    caption: str,
    size: tuple[float, float] = WIDE,
    layout: Literal["constrained"] | None = "constrained",
) -> str:
    """Draw on fresh axes and return an HTML figure: SVG in the page's own colors, and its caption."""
    digest = sha256(f"{alt}\0{caption}".encode("utf-8", "replace")).hexdigest()[:12]
    buffer = io.StringIO()
    with _drawn(Drawing(draw, size, layout), salt=digest, background="none") as figure:
        # `savefig` draws twice: the first time only for the layout, which the second finds by itself.
        figure.set_dpi(160)
        FigureCanvasSVG(figure).print_svg(buffer, metadata=_NO_METADATA["svg"])
    svg = _inline_svg(buffer.getvalue(), alt=alt, prefix=digest)
    legend = f"<figcaption>{escape(printable(caption))}</figcaption>" if caption else ""
    return f'<figure><div class="scroll" tabindex="0">{svg}</div>{legend}</figure>'


def figure_format(path: str) -> str:
    """Return the format of a figure that the end of a file's name stands for.

    Raises
    ------
    ValueError
        If it is none of .pdf, .svg and .png.
    """
    suffix = path.rsplit(".", 1)[-1].lower()
    if "." not in path or suffix not in _NO_METADATA:
        raise ValueError(
            f"the format of the figure {path} cannot be detected from its name: end it in .pdf, .svg or .png"
        )
    return suffix


def save_figure(path: str, drawing: Drawing, *, font: str | None = None, origin: str = "") -> str:
    """Draw into a file or URL, which appears whole or not at all; equal drawings and fonts give equal bytes.

    Return a warning of characters that no font has, "" where all are drawn.

    Parameters
    ----------
    path : str
        The end of the name says the format: .pdf, .svg or .png (200 dots per inch, on white).
    drawing : Drawing
    font : str, optional
        A file of a font, or the name of an installed one; other fonts are taken for characters that it lacks.
    origin : str
        What the figure was made from, for its metadata.

    Raises
    ------
    ValueError
        As `figure_format`, or if there is no such font.
    """
    chosen = figure_format(path)
    background = "white" if chosen == "png" else "none"
    metadata = _NO_METADATA[chosen] | ({_ORIGIN[chosen]: printable(origin)} if origin else {})
    with writing(path) as file, _drawn(drawing, salt="distembed", background=background) as figure:
        warning = fit_fonts(figure, font)
        figure.savefig(file, format=chosen, metadata=metadata, dpi=200)
    return warning


def _inline_svg(document: str, *, alt: str, prefix: str) -> str:
    """Turn an SVG document into an element of a page: no header, own ids, the page's fonts and colors."""
    body = document[document.index("<svg ") :].split(">", 1)[1]
    view = re.search(r'viewBox="([^"]+)"', document)
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*">', "<g>", body)
    body = re.sub(r'(\bid="|href="#|url\(#)(?=[a-zA-Z])', rf"\1f{prefix}-", body)
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body)
    body = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", body)
    for role, (light, _) in THEME.items():
        body = re.sub(rf"(fill|stroke): {light}", rf"\1: var(--{role})", body)
    assert view is not None
    return f'<svg role="img" aria-label="{escaped(alt)}" viewBox="{view[1]}">{body.strip()}'


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


class _Curve(NamedTuple):
    name: str
    x: Floats
    y: Floats


def _curve(name: str, values: Any, x_scale: Scale, y_scale: Scale) -> _Curve:
    """Take values, or a pair (x, values); keep what the axes can show, at most `_MAX_POINTS`."""
    if not isinstance(values, tuple) and np.ndim(values) > 1:
        raise ValueError(
            f"curve {name!r} has {np.ndim(values)} dimensions: give values, or a tuple (x, values)"
        )
    y = np.asarray(values[1] if isinstance(values, tuple) else values, dtype=np.float64).ravel()
    x = (
        np.asarray(values[0], dtype=np.float64).ravel()
        if isinstance(values, tuple)
        else np.arange(1.0, y.size + 1)
    )
    if x.size != y.size:
        raise ValueError(f"curve {name!r} has {x.size} abscissae for {y.size} values; give one for each")
    keep = np.isfinite(x) & np.isfinite(y)
    keep &= (x > 0) | (x_scale != "log")
    keep &= (y > 0) | (y_scale != "log")
    x, y = x[keep], y[keep]
    chosen = spread_points(x.size, x_scale)
    return _Curve(name, x[chosen], y[chosen])


def spread_points(n: int, scale: Scale) -> NDArray[np.int64]:
    """Choose at most `_MAX_POINTS` of n positions, evenly or evenly in the logarithm, with both ends."""
    if n <= _MAX_POINTS:
        return np.arange(n)
    spaced = np.geomspace(1, n, _MAX_POINTS) - 1 if scale == "log" else np.linspace(0, n - 1, _MAX_POINTS)
    return np.unique(np.rint(spaced).astype(np.int64))


def _whole_ticks(axes: Any, x: Floats) -> None:
    """Keep the ticks of a linear axis of whole numbers on whole numbers."""
    if axes.get_xscale() == "linear" and bool(np.all(x == np.rint(x))):
        axes.xaxis.get_major_locator().set_params(integer=True)


def _describe(curve: _Curve) -> str:
    ends = f"from {format_number(curve.y[0])} to {format_number(curve.y[-1])}"
    return f"{curve.name + ': ' if curve.name else ''}{plural(curve.x.size, 'point')}, {ends}"


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

    Raises
    ------
    ValueError
        If the two arrays of a pair differ in length, or values that are no pair have more than one dimension.
    """
    curves = [_curve(name, values, x_scale, y_scale) for name, values in series.items()]
    curves = [curve for curve in curves if curve.x.size]
    if not curves:
        return Section(
            title, paragraph("Nothing to draw: there is no finite value that these axes can show.")
        )
    dashed = set(dashed)

    def draw(axes: Any) -> None:
        if band is not None:
            axes.fill_between(*map(np.asarray, band), color=COLORS[0], alpha=0.22, linewidth=0)
        for index, curve in enumerate(curves):
            marker = "o" if curve.x.size <= _MAX_MARKERS and curve.name not in dashed else None
            style = {"linestyle": "--", "linewidth": 1.2} if curve.name in dashed else {}
            axes.plot(
                curve.x,
                curve.y,
                color=COLORS[index % 8],
                marker=marker,
                label=short(curve.name, _MAX_KEY),
                **style,
            )
        _dress(axes, xlabel, ylabel, x_scale, y_scale)
        if len(curves) > _MAX_INNER_KEY:
            axes.figure.legend(loc="outside lower center", ncols=2)
        elif len(curves) > 1:
            axes.legend()
        _whole_ticks(axes, np.concatenate([curve.x for curve in curves]))

    alt = f"{title}. Line chart of {ylabel} against {xlabel}. " + "; ".join(map(_describe, curves))
    return Section(title, html_figure(draw, alt=alt, caption=caption))


def histogram(
    values: ArrayLike,
    title: str,
    *,
    xlabel: str,
    ylabel: str = "how many",
    bins: int = 40,
    x_scale: Scale = "linear",
    y_scale: Scale = "linear",
    caption: str = "",
) -> Section:
    """Draw how often values fall into equal bins (equal in the logarithm when `x_scale` is "log")."""
    given = np.asarray(values).size
    shown = finite_values(values)
    shown = shown[shown > 0] if x_scale == "log" else shown
    if not shown.size:
        return Section(
            title, paragraph("Nothing to draw: there is no finite value that these axes can show.")
        )
    edges = _bin_edges(shown, bins, x_scale)
    heights = np.histogram(shown, edges)[0]

    def draw(axes: Any) -> None:
        axes.stairs(heights, edges, fill=True, color=COLORS[0], edgecolor=SURFACE, linewidth=0.4)
        _dress(axes, xlabel, ylabel, x_scale, y_scale)
        _whole_ticks(axes, shown)
        axes.grid(visible=False, axis="x")

    middle = f"median {format_number(float(np.median(shown)))}, mean {format_number(float(shown.mean()))}"
    spread = f"{plural(shown.size, 'value')}, {middle}, largest {format_number(float(shown.max()))}."
    left_out = f" {plural(given - shown.size, 'value')} not shown." if given > shown.size else ""
    full = f"{caption} {spread}{left_out}".strip()
    return Section(title, html_figure(draw, alt=f"{title}. Histogram of {xlabel}: {spread}", caption=full))


def _bin_edges(values: Floats, bins: int, scale: Scale) -> Floats:
    """Return bin edges; few whole numbers get one bin each, and a single value a bin of its own."""
    low, high = float(values.min()), float(values.max())
    if scale == "log":
        return np.geomspace(low, high, bins + 1) if high > low else np.array([low / 1.5, low * 1.5])
    if high - low < bins and bool(np.all(values == np.rint(values))):
        return np.arange(low - 0.5, high + 1.0)
    edges = np.linspace(low, high, bins + 1)
    return edges if np.all(np.diff(edges) > 0) else np.array([low - 0.5, high + 0.5])


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
        return Section(title, paragraph("Nothing to draw: no value is known."))

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
    alt = f"{title}. Bars of {xlabel}: {ends}"
    size = (WIDE[0], 0.9 + 0.3 * len(names))
    return Section(title, html_figure(draw, alt=alt, caption=caption, size=size))


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
        return Section(title, paragraph("Nothing to draw: no value is known."))
    groups = list(dict.fromkeys(row.group for row in known))
    heights, ticks = _lines_of(known, 0.6 if spread else 0.0)

    def draw(axes: Any) -> None:
        for place, group in enumerate(groups):
            own = [i for i, row in enumerate(known) if row.group == group]
            style = {"color": COLORS[place % len(COLORS)], "marker": SHAPES[place % len(SHAPES)]}
            _draw_intervals(axes, [known[i] for i in own], [heights[i] for i in own], style)
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
    return Section(title, html_figure(draw, alt=f"{title}. {xlabel}: {ends}", caption=caption, size=size))


def _lines_of(rows: Sequence[Interval], step: float) -> tuple[list[float], dict[str, float]]:
    """Return the height of each value, and of each name: the values of one name stand close to each other."""
    own: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        own.setdefault(row.name, []).append(i)
    heights, ticks, level = [0.0] * len(rows), {}, 0.0
    for name, members in own.items():
        for place, i in enumerate(members):
            heights[i] = level + step * place
        ticks[name] = level + step / 2 * (len(members) - 1)
        level += step * (len(members) - 1) + 1
    return heights, ticks


def _draw_intervals(axes: Any, rows: list[Interval], heights: list[float], style: dict[str, str]) -> None:
    """Draw the dots of one group at some heights, and a line from end to end of each interval."""
    for row, height in zip(rows, heights, strict=True):
        if row.ends is not None:
            axes.plot(row.ends, (height, height), color=style["color"], linewidth=1.6, alpha=0.45)
    axes.plot([row.value for row in rows], heights, linestyle="", label=rows[0].group or None, **style)
