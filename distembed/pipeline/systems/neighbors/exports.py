"""The tables that a neighbor graph gives away: its edges, and every row with its numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from distembed.display import plural
from distembed.formats.parquet import whole_table
from distembed.pipeline.export.tables import MakeTable, Piece, Table, words_table
from distembed.pipeline.systems.neighbors.config import NeighborsJob
from distembed.storage.workspace import Workspace
from distembed.urls import opened


def edges_table(job: NeighborsJob, workspace: Workspace) -> Table:  # noqa: ARG001 - the same for every job
    """Return every edge: both ends, and their distance or similarity, by source and nearest first."""
    paths = [path for item in workspace.files("edges") for path in item.paths]
    with opened(paths[0], "rb") as file:
        schema = pq.read_schema(file)
    n_edges = workspace.stages()["graph"].facts["n_edges"]
    return Table(schema, None, n_edges, _pieces(paths), plural(n_edges, "edge"))


def _pieces(paths: list[str]) -> Iterator[Piece]:
    for path in paths:
        with opened(path, "rb") as file:
            table: pa.Table = whole_table(file)
        for batch in table.to_batches():
            yield Piece(batch, None)


TABLES: dict[str, MakeTable] = {"edges": edges_table, "words": words_table}
"""What a neighbor graph gives away, by the name that `--what` takes."""
