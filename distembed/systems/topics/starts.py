"""The stage of topics: every start of every method, and the factors of the one that is kept."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from operator import itemgetter
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.execution import compute, counted_from, heard_by
from distembed.factorization.clustering import ROUNDS_OF_KMEANS, SphericalKMeans
from distembed.factorization.consensus import POOLED_BYTES, topic_stability
from distembed.factorization.consensus_blocks import (
    label_agreement,
    largest_stable,
    mean_agreement,
)
from distembed.factorization.nmf import NMF, SemanticNMF
from distembed.factorization.nmf_blocks import cluster_sums, step_documents, subtract_shift
from distembed.factorization.nmf_rounds import SAMPLE_COPIES, SEEDING_SAMPLE, STACKED_SUMS, STATE_WORDS
from distembed.factorization.nmf_stored import StartRow, start_rows
from distembed.job.outputs import ArrayOutput
from distembed.job.stage import Context, Counted
from distembed.lift import lift
from distembed.linalg.chunks import STORED_BYTES
from distembed.linalg.operators import whole_csr
from distembed.plan import Dimension, Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages.corpus_sections import counting_options
from distembed.stages.dimensions import counting_dimensions, described
from distembed.states import block_memory, keep, kept, scope
from distembed.storage.tasks import boxed_all, run_blocks
from distembed.storage.workspace import Workspace
from distembed.systems.topics import outputs
from distembed.systems.topics.job import OF_GRAPH, Method, TopicsJob
from distembed.temporaries import block


def n_topics_of(job: TopicsJob, workspace: Workspace) -> int:
    """Return the number of topics: that of the job, or the one that was chosen for it."""
    if job.topics.n_topics == "auto":
        return int(workspace.stages()["n_topics"].facts["n_topics"])
    return job.topics.n_topics


def prefix_of(job: TopicsJob, method: Method) -> str:
    """Return what the names of the outputs of a method begin with: nothing for the method of the job."""
    return "" if method == job.topics.method else f"{method}_"


def rows_of(workspace: Workspace, method: Method) -> dict[int, StartRow]:
    """Return what is known of the starts of a method, and of their consensus, by their rows in the array of labels."""
    return {place: row for place, row in enumerate(start_rows(workspace)) if row.method == method}


def starts_of(workspace: Workspace, method: Method) -> list[StartRow]:
    """Return what is known of the starts of a method, without their consensus."""
    return [row for row in rows_of(workspace, method).values() if row.start is not None]


def kept_row(workspace: Workspace, method: Method) -> StartRow:
    """Return what is known of what is kept of a method."""
    return next(row for row in rows_of(workspace, method).values() if row.kept)


def kept_labels(workspace: Workspace, method: Method) -> NDArray[np.int64]:
    """Return the topic of each document by what is kept of a method, (documents,)."""
    place = next(place for place, row in rows_of(workspace, method).items() if row.kept)
    return np.asarray(compute(outputs.LABELS.read(workspace)[place]))


def classes_of(workspace: Workspace) -> NDArray[np.object_] | None:
    """Return the label each document came with, or None where there are not two different ones."""
    labels = np.array(workspace.table("documents")["label"].to_pylist(), dtype=object)
    return labels if len({label for label in labels if label is not None}) > 1 else None


def topic_dimensions(job: TopicsJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job: of its corpus and its pairs, of what is associated, and of its graph."""
    dimensions = counting_dimensions(job, counting_options(job), counted)
    done = {} if counted is None else counted.stages
    pair, term = dimensions["pair"], dimensions["term"]
    n_edges = 2 * job.topics.n_neighbors * dimensions["document"].size
    edge = Dimension(n_edges, -(-n_edges * term.block // max(1, term.size)), counted=False)
    found = {"term": ("document_terms", term), "associated": ("association", pair._replace(counted=False))}
    found["edge"] = (outputs.DOCUMENT_GRAPH.name, edge)
    for name, (stage, bound) in found.items():
        n = int(done[stage].facts["n_nonzero"]) if stage in done else bound.size
        dimensions[name] = Dimension(n, min(n, bound.block), stage in done or bound.counted)
    return described(dimensions)


class Matrices(NamedTuple):
    """What the methods of a stage are fitted to, as it is held; None where no method asks for it."""

    X: Any
    """tf-idf."""
    M: Any
    """Shifted positive PMI."""
    graph: Any
    """The neighbors of documents."""

    def of(self, method: Method) -> dict[str, Any]:
        """Return the matrices that a method is fitted to, by the names that `fit` gives them."""
        used = {"X": self.X}
        if method == "semantic_nmf":
            used["M"] = self.M
        if method in OF_GRAPH and self.graph is not None:
            used["graph"] = self.graph
        return used

    def is_whole(self, method: Method) -> bool:
        """Return whether these are in memory."""
        return not any(isinstance(matrix, da.Array) for matrix in self.of(method).values())


class Work(NamedTuple):
    """What all starts of a stage with one number of topics have in common."""

    ctx: Context
    matrices: Matrices
    n_topics: int
    keeps_words: bool
    least: dict[
        Method, tuple[float, int, Any]
    ]  # of the starts fitted here: the loss, the number and the model
    is_tried: bool = False  # whether this number of topics is one of several

    def name(self, method: Method) -> str:
        """Return what is reported of."""
        return f"{self.n_topics} topics" if self.is_tried else method


def matrices(ctx: Context, methods: Sequence[Method]) -> Matrices:
    """Return what some methods are fitted to."""

    def held(array: da.Array, stage: str) -> Any:
        return _held(ctx, array, ctx.workspace.stages()[stage].facts["n_nonzero"])

    X = held(outputs.TF_IDF.read(ctx.workspace), "document_terms")
    # M is shifted here once and not by every start in every round
    M = held(shifted_ppmi(ctx), "association") if "semantic_nmf" in methods else None
    uses_graph = ctx.job.topics.graph_weight > 0 and not {*OF_GRAPH}.isdisjoint(methods)
    graph = held(outputs.DOCUMENT_GRAPH.read(ctx.workspace), "document_graph") if uses_graph else None
    return Matrices(X, M, graph)


def shifted_ppmi(ctx: Context) -> da.Array:
    """Return positive PMI less log shift, cut off at zero."""
    array = outputs.PPMI.read(ctx.workspace)
    options = {"dtype": array.dtype, "sparse": True, "shift": ctx.job.topics.shift}
    return lift(subtract_shift, "vd->vd", array, **options)


def is_whole(job: TopicsJob, n_nonzero: int) -> bool:
    """Return whether a matrix of so many values is read as one block."""
    return STORED_BYTES * n_nonzero <= job.resources.block_memory


def _held(ctx: Context, array: da.Array, n_nonzero: int) -> Any:
    """Return a matrix whole where it is one block's size, in the workers' memory where it fits there."""
    if is_whole(ctx.job, n_nonzero):
        return whole_csr(array)
    return array.persist() if held_bytes(ctx.job, n_nonzero) else array


def held_bytes(job: TopicsJob, n_nonzero: int) -> int:
    """Return the bytes of a matrix that stays in memory, 0 where it is read again in every round."""
    size, resources = STORED_BYTES * n_nonzero, job.resources
    return size if size <= max(resources.block_memory, resources.process_memory // 4) else 0


def fitted(work: Work, method: Method, number: int) -> Any:
    """Return one start of a method, fitted."""
    model = estimator(work.ctx.job, method, work.n_topics, number)
    with warnings.catch_warnings():  # what documents hold no word is said once, by the report
        warnings.filterwarnings("ignore", message=".*hold no word")
        return model.fit(**work.matrices.of(method))


def estimator(job: TopicsJob, method: Method, n_topics: int, number: int = 0) -> Any:
    """Return the estimator of a start of a method."""
    options = job.topics
    seed = options.random_state + number
    if method == "spherical_kmeans":
        return SphericalKMeans(n_topics, n_iter=options.n_iter, random_state=seed)
    common: dict[str, Any] = {
        "init": options.init,
        "n_iter": options.n_iter,
        "tol": options.tol,
        "random_state": seed,
    }
    if method == "orthogonal_nmf":
        return NMF(n_topics, solver="orthogonal", **common)
    common["graph_weight"] = options.graph_weight
    if method == "semantic_nmf":
        # M is shifted already
        return SemanticNMF(n_topics, shift=1, semantic_weight=options.semantic_weight, **common)
    return NMF(n_topics, solver=options.solver, **common)


def _name_of(method: Method, number: int) -> str:
    """Return the name of the state that is kept of a start."""
    return f"{method}-{number:04d}"


class Start(NamedTuple):
    """What is kept of each start."""

    labels: NDArray[np.int64]  # (documents,)
    loss: NDArray[np.float64]  # one value per round, the less the better
    words: Any  # (words, topics) float32 in blocks of words, where a consensus is made of them, else without topics


def _found_by(work: Work, model: Any) -> Start:
    rows = max(1, block_memory() // (POOLED_BYTES * work.n_topics * work.ctx.job.topics.n_starts))
    words = words_of(model).astype(np.float32)[:, : work.n_topics if work.keeps_words else 0]
    return Start(model.labels_, loss_of(model), da.from_array(words, chunks=(rows, -1)))


def starts_of_each(work: Work, methods: Sequence[Method]) -> dict[Method, list[Start]]:
    """Return every start of some methods: found on disk, or fitted now, all at once where their matrices are whole."""
    _fit_at_once(work, [method for method in methods if work.matrices.is_whole(method)])
    numbers = range(work.ctx.job.topics.n_starts)
    return {method: [_start_of(work, method, number) for number in numbers] for method in methods}


def _fit_at_once(work: Work, methods: Sequence[Method]) -> None:
    """Fit and keep the starts of some methods that are not on disk, each by a task."""
    numbers = range(work.ctx.job.topics.n_starts)
    missing = [
        (method, number)
        for method in methods
        for number in numbers
        if kept(_name_of(method, number), Start) is None
    ]
    if not missing:
        return
    models = [estimator(work.ctx.job, method, work.n_topics, number) for method, number in missing]
    items = da.from_array(boxed_all(list(zip(missing, models, strict=True))), chunks=1, name=False)
    used = {name for method in methods for name in work.matrices.of(method)}
    given = {name: matrix for name, matrix in work.matrices._asdict().items() if name in used}
    fits = lift(_fit_start, "s->s", items, dtype=object, step="start", **given)
    with warnings.catch_warnings():  # here, since the filters are those of all threads
        warnings.filterwarnings("ignore", message=".*hold no word")
        run_blocks(
            fits, partial(_keep_found, work), name=lambda place: "start {1} of {0}".format(*missing[place])
        )


@block(temporaries=2)
def _fit_start(
    item: tuple[tuple[Method, int], Any], *, X: Any, M: Any = None, graph: Any = None
) -> tuple[tuple[Method, int], list[Any]]:
    """Return which start a model is, and the fitted model in a list, from which it is taken."""
    start, model = item
    return start, [model.fit(**Matrices(X, M, graph).of(start[0]))]


def _keep_found(work: Work, found: tuple[tuple[Method, int], list[Any]]) -> None:
    (method, number), models = found
    model = models.pop()  # Dask holds what a task returns until the last is done
    start = keep(_name_of(method, number), lambda: _found_by(work, model), Start)
    if not work.keeps_words:
        own = (float(compute(start.loss)[-1]), number, model)
        work.least[method] = min(own, work.least.get(method, own), key=itemgetter(0, 1))
    n_starts = work.ctx.job.topics.n_starts
    n_done = sum(kept(_name_of(method, each), Start) is not None for each in range(n_starts))
    work.ctx.progress(work.name(method), unit="starts")(n_done, n_starts)


def _start_of(work: Work, method: Method, number: int) -> Start:
    """Return what is kept of one start: found on disk, or fitted now."""
    fit = cache(lambda: _found_by(work, fitted(work, method, number)))
    with _rounds_of_start(work, method, number):
        if not work.keeps_words and not work.matrices.is_whole(method):
            fit()  # outside of what is kept of it, so that its last round is found again if it is chosen
        found = keep(_name_of(method, number), fit, Start)
    return Start(compute(found.labels), compute(found.loss), found.words)


@contextmanager
def _rounds_of_start(work: Work, method: Method, number: int) -> Iterator[None]:
    """Report the rounds of a start as some of those of all its starts; one that is kept is fitted once more."""
    options = work.ctx.job.topics
    what = ROUNDS_OF_KMEANS if method == "spherical_kmeans" else "rounds"
    n_rounds = (options.n_starts + (0 if work.keeps_words else 1)) * options.n_iter
    show = work.ctx.progress(work.name(method), unit="rounds")
    with heard_by(lambda _, done, __: show(done, n_rounds)):
        with counted_from(what, number * options.n_iter, n_rounds):
            yield
        show(min((number + 1) * options.n_iter, n_rounds), n_rounds)


def _is_kmeans(model: Any) -> bool:
    return isinstance(model, SphericalKMeans)


def words_of(model: Any) -> NDArray[Any]:
    """Return the word factors of a model, (words, topics): of spherical k-means its centroids."""
    return np.asarray(model.centroids_.T if _is_kmeans(model) else model.word_factors_)


def loss_of(model: Any) -> NDArray[np.float64]:
    """Return the objective of each round as a loss: of spherical k-means, the sum of 1 - cosine."""
    if _is_kmeans(model):
        return np.count_nonzero(model.labels_ >= 0) - model.objective_
    return np.asarray(model.objective_)


def plan_topics(job: TopicsJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the methods one after the other: every start, and what is kept of them."""
    return in_turn(
        *(plan_fits(job, dims, method, job.topics.largest_n_topics) for method in job.topics.methods)
    )


def plan_fits(job: TopicsJob, dims: Dimensions, method: Method, k: int) -> StagePlan:
    """Return the plan of the starts of a method: each is a task where its matrices are whole, else its steps are."""
    names = ["term", *(["associated"] if method == "semantic_nmf" else [])]
    names += ["edge"] if job.topics.graph_weight > 0 and method in OF_GRAPH else []
    matrices = [dims.whole(name, itemsize=STORED_BYTES) for name in names]
    documents, words = dims.whole("document", k), dims.whole("word", k, itemsize=8)
    n_starts, n_pooled = job.topics.n_starts, job.topics.n_starts * k
    if all(size <= dims["memory"].size for size in matrices):
        tasks = [task(_fit_start, *matrices, output=documents + STATE_WORDS * words)]
        held, n_tasks, drawn = sum(matrices), n_starts, 0
    else:
        X, *others = (dims.block(name, itemsize=STORED_BYTES) for name in names)
        rows = dims.block("document", k)
        tasks = [
            task(step_documents, X, rows, words, output=rows + words),
            task(cluster_sums, X, rows, words, output=words),
            STACKED_SUMS * words,
            *(task(subtract_shift, each, output=each) for each in others),
        ]
        held = STATE_WORDS * words + sum(held_bytes(job, dims.size(name)) for name in names)
        n_tasks = 2 * max(dims.n_blocks(name) for name in names)
        drawn = (
            SAMPLE_COPIES * matrices[0] * min(SEEDING_SAMPLE, dims.size("document")) // dims.size("document")
        )
    if job.topics.has_consensus:
        tasks.append(min(dims["memory"].size, POOLED_BYTES * dims.whole("word", n_pooled, itemsize=1)))
        held += dims.whole(
            5, n_pooled, n_pooled, itemsize=8
        )  # cosines of the topics of all starts, and their groups
    labels = dims.whole("document", n_starts, itemsize=8)
    stored = documents + (1 + n_starts) * words // 2 + labels
    return stage_plan(
        *tasks, whole=[held, drawn, 2 * labels], stored=stored, n_tasks=n_tasks, states=documents + 2 * words
    )


def run_topics(ctx: Context) -> dict[str, Any]:
    """Factorize from several starts by each method; keep every start's labels, and the factors of what is chosen."""
    job: TopicsJob = ctx.job
    n_topics = n_topics_of(job, ctx.workspace)
    keeps_words = job.topics.has_consensus
    work = Work(ctx, matrices(ctx, job.topics.methods), n_topics, keeps_words, least={})
    found = starts_of_each(work, job.topics.methods)
    rows: list[StartRow] = []
    labels: list[NDArray[np.int64]] = []
    for method in job.topics.methods:
        with _rounds_of_start(work, method, job.topics.n_starts):
            kept = _kept(work, method, found[method])
            _store_factors(ctx, method, kept.model, work.matrices.X)
        rows += kept.rows
        labels += [*(start.labels for start in found[method]), *kept.further_labels]
    _store_losses(ctx, found)
    if job.topics.n_starts > 1:
        ctx.store_table(outputs.STARTS, pa.Table.from_pylist([row._asdict() for row in rows]))
    ctx.store(outputs.LABELS, da.from_array(np.stack(labels), chunks=(1, -1)))
    own = next(place for place, row in enumerate(rows) if row.kept)
    sizes = np.bincount(labels[own] + 1, minlength=n_topics + 1)
    return {"n_unlabeled": int(sizes[0]), "smallest": int(sizes[1:].min()), "largest": int(sizes[1:].max())}


def _store_losses(ctx: Context, found: dict[Method, list[Start]]) -> None:
    rows = [
        {"method": method, "start": number, "round": place + 1, "loss": value}
        for method, all_starts in found.items()
        for number, start in enumerate(all_starts)
        for place, value in enumerate(start.loss.tolist())
    ]
    ctx.store_table(outputs.LOSSES, pa.Table.from_pylist(rows))


class Kept(NamedTuple):
    """What is kept of the starts of a method, and what is known of each of them."""

    model: Any
    rows: list[StartRow]
    further_labels: list[NDArray[np.int64]]  # those of a consensus


def _kept(work: Work, method: Method, starts: list[Start]) -> Kept:
    """Return the start that is chosen, or the consensus, fitted; and how far the starts agree."""
    losses = np.array([start.loss[-1] for start in starts])
    agreement = label_agreement(np.stack([start.labels for start in starts]))
    chosen = None if work.ctx.job.topics.has_consensus else int(np.argmin(losses))
    means = zip(mean_agreement(agreement.nmi), mean_agreement(agreement.ari), strict=True)
    rows = [
        StartRow(method, number, float(losses[number]), float(nmi), float(ari), number == chosen)
        for number, (nmi, ari) in enumerate(means)
    ]
    if chosen is not None:
        _, number, model = work.least.get(method, (0.0, None, None))
        return Kept(model if number == chosen else fitted(work, method, chosen), rows, [])
    model = _consensus(work, method, starts)
    labels = np.stack([model.labels_, *(start.labels for start in starts)])
    nmi, ari = (float(mean_agreement(table)[0]) for table in label_agreement(labels))
    row = StartRow(method, None, float(loss_of(model)[-1]), nmi, ari, kept=True)
    return Kept(model, [*rows, row], [model.labels_])


def _consensus(work: Work, method: Method, starts: list[Start]) -> Any:
    """Return the consensus of the starts of a method."""
    model = estimator(work.ctx.job, method, work.n_topics)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*hold no word")
        return model.fit_consensus(starts=[start.words for start in starts], **work.matrices.of(method))


def _store_factors(ctx: Context, method: Method, model: Any, X: Any) -> None:
    """Store word and document factors; those of spherical k-means are centroids and cosines with them."""
    documents = model.transform(X) if _is_kmeans(model) else model.document_factors_
    prefix = prefix_of(ctx.job, method)
    _store_rows(ctx, outputs.WORD_FACTORS.of(of=prefix), words_of(model))
    _store_rows(ctx, outputs.DOCUMENT_FACTORS.of(of=prefix), documents)
    if method == "semantic_nmf":
        _store_rows(ctx, outputs.CORE.of(of=prefix), model.core_)


def _store_rows(ctx: Context, output: ArrayOutput, rows: Any) -> None:
    """Store dense rows as float32, in the blocks they have."""
    rows = rows.astype(np.float32)
    array = rows if isinstance(rows, da.Array) else da.from_array(rows, chunks=("auto", -1))
    ctx.store(output, array)


def number_parameters(job: TopicsJob) -> dict[str, Any]:
    """Return the keys of topics that the number depends on, and the memory of a block, which tells what is whole."""
    other = {"compare_with", "choose"}
    return {
        "topics": job.topics.model_dump(mode="json", exclude=other),
        "block_memory": job.resources.block_memory,
    }


def plan_number(job: TopicsJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the starts of every number of topics that is tried."""
    return in_turn(
        *(plan_fits(job, dims, job.topics.method, k) for k in sorted(set(job.topics.n_topics_range)))
    )


def run_number(ctx: Context) -> dict[str, Any]:
    """Try every number of topics from several starts, and keep the largest that is stable."""
    job: TopicsJob = ctx.job
    used = matrices(ctx, (job.topics.method,))
    rows = []
    for n_topics in sorted(set(job.topics.n_topics_range)):
        with scope(f"{n_topics}-topics"):
            rows.append(_stability(Work(ctx, used, n_topics, keeps_words=True, least={}, is_tried=True)))
    numbers, least = [row["n_topics"] for row in rows], [row["least_silhouette"] for row in rows]
    stable = largest_stable(numbers, least)
    chosen = numbers[int(np.argmax([row["ari"] for row in rows]))] if stable is None else stable
    table = [row | {"chosen": row["n_topics"] == chosen} for row in rows]
    ctx.store_table(outputs.N_TOPICS, pa.Table.from_pylist(table))
    return {"n_topics": chosen, "is_stable": stable is not None}


def _stability(work: Work) -> dict[str, Any]:
    """Return how stable the topics of one number are, and how well they fit."""
    options = work.ctx.job.topics
    starts = starts_of_each(work, (options.method,))[options.method]
    groups = topic_stability([start.words for start in starts])
    agreement = label_agreement(np.stack([start.labels for start in starts]))
    return {
        "n_topics": work.n_topics,
        "least_silhouette": groups.least,
        "mean_silhouette": groups.mean,
        "nmi": float(mean_agreement(agreement.nmi).mean()),
        "ari": float(mean_agreement(agreement.ari).mean()),
        "loss": float(np.mean([start.loss[-1] for start in starts])),
    }
