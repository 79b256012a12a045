"""Sparse tables of a finished job as files: counts and PMI, with their words and a manifest beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import csr_array

import distembed
from distembed.corpus import Vocabulary
from distembed.counting.count_files import (
    MANIFEST_KEY,
    Cells,
    manifest_beside,
    triples,
    words_beside,
    words_digest,
    write_glove,
    write_npz,
)
from distembed.display import plural
from distembed.execution import compute, map_blocks
from distembed.formats.names import suffix_of
from distembed.formats.streams import writing
from distembed.job.model import Job
from distembed.job.tables import Piece, Table
from distembed.linalg.operators import empty_csr
from distembed.stages.outputs import VOCABULARY
from distembed.storage.workspace import Workspace

FORMATS = ("parquet", "csv", "tsv", "npz", "glove")
"""The formats of a sparse table."""

ENDS = {".parquet": "parquet", ".csv": "csv", ".tsv": "tsv", ".npz": "npz", ".bin": "glove"}
"""The formats that the ends of file names stand for."""

ARRAYS = {
    "counts": ("cooccurrence", "contexts", "bigrams"),
    "pmi": ("pmi", "ppmi"),
    "document_terms": ("document_terms",),
}
"""The tables by the word that `--what` takes, each with arrays, of which the first that a workspace has is meant."""

SETTINGS = ("corpus", "counts", "vocabulary", "counting", "contexts", "bigrams")
"""The sections of a job that say how it counts."""

PRIVATE = {"paths", "path", "words", "phrases_file", "keep"}
"""Keys of these sections that name files or words, which a manifest does not contain."""


class Sums(NamedTuple):
    """How many cells a table has and their sum: of all, and of those that are written."""

    n_cells: int
    total: float
    n_kept: int
    kept: float

    @property
    def remark(self) -> str:
        """What is left out, in words."""
        n_left, share = self.n_cells - self.n_kept, 1 - self.kept / self.total if self.total else 0.0
        return f"{plural(n_left, 'cell')} suppressed, {share:.2%} of the total"


class Exported(NamedTuple):
    """A sparse table of a workspace that is to be written.

    Attributes
    ----------
    name : str
        The array of the workspace.
    array, counts : Dask arrays (n, m) of csr_array row blocks
        The whole array, and the counts that decide which of its cells are written.
    rows : pyarrow.Array (at most n,)
    words : Vocabulary
        The names of the rows, and of the columns with their counts; words at the end may be left out.
    least : int
        The smallest count of a cell that is written.
    """

    name: str
    array: da.Array
    counts: da.Array
    rows: pa.Array
    words: Vocabulary
    least: int

    @property
    def kept(self) -> da.Array:
        """The cells that are written, lazily."""
        n = len(self.rows)
        kept = partial(_kept_cells, least=self.least, n_columns=len(self.words))
        array = self.array[:n]
        chunks = (array.chunks[0], (len(self.words),))
        meta = empty_csr(array.dtype)
        return map_blocks(kept, array, self.counts[:n], chunks=chunks, dtype=array.dtype, meta=meta)

    def blocks(self) -> Iterator[csr_array]:
        """Yield the row blocks that are written."""
        kept = self.kept
        return (csr_array(compute(kept.blocks[index])) for index in range(kept.numblocks[0]))


def _kept_cells(block: Any, counts: Any, *, least: int, n_columns: int) -> csr_array:
    """Return the cells of a block with a count that is large enough, in the first columns."""
    block, counts = csr_array(block), csr_array(counts)
    if least > 1:
        mask = csr_array((counts.data >= least, counts.indices, counts.indptr), shape=counts.shape)
        block = csr_array(block.multiply(mask)).astype(block.dtype)
        block.eliminate_zeros()
        block.sort_indices()
    return block if block.shape[1] == n_columns else block[:, :n_columns]


class Prepared(NamedTuple):
    """A sparse table whose words and manifest are written, and that is itself to be written.

    Attributes
    ----------
    table : Table
        Its cells as rows, with the manifest.
    cells : Cells
    format : str
        One of `FORMATS`.
    sentence : str
        What was written, in words.
    """

    table: Table
    cells: Cells
    format: str
    sentence: str

    def write_binary(self, target: str, reading: ExitStack) -> None:
        """Write the table as an npz file, or as GloVe does, closing what it is read from before it is in place."""
        with writing(target) as file:
            (write_npz if self.format == "npz" else write_glove)(file, self.cells)
            reading.close()


def prepare_cells(
    job: Job,
    workspace: Workspace,
    target: str,
    *,
    what: str,
    format: str | None,  # noqa: A002 - as in `ExportOptions`
    least: int | None,
    space: str | None,
) -> Prepared:
    """Write the words and the manifest of a sparse table of a finished job, and return the table.

    Parameters
    ----------
    job : Job
    workspace : Workspace
    target : str
        The file that the table is to be written to, after what lies beside it.
    what : str
        One of `ARRAYS`.
    format : str, optional
        One of `FORMATS`; by default the end of the file's name tells.
    least : int, optional
        The smallest count of a cell that is written.
    space : str, optional
        Written in place of spaces in words, for GloVe.

    Raises
    ------
    ValueError
        If the workspace has no such table, the format cannot be detected or does not hold it, or no cell is left.
    """
    chosen = format or ENDS.get(suffix_of(target))
    if chosen not in FORMATS:
        raise ValueError(
            f"the format of {target} cannot be detected from its name: end it in {', '.join(ENDS)}, or give --format, "
            f"one of {', '.join(FORMATS)}"
        )
    found = _table_of(workspace, what, least)
    if chosen in ("npz", "glove") and what == "document_terms":
        raise ValueError(
            f"{chosen} files have no names of rows: write documents x words to .parquet, .csv or .tsv"
        )
    words, sums = _writable(found.words, chosen, space), _sums(found)
    if not sums.n_kept:
        raise ValueError(f"no count of {found.name} reaches {least}: lower --smallest-count")
    manifest = _manifest(job, workspace, found, words, sums)
    _write_words(words_beside(target), words, least)
    text = json.dumps(manifest, indent=2, ensure_ascii=False).encode()
    with writing(manifest_beside(target)) as file:
        file.write(text + b"\n")
    kept = f"{sums.n_kept:,} cells of {len(found.rows):,} x {len(words):,} in {target}"
    beside = f"their words in {words_beside(target)}"
    sentence = f"{kept}, {beside}" + ("" if least is None else f"; {sums.remark}")
    cells = Cells(found.blocks, (len(found.rows), len(words)), found.array.dtype, sums.n_kept)
    return Prepared(_triples_table(cells, found, words, what, text), cells, chosen, sentence)


def _triples_table(cells: Cells, found: Exported, words: Vocabulary, what: str, manifest: bytes) -> Table:
    row, column = ("document", "word") if what == "document_terms" else ("word", "context")
    value = "pmi" if what == "pmi" else "count"
    fields = [(row, pa.string()), (column, pa.string()), (value, pa.from_numpy_dtype(cells.dtype))]
    schema = pa.schema(fields, metadata={MANIFEST_KEY: manifest})
    pieces = (
        Piece(
            pa.record_batch([found.rows.take(rows), words.array.take(columns), values], schema=schema), None
        )
        for rows, columns, values in triples(cells)
    )
    return Table(schema, None, cells.n_cells, pieces, "")


def _table_of(workspace: Workspace, what: str, least: int | None) -> Exported:
    stored = {name for stage in workspace.stages().values() for name in stage.outputs}
    name = next((name for name in ARRAYS[what] if name in stored), None)
    if name is None:
        raise ValueError(
            f"{workspace.url} has no table of {what}"
            + (': matrices.keep = ["pmi"] in the job file keeps it' if what == "pmi" else "")
        )
    array, words = workspace.array(name), Vocabulary.from_table(VOCABULARY.read(workspace))
    counts = array
    if least is not None:
        if what == "pmi":
            counts = workspace.array("cooccurrence").rechunk({0: array.chunks[0]})
        words = words.take(np.flatnonzero(words.counts >= least))
    rows = workspace.table("documents")["id"].combine_chunks() if what == "document_terms" else words.array
    return Exported(name, array, counts, rows, words, least or 1)


def _sums(found: Exported) -> Sums:
    """Return the cells of a table and their sum: of all, and of those that are written."""
    return Sums(*_sum_cells(found.array), *_sum_cells(found.kept))


def _sum_cells(array: da.Array) -> tuple[int, float]:
    chunks = ((1,) * array.numblocks[0], (2,))
    sums = compute(map_blocks(_block_sums, array, chunks=chunks, dtype=np.float64, meta=np.empty((0, 0))))
    n_cells, total = np.asarray(sums).sum(axis=0)
    return int(n_cells), float(total)


def _block_sums(block: Any) -> NDArray[np.float64]:
    return np.array([[block.nnz, block.data.sum(dtype=float)]])


def _writable(words: Vocabulary, chosen: str, space: str | None) -> Vocabulary:
    """Return the words as a format can hold them: GloVe's ends a word at a space."""
    if chosen != "glove":
        return words
    written = [word if space is None else space.join(word.split()) for word in words.words]
    blank = next((word for word in written if len(word.split()) != 1), None)
    if blank is not None:
        raise ValueError(f"GloVe's vocab.txt ends a word at a space, and {blank!r} has one: give --space _")
    return Vocabulary(written, words.counts, words.document_counts)


def _manifest(
    job: Job, workspace: Workspace, found: Exported, words: Vocabulary, sums: Sums
) -> dict[str, Any]:
    record, whole = workspace.describe(found.name), job.model_dump(mode="json", exclude_none=True)
    settings = {
        name: {key: value for key, value in whole[name].items() if key not in PRIVATE}
        for name in SETTINGS
        if name in whole
    }
    return {
        "what": found.name,
        "meaning": record.spec.meaning,
        "rows": record.spec.dims[0],
        "columns": record.spec.dims[1],
        "shape": [len(found.rows), len(words)],
        "dtype": str(found.array.dtype),
        "constant": record.spec.constant or 0.0,
        "n_cells": sums.n_kept,
        "total": sums.kept,
        "smallest_count": found.least,
        "n_suppressed": sums.n_cells - sums.n_kept,
        "suppressed_share": 1 - sums.kept / sums.total if sums.total else 0.0,
        "digest": record.digest,
        "words_digest": words_digest(words),
        "settings": settings,
        "version": distembed.__version__,
    }


def _write_words(path: str, words: Vocabulary, least: int | None) -> None:
    """Write words and counts; in how many documents a word stands only where rare cells are written, too."""
    with writing(path) as file:
        if path.endswith(".parquet"):
            columns = {"word": words.array, "count": words.counts}
            if least is None:
                columns["document_count"] = words.document_counts
            pq.write_table(pa.table(columns), file, write_page_checksum=True)
        else:
            for word, count in zip(words.words, words.counts.tolist(), strict=True):
                file.write(f"{word} {count}\n".encode())
