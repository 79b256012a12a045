"""The tables that an imputation job gives away: every name with where its vector comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distembed.display import plural
from distembed.pipeline.export.tables import (
    MakeTable,
    Numbers,
    Piece,
    Table,
    paired,
    rows_of_blocks,
    words_table,
)
from distembed.pipeline.systems.imputation.config import ImputationJob
from distembed.storage.workspace import Workspace

NAME_COLUMNS = ("name", "word", "origin", "label", "like")
LEFT_OUT = "left out"
COUNT = pa.field("replaced_count", pa.int64())
"""How often a name was seen whose known vector was replaced, where the job replaces those of rare names."""


def names_table(job: ImputationJob, workspace: Workspace) -> Table:  # noqa: ARG001 - the same for every job
    """Return every name of the table: known, imputed, or left out and why; with its label and its vector."""
    replaced = _replaced_counts(workspace)
    vectors, left_out = workspace.array("vectors"), workspace.table("left_out")
    facts = workspace.stages()["join"].facts
    extra = [field for field in left_out.schema if field.name != "name"]
    extra += [] if replaced is None else [COUNT]
    schema = pa.schema([*((name, pa.string()) for name in NAME_COLUMNS), *extra])
    width = vectors.shape[1]
    n_rows = facts["n_names"] + left_out.num_rows
    joined = paired(workspace.batches("vocabulary"), rows_of_blocks(vectors))
    return Table(
        schema,
        Numbers("vector", width, as_lists=True),
        n_rows,
        _names(joined, left_out, _likes(workspace), replaced, schema),
        f"{plural(n_rows, 'name')}: {facts['n_known']:,} known, {facts['n_imputed']:,} imputed, "
        f"{left_out.num_rows:,} left out; vectors of {plural(width, 'dimension')}",
    )


def _replaced_counts(workspace: Workspace) -> dict[str, int] | None:
    """Return by name how often those were seen whose known vector was replaced; None where no job asked for it."""
    if "n_replaced" not in workspace.stages()["join"].facts:
        return None
    table = workspace.table("replaced")
    return dict(zip(table["name"].to_pylist(), table["count"].to_pylist(), strict=True))


def _likes(workspace: Workspace) -> dict[str, str]:
    """Return by name the known word that is nearly spelled like it."""
    table = workspace.table("near_misses")
    return dict(zip(table["name"].to_pylist(), table["word"].to_pylist(), strict=True))


def _names(
    joined: Iterable[Piece],
    left_out: pa.Table,
    like: Mapping[str, str],
    replaced: Mapping[str, int] | None,
    schema: pa.Schema,
) -> Iterator[Piece]:
    """Yield the names that have a vector, then those that were left out, whose numbers are missing."""
    width = 0
    for piece in joined:
        is_name = pc.not_equal(piece.columns["origin"], "other")
        if piece.numbers is not None and pc.any(is_name).as_py():
            kept, width = piece.columns.filter(is_name), piece.numbers.shape[1]
            names = kept["name"].to_pylist()
            kept = kept.append_column("like", pa.array([like.get(name) for name in names], pa.string()))
            if replaced is not None:
                counts = pa.array([replaced.get(name) for name in names], COUNT.type)
                kept = kept.append_column(COUNT.name, counts)
            yield Piece(_as(schema, kept), piece.numbers[np.asarray(is_name)])
    for batch in left_out.to_batches():
        origin = pa.array([LEFT_OUT] * batch.num_rows)
        named = pa.record_batch([*batch.columns, origin], names=[*batch.schema.names, "origin"])
        yield Piece(_as(schema, named), np.full((batch.num_rows, width), np.nan, np.float32))


def _as(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows under a schema, with missing values for the columns that they lack."""
    has = set(batch.schema.names)
    columns = [
        batch[field.name] if field.name in has else pa.nulls(batch.num_rows, field.type) for field in schema
    ]
    return pa.record_batch(columns, schema=schema)


TABLES: dict[str, MakeTable] = {"names": names_table, "words": words_table}
"""What an imputation job gives away, by the name that `--what` takes."""
