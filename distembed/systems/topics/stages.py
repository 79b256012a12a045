"""The stages of Semantic-NMF: a collection of documents to counts, tf-idf, positive PMI, topics and scores."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.corpus.partitions import Tokens
from distembed.corpus.selection import choose_documents, select_documents
from distembed.corpus.vocabulary import Vocabulary
from distembed.counting.documents import count_document_terms
from distembed.display import plural
from distembed.dtypes import Floats, Mask
from distembed.evaluation.documents import clustering_scores, topic_coherence
from distembed.execution import compute
from distembed.factorization.clustering import check_n_clusters
from distembed.factorization.nmf_blocks import list_words, subtract_shift
from distembed.job.model import check_figures
from distembed.job.outputs import FilesOutput, declared_in
from distembed.job.stage import Context, StageSpec, System, sections
from distembed.lift import lift
from distembed.linalg.operators import count_values, transpose_row_blocks
from distembed.neighbors.cosine_blocks import tile_candidates
from distembed.neighbors.graph_blocks import union_rows
from distembed.neighbors.graphs import affinity_rows
from distembed.plan import Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages import corpus as corpus_stages
from distembed.stages import outputs as corpus_outputs
from distembed.stages.dimensions import PAIR_BYTES
from distembed.stages.kept_matrices import kept_stages
from distembed.storage.workspace import Workspace
from distembed.systems.topics import outputs
from distembed.systems.topics.job import IN_PAPER, OF_GRAPH, PRESETS, Method, TopicsJob
from distembed.systems.topics.starts import (
    classes_of,
    kept_labels,
    number_parameters,
    plan_number,
    plan_topics,
    prefix_of,
    rows_of,
    run_number,
    run_topics,
    shifted_ppmi,
    topic_dimensions,
)
from distembed.temporaries import block
from distembed.weighting.blocks import pmi, weigh_tf_idf
from distembed.weighting.documents import select_pairs, tf_idf
from distembed.weighting.pmi import marginals, ppmi

EXACT_BYTES = 12
"""Bytes of a value of sparse rows in float64, with its column."""


class ReferenceCounts(NamedTuple):
    """Symmetric counts of word pairs, and their sums by word."""

    vocabulary: Vocabulary
    counts: da.Array
    totals: Floats


def pair_counts(workspace: Workspace, url: str | None) -> ReferenceCounts:
    """Return the pair counts of the workspace at `url`, by default of this one; left contexts become both sides."""
    other = workspace if url is None else Workspace.open(url)
    counts = other.array("cooccurrence")
    if other.describe("cooccurrence").spec.dims[0] == "left_word":
        counts = _added(counts, transpose_row_blocks(counts))
    return ReferenceCounts(corpus_stages.vocabulary_of(other), counts, marginals(counts).rows)


def check_semantic(job: TopicsJob) -> list[str]:
    """Open the workspace whose counts the association of words is taken from, where it is another."""
    return _check_reference(job.semantic.workspace)


def check_number(job: TopicsJob) -> list[str]:
    """Return what the choice of the number of topics takes beside a run with a number."""
    numbers, n_starts = job.topics.n_topics_range, job.topics.n_starts
    times = sum(numbers) / max(numbers)
    return [
        f'n_topics = "auto" fits {len(numbers) * n_starts} times ({plural(len(numbers), "number")} of topics, '
        f"{n_starts} starts each), about {times:.1f} times the time of n_topics = {max(numbers)}: fewer numbers in "
        "topics.n_topics_range take less"
    ]


def check_evaluation(job: TopicsJob) -> list[str]:
    """Refuse figures of a paper without ours, and open the workspace whose counts judge the topics, if another."""
    check_figures(job, **IN_PAPER)
    return _check_reference(job.coherence.workspace)


def _check_reference(url: str | None) -> list[str]:
    if url is None:
        return []
    n_words = Workspace.open(url).describe("cooccurrence").spec.shape[0]
    return [f"pair counts of {n_words:,} words in {url}"]


def _added(left: da.Array, right: da.Array) -> da.Array:
    return lift(_sum_of, "wc,wc->wc", left, right, dtype=left.dtype, sparse=True)


@block(temporaries=1)
def _sum_of(left: Any, right: Any) -> Any:
    return left + right


def plan_evaluation(job: TopicsJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the scores: the counts of the reference are read, and the documents with their labels."""
    counts = dims.block("pair", itemsize=PAIR_BYTES)
    n_listed = len(job.topics.methods) * job.topics.largest_n_topics * job.coherence.n_words
    n_listed = min(n_listed, dims.size("word"))
    joint = dims.whole(n_listed, n_listed, 3, itemsize=8)  # by block, joined, and as shares
    documents = dims.whole("document", itemsize=corpus_stages.DOCUMENT_BYTES)
    factors = dims.whole("word", min(job.topics.largest_n_topics, dims.size("document")), 3, itemsize=8)
    return stage_plan(
        task(_sum_of, counts, output=counts),
        whole=[joint, documents, factors],
        n_tasks=2 * dims.n_blocks("pair"),
    )


def run_evaluation(ctx: Context) -> dict[str, Any]:
    """Judge each start by the labels that came with documents, and top words by pairs in a reference."""
    methods = ctx.job.topics.methods
    scores = [row for method in methods for row in _label_scores(ctx, method)]
    ctx.store_table(outputs.SCORES, pa.Table.from_pylist(scores, schema=_score_columns()))
    topics = [row for method in methods for row in _topic_rows(ctx, method)]
    reference = pair_counts(ctx.workspace, ctx.job.coherence.workspace)
    ids = [reference.vocabulary.index(row["words"]).tolist() for row in topics]
    coherence = topic_coherence(
        ids, reference.counts, reference.totals, word_counts=reference.vocabulary.counts
    )
    columns = {name: values.tolist() for name, values in coherence._asdict().items()}
    rows = [row | {name: columns[name][k] for name in columns} for k, row in enumerate(topics)]
    ctx.store_table(outputs.TOPICS, pa.Table.from_pylist(rows))
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
    labels = outputs.LABELS.read(ctx.workspace)
    return [
        {"method": method, "start": row.start, "loss": row.loss}
        | clustering_scores(truth, np.asarray(compute(labels[place]))[known])._asdict()
        for place, row in rows_of(ctx.workspace, method).items()
    ]


def _topic_rows(ctx: Context, method: Method) -> list[dict[str, Any]]:
    """Return, for each topic that is kept, its number from 0 on, its size and its top words."""
    vocabulary = ctx.workspace.table("vocabulary")
    words = vocabulary["word"].to_pylist()
    shares = vocabulary["document_count"].to_numpy() / outputs.TF_IDF.read(ctx.workspace).shape[0]
    factors = compute(outputs.WORD_FACTORS.read(ctx.workspace, of=prefix_of(ctx.job, method)))
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


# --- documents -> tokens -> vocabulary ---------------------------------------------------------------------------


def tokens_of(job: TopicsJob, workspace: Workspace) -> Tokens:
    """Return the token parts of the documents that stay."""
    return corpus_stages.tokens_of(workspace, _token_output(job))


def titled_tokens(job: TopicsJob, workspace: Workspace) -> Tokens:
    """Return the same with the titles that were joined to the documents."""
    return corpus_stages.titled_tokens(workspace, _token_output(job))


def _token_output(job: TopicsJob) -> FilesOutput:
    return outputs.SELECTED_TOKENS if selects(job) else corpus_outputs.TOKENS


def plan_selection(job: TopicsJob, dims: Dimensions) -> StagePlan:  # noqa: ARG001
    """Return the plan of writing the documents that stay."""
    dictionary = dims.block("entry", itemsize=corpus_stages.WORD_BYTES)
    return stage_plan(
        task(select_documents, dictionary, output=dictionary),
        whole=[dims.whole("document", itemsize=corpus_stages.DOCUMENT_BYTES)],
        stored=dims.whole("token", itemsize=2) + dims.whole("entry", itemsize=16),
        n_tasks=dims["partition"].size,
    )


def selects(job: TopicsJob) -> bool:
    """Return whether documents are left out."""
    return bool(job.documents.labels or job.documents.drop_duplicates)


def selection_parameters(job: TopicsJob) -> dict[str, Any]:
    """Return which documents stay, and where their labels come from if they are asked for."""
    labels = corpus_stages.column_parameters(job) if job.documents.labels else {}
    return {**sections("documents")(job), **labels}


def run_selection(ctx: Context) -> dict[str, Any]:
    """Leave out documents of other labels, and duplicates."""
    job: TopicsJob = ctx.job
    every = corpus_stages.tokens_of(ctx.workspace)
    labeled = replace(every, columns=corpus_stages.columns_of(job)) if job.documents.labels else every
    masks = choose_documents(
        labeled, labels=job.documents.labels, drop_duplicates=job.documents.drop_duplicates
    )
    make = partial(_select_partition, tokens=every, masks=masks)
    items = ctx.store_files(outputs.SELECTED_TOKENS, len(masks), make)
    return {"n_documents": sum(item.summary["n_documents"] for item in items)}


def _select_partition(index: int, prefix: str, *, tokens: Tokens, masks: list[Mask]) -> dict[str, int]:
    return select_documents(tokens, tokens.partitions[index], masks[index], prefix)


# --- tokens -> documents x words, words x words --------------------------------------------------------------------


def plan_documents(job: TopicsJob, dims: Dimensions) -> StagePlan:
    """Return the plan of counting and weighing the words of documents."""
    counts, n_blocks = dims.block("term", itemsize=PAIR_BYTES), dims.n_blocks("term")
    weighing = task(weigh_tf_idf, counts, dims.whole("word", itemsize=8), output=counts)
    stored = dims.whole("term", itemsize=PAIR_BYTES)
    return in_turn(
        corpus_stages.plan_document_terms(job, dims), stage_plan(weighing, stored=stored, n_tasks=n_blocks)
    )


def run_documents(ctx: Context) -> dict[str, Any]:
    """Count the words of each document and weigh them by tf-idf, rows of unit length."""
    job: TopicsJob = ctx.job
    vocabulary = corpus_stages.vocabulary_of(ctx.workspace)
    counts = count_document_terms(tokens_of(job, ctx.workspace), vocabulary)
    stored = ctx.store(outputs.DOCUMENT_TERMS, counts)
    sizes = compute(ctx.stage.row_nonzeros(outputs.DOCUMENT_TERMS.name))
    check_n_clusters(job.topics.largest_n_topics, int((sizes > 0).sum()), len(sizes))
    weighted = ctx.store(outputs.TF_IDF, tf_idf(stored, **job.weighting.model_dump()))
    return {"n_nonzero": count_values(weighted), "n_row_blocks": weighted.numblocks[0]}


def plan_association(job: TopicsJob, dims: Dimensions) -> StagePlan:  # noqa: ARG001
    """Return the plan of positive PMI, of counts in both orders where they are of left contexts."""
    counts, words = dims.block("pair", itemsize=PAIR_BYTES), dims.whole("word", itemsize=8)
    return stage_plan(
        task(pmi, counts, words, words, output=counts),
        stored=dims.whole("associated", itemsize=PAIR_BYTES),
        n_tasks=dims.n_blocks("pair"),
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
    association = ppmi(counts, row_totals=totals, column_totals=totals, negative_samples=share)
    stored = ctx.store(outputs.PPMI, association)
    n_known = int((rows >= 0).sum())
    return {
        "n_nonzero": count_values(stored),
        "n_known": n_known,
        "n_row_blocks": stored.numblocks[0],
    }


def plan_shifted(job: TopicsJob, dims: Dimensions) -> StagePlan:  # noqa: ARG001
    """Return the plan of keeping shifted positive PMI, of which no more is stored than of PMI that is not shifted."""
    values = dims.block("associated", itemsize=PAIR_BYTES)
    return stage_plan(
        task(subtract_shift, values, output=values),
        stored=dims.whole("associated", itemsize=PAIR_BYTES),
        n_tasks=dims.n_blocks("associated"),
    )


def run_shifted(ctx: Context) -> dict[str, Any]:
    """Store what Semantic-NMF factorizes with the documents."""
    stored = ctx.store(outputs.SHIFTED_PPMI.of(shift=f"{ctx.job.topics.shift:g}"), shifted_ppmi(ctx))
    return {"n_nonzero": count_values(stored)}


def plan_graph(job: Any, dims: Dimensions) -> StagePlan:
    """Return the plan of the graph of documents: pairs of blocks of documents are compared, and lists are joined."""
    rows, edges = (dims.block(name, itemsize=EXACT_BYTES) for name in ("term", "edge"))
    lists = dims.block("document", 2 * job.topics.n_neighbors, itemsize=8)
    return stage_plan(
        task(tile_candidates, rows, rows, output=lists + dims.block("memory", itemsize=1)),
        task(union_rows, edges, edges, output=edges),
        whole=[
            dims.whole("term", 3, itemsize=EXACT_BYTES)
        ],  # as they are read, of unit length, and by columns
        stored=dims.whole("edge", itemsize=PAIR_BYTES),
        n_tasks=dims.n_blocks("document") ** 2,
        states=dims.whole("document", 2 * job.topics.n_neighbors, itemsize=8),
    )


def run_graph(ctx: Context) -> dict[str, Any]:
    """Search the nearest documents of each, and store which are neighbors."""
    graph = affinity_rows(
        outputs.TF_IDF.read(ctx.workspace),
        ctx.job.topics.n_neighbors,
        affinity="binary",
    )
    return {"n_nonzero": count_values(ctx.store(outputs.DOCUMENT_GRAPH, graph.astype(np.float32)))}


def graph_parameters(job: Any) -> dict[str, Any]:
    """Return the number of neighbors and the memory of a block, which lays the grid."""
    return {"n_neighbors": job.topics.n_neighbors, "block_memory": job.resources.block_memory}


GRAPH = StageSpec(outputs.DOCUMENT_GRAPH.name, ("document_terms",), graph_parameters, run_graph, plan_graph)


def shift_parameters(job: Any) -> dict[str, Any]:
    """Return what positive PMI is shifted by."""
    return {"shift": job.topics.shift}


SHIFTED = StageSpec(outputs.SHIFTED_PPMI.name, ("association",), shift_parameters, run_shifted, plan_shifted)


def document_parameters(job: TopicsJob) -> dict[str, Any]:
    """Return the section of weighting and the memory of a block, which lays the grid."""
    return {**sections("weighting")(job), "block_memory": job.resources.block_memory}


def topics_parameters(job: TopicsJob) -> dict[str, Any]:
    """Return the section of topics and the memory of a block, which tells what is whole."""
    return {**sections("topics")(job), "block_memory": job.resources.block_memory}


def stages(job: TopicsJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job; one more where the number of topics is chosen."""
    selection = StageSpec(
        "selection", ("tokens",), selection_parameters, run_selection, plan_selection, counts=True
    )
    chosen = ("tokens", "selection") if selects(job) else ("tokens",)
    selected = (*chosen, "vocabulary")
    graph = (GRAPH,) if job.topics.has_graph else ()
    matrices = ("document_terms", "association")
    number: tuple[StageSpec, ...] = ()
    if job.topics.n_topics == "auto":
        used = (*matrices, GRAPH.name) if graph and job.topics.method in OF_GRAPH else matrices
        number = (StageSpec("n_topics", used, number_parameters, run_number, plan_number, check_number),)
    return (
        corpus_stages.TOKENS,
        *((selection,) if selects(job) else ()),
        *(
            spec._replace(inputs=chosen, run=partial(spec.run, tokens=_token_output(job)))
            for spec in (corpus_stages.VOCABULARY, corpus_stages.DOCUMENTS)
        ),
        StageSpec(
            "document_terms", selected, document_parameters, run_documents, plan_documents, counts=True
        ),
        corpus_stages.COOCCURRENCE._replace(
            inputs=selected, run=partial(corpus_stages.run_cooccurrence, tokens=_token_output(job))
        ),
        StageSpec(
            "association",
            ("cooccurrence", "vocabulary"),
            sections("semantic"),
            run_association,
            plan_association,
            check_semantic,
        ),
        *kept_stages(job, SHIFTED),
        *graph,
        *number,
        StageSpec(
            "topics",
            (*matrices, *(spec.name for spec in (*graph, *number))),
            topics_parameters,
            run_topics,
            plan_topics,
        ),
        StageSpec(
            "evaluation",
            ("topics", "cooccurrence", "documents"),
            sections("coherence"),
            run_evaluation,
            plan_evaluation,
            check_evaluation,
        ),
    )


SYSTEM = System(
    TopicsJob,
    stages,
    topic_dimensions,
    "distembed.systems.topics.report",
    "distembed.systems.topics.views",
    "distembed.systems.topics.inference",
    explanation="distembed.systems.topics.views",
    explorer="distembed.systems.topics.views",
    outputs=(*corpus_outputs.OF_TOKENS, *corpus_outputs.OF_COUNTS, *declared_in(outputs)),
    presets=PRESETS,
)
