"""What a finished workspace exports, as tables that are made some rows at a time.

A table has plain columns and, where its rows have vectors or weights, a block of numbers beside them. Nothing here
holds more than one row block: a million documents pass through as their arrays lie on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.display import plural
from distembed.execution import compute
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors

PIECE_VALUES = 1 << 22
"""Numbers of a piece, at most: 16 MiB of float32."""


class Numbers(NamedTuple):
    """The numbers beside the plain columns of a table.

    In Parquet they are one column of lists, as vectors are, or a column each (`name_0`, `name_1`, …), as weights are;
    in text they are a column each.
    """

    name: str
    width: int
    as_lists: bool


class Piece(NamedTuple):
    """Some rows of a table.

    Attributes
    ----------
    columns : pyarrow.RecordBatch
        The plain columns.
    numbers : float32 array (rows, width), or None
        A row of NaN stands for one that has no numbers.
    """

    columns: pa.RecordBatch
    numbers: NDArray[np.float32] | None


class Table(NamedTuple):
    """A table that is made as it is written.

    Attributes
    ----------
    schema : pyarrow.Schema
        The plain columns.
    numbers : Numbers or None
    n_rows : int
    pieces : iterable of Piece
    contents : str
        What it holds, in words.
    """

    schema: pa.Schema
    numbers: Numbers | None
    n_rows: int
    pieces: Iterable[Piece]
    contents: str


MakeTable: TypeAlias = Callable[[Any, Workspace], Table]
"""A function of a job and its finished workspace."""


def rows_of_blocks(array: da.Array) -> Iterator[NDArray[np.float32]]:
    """Yield the rows of a dense array as float32, a row block in memory at a time."""
    step = max(1, PIECE_VALUES // max(array.shape[1], 1))
    for index in range(array.numblocks[0]):
        block = np.asarray(compute(array.blocks[index]), np.float32)
        for first in range(0, len(block), step):
            yield block[first : first + step]


def paired(batches: Iterable[pa.RecordBatch], blocks: Iterator[NDArray[np.float32]]) -> Iterator[Piece]:
    """Yield the rows of a table with those of an array, which have the same number and other bounds."""
    block = np.empty((0, 0), np.float32)
    for batch in batches:
        rest = batch
        while rest.num_rows:
            while not len(block):
                block = next(blocks)
            n = min(rest.num_rows, len(block))
            yield Piece(rest.slice(0, n), block[:n])
            rest, block = rest.slice(n), block[n:]


def words_table(job: Any, workspace: Workspace) -> Table:  # noqa: ARG001 - the same for every job
    """Return every word with its counts, or what else the vocabulary knows of it, and its vector."""
    vectors = workspace.array("vectors")
    return Table(
        workspace.schema("vocabulary"),
        Numbers("vector", vectors.shape[1], as_lists=True),
        vectors.shape[0],
        paired(workspace.batches("vocabulary"), rows_of_blocks(vectors)),
        f"{plural(vectors.shape[0], 'word')} x {plural(vectors.shape[1], 'dimension')}",
    )


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
    distances, schema = workspace.array("distances"), workspace.schema("vocabulary")
    return Table(
        pa.schema([schema.field("word")]),
        Numbers("distance", distances.shape[1], as_lists=True),
        distances.shape[0],
        paired(workspace.batches("vocabulary", columns=["word"]), rows_of_blocks(distances)),
        f"distances between {plural(distances.shape[0], 'word')}",
    )


def vectors_table(vectors: WordVectors) -> Table:
    """Return the words and vectors that a file holds, or another program made."""
    rows, width = vectors.vectors.shape
    words = pa.record_batch({"word": pa.array(vectors.words, pa.string())})
    return Table(
        words.schema,
        Numbers("vector", width, as_lists=True),
        rows,
        [Piece(words, vectors.vectors)],
        f"{plural(rows, 'word')} x {plural(width, 'dimension')}",
    )


def neighbors_table(found: Mapping[str, Sequence[tuple[str, float]]]) -> Table:
    """Return a row for each neighbor of each word: the word, the rank from 1 on, the neighbor and its cosine."""
    rows = [
        {"word": word, "rank": rank, "neighbor": neighbor, "similarity": float(cosine)}
        for word, near in found.items()
        for rank, (neighbor, cosine) in enumerate(near, 1)
    ]
    fields = {"word": pa.string(), "rank": pa.int64(), "neighbor": pa.string(), "similarity": pa.float64()}
    batch = pa.RecordBatch.from_pylist(rows, pa.schema(fields.items()))
    return Table(batch.schema, None, len(rows), [Piece(batch, None)], f"{plural(len(rows), 'neighbor')}")


TABLES: dict[str, MakeTable] = {"words": words_table}
"""What a system exports that has nothing but words and vectors, by the name that `--what` takes."""
