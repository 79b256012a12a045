"""What the page to explore of a topics job shows: documents by topic, with the words of both."""

from __future__ import annotations

import numpy as np

from distembed.display import plural
from distembed.linalg.chunks import evenly_spaced
from distembed.pipeline.explorer.items import MAX_POINTS, Items, by_category
from distembed.pipeline.systems.topics.config import TopicsJob
from distembed.pipeline.systems.topics.report import document_names, heaviest_words, kept_result, topic_name
from distembed.pipeline.systems.topics.results import classes_of
from distembed.storage.workspace import Workspace

WORDS_SHOWN = 12
"""Words of a document, and of its topic."""


def items(job: TopicsJob, workspace: Workspace, *, n_points: int = MAX_POINTS) -> Items:
    """Return the documents of a finished workspace that have a topic, evenly from first to last."""
    result = kept_result(job, workspace, job.topics.method)
    filled = np.flatnonzero((result.labels >= 0) & (np.linalg.norm(result.documents, axis=1) > 0))
    rows = filled[evenly_spaced(filled.size, n_points)]
    topics = result.labels[rows].tolist()
    called = {row["topic"]: topic_name(row) for row in result.topics}
    words = {row["topic"]: ", ".join(row["words"][:WORDS_SHOWN]) for row in result.topics}
    colorings = [by_category("topic", [called[topic] for topic in topics])]
    classes = classes_of(workspace)
    if classes is not None:
        colorings.append(by_category("label", [str(classes[row] or "none") for row in rows]))
    names = document_names(workspace, rows)
    facts = {
        "document": workspace.table("documents")["id"].take(rows).to_pylist(),
        "its words": heaviest_words(workspace, rows, WORDS_SHOWN),
        "words of the topic": [words[topic] for topic in topics],
    }
    left_out = len(result.labels) - rows.size
    note = (
        f"{plural(left_out, 'document')} more {'is' if left_out == 1 else 'are'} not shown."
        if left_out
        else ""
    )
    title, vectors = job.job.title, result.documents[rows]
    return Items(
        title, "document", [names[row] for row in rows.tolist()], vectors, colorings, facts, note=note
    )
