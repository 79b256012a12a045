"""The stage that factorizes: every start of every method and what is kept of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.dtypes import Float64s, Int64s
from distembed.execution import heard_by
from distembed.factorization.clustering import (
    GROUPED_DOCUMENTS,
    SphericalKMeans,
    cluster_sums,
    joint_sizes,
)
from distembed.factorization.consensus import (
    POOLED_BYTES,
    label_agreement,
    mean_agreement,
    run_start,
)
from distembed.factorization.document_factors import subtract_shift
from distembed.factorization.nmf import NMF, SemanticNMF, common_topics
from distembed.factorization.nmf_rounds import (
    SAMPLE_COPIES,
    SEEDING_SAMPLE,
    STACKED_SUMS,
    STATE_WORDS,
    step_documents,
)
from distembed.job.stage import Context
from distembed.lift import lift
from distembed.linalg.chunks import STORED_BYTES
from distembed.linalg.operators import whole_csr
from distembed.options import options_of
from distembed.plan import Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.states import scope
from distembed.systems.topics import outputs
from distembed.systems.topics.job import OF_GRAPH, POOLED, Method, TopicsJob

ESTIMATORS: Mapping[Method, tuple[Any, dict[str, Any]]] = {
    "consensus": (NMF, {}),  # what a finished job is read by
    "semantic_nmf": (SemanticNMF, {"shift": 1}),  # M is shifted once, and not by every start in every round
    "nmf": (NMF, {}),
    "orthogonal_nmf": (NMF, {"solver": "orthogonal"}),
    # the tolerance of the section is one of the objective of NMF
    "spherical_kmeans": (SphericalKMeans, {"tol": 1e-4}),
}
"""The estimator of each method, and its options that are not those of the section."""


NO_WORD = ".*hold no word"
"""A warning that the fits of a job leave out: the report says once which documents hold no word."""


def matrices(ctx: Context, methods: Sequence[Method]) -> dict[str, Any]:
    """Return what some methods are fitted to, by the names that `fit` gives it.

    A matrix is whole where it is one block's size, and in the workers' memory where it fits there.
    """
    ppmi = outputs.PPMI.read(ctx.workspace)
    options: dict[str, Any] = {"dtype": ppmi.dtype, "sparse": True}
    found = {"X": (outputs.TF_IDF.read(ctx.workspace), "document_terms")}
    if "semantic_nmf" in methods:
        shifted = lift(subtract_shift, "vd->vd", ppmi, shift=ctx.job.topics.shift, **options)
        found["M"] = (shifted, "association")
    if ctx.job.topics.has_graph and not {*OF_GRAPH}.isdisjoint(methods):
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
    return np.count_nonzero(labels >= 0) - objective if isinstance(model, SphericalKMeans) else objective


def plan_topics(job: TopicsJob, dims: Dimensions) -> StagePlan:
    """Return the plan of the methods one after the other: every start, and what is kept of them."""
    topics, k = job.topics, job.topics.n_topics
    plans = [plan_fits(job, dims, method, k) for method in topics.fitted]
    if "consensus" in topics.methods:  # its documents are solved as those of a method
        n_joined, n_documents = len(POOLED) * topics.n_starts * k, dims.size("document")
        joint, words = dims.whole(n_joined, n_joined, itemsize=8), dims.whole("word", k, itemsize=8)
        members = dims.block("document", len(POOLED) * topics.n_starts, itemsize=STORED_BYTES)
        sample = dims.whole(SAMPLE_COPIES, min(GROUPED_DOCUMENTS, n_documents), k, itemsize=STORED_BYTES)
        labels = dims.whole(3, "document", len(POOLED) * topics.n_starts, itemsize=8)
        held = [5 * joint, sample, STATE_WORDS * words, labels]
        plans.append(stage_plan(task(joint_sizes, members, output=joint), whole=held))
    return in_turn(*plans)


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
        n_documents = dims.size("document")
        drawn = SAMPLE_COPIES * matrices[0] * min(SEEDING_SAMPLE, n_documents) // n_documents
    held += n_starts * words
    if job.topics.keeps_consensus(method):
        tasks.append(min(dims["memory"].size, POOLED_BYTES * dims.whole("word", n_pooled, itemsize=1)))
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
    used = matrices(ctx, job.topics.fitted)
    curves: dict[Method, list[Float64s]] = {}
    labels: dict[Method, list[Int64s]] = {}
    ends: dict[Method, tuple[Int64s, float]] = {}  # what is kept: its labels and its loss
    last: tuple[Method, ...] = ("consensus",) if "consensus" in methods else ()
    for method in (*job.topics.fitted, *last):
        if method == "consensus":
            labels[method] = [one for each in POOLED for one in labels[each]]
            curves[method] = [one for each in POOLED for one in curves[each]]
            with scope(method), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=NO_WORD)
                model: Any = common_topics(
                    used["X"], labels[method], n_topics, random_state=job.topics.random_state
                )
        else:
            model = fitted(ctx, method, used)
            labels[method] = [start.labels for start in model.starts_]
            curves[method] = [losses_of(model, start.labels, start.objective) for start in model.starts_]
        if method in methods:
            _store_factors(ctx, method, model, used["X"])
            ends[method] = model.labels_, float(losses_of(model, model.labels_, model.objective_)[-1])
    losses = [
        {"method": method, "start": number, "round": place, "loss": loss}
        for method in methods
        for number, curve in enumerate(curves[method])
        for place, loss in enumerate(curve.tolist(), 1)
    ]
    rows, stored = list[dict[str, Any]](), list[Int64s]()
    for method in methods:
        own, (kept, end) = [float(curve[-1]) for curve in curves[method]], ends[method]
        tables = label_agreement(np.stack([kept, *labels[method]]))
        means = zip(own, *(mean_agreement(table[1:, 1:]).tolist() for table in tables), strict=True)
        names = "method", "start", "loss", "nmi", "ari", "kept"
        found = [
            dict(zip(names, (method, number, *each, False), strict=True)) for number, each in enumerate(means)
        ]
        if job.topics.keeps_consensus(method):
            of_kept = (float(mean_agreement(table)[0]) for table in tables)
            found.append(dict(zip(names, (method, None, end, *of_kept, True), strict=True)))
            stored += [*labels[method], kept]
        else:
            best = int(np.argmin(own))
            found[best]["kept"] = True
            stored += [*labels[method][:best], kept, *labels[method][best + 1 :]]
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
