"""The report of a run: arrays, lists and mappings in, one self-contained HTML file out.

Each builder returns a `Section`; `render_report` binds sections into a page. The page needs no network and no
script: figures are inline SVG, styles are inline, and a content security policy says so to the browser. Equal
input gives equal bytes, so a report can be compared and cached like any other output of a job.

Figures are drawn by Matplotlib in fixed colours, and those colours are then renamed to CSS variables: one
drawing serves light screens, dark screens and paper. Text stays text: it can be searched, in any script.
"""

from __future__ import annotations

import io
import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from distembed.execution import one_blas_thread
from distembed.pipeline.quantities import format_bytes, format_number, format_seconds, with_typeset_sign

Floats: TypeAlias = NDArray[np.float64]
Row: TypeAlias = "Mapping[str, Any] | NamedTuple"
Scale: TypeAlias = Literal["linear", "log"]

_THEME = {
    # role: (light, dark). Hues in this order stay distinguishable with the common colour-vision deficiencies.
    "ink": ("#0b0b0b", "#f4f3ef"),
    "muted": ("#5a5954", "#b5b3aa"),
    "rule": ("#d9d8d0", "#3b3a37"),
    "surface": ("#fcfcfb", "#1a1a19"),
    "c0": ("#2a78d6", "#5598e7"),
    "c1": ("#eb6834", "#e9804f"),
    "c2": ("#1baf7a", "#23b882"),
    "c3": ("#4a3aa7", "#a097ee"),
    "c4": ("#eda100", "#d9970a"),
    "c5": ("#e34948", "#ee7372"),
    "c6": ("#008300", "#2fa32f"),
    "c7": ("#e87ba4", "#e06a96"),
}
_INK, _MUTED, _RULE, _SURFACE = (_THEME[role][0] for role in ("ink", "muted", "rule", "surface"))
_COLOURS = [light for role, (light, _) in _THEME.items() if role.startswith("c")]

_WIDE = (6.4, 3.7)  # inches; 1 inch is 72 units of the SVG's own coordinates
_MAP_HEIGHTS = (200.0, 560.0)  # least and most, in those units
_MAP_MARGIN = 96.0  # left and right together, for labels beside the outermost points
_FONT_SIZE = 9.0
_MAX_POINTS = 400  # drawn per curve: more than the pixels of a screen tell apart
_MAX_VECTOR_POINTS = 2500  # more points than this are embedded as a picture, to keep the file small
_MAX_MARKERS = 40  # longer lines are drawn without a marker at each value
_MAX_LABEL = 22  # characters of a word on a figure
_MAX_KEY = 32  # characters of a name in the key of a line chart
_MAX_INNER_KEY = 4  # lines of a key inside the axes; a longer one stands below them


class Section(NamedTuple):
    """One titled part of a report; `html` is trusted markup, made by the builders of this module."""

    title: str
    html: str


class Stage(NamedTuple):
    """What one stage of a job took: wall clock in seconds, peak memory and disk in bytes, blocks."""

    stage: str
    wall_seconds: float | None
    peak_bytes: int | None
    disk_bytes: int | None
    blocks: int | None


# ---- numbers and text -------------------------------------------------------------------------------------


def _tick(value: float, _position: int | None = None) -> str:
    size = abs(value)
    for unit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if 0.9999 * unit <= size < 1e13:
            return with_typeset_sign(f"{value / unit:.4g}{suffix}")
    return with_typeset_sign(f"{value:.4g}")


def _clean(text: object) -> str:
    """Replace what HTML and XML may not hold: control characters and lone surrogates."""
    return "".join("�" if unicodedata.category(c) in {"Cc", "Cs"} else c for c in str(text))


def _text(value: object) -> str:
    return escape(_clean(value))


def _word(word: object) -> str:
    """Mark up a word of the data: kept apart from the text around it, whatever its writing direction."""
    pieces = re.findall(
        r"\S{1,32}|\s+", _clean(word)
    )  # a very long word may break, between any 32 characters
    return f'<bdi translate="no">{"<wbr>".join(map(escape, pieces))}</bdi>'


def _short(word: object, limit: int = _MAX_LABEL) -> str:
    text = _clean(word)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _paragraph(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _finite(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64).ravel()
    return array[np.isfinite(array)]


def _plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


# ---- tables -----------------------------------------------------------------------------------------------


def _as_mapping(row: Row) -> Mapping[str, Any]:
    return row if isinstance(row, Mapping) else row._asdict()


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(
        value, (bool, np.bool_)
    )


def _interval(ends: Iterable[float], show: Callable[[Any], str]) -> str:
    shown = [escape(show(end)) for end in ends]
    return "–" if set(shown) == {"–"} else f"[{', '.join(shown)}]"


def _is_pair(value: object) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(map(_is_number, value))


def _cell(value: Any, show: Callable[[Any], str] | None) -> str:
    """Write one cell; None and NaN are an en dash, pairs are intervals, numbers keep to the right."""
    kind = ' class="n"' if value is None or _is_number(value) or _is_pair(value) else ""
    if value is None:
        text = "–"
    elif _is_pair(value):
        text = _interval(value, show or format_number)
    elif show or _is_number(value):
        text = escape(_clean((show or format_number)(value)))
    else:
        text = _word(value)
    return f"<td{kind}>{text}</td>"


def _table(
    rows: Sequence[Mapping[str, Any]], caption: str, formats: Mapping[str, Callable[[Any], str]]
) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    numeric = {
        name for name in columns if any(_is_number(row.get(name)) or _is_pair(row.get(name)) for row in rows)
    }
    head = "".join(
        f'<th scope="col"{" class=n" if name in numeric else ""}>{_text(name.replace("_", " "))}</th>'
        for name in columns
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(row.get(name), formats.get(name)) for name in columns) + "</tr>"
        for row in rows
    )
    legend = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll" tabindex="0"><table>{legend}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


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
    mappings = [_as_mapping(row) for row in rows]
    html = _table(mappings, caption, formats or {}) if mappings else _paragraph("No rows.")
    return Section(title, html)


def _three_decimals(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{value:.3f}".replace("-", "−")


def score_table(scores: Iterable[Row], *, title: str = "Evaluation") -> Section:
    """Show evaluation scores, one row per set: set, task, metric, score, known, total, policy, interval."""
    rows = [dict(_as_mapping(score)) for score in scores]
    caption = "Known: items whose words all have vectors, of the total."
    formats = {"value": _three_decimals, "score": _three_decimals, "interval": _three_decimals}
    return table(title, rows, caption=caption, formats=formats)


def neighbor_table(
    neighbors: Mapping[str, Sequence[tuple[str, float]]],
    *,
    title: str = "Nearest words",
    measure: str = "cosine",
) -> Section:
    """Show the nearest words of each word with their similarity, nearest first."""
    if not neighbors:
        return Section(title, _paragraph("No words were asked for."))
    body = "\n".join(
        f'<tr><th scope="row">{_word(_short(word))}</th><td class="near">{_nearest(near)}</td></tr>'
        for word, near in neighbors.items()
    )
    caption = (
        f"<caption>Nearest first; the figure is the {escape(measure)} to the word at the left.</caption>"
    )
    return Section(
        title, f'<div class="scroll" tabindex="0"><table>{caption}<tbody>{body}</tbody></table></div>'
    )


def _nearest(near: Sequence[tuple[str, float]]) -> str:
    pairs = (
        f"<span>{_word(word)} <small>{_three_decimals(float(score))}</small></span>" for word, score in near
    )
    return " ".join(pairs) or "–"


def parameter_table(job: Mapping[str, Any], *, title: str = "Parameters") -> Section:
    """Show the settings of a job; nested tables are written with dots, as in TOML."""
    rows = [{"setting": key, "value": value} for key, value in _flat(job)]
    return table(title, rows, formats={"value": _setting}, caption="As run, with every default filled in.")


def _flat(job: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in job.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else _setting(value)


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_setting, value)) or "(empty)"
    return "–" if value is None else str(value)


def stage_table(stages: Iterable[Row], *, title: str = "Time and memory") -> Section:
    """Show what each stage took, with a bar chart of its time.

    Parameters
    ----------
    stages
        `Stage` records, or mappings with its keys: stage, wall_seconds, peak_bytes, disk_bytes, blocks.
        A value that was not measured is None.
    title
        Title of the section.
    """
    rows = [dict(_as_mapping(stage)) for stage in stages]
    seconds = {str(row["stage"]): row["wall_seconds"] for row in rows if row.get("wall_seconds") is not None}
    bars = bar_chart(seconds, title, xlabel="wall clock (seconds)", show=format_seconds)
    names = {"wall_seconds": "wall time", "peak_bytes": "peak memory", "disk_bytes": "on disk"}
    shown = [{names.get(key, key): value for key, value in row.items()} for row in rows]
    formats = {"wall time": format_seconds, "peak memory": format_bytes, "on disk": format_bytes}
    total = f"{format_seconds(sum(seconds.values()))} in all." if seconds else ""
    return group(title, [bars, table(title, shown, caption=total, formats=formats)])


def group(title: str, sections: Iterable[Section]) -> Section:
    """Put several sections under one title; a part whose title differs keeps it as a subtitle."""
    parts = [s.html if s.title == title else f"<h3>{_text(s.title)}</h3>\n{s.html}" for s in sections]
    return Section(title, "\n".join(parts) or _paragraph("Nothing to show."))


# ---- figures ----------------------------------------------------------------------------------------------

_STYLE = {
    "svg.fonttype": "none",
    "font.size": _FONT_SIZE,
    "axes.titlesize": _FONT_SIZE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _RULE,
    "axes.facecolor": "none",
    "axes.labelcolor": _MUTED,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": _RULE,
    "grid.linewidth": 0.5,
    "xtick.color": _RULE,
    "xtick.labelcolor": _MUTED,
    "ytick.color": _RULE,
    "ytick.labelcolor": _MUTED,
    "text.color": _INK,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "text.parse_math": False,
    "path.simplify": True,
}


def _figure(
    draw: Callable[[Any], None],
    *,
    alt: str,
    caption: str,
    size: tuple[float, float] = _WIDE,
    layout: Literal["constrained"] | None = "constrained",
) -> str:
    """Draw on fresh axes and return an HTML figure: SVG in the page's own colours, and its caption."""
    digest = sha256(f"{alt}\0{caption}".encode("utf-8", "replace")).hexdigest()[:12]
    buffer = io.StringIO()
    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE, "svg.hashsalt": digest}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's browser has the fonts
        figure = Figure(figsize=size, layout=layout, facecolor="none")
        draw(figure.add_subplot() if layout else figure.add_axes((0, 0, 1, 1)))
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=metadata, dpi=160)
    svg = _inline_svg(buffer.getvalue(), alt=alt, prefix=digest)
    legend = f"<figcaption>{escape(_clean(caption))}</figcaption>" if caption else ""
    return f'<figure><div class="scroll" tabindex="0">{svg}</div>{legend}</figure>'


def _inline_svg(document: str, *, alt: str, prefix: str) -> str:
    """Turn an SVG document into an element of a page: no header, own ids, the page's fonts and colours."""
    body = document[document.index("<svg ") :].split(">", 1)[1]
    view = re.search(r'viewBox="([^"]+)"', document)
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*">', "<g>", body)
    body = re.sub(r'(\bid="|href="#|url\(#)(?=[a-zA-Z])', rf"\1f{prefix}-", body)
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body)
    body = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", body)
    for role, (light, _) in _THEME.items():
        body = re.sub(rf"(fill|stroke): {light}", rf"\1: var(--{role})", body)
    assert view is not None
    return f'<svg role="img" aria-label="{_text(alt)}" viewBox="{view[1]}">{body.strip()}'


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
            axis.set_minor_formatter(FuncFormatter(_tick) if high < 8 * low else NullFormatter())


class _Curve(NamedTuple):
    name: str
    x: Floats
    y: Floats


def _curve(name: str, values: Any, x_scale: Scale, y_scale: Scale) -> _Curve:
    """Take values, or a pair (x, values); keep what the axes can show, at most `_MAX_POINTS`."""
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
    chosen = _spread(x.size, x_scale)
    return _Curve(name, x[chosen], y[chosen])


def _spread(n: int, scale: Scale) -> NDArray[np.int64]:
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
    return f"{curve.name + ': ' if curve.name else ''}{_plural(curve.x.size, 'point')}, {ends}"


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
        What the figure shows; the axes are added.
    dashed
        Names of series drawn dashed, as for a fit or a bound.
    band
        Arrays (x, low, high): the range around the first series, drawn as a tint of its colour.

    Raises
    ------
    ValueError
        If the two arrays of a pair differ in length.
    """
    curves = [_curve(name, values, x_scale, y_scale) for name, values in series.items()]
    curves = [curve for curve in curves if curve.x.size]
    if not curves:
        return Section(
            title, _paragraph("Nothing to draw: there is no finite value that these axes can show.")
        )
    dashed = set(dashed)

    def draw(axes: Any) -> None:
        if band is not None:
            axes.fill_between(*map(np.asarray, band), color=_COLOURS[0], alpha=0.22, linewidth=0)
        for index, curve in enumerate(curves):
            marker = "o" if curve.x.size <= _MAX_MARKERS and curve.name not in dashed else None
            style = {"linestyle": "--", "linewidth": 1.2} if curve.name in dashed else {}
            axes.plot(
                curve.x,
                curve.y,
                color=_COLOURS[index % 8],
                marker=marker,
                label=_short(curve.name, _MAX_KEY),
                **style,
            )
        _dress(axes, xlabel, ylabel, x_scale, y_scale)
        if len(curves) > _MAX_INNER_KEY:
            axes.figure.legend(loc="outside lower center", ncols=2)
        elif len(curves) > 1:
            axes.legend()
        _whole_ticks(axes, np.concatenate([curve.x for curve in curves]))

    alt = f"{title}. Line chart of {ylabel} against {xlabel}. " + "; ".join(map(_describe, curves))
    return Section(
        title, _figure(draw, alt=alt, caption=_with_axes(caption, xlabel, ylabel, x_scale, y_scale))
    )


def _with_axes(caption: str, xlabel: str, ylabel: str, x_scale: Scale, y_scale: Scale) -> str:
    across = f"Across: {xlabel}{', logarithmic' if x_scale == 'log' else ''}."
    up = f"Up: {ylabel}{', logarithmic' if y_scale == 'log' else ''}."
    return f"{caption} {across} {up}".strip()


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
    shown = _finite(values)
    shown = shown[shown > 0] if x_scale == "log" else shown
    if not shown.size:
        return Section(
            title, _paragraph("Nothing to draw: there is no finite value that these axes can show.")
        )
    edges = _bin_edges(shown, bins, x_scale)
    heights = np.histogram(shown, edges)[0]

    def draw(axes: Any) -> None:
        axes.stairs(heights, edges, fill=True, color=_COLOURS[0], edgecolor=_SURFACE, linewidth=0.4)
        _dress(axes, xlabel, ylabel, x_scale, y_scale)
        _whole_ticks(axes, shown)
        axes.grid(visible=False, axis="x")

    middle = f"median {format_number(float(np.median(shown)))}, mean {format_number(float(shown.mean()))}"
    spread = f"{_plural(shown.size, 'value')}, {middle}, largest {format_number(float(shown.max()))}."
    left_out = f" {_plural(given - shown.size, 'value')} not shown." if given > shown.size else ""
    full = _with_axes(f"{caption} {spread}{left_out}".strip(), xlabel, ylabel, x_scale, y_scale)
    return Section(title, _figure(draw, alt=f"{title}. Histogram of {xlabel}: {spread}", caption=full))


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
        return Section(title, _paragraph("Nothing to draw: no value is known."))

    def draw(axes: Any) -> None:
        bars = axes.barh(range(len(names)), heights, height=0.62, color=_COLOURS[0])
        axes.bar_label(bars, [show(height) for height in heights], padding=4, color=_INK)
        _dress(axes, xlabel, "", "linear", "linear")
        axes.set_yticks(range(len(names)), [_short(name) for name in names], color=_INK)
        axes.invert_yaxis()
        axes.margins(x=0.16)
        axes.grid(visible=False, axis="y")
        axes.spines["bottom"].set_visible(False)

    ends = "; ".join(f"{_short(name)} {show(height)}" for name, height in zip(names, heights, strict=True))
    alt = f"{title}. Bars of {xlabel}: {ends}"
    size = (_WIDE[0], 0.9 + 0.3 * len(names))
    full = f"{caption} Length of a bar: {xlabel}.".strip()
    return Section(title, _figure(draw, alt=alt, caption=full, size=size))


# ---- maps -------------------------------------------------------------------------------------------------


def scatter_map(
    points: ArrayLike,
    title: str,
    *,
    labels: Sequence[str] | None = None,
    groups: Sequence[object] | None = None,
    xlabel: str = "first coordinate",
    ylabel: str = "second coordinate",
    caption: str = "",
) -> Section:
    """Draw points of the plane, coloured by group, with as many labels as fit without overlap.

    Parameters
    ----------
    points
        Shape (n, 2). Rows with a value that is not finite are left out.
    title
        Title of the section.
    labels
        A text for each point, the most important first: a label that would cover an earlier one is left out.
    groups
        A group for each point. The seven largest groups get a colour of their own, the rest share grey.
    xlabel, ylabel
        Quantity and unit of each axis.
    caption
        What the figure shows.

    Raises
    ------
    ValueError
        If `points` is not (n, 2), or `labels` or `groups` has another length.
    """
    array = np.asarray(points, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"points have shape {array.shape}; a map needs (n, 2)")
    _check_length("labels", labels, len(array))
    _check_length("groups", groups, len(array))
    kept = np.flatnonzero(np.isfinite(array).all(axis=1)).tolist()
    if not kept:
        return Section(title, _paragraph("Nothing to draw: there is no point with finite coordinates."))
    names = [_short(labels[i]) for i in kept] if labels is not None else []
    colours, key = _group_colours([groups[i] for i in kept] if groups is not None else [None] * len(kept))
    drawing = _place(array[kept], names, key)

    def draw(axes: Any) -> None:
        _draw_map(axes, drawing, colours)
        _draw_key(axes, key)

    said = (
        f"{_plural(len(kept), 'point')}, {len(drawing.labels)} labelled."
        if names
        else f"{_plural(len(kept), 'point')}."
    )
    full = f"{caption} {said} Across: {xlabel}. Up: {ylabel}.".strip()
    size = (drawing.width / 72, drawing.height / 72)
    shown = ", ".join(spot.text for spot in drawing.labels[:12])
    alt = f"{title}. Map of {said}" + (f" Among them: {shown}." if shown else "")
    return Section(title, _figure(draw, alt=alt, caption=full, size=size, layout=None))


def _check_length(name: str, values: Sequence[object] | None, n: int) -> None:
    if values is not None and len(values) != n:
        raise ValueError(f"{len(values)} {name} were given for {n} points; give one for each")


class _Map(NamedTuple):
    """Points in the units of an SVG, the size of the drawing, and the labels that fit."""

    width: float
    height: float
    x: Floats
    y: Floats
    labels: list[_Spot]


def _place(points: Floats, names: Sequence[str], key: Collection[str]) -> _Map:
    """Fit points to the page's width at one scale for both axes, and choose the labels, none where the key is."""
    low, high = points.min(axis=0), points.max(axis=0)
    extent = np.where(high > low, high - low, 1.0)
    width = _WIDE[0] * 72
    height = float(np.clip((width - _MAP_MARGIN) * extent[1] / extent[0], *_MAP_HEIGHTS)) + _MAP_MARGIN / 2
    size = np.array([width, height])
    scale = ((size - [_MAP_MARGIN, _MAP_MARGIN / 2]) / extent).min()
    placed = size / 2 + (points - (low + high) / 2) * scale
    labels = _thin_labels(placed, names, size, _key_boxes(key, size))
    return _Map(width, height, placed[:, 0], placed[:, 1], labels)


class _Spot(NamedTuple):
    point: int
    text: str
    x: float
    y: float
    align: str


def _thin_labels(placed: Floats, names: Sequence[str], size: Floats, taken: Floats) -> list[_Spot]:
    """Place labels in order beside their points, leaving out each that would cover an earlier one or `taken`."""
    spots: list[_Spot] = []
    for point, name in enumerate(names):
        for spot in _candidates(point, name, *placed[point].tolist()):
            box = _box(spot)
            inside = box.min() >= 0 and bool(np.all(box[2:] <= size))
            if inside and not _covers(taken, box):
                taken = np.vstack([taken, box])
                spots.append(spot)
                break
    return spots


def _candidates(point: int, name: str, x: float, y: float) -> list[_Spot]:
    gap = 4.0
    beside = [_Spot(point, name, x + gap, y, "left"), _Spot(point, name, x - gap, y, "right")]
    return [*beside, _Spot(point, name, x, y + 9.0, "center"), _Spot(point, name, x, y - 9.0, "center")]


def _box(spot: _Spot) -> Floats:
    """Return left, bottom, right, top of a label; its width is counted in characters: no font is known."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in spot.text)
    width = (0.58 * (len(spot.text) - wide) + 1.02 * wide) * (_FONT_SIZE - 1) + 2
    left = spot.x - {"left": 0.0, "center": width / 2, "right": width}[spot.align]
    return np.array([left, spot.y - 5.5, left + width, spot.y + 5.5])


def _key_boxes(key: Collection[str], size: Floats) -> Floats:
    """Return left, bottom, right, top of each line of the key in the upper right corner."""
    lines = [
        _Spot(0, _short(name), size[0] - 4, size[1] - 12 - 14 * row, "right") for row, name in enumerate(key)
    ]
    boxes = np.array([_box(line) for line in lines]).reshape(-1, 4)
    return boxes + np.array([-16, -4, 4, 4])


def _covers(taken: Floats, box: Floats) -> bool:
    """Tell whether a box overlaps one of those taken."""
    return bool(np.any((taken[:, :2] < box[2:]).all(axis=1) & (taken[:, 2:] > box[:2]).all(axis=1)))


def _group_colours(groups: Sequence[object]) -> tuple[list[str], dict[str, str]]:
    """Return a colour for each point, and the key: group name to colour, largest group first."""
    sizes: dict[str, int] = {}
    for group_ in map(str, groups):
        sizes[group_] = sizes.get(group_, 0) + 1
    if len(sizes) < 2:
        return [_COLOURS[0]] * len(groups), {}
    ranked = sorted(sizes, key=lambda name: (-sizes[name], name))
    whole = ranked if len(ranked) <= len(_COLOURS) else ranked[: len(_COLOURS) - 1]
    key = dict(zip(whole, _COLOURS, strict=False))
    colours = [key.get(str(group_), _MUTED) for group_ in groups]
    if len(whole) < len(ranked):
        key[f"{len(ranked) - len(whole)} others"] = _MUTED
    return colours, key


def _draw_map(axes: Any, drawing: _Map, colours: list[str]) -> None:
    axes.set(xlim=(0, drawing.width), ylim=(0, drawing.height))
    axes.set_axis_off()
    many = len(colours) > _MAX_VECTOR_POINTS
    alpha = np.full(len(colours), 0.4 if many or drawing.labels else 0.75)  # points without a name stand back
    alpha[[spot.point for spot in drawing.labels]] = 0.95
    size = 4 if many else 13
    axes.scatter(drawing.x, drawing.y, s=size, c=colours, alpha=alpha, linewidths=0, rasterized=many)
    for _, text, x, y, align in drawing.labels:
        axes.text(x, y, text, ha=align, va="center_baseline", fontsize=_FONT_SIZE - 1)


def _draw_key(axes: Any, key: Mapping[str, str]) -> None:
    if not key:
        return
    for name, colour in key.items():
        axes.plot([], [], linestyle="none", marker="o", markersize=5, color=colour, label=_short(name))
    axes.legend(loc="upper right", fontsize=_FONT_SIZE - 1, handletextpad=0.1, borderaxespad=0.2)


def word_map(
    words: Sequence[str],
    vectors: ArrayLike,
    *,
    title: str = "Map of frequent words",
    method: Literal["pca", "tsne"] = "pca",
    max_words: int = 400,
    groups: Sequence[object] | None = None,
    noun: str = "most frequent word",
    seed: int = 0,
) -> Section:
    """Draw words on the plane by their vectors, the most frequent with their names.

    Parameters
    ----------
    words
        Most frequent first.
    vectors
        Shape (n, d), row i for word i. With d = 2 they are taken as points of the plane as they stand.
    title
        Title of the section.
    method
        "pca", the first two principal components, or "tsne", which keeps neighbours together.
    max_words
        Words shown, from the first on.
    groups
        A group for each word, to colour it by.
    noun
        What a word is, in the caption.
    seed
        Seed of t-SNE.

    Raises
    ------
    ValueError
        If the numbers of words and of rows differ, or `vectors` is not two-dimensional.
    """
    matrix = np.asarray(vectors, dtype=np.float64)
    if matrix.ndim != 2 or len(words) != len(matrix):
        raise ValueError(
            f"{len(words)} words came with vectors of shape {matrix.shape}; give one row for each word"
        )
    matrix = matrix[:max_words]
    known = np.flatnonzero(np.isfinite(matrix).all(axis=1)).tolist()
    points, axes_are = _plane(matrix[known], method, seed)
    return scatter_map(
        points,
        title,
        labels=[words[i] for i in known],
        groups=None if groups is None else [groups[i] for i in known],
        xlabel=axes_are[0],
        ylabel=axes_are[1],
        caption=f"The {_plural(len(known), noun)} with a vector.",
    )


def _plane(matrix: Floats, method: str, seed: int) -> tuple[Floats, tuple[str, str]]:
    """Project rows onto the plane; return the points and what the axes are."""
    n, d = matrix.shape
    if n < 2 or d == 2:
        points = np.zeros((n, 2))
        points[:, : min(d, 2)] = matrix[:, :2]
        return points, ("first coordinate, no unit", "second coordinate, no unit")
    if not matrix.size or np.all(matrix == matrix[0]):
        return np.zeros((n, 2)), ("all vectors are equal", "all vectors are equal")
    with one_blas_thread():
        if method == "tsne" and n >= 5 and d > 2:
            model = TSNE(perplexity=min(30.0, (n - 1) / 3), init="pca", random_state=seed, n_jobs=1)
            return model.fit_transform(matrix).astype(np.float64), (
                "first t-SNE axis, no unit",
                "second, no unit",
            )
        return _principal_plane(matrix)


def _principal_plane(matrix: Floats) -> tuple[Floats, tuple[str, str]]:
    total = float(matrix.var(axis=0).sum())
    points = np.zeros((len(matrix), 2))
    rank = min(2, *matrix.shape)
    points[:, :rank] = PCA(rank, svd_solver="full").fit_transform(matrix)
    share = 100 * points.var(axis=0) / total
    return points, (f"first principal component ({share[0]:.1f} % of variance)", f"second ({share[1]:.1f} %)")


# ---- what this package measures ---------------------------------------------------------------------------


def zipf_curve(counts: ArrayLike, *, title: str = "Rank and frequency", first_rank: int = 10) -> Section:
    """Draw word counts against rank on logarithmic axes, with a fitted power law.

    The exponent s of count = c / rank^s is the least-squares slope over ranks spaced evenly in their
    logarithm, from `first_rank` on: the most frequent words lie below the line (Mandelbrot's shift).

    Parameters
    ----------
    counts
        Occurrences of each word, in any order; zeros are left out.
    title
        Title of the section.
    first_rank
        First rank used by the fit.
    """
    ordered = np.sort(_finite(counts))[::-1]
    ordered = ordered[ordered > 0]
    ranks = np.arange(1.0, ordered.size + 1)
    series: dict[str, Any] = {"counts": (ranks, ordered)}
    said = f"{_plural(ordered.size, 'word')}, {format_number(float(ordered.sum()))} occurrences."
    fit = _power_law(ranks[first_rank - 1 :], ordered[first_rank - 1 :])
    if fit is not None:
        exponent, scale = fit
        name = f"fit, exponent {exponent:.2f}"
        series[name] = (ranks, scale * ranks**-exponent)
        said += f" Dashed: count ∝ rank^−{exponent:.2f}, fitted from rank {first_rank} on."
    dashed = [name for name in series if name != "counts"]
    axes: dict[str, Any] = {"xlabel": "rank of the word", "ylabel": "occurrences"}
    return line_chart(series, title, x_scale="log", y_scale="log", caption=said, dashed=dashed, **axes)


def _power_law(ranks: Floats, counts: Floats) -> tuple[float, float] | None:
    """Fit count = scale * rank^-exponent; None where too few different values are left to fit."""
    chosen = _spread(ranks.size, "log")
    if np.unique(counts[chosen]).size < 3:
        return None
    slope, intercept = np.polyfit(np.log(ranks[chosen]), np.log(counts[chosen]), 1)
    return -float(slope), math.exp(intercept)


def count_sparsity(
    row_nnz: ArrayLike, n_words: int, *, title: str = "Sparsity of the counts", bins: int = 60
) -> Section:
    """Draw how many different words each word occurs with, against its rank.

    Parameters
    ----------
    row_nnz
        Non-zero counts in each row, the most frequent word first.
    n_words
        Columns of the matrix.
    title
        Title of the section.
    bins
        Ranks are put into at most this many bins of equal width in the logarithm; the median and the middle
        four fifths of each are drawn.
    """
    nnz = np.asarray(row_nnz, dtype=np.float64).ravel()
    if not nnz.size:
        return Section(title, _paragraph("Nothing to draw: the matrix has no rows."))
    edges = np.unique(np.rint(np.geomspace(1, nnz.size + 1, bins + 1)).astype(np.int64)) - 1
    parts = [nnz[low:high] for low, high in pairwise(edges)]
    ranks = np.sqrt((edges[:-1] + 1.0) * edges[1:])
    low, median, high = (np.array([np.percentile(part, q) for part in parts]) for q in (10, 50, 90))
    total = float(nnz.sum())
    filled = f"{100 * total / (nnz.size * n_words):.3g} %" if n_words else "none"
    caption = f"{format_number(total)} non-zero counts in {nnz.size:,} × {n_words:,}: {filled} filled. "
    caption += "Line: median of the words near a rank; tint: four fifths of them."
    band = (ranks, np.maximum(low, 0.5), high)
    return line_chart(
        {"": (ranks, median)},
        title,
        xlabel="rank of the word",
        ylabel="non-zero counts in its row",
        x_scale="log",
        y_scale="log",
        caption=caption,
        band=band,
    )


def eigenvalue_spectrum(eigenvalues: ArrayLike, *, title: str = "Eigenvalues") -> Section:
    """Draw eigenvalues in falling order, on a logarithmic axis if they are positive and span a decade."""
    values = np.sort(_finite(eigenvalues))[::-1]
    wide = bool(values.size and values[-1] > 0 and values[0] > 10 * values[-1])
    caption = f"{_plural(values.size, 'eigenvalue')}, {int((values < 0).sum()):,} of them negative."
    axes: dict[str, Any] = {"xlabel": "rank of the eigenvalue", "ylabel": "eigenvalue"}
    return line_chart({"": values}, title, y_scale="log" if wide else "linear", caption=caption, **axes)


def objective_curve(
    objective: ArrayLike, *, title: str = "Objective", ylabel: str = "objective", xlabel: str = "round"
) -> Section:
    """Draw the value of an objective after each round."""
    values = np.asarray(objective, dtype=np.float64).ravel()
    finite = _finite(values)
    if not finite.size:
        return Section(title, _paragraph("Nothing to draw: there is no finite value."))
    change = 100 * (finite[-1] / finite[0] - 1) if finite[0] else math.nan
    caption = f"From {format_number(float(finite[0]))} to {format_number(float(finite[-1]))}"
    caption += f" ({change:+.2f} %)".replace("-", "−") if finite.size > 1 and math.isfinite(change) else ""
    return line_chart({"": values}, title, xlabel=xlabel, ylabel=ylabel, caption=f"{caption}.")


# ---- the page ---------------------------------------------------------------------------------------------


def _variables(shade: int) -> str:
    return "".join(f"--{role}:{colours[shade]};" for role, colours in _THEME.items())


_CSS = f"""
:root{{color-scheme:light dark;{_variables(0)}}}
@media screen and (prefers-color-scheme:dark){{:root{{{_variables(1)}}}}}
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
a{{color:var(--c0);text-underline-offset:.2em}}
dl{{display:flex;flex-wrap:wrap;gap:1px;margin:1.25rem 0;background:var(--rule);border:1px solid var(--rule)}}
dl div{{background:var(--surface);padding:.6rem .85rem;flex:1 1 8.5rem}}
dt{{color:var(--muted);font-size:.8rem}}
dd{{margin:0;font-size:1.05rem;font-weight:600;overflow-wrap:anywhere}}
figure{{margin:0 0 1.5rem}}
figcaption{{margin-top:.5rem;max-width:46rem}}
.scroll{{overflow-x:auto}}
svg{{display:block;width:100%;min-width:28rem;max-width:46rem;height:auto;
 stroke-linejoin:round;stroke-linecap:butt;font-family:inherit}}
svg text{{white-space:pre;paint-order:stroke;stroke:var(--surface);stroke-width:2px}}
table{{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums lining-nums}}
caption{{caption-side:bottom;text-align:left;padding-top:.6rem}}
th,td{{padding:.35rem .9rem .35rem 0;text-align:left;vertical-align:baseline;
 border-bottom:1px solid var(--rule);
 overflow-wrap:break-word;max-width:26rem}}
thead th{{color:var(--muted);font-weight:500;font-size:.8rem;border-bottom-color:var(--muted)}}
tbody th{{font-weight:600;white-space:nowrap}}
.n{{text-align:right;white-space:nowrap;padding-right:1.1rem}}
.near{{max-width:none}}
.near span{{display:inline-block;margin-right:1rem}}
small{{color:var(--muted);font-size:.8em}}
@media print{{:root{{--surface:#fff}}
 body{{font-size:10.5pt}}main{{max-width:none;padding:0}}nav{{display:none}}
 figure,tr,dl{{break-inside:avoid}}h2,h3{{break-after:avoid}}.scroll{{overflow:visible}}
 svg{{min-width:0;max-width:30rem}}}}
""".strip()

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def render_report(
    title: str, summary: str, sections: Iterable[Section], *, facts: Mapping[str, object] | None = None
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

    Returns
    -------
    str
        An HTML document. Equal input gives equal text.
    """
    parts = list(sections)
    links = "".join(f'<li><a href="#s{i}">{_text(part.title)}</a></li>' for i, part in enumerate(parts, 1))
    body = "\n".join(
        f'<section id="s{i}">\n<h2>{_text(part.title)}</h2>\n{part.html}\n</section>'
        for i, part in enumerate(parts, 1)
    )
    contents = f'<nav aria-label="Contents"><ul>{links}</ul></nav>' if len(parts) > 1 else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{_text(title)}</title>
<style>
{_CSS}
</style>
</head>
<body>
<main>
<header>
<h1>{_text(title)}</h1>
<p class="summary">{_text(summary)}</p>
{_facts(facts or {})}
{contents}
</header>
{body}
</main>
</body>
</html>
"""


def _facts(facts: Mapping[str, object]) -> str:
    items = (
        f"<div><dt>{_text(name)}</dt><dd>{_text(_fact(value))}</dd></div>" for name, value in facts.items()
    )
    return f"<dl>{''.join(items)}</dl>" if facts else ""


def _fact(value: Any) -> str:
    return format_number(value) if _is_number(value) else str(value)
