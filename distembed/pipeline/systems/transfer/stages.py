"""The stages of topic transfer: two collections and known pairs to topics of the second one."""

from __future__ import annotations

from distembed.pipeline.context import StageSpec, System, sections
from distembed.pipeline.corpus.collections import (
    ParallelSizes,
    check_collections,
    check_pairs,
    check_stop_words,
    check_vectors,
    parallel_sizes,
    run_side_tokens,
    run_terms,
    side_parameters,
    term_parameters,
)
from distembed.pipeline.corpus.stages import (
    DICTIONARY_BYTES,
    LOOKUP_BYTES,
    VOCABULARY_BYTES,
    merging_bytes,
)
from distembed.pipeline.plan import StagePlan
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.pipeline.systems.transfer.embedding import plan_embedding, run_embedding
from distembed.pipeline.systems.transfer.evaluation import plan_evaluation, run_evaluation
from distembed.pipeline.systems.transfer.graphs import (
    graph_parameters,
    link_parameters,
    plan_graphs,
    plan_links,
    plan_pairs,
    run_graphs,
    run_links,
    run_pairs,
)
from distembed.pipeline.systems.transfer.rows import plan_vectors, run_vectors, vector_parameters
from distembed.pipeline.systems.transfer.sizes import n_chunks, term_bytes
from distembed.pipeline.systems.transfer.topics import plan_topics, run_topics


def plan_tokens(job: TransferJob, sizes: ParallelSizes) -> StagePlan:
    """Return the plan of tokenizing both collections."""
    text = min(job.first.partition_bytes, sizes.input_bytes)
    task = 2 * text + DICTIONARY_BYTES
    return StagePlan(sizes.n_partitions, 2 * sizes.input_bytes, 4 * term_bytes(sizes), task)


def plan_terms(job: TransferJob, sizes: ParallelSizes) -> StagePlan:
    """Return the plan of choosing words and weighing documents."""
    terms, block = term_bytes(sizes), job.resources.block_memory
    choosing = merging_bytes(sizes.n_words, block) + (VOCABULARY_BYTES + LOOKUP_BYTES) * sizes.n_words
    return StagePlan(n_chunks(job, sizes), 4 * terms, terms, block + choosing, exact=sizes.exact)


def stages(job: TransferJob) -> tuple[StageSpec, ...]:  # noqa: ARG001 - the same for every job
    """Return the stages of a job."""
    judged = sections("evaluation", "alignment")
    return (
        StageSpec("tokens", (), side_parameters, run_side_tokens, plan_tokens, check_collections),
        StageSpec("terms", ("tokens",), term_parameters, run_terms, plan_terms, check_stop_words),
        StageSpec("vectors", ("terms",), vector_parameters, run_vectors, plan_vectors, check_vectors),
        StageSpec("topics", ("tokens", "terms"), sections("topics"), run_topics, plan_topics),
        StageSpec("pairs", ("terms",), sections("pairs"), run_pairs, plan_pairs, check_pairs),
        StageSpec("graphs", ("terms", "vectors"), graph_parameters, run_graphs, plan_graphs),
        StageSpec("links", ("vectors", "pairs"), link_parameters, run_links, plan_links),
        StageSpec(
            "embedding", ("topics", "graphs", "links"), sections("alignment"), run_embedding, plan_embedding
        ),
        StageSpec("evaluation", ("embedding", "pairs"), judged, run_evaluation, plan_evaluation),
    )


SYSTEM = System(
    TransferJob,
    stages,
    parallel_sizes,
    "distembed.pipeline.systems.transfer.report",
    "distembed.pipeline.systems.transfer.exports",
    explorer="distembed.pipeline.systems.transfer.explorer",
)
