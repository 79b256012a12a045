"""What all job files share: sections that refuse unknown keys, and where inputs are.

Every section is a frozen pydantic model, so a misspelt option is an error that names the nearest real one and never
a silent default. The sections of one system are in `config.py` of its own folder.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, Self

from dask.utils import parse_bytes
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(gt=0)]
"""A size in bytes, written `268435456` or `"256MiB"`."""


class JobError(ValueError):
    """A job file that cannot be run as it is written."""


class Section(BaseModel):
    """A part of a job file: frozen, and closed to unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobSection(Section):
    """`[job]`: what is run and where its workspace is."""

    system: Literal["psdvec", "imputation", "wordspaces", "topics", "transfer"] = "psdvec"
    title: str = "distembed job"
    workspace: str = Field(min_length=1)


class CorpusSection(Section):
    """`[corpus]`: the documents and how they become tokens."""

    paths: tuple[str, ...] = Field(min_length=1)
    format: Literal["auto", "mediawiki", "text", "jsonl", "parquet"] = "auto"
    layout: Literal["line", "blocks"] = "line"
    encoding: str = "utf-8"
    errors: Literal["strict", "replace"] = "strict"
    bad_records: Literal["error", "skip"] = "error"
    namespaces: tuple[int, ...] = (0,)
    redirects: bool = False
    text_field: str | tuple[str, ...] = "text"
    pattern: str = "unicode"
    normalization: Literal["nfc", "nfkc", "none"] = "nfc"
    lowercase: bool = True
    numbers: bool = False
    apostrophes: bool = False
    border: Literal["document", "line", "sentence"] = "document"
    min_border_tokens: int = Field(default=1, ge=1)
    split_bytes: Bytes = parse_bytes("32MiB")


class VocabularySection(Section):
    """`[vocabulary]`: which words get a vector."""

    min_count: int = Field(default=5, ge=1)
    max_size: int | None = Field(default=None, ge=1)
    keep: tuple[str, ...] = ()


class CountingSection(Section):
    """`[counting]`: what counts as a word's context."""

    window: int = Field(default=3, ge=1)
    direction: Literal["left", "right", "symmetric"] = "left"
    weighting: Literal["flat", "harmonic", "ramp", "dynamic"] = "flat"
    draw: int | None = Field(default=None, ge=0)
    subsample: float | None = Field(default=None, gt=0)
    seed: int = Field(default=0, ge=0)
    outside: Literal["keep", "close"] = "keep"


class EvaluationSection(Section):
    """`[evaluation]`: folders or files of evaluation sets, and what is done to the vectors first."""

    sets: tuple[str, ...] = ()
    remove_mean: bool = False
    n_components_removed: int = Field(default=0, ge=0)


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

    def located(self, folder: Path) -> Self:  # noqa: ARG002 - a job without inputs is as it is
        """Return the job with its inputs looked up from the folder of its file."""
        return self


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
