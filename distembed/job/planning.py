"""Plans a job for the workspace that it will find: what is left to do, what it reads, and what it would replace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from distembed.display import format_seconds
from distembed.files import failures_told
from distembed.job import provenance
from distembed.job.inputs import look_for
from distembed.job.model import Job, JobError
from distembed.job.opening import JOB_FILE, existing_workspace
from distembed.job.plan import Plan
from distembed.job.stage import Counted, system_of
from distembed.job.state import Standing, loss_lines, losses, seconds_of, standings, with_damage
from distembed.storage.schema import StageManifest
from distembed.storage.workspace import Workspace


def plan_job(job: Job) -> Plan:
    """Return the resources that a job needs; the sizes that committed stages know are exact."""
    with failures_told(job.job.workspace):
        workspace = existing_workspace(job.job.workspace)
        found = standings(job, workspace)
    return plan_stages(job, found, workspace)


def plan_stages(job: Job, found: Sequence[Standing], workspace: Workspace | None) -> Plan:
    """Return the resources that a job needs, as `plan_job` does, by where its stages were found to stand.

    What is damaged is not counted, and is to be computed. It is looked for only where what is kept cannot be read: to
    look for it reads everything.
    """
    _refuse_recorded_inputs(job, found)
    with failures_told(job.job.workspace):
        try:
            plan = _planned(job, found, workspace)
        except (OSError, ValueError):
            looked = [] if workspace is None else [with_damage(standing, workspace) for standing in found]
            if not any(standing.damaged for standing in looked):
                raise
            plan = _planned(job, looked, workspace)
        return plan._replace(again=planner(workspace))


def _planned(job: Job, found: Iterable[Standing], workspace: Workspace | None) -> Plan:
    done = {s.spec.name: s.before for s in found if s.is_kept and isinstance(s.before, StageManifest)}
    counted = Counted(workspace, done) if workspace is not None and done else None
    return system_of(job).plan(job, counted)._replace(done=frozenset(done))


def planner(workspace: Workspace | None) -> Callable[[Job], Plan]:
    """Return what plans a job with other settings; it looks at each input once, however many it plans."""
    look = cache(look_for(workspace))
    return lambda job: _planned(job, standings(job, workspace, look=look), workspace)


def _refuse_recorded_inputs(job: Job, found: Iterable[Standing]) -> None:
    """Refuse to compute a stage that reads what only a workspace names: it may be a stranger's.

    Raises
    ------
    JobError
        The job was found in a workspace, and has such a stage.
    """
    for standing in found if job.is_recorded else ():
        if standing.absent and not standing.is_kept:
            raise JobError(
                f"stage {standing.spec.name} has to read {', '.join(standing.absent)}, which the workspace "
                f"{job.job.workspace} names, and a workspace may be a stranger's: if you know the job, name it in "
                f"place of the workspace: its own file, or {job.job.workspace}/{JOB_FILE}"
            )


def check_inputs(job: Job, found: Sequence[Standing]) -> list[str]:
    """Open what the stages to be computed read from outside, and return what was found, a sentence each.

    Raises
    ------
    FileNotFoundError
        A stage that is not kept has to read files that are not there.
    OSError, ValueError, KeyError
        An input is not what the job says of it.
    """
    _refuse_recorded_inputs(job, found)
    lines: list[str] = []
    for standing in found:
        name, paths = standing.spec.name, ", ".join(standing.absent)
        if standing.is_kept:
            if paths and not job.is_recorded:
                lines.append(f"{name}: {paths} is not there and not needed, the stage is done")
        elif paths:
            raise FileNotFoundError(
                f"stage {name} has to read {paths}, but there is no file and no distembed workspace there: bring it "
                "back, or correct the path"
            )
        else:
            lines += [f"{name}: {line}" for line in standing.spec.check(job)]
    return lines


class Estimate(NamedTuple):
    """The seconds that a stage is expected to take, and in words what that was measured on."""

    seconds: float
    basis: str


def estimate_of(standing: Standing, workspace: Workspace) -> Estimate | None:
    """Return how long the rest of a stage may take, by what was measured of the same stage; None where nothing was.

    A stage that is under way goes on at the speed of the blocks that it has; one that is to be computed again takes
    as long as it took, which is little to go by where the input or a size has changed.
    """
    if standing.is_kept or standing.before is None:
        return None
    seconds = seconds_of(standing.before)
    if isinstance(standing.before, StageManifest):
        return Estimate(seconds, "as long as before the change") if standing.changes and seconds else None
    blocks = workspace.progress(standing.spec.name).values()
    done, total = (sum(numbers) for numbers in zip(*blocks, strict=True)) if blocks else (0, 0)
    if standing.changes or not done or not seconds:
        return None
    return Estimate(seconds * (total - done) / done, f"at the speed of {done} of {total} blocks")


def time_lines(found: Sequence[Standing], workspace: Workspace | None) -> list[str]:
    """Return a line for each stage to be computed of which the workspace has measured how long it takes."""
    every = {s.spec.name: estimate_of(s, workspace) for s in found} if workspace is not None else {}
    return [
        f"{name}: about {format_seconds(round(time.seconds))}, {time.basis}"
        for name, time in every.items()
        if time
    ]


def nothing_left(found: Sequence[Standing]) -> str:
    """Return that a run has nothing to compute, "" where it has."""
    return f"nothing is left to do: all {len(found)} stages are done" if all(s.is_kept for s in found) else ""


def planned_losses(found: Sequence[Standing], workspace: Workspace | None) -> list[str]:
    """Return a line for each finished stage that a run would compute again: why, and what it took."""
    return [] if workspace is None else loss_lines(losses(found, workspace, provenance.made_with()))
