"""The page to explore of a finished job or of a vector file, written into a file or into the workspace."""

from __future__ import annotations

from importlib import import_module

from distembed.display import plural
from distembed.formats.streams import writing
from distembed.pipeline import derived
from distembed.pipeline.context import system_of
from distembed.pipeline.explorer.items import MAX_POINTS, Items
from distembed.pipeline.explorer.layout import check_extra, lay_out
from distembed.pipeline.explorer.page import render_page
from distembed.pipeline.explorer.words import word_items
from distembed.pipeline.opening import VectorFile, job_of, load_vectors, parse_source
from distembed.pipeline.runner import report_job
from distembed.pipeline.sections import Job
from distembed.storage.workspace import Workspace


def write_explorer(source: str, target: str | None = None, *, n_points: int = MAX_POINTS) -> str:
    """Write the page to explore what a job made, or the words of a vector file, and return in words what was written.

    Parameters
    ----------
    source : str
        A finished workspace, a job file or a vector file.
    target : str, optional
        The file or URL, which appears whole or not at all; by default the page lies beside the report of the
        workspace, which then links to it.
    n_points : int
        Words or documents shown, at most.

    Raises
    ------
    ImportError
        If the libraries of the page are not installed.
    ValueError
        If a vector file comes without a target, or nothing has a vector.
    KeyError, FileNotFoundError
        If the job has not come so far.
    """
    check_extra()
    opened = parse_source(source)
    if isinstance(opened, VectorFile):
        if target is None:
            raise ValueError(
                f"{source} is a vector file, which has no report: name the page with --to page.html"
            )
        items = word_items(load_vectors(opened, max_words=n_points), title=source, n_points=n_points)
        return _write(items, target)
    job = job_of(opened)
    workspace = Workspace.open(job.job.workspace)
    items = import_module(system_of(job).explorer).items(job, workspace, n_points=n_points)
    return _keep(items, job) if target is None else _write(items, target)


def _write(items: Items, target: str) -> str:
    """Write the page into a file of its own."""
    page = _page(items)
    with writing(target) as file:
        file.write(page.encode())
    return f"{plural(len(items.names), items.noun)} in {target}"


def _keep(items: Items, job: Job) -> str:
    """Write the page beside the report, and the report with a link to it."""
    page = _page(items, report="index.html")
    with Workspace.create(job.job.workspace, owner=f"page of {job.job.title}") as workspace:
        place = derived.keep(workspace, derived.EXPLORER, page.encode())
    return f"{plural(len(items.names), items.noun)} in {place}, linked from {report_job(job)}"


def _page(items: Items, *, report: str | None = None) -> str:
    if not items.names:
        raise ValueError(f"{items.title} has no {items.noun} with a vector: there is nothing to explore")
    return render_page(items, lay_out(items), report=report)
