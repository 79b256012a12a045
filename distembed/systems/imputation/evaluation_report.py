"""What the report says of the evaluation: hidden names that are found again, and the labels of neighbors."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from distembed.display import format_number, plural
from distembed.evaluation.imputation import JUDGED_NAMES, VOTES, MethodRecovery, judge
from distembed.manifold.imputation_choice import LEAST_KNOWN
from distembed.storage.workspace import Workspace
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import ImputationJob, ImputationSection
from distembed.systems.imputation.stages import (
    CHOSEN,
    IMPUTATION,
    MAPS,
    RIDGE,
    SHUFFLED,
    row_name,
    too_few_to_choose,
    ways_of,
)
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


def hold_out(job: ImputationJob, workspace: Workspace) -> str:
    """Return what came of hiding known names, and what to think of it, in words."""
    methods, facts = method_rows(workspace), workspace.stages()["hold_out"].facts
    if not methods:
        return verdict(workspace)
    figures = [
        f"{method} {report.three_decimals(row.centered_cosine)} and {row.median_rank:.0f}"
        for method, row in methods.items()
        if method in (*ways_of(job.imputation), SHUFFLED, RIDGE)
    ]
    return (
        f"Hold-out: {plural(facts['n_hidden'], 'known name')} hidden in {plural(facts['n_folds'], 'fold')}; cosine to "
        "the true vector, after the mean of the known ones is taken off both, and its median rank among "
        f"{facts['n_known']:,}: {'; '.join(figures)}. {verdict(workspace)}{_advice(job.imputation, methods)}"
    )


def chosen_method(job: ImputationJob, workspace: Workspace) -> str:
    """Return by which method the vectors were made, where the job does not say that it is the graph, in a sentence."""
    facts = workspace.stages()["vectors"].facts
    if facts["method"] == "graph":
        n_known, is_auto = workspace.stages()["join"].facts["n_known"], job.imputation.method == "auto"
        if is_auto and n_known < LEAST_KNOWN:
            return f"{too_few_to_choose(n_known)}."
        return "The vectors are those of imputation by the graph alone." if is_auto else ""
    residuals = " with its residuals imputed" if facts["method"] == "combined" else ""
    return f"The vectors are those of a {map_name(job, workspace)} of the table{residuals}, ridge {facts['ridge']:g}."


def map_name(job: ImputationJob, workspace: Workspace) -> str:
    """Return what the map of the vectors is called."""
    return MAPS[kernel_of(job, workspace)]


def kernel_of(job: ImputationJob, workspace: Workspace) -> str:
    """Return the kernel of the map of the vectors; a workspace of an older version has that of its job."""
    return str(workspace.stages()["vectors"].facts.get("kernel", job.imputation.kernel))


def _advice(options: ImputationSection, methods: Mapping[str, MethodRecovery]) -> str:
    """Return which method finds the hidden names best and by how much, and how a job takes it where it does not."""
    own = next(iter(methods.values()))
    if own.names < JUDGED_NAMES:
        return ""
    tried = {name: way for name, way in ways_of(options).items() if name in methods and name != CHOSEN}
    best = max((methods[name] for name in tried), key=lambda row: row.centered_cosine)
    graph = methods[IMPUTATION]
    if own.method == CHOSEN:
        gap = f"{best.centered_cosine - graph.centered_cosine:.3f} above imputation alone"
        found = (
            " Imputation alone finds them best"
            if best is graph
            else f" {best.method.capitalize()} finds them best, {gap}"
        )
        return f"{found}; the choice has {report.three_decimals(own.centered_cosine)}."
    if best.centered_cosine <= own.centered_cosine:
        return ""
    way = tried[best.method]
    kernel = f' with imputation.kernel = "{way.kernel}"' if way.kernel != options.kernel else ""
    return (
        f" {best.method.capitalize()} finds them better ({report.three_decimals(best.centered_cosine)} against "
        f'{report.three_decimals(own.centered_cosine)}): imputation.method = "{way.method}"{kernel} takes it, "auto" '
        "the best."
    )


def hold_out_section(job: ImputationJob, workspace: Workspace) -> report.Section:
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
        f"{hold_out(job, workspace)} Rank 1 is best. The centered cosine is that of the differences from the mean of "
        "the known vectors: a method that gives every name nearly this mean has a high plain cosine and ranks nothing. "
        "The ridge of a map, and what is chosen, was chosen by the names of the other folds. Intervals are bootstrap "
        "percentiles over names."
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
        _choice_curve(job, workspace),
    ]
    return report.group(title, shown)


def _choice_curve(job: ImputationJob, workspace: Workspace) -> report.Section:
    """Draw how well each ridge of each map finds the hidden names."""
    tried = outputs.CHOICE.read(workspace).to_pylist()
    (graph,) = (row["centered_cosine"] for row in tried if row["method"] == "graph")
    curves: dict[str, dict[float, float]] = {}
    for row in tried:
        if row["method"] != "graph":
            curve = curves.setdefault(row_name(row["method"], row.get("kernel", job.imputation.kernel)), {})
            curve[row["ridge"]] = row["centered_cosine"]
    ridges = sorted({ridge for curve in curves.values() for ridge in curve})
    drawn = {
        name: (sorted(curve), [curve[ridge] for ridge in sorted(curve)]) for name, curve in curves.items()
    }
    return report.line_chart(
        {**drawn, IMPUTATION: ([ridges[0], ridges[-1]], [graph, graph])},
        "Hidden names found again, by the ridge of the map",
        xlabel="ridge, in units of the mean squared length of a row of the table",
        ylabel="centered cosine",
        x_scale="log",
        dashed=[IMPUTATION],
        caption="What this curve chooses is not judged by it: the table above takes the choice of the other folds.",
    )


DRAWN = "distance"
"""The votes that the picture of labels draws, those of the authors' program; the table has both."""

# --- the labels of neighbors -----------------------------------------------------------------------------------


def label_sections(workspace: Workspace) -> list[report.Section]:
    """Show how often the neighbors of a name vote for its label, before and after; nothing without labels."""
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
            **{f"k = {k}": shares.get((name, votes, k)) for k in counts},
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
    formats = {f"k = {k}": report.three_decimals for k in counts}
    return [report.group(title, [picture, report.table(title, rows, caption=caption, formats=formats)])]
