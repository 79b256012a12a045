"""Tables of a report: rows of any columns, evaluation scores, nearest words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from distembed.display import fixed, format_number, plural
from distembed.evaluation.scoring import FEW_KNOWN, Score
from distembed.job.model import Job, check_figures
from distembed.views.report.figures import Interval, interval_chart, line_chart, spread_points
from distembed.views.report.page import (
    Section,
    escaped,
    finite_values,
    folded,
    group,
    is_number,
    marked,
    note,
    printable,
    short,
)

Row: TypeAlias = "Mapping[str, Any] | NamedTuple"


def as_mapping(row: Row) -> Mapping[str, Any]:
    """Return a row of a table as a mapping of column to value."""
    return row if isinstance(row, Mapping) else row._asdict()


def _is_pair(value: object) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(map(is_number, value))


def _cell(value: Any, show: Callable[[Any], str] | None, *, wide: bool, label: str) -> str:
    """Write one cell; None and NaN are an en dash, pairs are intervals, numbers keep to the right.

    A narrow screen shows the label above the value.
    """
    is_figure = value is None or is_number(value) or _is_pair(value)
    kind = ' class="w"' if wide else ' class="n"' if is_figure else ""
    if value is None:
        text = "–"
    elif _is_pair(value):
        ends = [escape((show or format_number)(end)) for end in value]
        text = "–" if set(ends) == {"–"} else f"[{', '.join(ends)}]"
    elif show or is_number(value):
        text = escape(printable((show or format_number)(value)))
    else:
        text = marked(value)
    above = f' data-l="{label}"' if label else ""
    return f"<td{kind}{above}>{text}</td>"


WIDE_TEXT = 24
"""Characters of a text that has a line of its own, under the other cells of its row, on a narrow screen."""


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
    cells = [as_mapping(row) for row in rows]
    if not cells:
        return note(title, "No rows.")
    columns = list(dict.fromkeys(name for row in cells for name in row))
    numeric = {
        name for name in columns if any(is_number(row.get(name)) or _is_pair(row.get(name)) for row in cells)
    }
    wide = {
        name
        for name in columns
        if any(isinstance(row.get(name), str) and len(row[name]) > WIDE_TEXT for row in cells)
    }
    wide = wide if len(wide) < len(columns) else set()  # not where they are all of a table
    kinds = {name: " class=w" if name in wide else " class=n" if name in numeric else "" for name in columns}
    labels = {name: escaped(name.replace("_", " ")) for name in columns}
    shows = {name: (formats or {}).get(name) for name in columns}
    head = "".join(f'<th scope="col"{kinds[name]}>{labels[name]}</th>' for name in columns)
    body = "\n".join(
        "<tr>"
        + "".join(
            _cell(row.get(name), shows[name], wide=name in wide, label=labels[name] if wide else "")
            for name in columns
        )
        + "</tr>"
        for row in cells
    )
    folds = ' class="folds"' if wide else ""  # long texts have a line of their own on a narrow screen
    legend = f"<caption><span>{escaped(caption)}</span></caption>" if caption else ""
    return Section(
        title,
        f'<div class="scroll" tabindex="0"><table{folds}>{legend}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>",
    )


def first_rows(
    rows: Sequence[Any], make: Callable[[Sequence[Any]], Section], *, n_shown: int = 10
) -> Section:
    """Show the first of many rows, and fold the others behind them.

    Parameters
    ----------
    rows
        What the lines of a table are made from.
    make
        Makes the table of some of them.
    n_shown
        Rows shown at once.
    """
    first = make(rows[:n_shown])
    if len(rows) <= n_shown:
        return first
    rest = folded(f"{plural(len(rows) - n_shown, 'row')} more", make(rows[n_shown:]).html)
    return group(first.title, [first, Section(first.title, rest)])


three_decimals: Callable[[float], str] = fixed


def neighbor_table(
    neighbors: Mapping[str, Sequence[tuple[str, float]]], *, title: str = "Nearest words"
) -> Section:
    """Show the nearest words of each word with their cosine, nearest first."""
    if not neighbors:
        return note(title, "No words were asked for.")
    lists = {
        word: " ".join(f"<span>{marked(w)} <small>{three_decimals(float(s))}</small></span>" for w, s in near)
        for word, near in neighbors.items()
    }
    body = "\n".join(
        f'<tr><th scope="row">{marked(short(word))}</th><td class="near">{near or "–"}</td></tr>'
        for word, near in lists.items()
    )
    caption = (
        "<caption><span>Nearest first; the figure is the cosine to the word at the left.</span></caption>"
    )
    rows = f'<table class="folds">{caption}<tbody>{body}</tbody></table>'
    return Section(title, f'<div class="scroll" tabindex="0">{rows}</div>')


RANKS: dict[str, Any] = {"xlabel": "rank of the word", "x_scale": "log", "y_scale": "log"}

FIRST_RANK = 10
"""The first rank that the power law of counts is fitted to."""


def zipf_curve(counts: ArrayLike) -> Section:
    """Draw word counts against rank on logarithmic axes, with a fitted power law.

    The exponent s of count = c / rank^s is the least-squares slope over ranks spaced evenly in their
    logarithm, from `FIRST_RANK` on: the most frequent words lie below the line (Mandelbrot's shift).

    Parameters
    ----------
    counts
        Occurrences of each word, in any order; zeros are left out.
    """
    ordered = np.sort(finite_values(counts))[::-1]
    ordered = ordered[ordered > 0]
    ranks = np.arange(1.0, ordered.size + 1)
    series: dict[str, Any] = {"counts": (ranks, ordered)}
    said = f"{plural(ordered.size, 'word')}, {format_number(float(ordered.sum()))} occurrences."
    chosen = FIRST_RANK - 1 + spread_points(max(ranks.size - FIRST_RANK + 1, 0), "log")
    if np.unique(ordered[chosen]).size > 2:  # of fewer different values no line is fitted
        slope, intercept = np.polyfit(np.log(ranks[chosen]), np.log(ordered[chosen]), 1)
        series[f"fit, exponent {-slope:.2f}"] = (ranks, math.exp(intercept) * ranks ** float(slope))
        said += f" Dashed: count ∝ rank^−{-slope:.2f}, fitted from rank {FIRST_RANK} on."
    return line_chart(
        series,
        "Rank and frequency",
        ylabel="occurrences",
        caption=said,
        dashed=[name for name in series if name != "counts"],
        **RANKS,
    )


def objective_curve(objective: ArrayLike, *, title: str = "Objective", ylabel: str = "objective") -> Section:
    """Draw the value of an objective after each round."""
    values = np.asarray(objective, dtype=np.float64).ravel()
    finite = finite_values(values)
    if not finite.size:
        return note(title, "Nothing to draw: there is no finite value.")
    change = 100 * (finite[-1] / finite[0] - 1) if finite[0] else math.nan
    caption = f"From {format_number(float(finite[0]))} to {format_number(float(finite[-1]))}"
    caption += f" ({change:+.2f} %)".replace("-", "−") if finite.size > 1 and math.isfinite(change) else ""
    return line_chart({"": values}, title, xlabel="round", ylabel=ylabel, caption=f"{caption}.")


def paper_tables(
    job: Job,
    ours: Mapping[str, Mapping[str, float]],
    *,
    rows: Collection[str],
    columns: Collection[str],
) -> list[Section]:
    """Show rows of a paper, each above the row of the job, in one table; none where the job names none.

    Parameters
    ----------
    job
        The job, with its `[paper.NAME]`.
    ours
        The measures of each row of the job.
    rows, columns
        The names that figures may have; see `distembed.job.model.check_figures`.
    """
    check_figures(job, rows, columns)
    measures = dict.fromkeys(column for given in job.paper.values() for column in given.columns)
    shown: list[dict[str, Any]] = []
    for row in dict.fromkeys(row for given in job.paper.values() for row in given.rows if row in ours):
        for name, given in job.paper.items():
            if row in given.rows:
                figures = dict(zip(given.columns, given.rows[row], strict=True))
                shown.append({"row": row, "of": f"the paper, {name.replace('_', ' ')}"} | figures)
        shown.append({"row": row, "of": "this job"} | {name: ours[row].get(name) for name in measures})
    caption = " ".join(f"{name.replace('_', ' ')}: {given.source}." for name, given in job.paper.items())
    formats = dict.fromkeys(
        measures, lambda value: value if isinstance(value, str) else three_decimals(value)
    )
    return [table("The paper and this job", shown, caption=caption, formats=formats)] if shown else []


PARTED = ("priming effect", "priming", "normed priming")
"""How tasks begin whose metrics are parts of a set, such as relations: their mean stands for the set."""


def score_sections(scores: Sequence[Score], *, title: str = "Evaluation") -> Section:
    """Show the scores as a picture and a line per set; relations and further metrics are folded behind it.

    Parameters
    ----------
    scores : sequence of Score
        Those of one set and task stand together.
    title : str
        Title of the section.
    """
    if not scores:
        return table(title, [])
    parts = [list(own) for _, own in groupby(scores, key=lambda score: (score.set, score.task))]
    lines = [set_score(own) for own in parts]
    tasks = Counter(line.set for line in lines)
    called = [f"{line.set}, {line.task}" if tasks[line.set] > 1 else line.set for line in lines]
    chart = interval_chart(
        [
            Interval(name, line.value, line.interval, line.task)
            for name, line in zip(called, lines, strict=True)
        ],
        title,
        xlabel="score of a set, with its 95 % interval",
        caption="Spearman's correlation for similarity, accuracy for analogies and synonyms, purity for categories; "
        "of sets with relations the mean over them. "
        f"Words: {', '.join(dict.fromkeys(score.policy for score in scores))}.",
    )

    def rows(some: Sequence[Score]) -> Section:
        names = ("set", "value", "interval", "known", "composed", "total", "task", "metric")
        cells = [
            {name: getattr(one, name) for name in names if name != "composed" or one.composed} for one in some
        ]
        caption = f"Known: items whose words all have vectors, of the total. {FEW_KNOWN}"
        return table(
            title, cells, caption=caption, formats=dict.fromkeys(("value", "interval"), three_decimals)
        )

    every = folded(f"All {len(scores)} scores, by relation and metric", rows(scores).html)
    return group(title, [chart, rows(lines), *([Section(title, every)] if len(scores) > len(lines) else [])])


def set_score(scores: Sequence[Score]) -> Score:
    """Return the score that stands for a set: its first metric, or the mean over its relations or priming effects."""
    if len(scores) == 1 or not scores[0].task.startswith(PARTED):
        return scores[0]
    effects = [score for score in scores if " effect" in score.metric]
    judged = [score for score in effects or scores if np.isfinite(score.value)]
    value = float(np.mean([score.value for score in judged])) if judged else np.nan
    known, total = (sum(getattr(score, name) for score in effects or scores) for name in ("known", "total"))
    metric = f"mean of {len(judged)}"
    return scores[0]._replace(metric=metric, value=value, known=known, total=total, interval=None)
