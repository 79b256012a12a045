"""The commands on texts: `distembed encode|search`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from distembed.cli.command_line import PLACE, choice, command, number, target
from distembed.cli.jobs import terminal_reporter
from distembed.corpus import read_corpus
from distembed.corpus.readers import Layout
from distembed.encoding.encoder import UnknownWords, Weighting, Whitening
from distembed.encoding.texts import search_texts
from distembed.job.opening import parse_source
from distembed.job.terminal import found_text, shown, write
from distembed.views.texts import encode_files, is_encoded, open_encoder, search_encoded

ENCODING = ("weighting", "a", "whitening", "unknown", "allow_code")
"""The options of both commands that say how a text becomes a vector; the others say how files are read."""


def text_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say how texts are read and how they become vectors."""
    for decorate in (
        click.option(
            "--allow-code", is_flag=True, help="Let the job's tokenizer be the Python function that it names."
        ),
        click.option(
            "--unknown",
            type=choice(UnknownWords),
            help="Leave unknown words out, or compose them from n-grams (default where the vectors have them).",
        ),
        click.option(
            "--whitening",
            type=choice(Whitening),
            help="Even out the spread of the words along their principal axes "
            "(default: full, of few words half; of the plain mean none).",
        ),
        click.option("--a", type=float, help="The constant of smooth inverse frequency (default: 0.001)."),
        click.option(
            "--weighting",
            type=choice(Weighting),
            help="Smooth inverse frequency (default), or the plain mean of the word vectors.",
        ),
        click.option(
            "--encoding", default="auto", help="The encoding of the texts (default: detected file by file)."
        ),
        click.option("--id-field", metavar="NAME", help="The field or column with the id of a text."),
        click.option("--title-field", metavar="NAME", help="The field or column with the title of a text."),
        click.option(
            "--text-field",
            metavar="NAME",
            default="text",
            show_default=True,
            help="The field or column of JSON lines, CSV, TSV and Parquet with the text.",
        ),
        click.option(
            "--layout",
            type=choice(Layout),
            default="line",
            show_default=True,
            help="Of plain text: a text a line, or texts between blank lines with the title first.",
        ),
    ):
        command = decorate(command)
    return command


@command(
    "distembed encode runs/psdvec reviews.txt --to reviews.parquet",
    "distembed encode vectors.bin reviews.csv --text-field body --to reviews.npy",
)
@click.argument("vectors", type=PLACE)
@click.argument("files", type=PLACE, metavar="TEXTS...", nargs=-1, required=True)
@target("The end of its name says the format: .parquet .csv .tsv .npy, or .zarr for a folder.")
@text_options
def encode(vectors: str, files: tuple[str, ...], target: str, **options: Any) -> None:
    """Write a vector for every text.

    It is the weighted mean of the vectors of its words. VECTORS is a workspace, a job file or a vector file. A
    workspace gives the weights of its words and the tokenizer of its job; for a vector file the weights follow Zipf's
    law. TEXTS are files or globs of plain text (a text a line), JSON lines, CSV, TSV, Parquet or MediaWiki exports,
    also compressed.

    Parquet keeps id, title, label and the beginning of each text beside its vector. Stop it at any time: the same
    command goes on where it was.
    """
    with terminal_reporter() as reporter:
        encoder = open_encoder(parse_source(vectors), **_encoding(options))
        text = encode_files(encoder, _corpus(files, options), target, reporter)
    write(shown(text.replace("\n", "; ")))


@command(
    "distembed search runs/psdvec reviews.parquet 'slow delivery' -n 5",
)
@click.argument("vectors", type=PLACE)
@click.argument("files", type=PLACE, metavar="TEXTS...", nargs=-1, required=True)
@click.argument("query")
@number("How many texts.", default=10)
@text_options
def search(vectors: str, files: tuple[str, ...], query: str, n: int, **options: Any) -> None:
    """Print the texts that are nearest to QUERY.

    Near is what the cosine of their vectors says. TEXTS are Parquet files that `distembed encode` has written with the
    same VECTORS and options, or files as `distembed encode` reads them, which are encoded as they are read.
    """
    encoder = open_encoder(parse_source(vectors), **_encoding(options))
    if all(map(is_encoded, files)):
        found = search_encoded(encoder, files, query, n)
    else:
        found = search_texts(encoder, _corpus(files, options).partitions, query, n)
    for text in found:
        write(found_text(text))


def _encoding(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ENCODING}


def _corpus(files: tuple[str, ...], options: dict[str, Any]) -> Any:
    return read_corpus(
        list(files), **{name: value for name, value in options.items() if name not in ENCODING}
    )
