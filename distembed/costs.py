"""What a computation takes, before it runs: tasks, and bytes in memory and on disk.

Beside each algorithm stands a function that returns its `Cost` for the sizes of an input and the options; the plan of a
job (`distembed.job.plan`) is made of these. It has no formulas of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from distembed.plan import StagePlan

WORKER_BYTES = 500 * 2**20
"""Resident bytes of a process that has loaded the package and run a stage: the libraries and what malloc keeps."""

SCRATCH_FACTOR = 8.0
"""Peak bytes of a task over those of its block, measured: counts, their transpose, both merged, what is written."""

PAIR_BYTES = 8
"""Bytes of a value of a sparse matrix in memory: four of the number, such as a count, and four of its column."""

STORED_VALUE_BYTES = 5.3
"""Bytes on disk of such a value, compressed, where it is no whole number: 5.1 of 114 M values to 5.34 of 64,000."""


class Cost(NamedTuple):
    """What a stage takes."""

    tasks: int
    """The tasks of all graphs."""
    read_bytes: int
    written_bytes: int
    task_bytes: int
    """Peak bytes of one task."""
    shared_bytes: int = 0
    """Bytes that all tasks share."""
    graphs: int = 1
    """Graphs that are computed one after the other."""
    exact: bool = True
    """Whether counted sizes decide the memory; with estimated ones too much of it is a warning, and no refusal."""
    keeps: tuple[tuple[str, int], ...] = ()
    """The matrices that the job asks to keep beside its results, with the bytes of each on disk."""
    together: int | None = None
    """The tasks of `task_bytes` that may run at the same time, where that is fewer than there are tasks."""

    def planned(self) -> StagePlan:
        """Return the same as a plan of a stage."""
        stored = self.keeps[0][1] if self.keeps else self.written_bytes
        together = self.most_together
        tasks = max(1, min(self.tasks_per_graph, together) if self.together else self.tasks_per_graph)
        return StagePlan(self.task_bytes, self.shared_bytes, stored, tasks, exact=self.exact)

    @property
    def tasks_per_graph(self) -> int:
        """The number of tasks that Dask holds at once."""
        return -(-self.tasks // self.graphs)

    def peak_bytes(self, n_threads: int) -> int:
        """Return the peak bytes of so many threads, or of as many as have a task."""
        return self.shared_bytes + min(n_threads, self.most_together) * self.task_bytes

    @property
    def most_together(self) -> int:
        """The tasks that may run at the same time."""
        return self.tasks if self.together is None else min(self.together, self.tasks)


def add_costs(costs: Iterable[Cost]) -> Cost:
    """Return what several computations take one after the other: their work in sum, their memory at its largest.

    Parameters
    ----------
    costs : iterable of Cost
        None of them keeps a matrix.
    """
    every = list(costs)
    tasks, read, written, task, shared, graphs, exact, *_ = zip(*every, strict=True)
    together = max(cost.most_together for cost in every)
    return Cost(
        sum(tasks),
        sum(read),
        sum(written),
        max(task),
        max(shared),
        sum(graphs),
        all(exact),
        together=together,
    )
