"""The door: tells once what a user has named, a job file, a workspace or a file of vectors, and opens it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TypeAlias

from distembed.corpus.paths import is_hidden
from distembed.job.inputs import inputs_of
from distembed.job.load import JOB_BYTES, checked_job, load_job
from distembed.job.model import Job, JobError
from distembed.job.stage import names_in_table, read_vectors
from distembed.storage.records import WORKSPACE_FILE
from distembed.storage.workspace import Workspace
from distembed.urls import has_secret, protocol_of
from distembed.vectors import WordVectors
from distembed.vectors.files import vector_format

JOB_FILE = "job.toml"


Source: TypeAlias = Job | Workspace | str
"""What a user names where vectors are asked for: the job of a job file, a workspace, or the path of a vector file."""


def parse_source(text: str) -> Source:
    """Return what a user names: a workspace, the job in a file that ends in .toml, or a file of vectors.

    Raises
    ------
    JobError, FileNotFoundError, IsADirectoryError
        As `open_job`: also where nothing is there, and the name is not that of a file of vectors.
    """
    if place := existing_workspace(text):
        return place
    if ("://" in text or Path(text).is_file()) and not text.endswith(".toml"):
        return text
    if vector_format(text) and not Path(text).exists():
        raise FileNotFoundError(f"there is no file {text}: name a vector file, a workspace or a job file")
    return open_job(text)


def open_job(text: str, *, settings: tuple[str, ...] = (), workspace: str | None = None) -> Job:
    """Return the job that a user names: the one that a workspace records, or else the one in a job file.

    What a workspace records may be a stranger's: no input of such a job is opened.

    Raises
    ------
    JobError, FileNotFoundError
        As `load_job`; a workspace may also hold no job, and no setting changes what its job reads.
    IsADirectoryError
        It is a local folder and no workspace.
    """
    place = existing_workspace(text)
    if place is None:
        if (folder := Path(text)).is_dir():
            inside = [
                path for path in sorted(folder.iterdir()) if path.is_dir() and Workspace.exists(str(path))
            ]
            meant = next(iter([*inside, *sorted(folder.glob("*.toml"))]), None)
            advice = f"did you mean {meant}?" if meant else "name a vector file, a workspace or a job file"
            raise IsADirectoryError(f"{text} is a folder and no workspace; {advice}")
        if "://" in text:
            ended = ": what lies at memory:// ends with its process" if protocol_of(text) == "memory" else ""
            raise FileNotFoundError(f"there is no workspace at {text}{ended}; name another, or a job file")
        job = load_job(text, settings=settings, workspace=workspace)
        refuse_own_workspace(job)
        return job
    job = _recorded_job(place, settings, workspace)
    if typed := [path for path in inputs_of(job) if path not in inputs_of(_recorded_job(place))]:
        raise JobError(
            f"a workspace is read without its inputs, and {', '.join(typed)} would be one: name the job's own file, or "
            f"{place.path(JOB_FILE)}"
        )
    return job


def job_of(source: Job | Workspace) -> Job:
    """Return the job of a source: its own, or the one that the workspace records, which is only read."""
    return source if isinstance(source, Job) else _recorded_job(source)


def _recorded_job(place: Workspace, settings: tuple[str, ...] = (), workspace: str | None = None) -> Job:
    text = place.read_file(JOB_FILE, most=JOB_BYTES)
    if not text:  # it may have been emptied by a power cut
        raise FileNotFoundError(f"the workspace {place.url} records no job: name the job file")
    name = place.path(JOB_FILE)
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        raise JobError(
            f"{name} is damaged, it is not UTF-8: name the job file that made the workspace"
        ) from None
    job = checked_job(decoded, name=name, folder=Path(), settings=settings, workspace=workspace or place.url)
    return job.as_recorded()


def refuse_own_workspace(job: Job) -> None:
    """Refuse a job that reads a folder which holds its workspace: each run would read what it has written.

    Raises
    ------
    JobError
        It does.
    """
    workspace = _place(job.job.workspace)
    for path in inputs_of(job):
        inside = workspace.removeprefix(f"{_place(path)}/")
        if inside != workspace and not is_hidden(inside):
            raise JobError(
                f"the job reads all of {path}, and its workspace {job.job.workspace} lies inside: choose a workspace "
                "outside of that folder"
            )


def _place(path: str) -> str:
    """Return a path or URL in the form in which two can be compared."""
    return path.rstrip("/") if "://" in path else str(Path(path).resolve())


def check_outside(target: str) -> None:
    """Refuse to write a file, or a folder, into a workspace: no run would know what it was made from.

    Raises
    ------
    ValueError
        If it is a workspace, or a folder above it is one; the message names it. If it is a URL with a secret.
    """
    if has_secret(target):  # which the library of its store may print
        raise ValueError(f"{target} holds a password, a signature or a token: name it without")
    path = re.sub("^(file|local)://", "", target)
    place = Path(path).resolve()
    for folder in [] if "://" in path else (place, *place.parents):
        if (folder / WORKSPACE_FILE).is_file():
            raise ValueError(
                f"{target} lies in the workspace {folder}, which holds only what its job makes: name a place "
                "outside of it"
            )


def code_of(job: Job) -> list[str]:
    """Return a sentence for each function that a job would call, and each regular expression, which may never end."""
    patterns = {name: getattr(getattr(job, name), "pattern", "") for name in type(job).model_fields}
    return [
        f'{name}.pattern = "{pattern}" calls the Python function {pattern} on every document'
        if re.fullmatch(r"[\w.]+:\w+", pattern)
        else f'{name}.pattern = "{pattern}" is a regular expression of its author'
        for name, pattern in patterns.items()
        if pattern and not pattern.isalpha()
    ]


def check_code(job: Job, *, allow_code: bool) -> None:
    """Refuse a job that names code where its reader has not allowed it.

    Raises
    ------
    JobError
        The job names a "module:function".
    """
    found = code_of(job)
    if found and not allow_code:
        raise JobError(f"{'; '.join(found)}: if you trust it, give --allow-code (allow_code=True in Python)")


READ_AGAIN = (("corpus", "phrases_file"), ("domain", "names"))
"""Keys that name a file which a finished job reads again when it is asked of new texts or names."""


def refuse_recorded(job: Job) -> None:
    """Refuse to open the files that a finished job reads again, where the job was found in a workspace.

    Raises
    ------
    JobError
        The job was found there, and has such a file.
    """
    for section, key in READ_AGAIN if job.is_recorded else ():
        if path := getattr(getattr(job, section, None), key, None):
            raise JobError(
                f"{section}.{key} = {path!r} has to be read, but stands in a workspace, which may be a stranger's: if "
                f"you know the job, name it in place of the workspace: its own file, or {job.job.workspace}/{JOB_FILE}"
            )


def existing_workspace(url: str) -> Workspace | None:
    """Return the workspace at a folder or URL, to be read, or None where there is none yet."""
    return Workspace.open(url) if Workspace.exists(url) else None


def workspace_of(job: Job) -> Workspace | None:
    """Return the workspace of a job, to be read, or None where there is none yet.

    Raises
    ------
    JobError
        If it holds the results of another method, of whose stages some have the same names.
    """
    if place := existing_workspace(job.job.workspace):
        try:
            recorded = tomllib.loads((place.read_file(JOB_FILE) or b"").decode())["job"]["system"]
        except (ValueError, LookupError, TypeError):  # none is there, or it is damaged
            return place
        if recorded != job.job.system:
            raise JobError(
                f"{job.job.workspace} holds the results of the method {recorded}: give this job of the method "
                f"{job.job.system} a workspace of its own"
            )
    return place


def load_vectors(source: Source, *, max_words: int | None = None) -> WordVectors:
    """Read word vectors from a vector file, from a workspace, or from the workspace of a job file."""
    if isinstance(source, str):
        return WordVectors.load(source, max_words=max_words)
    place = source if isinstance(source, Workspace) else Workspace.open(source.job.workspace)
    return read_vectors(place, max_words=max_words)


def names_of(source: Source) -> dict[str, str]:
    """Return the word of each name that the table of a workspace spells otherwise; nothing for a vector file."""
    if isinstance(source, str):
        return {}
    return names_in_table(source if isinstance(source, Workspace) else Workspace.open(source.job.workspace))
