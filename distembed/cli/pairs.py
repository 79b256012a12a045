"""The command on pairs of words: `distembed similarity`."""

from __future__ import annotations

import click

from distembed.cli.command_line import PLACE, command, read_source, target
from distembed.job.terminal import write
from distembed.views.pairs import write_similarities


@command(
    "distembed similarity runs/psdvec pairs.csv --to out.csv",
    "distembed similarity vectors.bin liste.csv --columns word1=Reiz,word2=Antwort,score=Note --to out.csv",
)
@click.argument("vectors", type=PLACE)
@click.argument("pairs", type=PLACE)
@target("The table: its name ends in .csv, .tsv or .parquet.")
@click.option(
    "--columns",
    default="",
    metavar="ROLE=NAME,...",
    help="The columns of the words and the score: word1=NAME,word2=NAME,score=NAME. By default they are guessed.",
)
def similarity(vectors: str, pairs: str, target: str, columns: str) -> None:
    """Write a list of word pairs with the cosine of each.

    VECTORS is a vector file, a workspace or a job file. PAIRS is a CSV file of any delimiter, with a header or
    without, or a Parquet file; all its columns are kept. The columns cosine, count1, count2 (where a job counted the
    words) and unknown (the words without a vector) are added. The command says what each column was taken for.
    """
    write(write_similarities(read_source(vectors), pairs, target, roles_of(columns)))


def roles_of(columns: str) -> dict[str, str]:
    """Return the columns that --columns names, by what they hold."""
    return dict(_role(part) for part in columns.split(",") if part)


def _role(part: str) -> tuple[str, str]:
    role, sign, name = part.partition("=")
    if not sign:
        raise click.UsageError(f"--columns takes ROLE=NAME, as word1=stimulus, and not {part!r}")
    return role.strip(), name.strip()
