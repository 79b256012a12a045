"""What the page shows of word vectors: the most frequent words, colored by frequency and by group."""

from __future__ import annotations

from importlib import import_module
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from distembed.display import plural
from distembed.dtypes import Float32s, Int64s, Mask
from distembed.execution import compute, one_blas_thread
from distembed.formats.streams import writing
from distembed.job.opening import Source, job_of, load_vectors
from distembed.job.provenance import made_with
from distembed.job.stage import EXPLORER, EXPLORER_STAGE, REPORT, REPORT_STAGE, system_of
from distembed.linalg.csr import unit_rows
from distembed.neighbors.graphs import row_is_used
from distembed.stages.words import common_words, content_words
from distembed.storage.workspace import Workspace
from distembed.urls import public
from distembed.views.explorer.items import MAX_POINTS, Coloring, Items, by_category, by_quantity
from distembed.views.explorer.page import check_extra, lay_out, render_page

N_GROUPS = 16
"""Groups of words of a page."""

GROUP_COMPONENTS = 50
"""Principal components by which words are grouped."""

NAMING_WORDS = 3
"""Words that name a group: the most frequent of those near its middle."""

MIDDLE = 0.25
"""The share of a group's words that is near its middle."""


def items(job: Any, workspace: Workspace, *, n_points: int = MAX_POINTS) -> Items:
    """Return the most frequent words of a finished workspace with their counts."""
    with workspace.of_one_run():
        stored, table = workspace.array("vectors"), workspace.table("vocabulary")
        rows = np.flatnonzero(row_is_used(stored, "cosine"))[:n_points]
        shown, matrix = table.take(rows), compute(stored[rows])
    names, n_out = shown["word"].to_pylist(), len(stored) - len(rows)
    counts = np.asarray(shown["count"]) if "count" in table.column_names else None
    are = "is" if n_out == 1 else "are"
    note = f"{plural(n_out, 'word')} {are} left out: rarer, or without a vector." if n_out else ""
    return word_items(job.job.title, names, matrix, rows, note, counts, common_words(workspace))


def word_items(
    title: str,
    names: list[str],
    matrix: Float32s,
    places: Int64s,
    note: str = "",
    counts: NDArray[Any] | None = None,
    common: frozenset[str] = frozenset(),
) -> Items:
    """Return words with their vectors, the most frequent first.

    Parameters
    ----------
    title : str
        The title of the page.
    names, matrix, places : list of str, float32 array (n, d), int64 array (n,)
        The words, their vectors, none of which is zeros, and the place of each among all.
    note : str
        A sentence on the words that are left out.
    counts : array (n,), optional
        How often each word occurs.
    common : frozenset of str
        Words that get no label on the map, as stop words get none.
    """
    if counts is None:
        key = [f"{places[place] + 1:,}" if names else "" for place in (-1, len(names) // 2, 0)]
        frequency = by_quantity("rank in the file", -(places + 1.0))._replace(key=key)
    else:
        frequency = by_quantity("frequency", counts, logarithmic=True)
    content = set(content_words(names, common))
    labeled = np.array([name in content for name in names], dtype=bool)
    facts = {} if counts is None else {"count": [f"{count:,}" for count in counts.tolist()]}
    colorings = [*_groups(names, matrix, labeled), frequency]
    return Items(title, "word", names, matrix, colorings, facts, labeled=labeled, note=note)


def _groups(names: list[str], matrix: Float32s, labeled: Mask) -> list[Coloring]:
    """Return a coloring by groups of words that are near one another, none where there are few words."""
    if len(names) < 20 * N_GROUPS:
        return []
    unit = unit_rows(matrix.astype(np.float64))
    with one_blas_thread():
        rank = min(GROUP_COMPONENTS, *unit.shape)
        places = PCA(rank, svd_solver="covariance_eigh").fit_transform(unit)
        model = KMeans(N_GROUPS, n_init=1, random_state=0).fit(places)
    far = np.linalg.norm(places - model.cluster_centers_[model.labels_], axis=1)
    called = []
    for group in range(N_GROUPS):  # named by the most frequent words of its middle
        members = np.flatnonzero(model.labels_ == group)
        # Stop words name only a group that has no others.
        able = members[labeled[members]] if labeled[members].sum() >= NAMING_WORDS else members
        middle = able[far[able] <= np.quantile(far[able], MIDDLE)] if able.size > 4 * NAMING_WORDS else able
        called.append(", ".join(names[row] for row in middle[:NAMING_WORDS].tolist()))
    return [by_category("group of near words", [called[group] for group in model.labels_.tolist()])]


def write_explorer(source: Source, target: str | None = None, *, n_points: int = MAX_POINTS) -> str:
    """Write the page to explore what a job made, or the words of a vector file, and return in words what was written.

    Parameters
    ----------
    source : Job, Workspace or path of a vector file
    target : str, optional
        The file or URL, which appears whole or not at all; by default the page lies beside the report in the workspace.
    n_points : int
        Words or documents shown, at most.

    Raises
    ------
    ImportError
        If the libraries of the page are not installed.
    ValueError
        If a vector file comes without a target, the method has no map, or nothing has a vector.
    KeyError, FileNotFoundError
        If the job has not come so far.
    """
    check_extra()
    if isinstance(source, str):
        if target is None:
            raise ValueError(
                f"{source} is a vector file, which has no report: name the page with --to page.html"
            )
        vectors = load_vectors(source, max_words=n_points)
        rows = np.flatnonzero(vectors.norms > 0)[:n_points]
        names = [vectors.words[row] for row in rows.tolist()]
        note = f"The page reads the first {n_points:,} words of the file." if len(vectors) == n_points else ""
        items = word_items(public(source), names, vectors.vectors[rows], rows, note)
    else:
        job = job_of(source)
        module, workspace = system_of(job).explorer, Workspace.open(job.job.workspace)
        if module is None:
            raise ValueError(f"a job of the method {job.job.system} has no map to explore: read its report")
        items = import_module(module).items(job, workspace, n_points=n_points)
    if target is not None:
        page = _page(items)
        with writing(target) as file:
            file.write(page.encode())
        return f"{plural(len(items.names), items.noun)} in {target}"
    # The output of a stage that rests on all others: a run that replaces one of them removes it.
    with Workspace.create(job.job.workspace, owner=f"page of {job.job.title}") as workspace:
        done = workspace.stages()
        own = (EXPLORER_STAGE, REPORT_STAGE)
        inputs = {name: manifest.fingerprint for name, manifest in done.items() if name not in own}
        stage = workspace.stage(
            EXPLORER_STAGE, parameters={"n_points": n_points}, inputs=inputs, made_with=made_with()
        )
        stage.reopen([])
        link = PurePosixPath(REPORT.name).name if REPORT_STAGE in done else None
        stage.store_bytes(EXPLORER.name, _page(items, report=link).encode(), is_page=True)
        stage.commit()
    return f"{plural(len(items.names), items.noun)} in {workspace.path(EXPLORER.name)}"


def _page(items: Items, *, report: str | None = None) -> str:
    if not items.names:
        raise ValueError(f"{items.title} has no {items.noun} with a vector: there is nothing to explore")
    return render_page(items, lay_out(items), report=report)
