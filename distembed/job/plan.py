"""The plan of a job: what is left to do, what each stage takes, how many workers have room, and what is refused.

`distembed.plan` has what a stage declares; this module compares it with the limits of a job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from distembed.display import format_bytes, plural
from distembed.files import failures_told
from distembed.heaps import MEMORY_SHARE, memory_of_machine, memory_share
from distembed.job.model import Job, JobError
from distembed.job.opening import JOB_FILE, workspace_of
from distembed.job.stage import Counted, stages_of, system_of
from distembed.job.state import StageState, stage_states, with_damage
from distembed.job.status import FORMAT
from distembed.job.terminal import shown
from distembed.plan import RESERVED_BYTES, StagePlan
from distembed.storage.catalog import check_place
from distembed.storage.records import StageManifest
from distembed.storage.workspace import Workspace

MIB = 2**20

MAX_TASKS = 100_000
"""More tasks than this in a run keep the scheduler busier than the workers (1.4 ms per task).

Of the rounds of a stage one is counted: their number does not say that blocks are small.
"""

COMPILING_BYTES = 200 * 2**20
"""Bytes more that a process takes the first time on a machine, when numba compiles the kernels and LLVM is loaded."""


class Plan(NamedTuple):
    """A whole plan: what is known of the input in a sentence, and what each stage takes.

    Stages that are `done` are not held against the limits. With `processes` each worker is a process of its own and has
    its share of the memory; else all are threads of one.
    """

    job: Job
    sizes: str
    stages: Mapping[str, StagePlan]
    done: frozenset[str] = frozenset()
    processes: bool = False

    @property
    def limit(self) -> int:
        """The bytes that a process may use: the limit of the job, or a share of the machine's memory."""
        resources = self.job.resources
        return resources.memory_limit or memory_share(resources.n_workers if self.processes else 1)

    def n_workers(self, name: str) -> int:
        """Return how many of the job's workers have room for a stage; 0 where not even one has."""
        stage, most = self.stages[name], self.job.resources.n_workers
        if self.processes:
            shares = ((n, self.job.resources.memory_limit or memory_share(n)) for n in range(most, 0, -1))
            return next((n for n, share in shares if stage.process_bytes(1) <= share), 0)
        return next((n for n in range(most, 0, -1) if stage.process_bytes(n) <= self.limit), 0)

    def states_fit(self, name: str) -> bool:
        """Return whether there is room in memory for the states of a stage beside its tasks."""
        stage, n_workers = self.stages[name], 1 if self.processes else max(1, self.n_workers(name))
        return stage.process_bytes(n_workers) + stage.states_bytes <= self.limit

    def planned_bytes(self, name: str) -> int:
        """Return the peak bytes of a process that a stage is planned to take."""
        stage, n_workers = self.stages[name], 1 if self.processes else max(1, self.n_workers(name))
        return stage.process_bytes(n_workers) + self.states_fit(name) * stage.states_bytes

    def table(self) -> str:
        """Return the plan as lines of text."""
        resources, has = self.job.resources, memory_of_machine()
        width = max(14, *(len(name) + 1 for name in self.stages))
        lines = {"stage": ["stores", "largest task", "held whole", "workers"]}
        for name, stage in self.stages.items():
            sizes = (stage.stored_bytes, stage.task_bytes, stage.whole_bytes)
            lines[name] = [*map(format_bytes, sizes), str(self.n_workers(name) or "none")]
        rows = (
            f"{name:<{width}}" + "".join(f"{cell:>14}" for cell in cells) for name, cells in lines.items()
        )
        largest = max((self.planned_bytes(name) for name in self.stages), default=RESERVED_BYTES)
        share = "" if resources.memory_limit else f", {MEMORY_SHARE:.0%} of the {format_bytes(has)} here"
        return "\n".join(
            [
                shown(self.job.job.title),
                self.sizes,
                *rows,
                f"the process takes up to {format_bytes(largest)}, {format_bytes(RESERVED_BYTES)} of it for the "
                f"libraries, of at most {format_bytes(self.limit)}{share}; where the tasks of "
                f"{plural(resources.n_workers, 'worker')} have no room, fewer run at once",
                f"the first run on a machine compiles its kernels, and a process then takes up to "
                f"{format_bytes(COMPILING_BYTES)} more",
            ]
        )

    def record(self, states: Sequence[StageState], notes: Sequence[str]) -> dict[str, Any]:
        """Return what the table says, and the sentences below it, for programs."""
        stages = [
            {
                "stage": name,
                "done": name in self.done,
                "stored_bytes": stage.stored_bytes,
                "task_bytes": stage.task_bytes,
                "whole_bytes": stage.whole_bytes,
                "process_bytes": self.planned_bytes(name),
                "workers": self.n_workers(name),
                "exact": stage.exact,
            }
            for name, stage in self.stages.items()
        ]
        return {
            "format": FORMAT,
            "title": self.job.job.title,
            "system": self.job.job.system,
            "workspace": self.job.job.workspace,
            "nothing_left": all(state.is_complete for state in states),
            "input": self.sizes,
            "stages": stages,
            "workers": self.job.resources.n_workers,
            "memory_limit": self.limit,
            "notes": list(notes),
            "warnings": list(self.warnings()),
        }

    def check(self, stages: Collection[str] | None = None, *, memory: bool = True) -> None:
        """Refuse a plan of which one of these stages (by default all that are not done) cannot fit.

        Without `memory` only the tasks and the disk are judged, as for a cluster, whose workers have their own limits.

        Raises
        ------
        MemoryError
            One task of some stage needs more than the memory limit, and the sizes it is planned from are counted.
        JobError
            The graphs of these stages would together have more than `MAX_TASKS` tasks, or the matrices that they keep
            more than `matrices.disk`.
        """
        for is_exact, error in self._faults(stages, memory=memory):
            if is_exact:
                raise error

    def warnings(self, stages: Collection[str] | None = None, *, memory: bool = True) -> list[str]:
        """Return what by bounds may not fit of these stages (by default all not done): in memory, and on disk."""
        return [
            f"{error} (a bound from a sample; the stage is refused only if counted sizes say the same)"
            for is_exact, error in self._faults(stages, memory=memory)
            if not is_exact
        ]

    def _faults(self, stages: Collection[str] | None, *, memory: bool) -> Iterator[tuple[bool, Exception]]:
        """Yield an error for what does not fit of these stages, and whether that is certain."""
        plans = {
            name: stage
            for name, stage in self.stages.items()
            if name not in self.done and (stages is None or name in stages)
        }
        resources = self.job.resources
        for exact in (True, False) if memory else ():
            large = [
                name for name, stage in plans.items() if stage.exact == exact and not self.n_workers(name)
            ]
            if not large:
                continue
            name = max(large, key=lambda each: plans[each].process_bytes(1))
            stage, others = plans[name], [each for each in large if each != name]
            held = f" and {format_bytes(stage.whole_bytes)} held whole" if stage.whole_bytes else ""
            share = "" if resources.memory_limit else f", {MEMORY_SHARE:.0%} of the memory here"
            sentence = (
                f"a task of stage {name} would need {format_bytes(stage.task_bytes)}{held} beside the "
                f"{format_bytes(RESERVED_BYTES)} of the libraries, over the limit of {format_bytes(self.limit)}{share}:"
                f" lower resources.block_memory (it is {format_bytes(resources.block_memory)}), or set "
                f'resources.memory_limit = "{-(-stage.process_bytes(1) // MIB)}MiB"'
                + (f"; too large, too: {', '.join(others)}" if others else "")
            )
            yield exact, MemoryError(sentence)
        if (n_tasks := sum(stage.tasks for stage in plans.values())) > MAX_TASKS:
            name = max(plans, key=lambda each: plans[each].tasks)
            of_them = f"of which stage {name} has {plans[name].tasks:,}"
            more = " or corpus.partition_bytes" if hasattr(self.job, "corpus") else ""
            sentence = (
                f"the {plural(len(plans), 'stage')} to be run would be about {n_tasks:,} tasks, over {MAX_TASKS:,}, "
                f"{of_them}: raise resources.block_memory{more}, or give it less input"
            )
            yield True, JobError(sentence)
        # Matrices that `matrices.keep` asks for are stages of the same names.
        matrices = getattr(self.job, "matrices", None)
        kept = [name for name in plans if name in getattr(matrices, "keep", ())]
        n_bytes = sum(plans[name].stored_bytes for name in kept)
        if n_bytes > (limit := getattr(matrices, "disk", n_bytes)):
            sentence = (
                f"the workspace would keep {' and '.join(kept)}, {format_bytes(n_bytes)} on disk, over the limit of "
                f'{format_bytes(limit)}: set matrices.disk = "{-(-n_bytes // MIB)}MiB", or leave it out of '
                "matrices.keep"
            )
            yield all(plans[name].exact for name in kept), JobError(sentence)


def plan_job(job: Job) -> Plan:
    """Return the resources that a job needs; the sizes that committed stages know are exact."""
    with failures_told(job.job.workspace):
        workspace = workspace_of(job)
        states = stage_states(job, workspace)
    return plan_stages(job, states, workspace)


def plan_stages(job: Job, states: Sequence[StageState], workspace: Workspace | None) -> Plan:
    """Return the resources that a job needs, by the state of its stages.

    What is damaged is not counted, and is to be computed. It is looked for only where what is committed cannot be read:
    to look for it reads everything.
    """

    def complete(states: Iterable[StageState]) -> dict[str, StageManifest]:
        return {state.spec.name: state.manifest for state in states if state.manifest and state.is_complete}

    _refuse_recorded_inputs(job, states)
    with failures_told(job.job.workspace):
        if workspace is None:
            check_place(job.job.workspace)
        try:
            return plan_with(job, workspace, complete(states))
        except (OSError, ValueError):
            checked = [] if workspace is None else [with_damage(state, workspace) for state in states]
            if not any(state.damaged for state in checked):
                raise
            return plan_with(job, workspace, complete(checked))


def plan_with(job: Job, workspace: Workspace | None, done: Mapping[str, StageManifest]) -> Plan:
    """Return the plan of a job by the sizes that its stages which are done have counted."""
    counted = Counted(workspace, done) if workspace is not None and done else None
    dimensions = system_of(job).dimensions(job, counted)
    stages = {spec.name: dimensions.planned(spec.plan, job) for spec in stages_of(job)}
    return Plan(job, dimensions.sentence, stages, frozenset(done))


def _refuse_recorded_inputs(job: Job, states: Iterable[StageState]) -> None:
    """Refuse to compute a stage that reads what only a workspace names: it may be a stranger's.

    Raises
    ------
    JobError
        The job was found in a workspace, and has such a stage.
    """
    for state in states if job.is_recorded else ():
        if state.absent and not state.is_complete:
            raise JobError(
                f"stage {state.spec.name} has to read {', '.join(state.absent)}, which the workspace "
                f"{job.job.workspace} names, and a workspace may be a stranger's: if you know the job, name it in "
                f"place of the workspace: its own file, or {job.job.workspace}/{JOB_FILE}"
            )


def check_inputs(job: Job, states: Sequence[StageState]) -> list[str]:
    """Open what the stages to be computed read from outside, and return what was found, a sentence each.

    Raises
    ------
    FileNotFoundError
        A stage that is to be computed has to read files that are not there.
    OSError, ValueError, KeyError
        An input is not what the job says of it.
    """
    _refuse_recorded_inputs(job, states)
    lines: list[str] = []
    for state in states:
        name, paths = state.spec.name, ", ".join(state.absent)
        if state.is_complete:
            if paths and not job.is_recorded:
                lines.append(f"{name}: {paths} is not there and not needed, the stage is done")
        elif paths:
            raise FileNotFoundError(
                f"stage {name} has to read {paths}, but there is no file and no distembed workspace there: bring it "
                "back, or correct the path"
            )
        else:
            lines += [f"{name}: {line}" for line in state.spec.check(job)]
    return lines
