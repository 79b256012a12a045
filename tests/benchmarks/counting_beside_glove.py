"""Time counting beside GloVe's own program: from a text file to the committed counts.

``python -m tests.benchmarks.counting_beside_glove TIMES N_WORDS GLOVE_BUILD TEXT_FILES...`` joins the files (one
article a block, as in data/english) into one file of lower-case words, an article a line, and runs both by turns.
GLOVE_BUILD is the folder of `vocab_count` and `cooccur`. Printed: wall seconds with everything (Python's start
too), CPU seconds, peak memory, and the ratio of the walls; for ours also the seconds of its stages alone.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import distembed as de

SETTINGS = {
    "window 10, symmetric, harmonic": (
        ["-window-size", "10"],
        {"window": "10", "direction": "symmetric", "weighting": "harmonic"},
    ),
    "window 3, left, flat": (
        ["-window-size", "3", "-symmetric", "0", "-distance-weighting", "0"],
        {"window": "3", "direction": "left", "weighting": "flat"},
    ),
}
JOB = """
[job]
workspace = "{folder}/workspace"
[corpus]
paths = ["{folder}/text.txt"]
pattern = "ascii"
[vocabulary]
max_size = {n_words}
min_count = 1
[resources]
block_memory = "256MiB"
workers = 2
"""


class Spent(NamedTuple):
    wall: float
    cpu: float
    peak_bytes: int

    def __add__(self, other):
        return Spent(self.wall + other.wall, self.cpu + other.cpu, max(self.peak_bytes, other.peak_bytes))

    def __str__(self):
        return f"{self.wall:5.1f} s wall, {self.cpu:5.1f} s CPU, {self.peak_bytes / 2**20:5.0f} MiB"


def spent(command, **files) -> Spent:
    start = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, **files)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    wall = time.perf_counter() - start
    return Spent(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def write_text(sources, target) -> int:
    n_tokens = 0
    with target.open("w") as out:
        for source in sources:
            with lzma.open(source, "rt", encoding="utf-8") as file:
                for article in file.read().lower().split("\n\n"):
                    words = re.findall("[a-z]+", article)
                    n_tokens += len(words)
                    out.write(" ".join(words) + "\n")
    return n_tokens


def glove(build, folder, n_words, options) -> Spent:
    text, vocabulary = folder / "text.txt", folder / "vocab.txt"
    with text.open() as source, vocabulary.open("w") as target:
        command = [f"{build}/vocab_count", "-max-vocab", n_words, "-verbose", "0"]
        first = spent(command, stdin=source, stdout=target)
    with text.open() as source, (folder / "cooccurrences.bin").open("w") as target:
        command = [f"{build}/cooccur", *options, "-memory", "4", "-vocab-file", vocabulary, "-verbose", "0"]
        return first + spent(command, stdin=source, stdout=target, cwd=folder)


def ours(folder, options) -> Spent:
    shutil.rmtree(folder / "workspace", ignore_errors=True)
    settings = [word for key, value in options.items() for word in ("--set", f"counting.{key}={value}")]
    command = [sys.executable, "-m", "distembed.cli.main", "run", folder / "job.toml", *settings]
    return spent([*command, "--until", "cooccurrence"], stdout=subprocess.DEVNULL)


def stage_seconds(folder) -> str:
    stages = de.Workspace.open(str(folder / "workspace")).stages()
    seconds = [f"{name} {manifest.facts['wall_seconds']:.1f}" for name, manifest in stages.items()]
    return ", ".join(seconds)


def main(times: str, n_words: str, build: str, *sources: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a process of its own: a child's peak memory counts what its parent held when it was started.
        with ProcessPoolExecutor(1) as pool:
            n_tokens = pool.submit(write_text, sources, folder / "text.txt").result()
        print(f"{n_tokens:,} tokens, {n_words} words")
        (folder / "job.toml").write_text(JOB.format(folder=folder, n_words=n_words))
        ours(folder, SETTINGS["window 3, left, flat"][1])  # compiles what is not compiled yet
        for setting, (theirs, own) in SETTINGS.items():
            for _ in range(int(times)):
                first, second = glove(build, folder, n_words, theirs), ours(folder, own)
                print(f"{setting}: GloVe {first}; distembed {second}; {first.wall / second.wall:.2f} times")
                print(f"    {stage_seconds(folder)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
