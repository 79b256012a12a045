"""A tiny job with its inputs, which runs in a second, for the tests of what a run keeps and what it computes again."""

from __future__ import annotations

import random
from pathlib import Path

from distembed.job.opening import open_job
from distembed.job.run import Outcome, run_stages

STAGES = ("tokens", "vocabulary", "documents", "cooccurrence", "core", "vectors", "evaluation")
"""Those before the report."""
TINY_JOB = """
[job]
title = "a tiny job"
workspace = "w"
[corpus]
paths = ["text/*.txt"]
numbers = true
[vocabulary]
min_count = 1
[psdvec]
n_components = 4
n_iter = 1
first_passes = 4
[evaluation]
sets = ["sets"]
[report]
words = ["word1"]
n_map_words = 10
[resources]
workers = 1
"""


def write_set(folder: Path, name: str, score: int) -> None:
    lines = [f"word{i}\tword{i + 1}\t{(i * score) % 7}" for i in range(20)]
    (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_tiny_job(folder: Path) -> None:
    """Write the job and its inputs into a folder, and run it there."""
    (folder / "text").mkdir()
    (folder / "sets").mkdir()
    words = random.Random(0).choices([f"word{i}" for i in range(40)], k=4000)
    text = "\n".join(" ".join(words[i : i + 20]) for i in range(0, len(words), 20))
    (folder / "text" / "a.txt").write_text(text + "\n", encoding="utf-8")
    write_set(folder / "sets", "first", 3)
    (folder / "job.toml").write_text(TINY_JOB, encoding="utf-8")
    run_stages(open_job(str(folder / "job.toml")))


def again(folder: Path, *settings: str, **options: bool) -> Outcome:
    return run_stages(open_job(str(folder / "job.toml"), settings=settings), **options)  # type: ignore[arg-type]


def computed(folder: Path, *settings: str) -> Outcome:
    """Run the stages of the job of a folder again, and draw no report."""
    return run_stages(open_job(str(folder / "job.toml"), settings=settings), until=STAGES[-1])


def files_of(workspace: Path) -> dict[str, int]:
    """Return the time of every file below a workspace, which a write changes."""
    return {str(p): p.stat().st_mtime_ns for p in workspace.rglob("*") if p.is_file()}
