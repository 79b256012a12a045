"""The topics of documents that a topics job has not seen, read as the job has read its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus.partitions import Tokens
from distembed.counting.documents import count_document_terms
from distembed.display import plural
from distembed.execution import compute
from distembed.factorization.clustering import SphericalKMeans
from distembed.factorization.nmf import NMF, SemanticNMF
from distembed.factorization.nmf_blocks import column_shares, topic_shares
from distembed.formats.names import unknown_format
from distembed.job.tables import Numbered, Table, paired, rows_of_blocks, with_numbers
from distembed.stages import corpus as corpus_stages
from distembed.stages.corpus_sections import corpus_of
from distembed.storage.workspace import Workspace
from distembed.systems.topics import outputs
from distembed.systems.topics.descriptions import document_norms
from distembed.systems.topics.job import TopicsJob
from distembed.systems.topics.views import with_topic
from distembed.views.export import table_format, write_table
from distembed.views.inference import NewFiles
from distembed.weighting.documents import tf_idf


def infer(job: TopicsJob, workspace: Workspace, texts: NewFiles) -> str:
    """Write the topics of new documents to a file; see `distembed.views.inference.infer_job`."""
    if any(option is not None for option in (texts.words, texts.min_count, texts.space)):
        raise ValueError(
            "a topics job infers the topics of documents, not words: leave out --words, --min-count and --space"
        )
    chosen = table_format(texts.target)
    if chosen is None:
        raise unknown_format(texts.target, (".parquet", ".csv", ".tsv", ".npy"))
    with inferred_table(job, workspace, texts.paths) as table:
        write_table(texts.target, table, format=chosen)
        return f"{table.contents} in {texts.target}"


@contextmanager
def inferred_table(job: TopicsJob, workspace: Workspace, paths: Iterable[str]) -> Iterator[Table]:
    """Yield the table of new documents: id, title, label, tokens, topic and the weight of each topic.

    The token ids lie in a temporary folder while the table is written; nothing is added to the workspace.

    Raises
    ------
    CorpusError, FileNotFoundError
        If a file cannot be read as the job's `[corpus]` says.
    """
    own = {
        "paths": tuple(paths),
        "metadata": None,
        "path_fields": (),
    }  # the others are those of the job's own files
    corpus = corpus_of(job.corpus.model_copy(update=own))
    model = _model(job, workspace)
    with tempfile.TemporaryDirectory(prefix="distembed-") as folder:
        tokens = corpus.tokenize(folder)
        factors = model.transform(document_weights(job, workspace, tokens))
        n_documents, n_topics = factors.shape
        norms = document_norms(job, workspace)
        documents = (batch for one in tokens.partitions for batch in tokens.documents(one).to_batches())
        pieces = paired(documents, rows_of_blocks(factors))
        schema = with_topic(tokens.documents(tokens.partitions[0]).schema)
        shares = (_with_topics(*piece, norms) for piece in pieces)
        rows = with_numbers(schema, shares, "weight", n_topics, apart=True)
        yield Table(rows, n_documents, f"{plural(n_documents, 'document')} and {plural(n_topics, 'topic')}")


def document_weights(job: TopicsJob, workspace: Workspace, tokens: Tokens) -> da.Array:
    """Return the tf-idf of new documents by the words and the document frequencies of a job."""
    vocabulary = corpus_stages.vocabulary_of(workspace)
    counts = count_document_terms(tokens, vocabulary)
    return tf_idf(
        counts,
        frequencies=vocabulary.document_counts,
        n_documents=outputs.TF_IDF.read(workspace).shape[0],
        **job.weighting.model_dump(),
    )


def _model(job: TopicsJob, workspace: Workspace) -> Any:
    """Return the fitted model of the job's own method."""
    if job.topics.method != "spherical_kmeans":
        kind: type[NMF | SemanticNMF] = SemanticNMF if job.topics.method == "semantic_nmf" else NMF
        return kind.from_workspace(workspace, job.topics.method)
    centers = compute(outputs.WORD_FACTORS.read(workspace, of="")).astype(np.float64).T
    model = SphericalKMeans(len(centers))
    model.cluster_centers_, model.n_features_in_ = centers, centers.shape[1]
    return model


def _with_topics(
    documents: pa.RecordBatch, weights: NDArray[np.float32], norms: NDArray[np.float64]
) -> Numbered:
    """Return documents with the topic of the largest weight, and their weights as shares."""
    topics = pa.array(column_shares(weights, norms).ravel().astype(np.int64))
    columns = pa.record_batch([*documents.columns, topics], schema=with_topic(documents.schema))
    return columns, topic_shares(weights, norms).astype(np.float32)
