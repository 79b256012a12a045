"""The page as one HTML file: BokehJS, the data and the program of the page inline, and nothing fetched."""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from distembed.display import plural
from distembed.dtypes import Float32s, Float64s
from distembed.execution import one_blas_thread
from distembed.extras import check_installed, optional
from distembed.linalg.csr import unit_rows
from distembed.neighbors.search import nearest_neighbors
from distembed.views.explorer.items import Items, NeighborList
from distembed.views.report.page import escaped, printable

LISTED = 10
"""Neighbors of a point on the page."""

GRAPH_NEIGHBORS = 15
"""Neighbors that hold a point in its place: t-SNE with equal weights on 15 neighbors draws what perplexity 30 does."""

FEWEST = 12
"""Of fewer points the principal components are drawn."""


USER = "the page to explore"


def check_extra() -> None:
    """Check that the libraries of the page are installed, before minutes of work.

    Raises
    ------
    ImportError
        If one is not.
    """
    check_installed(USER, "explore", "openTSNE", "bokeh")


def lay_out(items: Items, *, seed: int = 0) -> tuple[Float32s, NeighborList]:
    """Return places on the plane, (n, 2), that keep neighbors together, and the exact neighbors of each by cosine.

    The places are those of t-SNE on the graph of the 15 nearest neighbors, from the principal components on. Equal
    input gives equal places on one kind of processor.

    Raises
    ------
    ImportError
        As `check_extra`.
    """
    vectors = unit_rows(np.asarray(items.vectors, np.float64)).astype(np.float32)
    n = len(vectors)
    if n < 2:
        return np.zeros((n, 2), np.float32), _listing(np.empty((n, 0)), np.empty((n, 0)))
    k = min(max(LISTED, GRAPH_NEIGHBORS), n - 1)
    distances, rows = map(np.asarray, nearest_neighbors(vectors, k, metric="cosine"))
    points = _principal_plane(vectors)
    if n >= FEWEST:  # 250 rounds pull neighbors together, 500 spread them
        tsne, lists = (
            optional(name, user=USER, extra="explore") for name in ("openTSNE", "openTSNE.nearest_neighbors")
        )
        k = min(GRAPH_NEIGHBORS, rows.shape[1])
        graph = lists.PrecomputedNeighbors(rows[:, :k].astype(np.int32), distances[:, :k])
        method = "fft" if n > 2000 else "bh"  # interpolation pays from some thousand points on
        with one_blas_thread():
            affinities = tsne.affinity.Uniform(knn_index=graph, k_neighbors=k)
            options = {"negative_gradient_method": method, "random_state": seed, "n_jobs": 1}
            embedding = tsne.TSNEEmbedding(1e-4 * points, affinities, **options)
            embedding.optimize(250, exaggeration=12, momentum=0.5, inplace=True)
            embedding.optimize(500, momentum=0.8, inplace=True)
        points = np.asarray(embedding)
    return points.astype(np.float32), _listing(rows[:, :LISTED], 1 - distances[:, :LISTED])


def _listing(rows: Any, cosines: Any) -> NeighborList:
    return NeighborList("nearest by cosine", rows.astype(np.int32), cosines.astype(np.float32))


def _principal_plane(vectors: Float32s) -> Float64s:
    """Return the first two principal components, 1 in standard deviation along the first."""
    rank = min(2, *vectors.shape)
    points = np.zeros((len(vectors), 2))
    if not np.ptp(vectors, axis=0).any():  # equal vectors have no variance to explain
        return points
    with one_blas_thread():
        points[:, :rank] = PCA(rank, svd_solver="covariance_eigh").fit_transform(vectors.astype(np.float64))
    scale = points[:, 0].std()
    return points / scale if scale > 0 else points


STEPS = 10_000
"""Figures of neighbors are stored as 16-bit numbers in steps of 1/10,000."""

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_LIBRARIES = ("bokeh", "bokeh-gl", "bokeh-api")


def render_page(items: Items, layout: tuple[Float32s, NeighborList], *, report: str | None = None) -> str:
    """Return the page as HTML text; equal input gives equal text.

    Parameters
    ----------
    items : Items
        What is shown.
    layout : tuple
        Where the points are, and their neighbors: what `lay_out` returns.
    report : str, optional
        The address of the report that the page links to.

    Raises
    ------
    ImportError
        As `check_extra`.
    """
    here = files("distembed.views.explorer")
    program, style = (here.joinpath(name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    sentence = (
        f"{plural(len(items.names), items.noun)} on a map that keeps neighbors together: distances between "
        "far points, directions and the axes mean nothing. Neighbors are exact, among those shown."
    )
    check_extra()
    scripts = files("bokeh") / "server" / "static" / "js"
    libraries = [scripts.joinpath(f"{name}.min.js").read_text(encoding="utf-8") for name in _LIBRARIES]
    labeled = np.ones(len(items.names), bool) if items.labeled is None else items.labeled
    value = {
        "noun": items.noun,
        "names": [printable(name) for name in items.names],
        "x": _packed(layout[0][:, 0], "<f4"),
        "y": _packed(layout[0][:, 1], "<f4"),
        "labeled": _packed(labeled, "u1"),
        "colorings": [
            {
                "name": coloring.name,
                "codes": _packed(coloring.codes, "u1"),
                "palette": coloring.palette,
                "key": [printable(text) for text in coloring.key],
                "quantity": coloring.is_quantity,
            }
            for coloring in items.colorings
        ],
        "facts": {name: [printable(text) for text in texts] for name, texts in items.facts.items()},
        "lists": [
            {
                "title": found.title,
                "k": found.rows.shape[1],
                "rows": _packed(found.rows, "<i4"),
                "values": _packed(np.nan_to_num(np.rint(np.clip(found.values, -1, 1) * STEPS)), "<i2"),
            }
            for found in (layout[1], *items.lists)
        ],
        "steps": STEPS,
    }
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return _PAGE.format(
        policy=_POLICY,
        title=escaped(items.title),
        summary=escaped(f"{sentence} {items.note}".strip()),
        link=f' <a href="{escaped(report)}">The report</a>' if report else "",
        noun=escaped(items.noun),
        data=data,
        style=style,
        libraries="\n".join(f"<script>{text}</script>" for text in libraries),
        program=program,
    )


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}: explore</title>
<style>
{style}
</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p>{summary}{link}</p>
</header>
<form id="tools" role="search" autocomplete="off">
<div class="field"><label for="search">Search</label>
<input id="search" type="text" role="combobox" aria-expanded="false" aria-controls="found" aria-autocomplete="list"
 placeholder="a {noun}" spellcheck="false">
<ul id="found" role="listbox" aria-label="{noun}s found" hidden></ul></div>
<div class="field"><label for="coloring">Color by</label><select id="coloring"></select></div>
<div class="buttons"><button type="button" id="nearer" aria-label="zoom in">+</button>
<button type="button" id="farther" aria-label="zoom out">−</button>
<button type="button" id="whole">whole map</button></div>
</form>
<p id="message" role="status"></p>
<main>
<div id="stage"><div id="map"></div><div id="key"></div></div>
<aside id="panel" aria-live="polite"><p class="hint">Click a point, or search for a {noun}, to see its neighbors.
Keys: / search, + and − zoom, 0 the whole map, arrows move, Esc lets go.</p></aside>
</main>
<script type="application/json" id="data">{data}</script>
{libraries}
<script>
{program}
</script>
</body>
</html>
"""


def _packed(values: NDArray[Any], dtype: str) -> str:
    """Return numbers as base64 text, least significant byte first."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode("ascii")
