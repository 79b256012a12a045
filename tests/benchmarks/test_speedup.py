"""The bounds of `recorded_graphs` on graphs whose best schedules are known."""

from __future__ import annotations

import time

import dask
import pytest
from dask import threaded

from tests.benchmarks.recorded_graphs import RecordedGraph, RecordedStage, RecordedTask, Recorder, makespan


def tasks(*seconds_and_needs: tuple[float, tuple[int, ...]]) -> list[RecordedTask]:
    return [RecordedTask("step", seconds, needs) for seconds, needs in seconds_and_needs]


def test_tasks_are_laid_out_on_workers() -> None:
    alike = tasks(*[(1.0, ())] * 8)
    assert [makespan(alike, n) for n in (1, 3, 8, 100)] == [8, 3, 1, 1]
    chain = tasks((1.0, ()), (1.0, (0,)), (1.0, (1,)))
    assert makespan(chain, 16) == 3
    # The longest path first: beside the chain there is room for the others.
    both = tasks((1.0, ()), (1.0, ()), (1.0, ()), (1.0, (2,)), (1.0, (3,)))
    assert makespan(both, 2) == 3
    tree = tasks(*[(1.0, ())] * 4, (0.5, (0, 1)), (0.5, (2, 3)), (0.25, (4, 5)))
    assert makespan(tree, 4) == 1.75


def test_the_client_is_divided_by_nothing() -> None:
    stage = RecordedStage([RecordedGraph(tasks(*[(1.0, ())] * 16), 0.5)], client_seconds=1.0)
    assert stage.seconds_on(1) == 17
    assert stage.bound(16) == 17 / 2
    slow = RecordedStage([RecordedGraph(tasks(*[(1.0, ())] * 16), 4.0)], client_seconds=0.0)
    assert slow.bound(16) == 16 / 4


def test_tasks_are_recorded_with_what_they_need() -> None:
    def work(*needed: float) -> float:
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        return 0.0

    lifted = dask.delayed(work)
    leaves = [lifted() for _ in range(3)]
    recorder = Recorder()
    with recorder.recording(), dask.config.set(scheduler=threaded.get), recorder.stage("stage"):
        lifted(*leaves).compute(optimize_graph=False)
    (graph,) = recorder.stages["stage"].graphs
    *first, last = [task for task in graph.tasks if task.name == "work"]
    assert len(first) == len(last.needs) == 3
    assert all(task.seconds >= 0.02 for task in [*first, last])
    assert recorder.stages["stage"].bound(3) == pytest.approx(2, rel=0.5)
