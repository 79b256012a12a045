"""What a finished workspace exports, as tables that are made some rows at a time.

A table is a `pyarrow.RecordBatchReader`. Vectors and weights are a column of lists of a fixed size, the last one.
Nothing here holds more than one row block: a million documents pass through as their arrays lie on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.display import plural
from distembed.execution import compute
from distembed.storage.workspace import Workspace

PIECE_VALUES = 1 << 22
"""Numbers of a piece, at most: 16 MiB of float32."""

APART = {b"parquet": b"a column for each number"}
"""The metadata of a column of lists that Parquet files have as columns `name_0`, `name_1`, …, as weights are; text has
every list so."""

Numbered: TypeAlias = tuple[pa.RecordBatch, NDArray[np.float32]]
"""Some rows of a table, and the numbers of each, (rows, width); a row of NaN stands for one that has no numbers."""


class Table(NamedTuple):
    """A table that is made as it is written: its rows, how many there are, and what it holds, in words."""

    rows: pa.RecordBatchReader
    n_rows: int
    contents: str


MakeTable: TypeAlias = Callable[[Any, Workspace], Table]
"""A function of a job and its finished workspace."""


def table_of(rows: pa.Table, contents: str) -> Table:
    """Return a table that is in memory."""
    return Table(rows.to_reader(), rows.num_rows, contents)


def with_numbers(
    schema: pa.Schema, pieces: Iterable[Numbered], name: str, width: int, *, apart: bool = False
) -> pa.RecordBatchReader:
    """Return rows of a schema with their numbers as a last column of lists, missing where the first number is NaN."""
    lists = pa.field(name, pa.list_(pa.float32(), width), metadata=APART if apart else None)
    whole = schema.append(lists)

    def batches() -> Iterator[pa.RecordBatch]:
        for columns, numbers in pieces:
            values, missing = pa.array(np.ascontiguousarray(numbers).ravel()), np.isnan(numbers[:, 0])
            column = pa.FixedSizeListArray.from_arrays(values, width, mask=pa.array(missing))
            yield pa.record_batch([*columns.columns, column], schema=whole)

    return pa.RecordBatchReader.from_batches(whole, batches())


def rows_of_blocks(array: da.Array) -> Iterator[NDArray[np.float32]]:
    """Yield the rows of a dense array as float32, a row block in memory at a time."""
    step = max(1, PIECE_VALUES // max(array.shape[1], 1))
    for index in range(array.numblocks[0]):
        block = np.asarray(compute(array.blocks[index]), np.float32)
        for first in range(0, len(block), step):
            yield block[first : first + step]


def paired(batches: Iterable[pa.RecordBatch], blocks: Iterator[NDArray[np.float32]]) -> Iterator[Numbered]:
    """Yield the rows of a table with those of an array, which have the same number and other bounds."""
    block = np.empty((0, 0), np.float32)
    for batch in batches:
        rest = batch
        while rest.num_rows:
            while not len(block):
                block = next(blocks)
            n = min(rest.num_rows, len(block))
            yield rest.slice(0, n), block[:n]
            rest, block = rest.slice(n), block[n:]


def words_table(job: Any, workspace: Workspace) -> Table:  # noqa: ARG001 - the same for every job
    """Return every word with its counts, or what else the vocabulary knows of it, and its vector."""
    vectors = workspace.array("vectors")
    pieces, (n, width) = paired(workspace.batches("vocabulary"), rows_of_blocks(vectors)), vectors.shape
    rows = with_numbers(workspace.schema("vocabulary"), pieces, "vector", width)
    return Table(rows, n, f"{plural(n, 'word')} x {plural(width, 'dimension')}")


def distances_table(job: Any, workspace: Workspace) -> Table:  # noqa: ARG001 - the same for every job
    """Return every word and its distances to all words, which `[matrices]` of the job keeps.

    Raises
    ------
    ValueError
        If the workspace does not keep them.
    """
    if not any("distances" in stage.outputs for stage in workspace.stages().values()):
        raise ValueError(
            f'{workspace.url} keeps no distances: give matrices.keep = ["distances"] in the job file, and run it'
        )
    distances, words = workspace.array("distances"), workspace.batches("vocabulary", columns=["word"])
    schema = pa.schema([workspace.schema("vocabulary").field("word")])
    rows = with_numbers(schema, paired(words, rows_of_blocks(distances)), "distance", distances.shape[1])
    return Table(rows, len(distances), f"distances between {plural(len(distances), 'word')}")


TABLES: dict[str, MakeTable] = {"words": words_table}
"""What a system exports that has nothing but words and vectors, by the name that `--what` takes."""
