"""The stages of topic transfer: documents, of which some have topics or features, to those of the others."""

from __future__ import annotations

from distembed.costs import Cost
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
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.pipeline.systems.transfer.embedding import plan_embedding, run_embedding
from distembed.pipeline.systems.transfer.evaluation import plan_evaluation, run_evaluation
from distembed.pipeline.systems.transfer.features import (
    check_features,
    feature_parameters,
    fit_parameters,
    has_topics,
    known_name,
    plan_features,
    run_features,
)
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
from distembed.pipeline.systems.transfer.hold_out import plan_hold_out, run_hold_out
from distembed.pipeline.systems.transfer.rows import plan_vectors, run_vectors, vector_parameters
from distembed.pipeline.systems.transfer.sizes import n_chunks, term_bytes
from distembed.pipeline.systems.transfer.topics import check_topics, plan_topics, run_topics


def plan_tokens(job: TransferJob, sizes: ParallelSizes) -> Cost:
    """Return the plan of tokenizing both collections."""
    text = min(job.first.partition_bytes, sizes.input_bytes)
    task = 2 * text + DICTIONARY_BYTES
    return Cost(sizes.n_partitions, 2 * sizes.input_bytes, 4 * term_bytes(sizes), task)


def plan_terms(job: TransferJob, sizes: ParallelSizes) -> Cost:
    """Return the plan of choosing words and weighing documents."""
    terms, block = term_bytes(sizes), job.resources.block_memory
    choosing = merging_bytes(sizes.n_words, block) + (VOCABULARY_BYTES + LOOKUP_BYTES) * sizes.n_words
    return Cost(n_chunks(job, sizes), 4 * terms, terms, block + choosing, exact=sizes.exact)


def stages(job: TransferJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job: pairs and links of documents only where there are two collections."""
    fit = fit_parameters("alignment")
    judge = fit_parameters("evaluation", "alignment")
    pairs = StageSpec("pairs", ("terms",), sections("pairs"), run_pairs, plan_pairs, check_pairs)
    links = StageSpec("links", ("vectors", "pairs"), link_parameters, run_links, plan_links)
    fitted = (known_name(job), "graphs", "links")
    found = (
        StageSpec("tokens", (), side_parameters, run_side_tokens, plan_tokens, check_collections),
        StageSpec("terms", ("tokens",), term_parameters, run_terms, plan_terms, check_stop_words),
        pairs,  # before all that takes long: an id that occurs twice, or a faulty file of pairs, is found here
        StageSpec("vectors", ("terms",), vector_parameters, run_vectors, plan_vectors, check_vectors),
        _values_stage(job),
        StageSpec("graphs", ("terms", "vectors"), graph_parameters, run_graphs, plan_graphs),
        links,
        StageSpec("embedding", fitted, fit, run_embedding, plan_embedding),
        StageSpec("evaluation", ("embedding", "pairs"), judge, run_evaluation, plan_evaluation),
    )
    return found if job.second is not None else _of_one_collection(found)


def _values_stage(job: TransferJob) -> StageSpec:
    """Return the stage that finds what is carried: topics, or the values of a table."""
    if has_topics(job):
        return StageSpec(
            "topics", ("tokens", "terms"), sections("topics"), run_topics, plan_topics, check_topics
        )
    return StageSpec("features", ("terms",), feature_parameters, run_features, plan_features, check_features)


def _of_one_collection(stages: tuple[StageSpec, ...]) -> tuple[StageSpec, ...]:
    """Return the stages without those that join two collections, and with the evaluation of one."""
    gone = {"pairs", "links"}
    rest = [
        spec._replace(inputs=tuple(name for name in spec.inputs if name not in gone))
        for spec in stages
        if spec.name not in gone
    ]
    return (*rest[:-1], rest[-1]._replace(run=run_hold_out, plan=plan_hold_out))


SYSTEM = System(
    TransferJob,
    stages,
    parallel_sizes,
    "distembed.pipeline.systems.transfer.report",
    "distembed.pipeline.systems.transfer.exports",
    explorer="distembed.pipeline.systems.transfer.explorer",
)
