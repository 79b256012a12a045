"""Kill workers of a real Dask cluster in every stage of a job, and compare the digest of what the run ends with.

    python -m tests.campaigns workers psdvec imputation [--victims worker all] [--seed 0] [--times 40]

Each try computes one stage of a finished workspace again, on `dask scheduler` and two `dask worker` processes with
Dask's default configuration, and kills its victim at a random moment of the stage. Where the stage was done by then, it
tries again at half of that moment. The victims are:

worker      one worker with its nanny; the other goes on
process     the worker process only: its nanny starts another
turns       both, one after the other, each after a new worker has joined
all         both at once; a new worker joins two seconds later
often       every worker there is, three times, as soon as their nannies have started others
scheduler   the scheduler: the run has to end with one sentence, and the same command without it finishes
client      the run itself: the same command, given again on the same cluster, finishes
paused      one worker for five seconds, by SIGSTOP and SIGCONT

Of all stages and victims of a system the seed chooses `--times` tries, where it is given. `--all-sent` sends every
array that tasks share through the cluster, small ones too, which are part of the graph else.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import psutil
from distributed import Client

import distembed as de
from benchmarks.measures import tell, tell_head, tell_row
from distembed.cli.failures import STOPPED
from tests.commands import SMALL_JOB, environment, forget_stage
from tests.hosts.network import wait_until
from tests.small_jobs import comparison, imputation, topics, transfer, wordspaces

RUN_SECONDS = 900.0
SAID = r"the Dask scheduler at \S+ or each"
SHORTEST = 0.02
"""Seconds after which a stage that was done by then has no tasks to kill a worker of."""
SYSTEMS: dict[str, Callable[[Path], Any]] = {
    "psdvec": lambda folder: (folder / "job.toml").write_text(SMALL_JOB),
    "imputation": imputation.write,
    "topics": topics.write_long,
    "transfer": transfer.write,
    "wordspaces": wordspaces.write,
    "comparison": comparison.write,
}
ALL_SENT = "from distembed import execution; execution.LARGEST_LITERAL = 1000; "
COMMAND = "from distembed.cli.main import main; main()"


# --- the cluster -----------------------------------------------------------------------------------------------


class Dask(NamedTuple):
    """A scheduler and its workers, each command with its process group."""

    folder: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    @property
    def address(self) -> str:
        return str(json.loads((self.folder / "scheduler.json").read_text())["address"])

    def start_worker(self) -> None:
        words = ("worker", "--nthreads", "1", "--local-directory", self.folder)
        self.workers.append(dask_command(self.folder, *words))

    def complete(self) -> None:
        """Start workers in place of the dead ones, and wait until there are two."""
        self.workers[:] = [one for one in self.workers if one.poll() is None]
        while len(self.workers) > 2:
            kill(self.workers.pop())
        while len(self.workers) < 2:
            self.start_worker()
        with Client(self.address) as client:
            wait_until(lambda: len(workers_of(client)) == 2, "the start of two workers", seconds=RUN_SECONDS)

    def join(self) -> None:
        """Start one more worker, and wait until the scheduler has it."""
        with Client(self.address) as client:
            before = workers_of(client)
            self.start_worker()
            wait_until(lambda: workers_of(client) - before, "the start of a worker", seconds=RUN_SECONDS)


def workers_of(client: Client) -> set[str]:
    return set(client.scheduler_info(n_workers=-1)["workers"])


def dask_command(folder: Path, name: str, *words: object) -> subprocess.Popen[bytes]:
    place = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", folder / "scheduler.json")
    command = [*map(str, (sys.executable, "-m", "dask", name, *place, *words))]
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment(), start_new_session=True)


@contextmanager
def cluster(folder: Path) -> Iterator[Dask]:
    """Run a scheduler."""
    room = Path(tempfile.mkdtemp(dir=folder))
    found, file = Dask(room, dask_command(room, "scheduler", "--port", "0"), []), room / "scheduler.json"
    try:
        wait_until(lambda: file.exists() and file.stat().st_size, "the start of the scheduler")
        yield found
    finally:
        for one in (found.scheduler, *found.workers):
            kill(one)


def kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def has_tasks(address: str, run: Run) -> bool:
    """Wait until the scheduler has tasks, or the run has ended without any; return which."""
    with Client(address) as client:
        while run.process.poll() is None:
            if client.run_on_scheduler(n_tasks):
                return True
            time.sleep(0.02)
    return False


def n_tasks(dask_scheduler: Any) -> int:
    return len(dask_scheduler.tasks)


# --- the victims -----------------------------------------------------------------------------------------------


def kill_worker(dask: Dask) -> None:
    kill(dask.workers[0])


def kill_process(dask: Dask) -> None:
    kill_process_of(dask.workers[0])


def kill_process_of(worker: subprocess.Popen[bytes]) -> None:
    children = psutil.Process(worker.pid).children(recursive=True)
    max(children, key=lambda child: child.memory_info().rss).kill()


def kill_in_turns(dask: Dask) -> None:
    for worker in dask.workers[:2]:
        dask.join()
        kill(worker)


def kill_all(dask: Dask) -> None:
    for worker in dask.workers[:2]:
        kill(worker)
    time.sleep(2)
    dask.join()


def kill_often(dask: Dask) -> None:
    for _ in range(3):
        with Client(dask.address) as client:
            client.wait_for_workers(2, timeout=RUN_SECONDS)
        for worker in dask.workers:
            kill_process_of(worker)
        time.sleep(1)


def kill_scheduler(dask: Dask) -> None:
    kill(dask.scheduler)


def pause_worker(dask: Dask) -> None:
    for number in (signal.SIGSTOP, signal.SIGCONT):
        os.killpg(dask.workers[0].pid, number)
        time.sleep(5)


VICTIMS: dict[str, Callable[[Dask], None]] = {
    "worker": kill_worker,
    "process": kill_process,
    "turns": kill_in_turns,
    "all": kill_all,
    "often": kill_often,
    "scheduler": kill_scheduler,
    "client": lambda _: None,  # `try_once` has the run
    "paused": pause_worker,
}


# --- the runs --------------------------------------------------------------------------------------------------


class Run:
    """A started command of distembed, and each line that it has printed, with the moment."""

    def __init__(self, all_sent: bool, *words: object) -> None:
        command = [sys.executable, "-c", (ALL_SENT if all_sent else "") + COMMAND, *map(str, words)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.process: subprocess.Popen[str] = subprocess.Popen(command, env=environment(), **pipes)
        self.lines: list[tuple[float, str]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append((time.perf_counter(), line))

    def finish(self) -> int:
        """Wait for the end, and return the exit code."""
        try:
            self.process.wait(timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.lines.append((time.perf_counter(), f"killed by the benchmark after {RUN_SECONDS:.0f} s\n"))
        self._reader.join()
        return self.process.wait()

    @property
    def output(self) -> str:
        return "".join(line for _, line in self.lines)


def digest(workspace: Path) -> str:
    return de.Workspace.open(workspace).digest()


def try_once(
    dask: Dask, folder: Path, stage: str, victim: str, wait: float, *, all_sent: bool
) -> bool | None:
    """Print the line of one try; return whether it ended with the digest of the whole run, None without a kill."""
    whole, copy = folder / "whole", folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(whole, copy)
    forget_stage(copy, stage)
    dask.complete()
    words = ("run", folder / "job.toml", "--workspace", copy)
    run = Run(all_sent, *words, "--scheduler", dask.address)
    if not has_tasks(dask.address, run):
        assert run.finish() == 0, run.output
        return None
    time.sleep(wait)
    killed = time.perf_counter()
    is_late = (copy / "manifest" / f"{stage}.json").exists()
    if not is_late and victim == "client":
        run.process.kill()
    elif not is_late:
        VICTIMS[victim](dask)
    code, ended = run.finish(), time.perf_counter()
    if is_late:
        return try_once(dask, folder, stage, victim, wait / 2, all_sent=all_sent) if wait > SHORTEST else None

    said = [moment - killed for moment, line in run.lines if re.search(SAID, line)]
    if victim == "scheduler" and code == STOPPED and said:
        code = (run := Run(all_sent, *words)).finish()
    if victim == "client":
        code = (run := Run(all_sent, *words, "--scheduler", dask.address)).finish()
    same = code == 0 and digest(copy) == digest(whole)
    end = "equal" if same else f"NOT EQUAL, exit code {code}\n{run.output[-2000:]}"
    named = f"{said[0]:.1f}" if said else "-"
    tell_row(folder.name, stage, victim, f"{wait:.2f}", named, len(said), f"{ended - killed:.1f}", end)
    return same


def run_whole(room: Path, system: str, *, all_sent: bool) -> Path:
    """Write the small job of a system and run it undisturbed; return its folder."""
    folder = room / system
    folder.mkdir()
    SYSTEMS[system](folder)
    run = Run(all_sent, "run", folder / "job.toml", "--workspace", folder / "whole")
    assert run.finish() == 0, run.output
    return folder


def try_each(
    folder: Path,
    victims: tuple[str, ...],
    moments: random.Random,
    *,
    all_sent: bool,
    times: int | None = None,
) -> Iterator[bool]:
    """Try the kills of all victims in all stages of the job of a folder, or so many of them."""
    stages = de.Workspace.open(folder / "whole").stages()
    every = [(stage, victim) for stage in stages for victim in victims]
    tried = every if times is None else moments.sample(every, min(times, len(every)))
    for stage, found in stages.items():
        of_stage = [victim for victim in victims if (stage, victim) in tried]
        if not of_stage:
            continue
        with cluster(folder) as dask:
            for victim in of_stage:
                wait = moments.uniform(0, found.facts["wall_seconds"])
                same = try_once(dask, folder, stage, victim, wait, all_sent=all_sent)
                if same is not None:
                    yield same


def main(
    *systems: Literal["psdvec", "imputation", "topics", "transfer", "wordspaces", "comparison"],
    victims: tuple[
        Literal["worker", "process", "turns", "all", "often", "scheduler", "client", "paused"], ...
    ] = (*VICTIMS,),
    seed: int = 0,
    times: int | None = None,
    all_sent: bool = False,
) -> None:
    moments = random.Random(seed)
    same: list[bool] = []
    tell_head(
        "system", "stage", "victim", "killed after s", "named after s", "named", "ended after s", "digest"
    )
    with tempfile.TemporaryDirectory(prefix="killed-workers-") as room:
        for system in systems:
            folder = run_whole(Path(room), system, all_sent=all_sent)
            same += try_each(folder, victims, moments, all_sent=all_sent, times=times)
    tell(f"{len(same)} kills, {same.count(False)} without the digest of the whole run")
    sys.exit(not all(same))
