"""The stage of topics: every start of every method, and the factors of the one that is kept."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.execution import compute, heard_by
from distembed.factorization.clustering import SphericalKMeans
from distembed.factorization.consensus import (
    POOLED_BYTES,
    STABLE,
    label_agreement,
    mean_agreement,
    run_start,
    topic_stability,
)
from distembed.factorization.document_factors import StartRow, start_rows
from distembed.factorization.nmf import NMF, SemanticNMF
from distembed.factorization.nmf_blocks import cluster_sums, step_documents, subtract_shift
from distembed.factorization.nmf_rounds import SAMPLE_COPIES, SEEDING_SAMPLE, STACKED_SUMS, STATE_WORDS
from distembed.job.outputs import ArrayOutput
from distembed.job.stage import Context, Counted
from distembed.lift import lift
from distembed.linalg.chunks import STORED_BYTES
from distembed.linalg.operators import whole_csr
from distembed.neighbors.search import check_n_neighbors
from distembed.plan import Dimension, Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages.corpus_sections import counting_options
from distembed.stages.dimensions import counting_dimensions, described
from distembed.states import scope
from distembed.storage.workspace import Workspace
from distembed.systems.topics import outputs
from distembed.systems.topics.job import OF_GRAPH, Method, TopicsJob


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


def matrices(ctx: Context, methods: Sequence[Method]) -> Matrices:
    """Return what some methods are fitted to."""

    def held(array: da.Array, stage: str) -> Any:
        return _held(ctx, array, ctx.workspace.stages()[stage].facts["n_nonzero"])

    X = held(outputs.TF_IDF.read(ctx.workspace), "document_terms")
    # M is shifted here once and not by every start in every round
    M = held(shifted_ppmi(ctx), "association") if "semantic_nmf" in methods else None
    uses_graph = ctx.job.topics.has_graph and not {*OF_GRAPH}.isdisjoint(methods)
    graph = held(outputs.DOCUMENT_GRAPH.read(ctx.workspace), "document_graph") if uses_graph else None
    return Matrices(X, M, graph)


def shifted_ppmi(ctx: Context) -> da.Array:
    """Return positive PMI less log shift, cut off at zero."""
    array = outputs.PPMI.read(ctx.workspace)
    options = {"dtype": array.dtype, "sparse": True, "shift": ctx.job.topics.shift}
    return lift(subtract_shift, "vd->vd", array, **options)


def _held(ctx: Context, array: da.Array, n_nonzero: int) -> Any:
    """Return a matrix whole where it is one block's size, in the workers' memory where it fits there."""
    if STORED_BYTES * n_nonzero <= ctx.job.resources.block_memory:
        return whole_csr(array)
    return array.persist() if held_bytes(ctx.job, n_nonzero) else array


def held_bytes(job: TopicsJob, n_nonzero: int) -> int:
    """Return the bytes of a matrix that stays in memory, 0 where it is read again in every round."""
    size, resources = STORED_BYTES * n_nonzero, job.resources
    return size if size <= max(resources.block_memory, resources.process_memory // 4) else 0


def fitted(ctx: Context, method: Method, n_topics: int, used: Matrices) -> Any:
    """Return the estimator of a method, fitted from all its starts."""
    options = ctx.job.topics
    common: dict[str, Any] = {
        "n_init": options.n_starts,
        "max_iter": options.max_iter,
        "choose": options.choose,
        "random_state": options.random_state,
    }
    model: Any
    if method == "spherical_kmeans":
        model = SphericalKMeans(n_topics, **common)
    else:
        common |= {"init": options.init, "tol": options.tol}
    if method == "orthogonal_nmf":
        model = NMF(n_topics, solver="orthogonal", **common)
    elif method == "nmf":
        model = NMF(n_topics, solver=options.solver, graph_weight=options.graph_weight, **common)
    elif method == "semantic_nmf":
        common |= {"semantic_weight": options.semantic_weight, "graph_weight": options.graph_weight}
        model = SemanticNMF(n_topics, shift=1, **common)  # M is shifted already
    name = method if options.n_topics != "auto" else f"{n_topics} topics"
    show = lambda what, done, total: ctx.progress(name, unit=what)(done, total)  # noqa: E731
    with (
        scope(method),
        heard_by(show),
        warnings.catch_warnings(),
    ):  # what documents hold no word is said once, by the report
        warnings.filterwarnings("ignore", message=".*hold no word")
        return model.fit(**used.of(method))


def losses_of(model: Any) -> list[NDArray[np.float64]]:
    """Return the losses of each start by round: of spherical k-means, the sum of 1 - cosine."""
    if isinstance(model, SphericalKMeans):
        return [np.count_nonzero(start.labels >= 0) - start.objective for start in model.starts_]
    return [start.objective for start in model.starts_]


def plan_topics(job: TopicsJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the methods one after the other: every start, and what is kept of them."""
    return in_turn(
        *(plan_fits(job, dims, method, job.topics.largest_n_topics) for method in job.topics.methods)
    )


def plan_fits(job: TopicsJob, dims: Dimensions, method: Method, k: int) -> StagePlan:
    """Return the plan of the starts of a method: each is a task where its matrices are whole, else its steps are."""
    names = ["term", *(["associated"] if method == "semantic_nmf" else [])]
    names += ["edge"] if job.topics.has_graph and method in OF_GRAPH else []
    matrices = [dims.whole(name, itemsize=STORED_BYTES) for name in names]
    documents, words = dims.whole("document", k), dims.whole("word", k, itemsize=8)
    n_starts, n_pooled = job.topics.n_starts, job.topics.n_starts * k
    if all(size <= dims["memory"].size for size in matrices):
        tasks = [task(run_start, *matrices, output=documents + STATE_WORDS * words)]
        held, n_tasks, drawn = sum(matrices) + n_starts * documents, n_starts, 0
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
    held += n_starts * words
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
    used = matrices(ctx, job.topics.methods)
    rows: list[StartRow] = []
    labels: list[NDArray[np.int64]] = []
    losses: list[dict[str, Any]] = []
    for method in job.topics.methods:
        model = fitted(ctx, method, n_topics_of(job, ctx.workspace), used)
        _store_factors(ctx, method, model, used.X)
        of_method, of_starts = _start_rows(job, method, model)
        rows, labels = rows + of_method, labels + of_starts
        losses += [
            {"method": method, "start": number, "round": place + 1, "loss": value}
            for number, curve in enumerate(losses_of(model))
            for place, value in enumerate(curve.tolist())
        ]
    ctx.store_table(outputs.LOSSES, pa.Table.from_pylist(losses))
    ctx.store_table(outputs.STARTS, pa.Table.from_pylist([row._asdict() for row in rows]))
    ctx.store(outputs.LABELS, da.from_array(np.stack(labels), chunks=(1, -1)))
    own = next(place for place, row in enumerate(rows) if row.kept)
    sizes = np.bincount(labels[own] + 1, minlength=n_topics_of(job, ctx.workspace) + 1)
    return {"n_unlabeled": int(sizes[0]), "smallest": int(sizes[1:].min()), "largest": int(sizes[1:].max())}


def _start_rows(job: TopicsJob, method: Method, model: Any) -> tuple[list[StartRow], list[NDArray[np.int64]]]:
    """Return what is known of each start of a method and of their consensus, and their labels."""
    losses = [float(curve[-1]) for curve in losses_of(model)]
    labels = [start.labels for start in model.starts_]
    agreement = label_agreement(np.stack(labels))
    means = zip(mean_agreement(agreement.nmi), mean_agreement(agreement.ari), strict=True)
    best = None if job.topics.has_consensus else int(np.argmin(losses))
    rows = [
        StartRow(method, number, losses[number], float(nmi), float(ari), number == best)
        for number, (nmi, ari) in enumerate(means)
    ]
    if best is not None:
        labels[best] = model.labels_
        return rows, labels
    both = label_agreement(np.stack([model.labels_, *labels]))
    nmi, ari = (float(mean_agreement(table)[0]) for table in both)
    loss = model.inertia_ if method == "spherical_kmeans" else float(model.objective_[-1])
    return [*rows, StartRow(method, None, loss, nmi, ari, kept=True)], [*labels, model.labels_]


def _store_factors(ctx: Context, method: Method, model: Any, X: Any) -> None:
    """Store word and document factors; those of spherical k-means are centers and cosines with them."""
    is_kmeans, prefix = method == "spherical_kmeans", prefix_of(ctx.job, method)
    words = model.cluster_centers_.T if is_kmeans else model.word_factors_
    _store_rows(ctx, outputs.WORD_FACTORS.of(of=prefix), words)
    documents = model.transform(X) if is_kmeans else model.document_factors_
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
    method = job.topics.method
    used = matrices(ctx, (method,))
    rows: list[dict[str, Any]] = []
    for n_topics in sorted(set(job.topics.n_topics_range)):
        with scope(f"{n_topics}-topics"):
            rows.append({"n_topics": n_topics} | _stability(fitted(ctx, method, n_topics, used)))
    stable = [row for row in rows if row["least_silhouette"] >= STABLE]
    chosen = (stable[-1] if stable else max(rows, key=lambda row: row["ari"]))["n_topics"]
    table = [row | {"chosen": row["n_topics"] == chosen} for row in rows]
    ctx.store_table(outputs.N_TOPICS, pa.Table.from_pylist(table))
    return {"n_topics": chosen, "is_stable": bool(stable)}


def _stability(model: Any) -> dict[str, float]:
    """Return how stable the topics of the starts of a model are, and how well they fit."""
    groups = topic_stability([start.words for start in model.starts_])
    agreement = label_agreement(np.stack([start.labels for start in model.starts_]))
    return {
        "least_silhouette": groups.least,
        "mean_silhouette": groups.mean,
        "nmi": float(mean_agreement(agreement.nmi).mean()),
        "ari": float(mean_agreement(agreement.ari).mean()),
        "loss": float(np.mean([curve[-1] for curve in losses_of(model)])),
    }
