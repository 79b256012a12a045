"""Print the scores of several vector files side by side, as they are and without their first component, in Markdown.

``python -m tests.benchmarks.rival_table SETS NAME=FILE... [--half A]`` scores the files on the words they all share:
unknown words are left out, and known/total is shown. SETS is a folder or a file, or several with commas between them.
A column "NAME, PC" has the mean and the first principal component of the whole file removed. ``--half`` takes one half
of each set: options are chosen on half A and reported on half B.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

import distembed as de
from distembed.evaluation.words import common_words, score_known
from distembed.evaluation.wordsets import find_word_sets, half_of
from tests.benchmarks.measures import run_main, tell_head, tell_row

EIGHT = (
    "EN-WS-353-SIM", "EN-WS-353-REL", "EN-MEN-TR-3k", "EN-MTurk-287", "EN-RG-65", "EN-RW-STANFORD", "EN-TOEFL-80",
    "EN-ESL-40",
)  # fmt: skip
SIX = EIGHT[:6]
TASKS = ("similarity", "synonym", "analogy", "antonyms")


def columns(files):
    """Return the candidates by name, each as it is and without its first component."""
    found = {}
    for name, file in files:
        vectors = de.WordVectors.load(file)
        found |= {name: vectors, f"{name}, PC": vectors.postprocess(n_components_removed=1)}
    return found


def row(name, known, values):
    best = max(values)
    tell_row(name, known, *(f"**{100 * v:.1f}**" if v == best else f"{100 * v:.1f}" for v in values))


def scores_of(candidates, sets, half):
    word_sets = find_word_sets(sets.split(","))
    if half:
        word_sets = [half_of(word_set, development=half == "A") for word_set in word_sets]
    shared = common_words(list(candidates.values()))
    return {
        name: score_known(vectors.restricted(shared), word_sets, name=name)
        for name, vectors in candidates.items()
    }


def main(sets: str, *files: str, half: Literal["A", "B"] | None = None) -> None:
    scores = scores_of(columns(file.split("=", 1) for file in files), sets, half)
    tell_head("x 100", "known/total", *scores)
    values = {}
    for of_metric in zip(*scores.values(), strict=True):
        first = of_metric[0]
        if first.task in TASKS:
            values[first.set] = [score.value for score in of_metric]
            row(f"{first.set}, {first.metric}", f"{first.known}/{first.total}", values[first.set])
    for title, names in (("mean of the eight", EIGHT), ("mean of the six of similarity", SIX)):
        row(title, "", np.mean([values[name] for name in names], axis=0).tolist())


if __name__ == "__main__":
    run_main(main)
