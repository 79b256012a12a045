"""The commands that show the text behind a result: `distembed explain|concordance`."""

from __future__ import annotations

from pathlib import Path

import click

from distembed.cli.command_line import PLACE, command, number, read_job, target
from distembed.job.opening import open_job
from distembed.job.terminal import shown, write
from distembed.views.concordance import show_concordance, with_places, write_concordance
from distembed.views.explain import Asked, as_json, as_page, as_text, explain_job

LINES_SHOWN = 20
"""Places of a word that are printed."""


@command(
    "distembed explain runs/psdvec king queen",
    "distembed explain runs/topics 17 --html why.html",
)
@click.argument("workspace", type=PLACE)
@click.argument("names", nargs=-1, required=True)
@number("How many terms are shown.", default=12)
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
    another topic than its own, the number of a topic. Given the job file, it also prints the file and the line of each
    document.
    """
    job = read_job(workspace)
    found = with_places(job, explain_job(job, Asked(names, n, n_passages)))
    write(as_text(found))
    for file, written in ((json_file, as_json), (html_file, as_page)):
        if file:
            Path(file).write_text(written(found), encoding="utf-8")
            write(f"written to {shown(file)}", err=True)


@command(
    "distembed concordance novels.toml gay --to gay.csv",
    'distembed concordance novels.toml "New York" -n 50',
)
@click.argument("job", type=PLACE)
@click.argument("word")
@target("A table of all places: its name ends in .csv, .tsv or .parquet.", required=False)
@click.option(
    "-n", "n_lines", type=click.IntRange(min=1), help="The first N places (default: 20; with --to all)."
)
def concordance(job: str, word: str, target: str | None, n_lines: int | None) -> None:
    """Print every place of WORD in the files of a job.

    WORD is shown as it is written there, with the text around it. JOB is a job file on a corpus; it need not have run.
    WORD is a word, or several in quotes; capitals are as in the job, which mostly takes them for small letters. The
    table has the document with its title and label, the file, the line, and the text on the left and on the right.
    """
    opened = open_job(job)
    if target:
        write(write_concordance(opened, word, target, n=n_lines))
    else:
        write(show_concordance(opened, word, n=n_lines or LINES_SHOWN))
