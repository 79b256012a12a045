"""The stage of topic transfer that learns the topics of the first collection."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus import Tokens
from distembed.costs import Cost
from distembed.counting.cooccurrence import count_cooccurrences
from distembed.counting.documents import count_document_terms
from distembed.execution import compute
from distembed.factorization.lda import check_gensim, online_lda
from distembed.factorization.nmf import NMF, SemanticNMF
from distembed.pipeline.context import Context
from distembed.pipeline.corpus.collections import ParallelSizes, side_vocabulary, token_partitions
from distembed.pipeline.systems.transfer.arrays import store_memory
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.pipeline.systems.transfer.sizes import n_chunks, term_bytes
from distembed.weighting.pmi import ppmi

Floats = NDArray[np.float64]


TOP_WORDS = 10
"""Words that name a topic in tables."""

LDA_COPIES = 8
"""Copies of the weights of words in topics that a step of online LDA holds."""
LDA_BATCH_BYTES = 50 << 20
"""Memory of the documents of one step of online LDA, as lists of numbers and counts of words."""


def plan_topics(job: TransferJob, sizes: ParallelSizes) -> Cost:
    """Return the plan of learning the topics of the first collection."""
    topics, n_iter = 4 * sizes.n_first * job.topics.n_topics, job.topics.n_iter
    task = job.resources.block_memory + 3 * topics
    if job.topics.method == "lda":
        task += LDA_COPIES * 4 * sizes.n_words * job.topics.n_topics + LDA_BATCH_BYTES
    n_tasks = 3 * n_iter * n_chunks(job, sizes)
    return Cost(n_tasks, n_iter * term_bytes(sizes), topics, task, exact=sizes.exact)


def check_topics(job: TransferJob) -> list[str]:
    """Raise an error if the method needs a package that is not installed."""
    if job.topics.method == "lda":
        check_gensim()
    return []


def run_topics(ctx: Context) -> dict[str, Any]:
    """Learn the topics of the first collection and the share of each in its documents."""
    makers = {"nmf": _nmf_topics, "semantic_nmf": _semantic_topics, "lda": _lda_topics}
    proportions, word_weights, objective = makers[ctx.job.topics.method](ctx)
    meaning = "Share of a topic in a document; rows sum to one, NaN: the document has no known word."
    store_memory(ctx, "topics", proportions.astype(np.float32), ("document", "topic"), meaning)
    words = np.array(ctx.workspace.table("first_vocabulary")["word"].to_pylist(), object)
    top = np.argsort(-word_weights, axis=0, kind="stable")[:TOP_WORDS].T
    share = np.nanmean(proportions, axis=0)
    ctx.stage.store_table(
        "topic_words", pa.table({"topic": np.arange(len(top)), "share": share, "words": words[top].tolist()})
    )
    ctx.stage.store_table("topic_objective", pa.table({"objective": np.asarray(objective, np.float64)}))
    return {"n_rounds": len(objective)}


def _nmf_topics(ctx: Context) -> tuple[Floats, Floats, Any]:
    options = ctx.job.topics
    model = NMF(
        options.n_topics,
        n_iter=options.n_iter,
        random_state=options.random_state,
        checkpoint=ctx.stage.checkpoint,
    ).fit(ctx.workspace.array("first_terms"))
    return proportions_of(model.document_factors_, model.word_factors_), model.word_factors_, model.objective_


def _semantic_topics(ctx: Context) -> tuple[Floats, Floats, Any]:
    options, block = ctx.job.topics, ctx.job.resources.block_memory
    counts = count_cooccurrences(
        Tokens(token_partitions(ctx.workspace, "first")),
        side_vocabulary(ctx.workspace, "first"),
        window=options.window,
        block_memory=block,
    )
    model = SemanticNMF(
        options.n_topics,
        n_iter=options.n_iter,
        random_state=options.random_state,
        checkpoint=ctx.stage.checkpoint,
    ).fit(ctx.workspace.array("first_terms"), ppmi(counts))
    return proportions_of(model.document_factors_, model.word_factors_), model.word_factors_, model.objective_


def _lda_topics(ctx: Context) -> tuple[Floats, Floats, Any]:
    options = ctx.job.topics
    tokens = Tokens(token_partitions(ctx.workspace, "first"))
    words = side_vocabulary(ctx.workspace, "first")
    make = partial(count_document_terms, tokens, words, block_memory=ctx.job.resources.block_memory)
    found = online_lda(
        ctx.stage.checkpoint("counts", make),
        options.n_topics,
        n_passes=options.n_iter,
        random_state=options.random_state,
        checkpoint=ctx.stage.checkpoint,
    )
    shares: Floats = compute(found.shares).astype(np.float64)
    return shares, found.word_weights.astype(np.float64), found.likelihood


def proportions_of(document_factors: Any, word_factors: Any) -> Floats:
    """Return the share of each topic in the weight of each document, (n × k), NaN for documents without any.

    z_ik ‖w_k‖₁ / Σ_k z_ik ‖w_k‖₁: columns of words are brought to sum one, as the topics of LDA are.
    """
    Z = np.asarray(document_factors, np.float64) * np.asarray(word_factors, np.float64).sum(axis=0)
    sums = Z.sum(axis=1, keepdims=True)
    return np.divide(Z, sums, out=np.full_like(Z, np.nan), where=sums > 0)
