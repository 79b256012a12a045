"""Print figure 2 of the Semantic-NMF paper: cosines of pairs of a class's top words, and of a class's documents.

``python -m tests.benchmarks.class_cosines WORKSPACE…`` reads finished workspaces of topics jobs whose documents have
classes, one for each rank (`docs/papers/semantic_nmf.md` has the commands). As in the paper, the top thirty words of a
class are those of the largest sum of tf-idf over its documents.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import distembed as de
from distembed.evaluation.documents import same_class_cosines
from tests.benchmarks.measures import run_main

N_WORDS = 30


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


def described(vectors: NDArray[np.floating], classes: list[str]) -> str:
    """Return the quartiles and the mean of the cosines within classes."""
    found = np.concatenate([*same_class_cosines(vectors, classes, max_pairs=20_000).values()])
    quarter, median, three = np.quantile(found, [0.25, 0.5, 0.75])
    return f"{found.mean():.2f} ({quarter:.2f} {median:.2f} {three:.2f})"


def main(*workspaces: str) -> None:
    for place in workspaces:
        workspace = de.Workspace.open(place)
        classes = np.array(workspace.table("documents")["label"].to_pylist(), dtype=object)
        rows, owners = class_words(workspace, classes)
        for method, prefix in (("Semantic-NMF", ""), ("NMF", "nmf_")):
            words = workspace.array(f"{prefix}vectors").compute()
            documents = workspace.array(f"{prefix}document_factors").compute()
            known = np.flatnonzero([name is not None for name in classes])
            print(
                f"{place}, rank {words.shape[1]}, {method}: words {described(words[rows], owners)}, "
                f"documents {described(documents[known], classes[known].tolist())}: mean (quartiles)"
            )


if __name__ == "__main__":
    run_main(main)
