"""Matrices of files: which kind a file is, and how each kind is opened.

npy files, Parquet, Zarr and HDF5 are read by ranges of rows. CSV, npz and matrices that are stored by columns can only
be read at once.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from distembed.files import damage_told, read_small, refuse_bomb
from distembed.formats.cells import read_numbers, readings
from distembed.formats.hierarchical import open_hierarchical
from distembed.formats.matrix import (
    Matrix,
    MatrixError,
    all_different,
    check_shape,
    column_note,
    held_matrix,
    within_shape,
)
from distembed.formats.names import HDF5_SUFFIXES, MATRIX_KINDS, ZARR_FILES, suffix_of
from distembed.formats.parquet import (
    ListError,
    ParquetFile,
    is_list,
    is_text,
    matrix_of_lists,
    read_batches,
    whole_table,
)
from distembed.formats.tables import (
    column_of,
    member_header,
    npy_header,
    read_table,
    refuse_large_member,
    some,
    texts_of,
)
from distembed.urls import opened, url_to_fs

BUFFER_BYTES = 1 << 20
"""Bytes of a column that are read at a time: a row group may be larger than a task."""

BATCH_ROWS = 1 << 12


def matrix_kind(path: str) -> str:
    """Return the kind of file at a path, by its name, or for a folder by what is in it: one of `OPENERS`, or "vectors".

    Raises
    ------
    FileNotFoundError
        If there is nothing at the path.
    MatrixError
        If it is a folder that is no Zarr store.
    """
    fs, inner = url_to_fs(path)
    if not fs.exists(inner):
        raise FileNotFoundError(f"there is nothing at {path}: correct input.path")
    if any(fs.exists(f"{inner.rstrip('/')}/{name}") for name in ZARR_FILES) or path.endswith(HDF5_SUFFIXES):
        return "hierarchical"
    if fs.isdir(inner):
        raise MatrixError(f"{path} is a folder, and neither a Zarr store nor a workspace: name the file")
    return MATRIX_KINDS.get(suffix_of(path), "vectors")


# ---- NumPy: npy files by rows, arrays of npz files whole -------------------------------------------------------


def open_npy(path: str) -> Matrix:
    """Open an npy file, which is read by rows where it is stored by rows."""
    remedy = "save it with numpy.save"
    with damage_told(path, MatrixError, "an npy file", remedy), opened(path, "rb") as file:
        shape, fortran, dtype = npy_header(file)
        first = file.tell()
    check_shape(path, shape, dtype)
    fs, inner = url_to_fs(path)
    missing = first + dtype.itemsize * shape[0] * shape[1] - fs.size(inner)
    if missing > 0:
        raise MatrixError(
            f"{path} ends {missing:,} bytes before its {shape[0]:,} rows do: copy or save it again"
        )
    if fortran:
        with opened(path, "rb") as file:
            return held_matrix(path, np.ascontiguousarray(np.load(file)), None)
    return Matrix(path, shape, dtype, partial(_npy_rows, path, first, shape[1], dtype), lambda: None)


def _npy_rows(path: str, first: int, width: int, dtype: np.dtype[Any], start: int, stop: int) -> Any:
    with opened(path, "rb") as file:
        file.seek(first + start * width * dtype.itemsize)
        data = file.read((stop - start) * width * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(stop - start, width)


def read_npz(path: str, *, key: str | None, name_column: str | None) -> Matrix:
    """Read a matrix that scipy.sparse.save_npz wrote, or one array of an npz file."""
    with damage_told(path, MatrixError, "an npz file"), opened(path, "rb") as file, np.load(file) as arrays:
        if "format" in arrays.files:
            for name in arrays.files:
                refuse_large_member(path, arrays, name)
            file.seek(0)
            return held_matrix(path, sp.csr_array(within_shape(sp.load_npz(file))), None)
        names = None if name_column is None else texts_of(_array_of(path, arrays, name_column))
        return held_matrix(path, _array_of(path, arrays, key or _only_matrix(path, arrays)), names)


def _array_of(path: str, arrays: Any, name: str) -> Any:
    if name not in arrays.files:
        raise MatrixError(f"{path} holds no array {name!r}; it holds {some(arrays.files)}")
    refuse_large_member(path, arrays, name)
    return arrays[name]


def _only_matrix(path: str, arrays: Any) -> str:
    matrices = [name for name in arrays.files if len(member_header(arrays, name)[0]) == 2]
    if len(matrices) != 1:
        raise MatrixError(f"{path} holds {some(arrays.files)}: set input.key to the one that is the matrix")
    return matrices[0]


# ---- Matrix Market and CSV: read whole ----------------------------------------------------------------------


MARKETS = {
    f"%%matrixmarket matrix {form} {field} {symmetry}": (form, symmetry)
    for field in ("real", "double", "integer", "pattern")
    for form, symmetry in (("array", "general"), ("coordinate", "general"), ("coordinate", "symmetric"))
}
"""The first lines of Matrix Market files that are read, in lower case."""


def read_mtx(path: str) -> Matrix:
    """Read a real matrix in the Matrix Market format; scipy.io.mmread crashes where a file is damaged."""
    data = read_small(path)
    file = io.BytesIO(data)
    first = " ".join(file.readline().decode(errors="replace").lower().split())
    if first not in MARKETS:
        raise MatrixError(
            f"{path} begins with {first[:80]!r}: write it as '%%MatrixMarket matrix coordinate real general'"
        )
    with damage_told(path, MatrixError, "Matrix Market"):
        sizes = next((line for line in file if line.strip() and not line.startswith(b"%")), b"").split()
        shape = (int(sizes[0]), int(sizes[1]))
        refuse_bomb(path, len(data), 8 * shape[0])
        return held_matrix(path, _cells_of(file, *MARKETS[first], shape, int(sizes[-1])), None)


def _cells_of(file: Any, form: str, symmetry: str, shape: tuple[int, int], n_cells: int) -> Any:
    cells = np.loadtxt(file, comments="%", ndmin=2)
    if form == "array":
        return cells.reshape(shape, order="F")
    cells = cells.reshape(n_cells, -1)
    rows, columns = cells[:, :2].astype(np.int64).T - 1
    values = sp.coo_array((cells[:, 2] if cells.shape[1] > 2 else np.ones(n_cells), (rows, columns)), shape)
    if symmetry == "general":
        return values
    return values + values.T - sp.dia_array((values.diagonal()[None], [0]), shape)


def read_csv(path: str, *, columns: Sequence[str], name_column: str | None) -> Matrix:
    """Read a CSV file: its columns of numbers, and names from the column asked for, else from one of text."""
    found = read_table(path)
    for name in _asked(columns, name_column):
        column_of(found, name)
    wanted = columns or [name for name in found.columns if name != name_column]
    read = read_numbers(found, wanted, decimal="auto")
    if columns and read.texts:
        raise MatrixError(
            f"{path}: the columns {some(read.texts)} hold no numbers: leave them out of input.columns"
        )
    if not read.numbers:
        raise MatrixError(f"{path} has no column of numbers; it has {some(found.columns)}")
    texts = {name: texts_of(found.columns[name]) for name in (name_column, *read.texts) if name}
    key = name_column or next((name for name, values in texts.items() if all_different(values)), None)
    values = np.stack([column.values for column in read.numbers], axis=1)
    told = readings(read.numbers, remedy="write the table with decimal points and no signs between thousands")
    note = column_note(path, [column.name for column in read.numbers], key)
    return held_matrix(path, values, texts.get(key or ""))._replace(note="; ".join([note, *told]))


def _asked(columns: Sequence[str], name_column: str | None) -> list[str]:
    return [*columns, *([name_column] if name_column else [])]


# ---- Parquet: by row groups, a column of lists or columns of numbers ---------------------------------------------


def open_parquet(path: str, *, columns: Sequence[str], name_column: str | None) -> Matrix:
    """Open a Parquet file as a matrix of its columns of numbers, or of its one column of lists of numbers.

    The names are those of the column asked for, else of the first column of text in which no text stands twice.

    Raises
    ------
    MatrixError
        If the file is not whole, lacks a column, or has no column of numbers.
    """
    with damage_told(path, MatrixError, "a Parquet file"), opened(path, "rb") as file:
        found = ParquetFile(file)
        schema, n_rows = found.schema_arrow, found.metadata.num_rows
        wanted = _wanted_columns(path, schema, columns, name_column)
        if not n_rows:
            raise MatrixError(f"{path} has no rows: give a matrix with at least one row and column")
        kinds = [schema.field(name).type for name in wanted]
        groups = [found.metadata.row_group(i).num_rows for i in range(found.num_row_groups)]
        starts = np.concatenate([[0], np.cumsum(groups)]).tolist()
        width = len(wanted) if not is_list(kinds[0]) else _list_width(path, found, wanted[0])
    values = [kind.value_type if is_list(kind) else kind for kind in kinds]
    dtype = np.result_type(*(kind.to_pandas_dtype() for kind in values))
    names = name_column or _name_column(path, schema)
    read = partial(_parquet_rows, path, tuple(wanted), tuple(starts), width)
    note = column_note(path, wanted, names)
    return Matrix(
        path, (n_rows, width), np.dtype(dtype), read, partial(_parquet_names, path, names), note=note
    )


def _name_column(path: str, schema: pa.Schema) -> str | None:
    """Return the first column of text whose values are all different."""
    texts = (field.name for field in schema if is_text(field.type) or pa.types.is_dictionary(field.type))
    return next((name for name in texts if all_different(_parquet_names(path, name) or ())), None)


def _is_number(kind: pa.DataType, *, or_truth: bool = False) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or (or_truth and pa.types.is_boolean(kind))


def _wanted_columns(
    path: str, schema: pa.Schema, columns: Sequence[str], name_column: str | None
) -> list[str]:
    """Return the columns of the matrix: those asked for, else one column of lists, else all of numbers."""
    for name in _asked(columns, name_column):
        if name not in schema.names:
            raise MatrixError(f"{path} has no column {name!r}; it has {some(schema.names)}")
    fields = [field for field in schema if field.name != name_column]
    lists = [field.name for field in fields if is_list(field.type) and _is_number(field.type.value_type)]
    wanted = list(columns) or lists[:1] or [field.name for field in fields if _is_number(field.type)]
    mixed = len(wanted) > 1 and any(name in lists for name in wanted)
    others = [name for name in wanted if not _is_number(schema.field(name).type, or_truth=True)]
    if not wanted or mixed or set(others) - set(lists) or (len(lists) > 1 and not columns):
        raise MatrixError(
            f"{path} has the columns {some(schema.names)}: set input.columns to one column of lists of numbers, or to "
            "columns of numbers"
        )
    return wanted


def _list_width(path: str, file: ParquetFile, column: str) -> int:
    first = next(read_batches(file, 1, columns=[column])).column(0)
    if not first.is_valid()[0].as_py() or not len(first[0]):
        raise MatrixError(
            f"{path}, row 0 has no values in the column {column!r}: fill them in, or drop the row"
        )
    return len(first[0])


def _parquet_rows(
    path: str, columns: Sequence[str], starts: Sequence[int], width: int, start: int, stop: int
) -> Any:
    """Return the rows from one to before another, decoding the row groups that they lie in, batch by batch."""
    touched = [g for g in range(len(starts) - 1) if starts[g] < stop and starts[g + 1] > start]
    with damage_told(path, MatrixError, "a Parquet file"), opened(path, "rb") as file:
        parts, at = [], starts[touched[0]]  # of a damaged file no row group may have the rows
        found = ParquetFile(file, buffer_bytes=BUFFER_BYTES)
        for batch in read_batches(found, BATCH_ROWS, row_groups=touched, columns=columns):
            first, last = max(start - at, 0), min(stop - at, len(batch))
            if first < last:
                parts.append(
                    _parquet_block(path, batch.slice(first, last - first), columns, width, at + first)
                )
            at += len(batch)
            if at >= stop:
                break
    return np.concatenate(parts)


def _parquet_block(
    path: str, batch: pa.RecordBatch, columns: Sequence[str], width: int, first_row: int
) -> Any:
    for name in columns:
        column = batch.column(name)
        if column.null_count:
            row = first_row + int(np.flatnonzero(column.is_null())[0])
            raise MatrixError(
                f"{path}, row {row} (counted from 0) has no value in {name!r}: fill it in, or drop the row"
            )
    if not is_list(batch.column(columns[0]).type):
        return np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in columns], axis=1)
    try:
        return matrix_of_lists(batch.column(columns[0]), width)
    except ListError as error:
        where = f"{path}, row {first_row + error.row} (counted from 0)"
        if error.length == width:
            raise MatrixError(f"{where} misses a value in {columns[0]!r}: fill it in") from None
        raise MatrixError(
            f"{where} has {error.length} values in {columns[0]!r}, and row 0 has {width}: all rows must have as many"
        ) from None


def _parquet_names(path: str, column: str | None) -> Sequence[str] | None:
    if column is None:
        return None
    with damage_told(path, MatrixError, "a Parquet file"), opened(path, "rb") as file:
        table = whole_table(file, columns=[column])
    return [str(name) for name in table.column(0).to_pylist()]


OPENERS: dict[str, tuple[Callable[..., Matrix], tuple[str, ...]]] = {
    "npy": (open_npy, ()),
    "npz": (read_npz, ("key", "name_column")),
    "mtx": (read_mtx, ()),
    "parquet": (open_parquet, ("columns", "name_column")),
    "csv": (read_csv, ("columns", "name_column")),
    "hierarchical": (open_hierarchical, ("key",)),
}
"""What opens each kind of file, and the keys of a job for which it has a use; it takes them by name."""
