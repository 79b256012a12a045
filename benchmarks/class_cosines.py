"""Print figure 2 of the Semantic-NMF paper: cosines of pairs of a class's top words, and of a class's documents.

``python -m benchmarks.class_cosines WORKSPACE STARTS RANK…`` reads tf-idf and positive PMI of a topics job whose
documents have classes, and fits Semantic-NMF and NMF from several starts at each rank. As in the paper, the top thirty
words of a class are those of the largest sum of tf-idf over its documents.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

import distembed as de
from benchmarks.measures import run_main, tell
from distembed.linalg.csr import unit_rows
from distembed.linalg.operators import whole_csr

N_WORDS, MOST_PAIRS = 30, 20_000


def class_words(workspace: de.Workspace, classes: NDArray[np.object_]) -> tuple[NDArray[np.int64], list[str]]:
    matrix = workspace.array("tf_idf")
    edges = np.cumsum([0, *matrix.chunks[0]])
    names = sorted({name for name in classes if name is not None})
    sums = np.zeros((len(names), matrix.shape[1]))
    for block in range(matrix.numblocks[0]):
        rows = matrix.blocks[block].compute()
        own = classes[edges[block] : edges[block + 1]]
        for place, name in enumerate(names):
            sums[place] += np.asarray(rows[np.flatnonzero(own == name)].sum(axis=0)).ravel()
    order = np.argsort(-sums, axis=1, kind="stable")[:, :N_WORDS]
    return order.ravel(), [name for name in names for _ in range(order.shape[1])]


def mean_cosine(vectors: NDArray[np.floating], classes: list[str]) -> float:
    """Return the mean of the cosines of pairs within classes; a class counts as MOST_PAIRS pairs at most."""
    unit, truth = unit_rows(np.asarray(vectors, np.float64)), np.array(classes)
    means, weights = [], []
    for name in sorted(set(classes)):
        own = unit[(truth == name) & unit.any(axis=1)]  # rows of zeros have no direction
        n_pairs = len(own) * (len(own) - 1) // 2
        means.append(((own.sum(axis=0) ** 2).sum() - len(own)) / 2 / max(n_pairs, 1))
        weights.append(min(n_pairs, MOST_PAIRS))
    return float(np.average(means, weights=weights))


def main(place: str, n_starts: str, *ranks: str) -> None:
    workspace = de.Workspace.open(place)
    classes = np.array(workspace.table("documents")["label"].to_pylist(), dtype=object)
    rows, owners = class_words(workspace, classes)
    known = np.flatnonzero([name is not None for name in classes])
    X, M = (whole_csr(workspace.array(name)) for name in ("tf_idf", "ppmi"))
    for rank, method in product(map(int, ranks), ("Semantic-NMF", "NMF")):
        found = []
        for seed in range(int(n_starts)):
            if method == "NMF":
                model = de.NMF(rank, solver="multiplicative", max_iter=100, tol=0, random_state=seed).fit(X)
            else:
                model = de.SemanticNMF(rank, random_state=seed).fit(X, M)
            of_documents = mean_cosine(model.document_factors_[known], classes[known].tolist())
            found.append((mean_cosine(model.word_factors_[rows], owners), of_documents))
        means, deviations = np.mean(found, axis=0), np.std(found, axis=0)
        words, documents = (f"{a:.3f} ± {b:.3f}" for a, b in zip(means, deviations, strict=True))
        tell(f"{place}, rank {rank}, {method}, {n_starts} starts: words {words}, documents {documents}")


if __name__ == "__main__":
    run_main(main)
