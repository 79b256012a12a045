"""The report of a transfer job, the last lines that its run prints, and the tables and points that it exports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.display import plural
from distembed.evaluation.transfer import mean_interval
from distembed.execution import compute
from distembed.job.tables import MakeTable, Numbered, Table, paired, rows_of_blocks, table_of, with_numbers
from distembed.linalg.chunks import evenly_spaced
from distembed.stages.collections import SIDE_DOCUMENTS, ids_of, n_documents_of
from distembed.storage.workspace import Workspace
from distembed.systems.transfer import outputs
from distembed.systems.transfer.features import (
    group_names,
    inferred_output,
    shown_values,
    value_names,
)
from distembed.systems.transfer.job import TransferJob
from distembed.systems.transfer.stages import MEAN, MEASURES, in_paper, label_of, method_names
from distembed.views.explorer.items import MAX_POINTS, Items, by_category, listed
from distembed.views.report.figures import Mark, line_chart, small_multiples
from distembed.views.report.maps import word_maps
from distembed.views.report.page import Fold, Page, Part, Section, ShownTable
from distembed.views.report.run import page_of
from distembed.views.report.sections import objective_curve, paper_tables

CURVES = ("embedding", "mean", "ridge", "procrustes", "alignment", "matching_1", "embedding_given")
"""Methods that the figure of accuracy draws; the table has all."""


def _measured(job: TransferJob) -> str:
    """Return what the error is of, and in which unit."""
    if job.has_topics:
        return "RMSE of topic shares"
    return "RMSE in deviations" if job.features.standardize else "RMSE of features"


def page(job: TransferJob, workspace: Workspace) -> Page:
    """Return the report of a finished workspace."""
    names, rows = value_names(job, workspace), accuracy(job, workspace)
    counts, convergence, judged = (one(job, workspace) for one in (_counts, _convergence, _judged))
    glance, of_each = _glance(job, rows), _collections(job, workspace)
    facts = {
        **{f"{side} documents": n_documents_of(workspace, side) for side in job.collections},
        "pairs known": _pairs(job, workspace, "n_known"),
        "topics" if job.has_topics else "features": len(names),
    }
    curves = {"objective": "Objective of the embedding"}
    curves |= {"topic_objective": "Objective of the topics"} if job.has_topics else {}
    sections = [
        *(_accuracy_sections(job, rows, glance, judged) if rows else [ShownTable("Accuracy", [])]),
        *([] if of_each.is_empty else [of_each]),
        _maps(job, workspace),
        _value_table(job, workspace),
        *(_pair_table(job, workspace, side, names) for side in job.others),
    ]
    details = [objective_curve(workspace.table(name)["objective"], title) for name, title in curves.items()]
    closing: list[str | ShownTable] = [counts, convergence, judged, glance, of_each]
    ways = {"documents": "export {} --to documents.csv"}
    summary = f"{counts} {convergence}"
    return page_of(job, workspace, summary, facts, sections, details=details, closing=closing, ways=ways)


def _pairs(job: TransferJob, workspace: Workspace, what: str) -> int:
    """Return the sum of a number that the stages of pairs counted."""
    return sum(workspace.stages()[f"{side}_pairs"].facts[what] for side in job.others)


def _counts(job: TransferJob, workspace: Workspace) -> str:
    known = {} if job.has_topics else workspace.stages()["features"].facts["n_known"]
    first, carried = (
        known.get(job.first, n_documents_of(workspace, job.first)),
        "known values" if known else "topics",
    )
    without = sum(n_documents_of(workspace, side) - known.get(side, 0) for side in job.others)
    n_known, n_pairs = (_pairs(job, workspace, what) for what in ("n_known", "n_pairs"))
    return f"{first:,} documents with {carried} and {without:,} without; {n_known:,} of {n_pairs:,} pairs were known."


def _convergence(job: TransferJob, workspace: Workspace) -> str:
    """Return how the rounds ended, with no tolerance by their number, and what further pairs were found."""
    done = workspace.stages()
    facts = done["embedding"].facts
    if facts["converged"]:
        ending = f"converged in {facts['n_iter']:,} rounds"
    elif job.alignment.tol == 0:
        ending = f"was stopped after {facts['n_iter']:,} rounds, as alignment.max_iter says"
    else:
        ending = f"did NOT converge in {facts['n_iter']:,} rounds: raise alignment.max_iter"
    lines = [f"The embedding {ending}."]
    for side in job.others if job.alignment.propagate else ():
        links = done[f"{side}_links"].facts
        lines.append(
            f"{links['found']:,} further pairs of the {side} collection were found; by the known ones, left out in "
            f"turn, {links['lost_share']:.1%} of the counterparts are not among the candidates."
        )
    return " ".join(lines)


# --- accuracy -------------------------------------------------------------------------------------------------


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


def accuracy(job: TransferJob, workspace: Workspace) -> list[dict[str, Any]]:
    """Return the mean and 95 % interval of each measure by number of known pairs and method."""
    table = {name: np.array(values) for name, values in outputs.SCORES.read(workspace).to_pydict().items()}
    rows = []
    for n in sorted(set(table["n_known"].tolist())):
        for name in method_names(job):
            here = (table["n_known"] == n) & (table["method"] == name)
            values = {what: mean_interval(table[what][here]) for what in MEASURES}
            share = float(table["share"][here][0])
            rows.append({"share": share, "known": n, "method": label_of(job, name), **values})
    return rows


def _glance(job: TransferJob, rows: list[dict[str, Any]]) -> ShownTable:
    """Return the mean error of each method, a column for each number of known pairs."""
    methods: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = f"{row['known']:,} ({row['share']:.0%})"
        methods.setdefault(row["method"], {"method": row["method"]})[known] = row["rmse"].mean
    rows = list(methods.values())
    formats = {name: 4 for row in rows for name in row}
    return ShownTable("Accuracy at a glance", rows, formats, f"{_measured(job)} by known pairs.")


def _collections(job: TransferJob, workspace: Workspace) -> ShownTable:
    """Return the error of the embedding and of the column mean in each collection, where there are more than two."""
    found = workspace.stages()["evaluation"].facts["collections"] if len(job.others) > 1 else {}
    rows = [{"collection": side, **found[side]} for side in job.others if side in found]
    caption = (
        f"{_measured(job)} over the documents whose pair was not known, by the embedding of all collections; the curve "
        f"against known pairs is of the {job.first} and the {job.judged[1]} collection alone."
    )
    return ShownTable("Accuracy by collection", rows, {"embedding": 4, "column_mean": 4}, caption)


def _accuracy_sections(
    job: TransferJob, rows: list[dict[str, Any]], glance: ShownTable, judged: str
) -> list[Part]:
    by_method = {row["method"]: [one for one in rows if one["method"] == row["method"]] for row in rows}
    # Only shares are on the simplex.
    measures = [name for name in MEASURES if job.has_topics or name != "hellinger"]
    table = [
        {"known": row["known"], "share": row["share"], "method": row["method"]}
        | {what: row[what].mean for what in measures}
        | {"rmse, 95 %": (row["rmse"].low, row["rmse"].high)}
        for row in rows
    ]
    means = {
        method: {MEAN.format(what): float(np.mean([row[what].mean for row in own])) for what in MEASURES}
        for method, own in by_method.items()
    }
    caption = (
        f"{judged} Documents of the {job.judged[1]} collection whose pair was not known; means of "
        f"{job.evaluation.n_seeds} draws of the known pairs. "
        f"{_measured(job)}; mean correlation of a column"
        f"{'; mean Hellinger distance of shares' if job.has_topics else ''}; rank of the true counterpart where a "
        "method has a common space."
    )
    drawn = [label_of(job, name) for name in CURVES if name in method_names(job)]
    ours = by_method[label_of(job, "embedding")]
    low, high = ([getattr(row["rmse"], end) for row in ours] for end in ("low", "high"))
    known = [row["known"] for row in ours]
    curve = line_chart(
        "",
        {name: (known, [row["rmse"].mean for row in by_method[name]]) for name in drawn},
        xlabel="known pairs",
        ylabel=_measured(job),
        x_scale="log",
        dashed=[label_of(job, "mean")],
        band=(known, low, high),
        caption="Lower is better; the tint is the 95 % interval of the embedding.",
    )
    if len(known) == 1:
        ends = {row["method"]: row["rmse"] for row in rows}
        marks = [Mark(name, rmse.mean, (rmse.low, rmse.high)) for name, rmse in ends.items()]
        curve = small_multiples("", marks, xlabel=f"{_measured(job)}, with its 95 % interval")
    by_measure = Fold("All measures by method", ShownTable("", table, caption=caption))
    accuracy = Section("Accuracy", [curve, glance._replace(title=""), by_measure])
    return [accuracy, *paper_tables(job, means, **in_paper(job))]


# --- maps and examples ----------------------------------------------------------------------------------------


def _maps(job: TransferJob, workspace: Workspace) -> Section:
    """Draw all documents in their common space: one layout, by topic or feature and by collection."""
    rows, places, tops, sides = [], [], [], []
    for side, values in zip(job.collections, shown_values(job, workspace), strict=True):
        ids = ids_of(workspace, side)
        chosen = evenly_spaced(len(ids), job.report.n_map_words)
        chosen = chosen[np.isfinite(values[chosen]).all(axis=1)]
        rows += ids.take(pa.array(chosen)).to_pylist()
        places.append(compute(outputs.EMBEDDING.read(workspace, side=side))[chosen])
        tops += group_names(job, workspace, values[chosen])
        sides += [f"{side} collection"] * len(chosen)
    what = "largest topic" if job.has_topics else "the first feature"
    titles = {f"Documents by {what}": tops, "Documents by collection": sides}
    return word_maps("All collections in one space", rows, np.concatenate(places), titles, noun="document")


def _value_table(job: TransferJob, workspace: Workspace) -> ShownTable:
    """Show each topic or feature, and how well it was inferred for each collection that was judged."""
    whose = f"Documents of the {job.judged[1]} collection whose pair was not known."
    caption = (
        f"Mean, standard deviation and range of the known values; {_measured(job)} and correlation of the inferred "
        f"ones. {whose}"
    )
    rows = (outputs.TOPIC_WORDS if job.has_topics else outputs.FEATURE_COLUMNS).read(workspace).to_pylist()
    if job.has_topics:
        caption = "RMSE and correlation of the inferred shares, over the documents whose pair was not known."
        rows = [
            {"topic": row["topic"], "words": " ".join(row["words"]), "mean share": row["share"]}
            for row in rows
        ]
    for side in job.others:
        for score in outputs.VALUE_SCORES.read(workspace, side=side).to_pylist():
            rows[score["value"]] |= {f"{name}, {side}": score[name] for name in ("rmse", "correlation")}
    title = f"Topics of the {job.first} collection" if job.has_topics else "Features"
    return ShownTable(title, rows, caption=caption)


def _pair_table(job: TransferJob, workspace: Workspace, side: str, names: list[str]) -> ShownTable:
    """Show documents of a collection with their likeliest counterparts in the first."""
    first, other = (SIDE_DOCUMENTS.read(workspace, side=one).to_pydict() for one in (job.first, side))
    pairs = outputs.PAIRS.read(workspace, side=side).to_pylist()
    truth = {other["id"][pair["other"]]: first["id"][pair["first"]] for pair in pairs}
    known = {other["id"][pair["other"]] for pair in pairs if pair["known"]}
    excerpts, begins = (dict(zip(one["id"], one["excerpt"], strict=True)) for one in (first, other))
    aligned = outputs.ALIGNED.read(workspace, side=side).to_pylist()
    left = [row for row in aligned if row["id"] not in known and row["counterpart"]]
    rows = []
    for row in (left[i] for i in evenly_spaced(len(left), job.evaluation.n_aligned).tolist()):
        true = truth.get(row["id"])
        line = {
            "document": row["id"],
            "begins": begins[row["id"]],
            "likeliest counterpart": row["counterpart"],
            "which begins": excerpts[row["counterpart"]],
            "probability": row["probability"],
            "right": None if true is None else "yes" if true == row["counterpart"] else "no",
        }
        rows.append(line | ({"topic": names[row["topic"]]} if job.has_topics else {}))
    caption = "Documents evenly from first to last of those whose pair was not known."
    title = f"Documents of the {side} collection and their counterparts"
    return ShownTable(title, rows, caption=caption, n_shown=10)


# --- tables and points -----------------------------------------------------------------------------------------

BEFORE = [("collection", pa.string()), ("id", pa.string()), ("title", pa.string()), ("label", pa.string())]
AFTER = [("counterpart", pa.string()), ("probability", pa.float64())]
TOPIC, ORIGIN = ("topic", pa.int64()), ("origin", pa.string())
"""The columns before those of the topics or features; the origin of values is "known" or "inferred"."""


def documents_table(job: TransferJob, workspace: Workspace) -> Table:
    """Return the documents with their topics or features; of all but the first collection also the counterpart.

    Shares of topics are a list; features have a column each: known ones as they came, the others inferred.
    """
    arrays = {side: inferred_output(job, side).read(workspace) for side in job.collections}
    n_rows, n_values = sum(map(len, arrays.values())), arrays[job.first].shape[1]
    schema = pa.schema([*BEFORE, TOPIC if job.has_topics else ORIGIN, *AFTER])
    pieces = _documents(job, workspace, arrays, schema)
    if job.has_topics:
        sizes = f"{plural(n_rows, 'document')} of {plural(len(arrays), 'collection')}"
        rows = with_numbers(schema, pieces, "weight", n_values, apart=True)
        return Table(rows, n_rows, f"{sizes} and {plural(n_values, 'topic')}")
    names = value_names(job, workspace)
    titles = [f"feature {name}" if name in schema.names else name for name in names]
    wide = pa.schema([*schema, *((title, pa.float64()) for title in titles)])
    batches = (
        pa.record_batch([*columns.columns, *values.T.astype(np.float64)], schema=wide)
        for columns, values in pieces
    )
    rows = pa.RecordBatchReader.from_batches(wide, batches)
    return Table(rows, n_rows, f"{plural(n_rows, 'document')} and {plural(n_values, 'feature')}")


def _documents(
    job: TransferJob, workspace: Workspace, arrays: Mapping[str, da.Array], schema: pa.Schema
) -> Iterator[Numbered]:
    """Yield the documents of all collections with their values, and their likeliest counterparts if they have any."""
    for side, array in arrays.items():
        aligned, first = None if side == job.first else outputs.ALIGNED.read(workspace, side=side), 0
        for columns, inferred in paired(workspace.batches(f"{side}_documents"), rows_of_blocks(array)):
            n, partners = columns.num_rows, (pa.nulls(columns.num_rows), pa.nulls(columns.num_rows))
            if aligned is not None:
                found = aligned.slice(first, n)
                has_one = pc.is_valid(found["counterpart"])
                partners = found["counterpart"], pc.if_else(has_one, found["probability"], None)
            own: Any = np.full(n, -1 if job.has_topics else "inferred", object)
            values, known = inferred, ~np.isnan(inferred).any(axis=1)
            if job.has_topics:  # that of the largest share; -1 where it is not known
                own[known] = inferred[known].argmax(axis=1)
            elif job.collections[side].features is not None:
                given = compute(outputs.KNOWN_FEATURES.read(workspace, side=side)[first : first + n])
                known = ~np.isnan(given).any(axis=1)
                values, own[known] = np.where(known[:, None], given, inferred), "known"
            names = [columns[name] for name in ("id", "title", "label")]
            table = pa.table([[side] * n, *names, own, *partners], names=schema.names).cast(schema)
            yield table.combine_chunks().to_batches()[0], values
            first += n


def topics_table(job: TransferJob, workspace: Workspace) -> Table:
    """Return the top words of every topic of the first collection, one row per word, the heaviest first.

    Raises
    ------
    ValueError
        If features of a table were carried.
    """
    if not job.has_topics:
        path = job.collections[job.first].features
        raise ValueError(f"{workspace.url} has no topics: features of {path} were carried")
    topics = outputs.TOPIC_WORDS.read(workspace).to_pylist()
    rows = [
        {"topic": row["topic"], "share": row["share"], "rank": rank, "word": word}
        for row in topics
        for rank, word in enumerate(row["words"], start=1)
    ]
    return table_of(pa.Table.from_pylist(rows, TOPIC_COLUMNS), plural(len(topics), "topic"))


TOPIC_COLUMNS = pa.schema(
    [("topic", pa.int64()), ("share", pa.float64()), ("rank", pa.int64()), ("word", pa.string())]
)

TABLES: dict[str, MakeTable] = {"documents": documents_table, "topics": topics_table}
"""What a transfer job exports, by the name that `--what` takes."""


def items(job: TransferJob, workspace: Workspace, *, n_points: int = MAX_POINTS) -> Items:
    """Return the documents of all collections, evenly from first to last, with their likeliest counterparts."""
    tables = {side: SIDE_DOCUMENTS.read(workspace, side=side).to_pydict() for side in job.collections}
    names = [name for table in tables.values() for name in table["id"]]
    begins = [text for table in tables.values() for text in table["excerpt"]]
    sides = [f"{side} collection" for side, table in tables.items() for _ in table["id"]]
    vectors = np.concatenate([compute(outputs.EMBEDDING.read(workspace, side=side)) for side in tables])
    used = np.flatnonzero(np.isfinite(vectors).all(axis=1) & (np.linalg.norm(vectors, axis=1) > 0))
    rows = used[evenly_spaced(used.size, n_points)]
    values = np.concatenate(shown_values(job, workspace))[rows]
    known: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=1))
    groups = iter(group_names(job, workspace, values[known]))
    colorings = [
        by_category(
            "topic" if job.has_topics else "feature",
            [next(groups) if one else "no topic" for one in known.tolist()],
        ),
        by_category("collection", [sides[row] for row in rows.tolist()]),
    ]
    return Items(
        job.job.title,
        "document",
        [names[row] for row in rows.tolist()],
        vectors[rows],
        colorings,
        {"begins": [begins[row] or "" for row in rows.tolist()]},
        [
            listed(
                "likeliest counterpart, by probability", _counterparts(job, workspace, names), rows, longest=5
            )
        ],
    )


def _counterparts(job: TransferJob, workspace: Workspace, names: list[str]) -> sp.csr_array:
    """Return the probability of each likeliest counterpart; documents are in the order of the collections."""
    aligned = pa.concat_tables(outputs.ALIGNED.read(workspace, side=side) for side in job.others).to_pylist()
    n_first = len(names) - len(aligned)
    place = {name: row for row, name in enumerate(names[:n_first])}
    found = [
        (pair["probability"], n_first + row, place[pair["counterpart"]])
        for row, pair in enumerate(aligned)
        if pair["counterpart"]
    ]
    probability, other, first = np.array(found).reshape(-1, 3).T
    shape = (len(names), len(names))
    there = sp.coo_array((probability, (other.astype(int), first.astype(int))), shape=shape)
    return sp.csr_array(there + there.T, dtype=np.float64)
