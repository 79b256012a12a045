"""What the stages of topics have stored, read by the scores, the report and what is given away."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distembed.execution import compute
from distembed.pipeline.systems.topics.config import Method, TopicsJob
from distembed.storage.workspace import Workspace


def factor_names(job: TopicsJob, method: Method) -> tuple[str, str]:
    """Return under which names the word factors and the document factors of a method are kept."""
    prefix = "" if method == job.topics.method else f"{method}_"
    return f"{prefix}vectors", f"{prefix}document_factors"


def labels_of(job: TopicsJob, workspace: Workspace, method: Method) -> NDArray[np.int64]:
    """Return the topic of each document by each start of a method, (starts, documents)."""
    first = job.topics.methods.index(method) * job.topics.n_starts
    return np.asarray(compute(workspace.array("labels")[first : first + job.topics.n_starts]))


def best_labels(job: TopicsJob, workspace: Workspace, method: Method) -> NDArray[np.int64]:
    """Return the topic of each document by the start of the smallest loss of a method, (documents,)."""
    best = int(np.argmin([curve[-1] for curve in losses_of(workspace, method)]))
    first = job.topics.methods.index(method) * job.topics.n_starts
    return np.asarray(compute(workspace.array("labels")[first + best]))


def losses_of(workspace: Workspace, method: Method) -> list[NDArray[np.float64]]:
    """Return the loss of each round of each start of a method."""
    rows = [row for row in workspace.table("losses").to_pylist() if row["method"] == method]
    n_starts = 1 + max(row["start"] for row in rows)
    return [np.array([row["loss"] for row in rows if row["start"] == number]) for number in range(n_starts)]


def classes_of(workspace: Workspace) -> NDArray[np.object_] | None:
    """Return the label each document came with, or None where there are not two different ones."""
    labels = np.array(workspace.table("documents")["label"].to_pylist(), dtype=object)
    return labels if len({label for label in labels if label is not None}) > 1 else None
