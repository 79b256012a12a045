"""What a page to explore shows: named rows with vectors, colorings, facts, and lists of neighbors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from matplotlib import colormaps
from matplotlib.colors import to_hex
from numpy.typing import ArrayLike, NDArray

from distembed.display import format_number
from distembed.views.report.figures import COLORS, MUTED, largest_groups

MAX_POINTS = 20_000
"""Points of a page: what a browser draws fluently without WebGL, and a layout of a minute."""

CATEGORIES = [*COLORS, *(to_hex(colormaps["tab20b"](code)) for code in range(0, 20, 2))]
"""Colors of categories: the largest category has the first; those beyond share gray."""

SHADES = [to_hex(colormaps["viridis"](place)) for place in np.linspace(0.95, 0.0, 32)]
"""Colors of a quantity, from the least on."""


class Coloring(NamedTuple):
    """A way to color the points.

    Attributes
    ----------
    name : str
        What the color says.
    codes : uint8 array (n,)
        The place of each point's color in the palette.
    palette : list of str
        Colors as #rrggbb.
    key : list of str
        The text of each color of categories; of a quantity the least, the middle and the largest value.
    is_quantity : bool
        Whether the palette is a scale.
    """

    name: str
    codes: NDArray[np.uint8]
    palette: list[str]
    key: list[str]
    is_quantity: bool


class NeighborList(NamedTuple):
    """Other points that belong to each point, with a figure each, the nearest first.

    Attributes
    ----------
    title : str
        What the list is.
    rows : int32 array (n, k)
        The numbers of the points; -1 where there are fewer than k.
    values : float32 array (n, k)
        Figures between -1 and 1, such as cosines or weights.
    """

    title: str
    rows: NDArray[np.int32]
    values: NDArray[np.float32]


class Items(NamedTuple):
    """What a page shows.

    Attributes
    ----------
    title : str
        The title of the page.
    noun : str
        What a point is: "word", "name" or "document".
    names : sequence of str
        The name of each point, the most important first.
    vectors : float array (n, d)
        What the map and the neighbors by cosine are made from; no row is zeros.
    colorings : list of Coloring
        At least one; the first is shown first.
    facts : mapping of str to sequence of str
        What is known of each point: a text for each, "" for nothing.
    lists : list of NeighborList
        Lists beside that of the nearest by cosine.
    labeled : bool array (n,), optional
        The points whose names may stand on the map; by default all.
    note : str
        A sentence on what was left out, "" for none.
    """

    title: str
    noun: str
    names: Sequence[str]
    vectors: NDArray[np.floating]
    colorings: list[Coloring]
    facts: Mapping[str, Sequence[str]] = {}
    lists: Sequence[NeighborList] = ()
    labeled: NDArray[np.bool_] | None = None
    note: str = ""


def by_category(name: str, categories: Sequence[str]) -> Coloring:
    """Return a coloring by category, the largest first; more categories than there are colors share gray."""
    own, rest = largest_groups(categories, len(CATEGORIES))
    place = {category: code for code, category in enumerate(own)}
    codes = np.array([place.get(category, len(own)) for category in categories], dtype=np.uint8)
    key = [*own, *([f"{rest:,} others"] if rest else [])]
    return Coloring(
        name, codes, [*CATEGORIES[: len(own)], *([MUTED] if rest else [])], key, is_quantity=False
    )


def by_quantity(name: str, values: ArrayLike, *, logarithmic: bool = False) -> Coloring:
    """Return a coloring by a number, from the least to the largest value; not-finite ones count as the least."""
    given = np.asarray(values, dtype=np.float64)
    scaled = np.log(np.maximum(given, np.finfo(np.float64).tiny)) if logarithmic else given
    finite = scaled[np.isfinite(scaled)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    share = np.nan_to_num(
        (scaled - low) / (high - low if high > low else 1.0), nan=0.0, posinf=1.0, neginf=0.0
    )
    codes = np.rint(np.clip(share, 0, 1) * (len(SHADES) - 1)).astype(np.uint8)
    ends = [np.exp(end) if logarithmic else end for end in (low, (low + high) / 2, high)]
    return Coloring(name, codes, SHADES, [format_number(_rounded(end)) for end in ends], is_quantity=True)


def _rounded(value: float) -> float:
    """Return a value to three significant digits, whole where it is large."""
    rounded = float(f"{value:.3g}")
    return int(rounded) if abs(rounded) >= 100 else rounded


def listed(title: str, graph: sp.csr_array, rows: NDArray[np.int64], *, longest: int) -> NeighborList:
    """Return the entries of a sparse matrix, the largest first, as a list of the points that stand for its rows.

    Parameters
    ----------
    title : str
        What the list is.
    graph : CSR (n_all, n_all)
        A figure of each pair of rows; a row may have none.
    rows : int64 array (n,)
        The row of the matrix that each point stands for; entries of rows without a point are left out.
    longest : int
        Entries kept of a row, at most.
    """
    place = np.full(graph.shape[1], -1, np.int32)
    place[rows] = np.arange(rows.size)
    width = max(1, min(longest, int(np.diff(graph.indptr).max(initial=0))))
    found, values = np.full((rows.size, width), -1, np.int32), np.zeros((rows.size, width), np.float32)
    for point, row in enumerate(rows.tolist()):
        own = slice(graph.indptr[row], graph.indptr[row + 1])
        order = np.argsort(-graph.data[own], kind="stable")
        kept = order[place[graph.indices[own]][order] >= 0][:width]
        found[point, : kept.size] = place[graph.indices[own][kept]]
        values[point, : kept.size] = graph.data[own][kept]
    return NeighborList(title, found, values)
