"""Sparse tables of a finished job as rows: counts and PMI of word pairs, and the words of documents."""

from __future__ import annotations

from collections.abc import Iterator

import dask.array as da
import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from distembed.execution import compute
from distembed.job.tables import Piece, Table
from distembed.linalg.operators import count_values
from distembed.storage.workspace import Workspace

ARRAYS = {
    "counts": ("cooccurrence", "contexts", "bigrams"),
    "pmi": ("pmi", "ppmi"),
    "document_terms": ("document_terms",),
}
"""The tables by the word that `--what` takes, each with arrays, of which the first that a workspace has is meant."""

CELLS_AT_A_TIME = 1 << 20
"""Cells that are written together, at most."""


def cells_table(workspace: Workspace, what: str) -> Table:
    """Return a sparse table of a finished workspace, a row for each cell, by rising row and column.

    Raises
    ------
    ValueError
        If the workspace has no such table.
    """
    stored = {name for stage in workspace.stages().values() for name in stage.outputs}
    name = next((name for name in ARRAYS[what] if name in stored), None)
    if name is None:
        raise ValueError(
            f"{workspace.url} has no table of {what}"
            + (': matrices.keep = ["pmi"] in the job file keeps it' if what == "pmi" else "")
        )
    array, words = workspace.array(name), workspace.table("vocabulary")["word"].combine_chunks()
    of_documents = what == "document_terms"
    rows = workspace.table("documents")["id"].combine_chunks() if of_documents else words
    row, column = ("document", "word") if of_documents else ("word", "context")
    value, constant = "pmi" if what == "pmi" else "count", workspace.describe(name).spec.constant
    fields = [(row, pa.string()), (column, pa.string()), (value, pa.from_numpy_dtype(array.dtype))]
    schema = pa.schema(fields, metadata={"constant": repr(constant)} if constant else None)
    n_cells = count_values(array)
    contents = f"{n_cells:,} cells of {len(rows):,} x {len(words):,}"
    if constant:
        contents += f" (every cell of the matrix, listed or not, is {constant:.9g} more)"
    return Table(schema, None, n_cells, _pieces(array, rows, words, schema), contents)


def _pieces(array: da.Array, rows: pa.Array, words: pa.Array, schema: pa.Schema) -> Iterator[Piece]:
    """Yield the cells of an array with the names of their rows and columns, a row block in memory at a time."""
    first = 0
    for index in range(array.numblocks[0]):
        block = csr_array(compute(array.blocks[index]))
        numbers = np.repeat(np.arange(first, first + block.shape[0]), np.diff(block.indptr))
        first += block.shape[0]
        for start in range(0, block.nnz, CELLS_AT_A_TIME):
            part = slice(start, start + CELLS_AT_A_TIME)
            columns = [rows.take(numbers[part]), words.take(block.indices[part]), block.data[part]]
            yield Piece(pa.record_batch(columns, schema=schema), None)
