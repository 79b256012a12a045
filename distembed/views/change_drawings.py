"""Figures of words that differ between parts of a corpus, from the table of changes of a finished comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distembed.display import plural
from distembed.job.model import Job
from distembed.job.stage import system_of
from distembed.stages.words import content_words
from distembed.storage.workspace import Workspace
from distembed.views.report.figures import COLORS, INK, MUTED, WIDE, Drawing, figure_format, save_figure
from distembed.views.report.page import short
from distembed.views.report.run import origin

SHOWN_CURVES = 6
"""Words, by default, whose change over several parts is drawn."""

Rows = dict[str, list[dict[str, Any]]]
"""The rows of each word."""


def draw_changes(job: Job, target: str, *, words: Sequence[str] = (), n_words: int = 20) -> str:
    """Draw how words differ between parts, each with its interval and its noise floor, and return what was drawn.

    Of two parts each word has a line. Of more each word has a curve: its change from the first part to each later one.

    Parameters
    ----------
    job : Job
        A finished comparison.
    target : str
        The figure: .pdf, .svg or .png. Equal input gives equal bytes.
    words : sequence of str
        By default the words that have changed by the most above their floor, without English stop words.
    n_words : int
        How many are drawn where none is named; of more than two parts six at most.

    Raises
    ------
    ValueError
        If the format cannot be detected, the job is no comparison, or none of the words can be judged.
    """
    figure_format(target)
    place = job.job.workspace
    tables = system_of(job).tables()
    if "changes" not in tables:
        raise ValueError(
            f"{place} is of a job of the method {job.job.system}, which has no changes: name the workspace of a "
            "comparison"
        )
    batches = [piece.columns for piece in tables["changes"](job, Workspace.open(place)).pieces]
    first, *_ = (batch["part"][0].as_py() for batch in batches)
    from_first = [batch for batch in batches if batch["part"][0].as_py() == first]
    found = _judged_rows(from_first, words)
    if not words:
        found = _most_changed(found, n_words if len(from_first) == 1 else min(n_words, SHOWN_CURVES))
    if not found:
        raise ValueError(f"none of the words asked for can be judged in {place}: {', '.join(words) or 'any'}")
    parts = [first, *(batch["other"][0].as_py() for batch in from_first)]
    drawing = _lines(found, parts) if len(parts) == 2 else _curves(found, parts)
    save_figure(target, drawing, origin=origin(job))
    unknown = [word for word in words if word not in found]
    left_out = f"; cannot be judged: {', '.join(unknown)}" if unknown else ""
    return f"{plural(len(found), 'word')} in {plural(len(parts), 'part')} in {target}{left_out}"


def _judged_rows(batches: Sequence[Any], words: Sequence[str]) -> Rows:
    """Return the rows of words that can be judged, of those that are asked for, in their order."""
    found: Rows = {word: [] for word in words}
    for batch in batches:
        is_judged = np.isfinite(batch["change"].to_numpy(zero_copy_only=False))
        for row in batch.take(np.flatnonzero(is_judged)).to_pylist():
            if not words or row["word"] in found:
                found.setdefault(row["word"], []).append(row)
    return {word: rows for word, rows in found.items() if rows}


def _most_changed(found: Rows, n: int) -> Rows:
    """Return the words whose change is the most above the floor between any two parts, of those that have changed."""
    best = {
        word: max((row["change"] - row["floor"] for row in rows if row["verdict"] == "changed"), default=None)
        for word, rows in found.items()
    }
    changed = content_words([word for word in best if best[word] is not None])
    chosen = sorted(changed, key=lambda word: -(best[word] or 0.0))
    return {word: found[word] for word in chosen[:n]}


def _lines(found: Rows, parts: Sequence[str]) -> Drawing:
    """Return a drawing with a line for each word: its change, the interval, and the floor."""

    def draw(axes: Any) -> None:
        rows = [own[0] for own in found.values()]
        heights = np.arange(len(rows))
        for height, row in zip(heights, rows, strict=True):
            axes.plot((row["low"], row["high"]), (height, height), color=COLORS[0], linewidth=1.6, alpha=0.45)
        axes.plot([row["change"] for row in rows], heights, "o", color=COLORS[0], label="change")
        axes.plot(
            [row["floor"] for row in rows], heights, "|", color=MUTED, markersize=9, label="noise floor"
        )
        axes.set_yticks(heights, [short(row["word"]) for row in rows], color=INK)
        axes.set_xlabel(f"change between {parts[0]} and {parts[1]}")
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        axes.grid(visible=False, axis="y")
        axes.legend()

    return Drawing(draw, (WIDE[0], 0.9 + 0.21 * len(found)))


def _curves(found: Rows, parts: Sequence[str]) -> Drawing:
    """Return a drawing with a curve for each word over the parts, a tint for its interval, and the largest floor."""
    places = {part: number for number, part in enumerate(parts)}

    def draw(axes: Any) -> None:
        for number, (word, rows) in enumerate(found.items()):
            x = [places[row["other"]] for row in rows]
            color = COLORS[number % len(COLORS)]
            axes.plot(x, [row["change"] for row in rows], "o-", color=color, label=short(word))
            ends = ([row[end] for row in rows] for end in ("low", "high"))
            axes.fill_between(x, *ends, color=color, alpha=0.15, linewidth=0)
        floor = {place: [] for place in range(1, len(parts))}  # type: dict[int, list[float]]
        for rows in found.values():
            for row in rows:
                floor[places[row["other"]]].append(row["floor"])
        known = [place for place, values in floor.items() if values]
        axes.plot(known, [max(floor[place]) for place in known], "--", color=MUTED, label="noise floor")
        axes.set_xticks(range(1, len(parts)), parts[1:], color=INK)
        axes.set_ylabel(f"change since {parts[0]}")
        axes.figure.legend(loc="outside lower center", ncols=4)

    return Drawing(draw)
