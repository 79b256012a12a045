"""One result of a finished job, explained by the system of the job."""

from __future__ import annotations

from importlib import import_module

from distembed.pipeline.context import system_of
from distembed.pipeline.explain.record import Asked, Explanation
from distembed.pipeline.sections import Job
from distembed.storage.workspace import Workspace


def explain_job(job: Job, asked: Asked) -> Explanation:
    """Return why a result of a finished job is what it is.

    Raises
    ------
    ValueError
        If the system explains nothing, or the names that were asked for cannot be explained.
    KeyError, FileNotFoundError
        If the job has not come so far, or does not know a name.
    """
    module = system_of(job).explanation
    if module is None:
        raise ValueError(
            f"results of the system {job.job.system} are not explained: "
            "explain takes psdvec, topics and imputation jobs"
        )
    explained: Explanation = import_module(module).explain(job, Workspace.open(job.job.workspace), asked)
    return explained
