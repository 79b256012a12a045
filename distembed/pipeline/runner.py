"""Run a job stage by stage, skip what is done and whole, and say what happened."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import fsspec
import tomli_w

import distembed
from distembed.pipeline import systems
from distembed.pipeline.context import Context, StageSpec, makes_only_temporaries, read_vectors
from distembed.pipeline.progress import Reporter, Silent
from distembed.pipeline.quantities import format_bytes, format_seconds
from distembed.pipeline.sections import Job, JobError
from distembed.pipeline.workers import Meter, Workers
from distembed.storage.stage import Stage
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors

if TYPE_CHECKING:
    from distembed.pipeline.plan import Plan

JOB_FILE = "job.toml"
REPORT = "report/index.html"
RECORDED_PACKAGES = ("numpy", "scipy", "numba", "dask", "zarr", "pyarrow")


class Outcome(NamedTuple):
    """What a run did: the stages it ran and skipped, and what to print at its end."""

    ran: tuple[str, ...]
    skipped: tuple[str, ...]
    text: str


def run_job(
    job: Job, *, workers: Workers | None = None, reporter: Reporter | None = None, until: str | None = None
) -> Outcome:
    """Run a job, or finish it; with `until`, stop when that stage is done, and write no report.

    Every stage that is committed with the same parameters and inputs, and whose blocks all hold their digest, is
    skipped; of a stage that was interrupted or damaged, only the missing blocks are made.

    Raises
    ------
    JobError
        The job has no stage `until`.
    MemoryError
        The plan does not fit the memory limit.
    OSError
        The workspace is locked by another run, or cannot be written.
    """
    reporter = reporter or Silent()
    system, plan = systems.of(job), plan_job(job)
    specs = _stages_until(until, system.stages)
    names = {spec.name for spec in specs}
    plan.check(names)
    workers = workers or Workers()
    for warning in (*plan.warnings(names), *workers.warnings(plan.process_bytes)):
        reporter.note(f"warning: {warning}")
    with Workspace.create(job.job.workspace, owner=job.job.title) as workspace, workers as crew:
        _record(job, workspace)
        ran = [
            spec.name
            for spec in specs
            if _run_stage(spec, Context(job, workspace, _open(spec, job, workspace), reporter, crew))
        ]
        reporter.close()
        if len(specs) < len(system.stages):
            text = f"stopped after {specs[-1].name}; the same command without --until goes on"
        else:
            where = _write_report(job, workspace) if ran else _existing_report(job, workspace)
            text = system.closing_text(job, workspace, where)
    if not ran:
        text = f"nothing to do: all {len(specs)} stages were done before, and every block holds its digest\n\n{text}"
    return Outcome(tuple(ran), tuple(s.name for s in specs if s.name not in ran), text)


def _stages_until(until: str | None, stages: tuple[StageSpec, ...]) -> tuple[StageSpec, ...]:
    names = [spec.name for spec in stages]
    if until is None:
        return stages
    if until not in names:
        raise JobError(f"the job has no stage {until!r}; its stages are {', '.join(names)}")
    return stages[: names.index(until) + 1]


def _run_stage(spec: StageSpec, context: Context) -> bool:
    """Run a stage unless it is done and whole; tell whether it ran."""
    stage, reporter = context.stage, context.reporter
    if stage.is_committed:
        damaged = stage.damaged_blocks()
        if not damaged:
            return False
        reporter.note(f"{spec.name}: {len(damaged)} damaged or missing, made anew")
        stage.reopen(damaged)
    plan_job(context.job).check({spec.name})  # by what earlier stages have counted
    context.workers.start()
    with context.workers.watched(spec.name, reporter.note), Meter(context.workers) as meter:
        _restore_inputs(spec, context)
        facts = spec.run(context)
    reporter.close()
    spent = meter.spent
    stage.commit({**facts, **spent._asdict()})
    for name in spec.inputs:
        context.workspace.drop_temporary(name)
    reporter.note(f"{spec.name:<16}{_spent(spent._asdict())}")
    return True


def _restore_inputs(spec: StageSpec, context: Context) -> None:
    """Make the temporary outputs of input stages again where they were dropped and are needed once more."""
    done = context.workspace.stages()
    for needed in systems.of(context.job).stages:
        if needed.name in spec.inputs and makes_only_temporaries(done[needed.name]):
            stage = _open(needed, context.job, context.workspace)
            facts = done[needed.name].facts
            if any(output.dropped for output in done[needed.name].outputs.values()):
                stage.reopen([])
                needed.run(context._replace(stage=stage))
                stage.commit(facts)


def _spent(facts: dict[str, Any]) -> str:
    return (
        f"{format_seconds(facts['wall_seconds']):>10}   peak {format_bytes(facts['peak_process_bytes'])} a process, "
        f"{format_bytes(facts['peak_total_bytes'])} together"
    )


def _open(spec: StageSpec, job: Job, workspace: Workspace) -> Stage:
    done = workspace.stages()
    inputs = {name: done[name].fingerprint for name in spec.inputs}
    return workspace.stage(spec.name, parameters=spec.parameters(job), inputs=inputs)


def _record(job: Job, workspace: Workspace) -> None:
    """Write the job as it is run, defaults resolved, with the versions that decide its bits."""
    versions = {name: version(name) for name in RECORDED_PACKAGES}
    record = {
        **job.model_dump(mode="json", exclude_none=True),
        "made_with": {
            "distembed": distembed.__version__,
            "python": platform.python_version(),
            "processor": platform.processor() or platform.machine(),
            **versions,
        },
    }
    with fsspec.open(workspace.path(JOB_FILE), "w", encoding="utf-8") as file:
        file.write(tomli_w.dumps(record))


def plan_job(job: Job) -> Plan:
    """Return what a job would take; sizes that committed stages know are exact."""
    return systems.of(job).plan(job, _existing(job))


def job_status(job: Job) -> str:
    """Return a line for each stage: done with its time and memory, or not finished."""
    workspace = _existing(job)
    if workspace is None:
        return f"{job.job.workspace}: nothing there yet; type: distembed run"
    done = workspace.stages()
    owner = workspace.writer()
    lines = [f"{workspace.url}: {f'being written by {owner}' if owner else 'no run is writing'}"]
    for spec in systems.of(job).stages:
        manifest = done.get(spec.name)
        lines.append(f"  {spec.name:<16}{_spent(dict(manifest.facts)) if manifest else 'not finished'}")
    return "\n".join(lines)


def verify_job(job: Job) -> tuple[list[str], str]:
    """Return a sentence for each damaged, missing or unexpected file, and the digest of all content."""
    workspace = Workspace.open(job.job.workspace)
    problems = workspace.verify()
    sentences = [
        f"{p.file}: {p.what} (stage {p.stage}, output {p.output}, block {p.block})" for p in problems
    ]
    # a job whose stages differ from run to run leaves others' stages where they are
    stages = [spec.name for spec in systems.of(job).stages]
    return sentences, "" if problems else workspace.digest(stages)


def _write_report(job: Job, workspace: Workspace) -> str:
    """Write the report of a finished workspace as one HTML file; return where it is."""
    target = workspace.path(REPORT)
    page = systems.of(job).page(job, workspace)  # before the last report is opened for writing, and so lost
    with fsspec.open(target, "w", encoding="utf-8", auto_mkdir=True) as file:
        file.write(page)
    return str(target)


def _existing_report(job: Job, workspace: Workspace) -> str:
    """Return where the report is; write it if it is not there."""
    target = workspace.path(REPORT)
    fs, path = fsspec.url_to_fs(target)
    return target if fs.exists(path) else _write_report(job, workspace)


def report_job(job: Job) -> str:
    """Write the report of a workspace and return where it is."""
    return _write_report(job, Workspace.open(job.job.workspace))


def load_vectors(source: str, *, max_words: int | None = None) -> WordVectors:
    """Read word vectors from a vector file or from a workspace."""
    if not Workspace.exists(source):
        return WordVectors.load(source, max_words=max_words)
    vectors = read_vectors(Workspace.open(source))
    return vectors if max_words is None else vectors.head(max_words)


def _existing(job: Job) -> Workspace | None:
    return Workspace.open(job.job.workspace) if Workspace.exists(job.job.workspace) else None
