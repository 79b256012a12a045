"""Two small jobs of topics: on a collection with three known classes, and on one of many blocks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

JOB = """
[job]
system = "topics"
workspace = "w"
[corpus]
paths = ["collection.jsonl"]
id_field = "id"
label_field = "kind"
[vocabulary]
min_documents = 2
max_share = 0.9
[topics]
method = "semantic_nmf"
compare_with = ["nmf", "spherical_kmeans", "orthogonal_nmf"]
n_topics = 3
max_iter = 20
n_starts = 3
[coherence]
n_words = 8
[report]
score_labels = true
[resources]
workers = 2
"""
CLASSES = {
    "sea": ["harbour", "captain", "sailor", "anchor", "vessel", "mast", "tide", "reef"],
    "farm": ["tractor", "harvest", "barley", "cattle", "meadow", "plough", "orchard", "barn"],
    "music": ["violin", "concert", "melody", "choir", "organ", "sonata", "tempo", "chord"],
}
N_DOCUMENTS = 60


def long_collection() -> list[dict[str, str | None]]:
    """Return documents of two classes of thirty words each, too many for one block of the smallest size."""
    random = np.random.default_rng(1)
    words = {kind: [f"{kind}{first}{second}" for first in "abcde" for second in "klmnop"] for kind in "xy"}
    return [
        {"id": f"d{number}", "kind": kind, "text": " ".join(random.choice(words[kind], 40))}
        for number, kind in enumerate("xy" * 250)
    ]


def collection() -> list[dict[str, str | None]]:
    """Return documents of three classes, a few words in common, one without a word of any other."""
    random = np.random.default_rng(0)
    names = list(CLASSES)
    documents: list[dict[str, str | None]] = []
    for number in range(N_DOCUMENTS):
        kind = names[number % 3]
        words = [*random.choice(CLASSES[kind], 12), *random.choice(["said", "people", "made"], 2)]
        other = random.choice(CLASSES[names[(number + 1) % 3]], 1)
        text = " ".join(random.permutation([*words, *other]))
        documents.append({"id": f"d{number}", "kind": kind, "text": text})
    documents.append({"id": "unlabeled", "kind": None, "text": documents[0]["text"]})
    documents.append({"id": "alone", "kind": "sea", "text": "xylophagous"})
    return documents


def write_lines(path: Path, documents: list[dict[str, str | None]]) -> None:
    path.write_text("\n".join(json.dumps(document) for document in documents) + "\n")


def write(folder: Path) -> None:
    write_lines(folder / "collection.jsonl", collection())
    (folder / "job.toml").write_text(JOB)


def write_long(folder: Path) -> None:
    """Write a job whose matrices are many blocks, so that every round is many tasks."""
    write_lines(folder / "collection.jsonl", long_collection())
    # two checkpoints of ten rounds
    short = JOB.replace("n_topics = 3", "n_topics = 2").replace("n_starts = 3", "n_starts = 1")
    short = short.replace("max_iter = 20", "max_iter = 11")
    short = short.replace('["nmf", "spherical_kmeans", "orthogonal_nmf"]', '["consensus"]')
    blocks = 'block_memory = "64KiB"\n'
    short = short.replace("score_labels = true", "score_labels = false")
    (folder / "job.toml").write_text(
        short.replace("label_field", 'partition_bytes = "40KiB"\nlabel_field') + blocks
    )
