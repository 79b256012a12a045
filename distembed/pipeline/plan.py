"""What a job will take, before anything runs: tasks, bytes and the memory of a task, stage by stage.

Each stage carries its own plan (`StageSpec.plan`), made from the sizes of its system (`System.sizes`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from dask.utils import format_bytes

from distembed.pipeline.sections import Job
from distembed.pipeline.terminal import shown

MAX_TASKS = 100_000
"""More tasks than this in one graph keep the scheduler busier than the workers (1.4 ms a task)."""

WORKER_BYTES = 500 * 2**20
"""Resident bytes of a process that has loaded the package and run a stage: the libraries and what malloc keeps."""

SCRATCH_FACTOR = 8.0
"""Peak bytes of a task over those of its block, measured: counts, their transpose, both merged, what is written."""


class StagePlan(NamedTuple):
    """One line of a plan: bytes read and written in all, the peak bytes of one task, and those that all tasks share.

    `tasks` are those of all `graphs` that the stage computes one after the other. The memory of a stage that is not
    `exact` was made from estimated sizes: too much of it is a warning, and no reason to refuse the job.
    """

    tasks: int
    read_bytes: int
    written_bytes: int
    task_bytes: int
    shared_bytes: int = 0
    graphs: int = 1
    exact: bool = True

    def peak_bytes(self, n_threads: int) -> int:
        """Return the peak bytes of so many threads, or of as many as have a task."""
        return self.shared_bytes + min(n_threads, self.tasks) * self.task_bytes


class Plan(NamedTuple):
    """A whole plan: what is known of the input in a sentence, and the limit the stages are held against."""

    job: Job
    sizes: str
    stages: Mapping[str, StagePlan]

    def table(self) -> str:
        """Return the plan as lines of text."""
        head, n_threads = f"{shown(self.job.job.title)}\n{self.sizes}\n", self.job.resources.n_workers
        width = max(14, *(len(name) + 1 for name in self.stages))
        rows = [f"{'stage':<{width}}{'tasks':>8}{'reads':>13}{'writes':>13}{'peak a task':>14}"]
        rows += [
            f"{name:<{width}}{s.tasks:>8,}{format_bytes(s.read_bytes):>13}{format_bytes(s.written_bytes):>13}"
            f"{format_bytes(s.peak_bytes(1)):>14}"
            for name, s in self.stages.items()
        ]
        return (
            head
            + "\n".join(rows)
            + (
                f"\neach worker process: {format_bytes(self.process_bytes(1))} of at most "
                f"{format_bytes(self.job.resources.memory_limit)}; "
                f"{n_threads} threads of one process: {format_bytes(self.process_bytes(n_threads))}"
            )
        )

    def process_bytes(self, n_threads: int) -> int:
        """Return the peak bytes of a process that runs so many tasks at once."""
        return WORKER_BYTES + max(stage.peak_bytes(n_threads) for stage in self.stages.values())

    def check(self, stages: Collection[str] | None = None) -> None:
        """Refuse a plan of which one of these stages (all by default) cannot fit.

        Raises
        ------
        MemoryError
            A task of some stage needs more than the memory limit, and the sizes it is planned from are counted.
        ValueError
            A graph of some stage would have more than `MAX_TASKS` tasks.
        """
        for name, stage in self._chosen(stages):
            if stage.exact and self._outgrows(stage):
                raise MemoryError(self._too_large(name, stage))
            tasks = -(-stage.tasks // stage.graphs)
            if tasks > MAX_TASKS:
                raise ValueError(
                    f"stage {name} would be {tasks:,} tasks, over {MAX_TASKS:,}: "
                    "raise resources.block_memory (or corpus.partition_bytes)"
                )

    def warnings(self, stages: Collection[str] | None = None) -> tuple[str, ...]:
        """Return a sentence for each of these stages (all by default) that may not fit, by estimate."""
        return tuple(
            f"{self._too_large(name, stage)} (an estimate; the stage is refused only if counted sizes say the same)"
            for name, stage in self._chosen(stages)
            if not stage.exact and self._outgrows(stage)
        )

    def _chosen(self, stages: Collection[str] | None) -> list[tuple[str, StagePlan]]:
        return [(name, stage) for name, stage in self.stages.items() if stages is None or name in stages]

    def _outgrows(self, stage: StagePlan) -> bool:
        return stage.peak_bytes(1) + WORKER_BYTES > self.job.resources.memory_limit

    def _too_large(self, name: str, stage: StagePlan) -> str:
        return (
            f"a task of stage {name} would need {format_bytes(stage.peak_bytes(1))} beside the "
            f"{format_bytes(WORKER_BYTES)} of a worker, over the limit of "
            f"{format_bytes(self.job.resources.memory_limit)}: "
            "lower resources.block_memory or raise resources.memory_limit"
        )
