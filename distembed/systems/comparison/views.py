"""The report of a comparison, and the last lines that its run prints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from distembed.display import plural
from distembed.job.terminal import shown
from distembed.stages.words import content_words
from distembed.storage.workspace import Workspace
from distembed.systems.comparison import changes as measured
from distembed.systems.comparison.changes import TABLES, UNJUDGED, Changes
from distembed.systems.comparison.job import ComparisonJob
from distembed.views.report.figures import Mark, line_chart, small_multiples
from distembed.views.report.page import Page, Part, Passages, Section, ShownTable
from distembed.views.report.run import page_of

__all__ = ["TABLES", "page"]

CLOSING_WORDS = 10
"""Changed words that the end of a run names."""

CURVES = 8
"""Words, at most, of the figure over the parts."""

CONTEXTS = 5
"""Contexts of each side that are listed."""


def page(job: ComparisonJob, workspace: Workspace) -> Page:
    """Return the report of a finished workspace."""
    found = measured.changes_of(job, workspace)
    changed = measured.changed_words(found)
    places = {word: place for place, word in enumerate(found.words)}
    content = set(content_words([found.words[word] for word in changed]))
    most = [word for word in changed if found.words[word] in content][: job.report.n_changed]
    words = list(dict.fromkeys([*(places[word] for word in job.report.words if word in places), *most]))
    done = workspace.stages()["differences"].facts
    facts = {
        "parts": len(found.parts),
        "words": len(found.words),
        "words that can be judged": done["n_judged"],
        "changed words": len(changed),
        "floor, times the noise": done["floor"],
    }
    of_pairs, rows = [found.between(*pair, words) for pair in found.pairs], []
    for place in range(len(words)):
        for columns in of_pairs:
            row = {name: values[place] for name, values in columns.items()}
            interval = (float(row.pop("low")), float(row.pop("high")))
            row["interval"] = interval if np.isfinite(interval).all() else None
            rows.append({name: row.pop(name) for name in VERDICT} | row)
    if len(of_pairs) == 1:
        rows = [{name: row[name] for name in row if name not in ("part", "other")} for row in rows]
    decimals = dict.fromkeys(("distance", "change", "floor", "interval"), 3)
    sections = [
        _figure(found, words),
        ShownTable("Words that differ", rows, decimals, n_shown=30),
        _sides(job, workspace, found, words),
        ShownTable("Parts", workspace.table("parts").to_pylist()),
    ]
    said = summary(job, found, changed, workspace)
    names = ", ".join(shown(found.words[word]) for word in changed[:CLOSING_WORDS])
    ways = {
        "changes": "export {} --what changes --to changes.csv",
        "figures": "report {} --figures figures --format pdf",
    }
    return page_of(
        job,
        workspace,
        said,
        facts,
        sections,
        details=[_noise(found)],
        closing=[said, names],
        ways=ways,
        explorer=False,
    )


def summary(job: ComparisonJob, found: Changes, changed: Sequence[int], workspace: Workspace) -> str:
    n_judged = workspace.stages()["differences"].facts["n_judged"]
    # a word is compared once for each two parts, and chance changes it in some of them: of many pairs in as many as
    # there are words, though not each word once
    times, n_changed, rate = np.zeros(len(found.words), int), 0, job.comparison.false_alarms
    for pair in found.pairs:
        is_judged, is_changed, _ = found.judge(*pair)
        times += is_judged
        n_changed += int(is_changed.sum())
    n_compared = int(times.sum())
    expected = rate * n_compared
    words_by_chance = float((1 - (1 - rate) ** times).sum())
    in_doubt = 0 < n_changed <= expected and len(changed) <= words_by_chance
    return (
        f"{plural(len(found.parts), 'part')}: {', '.join(found.parts)}. Of {plural(n_judged, 'word')} that can be "
        f"judged in two parts, {len(changed):,} {'has' if len(changed) == 1 else 'have'} changed above the floor. Of "
        f"{n_compared:,} comparisons of a word in two parts {n_changed:,} found a change; about {expected:,.0f} would "
        f"by chance{', so that these are no evidence of a change' * in_doubt}."
    )


VERDICT = ("word", "verdict", "change", "interval", "floor")
"""The columns that say whether a word has changed."""


CAPTION = (
    "The change is the distance (1 - cosine) between halves of the two parts, less that between random halves of one "
    "part: 0 on average for a word that does not differ. The floor is the change that few words of one text reach "
    "between random halves of it (comparison.false_alarms). A word has changed if its change is above the floor and "
    "its interval above 0. With too few occurrences or documents it cannot be judged. The distance is that of all text."
)


def _figure(found: Changes, words: Sequence[int]) -> Part:
    """Draw the change of each word: its interval between two parts, or its course over several."""
    if not words:
        return ShownTable("Changes", [])
    if len(found.parts) == 2:
        columns = found.between(*found.pairs[0], words)
        values = (columns[name] for name in ("word", "change", "low", "high", "verdict"))
        marks = [
            Mark(word, float(change), (float(low), float(high)), verdict)
            for word, change, low, high, verdict in zip(*values, strict=True)
            if verdict != UNJUDGED
        ]
        xlabel = "change between the parts, with its interval"
        return small_multiples("Changes", marks, xlabel=xlabel, caption=CAPTION)
    curves, band = course(found, words[:CURVES])
    return line_chart(
        f"Changes since {found.parts[0]}",
        curves,
        xlabel="first year of the part" if years_of(found.parts) is not None else "number of the part",
        ylabel="change",
        band=band,
        caption=f"The change of each word from {found.parts[0]} to each later part; the tint is the interval of "
        f"{found.words[words[0]]}. {CAPTION}",
    )


def years_of(parts: Sequence[str]) -> list[int] | None:
    """Return the year with which the name of each part begins, None where one does not.

    Examples
    --------
    >>> from distembed.systems.comparison.views import years_of
    >>> years_of(["1840-1849", "1850-1859"]), years_of(["novels", "news"])
    ([1840, 1850], None)
    """
    found = [re.match(r"-?\d{1,4}(?!\d)", part) for part in parts]
    return None if None in found else [int(one[0]) for one in found if one is not None]


def course(
    found: Changes, words: Sequence[int]
) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], tuple[Any, Any, Any]]:
    """Return the change of each word from the first part to each later one, and the interval of the first word."""
    x = np.array(years_of(found.parts) or range(1, len(found.parts) + 1), float)[1:]
    columns = [found.between(found.parts[0], part, words) for part in found.parts[1:]]
    curves = {
        found.words[word]: (x, np.array([column["change"][place] for column in columns]))
        for place, word in enumerate(words)
    }
    ends = [np.array([column[end][0] for column in columns]) for end in ("low", "high")]
    is_known = np.isfinite(ends).all(axis=0)
    return curves, (x[is_known], ends[0][is_known], ends[1][is_known])


def _sides(job: ComparisonJob, workspace: Workspace, found: Changes, words: Sequence[int]) -> Section:
    """Show the neighbors, contexts and passages of each word in each part."""
    names, sections = [found.words[word] for word in words], []
    neighbors = measured.neighbors_of(found, workspace, names, job.report.n_neighbors)
    contexts = measured.own_contexts(found, workspace, words, CONTEXTS) if words else {}
    n_passages = job.report.n_passages
    passages = measured.passages_of(job, workspace, contexts, n_passages) if n_passages else {}
    for word, name in zip(words, names, strict=True):
        rows = [
            {
                "part": part,
                "occurrences": int(found.counts[word, place]),
                "documents": int(found.documents[word, place]),
                "near": neighbors[name].get(part) or "too rare for neighbors",
                "own contexts": contexts[name].get(part) or None,
            }
            for place, part in enumerate(found.parts)
        ]
        lines = [Passages(f"{name}, {part}", own) for part, own in passages.get(name, {}).items() if own]
        sections.append(Section(name, [ShownTable("", rows), *lines]))
    return Section("Both sides of each word", sections)


def _noise(found: Changes) -> Part:
    """Draw how the noise of words falls with their occurrences."""
    noise = np.concatenate([found.measures["noise", part, None] for part in found.parts])
    is_known = np.isfinite(noise)
    if not is_known.any():
        return ShownTable("Noise", [])
    counts, noise = found.counts.T.ravel()[is_known].astype(float), noise[is_known]
    edges = np.unique(np.geomspace(counts.min(), counts.max() + 1, 13))
    bins = np.digitize(counts, edges)
    x, y = (np.array([np.median(one[bins == n]) for n in np.unique(bins)]) for one in (counts, noise))
    return line_chart(
        "Noise",
        {"": (x, y)},
        xlabel="occurrences in the part",
        ylabel="distance between random halves of the part",
        x_scale="log",
        caption="The median over words of about as many occurrences.",
    )
