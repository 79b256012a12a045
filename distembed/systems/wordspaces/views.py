"""The report of a word spaces job: the three tables of the paper, more scores, and neighbors side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distembed.evaluation.priming import PRIMING_EFFECT
from distembed.evaluation.scoring import Score
from distembed.stages.words import read_nearest, shown_scores, values_by_name
from distembed.storage.workspace import Workspace
from distembed.systems.wordspaces.job import WordSpacesJob
from distembed.systems.wordspaces.outputs import NEAREST, SCORES
from distembed.views.report.figures import Mark, line_chart, small_multiples
from distembed.views.report.page import Page, Section, ShownTable
from distembed.views.report.run import page_of
from distembed.views.report.sections import neighbor_table, paper_tables, score_table

DRAWN = 8
"""Sets, metrics or relations that a picture shows: as many as there are colors."""

CLOSING_TASKS = ("normed priming", "synonym", "similarity", "antonyms", "categorization", "priming")
"""Tasks whose scores a run prints at its end; the report has all."""

TABLES = {
    "Normed priming": (
        ("normed priming",),
        "Mean over cues of Spearman's correlation between strength of association and cosine, with 95 % intervals over "
        "cues. Items are cues with at least three known targets.",
    ),
    "Priming effect by relation": (
        (PRIMING_EFFECT,),
        "The effect is R - U with its 95 % interval over pairs: R (related) is the mean cosine of related primes and "
        "targets, U (unrelated) that of a prime with all other targets of its relation (the paper's table 1).",
    ),
    "Word choice, association and categories": (
        ("synonym", "similarity", "antonyms", "categorization"),
        "Accuracy of synonym choice, Spearman's and Pearson's correlation with judged similarity (the paper's table 2 "
        "has Pearson's), how near antonyms are, purity of clusters, with 95 % intervals over items.",
    ),
    "Priming measured by reaction times": (
        ("priming",),
        "Spearman's correlation of the cosine of prime and target with the priming measured in milliseconds, when the "
        "target follows after 200 and 1200 ms, with 95 % intervals over pairs.",
    ),
}
"""The tables of scores by their titles: the tasks, and what they show."""


def page(job: WordSpacesJob, workspace: Workspace) -> Page:
    """Return the report of a finished workspace."""
    scored = [each for name in job.spaces for each in job.scored(name)]
    scores = {name: shown_scores(workspace, SCORES.of(recipe=name)) for name in scored}
    done = workspace.stages()
    ours = {job.title_of(name): values_by_name(scores[name]) for name in job.spaces}
    every = {job.title_of(name): found for name, found in scores.items()}
    tables = (_side_by_side(every, title, *table) for title, table in TABLES.items())
    sections = [
        *_neighbor_tables(job, workspace),
        *(table for table in tables if not table.is_empty),
        *paper_tables(  # of a space that is not made there are no figures beside the paper's
            job,
            ours,
            rows=[job.title_of(name) for name in job.recipes],
            columns={column for values in ours.values() for column in values},
        ),
        *(_by_dimension(job, scores, name) for name in job.spaces if len(job.scored(name)) > 1),
    ]
    facts = {
        "documents": done["tokens"].facts.get("n_documents", 0),
        "tokens": done["tokens"].facts.get("n_tokens", 0),
        "words": done["vocabulary"].facts["n_words"],
    }
    summary, has_vectors = f"{len(job.spaces)} word spaces of one corpus.", bool(job.wordspaces.vectors)
    ways = {"vectors": "export {} --to vectors.txt", "neighbors": "neighbors {} WORD ..."}
    return page_of(
        job,
        workspace,
        summary,
        facts,
        sections,
        details=[_space_table(job, workspace)],
        closing=[score_table(_picked(scores, CLOSING_TASKS))],
        ways=ways if has_vectors else {},
        explorer=has_vectors,
    )


# --- scores ----------------------------------------------------------------------------------------------------


def _picked(scores: Mapping[str, Sequence[Score]], tasks: Sequence[str]) -> dict[str, list[Score]]:
    """Return the scores of some tasks, in their order, by the names of their spaces."""
    return {
        name: [one for task in tasks for one in found if one.task == task] for name, found in scores.items()
    }


def _side_by_side(
    scores: Mapping[str, Sequence[Score]], title: str, tasks: Sequence[str], about: str
) -> Section:
    """Return a picture with a line for each space and a color for each metric, above the table of all spaces."""
    found, parts = _picked(scores, tasks), (" related", " unrelated")
    marks = list[Mark]()
    for space, each in found.items():
        drawn = [one for one in each if not one.metric.endswith(parts)][:DRAWN]
        marks += [Mark(space, one.value, one.interval, f"{one.set} {one.metric}") for one in drawn]
    picture = small_multiples("", marks, xlabel="score, with its 95 % interval")
    return Section(title, [picture, score_table(found, about=about, intervals=True)])


def _by_dimension(job: WordSpacesJob, scores: Mapping[str, Sequence[Score]], name: str) -> Section:
    """Return the scores of the first so many components of a space, as lines and as a table."""
    sizes = {each: str(k) for each, k in job.scored(name).items()}
    found = _picked({sizes[each]: scores[each] for each in sizes}, CLOSING_TASKS)
    series = {
        f"{of_metric[0].set} {of_metric[0].metric}": (list(map(int, found)), [one.value for one in of_metric])
        for of_metric in list(zip(*found.values(), strict=True))[:DRAWN]
    }
    picture = line_chart("", series, xlabel="dimensions", ylabel="score", x_scale="log")
    about = "By the first components of the space, as many as a column says."
    table = score_table(found, about=about, intervals=True)
    return Section(f"Scores by dimension: {job.title_of(name)}", [picture, table])


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
