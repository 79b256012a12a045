"""What a stage takes, before it runs: the bytes of its largest task, and of what it holds whole.

Memory is declared beside what uses it: a block function says how many times its largest array it holds (`lift.block`),
a job has its dimensions, and a stage names its largest tasks and what it holds whole. The only formula is `task`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any, NamedTuple

from distembed.temporaries import temporaries_of

RESERVED_BYTES = 500 * 2**20
"""Resident bytes of a process that has loaded the package and run a stage: the libraries and what malloc keeps."""


class Dimension(NamedTuple):
    """An axis of the arrays of a job, or the stored values of a sparse one."""

    size: int
    block: int
    """The most of it that one task is given."""
    counted: bool = True
    """Whether the size is counted; else it is a bound from a sample."""


class Dimensions:
    """The dimensions of a job by name, from which the bytes of arrays and of their blocks follow.

    A plan that asks for a dimension which is not counted yet is not exact, and refuses nothing.

    Parameters
    ----------
    dimensions : mapping of str to Dimension
    sentence : str
        The sizes in words, for the head of a plan.
    """

    def __init__(self, dimensions: Mapping[str, Dimension], sentence: str = "") -> None:
        self._dimensions, self.sentence = dict(dimensions), sentence
        self._asked: list[Dimension] = []

    def __getitem__(self, name: str) -> Dimension:
        """Return a dimension, and remember that it was asked for."""
        self._asked.append(self._dimensions[name])
        return self._dimensions[name]

    def part(self, prefix: str) -> Dimensions:
        """Return the dimensions whose names begin with a prefix, without it: those of one collection of several."""
        names = [name for name in self._dimensions if name.startswith(prefix)]
        found = Dimensions({name.removeprefix(prefix): self._dimensions[name] for name in names})
        found._asked = self._asked
        return found

    def extended(self, more: Mapping[str, Dimension]) -> Dimensions:
        """Return these dimensions and more."""
        return Dimensions(self._dimensions | dict(more), self.sentence)

    def __contains__(self, name: str) -> bool:
        """Return whether the job has a dimension."""
        return name in self._dimensions

    def size(self, name: str) -> int:
        """Return the size of a dimension."""
        return self[name].size

    def whole(self, *axes: str | int, itemsize: int = 4) -> int:
        """Return the bytes of an array whose axes are dimensions or numbers."""
        return itemsize * prod(axis if isinstance(axis, int) else self[axis].size for axis in axes)

    @property
    def bounds(self) -> Dimensions:
        """These dimensions for what decides no refusal: a plan stays exact whatever is asked of them."""
        return Dimensions(self._dimensions, self.sentence)

    def block(self, *axes: str | int, itemsize: int = 4) -> int:
        """Return the bytes of the largest block of such an array, which is cut along all its dimensions."""
        return itemsize * prod(axis if isinstance(axis, int) else self[axis].block for axis in axes)

    def n_blocks(self, name: str) -> int:
        """Return the number of blocks of a dimension."""
        return max(1, -(-self[name].size // max(1, self[name].block)))

    def planned(self, plan: Callable[[Any, Dimensions], StagePlan], job: Any) -> StagePlan:
        """Return the plan of a stage; it is exact if it says so and all dimensions that it asks for are counted."""
        self._asked.clear()
        made = plan(job, self)
        return made._replace(exact=made.exact and all(dimension.counted for dimension in self._asked))


def task(function: Callable[..., Any], *inputs: int, output: int = 0) -> int:
    """Return the most bytes that a task holds: its inputs as read and as given, its result, and its temporaries.

    Parameters
    ----------
    function : callable
        Of blocks, with what `lift.block` declares.
    *inputs : int
        The bytes of its arguments.
    output : int
        The bytes of its result.
    """
    return 2 * sum(inputs) + output + int(temporaries_of(function) * max(*inputs, output, 0))


class StagePlan(NamedTuple):
    """What a stage takes."""

    task_bytes: int
    """The largest of its tasks."""
    whole_bytes: int = 0
    """What all tasks share, or the client holds."""
    stored_bytes: int = 0
    """What it writes, about: arrays before compression."""
    tasks: int = 1
    """So many of its tasks may run at once: those of its largest step."""
    states_bytes: int = 0
    """States of an iteration that may stay in memory where there is room, else they lie on disk."""
    exact: bool = True
    """Whether counted sizes decide it; with bounds too much is a warning, and no refusal."""

    def beside(self, *more: int) -> StagePlan:
        """Return the plan of tasks that hold so many bytes more."""
        return self._replace(task_bytes=self.task_bytes + sum(more))

    def process_bytes(self, n_threads: int) -> int:
        """Return the peak bytes of a process that runs so many tasks at once."""
        return RESERVED_BYTES + self.whole_bytes + min(n_threads, self.tasks) * self.task_bytes


def stage_plan(
    *tasks: int, whole: Iterable[int] = (), stored: int = 0, n_tasks: int = 1, states: int = 0
) -> StagePlan:
    """Return the plan of a stage whose largest tasks take so many bytes, and which holds some arrays whole."""
    return StagePlan(max(tasks, default=0), sum(whole), stored, n_tasks, states)


def in_turn(*plans: StagePlan) -> StagePlan:
    """Return the plan of a stage that does several things one after the other."""
    tasks, whole, stored, n_tasks, states, _ = zip(*plans, strict=True)
    return StagePlan(max(tasks), max(whole), sum(stored), max(n_tasks), max(states))
