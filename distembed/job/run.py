"""Runs a job stage by stage, skips the stages that are complete, and reports what happened."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

import dask
import tomli_w

from distembed.display import plural
from distembed.execution import heard_by, uncollected
from distembed.files import failures_told
from distembed.job import provenance
from distembed.job.inputs import keep_hints, look_for
from distembed.job.load import JOB_BYTES
from distembed.job.model import Job, JobError
from distembed.job.opening import JOB_FILE, check_code, code_of, workspace_of
from distembed.job.plan import Plan, check_inputs, plan_stages, plan_with
from distembed.job.progress import Reporter
from distembed.job.stage import REPORT, SUMMARY, Context, StageSpec, stages_of, system_of
from distembed.job.state import (
    ReplaceError,
    StageState,
    losses,
    refusal,
    seconds_of,
    stage_states,
    with_damage,
)
from distembed.job.status import spent_text
from distembed.job.workers import Workers
from distembed.plan import RESERVED_BYTES
from distembed.scratch import Scratch
from distembed.states import keeping
from distembed.storage.workspace import Workspace

SHOWN_REPAIRS = 10


SMALL_BYTES, SMALL_TOKENS = 1 << 20, 1 << 18
"""Of an input of so many bytes and tokens at most the first stages take about a second."""


class Outcome(NamedTuple):
    """The result of a run: the stages it ran and skipped, and the text to print at its end."""

    ran: tuple[str, ...]
    skipped: tuple[str, ...]
    text: str


class Run(NamedTuple):
    """The data that all stages of a run share; `states` are of every stage that it runs or skips."""

    job: Job
    workspace: Workspace
    reporter: Reporter
    workers: Workers
    states: Mapping[str, StageState]


def run_stages(
    job: Job,
    *,
    workers: Workers | None = None,
    reporter: Reporter | None = None,
    until: str | None = None,
    allow_code: bool = False,
    replace: bool = False,
    ask: Callable[[str], bool] | None = None,
) -> Outcome:
    """Run a job, or finish it; with `until`, stop when that stage is done.

    Every stage that is committed with the same parameters and inputs, and whose blocks all have their digest, is
    skipped; of a stage that was interrupted or damaged, only the missing blocks are made. A stage whose parameters
    or inputs changed is computed again, with all that rests on it. The old blocks of a stage go when it begins
    again; those of a later stage when the earlier one is committed. The last stage draws the report.

    Parameters
    ----------
    job : Job
    workers : Workers, optional
        Default: threads of this process.
    reporter : Reporter, optional
        Receives what happens; default nobody.
    until : str, optional
        The last stage to run.
    allow_code : bool
        Let the job call the Python functions that it names.
    replace : bool
        Compute again what changed, whatever it took to make.
    ask : callable, optional
        Called with a sentence where more than a minute of finished work would be replaced; True goes on.

    Raises
    ------
    JobError
        The job has no stage `until`, or names a Python function and `allow_code` is False.
    ReplaceError
        More than a minute of finished work would be replaced, and nobody agreed.
    FileNotFoundError
        A stage has to read files that are not there.
    MemoryError
        The plan does not fit the memory limit.
    OSError
        The workspace is locked by another run, or cannot be written.
    """
    workers, reporter = workers or Workers(), reporter or Reporter()
    if workers.n_workers is not None:
        resources = job.resources.model_copy(update={"workers": workers.n_workers})
        job = job.model_copy(update={"resources": resources})
    check_code(job, allow_code=allow_code)
    specs = _stages_until(until, stages_of(job))
    names = [spec.name for spec in specs]
    url, title = job.job.workspace, job.job.title
    with failures_told(url), dask.config.set({"distembed.block_memory": job.resources.block_memory}):
        before = workspace_of(job)
        if before is None:  # a job that is refused leaves no folder
            _check_plan(job, stage_states(job, None, specs=specs), None, workers, reporter)
        with Workspace.create(url, owner=title, watching=reporter.note) as workspace, workers:
            reporter.tell(
                "run_begun",
                f"workspace {workspace.url}",
                workspace=workspace.url,
                title=title,
                system=job.job.system,
                stages=names,
            )
            repaired = [f"{problem.file} ({problem.what})" for problem in workspace.repaired]
            if repaired:
                shown = [*repaired[:SHOWN_REPAIRS], *(["…"] if len(repaired) > SHOWN_REPAIRS else [])]
                reporter.note(f"repaired {plural(len(repaired), 'file')}: {', '.join(shown)}")
            look = look_for(workspace, note=reporter.note)
            found = stage_states(job, workspace, specs=specs, look=look)
            if before is not None:
                _check_plan(job, found, workspace, workers, reporter)
            if workers.is_remote:  # they read the finished blocks to check them, and this process does not
                workers.start(workspace)
            states = {state.spec.name: with_damage(state, workspace) for state in found}
            keep_hints(workspace, [state.parameters for state in states.values()])
            if not all(state.is_complete for state in states.values()):
                workers.start(workspace)
            run = Run(job, workspace, reporter, workers, states)
            for line in check_inputs(job, list(states.values())):
                reporter.note(line)
            _check_losses(run, (lambda _: True) if replace else ask)
            ran = [name for name in states if _run_stage(run, name)]
            reporter.close()
            if not workspace.read_file(JOB_FILE):  # deleted, or emptied by a power cut
                _record(job, workspace)
            text = f"stopped after {until}; the same command without --until goes on"
            if until is None:
                text = workspace.read_bytes(SUMMARY.name).decode()
                text = text.replace("{workspace}/", f"{workspace.url}/")
                text = text.replace("{workspace}", shlex.quote(workspace.url))
            text = f"{text}\nworkspace  {workspace.url}"
    if not ran:
        head = f"repaired {plural(len(repaired), 'file')}" if repaired else "nothing to do"
        text = f"{head}: all {len(specs)} stages were done before, and every block has its digest\n\n{text}"
    return Outcome(tuple(ran), tuple(name for name in names if name not in ran), text)


def report_job(job: Job) -> str:
    """Draw the report of a finished job if this version has not, and return where it is.

    Raises
    ------
    ValueError
        Another stage of the job is not done.
    """
    workspace = Workspace.open(job.job.workspace)
    *others, report = stage_states(job, workspace)
    for state in others:
        if state.manifest is None:
            why = f"{state.word}{f', because {state.why}' if state.why else ''}"
            raise ValueError(f"there is no report yet: stage {state.spec.name} is {why}; run the job first")
    report = with_damage(report, workspace)
    before = report.manifest
    if before is None or report.damaged or before.made_with != provenance.made_with():
        with (
            Workspace.create(job.job.workspace, owner=f"report of {job.job.title}") as writing,
            Workers(scheduler="threads") as own,
        ):
            _run_stage(
                Run(job, writing, Reporter(), own, {report.spec.name: report}), report.spec.name, redraw=True
            )
    return workspace.path(REPORT.name)


def _stages_until(until: str | None, stages: tuple[StageSpec, ...]) -> tuple[StageSpec, ...]:
    names = [spec.name for spec in stages]
    if until is not None and until not in names:
        raise JobError(f"the job has no stage {until!r}; its stages are {', '.join(names)}")
    return stages if until is None else stages[: names.index(until) + 1]


def plan_small(job: Job, states: Sequence[StageState], workspace: Workspace | None) -> Plan:
    """Return the plan of a job, as `plan_stages` does; of a small input by what its first stages count of it.

    These are computed in a temporary folder. What they refuse is refused as a run refuses it.
    """
    plan = plan_stages(job, states, workspace)
    first = list(takewhile(lambda spec: spec.counts, stages_of(job)))
    is_known = all(state.is_complete for state in states[: len(first)])
    if not first or is_known or job.is_recorded or code_of(job):
        return plan
    sizes = system_of(job).dimensions(job, None)
    if sizes.size("text") > SMALL_BYTES or sizes.size("token") > SMALL_TOKENS:
        return plan
    with Scratch("distembed-") as folder:
        place = job.job.model_copy(update={"workspace": f"{folder}/w"})
        run_stages(job.model_copy(update={"job": place}), until=first[-1].name)
        counted = Workspace.open(place.workspace)
        return plan_with(job, counted, counted.stages())._replace(done=plan.done)


# --- what is refused before it runs --------------------------------------------------------------------------------


@uncollected()
def _check_plan(
    job: Job,
    states: Sequence[StageState],
    workspace: Workspace | None,
    workers: Workers,
    reporter: Reporter,
) -> None:
    """Refuse a plan of which a stage cannot fit, and warn of what may not; plan nothing where all is done."""
    if all(state.manifest for state in states):
        return
    memory, names = workers.is_held_to(job), {state.spec.name for state in states}
    plan = plan_stages(job, states, workspace)._replace(processes=workers.scheduler == "processes")
    plan.check(names, memory=memory)
    if plan.processes:
        fitting = min((plan.n_workers(name) for name in names if name not in plan.done), default=0)
        workers.n_workers = fitting or workers.n_workers
    for warning in (*plan.warnings(names, memory=memory), *workers.warnings()):
        reporter.note(f"warning: {warning}")


def _check_losses(run: Run, ask: Callable[[str], bool] | None) -> None:
    """Report what this run replaces, and continue only if that is little or somebody agrees."""
    made_with = provenance.made_with()
    by_difference: dict[str, list[str]] = {}
    for name, state in run.states.items():
        if state.manifest is not None and state.is_complete:
            words = provenance.differences(state.manifest.made_with, made_with)
            by_difference.setdefault(words, []).append(name)
    for words, names in by_difference.items():
        if words:
            run.reporter.note(f"kept, though made with other versions: {', '.join(names)} ({words})")
    lost = losses(list(run.states.values()), run.workspace, made_with)
    for loss in lost:
        run.reporter.note(loss.line)
    sentence = refusal(lost)
    if sentence and not (ask is not None and ask(sentence)):
        raise ReplaceError(sentence)


# --- the stages ------------------------------------------------------------------------------------------------


def _run_stage(run: Run, name: str, *, redraw: bool = False) -> bool:
    """Run a stage unless it is complete; with `redraw` run it all the same. Return whether it ran."""
    state, reporter, workspace = run.states[name], run.reporter, run.workspace
    made_with = provenance.made_with()
    stage = workspace.stage(name, parameters=state.parameters, inputs=state.inputs, made_with=made_with)
    if stage.is_committed and not state.damaged and not redraw:
        reporter.tell("stage_skipped", stage=name)
        return False
    with run.workers.watched(name):
        _record(run.job, workspace)
        reporter.tell("stage_begun", stage=name)
        if stage.is_committed:
            if state.damaged:
                reporter.note(f"{name}: {len(state.damaged)} damaged or missing, computed again")
            stage.reopen(state.damaged)
        found = workspace.stages()
        done = {  # what its stages have counted so far
            each: found[each]
            for each, one in run.states.items()
            if each in found
            and found[each].fingerprint == one.fingerprint
            and not (one.damaged and found[each] == one.before)  # it is still to be repaired
        }
        plan = plan_with(run.job, workspace, done)._replace(processes=run.workers.scheduler == "processes")
        plan.check(run.states.keys(), memory=run.workers.is_held_to(run.job))
        left = (plan.stages[each].task_bytes for each in run.states if each not in plan.done)
        run.workers.check_memory(max((RESERVED_BYTES + n_bytes for n_bytes in left), default=0))
        if limits := run.workers.memory_limits():  # above half of its limit Dask would soon spill
            room = sum(max(0, limit // 2 - plan.stages[name].task_bytes) for limit in limits.values())
            states_fit = plan.stages[name].states_bytes <= room
        else:
            states_fit = plan.states_fit(name)

        def heard(what: str, done: int, total: int | None) -> None:
            reporter.advance(name, done, total, unit=what)
            stage.note(what, done, total)

        with (
            run.workers.metered() as spent,
            heard_by(heard),
            keeping(stage, has_room=states_fit),
            run.workers.at_most(max(1, plan.n_workers(name))),
        ):
            facts = state.spec.run(Context(run.job, workspace, stage, reporter))
        reporter.close()
        spent["planned_process_bytes"] = plan.planned_bytes(name)
        before = state.before
        if before is not None and before.fingerprint == state.fingerprint:
            facts["earlier_seconds"] = round(seconds_of(before), 3)
        stage.commit({**facts, **spent})
        reporter.tell("stage_committed", f"{name:<16}{spent_text(spent)}", stage=name, **spent)
        run.workers.give_memory_back()
        return True


def _record(job: Job, workspace: Workspace) -> None:
    """Write the job as it is run, with its defaults; the versions that made each stage are in its manifest."""
    text = tomli_w.dumps(job.model_dump(mode="json", exclude_none=True)).encode()
    if len(text) > JOB_BYTES:
        raise JobError(
            "the job names too many paths to be recorded: name folders or globs, and not each file"
        )
    if workspace.read_file(JOB_FILE, most=JOB_BYTES) != text:
        workspace.write_file(JOB_FILE, text)
