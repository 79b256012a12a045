"""Runs the candidates of a search at the same time, each in a process of its own.

What candidates share is run once, by all workers, in the workspace of their counts. From the first stage in which they
differ on, each kind of candidate has a copy of that workspace and a share of the workers; those that differ later yet
run in the same copy, one after another.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple

from distembed.heaps import memory_of_machine
from distembed.job.model import Job
from distembed.job.workers import Workers
from distembed.storage.workspace import Workspace
from distembed.urls import url_to_fs

FEWEST_WORKERS = 2
"""Workers of each candidate where several run at the same time by default: a lone one would wait while its process
makes graphs."""

Make = Callable[[Job, Workers], Any]
"""Runs a candidate by some workers, and returns its scores."""

Fingerprints = Mapping[str, str]
"""The fingerprint of each stage of a job, in order."""


class Branch(NamedTuple):
    """Candidates that are alike up to the first stage in which those of the same counts differ."""

    shared: Job
    """One of them, in the workspace of their counts."""
    until: str
    """The last stage that all candidates of that workspace share."""
    workspace: str
    jobs: dict[str, Job]
    """By the name of their scores."""

    @property
    def is_copy(self) -> bool:
        """Whether its workspace is a copy: there are other candidates of the same counts."""
        return self.workspace != self.shared.job.workspace


def branches_of(candidates: Mapping[str, tuple[Job, Fingerprints]]) -> list[Branch]:
    """Return the branches of candidates by name, of each the job in the workspace of its counts and its stages."""
    groups: dict[str, dict[str, tuple[Job, Fingerprints]]] = {}
    for name, (job, stages) in candidates.items():
        groups.setdefault(job.job.workspace, {})[name] = job, stages
    found: dict[str, Branch] = {}
    for workspace, group in groups.items():
        columns = zip(*(stages.items() for _, stages in group.values()), strict=False)
        *_, (until, _) = alike = [column[0] for column in takewhile(_are_equal, columns)]
        for name, (job, stages) in group.items():
            following = [*stages.items()][len(alike) :]
            place = f"{workspace}-{following[0][1][:12]}" if following else workspace
            branch = found.setdefault(place, Branch(job, until, place, {}))
            branch.jobs[name] = job.model_copy(
                update={"job": job.job.model_copy(update={"workspace": place})}
            )
    return list(found.values())


def _are_equal(items: Sequence[Any]) -> bool:
    return len(set(items)) == 1


def most_at_once(job: Job, workers: Workers) -> int:
    """Return how many candidates run at the same time by default: each has two workers, and memory of its own."""
    if workers.client is not None and workers.client.cluster is None:
        return max(1, len(workers.memory_limits()) // FEWEST_WORKERS)
    fitting = memory_of_machine() // job.resources.process_memory
    return max(1, min(workers.n_local // FEWEST_WORKERS, fitting))


def run_at_once(
    branches: Sequence[Branch],
    at_once: int,
    workers: Callable[[Job], Workers],
    make: Make,
    done: Callable[[str, Any], None],
    *,
    begun: Callable[[str], None],
) -> None:
    """Run the candidates of branches, whose shared stages are finished, so many at the same time.

    `make` is called in another process. `begun` and `done` are called here, with the name of a candidate and what
    `make` has returned. The copy of a branch is removed when its last candidate is done.
    """
    for branch in branches:
        if branch.is_copy and not Workspace.exists(branch.workspace):
            Workspace.open(branch.shared.job.workspace).copy_to(branch.workspace)
    at_once = min(at_once, len(branches))
    waiting, left = deque(branches), {branch.workspace: deque(branch.jobs.items()) for branch in branches}
    running: dict[Future[Any], tuple[str, Branch]] = {}
    with _processes(at_once) as pool:

        def submit(branch: Branch) -> None:
            name, job = left[branch.workspace].popleft()
            begun(name)
            running[pool.submit(make, job, _share_of(workers(job), at_once))] = name, branch

        while waiting or running:
            while waiting and len(running) < at_once:
                submit(waiting.popleft())
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name, branch = running.pop(future)
                done(name, future.result())
                if left[branch.workspace]:
                    submit(branch)
                elif branch.is_copy:
                    filesystem, path = url_to_fs(branch.workspace)
                    filesystem.rm(path, recursive=True)


def _share_of(workers: Workers, at_once: int) -> Workers:
    return replace(workers, n_workers=max(1, workers.n_local // at_once), n_runs=at_once)


def _processes(n: int) -> Executor:
    return ProcessPoolExecutor(n, multiprocessing.get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: nobody would take its results."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
