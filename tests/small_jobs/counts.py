"""A small job of PSDVec that starts from counts: a table of GloVe, in an order of its own, read in several pieces."""

from __future__ import annotations

import random
import struct
from pathlib import Path

JOB = """
[job]
workspace = "w"
[counts]
path = "cooccurrence.bin"
[vocabulary]
min_count = 1
[psdvec]
n_components = 4
n_core = 60
n_iter = 2
[report]
words = ["word1"]
n_map_words = 10
[resources]
block_memory = "64KiB"
workers = 2
"""
N_WORDS = 200


def write(folder: Path) -> None:
    draw = random.Random(0)
    pairs = {
        (int(N_WORDS * draw.random() ** 2), int(N_WORDS * draw.random() ** 2)): draw.randint(1, 40) / 4
        for _ in range(12_000)
    }
    records = [struct.pack("<iid", row + 1, column + 1, count) for (row, column), count in pairs.items()]
    draw.shuffle(records)
    (folder / "cooccurrence.bin").write_bytes(b"".join(records))
    lines = [f"word{i} {1000 - 4 * i}" for i in range(N_WORDS)]
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n")
    (folder / "job.toml").write_text(JOB)
