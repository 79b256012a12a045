"""Maps of a report: points of the plane with as many labels as fit, and words placed by their vectors."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from distembed.display import plural
from distembed.dtypes import Float64s
from distembed.execution import one_blas_thread
from distembed.views.report.figures import COLORS, FONT_SIZE, MUTED, WIDE, Figure, largest_groups
from distembed.views.report.page import Note, Section, short

_MAP_HEIGHTS = (200.0, 560.0)  # least and most, in those units
_MAP_MARGIN = 96.0  # left and right together, for labels beside the outermost points
_MAX_VECTOR_POINTS = 2500  # more points than this are embedded as a picture, to keep the file small
_MAX_FREE_POINTS = 400  # labels keep off this many points, each with so much around it
_POINT_HALF = 2.0
_KEY_COLUMNS = 2
_SMALL = FONT_SIZE - 1
_MAX_KEY = 34  # characters of a name in the key


def word_maps(
    title: str,
    words: Sequence[str],
    vectors: ArrayLike,
    drawings: Mapping[str, Sequence[object] | None],
    *,
    noun: str = "most frequent word",
) -> Section:
    """Return figures of one layout of words, each in the colors of other groups, under one title.

    Parameters
    ----------
    title
        That of the section.
    words
        Most frequent first: a name that would cover an earlier one on the map is left out, and a second equal one.
    vectors
        Shape (n, d), row i for word i. With d = 2 they are taken as points of the plane as they stand, others are laid
        out, once, by t-SNE, or where there are few by their first two principal components.
    drawings
        The title of each figure, "" for that of the section, with a group for each word to color it by, or None. The
        seven largest groups get a color of their own, the rest share gray.
    noun
        What a word is, in the caption.
    """
    matrix = np.asarray(vectors, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(matrix).all(axis=1)).tolist()
    points, axes_are = plane(matrix[known])
    first = {short(words[i]): i for i in reversed(known)}  # the pieces of one book have one title
    names = [short(words[i]) if first[short(words[i])] == i else "" for i in known]
    across = f" Across: {axes_are[0]}. Up: {axes_are[1]}." if axes_are[0] else ""
    caption = f"The {plural(len(known), noun)} with a vector."
    figures = [
        _map(
            title, points, names, None if groups is None else [str(groups[i]) for i in known], caption, across
        )
        for title, groups in drawings.items()
    ]
    return Section(title, figures)


def _map(
    title: str,
    points: Float64s,
    names: Sequence[str],
    groups: Sequence[str] | None,
    caption: str,
    across: str,
) -> Figure | Note:
    """Return a figure of points of the plane, colored by group, with as many names as fit without overlap."""
    if not len(points):
        return Note(title, "Nothing to draw: there is no point with finite coordinates.")
    colors, key = [COLORS[0]] * len(points), dict[str, str]()
    if groups is not None and len(set(groups)) > 1:
        own, n_rest = largest_groups(groups, len(COLORS))
        key = dict(zip(own, COLORS, strict=False))
        colors = [key.get(group, MUTED) for group in groups]
        key |= {f"{n_rest} others": MUTED} if n_rest else {}
    (width, height), placed, spots = _place(points, names, len(key))

    def draw(figure: Any) -> None:
        figure.set_layout_engine("none")  # the axes fill the figure
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(0, height))
        axes.set_axis_off()
        many = len(colors) > _MAX_VECTOR_POINTS
        alpha = np.full(len(colors), 0.4 if many or spots else 0.75)  # points without a name stand back
        alpha[[spot.point for spot in spots]] = 0.95
        size = 4 if many else 13
        axes.scatter(*placed.T, s=size, c=colors, alpha=alpha, linewidths=0, rasterized=many)
        for _, text, x, y, align in spots:
            axes.text(x, y, text, ha=align, va="center_baseline", fontsize=_SMALL)
        style: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 5}
        for name, color in key.items():
            axes.plot([], [], color=color, label=short(name, _MAX_KEY), **style)
        if key:
            place = {"loc": "lower left", "ncols": _KEY_COLUMNS, "handletextpad": 0.1, "borderaxespad": 0.2}
            axes.legend(fontsize=_SMALL, **place)

    said = f"{plural(len(points), 'point')}, {len(spots)} labeled."
    shown = ", ".join(spot.text for spot in spots[:12])
    among = f" Among them: {shown}." if shown else ""
    size = (width / 72, height / 72)
    return Figure(title, draw, f"Map of {said}{among}", f"{caption} {said}{across}", size)


def _place(
    points: Float64s, names: Sequence[str], n_key: int
) -> tuple[tuple[float, float], Float64s, list[_Spot]]:
    """Fit points to the page's width at one scale for both axes, and choose the labels, all above the key.

    The size, the points and the labels are in the units of an SVG.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    extent = np.where(high > low, high - low, 1.0)
    width = WIDE[0] * 72
    height = float(np.clip((width - _MAP_MARGIN) * extent[1] / extent[0], *_MAP_HEIGHTS)) + _MAP_MARGIN / 2
    below = -(-n_key // _KEY_COLUMNS) * 1.72 * _SMALL + 8 if n_key else 0.0  # the key stands below the points
    scale = ((np.array([width, height]) - [_MAP_MARGIN, _MAP_MARGIN / 2]) / extent).min()
    placed = np.array([width, height]) / 2 + (points - (low + high) / 2) * scale + [0, below]
    taken = np.array([[0.0, 0.0, width, below]])
    return (width, height + below), placed, _labels(placed, names, (width, height + below), taken)


class _Spot(NamedTuple):
    point: int
    text: str
    x: float
    y: float
    align: str


_SIDES = (
    *((4.0, 0.0, "left"), (-4.0, 0.0, "right"), (0.0, 9.0, "center"), (0.0, -9.0, "center")),
    *((right, up, align) for right, align in ((4.0, "left"), (-4.0, "right")) for up in (6.0, -6.0)),
)
"""Where a label may stand from its point, the best place first, and how it is aligned."""


def _labels(
    placed: Float64s, names: Sequence[str], size: tuple[float, float], taken: Float64s
) -> list[_Spot]:
    """Place labels in order beside their points, leaving out each that would cover an earlier one or a taken box.

    A box is left, bottom, right, top. A label covers no other point either, up to `_MAX_FREE_POINTS` of them: of more
    hardly any label would be left. Its width is counted in characters: no font is known.
    """
    spots, half = list[_Spot](), 0.69 * _SMALL
    if len(placed) <= _MAX_FREE_POINTS:
        taken = np.vstack([taken, np.hstack([placed - _POINT_HALF, placed + _POINT_HALF])])
    for point, name in enumerate(names):
        n_wide = sum(unicodedata.east_asian_width(c) in "WF" for c in name)
        width = (0.58 * (len(name) - n_wide) + 1.02 * n_wide) * _SMALL + 2
        for right, up, align in _SIDES if name else ():
            x, y = float(placed[point, 0] + right), float(placed[point, 1] + up)
            left = x - {"left": 0.0, "center": width / 2, "right": width}[align]
            box = np.array([left, y - half, left + width, y + half])
            covers = (taken[:, :2] < box[2:]).all(axis=1) & (taken[:, 2:] > box[:2]).all(axis=1)
            if box.min() >= 0 and (box[2:] <= size).all() and not covers.any():
                taken = np.vstack([taken, box])
                spots.append(_Spot(point, name, x, y, align))
                break
    return spots


def plane(matrix: Float64s) -> tuple[Float64s, tuple[str, str]]:
    """Project rows onto the plane; return the points and what the axes are, "" where they mean nothing."""
    n, d = matrix.shape
    if n < 2 or d == 2:
        points = np.zeros((n, 2))
        points[:, : min(d, 2)] = matrix[:, :2]
        return points, ("first coordinate, no unit", "second coordinate, no unit")
    if not matrix.size or np.all(matrix == matrix[0]):
        return np.zeros((n, 2)), ("all vectors are equal", "all vectors are equal")
    with one_blas_thread():
        if n >= 5 and d > 2:
            model = TSNE(perplexity=min(30.0, (n - 1) / 3), init="pca", random_state=0, n_jobs=1)
            return model.fit_transform(matrix).astype(np.float64), ("", "")
        total, rank, points = float(matrix.var(axis=0).sum()), min(2, n, d), np.zeros((n, 2))
        points[:, :rank] = PCA(rank, svd_solver="full").fit_transform(matrix)
    share = 100 * points.var(axis=0) / total
    return points, (f"first principal component ({share[0]:.1f} % of variance)", f"second ({share[1]:.1f} %)")
