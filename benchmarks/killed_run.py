"""Run a job to its end, kill it on the way, and set what it took beside its plan.

``python -m benchmarks.killed_run FOLDER JOB [--kill SECONDS,...] [options of distembed run]`` starts
``distembed run``, kills the process group with SIGKILL after so many seconds of each run, and starts it anew until it
ends. It writes ``FOLDER/samples.csv`` (once a second: seconds since the start, bytes of memory of all processes, bytes
of the workspace's files) and ``FOLDER/memory.svg``, a picture of it with the stages. It prints the planned and the
measured bytes and peaks of each stage, and the seconds from the end of one to the next's, killed work included.
"""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO, NamedTuple

import matplotlib.pyplot as plt
import psutil

from benchmarks.measures import DISTEMBED, run_main, tell
from benchmarks.plans_and_runs import tables

GIB = 2**30
STAGE_ENDED = re.compile(r"([a-z_]+) +[0-9].* peak ")


class Sample(NamedTuple):
    """What a run holds at a moment."""

    seconds: float
    memory_bytes: int
    disk_bytes: int


def memory_of(pid: int) -> int:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return sum(one.memory_info().rss for one in [process, *process.children(recursive=True)])
    return 0


def disk_of(folder: Path) -> int:
    """Return the bytes of all files of a folder, while others come and go."""
    total = 0
    for file in (Path(root) / name for root, _, names in os.walk(folder) for name in names):
        with suppress(FileNotFoundError):
            total += file.lstat().st_size
    return total


class Output:
    """What a run prints: passed on, and searched for the lines that end a stage."""

    def __init__(self, begin: float) -> None:
        self.begin = begin
        self.ends: dict[str, float] = {}

    def read(self, lines: IO[str]) -> None:
        for line in lines:
            tell(line, end="")
            if ended := STAGE_ENDED.match(line):
                self.ends[ended[1]] = time.monotonic() - self.begin


def run_once(
    command: list[str], workspace: Path, output: Output, kill_after: float | None
) -> tuple[list[Sample], int]:
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
    reader = Thread(target=output.read, args=[process.stdout])
    reader.start()
    started, samples, disk = time.monotonic(), [], 0
    while process.poll() is None:
        now = time.monotonic()
        if kill_after is not None and now - started > kill_after:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            tell(f"killed after {kill_after:.0f} s, {now - output.begin:.0f} s from the start")
            break
        if len(samples) % 10 == 0:
            disk = disk_of(workspace)
        samples.append(Sample(now - output.begin, memory_of(process.pid), disk))
        time.sleep(1)
    reader.join()
    return samples, process.returncode


def draw(samples: list[Sample], ends: dict[str, float], kills: list[float], path: Path) -> None:
    """Draw memory and disk over time, with the stages' ends and the kills as vertical lines."""
    figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    minutes = [sample.seconds / 60 for sample in samples]
    for field, label in (
        ("memory_bytes", "memory of all processes"),
        ("disk_bytes", "files of the workspace"),
    ):
        axes.plot(minutes, [getattr(sample, field) / GIB for sample in samples], lw=1, label=label)
    style = {"xycoords": ("data", "axes fraction"), "fontsize": 7, "ha": "right", "va": "top"}
    for number, (name, end) in enumerate(ends.items()):
        axes.axvline(end / 60, color="0.7", lw=0.6)
        axes.annotate(name, (end / 60, 1 - 0.06 * (number % 4)), **style)
    for kill in kills:
        axes.axvline(kill / 60, color="C3", lw=0.8, ls=":")
    axes.set(xlabel="minutes (dotted: SIGKILL)", ylabel="GiB", xlim=(0, None), ylim=(0, None))
    axes.legend(fontsize=8, loc="center left")
    figure.savefig(path)


def main(folder: Path, job: Path, *options: str, kill: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    workspace = folder / "workspace"
    command = [*DISTEMBED, "run", str(job), "--workspace", str(workspace), *options]
    samples: list[Sample] = []
    killed: list[float] = []
    output = Output(time.monotonic())
    for kill_after in [*map(float, filter(None, kill.split(","))), None]:
        found, code = run_once(command, workspace, output, kill_after)
        samples += found
        if code not in {0, -signal.SIGKILL}:
            raise SystemExit(f"the run ended with {code}")
        if code == 0:
            break
        killed.append(found[-1].seconds)
    minutes = (time.monotonic() - output.begin) / 60
    with (folder / "samples.csv").open("w", newline="") as file:
        csv.writer(file).writerows([Sample._fields, *samples])
    draw(samples, output.ends, killed, folder / "memory.svg")
    _, memory, disk = (max(column) / GIB for column in zip(*samples, strict=True))
    tell(
        f"{minutes:.1f} minutes, {len(killed)} times killed; {memory:.2f} GiB of memory, {disk:.2f} GiB of files"
    )
    tell(tables(str(workspace)))
    previous = 0.0
    for name, end in output.ends.items():
        tell(f"{name}: {end - previous:.0f} s")
        previous = end


if __name__ == "__main__":
    run_main(main)
