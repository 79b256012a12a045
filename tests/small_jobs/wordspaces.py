"""A small job of word spaces: documents with a topic each, and sets that ask for the topics."""

from __future__ import annotations

from pathlib import Path

import numpy as np

JOB = """
[job]
system = "wordspaces"
workspace = "w"
[corpus]
paths = ["corpus.txt"]
numbers = true
partition_bytes = "8KiB"
[vocabulary]
min_count = 4
[wordspaces]
n_components = 4
vectors = "lsa"
[recipes.vsm]
of = "documents"
method = "counts"
[recipes.log_entropy]
of = "documents"
method = "log_entropy"
[recipes.lsa]
title = "LSA"
of = "log_entropy"
method = "lsa"
[recipes.lsa_without_first]
of = "log_entropy"
method = "lsa"
n_dropped = 1
n_components = 3
[recipes.lpp]
of = "vsm"
method = "lpp"
n_neighbors = 6
[recipes.lpp_binary]
of = "log_entropy"
method = "lpp"
graph_of = "vsm"
affinity = "binary"
n_neighbors = 6
unit_rows = true
[recipes.lpp_constant]
of = "vsm"
method = "lpp"
n_neighbors = 6
constant_column = true
[recipes.lpp_eigen]
of = "log_entropy"
method = "lpp"
solver = "eigen"
svd_components = 12
threshold = 0.15
[recipes.maps]
of = "vsm"
method = "eigenmaps"
n_neighbors = 6
[recipes.wc]
of = "contexts"
method = "ppmi"
n_columns = 30
[recipes.both_sides]
of = "hal"
method = "counts"
n_columns = 40
[evaluation]
sets = ["sets"]
dimensions = [1, 3]
[report]
words = ["a0", "b1"]
n_neighbors = 3
[resources]
block_memory = "128KiB"
workers = 2
"""
TOPICS, WORDS_OF_TOPIC, N_DOCUMENTS = "abcd", 12, 160


def write(folder: Path) -> None:
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, WORDS_OF_TOPIC + 1)
    lines = []
    for document in range(N_DOCUMENTS):
        topic = TOPICS[document % len(TOPICS)]
        own = rng.choice(WORDS_OF_TOPIC, 30, p=share / share.sum())
        words = [f"{topic}{word}" for word in own] + [f"x{word}" for word in rng.choice(8, 10)]
        lines.append(" ".join(rng.permutation(words)))
    lines[0] += " seldom"
    (folder / "corpus.txt").write_text("\n".join(lines) + "\n")
    sets = folder / "sets"
    sets.mkdir(exist_ok=True)
    (sets / "similar.txt").write_text("a0 a1 5\na0 b1 1\nb0 b2 4\nc0 d0 2\nd1 d2 5\na0 nowhere 3\n")
    (sets / "choice.txt").write_text("a0 | a1 | b1 | c1\nseldom | a2 | b0\n")
    (sets / "opposites.tsv").write_text("word\tantonym\na0\tb0\nc1\td1\n")
    rows = [f",{topic},{topic}{i}\n" for topic in TOPICS for i in range(3)]
    (sets / "categories.csv").write_text(",category,word\n" + "".join(rows))
    (folder / "job.toml").write_text(JOB)
