"""The stage of scores: topics judged by the labels that documents came with, and by pairs of words in a reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from distembed.costs import PAIR_BYTES, Cost
from distembed.evaluation.documents import clustering_scores, topic_coherence
from distembed.execution import compute
from distembed.factorization.nmf_blocks import list_words
from distembed.pipeline.context import Context
from distembed.pipeline.systems.topics.config import Method, TopicsJob
from distembed.pipeline.systems.topics.reference import pair_counts
from distembed.pipeline.systems.topics.results import classes_of, factor_names, kept_labels, rows_of
from distembed.pipeline.systems.topics.sizes import TopicSizes, largest_block


def plan_evaluation(job: TopicsJob, sizes: TopicSizes) -> Cost:
    """Return the plan of the scores: the counts of the reference are read."""
    task = largest_block(job, sizes) + 2**26
    return Cost(sizes.runs.n_row_blocks, PAIR_BYTES * sizes.n_nonzero, 2**14, task, exact=sizes.pairs.exact)


def run_evaluation(ctx: Context) -> dict[str, Any]:
    """Judge every start by the labels that came with the documents, and top words by pairs in a reference."""
    methods = ctx.job.topics.methods
    scores = [row for method in methods for row in _label_scores(ctx, method)]
    ctx.stage.store_table("scores", pa.Table.from_pylist(scores, schema=_score_columns()))
    topics = [row for method in methods for row in _topic_rows(ctx, method)]
    reference = pair_counts(ctx.workspace, ctx.job.coherence.workspace)
    ids = [reference.vocabulary.index(row["words"]).tolist() for row in topics]
    coherence = topic_coherence(
        ids, reference.counts, reference.totals, word_counts=reference.vocabulary.counts
    )
    columns = {name: values.tolist() for name, values in coherence._asdict().items()}
    rows = [row | {name: columns[name][k] for name in columns} for k, row in enumerate(topics)]
    ctx.stage.store_table("topics", pa.Table.from_pylist(rows))
    return {"n_scored": len(scores)}


def _score_columns() -> pa.Schema:
    numbers = ("loss", "nmi", "ari", "accuracy", "purity")
    return pa.schema({"method": pa.string(), "start": pa.int64()} | dict.fromkeys(numbers, pa.float64()))


def _label_scores(ctx: Context, method: Method) -> list[dict[str, Any]]:
    classes = classes_of(ctx.workspace)
    if classes is None:
        return []
    known = np.array([label is not None for label in classes])
    truth = classes[known].astype(str)
    labels = ctx.workspace.array("labels")
    return [
        {"method": method, "start": row.start, "loss": row.loss}
        | clustering_scores(truth, np.asarray(compute(labels[place]))[known])._asdict()
        for place, row in rows_of(ctx.workspace, method).items()
    ]


def _topic_rows(ctx: Context, method: Method) -> list[dict[str, Any]]:
    """Return, for each topic that is kept, its number from 0 on, its size and its top words."""
    vocabulary = ctx.workspace.table("vocabulary")
    words = vocabulary["word"].to_pylist()
    shares = vocabulary["document_count"].to_numpy() / ctx.workspace.array("tf_idf").shape[0]
    factors = compute(ctx.workspace.array(factor_names(ctx.job, method)[0]))
    options = ctx.job.coherence
    # the factors of the other methods are weights of tf-idf, in which frequent words are large already
    power = options.frequency_weight if method == "semantic_nmf" else 0.0
    order = list_words(factors, shares, options.n_words, frequency_weight=power)
    labels = kept_labels(ctx.workspace, method)
    sizes = np.bincount(labels[labels >= 0], minlength=len(order)).tolist()
    return [
        {
            "method": method,
            "topic": topic,
            "n_documents": sizes[topic],
            "words": [words[row] for row in column if factors[row, topic] > 0],
        }
        for topic, column in enumerate(order)
    ]
