"""A small job of topic transfer, on two made-up languages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

JOB = """
[job]
system = "transfer"
workspace = "w"
[collections.first]
paths = ["both.jsonl"]
text_field = "one"
label_field = "label"
[collections.second]
paths = ["both.jsonl"]
text_field = "two"
[representation]
n_components = 12
[topics]
n_topics = 4
n_iter = 30
[pairs]
share = 0.15
[alignment]
n_components = 4
n_neighbors = 6
[evaluation]
shares = [0.3]
n_seeds = 2
[report]
n_map_words = 40
[resources]
workers = 2
block_memory = "256KiB"
"""
N_DOCUMENTS, N_TOPICS, N_WORDS = 120, 4, 160


def word(number: int, language: str) -> str:
    return language + "".join(chr(ord("a") + int(digit)) for digit in str(number))


SHUFFLED = np.random.default_rng(2).permutation(N_WORDS)
"""What each word of the first language is in the second."""


def records() -> list[dict[str, str]]:
    """Return documents of four topics, said in two languages of other words, in another order and number."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(N_WORDS, 0.05), N_TOPICS)
    found = []
    for row in range(N_DOCUMENTS):
        words = rng.choice(N_WORDS, 80, p=rng.dirichlet(np.full(N_TOPICS, 0.3)) @ topics)
        kept = rng.permutation(words)[:70]
        found.append(
            {
                "id": f"doc {row}",
                "label": "even" if row % 2 == 0 else "odd",
                "one": " ".join(word(w, "e") for w in words),
                "two": " ".join(word(SHUFFLED[w], "g") for w in kept),
            }
        )
    return found


def write(folder: Path) -> None:
    (folder / "both.jsonl").write_text("\n".join(map(json.dumps, records())) + "\n")
    (folder / "job.toml").write_text(JOB)


def write_three(folder: Path) -> None:
    """Write the job with a third collection of 90 of the documents, in other words, in another order."""
    write(folder)
    third = [records()[row] for row in np.random.default_rng(7).permutation(N_DOCUMENTS)[:90]]
    lines = [{"id": one["id"], "text": re.sub(r"\be", "f", one["one"][10:])} for one in third]
    (folder / "third.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (folder / "job.toml").write_text(JOB + "[collections.third]\npaths = ['third.jsonl']\n")
