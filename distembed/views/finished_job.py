"""Run a whole job from Python: a job file, a table of sections or a checked job, and what it has made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

import dask.array as da
import pyarrow as pa

from distembed.display import plural
from distembed.job.load import checked_job, read_sections
from distembed.job.model import Job
from distembed.job.opening import check_outside, refuse_own_workspace
from distembed.job.progress import Reporter
from distembed.job.run import run_stages
from distembed.job.stage import REPORT, read_vectors
from distembed.job.workers import Workers
from distembed.storage.records import OutputRecord
from distembed.storage.workspace import Workspace
from distembed.urls import any_protocol
from distembed.vectors import WordVectors
from distembed.views.export import ExportOptions, export_job

T = TypeVar("T")

Sections: TypeAlias = Mapping[str, Mapping[str, object]]
"""Keys of a job by section."""


class Outputs(Mapping[str, T], Generic[T]):
    """What a workspace holds of one kind, by name; opened when it is asked for."""

    def __init__(self, names: tuple[str, ...], read: Callable[[str], T]) -> None:
        self._names, self._read = names, read

    def __getitem__(self, name: str) -> T:
        """Return the output of a name."""
        if name not in self._names:
            raise KeyError(f"there is no output {name!r}; there are {', '.join(self._names) or 'none'}")
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._names)

    def __repr__(self) -> str:
        return f"Outputs({', '.join(self._names)})"


@dataclass(frozen=True, repr=False)
class ShownReport:
    """A report that a notebook shows in a frame.

    Attributes
    ----------
    place : str
        Where it lies.
    html : str
        The page.
    height : int
        The height of the frame in pixels.
    """

    place: str
    html: str
    height: int

    def __repr__(self) -> str:
        return f"ShownReport({self.place})"

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self.height}px; border: 1px solid #ccc"
        return f'<iframe srcdoc="{escape(self.html)}" style="{style}" sandbox="allow-scripts"></iframe>'


@dataclass(frozen=True, repr=False)
class FinishedJob:
    """A job that was run, and what it has made.

    Attributes
    ----------
    job : Job
        As it was run, with all defaults.
    workspace : Workspace
        Open for reading.
    ran, skipped : tuple of str
        The stages that were computed now, and those that were done before.
    summary : str
        What the command line prints at the end of a run.
    """

    job: Job
    workspace: Workspace
    ran: tuple[str, ...]
    skipped: tuple[str, ...]
    summary: str

    def __repr__(self) -> str:
        done = f"{plural(len(self.ran), 'stage')} run, {len(self.skipped)} kept"
        return f"FinishedJob({self.job.job.system} in {self.workspace.url}: {done})"

    @property
    def arrays(self) -> Outputs[da.Array]:
        """The arrays of the workspace by name, each opened lazily as a Dask array."""
        names = (name for name, record in self._outputs() if record.spec.is_array)
        return Outputs(tuple(names), self.workspace.array)

    @property
    def tables(self) -> Outputs[pa.Table]:
        """The tables of the workspace by name, each read as a PyArrow table: `.to_pandas()` makes a data frame."""
        names = (name for name, record in self._outputs() if record.spec.kind == "table")
        return Outputs(tuple(names), self.workspace.table)

    @property
    def report(self) -> str:
        """The place of the report, one HTML file."""
        return self.workspace.path(REPORT.name)

    @property
    def vectors(self) -> WordVectors:
        """The words and their vectors, in memory, as `distembed neighbors` reads them."""
        return read_vectors(self.workspace)

    def show(self, *, height: int = 600) -> ShownReport:
        """Return the report, which a notebook shows in a frame of so many pixels; it has to have been written.

        Raises
        ------
        FileNotFoundError
            If the job was not run to its end.
        """
        try:
            page = self.workspace.read_bytes(REPORT.name)
        except KeyError:
            raise FileNotFoundError(f"{self.report} is not there: run the job to its end") from None
        return ShownReport(self.report, page.decode(), height)

    def export(self, target: str | Path, *, what: str | None = None, format: str | None = None) -> str:  # noqa: A002
        """Write a table to a file, as `distembed export` does; return in words what was written."""
        check_outside(str(target))
        return export_job(self.job, str(target), ExportOptions(what, format))

    def _outputs(self) -> Iterator[tuple[str, OutputRecord]]:
        for stage in self.workspace.stages().values():
            yield from ((name, record) for name, record in stage.outputs.items())


def run_job(
    job: Job | Sections | str | Path,
    *,
    workspace: str | Path | None = None,
    scheduler: str | None = None,
    workers: Workers | None = None,
    reporter: Reporter | None = None,
    until: str | None = None,
    allow_code: bool = False,
    replace: bool = False,
    **sections: Mapping[str, object],
) -> FinishedJob:
    """Run a job, or finish one that was stopped, as `distembed run` does.

    Parameters
    ----------
    job : str, path, mapping or Job
        The place of a job file; or its sections, whose relative paths begin in the current folder.
    workspace : str or path, optional
        Overrides the workspace of the job.
    scheduler : str, optional
        Where the tasks run, as for the command: "threads" of this process (the default), local "processes", or the
        address of a Dask scheduler, such as a cluster's `scheduler_address`. It does not change a bit of the result.
    workers : Workers, optional
        Workers that were made elsewhere, in place of `scheduler`; by default as many as the job says, else one per
        core.
    reporter : Reporter, optional
        Told of progress; by default nobody.
    until : str, optional
        The last stage to run.
    allow_code : bool
        Let the job call the Python functions that it names, and open URLs of any protocol.
    replace : bool
        Compute again what changed, also where that was more than a minute of work.
    **sections : mappings
        Keys that override those of the job: ``topics={"n_topics": 5}``.

    Returns
    -------
    FinishedJob
        Its `arrays` and `tables`, its workspace, and what it printed.

    Raises
    ------
    JobError, ReplaceError, FileNotFoundError, MemoryError, OSError
        As the command, in the same words.
    ValueError
        If `scheduler` is neither "threads" nor "processes" nor an address.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> job = {
    ...     "job": {"system": "psdvec", "title": "Nine titles"},
    ...     "corpus": {"paths": [titles()]},
    ...     "vocabulary": {"min_count": 2},
    ...     "psdvec": {"n_components": 3, "smoothing": 0.1},
    ...     "matrices": {"keep": ["pmi", "distances"]},
    ... }
    >>> run = de.run_job(job, workspace="runs/titles")
    >>> run.ran
    ('tokens', 'vocabulary', 'documents', 'cooccurrence', 'pmi', 'core', 'vectors', 'distances', 'evaluation', 'report')
    >>> run.arrays["vectors"].shape
    (16, 3)
    >>> run.tables["vocabulary"]["word"][:4].to_pylist()
    ['of', 'system', 'graph', 'the']
    >>> run.export("vectors.txt")
    '16 words x 3 dimensions in vectors.txt'
    >>> [neighbor.word for neighbor in de.WordVectors.load("vectors.txt").most_similar("response", n=2)]
    ['time', 'computer']
    >>> de.run_job(job, workspace="runs/titles").ran  # all of it is done
    ()
    """
    with any_protocol(allowed=allow_code):
        checked = _checked(job, sections, None if workspace is None else str(workspace))
        refuse_own_workspace(checked)
        resources = checked.resources
        crew = workers or Workers(
            scheduler=scheduler, n_workers=resources.workers, memory_limit=resources.memory_limit
        )
        done = run_stages(
            checked, workers=crew, reporter=reporter, until=until, allow_code=allow_code, replace=replace
        )
    return FinishedJob(checked, Workspace.open(checked.job.workspace), done.ran, done.skipped, done.text)


def _checked(job: Job | Sections | str | Path, sections: Sections, workspace: str | None) -> Job:
    """Return a job with the sections that override its own, checked whole."""
    name, folder = "the job", Path()
    if isinstance(job, Job):
        if not sections and workspace is None:
            return job
        tree = job.model_dump(mode="json", exclude_none=True)
    elif isinstance(job, Mapping):
        tree = {key: dict(value) for key, value in job.items()}
    else:
        name, folder, tree = str(job), Path(job).parent, read_sections(Path(job))
    for section, keys in sections.items():
        own = tree.get(section, {})
        tree[section] = {**own, **keys} if isinstance(own, dict) else own
    return checked_job(tree, name=name, folder=folder, workspace=workspace)
