"""The scores of word vectors in a report: a picture, a line for each set, and all parts of a set behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from distembed.evaluation.scoring import Score
from distembed.pipeline.report.figures import Interval, interval_chart
from distembed.pipeline.report.page import Section, folded, group
from distembed.pipeline.report.tables import score_table

PARTED = ("separation", "priming effect", "priming", "normed priming")
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
        return score_table([], title=title)
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
        caption=_how_to_read(scores),
    )
    summary = score_table(map(_row, lines), title=title)
    every = folded(f"All {len(scores)} scores, by relation and metric", score_table(map(_row, scores)).html)
    return group(title, [chart, summary, *([Section(title, every)] if len(scores) > len(lines) else [])])


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


def _row(score: Score) -> dict[str, Any]:
    composed = {"composed": score.composed} if score.composed else {}
    return {
        "set": score.set,
        "value": score.value,
        "interval": score.interval,
        "known": score.known,
        **composed,
        "total": score.total,
        "task": score.task,
        "metric": score.metric,
    }


def _how_to_read(scores: Iterable[Score]) -> str:
    policies = ", ".join(dict.fromkeys(score.policy for score in scores))
    return (
        "Spearman's correlation for similarity, accuracy for analogies, synonyms and outliers, purity for categories; "
        "of sets with relations the mean over them (areas under the curve for separation, where 0.5 is chance). "
        f"Words: {policies}."
    )
