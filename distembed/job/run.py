"""Runs a job stage by stage, skips the stages that are complete, and reports what happened."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import dask
import tomli_w

from distembed.display import format_seconds, plural
from distembed.execution import Listener, heard_by, uncollected
from distembed.files import failures_told
from distembed.job import derived, provenance
from distembed.job.inputs import keep_hints, look_for
from distembed.job.model import Job, JobError
from distembed.job.opening import JOB_FILE, check_code, existing_workspace, recorded_tables
from distembed.job.plan import Plan
from distembed.job.planning import check_inputs, plan_stages
from distembed.job.progress import Reporter, Silent
from distembed.job.stage import Context, Counted, StageSpec, System, system_of
from distembed.job.state import (
    ReplaceError,
    Standing,
    loss_lines,
    losses,
    refusal,
    seconds_of,
    standings,
    with_damage,
)
from distembed.job.status import spent_text, state_of
from distembed.job.workers import Meter, Workers
from distembed.states import keeping
from distembed.storage.records import digest_of_json, dumped, new_digest
from distembed.storage.stage import Stage
from distembed.storage.tasks import KilledBlockError
from distembed.storage.workspace import Workspace

SHOWN_MENDED = 10


class Outcome(NamedTuple):
    """The result of a run: the stages it ran and skipped, and the text to print at its end."""

    ran: tuple[str, ...]
    skipped: tuple[str, ...]
    text: str


class Run(NamedTuple):
    """The data that all stages of a run share; `standings` are of every stage that it runs or skips."""

    job: Job
    workspace: Workspace
    reporter: Reporter
    crew: Workers
    standings: Mapping[str, Standing]


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
    """Run a job, or finish it; with `until`, stop when that stage is done, and write no report.

    Every stage that is committed with the same parameters and inputs, and whose blocks all hold their digest, is
    skipped; of a stage that was interrupted or damaged, only the missing blocks are made. A stage whose parameters
    or inputs changed is computed again, with all that rests on it. The old blocks of a stage go when it begins
    again; those of a later stage when the earlier one is committed.

    Parameters
    ----------
    job : Job
    workers : Workers, optional
        Default: threads of this process.
    reporter : Reporter, optional
        Hears what happens; default nobody.
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
        More than a minute of finished work would be replaced, unasked.
    FileNotFoundError
        A stage has to read files that are not there.
    MemoryError
        The plan does not fit the memory limit.
    OSError
        The workspace is locked by another run, or cannot be written.
    """
    workers, reporter = workers or Workers(), reporter or Silent()
    if workers.n_workers is not None:
        resources = job.resources.model_copy(update={"workers": workers.n_workers})
        job = job.model_copy(update={"resources": resources})
    check_code(job, allow_code=allow_code)
    with failures_told(job.job.workspace):
        _refuse_another_method(job, existing_workspace(job.job.workspace))
    specs = _stages_until(until, system_of(job).stages(job))
    _plan_ahead(job, specs, workers, reporter)
    configured = dask.config.set({"distembed.block_memory": job.resources.block_memory})
    with configured, failures_told(job.job.workspace), _writing(job, reporter) as workspace, workers as crew:
        names, where = [spec.name for spec in specs], workspace.url
        title, system_name = job.job.title, job.job.system
        reporter.tell(
            "run_begun", f"workspace {where}", workspace=where, title=title, system=system_name, stages=names
        )
        mended = workspace.mended
        for problem in mended[:SHOWN_MENDED]:
            reporter.note(f"mended {problem.file}: {problem.what}")
        if len(mended) > SHOWN_MENDED:
            reporter.note(f"mended {len(mended) - SHOWN_MENDED:,} more files")
        n_mended = len(mended)
        looked = _looked(job, specs, workspace, reporter)
        if crew.is_remote:  # its workers read what is checked, and this process does not
            _start(crew, workspace)
        found = [with_damage(standing, workspace) for standing in looked]
        keep_hints(workspace, [standing.parameters for standing in found])
        every = {standing.spec.name: standing for standing in found}
        run = Run(job, workspace, reporter, crew, every)
        if not all(standing.is_kept for standing in found):
            _start(crew, workspace)
        for line in (*job.idle, *check_inputs(job, found)):
            reporter.note(line)
        _check_losses(run, (lambda _: True) if replace else ask)
        ran = [name for name, standing in every.items() if _run_watched(standing, run)]
        _remove_stale(workspace, reporter)
        reporter.close()
        if not workspace.read_file(JOB_FILE):  # deleted, or emptied by a power cut
            _record(job, workspace)
        with crew.watched("report", reporter.note):
            text = _closing_text(run, system_of(job), until=until)
    if not ran:
        head = f"mended {plural(n_mended, 'file')}" if n_mended else "nothing to do"
        text = f"{head}: all {len(specs)} stages were done before, and every block holds its digest\n\n{text}"
    return Outcome(tuple(ran), tuple(s.name for s in specs if s.name not in ran), text)


def _start(crew: Workers, workspace: Workspace) -> None:
    crew.start()
    crew.require_view(workspace)


def _refuse_another_method(job: Job, workspace: Workspace | None) -> None:
    """Refuse a workspace with the results of another method, of whose stages some have the same names."""
    section = {} if workspace is None else recorded_tables(workspace).get("job", {})
    recorded = section.get("system") if isinstance(section, dict) else None
    if recorded not in (None, job.job.system):
        raise JobError(
            f"{job.job.workspace} holds the results of the method {recorded}: give this job of the method "
            f"{job.job.system} a workspace of its own"
        )


def _writing(job: Job, reporter: Reporter) -> Workspace:
    return Workspace.create(job.job.workspace, owner=job.job.title, watching=reporter.note)


def _stages_until(until: str | None, stages: tuple[StageSpec, ...]) -> tuple[StageSpec, ...]:
    names = [spec.name for spec in stages]
    if until is None:
        return stages
    if until not in names:
        raise JobError(f"the job has no stage {until!r}; its stages are {', '.join(names)}")
    return stages[: names.index(until) + 1]


# --- before anything runs ------------------------------------------------------------------------------------


@uncollected()
def _plan_ahead(job: Job, specs: Sequence[StageSpec], workers: Workers, reporter: Reporter) -> None:
    """Plan what is to be computed, if anything is, and refuse what cannot fit."""
    with failures_told(job.job.workspace):
        there = existing_workspace(job.job.workspace)
        found = _looked(job, specs, there, reporter)
    if not all(standing.is_done for standing in found):
        _check_plan(plan_stages(job, found, there), {spec.name for spec in specs}, workers, reporter)


def _looked(
    job: Job, specs: Sequence[StageSpec], workspace: Workspace | None, reporter: Reporter
) -> list[Standing]:
    """Return where each stage stands, after a note where much has to be read for it."""
    return standings(job, workspace, specs=specs, look=look_for(workspace, note=reporter.note))


def _check_plan(plan: Plan, names: Collection[str], workers: Workers, reporter: Reporter) -> None:
    """Refuse a plan of which a stage cannot fit, and say what by its estimates may not."""
    memory = workers.is_held_to(plan.job)
    plan = plan._replace(processes=workers.scheduler == "processes")
    plan.check(names, memory=memory)
    if plan.processes:
        fitting = min((plan.n_workers(name) for name in names if name not in plan.done), default=0)
        workers.n_workers = fitting or workers.n_workers
    for warning in (*plan.warnings(names, memory=memory), *workers.warnings()):
        reporter.note(f"warning: {warning}")


def _check_losses(run: Run, ask: Callable[[str], bool] | None) -> None:
    """Report what this run replaces, and continue only if that is little or was asked for."""
    made_with = provenance.made_with()
    every = list(run.standings.values())
    by_difference: dict[str, list[str]] = {}
    for name, standing in run.standings.items():
        if standing.is_kept and standing.before is not None:
            words = provenance.differences(standing.before.made_with, made_with)
            by_difference.setdefault(words, []).append(name)
    for words, names in by_difference.items():
        if words:
            run.reporter.note(f"kept, though made with other versions: {', '.join(names)} ({words})")
    if mixed := provenance.kinds(run.crew.client):
        run.reporter.note(mixed)
    lost = losses(every, run.workspace, made_with)
    for line in loss_lines(lost):
        run.reporter.note(line)
    sentence = refusal(lost)
    if sentence and not (ask is not None and ask(sentence)):
        raise ReplaceError(sentence)


# --- the stages ----------------------------------------------------------------------------------------------


def _run_watched(standing: Standing, run: Run, *, is_last_try: bool = False) -> bool:
    """Run a stage as `_run_stage` does; a cluster that fails, at any moment of it, is told in one sentence.

    Dask gives up a task of which four workers died, whatever they died of. The stage goes on once from what is
    finished, so that only a task that is itself the cause ends the run.
    """
    name = standing.spec.name
    try:
        with run.crew.watched(name, run.reporter.note):
            return _run_stage(standing, run)
    except KilledBlockError as error:
        if is_last_try:
            raise
        n_deaths = error.killed.allowed_failures + 1
    run.reporter.note(f"{name}: {n_deaths} workers died at the same task: what is left is tried once more")
    return _run_watched(standing, run, is_last_try=True)


def _run_stage(standing: Standing, run: Run) -> bool:
    """Run a stage unless it is complete; return whether it ran."""
    spec, workspace, reporter = standing.spec, run.workspace, run.reporter
    stage = _open(standing, run)
    if stage.is_committed and not standing.damaged:
        reporter.tell("stage_skipped", stage=spec.name)
        return False
    _record(run.job, workspace)
    reporter.tell("stage_begun", stage=spec.name)
    if stage.is_committed:
        reporter.note(f"{spec.name}: {len(standing.damaged)} damaged or missing, computed again")
        stage.reopen(standing.damaged)
    plan = _plan_of_run(run)
    plan.check(
        run.standings.keys(), memory=run.crew.is_held_to(run.job)
    )  # by what earlier stages have counted
    run.crew.check_memory(spec.name, plan.worker_bytes(spec.name))
    context = Context(run.job, workspace, stage, reporter, run.crew)
    states = stage.states(in_memory=_states_fit(plan, spec.name, run))
    with (
        Meter(run.crew) as meter,
        heard_by(_rounds_of(spec, run)),
        keeping(states),
        run.crew.at_most(max(1, plan.n_workers(spec.name))),
    ):
        facts = spec.run(context)
    reporter.close()
    spent = {**meter.spent._asdict(), "planned_process_bytes": plan.planned_bytes(spec.name)}
    stage.commit({**facts, **spent, **_earlier_work(standing)})
    _remove_stale(workspace, reporter)
    reporter.tell("stage_committed", f"{spec.name:<16}{spent_text(spent)}", stage=spec.name, **spent)
    run.crew.give_memory_back()
    return True


def _states_fit(plan: Plan, name: str, run: Run) -> bool:
    """Return whether the states of a stage have room in the memory of the workers."""
    if limits := run.crew.memory_limits():  # above half of its limit Dask would soon spill
        stage = plan.stages[name]
        return stage.states_bytes <= sum(max(0, limit // 2 - stage.task_bytes) for limit in limits.values())
    return plan.states_fit(name)


def _plan_of_run(run: Run) -> Plan:
    """Return the plan of a job that is running, by what its stages have counted so far."""
    found = run.workspace.stages()
    done = {
        name: found[name]
        for name, standing in run.standings.items()
        if name in found
        and found[name].fingerprint == standing.fingerprint
        and not (standing.damaged and found[name] == standing.before)  # it is still to be repaired
    }
    plan = system_of(run.job).plan(run.job, Counted(run.workspace, done) if done else None)
    return plan._replace(done=frozenset(done), processes=run.crew.scheduler == "processes")


def _rounds_of(spec: StageSpec, run: Run) -> Listener:
    """Return what shows the rounds that a stage reports."""
    return lambda what, done, total: run.reporter.advance(spec.name, done, total, unit=what)


def _earlier_work(standing: Standing) -> dict[str, float]:
    """Return the seconds of work that a resumed or repaired stage kept, as a fact beside its wall time."""
    before = standing.before
    if before is None or before.fingerprint != standing.fingerprint:
        return {}
    return {"earlier_seconds": round(seconds_of(before), 3)}


def _open(standing: Standing, run: Run) -> Stage:
    return run.workspace.stage(
        standing.spec.name,
        parameters=standing.parameters,
        inputs=standing.inputs,
        made_with=provenance.made_with(),
    )


def _record(job: Job, workspace: Workspace) -> None:
    """Write the job as it is run, with its defaults; the versions that made each stage are in its manifest."""
    text = tomli_w.dumps(job.model_dump(mode="json", exclude_none=True)).encode()
    if workspace.read_file(JOB_FILE) != text:
        workspace.write_file(JOB_FILE, text)


# --- the report ----------------------------------------------------------------------------------------------


def _closing_text(run: Run, system: System, *, until: str | None) -> str:
    """Return the last lines of a run; the report of a whole one is written unless it is there and whole."""
    where = f"workspace  {run.workspace.url}"
    if until is not None:
        return f"stopped after {until}; the same command without --until goes on\n{where}"
    report = _write_report(run.job, run.workspace, run.reporter)
    return f"{system.closing_text(run.job, run.workspace, report)}\n{where}"


def _write_report(job: Job, workspace: Workspace, reporter: Reporter) -> str:
    """Write the report of a finished workspace as one HTML file, unless it is there and whole; return its place."""
    shown, where = _shown(job, workspace), workspace.path(derived.REPORT)
    if derived.is_kept(workspace, derived.REPORT, shown=shown):
        reporter.tell("report_kept", path=where)
    else:
        began = time.perf_counter()
        reporter.note("report: drawing the figures and tables")
        page = system_of(job).page(job, workspace).encode()
        _record(job, workspace)
        derived.keep(workspace, derived.REPORT, page, shown=shown)
        seconds = round(time.perf_counter() - began, 3)
        line = f"{'report':<16}{format_seconds(seconds):>10}"
        reporter.tell("report_written", line, path=where, wall_seconds=seconds)
    return where


def _remove_stale(workspace: Workspace, reporter: Reporter) -> None:
    """Remove the pages that were drawn from other content, and say so of one that is not drawn again by itself."""
    if derived.EXPLORER in derived.remove_stale(workspace):
        reporter.note(
            f"{derived.EXPLORER} is removed, since it shows what is no longer there: explore draws it again"
        )


def _shown(job: Job, workspace: Workspace) -> str:
    """Return the digest of what a report shows: its section, the stages with what they took, the code that draws."""
    done = workspace.stages()
    shown = [job.job.title, job.model_dump(mode="json", include={"paper", "report"})]
    stages = {
        spec.name: new_digest(dumped(done[spec.name])).hexdigest() for spec in system_of(job).stages(job)
    }
    has_explorer = derived.is_kept(workspace, derived.EXPLORER)
    return digest_of_json([shown, stages, provenance.source_digest(), has_explorer])


def report_job(job: Job) -> str:
    """Write the report of a finished job if it is not there, and return where it is.

    Raises
    ------
    ValueError
        A stage of the job is not done.
    """
    reader = Workspace.open(job.job.workspace)
    _refuse_unfinished(job, reader)
    if derived.is_kept(reader, derived.REPORT, shown=_shown(job, reader)):  # this user may only read it, too
        return reader.path(derived.REPORT)
    with Workspace.create(job.job.workspace, owner=f"report of {job.job.title}") as workspace:
        _refuse_unfinished(job, workspace)
        return _write_report(job, workspace, Silent())


def _refuse_unfinished(job: Job, workspace: Workspace) -> None:
    for standing in standings(job, workspace):
        if not standing.is_done:
            state = f"stage {standing.spec.name} is {state_of(standing, workspace)}"
            raise ValueError(f"there is no report yet: {state}; run the job first")
