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
    ".safetensors. Text may end in .gz .bz2 .xz. static:DIR is a model folder for sentence-transformers and model2vec.",
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
@click.option(
    "--weighting",
    type=click.Choice(["sif", "mean"]),
    help="Of static:DIR: smooth inverse frequency (default), or the word vectors as they are.",
)
@click.option(
    "--whitening",
    type=click.Choice(["none", "component", "half", "full"]),
    help="Of static:DIR: even out the spread of the words along their principal axes (default: none).",
)
@one_sentence
def export(
    workspace: str,
    what: str | None,
    target: str,
    format_: str | None,
    space: str | None,
    **encoding: str | None,
) -> None:
    """Write a table of a finished WORKSPACE, or of that of a job file, to one file that other tools read.

    words: every word with its counts and its vector. names: every name of an imputation with its origin (known,
    imputed, left out and why), label and vector. documents: id, title, label, topic and the weight of every topic.
    topics: their words with weights.

    --to static:DIR makes a folder of WORKSPACE, or of a vector file, whose plain mean of rows is the vector of a text.
    """
    if target.startswith("static:"):
        from distembed.pipeline.export.static import export_static

        _refuse(of="a table", what=what, format=format_, space=space)
        write(shown(export_static(workspace, target, **encoding)))
        return
    _refuse(of="static:DIR", **encoding)
    from distembed.pipeline.export.job import export_job
    from distembed.pipeline.runner import open_job

    write(shown(export_job(open_job(workspace), target, what=what, format=format_, space=space)))


def _refuse(*, of: str, **options: str | None) -> None:
    """Raise UsageError for options that belong to another kind of target."""
    for name, value in options.items():
        if value is not None:
            raise click.UsageError(f"--{name} is an option of {of}: leave it out")


COMMANDS: tuple[click.Command, ...] = (export,)
