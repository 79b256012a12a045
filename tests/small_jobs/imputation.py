"""A small job of imputation: sixty names, whose vectors are a smooth map of a table; twenty are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import distembed as de

JOB = """
[job]
system = "imputation"
workspace = "w"
[domain]
path = "domain.csv"
label_column = "kind"
[known]
path = "known.txt"
[imputation]
min_degree = 4
[evaluation]
n_folds = 2
[resources]
workers = 2
"""
N_NAMES, N_KNOWN = 60, 20


def write(folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_NAMES, 3))
    Y = np.tanh(X @ rng.standard_normal((3, 5))).astype(np.float32)
    lines = [f"name {i},{'even' if i % 2 == 0 else 'odd'}," + ",".join(map(str, x)) for i, x in enumerate(X)]
    (folder / "domain.csv").write_text("name,kind,a,b,c\n" + "\n".join(lines) + "\n")
    words = [f"name_{i}" for i in range(N_KNOWN)] + ["elsewhere"]
    de.WordVectors(words, Y[: N_KNOWN + 1]).save(folder / "known.txt")
    (folder / "job.toml").write_text(JOB)
