"""Load distembed as users do who leave it running: for an hour, with many tasks, many readers, and two at once.

    python -m tests.campaigns load [--parts loop tasks readers users] [--seed 0] [--seconds 3600]

loop      one process runs small jobs of every system for so many seconds, in turn on threads, on processes and on a
          cluster: a new workspace, the same command again, and commands that read it. Nothing that it keeps may grow.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from multiprocessing import forkserver
from pathlib import Path
from typing import Literal, NamedTuple

import psutil

import distembed as de
from tests.benchmarks.measures import alone, tell, tell_head, tell_row
from tests.campaigns.corruption import READERS, filled
from tests.campaigns.kills import SYSTEMS, job_words
from tests.commands import dask_cluster, run

forkserver.set_forkserver_preload(["tests.processes"])  # the processes of the parts are forks of one

# --- an hour of jobs in one process ----------------------------------------------------------------------------


class Kept(NamedTuple):
    """What this process keeps between two jobs: MiB, descriptors, threads, children, and files in its folders."""

    memory: float
    descriptors: float
    threads: float
    processes: float
    temporary: float
    working: float


GROWTH = Kept(memory=16, descriptors=1, threads=1, processes=0, temporary=0, working=0)
"""By how much the median of the last tenth may exceed that of the second.

An hour is some 900 jobs, so that 16 MiB are less than 20 KiB a job, and a descriptor that every third job leaves open
would be 200. The allocators' pages move the medians of a process that leaks nothing by up to half of this memory, and
the threads of Dask's loop, which end when they are idle, move theirs by one.
"""


def kept(folder: Path) -> Kept:
    gc.collect()
    own = psutil.Process()
    files = [sum(1 for _ in (folder / name).rglob("*")) for name in ("temporary", "jobs")]
    return Kept(
        own.memory_info().rss / 2**20, own.num_fds(), threading.active_count(), len(own.children()), *files
    )


def done(*words: str) -> None:
    ended = run(*words)
    assert ended.exit_code == 0, f"{words}: exit code {ended.exit_code}\n{ended.output}"


def use(folder: Path, workspace: Path, system: str, scheduler: str) -> None:
    """Run a job into a new workspace, run it again, and read it in each way."""
    words = [*filled(job_words(system), folder, workspace), "--scheduler", scheduler]
    done(*words)
    done(*words)
    for reader in (("verify", "{w}"), ("status", "{w}"), *READERS.get(system, ())):
        done(*filled(reader, folder, workspace))
    found = de.Workspace.open(workspace)
    for stage in found.stages().values():
        for name, output in stage.outputs.items():
            if output.spec.kind == "dense" and not output.spec.temporary:
                found.array(name).compute(scheduler="threads")


def loop(room: Path, *, seed: int, seconds: float, systems: tuple[str, ...]) -> None:
    """Run jobs until so many seconds have passed, and compare what the process keeps early and late."""
    for system in systems:
        folder = room / "jobs" / system
        folder.mkdir(parents=True)
        SYSTEMS[system].write(folder)
    (room / "temporary").mkdir()
    os.chdir(room / "jobs")
    found: list[Kept] = []
    with dask_cluster(room) as address:
        tempfile.tempdir = os.environ["TMPDIR"] = str(room / "temporary")
        end = time.monotonic() + seconds
        for number in count():
            if time.monotonic() > end:
                break
            system, scheduler = (
                systems[number % len(systems)],
                ("threads", "processes", address)[number % 3],
            )
            folder = room / "jobs" / system
            workspace = folder / f"w-{number}"
            use(folder, workspace, system, scheduler)
            for made in folder.glob(f"{workspace.name}*"):
                shutil.rmtree(made) if made.is_dir() else made.unlink()
            found.append(kept(room))
            tell_row(number, system, scheduler, *(f"{value:.1f}" for value in found[-1]))
    grown = [name for name, early, late, most in changes(found) if late - early > most]
    tell_head("kept", "early", "late", "allowed growth")
    for name, early, late, most in changes(found):
        tell_row(name, f"{early:.1f}", f"{late:.1f}", most)
    assert not grown, f"after {len(found)} jobs there are more: {', '.join(grown)}"


def changes(found: list[Kept]) -> Iterator[tuple[str, float, float, float]]:
    """Yield the name of each figure, its medians in the second and in the last tenth, and its allowed growth."""
    tenth = max(1, len(found) // 10)
    for place, name in enumerate(Kept._fields):
        values = [one[place] for one in found]
        early, late = statistics.median(values[tenth : 2 * tenth]), statistics.median(values[-tenth:])
        yield name, early, late, GROWTH[place]


PARTS: dict[str, Callable[..., None]] = {"loop": loop}


def main(
    *,
    parts: tuple[str, ...] = (*PARTS,),
    seed: int = 0,
    seconds: float = 3600,
    systems: tuple[str, ...] = (*SYSTEMS,),
) -> None:
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="load-") as room:
            alone(partial(PARTS[part], seed=seed, seconds=seconds, systems=systems), Path(room))
        tell(f"{part}: nothing failed")
