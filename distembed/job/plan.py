"""The resources that a job will need, before it runs: tasks, bytes and memory per task, for each stage.

The plan of a stage (`StageSpec.plan`) is the `Cost` of its algorithm for the sizes of its system (`System.sizes`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import ValidationError

from distembed.costs import TASK_NETWORK_BYTES, WORKER_BYTES, Cost
from distembed.display import format_bytes, format_size, plural
from distembed.job.model import Job
from distembed.job.terminal import shown

MIB = 2**20


class Remedy(NamedTuple):
    """An option of a job by its dotted key, and the value to set it to."""

    key: str
    value: int

    @property
    def setting(self) -> str:
        """The line to write into the job file, with the section before the key."""
        is_bytes = self.key.endswith(("_bytes", "_memory", "_limit"))
        return f'{self.key} = "{format_size(self.value)}"' if is_bytes else f"{self.key} = {self.value}"


def _halves(value: int | None) -> Iterator[int]:
    """Yield whole MiB below a number of bytes, each about half of the one before."""
    n = (value or 0) // MIB
    while n > 1:
        n = -(-n // 2) if n > 2 else 1
        yield n * MIB


def _doubles(value: int | None) -> Iterator[int]:
    """Yield numbers of bytes up to 64 GiB, each twice the one before."""
    n = value or MIB
    while (n := 2 * n) <= 2**36:
        yield n


def _fewer(value: int | None) -> Iterator[int]:
    """Yield round numbers below a number, or below a million where none is set, down to 100."""
    for n in (10**power * digit for power in range(6, 1, -1) for digit in (5, 2, 1)):
        if n < (value or 10**6):
            yield n


def _more(value: int | None) -> Iterator[int]:
    """Yield round numbers above a number, up to 1,000."""
    for n in (10**power * digit for power in range(4) for digit in (1, 2, 5)):
        if (value or 1) < n <= 1000:
            yield n


Series = Callable[[int | None], Iterator[int]]

LESS_MEMORY: tuple[tuple[str, Series], ...] = (
    ("resources.block_memory", _halves),
    ("corpus.partition_bytes", _halves),
    ("vocabulary.min_documents", _more),
    ("vocabulary.min_count", _more),
    ("vocabulary.max_size", _fewer),
    ("psdvec.n_core", _fewer),
    ("resources.workers", lambda _: iter((1,))),
)
"""Options that may lower the peak of a task, those that change no result first, with the values to try in turn."""

FEWER_TASKS: tuple[tuple[str, Series], ...] = (
    ("resources.block_memory", _doubles),
    ("corpus.partition_bytes", _doubles),
)
"""Options that may lower the number of tasks."""


def changed(job: Job, remedy: Remedy) -> Job | None:
    """Return a job with one option set, None where the job has no such option, or not that value."""
    section, _, key = remedy.key.partition(".")
    if key not in getattr(type(getattr(job, section, None)), "model_fields", ()):
        return None
    settings = job.model_dump()
    settings[section][key] = remedy.value
    try:
        return type(job).model_validate(settings)
    except ValidationError:
        return None


def find_remedy(
    job: Job, options: tuple[tuple[str, Series], ...], fits: Callable[[Job], bool]
) -> Remedy | None:
    """Return the first option, set to the first of its values, with which a job fits; None where none helps."""
    for key, series in options:
        section, _, name = key.partition(".")
        for value in series(getattr(getattr(job, section, None), name, None)):
            other = changed(job, Remedy(key, value))
            if other is None:
                break
            if fits(other):
                return Remedy(key, value)
    return None


MAX_TASKS = 100_000
"""More tasks than this in a run keep the scheduler busier than the workers (1.4 ms per task).

Of the rounds of a stage one is counted: their number does not say that blocks are small.
"""

COMPILING_BYTES = 200 * 2**20
"""Bytes more that a process takes the first time on a machine, when numba compiles the kernels and LLVM is loaded."""


class Plan(NamedTuple):
    """A whole plan: what is known of the input in a sentence, and the limit the stages are held against.

    Stages that are `done` are not held against it. `again` plans the same job with other settings.
    """

    job: Job
    sizes: str
    stages: Mapping[str, Cost]
    done: frozenset[str] = frozenset()
    again: Callable[[Job], Plan] | None = None

    def table(self) -> str:
        """Return the plan as lines of text."""
        head, n_threads = f"{shown(self.job.job.title)}\n{self.sizes}\n", self.job.resources.n_workers
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
                f"{format_bytes(self.job.resources.memory_limit)}; "
                f"{n_threads} threads of one process: {format_bytes(self.process_bytes(n_threads))}"
                f"\nthe first run on a machine compiles its kernels, and a process then takes up to "
                f"{format_bytes(COMPILING_BYTES)} more"
            )
        )

    def network_table(self, n_workers: int) -> str:
        """Return what goes over the network with so many workers, each on a host of its own, as lines of text."""
        width = max(18, *(len(name) + 1 for name in self.stages))
        rows = [
            f"{'over the network':<{width}}{'from and to the store':>24}{'between the hosts, at least':>30}"
        ]
        for name, stage in self.stages.items():
            between, stored = stage.network_bytes(n_workers), stage.read_bytes + stage.written_bytes
            rows.append(
                f"{name:<{width}}{format_bytes(stored):>24}"
                f"{'not planned' if between is None else format_bytes(between):>30}"
            )
        return "\n".join(
            [
                *rows,
                f"between {n_workers} workers on hosts of their own, the scheduler and the client: "
                f"{format_bytes(TASK_NETWORK_BYTES)} per task, and the arrays that workers send each other",
            ]
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

    def check(self, stages: Collection[str] | None = None) -> None:
        """Refuse a plan of which one of these stages (by default all that are not done) cannot fit.

        Raises
        ------
        MemoryError
            A task of some stage needs more than the memory limit, and the sizes it is planned from are counted.
        ValueError
            The graphs of these stages would together have more than `MAX_TASKS` tasks.
        """
        for name, stage in self._chosen(stages):
            if stage.exact and self._outgrows(stage):
                raise MemoryError(self._too_large(name, stage, stages))
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

    def warnings(self, stages: Collection[str] | None = None) -> tuple[str, ...]:
        """Return what by estimate does not fit of these stages (by default all not done): in memory, and on disk."""
        kept = self._kept_costs(stages)
        large = [one for one in self._chosen(stages) if not one[1].exact and self._outgrows(one[1])]
        sentences = [
            self._all_too_large(large, stages) if large else "",
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
        return stage.peak_bytes(1) + WORKER_BYTES > self.job.resources.memory_limit

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

    def _all_too_large(self, large: list[tuple[str, Cost]], stages: Collection[str] | None) -> str:
        """Return what is wrong with the largest of these stages, and which others are too large, too."""
        largest = max(large, key=lambda one: one[1].peak_bytes(1))
        others = [name for name, _ in large if name != largest[0]]
        rest = f"; too large, too: {', '.join(others)}" if others else ""
        return self._too_large(*largest, stages) + rest

    def _too_large(self, name: str, stage: Cost, stages: Collection[str] | None) -> str:
        def fits(other: Plan) -> bool:
            found = other.stages.get(name)
            return found is not None and not other._outgrows(found) and other._n_tasks(stages) <= MAX_TASKS

        peak, remedy = stage.peak_bytes(1), self._remedy(LESS_MEMORY, fits)
        raised = f'resources.memory_limit = "{-(-(peak + WORKER_BYTES) // MIB)}MiB"'
        return (
            f"a task of stage {name} would need {format_bytes(peak)} beside the {format_bytes(WORKER_BYTES)} of a "
            f"worker, over the limit of {format_bytes(self.job.resources.memory_limit)}: "
            + (f"set {remedy.setting}, or {raised}" if remedy else f"set {raised}; no other option is enough")
        )

    def _too_many(self, stages: Collection[str] | None) -> str:
        def outgrown(plan: Plan) -> set[str]:
            return {name for name, stage in plan._chosen(stages) if plan._outgrows(stage)}

        def fits(other: Plan) -> bool:
            return other._n_tasks(stages) <= MAX_TASKS and outgrown(other) <= outgrown(self)

        chosen, remedy = self._chosen(stages), self._remedy(FEWER_TASKS, fits)
        name, largest = max(chosen, key=lambda item: item[1].tasks_per_graph)
        keys = " and ".join(key for key, _ in FEWER_TASKS if changed(self.job, Remedy(key, MIB)))
        return (
            f"the {plural(len(chosen), 'stage')} to be run would be {self._n_tasks(stages):,} tasks, over "
            f"{MAX_TASKS:,}, of which stage {name} has {largest.tasks_per_graph:,}: "
            + (
                f"set {remedy.setting}"
                if remedy
                else f"no one option is enough, raise {keys}, or give it less input"
            )
        )

    def _remedy(self, options: tuple[tuple[str, Series], ...], fits: Callable[[Plan], bool]) -> Remedy | None:
        """Return the option and its value with which the plan fits, None where none does."""
        again = self.again
        if again is None:
            return None

        def fitting(job: Job) -> bool:
            try:
                return fits(again(job))
            except ValueError:  # such as a vocabulary without a word
                return False

        return find_remedy(self.job, options, fitting)
