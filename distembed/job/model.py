"""The parts common to all job files: sections that refuse unknown keys, and the places of inputs.

Every section is a frozen pydantic model, so a misspelt option is an error that names the nearest real one and never
a silent default. The sections of one system are in `job.py` of its own folder, those of a corpus in
`distembed.stages.corpus_sections`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import reduce
from importlib.util import find_spec
from operator import or_
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, get_args, get_origin

import numpy as np
from dask.system import CPU_COUNT
from dask.utils import parse_bytes
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from distembed.compiled import user_cache
from distembed.display import plural
from distembed.heaps import memory_share
from distembed.job.registry import DEFAULT_SYSTEM
from distembed.options import NonNegativeInt, Option, RandomState, described, options_of
from distembed.spelling import did_you_mean
from distembed.urls import check_url, has_secret, protocol_of

SIZE = "a size, such as 64MiB"
"""What the type of sizes is called."""


def _parsed_size(value: Any) -> int:
    if isinstance(value, int | float | str) and str(value) != "nan":
        with suppress(OverflowError):
            return int(parse_bytes(value))
    raise ValueError(f"this is no size: give {SIZE}")


Bytes = Annotated[int, BeforeValidator(_parsed_size), Field(gt=0), SIZE]
"""A size in bytes, written `268435456` or `"256MiB"`."""


class JobError(ValueError):
    """A job file that cannot be run as it is written."""


class StoppedError(ConnectionError):
    """A run that lost what it ran on: the same command goes on when that is there again."""


class Read(Enum):
    """What a stage reads whose parameters hold the value of a key: the runner stamps it."""

    FILES = "the files at a path, or a workspace"
    CODE = "the source file of a module:function"


def _located(path: str, info: ValidationInfo) -> str:
    check_url(path)
    if has_secret(path):
        raise ValueError(
            "the URL holds a password, a signature or a token, and the workspace keeps a copy of the job: "
            "name it without, and keep keys where the store's own tools read them, or name a copy of the file"
        )
    return locate(path, info.context["folder"]) if info.context else path


Place = Annotated[str, Field(min_length=1), AfterValidator(_located), "a path or a URL"]
"""A path, taken from the folder of the job file (`folder` of the validation context), or a URL."""

InputPath = Annotated[Place, Read.FILES]
"""The place of a file, a glob, a folder or a workspace that a stage reads."""

TokenPattern = Annotated[str, Read.CODE, "unicode or ascii or icu or module:function"]
"""A name or a regular expression of what a token is, or the `module:function` of a tokenizer."""


class Section(BaseModel):
    """A part of a job file: frozen, and closed to unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _number_is_not_true(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse true and false where a number is asked for: Python takes them as 1 and 0."""
        wanted = cls.model_fields[str(info.field_name)].rebuild_annotation()
        kinds = _innermost(wanted)
        if _holds_bool(value) and kinds & {int, float} and bool not in kinds:
            raise ValueError(f"true and false are no numbers: give {described(wanted)}")
        return value


def chosen_by(key: str, default: str | None = None) -> Discriminator:
    """Return what chooses the section of a method by the value of a key; errors call the function by that name."""

    def method(section: Any) -> Any:
        return section.get(key, default) if isinstance(section, Mapping) else getattr(section, key, default)

    method.__name__ = key
    return Discriminator(method)


def tagged(annotation: Any) -> dict[str, Any]:
    """Return the models in a type of sections, by their tags; a model that has none is named by an empty text."""
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        tag = next((mark.tag for mark in marks if isinstance(mark, Tag)), None)
        return tagged(inner) if tag is None else {tag: inner}
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return {"": annotation}
    return {tag: model for one in get_args(annotation) for tag, model in tagged(one).items()}


def _innermost(annotation: Any) -> set[Any]:
    """Return the types that a type is made of, as int and str of ``dict[str, tuple[int, ...]]``."""
    inner = get_args(annotation)
    if inner:
        return set().union(*map(_innermost, inner))
    return {annotation} if isinstance(annotation, type) else set()


def _holds_bool(value: Any) -> bool:
    """Return whether a value is true or false, or a list or a table with one of them."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, bool) or any(map(_holds_bool, items))


OPTION: Any = object()
"""The default of a key that a section declares only for its readers: `section_of` puts the option in its place."""


S = TypeVar("S", bound=Section)


def section_of(
    *sources: Callable[..., Any], exclude: Mapping[str, str], defaults: Mapping[str, Any] | None = None
) -> Callable[[type[S]], type[S]]:
    """Return a decorator that gives a section the options of an estimator or of functions.

    Each option becomes a key of its name, type, range, default and meaning. The section declares the keys that the
    stages read by name as `OPTION`, so that a type checker knows them. A key that it declares with another default
    is its own, and only the meaning is taken.

    Parameters
    ----------
    sources : functions or types
        See `distembed.options.options_of`.
    exclude : mapping of str to str
        The options that a job cannot set, each with the reason.
    defaults : mapping, optional
        The defaults that are others in a job.

    Raises
    ------
    TypeError
        No source has an option that is excluded, declared or given a default.
    """
    options: dict[str, Option] = {}
    for source in reversed(sources):
        options |= options_of(source)
    changed = dict(defaults or {})

    def fill(section: type[S]) -> type[S]:
        declared = {
            name: section.model_fields[name]
            for name in section.__annotations__
            if name in section.model_fields
        }
        own = {name for name, field in declared.items() if field.default is not OPTION}
        if strangers := {*exclude, *changed, *declared} - own - {*options}:
            raise TypeError(f"there is no option {', '.join(sorted(strangers))} of {sources}")
        meanings = {name: field.description for name, field in declared.items() if field.description}
        for name in own & {*options}:
            declared[name].description = meanings.get(name, options[name].meaning)
        fields: dict[str, Any] = {
            name: _field(
                one._replace(default=changed.get(name, one.default), meaning=meanings.get(name, one.meaning))
            )
            for name, one in options.items()
            if name not in own and name not in exclude
        }
        return create_model(
            section.__name__,
            __base__=section,
            __module__=section.__module__,
            __doc__=section.__doc__,
            **fields,
        )

    return fill


def _field(option: Option) -> tuple[Any, Any]:
    kind = NonNegativeInt if option.annotation == RandomState else _written(option.annotation)
    if option.default is not None:
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        kind = reduce(or_, [one for one in kinds if one is not NoneType])
    return kind, Field(default=option.default, description=option.meaning)


def _written(annotation: Any) -> Any:
    """Return the part of a type that a TOML file can hold: no objects of Python, and lists that do not change."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Sequence, Iterable):
        return tuple[inner[0], ...]  # type: ignore[valid-type]
    if origin not in (Union, UnionType):
        return annotation
    kinds = [_written(one) for one in inner if get_origin(one) is not Callable]
    return reduce(or_, [one for one in kinds if one not in (np.random.Generator, np.random.RandomState)])


class JobSection(Section):
    """`[job]`: what is run and where its workspace is."""

    system: str = DEFAULT_SYSTEM
    """What is run: the name of a method."""
    title: str = "distembed job"
    """The title of the report."""
    workspace: Place
    """The folder or URL where everything that a run makes is kept."""

    @field_validator("workspace", mode="before")
    @classmethod
    def _can_be_written(cls, value: Any) -> Any:
        is_package = str(value).startswith("{") and not str(value).startswith("{data}")
        if is_package or protocol_of(str(value)) in ("http", "https"):
            raise ValueError("nothing is written there: name a folder, or a place in an object store")
        return value


class ShownSection(Section):
    """`[report]`: what the report shows beside the figures of every run; each system has the keys that it reads."""


class ListsSection(ShownSection):
    """`[report]`: what the report shows in addition to the figures of every run."""

    words: tuple[str, ...] = ()
    """The words or names whose neighbors the report lists; by default a few of them."""
    n_neighbors: int = Field(default=8, ge=1)
    """How many neighbors of each word are listed."""


class MapSection(ShownSection):
    """`[report]`: what the report shows in addition to the figures of every run."""

    n_map_words: int = Field(default=300, ge=1)
    """How many words or names the map shows."""


class ReportSection(MapSection, ListsSection):
    """`[report]`: what the report shows in addition to the figures of every run."""


class PaperSection(Section):
    """`[paper.NAME]`: figures of a paper, which the report shows above those of the job."""

    source: str
    """The paper, the table and the page."""
    columns: tuple[str, ...]
    """The measures, as the report calls them."""
    rows: dict[str, tuple[float | str, ...]]
    """The figures of each row of the report, one for each column; a text where the paper has no number."""

    @model_validator(mode="after")
    def _a_figure_for_each_column(self) -> Self:
        for row, figures in self.rows.items():
            if len(figures) != len(self.columns):
                found, wanted = plural(len(figures), "figure"), plural(len(self.columns), "column")
                raise ValueError(f"rows.{row} has {found} for {wanted}: give one for each")
        return self


class ResourcesSection(Section):
    """`[resources]`: memory and workers; none of it changes a bit of the result but `block_memory`."""

    block_memory: Annotated[Bytes, Field(ge=1024)] = parse_bytes("64MiB")
    """The size of a block, and with it the peak of a task; it decides the blocks, and so the last bits of results."""
    workers: int | None = Field(default=None, ge=1)
    """Local threads or processes; by default one per core that the process may use: a container's share, an
    affinity.
    """
    memory_limit: Bytes | None = None
    """The memory of a process; a job whose counted sizes cannot fit it is refused. By default each worker has the same
    part of three quarters of the memory of this machine, or of its container.
    """

    @property
    def n_workers(self) -> int:
        """Return how many workers the job asks for, by default one per core that this process may use."""
        return self.workers or CPU_COUNT

    @property
    def process_memory(self) -> int:
        """Return the memory of a process in bytes, by default a share of the machine's."""
        return self.memory_limit or memory_share(self.n_workers)


class Job(Section):
    """What every job file has."""

    first_keys: ClassVar[tuple[str, ...]] = ()
    """The keys that people change first, as `section.key`: `distembed new` writes them with their defaults."""

    job: JobSection
    paper: dict[str, PaperSection] = Field(default={})
    report: ShownSection = ShownSection()
    resources: ResourcesSection = ResourcesSection()
    _recorded: bool = PrivateAttr(default=False)

    @property
    def is_recorded(self) -> bool:
        """Return whether a command found the job in a workspace, which may be a stranger's: it opens no input of it."""
        return self._recorded

    def as_recorded(self) -> Self:
        """Return the job as one that was found in a workspace."""
        job = self.model_copy()
        job._recorded = True
        return job


def check_figures(job: Job, rows: Collection[str], columns: Collection[str]) -> list[str]:
    """Refuse figures of a paper that would stand beside nothing in the report of a job, and return no lines.

    Parameters
    ----------
    job : Job
        The job, with its `[paper.NAME]`.
    rows, columns : collections of str
        What the report calls its own rows and measures.

    Raises
    ------
    JobError
        A row or a column has another name; the message has the nearest.
    """
    for name, table in job.paper.items():
        parts = (("rows", table.rows, rows), ("columns", table.columns, columns)) if table.rows else ()
        for part, given, known in parts:
            if unknown := next((one for one in given if one not in known), None):
                advice = did_you_mean(unknown, known, otherwise=f"it has {', '.join(known) or 'none'}")
                raise JobError(
                    f"paper.{name}.{part}: the report has no {part[:-1]} {unknown!r}; {advice} "
                    f"(--set paper.{name}.rows={{}} leaves the figures out)"
                )
    return []


def data_folder() -> Path:
    """Return the folder of data that jobs name as `{data}`: $DISTEMBED_DATA, else one in the user's cache."""
    return Path(os.environ.get("DISTEMBED_DATA") or user_cache() / "distembed").expanduser().absolute()


def locate(path: str, folder: Path) -> str:
    """Return where an input is: `{package}/file` in a package, a URL as it is, else in `folder`.

    `{data}/file` is in the folder of data.

    A package is looked up and not imported, so it is one of the top level: to find another, Python would load
    those that hold it.

    Raises
    ------
    JobError
        The package is not installed, or is not one of the top level.
    """
    if path.startswith("{data}/"):
        return str(data_folder() / path.removeprefix("{data}/"))
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
    path = os.path.expanduser(path)  # noqa: PTH111 - of a path that may be a URL
    if "://" in path or Path(path).is_absolute():
        return path
    return os.path.normpath(folder / path)
