"""Which one option of a job, set to what, makes a plan fit: each is tried on a plan of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pydantic import ValidationError

from distembed.pipeline.sections import Job

MIB = 2**20


class Remedy(NamedTuple):
    """An option of a job by its dotted key, and the value to set it to."""

    key: str
    value: int

    @property
    def setting(self) -> str:
        """The line to write into the job file, with the section before the key."""
        is_bytes = self.key.endswith(("_bytes", "_memory", "_limit"))
        return f'{self.key} = "{self.value // MIB}MiB"' if is_bytes else f"{self.key} = {self.value}"


def _halves(value: int | None) -> Iterator[int]:
    """Yield whole MiB below a number of bytes, each about half of the one before."""
    n = (value or 0) // MIB
    while n > 1:
        n = -(-n // 2) if n > 2 else 1
        yield n * MIB


def _doubles(value: int | None) -> Iterator[int]:
    """Yield numbers of bytes up to 64 GiB, each twice the one before."""
    n = value or MIB
    while (n := 2 * n) <= 2**36:
        yield n


def _fewer(value: int | None) -> Iterator[int]:
    """Yield round numbers below a number, or below a million where none is set, down to 100."""
    for n in (10**power * digit for power in range(6, 1, -1) for digit in (5, 2, 1)):
        if n < (value or 10**6):
            yield n


def _more(value: int | None) -> Iterator[int]:
    """Yield round numbers above a number, up to 1,000."""
    for n in (10**power * digit for power in range(4) for digit in (1, 2, 5)):
        if (value or 1) < n <= 1000:
            yield n


Series = Callable[[int | None], Iterator[int]]

LESS_MEMORY: tuple[tuple[str, Series], ...] = (
    ("resources.block_memory", _halves),
    ("corpus.partition_bytes", _halves),
    ("vocabulary.min_documents", _more),
    ("vocabulary.min_count", _more),
    ("vocabulary.max_size", _fewer),
    ("psdvec.n_core", _fewer),
    ("resources.workers", lambda _: iter((1,))),
)
"""Options that may lower the peak of a task, those that change no result first, with the values to try in turn."""

FEWER_TASKS: tuple[tuple[str, Series], ...] = (
    ("resources.block_memory", _doubles),
    ("corpus.partition_bytes", _doubles),
)
"""Options that may lower the number of tasks."""


def changed(job: Job, remedy: Remedy) -> Job | None:
    """Return a job with one option set, None where the job has no such option, or not that value."""
    section, _, key = remedy.key.partition(".")
    if key not in getattr(type(getattr(job, section, None)), "model_fields", ()):
        return None
    settings = job.model_dump()
    settings[section][key] = remedy.value
    try:
        return type(job).model_validate(settings)
    except ValidationError:
        return None


def find_remedy(
    job: Job, options: tuple[tuple[str, Series], ...], fits: Callable[[Job], bool]
) -> Remedy | None:
    """Return the first option, set to the first of its values, with which a job fits; None where none helps."""
    for key, series in options:
        section, _, name = key.partition(".")
        for value in series(getattr(getattr(job, section, None), name, None)):
            other = changed(job, Remedy(key, value))
            if other is None:
                break
            if fits(other):
                return Remedy(key, value)
    return None
