"""What the report says of the evaluation: hidden names that are found again, and the labels of neighbors."""

from __future__ import annotations

from collections.abc import Mapping

from distembed.display import plural
from distembed.evaluation.imputation import MethodRecovery, is_better
from distembed.evaluation.neighbor_labels import VOTES
from distembed.pipeline import report
from distembed.pipeline.quantities import format_number
from distembed.pipeline.systems.imputation.hold_out import LINEAR, SHUFFLED
from distembed.storage.workspace import Workspace


def method_rows(workspace: Workspace) -> dict[str, MethodRecovery]:
    """Return the figures of the hold-out by method; none where fewer than two names are known."""
    rows = (MethodRecovery(**row) for row in workspace.table("hold_out").to_pylist())
    return {row.method: row for row in rows}


def verdict(workspace: Workspace) -> str:
    """Return in a sentence whether the table says anything of the vectors."""
    methods = method_rows(workspace)
    better = is_better(methods[SHUFFLED]) if methods else None
    if better is None:
        n_known = workspace.stages()["hold_out"].facts["n_known"]
        return (
            f"Whether the table predicts the vectors cannot be judged: {plural(n_known, 'name')} with a known "
            f"vector {'is' if n_known == 1 else 'are'} too few to hide."
        )
    if not better:
        return (
            "Names imputed from this table are no better than names drawn at random: known names that were "
            "hidden are found no better than from the same table with its rows shuffled."
        )
    row = methods[SHUFFLED]
    return (
        "The table predicts the vectors better than the same table with its rows shuffled. The gain is "
        f"{row.cosine_gain:.3f} [{row.cosine_gain_low:.3f}, {row.cosine_gain_high:.3f}] in cosine, and in rank "
        f"{row.rank_gain:.1%} [{row.rank_gain_low:.1%}, {row.rank_gain_high:.1%}] of the known names."
    )


def hold_out(workspace: Workspace) -> str:
    """Return what came of hiding known names, and what to think of it, in words."""
    methods, facts = method_rows(workspace), workspace.stages()["hold_out"].facts
    if not methods:
        return verdict(workspace)
    figures = [
        f"{method} {report.three_decimals(row.cosine)} and {row.median_rank:.0f}"
        for method, row in methods.items()
    ]
    return (
        f"Hold-out: {plural(facts['n_hidden'], 'known name')} hidden in {plural(facts['n_folds'], 'fold')}; cosine to "
        f"the true vector and its median rank among {facts['n_known']:,}: {'; '.join(figures)}. "
        f"{verdict(workspace)}{_linear_map_sentence(methods)}"
    )


def _linear_map_sentence(methods: Mapping[str, MethodRecovery]) -> str:
    """Return what to say where the linear map finds the hidden names better than imputation by both measures."""
    row = methods[LINEAR]
    if row.cosine_gain_high < 0 and row.rank_gain_high < 0:
        return " A linear map of the same table finds them better, by cosine and by rank."
    return ""


def hold_out_section(workspace: Workspace) -> report.Section:
    """Show how well hidden names are found, beside the controls."""
    title = "Hidden names found again"
    rows = [
        {
            "method": row.method,
            "cosine to the true vector": row.cosine,
            "95 % interval": (row.cosine_low, row.cosine_high),
            "median rank": row.median_rank,
            "95 % interval of it": (row.rank_low, row.rank_high),
            "mean of 1/rank": row.reciprocal_rank,
            "neighbors of the same label": row.label_share,
        }
        for row in method_rows(workspace).values()
    ]
    if not rows:
        return report.Section(title, report.paragraph(verdict(workspace)))
    if not any(workspace.table("vocabulary")["label"].to_pylist()):
        rows = [{key: value for key, value in row.items() if "label" not in key} for row in rows]
    caption = (
        f"{hold_out(workspace)} Rank 1 is best. A method that gives every name nearly the mean of all "
        "vectors has a high cosine and ranks nothing: compare with the last row. Intervals are "
        "bootstrap percentiles over names."
    )
    formats = {name: report.three_decimals for name in rows[0] if name not in ("method", "median rank")}
    picture = report.interval_chart(
        [
            report.Interval(row.method, row.cosine, (row.cosine_low, row.cosine_high))
            for row in method_rows(workspace).values()
        ],
        title,
        xlabel="cosine to the true vector, with its 95 % interval",
    )
    formats |= {"95 % interval of it": format_number}
    return report.group(title, [picture, report.table(title, rows, caption=caption, formats=formats)])


# --- the labels of neighbors -----------------------------------------------------------------------------------


def label_sections(workspace: Workspace) -> list[report.Section]:
    """Show how often the neighbors of a name vote for its label, before and after; nothing without labels."""
    if "neighbor_labels" not in workspace.stages():
        return []
    title = "Labels of neighbors"
    found = workspace.table("neighbor_labels").to_pylist()
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
        f"{name}, {votes} votes": [
            [k for k in counts if (name, votes, k) in shares],
            [shares[name, votes, k] for k in counts if (name, votes, k) in shares],
        ]
        for name in names
        for votes in VOTES
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
        xlabel="neighbors that vote",
        ylabel="share of names that get their label",
        dashed=[name for name in curves if name.endswith("distance votes")],
    )
    formats = {f"k = {k}": report.three_decimals for k in counts}
    return [report.group(title, [picture, report.table(title, rows, caption=caption, formats=formats)])]
