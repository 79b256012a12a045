"""Print how stable the topics of made collections are, for numbers of topics around the true one.

``python -m tests.benchmarks.topic_number`` makes collections of 4, 6 and 10 topics with two seeds each, of which those
of 4 and 10 also with their words shuffled over the documents. Each number of topics is tried from eight starts, as by a
topics job with ``n_topics = "auto"``, and the number that such a job would take is named (docs/papers/semantic_nmf.md).
Beside it stands what NMFk does (T-ELF): one start on data of which each value is multiplied by uniform noise; and both.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, triu

import distembed as de
from distembed.factorization.consensus import topic_stability
from distembed.factorization.consensus_blocks import label_agreement, largest_stable, mean_agreement
from distembed.weighting.documents import tf_idf
from distembed.weighting.pmi import ppmi
from tests.benchmarks.measures import run_main, tell

N_DOCUMENTS, N_WORDS, LENGTH, WINDOW = 600, 800, 60, 5
N_STARTS, N_ROUNDS = 8, 50
SEEDS = (11, 23)
NOISE = 0.03
"""Values are multiplied by 1 - NOISE to 1 + NOISE, the upper end of what NMFk and T-ELF take (0.015 to 0.03)."""
STARTS, PERTURBED, BOTH = "starts", "perturbed data", "both"


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


def perturbed(collection: Collection, seed: int) -> Collection:
    """Multiply each value by uniform noise; positive PMI stays symmetric."""
    random = np.random.default_rng(seed)
    X, M = (matrix.copy() for matrix in collection)
    X.data *= random.uniform(1 - NOISE, 1 + NOISE, X.nnz)
    upper = triu(M, format="csr")
    upper.data *= random.uniform(1 - NOISE, 1 + NOISE, upper.nnz)
    return X, csr_array(upper + triu(upper, k=1).T)


def fitted(collection: Collection, method: str, n_topics: int, seed: int, sample: str) -> Any:
    options = {"n_iter": N_ROUNDS, "random_state": 0 if sample == PERTURBED else seed}
    if sample != STARTS:
        collection = perturbed(collection, seed)
    if method == "Semantic-NMF":
        return de.SemanticNMF(n_topics, **options).fit(*collection)
    return de.NMF(n_topics, solver="multiplicative", tol=0, **options).fit(collection[0])


def numbers_of(collection: Collection, method: str, numbers: list[int], sample: str) -> str:
    """Return the least silhouette and the agreement for each number of topics, and which one is taken."""
    least, ari = [], []
    for n_topics in numbers:
        starts = [fitted(collection, method, n_topics, seed, sample) for seed in range(N_STARTS)]
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
        made_of = {f"seed {seed}": made(n_topics, seed) for seed in SEEDS}
        if n_topics != 6:
            made_of["shuffled"] = made(n_topics, SEEDS[0], shuffled=True)
        for name, method, sample in product(made_of, ("Semantic-NMF", "NMF"), (STARTS, PERTURBED, BOTH)):
            if name != "shuffled" or method == "Semantic-NMF":
                figures = numbers_of(made_of[name], method, numbers, sample)
                tell(f"{n_topics} topics, {name}, {method}, {sample}: least silhouette (ARI): {figures}")


if __name__ == "__main__":
    run_main(main)
