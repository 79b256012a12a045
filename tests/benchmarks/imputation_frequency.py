"""Labels of neighbors by the frequency of names: Figure 3 of Yao, Yu and Xiao (KDD 2019), and re-imputed rare names.

The figure is of two sets of vectors: of all names (fullMat), and of those seen at least 40 times (partMat) with
the others imputed. Here stands beside them the third, which takes the vectors of all names and a threshold:
known.min_count = 40 replaces those of the rare ones. Each is a job; their leave-one-out accuracy is by the authors'
rule, among the names seen more often than t.

    python -m tests.benchmarks.imputation_frequency DATA        # the folder of the authors' data
"""

from __future__ import annotations

import argparse
import csv
import lzma
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import distembed as de
from distembed.evaluation.imputation import neighbor_label_accuracy

THRESHOLDS = (0, 5, 10, 20, 39, 60, 99)
NEIGHBORS = (2, 5, 10)
SOURCES: dict[str, dict[str, Any]] = {
    "all names (fullMat)": {"path": "fullMat.csv.xz"},
    "names of 40 and more, others imputed (partMat)": {"path": "partMat.csv.xz"},
    "fullMat, known.min_count = 40": {
        "path": "fullMat.csv.xz",
        "min_count": 40,
        "counts_column": "201",
    },
}
PUBLISHED = {
    "all names (fullMat)": "heat.csv",
    "names of 40 and more, others imputed (partMat)": "result_PQ8_freq.csv",
}


def frequencies(folder: Path) -> dict[str, int]:
    """Return how often each name was seen, by its spelling in the vectors."""
    with lzma.open(folder / "fullMat.csv.xz", "rt", encoding="utf-8") as file:
        return {row[0]: int(float(row[-1])) for row in list(csv.reader(file))[1:]}


def job_of(folder: Path, known: dict[str, Any]) -> dict[str, Any]:
    """Return the job of one set of known vectors, with the authors' options."""
    return {
        "job": {"system": "imputation", "workspace": "unused"},
        "domain": {
            "path": str(folder / "sp500_close_2015_2018.csv.xz"),
            "transform": "return_correlation",
            "max_missing": 0.2,
            "first": "2016-08-24",
            "last": "2018-08-27",
            "names": str(folder / "sp500_token.csv"),
            "names_from": "Symbol",
            "names_to": "nGram",
            "names_label": "Sector",
        },
        "known": {**known, "path": str(folder / known["path"]), "drop": ["200", "201"]},
        "imputation": {"min_degree": 8, "weights": "normalise_after", "solver": "power", "tol": 1e-2},
    }


def accuracies(folder: Path, known: dict[str, Any], counts: dict[str, int]) -> dict[tuple[int, int], float]:
    """Return the accuracy among names seen more often than t, by t and k."""
    with tempfile.TemporaryDirectory() as place:
        run = de.run_job(job_of(folder, known), workspace=place, until="vectors")
        table, vectors = run.tables["vocabulary"].to_pydict(), np.asarray(run.arrays["vectors"])
        seen = np.array([counts.get(word, -1) for word in table["word"]])
        found = {}
        for threshold in THRESHOLDS:
            rows = np.flatnonzero((seen > threshold) & (np.array(table["label"], object) != ""))
            labels = [table["label"][row] for row in rows]
            by_k = neighbor_label_accuracy(vectors[rows], labels, n_neighbors=NEIGHBORS, weights="distance")
            found |= {(threshold, k): value for k, value in by_k.items()}
            found[threshold, 0] = len(rows)
    return found


def published(file: Path) -> dict[tuple[int, int], float]:
    """Return the authors' accuracies by t and k."""
    with file.open(encoding="utf-8") as text:
        head, *rows = list(csv.reader(text))
    table = {(int(t), int(row[0])): float(v) for row in rows for t, v in zip(head[1:], row[1:], strict=True)}
    return {(t, k): table[t, k] for t in THRESHOLDS for k in NEIGHBORS}


def main() -> None:
    """Print a table per number of neighbors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    counts = frequencies(folder)
    ours = {name: accuracies(folder, known, counts) for name, known in SOURCES.items()}
    n_names = [int(next(iter(ours.values()))[t, 0]) for t in THRESHOLDS]
    for k in NEIGHBORS:
        print(
            f"\n| k = {k} | "
            + " | ".join(f"> {t} ({n})" for t, n in zip(THRESHOLDS, n_names, strict=True))
            + " |"
        )
        print("|---" * (len(THRESHOLDS) + 1) + "|")
        for name, found in ours.items():
            print(f"| {name} | " + " | ".join(f"{found[t, k]:.3f}" for t in THRESHOLDS) + " |")
            if name in PUBLISHED:
                theirs = published(folder / "visual_results" / PUBLISHED[name])
                print("| the authors' | " + " | ".join(f"{theirs[t, k]:.3f}" for t in THRESHOLDS) + " |")


if __name__ == "__main__":
    main()
