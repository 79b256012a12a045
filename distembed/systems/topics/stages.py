"""The stages of Semantic-NMF: a collection of documents to counts, tf-idf, positive PMI, topics and scores."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.corpus.partitions import Tokens
from distembed.corpus.selection import choose_documents, select_documents
from distembed.corpus.vocabulary import Vocabulary
from distembed.counting.documents import count_document_terms
from distembed.dtypes import Float64s, Floats, Int64s, Mask
from distembed.evaluation.documents import ClusteringScores, clustering_scores, topic_coherence
from distembed.execution import compute, heard_by
from distembed.factorization import clustering, consensus, nmf_rounds
from distembed.factorization.document_factors import list_words, subtract_shift
from distembed.factorization.document_rows import check_n_clusters
from distembed.factorization.nmf import NMF, SemanticNMF, common_topics
from distembed.job.model import check_figures
from distembed.job.outputs import declared_in
from distembed.job.stage import Context, Counted, StageSpec, System, sections
from distembed.lift import lift
from distembed.linalg.chunks import STORED_BYTES
from distembed.linalg.operators import count_values, transpose_row_blocks, whole_csr
from distembed.neighbors.blocks import nearest_in_sparse_pair
from distembed.neighbors.graph_blocks import join_edges
from distembed.neighbors.graphs import affinity_rows
from distembed.neighbors.search import check_n_neighbors
from distembed.options import options_of
from distembed.plan import Dimension, Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages import corpus as corpus_stages
from distembed.stages import outputs as corpus_outputs
from distembed.stages.corpus_sections import counting_options
from distembed.stages.dimensions import PAIR_BYTES, counting_dimensions, described
from distembed.states import scope
from distembed.storage.workspace import Workspace
from distembed.systems.topics import outputs
from distembed.systems.topics.descriptions import Topics, classes_of
from distembed.systems.topics.job import IN_PAPER, OF_GRAPH, POOLED, PRESETS, Method, TopicsJob
from distembed.temporaries import block
from distembed.weighting.blocks import pmi, weigh_tf_idf
from distembed.weighting.documents import select_pairs, tf_idf
from distembed.weighting.pmi import marginals, ppmi

EXACT_BYTES = 12
"""Bytes of a value of sparse rows in float64, with its column."""


def topic_dimensions(job: TopicsJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job: of its corpus and its pairs, of what is associated, and of its graph."""
    dimensions = counting_dimensions(job, counting_options(job), counted)
    done = {} if counted is None else counted.stages
    pair, term, n_neighbors = dimensions["pair"], dimensions["term"], getattr(job.topics, "n_neighbors", 0)
    if job.topics.has_graph and "documents" in done:
        check_n_neighbors(n_neighbors, int(done["documents"].facts["n_documents"]))
    n_edges = 2 * n_neighbors * dimensions["document"].size
    edge = Dimension(n_edges, -(-n_edges * term.block // max(1, term.size)), counted=False)
    found = {"term": ("document_terms", term), "associated": ("association", pair._replace(counted=False))}
    found["edge"] = (outputs.DOCUMENT_GRAPH.name, edge)
    for name, (stage, bound) in found.items():
        n = int(done[stage].facts["n_nonzero"]) if stage in done else bound.size
        dimensions[name] = Dimension(n, min(n, bound.block), stage in done or bound.counted)
    return described(dimensions)


# --- documents -> tokens of those that stay ------------------------------------------------------------------------


def selection_parameters(job: TopicsJob) -> dict[str, Any]:
    """Return which documents stay, and where their labels come from if they are asked for."""
    labels = corpus_stages.column_parameters(job) if job.documents.labels else {}
    return {**sections("documents")(job), **labels}


def plan_selection(job: TopicsJob, dims: Dimensions) -> StagePlan:  # noqa: ARG001
    """Return the plan of writing the documents that stay."""
    dictionary = dims.block("entry", itemsize=corpus_stages.WORD_BYTES)
    return stage_plan(
        task(select_documents, dictionary, output=dictionary),
        whole=[dims.whole("document", itemsize=corpus_stages.DOCUMENT_BYTES)],
        stored=dims.whole("token", itemsize=2) + dims.whole("entry", itemsize=16),
        n_tasks=dims["partition"].size,
    )


def run_selection(ctx: Context) -> dict[str, Any]:
    """Leave out documents of other labels, and duplicates."""
    every, section = corpus_stages.tokens_of(ctx.workspace), ctx.job.documents
    labeled = replace(every, columns=corpus_stages.columns_of(ctx.job)) if section.labels else every
    masks = choose_documents(labeled, labels=section.labels, drop_duplicates=section.drop_duplicates)
    make = partial(_select_partition, tokens=every, masks=masks)
    items = ctx.store_files(outputs.SELECTED_TOKENS, len(masks), make)
    return {"n_documents": sum(item.summary["n_documents"] for item in items)}


def _select_partition(index: int, prefix: str, *, tokens: Tokens, masks: list[Mask]) -> dict[str, int]:
    return select_documents(tokens, tokens.partitions[index], masks[index], prefix)


# --- tokens -> documents × words, words × words, documents × documents ---------------------------------------------


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
    tokens = corpus_stages.tokens_of(ctx.workspace, outputs.tokens_output(job))
    counts = count_document_terms(tokens, corpus_stages.vocabulary_of(ctx.workspace))
    stored = ctx.store(outputs.DOCUMENT_TERMS, counts)
    sizes = compute(ctx.stage.row_nonzeros(outputs.DOCUMENT_TERMS.name))
    check_n_clusters(job.topics.n_topics, int((sizes > 0).sum()), len(sizes))
    weighted = ctx.store(outputs.TF_IDF, tf_idf(stored, **job.weighting.model_dump()))
    return {"n_nonzero": count_values(weighted), "n_row_blocks": weighted.numblocks[0]}


def pair_counts(workspace: Workspace, url: str | None) -> tuple[Vocabulary, da.Array, Floats]:
    """Return the symmetric pair counts of the workspace at `url`, by default of this one, its words and their sums."""
    other = workspace if url is None else Workspace.open(url)
    counts = other.array("cooccurrence")
    if other.describe("cooccurrence").spec.dims[0] == "left_word":  # left contexts become both sides
        both = counts, transpose_row_blocks(counts)
        counts = lift(_sum_of, "wc,wc->wc", *both, dtype=counts.dtype, sparse=True)
    return corpus_stages.vocabulary_of(other), counts, marginals(counts).rows


@block(temporaries=1)
def _sum_of(left: Any, right: Any) -> Any:
    return left + right


def check_reference(job: TopicsJob, *, section: str) -> list[str]:
    """Open the workspace whose counts the association of words is taken from, or judges the topics, if another."""
    url = getattr(job, section).workspace
    if url is None:
        return []
    n_words = Workspace.open(url).describe("cooccurrence").spec.shape[0]
    return [f"pair counts of {n_words:,} words in {url}"]


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
    url = ctx.job.semantic.workspace
    vocabulary, counts, sums = pair_counts(ctx.workspace, url)
    rows = vocabulary.index(ctx.workspace.table("vocabulary")["word"]).astype(np.int64)
    if (rows < 0).all():
        raise ValueError(f"no word of the collection is in {url}; check its tokenizer")
    totals = np.where(rows >= 0, sums[rows], 0.0)
    # `ppmi` makes shares of the totals it is given; the words of the collection are not all of another's
    share = float(totals.sum() / sums.sum())
    chosen = counts if url is None else select_pairs(counts, rows)
    association = ppmi(chosen, row_totals=totals, column_totals=totals, negative_samples=share)
    stored = ctx.store(outputs.PPMI, association)
    return {
        "n_nonzero": count_values(stored),
        "n_known": int((rows >= 0).sum()),
        "n_row_blocks": stored.numblocks[0],
    }


def plan_graph(job: Any, dims: Dimensions) -> StagePlan:
    """Return the plan of the graph of documents: pairs of blocks of documents are compared, and lists are joined."""
    rows, edges = (dims.block(name, itemsize=EXACT_BYTES) for name in ("term", "edge"))
    lists = dims.block("document", 2 * job.topics.n_neighbors, itemsize=8)
    return stage_plan(
        task(nearest_in_sparse_pair, rows, rows, output=lists + dims.block("memory", itemsize=1)),
        task(join_edges, edges, edges, output=edges),
        # documents as they are read, of unit length, and by columns
        whole=[dims.whole("term", 3, itemsize=EXACT_BYTES)],
        stored=dims.whole("edge", itemsize=PAIR_BYTES),
        n_tasks=dims.n_blocks("document") ** 2,
        states=dims.whole("document", 2 * job.topics.n_neighbors, itemsize=8),
    )


def run_graph(ctx: Context) -> dict[str, Any]:
    """Search the nearest documents of each, and store which are neighbors."""
    X = outputs.TF_IDF.read(ctx.workspace)
    graph = affinity_rows(X, ctx.job.topics.n_neighbors, affinity="binary")
    return {"n_nonzero": count_values(ctx.store(outputs.DOCUMENT_GRAPH, graph.astype(np.float32)))}


# --- matrices -> topics -------------------------------------------------------------------------------------------


ESTIMATORS: Mapping[Method, tuple[Any, dict[str, Any]]] = {
    "consensus": (NMF, {}),  # what a finished job is read by
    "semantic_nmf": (SemanticNMF, {"shift": 1}),  # M is shifted once, and not by every start in every round
    "nmf": (NMF, {}),
    "orthogonal_nmf": (NMF, {"solver": "orthogonal"}),
    # the tolerance of the section is one of the objective of NMF
    "spherical_kmeans": (clustering.SphericalKMeans, {"tol": 1e-4}),
}
"""The estimator of each method, and its options that are not those of the section."""


NO_WORD = ".*hold no word"
"""A warning that the fits of a job leave out: the report says once which documents hold no word."""


def matrices(ctx: Context) -> dict[str, Any]:
    """Return what the methods of a job are fitted to, by the names that `fit` gives it.

    A matrix is whole where it is one block's size, and in the workers' memory where it fits there.
    """
    topics, ppmi = ctx.job.topics, outputs.PPMI.read(ctx.workspace)
    found = {"X": (outputs.TF_IDF.read(ctx.workspace), "document_terms")}
    if "semantic_nmf" in topics.fitted:
        options: dict[str, Any] = {"dtype": ppmi.dtype, "sparse": True, "shift": topics.shift}
        found["M"] = (lift(subtract_shift, "vd->vd", ppmi, **options), "association")
    if topics.has_graph and not {*OF_GRAPH}.isdisjoint(topics.fitted):
        found["graph"] = (outputs.DOCUMENT_GRAPH.read(ctx.workspace), outputs.DOCUMENT_GRAPH.name)
    held = {}
    for name, (array, stage) in found.items():
        n_nonzero = ctx.workspace.stages()[stage].facts["n_nonzero"]
        if STORED_BYTES * n_nonzero <= ctx.job.resources.block_memory:
            held[name] = whole_csr(array)
        else:
            held[name] = array.persist() if held_bytes(ctx.job, n_nonzero) else array
    return held


def held_bytes(job: TopicsJob, n_nonzero: int) -> int:
    """Return the bytes of a matrix that stays in memory, 0 where it is read again in every round."""
    size, resources = STORED_BYTES * n_nonzero, job.resources
    return size if size <= max(resources.block_memory, resources.process_memory // 4) else 0


def fitted(ctx: Context, method: Method, used: Mapping[str, Any]) -> Any:
    """Return the estimator of a method, fitted from all its starts."""
    section, (kind, own) = ctx.job.topics, ESTIMATORS[method]
    options = {name: getattr(section, name) for name in options_of(kind) if hasattr(section, name)}
    model = kind(section.n_topics, **(options | {"n_init": section.n_starts} | own))
    takes = {"X": True, "M": method == "semantic_nmf", "graph": method in OF_GRAPH}
    show = lambda what, done, total: ctx.reporter.advance(method, done, total, unit=what)  # noqa: E731
    with scope(method), heard_by(show), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=NO_WORD)
        return model.fit(**{name: matrix for name, matrix in used.items() if takes[name]})


def losses_of(model: Any, labels: Int64s, objective: Float64s) -> Float64s:
    """Return the losses by round of a start, or of what is kept: of spherical k-means, the sum of 1 - cosine."""
    return (
        np.count_nonzero(labels >= 0) - objective
        if isinstance(model, clustering.SphericalKMeans)
        else objective
    )


def plan_topics(job: TopicsJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the methods one after the other: every start, and what is kept of them."""
    topics, k = job.topics, job.topics.n_topics
    plans = [plan_fits(job, dims, method, k) for method in topics.fitted]
    if "consensus" in topics.methods:  # its documents are solved as those of a method
        n_joined, n_documents = len(POOLED) * topics.n_starts * k, dims.size("document")
        joint, words = dims.whole(n_joined, n_joined, itemsize=8), dims.whole("word", k, itemsize=8)
        members = dims.block("document", len(POOLED) * topics.n_starts, itemsize=STORED_BYTES)
        sample = dims.whole(
            nmf_rounds.SAMPLE_COPIES, min(clustering.GROUPED_DOCUMENTS, n_documents), k, itemsize=STORED_BYTES
        )
        labels = dims.whole(3, "document", len(POOLED) * topics.n_starts, itemsize=8)
        held = [5 * joint, sample, nmf_rounds.STATE_WORDS * words, labels]
        plans.append(stage_plan(task(clustering.joint_sizes, members, output=joint), whole=held))
    return in_turn(*plans)


def plan_fits(job: TopicsJob, dims: Dimensions, method: Method, k: int) -> StagePlan:
    """Return the plan of the starts of a method: each is a task where its matrices are whole, else its steps are."""
    names = ["term", *(["associated"] if method == "semantic_nmf" else [])]
    names += ["edge"] if job.topics.has_graph and method in OF_GRAPH else []
    matrices = [dims.whole(name, itemsize=STORED_BYTES) for name in names]
    documents, words = dims.whole("document", k), dims.whole("word", k, itemsize=8)
    n_starts, n_pooled = job.topics.n_starts, job.topics.n_starts * k
    if all(size <= dims["memory"].size for size in matrices):
        tasks = [task(consensus.run_start, *matrices, output=documents + nmf_rounds.STATE_WORDS * words)]
        held, n_tasks, drawn = sum(matrices) + n_starts * documents, n_starts, 0
    else:
        X, *others = (dims.block(name, itemsize=STORED_BYTES) for name in names)
        rows = dims.block("document", k)
        tasks = [
            task(nmf_rounds.step_documents, X, rows, words, output=rows + words),
            task(clustering.cluster_sums, X, rows, words, output=words),
            nmf_rounds.STACKED_SUMS * words,
            *(task(subtract_shift, each, output=each) for each in others),
        ]
        held = nmf_rounds.STATE_WORDS * words + sum(held_bytes(job, dims.size(name)) for name in names)
        n_tasks = 2 * max(dims.n_blocks(name) for name in names)
        n_documents = dims.size("document")
        drawn = (
            nmf_rounds.SAMPLE_COPIES
            * matrices[0]
            * min(nmf_rounds.SEEDING_SAMPLE, n_documents)
            // n_documents
        )
    held += n_starts * words
    if job.topics.keeps_consensus(method):
        tasks.append(
            min(dims["memory"].size, consensus.POOLED_BYTES * dims.whole("word", n_pooled, itemsize=1))
        )
        # cosines of the topics of all starts, and their groups
        held += dims.whole(5, n_pooled, n_pooled, itemsize=8)
    labels = dims.whole("document", n_starts, itemsize=8)
    stored = documents + (1 + n_starts) * words // 2 + labels
    return stage_plan(
        *tasks, whole=[held, drawn, 2 * labels], stored=stored, n_tasks=n_tasks, states=documents + 2 * words
    )


def run_topics(ctx: Context) -> dict[str, Any]:
    """Factorize from several starts by each method; keep every start's labels, and the factors of what is chosen."""
    job: TopicsJob = ctx.job
    n_topics, methods = job.topics.n_topics, job.topics.methods
    used = matrices(ctx)
    starts: dict[Method, list[tuple[Int64s, Float64s]]] = {}  # labels and losses by round of each
    ends: dict[Method, tuple[Int64s, float]] = {}  # what is kept: its labels and its loss
    last: tuple[Method, ...] = ("consensus",) if "consensus" in methods else ()
    for method in (*job.topics.fitted, *last):
        if method == "consensus":
            starts[method] = [one for each in POOLED for one in starts[each]]
            clusterings = [labels for labels, _ in starts[method]]
            with scope(method), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=NO_WORD)
                seed = job.topics.random_state
                model: Any = common_topics(used["X"], clusterings, n_topics, random_state=seed)
        else:
            model = fitted(ctx, method, used)
            starts[method] = [(one.labels, losses_of(model, *one[:2])) for one in model.starts_]
        if method in methods:
            _store_factors(ctx, method, model, used["X"])
            ends[method] = model.labels_, float(losses_of(model, model.labels_, model.objective_)[-1])
    losses, rows, stored = list[dict[str, Any]](), list[dict[str, Any]](), list[Int64s]()
    for method in methods:
        (kept, end), (labels, curves) = ends[method], zip(*starts[method], strict=True)
        losses += [
            {"method": method, "start": number, "round": place, "loss": loss}
            for number, curve in enumerate(curves)
            for place, loss in enumerate(curve.tolist(), 1)
        ]
        own, tables = [float(curve[-1]) for curve in curves], consensus.label_agreement([kept, *labels])
        means = zip(own, *(consensus.mean_agreement(table[1:, 1:]).tolist() for table in tables), strict=True)
        names = "method", "start", "loss", "nmi", "ari", "kept"
        found = [
            dict(zip(names, (method, number, *each, False), strict=True)) for number, each in enumerate(means)
        ]
        if job.topics.keeps_consensus(method):
            of_kept = (float(consensus.mean_agreement(table)[0]) for table in tables)
            found.append(dict(zip(names, (method, None, end, *of_kept, True), strict=True)))
            stored += [*labels, kept]
        else:
            best = int(np.argmin(own))
            found[best]["kept"] = True
            stored += [*labels[:best], kept, *labels[best + 1 :]]
        rows += found
    ctx.store_table(outputs.LOSSES, pa.Table.from_pylist(losses))
    ctx.store_table(outputs.STARTS, pa.Table.from_pylist(rows))
    ctx.store(outputs.LABELS, da.from_array(np.stack(stored), chunks=(1, -1)))
    sizes = np.bincount(ends[methods[0]][0] + 1, minlength=n_topics + 1)
    return {"n_unlabeled": int(sizes[0]), "smallest": int(sizes[1:].min()), "largest": int(sizes[1:].max())}


def _store_factors(ctx: Context, method: Method, model: Any, X: Any) -> None:
    """Store factors as float32 in the blocks they have; those of spherical k-means are centers and cosines."""
    if method == "spherical_kmeans":
        found = {outputs.WORD_FACTORS: model.cluster_centers_.T, outputs.DOCUMENT_FACTORS: model.transform(X)}
    else:
        found = {outputs.WORD_FACTORS: model.word_factors_, outputs.DOCUMENT_FACTORS: model.document_factors_}
    if method == "semantic_nmf":
        found[outputs.CORE] = model.core_
    for output, factors in found.items():
        rows = factors.astype(np.float32)
        array = rows if isinstance(rows, da.Array) else da.from_array(rows, chunks=("auto", -1))
        ctx.store(output.of(of=outputs.prefix_of(ctx.job, method)), array)


# --- topics -> scores ----------------------------------------------------------------------------------------------


def check_evaluation(job: TopicsJob) -> list[str]:
    """Refuse figures of a paper without ours, and open the workspace whose counts judge the topics, if another."""
    check_figures(job, **IN_PAPER)
    return check_reference(job, section="coherence")


def plan_evaluation(job: TopicsJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the scores: the counts of the reference are read, and the documents with their labels."""
    counts, n_topics = dims.block("pair", itemsize=PAIR_BYTES), job.topics.n_topics
    n_listed = min(len(job.topics.methods) * n_topics * job.coherence.n_words, dims.size("word"))
    joint = dims.whole(n_listed, n_listed, 3, itemsize=8)  # by block, joined, and as shares
    documents = dims.whole("document", itemsize=corpus_stages.DOCUMENT_BYTES)
    factors = dims.whole("word", min(n_topics, dims.size("document")), 3, itemsize=8)
    return stage_plan(
        task(_sum_of, counts, output=counts),
        whole=[joint, documents, factors],
        n_tasks=2 * dims.n_blocks("pair"),
    )


def run_evaluation(ctx: Context) -> dict[str, Any]:
    """Judge each start by the labels that came with documents, and top words by pairs in a reference."""
    classes, options = classes_of(ctx.workspace), ctx.job.coherence
    vocabulary = ctx.workspace.table("vocabulary")
    words, n_documents = vocabulary["word"].to_pylist(), outputs.TF_IDF.read(ctx.workspace).shape[0]
    held_by = vocabulary["document_count"].to_numpy() / n_documents
    scores, topics = list[dict[str, Any]](), list[dict[str, Any]]()
    for method in ctx.job.topics.methods:
        found = Topics(ctx.job, ctx.workspace, method)
        if classes is not None:
            known = np.array([label is not None for label in classes])
            for place, row in found.places.items():
                agreement = clustering_scores(classes[known].astype(str), found.labels_of([place])[0][known])
                scores.append({name: row[name] for name in ("method", "start", "loss")} | agreement._asdict())
        # the factors of the other methods are weights of tf-idf, in which frequent words are large already
        power = options.frequency_weight if method == "semantic_nmf" else 0.0
        listed = list_words(found.words, held_by, options.n_words, frequency_weight=power)
        sizes = np.bincount(found.labels[found.labels >= 0], minlength=len(listed)).tolist()
        for topic, rows in enumerate(listed):
            of_topic = {"method": method, "topic": topic, "n_documents": sizes[topic]}
            topics.append(of_topic | {"words": [words[row] for row in rows]})
    numbers = dict.fromkeys(("loss", *ClusteringScores._fields), pa.float64())
    schema = pa.schema({"method": pa.string(), "start": pa.int64()} | numbers)
    ctx.store_table(outputs.SCORES, pa.Table.from_pylist(scores, schema=schema))
    reference, counts, totals = pair_counts(ctx.workspace, options.workspace)
    ids = [reference.index(row["words"]).tolist() for row in topics]
    coherence = topic_coherence(ids, counts, totals, word_counts=reference.counts)
    table = pa.Table.from_pylist(topics)
    for name, values in coherence._asdict().items():
        table = table.append_column(name, pa.array(values))
    ctx.store_table(outputs.TOPICS, table)
    return {"n_scored": len(scores)}


def stages(job: TopicsJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job; one more where documents are left out, or have a graph."""
    tokens, topics = outputs.tokens_output(job), job.topics
    chosen = ("tokens", "selection") if tokens is outputs.SELECTED_TOKENS else ("tokens",)
    selected, matrices = (*chosen, "vocabulary"), ("document_terms", "association")
    select = StageSpec(
        "selection", ("tokens",), selection_parameters, run_selection, plan_selection, counts=True
    )
    weigh = sections("weighting", grid=True)
    pairs = partial(corpus_stages.run_cooccurrence, tokens=tokens)
    check_semantic = partial(check_reference, section="semantic")
    of_pairs = ("cooccurrence", "vocabulary")
    more = list[StageSpec]()
    if topics.has_graph:
        n_neighbors = getattr(topics, "n_neighbors", 0)
        own = {"n_neighbors": n_neighbors, "block_memory": job.resources.block_memory}
        name = outputs.DOCUMENT_GRAPH.name
        more.append(StageSpec(name, ("document_terms",), lambda _: own, run_graph, plan_graph))
    fitted, judged = (*matrices, *(spec.name for spec in more)), ("topics", "cooccurrence", "documents")
    return (
        corpus_stages.TOKENS,
        *((select,) if "selection" in chosen else ()),
        *(
            spec._replace(inputs=chosen, run=partial(spec.run, tokens=tokens))
            for spec in (corpus_stages.VOCABULARY, corpus_stages.DOCUMENTS)
        ),
        StageSpec("document_terms", selected, weigh, run_documents, plan_documents, counts=True),
        corpus_stages.COOCCURRENCE._replace(inputs=selected, run=pairs),
        StageSpec(
            "association", of_pairs, sections("semantic"), run_association, plan_association, check_semantic
        ),
        *more,
        StageSpec("topics", fitted, sections("topics", grid=True), run_topics, plan_topics),
        StageSpec(
            "evaluation", judged, sections("coherence"), run_evaluation, plan_evaluation, check_evaluation
        ),
    )


SYSTEM = System(
    TopicsJob,
    stages,
    topic_dimensions,
    "distembed.systems.topics.report",
    "distembed.systems.topics.views",
    "distembed.systems.topics.views",
    explanation="distembed.systems.topics.views",
    explorer="distembed.systems.topics.views",
    outputs=(*corpus_outputs.OF_TOKENS, *corpus_outputs.OF_COUNTS, *declared_in(outputs)),
    presets=PRESETS,
)
