"""The door: tells once what a user has named, a job file, a workspace or a file of vectors, and opens it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from distembed.corpus.paths import is_hidden
from distembed.formats.names import vector_format
from distembed.job.inputs import inputs_of
from distembed.job.load import JOB_BYTES, load_job, parse_job
from distembed.job.model import Job, JobError
from distembed.job.stage import names_in_table, read_vectors
from distembed.storage.workspace import Workspace
from distembed.urls import (
    ANONYMOUS,
    ENDPOINTS_VARIABLE,
    LOCAL,
    protocol_of,
    unconfirmed_endpoints,
    use_storage_options,
)
from distembed.vectors import WordVectors

JOB_FILE = "job.toml"


class VectorFile(NamedTuple):
    """A file of word vectors, by its path or URL."""

    path: str


Source: TypeAlias = Job | Workspace | VectorFile
"""What a user names where vectors are asked for: the job of a job file, a workspace, or a file of vectors."""


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
        return VectorFile(text)
    if vector_format(text) and not Path(text).exists():
        raise FileNotFoundError(f"there is no file {text}: name a vector file, a workspace or a job file")
    return open_job(text)


def open_job(
    text: str, *, settings: tuple[str, ...] = (), workspace: str | None = None, to_run: bool = False
) -> Job:
    """Return the job that a user names: the one that a workspace records, or else the one in a job file.

    What a workspace records may be a stranger's: none of its options for stores is used. Of a job that is not `to_run`,
    no input is opened; of one that is, only those on this machine and by the protocol of the workspace's own URL.

    Raises
    ------
    JobError, FileNotFoundError
        As `load_job`; a workspace may also hold no job, or one that is to run and reads what its reader did not name.
    IsADirectoryError
        It is a local folder and no workspace.
    """
    place = existing_workspace(text)
    if place is None:
        _refuse_folder(text)
        if "://" in text:
            raise FileNotFoundError(_no_workspace(text))
        return reached(load_job(text, settings=settings, workspace=workspace), settings)
    job = _recorded_job(place, settings, workspace)
    if to_run:
        _refuse_other_protocols(job, place, settings)
    return reached(job if to_run else job.as_recorded(), settings)


def job_of(source: Job | Workspace) -> Job:
    """Return the job of a source: its own, or the one that the workspace records, which is only read."""
    return source if isinstance(source, Job) else reached(_recorded_job(source).as_recorded())


def _recorded_job(place: Workspace, settings: tuple[str, ...] = (), workspace: str | None = None) -> Job:
    return parse_job(
        _recorded_text(place),
        name=place.path(JOB_FILE),
        folder=Path(),
        settings=settings,
        workspace=workspace or place.url,
        recorded=True,
    )


def _no_workspace(url: str) -> str:
    ended = ": what lies at memory:// ends with its process" if protocol_of(url) == "memory" else ""
    return f"there is no workspace at {url}{ended}; name another, or a job file"


def _recorded_text(place: Workspace) -> str:
    """Return the job file that a workspace holds; it may have been emptied by a power cut."""
    text = place.read_file(JOB_FILE, most=JOB_BYTES)
    if not text:
        raise FileNotFoundError(f"the workspace {place.url} records no job: name the job file")
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise JobError(
            f"{place.path(JOB_FILE)} is damaged, it is not UTF-8: name the job file that made the workspace"
        ) from None


def recorded_tables(place: Workspace) -> dict[str, Any]:
    """Return the tables of the job file that a workspace holds; none where it holds none, or one that is damaged."""
    try:
        return tomllib.loads((place.read_file(JOB_FILE) or b"").decode())
    except ValueError:
        return {}


def _refuse_other_protocols(job: Job, place: Workspace, settings: tuple[str, ...]) -> None:
    """Refuse to run the job of a workspace that reads by a protocol which its reader has not typed."""
    typed = {*LOCAL, protocol_of(place.url), *(protocol_of(value) for value in _typed(settings))}
    for path in inputs_of(job):
        if protocol_of(path) not in typed:
            raise JobError(
                f"the job that the workspace {place.url} records reads {path}, and a workspace may be a stranger's: "
                f"if you know the job, name it: its own file, or {place.path(JOB_FILE)}"
            )


def _typed(settings: tuple[str, ...]) -> list[str]:
    """Return the values of settings of the command line, without their quotes and brackets."""
    return [setting.partition("=")[2].strip("[]\"' ") for setting in settings]


def reached(job: Job, settings: tuple[str, ...] = ()) -> Job:
    """Return a job after its object stores can be reached; `settings` are those that the user has typed.

    Raises
    ------
    JobError
        The job names a host that would be shown the user's keys, and the user has not confirmed it; or a folder that it
        reads holds the workspace that it writes.
    """
    for protocol, options in job.resources.storage_options.items():
        for name, host in unconfirmed_endpoints(protocol, options):
            if host not in _typed(settings):
                raise JobError(_unconfirmed(protocol, name, host))
    paths = inputs_of(job)
    if not job.is_recorded:
        _refuse_own_workspace(job, paths)
    used = map(protocol_of, (job.job.workspace, *paths))
    use_storage_options(job.resources.storage_options, used=used)
    return job


def _refuse_own_workspace(job: Job, paths: Iterable[str]) -> None:
    """Refuse to read a folder that holds the workspace: each run would read what it has written."""
    workspace = _place(job.job.workspace)
    for path in paths:
        inside = workspace.removeprefix(f"{_place(path)}/")
        if inside != workspace and not is_hidden(inside):
            raise JobError(
                f"the job reads all of {path}, and its workspace {job.job.workspace} lies inside: choose a workspace "
                "outside of that folder"
            )


def _place(path: str) -> str:
    """Return a path or URL in the form in which two can be compared."""
    return path.rstrip("/") if "://" in path else str(Path(path).resolve())


def _unconfirmed(protocol: str, name: str, host: str) -> str:
    anonymous = ANONYMOUS.get(protocol)
    public_store = (
        f"; for a public store, which needs none, add resources.storage_options.{protocol}.{anonymous[0]} = "
        f"{json.dumps(anonymous[1])}"
        if anonymous
        else ""
    )
    return (
        f"resources.storage_options.{name} = {host!r} would be sent your keys for {protocol}://: if you trust it, set "
        f"{ENDPOINTS_VARIABLE}={host} and give the command again{public_store}"
    )


def code_of(job: Job) -> list[str]:
    """Return a sentence for each "module:function" that a job would import and call."""
    patterns = {name: getattr(getattr(job, name), "pattern", "") for name in type(job).model_fields}
    return [
        f'{name}.pattern = "{pattern}" calls the Python function {pattern} on every document'
        for name, pattern in patterns.items()
        if ":" in pattern
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


def place_of(source: Source) -> str:
    """Return the path or URL of a file of vectors, or of the workspace of a job."""
    if isinstance(source, VectorFile):
        return source.path
    return source.url if isinstance(source, Workspace) else source.job.workspace


def load_vectors(source: Source, *, max_words: int | None = None) -> WordVectors:
    """Read word vectors from a vector file, from a workspace, or from the workspace of a job file."""
    if isinstance(source, VectorFile):
        return WordVectors.load(source.path, max_words=max_words)
    place = source if isinstance(source, Workspace) else Workspace.open(source.job.workspace)
    return read_vectors(place, max_words=max_words)


def names_of(source: Source) -> dict[str, str]:
    """Return the word of each name that the table of a workspace spells otherwise; nothing for a vector file."""
    if isinstance(source, VectorFile):
        return {}
    return names_in_table(source if isinstance(source, Workspace) else Workspace.open(source.job.workspace))


def _refuse_folder(source: str) -> None:
    """Refuse a folder that is no workspace, and name the workspace or the job file in it.

    Raises
    ------
    IsADirectoryError
        The folder is local and holds neither words nor the records of a job.
    """
    folder = Path(source)
    if not folder.is_dir():
        return
    inside = [path for path in sorted(folder.iterdir()) if path.is_dir() and Workspace.exists(str(path))]
    meant = next(iter([*inside, *sorted(folder.glob("*.toml"))]), None)
    advice = f"did you mean {meant}?" if meant else "name a vector file, a workspace or a job file"
    raise IsADirectoryError(f"{source} is a folder and no workspace; {advice}")
