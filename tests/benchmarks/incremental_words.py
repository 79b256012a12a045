"""Words that come later: solved against a fixed core, beside the joint solution of all words.

``python -m tests.benchmarks.incremental_words WORKSPACE N_COMPONENTS [DOMAIN_WORKSPACE]``, both workspaces with counts
of ``direction = "left"``. 2,000 words of middle frequency, those of the similarity sets among them first, are taken out
of the vocabulary of WORKSPACE, the rest is solved jointly, and the 2,000 are solved against it: from the same corpus,
and, where a second workspace is given, from the counts of that other domain alone. Printed: the share of the ten
nearest words of the joint solution that are found again, and Spearman on the pairs with at least one such word.
"""

from __future__ import annotations

import sys
import time

import dask
import numpy as np
from scipy.sparse import csr_array, vstack

import distembed as de
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import SimilaritySet, find_word_sets

N_HELD, MIDDLE = 2_000, slice(2_000, 15_000)
SETS = "../shared/data/wordeval/similarity"


def counts_of(workspace: str) -> tuple[csr_array, np.ndarray, list[str]]:
    opened = de.Workspace.open(workspace)
    blocks = dask.compute(*opened.array("cooccurrence").to_delayed().ravel(), scheduler="synchronous")
    table = opened.table("vocabulary")
    return csr_array(vstack(blocks)), table["count"].to_numpy(), table["word"].to_pylist()


def held_words(words: list[str], sets: list[SimilaritySet]) -> list[str]:
    """Return words of middle frequency: half of those that the sets ask for, then any others."""
    asked = {word for one in sets for pair in one.pairs for word in pair}
    middle = np.random.default_rng(0).permutation(words[MIDDLE]).tolist()
    wanted = [word for word in middle if word in asked]
    others = [word for word in middle if word not in asked]
    return [*wanted[: len(wanted) // 2], *others][:N_HELD]


def with_held(one: SimilaritySet, held: set[str]) -> SimilaritySet:
    keep = np.array([not held.isdisjoint(pair) for pair in one.pairs])
    return one._replace(pairs=[p for p, k in zip(one.pairs, keep, strict=True) if k], scores=one.scores[keep])


def solve(model, source, core: list[str], new: list[str]):
    """Return vectors of the new words from the counts of a source, and which of them it knows."""
    counts, totals, words = source
    place = {word: i for i, word in enumerate(words)}
    n = counts.shape[0]
    padded = csr_array((counts.data, counts.indices, counts.indptr), shape=(n, n))
    known = [word for word in new if word in place]
    rows = np.array([place[word] for word in known])
    columns = np.array([place.get(word, -1) for word in core])
    spread = csr_array(
        (np.ones((columns >= 0).sum()), (np.flatnonzero(columns >= 0), columns[columns >= 0])),
        shape=(len(core), n),
    )
    every = np.asarray(counts.sum(axis=1)).ravel()
    vectors = model.transform(
        csr_array(padded[rows] @ spread.T),
        csr_array(spread @ padded[:, rows]),
        totals[rows],
        new_row_totals=every[rows],
        core_counts=spread @ totals.astype(float),
        core_row_totals=spread @ every,
    )
    return known, vectors


def overlap(first: de.WordVectors, second: de.WordVectors, words: list[str], n: int = 10) -> float:
    shares = []
    for word in words:
        a = {w for w, _ in first.most_similar(word, n=n)}
        shares.append(len(a & {w for w, _ in second.most_similar(word, n=n)}) / n)
    return float(np.mean(shares))


def show(label: str, vectors: de.WordVectors, sets: list[SimilaritySet]) -> None:
    scores = evaluate_sets(vectors, sets)
    print(
        f"{label:34}" + "  ".join(f"{s.set[3:12]} {100 * s.value:5.1f} {s.known}/{s.total}" for s in scores)
    )


def main(workspace: str, n_components: str, domain: str | None = None) -> None:
    counts, totals, words = counts_of(workspace)
    every = np.asarray(counts.sum(axis=1)).ravel()
    sets = [one for one in find_word_sets(SETS) if isinstance(one, SimilaritySet)]
    held = held_words(words, sets)
    core = [word for word in words if word not in set(held)]
    kept = np.array([words.index(word) for word in core])
    sets = [with_held(one, set(held)) for one in sets]
    sets = [one for one in sets if len(one.pairs) >= 30]
    options = {"n_components": int(n_components), "smoothing": 0.1, "ridge": 2.0}
    joint = de.WordVectors(words, de.PSDVec(**options).fit(counts, totals).vectors_)
    model = de.PSDVec(**options).fit(csr_array(counts[kept][:, kept]), totals[kept], every[kept])
    print(f"{len(words):,} words, {len(held):,} held out, {n_components} dimensions")
    show("joint", joint, sets)
    for label, source in {"same corpus": workspace, "other domain": domain}.items():
        if source is None:
            continue
        start = time.perf_counter()
        known, vectors = solve(model, counts_of(source), core, held)
        seconds = time.perf_counter() - start
        later = de.WordVectors([*core, *known], np.concatenate([model.core_vectors_, vectors]))
        show(f"solved later, {label}", later, sets)
        same = overlap(joint, later, known[:500])
        print(
            f"  {len(known):,} words in {seconds:.1f} s, reading included; {100 * same:.0f} % of the ten nearest kept"
        )
        for word in known[:: max(1, len(known) // 6)][:6]:
            nearest = ", ".join(other for other, _ in later.most_similar(word, n=6))
            print(f"  {word}: {nearest}  (joint: {', '.join(w for w, _ in joint.most_similar(word, n=6))})")


if __name__ == "__main__":
    main(*sys.argv[1:])
