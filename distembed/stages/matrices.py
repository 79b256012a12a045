"""Open the matrix that a job names, whatever its format, and tell its size before it is read.

npy files, Parquet, Zarr and HDF5 are read by ranges of rows. CSV, npz, vector files and matrices stored by columns
can only be read at once, and are held in memory for the stage that stores their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from distembed.files import read_small
from distembed.formats.cells import read_numbers, readings
from distembed.formats.encodings import decoded
from distembed.formats.hierarchical import open_hierarchical
from distembed.formats.matrix import (
    HDF5_SUFFIXES,
    Matrix,
    MatrixError,
    all_different,
    column_note,
    held_matrix,
    refuse_equal_names,
)
from distembed.formats.names import suffix_of
from distembed.formats.numpy_matrices import open_npy, read_npz
from distembed.formats.parquet_matrices import open_parquet
from distembed.formats.tables import column_of, read_table, some, texts_of
from distembed.job.model import InputPath, Section
from distembed.job.stage import read_vectors
from distembed.storage.workspace import Workspace
from distembed.urls import opened, url_to_fs
from distembed.vectors import WordVectors


class MatrixSection(Section):
    """`[input]`: a matrix, a row per thing, and the names of its rows; see `distembed.stages.matrices`."""

    path: InputPath
    """The matrix: a vector file, CSV, TSV, Parquet, .npy, .npz, a Zarr array, or AnnData (.zarr or .h5ad)."""
    key: str | None = Field(default=None, min_length=1)
    """The array of an npz, of a Zarr group or of an AnnData file, such as obsm/X_pca."""
    columns: tuple[str, ...] = ()
    """The columns of a table; by default all of numbers."""
    name_column: str | None = None
    """The column, or the array of an npz, that holds the names of the rows."""
    names: InputPath | None = None
    """A text file with the names of the rows, one name per line."""
    dense: bool = False
    """Whether sparse rows are made dense."""


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
    if _kind(section.path) == "vectors":
        return _vector_file_size(section.path)
    matrix = _opened(section)
    (n, d), sizes = matrix.shape, matrix.row_sizes
    n_stored = n * d if sizes is None else int(sizes.sum())
    width = matrix.dtype.itemsize + (0 if sizes is None else 4)
    held = 0 if matrix.held is None else width * n_stored
    return MatrixSize(n, d, n_stored, matrix.stored_dtype, matrix.is_sparse, held)


def _opened(section: MatrixSection) -> Matrix:
    path, kind = section.path.rstrip("/"), _kind(section.path)
    _refuse_unused(section, kind)
    if kind == "npy":
        return open_npy(path)
    if kind == "npz":
        return read_npz(path, section.key, section.name_column)
    if kind == "parquet":
        return open_parquet(path, section.columns, section.name_column)
    if kind == "hierarchical":
        return open_hierarchical(path, section.key)
    if kind == "csv":
        return _read_table(path, section)
    vectors = read_vectors(Workspace.open(path)) if kind == "workspace" else WordVectors.load(path)
    return held_matrix(path, vectors.vectors, list(vectors.words))


KINDS = {".npy": "npy", ".npz": "npz", ".parquet": "parquet", ".csv": "csv", ".tsv": "csv"}
"""The kinds of files by their extensions; others hold vectors."""

KEYS = {
    "npz": ("key", "name_column"),
    "parquet": ("columns", "name_column"),
    "csv": ("columns", "name_column"),
    "hierarchical": ("key",),
}
"""The keys of the section that each kind of file has a use for; the others have none."""


def _refuse_unused(section: MatrixSection, kind: str) -> None:
    """Refuse a key that says nothing of a kind of file: it was meant for another."""
    for name in ("key", "columns", "name_column"):
        if getattr(section, name) and name not in KEYS.get(kind, ()):
            raise MatrixError(f"{section.path} has no use for input.{name}: leave it out")


def _kind(path: str) -> str:
    """Return the kind of file at a path, by its name, or for a folder by what is in it.

    Raises
    ------
    FileNotFoundError
        If there is nothing at the path.
    MatrixError
        If it is a folder that is neither a Zarr store nor a workspace.
    """
    fs, inner = url_to_fs(path)
    if not fs.exists(inner):
        raise FileNotFoundError(f"there is nothing at {path}: correct input.path")
    if Workspace.exists(path):
        return "workspace"
    if any(fs.exists(f"{inner.rstrip('/')}/{name}") for name in ZARR_FILES) or path.endswith(HDF5_SUFFIXES):
        return "hierarchical"
    if fs.isdir(inner):
        raise MatrixError(f"{path} is a folder, and neither a Zarr store nor a workspace: name the file")
    return KINDS.get(suffix_of(path), "vectors")


def _vector_file_size(path: str) -> MatrixSize:
    """Return rows and columns by the header and the first row; without a header, rows by the size of the file."""
    width = WordVectors.load(path, max_words=1).vectors.shape[1]
    with opened(path, "rb", compression="infer") as file:
        head = file.readline(100).split()
    fs, inner = url_to_fs(path)
    counted = len(head) == 2 and all(field.isdigit() for field in head)
    value_bytes = 4 if path.endswith(".safetensors") else CHARACTERS_OF_VALUE
    n = int(head[0]) if counted else max(1, fs.size(inner) // (value_bytes * width))
    return MatrixSize(n, width, n * width, np.dtype(np.float32), False, 4 * n * width, exact=counted)


def _listed_names(path: str, n_rows: int) -> Sequence[str]:
    names = decoded(read_small(path)).splitlines()
    if len(names) != n_rows:
        raise MatrixError(
            f"{path} has {len(names)} lines, and the matrix {n_rows} rows: give one name per row"
        )
    refuse_equal_names(path, names)
    return names


def _read_table(path: str, section: MatrixSection) -> Matrix:
    """Read a CSV file: its columns of numbers, and names from the column asked for, else from one of text."""
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
    texts = {name: texts_of(found.columns[name]) for name in (section.name_column, *read.texts) if name}
    key = section.name_column or next((name for name, values in texts.items() if all_different(values)), None)
    matrix = held_matrix(
        path, np.stack([column.values for column in read.numbers], axis=1), texts.get(key or "")
    )
    told = readings(read.numbers, remedy="write the table with decimal points and no signs between thousands")
    note = column_note(path, [column.name for column in read.numbers], key)
    return matrix._replace(note="; ".join([note, *told]))
