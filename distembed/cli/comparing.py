"""The command that compares two sets of word vectors: `distembed compare`."""

from __future__ import annotations

import json
from typing import Any

import click

from distembed.cli.command_line import PLACE, choice, command, number
from distembed.job.opening import parse_source
from distembed.job.terminal import shown, write
from distembed.manifold.compared_vectors import AxesMap
from distembed.views.compared_vectors import compare_sources
from distembed.views.export import table_format, write_table


@command(
    "distembed compare runs/before runs/after",
    "distembed compare 1850.txt 1950.txt broadcast gay --neighbors 8",
    "distembed compare a.bin b.bin --to distances.csv",
)
@click.argument("first", type=PLACE)
@click.argument("second", type=PLACE)
@click.argument("words", nargs=-1, metavar="[WORD]...")
@number("Words that are shown where none is named: those that differ most.", default=20)
@click.option(
    "--neighbors",
    "n_neighbors",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Neighbors of each word on each side.",
)
@click.option(
    "--map",
    "axes",
    type=choice(AxesMap),
    help="How the first side comes into the space of the second: by the orthogonal map that fits shared words best, or "
    "as it is (none).  [default: orthogonal, unless both were solved against one core]",
)
@click.option(
    "--to", "target", type=PLACE, help="Write the distance of every shared word to a .csv, .tsv or .parquet."
)
@click.option("--json", "as_json", is_flag=True, help="Print the same as JSON.")
def compare(
    first: str,
    second: str,
    words: tuple[str, ...],
    n: int,
    n_neighbors: int,
    axes: AxesMap | None,
    target: str | None,
    as_json: bool,
) -> None:
    """Print how far each word lies apart in two sets of vectors.

    Its neighbors on both sides are printed, too. Of two finished jobs the keys that differ come first, and the scores
    of both on the same words, with paired intervals of similarities. FIRST and SECOND are vector files, workspaces or
    job files. A distance is 1 - cosine. It has no noise floor: to tell which words have changed between texts, run a
    job of system = "comparison".
    """
    sources = parse_source(first), parse_source(second)
    found = compare_sources(*sources, words=words, n=n, n_neighbors=n_neighbors, axes=axes)
    if as_json:
        write(json.dumps({"sentences": found.sentences, "words": found.rows}, ensure_ascii=False))
    else:
        write("\n".join([*found.sentences, "", *map(_line, found.rows)]))
    if target is not None:
        form = table_format(target)
        if form is None:
            raise ValueError(
                f"the format of {target} cannot be detected from its name: end it in .csv, .tsv or .parquet"
            )
        write_table(target, found.table, format=form)
        write(shown(f"{found.table.contents} in {target}"), err=as_json)


def _line(row: dict[str, Any]) -> str:
    sides = " | ".join(", ".join(row[side]) or "no vector" for side in ("first", "second"))
    return shown(f"{row['word']} {row['distance']:.3f}: {sides}")
