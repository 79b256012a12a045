"""The section of a job that names a matrix."""

from __future__ import annotations

from pydantic import Field

from distembed.pipeline.sections import InputPath, Section


class MatrixSection(Section):
    """`[input]`: a matrix, a row per thing, and the names of its rows; see `distembed.pipeline.matrices.files`."""

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
