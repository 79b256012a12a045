"""The report of a topics job, and the last lines that its run prints, made from a finished workspace."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from distembed.evaluation.topics import MeanShares
from distembed.execution import compute
from distembed.job.tables import rows_of_blocks
from distembed.job.terminal import shown
from distembed.linalg.chunks import evenly_spaced
from distembed.linalg.csr import unit_rows
from distembed.storage.workspace import Workspace
from distembed.systems.topics import outputs
from distembed.systems.topics.descriptions import Topics, classes_of
from distembed.systems.topics.job import IN_PAPER, MEASURES, NAMES, OF_KEPT, Method, TopicsJob
from distembed.views.report.figures import Figure, Mark, small_multiples
from distembed.views.report.maps import word_maps
from distembed.views.report.page import Fold, Note, Page, Section, ShownTable
from distembed.views.report.run import page_of
from distembed.views.report.sections import objective_curve, paper_tables

CLOSING_WORDS = 8
"""Words of a topic in the last lines of a run."""
EXAMPLES = 3
"""Documents without a topic that are quoted."""

HOW_TO_READ = (
    "Each topic: its words of the largest weight, and those that its documents hold and others do not. Found again: "
    "the mean overlap of its documents with the nearest topic of each other start, 0 to 1."
)

HOW_COUNTED = (
    "Mean share of the topic in the documents of a value, with 95 % intervals. Documents of one title count as one "
    "source, since they are alike; a value of one source has no interval."
)


def page(job: TopicsJob, workspace: Workspace) -> Page:
    """Return the report of a finished workspace."""
    results = [Topics(job, workspace, method) for method in job.topics.methods]
    own, done = results[0], workspace.stages()
    scores, coherence = _scores(job, results), _coherence_table(job, results)
    by_name = {
        NAMES[method]: {MEASURES[measure]: mean for measure, (mean, _, _) in found.items()}
        | {OF_KEPT.format(MEASURES[measure]): kept for measure, (_, _, kept) in found.items()}
        for method, found in scores.items()
    }
    losses = [
        objective_curve(one.losses, f"Convergence of {NAMES[one.method]}", ylabel="loss") for one in results
    ]
    facts = {
        "documents": done["documents"].facts["n_documents"],
        "words": done["vocabulary"].facts["n_words"],
        "topics": len(own.rows),
        "pairs": done["association"].facts["n_nonzero"],
    }
    tables, counts = [_topic_table(job, one) for one in results], _counts(own)
    titles = [f"Topics of {NAMES[one.method]}" for one in results]
    agreement = _score_table(job, results, scores)
    sections = [
        Section(titles[0], [tables[0], *map(Fold, titles[1:], tables[1:])]),
        _maps(job, own),
        *(_share_panels(own, name, shares) for name, shares in own.shares_by_column().items()),
        _document_table(job, own),
        *agreement,
        *paper_tables(job, by_name, **IN_PAPER),
        *_stability_table(job, results),
        coherence,
    ]
    lines = list[str]()
    for row in own.described:
        again = "" if np.isnan(row["found_again"]) else f"found again {row['found_again']:.2f}"
        heavy, telling = (" ".join(map(shown, row[kind][:CLOSING_WORDS])) for kind in ("words", "telling"))
        lines += [
            f"{row['topic']:>3}  {row['n_documents']:>6} documents   {heavy}",
            f"{'telling':>21}   {telling}",
            f"{'':>21}   {'; '.join(filter(None, (again, *map(shown, row['parts']))))}".rstrip(),
        ]
    topics = "\n".join(filter(None, lines)) + f"\n\n{HOW_TO_READ}"
    closing: list[str | ShownTable] = [counts, topics, *agreement, coherence]
    ways = {"documents": "export {} --to documents.csv", "neighbors": "neighbors {} WORD ..."}
    return page_of(job, workspace, counts, facts, sections, details=losses, closing=closing, ways=ways)


def _counts(own: Topics) -> str:
    """Return, in words, what was read, what was left out, and how full the matrices are."""
    facts = {name: manifest.facts for name, manifest in own.workspace.stages().items()}
    n_documents, n_words = facts["documents"]["n_documents"], facts["vocabulary"]["n_words"]
    left_out = facts["tokens"]["n_documents"] - n_documents
    terms, pairs = facts["document_terms"]["n_nonzero"], facts["association"]["n_nonzero"]
    without = np.flatnonzero(own.labels < 0)
    names = ", ".join(filter(None, own.names_of(without[:EXAMPLES]).values())) if without.size else ""
    return (
        f"{n_documents:,} documents{f' ({left_out:,} left out)' if left_out else ''}, {n_words:,} words; "
        f"{terms:,} document terms "
        f"({terms / (n_documents * n_words):.2%} of all cells), {pairs:,} associated pairs of words; "
        f"{without.size:,} documents hold no word of the vocabulary and have the topic -1"
        f"{f', such as {names}' if names else ''}."
    )


# --- topics and their documents --------------------------------------------------------------------------------------


def _topic_table(job: TopicsJob, result: Topics) -> ShownTable:
    rows = [
        {
            "topic": row["topic"],
            "documents": row["n_documents"],
            "heaviest words": ", ".join(row["words"][: job.report.n_top_words]),
            "telling words": ", ".join(row["telling"][: job.report.n_top_words]),
            "stands out": "; ".join(row["parts"]) or None,
            "found again": row["found_again"],
            "PMI": row["pmi"],
            "NPMI": row["npmi"],
        }
        for row in result.described
    ]
    order, power = "Words of the largest weight first", job.coherence.frequency_weight
    if result.method == "semantic_nmf" and power:
        order = f"Words by weight times share of documents to the power of {power:g}"
    caption = (
        f"{order}; telling words are held by its documents more than by others (log odds "
        f"over their deviation). Found again: mean overlap (Jaccard) of its documents with the nearest topic of each "
        f"other start. PMI (nats) and NPMI of the pairs of the heaviest {job.coherence.n_words}, "
        f"from the counts of {job.coherence.workspace or 'the collection itself'}; pairs that never occur together are "
        "left out of PMI, and −1 in NPMI."
    )
    return ShownTable("", rows, {"PMI": 3, "NPMI": 3, "found again": 2}, caption)


def _maps(job: TopicsJob, own: Topics) -> Section:
    """Draw documents by their factors, colored by topic and by label: one layout, two colorings."""
    filled = np.flatnonzero(own.labels >= 0)
    rows = filled[evenly_spaced(filled.size, job.report.n_map_documents)]
    unit = unit_rows(compute(own.documents[rows]).astype(np.float64))
    names = {row["topic"]: row["name"] for row in own.described}
    drawings = {"Documents by topic": [names[topic] for topic in own.labels[rows].tolist()]}
    classes = classes_of(own.workspace)
    if classes is not None:
        drawings["Documents by label"] = [str(label or "none") for label in classes[rows]]
    titles = own.names_of(rows)
    return word_maps(
        "Map of documents", [titles[row] for row in rows.tolist()], unit, drawings, noun="document"
    )


def _share_panels(own: Topics, name: str, shares: MeanShares) -> Figure | Note:
    """Draw the shares of the topics by the values of a column of the documents, a panel for each topic."""
    marks = [
        Mark(value, float(shares.means[place, topic]), shares.ends(place, topic), panel=row["name"])
        for topic, row in enumerate(own.described)
        for place, value in enumerate(shares.values)
    ]
    return small_multiples(f"Topics by {name}", marks, xlabel="mean share", caption=HOW_COUNTED)


def _document_table(job: TopicsJob, own: Topics) -> ShownTable:
    """List the documents of the largest share in each topic, by title or by their weightiest words."""
    order = _largest_rows(own.documents, job.report.n_top_documents)
    names, labels = own.names_of(np.unique(order)), own.workspace.table("documents")["label"].to_pylist()
    called = {row: f"{name} ({labels[row]})" if labels[row] else name for row, name in names.items()}
    rows = [
        {"topic": topic, "documents": "; ".join(called[row] for row in column)}
        for topic, column in enumerate(order.T.tolist())
    ]
    return ShownTable("Documents of each topic", rows, caption="Those of the largest weight first.")


def _largest_rows(factors: da.Array, n: int) -> NDArray[np.int64]:
    """Return the rows of the n largest values of each column, falling, of equal ones the first, (n, k)."""
    values, rows, first = np.empty((0, factors.shape[1])), np.empty((0, factors.shape[1]), np.int64), 0
    for block in rows_of_blocks(factors):
        numbers = np.arange(first, first + len(block))[:, np.newaxis]
        values = np.concatenate([values, block])
        rows = np.concatenate([rows, np.broadcast_to(numbers, block.shape)])
        order = np.argsort(-values, axis=0, kind="stable")[:n]
        values, rows = (np.take_along_axis(each, order, axis=0) for each in (values, rows))
        first += len(block)
    return rows


# --- the methods side by side ----------------------------------------------------------------------------------------


def _scores(job: TopicsJob, results: list[Topics]) -> dict[Method, dict[str, tuple[float, float, float]]]:
    """Return the mean, the deviation and the kept one of each score of each method; none where labels are no truth."""
    if not job.report.score_labels:
        return {}
    table = outputs.SCORES.read(results[0].workspace).to_pylist()
    rows = {(row["method"], row["start"]): row for row in table}
    found: dict[Method, dict[str, tuple[float, float, float]]] = {}
    for one in results if rows else ():
        kept, starts = (
            rows[one.method, one.kept["start"]],
            [rows[one.method, row["start"]] for row in one.starts],
        )
        of_starts = {name: np.array([row[name] for row in starts]) for name in MEASURES}
        found[one.method] = {
            name: (float(values.mean()), float(values.std()), kept[name])
            for name, values in of_starts.items()
        }
    return found


def _name_of_kept(job: TopicsJob, result: Topics) -> str:
    """Return in words what is kept of the starts of a method."""
    if result.kept["start"] is None:
        return f"consensus of {len(result.starts)}, kept"
    return "the only one" if job.topics.n_starts == 1 else "of the smallest loss, kept"


def _score_table(
    job: TopicsJob, results: list[Topics], scores: dict[Method, dict[str, tuple[float, float, float]]]
) -> list[ShownTable]:
    rows: list[dict[str, Any]] = []
    for result in results if scores else ():
        name, found = NAMES[result.method], scores[result.method]
        means = {measure: f"{mean:.3f} ± {spread:.3f}" for measure, (mean, spread, _) in found.items()}
        kept = {measure: f"{value:.3f}" for measure, (_, _, value) in found.items()}
        rows += [
            {"method": name, "start": f"mean of {len(result.starts)}", **means},
            {"method": name, "start": _name_of_kept(job, result), **kept},
        ]
    caption = "Against the labels the documents came with; what is kept of the starts is chosen without them."
    return [ShownTable("Agreement with labels", rows, caption=caption)] if rows else []


def _stability_table(job: TopicsJob, results: list[Topics]) -> list[ShownTable]:
    """Return the table of how far the starts of each method agree, and of what is kept with them."""
    measures = {"NMI between starts": "nmi", "ARI between starts": "ari"}
    rows = [
        {"method": NAMES[one.method]}
        | {name: float(np.mean([row[key] for row in one.starts])) for name, key in measures.items()}
        | {"NMI of what is kept": one.kept["nmi"], "what is kept": _name_of_kept(job, one)}
        for one in results
    ]
    caption = (
        "Mean agreement of the documents' topics between two starts, without labels; 1 is equal. It does not tell "
        "which method is better."
    )
    formats = dict.fromkeys([*measures, "NMI of what is kept"], 3)
    return [ShownTable("Stability", rows, formats, caption)] if job.topics.n_starts > 1 else []


def _coherence_table(job: TopicsJob, results: list[Topics]) -> ShownTable:
    """Return the mean PMI and NPMI of each method's topics with a pair to judge, and the pairs that PMI leaves out."""
    rows: list[dict[str, Any]] = []
    for one in results:
        judged = [row for row in one.rows if not np.isnan(row["pmi"] + row["npmi"])]
        n_pairs, n_joint = (sum(row[name] for row in one.rows) for name in ("n_pairs", "n_joint"))
        if judged:
            pmi, npmi = (float(np.mean([row[name] for row in judged])) for name in ("pmi", "npmi"))
            never = f"{n_pairs - n_joint:,} of {n_pairs:,}"
            row = {"mean PMI": pmi, "mean NPMI": npmi, "never together": never}
            rows.append({"method": NAMES[one.method]} | row)
    caption = (
        f"Mean over topics, pairs of the top {job.coherence.n_words} words; PMI in nats, without the pairs that never "
        "occur together, which are −1 in NPMI."
    )
    return ShownTable("Coherence", rows, {"mean PMI": 3, "mean NPMI": 3}, caption)
