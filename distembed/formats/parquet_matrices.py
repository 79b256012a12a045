"""Matrices of Parquet files, read by row groups: a column of lists, or columns of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distembed.formats.matrix import Matrix, MatrixError, all_different, column_note
from distembed.formats.parquet import ParquetFile, read_batches, whole_table
from distembed.formats.tables import some
from distembed.urls import opened

BUFFER_BYTES = 1 << 20
"""Bytes of a column that are read at a time: a row group may be larger than a task."""

BATCH_ROWS = 1 << 12


def open_parquet(path: str, columns: Sequence[str], name_column: str | None) -> Matrix:
    """Open a Parquet file as a matrix of its columns of numbers, or of its one column of lists of numbers.

    The names are those of the column asked for, else of the first column of text in which no text stands twice.

    Raises
    ------
    MatrixError
        If the file is not whole, lacks a column, or has no column of numbers.
    """
    with opened(path, "rb") as file:
        try:
            found = ParquetFile(file)
        except pa.ArrowInvalid as error:
            raise MatrixError(
                f"{path} is not a whole Parquet file ({error}): write or copy it again"
            ) from error
        schema, n_rows = found.schema_arrow, found.metadata.num_rows
        wanted = _wanted(path, schema, columns, name_column)
        if not n_rows:
            raise MatrixError(f"{path} has no rows: give a matrix with at least one row and column")
        kinds = [schema.field(name).type for name in wanted]
        groups = [found.metadata.row_group(i).num_rows for i in range(found.num_row_groups)]
        starts = np.concatenate([[0], np.cumsum(groups)]).tolist()
        width = len(wanted) if not _is_list(kinds[0]) else _list_width(path, found, wanted[0])
    values = [kind.value_type if _is_list(kind) else kind for kind in kinds]
    dtype = np.result_type(*(kind.to_pandas_dtype() for kind in values))
    names = name_column or _name_column(path, schema)
    read = partial(_rows, path, tuple(wanted), tuple(starts), width)
    matrix = Matrix(path, (n_rows, width), np.dtype(dtype), read, partial(_names, path, names))
    return matrix._replace(note=column_note(path, wanted, names))


def _is_list(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)


def _name_column(path: str, schema: pa.Schema) -> str | None:
    """Return the first column of text whose values are all different."""
    texts = (field.name for field in schema if _is_text(field.type))
    return next((name for name in texts if all_different(_names(path, name) or ())), None)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind)


def _wanted(path: str, schema: pa.Schema, columns: Sequence[str], name_column: str | None) -> list[str]:
    """Return the columns of the matrix: those asked for, else one column of lists, else all of numbers."""
    for name in [*columns, *([name_column] if name_column else [])]:
        if name not in schema.names:
            raise MatrixError(f"{path} has no column {name!r}; it has {some(schema.names)}")
    fields = [field for field in schema if field.name != name_column]
    lists = [field.name for field in fields if _is_list(field.type) and _is_number(field.type.value_type)]
    wanted = list(columns) or lists[:1] or [field.name for field in fields if _is_number(field.type)]
    mixed = len(wanted) > 1 and any(name in lists for name in wanted)
    if not wanted or mixed or (len(lists) > 1 and not columns):
        raise MatrixError(
            f"{path} has the columns {some(schema.names)}: set input.columns to one column of lists, or to columns of "
            "numbers"
        )
    return wanted


def _list_width(path: str, file: ParquetFile, column: str) -> int:
    first = next(read_batches(file, 1, columns=[column])).column(0)
    if not first.is_valid()[0].as_py() or not len(first[0]):
        raise MatrixError(
            f"{path}, row 0 has no values in the column {column!r}: fill them in, or drop the row"
        )
    return len(first[0])


def _rows(path: str, columns: Sequence[str], starts: Sequence[int], width: int, start: int, stop: int) -> Any:
    """Return the rows from one to before another, decoding the row groups that they lie in, batch by batch."""
    touched = [g for g in range(len(starts) - 1) if starts[g] < stop and starts[g + 1] > start]
    parts, at = [], starts[touched[0]]
    with opened(path, "rb") as file:
        found = ParquetFile(file, buffer_bytes=BUFFER_BYTES)
        for batch in read_batches(found, BATCH_ROWS, row_groups=touched, columns=columns):
            first, last = max(start - at, 0), min(stop - at, len(batch))
            if first < last:
                parts.append(_matrix(path, batch.slice(first, last - first), columns, width, at + first))
            at += len(batch)
            if at >= stop:
                break
    return np.concatenate(parts)


def _matrix(path: str, batch: pa.RecordBatch, columns: Sequence[str], width: int, first_row: int) -> Any:
    for name in columns:
        column = batch.column(name)
        if column.null_count:
            row = first_row + int(np.flatnonzero(column.is_null())[0])
            raise MatrixError(
                f"{path}, row {row} (counted from 0) has no value in {name!r}: fill it in, or drop the row"
            )
    if not _is_list(batch.column(columns[0]).type):
        return np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in columns], axis=1)
    lists = batch.column(columns[0])
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    if (lengths != width).any():
        row = int(np.flatnonzero(lengths != width)[0])
        raise MatrixError(
            f"{path}, row {first_row + row} (counted from 0) has {lengths[row]} values in {columns[0]!r}, and row 0 "
            f"has {width}: all rows must have as many"
        )
    values = lists.flatten()
    if values.null_count:
        row = first_row + int(np.flatnonzero(values.is_null())[0]) // width
        raise MatrixError(f"{path}, row {row} (counted from 0) misses a value in {columns[0]!r}: fill it in")
    return values.to_numpy(zero_copy_only=False).reshape(len(batch), width)


def _names(path: str, column: str | None) -> Sequence[str] | None:
    if column is None:
        return None
    with opened(path, "rb") as file:
        table = whole_table(file, columns=[column])
    return [str(name) for name in table.column(0).to_pylist()]
