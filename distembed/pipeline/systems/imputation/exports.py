"""The tables that an imputation job gives away: every name with where its vector comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def names_table(job: ImputationJob, workspace: Workspace) -> Table:  # noqa: ARG001 - the same for every job
    """Return every name of the table: known, imputed, or left out and why; with its label and its vector."""
    vectors, left_out = workspace.array("vectors"), workspace.table("left_out")
    facts = workspace.stages()["join"].facts
    extra = [field for field in left_out.schema if field.name != "name"]
    schema = pa.schema([*((name, pa.string()) for name in NAME_COLUMNS), *extra])
    width = vectors.shape[1]
    n_rows = facts["n_names"] + left_out.num_rows
    joined = paired(workspace.batches("vocabulary"), rows_of_blocks(vectors))
    return Table(
        schema,
        Numbers("vector", width, as_lists=True),
        n_rows,
        _names(joined, left_out, workspace.table("near_misses"), schema, width),
        f"{plural(n_rows, 'name')}: {facts['n_known']:,} known, {facts['n_imputed']:,} imputed, "
        f"{left_out.num_rows:,} left out; vectors of {plural(width, 'dimension')}",
    )


def _names(
    joined: Iterable[Piece], left_out: pa.Table, near_misses: pa.Table, schema: pa.Schema, width: int
) -> Iterator[Piece]:
    """Yield the names that have a vector, then those that were left out, whose numbers are missing."""
    like = dict(zip(near_misses["name"].to_pylist(), near_misses["word"].to_pylist(), strict=True))
    for piece in joined:
        is_name = pc.not_equal(piece.columns["origin"], "other")
        if piece.numbers is not None and pc.any(is_name).as_py():
            kept = piece.columns.filter(is_name)
            words = pa.array([like.get(name) for name in kept["name"].to_pylist()], pa.string())
            yield Piece(_as(schema, kept.append_column("like", words)), piece.numbers[np.asarray(is_name)])
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
