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
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from distembed.files import refuse_bomb

BATCH_BYTES = 1 << 28
"""Bytes that the rows of a batch may take, where one row does not take more."""
MEASURED_ROWS = 1 << 16
"""Rows whose values are measured at a time, where they are not large."""
ONE_BY_ONE = ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")
"""Encodings without numbers that stand for values; in the first, a value repeats the beginning of the one before."""


Source: TypeAlias = IO[bytes] | str | Path
"""What a Parquet file is opened from."""


class ParquetFile(pq.ParquetFile):
    """An open Parquet file that keeps its source, which is opened again where texts are measured.

    Parameters
    ----------
    source : file, path or str
        What is opened.
    buffer_bytes : int
        Read columns piece by piece, of about so many bytes; by default each is read whole.
    by_number : sequence of str
        The columns of texts that are read as numbers and a dictionary.

    Attributes
    ----------
    n_stored, n_unpacked : the bytes of the row groups that `read_batches` has read so far, and what they hold
    n_unmeasured : the most bytes that the columns of texts hold together whose values were not measured

    Examples
    --------
    >>> import io
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from distembed.formats.parquet import ParquetFile
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"word": ["cat", "dog"]}), file)
    >>> ParquetFile(file).metadata.num_rows
    2
    """

    def __init__(self, source: Source, *, buffer_bytes: int = 0, by_number: Sequence[str] = ()) -> None:
        super().__init__(
            source,
            pre_buffer=False,
            buffer_size=buffer_bytes,
            read_dictionary=list(by_number),
            page_checksum_verification=True,
        )
        self.source = source
        self.n_stored = self.n_unpacked = self.n_unmeasured = 0

    @property
    def name(self) -> str:
        """The file, for an error."""
        if isinstance(self.source, str | Path):
            return str(self.source)
        named = getattr(self.source, "name", None) or getattr(self.source, "path", None)
        return str(named or "a Parquet file")


def whole_table(file: Source, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a whole Parquet file, or some of its columns.

    Raises
    ------
    BombError
        If it takes far more memory than a file of its size should; see `distembed.files.refuse_bomb`.
    pyarrow.ArrowInvalid
        If its text is not UTF-8, or a column has codes of no value.

    Examples
    --------
    >>> import io
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from distembed.formats.parquet import whole_table
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"word": ["cat", "dog"], "count": [2, 1]}), file)
    >>> whole_table(file, columns=["count"]).to_pydict()
    {'count': [2, 1]}
    """
    opened = ParquetFile(file)
    sizes = [_size_of(opened, group, columns) for group in range(opened.num_row_groups)]
    refuse_bomb(opened.name, sum(size.stored for size in sizes), sum(size.total for size in sizes))
    found = opened.read(None if columns is None else list(columns), use_threads=False)
    found.validate(full=True)
    return found


def read_batches(
    file: ParquetFile,
    n_rows: int,
    *,
    columns: Sequence[str] | None = None,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an open Parquet file, or those of some row groups and columns, so many at a time.

    There are fewer of them where they are large. Rows that are larger than the file could hold, one or all together,
    are refused.

    Examples
    --------
    >>> import io
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from distembed.formats.parquet import ParquetFile, read_batches
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"word": ["cat", "dog", "ant"]}), file)
    >>> [batch.num_rows for batch in read_batches(ParquetFile(file), 2)]
    [2, 1]
    """
    wanted = None if columns is None else list(columns)
    for group in range(file.num_row_groups) if row_groups is None else row_groups:
        size = _size_of(file, group, columns)
        file.n_stored, file.n_unpacked = file.n_stored + size.stored, file.n_unpacked + size.total
        refuse_bomb(file.name, size.stored, size.row)
        refuse_bomb(file.name, file.n_stored, file.n_unpacked)
        most = max(1, min(n_rows, BATCH_BYTES // max(size.row, 1)))
        yield from file.iter_batches(most, row_groups=[group], columns=wanted, use_threads=False)


class _Size(NamedTuple):
    """The bytes that a row group holds on disk, that it takes in memory, and that its largest row may take."""

    stored: int
    total: int
    row: int


def _size_of(file: ParquetFile, group: int, columns: Sequence[str] | None) -> _Size:
    metadata = file.metadata.row_group(group)
    stored = total = row = 0
    for index in range(metadata.num_columns):
        chunk = metadata.column(index)
        path = chunk.path_in_schema
        if columns is not None and not any(path == name or path.startswith(f"{name}.") for name in columns):
            continue
        n_bytes, n_values = chunk.total_uncompressed_size, chunk.num_values
        longest, is_text = None, chunk.physical_type == "BYTE_ARRAY"
        if not is_text:  # numbers, or texts of one length, of lists perhaps
            n_bytes = max(8, file.schema.column(index).length or 0) * n_values
        repeats = is_text and (chunk.has_dictionary_page or _is_one_by_one(chunk))
        if repeats and file.n_unmeasured + n_bytes * n_values > BATCH_BYTES:
            n_bytes, longest = _measure(file, group, chunk)
        elif repeats:
            file.n_unmeasured += n_bytes * n_values
        longest = n_bytes // max(metadata.num_rows, 1) if longest is None else longest
        stored, total, row = stored + chunk.total_compressed_size, total + n_bytes, row + longest
    return _Size(stored, total, row)


def _measure(file: ParquetFile, group: int, chunk: Any) -> tuple[int, int]:
    """Return the bytes of a column of texts, and of its largest row, without all of its values in memory."""
    name, n_bytes, n_values = chunk.path_in_schema, chunk.total_uncompressed_size, chunk.num_values
    by_number = not _is_one_by_one(chunk)
    of_one = n_bytes // n_values if by_number else n_bytes  # no value is longer than all that is stored
    opened = ParquetFile(file.source, by_number=[name] if by_number else ())
    is_nested = name not in opened.schema_arrow.names
    if not by_number and is_nested:  # a row of a thousand texts cannot be cut: the worst is assumed
        return n_bytes * n_values, n_bytes * n_values
    rows = max(1, min(MEASURED_ROWS, BATCH_BYTES // max(of_one, 1)))
    total = longest = 0
    for batch in opened.iter_batches(rows, row_groups=[group], columns=[name], use_threads=False):
        n_batch, n_longest = _lengths(batch.column(0))
        total, longest = total + n_batch, max(longest, n_longest)
    return total, longest


def _is_one_by_one(chunk: Any) -> bool:
    return not {*ONE_BY_ONE}.isdisjoint(chunk.encodings)


def _lengths(column: Any) -> tuple[int, int]:
    """Return the bytes of the texts of a column, and of the longest; of lists, of all together."""
    values, is_nested = column, False
    while pa.types.is_nested(values.type):
        parts, is_nested = values.flatten(), True
        values = parts[0] if isinstance(parts, list) else parts
    if pa.types.is_dictionary(values.type):
        lengths = pc.binary_length(values.dictionary).take(values.indices)
    else:
        lengths = pc.binary_length(values)
    total = pc.sum(lengths).as_py() or 0
    return total, total if is_nested else pc.max(lengths).as_py() or 0


# ---- columns ---------------------------------------------------------------------------------------------------


def is_text(kind: pa.DataType | None) -> bool:
    """Return whether a type is that of texts."""
    kind = kind.value_type if kind is not None and pa.types.is_dictionary(kind) else kind
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return kind is not None and any(test(kind) for test in tests)


def is_list(kind: pa.DataType | None) -> bool:
    """Return whether a type is that of lists, of one length or of several."""
    return isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType)


class ListError(ValueError):
    """An error in a column of lists that is no matrix: the first row at fault, and how many values it has."""

    def __init__(self, row: int, length: int) -> None:
        super().__init__(f"row {row} has {length} values")
        self.row, self.length = row, length


def matrix_of_lists(lists: Any, width: int = 0) -> NDArray[Any]:
    """Return the lists of a column as the rows of a matrix, of a given width or as wide as the first list.

    Raises
    ------
    ListError
        If a list has another length, or no values, or misses one of them.
    """
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    expected = width or int(lengths[0])
    uneven = np.flatnonzero((lengths != expected) | (lengths == 0))
    if uneven.size:
        raise ListError(int(uneven[0]), int(lengths[uneven[0]]))
    values = lists.flatten()
    if values.null_count:
        raise ListError(int(np.flatnonzero(values.is_null())[0]) // expected, expected)
    return np.asarray(values.to_numpy(zero_copy_only=False).reshape(len(lists), expected))
