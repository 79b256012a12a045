"""Measure how much of the difference between two vector files on similarity and synonym sets is chance.

``python -m tests.benchmarks.paired_difference A B SETS SET... [--components 1]`` scores both on the words they share
and on the same items, and draws the items of each set 10,000 times with replacement: printed are both scores, their
difference with its 95 % interval, and the same of the mean over the sets (its interval: sets drawn independently,
never left out). SETS is a folder or a file, or several with commas between them; a SET is the name of one of them.
``--components N`` removes the mean and the first N principal components of each file first. ``--compose`` scores all
items, the words that a file lacks composed from its n-grams where it has a table of them, else with similarity 0.
"""

from __future__ import annotations

import numpy as np

import distembed as de
from distembed.evaluation import blocks
from distembed.evaluation.scoring import Policy, known_cosines, row_table, word_rows
from distembed.evaluation.words import choice_credit, common_words
from distembed.evaluation.wordsets import SimilaritySet, find_word_sets, words_of
from tests.benchmarks.measures import run_main, tell

N_DRAWS = 10_000
DRAWS_AT_ONCE = 100  # of 3,000 pairs: ranks of a few megabytes


def composed(vectors, word_set):
    """Return vectors of all words of a set in lower case; zeros for a word that nothing can be composed for."""
    words = sorted({word.lower() for word in words_of(word_set)})
    if vectors.subwords is not None:
        return de.WordVectors(words, vectors[words])
    rows = np.zeros((len(words), vectors.vectors.shape[1]), dtype=np.float32)
    known = [word in vectors for word in words]
    rows[known] = vectors[[word for word in words if word in vectors]]
    return de.WordVectors(words, rows)


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


def bootstrap(items, number):
    """Return the difference of the scores of two lists of items for every draw."""
    n, generator = items[0].shape[1], np.random.default_rng([0, number])
    drawn = (generator.integers(n, size=(DRAWS_AT_ONCE, n)) for _ in range(N_DRAWS // DRAWS_AT_ONCE))
    return np.concatenate([statistic(items[0], draws) - statistic(items[1], draws) for draws in drawn])


def tell_difference(name, first, second, differences):
    low, high = np.percentile(differences, [2.5, 97.5])
    scores = f"{100 * first:6.1f}{100 * second:6.1f}{100 * (first - second):+7.1f}"
    tell(f"{name:<22}{scores}  [{100 * low:+.1f}, {100 * high:+.1f}]")


def main(first: str, second: str, sets: str, *names: str, components: int = 0, compose: bool = False) -> None:
    both = [de.WordVectors.load(file) for file in (first, second)]
    if components:
        both = [vectors.postprocess(n_components_removed=components) for vectors in both]
    if not compose:
        shared = common_words(both)
        both = [vectors.restricted(shared) for vectors in both]
    by_name = {word_set.name: word_set for word_set in find_word_sets(sets.split(","))}
    totals, of_mean = [], np.zeros(N_DRAWS)
    for number, name in enumerate(names):
        answering = [composed(vectors, by_name[name]) if compose else vectors for vectors in both]
        items = [items_of(vectors, by_name[name]) for vectors in answering]
        differences = bootstrap(items, number)
        n = items[0].shape[1]
        totals.append([float(statistic(one, np.arange(n)[None])[0]) for one in items])
        of_mean += differences / len(names)
        tell_difference(f"{name} {n}", *totals[-1], differences)
    tell_difference("mean", *np.mean(totals, axis=0), of_mean)


if __name__ == "__main__":
    run_main(main)
