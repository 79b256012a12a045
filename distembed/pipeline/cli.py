"""The command line: `distembed plan|run|status|verify|report|evaluate|neighbors|export`.

Exit codes: 0 done, 1 failed (one sentence says why), 2 the command or the job file is wrong.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

import distembed
from distembed.pipeline.config import load_job
from distembed.pipeline.progress import TerminalReporter
from distembed.pipeline.sections import Job, JobError
from distembed.pipeline.workers import TLS, Workers

DEBUG_VARIABLE = "DISTEMBED_DEBUG"


def main() -> None:
    """Run the command line."""
    cli(prog_name="distembed")


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
    click.echo(f"distembed: {message}", err=True)
    sys.exit(code)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(distembed.__version__)
def cli() -> None:
    """Word and document embeddings by matrix methods, out of core, on Dask and Zarr.

    A job is a TOML file (see jobs/); its workspace holds everything it makes. Stop a run at any time and give the
    same command again: it goes on where it was.
    """


def _job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its job file and the options that change it."""
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
        click.argument("job_file", metavar="JOB", type=click.Path(dir_okay=False)),
    ):
        command = decorate(command)
    return command


def _load(job_file: str, settings: tuple[str, ...], workspace: str | None) -> Job:
    try:
        return load_job(job_file, settings=settings, workspace=workspace)
    except FileNotFoundError as error:
        raise JobError(str(error)) from None


@cli.command()
@_job_options
@_one_sentence
def plan(job_file: str, settings: tuple[str, ...], workspace: str | None) -> None:
    """Print what a job would do: tasks, bytes and peak memory of each stage. Nothing is run."""
    from distembed.pipeline.runner import plan_job

    job = _load(job_file, settings, workspace)
    lines = plan_job(job)
    click.echo(lines.table())
    for warning in lines.warnings():
        click.echo(f"warning: {warning}")
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
    tls_ca_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
) -> None:
    """Run a job, or finish one that was stopped."""
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
        outcome = run_job(job, workers=workers, reporter=reporter, until=until)
    finally:
        reporter.close()
    click.echo(outcome.text)


@cli.command()
@_job_options
@_one_sentence
def status(job_file: str, settings: tuple[str, ...], workspace: str | None) -> None:
    """Say which stages of a job are done, how far the others are, and who is writing."""
    from distembed.pipeline.runner import job_status

    click.echo(job_status(_load(job_file, settings, workspace)))


@cli.command()
@_job_options
@_one_sentence
def verify(job_file: str, settings: tuple[str, ...], workspace: str | None) -> None:
    """Check every block of a workspace against its digest; the last line is the digest of all content."""
    from distembed.pipeline.runner import verify_job

    problems, digest = verify_job(_load(job_file, settings, workspace))
    for problem in problems:
        click.echo(problem)
    if problems:
        _fail(f"{len(problems)} damaged; distembed run {job_file} makes only these anew", code=1)
    click.echo(f"digest {digest}")


@cli.command()
@_job_options
@_one_sentence
def report(job_file: str, settings: tuple[str, ...], workspace: str | None) -> None:
    """Write the HTML report of a finished job again and print where it is."""
    from distembed.pipeline.runner import report_job

    click.echo(report_job(_load(job_file, settings, workspace)))


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
    """Score word vectors on similarity, analogy, synonym and categorisation sets; print one table."""
    from distembed.evaluation import words as evaluation
    from distembed.pipeline.runner import load_vectors

    files = {path: load_vectors(path, max_words=max_words) for path in vectors}
    scores = evaluation.compare(files, sets, same_words=same_words)
    one = len(scores) == 1
    click.echo(evaluation.format_scores(*scores.values()) if one else evaluation.format_comparison(scores))
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
    help="How many neighbours of each word.",
)
@_one_sentence
def neighbors(vectors: str, words: tuple[str, ...], n: int) -> None:
    """Print the nearest words by cosine. VECTORS is a vector file or a workspace."""
    from distembed.pipeline.runner import load_vectors

    model = load_vectors(vectors)
    for word in words:
        nearest = ", ".join(f"{other} {cosine:.3f}" for other, cosine in model.most_similar(word, n=n))
        click.echo(f"{word}: {nearest}")


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
    """Write the vectors of a finished workspace to one file that other tools read."""
    from distembed.pipeline.runner import load_vectors

    model = load_vectors(workspace)
    model.save(target)
    click.echo(f"{len(model)} words x {model.vectors.shape[1]} dimensions in {target}")


if __name__ == "__main__":
    main()
