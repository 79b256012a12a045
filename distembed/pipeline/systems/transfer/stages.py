"""The stages of topic transfer: two collections and known pairs to topics of the second one."""

from __future__ import annotations

import warnings
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.corpus import Tokens
from distembed.counting.cooccurrence import count_cooccurrences
from distembed.counting.documents import count_document_terms
from distembed.evaluation.transfer import (
    MethodScore,
    score_methods,
    score_transfer,
)
from distembed.execution import compute, one_blas_thread, persist, whole
from distembed.factorization.lsa import LSA
from distembed.factorization.nmf import NMF, SemanticNMF
from distembed.linalg.chunks import row_chunk
from distembed.linalg.operators import row_blocks, sparse_times
from distembed.manifold.alignment import FeaturePreservingEmbedding
from distembed.manifold.alignment_rounds import SYSTEM_COPIES, SYSTEM_GROUPS
from distembed.manifold.correspondences import (
    correspondence_matrix,
    propagate_correspondences,
    shared_values,
)
from distembed.manifold.inference import TwoSets, infer_by_each_method
from distembed.manifold.joint_graph import prefixed
from distembed.neighbors.graphs import joint_adjacency, neighbor_affinity
from distembed.neighbors.search import MERGED_AT_ONCE
from distembed.pipeline.context import Context, StageSpec, System, read_vectors, sections, stored_sparse
from distembed.pipeline.corpus.collections import (
    SIDES,
    ParallelSizes,
    check_collections,
    check_pairs,
    check_stop_words,
    check_vectors,
    find_pairs,
    parallel_sizes,
    run_side_tokens,
    run_terms,
    side_parameters,
    side_vocabulary,
    term_parameters,
    token_partitions,
)
from distembed.pipeline.corpus.stages import (
    DICTIONARY_BYTES,
    LOOKUP_BYTES,
    VOCABULARY_BYTES,
    merging_bytes,
)
from distembed.pipeline.plan import StagePlan
from distembed.pipeline.systems.transfer.config import TransferJob
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors
from distembed.weighting.pmi import ppmi

Floats = NDArray[np.float64]

TOP_WORDS = 10
"""Words that name a topic in tables."""

# --- how large it is -------------------------------------------------------------------------------------------

SEARCH_COPIES = 6
"""Copies of the rows of both collections that the search for pairs holds in memory."""
ROUNDS = 6
"""Rounds of the alternation that a fit takes, about."""
SEARCHES = 24
"""Neighbor searches of one search for pairs: 8 rounds, for all pairs and with each half left out."""


# --- the plans ------------------------------------------------------------------------------------------------


def _term_bytes(sizes: ParallelSizes) -> int:
    return 8 * sizes.n_nonzero


def _chunks(job: TransferJob, sizes: ParallelSizes) -> int:
    return max(2, _term_bytes(sizes) // max(1, job.resources.block_memory // 4))


def _row_bytes(job: TransferJob, sizes: ParallelSizes) -> int:
    options = job.representation
    return _term_bytes(sizes) if options.kind == "tf_idf" else 4 * sizes.n_documents * options.n_components


def _edge_bytes(job: TransferJob, sizes: ParallelSizes) -> int:
    return 2 * 12 * sizes.n_documents * job.alignment.n_neighbors


def _grid(job: TransferJob, sizes: ParallelSizes) -> int:
    n = sizes.n_documents
    return -(-n // row_chunk(n, 8 * job.representation.n_components, job.resources.block_memory))


def _search_tasks(job: TransferJob, sizes: ParallelSizes) -> int:
    grid = _grid(job, sizes)
    return grid * grid + grid * -(-grid // MERGED_AT_ONCE)


def _pair_searches(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return the tasks of one search for further pairs."""
    return SEARCHES * _search_tasks(job, sizes) if job.alignment.propagate else 0


def _matching_bytes(job: TransferJob, sizes: ParallelSizes) -> int:
    rows = 8 * sizes.n_documents * job.representation.n_components
    searching = SEARCH_COPIES * rows + job.resources.block_memory
    return searching if job.alignment.propagate else _edge_bytes(job, sizes)


def _fit_bytes(job: TransferJob, sizes: ParallelSizes) -> int:
    columns = max(1, job.alignment.n_components // SYSTEM_GROUPS)
    return _edge_bytes(job, sizes) + 8 * SYSTEM_COPIES * sizes.n_documents * columns


def _systems(job: TransferJob) -> int:
    return min(job.alignment.n_components, SYSTEM_GROUPS) * ROUNDS


def plan_tokens(job: TransferJob, sizes: ParallelSizes) -> StagePlan:
    """Return the plan of tokenizing both collections."""
    text = min(job.first.partition_bytes, sizes.input_bytes)
    task = 2 * text + DICTIONARY_BYTES
    return StagePlan(sizes.n_partitions, 2 * sizes.input_bytes, 4 * _term_bytes(sizes), task)


def plan_terms(job: TransferJob, sizes: ParallelSizes) -> StagePlan:
    """Return the plan of choosing words and weighing documents."""
    terms, block = _term_bytes(sizes), job.resources.block_memory
    choosing = merging_bytes(sizes.n_words, block) + (VOCABULARY_BYTES + LOOKUP_BYTES) * sizes.n_words
    return StagePlan(_chunks(job, sizes), 4 * terms, terms, block + choosing, exact=sizes.exact)


def plan_vectors(job: TransferJob, sizes: ParallelSizes) -> StagePlan:
    """Return the plan of the rows that neighbors are sought among."""
    task = job.resources.block_memory + 16 * sizes.n_words * job.representation.n_components
    rows = _row_bytes(job, sizes)
    return StagePlan(20 * _chunks(job, sizes), 12 * _term_bytes(sizes), rows, task, exact=sizes.exact)


def plan_topics(job: TransferJob, sizes: ParallelSizes) -> StagePlan:
    """Return the plan of learning the topics of the first collection."""
    topics, n_iter = 4 * sizes.n_first * job.topics.n_topics, job.topics.n_iter
    task = job.resources.block_memory + 3 * topics
    n_tasks = 3 * n_iter * _chunks(job, sizes)
    return StagePlan(n_tasks, n_iter * _term_bytes(sizes), topics, task, exact=sizes.exact)


def plan_pairs(job: TransferJob, sizes: ParallelSizes) -> StagePlan:  # noqa: ARG001
    """Return the plan of joining both collections by their ids."""
    n = sizes.n_documents
    return StagePlan(1, 20 * n, 24 * n, 200 * n, exact=sizes.exact)


def plan_graphs(job: TransferJob, sizes: ParallelSizes) -> StagePlan:
    """Return the plan of the neighbors within each collection."""
    edges, read = _edge_bytes(job, sizes), 2 * _grid(job, sizes) * _row_bytes(job, sizes)
    task = job.resources.block_memory + 3 * edges
    return StagePlan(_search_tasks(job, sizes), read, edges, task, exact=sizes.exact)


def plan_links(job: TransferJob, sizes: ParallelSizes) -> StagePlan:
    """Return the plan of the search for further pairs."""
    written, task = _edge_bytes(job, sizes), _matching_bytes(job, sizes)
    return StagePlan(_pair_searches(job, sizes), _row_bytes(job, sizes), written, task, exact=sizes.exact)


def plan_embedding(job: TransferJob, sizes: ParallelSizes) -> StagePlan:
    """Return the plan of the embedding: systems of equations, some columns in each task."""
    written = 8 * sizes.n_documents * job.alignment.n_components
    return StagePlan(
        _systems(job), _edge_bytes(job, sizes), written, _fit_bytes(job, sizes), exact=sizes.exact
    )


def plan_evaluation(job: TransferJob, sizes: ParallelSizes) -> StagePlan:
    """Return the plan of an embedding and a search for each draw of known pairs."""
    n_draws = len(job.evaluation.shares) * job.evaluation.n_seeds
    read = _row_bytes(job, sizes) + _edge_bytes(job, sizes)
    task = _matching_bytes(job, sizes) + _fit_bytes(job, sizes)
    n_tasks = n_draws * (_systems(job) + _pair_searches(job, sizes))
    return StagePlan(n_tasks, read, 2**14, task, exact=sizes.exact)


# --- writing --------------------------------------------------------------------------------------------------


def _store(ctx: Context, name: str, array: da.Array, dims: tuple[str, ...], meaning: str) -> None:
    ctx.stage.store(name, array, dims=dims, units="", meaning=meaning, progress=ctx.progress(name))


def _store_memory(ctx: Context, name: str, array: Any, dims: tuple[str, ...], meaning: str) -> None:
    """Store an array that is in memory, sparse ones in row blocks of about equal size."""
    lazy = row_blocks(array) if sp.issparse(array) else da.from_array(np.asarray(array), chunks=-1)
    _store(ctx, name, lazy, dims, meaning)


# --- terms -> rows to compare, topics -------------------------------------------------------------------------


def vector_parameters(job: TransferJob) -> dict[str, Any]:
    """Return the representation, and where word vectors are given."""
    return {**sections("representation")(job), "vectors": [getattr(job, side).vectors for side in SIDES]}


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Make the rows that neighbors are sought among; tf-idf rows are those of the terms."""
    kind = ctx.job.representation.kind
    makers = {"lsa": _lsa_rows, "psdvec": _mean_vectors}
    if kind not in makers:
        return {}
    for side in SIDES:
        rows = makers[kind](ctx, side)
        _store(
            ctx,
            f"{side}_vectors",
            rows,
            ("document", "component"),
            "Where a document stands among the others.",
        )
    return {"n_components": int(rows.shape[1])}


def _lsa_rows(ctx: Context, side: str) -> da.Array:
    terms = ctx.workspace.array(f"{side}_terms")
    options = ctx.job.representation
    rank = min(options.n_components, min(terms.shape) - 1)
    keep = prefixed(ctx.stage.checkpoint, side)
    return LSA(rank, random_state=options.random_state, checkpoint=keep).fit_transform(terms)


def _mean_vectors(ctx: Context, side: str) -> da.Array:
    """Return the mean of the vectors of a document's words, weighted by tf-idf, the mean of all words removed."""
    words = ctx.workspace.table(f"{side}_vocabulary")["word"].to_pylist()
    vectors = _given_vectors(getattr(ctx.job, side).vectors).postprocess(remove_mean=True)
    table = np.zeros((len(words), vectors.vectors.shape[1]), np.float32)
    known = [row for row, word in enumerate(words) if word in vectors]
    if not known:
        raise ValueError(
            f"no word of the {side} collection (the first is {words[0]!r}) has a vector in "
            f"{getattr(ctx.job, side).vectors} (its first word is {vectors.words[0]!r})"
        )
    table[known] = vectors[[words[row] for row in known]]
    return sparse_times(ctx.workspace.array(f"{side}_terms"), whole(table))


def _given_vectors(url: str) -> WordVectors:
    return read_vectors(Workspace.open(url)) if Workspace.exists(url) else WordVectors.load(url)


def rows_of(job: TransferJob, workspace: Workspace, side: str) -> da.Array:
    """Return the rows of a collection among which neighbors are sought, dense or CSR chunks."""
    return workspace.array(f"{side}_{'terms' if job.representation.kind == 'tf_idf' else 'vectors'}")


def run_topics(ctx: Context) -> dict[str, Any]:
    """Learn the topics of the first collection and the share of each in its documents."""
    makers = {"nmf": _nmf_topics, "semantic_nmf": _semantic_topics, "lda": _lda_topics}
    proportions, word_weights, objective = makers[ctx.job.topics.method](ctx)
    meaning = "Share of a topic in a document; rows sum to one, NaN: the document has no known word."
    _store_memory(ctx, "topics", proportions.astype(np.float32), ("document", "topic"), meaning)
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
    """Fit scikit-learn's latent Dirichlet allocation to the counts, in memory."""
    from sklearn.decomposition import LatentDirichletAllocation  # noqa: PLC0415 - half a second

    options = ctx.job.topics
    tokens = Tokens(token_partitions(ctx.workspace, "first"))
    counts = _in_memory(count_document_terms(tokens, side_vocabulary(ctx.workspace, "first")))
    with one_blas_thread():
        model = LatentDirichletAllocation(
            options.n_topics, max_iter=options.n_iter, random_state=options.random_state
        )
        shares = model.fit_transform(counts)
    shares[np.asarray(counts.sum(axis=1)).ravel() == 0] = np.nan
    return shares, model.components_.T, [model.bound_]


def proportions_of(document_factors: Any, word_factors: Any) -> Floats:
    """Return the share of each topic in the weight of each document, (n × k), NaN for documents without any.

    z_ik ‖w_k‖₁ / Σ_k z_ik ‖w_k‖₁: columns of words are brought to sum one, as the topics of LDA are.
    """
    Z = np.asarray(document_factors, np.float64) * np.asarray(word_factors, np.float64).sum(axis=0)
    sums = Z.sum(axis=1, keepdims=True)
    return np.divide(Z, sums, out=np.full_like(Z, np.nan), where=sums > 0)


def _in_memory(rows: da.Array) -> Any:
    """Return rows as one NumPy array, or one CSR array."""
    if not sp.issparse(rows._meta):
        return np.asarray(compute(rows))
    return sp.csr_array(sp.vstack([compute(rows.blocks[i]) for i in range(rows.numblocks[0])], format="csr"))


# --- pairs and graphs -> one embedding ------------------------------------------------------------------------


def run_pairs(ctx: Context) -> dict[str, Any]:
    """Find the documents of both collections that are the same, and which of them are known to be."""
    first, second = (ctx.workspace.table(f"{side}_documents")["id"].to_pylist() for side in SIDES)
    pairs = find_pairs(first, second, **ctx.job.pairs.model_dump())
    correspondence_matrix(
        np.column_stack([pairs.rows, pairs.confidence])[pairs.known], len(first), len(second)
    )
    columns = {"first": pairs.rows[:, 0], "second": pairs.rows[:, 1]}
    table = pa.table({**columns, "confidence": pairs.confidence, "known": pairs.known})
    ctx.stage.store_table("pairs", table)
    return {"n_pairs": len(pairs.known), "n_known": int(pairs.known.sum())}


def graph_parameters(job: TransferJob) -> dict[str, Any]:
    """Return the options of the graphs."""
    options = {"n_neighbors", "affinity", "symmetry"}
    return {
        "alignment": job.alignment.model_dump(mode="json", include=options),
        "block_memory": job.resources.block_memory,
    }


def run_graphs(ctx: Context) -> dict[str, Any]:
    """Join each document with its nearest in its own collection."""
    options, facts = ctx.job.alignment, {}
    for side in SIDES:
        graph = neighbor_affinity(
            rows_of(ctx.job, ctx.workspace, side),
            options.n_neighbors,
            affinity=options.affinity,
            symmetry=options.symmetry,
            block_memory=ctx.job.resources.block_memory,
            checkpoint=prefixed(ctx.stage.checkpoint, side),
        )
        meaning = "Affinity of two documents of a collection."
        _store_memory(ctx, f"{side}_graph", graph, ("document", "neighbor"), meaning)
        facts[f"{side}_n_edges"] = graph.nnz // 2
    return facts


def link_parameters(job: TransferJob) -> dict[str, Any]:
    """Return whether further pairs are sought."""
    return {"alignment": job.alignment.model_dump(mode="json", include={"propagate", "random_state"})}


def known_links(workspace: Workspace) -> sp.csr_array:
    """Return the known pairs as a matrix of confidences."""
    table = workspace.table("pairs")
    rows = np.column_stack(
        [np.asarray(table[name], np.float64) for name in ("first", "second", "confidence")]
    )
    sizes = [workspace.table(f"{side}_documents").num_rows for side in SIDES]
    return correspondence_matrix(rows[np.asarray(table["known"])], *sizes)


def run_links(ctx: Context) -> dict[str, Any]:
    """Find probable pairs beside the known ones."""
    links, facts = known_links(ctx.workspace), {}
    if ctx.job.alignment.propagate:
        first, second = (_in_memory(rows_of(ctx.job, ctx.workspace, side)) for side in SIDES)
        found = propagate_correspondences(
            first,
            second,
            links,
            random_state=ctx.job.alignment.random_state,
            block_memory=ctx.job.resources.block_memory,
        )
        links = found.links
        facts = {"temperature": found.temperature, "lost_share": found.lost_share, "found": found.n_found}
    meaning = "Probability that two documents are the same; 1 where it is known."
    _store_memory(ctx, "links", links, ("first_document", "second_document"), meaning)
    return {**facts, "n_links": int(links.nnz)}


def embedding_of(ctx: Context) -> FeaturePreservingEmbedding:
    """Return the estimator of a job, which stores its intermediate arrays in the stage."""
    return FeaturePreservingEmbedding(
        **ctx.job.alignment.model_dump(),
        block_memory=ctx.job.resources.block_memory,
        checkpoint=ctx.stage.checkpoint,
    )


def run_embedding(ctx: Context) -> dict[str, Any]:
    """Put both collections into one space and infer the topics of the second."""
    workspace = ctx.workspace
    links = stored_sparse(workspace, "links")
    graphs = [stored_sparse(workspace, f"{side}_graph") for side in SIDES]
    adjacency = joint_adjacency(graphs, {(0, 1): links}, weight=ctx.job.alignment.correspondence_weight)
    model = embedding_of(ctx).fit_graph(
        adjacency, *shared_values(_in_memory(workspace.array("topics")), links)
    )
    n = links.shape[0]
    dims = ("document", "component")
    meaning = "Place of a document in the space of both collections."
    for side, rows in zip(SIDES, (slice(0, n), slice(n, None)), strict=True):
        _store_memory(ctx, f"{side}_embedding", model.embedding_[rows].astype(np.float32), dims, meaning)
    meaning = "Topics of a document are the mean topics plus its place times this."
    _store_memory(ctx, "regression", model.regression_, ("component", "topic"), meaning)
    meaning = "Inferred share of a topic in a document of the second collection."
    _store_memory(
        ctx, "second_topics", model.features_[n:].astype(np.float32), ("document", "topic"), meaning
    )
    ctx.stage.store_table("objective", pa.table({"objective": model.objective_}))
    ctx.stage.store_table("aligned", _aligned_table(workspace, links, model.features_[n:]))
    return {"converged": model.converged_, "n_iter": model.n_iter_}


def _aligned_table(workspace: Workspace, links: sp.csr_array, features: Floats) -> pa.Table:
    """Return for each document of the second collection its likeliest counterpart and its largest topic."""
    names = [workspace.table(f"{side}_documents")["id"].to_numpy(zero_copy_only=False) for side in SIDES]
    columns = sp.csc_array(links)
    best = np.asarray(columns.argmax(axis=0)).ravel()
    chance = np.asarray(columns.max(axis=0).toarray()).ravel()
    counterpart = [name if p > 0 else None for name, p in zip(names[0][best], chance, strict=True)]
    return pa.table(
        {
            "id": names[1].tolist(),
            "counterpart": pa.array(counterpart, pa.string()),
            "probability": chance,
            "topic": features.argmax(axis=1),
            "share": features.max(axis=1),
        }
    )


# --- how good it is -------------------------------------------------------------------------------------------


def run_evaluation(ctx: Context) -> dict[str, Any]:
    """Judge every method on the pairs not known, over shares and draws of the known ones."""
    options = ctx.job.evaluation
    sets = _two_sets(ctx)
    table = ctx.workspace.table("pairs")
    pairs = np.column_stack([np.asarray(table["first"]), np.asarray(table["second"])])
    pairs = pairs[~np.isnan(sets.features[pairs[:, 0]]).any(axis=1)]
    cells = [(share, seed) for share in options.shares for seed in range(options.n_seeds)]
    rows = []
    for done, (share, seed) in enumerate(cells if len(pairs) > 1 else []):
        n_known = min(max(1, round(share * len(pairs))), len(pairs) - 1)
        draw = {"share": share, "n_known": n_known, "seed": seed}
        rows += [{**draw, **score._asdict()} for score in _scores(ctx, sets, pairs, n_known, seed)]
        ctx.progress("evaluation")(done + 1, len(cells))
    ctx.stage.store_table("scores", pa.Table.from_pylist(rows, SCORES_SCHEMA))
    ctx.stage.store_table("topic_scores", _topic_scores(ctx.workspace, sets.features))
    return {"n_draws": len(cells) if len(pairs) > 1 else 0, "n_pairs": len(pairs)}


SCORES_SCHEMA = pa.schema(
    [
        ("share", pa.float64()),
        ("n_known", pa.int64()),
        ("seed", pa.int64()),
        ("method", pa.string()),
        *((name, pa.float64()) for name in MethodScore._fields[1:]),
    ]
)


def _two_sets(ctx: Context) -> TwoSets:
    first, second = (_in_memory(rows_of(ctx.job, ctx.workspace, side)) for side in SIDES)
    graphs = [stored_sparse(ctx.workspace, f"{side}_graph") for side in SIDES]
    topics = _in_memory(ctx.workspace.array("topics")).astype(np.float64)
    return TwoSets(first, second, (graphs[0], graphs[1]), topics)


def _scores(
    ctx: Context, sets: TwoSets, pairs: NDArray[np.int64], n_known: int, seed: int
) -> list[MethodScore]:
    """Return the scores of one draw of known pairs, kept in the stage under names of its own."""

    def make() -> da.Array:
        scores = _draw_scores(ctx, sets, pairs, n_known, seed)
        return da.from_array(np.array([score[1:] for score in scores]), chunks=-1)

    kept = compute(ctx.stage.checkpoint(f"known-{n_known}-draw-{seed}", make))
    names = method_names(ctx.job)
    return [MethodScore(name, *row) for name, row in zip(names, kept.tolist(), strict=True)]


def _draw_scores(
    ctx: Context, sets: TwoSets, pairs: NDArray[np.int64], n_known: int, seed: int
) -> list[MethodScore]:
    order = np.random.default_rng(seed).permutation(len(pairs))
    known, left = pairs[order[:n_known]], pairs[order[n_known:]]
    links = correspondence_matrix(known, *(graph.shape[0] for graph in sets.graphs))
    model = embedding_of(ctx).set_params(checkpoint=persist)
    with warnings.catch_warnings():
        # Few known pairs leave some documents without a value; what that costs is what is measured here.
        warnings.filterwarnings("ignore", message=".* joined to no known value")
        found = infer_by_each_method(sets, links, model)
    scores = score_methods(found, sets.features[left[:, 0]], left[:, 0], left[:, 1])
    return sorted(scores, key=lambda score: method_names(ctx.job).index(score.method))


def method_names(job: TransferJob) -> list[str]:
    """Return the methods that are compared, in the order of their tables."""
    dense = job.representation.kind != "tf_idf"
    controls = ["ridge", "ridge_map", "procrustes", "procrustes_1"] if dense else []
    matching = ["matching", "matching_1", "embedding_given"] if job.alignment.propagate else []
    return ["mean", *controls, "alignment", *matching, "embedding"]


def _topic_scores(workspace: Workspace, topics: Floats) -> pa.Table:
    """Return how well each topic was inferred by the embedding itself, over the pairs not known."""
    table = workspace.table("pairs")
    left = ~np.asarray(table["known"]) & ~np.isnan(topics[np.asarray(table["first"])]).any(axis=1)
    schema = {"topic": pa.int64(), "rmse": pa.float64(), "correlation": pa.float64()}
    if not left.any():
        return pa.table({name: pa.array([], kind) for name, kind in schema.items()})
    inferred = np.asarray(compute(workspace.array("second_topics")))[np.asarray(table["second"])[left]]
    scores = score_transfer(inferred, topics[np.asarray(table["first"])[left]])
    return pa.table(
        {
            "topic": np.arange(topics.shape[1]),
            "rmse": scores.topic_rmse,
            "correlation": scores.topic_correlation,
        }
    )


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
