"""Run the small jobs on other workers, by other schedulers and in other orders of their tasks: the digest is the same.

    python -m tests.campaigns equal_bits --seed 0 --times 100 [--systems psdvec topics]

Each try draws a system, 1, 2 or 4 workers, a scheduler (threads, local processes, a cluster over TCP), a kernel of
OpenBLAS, and the order in which tasks that are ready begin. The runs of a system by one kernel must have one digest;
other kernels, and another `resources.block_memory`, may give other bits. A try depends on its number alone: `--first N
--times 2` repeats the tries N and N + 1.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Hashable, Mapping
from contextlib import ExitStack
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

import dask.local
import dask.order
from distributed import LocalCluster

import distembed as de
from distembed.job.opening import open_job
from distembed.job.run import run_stages
from distembed.job.workers import Workers
from tests.benchmarks.measures import alone, tell, tell_head, tell_row
from tests.test_promises import SYSTEMS

KERNELS = ("Haswell", "Sandybridge", "SkylakeX")
SCHEDULERS = ("threads", "processes", "tcp")


class Cell(NamedTuple):
    """How one run is done."""

    system: str
    kernel: str
    scheduler: str
    n_workers: int
    order: int


def drawn(number: str, systems: tuple[str, ...]) -> Cell:
    draw = random.Random(number)
    choice = [draw.choice(values) for values in (systems, KERNELS, SCHEDULERS, (1, 2, 4))]
    return Cell(*choice, draw.randrange(1 << 16))  # type: ignore[arg-type]


def digest_of(cell: Cell) -> str:
    """Return the digest of a run of a cell, in a process whose BLAS has not been loaded before."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as resources:
        SYSTEMS[cell.system].write(Path(folder))
        address = cell.scheduler
        if address == "tcp":
            options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
            address = resources.enter_context(LocalCluster(cell.n_workers, **options)).scheduler_address
        dask.order.order = dask.local.order = _Shuffled(cell.order)
        job = open_job(f"{folder}/job.toml", settings=SYSTEMS[cell.system].settings)
        workers = resources.enter_context(Workers(scheduler=address, n_workers=cell.n_workers))
        run_stages(job, workers=workers)
        return de.Workspace.open(job.job.workspace).digest()


class _Shuffled:
    """Gives the tasks of a graph priorities at random, in place of Dask's: none comes before what it needs."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self, dsk: Mapping[Hashable, Any], *_: Any, **__: Any) -> dict[Hashable, int]:
        needed = {key: {*getattr(task, "dependencies", ())} & dsk.keys() for key, task in dsk.items()}
        graph = TopologicalSorter(needed)
        graph.prepare()
        ready, order = list(graph.get_ready()), dict[Hashable, int]()
        while ready:
            key = ready.pop(self._random.randrange(len(ready)))
            order[key] = len(order)
            graph.done(key)
            ready += graph.get_ready()
        return order


def main(*, seed: int = 0, times: int = 100, first: int = 0, systems: tuple[str, ...] = (*SYSTEMS,)) -> None:
    digests: dict[tuple[str, str], str] = {}
    tell_head("try", *Cell._fields, "digest")
    wrong = []
    for number in range(first, first + times):
        cell = drawn(f"{seed} {number}", systems)
        os.environ["OPENBLAS_CORETYPE"] = cell.kernel
        found = alone(digest_of, cell)
        is_equal = digests.setdefault(cell[:2], found) == found
        tell_row(number, *cell, found if is_equal else f"**{found}**")
        wrong += [] if is_equal else [number]
    tell(f"{times} runs of {len(digests)} systems and kernels")
    assert not wrong, f"the tries {wrong} have another digest than the first of their system and kernel"
