"""The outputs of stages, declared once: what each is called, and what its axes and values are.

A system declares its outputs in `outputs.py` of its own folder, and those of a corpus are in
`distembed.stages.outputs`. A stage stores them by the methods of its `Context`, readers open them by `read`, and the
reference of workspaces lists them.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from types import ModuleType
from typing import Self

import dask.array as da
import pyarrow as pa

from distembed.storage.stage import FileItem
from distembed.storage.workspace import Workspace


@dataclass(frozen=True)
class Declared:
    """What every output has; braces in the name and the meaning stand for parts that a job decides."""

    name: str
    meaning: str
    _: KW_ONLY
    temporary: bool = False
    """Whether it ends with its stage."""
    scores: bool = False
    """Whether it says how good the results are, so that `distembed status --json` holds it."""

    def of(self, **parts: str) -> Self:
        """Return the output of which some parts are filled in."""
        return replace(self, name=self.name.format(**parts), meaning=self.meaning.format(**parts))


@dataclass(frozen=True)
class ArrayOutput(Declared):
    """A dense or a sparse array in `arrays.zarr`, cut into blocks of rows."""

    dims: tuple[str, ...]
    dtype: str = "float32"
    units: str = ""

    def read(self, workspace: Workspace, **parts: str) -> da.Array:
        """Return the array of a workspace, lazily; `parts` fill in the name."""
        return workspace.array(self.name.format(**parts))


@dataclass(frozen=True)
class TableOutput(Declared):
    """A table, `NAME.parquet`."""

    columns: tuple[str, ...]

    def read(self, workspace: Workspace, **parts: str) -> pa.Table:
        """Return the table of a workspace; `parts` fill in the name."""
        return workspace.table(self.name.format(**parts))


@dataclass(frozen=True)
class FilesOutput(Declared):
    """A folder with one or more files of each task, such as one for each part of the input."""

    def read(self, workspace: Workspace, **parts: str) -> list[FileItem]:
        """Return the items of a workspace, in order; `parts` fill in the name."""
        return workspace.files(self.name.format(**parts))


@dataclass(frozen=True)
class FileOutput(Declared):
    """A file."""


Output = ArrayOutput | TableOutput | FilesOutput | FileOutput


def declared_in(module: ModuleType) -> tuple[Output, ...]:
    """Return the outputs that a module declares, in its order."""
    return tuple(value for value in vars(module).values() if isinstance(value, Output))
