"""The report of a topics job, and the last lines that its run prints, made from a finished workspace."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from distembed.corpus.concordance import beginnings
from distembed.evaluation.documents import (
    ClusteringScores,
    ScoreSummary,
    same_class_cosines,
    summarize_scores,
)
from distembed.execution import compute
from distembed.factorization.consensus import STABLE
from distembed.factorization.document_factors import StartRow, loss_curves
from distembed.job.tables import rows_of_blocks
from distembed.job.terminal import shown
from distembed.linalg.chunks import evenly_spaced
from distembed.linalg.csr import unit_rows
from distembed.stages.corpus import omissions
from distembed.storage.workspace import Workspace
from distembed.systems.topics import outputs
from distembed.systems.topics.descriptions import described_topics, part_text, topic_name, topic_rows
from distembed.systems.topics.job import IN_PAPER, MEASURES, NAMES, OF_KEPT, Method, TopicsJob
from distembed.systems.topics.shares import share_sections
from distembed.systems.topics.stages import stages, tokens_of
from distembed.systems.topics.starts import (
    classes_of,
    kept_labels,
    kept_row,
    n_topics_of,
    prefix_of,
    starts_of,
)
from distembed.views import report

COHERENCE = {"pmi": "PMI", "npmi": "NPMI"}
"""The measures of coherence by their columns."""

CLEARLY_MORE = 0.1
"""A method is called clearly more stable if the mean NMI between its starts is larger by this."""


def kept_name(job: TopicsJob, row: StartRow) -> str:
    """Return in words what is kept of the starts of a method."""
    if row.start is None:
        return f"consensus of {job.topics.n_starts}, kept"
    return "the only one" if job.topics.n_starts == 1 else "of the smallest loss, kept"


def stability_of(job: TopicsJob, workspace: Workspace) -> dict[Method, tuple[float, float]]:
    """Return the mean NMI and ARI between the starts of each method; nothing where there is one start."""
    if job.topics.n_starts == 1:
        return {}
    starts = {method: starts_of(workspace, method) for method in job.topics.methods}
    means = {
        method: (float(np.mean([row.nmi for row in rows])), float(np.mean([row.ari for row in rows])))
        for method, rows in starts.items()
    }
    return {} if np.isnan([*means.values()]).any() else means


def stability_sentence(job: TopicsJob, workspace: Workspace) -> str:
    """Return a warning where the starts of another method agree clearly more than those of the job's own."""
    found = stability_of(job, workspace)
    own = job.topics.method
    if not found or len(found) == 1:
        return ""
    other = max(found, key=lambda method: found[method][0])
    if found[other][0] < found[own][0] + CLEARLY_MORE:
        return ""
    return (
        f"The starts of {NAMES[other]} agree more (mean NMI {found[other][0]:.2f}) than those of {NAMES[own]} "
        f"({found[own][0]:.2f}): its topics hang less on where it starts; look at both, or raise n_starts."
    )


def stability_table(job: TopicsJob, workspace: Workspace) -> report.Section | None:
    """Return the table of how far the starts of each method agree, and of what is kept with them."""
    rows: list[dict[str, Any]] = []
    for method, (nmi, ari) in stability_of(job, workspace).items():
        kept = kept_row(workspace, method)
        rows.append(
            {
                "method": NAMES[method],
                "NMI between starts": f"{nmi:.3f}",
                "ARI between starts": f"{ari:.3f}",
                "NMI of what is kept": f"{kept.nmi:.3f}",
                "what is kept": kept_name(job, kept),
            }
        )
    caption = "Mean agreement of the documents' topics between two starts, without labels; 1 is equal."
    said = stability_sentence(job, workspace)
    return report.table("Stability", rows, caption=f"{caption} {said}".strip()) if rows else None


def number_sentence(job: TopicsJob, workspace: Workspace) -> str:
    """Return what number of topics was chosen, and a warning where none is stable."""
    if job.topics.n_topics != "auto":
        return ""
    facts = workspace.stages()["n_topics"].facts
    if facts["is_stable"]:
        return (
            f"{facts['n_topics']} topics: the largest number tried whose topics are found again by every start "
            f"(least silhouette of a group of {STABLE} or more)."
        )
    return (
        f"No number of topics is stable: for each one tried, a group of topics has a silhouette below {STABLE}. "
        f"The starts of {facts['n_topics']} agree most, and it was taken; topics may be an accident of the start. Give "
        "other numbers in topics.n_topics_range, or more text."
    )


def number_sections(job: TopicsJob, workspace: Workspace) -> list[report.Section]:
    """Return the picture and the table of how stable each number of topics is, where it was chosen by that."""
    if job.topics.n_topics != "auto":
        return []
    rows = outputs.N_TOPICS.read(workspace).to_pylist()
    numbers = [row["n_topics"] for row in rows]
    curves = {
        name: (numbers, [row[key] for row in rows])
        for name, key in (
            ("least silhouette", "least_silhouette"),
            ("mean silhouette", "mean_silhouette"),
            ("NMI between starts", "nmi"),
        )
    }
    title = "Number of topics"
    said = number_sentence(job, workspace)
    picture = report.line_chart(curves, title, xlabel="topics", ylabel="stability", caption=said)
    shown = [
        {
            "topics": row["n_topics"],
            "least silhouette": f"{row['least_silhouette']:.2f}",
            "mean silhouette": f"{row['mean_silhouette']:.2f}",
            "NMI between starts": f"{row['nmi']:.2f}",
            "ARI between starts": f"{row['ari']:.2f}",
            "loss": f"{row['loss']:,.1f}",
            "chosen": "yes" if row["chosen"] else "",
        }
        for row in rows
    ]
    caption = (
        f"Means over {job.topics.n_starts} starts; silhouettes of the groups that their topics fall into."
    )
    return [report.group(title, [picture, report.table(title, shown, caption=caption)])]


CLOSING_WORDS = 8
"""Words of a topic in the last lines of a run."""
EXAMPLES = 3
"""Documents without a topic that are quoted."""
QUOTED_WORDS = 10
"""First words of a document that stand for one without a title."""
NAME_WORDS = 3
"""Heaviest words that stand for one whose text is gone."""
DRAWN_PAIRS = 20_000
"""Pairs of a class whose cosines are drawn in a figure."""
BINS = np.linspace(0, 1, 41)
"""Edges of the bins of cosines between rows of non-negative factors."""


class Result(NamedTuple):
    """What the page shows of what is kept of a method."""

    method: Method
    loss: NDArray[np.float64]  # of the start that is kept; of a consensus, of its start of the smallest loss
    labels: NDArray[np.int64]
    documents: da.Array  # document factors, of which a block is in memory at a time
    words: NDArray[np.float32]  # word factors
    topics: list[dict[str, Any]]


def page(job: TopicsJob, workspace: Workspace) -> str:
    """Return the report of a finished workspace as one HTML page."""
    results = [kept_result(job, workspace, method) for method in job.topics.methods]
    summary = f"{_counts(job, workspace)} Content digest {workspace.digest()}."
    done = workspace.stages()
    own = results[0]
    losses = [report.objective_curve(one.loss, title=NAMES[one.method], ylabel="loss") for one in results]
    found = [
        _topic_section(job, results),
        *_maps(job, workspace, own),
        *share_sections(job, workspace, [topic_name(row) for row in own.topics]),
        _document_table(job, workspace, own),
        *number_sections(job, workspace),
        _score_table(job, workspace),
        *report.paper_tables(job, _scores_by_name(job, workspace), **IN_PAPER),
        stability_table(job, workspace),
        _coherence_section(job, workspace),
        report.group("Convergence", losses),
        *_cosine_sections(job, workspace, results),
        report.stage_table(report.stage_rows(stages(job), workspace)),
        report.parameter_table(job.model_dump(mode="json")),
        report.source_table(workspace),
    ]  # fmt: skip
    return report.render_report(
        job.job.title,
        summary,
        [section for section in found if section is not None],
        facts={
            "documents": done["documents"].facts["n_documents"],
            "words": done["vocabulary"].facts["n_words"],
            "topics": n_topics_of(job, workspace),
            "pairs": done["association"].facts["n_nonzero"],
            **omissions(done["tokens"].facts),
        },
        invitation=report.invitation(workspace),
    )


def closing_text(job: TopicsJob, workspace: Workspace, where: str) -> str:
    """Return what was counted, the topics with their words, the scores if there are, and where everything is."""
    topics = "\n".join(map(_topic_lines, described_topics(job, workspace, job.topics.method)))
    scores = "\n".join(_score_line(method, found) for method, found in summaries(job, workspace).items())
    coherence = "\n".join(
        f"{NAMES[method]:<18} coherence of the top {job.coherence.n_words} words: PMI {found['pmi']:.2f} nats, "
        f"NPMI {found['npmi']:.3f}"
        for method, found in mean_coherence(job, workspace).items()
    )
    parts = (
        _counts(job, workspace),
        f"{topics}\n\n{HOW_TO_READ}",
        scores,
        coherence,
        number_sentence(job, workspace),
        stability_sentence(job, workspace),
        report.ways_on(workspace, where, table="documents", suffix="csv"),
    )
    return "\n\n".join(part for part in parts if part)


HOW_TO_READ = (
    "Each topic: its words of the largest weight, and those that its documents hold and others do not. Found again: "
    "the mean overlap of its documents with the nearest topic of each other start, 0 to 1."
)


def _topic_lines(row: dict[str, Any]) -> str:
    """Return the lines of a topic: size and heaviest words, telling words, and what stands out."""
    again = "" if np.isnan(row["found_again"]) else f"found again {row['found_again']:.2f}"
    notes = [*([again] if again else []), *(shown(part_text(part)) for part in row["parts"])]
    lines = [
        f"{row['topic']:>3}  {row['n_documents']:>6} documents   {' '.join(map(shown, row['words'][:CLOSING_WORDS]))}",
        f"{'telling':>21}   {' '.join(map(shown, row['telling'][:CLOSING_WORDS]))}",
        f"{'':>21}   {'; '.join(notes)}".rstrip(),
    ]
    return "\n".join(line for line in lines if line)


def _score_line(method: Method, found: ScoreSummary) -> str:
    mean, spread, kept = found.mean, found.deviation, found.kept
    return (
        f"{NAMES[method]:<18} {found.n_starts} starts: "
        + "  ".join(
            f"{name} {m:.3f} ± {s:.3f} (kept {k:.3f})"
            for name, m, s, k in zip(MEASURES.values(), mean, spread, kept, strict=True)
        )
    )  # fmt: skip


def summaries(job: TopicsJob, workspace: Workspace) -> dict[Method, ScoreSummary]:
    """Return the scores of the starts of each method and of what is kept; nothing where labels are no truth."""
    if not job.report.score_labels:
        return {}
    rows = {(row["method"], row["start"]): row for row in outputs.SCORES.read(workspace).to_pylist()}
    if not rows:
        return {}
    scores = {
        key: ClusteringScores(*(row[name] for name in ClusteringScores._fields)) for key, row in rows.items()
    }
    return {
        method: summarize_scores(
            [scores[method, row.start] for row in starts_of(workspace, method)],
            scores[method, kept_row(workspace, method).start],
        )
        for method in job.topics.methods
    }


def mean_coherence(job: TopicsJob, workspace: Workspace) -> dict[Method, dict[str, float]]:
    """Return the mean PMI and NPMI of each method's topics with a pair to judge."""
    found = {}
    for method in job.topics.methods:
        rows = [row for row in topic_rows(workspace, method) if not np.isnan(row["pmi"] + row["npmi"])]
        if rows:
            found[method] = {name: float(np.mean([row[name] for row in rows])) for name in COHERENCE}
    return found


def kept_result(job: TopicsJob, workspace: Workspace, method: Method) -> Result:
    """Return what is kept of the starts of a method."""
    curves = {start: curve for (name, start), curve in loss_curves(workspace).items() if name == method}
    number = kept_row(workspace, method).start
    drawn = min(curves, key=lambda start: curves[start][-1]) if number is None else number
    prefix = prefix_of(job, method)
    words = compute(outputs.WORD_FACTORS.read(workspace, of=prefix))
    documents = outputs.DOCUMENT_FACTORS.read(workspace, of=prefix)
    topics = described_topics(job, workspace, method)
    return Result(method, np.array(curves[drawn]), kept_labels(workspace, method), documents, words, topics)


def _counts(job: TopicsJob, workspace: Workspace) -> str:
    """Return, in words, what was read, what was left out, and how full the matrices are."""
    facts = {name: manifest.facts for name, manifest in workspace.stages().items()}
    n_documents, n_words = facts["documents"]["n_documents"], facts["vocabulary"]["n_words"]
    left_out = facts["tokens"]["n_documents"] - n_documents
    terms, pairs = facts["document_terms"]["n_nonzero"], facts["association"]["n_nonzero"]
    return (
        f"{n_documents:,} documents{f' ({left_out:,} left out)' if left_out else ''}, {n_words:,} words; "
        f"{terms:,} document terms "
        f"({terms / (n_documents * n_words):.2%} of all cells), {pairs:,} associated pairs of words; "
        f"{_without_topic(job, workspace)}."
    )


def _without_topic(job: TopicsJob, workspace: Workspace) -> str:
    """Return how many documents hold no word of the vocabulary, and what the first of them say."""
    without = np.flatnonzero(kept_labels(workspace, job.topics.method) < 0)
    names = (
        list(filter(None, document_names(job, workspace, without[:EXAMPLES]).values()))
        if without.size
        else []
    )
    such = f", such as {', '.join(names)}" if names else ""
    return f"{without.size:,} documents hold no word of the vocabulary and have the topic -1{such}"


# --- sections --------------------------------------------------------------------------------------------------------


def _topic_section(job: TopicsJob, results: list[Result]) -> report.Section:
    """Show the sizes and the words of the topics; those of the methods compared are folded behind them."""
    own, *others = (_topic_table(job, result) for result in results)
    behind = [report.Section(own.title, report.folded(other.title, other.html)) for other in others]
    return report.group(own.title, [_size_chart(results[0], own.title), own, *behind])


def _topic_table(job: TopicsJob, result: Result) -> report.Section:
    rows = [
        {
            "topic": row["topic"],
            "documents": row["n_documents"],
            "heaviest words": ", ".join(row["words"][: job.report.n_top_words]),
            "telling words": ", ".join(row["telling"][: job.report.n_top_words]),
            "stands out": "; ".join(map(part_text, row["parts"])) or None,
            "found again": row["found_again"],
            "PMI": None if np.isnan(row["pmi"]) else row["pmi"],
            "NPMI": row["npmi"],
        }
        for row in result.topics
    ]
    caption = (
        f"{_order_of_words(job, result.method)}; telling words are held by its documents more than by others (log odds "
        f"over their deviation). Found again: mean overlap (Jaccard) of its documents with the nearest topic of each "
        f"other start. PMI (nats) and NPMI of the pairs of the heaviest {job.coherence.n_words}, "
        f"from the counts of {job.coherence.workspace or 'the collection itself'}."
    )
    formats = {"PMI": _three, "NPMI": _three, "found again": lambda value: f"{value:.2f}"}
    return report.table(f"Topics of {NAMES[result.method]}", rows, caption=caption, formats=formats)


def _order_of_words(job: TopicsJob, method: Method) -> str:
    if method == "semantic_nmf" and job.coherence.frequency_weight:
        return f"Words by weight times share of documents to the power of {job.coherence.frequency_weight:g}"
    return "Words of the largest weight first"


def _size_chart(result: Result, title: str) -> report.Section:
    sizes = {topic_name(row): row["n_documents"] for row in result.topics}
    return report.bar_chart(sizes, title, xlabel="documents of a topic")


def _score_table(job: TopicsJob, workspace: Workspace) -> report.Section | None:
    rows: list[dict[str, Any]] = []
    for method, found in summaries(job, workspace).items():
        spread = zip(ClusteringScores._fields, found.mean, found.deviation, strict=True)
        mean = {name: f"{value:.3f} ± {deviation:.3f}" for name, value, deviation in spread}
        kept = {name: f"{value:.3f}" for name, value in found.kept._asdict().items()}
        rows += [
            {"method": NAMES[method], "start": f"mean of {found.n_starts}", **mean},
            {"method": NAMES[method], "start": kept_name(job, kept_row(workspace, method)), **kept},
        ]
    caption = "Against the labels the documents came with; what is kept of the starts is chosen without them."
    return report.table("Agreement with labels", rows, caption=caption) if rows else None


def _scores_by_name(job: TopicsJob, workspace: Workspace) -> dict[str, dict[str, float]]:
    """Return the mean scores of the starts of each method, and those of what is kept, by the names of the methods."""
    return {
        NAMES[method]: dict(zip(MEASURES.values(), found.mean, strict=True))
        | dict(zip(map(OF_KEPT.format, MEASURES.values()), found.kept, strict=True))
        for method, found in summaries(job, workspace).items()
    }


def _three(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def _coherence_section(job: TopicsJob, workspace: Workspace) -> report.Section:
    """Draw the coherence of every topic, and show its mean, method by method."""
    drawn = [
        report.Interval(NAMES[method], row["npmi"])
        for method in job.topics.methods
        for row in topic_rows(workspace, method)
    ]
    means = _coherence_table(job, workspace)
    picture = report.interval_chart(drawn, means.title, xlabel="NPMI of a topic", spread=False)
    return report.group(means.title, [picture, means])


def _coherence_table(job: TopicsJob, workspace: Workspace) -> report.Section:
    rows = [
        {"method": NAMES[method]} | {f"mean {COHERENCE[name]}": value for name, value in found.items()}
        for method, found in mean_coherence(job, workspace).items()
    ]
    caption = f"Mean over topics, pairs of the top {job.coherence.n_words} words; PMI in nats."
    formats = dict.fromkeys((f"mean {name}" for name in COHERENCE.values()), _three)
    return report.table("Coherence", rows, caption=caption, formats=formats)


def _document_table(job: TopicsJob, workspace: Workspace, result: Result) -> report.Section:
    """List the documents of the largest share in each topic, by title or by their weightiest words."""
    order = _largest_rows(result.documents, job.report.n_top_documents)
    names = document_names(job, workspace, np.unique(order))
    labels = workspace.table("documents")["label"].to_pylist()
    rows = [
        {"topic": topic, "documents": "; ".join(_with_label(names[row], labels[row]) for row in column)}
        for topic, column in enumerate(order.T.tolist())
    ]
    return report.table("Documents of each topic", rows, caption="Those of the largest weight first.")


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


def _with_label(name: str, label: str | None) -> str:
    return f"{name} ({label})" if label else name


def document_names(job: TopicsJob, workspace: Workspace, rows: NDArray[np.int64]) -> dict[int, str]:
    """Return the titles of documents, or how those begin that have none; their heaviest words where text is gone."""
    titles = workspace.table("documents").take(rows)["title"].to_pylist()
    if all(titles):
        return dict(zip(rows.tolist(), titles, strict=True))
    try:
        quoted = beginnings(tokens_of(job, workspace), rows, QUOTED_WORDS)
    except (KeyError, FileNotFoundError):
        quoted = dict(zip(rows.tolist(), heaviest_words(workspace, rows, NAME_WORDS), strict=True))
    return {row: title or quoted.get(row, "") for row, title in zip(rows.tolist(), titles, strict=True)}


def heaviest_words(workspace: Workspace, rows: NDArray[np.int64], n: int) -> list[str]:
    """Return the words of the most weight in some documents, rising, the heaviest first."""
    words = workspace.table("vocabulary")["word"].to_pylist()
    matrix = outputs.TF_IDF.read(workspace)
    edges = np.cumsum([0, *matrix.chunks[0]])
    parts = [
        compute(matrix.blocks[block])[rows[(rows >= edges[block]) & (rows < edges[block + 1])] - edges[block]]
        for block in range(matrix.numblocks[0])
        if ((rows >= edges[block]) & (rows < edges[block + 1])).any()
    ]
    weights = csr_array(vstack(parts, format="csr"))
    return [
        " ".join(words[word] for word in row.indices[np.argsort(-row.data, kind="stable")[:n]])
        for row in (weights[[place]] for place in range(len(rows)))
    ]


def _maps(job: TopicsJob, workspace: Workspace, result: Result) -> list[report.Section]:
    """Draw documents by their factors, colored by topic and by label: one layout, two colorings."""
    filled = np.flatnonzero(result.labels >= 0)
    rows = filled[evenly_spaced(filled.size, job.report.n_map_documents)]
    unit = unit_rows(compute(result.documents[rows]).astype(np.float64))
    names = {row["topic"]: topic_name(row) for row in result.topics}
    drawings = {"Map of documents by topic": [names[topic] for topic in result.labels[rows].tolist()]}
    classes = classes_of(workspace)
    if classes is not None:
        drawings["The same map by label"] = [str(label) for label in classes[rows]]
    called = document_names(job, workspace, rows)
    titles = [called[row] for row in rows.tolist()]
    return report.word_maps(titles, unit, drawings, noun="document")


def _cosine_sections(job: TopicsJob, workspace: Workspace, results: list[Result]) -> list[report.Section]:
    """Draw figure 2 of the paper: cosines of a topic's top words, and of documents of one class."""
    words = workspace.table("vocabulary")["word"].to_pylist()
    place = {word: row for row, word in enumerate(words)}
    drawn = {NAMES[result.method]: _top_word_cosines(result, place) for result in results}
    sections = [_density(drawn, f"Cosines of a topic's top {job.coherence.n_words} words")]
    classes = classes_of(workspace)
    if classes is not None and job.report.score_labels:
        known = np.array([label is not None for label in classes])
        drawn = {}
        for result in results:
            by_class = same_class_cosines(
                compute(result.documents)[known], classes[known].astype(str), max_pairs=DRAWN_PAIRS
            )
            drawn[NAMES[result.method]] = np.concatenate(list(by_class.values()))
        sections.append(_density(drawn, "Cosines of documents of one class"))
    return sections


def _top_word_cosines(result: Result, place: dict[str, int]) -> NDArray[np.float64]:
    found = []
    for row in result.topics:
        unit = unit_rows(result.words[[place[word] for word in row["words"]]].astype(np.float64))
        found += [float(unit[a] @ unit[b]) for a, b in combinations(range(len(unit)), 2)]
    return np.array(found)


def _density(values: dict[str, NDArray[np.float64]], title: str) -> report.Section:
    middle = (BINS[:-1] + BINS[1:]) / 2
    curves = {
        name: (middle, np.histogram(found, BINS)[0] / max(found.size, 1))
        for name, found in values.items()
        if found.size
    }
    means = ", ".join(f"{name} {found.mean():.2f}" for name, found in values.items() if found.size)
    return report.line_chart(
        curves, title, xlabel="cosine", ylabel="share of pairs", caption=f"Mean: {means}."
    )
