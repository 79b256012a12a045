"""The commands to start with: `distembed keys|new|demo`."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from distembed.cli.command_line import PLACE, Choice, command
from distembed.cli.jobs import run
from distembed.job.demos import lay_out
from distembed.job.keys import as_json, as_markdown, as_text, keys_of
from distembed.job.new import write_new_job
from distembed.job.registry import SYSTEMS
from distembed.job.terminal import shown, write

METHOD = Choice(list(SYSTEMS))

SHOWN_ITEMS = 5
"""Items of a long list that are printed."""


@command(
    "distembed keys topics",
    "distembed keys psdvec --json",
)
@click.argument("method", type=METHOD)
@click.option("--json", "form", flag_value="json", help="Print a JSON list of objects.")
@click.option("--markdown", "form", flag_value="markdown", help="Print a Markdown table per section.")
def keys(method: str, form: str | None) -> None:
    """Print every section and key of the job files of METHOD.

    Each key has its type, its range, its default and its meaning.
    """
    found = keys_of(method)
    if form == "json":
        write(as_json(found))
    elif form == "markdown":
        write(as_markdown(method, found))
    else:
        write(as_text(found, width=min(100, shutil.get_terminal_size().columns)))


@command(
    "distembed new psdvec texts.txt",
    "distembed new psdvec texts.txt --preset fast",
    "distembed new topics news.csv --to news.toml",
    "distembed new imputation companies.csv vectors.txt",
)
@click.argument("method", type=METHOD)
@click.argument("files", type=PLACE, nargs=-1, metavar="[FILE]...")
@click.option(
    "--to", "target", type=PLACE, metavar="JOB.toml", help="The job file to write; by default METHOD.toml."
)
@click.option(
    "--preset",
    metavar="NAME",
    help="Settings that belong together: psdvec has best (the default), fast and paper; imputation best and paper.",
)
def new(method: str, files: tuple[str, ...], target: str | None, preset: str | None) -> None:
    """Write a commented job file for METHOD and your files.

    It has every key with its default and its range.

    FILE is your own input, of which the first lines are read: texts for psdvec, wordspaces and topics; a table and
    the known vectors for imputation; two collections, or one file with both, for transfer; a matrix for neighbors.
    Without it the job reads the input of the demo. A job file that is there is not written over.
    """
    job = target or f"{method}.toml"
    settings = write_new_job(method, files, job, preset=preset)
    for place, value in settings.items():
        write(shown(f"  {place} = {_in_short(value)}"))
    write(shown(f"wrote {Path(job).resolve()}; next: distembed plan {job}"))


def _in_short(value: object) -> str:
    """Return a value for the terminal, of a long list the first items and how many more there are."""
    if isinstance(value, list) and len(value) > SHOWN_ITEMS:
        return f"{value[:SHOWN_ITEMS]} and {len(value) - SHOWN_ITEMS} more"
    return str(value)


@command(
    "distembed demo psdvec",
    "distembed demo topics --folder try",
)
@click.argument("method", type=METHOD)
@click.option(
    "--folder",
    type=PLACE,
    metavar="DIR",
    help="Where the job, its inputs and its workspace go; default distembed-demo/METHOD.",
)
@click.pass_context
def demo(context: click.Context, method: str, folder: str | None) -> None:
    """Run the small real example of METHOD.

    It reads files that installed packages carry. The job file is written into a folder, where it can be read and
    changed; the same command goes on with it.
    """
    job = lay_out(method, folder or Path("distembed-demo") / method)
    write(shown(f"distembed run {job}"))
    context.invoke(
        run, job_file=str(job), settings=(), workspace=None, scheduler=None, n_workers=None, until=None,
        allow_code=False, replace=False, tls_ca_file=None, tls_cert=None, tls_key=None,
    )  # fmt: skip
