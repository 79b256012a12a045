"""Seconds and peak memory of each stage of a job, run anew once for each number of workers; ratios beside the first.

``python -m tests.benchmarks.stage_times 1,2 JOB [options of distembed run]``, for instance
``... 1,2 jobs/english.toml --set psdvec.n_core=5000 --scheduler processes``. Each run has a workspace of its own, which
is removed at the end.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import distembed as de
from tests.benchmarks.measures import DISTEMBED, run_main


def run(workers: str, job: Path, options: tuple[str, ...], workspace: str) -> dict[str, dict[str, float]]:
    command = [*DISTEMBED, "run", job, "--workers", workers, *options, "--workspace", workspace]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {name: dict(manifest.facts) for name, manifest in de.Workspace.open(workspace).stages().items()}


def main(workers: str, job: Path, *options: str) -> None:
    numbers = workers.split(",")
    with tempfile.TemporaryDirectory() as folder:
        runs = [run(n, job, options, f"{folder}/{n}") for n in numbers]
    print(f"{'stage':<18}" + "".join(f"{n + ' workers':>34}" for n in numbers))
    for stage, first in runs[0].items():
        cells = [
            f"{facts['wall_seconds']:9.2f} s, {facts['peak_process_bytes'] / 2**20:5.0f} MiB"
            f" ({first['wall_seconds'] / max(facts['wall_seconds'], 1e-9):4.2f} x)"
            for facts in (found[stage] for found in runs)
        ]
        print(f"{stage:<18}" + "".join(f"{cell:>34}" for cell in cells))


if __name__ == "__main__":
    run_main(main)
