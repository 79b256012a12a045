"""Sections that several reports have: nearest words, scores, rows of papers, and curves of counts and objectives."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from distembed.display import fixed, format_number, plural
from distembed.evaluation.scoring import FEW_KNOWN, Score
from distembed.job.model import Job, check_figures
from distembed.views.report.figures import Figure, Mark, line_chart, small_multiples, spread_points
from distembed.views.report.page import (
    Fold,
    Note,
    Part,
    Section,
    ShownTable,
    cell_text,
    finite_values,
    short,
)


def neighbor_table(
    neighbors: Mapping[str, Sequence[tuple[str, float]]], title: str = "Nearest words", *, n_shown: int = 100
) -> ShownTable:
    """Return a table of the nearest words of each word with their cosine, nearest first."""
    rows = [{"word": short(word), "nearest": list(map(tuple, near))} for word, near in neighbors.items()]
    caption = "Nearest first; the figure is the cosine to the word at the left."
    return ShownTable(title, rows, caption=caption, n_shown=n_shown)


FIRST_RANK = 10
"""The first rank that the power law of counts is fitted to."""


def zipf_curve(counts: ArrayLike) -> Figure | Note:
    """Return a figure of word counts against rank on logarithmic axes, with a fitted power law.

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
        "Rank and frequency",
        series,
        xlabel="rank of the word",
        ylabel="occurrences",
        x_scale="log",
        y_scale="log",
        caption=said,
        dashed=[name for name in series if name != "counts"],
    )


def objective_curve(
    objective: ArrayLike, title: str = "Objective", *, ylabel: str = "objective"
) -> Figure | Note:
    """Return a figure of the value of an objective after each round."""
    finite = finite_values(objective)
    if not finite.size:
        return Note(title, "Nothing to draw: there is no finite value.")
    change = 100 * (finite[-1] / finite[0] - 1) if finite[0] else math.nan
    caption = f"From {format_number(float(finite[0]))} to {format_number(float(finite[-1]))}"
    caption += f" ({change:+.2f} %)".replace("-", "−") if finite.size > 1 and math.isfinite(change) else ""
    return line_chart(title, {"": objective}, xlabel="round", ylabel=ylabel, caption=f"{caption}.")


PAPER_TITLE = "The paper and this job"
"""The title of figures of papers, by which a run finds them among the sections, and prints them at its end."""


def paper_tables(
    job: Job,
    ours: Mapping[str, Mapping[str, float]],
    *,
    rows: Collection[str],
    columns: Collection[str],
) -> list[Part]:
    """Return a table of the figures of a paper, each beside the job's; none where the job names none.

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
    tables = {f"the paper, {name.replace('_', ' ')}": given for name, given in job.paper.items()}
    measures = dict.fromkeys(column for given in tables.values() for column in given.columns)
    shown: list[dict[str, Any]] = []
    for row in dict.fromkeys(row for given in tables.values() for row in given.rows if row in ours):
        figures = {of: dict(zip(t.columns, t.rows.get(row, ()), strict=False)) for of, t in tables.items()}
        for one in measures:
            theirs = {of: known.get(one) for of, known in figures.items()}
            shown.append({"row": row, "measure": one, **theirs, "this job": ours[row].get(one)})
    caption = " ".join(f"{of}: {given.source}." for of, given in tables.items())
    formats = dict.fromkeys([*tables, "this job"], 3)
    return [ShownTable(PAPER_TITLE, shown, formats, caption)] if shown else []


INTERVAL = "95 % interval of {}"
"""What a table of methods calls the interval of a measure."""


def method_section(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    measures: Mapping[str, tuple[str, ...]],
    *,
    fractions: Mapping[str, int],
    xlabel: str,
    caption: str,
    about: str = "",
) -> Part:
    """Return what each method reached: dots of the first measure with its interval, beside a table of all measures.

    Parameters
    ----------
    title
    rows
        What an output that declares `scores` holds of each method, by its columns.
    measures
        What the table calls each measure: the column of its value, and where there is an interval those of its ends.
    fractions
        The decimals of those that are fractions.
    xlabel
        What the dots are.
    caption, about
        What the figure and the table show.
    """
    if not rows:
        return Note(title, caption)
    marks, table = list[Mark](), list[dict[str, Any]]()
    drawn, *_ = measures.values()
    for row in rows:
        value, *ends = (row[name] for name in drawn)
        marks.append(Mark(row["method"], value, tuple(ends)))
        table.append({"method": row["method"]})
        for name, (of_value, *of_ends) in measures.items():
            table[-1][name] = row[of_value]
            if of_ends:
                table[-1][INTERVAL.format(name)] = tuple(row[end] for end in of_ends)
    chart = small_multiples("", marks, xlabel=xlabel, caption=caption)
    formats = {**fractions, **{INTERVAL.format(name): n for name, n in fractions.items()}}
    return Section(title, [chart, ShownTable("", table, formats, about)])


PARTED = ("priming effect", "priming", "normed priming")
"""How tasks begin whose metrics are parts of a set, such as relations: their mean stands for the set."""


def score_table(
    scores: Mapping[str, Sequence[Score]], title: str = "", *, about: str = "", intervals: bool = False
) -> ShownTable:
    """Return a row for each set and metric: of one candidate with its interval, of several side by side by their names.

    Parameters
    ----------
    scores : mapping of str to sequence of Score
        Those of each candidate, of the same sets.
    title, about : str
        The title, and what the caption begins with.
    intervals : bool
        Whether the scores of several candidates have their intervals, too.
    """
    rows = list[dict[str, Any]]()
    for each in zip(*scores.values(), strict=True):
        first = each[0]
        values: dict[str, Any] = {name: one.value for name, one in zip(scores, each, strict=True)}
        if intervals:
            ends = (cell_text(one.interval, fixed) if one.interval else "" for one in each)
            values = {name: f"{fixed(values[name])} {end}" for name, end in zip(values, ends, strict=True)}
        elif len(each) == 1:
            values = {"value": first.value, "interval": first.interval}
        answered = " ".join(dict.fromkeys(one.answered for one in each))
        kind = {"set": first.set, "task": first.task, "metric": first.metric}
        rows.append({**kind, **values, "known/total": answered})
    policies = dict.fromkeys(one.policy for found in scores.values() for one in found)
    known = f"Known: items whose words all have vectors, of the total. {FEW_KNOWN}"
    caption = " ".join(filter(None, [about, known, f"Words: {'; '.join(policies)}."]))
    return ShownTable(title, rows, dict.fromkeys(("value", "interval", *scores), 3), caption)


def score_section(scores: Sequence[Score], title: str = "Evaluation") -> Part:
    """Return the scores as a picture and a line per set; relations and further metrics are folded behind it.

    Parameters
    ----------
    scores : sequence of Score
        Those of one set and task stand together.
    title : str
    """
    if not scores:
        return ShownTable(title, [])
    lines = [set_score(list(own)) for _, own in groupby(scores, key=lambda score: (score.set, score.task))]
    tasks = Counter(line.set for line in lines)
    called = [f"{line.set}, {line.task}" if tasks[line.set] > 1 else line.set for line in lines]
    chart = small_multiples(
        "",
        [Mark(name, line.value, line.interval, line.task) for name, line in zip(called, lines, strict=True)],
        xlabel="score of a set, with its 95 % interval",
        caption="Spearman's correlation for similarity, accuracy for analogies and synonyms, purity for categories; "
        "of sets with relations the mean over them.",
    )
    every = Fold(f"All {len(scores)} scores, by relation and metric", score_table({"": scores}))
    drawn = [] if chart.is_empty else [chart]
    return Section(title, [*drawn, score_table({"": lines}), *([every] if len(scores) > len(lines) else [])])


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
