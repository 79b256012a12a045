"""What a finished job says of texts or rows that it has not seen, to one file."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import dask

from distembed.job.model import Job
from distembed.job.opening import check_code, refuse_recorded
from distembed.job.stage import system_of
from distembed.storage.workspace import Workspace


class NewFiles(NamedTuple):
    """Files that a job has not seen, and what is wanted of them.

    Attributes
    ----------
    paths : tuple of str
        Files, globs, folders or URLs, relative to the current folder; of an imputation job one table.
    target : str
        The file that is written, whole or not at all.
    words : str, optional
        A file of the words that get a vector, one per line; for jobs of word vectors.
    min_count : int, optional
        The fewest occurrences of such a word; by default the job's own, and 1 for the words of a file.
    space : str, optional
        Written in place of spaces inside words, in the formats that end a word at a space.
    """

    paths: tuple[str, ...]
    target: str
    words: str | None = None
    min_count: int | None = None
    space: str | None = None


def infer_job(job: Job, new: NewFiles, *, allow_code: bool = False) -> str:
    """Write what a finished job infers of new files to a file or URL, and return in words what was written.

    A topics job infers the topics of documents, a psdvec job the vectors of words, and an imputation job those of the
    names of a table. `allow_code` lets the tokenizer of the job be a Python function.

    Raises
    ------
    JobError
        If the job names a Python function and `allow_code` is False, or was found in a workspace and names a file that
        has to be read.
    ValueError
        If the system infers nothing, the format of the file cannot be detected, or there is nothing to infer.
    CorpusError, FileNotFoundError
        If a file cannot be read as the job says.
    """
    check_code(job, allow_code=allow_code)
    refuse_recorded(job)
    module = system_of(job).inference
    if module is None:
        raise ValueError(
            f"a job of the method {job.job.system} infers nothing of new files; topics, psdvec and imputation jobs do"
        )
    with dask.config.set({"distembed.block_memory": job.resources.block_memory}):
        written: str = import_module(module).infer(job, Workspace.open(job.job.workspace), new)
    return written
