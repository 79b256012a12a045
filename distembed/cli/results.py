"""The commands that write what a job made, or what it says of new files: `distembed export|infer|encode`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from distembed.cli.command_line import PLACE, choice, command, read_source, target
from distembed.cli.jobs import terminal_reporter
from distembed.corpus.readers import Layout, read_corpus
from distembed.encoding.encoder import UnknownWords, Weighting, Whitening
from distembed.job.opening import open_job, parse_source
from distembed.job.terminal import shown, write
from distembed.views.export import ExportOptions, export_source
from distembed.views.inference import NewFiles, infer_job
from distembed.views.static_model import export_static
from distembed.views.texts import encode_files, open_encoder

ENCODING = ("weighting", "a", "whitening", "unknown", "allow_code")
"""The options that say how a text becomes a vector; the others say how files are read."""


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
@click.option("--encoding", help="The encoding of texts that are not UTF-8 and have no byte-order mark.")
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

    Parquet keeps id, title, label and the beginning of each text beside its vector. A command that was stopped starts
    again.
    """
    with terminal_reporter() as reporter:
        encoding = {name: options.pop(name) for name in ENCODING}
        encoder = open_encoder(parse_source(vectors), **encoding)
        text = encode_files(encoder, read_corpus(list(files), **options), target, reporter)
    write(shown(text.replace("\n", "; ")))
