"""One table of a finished job to one file: which table, in which format."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, get_args

from distembed.pipeline.context import System, read_vectors
from distembed.pipeline.export.files import TABLE_FORMATS, table_format, write_table
from distembed.pipeline.registry import system_of
from distembed.pipeline.sections import Job
from distembed.storage.workspace import Workspace
from distembed.vectors.files import Format, vector_format

VECTOR_FORMATS: tuple[str, ...] = tuple(
    name for name in get_args(Format) if name not in ("auto", *TABLE_FORMATS)
)
"""The formats that hold words and vectors, and nothing else."""


class Choice(NamedTuple):
    """What is written, and in which format."""

    what: str
    format: str


def export_job(
    job: Job,
    target: str,
    *,
    what: str | None = None,
    format: str | None = None,  # noqa: A002 - as pandas has it
    space: str | None = None,
) -> str:
    """Write one table of a finished job to a file or URL, and return in words what was written.

    Parameters
    ----------
    job : Job
    target : str
        The file, which appears whole or not at all; a table is written some rows at a time.
    what : str, optional
        "words", "names", "documents" or "topics"; by default the main one of the system, and the words where the
        file is of a format for word vectors.
    format : str, optional
        One of `TABLE_FORMATS` and `VECTOR_FORMATS`; by default the end of the file's name tells.
    space : str, optional
        Written in place of blanks inside words, in the formats that end a word at a blank.

    Raises
    ------
    ValueError
        If the system has no such table, the format cannot be told, or does not fit the table.
    KeyError, FileNotFoundError
        If the job has not come so far.
    """
    system, workspace = system_of(job), Workspace.open(job.job.workspace)
    chosen = _choice(system, job, target, what, format)
    if chosen.format in VECTOR_FORMATS:
        vectors = read_vectors(workspace)
        vectors.save(target, format=chosen.format, space=space)  # type: ignore[arg-type]
        return f"{len(vectors):,} words x {vectors.vectors.shape[1]} dimensions in {target}"
    if space is not None:
        raise ValueError(
            f"space is {space!r}, but {chosen.format} keeps blanks as they are: leave it out, or choose one of the "
            f"formats {', '.join(VECTOR_FORMATS)}"
        )
    table = system.tables()[chosen.what](job, workspace)
    write_table(target, table, format=chosen.format)  # type: ignore[arg-type]
    return f"{table.contents} in {target}"


def infer_topics(job: Job, paths: Sequence[str], target: str) -> str:
    """Write the topics of new documents to a file or URL, and return in words what was written.

    Parameters
    ----------
    job : Job
        A finished job of a system with topics.
    paths : sequence of str
        Files, globs, folders or URLs, relative to the current folder.
    target : str
        As in `export_job`.

    Raises
    ------
    ValueError
        If the system infers nothing, or the format cannot be told.
    CorpusError, FileNotFoundError
        If a file cannot be read as the job says.
    """
    system, workspace = system_of(job), Workspace.open(job.job.workspace)
    if system.inference is None:
        raise ValueError(
            f"a job of the system {job.job.system} infers nothing of new documents; topics jobs do"
        )
    chosen = table_format(target)
    if chosen is None:
        raise ValueError(
            f"the format of {target} cannot be told from its name: end it in .parquet, .csv, .tsv or .npy"
        )
    with import_module(system.inference).inferred_table(job, workspace, paths) as table:
        write_table(target, table, format=chosen)
        return f"{table.contents} in {target}"


def _choice(system: System, job: Job, target: str, what: str | None, format: str | None) -> Choice:  # noqa: A002
    tables = system.tables()
    chosen = format or table_format(target) or vector_format(target)
    if chosen not in (*TABLE_FORMATS, *VECTOR_FORMATS):
        raise ValueError(
            f"the format of {target} cannot be told from its name: end it in .parquet, .csv (which Excel opens), "
            f".tsv or .npy (word vectors also .txt, .bin, .glove or .safetensors), or give --format, one of "
            f"{', '.join((*TABLE_FORMATS, *VECTOR_FORMATS))}"
        )
    name = what or ("words" if chosen in VECTOR_FORMATS and "words" in tables else next(iter(tables)))
    if name not in tables:
        raise ValueError(
            f"a job of the system {job.job.system} has no table of {name}: give --what {' or '.join(tables)}"
        )
    if chosen in VECTOR_FORMATS and name != "words":
        raise ValueError(
            f"{chosen} files hold words and vectors only, not {name}: write {name} to a file that ends in "
            ".parquet, .csv, .tsv or .npy"
        )
    return Choice(name, chosen)
