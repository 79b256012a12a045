"""What all job files share: sections that refuse unknown keys, and where inputs are.

Every section is a frozen pydantic model, so a misspelt option is an error that names the nearest real one and never
a silent default. The sections of one system are in `config.py` of its own folder, those of a corpus in
`distembed.pipeline.corpus.config`.
"""

from __future__ import annotations

import os
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from dask.utils import parse_bytes
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from distembed.pipeline.registry import DEFAULT_SYSTEM, SYSTEMS

Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(gt=0)]
"""A size in bytes, written `268435456` or `"256MiB"`."""


class JobError(ValueError):
    """A job file that cannot be run as it is written."""


class Read(Enum):
    """What a stage reads whose parameters hold the value of a key: the runner stamps it."""

    FILES = "the files at a path, or a workspace"
    CODE = "the source file of a module:function"


def _located(path: str, info: ValidationInfo) -> str:
    return locate(path, info.context["folder"]) if info.context else path


Place = Annotated[str, Field(min_length=1), AfterValidator(_located)]
"""A path, taken from the folder of the job file (`folder` of the validation context), or a URL."""

InputPath = Annotated[Place, Read.FILES]
"""The place of a file, a glob, a folder or a workspace that a stage reads."""

TokenPattern = Annotated[str, Read.CODE]
"""A name or a regular expression of what a token is, or the `module:function` of a tokenizer."""


def _known_system(name: str) -> str:
    if name not in SYSTEMS:
        raise ValueError(f"{name!r} is no system: there are {', '.join(SYSTEMS)}")
    return name


class Section(BaseModel):
    """A part of a job file: frozen, and closed to unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobSection(Section):
    """`[job]`: what is run and where its workspace is."""

    system: Annotated[str, AfterValidator(_known_system)] = DEFAULT_SYSTEM
    title: str = "distembed job"
    workspace: Place


class ReportSection(Section):
    """`[report]`: what the report shows beside the figures of every run."""

    words: tuple[str, ...] = ()
    n_neighbors: int = Field(default=8, ge=1)
    n_map_words: int = Field(default=300, ge=1)


class ResourcesSection(Section):
    """`[resources]`: memory and workers; none of it changes a bit of the result but `block_memory`."""

    block_memory: Bytes = parse_bytes("64MiB")
    workers: int | None = Field(default=None, ge=1)
    memory_limit: Bytes = parse_bytes("2GiB")

    @property
    def n_workers(self) -> int:
        """Return how many workers the job asks for, by default one a core."""
        return self.workers or os.cpu_count() or 1


class Job(Section):
    """What every job file has; `made_with` is what older runs wrote into the copy in a workspace, and is not read."""

    job: JobSection
    report: ReportSection = ReportSection()
    resources: ResourcesSection = ResourcesSection()
    made_with: dict[str, str] = Field(default={}, exclude=True)


def locate(path: str, folder: Path) -> str:
    """Return where an input is: `{package}/file` in a package, a URL as it is, else in `folder`.

    A package is looked up and not imported, so it is one of the top level: to find another, Python would
    import those that hold it.

    Raises
    ------
    JobError
        The package is not installed, or is not one of the top level.
    """
    if path.startswith("{"):
        package, _, rest = path[1:].partition("}")
        if not package.isidentifier():
            raise JobError(
                f"{path}: {{{package}}} is not the name of a top-level package; "
                f"write {{{package.partition('.')[0]}}} and the folders below it as part of the path"
            )
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise JobError(
                f"{path} lies in the Python package {package}, which is not installed; "
                f"type: pip install 'distembed[demo]' (or pip install {package})"
            )
        return str(Path(spec.submodule_search_locations[0]) / rest.lstrip("/"))
    if "://" in path or Path(path).is_absolute():
        return path
    return os.path.normpath(folder / path)
