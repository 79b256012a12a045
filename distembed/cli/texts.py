"""The command that makes vectors of texts: `distembed encode`."""

from __future__ import annotations

from typing import Any

import click

from distembed.cli.command_line import PLACE, choice, command, target
from distembed.cli.jobs import terminal_reporter
from distembed.corpus import read_corpus
from distembed.corpus.readers import Layout
from distembed.encoding.encoder import UnknownWords, Weighting, Whitening
from distembed.job.opening import parse_source
from distembed.job.terminal import shown, write
from distembed.views.texts import encode_files, open_encoder

ENCODING = ("weighting", "a", "whitening", "unknown", "allow_code")
"""The options that say how a text becomes a vector; the others say how files are read."""


@command(
    "distembed encode runs/psdvec reviews.txt --to reviews.parquet",
    "distembed encode vectors.bin reviews.csv --text-field body --to reviews.npy",
)
@click.argument("vectors", type=PLACE)
@click.argument("files", type=PLACE, metavar="TEXTS...", nargs=-1, required=True)
@target("The end of its name says the format: .parquet .csv .tsv .npy, or .zarr for a folder.")
@click.option(
    "--layout",
    type=choice(Layout),
    default="line",
    show_default=True,
    help="Of plain text: a text a line, or texts between blank lines with the title first.",
)
@click.option(
    "--text-field",
    metavar="NAME",
    default="text",
    show_default=True,
    help="The field or column of JSON lines, CSV, TSV and Parquet with the text.",
)
@click.option("--title-field", metavar="NAME", help="The field or column with the title of a text.")
@click.option("--id-field", metavar="NAME", help="The field or column with the id of a text.")
@click.option(
    "--encoding", default="auto", help="The encoding of the texts (default: detected file by file)."
)
@click.option(
    "--weighting",
    type=choice(Weighting),
    help="Smooth inverse frequency (default), or the plain mean of the word vectors.",
)
@click.option("--a", type=float, help="The constant of smooth inverse frequency (default: 0.001).")
@click.option(
    "--whitening",
    type=choice(Whitening),
    help="Even out the spread of the words along their principal axes "
    "(default: full, of few words half; of the plain mean none).",
)
@click.option(
    "--unknown",
    type=choice(UnknownWords),
    help="Leave unknown words out, or compose them from n-grams (default where the vectors have them).",
)
@click.option(
    "--allow-code", is_flag=True, help="Let the job's tokenizer be the Python function that it names."
)
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
        encoding = {name: options.pop(name) for name in ENCODING}
        encoder = open_encoder(parse_source(vectors), **encoding)
        text = encode_files(encoder, read_corpus(list(files), **options), target, reporter)
    write(shown(text.replace("\n", "; ")))
