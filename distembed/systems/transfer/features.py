"""What is carried from documents to documents: topics, or the values of a table, and where they are stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from distembed.counting.documents import count_document_terms
from distembed.display import plural
from distembed.dtypes import Float64s
from distembed.execution import compute, whole
from distembed.factorization.lda import online_lda, share_topics
from distembed.factorization.lsa import LSA
from distembed.factorization.nmf import NMF
from distembed.factorization.nmf_blocks import step_documents
from distembed.factorization.nmf_rounds import SAMPLE_COPIES, SEEDING_SAMPLE, STACKED_SUMS, STATE_WORDS
from distembed.formats.tables import TableError, some
from distembed.job.inputs import file_sizes
from distembed.job.outputs import ArrayOutput, TableOutput
from distembed.job.stage import Context, sections, vectors_at
from distembed.linalg.blocks import sparse_times_dense
from distembed.linalg.operators import row_blocks, sparse_times
from distembed.manifold.correspondences import shared_values
from distembed.plan import Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages.collections import (
    SIDE_TERMS,
    SIDE_TOKENS,
    check_unique,
    ids_of,
    rows_of_ids,
)
from distembed.stages.corpus import (
    SIDES,
    plan_document_terms,
    section_of_side,
    tokens_of,
    vocabulary_of,
)
from distembed.stages.dimensions import PAIR_BYTES
from distembed.stages.singular import plan_of_triplets
from distembed.states import keep
from distembed.storage.workspace import Workspace
from distembed.systems.transfer import outputs
from distembed.systems.transfer.job import DenseRepresentation, LSARepresentation, TransferJob
from distembed.tables.rows import Domain, read_values
from distembed.tables.sections import TableSection
from distembed.vectors import WordVectors


def store_memory(ctx: Context, output: ArrayOutput, array: Any) -> None:
    """Store an array that is in memory, sparse ones in row blocks of about equal size."""
    lazy = row_blocks(array) if sp.issparse(array) else da.from_array(np.asarray(array), chunks=-1)
    ctx.store(output, lazy)


def in_memory(rows: da.Array) -> Any:
    """Return rows as one NumPy array, or one CSR array."""
    if not sp.issparse(rows._meta):
        return np.asarray(compute(rows))
    return sp.csr_array(sp.vstack([compute(rows.blocks[i]) for i in range(rows.numblocks[0])], format="csr"))


# --- how large it is -------------------------------------------------------------------------------------------


def set_of(job: TransferJob, dims: Dimensions, side: str) -> tuple[int, str]:
    """Return the columns of the rows among which neighbors are sought, and the dimension of their values if sparse."""
    if isinstance(job.representation, DenseRepresentation):
        return job.representation.n_components, ""
    return dims.size(f"{side}_word"), f"{side}_term"


def set_bytes(job: TransferJob, dims: Dimensions, side: str, *, itemsize: int = 4) -> int:
    """Return the bytes of these rows; a sparse value has a column of four bytes."""
    width, values = set_of(job, dims, side)
    if values:
        return dims.whole(values, itemsize=itemsize + 4)
    return dims.whole(f"{side}_document", width, itemsize=itemsize)


def n_values(job: TransferJob, dims: Dimensions) -> int:
    """Return how many topics or features are carried: of a table, at most as many as its bytes have room for."""
    if has_topics(job):
        return job.topics.n_topics
    n_bytes = sum(file_sizes(job.features.tables().values()).values())
    n_documents = sum(dims.size(f"{side}_document") for side in SIDES)
    return len(job.features.columns) or -(-n_bytes // (VALUE_BYTES * max(1, n_documents)))


TABLE_COPIES = 8
"""Copies of a table of features in memory while it is read: its text, its cells, and its numbers."""
VALUE_BYTES = 4
"""Bytes that a number of such a table takes at least."""


# --- the arrays ------------------------------------------------------------------------------------------------


def has_topics(job: TransferJob) -> bool:
    """Return whether topics are carried, and not the values of a table."""
    return job.features.path is None


def known_output(job: TransferJob) -> ArrayOutput:
    """Return the known values of the first collection."""
    return outputs.TOPICS if has_topics(job) else outputs.FEATURES


def inferred_output(job: TransferJob, side: str) -> ArrayOutput:
    """Return the inferred values of a collection, which the first has where they are features."""
    if side == "first":
        return outputs.INFERRED_FEATURES
    return (outputs.SIDE_TOPICS if has_topics(job) else outputs.SIDE_FEATURES).of(side=side)


def scores_output(job: TransferJob, side: str) -> TableOutput:
    """Return the table that says how well each topic or feature of a collection was inferred."""
    return outputs.of_side(outputs.TOPIC_SCORES if has_topics(job) else outputs.FEATURE_SCORES, side)


def value_names(job: TransferJob, workspace: Workspace) -> list[str]:
    """Return the number of each topic with its first words, or the name of each feature."""
    if not has_topics(job):
        return [str(name) for name in outputs.FEATURE_COLUMNS.read(workspace)["feature"].to_pylist()]
    words = outputs.TOPIC_WORDS.read(workspace)["words"].to_pylist()
    return [f"{number} {' '.join(top[:2])}" for number, top in enumerate(words)]


THIRDS = ("low", "middle", "high")


def group_names(job: TransferJob, workspace: Workspace, values: Float64s) -> list[str]:
    """Return a group of each document for maps: its largest topic, or the third that its first feature is in."""
    names = value_names(job, workspace)
    if has_topics(job):
        return [names[topic] for topic in values.argmax(axis=1).tolist()]
    first = in_memory(known_output(job).read(workspace))[:, 0]
    bounds = np.nanquantile(first, [1 / 3, 2 / 3])
    return [f"{names[0]}: {THIRDS[third]}" for third in np.searchsorted(bounds, values[:, 0]).tolist()]


def scale_of(job: TransferJob, workspace: Workspace) -> Float64s:
    """Return the unit of each column: its standard deviation where columns count alike, else 1."""
    if has_topics(job) or not job.features.standardize:
        return np.ones(known_output(job).read(workspace).shape[1])
    return np.asarray(outputs.FEATURE_COLUMNS.read(workspace)["deviation"], np.float64)


def first_values(job: TransferJob, workspace: Workspace) -> Float64s:
    """Return the known values of the first collection in their units, (n × f), NaN where they are not known."""
    values: Float64s = in_memory(known_output(job).read(workspace)).astype(np.float64)
    return values / scale_of(job, workspace)


def values_to_fit(job: TransferJob, workspace: Workspace, links: sp.csr_array) -> tuple[Float64s, Float64s]:
    """Return the values, in their units, and the confidences of the documents of all collections.

    Parameters
    ----------
    job : TransferJob
    workspace : Workspace
    links : CSR array (n × m)
        Which documents of the other collections, one below the other, take the values of which of the first.
    """
    first = first_values(job, workspace)
    values, confidence = shared_values(first, links)
    if job.features.second is not None:
        given = in_memory(outputs.SECOND_KNOWN_FEATURES.read(workspace)) / scale_of(job, workspace)
        rows = np.flatnonzero(~np.isnan(given).any(axis=1))
        values[len(first) + rows], confidence[len(first) + rows] = given[rows], 1.0
    return values, confidence


def fit_parameters(*names: str) -> Callable[[TransferJob], dict[str, Any]]:
    """Return a function that takes sections of a job, and in which units features count, as parameters of a stage."""

    def parameters(job: TransferJob) -> dict[str, Any]:
        units = {} if has_topics(job) else {"standardize": job.features.standardize}
        return {**sections(*names)(job), **units}

    return parameters


# --- the stage of a table --------------------------------------------------------------------------------------


def feature_parameters(job: TransferJob) -> dict[str, Any]:
    """Return what is read of the tables; in which units it counts is asked by later stages."""
    return {"features": job.features.model_dump(mode="json", exclude={"standardize"})}


def plan_features(job: TransferJob, dims: Dimensions) -> StagePlan:  # noqa: ARG001
    """Return the plan of reading the tables of values."""
    read = sum(file_sizes(job.features.tables().values()).values())
    return stage_plan(whole=[TABLE_COPIES * read], stored=read)


def check_features(job: TransferJob) -> list[str]:
    """Read the tables of values, where there are any, and return what they hold."""
    return [
        f"{plural(len(table.names), 'row')} of {plural(len(table.columns), 'feature')} in {job.features.tables()[side]}"
        for side, table in _tables(job).items()
    ]


def _tables(job: TransferJob) -> dict[str, Domain]:
    """Return the table of each collection that has one, the second with the columns of the first."""
    found: dict[str, Domain] = {}
    for side, path in job.features.tables().items():
        columns = found["first"].columns if found else job.features.columns
        shared = set(TableSection.model_fields) - {"path"}
        section = TableSection(path=path, **job.features.model_dump(include=shared))
        found[side] = read_values(section, key="features", columns=columns)
    return found


def run_features(ctx: Context) -> dict[str, Any]:
    """Read the values of documents, and join them with the documents by their ids."""
    job: TransferJob = ctx.job
    stored = {"first": outputs.FEATURES, "second": outputs.SECOND_KNOWN_FEATURES}
    facts: dict[str, Any] = {}
    strangers: list[tuple[str, str]] = []
    for side, table in _tables(job).items():
        path = job.features.tables()[side]
        ids = ids_of(ctx.workspace, side)
        values, unknown = _joined(table, ids, side, path)
        store_memory(ctx, stored[side], values)
        if side == "first":
            ctx.store_table(outputs.FEATURE_COLUMNS, _columns(table.columns, values))
        for note in table.notes:
            ctx.reporter.note(f"  features: {note}")
        if unknown:
            ctx.reporter.note(
                f"warning: {plural(len(unknown), 'id')} of {path} of {len(table.names):,} name no document of the "
                f"{side} collection: {some(unknown)} (the table unknown_ids has all)"
            )
        strangers += [(path, name) for name in unknown]
        facts[f"{side}_n_known"] = len(table.names) - len(unknown)
        facts[f"{side}_n_unknown_ids"] = len(unknown)
    columns = {"table": [path for path, _ in strangers], "id": [name for _, name in strangers]}
    schema = pa.schema([("table", pa.string()), ("id", pa.string())])
    ctx.store_table(outputs.UNKNOWN_IDS, pa.table(columns, schema=schema))
    return facts


def _joined(table: Domain, ids: pa.ChunkedArray, side: str, path: str) -> tuple[Float64s, list[str]]:
    """Return the values of each document of a collection, NaN without one, and the ids of no document."""
    check_unique(ids, side)
    rows = rows_of_ids(ids, table.names)
    if (rows < 0).all():
        raise TableError(
            f"no id of {path} (the first is {table.names[0]!r}) is that of a document of the {side} collection (the "
            f"first is {ids[0].as_py()!r}): set features.name_column, or {side}.id_field"
        )
    values = np.full((len(ids), len(table.columns)), np.nan)
    values[rows[rows >= 0]] = table.matrix[rows >= 0]
    return values, [table.names[place] for place in np.flatnonzero(rows < 0).tolist()]


def _columns(names: list[str], values: Float64s) -> pa.Table:
    """Return the name, mean and standard deviation of each column; a constant one has the deviation 1."""
    deviation = np.nanstd(values, axis=0)
    return pa.table(
        {
            "feature": names,
            "mean": np.nanmean(values, axis=0),
            "deviation": np.where(deviation > 0, deviation, 1.0),
            "least": np.nanmin(values, axis=0),
            "largest": np.nanmax(values, axis=0),
        }
    )


def plan_vectors(job: TransferJob, dims: Dimensions, *, side: str) -> StagePlan:
    """Return the plan of the rows that neighbors are sought among; tf-idf rows are those of the terms."""
    makers = {"lsa": _plan_lsa, "psdvec": _plan_means}
    if job.representation.kind not in makers:
        return stage_plan(n_tasks=0)
    return makers[job.representation.kind](job, dims, side)


def _plan_lsa(job: TransferJob, dims: Dimensions, side: str) -> StagePlan:
    rows, columns, model = f"{side}_document", f"{side}_word", LSA()
    return plan_of_triplets(
        dims,
        _rank_of(job, (dims.size(rows), dims.size(columns))),
        rows=rows,
        columns=columns,
        values=f"{side}_term",
        n_passes=model.n_passes,
        oversampling=model.oversampling,
    )


def _plan_means(job: TransferJob, dims: Dimensions, side: str) -> StagePlan:
    k, terms = set_of(job, dims, side)[0], dims.block(f"{side}_term", itemsize=8)
    return stage_plan(
        task(sparse_times_dense, terms, output=dims.block(f"{side}_document", k)),
        whole=[dims.whole(f"{side}_word", k)],
        stored=dims.whole(f"{side}_document", k),
        n_tasks=dims.n_blocks(f"{side}_term"),
    )


def vector_parameters(job: TransferJob, *, side: str) -> dict[str, Any]:
    """Return the representation, and where word vectors are given."""
    return {**sections("representation")(job), "vectors": section_of_side(job, side).vectors}


def check_vectors(job: TransferJob, *, side: str) -> list[str]:
    """Open the vectors that are given for the words of a collection."""
    url = section_of_side(job, side).vectors
    if url is not None and Workspace.exists(url):
        Workspace.open(url).describe("vectors")
    elif url is not None:
        WordVectors.load(url, max_words=1)
    return []


def run_vectors(ctx: Context, *, side: str) -> dict[str, Any]:
    """Make the rows that neighbors are sought among; tf-idf rows are those of the terms."""
    kind = ctx.job.representation.kind
    makers = {"lsa": _lsa_rows, "psdvec": _mean_vectors}
    if kind not in makers:
        return {}
    rows = makers[kind](ctx, side)
    ctx.store(outputs.VECTORS.of(side=side), rows)
    return {"n_components": int(rows.shape[1])}


def _lsa_of(job: TransferJob, shape: tuple[int, ...]) -> LSA:
    assert isinstance(job.representation, LSARepresentation)
    return LSA(_rank_of(job, shape), random_state=job.representation.random_state)


def _rank_of(job: TransferJob, shape: tuple[int, ...]) -> int:
    assert isinstance(job.representation, LSARepresentation)
    return max(1, min(job.representation.n_components, min(shape) - 1))


def _lsa_rows(ctx: Context, side: str) -> da.Array:
    terms = SIDE_TERMS.read(ctx.workspace, side=side)
    return _lsa_of(ctx.job, terms.shape).fit_transform(terms)


def _mean_vectors(ctx: Context, side: str) -> da.Array:
    """Return the mean of the vectors of a document's words, weighted by tf-idf, the mean of all words removed."""
    words = vocabulary_of(ctx.workspace, side=side).words
    path = section_of_side(ctx.job, side).vectors
    vectors = vectors_at(path).postprocess(remove_mean=True)
    table = np.zeros((len(words), vectors.vectors.shape[1]), np.float32)
    known = [row for row, word in enumerate(words) if word in vectors]
    if not known:
        raise ValueError(
            f"no word of the {side} collection (the first is {words[0]!r}) has a vector in {path} (its first word is "
            f"{vectors.words[0]!r})"
        )
    table[known] = vectors[[words[row] for row in known]]
    return sparse_times(SIDE_TERMS.read(ctx.workspace, side=side), whole(table))


def rows_of(job: TransferJob, workspace: Workspace, side: str) -> da.Array:
    """Return the rows of a collection among which neighbors are sought, dense or CSR chunks."""
    rows = SIDE_TERMS if job.representation.kind == "tf_idf" else outputs.VECTORS
    return rows.read(workspace, side=side)


TOP_WORDS = 10
"""Words that name a topic in tables."""


def plan_topics(job: TransferJob, dims: Dimensions) -> StagePlan:
    """Return the plan of learning the topics of the first collection; LDA counts its words before."""
    first, k = dims.part("first_"), job.topics.n_topics
    terms, rows = first.block("term", itemsize=PAIR_BYTES), first.block("document", k)
    documents, words = first.whole("document", k, itemsize=8), first.whole("word", k, itemsize=8)
    held, n_tasks = (
        [STATE_WORDS * words, 3 * documents],
        2 * first.n_blocks("term"),
    )  # and shares in the client
    if job.topics.method == "lda":
        learning = stage_plan(
            task(share_topics, terms, output=rows), whole=held, stored=documents, n_tasks=n_tasks
        )
        return in_turn(plan_document_terms(job, first), learning)
    drawn = first.whole("term", SAMPLE_COPIES, itemsize=PAIR_BYTES) * min(
        1, SEEDING_SAMPLE / first.size("document")
    )
    return stage_plan(
        task(step_documents, terms, rows, words, output=rows + words),
        STACKED_SUMS * words,
        whole=[*held, int(drawn)], stored=documents, n_tasks=n_tasks, states=documents + 2 * words,
    )  # fmt: skip


def run_topics(ctx: Context) -> dict[str, Any]:
    """Learn the topics of the first collection and the share of each in its documents."""
    learn = _lda_topics if ctx.job.topics.method == "lda" else _nmf_topics
    proportions, word_weights, objective = learn(ctx)
    store_memory(ctx, outputs.TOPICS, proportions.astype(np.float32))
    words = np.array(vocabulary_of(ctx.workspace, side="first").words, object)
    top = np.argsort(-word_weights, axis=0, kind="stable")[:TOP_WORDS].T
    share = np.nanmean(proportions, axis=0)
    topics = {"topic": np.arange(len(top)), "share": share, "words": words[top].tolist()}
    ctx.store_table(outputs.TOPIC_WORDS, pa.table(topics))
    ctx.store_table(outputs.TOPIC_OBJECTIVE, pa.table({"objective": np.asarray(objective, np.float64)}))
    return {"n_rounds": len(objective)}


def _nmf_topics(ctx: Context) -> tuple[Float64s, Float64s, Any]:
    options = ctx.job.topics
    model = NMF(options.n_topics, max_iter=options.n_iter, random_state=options.random_state)
    model.fit(SIDE_TERMS.read(ctx.workspace, side="first"))
    return proportions_of(model.document_factors_, model.word_factors_), model.word_factors_, model.objective_


def _lda_topics(ctx: Context) -> tuple[Float64s, Float64s, Any]:
    options = ctx.job.topics
    tokens = tokens_of(ctx.workspace, SIDE_TOKENS.of(side="first"))
    words = vocabulary_of(ctx.workspace, side="first")
    make = partial(count_document_terms, tokens, words)
    found = online_lda(
        keep("counts", make), options.n_topics, n_passes=options.n_iter, random_state=options.random_state
    )
    shares: Float64s = compute(found.shares).astype(np.float64)
    return shares, found.word_weights.astype(np.float64), found.likelihood


def proportions_of(document_factors: Any, word_factors: Any) -> Float64s:
    """Return the share of each topic in the weight of each document, (n × k), NaN for documents without any.

    z_ik ‖w_k‖₁ / Σ_k z_ik ‖w_k‖₁: columns of words are brought to sum one, as the topics of LDA are.
    """
    Z = np.asarray(document_factors, np.float64) * np.asarray(word_factors, np.float64).sum(axis=0)
    sums = Z.sum(axis=1, keepdims=True)
    return np.divide(Z, sums, out=np.full_like(Z, np.nan), where=sums > 0)
