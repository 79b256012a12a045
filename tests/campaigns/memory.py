"""Run jobs on 1, 4 and 16 times the data, each held to the memory that was planned for it, and compare every stage.

    python -m tests.campaigns memory --seed 0 --times 12 [--systems psdvec topics] [--sizes 1 4 16]

A try is a small job (`tests/small_jobs`) with options that the seed draws from the keys of its sections, run on
generated data of each size; `--first N --times 1` repeats the try N. Each run is a process of its own in a control
group (made by root) with the memory that its plan names before it runs: the kernel kills a process that takes more.

The same job on a quarter of the least data shows what a process takes for libraries in each stage. A stage is ABOVE if
that, and what the stage takes more without what earlier stages left, are above `WORKER_BYTES` and its part of the plan,
or the process above its whole plan. A stage takes `more` if it takes `LOADED` bytes more than its part, which fit into
the 500 MiB of every process. Its plan is `wide` if the process is planned with more than 1.5 times of what it takes.
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

LOADED = 32 << 20
"""Bytes that a stage may take for modules that it loads, and for what malloc does not give back."""

CGROUPS = Path("/sys/fs/cgroup")
MEASURED = """
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
    open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
    name, begun, ran, process = standing.spec.name, now("RssAnon"), real(standing, of), now("VmHWM")
    planned = run._plan_of_run(of).stages[name].peak_bytes(of.job.resources.n_workers)
    # Pages of files, of which the kernel lets a process have as many as it likes, are no part of what a stage takes.
    print(json.dumps([name, planned, begun, process - now("RssFile"), process]), file=open(log, "a"))
    return ran
run._run_stage = measured
main()
"""

LARGER = {
    "psdvec": (
        "psdvec.n_core=300", "psdvec.n_components=100", "subwords.enabled=true",
        "views.sides={method='ppmi', n_components=100, n_passes=2}",
    ),
    "wordspaces": (
        "wordspaces.n_components=50", "recipes.lpp_eigen.svd_components=60", "vocabulary.max_size=6000",
    ),
    "topics": ("corpus.numbers=true", "report.score_labels=false"),
    "transfer": ("first.numbers=true", "second.numbers=true", "representation.n_components=60"),
    "imputation": (),
}  # fmt: skip
"""Settings of each system under which its arrays outgrow the libraries."""

RESOURCES = {"block_memory": ("4MiB", "64MiB", "256MiB"), "workers": (1, 2, 4)}
NOT_DRAWN = {
    "job",
    "report",
    "plan",
    "corpus",
    "vocabulary",
    "counts",
    "domain",
    "known",
    "matching",
}
NOT_DRAWN |= {"first", "second", "features", "evaluation", "resources"}


# --- the data of a size, and the options of a try ---------------------------------------------------------------


def texts(n: int, prefix: str = "") -> list[str]:
    """Return documents of a hundred words of a vocabulary that grows with them."""
    ranks = np.random.default_rng(n).zipf(1.25, (n, 100)) % int(100 * n**0.5)
    names = [f"{prefix or 'abcd'[i % 4]}{i}" for i in range(int(ranks.max()) + 1)]
    return [" ".join(names[rank] for rank in row) for row in ranks.tolist()]


def write(system: str, folder: Path, size: float) -> None:
    """Write the small job of a system, and more data of its kind in place of its own."""
    import_module(f"tests.small_jobs.{system}").write(folder)
    draw, n = np.random.default_rng(0), round(500 * size)
    if system in ("psdvec", "wordspaces"):
        name, prefix = ("text/a.txt", "word") if system == "psdvec" else ("corpus.txt", "")
        (folder / name).write_text("\n".join(texts(n, prefix)))
    elif system in ("topics", "transfer"):
        name = "collection.jsonl" if system == "topics" else "both.jsonl"
        rows = [
            {"id": f"d{i}", "kind": "xy"[i % 2], "label": "xy"[i % 2], "text": text, "one": text, "two": text}
            for i, text in enumerate(texts(n))
        ]
        (folder / name).write_text("\n".join(map(json.dumps, rows)) + "\n")
    else:
        lines = [",".join(["name", "kind", *(f"c{i}" for i in range(50))])]
        lines += [f"name {i},{'xy'[i % 2]}," + ",".join(map(str, draw.random(50))) for i in range(2 * n)]
        (folder / "domain.csv").write_text("\n".join(lines) + "\n")
        names = [f"name_{i}" for i in range(n)]
        de.WordVectors(names, draw.standard_normal((n, 200), np.float32)).save(folder / "known.txt")


def values_of(key: Key, value: Any) -> Sequence[Any]:
    """Return what a try may set a key to: any choice, half or twice a number; nothing where it does not matter."""
    if key.section == "resources":
        return RESOURCES.get(key.name, ())
    if key.section in NOT_DRAWN or key.name in ("seed", "random_state"):
        return ()
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (max(1, value // 2), 2 * value)
    chosen = list(choices_of(key.annotation))
    return [[one] for one in chosen] if isinstance(key.default, list) else chosen


def options(system: str, draw: random.Random) -> list[str]:
    """Return settings, each of which may stand in a job beside those before it."""
    text = import_module(f"tests.small_jobs.{system}").JOB
    found = ["resources.memory_limit=64GiB", *LARGER[system]]
    job = parse_job(text, name="job.toml", folder=Path(), settings=found)
    for key in keys_of(system):
        table, _, many = key.section.partition(".")
        for section, model in getattr(job, table).items() if many else [(table, getattr(job, table))]:
            values = values_of(key, getattr(model, key.name, None))
            if not values or (table != "resources" and draw.random() < 0.75):
                continue
            place = f"{table}.{section}" if many else table
            setting = f"{place}.{key.name}={toml_value(draw.choice(values))}"
            try:
                parse_job(text, name="job.toml", folder=Path(), settings=[*found, setting])
            except JobError:  # it does not go with the others
                continue
            found.append(setting)
    return found


# --- a run ------------------------------------------------------------------------------------------------------


class Took(NamedTuple):
    """Bytes planned for a stage beside the libraries, anonymous ones before it and at its peak, and all at the peak."""

    planned: int
    begun: int
    peak: int
    process: int


@contextmanager
def control_group(n_bytes: int) -> Iterator[str]:
    """Yield the file to which a process writes its number to have no more than so many bytes; "" for any number."""
    if not n_bytes:
        yield ""
        return
    memory = CGROUPS / "memory"  # the first version of control groups has a tree for each resource
    group = (memory if memory.is_dir() else CGROUPS) / f"distembed-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if memory.is_dir() else "memory.max")).write_text(str(n_bytes))
        yield str(group / "cgroup.procs")
    finally:
        group.rmdir()


def ran(system: str, size: float, settings: Sequence[str], *, is_held: bool = True) -> dict[str, Took] | str:
    """Run a job and return what each stage took, or what it said at its end if it failed."""
    with tempfile.TemporaryDirectory(prefix="memory-") as place:
        file, log = str(Path(place, "job.toml")), Path(place, "stages")
        write(system, Path(place), size)
        job = load_job(file, settings=settings)
        planned = plan_job(job).process_bytes(job.resources.n_workers) if is_held else 0
        words = [word for setting in settings for word in ("--set", setting)]
        with control_group(planned) as group:
            command = [sys.executable, "-c", MEASURED, group, str(log), "run", file, *words]
            done = subprocess.run(
                command, cwd=place, env=environment(), capture_output=True, text=True, check=False
            )
        if done.returncode:
            return f"exit {done.returncode}: {(done.stdout + done.stderr)[-400:]}"
        return {name: Took(*numbers) for name, *numbers in map(json.loads, log.read_text().splitlines())}


def judged(took: Took, libraries: Took, planned: int) -> tuple[int, str]:
    """Return what a stage took beside the libraries, and whether it is above the plan, or the plan is wide."""
    taken = took.peak - libraries.peak
    grown = took.peak - max(took.begun, libraries.peak)
    if libraries.process + grown > WORKER_BYTES + took.planned or took.process > planned:
        return taken, "**ABOVE**"
    is_wide = WORKER_BYTES + took.planned > 1.5 * took.process
    return taken, "more" if grown > took.planned + LOADED else "wide" if is_wide else ""


def main(
    *,
    seed: int = 0,
    times: int = 12,
    first: int = 0,
    systems: tuple[str, ...] = (*LARGER,),
    sizes: tuple[int, ...] = (1, 4, 16),
) -> None:
    tell_head("stage", "size", "planned, MiB", "taken, MiB", "process planned", "measured", "")
    wrong: list[tuple[int, int, str]] = []
    for number in range(first, first + times):
        draw, system = random.Random(f"{seed} {number}"), systems[number % len(systems)]
        settings = options(system, draw)
        # The data may refuse options that go with each other; a run that ends has compiled what is compiled.
        while isinstance(ran(system, 0.25, settings, is_held=False), str):
            settings = options(system, draw)
        tell(f"{seed}:{number} {system} {' '.join(settings)}")
        libraries = ran(system, 0.25, settings, is_held=False)
        for size in sizes:
            found = ran(system, size, settings)
            if isinstance(found, str) or isinstance(libraries, str):
                tell(found)  # of more data a method may refuse what it took of less
                wrong += [(number, size, "killed")] if str(found).startswith("exit -") else []
                continue
            planned = WORKER_BYTES + max(one.planned for one in found.values())
            for name, took in found.items():
                taken, what = judged(took, libraries[name], planned)
                columns = (took.planned, taken, WORKER_BYTES + took.planned, took.process)
                if what or size == sizes[-1]:
                    tell_row(f"{system} {name}", size, *(column >> 20 for column in columns), what)
                wrong += [(number, size, name)] if "ABOVE" in what else []
    assert not wrong, f"above their plans, by try, size and stage: {wrong}"
