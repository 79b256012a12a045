"""Figures of a report: lines, histograms and small multiples, drawn by Matplotlib as SVG of the page, or into files.

They stand on white on every screen. Their text stays text: it can be searched, in any script.
"""

from __future__ import annotations

import io
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import matplotlib.figure
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.font_manager import fontManager
from matplotlib.ticker import FuncFormatter, NullLocator
from numpy.typing import ArrayLike

from distembed.display import format_number, plural, with_typeset_sign
from distembed.dtypes import Float64s, Int64s
from distembed.formats.streams import writing
from distembed.views.report.page import (
    LIGHT,
    Note,
    escaped,
    finite_values,
    printable,
    short,
)

Scale = Literal["linear", "log"]
FigureFormat = Literal["svg", "pdf", "png"]


INK, MUTED, RULE = (LIGHT[role] for role in ("ink", "muted", "rule"))
COLORS = ["#2a78d6", "#eb6834", "#1baf7a", "#4a3aa7", "#eda100", "#e34948", "#008300", "#e87ba4"]
"""Hues that stay distinguishable, in this order, with the common color-vision deficiencies."""
SHAPES = "osD^vPX*<"
"""Of the dots of a color: one more than colors, so that no two kinds of a chart look the same."""
WIDE = (6.4, 3.7)  # inches; 1 inch is 72 units of the SVG's own coordinates
FONT_SIZE = 10.0
_LEAST_SCALE = 54  # pixels of the page for an inch of a figure, at least: a wider figure scrolls in its frame
_MAX_POINTS = 400  # drawn per curve: more than the pixels of a screen tell apart
_MAX_MARKERS = 40  # longer lines are drawn without a marker at each value
_MAX_NAME = 44  # characters of the name of a line of dots or of a bar
_MAX_KEY = 32  # characters of a name in the key of a chart
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


class Figure(NamedTuple):
    """A figure that is drawn when its page is written, or a file.

    Attributes
    ----------
    title : str
    draw : function
        Draws on an empty Matplotlib figure.
    said : str
        Is read aloud in place of the figure.
    caption : str
    size : (width, height) in inches
    """

    title: str
    draw: Callable[[Any], None]
    said: str
    caption: str = ""
    size: tuple[float, float] = WIDE
    is_empty: bool = False

    def html(self, title: str) -> str:
        """Return the figure as SVG, and its caption."""
        alt = f"{title}. {self.said}"
        salt = sha256(f"{alt}\0{self.caption}".encode("utf-8", "replace")).hexdigest()[:12]
        buffer = io.StringIO()
        with self._drawn("svg", salt=salt) as figure:
            # `savefig` draws twice: the first time only for the layout, which the second finds by itself.
            figure.set_dpi(160)
            FigureCanvasSVG(figure).print_svg(buffer, metadata=_NO_METADATA["svg"])
        # Without the head of a file; the groups of all figures have the same names, which cannot be ids of one page.
        svg = buffer.getvalue().replace('<g id="', '<g class="').partition("<svg ")[2].partition(">")[2]
        view = " ".join(f"{72 * side:g}" for side in self.size)
        legend = f"<figcaption>{escaped(self.caption)}</figcaption>" if self.caption else ""
        style = f"min-width:{_LEAST_SCALE * self.size[0]:g}px"
        image = (
            f'<svg role="img" aria-label="{escaped(alt)}" viewBox="0 0 {view}" style="{style}">{svg.strip()}'
        )
        return f'<figure><div class="scroll" tabindex="0">{image}</div>{legend}</figure>'

    def save(self, path: str, *, origin: str = "") -> None:
        """Draw into a file or URL, which appears whole or not at all; equal drawings and fonts give equal bytes.

        The end of the name says the format: .pdf, .svg or .png (200 dots per inch). `origin`, what the figure was made
        from, is written into its metadata. Matplotlib warns of characters that no installed font has.
        """
        form: FigureFormat = path.rsplit(".", 1)[-1]  # type: ignore[assignment]
        metadata = _NO_METADATA[form] | ({_ORIGIN[form]: printable(origin)} if origin else {})
        with writing(path) as file, self._drawn(form, salt="distembed") as figure:
            figure.savefig(file, format=form, metadata=metadata, dpi=200)

    @contextmanager
    def _drawn(self, form: FigureFormat, *, salt: str) -> Iterator[mpl.figure.Figure]:
        """Yield it in the style of the house, whatever the user's settings are; ids depend on the salt alone."""
        families: set[str] = set()  # Matplotlib takes each character from the first font that has it
        if form != "svg":
            families = {font.name for font in fontManager.ttflist if font.name.startswith(_OTHER_SCRIPTS)}
        style = {"font.family": ["sans-serif", *sorted(families)], "svg.hashsalt": salt}
        with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE, **style}), warnings.catch_warnings():
            if form == "svg":
                warnings.filterwarnings("ignore", message="Glyph .* missing")  # its reader has the fonts
            figure = mpl.figure.Figure(figsize=self.size, layout="constrained")
            self.draw(figure)
            yield figure


def _tick(value: float, _position: int | None = None) -> str:
    size = abs(value)
    for unit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if 0.9999 * unit <= size < 1e13:
            return with_typeset_sign(f"{value / unit:.4g}{suffix}")
    return with_typeset_sign(f"{value:.4g}")


def _dress(
    axes: Any, xlabel: str, ylabel: str = "", x_scale: Scale = "linear", y_scale: Scale = "linear"
) -> None:
    axes.set(xscale=x_scale, yscale=y_scale, xlabel=xlabel, ylabel=ylabel)
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
    title: str,
    series: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    x_scale: Scale = "linear",
    y_scale: Scale = "linear",
    caption: str = "",
    dashed: Iterable[str] = (),
    band: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
) -> Figure | Note:
    """Return a figure of values as lines over common axes.

    Parameters
    ----------
    title
    series
        For each name, a one-dimensional array of values (drawn at 1, 2, ...) or a pair (x, values).
        Not-finite points, and points of at most zero on a logarithmic axis, are left out.
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
        return Note(title, NO_VALUE)
    dashed = set(dashed)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        if band is not None:
            axes.fill_between(*map(np.asarray, band), color=COLORS[0], alpha=0.22, linewidth=0)
        for index, (name, (x, y)) in enumerate(curves.items()):
            marker = {"marker": "o"} if x.size <= _MAX_MARKERS else {}
            style: dict[str, Any] = {"linestyle": "--", "linewidth": 1.2} if name in dashed else marker
            axes.plot(x, y, color=COLORS[index % 8], label=short(name, _MAX_KEY), **style)
        _dress(axes, xlabel, ylabel, x_scale, y_scale)
        if len(curves) > _MAX_INNER_KEY:
            figure.legend(loc="outside lower center", ncols=2)
        elif len(curves) > 1:
            axes.legend()
        _whole_ticks(axes, np.concatenate([x for x, _ in curves.values()]))

    spoken = [
        f"{f'{name}: ' if name else ''}{plural(x.size, 'point')}, "
        f"from {format_number(y[0])} to {format_number(y[-1])}"
        for name, (x, y) in curves.items()
    ]
    said = f"Line chart of {ylabel} against {xlabel}. {'; '.join(spoken)}"
    return Figure(title, draw, said, caption)


BINS = 40


def histogram(
    title: str,
    values: ArrayLike,
    *,
    xlabel: str,
    ylabel: str = "how many",
    x_scale: Scale = "linear",
    y_scale: Scale = "linear",
) -> Figure | Note:
    """Return a figure of how often values fall into bins, equal or equal in the logarithm.

    Few whole numbers get one bin each.
    """
    given = np.asarray(values).size
    shown = finite_values(values)
    shown = shown[shown > 0] if x_scale == "log" else shown
    if not shown.size:
        return Note(title, NO_VALUE)
    low, high = float(shown.min()), float(shown.max())
    edges = np.linspace(low, high, BINS + 1)
    if x_scale == "log":
        edges = np.geomspace(low, high, BINS + 1) if high > low else np.array([low / 1.5, low * 1.5])
    elif high - low < BINS and bool(np.all(shown == np.rint(shown))):
        edges = np.arange(low - 0.5, high + 1.0)
    elif not np.all(np.diff(edges) > 0):  # a single value has a bin of its own
        edges = np.array([low - 0.5, high + 0.5])
    heights = np.histogram(shown, edges)[0]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.stairs(heights, edges, fill=True, color=COLORS[0], edgecolor="white", linewidth=0.4)
        _dress(axes, xlabel, ylabel, x_scale, y_scale)
        _whole_ticks(axes, shown)
        axes.grid(visible=False, axis="x")

    middle = f"median {format_number(float(np.median(shown)))}, mean {format_number(float(shown.mean()))}"
    spread = f"{plural(shown.size, 'value')}, {middle}, largest {format_number(float(shown.max()))}."
    left_out = f" {plural(given - shown.size, 'value')} not shown." if given > shown.size else ""
    return Figure(title, draw, f"Histogram of {xlabel}: {spread}", f"{spread}{left_out}")


class Mark(NamedTuple):
    """A value of small multiples.

    Attributes
    ----------
    name : str
        The line that it stands on.
    value : float
    ends : pair of float, or None
        The interval around the value.
    kind : str
        What its color and its shape say.
    panel : str
        The panel that it stands in.
    """

    name: str
    value: float
    ends: tuple[float, float] | None = None
    kind: str = ""
    panel: str = ""


def small_multiples(
    title: str,
    marks: Iterable[Mark],
    *,
    xlabel: str,
    caption: str = "",
) -> Figure | Note:
    """Return a figure of values as dots with their intervals: a line for each name, in panels with common axes.

    Parameters
    ----------
    title
    marks
        The values, in order; those that are not finite are left out.
    xlabel
        What the values are.
    caption
        What the figure shows.
    """
    known = [mark for mark in marks if math.isfinite(mark.value)]
    if not known:
        return Note(title, "Nothing to draw: no value is known.")
    panels, names = (list(dict.fromkeys(getattr(mark, key) for mark in known)) for key in ("panel", "name"))
    kinds = dict[tuple[str, str], list[Mark]]()
    for mark in known:
        kinds.setdefault((mark.panel, mark.kind), []).append(mark)
    across = min(PANELS_ACROSS, len(panels))
    down, has_key = -(-len(panels) // across), len(kinds) > len(panels) == 1

    def draw(figure: Any) -> None:
        places = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
        for place in places[len(panels) :]:
            place.set_axis_off()
        for number, ((panel, kind), own) in enumerate(kinds.items()):
            axes, color = places[panels.index(panel)], COLORS[number % len(COLORS)]
            heights, values = [names.index(mark.name) for mark in own], [mark.value for mark in own]
            ends = np.array([mark.ends or (mark.value,) * 2 for mark in own]).T
            axes.hlines(heights, *ends, color=color, linewidth=1.6, alpha=0.45)
            shape = SHAPES[number % len(SHAPES)] if has_key else SHAPES[0]
            axes.plot(values, heights, shape, label=short(kind, _MAX_KEY) or None, color=color)
        for axes, panel in zip(places, panels, strict=False):
            _dress(axes, "" if panel else xlabel)
            axes.set_title(short(panel, _MAX_KEY))
            axes.tick_params(labelbottom=True)
            axes.grid(visible=False, axis="y")
        longest = _MAX_NAME if len(panels) == 1 else _MAX_NAME // 2
        axes.set_yticks(range(len(names)), [short(name, longest) for name in names], color=INK)
        axes.set(ylim=(len(names) - 0.4, -0.6), xlim=(min(0.0, axes.get_xlim()[0]), None))
        if has_key:
            figure.legend(loc="outside lower center", ncols=3)

    said = []
    for panel, own in groupby(known, key=attrgetter("panel")):
        texts = (" ".join(filter(None, (short(one.name), one.kind, format_number(one.value)))) for one in own)
        said.append(f"{panel}: {', '.join(texts)}" if panel else "; ".join(texts))
    height = down * (0.9 + 0.21 * len(names)) + 0.2 * has_key * -(-len(kinds) // 3)
    size = WIDE[0] * max(2, across) / 2, height
    return Figure(title, draw, f"Dots of {xlabel}: {'; '.join(said)}", caption, size)
