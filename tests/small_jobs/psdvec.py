"""A small job of PSDVec: made-up words in a few files of text, counted in several blocks."""

from __future__ import annotations

import random
from pathlib import Path

JOB = """
[job]
workspace = "w"
[corpus]
paths = ["text/*.txt"]
numbers = true
[vocabulary]
min_count = 1
[psdvec]
n_components = 4
n_core = 60
n_iter = 2
[evaluation]
sets = ["sets"]
[report]
words = ["word1"]
n_map_words = 10
[resources]
block_memory = "64KiB"
workers = 2
"""
N_WORDS = 200


def write(folder: Path) -> None:
    (folder / "text").mkdir()
    (folder / "sets").mkdir()
    draw = random.Random(0)
    for name in "ab":
        lines = [" ".join(f"word{int(N_WORDS * draw.random() ** 2)}" for _ in range(20)) for _ in range(200)]
        (folder / "text" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    pairs = [f"word{i}\tword{i + 1}\t{i * 3 % 7}" for i in range(20)]
    (folder / "sets" / "pairs.tsv").write_text("\n".join(pairs) + "\n")
    (folder / "job.toml").write_text(JOB)
