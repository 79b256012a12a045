"""Words that come later: solved against a fixed core, beside the joint solution of all words.

``python -m tests.benchmarks.incremental_words WORKSPACE N_COMPONENTS [DOMAIN_WORKSPACE]``, both workspaces with counts
of ``direction = "left"``. 2,000 words of middle frequency, those of the similarity sets among them first, are taken out
of the vocabulary of WORKSPACE, the rest is solved jointly, and the 2,000 are solved against it: from the same corpus,
and, where a second workspace is given, from the counts of that other domain alone. Printed: the share of the ten
nearest words of the joint solution that are found again, and Spearman on the pairs with at least one such word.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

import distembed as de
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import SimilaritySet, find_word_sets
from distembed.job.model import data_folder
from tests.benchmarks.inputs import counts_of
from tests.benchmarks.measures import run_main, spent, tell

N_HELD, MIDDLE = 2_000, slice(2_000, 15_000)


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


def solve(model, source: str, core: list[str], new: list[str]):
    """Return the new words that a source knows, and their vectors from its counts."""
    counts, totals, words = counts_of(source)
    place = {word: i for i, word in enumerate(words)}
    known = [word for word in new if word in place]
    rows = np.array([place[word] for word in known])
    columns = np.array([place.get(word, -1) for word in core])
    cells = np.flatnonzero(columns >= 0), columns[columns >= 0]
    spread = csr_array((np.ones(len(cells[0])), cells), shape=(len(core), len(words)))
    every = np.asarray(counts.sum(axis=1)).ravel()
    vectors = model.transform(
        csr_array(counts[rows] @ spread.T),
        csr_array(spread @ counts[:, rows]),
        totals[rows],
        new_row_totals=every[rows],
        core_counts=spread @ totals.astype(float),
        core_row_totals=spread @ every,
    )
    return known, vectors


def nearest(vectors: de.WordVectors, word: str, n: int) -> list[str]:
    return [other for other, _ in vectors.most_similar(word, n=n)]


def overlap(first: de.WordVectors, second: de.WordVectors, words: list[str], n: int = 10) -> float:
    both = [(set(nearest(first, word, n)), nearest(second, word, n)) for word in words]
    return float(np.mean([len(a.intersection(b)) / n for a, b in both]))


def show(label: str, vectors: de.WordVectors, sets: list[SimilaritySet]) -> None:
    scores = evaluate_sets(vectors, sets)
    tell(f"{label:34}" + "  ".join(f"{s.set[3:12]} {100 * s.value:5.1f} {s.known}/{s.total}" for s in scores))


def main(workspace: str, n_components: int, domain: str | None = None) -> None:
    counts, totals, words = counts_of(workspace)
    every = np.asarray(counts.sum(axis=1)).ravel()
    sets = [
        one for one in find_word_sets(data_folder() / "wordeval/similarity") if isinstance(one, SimilaritySet)
    ]
    held = held_words(words, sets)
    hidden = np.isin(words, held)
    core, kept = np.array(words)[~hidden].tolist(), np.flatnonzero(~hidden)
    sets = [one for one in (with_held(one, set(held)) for one in sets) if len(one.pairs) >= 30]
    options = {"n_components": n_components, "smoothing": 0.1, "ridge": 2.0}
    joint = de.WordVectors(words, de.PSDVec(**options).fit(counts, totals).vectors_)
    model = de.PSDVec(**options).fit(csr_array(counts[kept][:, kept]), totals[kept], every[kept])
    tell(f"{len(words):,} words, {len(held):,} held out, {n_components} dimensions")
    show("joint", joint, sets)
    for label, source in {"same corpus": workspace, "other domain": domain}.items():
        if source is None:
            continue
        wall, _, (known, vectors) = spent(solve, model, source, core, held)
        later = de.WordVectors([*core, *known], np.concatenate([model.core_vectors_, vectors]))
        show(f"solved later, {label}", later, sets)
        same = f"{100 * overlap(joint, later, known[:500]):.0f} % of the ten nearest kept"
        tell(f"  {len(known):,} words in {wall:.1f} s, reading included; {same}")
        for word in known[:: max(1, len(known) // 6)][:6]:
            tell(
                f"  {word}: {', '.join(nearest(later, word, 6))}  (joint: {', '.join(nearest(joint, word, 6))})"
            )


if __name__ == "__main__":
    run_main(main)
