"""The stages of Semantic-NMF: a collection of documents to counts, tf-idf, positive PMI, topics and scores."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from distembed.corpus import Tokens, Vocabulary, build_vocabulary
from distembed.corpus.selection import choose_documents, select_documents
from distembed.corpus.stop_words import stop_words_of
from distembed.corpus.vocabulary import choose_words
from distembed.counting.documents import count_document_terms
from distembed.evaluation.documents import clustering_scores, topic_coherence
from distembed.execution import Checkpoint, compute, counted_from, heard_by, map_blocks, persist
from distembed.factorization.clustering import ROUNDS_OF_KMEANS, SphericalKMeans
from distembed.factorization.nmf import NMF, OrthogonalNMF, SemanticNMF
from distembed.factorization.nmf_blocks import shifted
from distembed.linalg.operators import transpose_row_blocks
from distembed.pipeline.context import Context, Counted, StageSpec, System, sections
from distembed.pipeline.corpus import stages as corpus_stages
from distembed.pipeline.corpus.sizes import CorpusSizes, PairSizes, about, pair_sizes, with_source
from distembed.pipeline.corpus.stages import PAIR_BYTES, count_blocks
from distembed.pipeline.plan import SCRATCH_FACTOR, StagePlan
from distembed.pipeline.systems.topics.config import Method, TopicsJob
from distembed.storage.workspace import Workspace
from distembed.weighting.documents import select_pairs, tf_idf
from distembed.weighting.pmi import marginals, ppmi


class TopicSizes(NamedTuple):
    """Sizes of a collection: its pairs of words, the words of its documents, the pairs that are associated."""

    pairs: PairSizes
    n_terms: int
    n_associated: int

    @property
    def corpus(self) -> CorpusSizes:
        """The sizes of its corpus."""
        return self.pairs.corpus

    @property
    def n_nonzero(self) -> int:
        """The pairs that are counted."""
        return self.pairs.n_nonzero

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        corpus = self.corpus
        terms = f"{self.n_terms:,}" if "document_terms" in corpus.counted else about(self.n_terms)
        pairs = f"{self.n_nonzero:,}" if self.pairs.exact else about(self.n_nonzero)
        return with_source(f"{corpus.sentence}, {pairs} pairs, {terms} document terms", corpus)


def topic_sizes(job: TopicsJob, counted: Counted | None) -> TopicSizes:
    """Return the sizes of a job; what committed stages have counted is not estimated."""
    pairs = pair_sizes(job, counted)
    done = {} if counted is None else counted.stages
    n_terms = pairs.corpus.n_terms
    n_associated = pairs.n_nonzero
    if "document_terms" in done:
        n_terms = int(done["document_terms"].facts["n_nonzero"])
    if "association" in done:
        n_associated = int(done["association"].facts["n_nonzero"])
    return TopicSizes(pairs, n_terms, n_associated)


# --- documents -> tokens -> vocabulary ---------------------------------------------------------------------------


def tokens_of(job: TopicsJob, workspace: Workspace) -> Tokens:
    """Return the token parts of the documents that stay."""
    return corpus_stages.tokens_of(workspace, _tokens_name(job))


def _tokens_name(job: TopicsJob) -> str:
    return "selected_tokens" if job.documents.labels or job.documents.drop_duplicates else "tokens"


def plan_selection(job: TopicsJob, sizes: TopicSizes) -> StagePlan:  # noqa: ARG001
    """Return the plan of writing the documents that stay."""
    tokens = int(corpus_stages.TOKEN_BYTES * sizes.corpus.n_tokens)
    dictionary = min(corpus_stages.DICTIONARY_BYTES, corpus_stages.ENTRY_BYTES * sizes.corpus.n_entries)
    return StagePlan(
        sizes.corpus.n_partitions, tokens, tokens, dictionary, exact="tokens" in sizes.corpus.counted
    )


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
    return {"n_documents": documents.num_rows, "n_read": corpus_stages.documents_of(every).num_rows}


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


def _term_blocks(job: TopicsJob, sizes: TopicSizes) -> int:
    return max(sizes.corpus.n_partitions, -(-32 * sizes.corpus.n_tokens // job.resources.block_memory))


def plan_documents(job: TopicsJob, sizes: TopicSizes) -> StagePlan:
    """Return the plan of counting and weighing the words of documents."""
    terms = PAIR_BYTES * sizes.n_terms
    return corpus_stages.plan_counting(
        sizes.corpus,
        2 * _term_blocks(job, sizes),
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


class ReferenceCounts(NamedTuple):
    """Symmetric counts of word pairs, and their sums by word."""

    vocabulary: Vocabulary
    counts: da.Array
    totals: NDArray[np.floating[Any]]


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


def check_coherence(job: TopicsJob) -> list[str]:
    """Open the workspace whose counts judge the topics, where it is another."""
    return _check_reference(job.coherence.workspace)


def _check_reference(url: str | None) -> list[str]:
    if url is None:
        return []
    n_words = Workspace.open(url).describe("cooccurrence").spec.shape[0]
    return [f"pair counts of {n_words:,} words in {url}"]


def _added(left: da.Array, right: da.Array) -> da.Array:
    return map_blocks(operator.add, left, right, dtype=left.dtype, meta=left._meta)


def _largest_block(job: TopicsJob, sizes: TopicSizes) -> int:
    return min(job.resources.block_memory // 4, PAIR_BYTES * sizes.n_nonzero)


def plan_association(job: TopicsJob, sizes: TopicSizes) -> StagePlan:
    """Return the plan of positive PMI."""
    return StagePlan(
        count_blocks(sizes.n_nonzero, job.resources.block_memory),
        PAIR_BYTES * sizes.n_nonzero,
        PAIR_BYTES * sizes.n_associated,
        int(SCRATCH_FACTOR * _largest_block(job, sizes)),
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


# --- matrices -> topics --------------------------------------------------------------------------------------------


def _shifted_pmi(ctx: Context) -> Any:
    """Return M: positive PMI less log shift, shifted here once and not by every start in every round."""
    array = ctx.workspace.array("ppmi")
    moved = map_blocks(shifted, array, shift=ctx.job.topics.shift, dtype=array.dtype, meta=array._meta)
    return _held(ctx, moved, ctx.workspace.stages()["association"].facts["n_nonzero"])


def _held(ctx: Context, array: da.Array, n_nonzero: int) -> Any:
    """Return a matrix whole where it is one block's size, in the workers' memory where it fits there."""
    size = PAIR_BYTES * n_nonzero
    if size <= ctx.job.resources.block_memory:
        return csr_array(vstack(compute(array.to_delayed().ravel().tolist()), format="csr"))
    return array.persist() if size <= ctx.job.resources.memory_limit // 4 else array


def fitted(ctx: Context, method: Method, number: int, X: Any, M: Any) -> Any:
    """Return one start of a method, fitted; what documents hold no word is said once, by the report."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*hold no word")
        return _fit(ctx, method, number, X, M)


def _fit(ctx: Context, method: Method, number: int, X: Any, M: Any) -> Any:
    options, seed = ctx.job.topics, ctx.job.topics.random_state + number
    if method == "spherical_kmeans":
        return SphericalKMeans(options.n_topics, n_iter=options.n_iter, random_state=seed).fit(X)
    used = (X, M) if method == "semantic_nmf" else (X,)
    by_block = any(isinstance(matrix, da.Array) for matrix in used)
    common = {
        "init": options.init,
        "n_iter": options.n_iter,
        "tol": options.tol,
        "random_state": seed,
        "checkpoint": _named(ctx, f"{method}-{number:04d}") if by_block else persist,
    }
    if method == "semantic_nmf":
        return SemanticNMF(options.n_topics, shift=1, semantic_weight=options.semantic_weight, **common).fit(
            X, M
        )
    if method == "nmf":
        return NMF(options.n_topics, solver=options.solver, **common).fit(X)
    return OrthogonalNMF(options.n_topics, **common).fit(X)


def _named(ctx: Context, prefix: str) -> Checkpoint:
    """Return a checkpoint of the stage whose names begin with those of a start."""

    def checkpoint(name: str, make: Callable[[], da.Array]) -> da.Array:
        return ctx.stage.checkpoint(f"{prefix}-{name}", make)

    return checkpoint


class Start(NamedTuple):
    """What is kept of each start."""

    labels: NDArray[np.int64]  # (documents,)
    loss: NDArray[np.float64]  # one value per round, the less the better


def _start(ctx: Context, method: Method, number: int, X: Any, M: Any) -> Start:
    """Return what is kept of one start: found on disk, or fitted now."""
    model = cache(partial(fitted, ctx, method, number, X, M))
    checkpoint = _named(ctx, f"{method}-{number:04d}")
    with _rounds_of_start(ctx, method, number):
        labels = checkpoint("labels", lambda: da.from_array(model().labels_, chunks=-1))
        loss = checkpoint("loss", lambda: da.from_array(loss_of(model()), chunks=-1))
        return Start(compute(labels), compute(loss))


@contextmanager
def _rounds_of_start(ctx: Context, method: Method, number: int) -> Iterator[None]:
    """Report the rounds of a start of a method as some of those of all its starts; the best is fitted once more."""
    options = ctx.job.topics
    what = ROUNDS_OF_KMEANS if method == "spherical_kmeans" else "rounds"
    n_rounds = (options.n_starts + 1) * options.n_iter
    show = ctx.progress(method, unit="rounds")
    with heard_by(lambda _, done, __: show(done, n_rounds)):
        with counted_from(what, number * options.n_iter, n_rounds):
            yield
        show((number + 1) * options.n_iter, n_rounds)


def loss_of(model: Any) -> NDArray[np.float64]:
    """Return the objective of each round as a loss: of spherical k-means, the sum of 1 - cosine."""
    if isinstance(model, SphericalKMeans):
        return np.count_nonzero(model.labels_ >= 0) - model.objective_
    return np.asarray(model.objective_)


def plan_topics(job: TopicsJob, sizes: TopicSizes) -> StagePlan:
    """Return the plan of all starts of a method: in one task each where both matrices are small."""
    block, terms, pairs = (
        job.resources.block_memory,
        PAIR_BYTES * sizes.n_terms,
        PAIR_BYTES * sizes.n_associated,
    )
    rounds = job.topics.n_iter * job.topics.n_starts
    words = 8 * sizes.corpus.n_words * job.topics.n_topics
    small = terms <= block and pairs <= block
    held = terms + pairs if small else _largest_block(job, sizes)
    # a round: two products and a sum of squares for each block of documents, one product for each of words, and sums
    blocks = 4 * _term_blocks(job, sizes) + 2 * count_blocks(sizes.n_nonzero, block)
    return StagePlan(
        1 if small else blocks * rounds,
        rounds * (terms + pairs),
        words,
        4 * held + 6 * words,  # as it is stored, joined, shifted, and what a round makes
        graphs=rounds,
        exact={"document_terms", "association"} <= sizes.corpus.counted,
    )


def run_topics(ctx: Context) -> dict[str, Any]:
    """Factorize from several starts by each method; keep every start's labels and the best one's factors."""
    job: TopicsJob = ctx.job
    n_nonzero = ctx.workspace.stages()["document_terms"].facts["n_nonzero"]
    X = _held(ctx, ctx.workspace.array("tf_idf"), n_nonzero)
    M = _shifted_pmi(ctx) if "semantic_nmf" in job.topics.methods else None
    found: dict[Method, list[Start]] = {}
    for method in job.topics.methods:
        found[method] = [_start(ctx, method, number, X, M) for number in range(job.topics.n_starts)]
        best = best_start(found[method])
        with _rounds_of_start(ctx, method, job.topics.n_starts):
            _store_factors(ctx, method, fitted(ctx, method, best, X, M), X)
    rows = [
        {"method": method, "start": number, "round": place + 1, "loss": value}
        for method, all_starts in found.items()
        for number, start in enumerate(all_starts)
        for place, value in enumerate(start.loss.tolist())
    ]
    ctx.stage.store_table("losses", pa.Table.from_pylist(rows))
    labels = np.stack([start.labels for all_starts in found.values() for start in all_starts])
    ctx.stage.store(
        "labels", da.from_array(labels, chunks=(1, -1)), dims=("start", "document"), units="",
        meaning="Topic of each document by each start, those of a method together; -1: it holds no word.",
    )  # fmt: skip
    sizes = np.bincount(labels[best_start(found[job.topics.method])] + 1, minlength=job.topics.n_topics + 1)
    return {"n_unlabeled": int(sizes[0]), "smallest": int(sizes[1:].min()), "largest": int(sizes[1:].max())}


def best_start(starts: list[Start]) -> int:
    """Return the number of the start of the smallest loss."""
    return int(np.argmin([start.loss[-1] for start in starts]))


def factor_names(job: TopicsJob, method: Method) -> tuple[str, str]:
    """Return under which names the word factors and the document factors of a method are kept."""
    prefix = "" if method == job.topics.method else f"{method}_"
    return f"{prefix}vectors", f"{prefix}document_factors"


def _store_factors(ctx: Context, method: Method, model: Any, X: Any) -> None:
    """Store word and document factors; those of spherical k-means are centroids and cosines with them."""
    is_kmeans = isinstance(model, SphericalKMeans)
    words = model.centroids_.T if is_kmeans else model.word_factors_
    documents = model.transform(X) if is_kmeans else model.document_factors_
    word_name, document_name = factor_names(ctx.job, method)
    _store_rows(ctx, word_name, words, ("word", "topic"), "Weight of each word in each topic.")
    _store_rows(
        ctx, document_name, documents, ("document", "topic"), "Weight of each topic in each document."
    )
    if method == "semantic_nmf":
        name = "core" if method == ctx.job.topics.method else f"{method}_core"
        _store_rows(ctx, name, model.core_, ("topic", "other_topic"), "Association of two topics' words.")


def _store_rows(ctx: Context, name: str, rows: Any, dims: tuple[str, str], meaning: str) -> None:
    """Store dense rows as float32, in the blocks they have."""
    rows = rows.astype(np.float32)
    array = rows if isinstance(rows, da.Array) else da.from_array(rows, chunks=("auto", -1))
    ctx.stage.store(name, array, dims=dims, units="", meaning=meaning)


# --- topics -> numbers ---------------------------------------------------------------------------------------------


def labels_of(job: TopicsJob, workspace: Workspace, method: Method) -> NDArray[np.int64]:
    """Return the topic of each document by each start of a method, (starts, documents)."""
    first = job.topics.methods.index(method) * job.topics.n_starts
    return np.asarray(compute(workspace.array("labels")[first : first + job.topics.n_starts]))


def best_labels(job: TopicsJob, workspace: Workspace, method: Method) -> NDArray[np.int64]:
    """Return the topic of each document by the start of the smallest loss of a method, (documents,)."""
    best = int(np.argmin([curve[-1] for curve in losses_of(workspace, method)]))
    first = job.topics.methods.index(method) * job.topics.n_starts
    return np.asarray(compute(workspace.array("labels")[first + best]))


def losses_of(workspace: Workspace, method: Method) -> list[NDArray[np.float64]]:
    """Return the loss of each round of each start of a method."""
    rows = [row for row in workspace.table("losses").to_pylist() if row["method"] == method]
    n_starts = 1 + max(row["start"] for row in rows)
    return [np.array([row["loss"] for row in rows if row["start"] == number]) for number in range(n_starts)]


def classes_of(workspace: Workspace) -> NDArray[np.object_] | None:
    """Return the label each document came with, or None where there are not two different ones."""
    labels = np.array(workspace.table("documents")["label"].to_pylist(), dtype=object)
    return labels if len({label for label in labels if label is not None}) > 1 else None


def plan_evaluation(job: TopicsJob, sizes: TopicSizes) -> StagePlan:
    """Return the plan of the scores: the counts of the reference are read."""
    n_blocks = count_blocks(sizes.n_nonzero, job.resources.block_memory)
    task = _largest_block(job, sizes) + 2**26
    return StagePlan(n_blocks, PAIR_BYTES * sizes.n_nonzero, 2**14, task, exact=sizes.pairs.exact)


def run_evaluation(ctx: Context) -> dict[str, Any]:
    """Judge every start by the labels that came with the documents, and top words by pairs in a reference."""
    methods = ctx.job.topics.methods
    scores = [row for method in methods for row in _label_scores(ctx, method)]
    ctx.stage.store_table("scores", pa.Table.from_pylist(scores, schema=SCORES))
    topics = [row for method in methods for row in _topic_rows(ctx, method)]
    reference = pair_counts(ctx.workspace, ctx.job.coherence.workspace)
    ids = [reference.vocabulary.index(row["words"]).tolist() for row in topics]
    coherence = topic_coherence(ids, reference.counts, reference.totals)
    columns = {name: values.tolist() for name, values in coherence._asdict().items()}
    rows = [row | {name: columns[name][k] for name in columns} for k, row in enumerate(topics)]
    ctx.stage.store_table("topics", pa.Table.from_pylist(rows))
    return {"n_scored": len(scores)}


SCORES = pa.schema(
    [
        ("method", pa.string()), ("start", pa.int64()), ("loss", pa.float64()), ("nmi", pa.float64()),
        ("ari", pa.float64()), ("accuracy", pa.float64()), ("purity", pa.float64()),
    ]
)  # fmt: skip


def _label_scores(ctx: Context, method: Method) -> list[dict[str, Any]]:
    classes = classes_of(ctx.workspace)
    if classes is None:
        return []
    known = np.array([label is not None for label in classes])
    losses = [curve[-1] for curve in losses_of(ctx.workspace, method)]
    return [
        {"method": method, "start": number, "loss": loss}
        | clustering_scores(classes[known].astype(str), labels[known])._asdict()
        for number, (loss, labels) in enumerate(
            zip(losses, labels_of(ctx.job, ctx.workspace, method), strict=True)
        )
    ]


def _topic_rows(ctx: Context, method: Method) -> list[dict[str, Any]]:
    """Return, for each topic of the best start, its number from 0 on, its size and its top words."""
    words = ctx.workspace.table("vocabulary")["word"].to_pylist()
    factors = compute(ctx.workspace.array(factor_names(ctx.job, method)[0]))
    order = np.argsort(-factors, axis=0, kind="stable")[: ctx.job.coherence.n_words].T
    labels = best_labels(ctx.job, ctx.workspace, method)
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


def document_parameters(job: TopicsJob) -> dict[str, Any]:
    """Return the section of weighting and the memory of a block, which lays the grid."""
    return {**sections("weighting")(job), "block_memory": job.resources.block_memory}


def topics_parameters(job: TopicsJob) -> dict[str, Any]:
    """Return the section of topics and the memory of a block, which tells what is whole."""
    return {**sections("topics")(job), "block_memory": job.resources.block_memory}


def evaluation_parameters(job: TopicsJob) -> dict[str, Any]:
    """Return the section of coherence, and the number of the first topic, which older tables have as 1."""
    return {**sections("coherence")(job), "first_topic": 0}


def stages(job: TopicsJob) -> tuple[StageSpec, ...]:  # noqa: ARG001 - the same for every job
    """Return the stages of a job."""
    selected = ("tokens", "selection", "vocabulary")
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
        StageSpec("topics", ("document_terms", "association"), topics_parameters, run_topics, plan_topics),
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
