"""Deprive a run of a resource, then restore it: the run fails with one sentence, and the same command then succeeds.

    python -m tests.campaigns starvation --seed 0 --times 40 [--systems psdvec topics]

Each try runs a small job on a disk of its own (tmpfs: as root, or in `unshare -rm`), and takes one thing:

disk          the disk is full after a share of the bytes that the workspace needs
read-only     a workspace that was stopped halfway lies on a disk that nobody may write
descriptors   the process may open 20 to 200 files
clock         the clock steps back or ahead by up to a day at every tenth look

Then the same command runs with everything. A try depends on its number alone: `--first N --times 1` repeats it.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.measures import tell_head, tell_row
from tests.commands import environment
from tests.test_promises import SYSTEMS

WAYS = ("disk", "read-only", "descriptors", "clock")
SECONDS = 900
CLOCK = """
import itertools, random, time
draw, real, looks, step = random.Random({seed}), time.time, itertools.count(1), [0]
def stepping():
    if next(looks) % 10 == 0:
        step[0] = draw.randint(-86400, 86400)
    return real() + step[0]
time.time = stepping
"""
MAIN = "from distembed.cli.main import main\nmain()"


class Ended(NamedTuple):
    """How a command ended, and the last line that it printed on standard error."""

    code: int
    sentence: str


def ended(*words: str, before: str = "", limit: Callable[[], None] | None = None) -> Ended:
    done = subprocess.run(
        [sys.executable, "-c", before + MAIN, *words],
        env=environment(),
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    is_traced = "Traceback" in done.stderr or "DISTEMBED_DEBUG" in done.stderr
    return Ended(done.returncode, done.stderr if is_traced else (done.stderr.splitlines() or [""])[-1])


@contextmanager
def disk(place: Path, n_bytes: int) -> Iterator[None]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)


def digest(words: tuple[str, ...]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "verify", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.stdout.splitlines()[-1] if done.returncode == 0 else done.stdout + done.stderr


def starved(way: str, run: tuple[str, ...], place: Path, n_bytes: int, draw: random.Random) -> Ended:
    """Run a command without what a way takes, and give that back."""
    if way == "disk":
        remount(place, f"size={int(n_bytes * draw.random()) // 4096 * 4096 + 4096}")
        found = ended(*run)
        remount(place, f"size={8 * n_bytes}")
    elif way == "read-only":
        ended(*run, "--until", draw.choice(["tokens", "vocabulary", "cooccurrence", "graph"]))
        remount(place, "ro")
        found = ended(*run)
        remount(place, "rw")
    elif way == "descriptors":
        n = draw.randint(20, 200)
        found = ended(*run, limit=partial(resource.setrlimit, resource.RLIMIT_NOFILE, (n, n)))
    else:
        found = ended(*run, before=CLOCK.format(seed=draw.randrange(1 << 16)))
    return found


def size_of(folder: Path) -> int:
    return sum(-(-file.stat().st_size // 4096) * 4096 for file in folder.rglob("*") if file.is_file())


def main(
    *, seed: int = 0, times: int = 40, first: int = 0, systems: tuple[str, ...] = (*SYSTEMS,), way: str = ""
) -> None:
    tell_head("try", "system", "without", "exit", "the same command", "sentence")
    whole: dict[str, tuple[int, str]] = {}
    wrong = []
    for number in range(first, first + times):
        draw = random.Random(f"{seed} {number}")
        system, chosen = draw.choice(systems), way or WAYS[number % len(WAYS)]
        with tempfile.TemporaryDirectory() as folder, disk(Path(folder, "disk"), 1 << 30):
            SYSTEMS[system].write(Path(folder))
            place = Path(folder, "disk")
            settings = tuple(word for one in SYSTEMS[system].settings for word in ("--set", one))
            words = (f"{folder}/job.toml", "--workspace", str(place / "w"), *settings)
            if system not in whole:
                ended("run", *words)
                whole[system] = size_of(place), digest(words)
                subprocess.run(["rm", "-r", str(place / "w")], check=True)
            n_bytes, expected = whole[system]
            found = starved(chosen, ("run", *words), place, n_bytes, draw)
            again = ended("run", *words)
            is_told = found.code == 0 or found.sentence.startswith("distembed: ")
            is_right = is_told and again.code == 0 and digest(words) == expected
        tell_row(
            number, system, chosen, found.code, again.code if is_right else f"**{again}**", found.sentence
        )
        wrong += [] if is_right else [number]
    assert not wrong, f"the tries {wrong} ended otherwise"
