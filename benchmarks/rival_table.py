"""Print the scores of several vector files side by side in Markdown, each on the words that all share.

``python -m benchmarks.rival_table SETS NAME=FILE... [--components 1] [--half A]`` leaves unknown words out and
shows known/total. SETS is a folder or a file, or several with commas between them. Similarity and synonyms are scored
without the mean and the first principal components of the whole file (0: with both), analogies with them. ``--half``
takes one half of each set: options are chosen on half A and reported on half B. ``--some`` asks every fourth question
of Google and every second of MSR.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

import distembed as de
from benchmarks.inputs import half_of
from benchmarks.measures import run_main, tell, tell_head, tell_row
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import find_sets

EIGHT = (
    "EN-WS-353-SIM", "EN-WS-353-REL", "EN-MEN-TR-3k", "EN-MTurk-287", "EN-RG-65", "EN-RW-STANFORD", "EN-TOEFL-80",
    "EN-ESL-40",
)  # fmt: skip
SOME = {"google": 4, "msr": 2}
TASKS = ("similarity", "synonym", "analogy", "antonyms")


def row(name, known, values):
    best = max(values)
    tell_row(name, known, *(f"**{100 * v:.1f}**" if v == best else f"{100 * v:.1f}" for v in values))


def scores_of(name, vectors, shared, word_sets, components):
    """Return the scores of a file in the order of the sets."""
    whole = vectors.restricted(shared)
    cleaned = vectors.postprocess(n_components_removed=components).restricted(shared) if components else whole
    return [
        score
        for one in word_sets
        for score in evaluate_sets(
            whole if one.task == "analogy" else cleaned, [one], name=name, needs_known=True
        )
    ]


def main(
    sets: str, *files: str, components: int = 1, half: Literal["A", "B"] | None = None, some: bool = False
) -> None:
    word_sets = find_sets(sets.split(",")).sets
    if half:
        word_sets = [half_of(word_set, development=half == "A") for word_set in word_sets]
    if some:
        word_sets = [one.part(np.arange(len(one.items)) % SOME.get(one.name, 1) == 0) for one in word_sets]
    named = (file.split("=", 1) for file in files)
    candidates = {name: de.WordVectors.load(path) for name, path in named}
    first, *others = candidates.values()
    shared = [word for word in first.words if all(word in other for other in others)]
    scores = {
        name: scores_of(name, vectors, shared, word_sets, components) for name, vectors in candidates.items()
    }
    tell(f"{len(shared):,} words")
    tell_head("x 100", "known/total", *scores)
    values = {}
    for of_metric in zip(*scores.values(), strict=True):
        first = of_metric[0]
        if first.task in TASKS:
            values[first.set] = [score.value for score in of_metric]
            row(f"{first.set}, {first.metric}", f"{first.known}/{first.total}", values[first.set])
    row("mean of the eight", "", np.mean([values[name] for name in EIGHT], axis=0).tolist())


if __name__ == "__main__":
    run_main(main)
