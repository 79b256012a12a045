"""Run jobs on 1, 4 and 16 times the data, each held to the memory that was planned for it, and compare every stage.

    python -m tests.campaigns memory --seed 0 --times 12 [--systems psdvec topics] [--sizes 1 4 16]

A try is a small job (`tests/small_jobs`) with options that the seed draws from the keys of its sections, run on
generated data of each size; `--first N --times 1` repeats the try N. Each run is a process of its own in a control
group (made by root) with the memory that its plan names before it runs: the kernel kills a process that takes more.

A stage is ABOVE if the process took more than its plan says (`Plan.planned_bytes`). Its plan is `wide` if it says more
than 2.5 times of what the process took.
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
from benchmarks.measures import tell, tell_head, tell_row
from distembed.job.keys import Key, keys_of, toml_value
from distembed.job.load import checked_job, load_job
from distembed.job.model import JobError
from distembed.job.plan import plan_job
from tests.commands import environment
from tests.job.test_effects import choices_of

WIDE = 2.5
"""A plan of more than so many times of what is taken is wide."""

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
    name, planned = standing.spec.name, run._plan_of_run(of).planned_bytes(standing.spec.name)
    ran, process = real(standing, of), now("VmHWM")
    # Pages of files, of which the kernel lets a process have as many as it likes, are no part of what a stage takes.
    print(json.dumps([name, planned, process - now("RssFile")]), file=open(log, "a"))
    return ran
run._run_stage = measured
main()
"""

LARGER = {
    "psdvec": (
        "psdvec.n_core=300", "psdvec.n_components=100", "subwords.enabled=true",
        "sides.n_components=100", "sides.n_passes=2",
    ),
    "wordspaces": (
        "wordspaces.n_components=50", "recipes.lpp_eigen.svd_components=60", "vocabulary.max_size=6000",
    ),
    "topics": ("corpus.numbers=true", "report.score_labels=false"),
    "transfer": ("first.numbers=true", "second.numbers=true", "representation.n_components=60"),
    "imputation": (),
    "comparison": (
        "corpus.numbers=true", "psdvec.n_core=300", "psdvec.n_components=50", "resources.block_memory=16MiB",
    ),
}  # fmt: skip
"""Settings of each system under which its arrays outgrow the libraries."""

RECORDS = {"topics": "collection.jsonl", "transfer": "both.jsonl", "comparison": "text.jsonl"}
"""The systems whose data are documents in records, and their files."""

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
    elif system in RECORDS:
        rows = [
            {
                "id": f"d{i}",
                **dict.fromkeys(("kind", "label", "age"), "xy"[i % 2]),
                "text": text,
                "one": text,
                "two": text,
            }
            for i, text in enumerate(texts(n))
        ]
        (folder / RECORDS[system]).write_text("\n".join(map(json.dumps, rows)) + "\n")
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
    job = checked_job(text, name="job.toml", folder=Path(), settings=found)
    for key in keys_of(system):
        table, _, many = key.section.partition(".")
        for section, model in getattr(job, table).items() if many else [(table, getattr(job, table))]:
            values = values_of(key, getattr(model, key.name, None))
            if not values or (table != "resources" and draw.random() < 0.75):
                continue
            place = f"{table}.{section}" if many else table
            setting = f"{place}.{key.name}={toml_value(draw.choice(values))}"
            try:
                checked_job(text, name="job.toml", folder=Path(), settings=[*found, setting])
            except JobError:  # it does not go with the others
                continue
            found.append(setting)
    return found


# --- a run ------------------------------------------------------------------------------------------------------


class Took(NamedTuple):
    """Bytes that the process was planned to take in a stage, and those that it took at its peak."""

    planned: int
    peak: int

    @property
    def verdict(self) -> str:
        """What is wrong with the plan, "" where nothing is."""
        if self.peak > self.planned:
            return "**ABOVE**"
        return "wide" if self.planned > WIDE * self.peak else ""


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
        plan = plan_job(job)
        planned = max(map(plan.planned_bytes, plan.stages)) if is_held else 0
        words = [word for setting in settings for word in ("--set", setting)]
        with control_group(planned) as group:
            command = [sys.executable, "-c", MEASURED, group, str(log), "run", file, *words]
            done = subprocess.run(
                command, cwd=place, env=environment(), capture_output=True, text=True, check=False
            )
        if done.returncode:
            return f"exit {done.returncode}: {(done.stdout + done.stderr)[-400:]}"
        return {name: Took(*numbers) for name, *numbers in map(json.loads, log.read_text().splitlines())}


def main(
    *,
    seed: int = 0,
    times: int = 12,
    first: int = 0,
    systems: tuple[str, ...] = (*LARGER,),
    sizes: tuple[int, ...] = (1, 4, 16),
) -> None:
    tell_head("stage", "size", "planned, MiB", "measured", "")
    wrong: list[tuple[int, float, str]] = []
    for number in range(first, first + times):
        draw, system = random.Random(f"{seed} {number}"), systems[number % len(systems)]
        settings = options(system, draw)
        # The data may refuse options that go with each other; a run that ends has compiled what is compiled.
        while isinstance(ran(system, 0.25, settings, is_held=False), str):
            settings = options(system, draw)
        tell(f"{seed}:{number} {system} {' '.join(settings)}")
        for size in sizes:
            found = ran(system, size, settings)
            if isinstance(found, str):
                tell(found)  # of more data a method may refuse what it took of less
                wrong += [(number, size, "killed")] if found.startswith("exit -") else []
                continue
            for name, took in found.items():
                if took.verdict or size == sizes[-1]:
                    tell_row(f"{system} {name}", size, took.planned >> 20, took.peak >> 20, took.verdict)
                wrong += [(number, size, name)] if "ABOVE" in took.verdict else []
    assert not wrong, f"above their plans, by try, size and stage: {wrong}"
