"""What a topics job gives of a finished workspace: tables, the topics of new documents, a page, and reasons.

Why a document has its topic: the words that carry its weight, term by term, and where they stand. Each word of the
document brings its term, and each other topic takes what it explains already: see
`distembed.factorization.document_factors.weight_terms`. Of spherical k-means the weight is the cosine with the center.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.corpus.concordance import document_passages
from distembed.counting.documents import count_document_terms
from distembed.display import plural
from distembed.dtypes import Float64s, Floats, Int64s
from distembed.execution import compute
from distembed.factorization.clustering import SphericalKMeans
from distembed.factorization.document_factors import column_shares, topic_shares, weight_terms
from distembed.formats.names import unknown_format
from distembed.job.tables import (
    MakeTable,
    Numbered,
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
from distembed.stages.corpus_sections import corpus_of
from distembed.storage.workspace import Workspace
from distembed.systems.topics import outputs
from distembed.systems.topics.descriptions import MOST_VALUES, Topics, classes_of, heaviest_words
from distembed.systems.topics.job import TopicsJob
from distembed.systems.topics.stages import ESTIMATORS
from distembed.views.answers import Answer
from distembed.views.explain import NO_TOKENS, Request, refuse_unknown
from distembed.views.explorer.items import MAX_POINTS, Items, by_category
from distembed.views.export import table_format, write_table
from distembed.views.report.page import Passages, ShownTable
from distembed.views.texts import NewFiles
from distembed.weighting.documents import tf_idf

# --- tables ----------------------------------------------------------------------------------------------------------


def documents_table(job: TopicsJob, workspace: Workspace) -> Table:
    """Return every document with its topic by the job's own method, and the share of each topic in it."""
    own = Topics(job, workspace)
    batches = workspace.batches("documents")
    return _documents(workspace.schema("documents"), batches, own.documents, own.norms, own.labels)


def _documents(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    factors: da.Array,
    norms: Float64s,
    labels: Int64s | None = None,
) -> Table:
    """Return documents with their topics, by default those of the largest weight, and their weights as shares."""
    wider = pa.schema([*schema, pa.field("topic", pa.int64())])

    def pieces() -> Iterator[Numbered]:
        first = 0
        for columns, block in paired(batches, rows_of_blocks(factors)):
            topics = (
                column_shares(block, norms).ravel() if labels is None else labels[first : first + len(block)]
            )
            wide = pa.record_batch([*columns.columns, pa.array(topics.astype(np.int64))], schema=wider)
            yield wide, topic_shares(block, norms).astype(np.float32)
            first += len(block)

    n_documents, n_topics = factors.shape
    rows = with_numbers(wider, pieces(), "weight", n_topics, apart=True)
    return Table(rows, n_documents, f"{plural(n_documents, 'document')} and {plural(n_topics, 'topic')}")


TOPIC_COLUMNS = {
    "topic": pa.int64(),
    "n_documents": pa.int64(),
    "pmi": pa.float64(),
    "npmi": pa.float64(),
    "found_again": pa.float64(),
    "stands_out": pa.string(),
}
"""What a topic is known by, the same in all its rows."""

WORD_COLUMNS = {"rank": pa.int64(), "word": pa.string(), "weight": pa.float64(), "telling_word": pa.string()}
"""What the words of a topic at a rank are known by."""

SHARE_COLUMNS = {
    "column": pa.string(),
    "value": pa.string(),
    "n_documents": pa.int64(),
    "n_sources": pa.int64(),
    "topic": pa.int64(),
    "share": pa.float64(),
    "low": pa.float64(),
    "high": pa.float64(),
}
"""The columns of the table of shares."""


def topics_table(job: TopicsJob, workspace: Workspace) -> Table:
    """Return the words of every topic of the job's own method, a row per rank: a heavy and a telling one."""
    own = Topics(job, workspace)
    factors = own.words.astype(np.float64)
    shares = factors / np.where(factors.sum(axis=0) > 0, factors.sum(axis=0), 1)
    vocabulary = corpus_stages.vocabulary_of(workspace)
    rows = []
    for number, topic in enumerate(own.described):
        known = topic | {"topic": number, "stands_out": "; ".join(topic["parts"])}
        pairs = zip_longest(topic["words"], topic["telling"][: len(topic["words"])])
        for rank, (word, telling) in enumerate(pairs, 1):
            weight = float(shares[vocabulary.index([word])[0], number])
            own_words = {"rank": rank, "word": word, "weight": weight, "telling_word": telling}
            rows.append({name: known[name] for name in TOPIC_COLUMNS} | own_words)
    n_words = max((len(row["words"]) for row in own.rows), default=0)
    contents = f"{plural(len(own.rows), 'topic')} with up to {plural(n_words, 'word')} each"
    return table_of(pa.Table.from_pylist(rows, pa.schema(TOPIC_COLUMNS | WORD_COLUMNS)), contents)


def shares_table(job: TopicsJob, workspace: Workspace) -> Table:
    """Return the mean share of every topic by every value of a column, with its interval."""
    own = Topics(job, workspace)
    found = own.shares_by_column()
    if not found:
        raise ValueError(
            f"the documents of {workspace.url} have no column of 2 to {MOST_VALUES} values: give corpus.label_field, "
            "corpus.carry_fields, corpus.path_fields or corpus.metadata"
        )
    rows = []
    for name, shares in found.items():
        sizes = zip(shares.values, shares.n_documents.tolist(), shares.n_sources.tolist(), strict=True)
        for place, known in enumerate(sizes):
            for topic, share in enumerate(shares.means[place].tolist()):
                ends = shares.ends(place, topic) or (None, None)
                rows.append(dict(zip(SHARE_COLUMNS, (name, *known, topic, share, *ends), strict=True)))
    return table_of(
        pa.Table.from_pylist(rows, pa.schema(SHARE_COLUMNS)), f"{plural(len(rows), 'share')} of topics"
    )


TABLES: dict[str, MakeTable] = {
    "documents": documents_table,
    "topics": topics_table,
    "shares": shares_table,
    "words": words_table,
}
"""What a topics job exports, by the name that `--what` takes."""


# --- new documents ---------------------------------------------------------------------------------------------------


def infer(job: TopicsJob, workspace: Workspace, texts: NewFiles) -> str:
    """Write the topics of new documents to a file; see `distembed.views.texts.infer_job`.

    The documents are read as the job has read its own. Their token ids lie in a temporary folder while the table is
    written; nothing is added to the workspace.

    Raises
    ------
    CorpusError, FileNotFoundError
        If a file cannot be read as the job's `[corpus]` says.
    """
    if any(option is not None for option in (texts.words, texts.min_count, texts.space)):
        raise ValueError(
            "a topics job infers the topics of documents, not words: leave out --words, --min-count and --space"
        )
    chosen = table_format(texts.target)
    if chosen is None:
        raise unknown_format(texts.target, (".parquet", ".csv", ".tsv", ".npy"))
    own, kind = Topics(job, workspace), ESTIMATORS[job.topics.method][0]
    if kind is SphericalKMeans:
        model = kind(own.words.shape[1])
        model.cluster_centers_, model.n_features_in_ = own.words.astype(np.float64).T, len(own.words)
    else:
        model = kind.from_workspace(workspace, job.topics.method)
    vocabulary = corpus_stages.vocabulary_of(workspace)
    tokens = corpus_of(texts.section_of(job.corpus)).tokenize()
    weights = tf_idf(
        count_document_terms(tokens, vocabulary),
        frequencies=vocabulary.document_counts,
        n_documents=outputs.TF_IDF.read(workspace).shape[0],
        **job.weighting.model_dump(),
    )
    batches = (batch for one in tokens.partitions for batch in tokens.documents(one).to_batches())
    schema = tokens.documents(tokens.partitions[0]).schema
    table = _documents(schema, batches, model.transform(weights), own.norms)
    write_table(texts.target, table, format=chosen)
    return f"{table.contents} in {texts.target}"


# --- the page to explore ---------------------------------------------------------------------------------------------

WORDS_SHOWN = 12
"""Words of a document, and of its topic."""


def items(job: TopicsJob, workspace: Workspace, *, n_points: int = MAX_POINTS) -> Items:
    """Return the documents of a finished workspace that have a topic, evenly from first to last."""
    own = Topics(job, workspace)
    has_weight = np.concatenate([block.any(axis=1) for block in rows_of_blocks(own.documents)])
    filled = np.flatnonzero((own.labels >= 0) & has_weight)
    rows = filled[evenly_spaced(filled.size, n_points)]
    topics = [own.described[topic] for topic in own.labels[rows].tolist()]
    colorings = [by_category("topic", [topic["name"] for topic in topics])]
    classes = classes_of(workspace)
    if classes is not None:
        colorings.append(by_category("label", [str(classes[row] or "none") for row in rows]))
    names = own.names_of(rows)
    facts = {
        "document": workspace.table("documents")["id"].take(rows).to_pylist(),
        "its words": heaviest_words(workspace, rows, WORDS_SHOWN),
        "words of the topic": [", ".join(topic["words"][:WORDS_SHOWN]) for topic in topics],
    }
    left_out = len(own.labels) - rows.size
    verb = "is" if left_out == 1 else "are"
    note = f"{plural(left_out, 'document')} more {verb} not shown." if left_out else ""
    called, vectors = [names[row] for row in rows.tolist()], compute(own.documents[rows])
    return Items(job.job.title, "document", called, vectors, colorings, facts, note=note)


# --- why a document has its topic ------------------------------------------------------------------------------------

TOPICS_SHOWN = 3
"""Other topics that have a line of their own: those that explain most of the document already."""


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
    own, documents = Topics(job, workspace), workspace.table("documents")
    name, ids = request.names[0], documents["id"].to_pylist()
    if name not in ids:
        refuse_unknown("document", name, ids)
    number = ids.index(name)
    row = whole_csr(outputs.TF_IDF.read(workspace)[[number]])
    if not row.nnz:
        raise ValueError(f"the document {name!r} holds no word of the vocabulary, and has no topic")
    rows, values = row.indices.astype(np.int64), row.data.astype(np.float64)
    counts = whole_csr(outputs.DOCUMENT_TERMS.read(workspace)[[number]])[:, rows].toarray()[0]
    factors = np.asarray(compute(own.documents[[number]]), np.float64)
    label = topic = max(int(column_shares(factors, own.norms)[0, 0]), 0)
    if request.names[1:]:
        if not request.names[1].isdecimal() or int(request.names[1]) >= factors.size:
            raise KeyError(
                f"there is no topic {request.names[1]!r}: give a number from 0 to {factors.size - 1}"
            )
        topic = int(request.names[1])
    words, by_cosine = own.words.astype(np.float64), job.topics.method == "spherical_kmeans"
    terms, topics, rest = weight_terms(values, rows, factors[0], words, topic, by_cosine=by_cosine)
    weight, share = float(factors[0, topic]), float(topic_shares(factors, own.norms)[0, topic])
    order = np.argsort(-terms, kind="stable")[: request.n]
    order = order[terms[order] > 0]
    columns = {
        "word": np.array(workspace.table("vocabulary")["word"].take(rows).to_pylist(), object),
        "term": terms,
        "in document": counts.astype(np.float64),
        "tf-idf": values,
        "% of topic": 100 * (words[rows, topic] / (words[:, topic].sum() or 1.0)),
    }
    table = [{name: column[at] for name, column in columns.items()} for at in order.tolist()]
    passages, remarks = list[Passages](), list[str]()
    if request.n_passages:
        weights = {row["word"]: row["term"] for row in table}
        try:
            tokens = corpus_stages.titled_tokens(workspace, outputs.tokens_output(job))
            lines = document_passages(tokens, number, weights, n=request.n_passages)
            passages = [Passages("where they stand", lines)] if lines else []
        except (KeyError, FileNotFoundError):
            remarks = [NO_TOKENS]
    unlisted = float(terms.sum() - terms[order].sum()), len(terms) - len(order)
    others = [*_other_terms(*unlisted, topics, rest), (f"weight of topic {topic}", weight)]
    table += [{"word": line, "term": value} for line, value in others]
    caption = "The terms add up to the weight of the topic in the document."
    what = "cosine with the topic's center" if by_cosine else "weight"
    whose = "the document's own topic" if topic == label else f"the document's own topic is {label}"
    sentence = (
        f"The {what} is {weight:.4f} ({whose}); it is the sum "
        f"of {plural(len(rows), 'word')} of the document, less what other topics explain already."
    )
    title = documents["title"][number].as_py() or ""
    return Answer(
        f"{name}{f' ({title})' if title else ''}: topic {topic}, {100 * share:.1f} %",
        [sentence, *remarks],
        {"document": name, "topic": topic, "share": share, "weight": weight},
        [ShownTable("words", table, {"term": 4, "tf-idf": 3, "% of topic": 2}, caption)],
        passages,
    )


def _other_terms(words: float, n_words: int, topics: Floats, rest: float) -> Iterator[tuple[str, float]]:
    """Yield what is summed below the words of a document: other words, other topics, and what was not settled."""
    if n_words:
        yield f"{n_words:,} other words", words
    largest = np.argsort(topics, kind="stable")[:TOPICS_SHOWN]
    for other in largest[topics[largest] < 0].tolist():
        yield f"less topic {other}", float(topics[other])
    if left := float(topics.sum() - topics[largest].sum()):
        yield "less the other topics", left
    if abs(rest) > 1e-6:
        yield "not settled by the rounds", rest
