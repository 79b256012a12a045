"""Measure how much of the difference between two vector files on similarity and synonym sets is chance.

``python -m tests.benchmarks.paired_difference A B FOLDER SET...`` scores both on the words they share and on the same
items, and draws the items of each set 10,000 times with replacement: printed are both scores, their difference with
its 95 % interval, and the same of the mean over the sets (its interval: sets drawn independently, never left out).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import distembed as de
from distembed.evaluation import blocks
from distembed.evaluation.scoring import Policy, known_cosines, row_table, word_rows
from distembed.evaluation.words import choice_credit, common_words
from distembed.evaluation.wordsets import SimilaritySet, find_word_sets

N_DRAWS = 10_000
DRAWS_AT_ONCE = 100  # of 3,000 pairs: ranks of a few megabytes


def items_of(vectors, word_set):
    """Return the items of which the vectors know all words: cosine and human score, or credit for the choice."""
    if isinstance(word_set, SimilaritySet):
        rows = row_table(vectors, word_set.pairs, Policy())
        known = (rows >= 0).all(axis=1)
        return np.stack([known_cosines(vectors, rows[known]), word_set.scores[known]])
    questions = zip(word_set.questions, word_set.options, strict=True)
    credit = [
        choice_credit(vectors, word_rows(vectors, [word, *options], Policy())) for word, options in questions
    ]
    return np.array([one for one in credit if one >= 0])[None]


def statistic(items, draws):
    """Return the score of each draw (times, n) of items: Spearman's correlation, or the mean credit."""
    drawn = items[:, draws]
    return blocks.spearman(drawn[0], drawn[1]) if len(items) == 2 else drawn[0].mean(axis=1)


def line(name, first, second, differences):
    low, high = np.percentile(differences, [2.5, 97.5])
    print(
        f"{name:<18}{100 * first:6.1f}{100 * second:6.1f}{100 * (first - second):+7.1f}  "
        f"[{100 * low:+.1f}, {100 * high:+.1f}]",
        flush=True,
    )


def main(first_file: str, second_file: str, folder: str, *names: str) -> None:
    loaded = [de.WordVectors.load(file) for file in (first_file, second_file)]
    shared = common_words(loaded)
    both = [vectors.restricted(shared) for vectors in loaded]
    files = {word_set.name: word_set for word_set in find_word_sets(Path(folder))}
    totals, of_mean = [], np.zeros(N_DRAWS)
    for number, name in enumerate(names):
        items = [items_of(vectors, files[name]) for vectors in both]
        n = items[0].shape[1]
        generator = np.random.default_rng([0, number])
        differences = np.concatenate(
            [
                statistic(items[0], draws) - statistic(items[1], draws)
                for draws in (
                    generator.integers(n, size=(DRAWS_AT_ONCE, n)) for _ in range(N_DRAWS // DRAWS_AT_ONCE)
                )
            ]
        )
        totals.append([float(statistic(one, np.arange(n)[None])[0]) for one in items])
        of_mean += differences / len(names)
        line(f"{name} {n}", *totals[-1], differences)
    line("mean", *np.mean(totals, axis=0), of_mean)


if __name__ == "__main__":
    main(*sys.argv[1:])
