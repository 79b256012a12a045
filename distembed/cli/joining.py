"""The command that makes one set of word vectors of several: `distembed join`."""

from __future__ import annotations

import click

from distembed.cli.command_line import PLACE, choice, command, target
from distembed.factorization.joined_vectors import JoinedWords, Weights, join_weighted
from distembed.job.opening import load_vectors, parse_source
from distembed.job.terminal import shown, write
from distembed.vectors import WordVectors
from distembed.views.export import ExportOptions, export_vectors


def numbers_or_learned(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Weights | None:
    """Return numbers with commas between them, or the word "learned"."""
    if value is None or value == "learned":
        return "learned" if value else None
    try:
        return tuple(float(number) for number in value.split(","))
    except ValueError:
        raise click.BadParameter(
            f'"{value}" is no list of numbers: give one for each of VECTORS, as in 1,0.7, or learned'
        ) from None


@command(
    "distembed join wide.txt narrow.bin --to joined.txt --weights 1,0.5",
    "distembed join runs/psdvec glove.txt.gz --to joined.safetensors --words union",
    "distembed join a.txt b.txt c.txt --to joined.bin --weights learned --n-components 300",
)
@click.argument("vectors", type=PLACE, nargs=-1, required=True)
@target(
    "The end of its name says the format, as for `export`: .txt .bin .glove .safetensors .fasttext.bin .parquet .csv "
    ".tsv .npy; text may end in .gz .bz2 .xz."
)
@click.option(
    "--weights",
    callback=numbers_or_learned,
    metavar="NUMBERS|learned",
    help="One number for each of VECTORS, as in 1,0.7: cosines are weighted by the squares. learned: without labels, "
    "by how far the views agree.  [default: 1 for each]",
)
@click.option(
    "--words",
    type=choice(JoinedWords),
    default="intersection",
    show_default=True,
    help="The words that all VECTORS have, or those that any of them has, with zeros for what the others lack.",
)
@click.option(
    "--n-components",
    type=click.IntRange(min=1),
    help="Keep the first N principal axes of the joined vectors.  [default: the components of all VECTORS together]",
)
@click.option(
    "--space",
    metavar="CHARACTER",
    help="Written in place of spaces in words, in formats that end a word at a space: --space _",
)
def join(
    vectors: tuple[str, ...],
    target: str,
    weights: Weights | None,
    words: JoinedWords,
    n_components: int | None,
    space: str | None,
) -> None:
    """Join the word vectors of several files or jobs into one file.

    VECTORS are two or more vector files, workspaces or job files. The vectors of each have their mean subtracted and
    are scaled to length one, so that they count alike, and stand side by side in one row: the cosine of two words is
    the weighted mean of their cosines in VECTORS. Words are matched as they are written.
    """
    views = [load_vectors(parse_source(place)) for place in vectors]
    found = join_weighted(views, weights=weights, words=words, n_components=n_components)
    for place, view, weight in zip(vectors, views, found.weights, strict=True):
        write(shown(f"{place}: {_part(view, found.vectors)}, weight {weight:.4g}"))
    write(shown(export_vectors(found.vectors, target, ExportOptions(space=space))))


def _part(view: WordVectors, joined: WordVectors) -> str:
    """Return in words how much of a view is in the joined vectors."""
    n_joined = sum(word in joined for word in view)
    table = "" if view.subwords is None else f"; {view.subwords.contents} are left out"
    return f"{n_joined:,} of {len(view):,} words x {view.vectors.shape[1]} dimensions{table}"
