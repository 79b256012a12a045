"""What a topics job will take, before anything runs."""

from __future__ import annotations

from distembed.pipeline.plan import (
    PART_DICTIONARY_BYTES,
    SCRATCH_FACTOR,
    Plan,
    Sizes,
    StagePlan,
    corpus_plans,
    counting_plan,
    pair_sizes,
    sizes_in_words,
)
from distembed.pipeline.topics.config import TopicsJob
from distembed.pipeline.topics.stages import VALUE_BYTES
from distembed.storage.workspace import Workspace

DISTINCT_SHARE = 0.55
"""Distinct words of a document over its tokens: 0.32 in long articles, 0.8 in abstracts; documents of news between."""

CONTENT_SHARE = 0.55
"""Tokens that are words of the vocabulary over all: the rest are stop words (English text: 0.5 to 0.6)."""


def topics_plan(job: TopicsJob, workspace: Workspace | None = None) -> Plan:
    """Return the plan of a job; what committed stages of `workspace` have counted is not estimated."""
    sizes = pair_sizes(job, workspace)
    done = workspace.stages() if workspace is not None else {}
    n_terms = int(DISTINCT_SHARE * CONTENT_SHARE * sizes.corpus.n_tokens)
    if "document_terms" in done:
        n_terms = int(done["document_terms"].facts["n_nonzero"])
    n_pairs = sizes.n_nonzero
    if "association" in done:
        n_pairs = int(done["association"].facts["n_nonzero"])
    return Plan(
        job,
        f"{sizes_in_words(sizes)}, {n_terms:,} document terms",
        planned_stages(job, sizes, n_terms, n_pairs),
    )


def planned_stages(job: TopicsJob, sizes: Sizes, n_terms: int, n_pairs: int) -> tuple[StagePlan, ...]:
    """Return the lines of a plan for given numbers of document terms and of associated pairs of words."""
    block, k = job.resources.block_memory, job.topics.n_topics
    terms, pairs, counts = VALUE_BYTES * n_terms, VALUE_BYTES * n_pairs, VALUE_BYTES * sizes.n_nonzero
    tokens = int(2.2 * sizes.corpus.n_tokens)
    corpus = corpus_plans(job, sizes.corpus)
    exact = {"document_terms", "association"} <= sizes.corpus.counted
    n_blocks = max(1, -(-12 * sizes.n_nonzero // (block // 8)))
    n_term_blocks = max(sizes.corpus.n_splits, -(-32 * sizes.corpus.n_tokens // block))
    largest = min(block // 4, counts)
    words = 8 * sizes.corpus.n_words * k
    rounds = job.topics.n_iter * job.topics.n_starts
    small = terms <= block and pairs <= block
    held = terms + pairs if small else largest
    # a round: two products and a sum of squares for each block of documents, one product for each of words, and sums
    tasks = 1 if small else (4 * n_term_blocks + 2 * n_blocks) * job.topics.n_iter * job.topics.n_starts
    return (
        corpus["tokens"],
        StagePlan("selection", sizes.corpus.n_splits, tokens, tokens, PART_DICTIONARY_BYTES),
        corpus["vocabulary"],
        counting_plan(
            "document_terms",
            sizes.corpus,
            2 * n_term_blocks,
            written_bytes=2 * terms,
            block_memory=min(block, 4 * terms),
        ),
        counting_plan(
            "partial_counts",
            sizes.corpus,
            sizes.corpus.n_splits,
            written_bytes=int(1.5 * counts),
            block_memory=block,
        ),
        StagePlan("cooccurrence", n_blocks, int(1.5 * counts), counts, block),
        StagePlan("association", n_blocks, counts, pairs, int(SCRATCH_FACTOR * largest), exact=sizes.exact),
        StagePlan(
            "topics", tasks, rounds * (terms + pairs), words, 3 * held + 6 * words, graphs=rounds, exact=exact
        ),
        StagePlan("evaluation", n_blocks, counts, 2**14, largest + 2**26, exact=sizes.exact),
    )
