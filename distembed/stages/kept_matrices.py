"""The matrices that a job keeps beside its results: `[matrices]` names them, and each is a stage of its name.

A system declares which it can keep in a section of its own, and its stages by `kept_stages`. The distances between rows
are the same stage in every system, of the rows that another stage stores (`KeptRows`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from dask.utils import parse_bytes

from distembed.job.model import Bytes, Section
from distembed.job.outputs import ArrayOutput
from distembed.job.stage import Context, StageSpec
from distembed.neighbors import blocks
from distembed.neighbors.distances import Metric, distance_chunk, distance_rows
from distembed.plan import Dimensions, StagePlan, stage_plan, task

DISTANCES = ArrayOutput("distances", "Distance between {rows}, {metric}.", dims=("row", "other"))


class MatricesSection(Section):
    """`[matrices]`: the matrices that the workspace keeps beside the results, each as a stage of its name."""

    keep: tuple[str, ...] = ()
    """The matrices that are kept."""
    disk: Bytes = parse_bytes("10GiB")
    """The disk that they may take together; a job whose matrices take more is refused."""


class WordMatricesSection(MatricesSection):
    """`[matrices]` of words: their distances are measured by either metric."""

    metric: Metric = "cosine"
    """What makes two words far: a large angle, or a large distance."""


def kept_stages(job: Any, *specs: StageSpec) -> tuple[StageSpec, ...]:
    """Return those of the stages that the job asks for; a stage has the name of its matrix."""
    return tuple(spec for spec in specs if spec.name in job.matrices.keep)


class KeptRows(NamedTuple):
    """The rows of a system whose distances are kept.

    Attributes
    ----------
    array : ArrayOutput
        The rows, dense.
    stage : str
        The stage that stores them.
    rows : str
        What two of them are: "two words".
    metric : callable
        Takes the job, and returns what is measured.
    row : str
        Their dimension.
    width : callable
        Takes the job and its dimensions, and returns the columns of the rows.
    """

    array: ArrayOutput
    stage: str
    rows: str
    metric: Callable[[Any], Metric]
    row: str
    width: Callable[[Any, Dimensions], int]

    @property
    def output(self) -> ArrayOutput:
        """The distances."""
        return replace(DISTANCES, meaning=DISTANCES.meaning.replace("{rows}", self.rows))

    def parameters(self, job: Any) -> dict[str, Any]:
        """Return what is measured, and the memory of a block, which lays the grid."""
        return {"metric": self.metric(job), "block_memory": job.resources.block_memory}

    @property
    def stage_spec(self) -> StageSpec:
        """The stage that keeps the distances."""
        return StageSpec(DISTANCES.name, (self.stage,), self.parameters, self.run, self.plan)

    def plan(self, job: Any, dims: Dimensions) -> StagePlan:
        """Return the plan of the distances: each task has all rows, which are held in blocks, joined, and as floats."""
        width, chunk = self.width(job, dims), distance_chunk(dims.size(self.row), job.resources.block_memory)
        return stage_plan(
            task(
                blocks.distance_rows, dims.whole(chunk, width, itemsize=8), output=dims.whole(chunk, self.row)
            ),
            whole=[dims.whole(3, self.row, width, itemsize=8)],
            stored=dims.whole(self.row, self.row),
            n_tasks=-(-dims.size(self.row) // chunk),
        )

    def run(self, ctx: Context) -> dict[str, Any]:
        """Store the distances between all rows, a block of rows in each task."""
        metric = self.metric(ctx.job)
        ctx.store(self.output.of(metric=metric), distance_rows(self.array.read(ctx.workspace), metric=metric))
        return {}


def metric_of_words(job: Any) -> Metric:
    """Return what `[matrices]` of a job of words measures."""
    metric: Metric = job.matrices.metric
    return metric
