"""Which code of others a job would run: a job file is data until its reader allows more."""

from __future__ import annotations

from distembed.job.model import Job, JobError


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
