"""The command for texts and rows that a job has not seen: `distembed infer`."""

from __future__ import annotations

import click

from distembed.cli.command_line import PLACE, command, target
from distembed.job.opening import open_job
from distembed.job.terminal import shown, write
from distembed.views.inference import NewFiles, infer_job


@command(
    "distembed infer runs/topics new.jsonl --to topics.parquet",
    "distembed infer runs/psdvec 'later/*.txt' --words words.txt --to vectors.txt",
    "distembed infer runs/imputation new.csv --to names.csv",
)
@click.argument("workspace", type=PLACE)
@click.argument("files", type=PLACE, nargs=-1, required=True)
@target(
    "The end of its name says the format: for topics .parquet .csv .tsv .npy, for word vectors .txt .bin "
    ".parquet .safetensors and the others of `export` (text also .gz .bz2 .xz); for imputation also .csv .tsv .npy."
)
@click.option(
    "--words",
    "words",
    type=PLACE,
    metavar="FILE",
    help="The words that get a vector, one per line; by default all words of FILES that the job lacks.",
)
@click.option(
    "--min-count",
    type=click.IntRange(min=1),
    help="The fewest occurrences of a new word in FILES.  [default: the job's own; 1 with --words]",
)
@click.option(
    "--space",
    metavar="CHARACTER",
    help="Write this for spaces inside words, in formats that end a word at a space.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE", help="Read FILES otherwise than the job."
)
@click.option("--allow-code", is_flag=True, help="Let the job call the Python functions that it names.")
def infer(
    workspace: str,
    files: tuple[str, ...],
    target: str,
    words: str | None,
    min_count: int | None,
    space: str | None,
    settings: tuple[str, ...],
    allow_code: bool,
) -> None:
    """Write what a finished job says of new files.

    That is the topics of documents, or vectors for words or names. WORKSPACE is that of a finished topics, psdvec or
    imputation job, or its job file. For topics and psdvec FILES are files, globs or folders of texts of any kind that a
    job reads, which are read with the options of the job's [corpus]: --set corpus.text_field=body changes one. For
    imputation FILES is one table with the columns of the job's [domain], and --set domain.delimiter=";" changes how it
    is read.

    Of a topics job the file has one row per document of FILES, as `export` writes those of the job. Of a psdvec job it
    has the words of the job with their vectors, and after them the new words of FILES, solved against the core words.
    Of an imputation job it has the words of the job, and after them the new names of the table.
    """
    new = NewFiles(files, target, words, min_count, space)
    write(shown(infer_job(open_job(workspace, settings=settings), new, allow_code=allow_code)))
