"""Open the matrix that a job names, whatever its format, and tell its size before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from distembed.files import damage_told, read_small
from distembed.formats.encodings import decoded
from distembed.formats.matrices import OPENERS, matrix_kind
from distembed.formats.matrix import Matrix, MatrixError, held_matrix, refuse_equal_names
from distembed.job.model import InputPath, Section
from distembed.job.stage import vectors_at
from distembed.neighbors.costs import RowSizes
from distembed.storage.workspace import Workspace
from distembed.urls import opened, url_to_fs
from distembed.vectors import WordVectors


class MatrixSection(Section):
    """`[input]`: a matrix, a row per thing, and the names of its rows; see `distembed.stages.matrices`."""

    path: InputPath
    """The matrix: vectors, CSV, TSV, Excel, Parquet, .npy, .npz, .mtx, a Zarr array, or AnnData (.zarr or .h5ad)."""
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


CHARACTERS_OF_VALUE = 8
"""Of a value of a vector file in text, with its space, where no header says how many rows there are."""


class MatrixSize(NamedTuple):
    """The rows of a matrix as they are stored; not `exact` where the file says it only when it is read to its end.

    `held_bytes` are what a format that is read at once takes in memory.
    """

    rows: RowSizes
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


COUNTED_ROWS = 200
"""Rows by which counts are told from other numbers."""


def advice_on_counts(section: MatrixSection) -> list[str]:
    """Return a sentence where the first rows of a matrix look like counts of cells or documents, of uneven totals."""
    if _kind(section.path) in ("vectors", "workspace"):
        return []
    matrix = open_matrix(section)
    rows = sp.csr_array(matrix.read(0, min(COUNTED_ROWS, matrix.shape[0])))
    totals, values = rows.sum(axis=1), rows.data
    are_counts = rows.nnz and values.min() >= 0 and values.max() > 1 and (values == np.floor(values)).all()
    if not are_counts or 2 * rows.nnz > np.prod(rows.shape) or totals.max() < 2 * np.median(totals):
        return []
    return [
        f"{section.path} looks like counts, whose totals run from {totals.min():,.0f} to {totals.max():,.0f}: rows are "
        "nearer by what they are if each is divided by its total and log(1 + x) is taken first (in scanpy "
        "normalize_total and log1p)"
    ]


def matrix_size(section: MatrixSection) -> MatrixSize:
    """Return the size of a matrix; of a large vector file an estimate."""
    if _kind(section.path) == "vectors":
        return _vector_file_size(section.path)
    matrix = _opened(section)
    as_given = row_sizes(matrix, dense=False)._replace(itemsize=matrix.dtype.itemsize)
    held = 0 if matrix.held is None else as_given.n_bytes
    return MatrixSize(row_sizes(matrix, dense=section.dense), held)


def row_sizes(matrix: Matrix, *, dense: bool) -> RowSizes:
    """Return the sizes of the rows of a matrix as they are stored; `dense` makes sparse ones dense."""
    (n, d), itemsize = matrix.shape, matrix.stored_dtype.itemsize
    if matrix.row_sizes is None or dense:
        return RowSizes(n, d, itemsize=itemsize)
    return RowSizes(n, d, int(matrix.row_sizes.sum()), itemsize)


def _opened(section: MatrixSection) -> Matrix:
    path = section.path.rstrip("/")
    opener, keys = OPENERS.get(_kind(section.path), (_open_vectors, ()))
    for name in ("key", "columns", "name_column"):
        if getattr(section, name) and name not in keys:
            raise MatrixError(f"{section.path} has no use for input.{name}: leave it out")
    return opener(path, **{name: getattr(section, name) for name in keys})


def _open_vectors(path: str) -> Matrix:
    vectors = vectors_at(path)
    return held_matrix(path, vectors.vectors, list(vectors.words))


def _kind(path: str) -> str:
    return "workspace" if Workspace.exists(path) else matrix_kind(path)


def _vector_file_size(path: str) -> MatrixSize:
    """Return rows and columns by the header and the first row; without a header, rows by the size of the file."""
    width = WordVectors.load(path, max_words=1).vectors.shape[1]
    with opened(path, "rb", compression="infer") as file:
        head = file.readline(100).split()
    fs, inner = url_to_fs(path)
    counted = len(head) == 2 and all(field.isdigit() for field in head)
    value_bytes = 4 if path.endswith(".safetensors") else CHARACTERS_OF_VALUE
    n = int(head[0]) if counted else max(1, fs.size(inner) // (value_bytes * width))
    rows = RowSizes(n, width, itemsize=4)
    return MatrixSize(rows, rows.n_bytes, exact=counted)


def _listed_names(path: str, n_rows: int) -> Sequence[str]:
    with damage_told(path, MatrixError, "text", "save it as UTF-8"):
        names = decoded(read_small(path)).splitlines()
    if len(names) != n_rows:
        raise MatrixError(
            f"{path} has {len(names)} lines, and the matrix {n_rows} rows: give one name per row"
        )
    refuse_equal_names(path, names)
    return names
