"""Plans a job for the workspace that it will find: what is left to do, what it reads, and what it would replace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from distembed.files import failures_told
from distembed.job import provenance
from distembed.job.model import Job, JobError
from distembed.job.opening import JOB_FILE, existing_workspace
from distembed.job.plan import Plan
from distembed.job.stage import Counted, system_of
from distembed.job.state import Standing, loss_lines, losses, standings, with_damage
from distembed.storage.records import StageManifest
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
            return _planned(job, found, workspace)
        except (OSError, ValueError):
            looked = [] if workspace is None else [with_damage(standing, workspace) for standing in found]
            if not any(standing.damaged for standing in looked):
                raise
            return _planned(job, looked, workspace)


def _planned(job: Job, found: Iterable[Standing], workspace: Workspace | None) -> Plan:
    done = {s.spec.name: s.before for s in found if s.is_kept and isinstance(s.before, StageManifest)}
    counted = Counted(workspace, done) if workspace is not None and done else None
    return system_of(job).plan(job, counted)._replace(done=frozenset(done))


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


def nothing_left(found: Sequence[Standing]) -> str:
    """Return that a run has nothing to compute, "" where it has."""
    return f"nothing is left to do: all {len(found)} stages are done" if all(s.is_kept for s in found) else ""


def planned_losses(found: Sequence[Standing], workspace: Workspace | None) -> list[str]:
    """Return a line for each finished stage that a run would compute again: why, and what it took."""
    return [] if workspace is None else loss_lines(losses(found, workspace, provenance.made_with()))
