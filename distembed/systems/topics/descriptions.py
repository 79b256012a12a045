"""What each topic is: its heaviest words beside those that tell it apart, what its documents share, its stability."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from distembed.dtypes import Float64s, Int64s
from distembed.evaluation.topics import LargestPart, found_again, largest_parts, telling_words
from distembed.execution import compute, one_blas_thread
from distembed.factorization.nmf_rounds import column_norms
from distembed.storage.workspace import Workspace
from distembed.systems.topics import outputs
from distembed.systems.topics.job import Method, TopicsJob
from distembed.systems.topics.starts import kept_labels, rows_of

MUCH = 0.25
"""A value of a column is named where so large a share of a topic's documents have it."""

MORE_THAN_ELSEWHERE = 1.5
"""It is named only where its share in the topic is so many times its share in all documents."""

PARTS_NAMED = 3
"""So many columns are named of a topic: those whose value is most above its share in all documents."""

NAME_WORDS = 2
"""The words of each kind that a topic is called by."""


def topic_rows(workspace: Workspace, method: Method) -> list[dict[str, Any]]:
    """Return what is stored of each topic of a method."""
    return [row for row in outputs.TOPICS.read(workspace).to_pylist() if row["method"] == method]


def described_topics(job: TopicsJob, workspace: Workspace, method: Method) -> list[dict[str, Any]]:
    """Return what is known of each topic of a method, computed from its documents.

    Beside the keys of the stored rows these are `telling`, the words that set its documents apart, as many as are
    listed; `parts`, the values that many of its documents have in common; and `found_again`, how well the other starts
    find it, NaN where there is one start.
    """
    rows = topic_rows(workspace, method)
    labels, n_topics = kept_labels(workspace, method), len(rows)
    n_words = max((len(row["words"]) for row in rows), default=0)
    words = workspace.table("vocabulary")["word"].to_pylist()
    telling = telling_words(outputs.DOCUMENT_TERMS.read(workspace), labels, n_topics, n_words)
    parts = _parts(known_columns(job, workspace), labels, n_topics)
    places = [place for place, row in rows_of(workspace, method).items() if not row.kept]
    again = found_again(labels, np.asarray(compute(outputs.LABELS.read(workspace)[places])), n_topics)
    return [
        row
        | {
            "telling": [words[place] for place in telling[topic]],
            "parts": parts[topic],
            "found_again": float(again[topic]),
        }
        for topic, row in enumerate(rows)
    ]


def known_columns(job: TopicsJob, workspace: Workspace) -> dict[str, pa.ChunkedArray]:
    """Return the columns of documents that topics are compared with, by the names that their source gives them.

    The first is the title.
    """
    documents = workspace.table("documents")
    named = {"title": job.corpus.title_field or "title", "label": job.corpus.label_field or "label"}
    columns = [name for name in documents.column_names if name not in ("id", "n_tokens")]
    return {named.get(name, name): documents[name] for name in columns}


def _parts(columns: dict[str, pa.ChunkedArray], labels: Int64s, n_topics: int) -> list[list[LargestPart]]:
    """Return the values that stand out in each topic, the one most above its share in all documents first."""
    by_column = [largest_parts(name, values, labels, n_topics) for name, values in columns.items()]
    standing_out = [
        [
            part
            for part in parts
            if part and part.share >= MUCH and part.share >= MORE_THAN_ELSEWHERE * part.share_of_all
        ]
        for parts in zip(*by_column, strict=True)
    ]
    return [
        sorted(parts, key=lambda part: part.share_of_all / part.share)[:PARTS_NAMED] for parts in standing_out
    ]


def document_norms(job: TopicsJob, workspace: Workspace) -> Float64s:
    """Return the lengths that the factors of a document are divided by before they are compared, (topics,)."""
    if job.topics.method == "spherical_kmeans":  # its factors are cosines
        return np.ones(outputs.WORD_FACTORS.read(workspace, of="").shape[1])
    with one_blas_thread():
        return column_norms(outputs.DOCUMENT_FACTORS.read(workspace, of=""))


def topic_name(row: dict[str, Any]) -> str:
    """Return the number of a topic with its heaviest and its telling words."""
    telling = [word for word in row["telling"] if word not in row["words"][:NAME_WORDS]]
    kinds = (row["words"][:NAME_WORDS], telling[:NAME_WORDS])
    return f"{row['topic']}: {' | '.join(' '.join(words) for words in kinds if words)}"


def part_text(part: LargestPart) -> str:
    """Return in words what many documents of a topic have in common."""
    return f"{part.share:.0%} have {part.column} {part.value} (of all {part.share_of_all:.0%})"
