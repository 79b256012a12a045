"""Open the matrix that a job names, whatever its format, and tell its size before it is read.

npy files, Parquet, Zarr and HDF5 are read by ranges of rows. CSV, npz, vector files and matrices stored by columns
can only be read at once, and are held in memory for the stage that stores their rows.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import fsspec
import numpy as np
import scipy.sparse as sp
from fsspec.core import url_to_fs
from numpy.lib import format as npy

from distembed.pipeline.context import read_vectors
from distembed.pipeline.matrices.config import MatrixSection
from distembed.pipeline.matrices.hierarchical import HDF5_SUFFIXES, open_hierarchical
from distembed.pipeline.matrices.matrix import (
    Matrix,
    MatrixError,
    check_shape,
    held_matrix,
    refuse_equal_names,
)
from distembed.pipeline.matrices.parquet import open_parquet
from distembed.pipeline.tables.cells import read_numbers
from distembed.pipeline.tables.files import COMPRESSIONS, column_of, read_table, some, texts_of
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors

ZARR_FILES = ("zarr.json", ".zgroup", ".zarray")
"""One of these lies in the folder of every Zarr store."""

CHARACTERS_OF_VALUE = 8
"""Of a value of a vector file in text, with its blank, where no header says how many rows there are."""


class MatrixSize(NamedTuple):
    """The size of a matrix; not `exact` where the file says it only when it is read to its end.

    `held_bytes` are what a format that is read at once takes in memory.
    """

    n_rows: int
    n_columns: int
    n_stored: int
    stored_dtype: np.dtype[Any]
    is_sparse: bool
    held_bytes: int
    exact: bool = True


def open_matrix(section: MatrixSection) -> Matrix:
    """Open a matrix.

    Raises
    ------
    MatrixError
        If the file is damaged, or does not hold the matrix that the section asks for.
    FileNotFoundError
        If there is nothing at the path.
    """
    matrix = _opened(section)
    if section.names is None:
        return matrix
    return matrix._replace(names=partial(_listed_names, section.names, matrix.shape[0]))


def matrix_size(section: MatrixSection) -> MatrixSize:
    """Return the size of a matrix; of a large vector file an estimate."""
    if _is_vector_file(section.path):
        return _vector_file_size(section.path)
    matrix = _opened(section)
    (n, d), sizes = matrix.shape, matrix.row_sizes
    n_stored = n * d if sizes is None else int(sizes.sum())
    width = matrix.dtype.itemsize + (0 if sizes is None else 4)
    held = 0 if matrix.held is None else width * n_stored
    return MatrixSize(n, d, n_stored, matrix.stored_dtype, matrix.is_sparse, held)


def _opened(section: MatrixSection) -> Matrix:
    path = section.path.rstrip("/")
    if path.endswith(".npy"):
        return _open_npy(path)
    if path.endswith(".npz"):
        return _read_npz(path, section.key, section.name_column)
    if path.endswith(".parquet"):
        return open_parquet(path, section.columns, section.name_column)
    if path.endswith(HDF5_SUFFIXES) or _is_zarr(path):
        return open_hierarchical(path, section.key)
    if _bare(path).endswith((".csv", ".tsv")):
        return _read_table(path, section)
    vectors = read_vectors(Workspace.open(path)) if Workspace.exists(path) else WordVectors.load(path)
    return held_matrix(path, vectors.vectors, list(vectors.words))


def _bare(path: str) -> str:
    for compression in COMPRESSIONS:
        path = path.removesuffix(compression)
    return path


def _is_zarr(path: str) -> bool:
    fs, inner = url_to_fs(path)
    return any(fs.exists(f"{inner}/{name}") for name in ZARR_FILES)


def _is_vector_file(path: str) -> bool:
    known = (".npy", ".npz", ".parquet", ".csv", ".tsv", *HDF5_SUFFIXES)
    return not (_bare(path.rstrip("/")).endswith(known) or _is_zarr(path) or Workspace.exists(path))


def _vector_file_size(path: str) -> MatrixSize:
    """Return rows and columns by the header and the first row; without a header, rows by the size of the file."""
    width = WordVectors.load(path, max_words=1).vectors.shape[1]
    with fsspec.open(path, "rb", compression="infer") as file:
        head = file.readline(100).split()
    fs, inner = url_to_fs(path)
    counted = len(head) == 2 and all(field.isdigit() for field in head)
    value_bytes = 4 if path.endswith(".safetensors") else CHARACTERS_OF_VALUE
    n = int(head[0]) if counted else max(1, fs.size(inner) // (value_bytes * width))
    return MatrixSize(n, width, n * width, np.dtype(np.float32), False, 4 * n * width, exact=counted)


def _listed_names(path: str, n_rows: int) -> Sequence[str]:
    with fsspec.open(path, "rt", encoding="utf-8", newline=None, compression="infer") as file:
        names = file.read().splitlines()
    if len(names) != n_rows:
        raise MatrixError(
            f"{path} has {len(names)} lines, and the matrix {n_rows} rows: give one name per row"
        )
    refuse_equal_names(path, names)
    return names


# --- NumPy's files -------------------------------------------------------------------------------------------


def _open_npy(path: str) -> Matrix:
    with fsspec.open(path, "rb") as file:
        try:
            shape, fortran, dtype = _npy_header(file)
        except ValueError as error:
            raise MatrixError(f"{path} is not an npy file ({error}): save it with numpy.save") from error
        first = file.tell()
    check_shape(path, shape, dtype)
    fs, inner = url_to_fs(path)
    missing = first + dtype.itemsize * shape[0] * shape[1] - fs.size(inner)
    if missing > 0:
        raise MatrixError(
            f"{path} ends {missing:,} bytes before its {shape[0]:,} rows do: copy or save it again"
        )
    if fortran:
        with fsspec.open(path, "rb") as file:
            return held_matrix(path, np.ascontiguousarray(np.load(file)), None)
    return Matrix(path, shape, dtype, partial(_npy_rows, path, first, shape[1], dtype), lambda: None)


def _npy_header(file: Any) -> tuple[Any, bool, np.dtype[Any]]:
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return read(file)


def _npy_rows(path: str, first: int, width: int, dtype: np.dtype[Any], start: int, stop: int) -> Any:
    with fsspec.open(path, "rb") as file:
        file.seek(first + start * width * dtype.itemsize)
        data = file.read((stop - start) * width * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(stop - start, width)


def _read_npz(path: str, key: str | None, name_key: str | None) -> Matrix:
    """Read a matrix that scipy.sparse.save_npz wrote, or one array of an npz file."""
    try:
        with fsspec.open(path, "rb") as file, np.load(file) as arrays:
            if "format" in arrays.files:
                file.seek(0)
                return held_matrix(path, sp.csr_array(sp.load_npz(file)), None)
            names = None if name_key is None else texts_of(_array_of(path, arrays, name_key))
            return held_matrix(path, _array_of(path, arrays, key or _only_matrix(path, arrays)), names)
    except (zipfile.BadZipFile, EOFError) as error:
        raise MatrixError(f"{path} is not a whole npz file ({error}): copy or save it again") from error


def _array_of(path: str, arrays: Any, name: str) -> Any:
    if name not in arrays.files:
        raise MatrixError(f"{path} holds no array {name!r}; it holds {some(arrays.files)}")
    return arrays[name]


def _only_matrix(path: str, arrays: Any) -> str:
    matrices = [name for name in arrays.files if arrays[name].ndim == 2]
    if len(matrices) != 1:
        raise MatrixError(f"{path} holds {some(arrays.files)}: set input.key to the one that is the matrix")
    return matrices[0]


# --- tables --------------------------------------------------------------------------------------------------


def _read_table(path: str, section: MatrixSection) -> Matrix:
    """Read a CSV file: its columns of numbers, and names from the column asked for, else from the first of text."""
    found = read_table(path)
    for name in (*section.columns, *([section.name_column] if section.name_column else [])):
        column_of(found, name)
    wanted = section.columns or [name for name in found.columns if name != section.name_column]
    read = read_numbers(found, wanted, decimal="auto")
    if section.columns and read.texts:
        raise MatrixError(
            f"{path}: the columns {some(read.texts)} hold no numbers: leave them out of input.columns"
        )
    if not read.numbers:
        raise MatrixError(f"{path} has no column of numbers; it has {some(found.columns)}")
    key = section.name_column or next(iter(read.texts), None)
    names = None if key is None else texts_of(found.columns[key])
    return held_matrix(path, np.stack([column.values for column in read.numbers], axis=1), names)
