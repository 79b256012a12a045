"""The stages of Semantic-NMF: a collection of documents to counts, tf-idf, positive PMI, topics and scores."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus import Tokens, build_vocabulary
from distembed.corpus.selection import choose_documents, select_documents
from distembed.corpus.stop_words import stop_words_of
from distembed.corpus.vocabulary import choose_words
from distembed.costs import PAIR_BYTES, SCRATCH_FACTOR, Cost
from distembed.counting.documents import count_document_terms
from distembed.pipeline.context import Context, StageSpec, System, sections
from distembed.pipeline.corpus import stages as corpus_stages
from distembed.pipeline.systems.topics.config import TopicsJob
from distembed.pipeline.systems.topics.numbers import number_parameters, plan_number, run_number
from distembed.pipeline.systems.topics.reference import check_coherence, check_semantic, pair_counts
from distembed.pipeline.systems.topics.scoring import plan_evaluation, run_evaluation
from distembed.pipeline.systems.topics.sizes import TopicSizes, largest_block, term_blocks, topic_sizes
from distembed.pipeline.systems.topics.starts import plan_topics, run_topics
from distembed.storage.workspace import Workspace
from distembed.weighting.documents import select_pairs, tf_idf
from distembed.weighting.pmi import ppmi

# --- documents -> tokens -> vocabulary ---------------------------------------------------------------------------


def tokens_of(job: TopicsJob, workspace: Workspace) -> Tokens:
    """Return the token parts of the documents that stay."""
    return corpus_stages.tokens_of(workspace, _tokens_name(job))


def _tokens_name(job: TopicsJob) -> str:
    return "selected_tokens" if job.documents.labels or job.documents.drop_duplicates else "tokens"


def plan_selection(job: TopicsJob, sizes: TopicSizes) -> Cost:  # noqa: ARG001
    """Return the plan of writing the documents that stay."""
    tokens = int(corpus_stages.TOKEN_BYTES * sizes.corpus.n_tokens)
    dictionary = min(corpus_stages.DICTIONARY_BYTES, corpus_stages.ENTRY_BYTES * sizes.corpus.n_entries)
    return Cost(sizes.corpus.n_partitions, tokens, tokens, dictionary, exact="tokens" in sizes.corpus.counted)


def run_selection(ctx: Context) -> dict[str, Any]:
    """Leave out documents of other labels, and duplicates; list those that stay."""
    job: TopicsJob = ctx.job
    every = corpus_stages.tokens_of(ctx.workspace)
    chosen = every
    if _tokens_name(job) != "tokens":
        masks = choose_documents(
            every, labels=job.documents.labels, drop_duplicates=job.documents.drop_duplicates
        )
        make = partial(_select_partition, tokens=every, masks=masks)
        items = ctx.stage.store_files("selected_tokens", len(masks), make, progress=ctx.progress("selection"))
        chosen = Tokens(tuple(item.paths[0].removesuffix(".documents.parquet") for item in items))
    documents = corpus_stages.documents_of(chosen)
    ctx.stage.store_table("documents", documents)
    return {"n_documents": documents.num_rows, "n_read": every.n_documents}


def _select_partition(
    index: int, prefix: str, *, tokens: Tokens, masks: list[NDArray[np.bool_]]
) -> dict[str, int]:
    return select_documents(tokens, tokens.partitions[index], masks[index], prefix)


def run_vocabulary(ctx: Context) -> dict[str, Any]:
    """Choose words that are neither rare, nor in most documents, nor stop words."""
    options = ctx.job.vocabulary
    with corpus_stages.local_scratch(ctx.workspace) as scratch:
        every = build_vocabulary(
            tokens_of(ctx.job, ctx.workspace),
            min_count=options.min_count,
            keep=options.keep,
            words_in_memory=corpus_stages.words_in_memory(ctx.job.resources.block_memory),
            scratch=scratch,
        )
    chosen = choose_words(
        every.words,
        every.document_counts,
        n_documents=ctx.workspace.stages()["selection"].facts["n_documents"],
        min_documents=options.min_documents,
        max_share=options.max_share,
        stop_words=stop_words_of(options.stop_words, file=options.stop_words_file),
        keep=options.keep,
    )
    kept = every.take(chosen[: options.max_size])
    columns = {"word": kept.array, "count": kept.counts, "document_count": kept.document_counts}
    ctx.stage.store_table("vocabulary", pa.table(columns))
    return {"n_words": len(kept), "n_words_before": len(every), "n_tokens_known": int(kept.counts.sum())}


# --- tokens -> documents x words, words x words --------------------------------------------------------------------


def plan_documents(job: TopicsJob, sizes: TopicSizes) -> Cost:
    """Return the plan of counting and weighing the words of documents."""
    terms = PAIR_BYTES * sizes.n_terms
    return corpus_stages.plan_counting(
        sizes.corpus,
        2 * term_blocks(job, sizes),
        written_bytes=2 * terms,
        block_memory=min(job.resources.block_memory, 4 * terms),
    )


def run_documents(ctx: Context) -> dict[str, Any]:
    """Count the words of each document and weigh them by tf-idf, rows of unit length."""
    job: TopicsJob = ctx.job
    vocabulary = corpus_stages.vocabulary_of(ctx.workspace)
    counts = count_document_terms(
        tokens_of(job, ctx.workspace), vocabulary, block_memory=job.resources.block_memory
    )
    dims = ("document", "word")
    stored = ctx.stage.store(
        "document_terms", counts, dims=dims, units="occurrences",
        meaning="How often a document holds a word; rows as documents.parquet, columns as vocabulary.parquet.",
        progress=ctx.progress("document terms"),
    )  # fmt: skip
    weighted = ctx.stage.store(
        "tf_idf", tf_idf(stored, **job.weighting.model_dump()), dims=dims, units="",
        meaning="tf-idf of the words of a document, rows of unit length.", progress=ctx.progress("tf-idf"),
    )  # fmt: skip
    return {"n_nonzero": corpus_stages.count_values(weighted), "n_row_blocks": weighted.numblocks[0]}


def run_partial_counts(ctx: Context) -> dict[str, Any]:
    """Count the word pairs of each part."""
    return corpus_stages.run_partial_counts(ctx, tokens=_tokens_name(ctx.job))


def plan_association(job: TopicsJob, sizes: TopicSizes) -> Cost:
    """Return the plan of positive PMI."""
    return Cost(
        sizes.runs.n_row_blocks,
        PAIR_BYTES * sizes.n_nonzero,
        PAIR_BYTES * sizes.n_associated,
        int(SCRATCH_FACTOR * largest_block(job, sizes)),
        exact=sizes.pairs.exact,
    )


def run_association(ctx: Context) -> dict[str, Any]:
    """Turn pair counts, of the collection or of another workspace, into positive PMI of its words."""
    found = pair_counts(ctx.workspace, ctx.job.semantic.workspace)
    rows = found.vocabulary.index(ctx.workspace.table("vocabulary")["word"]).astype(np.int64)
    if (rows < 0).all():
        raise ValueError(f"no word of the collection is in {ctx.job.semantic.workspace}; check its tokenizer")
    totals = np.where(rows >= 0, found.totals[rows], 0.0)
    counts = found.counts if ctx.job.semantic.workspace is None else select_pairs(found.counts, rows)
    # `ppmi` makes shares of the totals it is given; the words of the collection are not all of another's
    share = float(totals.sum() / found.totals.sum())
    stored = ctx.stage.store(
        "ppmi", ppmi(counts, row_totals=totals, column_totals=totals, negative_samples=share),
        dims=("word", "context_word"), units="nat",
        meaning="Positive pointwise mutual information of two words, not shifted.", progress=ctx.progress("PPMI"),
    )  # fmt: skip
    n_known = int((rows >= 0).sum())
    return {
        "n_nonzero": corpus_stages.count_values(stored),
        "n_known": n_known,
        "n_row_blocks": stored.numblocks[0],
    }


def document_parameters(job: TopicsJob) -> dict[str, Any]:
    """Return the section of weighting and the memory of a block, which lays the grid."""
    return {**sections("weighting")(job), "block_memory": job.resources.block_memory}


def topics_parameters(job: TopicsJob) -> dict[str, Any]:
    """Return the section of topics and the memory of a block, which tells what is whole."""
    return {**sections("topics")(job), "block_memory": job.resources.block_memory}


def evaluation_parameters(job: TopicsJob) -> dict[str, Any]:
    """Return the section of coherence, and what older tables have otherwise: topics from 1 on, p(word) of pairs."""
    return {**sections("coherence")(job), "first_topic": 0, "probabilities": "words"}


def stages(job: TopicsJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job; one more where the number of topics is chosen."""
    selected = ("tokens", "selection", "vocabulary")
    matrices = ("document_terms", "association")
    number: tuple[StageSpec, ...] = ()
    if job.topics.n_topics == "auto":
        number = (StageSpec("n_topics", matrices, number_parameters, run_number, plan_number),)
    return (
        corpus_stages.TOKENS,
        StageSpec("selection", ("tokens",), sections("documents"), run_selection, plan_selection),
        corpus_stages.VOCABULARY._replace(inputs=("tokens", "selection"), run=run_vocabulary),
        StageSpec("document_terms", selected, document_parameters, run_documents, plan_documents),
        corpus_stages.PARTIAL_COUNTS._replace(inputs=selected, run=run_partial_counts),
        corpus_stages.COOCCURRENCE,
        StageSpec(
            "association",
            ("cooccurrence", "vocabulary"),
            sections("semantic"),
            run_association,
            plan_association,
            check_semantic,
        ),
        *number,
        StageSpec(
            "topics",
            (*matrices, *(spec.name for spec in number)),
            topics_parameters,
            run_topics,
            plan_topics,
        ),
        StageSpec(
            "evaluation",
            ("topics", "cooccurrence", "selection"),
            evaluation_parameters,
            run_evaluation,
            plan_evaluation,
            check_coherence,
        ),
    )


SYSTEM = System(
    TopicsJob,
    stages,
    topic_sizes,
    "distembed.pipeline.systems.topics.report",
    "distembed.pipeline.systems.topics.exports",
    "distembed.pipeline.systems.topics.inference",
    explanation="distembed.pipeline.systems.topics.explanation",
    explorer="distembed.pipeline.systems.topics.explorer",
)
