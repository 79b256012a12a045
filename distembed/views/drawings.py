"""Figures of chosen words, documents and topics of a finished job, as files for a paper or a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.display import plural
from distembed.job.model import Job
from distembed.job.opening import Source, VectorFile, job_of, load_vectors, place_of
from distembed.job.stage import System, system_of
from distembed.job.tables import Table
from distembed.linalg.blocks import directions
from distembed.linalg.chunks import evenly_spaced
from distembed.stages.words import common_words, content_words
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors
from distembed.views.report.figures import (
    COLORS,
    INK,
    WIDE,
    Drawing,
    Interval,
    figure_format,
    save_figure,
)
from distembed.views.report.maps import MapMethod, map_drawing, plane
from distembed.views.report.page import Floats, short
from distembed.views.report.panels import PANELS_ACROSS, panel_drawing
from distembed.views.report.run import origin

Drawn = Literal["words", "documents"]
"""What the points of a map are."""

WITH_VECTOR, COMPOSED = "has a vector", "composed from n-grams"
"""The groups of the words of a map, where some of them are composed."""


class Points(NamedTuple):
    """What is drawn on a map: a name and a vector for each point, perhaps a group, and the names not found."""

    names: list[str]
    vectors: Floats
    groups: list[str | None]
    unknown: list[str]


def draw_map(
    source: Source,
    target: str,
    *,
    names: Sequence[str] = (),
    what: Drawn | None = None,
    method: MapMethod = "tsne",
    n_points: int = 100,
    font: str | None = None,
) -> str:
    """Draw words or documents on the plane, each with its name where it fits, and return what was drawn in words.

    A word without a vector of its own is composed where the vectors have n-grams, and has a color of its own.

    Parameters
    ----------
    source : Job, Workspace or VectorFile
        Documents are those of a job or a workspace.
    target : str
        The figure: .pdf, .svg or .png. Equal input gives equal bytes.
    names : sequence of str
        The words, or the ids or titles of the documents; by default the most frequent content words, or documents
        taken evenly from the first to the last.
    what : {"words", "documents"}, optional
        By default what the job is for.
    method : {"tsne", "pca"}
        t-SNE keeps neighbors together; principal components keep large distances.
    n_points : int
        How many are drawn where no names are given.
    font : str, optional
        A file of a font, or the name of an installed one.

    Raises
    ------
    ValueError
        If the format cannot be detected, none of the names is known, or the job has no documents with topics.
    """
    figure_format(target)
    job = None if isinstance(source, VectorFile) else job_of(source)
    if what is None:
        what = (
            "documents" if job is not None and next(iter(system_of(job).tables())) == "documents" else "words"
        )
    found = (
        _words(source, job, names, n_points)
        if what == "words"
        else _documents(job, place_of(source), names, n_points)
    )
    if not found.names:
        raise ValueError(
            f"none of the {what} asked for is in {place_of(source)}: {', '.join(found.unknown[:5])}"
        )
    points, _ = plane(found.vectors, method, 0)
    placed = map_drawing(points, found.names, found.groups)
    made_from = "" if job is None else origin(job)
    warning = save_figure(target, placed.drawing, font=font, origin=made_from)
    n_composed = found.groups.count(COMPOSED)
    composed = f", {n_composed:,} composed from n-grams" if n_composed else ""
    left_out = f"; not found: {', '.join(found.unknown)}" if found.unknown else ""
    drawn = f"{len(found.names):,} {what}{composed}, {len(placed.labels):,} labeled, in {target}{left_out}"
    return _with(drawn, warning)


def _with(drawn: str, warning: str) -> str:
    return f"{drawn}\n{warning}" if warning else drawn


def _words(source: Source, job: Job | None, names: Sequence[str], n_points: int) -> Points:
    """Return words with their vectors, by default the most frequent ones that are no stop words."""
    model = load_vectors(source)
    chosen = list(dict.fromkeys(names)) or _content_words(job, model)[:n_points]
    composed = _composed(model, [word for word in chosen if word not in model])
    drawn = [word for word in chosen if word in model or word in composed]
    unknown = [word for word in chosen if word not in drawn]
    vectors = model[drawn].astype(np.float64) if drawn else np.empty((0, 0))
    groups = [COMPOSED if word in composed else WITH_VECTOR if composed else None for word in drawn]
    return Points(drawn, vectors, groups, unknown)


def _composed(model: WordVectors, words: list[str]) -> set[str]:
    """Return those of some words without a vector of their own of which an n-gram is known."""
    if model.subwords is None or not words:
        return set()
    return {word for word, n in zip(words, model.subwords.n_known(words), strict=True) if n}


def _content_words(job: Job | None, model: WordVectors) -> list[str]:
    common = frozenset[str]() if job is None else common_words(Workspace.open(job.job.workspace))
    return content_words(model.words, common) or list(model.words)


def _documents(job: Job | None, source: str, names: Sequence[str], n_points: int) -> Points:
    """Return documents with the weights of their topics as vectors of unit length, colored by topic."""
    table = _table(job, source, "documents")
    wanted = set(names)
    rows = evenly_spaced(table.n_rows, n_points)
    found = [
        row
        for row in _rows(table)
        if ({row.id, row.title} & wanted if wanted else row.number in rows) and row.topic >= 0
    ]
    called = _topic_names(job, source)
    # without a field of ids an id is a place in a file, which tells a reader nothing
    has_ids = bool(wanted) or getattr(getattr(job, "corpus", None), "id_field", "id") is not None
    vectors = np.array([row.weights for row in found], np.float64).reshape(len(found), -1)
    unknown = sorted(wanted - {name for row in found for name in (row.id, row.title)})
    return Points(
        [row.title or (row.id if has_ids else "") for row in found],
        directions(vectors),
        [called.get(row.topic, str(row.topic)) for row in found],
        unknown,
    )


class DocumentRow(NamedTuple):
    """A document as it is drawn."""

    number: int
    id: str
    title: str
    topic: int
    weights: NDArray[np.float32]


def _rows(table: Table) -> Iterator[DocumentRow]:
    number = 0
    for piece in table.pieces:
        assert piece.numbers is not None
        for row, weights in zip(piece.columns.to_pylist(), piece.numbers, strict=True):
            yield DocumentRow(number, row["id"], row["title"] or "", row["topic"], weights)
            number += 1


def _table(job: Job | None, source: str, what: str) -> Table:
    """Return a table that a job exports."""
    system: System | None = None if job is None else system_of(job)
    if job is None or system is None or what not in system.tables():
        kind = "is a vector file" if job is None else f"is of a job of the method {job.job.system}"
        raise ValueError(
            f"{source} {kind}, which has no {what}: draw words, or name the workspace of a topics job"
        )
    return system.tables()[what](job, Workspace.open(job.job.workspace))


def _topic_rows(job: Job | None, source: str) -> dict[int, list[dict[str, Any]]]:
    """Return the words of each topic, the heaviest first."""
    topics: dict[int, list[dict[str, Any]]] = {}
    for piece in _table(job, source, "topics").pieces:
        for row in piece.columns.to_pylist():
            topics.setdefault(row["topic"], []).append(row)
    return topics


def _topic_names(job: Job | None, source: str) -> dict[int, str]:
    return {
        topic: f"{topic}: {' '.join(row['word'] for row in rows[:2])}{_telling(rows, ' | ', 2)}"
        for topic, rows in _topic_rows(job, source).items()
    }


def _telling(rows: list[dict[str, Any]], before: str, n: int) -> str:
    """Return the words that set a topic apart, other than its first ones; "" where none are known."""
    first = {row["word"] for row in rows[:n]}
    words = [word for row in rows if (word := row.get("telling_word")) and word not in first][:n]
    return f"{before}{' '.join(words)}" if words else ""


def draw_topics(
    job: Job, target: str, *, topics: Sequence[int] = (), n_words: int = 10, font: str | None = None
) -> str:
    """Draw the top words of topics as bars of their weights, a panel per topic, and return what was drawn in words.

    Parameters
    ----------
    job : Job
        A finished topics job.
    target : str
        The figure: .pdf, .svg or .png. Equal input gives equal bytes.
    topics : sequence of int
        Their numbers, from 0 on; by default all.
    n_words : int
        Words of each.
    font : str, optional
        A file of a font, or the name of an installed one.

    Raises
    ------
    ValueError
        If the format cannot be detected, a number is that of no topic, or the job has no topics with weights.
    """
    figure_format(target)
    every = _topic_rows(job, job.job.workspace)
    if any("weight" not in row for rows in every.values() for row in rows):
        raise ValueError(
            f"the topics of {job.job.workspace} have no weights to draw: name the workspace of a topics job"
        )
    unknown = [number for number in topics if number not in every]
    if unknown:
        raise ValueError(
            f"there is no topic {unknown[0]} in {job.job.workspace}: give numbers from 0 to {max(every)}"
        )
    panels = {number: every[number][:n_words] for number in (topics or every)}
    warning = save_figure(target, _bars(panels, n_words), font=font, origin=origin(job))
    return _with(
        f"{plural(len(panels), 'topic')} with up to {plural(n_words, 'word')} each in {target}", warning
    )


def draw_shares(job: Job, target: str, *, by: str | None = None, font: str | None = None) -> str:
    """Draw the mean share of each topic by the values of a column of the documents, and return what was drawn in words.

    Parameters
    ----------
    job : Job
        A finished topics job.
    target : str
        The figure: .pdf, .svg or .png. Equal input gives equal bytes.
    by : str, optional
        The column; by default the first that has 2 to 30 values.
    font : str, optional
        A file of a font, or the name of an installed one.

    Raises
    ------
    ValueError
        If the format cannot be detected, or the documents have no such column.
    """
    figure_format(target)
    rows = [
        row for piece in _table(job, job.job.workspace, "shares").pieces for row in piece.columns.to_pylist()
    ]
    columns = list(dict.fromkeys(row["column"] for row in rows))
    if by is not None and by not in columns:
        raise ValueError(f"no shares by {by!r} in {job.job.workspace}: give --by one of {', '.join(columns)}")
    chosen = by or columns[0]
    names = _topic_names(job, job.job.workspace)
    panels: dict[str, list[Interval]] = {name: [] for name in names.values()}
    for row in rows:
        if row["column"] == chosen:
            ends = None if row["low"] is None else (row["low"], row["high"])
            panels[names[row["topic"]]].append(Interval(row["value"], row["share"], ends))
    warning = save_figure(target, panel_drawing(panels), font=font, origin=origin(job))
    n_values = len({row["value"] for row in rows if row["column"] == chosen})
    return _with(
        f"{plural(len(panels), 'topic')} by {plural(n_values, 'value')} of {chosen} in {target}", warning
    )


def _bars(panels: dict[int, list[dict[str, Any]]], n_words: int) -> Drawing:
    """Return a drawing of horizontal bars, a panel per topic, all on one scale."""
    across = min(PANELS_ACROSS, len(panels))
    down = -(-len(panels) // across)
    longest = max((row["weight"] for rows in panels.values() for row in rows), default=1.0)

    def draw(axes: Any) -> None:
        figure = axes.figure
        axes.remove()
        places = figure.subplots(down, across, squeeze=False).ravel()
        for place, (number, rows) in zip(places, panels.items(), strict=False):
            _panel(place, number, rows, longest)
        for place in places[len(panels) :]:
            place.set_axis_off()

    return Drawing(draw, (WIDE[0] * across / 2, (0.5 + 0.17 * n_words) * down))


def _panel(axes: Any, number: int, rows: list[dict[str, Any]], longest: float) -> None:
    telling = _telling(rows, "\ntelling: ", 4)
    title = f"topic {number}: {plural(rows[0]['n_documents'], 'document')}{telling}"
    axes.barh(
        range(len(rows)), [row["weight"] for row in rows], height=0.66, color=COLORS[number % len(COLORS)]
    )
    axes.set_yticks(range(len(rows)), [short(row["word"]) for row in rows], color=INK)
    axes.set(xlim=(0, 1.05 * longest), title=title)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=3)
