"""Plans a job for the workspace that it will find: what is left to do, what it reads, and what it would replace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from distembed.files import failures_told
from distembed.pipeline import provenance
from distembed.pipeline.context import Counted, System, system_of
from distembed.pipeline.inputs import Stamps, look_for
from distembed.pipeline.opening import existing_workspace
from distembed.pipeline.plan import Plan
from distembed.pipeline.sections import Job
from distembed.pipeline.standing import Standing, loss_lines, losses, standings
from distembed.storage.schema import StageManifest
from distembed.storage.workspace import Workspace


def plan_job(job: Job) -> Plan:
    """Return the resources that a job needs; the sizes that committed stages know are exact."""
    with failures_told(job.job.workspace):
        return planner(system_of(job), existing_workspace(job))(job)


def planner(system: System, workspace: Workspace | None) -> Callable[[Job], Plan]:
    """Return what plans the jobs of a system; it looks at each input once, however many it plans."""
    look = cache(look_for(workspace))

    def planned(job: Job) -> Plan:
        found = standings(job, system.stages(job), workspace, look=look)
        done = {s.spec.name: s.before for s in found if s.is_done and isinstance(s.before, StageManifest)}
        counted = Counted(workspace, done) if workspace is not None and done else None
        return system.plan(job, counted)._replace(done=frozenset(done), again=planned)

    return planned


def check_inputs(job: Job, found: Iterable[Standing]) -> list[str]:
    """Open what the stages to be computed read from outside, and return what was found, a sentence each.

    Raises
    ------
    FileNotFoundError
        A stage that is not kept has to read files that are not there.
    OSError, ValueError, KeyError
        An input is not what the job says of it.
    """
    lines: list[str] = []
    for standing in found:
        name, paths = standing.spec.name, ", ".join(standing.absent)
        if standing.is_kept:
            lines += [f"{name}: {paths} is not there and not needed, the stage is done"] if paths else []
        elif paths:
            raise FileNotFoundError(
                f"stage {name} has to read {paths}, but there is no file and no distembed workspace there: bring it "
                "back, or correct the path"
            )
        else:
            lines += [f"{name}: {line}" for line in standing.spec.check(job)]
    return lines


def planned_inputs(job: Job) -> list[str]:
    """Return what `check_inputs` finds for the stages that a run of a job would compute."""
    return check_inputs(job, standings(job, system_of(job).stages(job), existing_workspace(job)))


def planned_losses(job: Job, *, look: Callable[[str], Stamps] | None = None) -> list[str]:
    """Return a line for each finished stage that a run of the job would compute again: why, and what it took.

    `look` returns the stamps of what lies at a path, see `standings`.
    """
    workspace = existing_workspace(job)
    if workspace is None:
        return []
    found = standings(job, system_of(job).stages(job), workspace, look=look)
    return loss_lines(losses(found, workspace, provenance.made_with()))
