"""The command that shows the text behind a result: `distembed explain`."""

from __future__ import annotations

from pathlib import Path

import click

from distembed.cli.command_line import PLACE, command, number, read_job
from distembed.job.terminal import shown, write
from distembed.views.explain import Asked, as_json, as_page, as_text, explain_job


@command(
    "distembed explain runs/psdvec king queen",
    "distembed explain novels.toml gay -n 20",
    "distembed explain runs/topics 17 --html why.html",
)
@click.argument("workspace", type=PLACE)
@click.argument("names", nargs=-1, required=True)
@number("How many terms, or passages of one word, are shown.", default=12)
@click.option(
    "--passages",
    "n_passages",
    default=3,
    show_default=True,
    type=click.IntRange(min=0),
    help="How many passages of the corpus are shown for each of the largest terms; 0: none are looked for.",
)
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False), help="Write the explanation there as well."
)
@click.option(
    "--html", "html_file", type=click.Path(dir_okay=False), help="Write it there as a page as well."
)
def explain(
    workspace: str,
    names: tuple[str, ...],
    n: int,
    n_passages: int,
    json_file: str | None,
    html_file: str | None,
) -> None:
    """Print why a result is so, with passages of the corpus.

    The reason is a list of terms that add up to the result. WORKSPACE is a finished workspace, or its job file. NAMES
    are two words of a psdvec job; one imputed name of an imputation; or the id of a document of a topics job and, for
    another topic than its own, the number of a topic. Of one word of a psdvec, wordspaces or comparison job it prints
    the passages. Given the job file, it also prints the file and the line of each document.
    """
    job = read_job(workspace)
    found = explain_job(job, Asked(names, n, n_passages))
    write(as_text(found))
    for file, written in ((json_file, as_json), (html_file, as_page)):
        if file:
            Path(file).write_text(written(found), encoding="utf-8")
            write(f"written to {shown(file)}", err=True)
