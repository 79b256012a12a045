"""The commands that draw figures into files: `distembed plot map|topics|shares|changes`."""

from __future__ import annotations

from pathlib import Path

import click

from distembed.cli.command_line import PLACE, choice, command, examples, number, read_job, read_source, target
from distembed.files import read_small
from distembed.job.terminal import write
from distembed.views.change_drawings import draw_changes
from distembed.views.drawings import Drawn, draw_map, draw_shares, draw_topics
from distembed.views.report.maps import MapMethod

TARGET = target("The figure: its name ends in .pdf, .svg or .png.")
FONT = click.option(
    "--font",
    help="A file of a font, or the name of an installed one. Without it, fonts are chosen by the scripts of the names.",
)


@click.group(
    epilog=examples(
        "distembed plot map runs/psdvec --to map.pdf",
        "distembed plot topics runs/topics --to topics.pdf",
        "distembed plot shares runs/topics --by decade --to decades.pdf",
        "distembed plot changes runs/comparison --to changes.pdf",
    )
)
def plot() -> None:
    """Draw chosen words, documents or topics into a figure.

    It is a PDF, SVG or PNG file, by its name.
    """


@command(
    "distembed plot map runs/psdvec --to map.pdf",
    "distembed plot map runs/psdvec king queen music --method pca --to map.svg",
    group=plot,
    name="map",
)
@click.argument("source", type=PLACE, metavar="WORKSPACE")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@TARGET
@click.option(
    "--words",
    "list_file",
    type=click.Path(exists=True, dir_okay=False),
    help="A file with a word, or an id or title of a document, on each line.",
)
@click.option("--what", type=choice(Drawn), help="Default: what the method of the job is for.")
@click.option(
    "--method",
    type=choice(MapMethod),
    default="tsne",
    show_default=True,
    help="t-SNE keeps neighbors together, principal components keep large distances.",
)
@number("How many are drawn where none is named.", default=100, name="n_points")
@FONT
def map_(
    source: str,
    names: tuple[str, ...],
    target: str,
    list_file: str | None,
    what: Drawn | None,
    method: MapMethod,
    n_points: int,
    font: str | None,
) -> None:
    """Draw words or documents on the plane, near ones together, with as many names as fit.

    WORKSPACE is a workspace or a job file; for words a vector file will do. Without names the most frequent content
    words are drawn (stop words of their language and words of most documents left out), or documents from first to
    last. A word that has no vector of its own is composed where there are vectors of n-grams, and drawn in another
    color.
    """
    lines = read_small(Path(list_file)).decode("utf-8-sig").splitlines() if list_file else []
    listed = [line.strip() for line in lines if line.strip()]
    write(
        draw_map(
            read_source(source),
            target,
            names=(*names, *listed),
            what=what,
            method=method,
            n_points=n_points,
            font=font,
        )
    )


@command(
    "distembed plot topics runs/topics --to topics.pdf",
    "distembed plot topics runs/topics 0 3 --to two.png -n 15",
    group=plot,
)
@click.argument("workspace", type=PLACE)
@click.argument("numbers", nargs=-1, type=click.IntRange(min=0), metavar="[TOPIC]...")
@TARGET
@number("Words of each topic.", default=10, name="n_words")
@FONT
def topics(workspace: str, numbers: tuple[int, ...], target: str, n_words: int, font: str | None) -> None:
    """Draw the top words of topics as bars: those of the numbers given, by default all.

    WORKSPACE is that of a finished topics job, or its job file.
    """
    write(draw_topics(read_job(workspace), target, topics=numbers, n_words=n_words, font=font))


@command(
    "distembed plot shares runs/topics --to decades.pdf",
    "distembed plot shares runs/topics --by author --to authors.png",
    group=plot,
)
@click.argument("workspace", type=PLACE)
@TARGET
@click.option("--by", help="The column of the documents (default: the first that has 2 to 30 values).")
@FONT
def shares(workspace: str, target: str, by: str | None, font: str | None) -> None:
    """Draw the mean share of each topic by a column of the documents, with 95 % intervals, a panel per topic.

    WORKSPACE is that of a finished topics job, or its job file. Columns are corpus.label_field, corpus.carry_fields,
    corpus.path_fields and those of corpus.metadata. `distembed export --what shares` writes the numbers.
    """
    write(draw_shares(read_job(workspace), target, by=by, font=font))


@command(
    "distembed plot changes runs/comparison --to changes.pdf",
    "distembed plot changes runs/comparison bank fire --to two.svg",
    group=plot,
)
@click.argument("workspace", type=PLACE)
@click.argument("words", nargs=-1, metavar="[WORD]...")
@TARGET
@number("How many are drawn where none is named.", default=20, name="n_words")
def changes(workspace: str, words: tuple[str, ...], target: str, n_words: int) -> None:
    """Draw how words differ between parts of a corpus, with intervals and the noise floor.

    WORKSPACE is that of a finished comparison, or its job file. Of two parts each word has a line, of more a curve: its
    change from the first part to each later one.
    """
    write(draw_changes(read_job(workspace), target, words=words, n_words=n_words))
