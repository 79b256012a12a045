"""Parquet files, read in the thread that asks and judged by the checksums of their pages.

Arrow's own threads hold the file object of Python for a moment after a table is read. One that is still at it when the
interpreter ends aborts the process ("terminate called without an active exception"): of twenty programs of two lines
that read a table nine ended so. `WorkspaceReader.batches` and Dask's tasks read in parallel by themselves.

A file says how many rows it has, and not how large they are: a megabyte of text that stands in every row is kept once.
The sizes of values are therefore measured before rows are decoded, on the numbers that stand for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from distembed.files import refuse_bomb
from distembed.libraries import pc, pq

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["parquet_file", "read_batches", "whole_table"]

BATCH_BYTES = 1 << 28
"""Bytes that the rows of a batch may take, where one row does not take more."""
MEASURED_ROWS = 1 << 10
"""Rows whose values are measured at a time."""


def parquet_file(file: IO[bytes] | str | Path, *, buffer_bytes: int = 0) -> pq.ParquetFile:
    """Open a Parquet file; with `buffer_bytes` its columns are read piece by piece.

    Examples
    --------
    >>> import io
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from distembed.parquet import parquet_file
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"word": ["cat", "dog"]}), file)
    >>> parquet_file(file).metadata.num_rows
    2
    """
    opened = pq.ParquetFile(file, pre_buffer=False, buffer_size=buffer_bytes, page_checksum_verification=True)
    opened.opened_from = file  # to be read a second time, by the dictionaries of its columns
    return opened


def whole_table(file: IO[bytes] | str | Path, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a whole Parquet file, or some of its columns.

    Raises
    ------
    BombError
        If it takes far more memory than a file of its size should; see `distembed.files.refuse_bomb`.

    Examples
    --------
    >>> import io
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from distembed.parquet import whole_table
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"word": ["cat", "dog"], "count": [2, 1]}), file)
    >>> whole_table(file, columns=["count"]).to_pydict()
    {'count': [2, 1]}
    """
    opened = parquet_file(file)
    sizes = [_size_of(opened, group, columns) for group in range(opened.num_row_groups)]
    refuse_bomb(_name(file), sum(size.stored for size in sizes), sum(size.total for size in sizes))
    return opened.read(None if columns is None else list(columns), use_threads=False)


def read_batches(
    file: pq.ParquetFile,
    n_rows: int,
    *,
    columns: Sequence[str] | None = None,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an open Parquet file, or those of some row groups and columns, so many at a time.

    There are fewer of them where they are large, and a row that is larger than the file could hold is refused.

    Examples
    --------
    >>> import io
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from distembed.parquet import parquet_file, read_batches
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"word": ["cat", "dog", "ant"]}), file)
    >>> [batch.num_rows for batch in read_batches(parquet_file(file), 2)]
    [2, 1]
    """
    wanted = None if columns is None else list(columns)
    for group in range(file.num_row_groups) if row_groups is None else row_groups:
        size = _size_of(file, group, columns)
        refuse_bomb(_name(file.opened_from), size.stored, size.row)
        most = max(1, min(n_rows, BATCH_BYTES // max(size.row, 1)))
        yield from file.iter_batches(most, row_groups=[group], columns=wanted, use_threads=False)


class _Size(NamedTuple):
    """The bytes that a row group holds on disk, that it takes in memory, and that its largest row may take."""

    stored: int
    total: int
    row: int


def _size_of(file: Any, group: int, columns: Sequence[str] | None) -> _Size:
    metadata = file.metadata.row_group(group)
    stored = total = row = 0
    for index in range(metadata.num_columns):
        chunk = metadata.column(index)
        if columns is not None and chunk.path_in_schema.partition(".")[0] not in columns:
            continue
        n_bytes, longest = _column_size(file, group, chunk, metadata.num_rows)
        stored, total, row = stored + chunk.total_compressed_size, total + n_bytes, row + longest
    return _Size(stored, total, row)


def _column_size(file: Any, group: int, chunk: Any, n_rows: int) -> tuple[int, int]:
    """Return the bytes of a column in memory, and of its largest row where that is known."""
    if chunk.physical_type != "BYTE_ARRAY":  # numbers, of lists perhaps
        n_bytes = 8 * chunk.num_values
        return n_bytes, n_bytes // max(n_rows, 1)
    if not chunk.has_dictionary_page or chunk.total_uncompressed_size * chunk.num_values <= BATCH_BYTES:
        return chunk.total_uncompressed_size, chunk.total_uncompressed_size // max(n_rows, 1)
    total = longest = 0
    if "." in chunk.path_in_schema:  # lists of texts: none of ours is read, so the worst is assumed
        return chunk.total_uncompressed_size, chunk.total_uncompressed_size
    name = chunk.path_in_schema
    by_number = pq.ParquetFile(
        file.opened_from, pre_buffer=False, read_dictionary=[name], page_checksum_verification=True
    )
    for batch in by_number.iter_batches(MEASURED_ROWS, row_groups=[group], columns=[name], use_threads=False):
        column = batch.column(0)
        if not hasattr(column, "dictionary"):
            return chunk.total_uncompressed_size, chunk.total_uncompressed_size // max(n_rows, 1)
        lengths = pc.binary_length(column.dictionary).take(column.indices)
        total += pc.sum(lengths).as_py() or 0
        longest = max(longest, pc.max(lengths).as_py() or 0)
    return total, longest


def _name(file: object) -> str:
    return str(
        getattr(
            file, "name", getattr(file, "path", file if isinstance(file, str | Path) else "a Parquet file")
        )
    )
