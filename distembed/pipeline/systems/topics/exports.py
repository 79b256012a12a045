"""The tables that a topics job gives away: its documents with their topics, and its topics with their words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.display import plural
from distembed.execution import compute, one_blas_thread
from distembed.factorization.document_factors import column_norms
from distembed.factorization.nmf_blocks import topic_shares
from distembed.pipeline.corpus import stages as corpus_stages
from distembed.pipeline.export.tables import (
    MakeTable,
    Numbers,
    Piece,
    Table,
    paired,
    rows_of_blocks,
    words_table,
)
from distembed.pipeline.systems.topics.config import TopicsJob
from distembed.pipeline.systems.topics.results import factor_names, kept_labels
from distembed.storage.workspace import Workspace


def documents_table(job: TopicsJob, workspace: Workspace) -> Table:
    """Return every document with its topic by the job's own method, and the share of each topic in it."""
    factors = workspace.array(factor_names(job, job.topics.method)[1])
    norms = document_norms(job, workspace)
    shares = (topic_shares(block, norms).astype(np.float32) for block in rows_of_blocks(factors))
    labels = kept_labels(workspace, job.topics.method)
    n_documents, n_topics = factors.shape
    return Table(
        with_topic(workspace.schema("documents")),
        Numbers("weight", n_topics, as_lists=False),
        n_documents,
        paired(beside_topics(workspace.batches("documents"), labels), shares),
        f"{plural(n_documents, 'document')} and {plural(n_topics, 'topic')}",
    )


def document_norms(job: TopicsJob, workspace: Workspace) -> NDArray[np.float64]:
    """Return the lengths that the factors of a document are divided by before they are compared, (topics,)."""
    if job.topics.method == "spherical_kmeans":  # its factors are cosines
        return np.ones(workspace.array("vectors").shape[1])
    with one_blas_thread():
        return column_norms(workspace.array(factor_names(job, job.topics.method)[1]))


def with_topic(schema: pa.Schema) -> pa.Schema:
    """Return the columns of documents and, after them, that of their topic."""
    return pa.schema([*schema, pa.field("topic", pa.int64())])


def beside_topics(batches: Iterable[pa.RecordBatch], labels: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of documents with their topics; -1: a document without a word of the vocabulary."""
    first = 0
    for batch in batches:
        topics = pa.array(labels[first : first + batch.num_rows])
        yield pa.record_batch([*batch.columns, topics], schema=with_topic(batch.schema))
        first += batch.num_rows


def topics_table(job: TopicsJob, workspace: Workspace) -> Table:
    """Return the top words of every topic of the job's own method, one row per word, as they are listed."""
    own = [row for row in workspace.table("topics").to_pylist() if row["method"] == job.topics.method]
    rows = [{**row, "topic": number} for number, row in enumerate(own)]  # older workspaces count from 1 on
    factors = np.asarray(compute(workspace.array(factor_names(job, job.topics.method)[0])), np.float64)
    columns = {name: [row[name] for row in rows for _ in row["words"]] for name in TOPIC_COLUMNS.names}
    columns["rank"] = [rank for row in rows for rank in range(1, 1 + len(row["words"]))]
    columns["word"] = [word for row in rows for word in row["words"]]
    cells = corpus_stages.vocabulary_of(workspace).index(columns["word"]), columns["topic"]
    columns["weight"] = (factors[cells] / factors.sum(axis=0)[columns["topic"]]).tolist()
    schema = pa.schema([*TOPIC_COLUMNS, *WORD_COLUMNS])
    batch = pa.record_batch(columns, schema=schema)
    n_words = max((len(row["words"]) for row in rows), default=0)
    contents = f"{plural(len(rows), 'topic')} with up to {plural(n_words, 'word')} each"
    return Table(schema, None, batch.num_rows, [Piece(batch, None)], contents)


TOPIC_COLUMNS = pa.schema(
    [
        ("topic", pa.int64()),
        ("n_documents", pa.int64()),
        ("pmi", pa.float64()),
        ("npmi", pa.float64()),
    ]
)
"""What a topic is known by, the same in all its rows."""

WORD_COLUMNS = pa.schema([("rank", pa.int64()), ("word", pa.string()), ("weight", pa.float64())])
"""What a word of a topic is known by."""

TABLES: dict[str, MakeTable] = {"documents": documents_table, "topics": topics_table, "words": words_table}
"""What a topics job gives away, by the name that `--what` takes."""
