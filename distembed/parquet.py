"""Parquet files, read in the thread that asks and judged by the checksums of their pages.

Arrow's own threads hold the file object of Python for a moment after a table is read. One that is still at it when the
interpreter ends aborts the process ("terminate called without an active exception"): of twenty programs of two lines
that read a table nine ended so. `WorkspaceReader.batches` and Dask's tasks read in parallel by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from distembed.libraries import pq

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["parquet_file", "read_batches", "whole_table"]


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
    return pq.ParquetFile(file, pre_buffer=False, buffer_size=buffer_bytes, page_checksum_verification=True)


def whole_table(file: IO[bytes] | str | Path, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a whole Parquet file, or some of its columns.

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
    return parquet_file(file).read(None if columns is None else list(columns), use_threads=False)


def read_batches(
    file: pq.ParquetFile,
    n_rows: int,
    *,
    columns: Sequence[str] | None = None,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an open Parquet file, or those of some row groups and columns, so many at a time.

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
    yield from file.iter_batches(
        n_rows,
        row_groups=None if row_groups is None else list(row_groups),
        columns=None if columns is None else list(columns),
        use_threads=False,
    )
