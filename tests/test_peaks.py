"""The peak memory of each stage of each system at three sizes, each run a process of its own, against its plan."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import distembed as de
from tests.commands import environment

SIZES = (2, 8, 32)
WIDE = 3
"""A plan of more than so many times of what is taken is wide; of that of a small stage most is for the libraries."""

MEASURED = """
import json, sys
log = sys.argv.pop(1)
from distembed.cli.main import main
from distembed.job import run
real = run._run_stage
def now(name):
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
def measured(of, name):
    open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
    ran, process = real(of, name), now("VmHWM")
    planned = of.workspace.stages()[name].facts["planned_process_bytes"]
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
    "transfer": (
        "collections.first.numbers=true", "collections.second.numbers=true", "representation.n_components=60",
    ),
    "imputation": (),
    "comparison": (
        "corpus.numbers=true", "psdvec.n_core=300", "psdvec.n_components=50", "resources.block_memory=16MiB",
    ),
}  # fmt: skip
"""Settings of each system under which its arrays outgrow the libraries."""

RECORDS = {"topics": "collection.jsonl", "transfer": "both.jsonl", "comparison": "text.jsonl"}
"""The systems whose data are documents in records, and their files."""


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
        labels = [dict.fromkeys(("kind", "label", "age"), label) for label in "xy"]
        rows = [
            {"id": f"d{i}", **labels[i % 2], **dict.fromkeys(("text", "one", "two"), text)}
            for i, text in enumerate(texts(n))
        ]
        (folder / RECORDS[system]).write_text("\n".join(map(json.dumps, rows)) + "\n")
    else:
        lines = [",".join(["name", "kind", *(f"c{i}" for i in range(50))])]
        lines += [f"name {i},{'xy'[i % 2]}," + ",".join(map(str, draw.random(50))) for i in range(2 * n)]
        (folder / "domain.csv").write_text("\n".join(lines) + "\n")
        names = [f"name_{i}" for i in range(n)]
        de.WordVectors(names, draw.standard_normal((n, 200), np.float32)).save(folder / "known.txt")


def ran(system: str, size: float, settings: Sequence[str], place: Path) -> dict[str, tuple[int, int]]:
    """Run a job in a new folder and return, in MiB, what each stage was planned to take and what it took."""
    place.mkdir()
    write(system, place, size)
    file, log = str(place / "job.toml"), place / "stages"
    words = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-c", MEASURED, str(log), "run", file, *words]
    done = subprocess.run(command, cwd=place, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-400:]
    stages = map(json.loads, log.read_text().splitlines())
    return {name: (planned >> 20, peak >> 20) for name, planned, peak in stages}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read from Linux's /proc")
@pytest.mark.parametrize("system", LARGER)
def test_no_stage_takes_more_than_its_plan_and_the_largest_half_of_it(system: str, tmp_path: Path) -> None:
    settings = ["resources.memory_limit=64GiB", "resources.block_memory=4MiB", *LARGER[system]]
    ran(system, 0.25, settings, tmp_path / "first")  # which compiles what is compiled
    for size in SIZES:
        stages = ran(system, size, settings, tmp_path / f"{size}")
        assert {name: took for name, took in stages.items() if took[1] > took[0]} == {}, size
    assert {name: took for name, took in stages.items() if took[0] > WIDE * took[1]} == {}
