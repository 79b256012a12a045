"""The report of a word spaces job: the three tables of the paper, more scores, and neighbors side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from distembed.evaluation.priming import PRIMING_EFFECT, UNTIED
from distembed.evaluation.scoring import Score
from distembed.evaluation.words import percent
from distembed.job.terminal import shown
from distembed.stages.corpus import omissions
from distembed.stages.words import lacking_facts, lacking_line, read_nearest, shown_scores, values_by_name
from distembed.storage.workspace import Workspace
from distembed.systems.wordspaces.job import ReducedRecipe, WordSpacesJob
from distembed.systems.wordspaces.outputs import NEAREST, SCORES
from distembed.systems.wordspaces.stages import stages
from distembed.views import report

Scores = dict[str, list[Score]]

RELATIONS_SHOWN = 8
"""Relations of the priming table, those with the most pairs."""

COLUMNS_DRAWN = 8
"""Columns of a table whose values the picture above it shows: as many as there are colors."""

CLOSING_TASKS = ("normed priming", "synonym", "similarity", "antonyms", "categorization", "priming")
"""Tasks whose scores a run prints at its end; the report has all."""


class SideBySide(NamedTuple):
    """A table with a row for each space and a column for each set and metric of some tasks."""

    tasks: tuple[str, ...]
    title: str
    caption: str


NORMED_PRIMING = SideBySide(
    ("normed priming",),
    "Normed priming",
    "Mean over cues of Spearman's correlation between strength of association and cosine, with 95 % bootstrap "
    "intervals over cues (the paper's table 3). Items are cues with at least three known targets.",
)
NORMED_PRIMING_UNTIED = SideBySide(
    (f"normed priming{UNTIED}",),
    "Normed priming by the rule of S-Space's first public code",
    "Of targets with equal strengths only one counts, in the sum of squared differences of ranks but not in its "
    "divisor; read each score beside its chance level, that of random cosines. The paper's table 3 fits this rule.",
)
CHOICES = SideBySide(
    ("synonym", "similarity", "antonyms", "categorization"),
    "Word choice, association and categories",
    "Accuracy of synonym choice, Spearman's and Pearson's correlation with judged similarity (the paper's table 2 has "
    "Pearson's), how near antonyms are, purity of clusters, with 95 % bootstrap intervals over items.",
)
REACTION_TIMES = SideBySide(
    ("priming",),
    "Priming measured by reaction times",
    "Spearman's correlation of the cosine of prime and target with the priming measured in milliseconds, when the "
    "target follows after 200 and 1200 ms, with 95 % bootstrap intervals over pairs.",
)


EFFECT = " effect"
"""What the name of a metric of the priming effect ends in."""


def page(job: WordSpacesJob, workspace: Workspace) -> str:
    """Return the report of a finished workspace as one HTML page."""
    scores = all_scores(job, workspace)
    tables = [
        _side_by_side(job, scores, NORMED_PRIMING),
        _side_by_side(job, scores, NORMED_PRIMING_UNTIED),
        _priming_effects(job, scores),
        *(_side_by_side(job, scores, table) for table in (CHOICES, REACTION_TIMES)),
    ]
    sections = [
        *_neighbor_tables(job, workspace),
        *[table for table in tables if table is not None],
        *_paper_tables(job, scores),
        *(_by_dimension(job, scores, name) for name in job.spaces if job.dimensions_of(name)),
        _space_table(job, workspace),
        report.stage_table(report.stage_rows(stages(job), workspace)),
        report.parameter_table(job.model_dump(mode="json", exclude_none=True)),
        report.source_table(workspace),
    ]
    digest = workspace.digest(spec.name for spec in stages(job))
    summary = f"{len(job.spaces)} word spaces of one corpus; content digest {digest}."
    done = workspace.stages()
    tokens = done["tokens"].facts
    return report.render_report(
        job.job.title,
        summary,
        sections,
        facts={
            "documents": tokens.get("n_documents", 0),
            "tokens": tokens.get("n_tokens", 0),
            "words": done["vocabulary"].facts["n_words"],
            **omissions(tokens),
        }
        | lacking_facts(job, workspace),
        invitation=report.invitation(workspace) if job.wordspaces.vectors else "",
    )


def closing_text(job: WordSpacesJob, workspace: Workspace, where: str) -> str:
    """Return the scores of all spaces as a table, and the place of the report."""
    scores = all_scores(job, workspace)
    lines = [_plain_table(scores)] if any(scores.values()) else []
    further = report.ways_on(workspace, where) if job.wordspaces.vectors else f"report     {shown(where)}"
    lacking = lacking_line(job, workspace)
    return "\n\n".join([*lines, *([lacking] if lacking else []), further])


def all_scores(job: WordSpacesJob, workspace: Workspace) -> Scores:
    """Return the scores of each space of the job, and of its first components, by what they are called."""
    scored = [each for name in job.spaces for each in job.scored(name)]
    return {name: shown_scores(workspace, SCORES.of(recipe=name)) for name in scored}


# --- scores ----------------------------------------------------------------------------------------------------


def _picked(scores: Iterable[Score], task: str) -> dict[tuple[str, str], Score]:
    return {(score.set, score.metric): score for score in scores if score.task == task}


def _counts(scores: Sequence[Score]) -> str:
    """Return how many items of each set are known, in words: a range where spaces differ, by words without a value."""
    known: dict[tuple[str, int], list[Score]] = {}
    for score in scores:
        known.setdefault((score.set, score.total), []).append(score)
    divided = _divided(known)
    found = [
        f"{name}{' ' + group[0].metric if name in divided else ''} {_range([s.known for s in group])}/{total:,}"
        for (name, total), group in known.items()
    ]
    return f"Known items of all: {', '.join(found)}. {report.FEW_KNOWN}"


def _divided(known: Iterable[tuple[str, int]]) -> set[str]:
    """Return the sets whose metrics have items of their own."""
    names = [name for name, _ in known]
    return {name for name in names if names.count(name) > 1}


def _range(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _side_by_side(job: WordSpacesJob, scores: Scores, table: SideBySide) -> report.Section | None:
    """Return the table with the interval of each score, None where there is no score of its tasks."""
    rows: list[dict[str, Any]] = []
    shown: list[Score] = []
    for name, found in scores.items():
        row: dict[str, Any] = {"space": job.title_of(name)}
        for task in table.tasks:
            for (of_set, metric), score in _picked(found, task).items():
                shown.append(score)
                row[f"{of_set} {metric}"] = _with_interval(score)
        rows.append(row)
    if not shown:
        return None
    dots = [
        report.Interval(job.title_of(name), score.value, None, f"{of_set} {metric}")
        for name, found in scores.items()
        for task in table.tasks
        for (of_set, metric), score in _picked(found, task).items()
    ]
    caption = f"{table.caption} {_counts(shown)}"
    return _beneath_dots(dots, report.table(table.title, rows, caption=caption))


def _paper_tables(job: WordSpacesJob, scores: Scores) -> list[report.Section]:
    """Show the figures of a paper above those of the job's spaces; of a space that is not made there are none."""
    ours = {job.title_of(name): values_by_name(scores[name]) for name in job.spaces}
    names = {column for values in ours.values() for column in values}
    return report.paper_tables(job, ours, rows=[job.title_of(name) for name in job.recipes], columns=names)


def _by_dimension(job: WordSpacesJob, scores: Scores, name: str) -> report.Section:
    """Return the scores of the first so many components of a space, as lines and as a table."""
    title = f"Scores by dimension: {job.title_of(name)}"
    dimensions = [*job.dimensions_of(name), job.recipe(name, ReducedRecipe).n_components]
    columns = [key for task in CLOSING_TASKS for key in _picked(scores[name], task)]
    found = [{(score.set, score.metric): score for score in scores[each]} for each in job.scored(name)]
    series = {
        " ".join(key): (dimensions, [each[key].value for each in found]) for key in columns[:COLUMNS_DRAWN]
    }
    rows = [
        {"dimensions": n, **{" ".join(key): _with_interval(each[key]) for key in columns}}
        for n, each in zip(dimensions, found, strict=True)
    ]
    picture = report.line_chart(series, title, xlabel="dimensions", ylabel="score", x_scale="log")
    caption = "The first components of the space."
    return report.group(title, [picture, report.table(title, rows, caption=caption)])


def _beneath_dots(dots: list[report.Interval], table: report.Section) -> report.Section:
    """Put a picture above a table: a line per space and a color per column, of the first columns."""
    drawn = list(dict.fromkeys(dot.group for dot in dots))[:COLUMNS_DRAWN]
    chosen = [dot for dot in dots if dot.group in drawn]
    picture = report.interval_chart(chosen, table.title, xlabel="score", spread=False)
    return report.group(table.title, [picture, table])


def _with_interval(score: Score) -> str:
    if score.value != score.value:
        return "–"
    ends = "" if score.interval is None else f" [{score.interval[0]:.3f}, {score.interval[1]:.3f}]"
    return f"{score.value:.3f}{ends}"


def _priming_effects(job: WordSpacesJob, scores: Scores) -> report.Section | None:
    """Show E and (R, U) of the relations with the most pairs, a row for each space, a column for each relation."""
    found = {name: _picked(each, PRIMING_EFFECT) for name, each in scores.items()}
    if not any(found.values()):
        return None
    effects = [score for score in next(iter(found.values())).values() if score.metric.endswith(EFFECT)]
    effects = sorted(effects, key=lambda score: -score.total)[:RELATIONS_SHOWN]
    rows = [
        {
            "space": job.title_of(name),
            **{
                f"{effect.metric.removesuffix(EFFECT)} {effect.known}/{effect.total}": _effect(each, effect)
                for effect in effects
            },
        }
        for name, each in found.items()
    ]
    caption = (
        "The effect E = R - U, half its 95 % bootstrap interval over pairs, and (R, U): R is the mean cosine of "
        "related primes and targets, U that of a prime with all other targets of its relation (the paper's table 1). "
        f"Beside each relation its known pairs of all. {report.FEW_KNOWN}"
    )
    dots = [
        report.Interval(
            job.title_of(name),
            each[effect.set, effect.metric].value,
            None,
            effect.metric.removesuffix(EFFECT),
        )
        for name, each in found.items()
        for effect in effects
    ]
    return _beneath_dots(dots, report.table("Priming effect by relation", rows, caption=caption))


def _effect(scores: Mapping[tuple[str, str], Score], effect: Score) -> str:
    relation = effect.metric.removesuffix(EFFECT)
    related, unrelated = (scores[effect.set, f"{relation} {part}"].value for part in ("related", "unrelated"))
    found = scores[effect.set, effect.metric]
    if math.isnan(found.value):
        return "–"
    spread = f" ±{(found.interval[1] - found.interval[0]) / 2:.2f}" if found.interval else ""
    return f"{found.value:.3f}{spread} ({related:.2f}, {unrelated:.2f})"


def _plain_table(scores: Scores) -> str:
    """Return scores x 100 as text: a line for each set and metric, a column for each space."""
    first = next(iter(scores.values()))
    chosen = [i for i, score in enumerate(first) if score.task in CLOSING_TASKS]
    lines = [["set", "metric", "known/total", *map(shown, scores)]]
    for i in chosen:
        values = [percent(found[i].value) for found in scores.values()]
        lines.append([shown(first[i].set), first[i].metric, f"{first[i].known}/{first[i].total}", *values])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


# --- spaces ----------------------------------------------------------------------------------------------------


def _neighbor_tables(job: WordSpacesJob, workspace: Workspace) -> list[report.Section]:
    """Show the neighbors of each of the report's words, a row for each space."""
    found = {job.title_of(name): read_nearest(workspace, NEAREST.of(recipe=name)) for name in job.spaces}
    words = sorted(next(iter(found.values())))
    words.sort(key=lambda word: job.report.words.index(word) if word in job.report.words else len(words))
    tables = [
        report.neighbor_table({title: near[word] for title, near in found.items()}, title=word)
        for word in words
    ]
    return [report.group("Nearest words, space by space", tables)] if tables else []


def _space_table(job: WordSpacesJob, workspace: Workspace) -> report.Section:
    done = workspace.stages()
    rows = []
    for name in job.needed():
        recipe, facts = job.recipes[name], done[f"space_{name}"].facts
        rows.append(
            {
                "space": job.title_of(name),
                "name": name,
                "made as": f"{recipe.method} of {recipe.of}",
                "columns": facts["n_columns"],
                "values": facts["n_values"],
                "words without a value": facts["n_zero_words"],
                "first of them": facts["zero_words"] or "–",
            }
        )
    caption = "Words without a value have the zero vector and no neighbors; their cosine with any word is 0."
    return report.table("The spaces", rows, caption=caption)
