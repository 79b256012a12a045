"""The report of a topic-transfer job, and the last lines that its run prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.evaluation.transfer import mean_interval
from distembed.execution import compute
from distembed.job.terminal import shown
from distembed.linalg.chunks import evenly_spaced
from distembed.stages.collections import SIDE_DOCUMENTS, ids_of, joining_stage, n_documents_of, sides_of
from distembed.storage.workspace import Workspace
from distembed.systems.transfer import outputs
from distembed.systems.transfer.features import (
    group_names,
    has_topics,
    inferred_output,
    known_output,
    scores_output,
    value_names,
)
from distembed.systems.transfer.job import TransferJob
from distembed.systems.transfer.stages import MEAN, MEASURES, in_paper, label_of, method_names, stages
from distembed.views import report

CURVES = ("embedding", "mean", "ridge", "procrustes", "alignment", "matching_1", "embedding_given")
"""Methods that the figure of accuracy draws; the table has all."""


def _measured(job: TransferJob) -> str:
    """Return what the error is of, and in which unit."""
    if has_topics(job):
        return "RMSE of topic shares"
    return "RMSE in deviations" if job.features.standardize else "RMSE of features"


JUDGED = "Documents of the second collection whose pair was not known"


def _measures(job: TransferJob) -> list[str]:
    """Return the measures of a job: only shares are on the simplex."""
    return [name for name in MEASURES if has_topics(job) or name != "hellinger"]


def page(job: TransferJob, workspace: Workspace) -> str:
    """Return the report of a finished workspace as one HTML page."""
    others = sides_of(job)[1:]
    facts = {
        **{f"{side} documents": n_documents_of(workspace, side) for side in sides_of(job)},
        "pairs known": _sum_of(workspace, "pairs", "n_known", others),
        "topics" if has_topics(job) else "features": len(value_names(job, workspace)),
    }
    said = f"{_counts(job, workspace)} {_convergence(job, workspace)}"
    summary = f"{said} Content digest {workspace.digest()}."
    return report.render_report(
        job.job.title,
        summary,
        _sections(job, workspace),
        facts=facts,
        invitation=report.invitation(workspace),
    )


def closing_text(job: TransferJob, workspace: Workspace, where: str) -> str:
    """Return what was paired, how the solution converged, how good it is, and where everything is."""
    accuracy = "\n".join(filter(None, [_judged(job, workspace), accuracy_text(job, workspace)]))
    parts = [
        _counts(job, workspace),
        _convergence(job, workspace),
        accuracy,
        _collections_text(job, workspace),
    ]
    parts.append(
        f"report     {shown(where)}\ndocuments  distembed export {shown(workspace.url)} --to documents.csv"
    )
    return "\n\n".join(part for part in parts if part)


def _judged(job: TransferJob, workspace: Workspace) -> str:
    """Return which documents the methods are judged on, where these are not all."""
    options, facts = job.evaluation, workspace.stages()["evaluation"].facts
    if options.topic is None:
        return ""
    words = outputs.TOPIC_WORDS.read(workspace)["words"][options.topic].as_py()
    return (
        f"Judged on the {facts['n_pairs']:,} documents of which {options.topic_share:.0%} or more are topic "
        f"{options.topic} ({' '.join(words)}), and their counterparts."
    )


def accuracy_text(job: TransferJob, workspace: Workspace) -> str:
    """Return the mean error of each method by the share of known pairs, as lines of text."""
    rows = accuracy(job, workspace)
    if not rows:
        return ""
    known = list(dict.fromkeys(row["known"] for row in rows))
    head = f"{f'{_measured(job)}, known pairs':<34}" + "".join(f"{n:>9,}" for n in known)
    lines = [
        f"{label_of(job, method):<34}"
        + "".join(f"{row['rmse'].mean:>9.4f}" for row in rows if row["method"] == label_of(job, method))
        for method in method_names(job)
    ]
    return "\n".join([head, *lines])


def _collections_text(job: TransferJob, workspace: Workspace) -> str:
    """Return the error of the embedding in each of several collections, as lines of text."""
    rows = _collections(job, workspace)
    if not rows:
        return ""
    head = f"{f'{_measured(job)}, by collection':<36}  embedding  column mean     judged"
    lines = [
        f"{row['collection']:<36}{row['embedding']:>11.4f}{row['column_mean']:>13.4f}{row['judged']:>11,}"
        for row in rows
    ]
    return "\n".join([head, *lines])


def _collections(job: TransferJob, workspace: Workspace) -> list[dict[str, Any]]:
    """Return the error of the embedding and of the column mean in each collection, where there are more than two."""
    found = workspace.stages()["evaluation"].facts.get("collections", {})
    return [{"collection": side, **found[side]} for side in sides_of(job) if side in found]


def accuracy(job: TransferJob, workspace: Workspace) -> list[dict[str, Any]]:
    """Return the mean and 95 % interval of each measure by number of known pairs and method."""
    table = workspace.table("scores").to_pydict()
    known, method = np.array(table["n_known"]), np.array(table["method"])
    rows = []
    for n in sorted(set(known.tolist())):
        for name in method_names(job):
            here = (known == n) & (method == name)
            values = {what: mean_interval(np.array(table[what])[here]) for what in MEASURES}
            share = float(np.array(table["share"])[here][0])
            rows.append({"share": share, "known": n, "method": label_of(job, name), **values})
    return rows


def _sum_of(workspace: Workspace, kind: str, what: str, sides: Sequence[str]) -> int:
    """Return the sum of a number that a stage of each collection counted."""
    return sum(workspace.stages()[joining_stage(kind, side)].facts[what] for side in sides)


def _counts(job: TransferJob, workspace: Workspace) -> str:
    others, first = sides_of(job)[1:], n_documents_of(workspace, "first")
    values = {} if has_topics(job) else workspace.stages()["features"].facts
    without, carried = sum(n_documents_of(workspace, side) for side in others), "topics"
    if values:
        first, carried = values["first_n_known"], "known values"
        without -= values.get("second_n_known", 0)
    n_known, n_pairs = (_sum_of(workspace, "pairs", what, others) for what in ("n_known", "n_pairs"))
    return f"{first:,} documents with {carried} and {without:,} without; {n_known:,} of {n_pairs:,} pairs were known."


def _convergence(job: TransferJob, workspace: Workspace) -> str:
    done, others = workspace.stages(), sides_of(job)[1:]
    found = ""
    for side in others if job.alignment.propagate else ():
        links = done[joining_stage("links", side)].facts
        whose = f" of the {side} collection" if job.others else ""
        found += (
            f" {links['found'][-1]:,} further pairs{whose} were found; by the known ones, left out in turn, "
            f"{links['lost_share']:.1%} of the counterparts are not among the candidates."
        )
    return f"The embedding {_ending(job, done['embedding'].facts)}.{found}"


def _ending(job: TransferJob, facts: Mapping[str, Any]) -> str:
    """Return how the rounds ended; with no tolerance their number is what was asked for."""
    if facts["converged"]:
        return f"converged in {facts['n_iter']:,} rounds"
    if job.alignment.tol == 0:
        return f"was stopped after {facts['n_iter']:,} rounds, as alignment.max_iter says"
    return f"did NOT converge in {facts['n_iter']:,} rounds: raise alignment.max_iter"


def _sections(job: TransferJob, workspace: Workspace) -> list[report.Section]:
    values = _topic_section if has_topics(job) else _feature_section
    curves = {"objective": "Objective of the embedding"}
    if has_topics(job):
        curves["topic_objective"] = "Objective of the topics"
    return [
        *_accuracy_sections(job, workspace),
        *_maps(job, workspace),
        values(job, workspace),
        *(_pair_section(job, workspace, side) for side in sides_of(job)[1:]),
        *(
            report.objective_curve(np.asarray(workspace.table(name)["objective"]), title=title)
            for name, title in curves.items()
        ),
        report.stage_table(report.stage_rows(stages(job), workspace)),
        report.parameter_table(job.model_dump(mode="json")),
        report.source_table(workspace),
    ]


# --- accuracy -------------------------------------------------------------------------------------------------


def _accuracy_sections(job: TransferJob, workspace: Workspace) -> list[report.Section]:
    rows = accuracy(job, workspace)
    if not rows:
        return [report.table("Accuracy", [], caption=""), *_collection_sections(job, workspace)]
    shown = [
        {
            "known": row["known"],
            "share": row["share"],
            "method": row["method"],
            **{what: row[what].mean for what in _measures(job)},
            "rmse, 95 %": (row["rmse"].low, row["rmse"].high),
        }
        for row in rows
    ]
    caption = (
        f"{_judged(job, workspace)} {JUDGED}; means of {job.evaluation.n_seeds} draws of the known pairs. "
        f"{_measured(job)}; mean correlation of a column"
        f"{'; mean Hellinger distance of shares' if has_topics(job) else ''}; rank of the true counterpart where a "
        "method has a common space."
    )
    return [
        _curve(job, rows),
        report.table("Accuracy at a glance", _glance(rows), caption=f"{_measured(job)} by known pairs."),
        report.table("Accuracy by method", shown, caption=caption),
        *report.paper_tables(job, _means(rows), **in_paper(job)),
        *_collection_sections(job, workspace),
    ]


def _means(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the measures of each method, means over all numbers of known pairs."""
    methods: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        methods.setdefault(row["method"], []).append(row)
    return {
        method: {MEAN.format(what): float(np.mean([row[what].mean for row in own])) for what in MEASURES}
        for method, own in methods.items()
    }


def _collection_sections(job: TransferJob, workspace: Workspace) -> list[report.Section]:
    """Show how well each collection got its values, where there are more than two."""
    caption = (
        f"{_measured(job)} over the documents whose pair was not known, by the embedding of all collections; the curve "
        "above is of the first and second alone."
    )
    rows = _collections(job, workspace)
    return [report.table("Accuracy by collection", rows, caption=caption)] if rows else []


def _glance(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each method and a column for each number of known pairs."""
    lines: dict[str, dict[str, Any]] = {}
    for row in rows:
        line = lines.setdefault(row["method"], {"method": row["method"]})
        line[f"{row['known']:,} ({row['share']:.0%})"] = row["rmse"].mean
    return list(lines.values())


def _curve(job: TransferJob, rows: Sequence[dict[str, Any]]) -> report.Section:
    drawn = [label_of(job, name) for name in CURVES if name in method_names(job)]
    series = {name: _series(rows, name) for name in drawn}
    known, _ = series[label_of(job, "embedding")]
    ends = [row["rmse"] for row in rows if row["method"] == label_of(job, "embedding")]
    band = (known, np.array([end.low for end in ends]), np.array([end.high for end in ends]))
    return report.line_chart(
        series,
        "Accuracy against the number of known pairs",
        xlabel="known pairs",
        ylabel=_measured(job),
        x_scale="log",
        dashed=[label_of(job, "mean")],
        band=band,
        caption="Lower is better; the tint is the 95 % interval of the embedding.",
    )


def _series(rows: Sequence[dict[str, Any]], name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    mine = [row for row in rows if row["method"] == name]
    return np.array([row["known"] for row in mine]), np.array([row["rmse"].mean for row in mine])


# --- maps and examples ----------------------------------------------------------------------------------------


def _maps(job: TransferJob, workspace: Workspace) -> list[report.Section]:
    """Draw all documents in their common space: one layout, by topic or feature and by collection."""
    rows, places, tops, sides = [], [], [], []
    for side, values in zip(sides_of(job), shown_values(job, workspace), strict=True):
        ids = ids_of(workspace, side)
        chosen = evenly_spaced(len(ids), job.report.n_map_words)
        chosen = chosen[np.isfinite(values[chosen]).all(axis=1)]
        rows += ids.take(pa.array(chosen)).to_pylist()
        places.append(compute(outputs.EMBEDDING.read(workspace, side=side))[chosen])
        tops += group_names(job, workspace, values[chosen])
        sides += [f"{side} collection"] * len(chosen)
    what = "largest topic" if has_topics(job) else "the first feature"
    every = "All" if job.others else "Both"
    titles = {f"{every} collections in one space, by {what}": tops, "The same map by collection": sides}
    points = np.concatenate(places)
    return report.word_maps(rows, points, titles, noun="document")


def shown_values(job: TransferJob, workspace: Workspace) -> list[NDArray[Any]]:
    """Return the topics or features of the documents of each collection: known ones of the first, else inferred."""
    shown = [known_output(job), *(inferred_output(job, side) for side in sides_of(job)[1:])]
    return [compute(output.read(workspace)) for output in shown]


def _topic_section(job: TransferJob, workspace: Workspace) -> report.Section:
    """Show each topic by its words, its share, and how well it was carried over."""
    words, scores = outputs.TOPIC_WORDS.read(workspace).to_pydict(), _value_scores(job, workspace)
    rows = [
        {"topic": topic, "words": " ".join(top), "mean share": share, **scores.get(topic, {})}
        for topic, top, share in zip(words["topic"], words["words"], words["share"], strict=True)
    ]
    caption = "RMSE and correlation of the inferred shares, over the documents whose pair was not known."
    title = "Topics of the first collection"
    shares = dict(zip(value_names(job, workspace), words["share"], strict=True))
    picture = report.bar_chart(shares, title, xlabel="mean share of a topic", show=report.three_decimals)
    return report.group(title, [picture, report.table(title, rows, caption=caption)])


def _feature_section(job: TransferJob, workspace: Workspace) -> report.Section:
    """Show each feature of the table, and how well it was inferred."""
    scores = _value_scores(job, workspace)
    rows = [
        {**row, **scores.get(number, {})}
        for number, row in enumerate(outputs.FEATURE_COLUMNS.read(workspace).to_pylist())
    ]
    caption = (
        f"Mean, standard deviation and range of the known values; {_measured(job)} and correlation of the inferred "
        f"ones. {JUDGED}."
    )
    return report.table("Features", rows, caption=caption)


def _value_scores(job: TransferJob, workspace: Workspace) -> dict[int, dict[str, float]]:
    """Return how well each topic or feature was inferred, by its number, for each collection that was judged."""
    found: dict[int, dict[str, float]] = {}
    for side in sides_of(job)[1:]:
        whose = f", {side}" if job.others else ""
        for number, *scores in zip(
            *scores_output(job, side).read(workspace).to_pydict().values(), strict=True
        ):
            names = (f"{name}{whose}" for name in ("rmse", "correlation"))
            found.setdefault(number, {}).update(zip(names, scores, strict=True))
    return found


def _pair_section(job: TransferJob, workspace: Workspace, side: str) -> report.Section:
    """Show documents of a collection with their likeliest counterparts in the first."""
    first, other = (SIDE_DOCUMENTS.read(workspace, side=one).to_pydict() for one in ("first", side))
    pairs = outputs.of_side(outputs.PAIRS, side).read(workspace).to_pylist()
    truth = {other["id"][pair[side]]: first["id"][pair["first"]] for pair in pairs}
    known = {other["id"][pair[side]] for pair in pairs if pair["known"]}
    excerpts = dict(zip(first["id"], first["excerpt"], strict=True))
    begins = dict(zip(other["id"], other["excerpt"], strict=True))
    names = value_names(job, workspace)
    aligned = outputs.of_side(outputs.ALIGNED, side).read(workspace).to_pylist()
    left = [row for row in aligned if row["id"] not in known and row["counterpart"]]
    chosen = evenly_spaced(len(left), job.evaluation.n_aligned)
    rows = [
        {
            "document": row["id"],
            "begins": begins[row["id"]],
            "likeliest counterpart": row["counterpart"],
            "which begins": excerpts[row["counterpart"]],
            "probability": row["probability"],
            "right": _verdict(truth.get(row["id"]), row["counterpart"]),
            **({"topic": names[row["topic"]]} if has_topics(job) else {}),
        }
        for row in (left[i] for i in chosen.tolist())
    ]
    caption = "Documents evenly from first to last of those whose pair was not known."
    title = f"Documents{f' of the {side} collection' if job.others else ''} and their counterparts"
    return report.first_rows(rows, lambda some: report.table(title, some, caption=caption))


def _verdict(true: str | None, found: str) -> str | None:
    """Return, in words, whether a counterpart is the true one, where that is known."""
    return None if true is None else {True: "yes", False: "no"}[true == found]
