"""The scores of a report: a line and an interval for a set, and all metrics folded behind."""

from __future__ import annotations

import math
import re

import pytest

from distembed.evaluation.scoring import Score as Scored
from distembed.views import report
from tests.views.test_report import Outline

pytestmark = pytest.mark.usefixtures("drawn_figures")


def set_scores() -> list[Scored]:
    """Return the scores of a set of one metric, of analogies by two, and of three parts, one of them not judged."""
    rows = [
        ("MEN", "similarity", "spearman", 0.7, (0.6, 0.8)),
        ("google", "analogy", "3CosAdd", 0.4, None),
        ("google", "analogy", "3CosMul", 0.5, None),
        ("norms", "normed priming", "S1 spearman", 0.9, None),
        ("norms", "normed priming", "S2 spearman", 0.6, None),
        ("norms", "normed priming", "S3 spearman", math.nan, None),
    ]
    return [
        Scored(name, task, metric, value, 15, 19, "lower", ends) for name, task, metric, value, ends in rows
    ]


def test_a_line_stands_for_a_set_and_all_scores_are_folded_behind() -> None:
    html = report.score_sections(set_scores()).html.replace("<wbr>", "")
    first, folded = html.split("<details>")
    assert [text in first for text in ("0.700", "0.400", "0.750", "mean of 2", "3CosMul")] == [True] * 4 + [
        False
    ]
    assert [text in folded for text in ("3CosMul", "S1 spearman", "0.900")] == [True] * 3
    assert html.index("<svg") < html.index("<table")
    Outline(html)


def test_scores_without_parts_fold_nothing() -> None:
    assert "<details>" not in report.score_sections(set_scores()[:1]).html


def test_intervals_of_one_name_stand_on_lines_of_their_own() -> None:
    rows = [report.Interval(name, 0.5, (0.4, 0.6), group) for name in "ab" for group in ("first", "second")]
    html = report.interval_chart(rows, "t", xlabel="score").html
    assert [html.count(f">{text}<") for text in ("a", "b", "first", "second")] == [1, 1, 1, 1]
    heights = re.findall(r"<use [^>]*y=\"([\d.]+)\"", html)
    assert len(set(heights)) >= 4


def test_a_set_of_few_known_items_has_no_score() -> None:
    """One pair of 353 was known, and a report gave 1.000."""
    few = Scored("MEN", "similarity", "spearman", 1.0, 6, 353, "lower", (0.9, 1.0), composed=3)
    assert few._replace(composed=4).in_report.value == 1.0
    html = report.score_sections([few.in_report, *set_scores()[1:2]]).html
    assert "1.000" not in html
    assert ">6<" in html
    assert ">353<" in html
    assert "No score is shown of fewer than 10 known items." in html
