"""The report of a word spaces job: the three tables of the paper, more scores, and neighbors side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from distembed.evaluation.priming import PRIMING_EFFECT
from distembed.evaluation.scoring import FEW_KNOWN, Score
from distembed.evaluation.words import percent
from distembed.stages.words import read_nearest, shown_scores, values_by_name
from distembed.storage.workspace import Workspace
from distembed.systems.wordspaces.job import WordSpacesJob
from distembed.systems.wordspaces.outputs import NEAREST, SCORES
from distembed.views.report.figures import Mark, line_chart, small_multiples
from distembed.views.report.page import Page, Section, ShownTable
from distembed.views.report.run import closing_of, page_of
from distembed.views.report.sections import neighbor_table, paper_tables

Scores = dict[str, list[Score]]

RELATIONS_SHOWN = 8
"""Relations of the priming table, those with the most pairs."""

COLUMNS_DRAWN = 8
"""Columns of a table whose values the picture above it shows: as many as there are colors."""

CLOSING_TASKS = ("normed priming", "synonym", "similarity", "antonyms", "categorization", "priming")
"""Tasks whose scores a run prints at its end; the report has all."""


NORMED_PRIMING = (
    ("normed priming",),
    "Normed priming",
    "Mean over cues of Spearman's correlation between strength of association and cosine, with 95 % bootstrap "
    "intervals over cues. Items are cues with at least three known targets.",
)
CHOICES = (
    ("synonym", "similarity", "antonyms", "categorization"),
    "Word choice, association and categories",
    "Accuracy of synonym choice, Spearman's and Pearson's correlation with judged similarity (the paper's table 2 has "
    "Pearson's), how near antonyms are, purity of clusters, with 95 % bootstrap intervals over items.",
)
REACTION_TIMES = (
    ("priming",),
    "Priming measured by reaction times",
    "Spearman's correlation of the cosine of prime and target with the priming measured in milliseconds, when the "
    "target follows after 200 and 1200 ms, with 95 % bootstrap intervals over pairs.",
)
"""Tables with a row for each space and a column for each set and metric: the tasks, the title and the caption."""

EFFECT = " effect"
"""What the name of a metric of the priming effect ends in."""


def page(job: WordSpacesJob, workspace: Workspace) -> Page:
    """Return the report of a finished workspace."""
    scores, done = all_scores(job, workspace), workspace.stages()
    ours = {job.title_of(name): values_by_name(scores[name]) for name in job.spaces}
    sections = [
        *_neighbor_tables(job, workspace),
        *_side_by_side(job, scores, *NORMED_PRIMING),
        *_priming_effects(job, scores),
        *_side_by_side(job, scores, *CHOICES),
        *_side_by_side(job, scores, *REACTION_TIMES),
        *paper_tables(  # of a space that is not made there are no figures beside the paper's
            job,
            ours,
            rows=[job.title_of(name) for name in job.recipes],
            columns={column for values in ours.values() for column in values},
        ),
        *(_by_dimension(job, scores, name) for name in job.spaces if len(job.scored(name)) > 1),
        _space_table(job, workspace),
    ]
    facts = {
        "documents": done["tokens"].facts.get("n_documents", 0),
        "tokens": done["tokens"].facts.get("n_tokens", 0),
        "words": done["vocabulary"].facts["n_words"],
    }
    summary, explorer = f"{len(job.spaces)} word spaces of one corpus.", bool(job.wordspaces.vectors)
    return page_of(job, workspace, summary, facts, sections, explorer=explorer)


def closing_text(job: WordSpacesJob, workspace: Workspace, where: str) -> str:
    """Return the scores of all spaces, x 100, as a table, and the place of the report."""
    scores = all_scores(job, workspace)
    rows = [
        {"set": each[0].set, "metric": each[0].metric, "known/total": f"{each[0].known}/{each[0].total}"}
        | {name: percent(score.value) for name, score in zip(scores, each, strict=True)}
        for each in zip(*scores.values(), strict=True)
        if each[0].task in CLOSING_TASKS
    ]
    ways = {"vectors": "export {} --to vectors.txt", "neighbors": "neighbors {} WORD ..."}
    return closing_of(
        job, workspace, where, [ShownTable("", rows)], **(ways if job.wordspaces.vectors else {})
    )


def all_scores(job: WordSpacesJob, workspace: Workspace) -> Scores:
    """Return the scores of each space of the job, and of its first components, by what they are called."""
    scored = [each for name in job.spaces for each in job.scored(name)]
    return {name: shown_scores(workspace, SCORES.of(recipe=name)) for name in scored}


# --- scores ----------------------------------------------------------------------------------------------------


def _picked(scores: Iterable[Score], *tasks: str) -> dict[tuple[str, str], Score]:
    """Return the scores of some tasks, in their order, by set and metric."""
    scores = list(scores)
    return {(score.set, score.metric): score for task in tasks for score in scores if score.task == task}


def _counts(scores: Iterable[Score]) -> str:
    """Return how many items of each set are known, in words: a range where spaces differ, by words without a value."""
    known: dict[tuple[str, int], list[Score]] = {}
    for score in scores:
        known.setdefault((score.set, score.total), []).append(score)
    names, found = [name for name, _ in known], []
    for (name, total), group in known.items():
        metric = f" {group[0].metric}" if names.count(name) > 1 else ""  # its metrics have items of their own
        numbers = dict.fromkeys(f"{end(score.known for score in group):,}" for end in (min, max))
        found.append(f"{name}{metric} {' to '.join(numbers)}/{total:,}")
    return f"Known items of all: {', '.join(found)}. {FEW_KNOWN}"


def _beneath_dots(
    title: str, marks: Sequence[Mark], rows: Iterable[Mapping[str, str]], caption: str
) -> Section:
    """Put a picture above a table with a row for each space: a line per space and a color per column, of the first."""
    drawn = list(dict.fromkeys(mark.kind for mark in marks))[:COLUMNS_DRAWN]
    picture = small_multiples("", [mark for mark in marks if mark.kind in drawn], xlabel="score")
    return Section(title, [picture, ShownTable("", list(rows), caption=caption)])


def _side_by_side(
    job: WordSpacesJob, scores: Scores, tasks: Sequence[str], title: str, caption: str
) -> list[Section]:
    """Return the table with the interval of each score, none where there is no score of its tasks."""
    found = {job.title_of(name): _picked(each, *tasks) for name, each in scores.items()}
    marks = [
        Mark(space, score.value, kind=" ".join(key))
        for space, each in found.items()
        for key, score in each.items()
    ]
    rows = ({"space": space} | _with_intervals(each) for space, each in found.items())
    counts = _counts(score for each in found.values() for score in each.values())
    return [_beneath_dots(title, marks, rows, f"{caption} {counts}")] if marks else []


def _by_dimension(job: WordSpacesJob, scores: Scores, name: str) -> Section:
    """Return the scores of the first so many components of a space, as lines and as a table."""
    title, scored = f"Scores by dimension: {job.title_of(name)}", job.scored(name)
    found = {k: _picked(scores[each], *CLOSING_TASKS) for each, k in scored.items()}
    series = {
        " ".join(key): (list(found), [each[key].value for each in found.values()])
        for key in list(found[scored[name]])[:COLUMNS_DRAWN]
    }
    rows = [{"dimensions": k} | _with_intervals(each) for k, each in found.items()]
    picture = line_chart("", series, xlabel="dimensions", ylabel="score", x_scale="log")
    return Section(title, [picture, ShownTable("", rows, caption="The first components of the space.")])


def _with_intervals(scores: Mapping[tuple[str, str], Score]) -> dict[str, str]:
    """Return scores with their intervals as text, by the names of their sets and metrics."""
    shown = {}
    for key, score in scores.items():
        ends = "" if score.interval is None else f" [{score.interval[0]:.3f}, {score.interval[1]:.3f}]"
        shown[" ".join(key)] = "–" if math.isnan(score.value) else f"{score.value:.3f}{ends}"
    return shown


def _priming_effects(job: WordSpacesJob, scores: Scores) -> list[Section]:
    """Show E and (R, U) of the relations with the most pairs, a row for each space, a column for each relation."""
    found = {job.title_of(name): _picked(each, PRIMING_EFFECT) for name, each in scores.items()}
    if not any(found.values()):
        return []
    effects = [score for score in next(iter(found.values())).values() if score.metric.endswith(EFFECT)]
    effects = sorted(effects, key=lambda score: -score.total)[:RELATIONS_SHOWN]
    rows: list[dict[str, str]] = [{"space": space} for space in found]
    marks = []
    for row, (space, each) in zip(rows, found.items(), strict=True):
        for effect in effects:
            relation, score = effect.metric.removesuffix(EFFECT), each[effect.set, effect.metric]
            marks.append(Mark(space, score.value, kind=relation))
            parts = [each[effect.set, f"{relation} {part}"].value for part in ("related", "unrelated")]
            ends = score.interval
            spread = f" ±{(ends[1] - ends[0]) / 2:.2f}" if ends else ""
            shown = f"{score.value:.3f}{spread} ({parts[0]:.2f}, {parts[1]:.2f})"
            row[f"{relation} {effect.known}/{effect.total}"] = "–" if math.isnan(score.value) else shown
    caption = (
        "The effect E = R - U, half its 95 % bootstrap interval over pairs, and (R, U): R is the mean cosine of "
        "related primes and targets, U that of a prime with all other targets of its relation (the paper's table 1). "
        f"Beside each relation its known pairs of all. {FEW_KNOWN}"
    )
    return [_beneath_dots("Priming effect by relation", marks, rows, caption)]


# --- spaces ----------------------------------------------------------------------------------------------------


def _neighbor_tables(job: WordSpacesJob, workspace: Workspace) -> list[Section]:
    """Show the neighbors of each of the report's words, a row for each space."""
    found = {job.title_of(name): read_nearest(workspace, NEAREST.of(recipe=name)) for name in job.spaces}
    words = sorted(next(iter(found.values())))
    words.sort(key=lambda word: job.report.words.index(word) if word in job.report.words else len(words))
    tables = [neighbor_table({title: near[word] for title, near in found.items()}, word) for word in words]
    return [Section("Nearest words, space by space", tables)] if tables else []


def _space_table(job: WordSpacesJob, workspace: Workspace) -> ShownTable:
    rows = []
    for name in job.needed():
        recipe, facts = job.recipes[name], workspace.stages()[f"space_{name}"].facts
        own = {"space": job.title_of(name), "name": name, "made as": f"{recipe.method} of {recipe.of}"}
        sizes = {"columns": facts["n_columns"], "values": facts["n_values"]}
        zeros = {"words without a value": facts["n_zero_words"], "first of them": facts["zero_words"] or None}
        rows.append(own | sizes | zeros)
    caption = "Words without a value have the zero vector and no neighbors; their cosine with any word is 0."
    return ShownTable("The spaces", rows, caption=caption)
