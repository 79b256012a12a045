"""Tables as files, written some rows at a time: Parquet, CSV, TSV, NumPy's npy.

A sparse table, such as counts, has a row for each cell.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from scipy.sparse import csr_array

from distembed.counting.tables import words_beside
from distembed.display import plural
from distembed.execution import compute
from distembed.formats.names import compression_of, suffix_of, unknown_format
from distembed.formats.streams import writing
from distembed.job.opening import Source, job_of, load_vectors
from distembed.job.stage import read_vectors, system_of
from distembed.job.tables import APART, MakeTable, Table, distances_table, with_numbers
from distembed.linalg.operators import count_values
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors
from distembed.vectors.files import WRITTEN_FORMATS, vector_format

TableFormat = Literal["parquet", "csv", "tsv", "npy"]

TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)
"""The formats of tables; each is the end of a file's name without its dot."""

BYTE_ORDER_MARK = codecs.BOM_UTF8
"""Begins a CSV file, since Excel reads one without it in the code page of the machine; pandas passes over it."""

LISTS = pa.list_(pa.float32())
"""The column of lists of a Parquet file: of fixed size, pyarrow before 26 cannot read it where a list is missing."""


ARRAYS = {
    "counts": ("cooccurrence", "contexts"),
    "pmi": ("pmi", "ppmi"),
    "document_terms": ("document_terms",),
}
"""The tables by the word that `--what` takes, each with arrays, of which the first that a workspace has is meant."""

CELLS_AT_A_TIME = 1 << 20
"""Cells that are written together, at most."""


def table_format(path: str) -> TableFormat | None:
    """Return the format of a table that the end of a file's name stands for, None for another end."""
    suffix = suffix_of(path).removeprefix(".")
    return suffix if suffix in TABLE_FORMATS else None


def refuse_compression(path: str, format: TableFormat) -> None:  # noqa: A002
    """Refuse a Parquet or npy file whose name asks for the compression of all of it."""
    if format in ("parquet", "npy") and compression_of(path):
        raise ValueError(
            f"{path}: {format} files are not compressed as a whole; leave out {Path(path).suffix}"
        )


def write_table(
    path: str,
    table: Table,
    *,
    format: TableFormat,  # noqa: A002 - as pandas has it
    reading: AbstractContextManager[Any] = nullcontext(),  # noqa: B008 - it does nothing
) -> None:
    """Write a table to a file or URL, which appears whole or not at all.

    Parameters
    ----------
    path : str
        Text is compressed by the end of the name (.gz, .bz2, .xz, .zst).
    table : Table
    format : {"parquet", "csv", "tsv", "npy"}
        "npy" holds the numbers alone, float32 (rows, width), in the order of the rows.
    reading : context manager
        Left after the last row, before the file is in its place: what the table is read from.

    Raises
    ------
    ValueError
        If "npy" is asked of a table without numbers, or a Parquet or npy file is to be compressed as a whole.
    """
    refuse_compression(path, format)
    schema = table.rows.schema
    last = schema.field(len(schema) - 1)
    width = last.type.list_size if pa.types.is_fixed_size_list(last.type) else 0
    if format == "npy" and not width:
        raise ValueError(
            f"{path}: an npy file holds numbers alone, and this table has none beside its columns "
            f"{', '.join(schema.names)}; choose .parquet, .csv or .tsv"
        )
    fields = [pa.field(one.name, one.type) for one in schema]
    as_lists = format == "parquet" and last.metadata != APART
    if width:
        apart = [pa.field(f"{last.name}_{place}", pa.float32()) for place in range(width)]
        fields[-1:] = [pa.field(last.name, LISTS)] if as_lists else apart
    written = pa.schema(fields, metadata=schema.metadata)
    delimiter = "," if format == "csv" else "\t"
    with writing(path) as file, reading, ExitStack() as writers:
        writer: Any = None
        if format == "npy":
            header = {"descr": "<f4", "fortran_order": False, "shape": (table.n_rows, width)}
            np.lib.format.write_array_header_1_0(file, header)
        elif format == "parquet":
            writer = pq.ParquetWriter(file, written, compression="zstd", write_page_checksum=True)
        else:
            file.write(BYTE_ORDER_MARK if format == "csv" else b"")
            writer = pacsv.CSVWriter(file, written, write_options=pacsv.WriteOptions(delimiter=delimiter))
        if writer is not None:
            writers.enter_context(writer)
        for batch in table.rows:
            columns = batch.columns
            if width:
                lists = columns.pop()
                numbers = lists.values.slice(width * lists.offset, width * len(lists)).to_numpy()
                if format == "npy":
                    file.write(np.ascontiguousarray(numbers, "<f4").data)
                    continue
                by_place = np.ascontiguousarray(numbers.reshape(-1, width).T)
                spread = (pa.array(one, from_pandas=True) for one in by_place)
                columns += [lists.cast(LISTS)] if as_lists else spread
            writer.write_batch(pa.record_batch(columns, schema=written))


VECTOR_FORMATS: tuple[str, ...] = tuple(name for name in WRITTEN_FORMATS if name not in TABLE_FORMATS)
"""The formats that hold words and vectors, and nothing else."""


class ExportOptions(NamedTuple):
    """What of a source is written, and how.

    Attributes
    ----------
    what : str, optional
        "words", "names", "documents" or "topics", a sparse table ("counts", "pmi", "document_terms"), or
        "distances"; by default the main one of the system, and the words where the file is of a format for word
        vectors.
    format : str, optional
        One of `TABLE_FORMATS` and `VECTOR_FORMATS`; by default the end of the file's name tells.
    space : str, optional
        Written in place of spaces inside words, in the formats that end a word at a space.
    max_words : int, optional
        Keep only the first words. The others are composed by those who read the file, where there is a table of
        n-grams and the format keeps it.
    """

    what: str | None = None
    format: str | None = None
    space: str | None = None
    max_words: int | None = None


def export_source(source: Source, target: str, options: ExportOptions) -> str:
    """Write one table of a finished job, or the word vectors of a file, to a file or URL, and return what was written.

    Parameters
    ----------
    source : Job, Workspace or path of a vector file
    target : str
        The file, which appears whole or not at all; a table is written some rows at a time.
    options : ExportOptions

    Raises
    ------
    ValueError
        If there is no such table, the format cannot be detected, or does not fit the table.
    KeyError, FileNotFoundError
        If the job has not come so far.
    """
    if isinstance(source, str):
        if options.what not in (None, "words"):
            raise ValueError(
                f"{source} is a file of word vectors and has no {options.what}: leave out --what"
            )
        return export_vectors(load_vectors(source), target, options)
    job = job_of(source)
    own, workspace = system_of(job).tables(), Workspace.open(job.job.workspace)
    tables: dict[str, MakeTable] = {**own, "distances": distances_table}
    tables |= {name: partial(cells_table, name) for name in ARRAYS}
    chosen: Any = options.format or table_format(target) or vector_format(target)
    formats = (*TABLE_FORMATS, *VECTOR_FORMATS)
    if chosen not in formats:
        ends = (".parquet", ".csv", ".tsv", ".npy", ".txt", ".bin", ".glove", ".safetensors")
        raise unknown_format(target, ends, asked=options.format, formats=formats)
    what = options.what or ("words" if chosen in VECTOR_FORMATS and "words" in own else next(iter(own)))
    if what not in tables:
        raise ValueError(
            f"a job of the method {job.job.system} has no table of {what}: give --what {' or '.join(own)}"
        )
    if chosen in VECTOR_FORMATS:
        if what != "words":
            raise ValueError(
                f"{chosen} files hold words and vectors only, not {what}: write {what} to a file that ends in "
                ".parquet, .csv, .tsv or .npy"
            )
        return export_vectors(read_vectors(workspace), target, options._replace(format=chosen))
    _refuse_options(options, ("space", "max_words"), chosen)
    with ExitStack() as reading:
        reading.enter_context(workspace.of_one_run())
        table = tables[what](job, workspace)
        vocabulary = workspace.table("vocabulary") if what in ARRAYS else None
        write_table(target, table, format=chosen, reading=reading)
    if vocabulary is None:
        return f"{table.contents} in {target}"
    with writing(words_beside(target)) as file:
        pq.write_table(vocabulary, file, write_page_checksum=True)
    return f"{table.contents} in {target}, their words in {words_beside(target)}"


def export_vectors(vectors: WordVectors, target: str, options: ExportOptions) -> str:
    """Write word vectors to a file or URL, and return in words what was written and what was left out.

    Raises
    ------
    ValueError
        If the format cannot be detected, or does not do what the options ask.
    """
    kept = vectors if options.max_words is None else vectors.head(options.max_words)
    chosen = options.format or vector_format(target) or table_format(target)
    if chosen in TABLE_FORMATS and chosen not in WRITTEN_FORMATS:
        _refuse_options(options, ("space",), chosen)
        words, (n, width) = pa.record_batch({"word": pa.array(kept.words, pa.string())}), kept.vectors.shape
        rows = with_numbers(words.schema, [(words, kept.vectors)], "vector", width)
        write_table(target, Table(rows, n, "words"), format=chosen)
    else:
        kept.save(target, format=chosen, space=options.space)  # type: ignore[arg-type]
    size = f"{len(kept):,} words x {kept.vectors.shape[1]} dimensions in {target}"
    if kept.subwords is None:
        return size
    if chosen != "safetensors":
        return (
            f"{size}; {kept.subwords.contents} are left out, which safetensors files hold: unknown words have no "
            "vector there"
        )
    size = f"{size}, with {kept.subwords.contents} for other words"
    left_out = len(vectors) - len(kept)
    return f"{size}; {plural(left_out, 'word')} are composed there" if left_out else size


def _refuse_options(options: ExportOptions, names: Sequence[str], format: str) -> None:  # noqa: A002
    """Raise ValueError for an option of word vectors that a table does not have."""
    for name in names:
        value = getattr(options, name)
        if value is not None:
            raise ValueError(
                f"{name} is {value!r}, but {format} keeps words and numbers as they are: leave it out, or "
                f"choose one of the formats {', '.join(VECTOR_FORMATS)}"
            )


def cells_table(what: str, job: Any, workspace: Workspace) -> Table:  # noqa: ARG001 - the same for every job
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

    def batches() -> Iterator[pa.RecordBatch]:  # a row block in memory at a time
        first = 0
        for index in range(array.numblocks[0]):
            block = csr_array(compute(array.blocks[index]))
            numbers = np.repeat(np.arange(first, first + block.shape[0]), np.diff(block.indptr))
            first += block.shape[0]
            for start in range(0, block.nnz, CELLS_AT_A_TIME):
                part = slice(start, start + CELLS_AT_A_TIME)
                columns = [rows.take(numbers[part]), words.take(block.indices[part]), block.data[part]]
                yield pa.record_batch(columns, schema=schema)

    return Table(pa.RecordBatchReader.from_batches(schema, batches()), n_cells, contents)
