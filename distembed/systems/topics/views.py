"""Why a document has its topic: the words that carry its weight, term by term, and where they stand.

Each word of the document brings its term, and each other topic takes what it explains already: see
`distembed.factorization.nmf_blocks.weight_terms`. Of spherical k-means the weight is the cosine with the center.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from distembed.corpus.concordance import document_passages
from distembed.display import plural
from distembed.dtypes import Float64s, Int64s
from distembed.execution import compute
from distembed.factorization.nmf_blocks import (
    WeightTerms,
    column_shares,
    cosine_terms,
    topic_shares,
    weight_terms,
)
from distembed.job.tables import (
    MakeTable,
    Table,
    paired,
    rows_of_blocks,
    table_of,
    with_numbers,
    words_table,
)
from distembed.linalg.chunks import evenly_spaced
from distembed.linalg.operators import whole_csr
from distembed.stages import corpus as corpus_stages
from distembed.storage.workspace import Workspace
from distembed.systems.topics import outputs
from distembed.systems.topics.descriptions import described_topics, document_norms, part_text, topic_name
from distembed.systems.topics.job import TopicsJob
from distembed.systems.topics.report import document_names, heaviest_words, kept_result
from distembed.systems.topics.shares import shares_table
from distembed.systems.topics.stages import titled_tokens
from distembed.systems.topics.starts import classes_of, kept_labels
from distembed.views.answers import Answer, Passages, TermTable
from distembed.views.explain import NO_TOKENS, Request, refuse_unknown
from distembed.views.explorer.items import MAX_POINTS, Items, by_category


def documents_table(job: TopicsJob, workspace: Workspace) -> Table:
    """Return every document with its topic by the job's own method, and the share of each topic in it."""
    factors = outputs.DOCUMENT_FACTORS.read(workspace, of="")
    norms = document_norms(job, workspace)
    shares = (topic_shares(block, norms).astype(np.float32) for block in rows_of_blocks(factors))
    labels = kept_labels(workspace, job.topics.method)
    n_documents, n_topics = factors.shape
    pieces = paired(beside_topics(workspace.batches("documents"), labels), shares)
    rows = with_numbers(with_topic(workspace.schema("documents")), pieces, "weight", n_topics, apart=True)
    return Table(rows, n_documents, f"{plural(n_documents, 'document')} and {plural(n_topics, 'topic')}")


def with_topic(schema: pa.Schema) -> pa.Schema:
    """Return the columns of documents and, after them, that of their topic."""
    return pa.schema([*schema, pa.field("topic", pa.int64())])


def beside_topics(batches: Iterable[pa.RecordBatch], labels: Int64s) -> Iterator[pa.RecordBatch]:
    """Yield the rows of documents with their topics; -1: a document without a word of the vocabulary."""
    first = 0
    for batch in batches:
        topics = pa.array(labels[first : first + batch.num_rows])
        yield pa.record_batch([*batch.columns, topics], schema=with_topic(batch.schema))
        first += batch.num_rows


def topics_table(job: TopicsJob, workspace: Workspace) -> Table:
    """Return the words of every topic of the job's own method, a row per rank: a heavy and a telling one."""
    described = described_topics(job, workspace, job.topics.method)
    topics = [{**row, "topic": number} for number, row in enumerate(described)]
    factors = np.asarray(compute(outputs.WORD_FACTORS.read(workspace, of="")), np.float64)
    shares = factors / np.where(factors.sum(axis=0) > 0, factors.sum(axis=0), 1)
    places = corpus_stages.vocabulary_of(workspace)
    rows = [
        {
            **{name: topic[name] for name in TOPIC_COLUMNS.names if name in topic},
            "stands_out": "; ".join(map(part_text, topic["parts"])),
            "rank": rank,
            "word": word,
            "weight": float(shares[places.index([word])[0], topic["topic"]]),
            "telling_word": telling,
        }
        for topic in topics
        for rank, (word, telling) in enumerate(
            zip_longest(topic["words"], topic["telling"][: len(topic["words"])]), 1
        )
    ]
    n_words = max((len(row["words"]) for row in topics), default=0)
    contents = f"{plural(len(topics), 'topic')} with up to {plural(n_words, 'word')} each"
    return table_of(pa.Table.from_pylist(rows, pa.schema([*TOPIC_COLUMNS, *WORD_COLUMNS])), contents)


TOPIC_COLUMNS = pa.schema(
    [
        ("topic", pa.int64()),
        ("n_documents", pa.int64()),
        ("pmi", pa.float64()),
        ("npmi", pa.float64()),
        ("found_again", pa.float64()),
        ("stands_out", pa.string()),
    ]
)
"""What a topic is known by, the same in all its rows."""

WORD_COLUMNS = pa.schema(
    [("rank", pa.int64()), ("word", pa.string()), ("weight", pa.float64()), ("telling_word", pa.string())]
)
"""What the words of a topic at a rank are known by."""

TABLES: dict[str, MakeTable] = {
    "documents": documents_table,
    "topics": topics_table,
    "shares": shares_table,
    "words": words_table,
}
"""What a topics job exports, by the name that `--what` takes."""


WORDS_SHOWN = 12
"""Words of a document, and of its topic."""


def items(job: TopicsJob, workspace: Workspace, *, n_points: int = MAX_POINTS) -> Items:
    """Return the documents of a finished workspace that have a topic, evenly from first to last."""
    result = kept_result(job, workspace, job.topics.method)
    has_weight = np.concatenate([block.any(axis=1) for block in rows_of_blocks(result.documents)])
    filled = np.flatnonzero((result.labels >= 0) & has_weight)
    rows = filled[evenly_spaced(filled.size, n_points)]
    topics = result.labels[rows].tolist()
    called = {row["topic"]: topic_name(row) for row in result.topics}
    words = {row["topic"]: ", ".join(row["words"][:WORDS_SHOWN]) for row in result.topics}
    colorings = [by_category("topic", [called[topic] for topic in topics])]
    classes = classes_of(workspace)
    if classes is not None:
        colorings.append(by_category("label", [str(classes[row] or "none") for row in rows]))
    names = document_names(job, workspace, rows)
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
    title, vectors = job.job.title, compute(result.documents[rows])
    return Items(
        title, "document", [names[row] for row in rows.tolist()], vectors, colorings, facts, note=note
    )


TOPICS_SHOWN = 3
"""Other topics that have a line of their own: those that explain most of the document already."""


class _Document(NamedTuple):
    """A document as the factorization has it.

    Attributes
    ----------
    number : int
        Its row.
    title : str
    words : int64 array (m,)
        The rows of its words in the vocabulary.
    counts, weights : float64 arrays (m,)
        How often each word stands in it, and the word's tf-idf.
    factors, shares : float64 arrays (n_topics,)
        Its weights of the topics, as they were computed, and as shares that sum to one.
    label : int
        The topic with the largest share.
    """

    number: int
    title: str
    words: Int64s
    counts: Float64s
    weights: Float64s
    factors: Float64s
    shares: Float64s
    label: int


def explain(job: TopicsJob, workspace: Workspace, request: Request) -> Answer:
    """Explain the weight of a topic in a document, by default of the document's own topic.

    Raises
    ------
    KeyError
        If no document has the id, or there is no such topic.
    ValueError
        If the document holds no word of the vocabulary, or the names are not an id and a topic.
    """
    if len(request.names) > 2:
        raise ValueError(
            f"{len(request.names)} names given: name a document's id and, if you like, the number of a topic"
        )
    document = _document(job, workspace, request.names[0])
    topic = _topic(document, request.names[1:])
    words = np.asarray(compute(outputs.WORD_FACTORS.read(workspace, of="")), np.float64)
    terms = cosine_terms if job.topics.method == "spherical_kmeans" else weight_terms
    found = terms(document.weights, document.words, document.factors, words, topic)
    names = workspace.table("vocabulary")["word"].take(document.words).to_pylist()
    passages, remark = _passages(
        job, workspace, document, dict(zip(names, found.words.tolist(), strict=True)), request
    )
    share = float(document.shares[topic])
    title = f"{request.names[0]}{f' ({document.title})' if document.title else ''}: topic {topic}, {100 * share:.1f} %"
    return Answer(
        title,
        [one for one in (_sentence(job, document, topic), remark) if one],
        {
            "document": request.names[0],
            "topic": topic,
            "share": share,
            "weight": float(document.factors[topic]),
        },
        [_table(document, found, names, words[:, topic], request.n, topic)],
        passages,
    )


def _document(job: TopicsJob, workspace: Workspace, name: str) -> _Document:
    """Return a document by its id."""
    heads = workspace.table("documents")
    ids = heads["id"].to_pylist()
    if name not in ids:
        refuse_unknown("document", name, ids)
    number = ids.index(name)
    row = whole_csr(outputs.TF_IDF.read(workspace)[[number]])
    if not row.nnz:
        raise ValueError(f"the document {name!r} holds no word of the vocabulary, and has no topic")
    counts = whole_csr(outputs.DOCUMENT_TERMS.read(workspace)[[number]])[:, row.indices].toarray()[0]
    factors = np.asarray(compute(outputs.DOCUMENT_FACTORS.read(workspace, of="")[[number]]), np.float64)
    norms = document_norms(job, workspace)
    return _Document(
        number,
        heads["title"][number].as_py() or "",
        row.indices.astype(np.int64),
        counts.astype(np.float64),
        row.data.astype(np.float64),
        factors[0],
        topic_shares(factors, norms)[0],
        int(column_shares(factors, norms)[0, 0]),
    )


def _topic(document: _Document, named: tuple[str, ...]) -> int:
    if not named:
        return max(document.label, 0)
    if not named[0].isdecimal() or int(named[0]) >= len(document.factors):
        raise KeyError(f"there is no topic {named[0]!r}: give a number from 0 to {len(document.factors) - 1}")
    return int(named[0])


def _sentence(job: TopicsJob, document: _Document, topic: int) -> str:
    own = (
        "the document's own topic"
        if topic == document.label
        else f"the document's own topic is {document.label}"
    )
    weight = "cosine with the topic's center" if job.topics.method == "spherical_kmeans" else "weight"
    return (
        f"The {weight} is {document.factors[topic]:.4f} ({own}); it is the sum of "
        f"{plural(len(document.words), 'word')} of the document, less what other topics explain already."
    )


def _table(
    document: _Document, found: WeightTerms, names: list[str], topic_words: Float64s, n: int, topic: int
) -> TermTable:
    """Return the words that carry the weight, and the topics that lower it; the column adds up to the weight."""
    order = np.argsort(-found.words, kind="stable")[:n]
    order = order[found.words[order] > 0]
    total = topic_words.sum() or 1.0
    rows: list[dict[str, Any]] = [
        {
            "word": names[at],
            "term": float(found.words[at]),
            "in document": float(document.counts[at]),
            "tf-idf": float(document.weights[at]),
            "% of topic": 100 * float(topic_words[document.words[at]] / total),
        }
        for at in order
    ]
    rows += [{"word": name, "term": value} for name, value in _other_terms(document, found, order, topic)]
    decimals = {"term": 4, "tf-idf": 3, "% of topic": 2}
    caption = "The terms add up to the weight of the topic in the document."
    return TermTable("words", rows, decimals, caption)


def _other_terms(
    document: _Document, found: WeightTerms, order: Int64s, topic: int
) -> Iterator[tuple[str, float]]:
    """Yield what is summed below the words: other words, other topics, what was not settled, and the weight."""
    n_others = len(found.words) - len(order)
    if n_others:
        yield f"{n_others:,} other words", float(found.words.sum() - found.words[order].sum())
    largest = np.argsort(found.topics, kind="stable")[:TOPICS_SHOWN]
    for other in largest[found.topics[largest] < 0].tolist():
        yield f"less topic {other}", float(found.topics[other])
    if left := float(found.topics.sum() - found.topics[largest].sum()):
        yield "less the other topics", left
    if abs(found.rest) > 1e-6:
        yield "not settled by the rounds", found.rest
    yield f"weight of topic {topic}", float(document.factors[topic])


def _passages(
    job: TopicsJob, workspace: Workspace, document: _Document, weights: dict[str, float], request: Request
) -> tuple[list[Passages], str]:
    if not request.n_passages:
        return [], ""
    heavy = dict(sorted(weights.items(), key=lambda one: -one[1])[: request.n])
    try:
        lines = document_passages(
            titled_tokens(job, workspace),
            document.number,
            {word: weight for word, weight in heavy.items() if weight > 0},
            n=request.n_passages,
        )
    except (KeyError, FileNotFoundError):
        return [], NO_TOKENS
    return ([Passages("where they stand", lines)] if lines else []), ""
