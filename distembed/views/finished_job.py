"""Run a whole job from Python, on files or on data that is in memory, and read what it has made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from distembed.corpus.texts import Texts, store_texts
from distembed.display import first_repeat, html_view, plural
from distembed.job.load import checked_job, read_sections
from distembed.job.model import Job
from distembed.job.opening import check_outside, refuse_own_workspace
from distembed.job.progress import Reporter, TerminalReporter
from distembed.job.run import run_stages
from distembed.job.stage import REPORT, read_vectors, system_named, system_of
from distembed.job.workers import Workers
from distembed.manifold.imputation import is_frame
from distembed.neighbors.distances import Metric
from distembed.scratch import Scratch
from distembed.storage.records import OutputRecord
from distembed.storage.workspace import Workspace
from distembed.typing import Frame
from distembed.vectors import WordVectors
from distembed.views.export import ExportOptions, export_source
from distembed.weighting.pmi import SmoothedPMI

T = TypeVar("T")

TOPIC_WORDS = 5
"""Words of its topic beside a document."""

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
        return f'<iframe srcdoc="{escape(self.html)}" style="{style}" sandbox></iframe>'


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

    def _repr_html_(self) -> str:
        rows = [
            (name, record.spec.kind, " x ".join(map(str, record.spec.shape or ())))
            for name, record in self._outputs()
        ]
        return html_view(repr(self), ("output", "kind", "shape"), rows)

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
    def topics(self) -> pa.Table:
        """The words of each topic with their weights, a row for each, as ``export(what="topics")`` writes them."""
        return self._exported("topics")

    @property
    def documents(self) -> pa.Table:
        """Each document with its topic, the first words of that, and what else ``export(what="documents")`` writes."""
        documents, words = self._exported("documents"), dict[int, list[str]]()
        for row in self.topics.to_pylist():
            words.setdefault(row["topic"], []).append(row["word"])
        named = [", ".join(words.get(topic, [])[:TOPIC_WORDS]) for topic in documents["topic"].to_pylist()]
        place = documents.schema.get_field_index("topic") + 1
        return documents.add_column(place, "topic_words", pa.array(named))

    def _exported(self, what: str) -> pa.Table:
        tables = system_of(self.job).tables()
        if what not in tables:
            raise ValueError(
                f"a job of the method {self.job.job.system} has no {what}: it has {', '.join(tables)}"
            )
        with self.workspace.of_one_run():
            return tables[what](self.job, self.workspace).rows.read_all()

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
        return export_source(self.job, str(target), ExportOptions(what, format))

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
    progress: bool = False,
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
    progress : bool
        Print progress, as the command does, where no reporter is given.
    until : str, optional
        The last stage to run.
    allow_code : bool
        Let the job call the Python functions that it names.
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
    if reporter is None and progress:
        reporter = TerminalReporter(Console(soft_wrap=True))
    with closing(reporter or Reporter()) as told:
        checked = _checked(job, sections, None if workspace is None else str(workspace))
        refuse_own_workspace(checked)
        resources = checked.resources
        by = workers or Workers(
            scheduler=scheduler, n_workers=resources.workers, memory_limit=resources.memory_limit
        )
        done = run_stages(
            checked, workers=by, reporter=told, until=until, allow_code=allow_code, replace=replace
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


# --- data in memory ----------------------------------------------------------------------------------------------


def topics(
    texts: Texts,
    *,
    n_topics: int = 10,
    workspace: str | Path | None = None,
    progress: bool = False,
    **sections: Mapping[str, object],
) -> FinishedJob:
    """Find the topics of texts in memory, as a job of the method "topics" does.

    Parameters
    ----------
    texts : sequence of str, column or data frame
        One document each; see `read_texts`. Titles, labels and further columns are in the table of documents.
    n_topics : int
        The number of topics.
    workspace : str or path, optional
        The folder of the results, next to which the texts are written; a later call finds them finished. By
        default a temporary folder, which is removed with what is returned.
    progress : bool
        Print progress.
    **sections : mappings
        Further keys of the job: ``vocabulary={"stop_words": "english"}``.

    Returns
    -------
    FinishedJob
        ``run.show()`` is its report, ``run.documents`` the table of the documents with their topics, and ``run.topics``
        that of the words of the topics.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> texts = open(titles(), encoding="utf-8").read().splitlines()
    >>> run = de.topics(texts, n_topics=2, vocabulary={"stop_words": "english"})
    >>> run.arrays["document_factors"].shape
    (9, 2)
    >>> run.documents.column_names
    ['id', 'title', 'label', 'n_tokens', 'topic', 'topic_words', 'weight']
    """
    inputs, own, scratch = _place_of(workspace)
    corpus = store_texts(inputs, texts)
    head = {"system": "topics", "title": "Topics"}
    job: Sections = {"job": head, "corpus": corpus, "topics": {"n_topics": n_topics}}
    return _run(job, own, scratch, sections, progress=progress)


def impute(
    table: Frame,
    vectors: str | Path | WordVectors | Frame,
    *,
    workspace: str | Path | None = None,
    progress: bool = False,
    **sections: Mapping[str, object],
) -> FinishedJob:
    """Impute the missing vectors of the names of a table, as a job of the method "imputation" does.

    The method is the one that finds known names best when they are hidden, unless ``imputation`` names another.

    Parameters
    ----------
    table : data frame
        A row for each name, which is its index; columns of numbers are features, others are left out.
    vectors : WordVectors, data frame, str or path
        The known vectors: a frame has the names as its index; a path is a vector file, a table or a workspace.
    workspace : str or path, optional
        The folder of the results, next to which the inputs are written; a later call finds them finished. By
        default a temporary folder, which is removed with what is returned.
    progress : bool
        Print progress.
    **sections : mappings
        Further keys of the job: ``matching={"ignore_case": True}``.

    Returns
    -------
    FinishedJob
        ``run.vectors`` has the vectors of all names, ``run.show()`` is the report.

    Raises
    ------
    TypeError
        If the table is no data frame with an index.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> import pandas as pd
    >>> features = np.random.default_rng(0).normal(size=(40, 3))
    >>> table = pd.DataFrame(features, index=[f"name {i}" for i in range(40)], columns=["a", "b", "c"])
    >>> known = pd.DataFrame(features[:25] @ np.ones((3, 4)), index=table.index[:25])
    >>> run = de.impute(table, known)
    >>> len(run.vectors), run.tables["vocabulary"]["origin"].to_pylist().count("imputed")
    (40, 15)
    """
    if not is_frame(table):
        raise TypeError("the table must be a data frame with the names as its index: call set_index on it")
    inputs, own, scratch = _place_of(workspace)
    known: Any = vectors
    if not isinstance(known, (str, Path)):
        if is_frame(known):
            known = WordVectors(map(str, known.index), np.asarray(known.to_numpy(), np.float32))
        known.save(inputs / "known.safetensors")
        known = inputs / "known.safetensors"
    key, frame, written = "name", cast("Any", table), str(inputs / "table.parquet")
    while key in frame.columns:
        key += "_"
    frame = frame.set_axis(map(str, frame.columns), axis=1)
    if found := first_repeat(frame.columns):
        raise ValueError(f"the table has the column {found[0]!r} twice: keep one")
    texts = dict.fromkeys(frame.select_dtypes(exclude=["number", "bool"]).columns, "string")
    named = frame.astype(texts).set_axis(map(str, frame.index)).rename_axis(key).reset_index()
    pq.write_table(pa.Table.from_pandas(named, preserve_index=False), written, write_page_checksum=True)
    best = system_named("imputation").presets["best"]
    job = {
        "job": {"system": "imputation", "title": "Imputation"},
        "domain": {"path": written, "name_column": key},
        "known": {"path": str(known)},
        **best,
    }
    return _run(job, own, scratch, sections, progress=progress)


def _place_of(workspace: str | Path | None) -> tuple[Path, str, Scratch | None]:
    """Return the folder of the inputs of a job on data in memory, its workspace, and what removes both, if any."""
    scratch = None if workspace is not None and "://" not in str(workspace) else Scratch("distembed-")
    folder = Path(f"{workspace}-inputs") if scratch is None else Path(scratch.url) / "inputs"
    folder.mkdir(parents=True, exist_ok=True)
    own = f"{scratch.url}/workspace" if scratch is not None and workspace is None else str(workspace)
    return folder, own, scratch


def _run(
    job: Sections, place: str, scratch: Scratch | None, sections: Sections, *, progress: bool
) -> FinishedJob:
    sectioned = {key: {**job.get(key, {}), **sections.get(key, {})} for key in {**job, **sections}}
    done = run_job(sectioned, workspace=place, progress=progress, replace=True)
    return replace(done, workspace=Workspace.open(place, lease=scratch))


# --- matrices ------------------------------------------------------------------------------------------------------


def read_pmi(workspace: Workspace | str | os.PathLike[str]) -> SmoothedPMI[da.Array]:
    """Open the smoothed PMI that a job with ``[matrices] keep = ["pmi"]`` has kept, lazily.

    Row i and column j are words i (left) and j of the workspace's vocabulary; their PMI is
    ``constant + excess[i, j]``. `Workspace.array("pmi")` is the sparse part alone.

    Parameters
    ----------
    workspace : Workspace, str or path
        An open one, or a folder or URL.

    Returns
    -------
    SmoothedPMI

    Raises
    ------
    FileNotFoundError
        If there is no workspace.
    KeyError
        If the workspace keeps no PMI.

    Examples
    --------
    The workspace is the one that the example of `run_job` makes:

    >>> import distembed as de
    >>> pmi = de.read_pmi("runs/titles")
    >>> round(pmi.constant, 2)  # log 0.1
    -2.3
    >>> vocabulary = de.Vocabulary.from_table(de.Workspace.open("runs/titles").table("vocabulary"))
    >>> graph, minors = vocabulary.index(["graph", "minors"])
    >>> round(float(pmi.constant + pmi.excess.compute()[graph, minors]), 2)
    2.06
    """
    place = workspace if isinstance(workspace, Workspace) else Workspace.open(workspace)
    if "pmi" not in place.stages():
        raise KeyError(f"{place.url} keeps no PMI: run its job with matrices.keep = ['pmi']")
    return SmoothedPMI(place.describe("pmi").spec.constant, place.array("pmi"))


class Distances(NamedTuple):
    """The distances between n named rows, ‖x - y‖ or 1 - cos(x, y) as the metric says.

    `values` is a Dask array (n, n), float32, in blocks of whole rows.
    """

    names: list[str]
    values: da.Array
    metric: Metric


def read_distances(workspace: Workspace | str | os.PathLike[str]) -> Distances:
    """Open the distances that a job with ``[matrices] keep = ["distances"]`` has kept, lazily.

    They are between the words of a job of `psdvec` or `wordspaces`, or the names of one of `imputation`.
    `Workspace.array("distances")` is the array alone.

    Parameters
    ----------
    workspace : Workspace, str or path
        An open one, or a folder or URL.

    Returns
    -------
    Distances

    Raises
    ------
    FileNotFoundError
        If there is no workspace.
    KeyError
        If the workspace keeps no distances.

    Examples
    --------
    The workspace is the one that the example of `run_job` makes:

    >>> import distembed as de
    >>> distances = de.read_distances("runs/titles")
    >>> distances.metric, distances.values.shape == (len(distances.names),) * 2
    ('cosine', True)
    >>> graph = distances.names.index("graph")
    >>> row = distances.values[graph].compute()  # reads one block of rows
    >>> [distances.names[i] for i in row.argsort(kind="stable")[1:3]]
    ['minors', 'a']
    """
    place = workspace if isinstance(workspace, Workspace) else Workspace.open(workspace)
    stage = place.stages().get("distances")
    if stage is None or "distances" not in stage.outputs:
        raise KeyError(f"{place.url} keeps no distances: run its job with matrices.keep = ['distances']")
    values = place.array("distances")
    names = place.table("vocabulary")["word"].slice(0, len(values)).to_pylist()
    return Distances(names, values, stage.parameters["metric"])
