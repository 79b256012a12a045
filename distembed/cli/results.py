"""The commands that write what a job made or says of new files, and those on vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import numpy as np

from distembed.cli.command_line import (
    Decorator,
    answer_target,
    argument,
    command,
    flag,
    number,
    option,
    read_source,
    save_answer,
    target,
)
from distembed.cli.failures import fail
from distembed.cli.jobs import terminal_reporter
from distembed.corpus.readers import Layout, read_corpus
from distembed.display import plural
from distembed.encoding.encoder import UnknownWords, Weighting, Whitening
from distembed.evaluation.scoring import Case, Score, Unknown
from distembed.evaluation.words import score_records
from distembed.job.opening import load_vectors, names_of, open_job, parse_source
from distembed.job.tables import table_of
from distembed.job.terminal import neighbor_line, shown, write
from distembed.spelling import is_form_of
from distembed.urls import public
from distembed.vectors import Neighbor, UnknownWordError, WordVectors
from distembed.views.answers import Answer, known_words
from distembed.views.export import ExportOptions, export_source, table_format, write_table
from distembed.views.report.page import ShownTable
from distembed.views.report.sections import score_table
from distembed.views.scores import score_sources
from distembed.views.texts import NewFiles, encode_files, export_static, infer_job, open_encoder

ENCODING = ("weighting", "a", "whitening", "unknown", "allow_code")
"""The options that say how a text becomes a vector; the others say how files are read."""


def encoding_options(of: str = "") -> Decorator:
    """Return the options of the encoder of texts; `of` says of what they are where `encode` explains them."""
    mean = "By smooth inverse frequency (default), or a plain mean."
    spread = "Even out the spread along principal axes (default: full; half if there are few words)."
    as_there = f"{of}as for encode."
    weighting = option("--weighting", as_there if of else mean, choices=Weighting)
    whitening = option("--whitening", as_there if of else spread, choices=Whitening)
    let = "Let the job's tokenizer be the Python function that it names."
    code = flag("--allow-code", as_there if of else let)
    return lambda command: weighting(whitening(code(command)))


@command(
    "distembed export runs/psdvec --to vectors.txt",
    "distembed export runs/topics --what topics --to topics.parquet",
    "distembed export vectors.bin --to static:model",
    "distembed export runs/psdvec --what counts --to counts.parquet",
)
@argument("source")
@option(
    "--what",
    "The table (see above); default: the main table of the method.",
    metavar="WORD",
)
@target(
    "A file .parquet .csv .tsv .npy; of word vectors also .txt .bin .glove .safetensors; text also .gz .bz2 .xz. "
    "static:DIR is a folder for sentence-transformers and model2vec."
)
@option(
    "--format",
    "Whatever the file's name: parquet, csv, tsv, npy, word2vec, word2vec-binary, glove, safetensors.",
    metavar="NAME",
)
@option("--space", "Written for spaces in words, in formats that end a word at one: _", metavar="CHARACTER")
@encoding_options("Of static:DIR: ")
@number("--max-words", "Write the first N word vectors; with n-grams the others are composed.")
def export(source: str, target: str, **options: Any) -> None:
    """Write a table of a finished job to a file for other tools.

    SOURCE is a workspace, a job file, or a file of word vectors, which is written in another format.

    words: counts and vectors of all words. names: those of an imputation with origin, label and vector. documents: id,
    title, label, topic and the weight of each topic. topics: their words with weights. shares: the mean share
    of each topic by the columns of the documents. counts: rows of (word, context, count), with a second file of the
    words; pmi, document_terms and distances in the same way.
    """
    encoding = {name: options.pop(name) for name in ("weighting", "whitening", "allow_code")}
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
@argument("workspace")
@argument("files", nargs=-1, required=True)
@target(
    "The end of its name sets the format: for topics .parquet .csv .tsv .npy, for word vectors .txt .bin "
    ".parquet .safetensors and the others of `export` (text also .gz .bz2 .xz); for imputation also .csv .tsv .npy."
)
@option(
    "--words words",
    "The words that get a vector, one per line; by default all words of FILES that the job lacks.",
    metavar="FILE",
)
@number(
    "--min-count", "The fewest occurrences of a new word in FILES.  [default: the job's own; 1 with --words]"
)
@option(
    "--space",
    "Write this for spaces inside words, in formats that end a word at a space.",
    metavar="CHARACTER",
)
@option(
    "--set settings",
    "Override one key of the job that says how FILES are read.",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
)
@flag("--allow-code", "Let the job call the Python functions that it names.")
def infer(
    workspace: str, files: tuple[str, ...], settings: tuple[str, ...], allow_code: bool, **new: Any
) -> None:
    """Compute topics or vectors of new documents, words or names.

    WORKSPACE is the workspace or the job file of a finished topics, psdvec or imputation job.

    For topics and psdvec, FILES are files, globs or folders of texts. The command reads them with the options of the
    job's [corpus]; --set corpus.text_field=body changes one. For imputation, FILES is one table with the columns of
    the job's [domain]; --set domain.delimiter=";" changes how the command reads it.

    The result of a topics job has a row for each document of FILES, as `export` writes them. That of a psdvec job has
    the words of the job with their vectors, then the new words of FILES, solved against the core words. That of an
    imputation job has the words of the job, then the new names of the table.
    """
    job = open_job(workspace, settings=settings)
    write(shown(infer_job(job, NewFiles(files, **new), allow_code=allow_code)))


@command(
    "distembed encode runs/psdvec reviews.txt --to reviews.parquet",
    "distembed encode vectors.bin reviews.csv --text-field body --to reviews.npy",
)
@argument("vectors")
@argument("files", metavar="TEXTS...", nargs=-1, required=True)
@target("The end of its name sets the format: .parquet .csv .tsv .npy.")
@option(
    "--layout",
    "Plain text: one text per line, block or file.",
    choices=Layout,
    default="line",
)
@option(
    "--text-field",
    "The field or column with the text.",
    metavar="NAME",
    default="text",
)
@option("--title-field", "The same for its title.", metavar="NAME")
@option("--id-field", "The same for its id.", metavar="NAME")
@option("--encoding", "The encoding of texts that are not UTF-8 and have no byte-order mark.")
@encoding_options()
@option("--a", "The constant of smooth inverse frequency (default: 0.001).", type=float)
@option(
    "--unknown",
    "Leave unknown words out, or compose them from n-grams (default where there are any).",
    choices=UnknownWords,
)
def encode(vectors: str, files: tuple[str, ...], target: str, **options: Any) -> None:
    """Write a vector for every text.

    The vector of a text is the weighted mean of the vectors of its words. VECTORS is a workspace or a job file, which
    give weights and a tokenizer, or a vector file, whose weights follow Zipf's law. TEXTS are files or globs of plain
    text, JSON lines, CSV, TSV, Parquet or MediaWiki exports, also compressed. A table has id, title, label and the
    beginning of each text with its vector.
    """
    with terminal_reporter() as reporter:
        encoding = {name: options.pop(name) for name in ENCODING}
        encoder = open_encoder(parse_source(vectors), **encoding)
        text = encode_files(encoder, read_corpus(list(files), **options), target, reporter)
    write(shown(text.replace("\n", "; ")))


@command(
    "distembed evaluate vectors.txt --sets wordeval/",
    "distembed evaluate a.txt b.bin --sets wordeval/ --same-words --to scores.json",
    "distembed evaluate runs/psdvec --sets a.csv --columns score=RT --items cosines.csv",
)
@argument("vectors", nargs=-1, required=True)
@option(
    "--sets sets",
    "A folder or file of evaluation sets; may be repeated.",
    metavar="FILE",
    multiple=True,
    required=True,
)
@answer_target()
@flag("--same-words", "Judge several vector files on the words they share.")
@number("--max-words", "Read only the first N vectors of a file.")
@option(
    "--case",
    "Look words up as written and then in lower case (auto), in lower case, as written, or in any case.",
    choices=Case,
    default="auto",
)
@option(
    "--unknown",
    "Items with an unknown word are left out (default), wrong (zero), or answered from its n-grams.",
    choices=Unknown,
)
@encoding_options("Of sentences: ")
@option(
    "--columns",
    "Read lists of pairs by word1=NAME,word2=NAME,score=NAME; others are guessed.",
    metavar="ROLE=NAME,...",
)
@target(
    "Write each item of the word sets with its score to .csv, .tsv or .parquet.",
    names="--items",
    required=False,
    ends=(".csv", ".tsv", ".parquet"),
)
def evaluate(
    vectors: tuple[str, ...],
    sets: tuple[str, ...],
    target: str | None,
    columns: str | None,
    items: str | None,
    **options: Any,
) -> None:
    """Score word vectors on evaluation sets, in one table.

    The sets hold similarities, analogies, synonyms, categories or sentences, which are encoded as by encode. VECTORS
    are vector files, workspaces or job files.
    """
    named = [part.partition("=") for part in columns.split(",") if part] if columns else []
    if not all(sign for _, sign, _ in named):
        raise click.UsageError(f"--columns takes ROLE=NAME, as word1=stimulus, and not {columns!r}")
    roles = {role.strip(): name.strip() for role, _, name in named} if columns else None
    # Their names in all that is written hide what is secret in a URL.
    sources = {public(path): parse_source(path) for path in vectors}
    found = score_sources(sources, sets, columns=roles, with_items=items is not None, **options)
    write(score_table({path: [one.in_report for one in own] for path, own in found.scores.items()}).text())
    for line in found.notes:
        write(shown(line), err=True)
    if items and found.items is not None:
        write_table(items, table_of(found.items, "items"), format=table_format(items) or "csv")
        write(shown(f"{plural(found.items.num_rows, 'item')} in {items}"))
    rows = [_score_row(path, score) for path, column in found.scores.items() for score in column]
    save_answer(Answer("evaluation", found.notes, tables=[ShownTable("scores", rows)]), target)


def _score_row(path: str, score: Score) -> dict[str, Any]:
    (record,) = score_records([score])
    low, high = record.pop("interval") or (None, None)
    return {"vectors": path, **record, "low": low, "high": high}


MOST_FORMS = 1000
"""Neighbors among which the forms of a word are looked for."""


@command(
    "distembed neighbors runs/psdvec king music",
    "distembed neighbors vectors.bin king -n 5",
    "distembed neighbors runs/psdvec king music --to neighbors.csv",
)
@argument("vectors")
@click.argument("words", nargs=-1, required=True)
@number("-n n", "How many neighbors of each word.", default=10)
@flag(
    "--without-spelling", "Leave out forms and compounds of a word: what begins like it, or is a part of it."
)
@answer_target()
def neighbors(
    vectors: str, words: tuple[str, ...], n: int, without_spelling: bool, target: str | None
) -> None:
    """Print the nearest words by cosine.

    VECTORS is a vector file, a workspace or a job file. Write the names of a table as the table or the vectors have
    them. If a word has no vector of its own, the command composes one from its character n-grams, if VECTORS has them,
    or takes a word that differs in case alone (Tabelle for tabelle), and says so. It lists words without a vector at
    the end, with words of similar spelling; the exit code is then 1.
    """
    source = read_source(vectors)
    model, in_table = load_vectors(source), names_of(source)
    unknown, rows = list[str](), list[dict[str, Any]]()
    meant, notes = known_words(words, [*model.words, *in_table])
    for line in notes:
        write(shown(line), err=True)
    for word in meant:
        try:
            name = word if word in model else in_table.get(word, word)
            near = model.most_similar(name, n=(MOST_FORMS + n) if without_spelling else n)
        except UnknownWordError as error:
            unknown.append(str(error))
            continue
        near = [each for each in near if not (without_spelling and is_form_of(name, each.word))][:n]
        origin = "" if word in model else model.describe(word)
        if word not in model and word in in_table:
            origin = f"in the vectors {in_table[word]!r}"
        write(_of_one_direction(model, word, near) or neighbor_line(word, near, origin=origin))
        names = ("word", "rank", "neighbor", "similarity")
        rows += [dict(zip(names, (word, rank, *one), strict=True)) for rank, one in enumerate(near, 1)]
    save_answer(Answer("neighbors", [*notes, *unknown], tables=[ShownTable("neighbors", rows)]), target)
    if unknown:
        fail("; ".join(unknown), code=1)


SAME = 0.9995
"""The least cosine that is printed as 1.000."""


def _of_one_direction(model: WordVectors, word: str, near: list[Neighbor]) -> str:
    """Return a line on a word whose neighbors all have its direction, as words of one topic have; "" for others."""
    if word not in model or len(near) < 2 or near[-1].similarity < SAME:
        return ""
    same = [each.word for each in model.most_similar(word, n=len(model) - 1) if each.similarity >= SAME]
    order = np.argsort(-np.linalg.norm(model[same], axis=1), kind="stable")[: len(near)]
    heaviest = ", ".join(shown(same[row]) for row in order.tolist())
    return (
        f"{shown(word)}: {heaviest}; the heaviest of {len(same):,} words that have its direction, as words of one "
        "topic alone have"
    )
