"""Opens what a command names: a job file, a workspace and the job that it records, a file of vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from distembed.pipeline.config import load_job, parse_job
from distembed.pipeline.context import read_vectors
from distembed.pipeline.sections import Job
from distembed.pipeline.stores import use_storage_options
from distembed.spelling import did_you_mean
from distembed.storage.workspace import Workspace

if TYPE_CHECKING:
    from distembed.vectors import WordVectors

JOB_FILE = "job.toml"


def open_job(source: str, *, settings: tuple[str, ...] = (), workspace: str | None = None) -> Job:
    """Return the job in a job file, or the one that a workspace records.

    Raises
    ------
    JobError, FileNotFoundError
        As `load_job`; a workspace may also hold no job.
    """
    if not Workspace.exists(source):
        _refuse_folder(source)
        return reached(load_job(source, settings=settings, workspace=workspace))
    place = Workspace.open(source)
    text = place.read_file(JOB_FILE)
    if text is None:
        raise FileNotFoundError(f"the workspace {place.url} records no job: name the job file")
    job = parse_job(
        text.decode(),
        name=place.path(JOB_FILE),
        folder=Path(),
        settings=settings,
        workspace=workspace or place.url,
    )
    return reached(job)


def reached(job: Job) -> Job:
    """Return a job after its object stores can be reached."""
    use_storage_options(job.resources.storage_options)
    return job


def existing_workspace(job: Job) -> Workspace | None:
    """Return the workspace of a job, to be read, or None where there is none yet."""
    return Workspace.open(job.job.workspace) if Workspace.exists(job.job.workspace) else None


def load_vectors(source: str, *, max_words: int | None = None) -> WordVectors:
    """Read word vectors from a vector file, from a workspace, or from the workspace of a job file."""
    if source.endswith(".toml"):
        source = load_job(source).job.workspace
    if not Workspace.exists(source):
        from distembed.vectors import WordVectors  # noqa: PLC0415 - only who reads vectors waits for it

        _refuse_folder(source)
        return WordVectors.load(source, max_words=max_words)
    return read_vectors(Workspace.open(source), max_words=max_words)


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
    nearest = [str(path) for path in [*inside, *sorted(folder.glob("*.toml"))]]
    advice = did_you_mean(nearest[:1], otherwise="name a vector file, a workspace or a job file")
    raise IsADirectoryError(f"{source} is a folder and no workspace; {advice}")
