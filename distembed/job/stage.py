"""Systems, stages, and the context in which a stage runs.

A stage is a function of a `Context`. It opens its inputs from the workspace, passes them to the estimators,
and lets the `Stage` of the workspace write every block; a stage that is run again computes only the blocks
that are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

import dask.array as da
import pyarrow as pa

from distembed.dtypes import Float64s
from distembed.execution import compute
from distembed.job.model import Job
from distembed.job.outputs import ArrayOutput, FileOutput, FilesOutput, Output, TableOutput
from distembed.job.progress import Reporter
from distembed.job.registry import SYSTEMS
from distembed.job.tables import MakeTable
from distembed.plan import Dimensions, StagePlan, stage_plan
from distembed.storage.records import StageManifest
from distembed.storage.stage import FileItem, MakeFiles, Stage
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors
from distembed.vectors.subwords import SubwordTable


class Context(NamedTuple):
    """The context in which a stage runs; `job` is the `Job` of its own system."""

    job: Any
    workspace: Workspace
    stage: Stage
    reporter: Reporter

    def store(self, output: ArrayOutput, array: da.Array, *, constant: float = 0.0) -> da.Array:
        """Store an array as `Stage.store` does, and return it opened."""
        return self.stage.store(
            output.name,
            array,
            dims=output.dims,
            units=output.units,
            meaning=output.meaning,
            temporary=output.temporary,
            constant=constant,
        )

    def store_table(self, output: TableOutput, table: pa.Table) -> None:
        """Store a table as `Stage.store_table` does."""
        self.stage.store_table(output.name, table)

    def store_files(
        self, output: FilesOutput, n: int, make: MakeFiles, *, keys: Sequence[str] = ()
    ) -> list[FileItem]:
        """Store the files that so many tasks make, as `Stage.store_files` does."""
        return self.stage.store_files(output.name, n, make, keys=keys, temporary=output.temporary)


REPORT_STAGE, EXPLORER_STAGE = "report", "explorer"
"""The stages that draw pages; a run draws the report, and `distembed explore` the other one."""
REPORT = FileOutput("report/index.html", "The report.")
SUMMARY = FileOutput("report/summary", "The last lines of a run; {workspace} is the place of the workspace.")
EXPLORER = FileOutput("report/explore.html", "The page to explore.")
REPORT_BYTES = 256 << 20
"""What the figures and tables of a report take, beside the libraries."""


def nothing_to_check(_job: Any, **_of: Any) -> list[str]:
    """Return that a stage reads nothing from outside that could be wrong."""
    return []


class StageSpec(NamedTuple):
    """A stage: its name, the stages it reads, the parameters that decide its content, what runs it and its plan.

    Where the parameters hold an `InputPath` of the job, the stage reads what lies there: the runner stamps it and puts
    the stamps among the parameters. `plan` takes the job and its dimensions. `check` opens what the stage reads from
    outside and returns what it found, in sentences, or raises an error; it is called before the first stage of a run,
    and by `plan`. A stage that `counts` only reads and counts what others are planned by.
    """

    name: str
    inputs: tuple[str, ...]
    parameters: Callable[..., dict[str, Any]]
    run: Callable[..., dict[str, Any]]
    plan: Callable[..., StagePlan]
    check: Callable[..., list[str]] = nothing_to_check
    counts: bool = False

    def of(self, **which: Any) -> StageSpec:
        """Return the stage with functions that are told of which table, space or collection it is."""
        parameters, run = partial(self.parameters, **which), partial(self.run, **which)
        plan, check = partial(self.plan, **which), partial(self.check, **which)
        return self._replace(parameters=parameters, run=run, plan=plan, check=check)


class Counted(NamedTuple):
    """A workspace and those of its committed stages that are as a job asks for them: what they know is no estimate."""

    workspace: Workspace
    stages: Mapping[str, StageManifest]


class OwnItems(NamedTuple):
    """By what a job judges itself: the stage that candidates share, the one that judges, the measure, and a module.

    The module's `judged_items` returns the score of each item of a finished workspace, by its name.
    """

    shared: str
    last: str
    measure: str
    module: str


class System(NamedTuple):
    """A system: the model of its job file, the stages of a job in order, its dimensions, and its exports.

    `dimensions` takes a job and what its workspace has counted, if there is one. `report` names the
    module of the report, imported when a run ends; `exports` names that of the tables that `distembed export`
    writes, whose `TABLES` are functions of a job and its workspace by name, the main one first.
    `explorer` names the module whose `items` are what the page to explore shows, None where there is none.
    `inference` names the module whose `infer` writes what a job says of files that it has not seen.
    `explanation` names the module whose `explain` gives the reasons of one result.
    `own_items` say by what `distembed tune` judges a job without an evaluation set.
    `outputs` are what its stages may store.
    `report_bytes` takes a job and its dimensions, and returns what its report holds beside `REPORT_BYTES`.
    `presets` are sections of settings that belong together, by name; a new job has those of the first.
    """

    job: type[Job]
    stages: Callable[[Any], tuple[StageSpec, ...]]
    dimensions: Callable[[Any, Counted | None], Dimensions]
    report: str
    exports: str = "distembed.job.tables"
    inference: str | None = None
    explorer: str | None = "distembed.views.explorer.job"
    explanation: str | None = None
    own_items: OwnItems | None = None
    outputs: tuple[Output, ...] = ()
    presets: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    report_bytes: Callable[[Any, Dimensions], int] = lambda _job, _dims: 0

    def page(self, job: Job, workspace: Workspace) -> Any:
        """Return the report of a workspace whose other stages are done, a `Page` of `distembed.views.report.page`."""
        return import_module(self.report).page(job, workspace)

    def tables(self) -> dict[str, MakeTable]:
        """Return the functions that make each table of a finished workspace, the main one first."""
        tables: dict[str, MakeTable] = import_module(self.exports).TABLES
        return tables


def system_named(name: str) -> System:
    """Return the system of a name, importing its module."""
    system: System = import_module(SYSTEMS[name]).SYSTEM
    return system


def system_of(job: Job) -> System:
    """Return the system that a job asks for."""
    return system_named(job.job.system)


def stages_of(job: Job) -> tuple[StageSpec, ...]:
    """Return the stages of a job in order: those of its system, and last the one that draws the report."""
    own = system_of(job).stages(job)

    def parameters(job: Job) -> dict[str, Any]:
        return {"title": job.job.title, **job.model_dump(mode="json", include={"paper", "report"})}

    def draw(ctx: Context) -> dict[str, Any]:
        ctx.reporter.note("report: drawing the figures and tables")
        page = system_of(ctx.job).page(ctx.job, ctx.workspace)
        ctx.stage.store_bytes(REPORT.name, page.html().encode(), is_page=True)
        ctx.stage.store_bytes(SUMMARY.name, page.closing.encode())
        return {}

    def plan(job: Job, dims: Dimensions) -> StagePlan:
        held = system_of(job).report_bytes(job, dims)
        return stage_plan(whole=[REPORT_BYTES, held])._replace(exact=False)

    return (*own, StageSpec(REPORT_STAGE, tuple(spec.name for spec in own), parameters, draw, plan))


def sections(*names: str, grid: bool = False, **chosen: set[str]) -> Callable[..., dict[str, Any]]:
    """Return a function that takes sections of a job as parameters of a stage: those named, and options of others.

    With `grid` the memory of a block is one, which lays the grid and tells what is whole.
    """

    def parameters(job: Any, **_of: Any) -> dict[str, Any]:
        options = dict.fromkeys(names) | chosen
        found = {
            name: getattr(job, name).model_dump(mode="json", include=some) for name, some in options.items()
        }
        return found | ({"block_memory": job.resources.block_memory} if grid else {})

    return parameters


def read_vectors(workspace: Workspace, *, max_words: int | None = None) -> WordVectors:
    """Return the first word vectors of a finished workspace, with the vectors of n-grams that they were made with.

    Raises
    ------
    LockedError
        If a run replaces them meanwhile.
    """
    with workspace.of_one_run():
        words = workspace.table("vocabulary")["word"][:max_words].to_pylist()
        vectors = compute(workspace.array("vectors")[:max_words])
        return WordVectors(words, vectors, subwords=table_of_vectors(workspace))


def names_in_table(workspace: Workspace) -> dict[str, str]:
    """Return the word of each name that a table spells otherwise than the vectors; nothing without a table."""
    if "name" not in workspace.schema("vocabulary").names:
        return {}
    both = workspace.table("vocabulary").select(["name", "word"]).to_pydict()
    pairs = zip(both["name"], both["word"], strict=True)
    return {name: word for name, word in pairs if name and name != word}


def vectors_at(path: str, *, max_words: int | None = None) -> WordVectors:
    """Return the first word vectors of a workspace, or of a file in any format.

    Raises
    ------
    ValueError
        As `read_vectors`, or if the file is damaged.
    """
    if Workspace.exists(path):
        return read_vectors(Workspace.open(path), max_words=max_words)
    return WordVectors.load(path, max_words=max_words)


SUBWORDS = "subwords"
"""The stage that learns them, and the section of the job file with its options."""
WEIGHT = "subword_weight"
"""The parameter of the stage of the vectors that says with what weight the n-grams were added to them."""

SUBWORD_VECTORS = ArrayOutput(
    "subword_vectors",
    "Vectors of character n-grams, a component per row; column j is row j of ngrams.parquet.",
    dims=("component", "ngram"),
)
SUBWORD_MEAN = ArrayOutput(
    "subword_mean", "The vector of a word of which no n-gram is known.", dims=("component",)
)
REMOVED_MEAN = ArrayOutput(
    "removed_mean", "The mean that was subtracted from the vectors.", dims=("component",), dtype="float64"
)
REMOVED_AXES = ArrayOutput(
    "removed_axes",
    "The principal axes, one per column, that were removed from the vectors after their mean.",
    dims=("component", "axis"),
    dtype="float64",
)
NGRAMS = TableOutput(
    "ngrams",
    "The n-grams, and how many words hold each.",
    columns=("ngram", "n_words"),
)


def read_subwords(workspace: Workspace) -> SubwordTable:
    """Return the vectors of n-grams that a workspace holds, in memory.

    Raises
    ------
    KeyError
        If the workspace has no such stage.
    """
    options = workspace.stages()[SUBWORDS].parameters[SUBWORDS]
    rows = NGRAMS.read(workspace)
    return SubwordTable(
        compute(SUBWORD_VECTORS.read(workspace)).T,
        compute(SUBWORD_MEAN.read(workspace)),
        min_n=options["min_n"],
        max_n=options["max_n"],
        ngrams=rows["ngram"].to_pylist(),
    )


def table_of_vectors(workspace: Workspace) -> SubwordTable | None:
    """Return the n-grams that the stored vectors were made with, None if with none; they compose in the same space."""
    done = workspace.stages()
    if not (SUBWORDS in done and "vectors" in done and SUBWORDS in done["vectors"].inputs):
        return None
    table = read_subwords(workspace)
    table = table.centered() if done["vectors"].parameters[WEIGHT] else table
    return table.projected(*removed) if (removed := removed_directions(workspace)) else table


def removed_directions(workspace: Workspace) -> tuple[Float64s, Float64s] | None:
    """Return the mean and the axes that a job removed from its vectors as its last step, None where it removed none."""
    if REMOVED_AXES.name not in workspace.stages()["vectors"].outputs:
        return None
    return compute(REMOVED_MEAN.read(workspace)), compute(REMOVED_AXES.read(workspace))
