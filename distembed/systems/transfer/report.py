"""The report of a transfer job, the last lines that its run prints, and the tables and points that it exports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.display import plural
from distembed.evaluation.transfer import mean_interval
from distembed.execution import compute
from distembed.job.tables import MakeTable, Numbered, Table, paired, rows_of_blocks, table_of, with_numbers
from distembed.job.terminal import shown
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
from distembed.views import report
from distembed.views.explorer.items import MAX_POINTS, Items, by_category, listed

CURVES = ("embedding", "mean", "ridge", "procrustes", "alignment", "matching_1", "embedding_given")
"""Methods that the figure of accuracy draws; the table has all."""


def _measured(job: TransferJob) -> str:
    """Return what the error is of, and in which unit."""
    if job.has_topics:
        return "RMSE of topic shares"
    return "RMSE in deviations" if job.features.standardize else "RMSE of features"


def page(job: TransferJob, workspace: Workspace) -> str:
    """Return the report of a finished workspace as one HTML page."""
    facts = {
        **{f"{side} documents": n_documents_of(workspace, side) for side in job.collections},
        "pairs known": _pairs(job, workspace, "n_known"),
        "topics" if job.has_topics else "features": len(value_names(job, workspace)),
    }
    curves = {"objective": "Objective of the embedding"}
    if job.has_topics:
        curves["topic_objective"] = "Objective of the topics"
    sections = [
        *_accuracy_sections(job, workspace),
        *_maps(job, workspace),
        (_topic_section if job.has_topics else _feature_section)(job, workspace),
        *(_pair_section(job, workspace, side) for side in job.others),
        *(
            report.objective_curve(np.asarray(workspace.table(name)["objective"]), title=title)
            for name, title in curves.items()
        ),
        *report.run_sections(job, workspace),
    ]
    said = f"{_counts(job, workspace)} {_convergence(job, workspace)} Content digest {workspace.digest()}."
    invitation = report.invitation(workspace)
    return report.render_report(job.job.title, said, sections, facts=facts, invitation=invitation)


def closing_text(job: TransferJob, workspace: Workspace, where: str) -> str:
    """Return what was paired, how the solution converged, how good it is, and where everything is."""
    judged = [_judged(job, workspace), accuracy_text(job, workspace)]
    parts = [
        _counts(job, workspace),
        _convergence(job, workspace),
        "\n".join(filter(None, judged)),
        _collections_text(job, workspace),
        f"report     {shown(where)}\ndocuments  distembed export {shown(workspace.url)} --to documents.csv",
    ]
    return "\n\n".join(filter(None, parts))


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
            f"{links['found'][-1]:,} further pairs of the {side} collection were found; by the known ones, left out in "
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


def accuracy_text(job: TransferJob, workspace: Workspace) -> str:
    """Return the mean error of each method by the share of known pairs, as lines of text."""
    rows, lines = accuracy(job, workspace), dict[str, str]()
    for row in rows:
        method = row["method"]
        lines[method] = lines.get(method, f"{method:<34}") + f"{row['rmse'].mean:>9.4f}"
    known = "".join(f"{n:>9,}" for n in dict.fromkeys(row["known"] for row in rows))
    head = f"{f'{_measured(job)}, known pairs':<34}{known}"
    return "\n".join([head, *lines.values()]) if lines else ""


def _collections(job: TransferJob, workspace: Workspace) -> list[dict[str, Any]]:
    """Return the error of the embedding and of the column mean in each collection, where there are more than two."""
    found = workspace.stages()["evaluation"].facts["collections"] if len(job.others) > 1 else {}
    return [{"collection": side, **found[side]} for side in job.others if side in found]


def _collections_text(job: TransferJob, workspace: Workspace) -> str:
    """Return the error of the embedding in each of several collections, as lines of text."""
    head = f"{f'{_measured(job)}, by collection':<36}  embedding  column mean     judged"
    lines = [
        f"{row['collection']:<36}{row['embedding']:>11.4f}{row['column_mean']:>13.4f}{row['judged']:>11,}"
        for row in _collections(job, workspace)
    ]
    return "\n".join([head, *lines]) if lines else ""


def _accuracy_sections(job: TransferJob, workspace: Workspace) -> list[report.Section]:
    rows = accuracy(job, workspace)
    if not rows:
        return [report.table("Accuracy", [], caption=""), *_collection_sections(job, workspace)]
    measures = [
        name for name in MEASURES if job.has_topics or name != "hellinger"
    ]  # only shares are on the simplex
    table, glance, means = [], dict[str, dict[str, Any]](), dict[str, dict[str, float]]()
    for row in rows:
        known, method, error = row["known"], row["method"], row["rmse"]
        figures = {what: row[what].mean for what in measures}
        place = {"known": known, "share": row["share"], "method": method}
        table.append({**place, **figures, "rmse, 95 %": (error.low, error.high)})
        line = glance.setdefault(method, {"method": method})
        line[f"{known:,} ({row['share']:.0%})"] = error.mean
    for method in glance:
        own = [row for row in rows if row["method"] == method]
        means[method] = {
            MEAN.format(what): float(np.mean([row[what].mean for row in own])) for what in MEASURES
        }
    caption = (
        f"{_judged(job, workspace)} {_whose(job)}; means of {job.evaluation.n_seeds} draws of the known pairs. "
        f"{_measured(job)}; mean correlation of a column"
        f"{'; mean Hellinger distance of shares' if job.has_topics else ''}; rank of the true counterpart where a "
        "method has a common space."
    )
    return [
        _curve(job, rows),
        report.table("Accuracy at a glance", glance.values(), caption=f"{_measured(job)} by known pairs."),
        report.table("Accuracy by method", table, caption=caption),
        *report.paper_tables(job, means, **in_paper(job)),
        *_collection_sections(job, workspace),
    ]


def _whose(job: TransferJob) -> str:
    return f"Documents of the {job.judged[1]} collection whose pair was not known"


def _collection_sections(job: TransferJob, workspace: Workspace) -> list[report.Section]:
    """Show how well each collection got its values, where there are more than two."""
    caption = (
        f"{_measured(job)} over the documents whose pair was not known, by the embedding of all collections; the curve "
        f"above is of the {job.first} and the {job.judged[1]} collection alone."
    )
    rows = _collections(job, workspace)
    return [report.table("Accuracy by collection", rows, caption=caption)] if rows else []


def _curve(job: TransferJob, rows: list[dict[str, Any]]) -> report.Section:
    drawn = [label_of(job, name) for name in CURVES if name in method_names(job)]
    by_method = {name: [row for row in rows if row["method"] == name] for name in drawn}
    series = {
        name: ([row["known"] for row in own], [row["rmse"].mean for row in own])
        for name, own in by_method.items()
    }
    ours = by_method[label_of(job, "embedding")]
    band = np.array([(row["known"], row["rmse"].low, row["rmse"].high) for row in ours]).T
    return report.line_chart(
        series,
        "Accuracy against the number of known pairs",
        xlabel="known pairs",
        ylabel=_measured(job),
        x_scale="log",
        dashed=[label_of(job, "mean")],
        band=(band[0], band[1], band[2]),
        caption="Lower is better; the tint is the 95 % interval of the embedding.",
    )


# --- maps and examples ----------------------------------------------------------------------------------------


def _maps(job: TransferJob, workspace: Workspace) -> list[report.Section]:
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
    titles = {f"All collections in one space, by {what}": tops, "The same map by collection": sides}
    return report.word_maps(rows, np.concatenate(places), titles, noun="document")


def _topic_section(job: TransferJob, workspace: Workspace) -> report.Section:
    """Show each topic by its words, its share, and how well it was carried over."""
    words, scores = outputs.TOPIC_WORDS.read(workspace).to_pydict(), _value_scores(job, workspace)
    rows = [
        {"topic": topic, "words": " ".join(top), "mean share": share, **scores.get(topic, {})}
        for topic, top, share in zip(words["topic"], words["words"], words["share"], strict=True)
    ]
    caption = "RMSE and correlation of the inferred shares, over the documents whose pair was not known."
    title = f"Topics of the {job.first} collection"
    shares = dict(zip(value_names(job, workspace), words["share"], strict=True))
    picture = report.bar_chart(shares, title, xlabel="mean share of a topic", show=report.three_decimals)
    return report.group(title, [picture, report.table(title, rows, caption=caption)])


def _feature_section(job: TransferJob, workspace: Workspace) -> report.Section:
    """Show each feature of the table, and how well it was inferred."""
    scores, columns = _value_scores(job, workspace), outputs.FEATURE_COLUMNS.read(workspace).to_pylist()
    caption = (
        f"Mean, standard deviation and range of the known values; {_measured(job)} and correlation of the inferred "
        f"ones. {_whose(job)}."
    )
    rows = [{**row, **scores.get(number, {})} for number, row in enumerate(columns)]
    return report.table("Features", rows, caption=caption)


def _value_scores(job: TransferJob, workspace: Workspace) -> dict[int, dict[str, float]]:
    """Return how well each topic or feature was inferred, by its number, for each collection that was judged."""
    found: dict[int, dict[str, float]] = {}
    for side in job.others:
        for row in outputs.VALUE_SCORES.read(workspace, side=side).to_pylist():
            own = {f"{name}, {side}": row[name] for name in ("rmse", "correlation")}
            found.setdefault(row["value"], {}).update(own)
    return found


def _pair_section(job: TransferJob, workspace: Workspace, side: str) -> report.Section:
    """Show documents of a collection with their likeliest counterparts in the first."""
    first, other = (SIDE_DOCUMENTS.read(workspace, side=one).to_pydict() for one in (job.first, side))
    pairs = outputs.PAIRS.read(workspace, side=side).to_pylist()
    truth = {other["id"][pair["other"]]: first["id"][pair["first"]] for pair in pairs}
    known = {other["id"][pair["other"]] for pair in pairs if pair["known"]}
    excerpts, begins = (dict(zip(one["id"], one["excerpt"], strict=True)) for one in (first, other))
    names = value_names(job, workspace)
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
    return report.first_rows(rows, lambda some: report.table(title, some, caption=caption))


# --- tables and points -----------------------------------------------------------------------------------------

BEFORE = [("collection", pa.string()), ("id", pa.string()), ("title", pa.string()), ("label", pa.string())]
AFTER = [("counterpart", pa.string()), ("probability", pa.float64())]
DOCUMENT_COLUMNS = pa.schema([*BEFORE, ("topic", pa.int64()), *AFTER])
FEATURE_COLUMNS = pa.schema([*BEFORE, ("origin", pa.string()), *AFTER])
"""The columns before those of the topics or features; the origin of values is "known" or "inferred"."""


def documents_table(job: TransferJob, workspace: Workspace) -> Table:
    """Return the documents with their topics or features; of all but the first collection also the counterpart."""
    return _topic_table(job, workspace) if job.has_topics else _feature_table(job, workspace)


def _topic_table(job: TransferJob, workspace: Workspace) -> Table:
    """Return the documents of all collections with their topics."""
    arrays = {side: inferred_output(job, side).read(workspace) for side in job.collections}
    n_rows, n_topics = sum(map(len, arrays.values())), arrays[job.first].shape[1]

    def pieces() -> Iterator[Numbered]:
        for side, array in arrays.items():
            first, aligned = 0, _aligned(job, workspace, side)
            for columns, shares in paired(workspace.batches(f"{side}_documents"), rows_of_blocks(array)):
                n = columns.num_rows
                topics, known = np.full(n, -1, np.int64), np.flatnonzero(~np.isnan(shares).any(axis=1))
                topics[known] = shares[known].argmax(axis=1)  # of the largest share; -1 where it is not known
                named = (columns[name] for name in ("id", "title", "label"))
                partners = _partners(aligned, first, n)
                made = [pa.array([side] * n), *named, pa.array(topics), *partners]
                yield pa.record_batch(made, schema=DOCUMENT_COLUMNS), shares
                first += n

    contents = (
        f"{plural(n_rows, 'document')} of {plural(len(arrays), 'collection')} and {plural(n_topics, 'topic')}"
    )
    rows = with_numbers(DOCUMENT_COLUMNS, pieces(), "weight", n_topics, apart=True)
    return Table(rows, n_rows, contents)


def _feature_table(job: TransferJob, workspace: Workspace) -> Table:
    """Return all documents with their features, a column each: known ones as they came, the others inferred."""
    names = value_names(job, workspace)
    titles = [f"feature {name}" if name in FEATURE_COLUMNS.names else name for name in names]
    schema = pa.schema([*FEATURE_COLUMNS, *((title, pa.float64()) for title in titles)])
    tables = []
    for side, section in job.collections.items():
        documents = SIDE_DOCUMENTS.read(workspace, side=side)
        values = compute(inferred_output(job, side).read(workspace))
        origin = np.full(len(values), "inferred", object)
        if section.features is not None:
            given = compute(outputs.KNOWN_FEATURES.read(workspace, side=side))
            is_known = ~np.isnan(given).any(axis=1)
            values, origin[is_known] = np.where(is_known[:, None], given, values), "known"
        named = [documents[name] for name in ("id", "title", "label")]
        partners = _partners(_aligned(job, workspace, side), 0, len(values))
        columns = [[side] * len(values), *named, origin, *partners, *values.astype(np.float64).T]
        tables.append(pa.table(columns, schema=schema))
    every = pa.concat_tables(tables)
    return table_of(every, f"{plural(every.num_rows, 'document')} and {plural(len(names), 'feature')}")


def _aligned(job: TransferJob, workspace: Workspace, side: str) -> pa.Table | None:
    return None if side == job.first else outputs.ALIGNED.read(workspace, side=side)


def _partners(aligned: pa.Table | None, first: int, n: int) -> tuple[pa.Array, pa.Array]:
    """Return the likeliest counterparts of some documents and how likely they are, missing where there is none."""
    if aligned is None:
        return pa.nulls(n, pa.string()), pa.nulls(n, pa.float64())
    found = aligned.slice(first, n).combine_chunks()
    probability = pc.if_else(pc.is_valid(found["counterpart"]), found["probability"], None)
    return found["counterpart"].combine_chunks(), probability.combine_chunks()


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
