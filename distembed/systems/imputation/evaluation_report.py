"""What the report says of the evaluation: hidden names that are found again, and the labels of neighbors."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from distembed.display import format_number, plural
from distembed.evaluation.imputation import JUDGED_NAMES, VOTES, MethodRecovery, judge
from distembed.storage.workspace import Workspace
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import ImputationJob
from distembed.systems.imputation.solving import AMONG, IN_PAPER, VOTED
from distembed.systems.imputation.stages import BASELINES, CHOSEN, METHODS, SHUFFLED, too_few_to_choose
from distembed.views import report


def method_rows(workspace: Workspace) -> dict[str, MethodRecovery]:
    """Return the figures of the hold-out by method; none where too few names are known to hide any."""
    return {row["method"]: MethodRecovery(**row) for row in outputs.HOLD_OUT.read(workspace).to_pylist()}


def judged_items(workspace: Workspace) -> dict[str, float]:
    """Return how near each hidden name came to its vector by the method of the job: its centered cosine."""
    table = outputs.HOLD_OUT_NAMES.read(workspace)
    own = table.filter(pc.equal(table["method"], table["method"][0])) if table.num_rows else table
    return dict(zip(own["word"].to_pylist(), own["centered_cosine"].to_pylist(), strict=True))


def verdict(workspace: Workspace) -> str:
    """Return in sentences whether the table is useful, weak or useless for the vectors, and why."""
    methods, facts = method_rows(workspace), workspace.stages()["hold_out"].facts
    own = next(iter(methods.values()), None)
    found = own and judge(own, methods[SHUFFLED], n_known=facts["n_known"])
    if found is None:
        n = min(facts["n_known"], facts["n_hidden"] or facts["n_known"])
        return (
            f"Whether the table predicts the vectors cannot be judged: {plural(n, 'name')} with a known "
            f"vector {'is' if n == 1 else 'are'} too few to hide, {JUDGED_NAMES} are needed."
        )
    sentence = f"The table is {found.word} for these vectors, because {found.reason}."
    if found.word == "useless":
        return f"{sentence} Names imputed from it are no better than names drawn at random."
    row = methods[SHUFFLED]
    return (
        f"{sentence} The gain over the same table with its rows shuffled is {row.centered_gain:.3f} "
        f"[{row.centered_gain_low:.3f}, {row.centered_gain_high:.3f}] in centered cosine, and in rank "
        f"{row.rank_gain:.1%} [{row.rank_gain_low:.1%}, {row.rank_gain_high:.1%}] of the known names."
    )


def hold_out(workspace: Workspace) -> str:
    """Return what came of hiding known names, and what to think of it, in words."""
    methods, facts = method_rows(workspace), workspace.stages()["hold_out"].facts
    if not methods:
        return verdict(workspace)
    figures = [
        f"{method} {report.three_decimals(row.centered_cosine)} and {row.median_rank:.0f}"
        for method, row in methods.items()
        if method not in BASELINES
    ]
    return (
        f"Hold-out: {plural(facts['n_hidden'], 'known name')} hidden in {plural(facts['n_folds'], 'fold')}; cosine to "
        "the true vector, after the mean of the known ones is taken off both, and its median rank among "
        f"{facts['n_known']:,}: {'; '.join(figures)}. {verdict(workspace)}{_advice(methods)}"
    )


def chosen_method(job: ImputationJob, workspace: Workspace) -> str:
    """Return by which method the vectors were made, where the job does not say that it is the graph, in a sentence."""
    method, is_auto = workspace.stages()["vectors"].facts["method"], job.imputation.method == "auto"
    if method != "graph":
        return f"The vectors are those of {METHODS[method]}."
    n_names = min(workspace.stages()["join"].facts["n_known"], job.evaluation.max_names)
    if is_auto and n_names < JUDGED_NAMES:
        return f"{too_few_to_choose(n_names)}."
    return "The vectors are those of imputation by the graph alone." if is_auto else ""


def _advice(methods: Mapping[str, MethodRecovery]) -> str:
    """Return which method finds the hidden names best and by how much, and how a job takes it where it does not."""
    own = next(iter(methods.values()))
    best = max(METHODS, key=lambda method: methods[METHODS[method]].centered_cosine)
    row, graph = methods[METHODS[best]], methods[METHODS["graph"]]
    if own.method == CHOSEN:
        gap = f"{row.centered_cosine - graph.centered_cosine:.3f} above imputation alone"
        found = (
            " Imputation alone finds them best"
            if best == "graph"
            else f" {row.method.capitalize()} finds them best, {gap}"
        )
        return f"{found}; the choice has {report.three_decimals(own.centered_cosine)}."
    if row.centered_cosine <= own.centered_cosine:
        return ""
    return (
        f" {row.method.capitalize()} finds them better ({report.three_decimals(row.centered_cosine)} against "
        f'{report.three_decimals(own.centered_cosine)}): imputation.method = "{best}" takes it, "auto" the best.'
    )


def hold_out_section(workspace: Workspace) -> report.Section:
    """Show how well hidden names are found, beside the controls."""
    title = "Hidden names found again"
    rows = [
        {
            "method": row.method,
            "centered cosine": row.centered_cosine,
            "95 % interval": (row.centered_low, row.centered_high),
            "median rank": row.median_rank,
            "95 % interval of the rank": (row.rank_low, row.rank_high),
            "mean of 1/rank": row.reciprocal_rank,
            "neighbors of the same label": row.label_share,
        }
        for row in method_rows(workspace).values()
    ]
    if not rows:
        return report.Section(title, report.paragraph(verdict(workspace)))
    if not any(outputs.VOCABULARY.read(workspace)["label"].to_pylist()):
        rows = [{key: value for key, value in row.items() if "label" not in key} for row in rows]
    caption = (
        f"{hold_out(workspace)} Rank 1 is best. The centered cosine is that of the differences from the mean of "
        "the known vectors: a method that gives every name nearly this mean has a high plain cosine and ranks nothing. "
        "Intervals are bootstrap percentiles over names."
    )
    formats = {name: report.three_decimals for name in rows[0] if name not in ("method", "median rank")}
    picture = report.interval_chart(
        [
            report.Interval(row.method, row.centered_cosine, (row.centered_low, row.centered_high))
            for row in method_rows(workspace).values()
        ],
        title,
        xlabel="centered cosine to the true vector, with its 95 % interval",
    )
    formats |= {"95 % interval of the rank": format_number}
    shown = [
        picture,
        report.table(title, rows, caption=caption, formats=formats),
    ]
    return report.group(title, shown)


DRAWN = "distance"
"""The votes that the picture of labels draws, those of the authors' program; the table has both."""

# --- the labels of neighbors -----------------------------------------------------------------------------------


def label_sections(job: ImputationJob, workspace: Workspace) -> list[report.Section]:
    """Show how often the neighbors of a name vote for its label, in a paper too; nothing without labels."""
    if "neighbor_labels" not in workspace.stages():
        return []
    title = "Labels of neighbors"
    found = outputs.NEIGHBOR_LABELS.read(workspace).to_pylist()
    if not found:
        return [report.Section(title, report.paragraph("Too few names have a label to ask their neighbors."))]
    shares = {(row["rows"], row["votes"], row["n_neighbors"]): row["accuracy"] for row in found}
    counts = sorted({row["n_neighbors"] for row in found})
    names = {row["rows"]: row["n_names"] for row in found}
    rows = [
        {
            "rows": name,
            "names": n,
            "votes": votes,
            **{AMONG.format(k): shares.get((name, votes, k)) for k in counts},
        }
        for name, n in names.items()
        for votes in VOTES
    ]
    curves = {
        name.removeprefix("known and imputed vectors, "): (
            [k for k in counts if (name, DRAWN, k) in shares],
            [shares[name, DRAWN, k] for k in counts if (name, DRAWN, k) in shares],
        )
        for name in names
    }
    facts = workspace.stages()["neighbor_labels"].facts
    caption = (
        f"The share of names whose label is the one that their k nearest others vote for, of {facts['n_labels']} "
        "labels. Distances are Euclidean; a vote counts as one, or as the inverse of its distance. A label that the "
        "table knows can only be carried to the imputed names: the table itself is the bound, the shuffled labels "
        "are chance."
    )
    picture = report.line_chart(
        curves,
        title,
        xlabel="neighbors that vote, by their distance",
        ylabel="share of names",
        dashed=[name for name in curves if name.endswith("shuffled")],
        caption="The share of names whose label their neighbors vote for.",
    )
    formats = {AMONG.format(k): report.three_decimals for k in counts}
    ours = {VOTED.format(row["rows"], row["votes"]): row for row in rows}
    return [
        report.group(title, [picture, report.table(title, rows, caption=caption, formats=formats)]),
        *report.paper_tables(job, ours, **IN_PAPER),
    ]
