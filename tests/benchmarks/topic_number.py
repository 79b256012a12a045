"""Print how stable the topics of made collections are, for numbers of topics around the true one.

``python -m tests.benchmarks.topic_number`` makes collections of 4, 6 and 10 topics with two seeds each, of which those
of 4 and 10 also with their words shuffled over the documents. Each number of topics is tried from eight starts, as by a
topics job with ``n_topics = "auto"``, and the number that such a job would take is named (docs/papers/semantic_nmf.md).
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

import distembed as de
from distembed.factorization.consensus import topic_stability
from distembed.factorization.consensus_blocks import label_agreement, largest_stable, mean_agreement
from distembed.weighting.documents import tf_idf
from distembed.weighting.pmi import ppmi
from tests.benchmarks.measures import run_main, tell

N_DOCUMENTS, N_WORDS, LENGTH, WINDOW = 600, 800, 60, 5
N_STARTS, N_ROUNDS = 8, 50
SEEDS = (11, 23)


Collection = tuple[Any, Any]
"""Tf-idf, and positive PMI of the words of a window."""


def made(n_topics: int, seed: int, *, shuffled: bool = False) -> Collection:
    """Make documents of few topics each; a fifth of every topic is what all topics have in common."""
    random = np.random.default_rng(seed)
    common = 1 / np.arange(10, N_WORDS + 10)
    topics = 0.8 * random.dirichlet(np.full(N_WORDS, 0.05), n_topics) + 0.2 * common / common.sum()
    shares = random.dirichlet(np.full(n_topics, 0.1), N_DOCUMENTS) @ topics
    texts = [random.choice(N_WORDS, LENGTH, p=row / row.sum()) for row in shares]
    if shuffled:
        texts = np.split(random.permutation(np.concatenate(texts)), N_DOCUMENTS)
    return weighted(texts)


def weighted(texts: list[NDArray[np.int64]]) -> Collection:
    """Count and weigh the words and the word pairs of documents."""
    terms, pairs = np.zeros((N_DOCUMENTS, N_WORDS)), np.zeros((N_WORDS, N_WORDS))
    for row, text in enumerate(texts):
        np.add.at(terms[row], text, 1)
        for distance in range(1, WINDOW + 1):
            np.add.at(pairs, (text[:-distance], text[distance:]), 1)
    kept = np.flatnonzero((terms > 0).sum(axis=0) >= 2)
    both = csr_array((pairs + pairs.T)[kept][:, kept])
    return tf_idf(csr_array(terms[:, kept])), ppmi(both)


def fitted(collection: Collection, method: str, n_topics: int, seed: int) -> Any:
    options = {"n_iter": N_ROUNDS, "random_state": seed}
    if method == "Semantic-NMF":
        return de.SemanticNMF(n_topics, **options).fit(*collection)
    return de.NMF(n_topics, solver="multiplicative", tol=0, **options).fit(collection[0])


def numbers_of(collection: Collection, method: str, numbers: list[int]) -> str:
    """Return the least silhouette and the agreement for each number of topics, and which one is taken."""
    least, ari = [], []
    for n_topics in numbers:
        starts = [fitted(collection, method, n_topics, seed) for seed in range(N_STARTS)]
        least.append(topic_stability([start.word_factors_ for start in starts]).least)
        labels = np.stack([start.labels_ for start in starts])
        ari.append(float(mean_agreement(label_agreement(labels).ari).mean()))
    stable = largest_stable(numbers, least)
    taken = numbers[int(np.argmax(ari))] if stable is None else stable
    figures = [
        f"{n}: {silhouette:.2f} ({one:.2f})" for n, silhouette, one in zip(numbers, least, ari, strict=True)
    ]
    return ", ".join([*figures, f"taken {taken}", f"{'none' if stable is None else 'it'} is stable"])


def main() -> None:
    for n_topics in (4, 6, 10):
        numbers = [n_topics + more for more in (-2, -1, 0, 1, 2, 4)]
        for seed, method in product(SEEDS, ("Semantic-NMF", "NMF")):
            figures = numbers_of(made(n_topics, seed), method, numbers)
            tell(
                f"{n_topics} topics, seed {seed}, {method}: least silhouette (ARI between starts): {figures}"
            )
        if n_topics != 6:
            figures = numbers_of(made(n_topics, SEEDS[0], shuffled=True), "Semantic-NMF", numbers)
            tell(f"{n_topics} topics, shuffled, Semantic-NMF: {figures}")


if __name__ == "__main__":
    run_main(main)
