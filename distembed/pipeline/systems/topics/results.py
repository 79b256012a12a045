"""What the stages of topics have stored, read by the scores, the report and what is given away."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distembed.execution import compute
from distembed.factorization.nmf_stored import StartRow, start_rows
from distembed.pipeline.systems.topics.config import Method, TopicsJob
from distembed.storage.workspace import Workspace


def n_topics_of(job: TopicsJob, workspace: Workspace) -> int:
    """Return the number of topics: that of the job, or the one that was chosen for it."""
    if job.topics.n_topics == "auto":
        return int(workspace.stages()["n_topics"].facts["n_topics"])
    return job.topics.n_topics


def factor_names(job: TopicsJob, method: Method) -> tuple[str, str]:
    """Return under which names the word factors and the document factors of a method are kept."""
    prefix = "" if method == job.topics.method else f"{method}_"
    return f"{prefix}vectors", f"{prefix}document_factors"


def rows_of(workspace: Workspace, method: Method) -> dict[int, StartRow]:
    """Return what is known of the starts of a method, and of their consensus, by their rows in the array of labels."""
    return {place: row for place, row in enumerate(start_rows(workspace)) if row.method == method}


def starts_of(workspace: Workspace, method: Method) -> list[StartRow]:
    """Return what is known of the starts of a method, without their consensus."""
    return [row for row in rows_of(workspace, method).values() if row.start is not None]


def kept_row(workspace: Workspace, method: Method) -> StartRow:
    """Return what is known of what is kept of a method."""
    return next(row for row in rows_of(workspace, method).values() if row.kept)


def kept_labels(workspace: Workspace, method: Method) -> NDArray[np.int64]:
    """Return the topic of each document by what is kept of a method, (documents,)."""
    place = next(place for place, row in rows_of(workspace, method).items() if row.kept)
    return np.asarray(compute(workspace.array("labels")[place]))


def classes_of(workspace: Workspace) -> NDArray[np.object_] | None:
    """Return the label each document came with, or None where there are not two different ones."""
    labels = np.array(workspace.table("documents")["label"].to_pylist(), dtype=object)
    return labels if len({label for label in labels if label is not None}) > 1 else None
