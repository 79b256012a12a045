"""A small job of a comparison: made-up words in two parts, in one of which two words have changed places."""

from __future__ import annotations

import json
import random
from pathlib import Path

JOB = """
[job]
system = "comparison"
workspace = "w"
[corpus]
paths = ["text.jsonl"]
id_field = "id"
label_field = "age"
partition_bytes = "16KiB"
[vocabulary]
min_count = 1
[counting]
window = 3
[psdvec]
n_components = 4
n_iter = 2
[comparison]
min_count = 30
groups = 8
halves = 3
bootstrap = 10
[report]
n_changed = 3
[resources]
block_memory = "64KiB"
workers = 2
"""
AGES, TOPICS, N_DOCUMENTS = ("new", "old"), "pqrs", 160
SWAPPED = {"pa": "ra", "ra": "pa"}
"""Words of two topics that stand for each other in the new part."""


def documents(n: int = N_DOCUMENTS) -> list[dict[str, str | None]]:
    """Return documents of two ages, each of one topic; the last one has no age."""
    draw, made = random.Random(0), []
    for number in range(n):
        topic, age = TOPICS[number // 2 % len(TOPICS)], AGES[number % 2]
        words = [f"{topic}{chr(97 + int(12 * draw.random() ** 2))}" for _ in range(40)]
        words += [f"x{chr(97 + int(6 * draw.random()))}" for _ in range(10)]
        draw.shuffle(words)
        words = [SWAPPED.get(word, word) for word in words] if age == "new" else words
        made.append({"id": f"d{number}", "age": age, "text": " ".join(words)})
    return [*made, {"id": "ageless", "age": None, "text": "pa pb xa"}]


def write(folder: Path) -> None:
    lines = [json.dumps(document) for document in documents()]
    (folder / "text.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "job.toml").write_text(JOB)
