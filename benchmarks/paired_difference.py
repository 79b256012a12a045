"""Measure how much of the difference between two vector files on similarity, synonym and analogy sets is chance.

``python -m benchmarks.paired_difference A B SETS SET... [--components 1]`` scores both on the words they share
and on the same items, and draws the items of each set 10,000 times with replacement: printed are both scores, their
difference with its 95 % interval, and the same of the mean over the sets (its interval: sets drawn independently,
never left out). SETS is a folder or a file, or several with commas between them; a SET is the name of one of them.
``--components N`` removes the mean and the first N principal components of each file first.
Analogies are answered by 3CosAdd and by 3CosMul on the shared words, with the components, and are not in the mean.
"""

from __future__ import annotations

import numpy as np

import distembed as de
from benchmarks.measures import run_main, tell
from distembed.evaluation.scoring import Policy, ask, spearman
from distembed.evaluation.words import choice_credits, right_answers
from distembed.evaluation.wordsets import find_sets

N_DRAWS = 10_000
DRAWS_AT_ONCE = 100  # of 3,000 pairs: ranks of a few megabytes


def items_of(vectors, word_set):
    """Return the items of which the vectors know all words: cosine and human score, or credit for the choice."""
    asked = ask(vectors, word_set, Policy())
    if word_set.task == "similarity":
        return np.stack([asked.cosines[asked.known], word_set.values[asked.known]])
    return choice_credits(asked)[asked.known][None]


def answers_of(vectors, word_set):
    """Return which questions of known words are answered right, by 3CosAdd and by 3CosMul."""
    asked = ask(vectors, word_set, Policy())
    return [right[asked.known][None] for right in right_answers(asked)]


def statistic(items, draws):
    """Return the score of each draw (times, n) of items: Spearman's correlation, or the mean credit."""
    drawn = items[:, draws]
    return spearman(drawn[0], drawn[1]) if len(items) == 2 else drawn[0].mean(axis=1)


def bootstrap(items, number):
    """Return the difference of the scores of two lists of items for every draw."""
    n, generator = items[0].shape[1], np.random.default_rng([0, number])
    drawn = (generator.integers(n, size=(DRAWS_AT_ONCE, n)) for _ in range(N_DRAWS // DRAWS_AT_ONCE))
    return np.concatenate([statistic(items[0], draws) - statistic(items[1], draws) for draws in drawn])


def tell_difference(name, first, second, differences):
    low, high = np.percentile(differences, [2.5, 97.5])
    scores = f"{100 * first:6.1f}{100 * second:6.1f}{100 * (first - second):+7.1f}"
    tell(f"{name:<22}{scores}  [{100 * low:+.1f}, {100 * high:+.1f}]")


def compare(name, items, number):
    """Print how two lists of the same items differ; return both scores, and the difference of every draw."""
    differences, every = bootstrap(items, number), np.arange(items[0].shape[1])[None]
    scores = [float(statistic(one, every)[0]) for one in items]
    tell_difference(f"{name} {every.size}", *scores, differences)
    return scores, differences


def main(first: str, second: str, sets: str, *names: str, components: int = 0) -> None:
    both = [de.WordVectors.load(file) for file in (first, second)]
    cleaned = [v.postprocess(n_components_removed=components) for v in both] if components else both
    shared = [word for word in both[0].words if word in both[1]]
    both = [vectors.restricted(shared) for vectors in both]
    cleaned = [vectors.restricted(shared) for vectors in cleaned]
    by_name = {word_set.name: word_set for word_set in find_sets(sets.split(",")).sets}
    found = []
    for number, name in enumerate(names):
        word_set = by_name[name]
        if word_set.task == "analogy":
            answered = [answers_of(vectors, word_set) for vectors in both]
            for formula, items in zip(("3CosAdd", "3CosMul"), zip(*answered, strict=True), strict=True):
                compare(f"{name}, {formula}", items, number)
        else:
            found.append(compare(name, [items_of(vectors, word_set) for vectors in cleaned], number))
    if found:
        scores, differences = zip(*found, strict=True)
        tell_difference("mean", *np.mean(scores, axis=0), np.mean(differences, axis=0))


if __name__ == "__main__":
    run_main(main)
