"""Deprive a run of a resource, then restore it: the run fails with one sentence, and the same command then succeeds.

    python -m tests.campaigns starvation --seed 0 --times 40 [--systems psdvec topics]

Each try runs a small job on a disk of its own (tmpfs: as root, or in `unshare -rm`), and takes one thing:

disk          the disk is full after a share of the bytes that the workspace needs
read-only     a workspace that was stopped halfway lies on a disk that nobody may write
descriptors   the process may open 20 to 200 files
clock         the clock steps back or ahead by up to a day at every tenth look
quota         a sync, and every one after it, says that the quota is used up, as a disk on a network does
file          no file may be larger than 1 to 16 KiB (`ulimit -f`)
suspension    the run, or its worker processes, are stopped at a moment, and go on when every clock is an hour ahead

Then the same command runs with everything. A try depends on its number alone: `--first N --times 1` repeats it.
"""

from __future__ import annotations

import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.benchmarks.measures import tell_head, tell_row
from tests.campaigns.load import is_sentence
from tests.commands import environment
from tests.test_promises import SYSTEMS

WAYS = ("disk", "read-only", "descriptors", "clock", "quota", "file", "suspension")
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
QUOTA = """
import errno, itertools, os
real, syncs = os.fsync, itertools.count(1)
def sync(handle):
    if next(syncs) > {n}:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
    real(handle)
os.fsync = sync
"""
AHEAD = """
import mmap, struct, time
with open({file!r}, "r+b") as file:
    shift = mmap.mmap(file.fileno(), 8)
for name in ("time", "monotonic", "perf_counter"):
    setattr(time, name, lambda real=getattr(time, name): real() + struct.unpack("d", shift)[0])
"""
MAIN = "from distembed.cli.main import main\nmain()"


class Whole(NamedTuple):
    """An undisturbed run: the bytes of its workspace, the digest, and the seconds that it took."""

    n_bytes: int
    digest: str
    seconds: float


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
    return told(done.returncode, done.stderr)


def told(code: int, errors: str) -> Ended:
    is_traced = "Traceback" in errors or "DISTEMBED_DEBUG" in errors
    return Ended(code, errors if is_traced else (errors.splitlines() or [""])[-1])


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


def starved(way: str, run: tuple[str, ...], place: Path, whole: Whole, draw: random.Random) -> Ended:
    """Run a command without what a way takes, and give that back."""
    if way == "disk":
        remount(place, f"size={int(whole.n_bytes * draw.random()) // 4096 * 4096 + 4096}")
        found = ended(*run)
        remount(place, f"size={8 * whole.n_bytes}")
    elif way == "read-only":
        ended(*run, "--until", draw.choice(["tokens", "vocabulary", "cooccurrence", "graph"]))
        remount(place, "ro")
        found = ended(*run)
        remount(place, "rw")
    elif way == "descriptors":
        n = draw.randint(20, 200)
        found = ended(*run, limit=partial(resource.setrlimit, resource.RLIMIT_NOFILE, (n, n)))
    elif way == "quota":
        found = ended(*run, before=QUOTA.format(n=draw.randrange(100)))
    elif way == "file":
        n = draw.randint(1 << 10, 16 << 10)
        found = ended(*run, limit=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (n, n)))
    elif way == "suspension":
        found = suspended(run, place, whole.seconds, draw)
    else:
        found = ended(*run, before=CLOCK.format(seed=draw.randrange(1 << 16)))
    return found


def suspended(run: tuple[str, ...], place: Path, seconds: float, draw: random.Random) -> Ended:
    """Stop a run with its workers, or these alone, at a moment, and let them go on when the clock is an hour ahead."""
    clock = place.parent / "clock"
    clock.write_bytes(bytes(8))
    words = (AHEAD.format(file=str(clock)) + MAIN, *run, "--scheduler", draw.choice(("threads", "processes")))
    process = psutil.Popen(
        [sys.executable, "-c", *words], env=environment(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    time.sleep(seconds * draw.random())
    workers = process.children(recursive=True) if process.is_running() else []
    stopped = workers if workers and draw.random() < 0.5 else [*workers, process]
    with suppress(psutil.NoSuchProcess):
        for one in stopped:
            one.suspend()
        with clock.open("r+b") as file:
            file.write(struct.pack("d", 3600.0))
        time.sleep(5)
    for one in stopped:
        with suppress(psutil.NoSuchProcess):
            one.resume()
    _, errors = process.communicate(timeout=SECONDS)
    return told(process.returncode, errors.decode())


def size_of(folder: Path) -> int:
    return sum(-(-file.stat().st_size // 4096) * 4096 for file in folder.rglob("*") if file.is_file())


def main(
    *, seed: int = 0, times: int = 40, first: int = 0, systems: tuple[str, ...] = (*SYSTEMS,), way: str = ""
) -> None:
    tell_head("try", "system", "without", "exit", "the same command", "sentence")
    whole: dict[str, Whole] = {}
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
                begun = time.monotonic()
                ended("run", *words)
                whole[system] = Whole(size_of(place), digest(words), time.monotonic() - begun)
                subprocess.run(["rm", "-r", str(place / "w")], check=True)
            found = starved(chosen, ("run", *words), place, whole[system], draw)
            again = ended("run", *words)
            is_told = found.code == 0 or is_sentence(found.sentence)
            is_right = is_told and again.code == 0 and digest(words) == whole[system].digest
        tell_row(
            number, system, chosen, found.code, again.code if is_right else f"**{again}**", found.sentence
        )
        wrong += [] if is_right else [number]
    assert not wrong, f"the tries {wrong} ended otherwise"
