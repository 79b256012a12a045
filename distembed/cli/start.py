"""The commands to start with: `distembed keys|new|demo`."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import click

from distembed.cli.command_line import Choice, answer_target, argument, command, option, save_answer, target
from distembed.cli.jobs import run
from distembed.job.demos import lay_out
from distembed.job.keys import as_text, keys_of
from distembed.job.new import write_new_job
from distembed.job.registry import SYSTEMS
from distembed.job.terminal import shown, write
from distembed.views.answers import Answer
from distembed.views.report.page import ShownTable

METHOD = Choice(list(SYSTEMS))


@command(
    "distembed keys topics",
    "distembed keys psdvec --to keys.json",
)
@click.argument("method", type=METHOD)
@answer_target()
def keys(method: str, target: str | None) -> None:
    """Print every section and key of the job files of METHOD.

    Each key has its type, its range, its default and its meaning.
    """
    found = keys_of(method)
    write(as_text(found, width=min(100, shutil.get_terminal_size().columns)))
    names = ("section", "name", "kind", "default", "required", "meaning")
    rows = [{name: getattr(key, name) for name in names} for key in found]
    save_answer(Answer(f"keys of {method}", tables=[ShownTable("keys", rows)]), target)


@command(
    "distembed new psdvec texts.txt",
    "distembed new psdvec texts.txt --preset fast",
    "distembed new topics news.csv --to news.toml",
    "distembed new imputation companies.csv vectors.txt",
)
@click.argument("method", type=METHOD)
@argument("files", nargs=-1, metavar="FILE...")
@target("The job file to write; by default METHOD.toml.", required=False)
@option(
    "--preset",
    "A set of settings: best (the default) or paper, for psdvec also fast; comparison has none.",
    metavar="NAME",
)
def new(method: str, files: tuple[str, ...], target: str | None, preset: str | None) -> None:
    """Write a job file for METHOD and your files.

    The job file has what the command found in your files and chose, and the keys that people change; distembed keys
    METHOD lists all keys. The command does not replace a job file.

    FILE is your own input, of which the command reads the beginning: texts for psdvec, wordspaces, topics and
    comparison; a table and the known vectors for imputation; two collections, or one file with both, for transfer.
    """
    job = target or f"{method}.toml"
    for line in write_new_job(method, files, job, preset=preset):
        write(shown(line))
    write(shown(f"wrote {Path(job).resolve()}; next: distembed plan {shlex.quote(job)}"))


@command(
    "distembed demo psdvec",
    "distembed demo topics --folder try",
)
@click.argument("method", type=METHOD)
@option(
    "--folder",
    "The folder of the job, its inputs and its workspace; default distembed-demo/METHOD.",
    metavar="DIR",
)
@click.pass_context
def demo(context: click.Context, method: str, folder: str | None) -> None:
    """Run the small real example of METHOD.

    The example reads files of installed packages. The command writes the job file into a folder, where you can read
    and change it; the same command then continues with it.
    """
    job = lay_out(method, folder or Path("distembed-demo") / method)
    write(shown(f"distembed run {job}"))
    context.invoke(run, text=str(job))
