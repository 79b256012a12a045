"""A small corpus of JSON lines that grows and shrinks, and the job that counts it."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from distembed.job.opening import open_job
from distembed.job.progress import Reporter
from distembed.job.run import Outcome, run_stages
from distembed.storage.workspace import Workspace

JOB = """
[job]
title = "a growing corpus"
workspace = "w"
[corpus]
paths = ["text"]
numbers = true
id_field = "id"
title_field = "title"
[vocabulary]
min_count = 3
[counting]
window = 3
{counting}
[psdvec]
n_components = 4
n_iter = 1
first_passes = 4
[evaluation]
sets = []
[report]
words = ["w1"]
n_map_words = 10
[resources]
workers = 1
"""
LAST = "cooccurrence"
Files = Mapping[str, Sequence[str]]
"""The texts of the documents of each file."""


def texts(seed: int, n: int = 12) -> list[str]:
    """Return documents of Zipfian words, of which each seed has some of its own."""
    drawn = random.Random(seed)
    words = [f"w{i}" for i in range(30)] + [f"own{seed}x{i}" for i in range(4)]
    weights = [1 / (1 + i) for i in range(30)] + [0.1] * 4
    return [" ".join(drawn.choices(words, weights, k=drawn.randint(5, 40))) for _ in range(n)]


def write_file(folder: Path, name: str, documents: Sequence[str]) -> None:
    """Write a file of documents whose ids follow from its name."""
    stem = name.split(".", maxsplit=1)[0]
    lines = (
        json.dumps({"id": f"{stem}-{number}", "title": f"Title of {stem} {number}", "text": text})
        for number, text in enumerate(documents)
        if text
    )
    (folder / "text").mkdir(parents=True, exist_ok=True)
    (folder / "text" / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_job(folder: Path, files: Files, *, counting: str = 'direction = "left"') -> None:
    """Write a job with the files that it reads."""
    for name, documents in files.items():
        write_file(folder, name, documents)
    (folder / "job.toml").write_text(JOB.format(counting=counting), encoding="utf-8")


def count(
    folder: Path,
    workspace: str = "w",
    *,
    until: str | None = LAST,
    reporter: Reporter | None = None,
    settings: tuple[str, ...] = (),
) -> Outcome:
    """Run the job of a folder, by default until its pairs are counted."""
    job = open_job(str(folder / "job.toml"), settings=settings, workspace=str(folder / workspace))
    return run_stages(job, until=until, reporter=reporter, replace=True)


def digests(place: Path | str) -> dict[str, str]:
    """Return the digest of each stage of a workspace."""
    workspace = Workspace.open(place)
    return {name: workspace.digest([name]) for name in workspace.stages()}


def from_scratch(folder: Path, *, until: str | None = LAST) -> dict[str, str]:
    """Return the digests of a run on the files as they are now, in a new workspace."""
    name = f"scratch-{len(list(folder.glob('scratch-*')))}"
    count(folder, name, until=until)
    return digests(folder / name)


def holders(folder: Path, word: str) -> set[str]:
    """Return the files below a folder that hold a word: in their bytes, or in a column of a table."""

    def holds(file: Path) -> bool:
        table = str(pq.read_table(file).to_pylist()) if file.suffix == ".parquet" else ""
        return word.encode() in file.read_bytes() or word in table

    return {one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file() and holds(one)}
