"""Kill workers of a real Dask cluster in every stage of a job, and compare the digest of what the run ends with.

    python -m tests.benchmarks.killed_workers psdvec imputation [--victims worker all] [--seed 0]

Each try computes one stage of a finished workspace again, on `dask scheduler` and two `dask worker` processes with
Dask's default configuration, and kills its victim at a random moment of the stage:

worker      one worker with its nanny; the other goes on
process     the worker process only: its nanny starts another
turns       both, one after the other, each after a new worker has joined
all         both at once; a new worker joins two seconds later
scheduler   the scheduler: the run has to end with one sentence, and the same command on another cluster finishes

`--all-sent` sends every array that tasks share through the cluster, small ones too, which are part of the graph else.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import psutil
from distributed import Client

import distembed as de
from tests.pipeline.conftest import SMALL_JOB, environment, forget_stage, written_once
from tests.small_jobs import imputation, topics, transfer, wordspaces

RUN_SECONDS = 300.0
SYSTEMS: dict[str, Callable[[Any], Path]] = {
    "psdvec": lambda factory: psdvec_job(factory.getbasetemp()),
    "imputation": lambda factory: written_once(factory, "imputation", imputation.write),
    "topics": lambda factory: written_once(factory, "topics", topics.write_long),
    "transfer": lambda factory: written_once(factory, "transfer", transfer.write),
    "wordspaces": lambda factory: written_once(factory, "wordspaces", wordspaces.write),
}
ALL_SENT = "from distembed import execution; execution.LARGEST_LITERAL = 1000; "
COMMAND = "from distembed.cli.main import main; main()"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("systems", nargs="+", choices=SYSTEMS)
    parser.add_argument("--victims", nargs="*", choices=[*VICTIMS], default=[*VICTIMS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all-sent", action="store_true")
    given = parser.parse_args()
    moments = random.Random(given.seed)
    failed = tries = 0
    print("system | stage | victim | killed after s | ended after s | workers named | digest")
    with tempfile.TemporaryDirectory(prefix="killed-workers-") as room:
        for system in given.systems:
            folder = Path(room) / system
            folder.mkdir()
            job = SYSTEMS[system](SimpleNamespace(getbasetemp=lambda folder=folder: folder))
            whole = folder / "whole"
            program(given.all_sent, "run", job, "--workspace", whole).check_returncode()
            for stage in de.Workspace.open(whole).stages():
                for victim in given.victims:
                    tries += 1
                    failed += not tried(job, folder, whole, stage, victim, moments, all_sent=given.all_sent)
    print(f"{tries} tries, {failed} without the digest of the whole run")
    sys.exit(failed > 0)


def tried(
    job: Path, folder: Path, whole: Path, stage: str, victim: str, moments: random.Random, *, all_sent: bool
) -> bool:
    """Print the line of one try; return whether it ended with the digest of the whole run."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(whole, copy)
    forget_stage(copy, stage)
    wait = moments.uniform(0, de.Workspace.open(whole).stages()[stage].facts["wall_seconds"])
    with cluster(folder) as dask:
        words = ("run", job, "--workspace", copy, "--scheduler", dask.address)
        run = started(all_sent, *words)
        until_tasks(dask.address, run)
        time.sleep(wait)
        finished_before = run.poll() is not None
        VICTIMS[victim](dask)
        begin = time.monotonic()
        output = ended(run)
        seconds = time.monotonic() - begin
    code = run.returncode
    if victim == "scheduler" and code == 1 and "the Dask scheduler at" in output:
        with cluster(folder) as dask:
            again = (*words[:-1], dask.address)
            code = program(all_sent, *again).returncode
    same = code == 0 and digest(copy) == digest(whole)
    late = " (after its end)" if finished_before else ""
    print(
        f"{folder.name} | {stage} | {victim} | {wait:.2f}{late} | {seconds:.1f} | {output.count(' is gone')} | "
        f"{'equal' if same else f'NOT EQUAL, exit code {code}'}",
        flush=True,
    )
    if not same:
        print(output[-2000:])
    return same


def psdvec_job(folder: Path) -> Path:
    job = folder / "job.toml"
    job.write_text(SMALL_JOB)
    return job


def digest(workspace: Path) -> str:
    return de.Workspace.open(workspace).digest()


# --- commands --------------------------------------------------------------------------------------------------


def started(all_sent: bool, *words: object) -> subprocess.Popen[str]:
    code = (ALL_SENT if all_sent else "") + COMMAND
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(),
    )  # fmt: skip


def ended(run: subprocess.Popen[str]) -> str:
    try:
        return run.communicate(timeout=RUN_SECONDS)[0]
    except subprocess.TimeoutExpired:
        run.kill()
        return run.communicate()[0] + f"\nkilled after {RUN_SECONDS:.0f} s"


def program(all_sent: bool, *words: object) -> subprocess.CompletedProcess[str]:
    run = started(all_sent, *words)
    return subprocess.CompletedProcess(
        words, run.wait() if not (output := ended(run)) else run.returncode, output
    )


# --- the cluster -----------------------------------------------------------------------------------------------


class Dask(NamedTuple):
    """A scheduler and its workers, each command with its process group."""

    folder: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    @property
    def file(self) -> Path:
        return self.folder / "scheduler.json"

    @property
    def address(self) -> str:
        import json

        return str(json.loads(self.file.read_text())["address"])

    def join(self) -> None:
        """Start one more worker, and wait until the scheduler has it."""
        with Client(self.address) as client:
            before = workers_of(client)
            self.workers.append(
                command("worker", "--nthreads", "1", "--local-directory", self.folder, file=self.file)
            )
            while not workers_of(client) - before:
                time.sleep(0.1)


def workers_of(client: Client) -> set[str]:
    return set(client.scheduler_info(n_workers=-1)["workers"])


def command(name: str, *words: object, file: Path) -> subprocess.Popen[bytes]:
    program = [
        sys.executable,
        "-m",
        "dask",
        name,
        "--host",
        "127.0.0.1",
        "--no-dashboard",
        "--scheduler-file",
        file,
    ]
    with (file.parent / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [*map(str, [*program, *words])], stdout=log, stderr=log, env=environment(), start_new_session=True
        )


@contextmanager
def cluster(folder: Path) -> Iterator[Dask]:
    """Run a scheduler and two workers, each with a nanny."""
    room = Path(tempfile.mkdtemp(dir=folder))
    found = Dask(room, command("scheduler", "--port", "0", file=room / "scheduler.json"), [])
    try:
        while not found.file.exists() or not found.file.stat().st_size:
            time.sleep(0.1)
        for _ in range(2):
            found.workers.append(
                command("worker", "--nthreads", "1", "--local-directory", room, file=found.file)
            )
        with Client(found.address) as client:
            client.wait_for_workers(2, timeout=60)
        yield found
    finally:
        for one in (found.scheduler, *found.workers):
            killed(one)


def killed(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def until_tasks(address: str, run: subprocess.Popen[str]) -> None:
    """Wait until the scheduler has tasks, or the run has ended."""
    with Client(address) as client:
        while run.poll() is None and not client.run_on_scheduler(n_tasks):
            time.sleep(0.02)


def n_tasks(dask_scheduler: Any) -> int:
    return len(dask_scheduler.tasks)


# --- the victims -----------------------------------------------------------------------------------------------


def kill_worker(dask: Dask) -> None:
    killed(dask.workers[0])


def kill_process(dask: Dask) -> None:
    children = psutil.Process(dask.workers[0].pid).children(recursive=True)
    max(children, key=lambda child: child.memory_info().rss).kill()


def kill_in_turns(dask: Dask) -> None:
    for worker in dask.workers[:2]:
        dask.join()
        killed(worker)


def kill_all(dask: Dask) -> None:
    for worker in dask.workers[:2]:
        killed(worker)
    time.sleep(2)
    dask.join()


def kill_scheduler(dask: Dask) -> None:
    killed(dask.scheduler)


VICTIMS: dict[str, Callable[[Dask], None]] = {
    "worker": kill_worker,
    "process": kill_process,
    "turns": kill_in_turns,
    "all": kill_all,
    "scheduler": kill_scheduler,
}


if __name__ == "__main__":
    main()
