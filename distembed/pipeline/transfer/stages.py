"""The stages of topic transfer: two collections and known pairs to topics of the second one."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from distembed.corpus import Tokens, Vocabulary, build_vocabulary
from distembed.counting.cooccurrence import count_cooccurrences
from distembed.counting.documents import count_document_terms
from distembed.evaluation.transfer import (
    MethodScore,
    score_methods,
    score_transfer,
)
from distembed.execution import compute, one_blas_thread, persist
from distembed.factorization.lsa import LSA
from distembed.factorization.nmf import NMF, SemanticNMF
from distembed.linalg.operators import row_blocks, sparse_times
from distembed.manifold.alignment import FeaturePreservingEmbedding, prefixed
from distembed.manifold.correspondences import (
    correspondence_matrix,
    propagate_correspondences,
    shared_values,
)
from distembed.manifold.inference import TwoSets, infer_by_each_method
from distembed.neighbors.graphs import joint_adjacency, neighbor_affinity
from distembed.pipeline.context import Context, StageSpec, read_vectors, sections
from distembed.pipeline.corpus_stages import local_scratch, words_in_memory
from distembed.pipeline.imputation.stages import stored_sparse
from distembed.pipeline.inputs import code_file
from distembed.pipeline.transfer.collections import (
    SIDES,
    document_table,
    find_pairs,
    splits_of,
    tokenize_part,
    tokenizer_of,
)
from distembed.pipeline.transfer.config import TransferJob
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors
from distembed.weighting.documents import choose_words, tf_idf
from distembed.weighting.pmi import ppmi

Floats = NDArray[np.float64]

TOP_WORDS = 10
"""Words that name a topic in tables."""

# --- collections -> tokens -> weighted terms ------------------------------------------------------------------


def token_parameters(job: TransferJob) -> dict[str, Any]:
    """Return both collections; not what only later stages ask of them."""
    return {
        side: getattr(job, side).model_dump(mode="json", exclude={"stop_words", "vectors"}) for side in SIDES
    }


def collection_files(job: TransferJob) -> tuple[str, ...]:
    """Return the paths of both collections, and the source files of tokenizers that the job brings."""
    both = [getattr(job, side) for side in SIDES]
    return tuple(path for side in both for path in (*side.paths, *code_file(side.pattern)))


def run_tokens(ctx: Context) -> dict[str, Any]:
    """Tokenise each split of both collections."""
    facts: dict[str, Any] = {}
    for side in SIDES:
        section = getattr(ctx.job, side)
        splits = splits_of(section)
        make = partial(tokenize_part, splits=splits, tokenizer=tokenizer_of(section))
        name = f"{side}_tokens"
        parts = ctx.stage.store_files(name, len(splits), make, progress=ctx.progress(name))
        for what in ("n_documents", "n_tokens", "n_words"):
            facts[f"{side}_{what}"] = sum(int(part.summary[what]) for part in parts)
    return facts


def _prefixes(workspace: Workspace, side: str) -> tuple[str, ...]:
    suffix = ".documents.parquet"
    return tuple(
        next(path.removesuffix(suffix) for path in item.paths if path.endswith(suffix))
        for item in workspace.files(f"{side}_tokens")
    )


def term_parameters(job: TransferJob) -> dict[str, Any]:
    """Return which words count, and the memory of a block, which lays the grid."""
    words = [getattr(job, side).stop_words for side in SIDES]
    return {**sections("terms")(job), "stop_words": words, "block_memory": job.resources.block_memory}


def run_terms(ctx: Context) -> dict[str, Any]:
    """Choose the words of each collection and weigh its documents by them."""
    facts, room = {}, words_in_memory(ctx.job.resources.block_memory)
    for side in SIDES:
        tokens = Tokens(_prefixes(ctx.workspace, side))
        documents = document_table(tokens.parts)
        with local_scratch(ctx.workspace) as scratch:
            every = build_vocabulary(tokens, words_in_memory=room, scratch=scratch)
        vocabulary = _chosen_words(ctx.job, side, every, documents.num_rows)
        ctx.stage.store_table(f"{side}_documents", documents)
        ctx.stage.store_table(f"{side}_vocabulary", _vocabulary_table(vocabulary))
        counts = count_document_terms(tokens, vocabulary, block_memory=ctx.job.resources.block_memory)
        weighted = tf_idf(
            counts,
            frequencies=vocabulary.document_counts,
            n_documents=documents.num_rows,
            sublinear=ctx.job.terms.sublinear,
        )
        meaning = "tf-idf of each word (column) in each document (row), rows of unit length."
        _store(ctx, f"{side}_terms", weighted, ("document", "word"), meaning)
        facts[f"{side}_n_words"] = len(vocabulary)
    return facts


def _chosen_words(job: TransferJob, side: str, vocabulary: Vocabulary, n_documents: int) -> Vocabulary:
    chosen = choose_words(
        vocabulary.words,
        vocabulary.document_counts,
        n_documents=n_documents,
        min_documents=job.terms.min_documents,
        max_share=job.terms.max_share,
        stop_words=ENGLISH_STOP_WORDS if getattr(job, side).stop_words == "english" else (),
    )[: job.terms.max_size]
    words = [vocabulary.words[row] for row in chosen.tolist()]
    return Vocabulary(words, vocabulary.counts[chosen], vocabulary.document_counts[chosen])


def _vocabulary_table(vocabulary: Vocabulary) -> pa.Table:
    return pa.table(
        {"word": vocabulary.words, "count": vocabulary.counts, "document_count": vocabulary.document_counts}
    )


def vocabulary_of(workspace: Workspace, side: str) -> Vocabulary:
    """Return the chosen words of a collection."""
    table = workspace.table(f"{side}_vocabulary")
    return Vocabulary(
        table["word"].combine_chunks(), table["count"].to_numpy(), table["document_count"].to_numpy()
    )


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


def given_vectors(job: TransferJob) -> tuple[str, ...]:
    """Return the vector files and workspaces that a job names."""
    return tuple(url for side in SIDES if (url := getattr(job, side).vectors))


def run_vectors(ctx: Context) -> dict[str, Any]:
    """Make the rows that neighbours are sought among; tf-idf rows are those of the terms."""
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
    return sparse_times(ctx.workspace.array(f"{side}_terms"), da.from_array(table, chunks=-1))


def _given_vectors(url: str) -> WordVectors:
    return read_vectors(Workspace.open(url)) if Workspace.exists(url) else WordVectors.load(url)


def rows_of(job: TransferJob, workspace: Workspace, side: str) -> da.Array:
    """Return the rows of a collection among which neighbours are sought, dense or CSR chunks."""
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
        Tokens(_prefixes(ctx.workspace, "first")),
        vocabulary_of(ctx.workspace, "first"),
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
    tokens = Tokens(_prefixes(ctx.workspace, "first"))
    counts = _in_memory(count_document_terms(tokens, vocabulary_of(ctx.workspace, "first")))
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


def pair_files(job: TransferJob) -> tuple[str, ...]:
    """Return the file of known pairs, if the job names one."""
    return () if job.pairs.path is None else (job.pairs.path,)


def run_pairs(ctx: Context) -> dict[str, Any]:
    """Find the documents of both collections that are the same, and which of them are known to be."""
    first, second = (ctx.workspace.table(f"{side}_documents")["id"].to_pylist() for side in SIDES)
    pairs = find_pairs(ctx.job.pairs, first, second)
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
        _store_memory(ctx, f"{side}_graph", graph, ("document", "neighbour"), meaning)
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
    """Return the estimator of a job, keeping its states in the stage."""
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


STAGES: tuple[StageSpec, ...] = (
    StageSpec("tokens", (), token_parameters, run_tokens, collection_files),
    StageSpec("terms", ("tokens",), term_parameters, run_terms),
    StageSpec("vectors", ("terms",), vector_parameters, run_vectors, given_vectors),
    StageSpec("topics", ("tokens", "terms"), sections("topics"), run_topics),
    StageSpec("pairs", ("terms",), sections("pairs"), run_pairs, pair_files),
    StageSpec("graphs", ("terms", "vectors"), graph_parameters, run_graphs),
    StageSpec("links", ("vectors", "pairs"), link_parameters, run_links),
    StageSpec("embedding", ("topics", "graphs", "links"), sections("alignment"), run_embedding),
    StageSpec("evaluation", ("embedding", "pairs"), sections("evaluation", "alignment"), run_evaluation),
)
