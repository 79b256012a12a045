"""The resources that a job will need, before it runs: tasks, bytes and memory per task, for each stage.

The plan of a stage (`StageSpec.plan`) is the `Cost` of its algorithm for the sizes of its system (`System.sizes`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from distembed.costs import WORKER_BYTES, Cost
from distembed.display import format_bytes, plural
from distembed.heaps import MEMORY_SHARE, memory_of_machine, memory_share
from distembed.job.model import Job
from distembed.job.terminal import shown

MIB = 2**20


MAX_TASKS = 100_000
"""More tasks than this in a run keep the scheduler busier than the workers (1.4 ms per task).

Of the rounds of a stage one is counted: their number does not say that blocks are small.
"""

COMPILING_BYTES = 200 * 2**20
"""Bytes more that a process takes the first time on a machine, when numba compiles the kernels and LLVM is loaded."""


class Plan(NamedTuple):
    """A whole plan: what is known of the input in a sentence, and the limit the stages are held against.

    Stages that are `done` are not held against it.
    """

    job: Job
    sizes: str
    stages: Mapping[str, Cost]
    done: frozenset[str] = frozenset()

    def table(self) -> str:
        """Return the plan as lines of text."""
        head, resources = f"{shown(self.job.job.title)}\n{self.sizes}\n", self.job.resources
        n_threads, has = resources.n_workers, memory_of_machine()
        share = (
            f" of at most {format_bytes(memory_share(1))}, {MEMORY_SHARE:.0%} of the {format_bytes(has)} here"
        )
        width = max(14, *(len(name) + 1 for name in self.stages))
        rows = [f"{'stage':<{width}}{'tasks':>8}{'reads':>13}{'writes':>13}{'peak per task':>14}"]
        rows += [
            f"{name:<{width}}{s.tasks:>8,}{format_bytes(s.read_bytes):>13}{format_bytes(s.written_bytes):>13}"
            f"{format_bytes(s.peak_bytes(1)):>14}"
            for name, s in self.stages.items()
        ]
        return (
            head
            + "\n".join([*rows, *self._kept()])
            + (
                f"\neach worker process: {format_bytes(self.process_bytes(1))} of at most "
                f"{format_bytes(resources.process_memory)}; "
                f"{plural(n_threads, 'thread')} of one process: {format_bytes(self.process_bytes(n_threads))}"
                f"{share if resources.memory_limit is None else ''}"
                f"\nthe first run on a machine compiles its kernels, and a process then takes up to "
                f"{format_bytes(COMPILING_BYTES)} more"
            )
        )

    def _kept(self) -> list[str]:
        """Return a sentence for each matrix that the job keeps beside its results."""
        return [
            f"{stage} keeps {name} in the workspace: {format_bytes(size)} on disk"
            for stage, plan in self.stages.items()
            for name, size in plan.keeps
        ]

    def process_bytes(self, n_threads: int) -> int:
        """Return the peak bytes of a process that runs so many tasks at once."""
        return WORKER_BYTES + max(stage.peak_bytes(n_threads) for stage in self.stages.values())

    def worker_bytes(self, name: str) -> int:
        """Return the bytes that a worker process of one thread needs at least for a stage; 0 by estimated sizes."""
        stage = self.stages[name]
        return WORKER_BYTES + stage.task_bytes if stage.exact else 0

    def check(self, stages: Collection[str] | None = None, *, memory: bool = True) -> None:
        """Refuse a plan of which one of these stages (by default all that are not done) cannot fit.

        Without `memory` only the tasks and the disk are judged, as for a cluster, whose workers have their own limits.

        Raises
        ------
        MemoryError
            A task of some stage needs more than the memory limit, and the sizes it is planned from are counted.
        ValueError
            The graphs of these stages would together have more than `MAX_TASKS` tasks.
        """
        for name, stage in self._chosen(stages):
            if memory and stage.exact and self._outgrows(stage):
                raise MemoryError(self._too_large(name, stage))
        if self._n_tasks(stages) > MAX_TASKS:
            raise ValueError(self._too_many(stages))
        self.check_disk(stages)

    def check_disk(self, stages: Collection[str] | None = None) -> None:
        """Refuse matrices that these stages (by default all that are not done) keep, if they exceed `matrices.disk`.

        Raises
        ------
        ValueError
            They take more, and the sizes they are planned from are counted.
        """
        kept = self._kept_costs(stages)
        if all(stage.exact for stage in kept) and (sentence := self._too_much_kept(kept)):
            raise ValueError(sentence)

    def warnings(self, stages: Collection[str] | None = None, *, memory: bool = True) -> tuple[str, ...]:
        """Return what by estimate does not fit of these stages (by default all not done): in memory, and on disk."""
        kept = self._kept_costs(stages)
        large = [
            one for one in self._chosen(stages) if memory and not one[1].exact and self._outgrows(one[1])
        ]
        sentences = [
            self._all_too_large(large) if large else "",
            "" if all(stage.exact for stage in kept) else self._too_much_kept(kept),
        ]
        return tuple(
            f"{sentence} (an estimate; the stage is refused only if counted sizes say the same)"
            for sentence in filter(None, sentences)
        )

    def _chosen(self, stages: Collection[str] | None) -> list[tuple[str, Cost]]:
        return [
            (name, stage)
            for name, stage in self.stages.items()
            if name not in self.done and (stages is None or name in stages)
        ]

    def _outgrows(self, stage: Cost) -> bool:
        """Return whether a task needs more than the job allows; without a limit, the threads more than the machine."""
        resources = self.job.resources
        if resources.memory_limit is None:
            return stage.peak_bytes(resources.n_workers) + WORKER_BYTES > memory_share(1)
        return stage.peak_bytes(1) + WORKER_BYTES > resources.memory_limit

    def _kept_costs(self, stages: Collection[str] | None) -> list[Cost]:
        """Return the costs of those of these stages whose matrices `matrices.keep` asks for, by the same names."""
        asked = getattr(getattr(self.job, "matrices", None), "keep", ())
        return [stage for name, stage in self._chosen(stages) if name in asked]

    def _too_much_kept(self, stages: Sequence[Cost]) -> str:
        """Return what is wrong with the matrices that these stages keep, "" where they fit `matrices.disk`."""
        matrices = [matrix for stage in stages for matrix in stage.keeps]
        kept, names = sum(size for _, size in matrices), " and ".join(name for name, _ in matrices)
        limit = getattr(getattr(self.job, "matrices", None), "disk", kept)
        if kept <= limit:
            return ""
        return (
            f"the workspace would keep {names}, {format_bytes(kept)} on disk, over the limit of {format_bytes(limit)}: "
            f'set matrices.disk = "{-(-kept // MIB)}MiB", or leave it out of matrices.keep'
        )

    def _n_tasks(self, stages: Collection[str] | None) -> int:
        return sum(stage.tasks_per_graph for _, stage in self._chosen(stages))

    def _all_too_large(self, large: list[tuple[str, Cost]]) -> str:
        """Return what is wrong with the largest of these stages, and which others are too large, too."""
        largest = max(large, key=lambda one: one[1].peak_bytes(1))
        others = [name for name, _ in large if name != largest[0]]
        rest = f"; too large, too: {', '.join(others)}" if others else ""
        return self._too_large(*largest) + rest

    def _too_large(self, name: str, stage: Cost) -> str:
        resources, n_threads = self.job.resources, 1
        limit = format_bytes(resources.process_memory)
        other = f'resources.memory_limit = "{-(-(stage.peak_bytes(1) + WORKER_BYTES) // MIB)}MiB"'
        if resources.memory_limit is None:
            n_threads = resources.n_workers
            limit = f"{format_bytes(memory_share(1))}, {MEMORY_SHARE:.0%} of the memory here"
            fitting = (
                n for n in range(1, n_threads) if stage.peak_bytes(n) + WORKER_BYTES <= memory_share(1)
            )
            other = f"resources.workers = {n}" if (n := max(fitting, default=0)) else other
        what = "a task" if n_threads == 1 else f"{n_threads} tasks at once"
        return (
            f"{what} of stage {name} would need {format_bytes(stage.peak_bytes(n_threads))} beside the "
            f"{format_bytes(WORKER_BYTES)} of a worker, over the limit of {limit}: lower resources.block_memory (it is "
            f"{format_bytes(resources.block_memory)}), or set {other}"
        )

    def _too_many(self, stages: Collection[str] | None) -> str:
        chosen = self._chosen(stages)
        name, largest = max(chosen, key=lambda item: item[1].tasks_per_graph)
        keys = [
            "resources.block_memory",
            *(["corpus.partition_bytes"] if hasattr(self.job, "corpus") else []),
        ]
        return (
            f"the {plural(len(chosen), 'stage')} to be run would be {self._n_tasks(stages):,} tasks, over "
            f"{MAX_TASKS:,}, of which stage {name} has {largest.tasks_per_graph:,}: raise {' or '.join(keys)}, or give "
            "it less input"
        )
