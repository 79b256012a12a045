"""The command that writes a page to explore: `distembed explore`."""

from __future__ import annotations

import click

from distembed.cli.command_line import PLACE, command, number, target
from distembed.job.opening import parse_source
from distembed.job.terminal import shown, write
from distembed.views.explorer.job import write_explorer


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
    write(shown(write_explorer(parse_source(source), target, n_points=n_points)))
