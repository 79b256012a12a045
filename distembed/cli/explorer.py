"""The command that writes a page to explore: `distembed explore`."""

from __future__ import annotations

import click

from distembed.cli.command_line import PLACE, examples
from distembed.cli.failures import one_sentence
from distembed.cli.outside import OUTSIDE
from distembed.job.opening import parse_source
from distembed.job.terminal import shown, write
from distembed.views.explorer.job import write_explorer


@click.command(
    epilog=examples(
        "distembed explore runs/psdvec",
        "distembed explore vectors.txt --to words.html -n 5000",
    )
)
@click.argument("source", type=PLACE, metavar="WORKSPACE")
@click.option(
    "--to",
    "target",
    type=OUTSIDE,
    metavar="FILE",
    help="The page (default: beside the report, which then links to it).",
)
@click.option(
    "-n",
    "n_points",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    help="How many are shown, at most: the most frequent words, or documents from first to last.",
)
@one_sentence
def explore(source: str, target: str | None, n_points: int) -> None:
    """Write a page to explore words, names or documents: a map with zoom, search, colors and exact neighbors.

    WORKSPACE is that of a finished job, its job file, or a vector file. The page is one HTML file that any browser
    opens without a network. It needs pip install "distembed[explore]".
    """
    write(shown(write_explorer(parse_source(source), target, n_points=n_points)))


COMMANDS: tuple[click.Command, ...] = (explore,)
