"""What the report says of the evaluation: hidden names that are found again, and the labels of neighbors."""

from __future__ import annotations

from collections.abc import Mapping

from distembed.display import format_number, plural
from distembed.evaluation.imputation import JUDGED_NAMES, VOTES, MethodRecovery, is_better
from distembed.storage.workspace import Workspace
from distembed.systems.imputation import outputs
from distembed.systems.imputation.stages import OWN, RIDGE, SHUFFLED
from distembed.views import report


def method_rows(workspace: Workspace) -> dict[str, MethodRecovery]:
    """Return the figures of the hold-out by method; none where too few names are known to hide any.

    Raises
    ------
    ValueError
        If the workspace is of a version that judged by the plain cosine.
    """
    table = outputs.HOLD_OUT.read(workspace)
    if not {*MethodRecovery._fields} <= {*table.column_names}:
        raise ValueError(
            f"the hold-out in {workspace.url} was judged by the plain cosine, by an older version: run the job again, "
            "which repeats this stage alone"
        )
    return {row["method"]: MethodRecovery(**row) for row in table.to_pylist()}


def verdict(workspace: Workspace) -> str:
    """Return in a sentence whether the table says anything of the vectors."""
    methods = method_rows(workspace)
    better = is_better(methods[SHUFFLED]) if methods else None
    if better is None:
        facts = workspace.stages()["hold_out"].facts
        n = min(facts["n_known"], facts["n_hidden"] or facts["n_known"])
        return (
            f"Whether the table predicts the vectors cannot be judged: {plural(n, 'name')} with a known "
            f"vector {'is' if n == 1 else 'are'} too few to hide, {JUDGED_NAMES} are needed."
        )
    if not better:
        return (
            "Names imputed from this table are no better than names drawn at random: known names that were "
            "hidden are found no better than from the same table with its rows shuffled."
        )
    row = methods[SHUFFLED]
    return (
        "The table predicts the vectors better than the same table with its rows shuffled. The gain is "
        f"{row.centered_gain:.3f} [{row.centered_gain_low:.3f}, {row.centered_gain_high:.3f}] in centered cosine, and "
        f"in rank {row.rank_gain:.1%} [{row.rank_gain_low:.1%}, {row.rank_gain_high:.1%}] of the known names."
    )


def hold_out(workspace: Workspace) -> str:
    """Return what came of hiding known names, and what to think of it, in words."""
    methods, facts = method_rows(workspace), workspace.stages()["hold_out"].facts
    if not methods:
        return verdict(workspace)
    figures = [
        f"{method} {report.three_decimals(row.centered_cosine)} and {row.median_rank:.0f}"
        for method, row in methods.items()
        if method in (*OWN.values(), SHUFFLED, RIDGE)
    ]
    return (
        f"Hold-out: {plural(facts['n_hidden'], 'known name')} hidden in {plural(facts['n_folds'], 'fold')}; cosine to "
        "the true vector, after the mean of the known ones is taken off both, and its median rank among "
        f"{facts['n_known']:,}: {'; '.join(figures)}. {verdict(workspace)}{_advice(methods)}"
    )


def chosen_method(workspace: Workspace) -> str:
    """Return by which method the vectors were made, where it is not the graph alone, in a sentence."""
    facts = workspace.stages()["vectors"].facts
    sentences = {
        "linear_map": f"The vectors are those of a linear map of the table, ridge {facts['ridge']:g}.",
        "combined": "The vectors are those of a linear map of the table with its residuals imputed, ridge "
        f"{facts['ridge']:g}.",
    }
    return sentences.get(facts["method"], "")


def _advice(methods: Mapping[str, MethodRecovery]) -> str:
    """Return which method of a job finds the hidden names best, where it is not the job's own."""
    tried = {key: methods[name] for key, name in OWN.items() if key != "auto"}
    own = next(iter(methods.values()))
    key, best = max(tried.items(), key=lambda item: item[1].centered_cosine)
    if (
        own.names < JUDGED_NAMES
        or own.method == OWN["auto"]
        or best.method == own.method
        or best.centered_cosine <= own.centered_cosine
    ):
        return ""
    return (
        f" {best.method.capitalize()} finds them better ({report.three_decimals(best.centered_cosine)} against "
        f'{report.three_decimals(own.centered_cosine)}): imputation.method = "{key}" takes it, "auto" the best.'
    )


def hold_out_section(workspace: Workspace) -> report.Section:
    """Show how well hidden names are found, beside the controls."""
    title = "Hidden names found again"
    rows = [
        {
            "method": row.method,
            "centered cosine": row.centered_cosine,
            "95 % interval": (row.centered_low, row.centered_high),
            "cosine": row.cosine,
            "95 % interval of the cosine": (row.cosine_low, row.cosine_high),
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
        f"{hold_out(workspace)} Rank 1 is best. The centered cosine is that of the differences from the mean of the "
        "known vectors: a method that gives every name nearly this mean has a high plain cosine and ranks nothing. "
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
    shown = [picture, report.table(title, rows, caption=caption, formats=formats), _choice_curve(workspace)]
    return report.group(title, shown)


def _choice_curve(workspace: Workspace) -> report.Section:
    """Draw how well each ridge of each method finds the hidden names."""
    tried = outputs.CHOICE.read(workspace).to_pylist()
    (graph,) = (row["centered_cosine"] for row in tried if row["method"] == "graph")
    ridges = sorted({row["ridge"] for row in tried if row["ridge"] > 0})
    curves = {
        OWN[method]: (
            ridges,
            [
                row["centered_cosine"]
                for ridge in ridges
                for row in tried
                if (row["method"], row["ridge"]) == (method, ridge)
            ],
        )
        for method in ("linear_map", "combined")
    }
    return report.line_chart(
        {**curves, OWN["graph"]: ([ridges[0], ridges[-1]], [graph, graph])},
        "Hidden names found again, by the ridge of the linear map",
        xlabel="ridge, in units of the mean squared length of a row of the table",
        ylabel="centered cosine",
        x_scale="log",
        dashed=[OWN["graph"]],
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
