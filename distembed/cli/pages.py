"""The commands that show results and why they are so: `distembed report|explore|explain`."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import click

from distembed.cli.command_line import (
    answer_target,
    argument,
    command,
    flag,
    job_options,
    number,
    option,
    read_source,
    save_answer,
    target,
)
from distembed.job.opening import open_job
from distembed.job.run import report_job
from distembed.job.terminal import shown, write
from distembed.views.answers import as_text
from distembed.views.explain import Request, explain_job
from distembed.views.explorer.job import write_explorer
from distembed.views.report.figures import FigureFormat
from distembed.views.report.run import write_figures


@command(
    "distembed report job.toml",
    "distembed report runs/psdvec --open",
    "distembed report runs/topics --figures figures --format pdf",
)
@job_options
@flag("--open in_browser", "Open the report in a browser.")
@target("Also write every figure of the report to a file in this folder.", names="--figures", required=False)
@option("--format form", "The format of these files (default: svg).", choices=FigureFormat)
def report(*, in_browser: bool, figures: str | None, form: FigureFormat | None, **at: Any) -> None:
    """Write the HTML report of a finished job.

    JOB is a job file or a workspace. The command does not draw a report again that fits the workspace, and prints where
    it is.
    """
    if form and not figures:
        raise click.UsageError(
            "--format is that of the files of --figures: give --figures DIR, or leave it out"
        )
    job = open_job(**at)
    where = report_job(job)
    write(shown(where))
    if figures:
        write(shown(write_figures(job, figures, form or "svg")))
    if not in_browser:
        return
    if "://" in where:
        raise OSError(f"a browser does not open {where}: copy it to this machine first")
    if not webbrowser.open(Path(where).resolve().as_uri()):
        raise OSError("no browser can be started here: open the page on a machine that has one")


@command(
    "distembed explore runs/psdvec",
    "distembed explore vectors.txt --to words.html -n 5000",
)
@argument("source", metavar="WORKSPACE")
@target("The page (default: next to the report, in the workspace).", required=False)
@number(
    "-n n_points",
    "At most how many points: the most frequent words, or documents evenly from first to last.",
    default=20_000,
)
def explore(source: str, target: str | None, n_points: int) -> None:
    """Write a page with a map, a search and exact neighbors.

    The page shows words, names or documents, with zoom and colors. WORKSPACE is the workspace or the job file of a
    finished job, or a vector file. The page is one HTML file, which any browser opens without a network. The command
    needs pip install "distembed[explore]".
    """
    write(shown(write_explorer(read_source(source), target, n_points=n_points)))


@command(
    "distembed explain runs/psdvec king queen",
    "distembed explain novels.toml gay -n 20",
    "distembed explain runs/topics 17 --to why.html",
)
@argument("workspace")
@click.argument("names", nargs=-1, required=True)
@number("-n n", "How many terms, or passages of one word, are shown.", default=12)
@option(
    "--passages n_passages",
    "How many passages of the corpus are shown for each of the largest terms; 0: none.",
    default=3,
    type=click.IntRange(min=0),
)
@answer_target()
def explain(workspace: str, names: tuple[str, ...], n: int, n_passages: int, target: str | None) -> None:
    """Print why a result is so, with passages of the corpus.

    The reason is a list of terms that add up to the result. WORKSPACE is a finished workspace, or its job file. NAMES
    are two words of a psdvec job; one imputed name of an imputation; or the id of a document of a topics job and, for
    another topic than its own, the number of a topic. For one word of a psdvec, wordspaces or comparison job, the
    command prints the passages. If you give the job file, it also prints the file and the line of each document.
    """
    job: Any = read_source(workspace, open_job)
    answer = explain_job(job, Request(names, n, n_passages))
    write(as_text(answer))
    save_answer(answer, target)
