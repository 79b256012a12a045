"""The commands that write pages: `distembed report|explore`."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from distembed.cli.command_line import PLACE, Outside, choice, command, number, read_source, target
from distembed.cli.jobs import job_options, load
from distembed.job.run import report_job
from distembed.job.terminal import shown, write
from distembed.views.explorer.job import write_explorer
from distembed.views.report import write_figures
from distembed.views.report.figures import FigureFormat


@command(
    "distembed report job.toml",
    "distembed report runs/psdvec --open",
    "distembed report runs/topics --figures figures --format pdf",
)
@job_options
@click.option("--open", "in_browser", is_flag=True, help="Open the report in a browser.")
@click.option(
    "--figures",
    type=Outside(readable=False),
    metavar="DIR",
    help="Write every figure of the report to a file in this folder as well.",
)
@click.option(
    "--format",
    "form",
    type=choice(FigureFormat),
    default="svg",
    show_default=True,
    help="The format of these files.",
)
def report(
    job_file: str,
    settings: tuple[str, ...],
    workspace: str | None,
    in_browser: bool,
    figures: str | None,
    form: FigureFormat,
) -> None:
    """Write the HTML report of a finished job.

    JOB is a job file, or a workspace, whose own job is taken. A report that fits the workspace is kept. The line that
    is printed says where it is, also where this machine has no browser.
    """
    job = load(job_file, settings, workspace)
    where = report_job(job)
    write(shown(where))
    if figures:
        write(shown(write_figures(job, figures, form)))
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
@click.argument("source", type=PLACE, metavar="WORKSPACE")
@target("The page (default: beside the report, which then links to it).", required=False)
@number(
    "How many are shown, at most: the most frequent words, or documents from first to last.",
    default=20_000,
    name="n_points",
)
def explore(source: str, target: str | None, n_points: int) -> None:
    """Write a page with a map, a search and exact neighbors.

    It shows words, names or documents, with zoom and colors. WORKSPACE is that of a finished job, its job file, or a
    vector file. The page is one HTML file that any browser opens without a network. It needs pip install
    "distembed[explore]".
    """
    write(shown(write_explorer(read_source(source), target, n_points=n_points)))
