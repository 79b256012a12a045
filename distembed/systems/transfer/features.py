"""What is carried from documents to documents: topics, or the values of a table, and the rows that are compared."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from distembed.counting.documents import count_document_terms
from distembed.display import plural
from distembed.dtypes import Float64s
from distembed.execution import compute
from distembed.factorization import nmf_rounds
from distembed.factorization.lda import online_lda, share_topics
from distembed.factorization.lsa import LSA
from distembed.factorization.nmf import NMF
from distembed.formats.tables import TableError, some
from distembed.job.inputs import file_sizes
from distembed.job.outputs import ArrayOutput
from distembed.job.stage import Context
from distembed.linalg.operators import row_blocks
from distembed.manifold.correspondences import shared_values
from distembed.plan import Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages.collections import SIDE_TERMS, SIDE_TOKENS, check_unique, ids_of, rows_of_ids
from distembed.stages.corpus import plan_document_terms, tokens_of, vocabulary_of
from distembed.stages.dimensions import PAIR_BYTES
from distembed.stages.singular import plan_of_triplets
from distembed.states import keep
from distembed.storage.workspace import Workspace
from distembed.systems.transfer import outputs
from distembed.systems.transfer.job import LSARepresentation, TransferJob
from distembed.tables.rows import Domain, read_values
from distembed.tables.sections import TableSection


def store_memory(ctx: Context, output: ArrayOutput, array: Any) -> None:
    """Store an array that is in memory, sparse ones in row blocks of about equal size."""
    lazy = row_blocks(array) if sp.issparse(array) else da.from_array(np.asarray(array), chunks=-1)
    ctx.store(output, lazy)


# --- the values ------------------------------------------------------------------------------------------------


def known_output(job: TransferJob) -> ArrayOutput:
    """Return the known values of the first collection."""
    return (outputs.TOPICS if job.has_topics else outputs.KNOWN_FEATURES).of(side=job.first)


def inferred_output(job: TransferJob, side: str) -> ArrayOutput:
    """Return the inferred values of a collection, which the first has where they are features."""
    return (outputs.TOPICS if job.has_topics else outputs.FEATURES).of(side=side)


def shown_values(job: TransferJob, workspace: Workspace) -> list[Float64s]:
    """Return the topics or features of the documents of each collection: known ones of the first, else inferred."""
    shown = [known_output(job), *(inferred_output(job, side) for side in job.others)]
    return [compute(output.read(workspace)) for output in shown]


def value_names(job: TransferJob, workspace: Workspace) -> list[str]:
    """Return the number of each topic with its first words, or the name of each feature."""
    if not job.has_topics:
        return [str(name) for name in outputs.FEATURE_COLUMNS.read(workspace)["feature"].to_pylist()]
    words = outputs.TOPIC_WORDS.read(workspace)["words"].to_pylist()
    return [f"{number} {' '.join(top[:2])}" for number, top in enumerate(words)]


def group_names(job: TransferJob, workspace: Workspace, values: Float64s) -> list[str]:
    """Return a group of each document for maps: its largest topic, or the third that its first feature is in."""
    names = value_names(job, workspace)
    if job.has_topics:
        return [names[topic] for topic in values.argmax(axis=1).tolist()]
    first = compute(known_output(job).read(workspace))[:, 0]
    thirds = np.searchsorted(np.nanquantile(first, [1 / 3, 2 / 3]), values[:, 0])
    return [f"{names[0]}: {('low', 'middle', 'high')[third]}" for third in thirds.tolist()]


def scale_of(job: TransferJob, workspace: Workspace) -> Float64s:
    """Return the unit of each column: its standard deviation where columns count alike, else 1."""
    if job.has_topics or not job.features.standardize:
        return np.ones(known_output(job).read(workspace).shape[1])
    return np.asarray(outputs.FEATURE_COLUMNS.read(workspace)["deviation"], np.float64)


def first_values(job: TransferJob, workspace: Workspace) -> Float64s:
    """Return the known values of the first collection in their units, (n × f), NaN where they are not known."""
    values: Float64s = compute(known_output(job).read(workspace)).astype(np.float64)
    return values / scale_of(job, workspace)


def values_to_fit(
    job: TransferJob, workspace: Workspace, rows: Mapping[str, slice], links: sp.csr_array
) -> tuple[Float64s, Float64s]:
    """Return the values, in their units, and the confidences of the documents of all collections.

    Parameters
    ----------
    job : TransferJob
    workspace : Workspace
    rows : dict of slice
        The documents of each collection.
    links : CSR array (n × m)
        Which documents of the other collections, one below the other, take the values of which of the first.
    """
    values, confidence = shared_values(first_values(job, workspace), links)
    for side in job.others:
        if job.collections[side].features is not None:
            given = compute(outputs.KNOWN_FEATURES.read(workspace, side=side)) / scale_of(job, workspace)
            known = np.flatnonzero(~np.isnan(given).any(axis=1))
            values[rows[side]][known], confidence[rows[side]][known] = given[known], 1.0
    return values, confidence


# --- values of a table -----------------------------------------------------------------------------------------

TABLE_COPIES = 8
"""Copies of a table of features in memory while it is read: its text, its cells, and its numbers."""
VALUE_BYTES = 4
"""Bytes that a number of such a table takes at least."""


def _feature_paths(job: TransferJob) -> dict[str, str]:
    """Return the path of the table of each collection that has one."""
    return {side: one.features for side, one in job.collections.items() if one.features is not None}


def n_values(job: TransferJob, dims: Dimensions) -> int:
    """Return how many topics or features are carried: of a table, at most as many as its bytes have room for."""
    if job.has_topics:
        return job.topics.n_topics
    paths = _feature_paths(job)
    n_bytes, n = (
        sum(file_sizes(paths.values()).values()),
        sum(dims.size(f"{side}_document") for side in paths),
    )
    return len(job.features.columns) or -(-n_bytes // (VALUE_BYTES * max(1, n)))


def feature_parameters(job: TransferJob) -> dict[str, Any]:
    """Return what is read of the tables; in which units it counts is asked by later stages."""
    options = job.features.model_dump(mode="json", exclude={"standardize"})
    return {"features": options, "tables": _feature_paths(job)}


def plan_features(job: TransferJob, dims: Dimensions) -> StagePlan:  # noqa: ARG001
    """Return the plan of reading the tables of values."""
    read = sum(file_sizes(_feature_paths(job).values()).values())
    return stage_plan(whole=[TABLE_COPIES * read], stored=read)


def _tables(job: TransferJob) -> dict[str, Domain]:
    """Return the table of each collection that has one, the others with the columns of the first."""
    found: dict[str, Domain] = {}
    options = job.features.model_dump(exclude={"columns", "standardize"})
    for side, path in _feature_paths(job).items():
        columns = found[job.first].columns if found else job.features.columns
        found[side] = read_values(TableSection(path=path, **options), key="features", columns=columns)
    return found


def check_features(job: TransferJob) -> list[str]:
    """Read the tables of values, where there are any, and return what they hold."""
    paths = _feature_paths(job)
    return [
        f"{plural(len(table.names), 'row')} of {plural(len(table.columns), 'feature')} in {paths[side]}"
        for side, table in _tables(job).items()
    ]


def run_features(ctx: Context) -> dict[str, Any]:
    """Read the values of documents, and join them with the documents by their ids."""
    job: TransferJob = ctx.job
    n_known, strangers = dict[str, int](), list[dict[str, str]]()
    for side, table in _tables(job).items():
        path, ids = str(job.collections[side].features), ids_of(ctx.workspace, side)
        check_unique(ids, side)
        rows = rows_of_ids(ids, table.names)
        if (rows < 0).all():
            raise TableError(
                f"no id of {path} (the first is {table.names[0]!r}) is that of a document of the {side} collection "
                f"(the first is {ids[0].as_py()!r}): set features.name_column, or collections.{side}.id_field"
            )
        values = np.full((len(ids), len(table.columns)), np.nan)
        values[rows[rows >= 0]] = table.matrix[rows >= 0]
        store_memory(ctx, outputs.KNOWN_FEATURES.of(side=side), values)
        if side == job.first:
            deviation = np.nanstd(values, axis=0)
            columns = {"feature": table.columns, "mean": np.nanmean(values, axis=0)}
            columns |= {"deviation": np.where(deviation > 0, deviation, 1.0)}
            columns |= {"least": np.nanmin(values, axis=0), "largest": np.nanmax(values, axis=0)}
            ctx.store_table(outputs.FEATURE_COLUMNS, pa.table(columns))
        for note in table.notes:
            ctx.reporter.note(f"  features: {note}")
        unknown = [table.names[place] for place in np.flatnonzero(rows < 0).tolist()]
        if unknown:
            ctx.reporter.note(
                f"warning: {plural(len(unknown), 'id')} of {path} of {len(table.names):,} name no document of the "
                f"{side} collection: {some(unknown)} (the table unknown_ids has all)"
            )
        strangers += [{"table": path, "id": name} for name in unknown]
        n_known[side] = len(table.names) - len(unknown)
    schema = pa.schema([("table", pa.string()), ("id", pa.string())])
    ctx.store_table(outputs.UNKNOWN_IDS, pa.Table.from_pylist(strangers, schema))
    return {"n_known": n_known}


# --- topics ----------------------------------------------------------------------------------------------------

TOP_WORDS = 10
"""Words that name a topic in tables."""


def plan_topics(job: TransferJob, dims: Dimensions) -> StagePlan:
    """Return the plan of learning the topics of the first collection; LDA counts its words before."""
    first, k = dims.part(f"{job.first}_"), job.topics.n_topics
    terms, rows = first.block("term", itemsize=PAIR_BYTES), first.block("document", k)
    documents, words = first.whole("document", k, itemsize=8), first.whole("word", k, itemsize=8)
    held, n_tasks = [nmf_rounds.STATE_WORDS * words, 3 * documents], 2 * first.n_blocks("term")
    if job.topics.method == "lda":
        of_block = task(share_topics, terms, output=rows)
        learning = stage_plan(of_block, whole=held, stored=documents, n_tasks=n_tasks)
        return in_turn(plan_document_terms(job, first), learning)
    share = min(1, nmf_rounds.SEEDING_SAMPLE / first.size("document"))
    drawn = int(first.whole("term", nmf_rounds.SAMPLE_COPIES, itemsize=PAIR_BYTES) * share)
    return stage_plan(
        task(nmf_rounds.step_documents, terms, rows, words, output=rows + words),
        nmf_rounds.STACKED_SUMS * words,
        whole=[*held, drawn], stored=documents, n_tasks=n_tasks, states=documents + 2 * words,
    )  # fmt: skip


def run_topics(ctx: Context) -> dict[str, Any]:
    """Learn the topics of the first collection and the share of each in its documents."""
    options, side = ctx.job.topics, ctx.job.first
    vocabulary = vocabulary_of(ctx.workspace, side=side)
    word_weights: Any
    objective: Any
    if options.method == "lda":
        tokens = tokens_of(ctx.workspace, SIDE_TOKENS.of(side=side))
        counts = keep("counts", partial(count_document_terms, tokens, vocabulary))
        limits = {"n_passes": options.n_iter, "random_state": options.random_state}
        shares, word_weights, objective = online_lda(counts, options.n_topics, **limits)
        proportions = compute(shares).astype(np.float64)
    else:
        model = NMF(options.n_topics, max_iter=options.n_iter, random_state=options.random_state)
        model.fit(SIDE_TERMS.read(ctx.workspace, side=side))
        word_weights, objective = model.word_factors_, model.objective_
        # Columns of words are brought to sum one, as the topics of LDA are; documents without any weight are NaN.
        weights = np.asarray(model.document_factors_, np.float64)
        weights *= np.asarray(word_weights, np.float64).sum(axis=0)
        sums = weights.sum(axis=1, keepdims=True)
        proportions = np.divide(weights, sums, out=np.full_like(weights, np.nan), where=sums > 0)
    store_memory(ctx, known_output(ctx.job), proportions.astype(np.float32))
    top = np.argsort(-np.asarray(word_weights, np.float64), axis=0, kind="stable")[:TOP_WORDS].T
    words, share = np.array(vocabulary.words, object), np.nanmean(proportions, axis=0)
    topics = {"topic": np.arange(len(top)), "share": share, "words": words[top].tolist()}
    ctx.store_table(outputs.TOPIC_WORDS, pa.table(topics))
    ctx.store_table(outputs.TOPIC_OBJECTIVE, pa.table({"objective": np.asarray(objective, np.float64)}))
    return {"n_rounds": len(objective)}


# --- the rows among which neighbors are sought -----------------------------------------------------------------


def set_of(job: TransferJob, dims: Dimensions) -> tuple[int, str]:
    """Return the columns of the rows among which neighbors are sought, and the dimension of their values if sparse.

    The dimensions are those of one collection.
    """
    form = job.representation
    return (form.n_components, "") if isinstance(form, LSARepresentation) else (dims.size("word"), "term")


def set_bytes(job: TransferJob, dims: Dimensions, *, itemsize: int = 4) -> int:
    """Return the bytes of these rows; a sparse value has a column of four bytes."""
    width, values = set_of(job, dims)
    if values:
        return dims.whole(values, itemsize=itemsize + 4)
    return dims.whole("document", width, itemsize=itemsize)


def rows_of(job: TransferJob, workspace: Workspace, side: str) -> da.Array:
    """Return the rows of a collection among which neighbors are sought, dense or CSR chunks."""
    rows = SIDE_TERMS if job.representation.kind == "tf_idf" else outputs.VECTORS
    return rows.read(workspace, side=side)


def _lsa(job: TransferJob, shape: tuple[int, ...]) -> LSA:
    """Return the decomposition of a collection of so many documents and words."""
    form = job.representation
    assert isinstance(form, LSARepresentation)
    return LSA(max(1, min(form.n_components, min(shape) - 1)), random_state=form.random_state)


def plan_vectors(job: TransferJob, dims: Dimensions, *, side: str) -> StagePlan:  # noqa: ARG001
    """Return the plan of the LSA coordinates of a collection."""
    model = _lsa(job, (dims.size("document"), dims.size("word")))
    return plan_of_triplets(
        dims, model.n_components, rows="document", columns="word", values="term",
        n_passes=model.n_passes, oversampling=model.oversampling,
    )  # fmt: skip


def run_vectors(ctx: Context, *, side: str) -> dict[str, Any]:
    """Decompose the weighted words of the documents of a collection."""
    terms = SIDE_TERMS.read(ctx.workspace, side=side)
    rows = _lsa(ctx.job, terms.shape).fit_transform(terms)
    ctx.store(outputs.VECTORS.of(side=side), rows)
    return {"n_components": int(rows.shape[1])}
