"""Composed vectors beside the words' own: words are hidden from the subword map, which then composes them.

``python -m tests.benchmarks.subwords_held_out VECTORS...`` takes vector files, of any language, ordered by falling
frequency. Of each, every tenth word is hidden, the map learns from the others, and the composed vector of a hidden
word is compared with the vectors of all words. Printed as Markdown: the median rank of its own vector among them, over
all hidden words and over the frequent and the rare half, how often it is among the ten nearest, and the variance of
the hidden vectors that is explained; and the same for a map that learned from vectors in random order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.preprocessing import normalize

import distembed as de
from tests.benchmarks.measures import run_main, tell_head, tell_row

TENTH = 10
OPTIONS = {"default": {}, "3 to 8": {"max_n": 8}, "lambda 0.025": {"regularization": 0.025}}


def ranks(composed: np.ndarray, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the place of each row's own vector among all, by the cosine with what was composed."""
    cosines = normalize(composed) @ normalize(vectors).T
    own = cosines[np.arange(len(rows)), rows]
    return (cosines > own[:, None]).sum(axis=1) + 1


def measured(words: Sequence[str], vectors: np.ndarray, options: dict, *, shuffled: bool) -> list[str]:
    n = len(words)
    hidden = np.arange(TENTH - 1, n, TENTH)
    kept = np.setdiff1d(np.arange(n), hidden)
    order = np.random.default_rng(0).permutation(kept) if shuffled else kept
    learned = de.SubwordMap(**options, validation_fraction=0).fit([words[i] for i in kept], vectors[order])
    composed = learned.transform([words[i] for i in hidden]) - learned.mean_
    centered = vectors - learned.mean_
    place = ranks(composed, centered, hidden)
    explained = 1 - ((centered[hidden] - composed) ** 2).sum() / (centered[hidden] ** 2).sum()
    half = len(hidden) // 2
    medians = [f"{np.median(part):.0f}" for part in (place, place[:half], place[half:])]
    return [*medians, f"{np.mean(place <= TENTH):.1%}", f"{explained:.1%}"]


def main(*files: str) -> None:
    heads = "median rank", "frequent half", "rare half", "among ten", "explained"
    tell_head("vectors", "words; hidden", "map", *heads)
    for file in files:
        loaded = de.WordVectors.load(file)
        vectors, n = np.asarray(loaded.vectors, np.float32), len(loaded)
        trials = [(name, options, False) for name, options in OPTIONS.items()] + [("shuffled", {}, True)]
        for name, options, shuffled in trials:
            cells = measured(loaded.words, vectors, options, shuffled=shuffled)
            tell_row(file, f"{n}; {n // TENTH}", name, *cells)


if __name__ == "__main__":
    run_main(main)
