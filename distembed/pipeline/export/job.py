"""One table of a finished job to one file: which table, in which format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

import numpy as np

from distembed.factorization.subwords import SubwordMap
from distembed.formats.names import VectorFormat as Format
from distembed.formats.names import vector_format
from distembed.pipeline.context import read_vectors, system_of
from distembed.pipeline.export.files import TABLE_FORMATS, table_format, write_table
from distembed.pipeline.export.tables import MakeTable, vectors_table
from distembed.pipeline.opening import VectorFile, job_of, load_vectors, open_job, parse_source
from distembed.pipeline.sections import Job
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors
from distembed.vectors.files import SUBWORD_FORMATS

VECTOR_FORMATS: tuple[str, ...] = tuple(
    name for name in get_args(Format) if name not in ("auto", *TABLE_FORMATS)
)
"""The formats that hold words and vectors, and nothing else."""


class ExportOptions(NamedTuple):
    """What of a source is written, and how.

    Attributes
    ----------
    what : str, optional
        "words", "names", "documents" or "topics"; by default the main one of the system, and the words where the
        file is of a format for word vectors.
    format : str, optional
        One of `TABLE_FORMATS` and `VECTOR_FORMATS`; by default the end of the file's name tells.
    space : str, optional
        Written in place of blanks inside words, in the formats that end a word at a blank.
    max_words : int, optional
        Keep only the first words. The others are composed by those who read the file, where there is a table of
        n-grams and the format keeps it.
    buckets : int, optional
        Learn vectors of character n-grams from all the words, in so many buckets that n-grams share, in place of the
        table that is there. A table of 20,000 buckets is as large as 20,000 words.
    half : bool
        Write float16 in place of float32 ("safetensors").
    escape : bool
        As in `distembed.pipeline.export.files.write_table`.
    """

    what: str | None = None
    format: str | None = None
    space: str | None = None
    max_words: int | None = None
    buckets: int | None = None
    half: bool = False
    escape: bool = True


def export_source(source: str, target: str, options: ExportOptions) -> str:
    """Export a finished job, as `export_job` does, or a file of word vectors, as `export_vectors` does.

    Parameters
    ----------
    source : str
        A workspace, a job file, or a file whose name ends as those of word vectors do.
    target, options
        As in those functions.

    Raises
    ------
    ValueError
        As in those functions, or if a table is asked of a file of word vectors.
    """
    opened = open_job(source) if vector_format(source) is None else parse_source(source)
    if not isinstance(opened, VectorFile):
        return export_job(job_of(opened), target, options)
    if options.what not in (None, "words"):
        raise ValueError(f"{source} is a file of word vectors and has no {options.what}: leave out --what")
    return export_vectors(load_vectors(opened), target, options)


def export_job(job: Job, target: str, options: ExportOptions) -> str:
    """Write one table of a finished job to a file or URL, and return in words what was written.

    Parameters
    ----------
    job : Job
    target : str
        The file, which appears whole or not at all; a table is written some rows at a time.
    options : ExportOptions

    Raises
    ------
    ValueError
        If the system has no such table, the format cannot be told, or does not fit the table.
    KeyError, FileNotFoundError
        If the job has not come so far.
    """
    tables, workspace = system_of(job).tables(), Workspace.open(job.job.workspace)
    what, chosen = _choice(job, tables, target, options)
    if chosen in VECTOR_FORMATS:
        return export_vectors(read_vectors(workspace), target, options._replace(format=chosen))
    _refuse_options(options, ("space", "max_words", "buckets", "half"), chosen)
    table = tables[what](job, workspace)
    write_table(target, table, format=chosen, escape=options.escape)  # type: ignore[arg-type]
    return f"{table.contents} in {target}"


def export_vectors(vectors: WordVectors, target: str, options: ExportOptions) -> str:
    """Write word vectors to a file or URL, and return in words what was written and what was left out.

    Raises
    ------
    ValueError
        If the format cannot be told, or does not do what the options ask.
    """
    whole = vectors if options.buckets is None else _with_buckets(vectors, options.buckets)
    kept = whole if options.max_words is None else whole.head(options.max_words)
    chosen = options.format or vector_format(target) or table_format(target)
    if chosen in TABLE_FORMATS and chosen not in get_args(Format):
        _refuse_options(options, ("space", "half"), chosen)
        write_table(target, vectors_table(kept), format=chosen, escape=options.escape)
    else:
        kept.save(target, format=chosen, space=options.space, half=options.half)  # type: ignore[arg-type]
    size = f"{len(kept):,} words x {kept.vectors.shape[1]} dimensions in {target}"
    if kept.subwords is None:
        return size
    if chosen not in SUBWORD_FORMATS:
        return (
            f"{size}; {kept.subwords.contents} are left out, which {' and '.join(SUBWORD_FORMATS)} files hold: "
            "unknown words have no vector there"
        )
    return f"{size}, with {kept.subwords.contents} for other words{_loss(whole, kept)}"


def _refuse_options(options: ExportOptions, names: Sequence[str], format: str) -> None:  # noqa: A002
    """Raise ValueError for an option of word vectors that a table does not have."""
    for name in names:
        value = getattr(options, name)
        if value not in (None, False):
            raise ValueError(
                f"{name} is {value!r}, but {format} keeps words and numbers as they are: leave it out, or "
                f"choose one of the formats {', '.join(VECTOR_FORMATS)}"
            )


def _with_buckets(vectors: WordVectors, n_buckets: int) -> WordVectors:
    """Return word vectors with a table of n-grams in buckets that is learned from them."""
    min_n, max_n = (3, 6) if vectors.subwords is None else (vectors.subwords.min_n, vectors.subwords.max_n)
    model = SubwordMap(min_n, max_n, buckets=n_buckets, validation_fraction=0.0)
    table = model.fit(vectors.words, vectors.vectors).table_
    return WordVectors(vectors.words, vectors.vectors, subwords=table)


def _loss(vectors: WordVectors, kept: WordVectors) -> str:
    """Return how near the composed vectors of the words that were not kept are to their own, in words."""
    left_out = list(vectors.words[len(kept) :])
    if not left_out:
        return ""
    cosines = vectors.composed_similarities(left_out)
    return (
        f"; {len(left_out):,} words are composed there: the median cosine with their own vectors is "
        f"{np.median(cosines):.2f}"
    )


def _choice(
    job: Job, tables: Mapping[str, MakeTable], target: str, options: ExportOptions
) -> tuple[str, str]:
    """Return the name of the table that is written, and the format."""
    chosen = options.format or table_format(target) or vector_format(target)
    if chosen not in (*TABLE_FORMATS, *VECTOR_FORMATS):
        raise ValueError(
            f"the format of {target} cannot be told from its name: end it in .parquet, .csv (which Excel opens), "
            ".tsv or .npy (word vectors also .txt, .bin, .glove, .safetensors or .fasttext.bin), or give --format, "
            f"one of {', '.join((*TABLE_FORMATS, *VECTOR_FORMATS))}"
        )
    name = options.what or ("words" if chosen in VECTOR_FORMATS and "words" in tables else next(iter(tables)))
    if name not in tables:
        raise ValueError(
            f"a job of the system {job.job.system} has no table of {name}: give --what {' or '.join(tables)}"
        )
    if chosen in VECTOR_FORMATS and name != "words":
        raise ValueError(
            f"{chosen} files hold words and vectors only, not {name}: write {name} to a file that ends in "
            ".parquet, .csv, .tsv or .npy"
        )
    return name, chosen
