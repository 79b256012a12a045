"""Labels of neighbors by the frequency of names: Figure 3 of Yao, Yu and Xiao (KDD 2019), and re-imputed rare names.

The figure is of two sets of vectors: of all names (fullMat), and of those seen at least 40 times (partMat) with
the others imputed. Here stands beside them the third, which takes the vectors of all names and a threshold:
known.min_count = 40 replaces those of the rare ones. Each is a job; their leave-one-out accuracy is by the authors'
rule, among the names seen more often than t.

    python -m tests.benchmarks.imputation_frequency DATA        # the folder of the authors' data
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import distembed as de
from distembed.evaluation.imputation import neighbor_label_accuracy
from tests.benchmarks.company_tables import authors_table, frequencies, prices_section
from tests.benchmarks.measures import run_main, tell, tell_head, tell_row

THRESHOLDS = (0, 5, 10, 20, 39, 60, 99)
NEIGHBORS = (2, 5, 10)
SOURCES: dict[str, dict[str, Any]] = {
    "all names (fullMat)": {"path": "fullMat.csv.xz"},
    "names of 40 and more, others imputed (partMat)": {"path": "partMat.csv.xz"},
    "fullMat, known.min_count = 40": {"path": "fullMat.csv.xz", "min_count": 40, "counts_column": "201"},
}
PUBLISHED = dict(zip(SOURCES, ("heat.csv", "result_PQ8_freq.csv"), strict=False))


def job_of(folder: Path, known: dict[str, Any]) -> dict[str, Any]:
    """Return the job of one set of known vectors, with the authors' options."""
    return {
        "job": {"system": "imputation", "workspace": "unused"},
        "domain": {**prices_section(folder), "max_missing": 0.2},
        "known": {**known, "path": str(folder / known["path"]), "drop": ["200", "201"]},
        "imputation": {"min_degree": 8, "weights": "normalise_after", "solver": "power", "tol": 1e-2},
    }


def accuracies(folder: Path, known: dict[str, Any], counts: dict[str, float]) -> dict[int, tuple[int, dict]]:
    """Return, for each t, how many names were seen more often, and the accuracy among them by k."""
    with tempfile.TemporaryDirectory() as place:
        run = de.run_job(job_of(folder, known), workspace=place, until="vectors")
        table, vectors = run.tables["vocabulary"].to_pydict(), np.asarray(run.arrays["vectors"])
    seen = np.array([counts.get(word, -1) for word in table["word"]])
    labels, found = np.array(table["label"], object), {}
    for threshold in THRESHOLDS:
        rows = np.flatnonzero((seen > threshold) & (labels != ""))
        by_k = neighbor_label_accuracy(vectors[rows], labels[rows], n_neighbors=NEIGHBORS, weights="distance")
        found[threshold] = len(rows), by_k
    return found


def main(folder: Path) -> None:
    """Print a table per number of neighbors."""
    counts = frequencies(folder)
    ours = {name: accuracies(folder, known, counts) for name, known in SOURCES.items()}
    heads = [f"> {threshold} ({n})" for threshold, (n, _) in next(iter(ours.values())).items()]
    for k in NEIGHBORS:
        tell()
        tell_head(f"k = {k}", *heads)
        for name, found in ours.items():
            tell_row(name, *(f"{by_k[k]:.3f}" for _, by_k in found.values()))
            if name in PUBLISHED:
                theirs = authors_table(folder, PUBLISHED[name])[str(k)]
                tell_row("the authors'", *(f"{theirs[str(threshold)]:.3f}" for threshold in THRESHOLDS))


if __name__ == "__main__":
    run_main(main)
