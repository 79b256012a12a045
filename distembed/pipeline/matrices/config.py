"""The section of a job that names a matrix."""

from __future__ import annotations

from pydantic import Field

from distembed.pipeline.sections import InputPath, Section


class MatrixSection(Section):
    """`[input]`: a matrix, a row per thing, and the names of its rows; see `distembed.pipeline.matrices.files`."""

    path: InputPath
    key: str | None = Field(default=None, min_length=1)  # of an npz, a Zarr group or an AnnData file
    columns: tuple[str, ...] = ()  # of a table; none: all columns of numbers
    name_column: str | None = None  # of a table or an npz
    names: InputPath | None = None  # a text file, one name a line
    dense: bool = False  # make sparse rows dense
