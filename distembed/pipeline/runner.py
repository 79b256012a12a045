"""Runs a job stage by stage, skips the stages that are complete, and reports what happened."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import tomli_w

from distembed.execution import Listener, heard_by
from distembed.files import failures_told
from distembed.pipeline import provenance
from distembed.pipeline.config import load_job, parse_job
from distembed.pipeline.context import (
    Context,
    Counted,
    StageSpec,
    System,
    makes_only_temporaries,
    read_vectors,
)
from distembed.pipeline.explorer import kept
from distembed.pipeline.inputs import recorded_bytes, stamps_at
from distembed.pipeline.plan import Plan
from distembed.pipeline.progress import Reporter, Silent
from distembed.pipeline.quantities import format_bytes, format_seconds
from distembed.pipeline.registry import system_of
from distembed.pipeline.sections import Job, JobError
from distembed.pipeline.standing import (
    ReplaceError,
    Standing,
    loss_lines,
    losses,
    refusal,
    seconds_of,
    standings,
)
from distembed.pipeline.stores import use_storage_options
from distembed.pipeline.terminal import shown
from distembed.pipeline.trust import check_code
from distembed.pipeline.workers import Meter, Workers
from distembed.spelling import did_you_mean
from distembed.storage.schema import StageManifest, digest_of_json, manifest_to_json, new_digest, seal
from distembed.storage.stage import Stage
from distembed.storage.workspace import Workspace

if TYPE_CHECKING:
    from distembed.vectors import WordVectors

JOB_FILE = "job.toml"
REPORT = "report/index.html"
REPORT_SEAL = "report/index.json"
"""What the report was made from and its digest, written after it: a report without it is not kept."""


class Outcome(NamedTuple):
    """The result of a run: the stages it ran and skipped, and the text to print at its end."""

    ran: tuple[str, ...]
    skipped: tuple[str, ...]
    text: str


class Run(NamedTuple):
    """The data that all stages of a run share; `standings` are of every stage that it runs or skips.

    The plan is checked as a whole before the first stage, or after the one that `planned_after` names.
    """

    job: Job
    workspace: Workspace
    reporter: Reporter
    crew: Workers
    standings: Mapping[str, Standing]
    planned_after: str = ""


def open_job(source: str, *, settings: tuple[str, ...] = (), workspace: str | None = None) -> Job:
    """Return the job in a job file, or the one that a workspace records.

    Raises
    ------
    JobError, FileNotFoundError
        As `load_job`; a workspace may also hold no job.
    """
    if not Workspace.exists(source):
        _refuse_folder(source)
        return _reached(load_job(source, settings=settings, workspace=workspace))
    place = Workspace.open(source)
    text = place.read_file(JOB_FILE)
    if text is None:
        raise FileNotFoundError(f"the workspace {place.url} records no job: name the job file")
    job = parse_job(
        text.decode(),
        name=place.path(JOB_FILE),
        folder=Path(),
        settings=settings,
        workspace=workspace or place.url,
    )
    return _reached(job)


def _reached(job: Job) -> Job:
    """Return a job after its object stores can be reached."""
    use_storage_options(job.resources.storage_options)
    return job


def run_job(
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
    reporter = reporter or Silent()
    check_code(job, allow_code=allow_code)
    _reached(job)
    system, workers = system_of(job), workers or Workers()
    specs = _stages_until(until, system.stages(job))
    planned_after = _plan_ahead(job, specs, workers, reporter)
    with failures_told(job.job.workspace), _writing(job, reporter) as workspace, workers as crew:
        reporter.note(f"workspace {workspace.url}")
        found = [_with_damage(standing, workspace) for standing in standings(job, specs, workspace)]
        every = {standing.spec.name: standing for standing in found}
        run = Run(job, workspace, reporter, crew, every, planned_after)
        if not all(standing.is_kept for standing in found):
            crew.start()
        for line in check_inputs(job, found):
            reporter.note(line)
        _check_losses(run, (lambda _: True) if replace else ask)
        ran = [standing.spec.name for standing in found if _run_stage(standing, run)]
        reporter.close()
        text = _closing_text(run, system, until=until)
    if not ran:
        text = f"nothing to do: all {len(specs)} stages were done before, and every block holds its digest\n\n{text}"
    return Outcome(tuple(ran), tuple(s.name for s in specs if s.name not in ran), text)


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


def _plan_ahead(job: Job, specs: Sequence[StageSpec], workers: Workers, reporter: Reporter) -> str:
    """Plan what is to be computed, and refuse what cannot fit, or return the stage after which it is to be planned.

    Nothing is planned where every stage is done.
    """
    with failures_told(job.job.workspace):
        todo = [standing for standing in standings(job, specs, _existing(job)) if not standing.is_done]
    if not todo:
        return ""
    first = todo[0]
    if recorded_bytes(first.parameters) <= first.spec.counted_first_bytes:
        check_inputs(job, [first])
        return first.spec.name
    _check_plan(plan_job(job), {spec.name for spec in specs}, workers, reporter)
    return ""


def _check_plan(plan: Plan, names: Collection[str], workers: Workers, reporter: Reporter) -> None:
    """Refuse a plan of which a stage cannot fit, and say what by its estimates may not."""
    plan.check(names)
    for warning in (*plan.warnings(names), *workers.warnings(plan.process_bytes)):
        reporter.note(f"warning: {warning}")


def _with_damage(standing: Standing, workspace: Workspace) -> Standing:
    """Read every file of a finished stage, and record the files that do not match their digest."""
    if not standing.is_done:
        return standing
    stage = workspace.stage(standing.spec.name, parameters=standing.parameters, inputs=standing.inputs)
    return standing._replace(damaged=tuple(stage.damaged_blocks()))


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
    return check_inputs(job, standings(job, system_of(job).stages(job), _existing(job)))


def _check_losses(run: Run, ask: Callable[[str], bool] | None) -> None:
    """Report what this run replaces, and continue only if that is little or was asked for."""
    made_with = provenance.made_with(run.crew.client)
    every = list(run.standings.values())
    _note_other_versions(run, made_with)
    if mixed := provenance.kinds(made_with):
        run.reporter.note(mixed)
    lost = losses(every, run.workspace, made_with)
    for line in loss_lines(lost):
        run.reporter.note(line)
    sentence = refusal(lost)
    if sentence and not (ask is not None and ask(sentence)):
        raise ReplaceError(sentence)


def _note_other_versions(run: Run, made_with: Mapping[str, str]) -> None:
    """Report the stages that were made with other versions; they are kept."""
    by_difference: dict[str, list[str]] = {}
    for name, standing in run.standings.items():
        if standing.is_kept and standing.before is not None:
            words = provenance.differences(standing.before.made_with, made_with)
            by_difference.setdefault(words, []).append(name)
    for words, names in by_difference.items():
        if words:
            run.reporter.note(f"kept, though made with other versions: {', '.join(names)} ({words})")


# --- the stages ----------------------------------------------------------------------------------------------


def _run_stage(standing: Standing, run: Run) -> bool:
    """Run a stage unless it is complete; return whether it ran."""
    spec, workspace, reporter = standing.spec, run.workspace, run.reporter
    stage = _open(standing, run)
    if stage.is_committed and not standing.damaged:
        return False
    _record(run.job, workspace)
    if stage.is_committed:
        reporter.note(f"{spec.name}: {len(standing.damaged)} damaged or missing, computed again")
        stage.reopen(standing.damaged)
    if spec.name != run.planned_after:
        plan = _plan_of_run(run)
        plan.check({spec.name})  # by what earlier stages have counted
        run.crew.check_memory(spec.name, plan.worker_bytes(spec.name))
    context = Context(run.job, workspace, stage, reporter, run.crew)
    with (
        run.crew.watched(spec.name, reporter.note),
        Meter(run.crew) as meter,
        heard_by(_rounds_of(spec, run)),
    ):
        _restore_inputs(spec, run)
        facts = spec.run(context)
    reporter.close()
    spent = meter.spent._asdict()
    stage.commit({**facts, **spent, **_earlier_work(standing)})
    workspace.remove_file(REPORT_SEAL)
    workspace.remove_file(REPORT)
    for name in spec.inputs:
        workspace.drop_temporary(name)
    reporter.note(f"{spec.name:<16}{_spent(spent)}")
    run.crew.give_memory_back()
    later = run.standings.keys() - {spec.name}
    if later and spec.name == run.planned_after:
        _check_plan(_plan_of_run(run), later, run.crew, reporter)
    return True


def _rounds_of(spec: StageSpec, run: Run) -> Listener:
    """Return what shows the rounds that a stage reports."""
    return lambda what, done, total: run.reporter.advance(spec.name, done, total, unit=what)


def _earlier_work(standing: Standing) -> dict[str, float]:
    """Return the seconds of work that a resumed or repaired stage kept, as a fact beside its wall time."""
    before = standing.before
    if before is None or before.fingerprint != standing.fingerprint:
        return {}
    return {"earlier_seconds": round(seconds_of(before), 3)}


def _restore_inputs(spec: StageSpec, run: Run) -> None:
    """Compute the temporary outputs of input stages again if they were dropped and are needed."""
    done = run.workspace.stages()
    for name in spec.inputs:
        dropped = any(output.dropped for output in done[name].outputs.values())
        if dropped and makes_only_temporaries(done[name]):
            needed = run.standings[name]
            stage = _open(needed, run)
            stage.reopen([])
            needed.spec.run(Context(run.job, run.workspace, stage, run.reporter, run.crew))
            stage.commit(done[name].facts)


def _spent(facts: Mapping[str, Any]) -> str:
    return (
        f"{format_seconds(facts['wall_seconds']):>10}   peak {format_bytes(facts['peak_process_bytes'])} per process, "
        f"{format_bytes(facts['peak_total_bytes'])} together"
    )


def _open(standing: Standing, run: Run) -> Stage:
    return run.workspace.stage(
        standing.spec.name,
        parameters=standing.parameters,
        inputs=standing.inputs,
        made_with=provenance.made_with(run.crew.client),
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
    if "://" in run.workspace.url and run.job.resources.storage_options:
        where += " (commands reach it by the job file, which says how, in place of this URL)"
    if len(run.standings) < len(system.stages(run.job)):
        return f"stopped after {until}; the same command without --until goes on\n{where}"
    report = _write_report(run.job, run.workspace, run.reporter)
    return f"{system.closing_text(run.job, run.workspace, report)}\n{where}"


def _write_report(job: Job, workspace: Workspace, reporter: Reporter) -> str:
    """Write the report of a finished workspace as one HTML file, unless it is there and whole; return its place."""
    if not _has_report(job, workspace):
        began = time.perf_counter()
        reporter.note("report: drawing the figures and tables")
        page = system_of(job).page(job, workspace).encode()
        _record(job, workspace)
        workspace.write_file(REPORT, page)
        workspace.write_file(REPORT_SEAL, _report_seal(_made_from(job, workspace), page))
        reporter.note(f"{'report':<16}{format_seconds(time.perf_counter() - began):>10}")
    return workspace.path(REPORT)


def _has_report(job: Job, workspace: Workspace) -> bool:
    """Return whether the report of a finished workspace is there and whole."""
    page = workspace.read_file(REPORT)
    return page is not None and workspace.read_file(REPORT_SEAL) == _report_seal(
        _made_from(job, workspace), page
    )


def _made_from(job: Job, workspace: Workspace) -> str:
    """Return the digest of what a report shows: its section, the stages with what they took, the code that draws."""
    done = workspace.stages()
    shown = [job.job.title, job.report.model_dump(mode="json")]
    stages = {
        spec.name: digest_of_json(manifest_to_json(done[spec.name])) for spec in system_of(job).stages(job)
    }
    return digest_of_json([shown, stages, provenance.source_digest(), kept.is_kept(workspace)])


def _report_seal(made_from: str, page: bytes) -> bytes:
    return seal({"made_from": made_from, "content": new_digest(page).hexdigest()})


def report_job(job: Job, *, reporter: Reporter | None = None) -> str:
    """Write the report of a finished job if it is not there, and return where it is.

    Raises
    ------
    ValueError
        A stage of the job is not done.
    """
    reader = Workspace.open(job.job.workspace)
    _refuse_unfinished(job, reader)
    if _has_report(job, reader):  # of a workspace that this user may only read, too
        return reader.path(REPORT)
    with Workspace.create(job.job.workspace, owner=f"report of {job.job.title}") as workspace:
        _refuse_unfinished(job, workspace)
        return _write_report(job, workspace, reporter or Silent())


def _refuse_unfinished(job: Job, workspace: Workspace) -> None:
    for standing in standings(job, system_of(job).stages(job), workspace):
        if not standing.is_done:
            state = f"stage {standing.spec.name} is {_state(standing, workspace)}"
            raise ValueError(f"there is no report yet: {state}; run the job first")


# --- looking at a workspace ----------------------------------------------------------------------------------


def plan_job(job: Job) -> Plan:
    """Return the resources that a job needs; the sizes that committed stages know are exact."""
    with failures_told(job.job.workspace):
        return _planner(system_of(job), _existing(job))(job)


def _planner(system: System, workspace: Workspace | None) -> Callable[[Job], Plan]:
    """Return what plans the jobs of a system; it looks at each input once, however many it plans."""
    look = cache(stamps_at)

    def planned(job: Job) -> Plan:
        found = standings(job, system.stages(job), workspace, look=look)
        done = {s.spec.name: s.before for s in found if s.is_done and isinstance(s.before, StageManifest)}
        counted = Counted(workspace, done) if workspace is not None and done else None
        return system.plan(job, counted)._replace(done=frozenset(done), again=planned)

    return planned


def _plan_of_run(run: Run) -> Plan:
    """Return the plan of a job that is running, by what its stages have counted so far."""
    system, found = system_of(run.job), run.workspace.stages()
    done = {
        name: found[name]
        for name, standing in run.standings.items()
        if name in found and found[name].fingerprint == standing.fingerprint
    }
    plan = system.plan(run.job, Counted(run.workspace, done) if done else None)
    return plan._replace(again=_planner(system, run.workspace))


def planned_losses(job: Job) -> list[str]:
    """Return a line for each finished stage that a run of the job would compute again: why, and what it took."""
    workspace = _existing(job)
    if workspace is None:
        return []
    found = standings(job, system_of(job).stages(job), workspace)
    return loss_lines(losses(found, workspace, provenance.made_with()))


def job_status(job: Job, *, command: str = "distembed run JOB") -> str:
    """Return one line per stage: finished with its time and memory, its progress, or why it is computed again.

    `command` is what runs the job: where there is no workspace yet, the line says to type it.
    """
    workspace = _existing(job)
    if workspace is None:
        return f"{job.job.workspace}: nothing there yet; type: {command}"
    owner = workspace.writer()
    lines = [shown(f"{workspace.url}: {f'being written by {owner}' if owner else 'no run is writing'}")]
    found = standings(job, system_of(job).stages(job), workspace)
    lines += [shown(f"  {standing.spec.name:<16}{_state(standing, workspace)}") for standing in found]
    return "\n".join([*lines, *map(shown, _provenance_lines(found))])


def _state(standing: Standing, workspace: Workspace) -> str:
    if standing.is_done and isinstance(standing.before, StageManifest):
        return _spent(standing.before.facts) + _kept(standing.before)
    if standing.changes:
        state = "outdated" if isinstance(standing.before, StageManifest) else "not finished"
        return f"{state}: will be computed again because {standing.why}"
    if standing.before is None:
        return "not finished: not begun"
    progress = workspace.progress(standing.spec.name)
    parts = (f"{name} {done} of {n} blocks" for name, (done, n) in progress.items())
    return f"not finished: {', '.join(parts) or 'begun'}"


def _kept(manifest: StageManifest) -> str:
    """Return the arrays that a stage keeps, with the bytes of each on disk."""
    sizes = {
        name: sum(file.size for block in record.blocks for file in block.files.values())
        for name, record in manifest.outputs.items()
        if record.spec.is_array and not (record.dropped or record.spec.temporary)
    }
    shown = ", ".join(f"{name} {format_bytes(size)}" for name, size in sizes.items())
    return f"; keeps {shown}" if shown else ""


def _provenance_lines(found: Sequence[Standing]) -> list[str]:
    """Return the versions that made the finished stages, one line per set of versions."""
    stages: dict[str, list[str]] = {}
    for standing in found:
        if standing.is_done and standing.before is not None:
            words = ", ".join(f"{key} {value}" for key, value in standing.before.made_with.items())
            stages.setdefault(words or "versions that were not recorded", []).append(standing.spec.name)
    return [f"{', '.join(names)}: made with {words}" for words, names in stages.items()]


def verify_job(job: Job) -> tuple[list[str], str]:
    """Return a sentence for each stage not committed and each bad file, and the digest of all content if there is none.

    What is on disk is judged, by the settings it was made with: `planned_losses` tells where the job asks for others.
    """
    workspace = Workspace.open(job.job.workspace)
    sentences = [
        f"{p.file}: {p.what} (stage {p.stage}, output {p.output}, block {p.block})"
        for p in workspace.verify()
    ]
    # a job whose stages differ from run to run leaves others' stages where they are
    specs, done = system_of(job).stages(job), workspace.stages()
    sentences += [sentence for spec in specs if (sentence := _uncommitted(spec, done))]
    return sentences, "" if sentences else workspace.digest(spec.name for spec in specs)


def _uncommitted(spec: StageSpec, done: Mapping[str, StageManifest]) -> str:
    """Return why a stage does not count as committed, "" where it does."""
    if spec.name not in done:
        return f"stage {spec.name} is not committed: it has no manifest"
    for name, known in done[spec.name].inputs.items():
        if name in done and done[name].fingerprint != known:
            return f"stage {spec.name} depends on a stage {name} that was replaced"
    return ""


def load_vectors(source: str, *, max_words: int | None = None) -> WordVectors:
    """Read word vectors from a vector file, from a workspace, or from the workspace of a job file."""
    if source.endswith(".toml"):
        source = load_job(source).job.workspace
    if not Workspace.exists(source):
        from distembed.vectors import WordVectors  # noqa: PLC0415 - only who reads vectors waits for it

        _refuse_folder(source)
        return WordVectors.load(source, max_words=max_words)
    vectors = read_vectors(Workspace.open(source))
    return vectors if max_words is None else vectors.head(max_words)


def _refuse_folder(source: str) -> None:
    """Refuse a folder that is no workspace, and name the workspace or the job file in it.

    Raises
    ------
    IsADirectoryError
        The folder is local and holds neither words nor the records of a job.
    """
    folder = Path(source)
    if not folder.is_dir():
        return
    inside = [path for path in sorted(folder.iterdir()) if path.is_dir() and Workspace.exists(str(path))]
    nearest = [str(path) for path in [*inside, *sorted(folder.glob("*.toml"))]]
    advice = did_you_mean(nearest[:1], otherwise="name a vector file, a workspace or a job file")
    raise IsADirectoryError(f"{source} is a folder and no workspace; {advice}")


def _existing(job: Job) -> Workspace | None:
    return Workspace.open(job.job.workspace) if Workspace.exists(job.job.workspace) else None
