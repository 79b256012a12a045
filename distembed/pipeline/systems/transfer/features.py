"""What is carried from documents to documents: topics, or the values of a table, and where they are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.costs import Cost
from distembed.display import plural
from distembed.formats.tables import TableError, some
from distembed.manifold.correspondences import known_values, shared_values
from distembed.pipeline.context import Context, sections
from distembed.pipeline.corpus.collections import ParallelSizes, places_of
from distembed.pipeline.inputs import file_sizes
from distembed.pipeline.systems.transfer.arrays import in_memory, store_memory
from distembed.pipeline.systems.transfer.config import FeaturesSection, TransferJob
from distembed.pipeline.tables.config import TableSection
from distembed.pipeline.tables.rows import Domain
from distembed.pipeline.tables.values import read_values
from distembed.storage.workspace import Workspace

Floats = NDArray[np.float64]

TABLE_COPIES = 8
"""Copies of a table of features in memory while it is read: its text, its cells, and its numbers."""


# --- the arrays ------------------------------------------------------------------------------------------------


def has_topics(job: TransferJob) -> bool:
    """Return whether topics are carried, and not the values of a table."""
    return job.features.path is None


def known_name(job: TransferJob) -> str:
    """Return the name of the array that holds the known values of the first collection."""
    return "topics" if has_topics(job) else "features"


def inferred_name(job: TransferJob) -> str:
    """Return the name of the array of inferred values: of the second collection, or of all documents of the first."""
    if job.second is None:
        return "inferred_features"
    return "second_topics" if has_topics(job) else "second_features"


def scores_name(job: TransferJob) -> str:
    """Return the name of the table that says how well each topic or feature was inferred."""
    return "topic_scores" if has_topics(job) else "feature_scores"


def value_names(job: TransferJob, workspace: Workspace) -> list[str]:
    """Return the number of each topic with its first words, or the name of each feature."""
    if not has_topics(job):
        return [str(name) for name in workspace.table("feature_columns")["feature"].to_pylist()]
    words = workspace.table("topic_words")["words"].to_pylist()
    return [f"{number} {' '.join(top[:2])}" for number, top in enumerate(words)]


THIRDS = ("low", "middle", "high")


def group_names(job: TransferJob, workspace: Workspace, values: Floats) -> list[str]:
    """Return a group of each document for maps: its largest topic, or the third that its first feature is in."""
    names = value_names(job, workspace)
    if has_topics(job):
        return [names[topic] for topic in values.argmax(axis=1).tolist()]
    first = in_memory(workspace.array(known_name(job)))[:, 0]
    bounds = np.nanquantile(first, [1 / 3, 2 / 3])
    return [f"{names[0]}: {THIRDS[third]}" for third in np.searchsorted(bounds, values[:, 0]).tolist()]


def scale_of(job: TransferJob, workspace: Workspace) -> Floats:
    """Return the unit of each column: its standard deviation where columns count alike, else 1."""
    if has_topics(job) or not job.features.standardize:
        return np.ones(workspace.describe(known_name(job)).spec.shape[1])
    return np.asarray(workspace.table("feature_columns")["deviation"], np.float64)


def first_values(job: TransferJob, workspace: Workspace) -> Floats:
    """Return the known values of the first collection in their units, (n × f), NaN where they are not known."""
    values: Floats = in_memory(workspace.array(known_name(job))).astype(np.float64)
    return values / scale_of(job, workspace)


def values_to_fit(
    job: TransferJob, workspace: Workspace, links: sp.csr_array | None
) -> tuple[Floats, Floats]:
    """Return the values, in their units, and the confidences of the documents of all collections.

    Parameters
    ----------
    job : TransferJob
    workspace : Workspace
    links : CSR array (n × m), or None
        Which documents of the second collection take the values of which of the first; None for one collection.
    """
    first = first_values(job, workspace)
    if links is None:
        return first, known_values(first, len(first))[1]
    values, confidence = shared_values(first, links)
    if job.features.second is not None:
        given = in_memory(workspace.array("second_known_features")) / scale_of(job, workspace)
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


def plan_features(job: TransferJob, sizes: ParallelSizes) -> Cost:
    """Return the plan of reading the tables of values."""
    read = sum(file_sizes(job.features.tables().values()).values())
    return Cost(1, read, read, 0, TABLE_COPIES * read, exact=sizes.exact)


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
        found[side] = read_values(_section(job.features, path), key="features", columns=columns)
    return found


def _section(options: FeaturesSection, path: str) -> TableSection:
    shared = set(TableSection.model_fields) - {"path"}
    return TableSection(path=path, **options.model_dump(include=shared))


def run_features(ctx: Context) -> dict[str, Any]:
    """Read the values of documents, and join them with the documents by their ids."""
    job: TransferJob = ctx.job
    names = {"first": "features", "second": "second_known_features"}
    facts: dict[str, Any] = {}
    strangers: list[tuple[str, str]] = []
    for side, table in _tables(job).items():
        path = job.features.tables()[side]
        ids = ctx.workspace.table(f"{side}_documents")["id"].to_pylist()
        values, unknown = _joined(table, ids, side, path)
        meaning = f"Values of the documents of the {side} collection; NaN: not known."
        store_memory(ctx, names[side], values, ("document", "feature"), meaning)
        if side == "first":
            ctx.stage.store_table("feature_columns", _columns(table.columns, values))
        _say(ctx, side, path, table, unknown)
        strangers += [(path, name) for name in unknown]
        facts[f"{side}_n_known"] = len(table.names) - len(unknown)
        facts[f"{side}_n_unknown_ids"] = len(unknown)
    columns = {"table": [path for path, _ in strangers], "id": [name for _, name in strangers]}
    schema = pa.schema([("table", pa.string()), ("id", pa.string())])
    ctx.stage.store_table("unknown_ids", pa.table(columns, schema=schema))
    return facts


def _joined(table: Domain, ids: list[str], side: str, path: str) -> tuple[Floats, list[str]]:
    """Return the values of each document of a collection, NaN without one, and the ids of no document."""
    places = places_of(ids, side)
    found = [row for row, name in enumerate(table.names) if name in places]
    if not found:
        raise TableError(
            f"no id of {path} (the first is {table.names[0]!r}) is that of a document of the {side} collection (the "
            f"first is {ids[0]!r}): set features.name_column, or {side}.id_field"
        )
    values = np.full((len(ids), len(table.columns)), np.nan)
    values[[places[table.names[row]] for row in found]] = table.matrix[found]
    return values, [name for name in table.names if name not in places]


def _columns(names: list[str], values: Floats) -> pa.Table:
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


def _say(ctx: Context, side: str, path: str, table: Domain, unknown: list[str]) -> None:
    """Report what was done to a table, and which of its ids are no document's."""
    for note in table.notes:
        ctx.reporter.note(f"  features: {note}")
    if unknown:
        ctx.reporter.note(
            f"warning: {plural(len(unknown), 'id')} of {path} of {len(table.names):,} name no document of the {side} "
            f"collection: {some(unknown)} (the table unknown_ids has all)"
        )
