"""Print Table 1 of PSDVec's paper, its figures and then ours, in Markdown.

``python -m tests.benchmarks.psdvec_paper SCORES.json...`` reads what ``distembed evaluate ... --json SCORES.json`` has
written, or the ``scores_NAME.json`` of a wordspaces workspace. A column that was not measured is a dash, and a row with
a dash has no mean: the paper's is over eleven columns (for PPMI over nine). ``Google +`` and ``MSR +`` are 3CosAdd,
which the paper does not have.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.benchmarks.measures import run_main, tell_head, tell_row

COLUMNS = {
    "WS": ("EN-WS-353-SIM", ""), "WR": ("EN-WS-353-REL", ""), "MEN": ("EN-MEN-TR-3k", ""),
    "Turk": ("EN-MTurk-287", ""), "SL": ("simlex999", ""), "TFL": ("EN-TOEFL-80", ""), "RG": ("EN-RG-65", ""),
    "Google": ("google", "3CosMul"), "MSR": ("msr", "3CosMul"), "NER": ("", ""), "Chunk": ("", ""),
    "Google +": ("google", "3CosAdd"), "MSR +": ("msr", "3CosAdd"),
}  # fmt: skip
"""The columns of the table, each with the set and the metric that it is; then those that only we have."""
PAPER = {
    "word2vec": (74.1, 54.8, 73.2, 68.0, 37.4, 85.0, 81.1, 72.3, 63.0, 84.8, 94.8),
    "PPMI": (73.5, 67.8, 71.7, 65.9, 30.8, 70.0, 70.8, 52.4, 21.7, None, None),
    "SVD": (69.2, 60.2, 70.7, 49.1, 28.1, 57.5, 71.8, 24.0, 11.3, 81.2, 94.1),
    "GloVe": (75.9, 63.0, 75.6, 64.1, 36.2, 87.5, 77.0, 54.4, 43.5, 84.5, 94.6),
    "Singular": (76.3, 68.4, 74.7, 58.1, 34.5, 78.8, 80.7, 50.8, 39.9, 83.8, 94.8),
    "Sparse": (74.8, 56.5, 74.2, 67.6, 38.4, 88.8, 81.6, 71.6, 61.9, 78.8, 94.9),
    "PSDVec": (79.2, 67.9, 76.4, 67.6, 39.8, 87.5, 83.5, 62.3, 50.7, 84.7, 94.7),
    "PSD-unreg": (78.6, 66.3, 75.3, 67.5, 37.2, 85.0, 79.9, 59.8, 46.8, 84.7, 94.5),
}
"""Table 1: 2.1 billion tokens of the English Wikipedia, 500 dimensions; NER and Chunk of RCV1, 50 dimensions."""
MEAN = {
    "word2vec": 71.7, "PPMI": 58.3, "SVD": 56.1, "GloVe": 68.8, "Singular": 67.3, "Sparse": 71.7, "PSDVec": 72.2,
    "PSD-unreg": 70.5,
}  # fmt: skip


def found_in(file: Path) -> dict[str, list[dict]]:
    """Return the scores of each vector file, or of the one space of a workspace, by name."""
    body = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(body, dict):
        return {file.stem: body}
    return {Path(path).stem: scores for path, scores in body.items()}


def cells(scores: list[dict]) -> dict[str, dict]:
    return {
        column: score
        for column, (name, metric) in COLUMNS.items()
        for score in scores
        if score["set"] == name and metric in score["metric"]
    }


def in_order(values: list[str], mean: str) -> list[str]:
    """Return the columns of the paper, their mean, and the columns that only we have."""
    own = len(COLUMNS) - 2
    return [*values[:own], mean, *values[own:]]


def main(*files: Path) -> None:
    tell_head("x 100", *in_order([*COLUMNS], "Avg."))
    for name, values in PAPER.items():
        shown = ["-" if value is None else f"{value:.1f}" for value in (*values, None, None)]
        tell_row(f"*{name}, the paper*", *in_order(shown, f"{MEAN[name]:.1f}"))
    for file in files:
        for number, (name, scores) in enumerate(found_in(file).items()):
            found = cells(scores)
            known = [f"{s['known']}/{s['total']}" if (s := found.get(column)) else "-" for column in COLUMNS]
            if number == 0:
                tell_row("*known/total*", *in_order(known, "-"))
            shown = [f"{100 * s['value']:.1f}" if (s := found.get(column)) else "-" for column in COLUMNS]
            tell_row(name, *in_order(shown, "-"))


if __name__ == "__main__":
    run_main(main)
