"""Run jobs on 1, 4 and 16 times the data, each held to the memory that was planned for it, and compare every stage.

    python -m tests.campaigns memory --seed 0 --times 12 [--systems psdvec topics] [--sizes 1 4 16]

A try is a small job (`tests/small_jobs`) on generated data of each size, with options that the seed draws from all keys
of its sections (`--first N --times 1` repeats the try N). Each run is a process of its own. As its first stage begins,
RLIMIT_DATA lets its private memory grow by what its first plan has left; beside that go `RESERVED` bytes for what is
reserved and never used, the stacks of threads and the buffers of BLAS. A job above its plan so ends with an error.

The same job on a 16th of the least data shows what the libraries, which every process has, take in a stage. What a stage
takes beside that is held against its part of the plan: it may not be above it by more than `LOADED` bytes. Where less
than `LOADED` is planned and taken, nothing is said. What is planned at more than 1.5 times of what was taken is listed.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import distembed as de
from distembed.costs import WORKER_BYTES
from distembed.job.keys import Key, keys_of, toml_value
from distembed.job.load import load_job, parse_job
from distembed.job.model import JobError
from distembed.job.planning import plan_job
from tests.benchmarks.measures import tell, tell_head, tell_row
from tests.commands import environment
from tests.job.test_effects import choices_of

MIB = 1 << 20
LOADED = 32 * MIB
HELD = """
import json, os, sys
group, log = sys.argv.pop(1), sys.argv.pop(1)
if group:
    open(group, "w").write(str(os.getpid()))
from distembed.cli.main import main
from distembed.job import run
real = run._run_stage
def now(name):
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
def measured(standing, of):
    open("/proc/self/clear_refs", "w").write("5")
    name, begun, ran, peak = standing.spec.name, now("VmRSS"), real(standing, of), now("VmHWM")
    cost = run._plan_of_run(of).stages[name].peak_bytes(of.job.resources.n_workers)
    print(json.dumps([name, cost, begun, peak]), file=open(log, "a"))
    return ran
run._run_stage = measured
main()
"""
CGROUPS = Path("/sys/fs/cgroup")

FIXED = {
    "psdvec": (
        "psdvec.n_core=600", "psdvec.n_components=100", "subwords.enabled=true",
        "views.sides={method='ppmi', n_components=100, n_passes=2}",
    ),
    "wordspaces": ("wordspaces.n_components=50", "vocabulary.max_size=6000"),
    "topics": ("corpus.numbers=true", "report.score_labels=false"),
    "transfer": ("first.numbers=true", "second.numbers=true", "representation.n_components=100"),
    "neighbors": ("neighbors.spanning_tree=true",),
    "imputation": (),
}  # fmt: skip
"""Settings of each system that make its arrays, and not the libraries, take most of the memory."""

OTHER_SECTIONS = {"job", "report", "plan", "corpus", "vocabulary", "counts", "input", "domain", "known", "matching"}
OTHER_SECTIONS |= {"first", "second", "features", "evaluation", "resources"}
SIZES = {"block_memory": ("4MiB", "64MiB", "256MiB"), "workers": (1, 2, 4)}


class Took(NamedTuple):
    """The bytes that were planned for a stage beside the libraries, and those of the process: before it, at its peak."""

    planned: int
    begun: int
    peak: int


# --- the data of a size ----------------------------------------------------------------------------------------


def texts(n: int, prefix: str = "") -> list[str]:
    """Return documents of a hundred words of a vocabulary that grows with them."""
    draw = np.random.default_rng(n)
    ranks = draw.zipf(1.25, (n, 100)) % int(100 * n**0.5)
    return [" ".join(f"{prefix or 'abcd'[r % 4]}{r if prefix else r // 4}" for r in row) for row in ranks.tolist()]


def write(system: str, folder: Path, size: float) -> None:
    """Write the small job of a system, and over its data more of the same kind."""
    import_module(f"tests.small_jobs.{system}").write(folder)
    draw, n = np.random.default_rng(0), round(1000 * size)
    if system == "psdvec":
        (folder / "text" / "a.txt").write_text("\n".join(texts(n, "word")))
    elif system == "wordspaces":
        (folder / "corpus.txt").write_text("\n".join(texts(n)))
    elif system in ("topics", "transfer"):
        fields = [{"id": f"d{i}", "kind": "xy"[i % 2], "label": "xy"[i % 2]} for i in range(n)]
        one, two = texts(n), texts(n)
        lines = [
            json.dumps({**field, "text": one[i], "one": one[i], "two": two[i]}) for i, field in enumerate(fields)
        ]
        name = "collection.jsonl" if system == "topics" else "both.jsonl"
        (folder / name).write_text("\n".join(lines) + "\n")
    elif system == "neighbors":
        rows = draw.standard_normal((2 * n, 200), np.float32)
        de.WordVectors([f"w{i}" for i in range(2 * n)], rows).save(folder / "vectors.parquet")
    else:
        X = draw.standard_normal((n, 50), np.float32)
        rows = [f"name {i},{'xy'[i % 2]}," + ",".join(map(str, x)) for i, x in enumerate(X.tolist())]
        head = ",".join(["name", "kind", *(f"c{i}" for i in range(50))])
        (folder / "domain.csv").write_text("\n".join([head, *rows]) + "\n")
        names = [f"name_{i}" for i in range(n // 2)]
        de.WordVectors(names, draw.standard_normal((n // 2, 200), np.float32)).save(folder / "known.txt")


# --- the options of a try --------------------------------------------------------------------------------------


def values_of(key: Key) -> Sequence[Any]:
    """Return the values that a try draws one of: all choices, half and twice a number; none of any other key."""
    if key.name in SIZES and key.section == "resources":
        return SIZES[key.name]
    if key.section in OTHER_SECTIONS or "seed" in key.name or "state" in key.name:
        return ()
    if key.kind == "true or false":
        return (True, False)
    if isinstance(key.default, int) and key.default > 1:
        return (key.default // 2, 2 * key.default)
    chosen = list(choices_of(key.annotation))
    return [[one] for one in chosen] if isinstance(key.default, list) else chosen


def options(system: str, draw: random.Random) -> list[str]:
    """Return settings, of which each may stand in a job beside those before it."""
    text = import_module(f"tests.small_jobs.{system}").JOB
    found = [*FIXED[system], "resources.memory_limit=64GiB"]
    job = parse_job(text, name="job.toml", folder=Path(), settings=found)
    for key in keys_of(system):
        table, _, many = key.section.partition(".")
        for section in [f"{table}.{name}" for name in getattr(job, table)] if many else [table]:
            values = values_of(key)
            if values and (key.section == "resources" or draw.random() < 0.25):
                setting = f"{section}.{key.name}={toml_value(draw.choice(values))}"
                try:
                    parse_job(text, name="job.toml", folder=Path(), settings=[*found, setting])
                except JobError:
                    continue  # it does not go with the others
                found.append(setting)
    return found


# --- a run -----------------------------------------------------------------------------------------------------


@contextmanager
def limited(n_bytes: int) -> Iterator[str]:
    """Yield the file to which a process writes its number to have no more than so many bytes; "" for any number."""
    if not n_bytes:
        yield ""
        return
    memory = CGROUPS / "memory"  # the first version has a tree for each resource
    group = (memory if memory.is_dir() else CGROUPS) / f"distembed-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if memory.is_dir() else "memory.max")).write_text(str(n_bytes))
        yield str(group / "cgroup.procs")
    finally:
        group.rmdir()


def ran(system: str, size: float, settings: Sequence[str], *, is_limited: bool = True) -> dict[str, Took] | str:
    """Run a job and return what each stage took, or the last that it said if it failed."""
    with tempfile.TemporaryDirectory(prefix="memory-") as place:
        folder = Path(place)
        write(system, folder, size)
        job, log = load_job(str(folder / "job.toml"), settings=settings), folder / "stages"
        planned = plan_job(job).process_bytes(job.resources.n_workers) if is_limited else 0
        words = ["run", str(folder / "job.toml"), *(word for setting in settings for word in ("--set", setting))]
        with limited(planned) as group:
            command = [sys.executable, "-c", HELD, group, str(log), *words]
            done = subprocess.run(
                command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
            )
        stages = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        if done.returncode:
            return f"exit {done.returncode} after {len(stages)} stages: {(done.stdout + done.stderr)[-2000:]}"
        return {name: Took(*numbers) for name, *numbers in stages}


def compared(found: dict[str, Took], libraries: dict[str, Took]) -> Iterator[tuple[str, int, int, str]]:
    """Yield what was planned and taken beside the libraries in each stage that says something, and what is wrong."""
    for name, took in found.items():
        taken = took.peak - libraries[name].peak
        grown = took.peak - max(took.begun, libraries[name].peak)
        above = grown > took.planned + LOADED or took.peak > WORKER_BYTES + max(one.planned for one in found.values())
        if max(took.planned, taken) > LOADED:
            yield name, took.planned, taken, f"{grown>>20} {'ABOVE' if above else '1.5' if took.planned > 1.5 * taken + LOADED else ''}"


def main(
    *, seed: int = 0, times: int = 12, first: int = 0, systems: tuple[str, ...] = (*FIXED,), sizes: tuple[int, ...] = (1, 4, 16)
) -> None:
    wrong = []
    tell_head("stage", "size", "planned, MiB", "taken, MiB", "planned / taken", "")
    for number in range(first, first + times):
        draw, system = random.Random(f"{seed} {number}"), systems[number % len(systems)]
        libraries: dict[str, Took] | str = "not tried"
        while isinstance(libraries, str):
            settings = options(system, draw)
            libraries = ran(system, 1 / 16, settings, is_limited=False)
            tell(f"{seed}:{number} {system} {' '.join(settings)} {libraries if isinstance(libraries, str) else ''}")
        libraries = ran(system, 1 / 16, settings, is_limited=False)
        assert not isinstance(libraries, str)
        for size in sizes:
            found = ran(system, size, settings)
            if isinstance(found, str):
                tell(found)
                wrong.append((number, size, "failed"))
                continue
            for name, planned, taken, what in compared(found, libraries):
                ratio = f"{planned / max(taken, 1):.2f}"
                tell_row(f"{system}: {name}", size, planned // MIB, taken // MIB, ratio, what)
                wrong += [(number, size, name)] if "ABOVE" in what else []
    assert not wrong, f"above their plans: {wrong}"
