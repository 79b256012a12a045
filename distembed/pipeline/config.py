"""A job file: one TOML, checked whole before anything runs.

Every section is a frozen pydantic model that refuses unknown keys, so a misspelt option is an error that
names the nearest real one and never a silent default.
"""

from __future__ import annotations

import difflib
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from dask.utils import parse_bytes
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(gt=0)]
"""A size in bytes, written `268435456` or `"256MiB"`."""


class JobError(ValueError):
    """A job file that cannot be run as it is written."""


class Section(BaseModel):
    """A part of a job file: frozen, and closed to unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobSection(Section):
    """`[job]`: what is run and where its workspace is."""

    system: Literal["psdvec"] = "psdvec"
    title: str = "distembed job"
    workspace: str = Field(min_length=1)


class CorpusSection(Section):
    """`[corpus]`: the documents and how they become tokens."""

    paths: tuple[str, ...] = Field(min_length=1)
    format: Literal["auto", "mediawiki", "text", "jsonl", "parquet"] = "auto"
    layout: Literal["line", "blocks"] = "line"
    encoding: str = "utf-8"
    errors: Literal["strict", "replace", "ignore"] = "strict"
    namespaces: tuple[int, ...] = (0,)
    redirects: bool = False
    text_field: str = "text"
    pattern: str = "unicode"
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
    subsample: float | None = Field(default=None, gt=0)
    outside: Literal["keep", "close"] = "keep"


class PSDVecSection(Section):
    """`[psdvec]`: the factorization (`distembed.PSDVec`)."""

    n_components: int = Field(default=100, ge=1)
    n_core: int | None = Field(default=None, ge=1)
    smoothing: float = Field(default=0.02, gt=0, lt=1)
    n_iter: int = Field(default=4, ge=1)
    ridge: float | tuple[float, ...] = 2.0
    bands: tuple[int, ...] | None = None
    background_weight: float = Field(default=0.0, ge=0, le=1)
    solver: Literal["krylov", "dense"] = "krylov"
    random_state: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _core_spans_the_components(self) -> Self:
        if self.n_core is not None and self.n_components > self.n_core:
            raise ValueError(
                f"n_components = {self.n_components} is more than n_core = {self.n_core}; lower it, or raise n_core"
            )
        return self


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


class Job(Section):
    """A whole job file; `made_with` is what a run writes into the copy in its workspace, and is not read."""

    job: JobSection
    corpus: CorpusSection
    vocabulary: VocabularySection = VocabularySection()
    counting: CountingSection = CountingSection()
    psdvec: PSDVecSection = PSDVecSection()
    evaluation: EvaluationSection = EvaluationSection()
    report: ReportSection = ReportSection()
    resources: ResourcesSection = ResourcesSection()
    made_with: dict[str, str] = Field(default={}, exclude=True)


def load_job(path: str | Path, *, settings: tuple[str, ...] = (), workspace: str | None = None) -> Job:
    """Read and check a job file.

    Parameters
    ----------
    path
        A TOML file. Relative inputs are relative to its folder; the workspace to the current one.
    settings
        `"section.key=value"` overrides, the value written as in TOML (a bare word is taken as a string).
    workspace
        Overrides `job.workspace`.

    Raises
    ------
    JobError
        The file is not TOML, a key is unknown (the nearest is named), or a value is not allowed.
    FileNotFoundError
        There is no such file.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no job file {path}; jobs/ in the source holds examples") from None
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{path} is not valid TOML: {error}") from None
    for setting in settings:
        _override(tree, setting)
    if workspace is not None:
        tree.setdefault("job", {})["workspace"] = workspace
    try:
        job = Job.model_validate(tree)
    except ValidationError as error:
        raise JobError(f"{path}: {_first_fault(error)}") from None
    return _resolve(job, path.parent)


def _override(tree: dict[str, Any], setting: str) -> None:
    key, equals, value = setting.partition("=")
    section, dot, name = key.strip().partition(".")
    if not (equals and dot and name):
        raise JobError(
            f"the setting {setting!r} is not of the form section.key=value, as psdvec.n_components=50"
        )
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    tree.setdefault(section, {})[name] = parsed


def _first_fault(error: ValidationError) -> str:
    """Say the first fault of a job in one sentence, with the nearest key where one is unknown."""
    fault = error.errors()[0]
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        *parents, unknown = (str(part) for part in fault["loc"])
        known = list(_model_at(tuple(parents)).model_fields)
        nearest = difflib.get_close_matches(unknown, known, n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]}?" if nearest else f"the keys here are {', '.join(known)}"
        return f"unknown key {where}; {hint}"
    if fault["type"] == "missing":
        return f"{where} is required and not there; add it"
    if fault["type"] == "value_error" and isinstance(fault["input"], dict):
        return f"{where}: {fault['ctx']['error']}"
    return f"{where} = {fault['input']!r} is not allowed: {fault['msg'].lower()}"


def _model_at(parents: tuple[str, ...]) -> type[BaseModel]:
    model: type[BaseModel] = Job
    for name in parents:
        annotation = model.model_fields[name].annotation
        candidates = [annotation, *get_args(annotation)]
        model = next(c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))
    return model


def _resolve(job: Job, folder: Path) -> Job:
    corpus = job.corpus.model_copy(update={"paths": tuple(locate(p, folder) for p in job.corpus.paths)})
    sets = tuple(locate(p, folder) for p in job.evaluation.sets)
    return job.model_copy(
        update={"corpus": corpus, "evaluation": job.evaluation.model_copy(update={"sets": sets})}
    )


def locate(path: str, folder: Path) -> str:
    """Return where an input is: `{package}/file` in a package, a URL as it is, else in `folder`.

    Raises
    ------
    JobError
        The package is not installed.
    """
    if path.startswith("{"):
        package, _, rest = path[1:].partition("}")
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise JobError(
                f"{path} lies in the Python package {package}, which is not installed; "
                f"type: pip install 'distembed[demo]' (or pip install {package})"
            )
        return str(Path(spec.submodule_search_locations[0]) / rest.lstrip("/"))
    if "://" in path or Path(path).is_absolute():
        return path
    return str(folder / path)
