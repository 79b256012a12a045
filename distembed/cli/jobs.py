"""The commands on a job: `distembed plan|run|status|verify`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from distembed.cli.command_line import JOB, command, flag, job_options, number, option
from distembed.cli.failures import EMPTY_CODE, ending, fail
from distembed.display import plural
from distembed.execution import uncollected
from distembed.files import failures_told
from distembed.job.opening import code_of, open_job, workspace_of
from distembed.job.plan import check_inputs
from distembed.job.progress import (
    WARNING,
    EventReporter,
    QuietReporter,
    Reporter,
    TerminalReporter,
    warnings_noted,
)
from distembed.job.provenance import made_with
from distembed.job.run import plan_small, run_stages
from distembed.job.state import EMPTY, FINISHED, UNFINISHED, losses, stage_states, unread
from distembed.job.status import status_record, status_text, verify_job
from distembed.job.terminal import confirmed, shown, write
from distembed.job.workers import Workers
from distembed.stopping import STOPPED
from distembed.storage.workspace import Workspace


@contextmanager
def terminal_reporter(*, display: str | None = None) -> Iterator[Reporter]:
    """Yield what shows progress and warnings: on the terminal, or as `display` asks; it is told of a failure, too."""
    kinds: dict[str | None, type[Reporter]] = {"json": EventReporter, "quiet": QuietReporter}
    reporter = kinds[display]() if display in kinds else TerminalReporter(Console(soft_wrap=True))
    try:
        with closing(reporter), warnings_noted(reporter):
            yield reporter
    except (Exception, KeyboardInterrupt) as error:
        message, code = ending(error)
        reporter.tell("run_stopped" if code == STOPPED else "run_failed", message=message, exit_code=code)
        raise


@command(
    "distembed plan job.toml",
    "distembed plan job.toml --set psdvec.n_components=300",
    "distembed plan job.toml --sample part.txt --bytes 2TB --tokens 3.4e11",
    "distembed plan job.toml --json",
)
@job_options
@option("--bytes n_bytes", "Plan for files of this size together, such as 2TB or 25GiB.", metavar="SIZE")
@option("--tokens", "Plan for this number of tokens, such as 2e12.", metavar="N")
@option(
    "--sample",
    "Text like that of the corpus, read in its place if it is not here. May be repeated.",
    multiple=True,
    metavar="FILE",
)
@flag("--json as_json", "Print one JSON object.")
def plan(
    n_bytes: str | None,
    tokens: str | None,
    sample: tuple[str, ...],
    *,
    as_json: bool,
    **at: Any,
) -> None:
    """Print the bytes and peak memory of each stage.

    The command writes nothing to the workspace. It opens and checks the inputs of all stages that a run would compute,
    and lists how it understands each. It reads and counts a text of at most 1 MiB, so that its plan is exact.

    If the corpus is not here, or not yet whole, give a sample of its text and its size (see the examples).

    JOB is a job file or a workspace. Of a workspace the command takes the recorded job, and reads no input.
    """
    large = {
        "plan.bytes": n_bytes and json.dumps(n_bytes),
        "plan.tokens": tokens,
        "corpus.paths": sample and json.dumps([str(Path(file).absolute()) for file in sample]),
    }
    at["settings"] += tuple(f"{key}={value}" for key, value in large.items() if value)
    with uncollected():
        job = open_job(**at)
        with failures_told(job.job.workspace):
            place = workspace_of(job)
            states = stage_states(job, place)
        planned = plan_small(job, states, place)
        if not as_json:
            if all(state.is_complete for state in states):
                write(f"nothing is left to do: all {len(states)} stages are done")
            write(planned.table())
        notes = [*check_inputs(job, states), *(f"{line}: run asks for --allow-code" for line in code_of(job))]
        notes += [loss.line for loss in losses(states, place, made_with())]
    if as_json:
        write(json.dumps(planned.record(states, notes), indent=1))
    else:
        for line in (*notes, *(f"{WARNING}{text}" for text in planned.warnings())):
            write(shown(line))
    planned.check()


@command(
    "distembed run job.toml",
    "distembed run job.toml --set psdvec.n_components=50 --workspace runs/50",
    "distembed run job.toml --until cooccurrence --workers 4",
    "distembed run job.toml --scheduler tcp://10.0.0.1:8786",
)
@job_options
@option(
    "--scheduler",
    "tcp://… or tls://… of a Dask scheduler; or threads (default), processes.",
    metavar="ADDRESS",
)
@number("--workers n_workers", "Local workers (default: the job's, else one per core).")
@option("--until", "Stop when this stage is done.", metavar="STAGE")
@flag("--allow-code", "Let the job call the Python functions that it names.")
@flag("--replace", "Compute again what changed, also where that was more than a minute of work.")
@option(
    "--json display",
    "Print one JSON event per line: stages begun and committed, progress, the end.",
    flag_value="json",
)
@option("--quiet display", "Print warnings and failures only.", flag_value="quiet")
@option("--tls-ca-file ca_file", "Certificate authority of a tls:// scheduler.", type=click.Path(exists=True))
@option("--tls-cert cert", "This client's certificate.", type=click.Path(exists=True))
@option("--tls-key key", "This client's private key.", type=click.Path(exists=True))
def run(
    *,
    allow_code: bool,
    replace: bool,
    until: str | None,
    display: str | None,
    scheduler: str | None,
    **how: Any,
) -> None:
    """Run a job, or finish one that was stopped.

    JOB is a job file or a workspace. Of a workspace the command takes the recorded job, and reads no input. It keeps
    finished stages, unless a parameter or a file that they depend on has changed. The exit code is 0 after success, 1
    after a failure, 2 if another try would fail too, and 3 if the run was stopped and the same command continues it.
    """
    with terminal_reporter(display=display) as reporter:
        job = open_job(**{name: how.pop(name) for name in JOB})
        code, n = code_of(job), how.pop("n_workers") or job.resources.workers
        outcome = run_stages(
            job,
            workers=Workers(
                scheduler=scheduler, n_workers=n, memory_limit=job.resources.memory_limit, tls=how
            ),
            reporter=reporter,
            until=until,
            # Where nobody can answer, no is the answer to both questions.
            allow_code=allow_code or (bool(code) and confirmed(f"{'; '.join(code)}. Allow it?")),
            replace=replace,
            ask=lambda sentence: confirmed(f"{sentence}. Replace it now?"),
        )
        reporter.tell("run_finished", ran=list(outcome.ran), skipped=list(outcome.skipped), exit_code=0)
    if display not in {"json", "quiet"}:
        write(outcome.text)


@command(
    "distembed status job.toml",
    "distembed status runs/psdvec",
    "distembed status job.toml --json",
)
@job_options
@flag("--json as_json", "Print one JSON object, with figures and scores.")
@flag("--verbose", "Print memory, arrays and versions as well.")
def status(*, as_json: bool, verbose: bool, **at: Any) -> None:
    """Print which stages of a job are done, and how far others are.

    The command also says which run is writing, and why a run would compute a stage again. JOB is a job file or a
    workspace. The exit code is 0 if the job is finished, 3 if it is not, and 4 if nothing has begun; 1 and 2 are
    failures of the command itself.
    """
    record = status_record(open_job(**at))
    again = _again(**at)
    write(json.dumps(record, indent=1) if as_json else status_text(record, command=again, verbose=verbose))
    sys.exit(STATUS_CODES[record["state"]])


def _again(text: str, settings: Sequence[str], workspace: str | None) -> str:
    """Return the command that runs a job with the same options."""
    given = [option for setting in settings for option in ("--set", setting)]
    return shlex.join(["distembed", "run", text, *given, *(["--workspace", workspace] if workspace else [])])


STATUS_CODES = {FINISHED: 0, UNFINISHED: STOPPED, EMPTY: EMPTY_CODE}


@command(
    "distembed verify job.toml",
    "distembed verify runs/psdvec",
)
@job_options
def verify(**at: Any) -> None:
    """Check that every block of a job has its digest.

    The command also checks that every stage is finished. JOB is a job file or a workspace. If the settings of the job
    have changed since the results were made, a line says so. The last line is the digest of all results; the command
    prints it only if nothing is missing or damaged.
    """
    job = open_job(**at)
    place = Workspace.open(job.job.workspace)
    writing = place.writer()
    problems, digest = verify_job(job)
    if writer := writing or place.writer():  # a run may have ended meanwhile, or begun
        write(shown(f"being written by {writer}: only what that run has committed was judged"))
    lost = losses(stage_states(job, place, look=unread), place, made_with())
    for line in [*problems, *(loss.line for loss in lost)]:
        write(shown(line))
    if problems:
        fail(f"{plural(len(problems), 'fault')}; {_again(**at)} computes only what is wrong again", code=1)
    write(f"digest {digest}")
