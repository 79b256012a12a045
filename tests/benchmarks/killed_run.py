"""Run a job to its end, kill it on the way, and set what it took beside its plan.

``python -m tests.benchmarks.killed_run FOLDER JOB [--kill SECONDS,...] [options of distembed run]`` starts
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
import sys
import time
from pathlib import Path
from threading import Thread
from typing import IO, NamedTuple

import matplotlib.pyplot as plt
import psutil

from tests.benchmarks.plans_and_runs import tables

GIB = 2**30
STAGE_ENDED = re.compile(r"([a-z_]+) +[0-9].* peak ")


class Sample(NamedTuple):
    """What a run holds at a moment."""

    seconds: float
    memory_bytes: int
    disk_bytes: int


def memory_of(pid: int) -> int:
    """Return the resident bytes of a process and all its children."""
    try:
        process = psutil.Process(pid)
        return sum(one.memory_info().rss for one in [process, *process.children(recursive=True)])
    except psutil.NoSuchProcess:
        return 0


def disk_of(folder: Path) -> int:
    """Return the bytes of all files of a folder, while others come and go."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(root) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total


class Output:
    """What a run prints: passed on, and searched for the lines that end a stage."""

    def __init__(self, begin: float) -> None:
        self.begin = begin
        self.ends: dict[str, float] = {}

    def read(self, lines: IO[str]) -> None:
        for line in lines:
            print(line, end="", flush=True)
            if ended := STAGE_ENDED.match(line):
                self.ends[ended[1]] = time.monotonic() - self.begin


def run_once(
    command: list[str], workspace: Path, output: Output, kill_after: float | None
) -> tuple[list[Sample], int]:
    """Run a command to its end, or kill it after so many seconds; return the samples and the exit code."""
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
    reader = Thread(target=output.read, args=[process.stdout])
    reader.start()
    started, samples, disk = time.monotonic(), [], 0
    while process.poll() is None:
        now = time.monotonic()
        if kill_after is not None and now - started > kill_after:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            print(f"killed after {kill_after:.0f} s, {now - output.begin:.0f} s from the start", flush=True)
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
    axes.plot(
        minutes, [sample.memory_bytes / GIB for sample in samples], lw=1, label="memory of all processes"
    )
    axes.plot(minutes, [sample.disk_bytes / GIB for sample in samples], lw=1, label="files of the workspace")
    for number, (name, end) in enumerate(ends.items()):
        axes.axvline(end / 60, color="0.7", lw=0.6)
        axes.annotate(
            name,
            (end / 60, 1 - 0.06 * (number % 4)),
            xycoords=("data", "axes fraction"),
            fontsize=7,
            ha="right",
            va="top",
        )
    for kill in kills:
        axes.axvline(kill / 60, color="C3", lw=0.8, ls=":")
    axes.set(xlabel="minutes (dotted: SIGKILL)", ylabel="GiB", xlim=(0, None), ylim=(0, None))
    axes.legend(fontsize=8, loc="center left")
    figure.savefig(path)


def main(folder: str, job: str, *options: str) -> None:
    arguments = list(options)
    kills: list[float] = []
    if "--kill" in arguments:
        place = arguments.index("--kill")
        kills = [float(text) for text in arguments[place + 1].split(",")]
        del arguments[place : place + 2]
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    workspace = out / "workspace"
    command = [
        sys.executable,
        "-m",
        "distembed.cli.main",
        "run",
        job,
        "--workspace",
        str(workspace),
        *arguments,
    ]
    samples: list[Sample] = []
    killed: list[float] = []
    output = Output(time.monotonic())
    for kill_after in [*kills, None]:
        found, code = run_once(command, workspace, output, kill_after)
        samples += found
        if code == -signal.SIGKILL:
            killed.append(found[-1].seconds)
        elif code:
            sys.exit(f"the run ended with {code}")
        else:
            break
    total = time.monotonic() - output.begin
    with (out / "samples.csv").open("w", newline="") as file:
        csv.writer(file).writerows([Sample._fields, *samples])
    draw(samples, output.ends, killed, out / "memory.svg")
    memory, disk = (max(sample[column] for sample in samples) / GIB for column in (1, 2))
    print(
        f"{total / 60:.1f} minutes, {len(killed)} times killed; {memory:.2f} GiB of memory, {disk:.2f} GiB of files"
    )
    print(tables(str(workspace)))
    previous = 0.0
    for name, end in output.ends.items():
        print(f"{name}: {end - previous:.0f} s")
        previous = end


if __name__ == "__main__":
    main(*sys.argv[1:])
