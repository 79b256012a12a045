"""The command that gives results away: `distembed export`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from distembed.cli.command_line import PLACE, choice, command, read_source, target
from distembed.encoding.encoder import Weighting, Whitening
from distembed.job.terminal import shown, write
from distembed.views.export import ExportOptions, export_source
from distembed.views.static_model import export_static


@command(
    "distembed export runs/psdvec --to vectors.txt",
    "distembed export runs/topics --to documents.csv",
    "distembed export runs/topics --what topics --to topics.parquet",
    "distembed export vectors.bin --to static:model",
    "distembed export runs/psdvec --what counts --to counts.parquet",
)
@click.argument("source", type=PLACE)
@click.option(
    "--what",
    metavar="WORD",
    help="words, names, documents, topics or shares (default: what the method of the job is for); counts, pmi, "
    "document_terms, distances.",
)
@target(
    "The end of its name says the format: .parquet .csv .tsv .npy; for word vectors also .txt .bin .glove "
    ".safetensors; for counts and PMI .parquet .csv .tsv. Text may end in .gz .bz2 .xz. static:DIR is a model folder "
    "for sentence-transformers and model2vec."
)
@click.option(
    "--format",
    metavar="NAME",
    help="The format, whatever the file's name: parquet, csv, tsv, npy, word2vec, word2vec-binary, glove, "
    "safetensors; of counts parquet, csv, tsv.",
)
@click.option(
    "--space",
    metavar="CHARACTER",
    help="Written in place of spaces in words, in formats that end a word at a space: --space _",
)
@click.option(
    "--weighting",
    type=choice(Weighting),
    help="Of static:DIR: smooth inverse frequency (default), or the word vectors as they are.",
)
@click.option(
    "--whitening",
    type=choice(Whitening),
    help="Of static:DIR: even out the spread of the words along their principal axes "
    "(default: full, of few words half; of the plain mean none).",
)
@click.option(
    "--max-words",
    type=click.IntRange(min=1),
    help="Write only the first N word vectors, the most frequent; with n-grams the other words are composed.",
)
def export(
    source: str,
    target: str,
    weighting: Weighting | None,
    whitening: Whitening | None,
    **options: Any,
) -> None:
    """Write a table of a finished job to a file for other tools.

    SOURCE is a workspace, a job file, or a file of word vectors, which is written in another format.

    words: every word with its counts and its vector. names: every name of an imputation with its origin (known,
    imputed, left out and why), label and vector. documents: id, title, label, topic and the weight of every topic.
    topics: their words with weights. shares: the mean share of each topic by what is known of the documents. counts:
    how often each word stood near each other, as (word, context, count); pmi, document_terms and distances likewise,
    where the job has them. Beside counts stand their words.

    --to static:DIR makes a folder of SOURCE whose plain mean of rows is the vector of a text.
    """
    encoding = {"weighting": weighting, "whitening": whitening}
    if target.startswith("static:"):
        _refuse(options, of="a table")
        write(shown(export_static(read_source(source), target, **encoding)))
        return
    _refuse(encoding, of="static:DIR")
    write(shown(export_source(read_source(source), target, ExportOptions(**options))))


def _refuse(options: Mapping[str, object], *, of: str) -> None:
    """Raise UsageError for options that belong to another kind of target."""
    for name, value in options.items():
        if value:
            raise click.UsageError(f"--{name.replace('_', '-')} is an option of {of}: leave it out")
