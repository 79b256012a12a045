"""Record the tasks of a run on one thread, and say how fast so many workers could be with the same tasks.

A run on one thread has nothing else to do while a task computes, so that the processor time that the process spends in
it is the task's, whatever else the machine does: waiting for a disk is not in it, and neither is waiting for a core.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import dask
from dask.callbacks import Callback
from dask.utils import key_split


class RecordedTask(NamedTuple):
    """A task: the seconds that it took, and the numbers of the tasks before it in its graph that it waits for."""

    name: str
    seconds: float
    needs: tuple[int, ...]


class RecordedGraph(NamedTuple):
    """The tasks of a graph, each after those it needs, and the seconds of handing them out and noting their results."""

    tasks: list[RecordedTask]
    dispatch_seconds: float

    @property
    def seconds(self) -> float:
        """The seconds of all of it on one thread."""
        return self.dispatch_seconds + sum(task.seconds for task in self.tasks)


class RecordedStage(NamedTuple):
    """The graphs of a stage, one after the other, and the seconds of the client between them."""

    graphs: list[RecordedGraph]
    client_seconds: float

    def seconds_on(self, n_workers: int) -> float:
        """Return the seconds of the stage on so many workers that are never kept from a task that is ready.

        Nothing is faster than the client between the graphs, and no graph than its tasks are handed out.
        """
        graphs = sum(max(makespan(graph.tasks, n_workers), graph.dispatch_seconds) for graph in self.graphs)
        return self.client_seconds + graphs

    def bound(self, n_workers: int) -> float:
        """Return how many times as fast as one worker so many can be."""
        return self.seconds_on(1) / self.seconds_on(n_workers)


def makespan(tasks: list[RecordedTask], n_workers: int) -> float:
    """Return the seconds of tasks on so many workers, of which a free one takes the task that most still waits for."""
    following: list[list[int]] = [[] for _ in tasks]
    for number, task in enumerate(tasks):
        for needed in task.needs:
            following[needed].append(number)
    ahead = [0.0] * len(tasks)
    for number in reversed(range(len(tasks))):
        ahead[number] = tasks[number].seconds + max((ahead[one] for one in following[number]), default=0)
    waits_for = [len(task.needs) for task in tasks]
    ready = [(-ahead[number], number) for number, count in enumerate(waits_for) if not count]
    heapq.heapify(ready)
    running: list[tuple[float, int]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < n_workers:
            _, number = heapq.heappop(ready)
            heapq.heappush(running, (now + tasks[number].seconds, number))
        now, done = heapq.heappop(running)
        for number in following[done]:
            waits_for[number] -= 1
            if not waits_for[number]:
                heapq.heappush(ready, (-ahead[number], number))
    return now


class _TimedThread(ThreadPoolExecutor):
    """One thread, which notes the processor seconds of the process in each task that it is given."""

    def __init__(self) -> None:
        super().__init__(1)
        self.seconds: dict[Any, float] = {}

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        return super().submit(self._timed, function, *arguments, **options)

    def _timed(self, function: Any, tasks: Any) -> Any:
        begun = time.process_time()
        results = function(tasks)
        self.seconds[tasks[0][0]] = time.process_time() - begun
        return results


class Recorder(Callback):
    """What the threaded scheduler of Dask computes while `recording`, by the stage that is named."""

    def __init__(self) -> None:
        super().__init__(start=self._started, finish=self._finished)
        self.stages: dict[str, RecordedStage] = {}
        self._thread = _TimedThread()
        self._graphs: list[RecordedGraph] = []
        self._begun = 0.0

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Run the graphs of this process on one thread, and note each task."""
        with dask.config.set(pool=self._thread), self:
            yield

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Note what is computed inside the block as a stage."""
        self._graphs, begun = [], time.process_time()
        yield
        inside = sum(graph.seconds for graph in self._graphs)
        self.stages[name] = RecordedStage(self._graphs, time.process_time() - begun - inside)

    def _started(self, graph: Mapping[Any, Any]) -> None:
        self._thread.seconds, self._begun = {}, time.process_time()

    def _finished(self, graph: Mapping[Any, Any], state: Any, failed: bool) -> None:
        total = time.process_time() - self._begun
        # What notes a result may compute a graph of its own, of which Dask tells nobody: it is part of the noting.
        seconds = {key: taken for key, taken in self._thread.seconds.items() if key in graph}
        numbers = {key: number for number, key in enumerate(seconds)}  # in the order in which they ran
        tasks = []
        for key, taken in seconds.items():
            needs = tuple(numbers[one] for one in graph[key].dependencies if one in numbers)
            tasks.append(RecordedTask(key_split(key), taken, needs))
        self._graphs.append(RecordedGraph(tasks, max(0.0, total - sum(seconds.values()))))


def stage_of_json(value: Any) -> RecordedStage:
    """Return a stage that was kept as JSON, where a named tuple is a list."""
    graphs, client_seconds = value
    kept = [
        RecordedGraph([RecordedTask(name, took, tuple(needs)) for name, took, needs in tasks], dispatch)
        for tasks, dispatch in graphs
    ]
    return RecordedStage(kept, client_seconds)
