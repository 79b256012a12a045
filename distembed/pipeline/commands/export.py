"""The command that gives results away: `distembed export`."""

from __future__ import annotations

import click

from distembed.pipeline.commands.failures import one_sentence
from distembed.pipeline.terminal import shown, write


@click.command()
@click.argument("workspace")
@click.option(
    "--what",
    metavar="WORD",
    help="words, names, documents or topics (default: what the system of the job is for).",
)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="FILE",
    help="The end of its name says the format: .parquet .csv .tsv .npy; for word vectors also .txt .bin .glove "
    ".safetensors. Text may end in .gz .bz2 .xz.",
)
@click.option(
    "--format",
    "format_",
    metavar="NAME",
    help="The format, whatever the file's name: parquet, csv, tsv, npy, word2vec, word2vec-binary, glove, safetensors.",
)
@click.option(
    "--space",
    metavar="CHARACTER",
    help="Written in place of blanks in words, in formats that end a word at a blank: --space _",
)
@one_sentence
def export(workspace: str, what: str | None, target: str, format_: str | None, space: str | None) -> None:
    """Write a table of a finished WORKSPACE, or of that of a job file, to one file that other tools read.

    words: every word with its counts and its vector. names: every name of an imputation with its origin (known,
    imputed, left out and why), label and vector. documents: id, title, label, topic and the weight of every topic.
    topics: their words with weights.
    """
    from distembed.pipeline.export.job import export_job
    from distembed.pipeline.runner import open_job

    write(shown(export_job(open_job(workspace), target, what=what, format=format_, space=space)))


COMMANDS: tuple[click.Command, ...] = (export,)
