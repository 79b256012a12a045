"""The command line: `distembed plan|run|status|verify|report|evaluate|neighbors|export`.

Every command takes a job file or a workspace; those that read vectors take a vector file as well.
Exit codes: 0 done, 1 failed (one sentence says why), 2 the command or the job file is wrong.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

import distembed
from distembed.pipeline.progress import TerminalReporter
from distembed.pipeline.sections import Job, JobError
from distembed.pipeline.terminal import confirmed, neighbor_line, safe_scores, shown, write
from distembed.pipeline.tls import TLS
from distembed.pipeline.trust import code_of
from distembed.pipeline.workers import Workers

DEBUG_VARIABLE = "DISTEMBED_DEBUG"
STOP_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def main() -> None:
    """Run the command line."""
    _stop_on_signals()
    cli(prog_name="distembed")


def _stop_on_signals() -> None:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, so that it gives the lock back and stops its workers."""
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means what it says
            signal.signal(number, _stop)


def _stop(_number: int, _frame: object) -> None:
    # A second one must not interrupt what the first one lets end; Ctrl-C still does.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _one_sentence(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn any failure into one sentence on standard error and an exit code."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            _fail("stopped; nothing finished is lost, run the same command again to go on", code=1)
        except JobError as error:
            _fail(str(error), code=2)
        except Exception as error:
            if os.environ.get(DEBUG_VARIABLE):
                raise
            text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
            expected = isinstance(error, OSError | ValueError | LookupError | ImportError | MemoryError)
            name = "" if expected and text else f"{type(error).__name__}: "
            hint = "" if expected else f" (set {DEBUG_VARIABLE}=1 to see where)"
            _fail(f"{name}{text}{hint}", code=1)

    return wrapped


def _fail(message: str, *, code: int) -> None:
    sentence = " ".join(line.strip() for line in message.splitlines())
    write(f"distembed: {shown(sentence)}", err=True)
    sys.exit(code)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(distembed.__version__)
def cli() -> None:
    """Word and document embeddings by matrix methods, out of core, on Dask and Zarr.

    A job is a TOML file (see jobs/); its workspace holds everything it makes. Stop a run at any time and give the
    same command again: it goes on where it was.
    """


def _job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its job file, or the workspace that records one, and the options that change it."""
    for decorate in (
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="SECTION.KEY=VALUE",
            help="Override one key of the job.",
        ),
        click.option(
            "--workspace", metavar="DIR", help="Override the job's workspace: a folder or an fsspec URL."
        ),
        click.argument("job_file", metavar="JOB"),
    ):
        command = decorate(command)
    return command


def _load(job_file: str, settings: tuple[str, ...], workspace: str | None) -> Job:
    """Return the job in a job file, or the one that a workspace records."""
    from distembed.pipeline.runner import open_job

    try:
        return open_job(job_file, settings=settings, workspace=workspace)
    except FileNotFoundError as error:
        raise JobError(str(error)) from None


@cli.command()
@_job_options
@_one_sentence
def plan(job_file: str, settings: tuple[str, ...], workspace: str | None) -> None:
    """Print what a job would do: tasks, bytes and peak memory of each stage. Nothing is run.

    JOB is a job file, or a workspace, whose own job is taken.
    """
    from distembed.pipeline.runner import plan_job, planned_losses

    job = _load(job_file, settings, workspace)
    lines = plan_job(job)
    write(lines.table())
    for line in code_of(job):
        write(shown(f"{line}: run asks for --allow-code"))
    for line in planned_losses(job):
        write(shown(line))
    for warning in lines.warnings():
        write(f"warning: {warning}")
    lines.check()


@cli.command()
@_job_options
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="tcp://… or tls://… of a Dask scheduler; or threads (default), processes.",
)
@click.option(
    "--workers",
    "n_workers",
    type=click.IntRange(min=1),
    help="Local workers (default: the job's, else one a core).",
)
@click.option("--until", metavar="STAGE", help="Stop when this stage is done.")
@click.option("--allow-code", is_flag=True, help="Let the job call the Python functions that it names.")
@click.option(
    "--replace",
    is_flag=True,
    help="Compute again what changed, also where that was more than a minute of work.",
)
@click.option(
    "--tls-ca-file", type=click.Path(exists=True), help="Certificate authority of a tls:// scheduler."
)
@click.option("--tls-cert", type=click.Path(exists=True), help="This client's certificate.")
@click.option("--tls-key", type=click.Path(exists=True), help="This client's private key.")
@_one_sentence
def run(
    job_file: str,
    settings: tuple[str, ...],
    workspace: str | None,
    scheduler: str | None,
    n_workers: int | None,
    until: str | None,
    allow_code: bool,
    replace: bool,
    tls_ca_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
) -> None:
    """Run a job, or finish one that was stopped.

    JOB is a job file, or a workspace, whose own job is taken. Finished stages are kept unless a parameter or a file
    they were made from has changed.
    """
    from distembed.pipeline.runner import run_job

    job = _load(job_file, settings, workspace)
    reporter = TerminalReporter(Console(soft_wrap=True))
    workers = Workers(
        scheduler=scheduler,
        n_workers=n_workers or job.resources.workers,
        memory_limit=job.resources.memory_limit,
        tls=TLS(ca_file=tls_ca_file, cert=tls_cert, key=tls_key),
    )
    try:
        outcome = run_job(
            job,
            workers=workers,
            reporter=reporter,
            until=until,
            allow_code=allow_code or _confirmed(code_of(job)),
            replace=replace,
            ask=_ask_on_a_terminal,
        )
    finally:
        reporter.close()
    write(outcome.text)


def _confirmed(sentences: list[str]) -> bool:
    """Ask on a terminal whether a job may call the code it names; elsewhere nobody can say yes."""
    return bool(sentences) and confirmed(f"{'; '.join(sentences)}. Allow it?")


def _ask_on_a_terminal(sentence: str) -> bool:
    """Ask whether to go on; where nobody can answer, do not."""
    return confirmed(f"{sentence}. Replace it now?")


@cli.command()
@_job_options
@_one_sentence
def status(job_file: str, settings: tuple[str, ...], workspace: str | None) -> None:
    """Print which stages of a job are done, how far the others are, and who is writing.

    JOB is a job file, or a workspace, whose own job is taken. A stage that a run would compute again says why, and
    the last lines say which versions made the stages that are done.
    """
    from distembed.pipeline.runner import job_status

    write(job_status(_load(job_file, settings, workspace)))


@cli.command()
@_job_options
@_one_sentence
def verify(job_file: str, settings: tuple[str, ...], workspace: str | None) -> None:
    """Check that every stage of a job is committed and every block holds its digest.

    JOB is a job file, or a workspace, whose own job is taken. What is there is judged by the settings it was made
    with; a line tells where the job asks for others. The last line is the digest of all content; it is printed only
    where nothing is missing.
    """
    from distembed.pipeline.runner import planned_losses, verify_job
    from distembed.storage import Workspace

    job = _load(job_file, settings, workspace)
    problems, digest = verify_job(job)
    if writer := Workspace.open(job.job.workspace).writer():
        write(shown(f"being written by {writer}: only what that run has committed was judged"))
    for line in [*problems, *planned_losses(job)]:
        write(shown(line))
    if problems:
        word = "fault" if len(problems) == 1 else "faults"
        _fail(f"{len(problems)} {word}; distembed run {job_file} computes only what is wrong again", code=1)
    write(f"digest {digest}")


@cli.command()
@_job_options
@_one_sentence
def report(job_file: str, settings: tuple[str, ...], workspace: str | None) -> None:
    """Write the HTML report of a finished job and print where it is.

    JOB is a job file, or a workspace, whose own job is taken. A report that fits the workspace is kept.
    """
    from distembed.pipeline.runner import report_job

    write(shown(report_job(_load(job_file, settings, workspace))))


@cli.command()
@click.argument("vectors", nargs=-1, required=True)
@click.option(
    "--sets",
    "sets",
    multiple=True,
    required=True,
    help="A folder or file of evaluation sets; may be repeated.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False), help="Write the scores there as well.")
@click.option("--same-words", is_flag=True, help="Judge several vector files on the words they share.")
@click.option("--max-words", type=click.IntRange(min=1), help="Read only the first N vectors of a file.")
@_one_sentence
def evaluate(
    vectors: tuple[str, ...],
    sets: tuple[str, ...],
    json_file: str | None,
    same_words: bool,
    max_words: int | None,
) -> None:
    """Score word vectors on similarity, analogy, synonym and categorization sets; print one table.

    VECTORS are vector files, workspaces or job files.
    """
    from distembed.evaluation import words as evaluation
    from distembed.pipeline.runner import load_vectors

    files = {path: load_vectors(path, max_words=max_words) for path in vectors}
    scores = evaluation.compare(files, sets, same_words=same_words)
    one = len(scores) == 1
    safe = {shown(path): safe_scores(found) for path, found in scores.items()}
    write(evaluation.format_scores(*safe.values()) if one else evaluation.format_comparison(safe))
    if json_file:
        records = {path: evaluation.score_records(found) for path, found in scores.items()}
        Path(json_file).write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


@cli.command()
@click.argument("vectors")
@click.argument("words", nargs=-1, required=True)
@click.option(
    "-n",
    "n",
    default=10,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many neighbors of each word.",
)
@_one_sentence
def neighbors(vectors: str, words: tuple[str, ...], n: int) -> None:
    """Print the nearest words by cosine. VECTORS is a vector file, a workspace or a job file."""
    from distembed.pipeline.runner import load_vectors

    model = load_vectors(vectors)
    for word in words:
        write(neighbor_line(word, model.most_similar(word, n=n)))


@cli.command()
@click.argument("workspace")
@click.option(
    "--to",
    "target",
    required=True,
    metavar="FILE",
    help="Suffix says the format: .txt .bin .parquet .safetensors (.gz .xz).",
)
@_one_sentence
def export(workspace: str, target: str) -> None:
    """Write the vectors of a finished WORKSPACE, or of that of a job file, to one file that other tools read."""
    from distembed.pipeline.runner import load_vectors

    model = load_vectors(workspace)
    model.save(target)
    write(shown(f"{len(model)} words x {model.vectors.shape[1]} dimensions in {target}"))


if __name__ == "__main__":
    main()
