"""Print Table 1 of PSDVec's paper, its figures and then ours, in Markdown.

``python -m benchmarks.psdvec_paper SCORES.json...`` reads what ``distembed evaluate ... --to SCORES.json`` has
written, and ``benchmarks.tagging ... --to SCORES.json`` of the same vectors, or the ``scores_NAME.json`` of a
wordspaces workspace. A column that was not measured is a dash. ``Nine`` is the mean without NER and chunks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measures import run_main, tell_head, tell_row

COLUMNS = {
    "WS": ("EN-WS-353-SIM", "spearman"), "WR": ("EN-WS-353-REL", "spearman"), "MEN": ("EN-MEN-TR-3k", "spearman"),
    "Turk": ("EN-MTurk-287", "spearman"), "SL": ("simlex999", "spearman"), "TFL": ("EN-TOEFL-80", "accuracy"),
    "RG": ("EN-RG-65", "spearman"), "Google": ("google", "3CosMul"), "MSR": ("msr", "3CosMul"),
    "NER": ("conll2003", "span F1"), "Chunk": ("conll2000", "span F1"),
}  # fmt: skip
"""The columns of the table, each with the set and the metric that it is."""
PAPER = {
    "word2vec": (74.1, 54.8, 73.2, 68.0, 37.4, 85.0, 81.1, 72.3, 63.0, 84.8, 94.8),
    "PPMI": (73.5, 67.8, 71.7, 65.9, 30.8, 70.0, 70.8, 52.4, 21.7, None, None),
    "SVD": (69.2, 60.2, 70.7, 49.1, 28.1, 57.5, 71.8, 24.0, 11.3, 81.2, 94.1),
    "GloVe": (75.9, 63.0, 75.6, 64.1, 36.2, 87.5, 77.0, 54.4, 43.5, 84.5, 94.6),
    "Singular": (76.3, 68.4, 74.7, 58.1, 34.5, 78.8, 80.7, 50.8, 39.9, 83.8, 94.8),
    "PSDVec": (79.2, 67.9, 76.4, 67.6, 39.8, 87.5, 83.5, 62.3, 50.7, 84.7, 94.7),
    "PSD-unreg": (78.6, 66.3, 75.3, 67.5, 37.2, 85.0, 79.9, 59.8, 46.8, 84.7, 94.5),
}
"""Table 1: 2.1 billion tokens of the English Wikipedia, 500 dimensions; NER and Chunk of RCV1, 50 dimensions."""


def found_in(files: tuple[Path, ...]) -> dict[str, list[dict]]:
    """Return the scores of each vector file, or of the one space of a workspace, by name."""
    found: dict[str, list[dict]] = {}
    for file in files:
        body = json.loads(file.read_text(encoding="utf-8"))
        for score in body["tables"]["scores"] if isinstance(body, dict) else body:
            found.setdefault(Path(score.get("vectors", file)).stem, []).append(score)
    return found


def cells(scores: list[dict]) -> dict[str, dict]:
    return {
        column: score
        for column, wanted in COLUMNS.items()
        for score in scores
        if (score["set"], score["metric"]) == wanted
    }


def tell_values(name: str, values: Sequence[float | None]) -> None:
    """Print a row: the columns, and the mean of nine."""
    nine = [value for value in values[:9] if value is not None]
    mean = sum(nine) / 9 if len(nine) == 9 else None
    tell_row(name, *("-" if value is None else f"{value:.1f}" for value in (*values, mean)))


def main(*files: Path) -> None:
    tell_head("x 100", *COLUMNS, "Nine")
    for name, values in PAPER.items():
        tell_values(f"*{name}, the paper*", values)
    for number, (name, scores) in enumerate(found_in(files).items()):
        found = cells(scores)
        if number == 0:
            known = [f"{s['known']}/{s['total']}" if (s := found.get(column)) else "-" for column in COLUMNS]
            tell_row("*known/total*", *known, "-")
        tell_values(name, [100 * found[column]["value"] if column in found else None for column in COLUMNS])


if __name__ == "__main__":
    run_main(main)
