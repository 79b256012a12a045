"""Vectors after a text grew: from scratch, from those before ("warm"), and those before with new words ("frozen").

    python -m tests.benchmarks.vectors_after_change BEFORE AFTER N_WORDS SETS...

BEFORE and AFTER are psdvec workspaces whose counts are made, by the same job, AFTER of a larger text. The N_WORDS most
frequent words of each are solved, all of them core; SETS are files or folders of word sets. Prints processor seconds,
the objective after each round, and the scores of each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import dask
import numpy as np

import distembed as de
from distembed.evaluation import words as evaluation
from distembed.evaluation.scoring import Policy
from distembed.evaluation.wordsets import find_word_sets
from distembed.execution import compute
from distembed.factorization import drift_blocks
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import core_weighting, objective_of, refine, slice_rows_and_columns
from distembed.factorization.psdvec_update import KnownVectors, completed_vectors
from distembed.job.opening import open_job
from distembed.linalg.blocks import directions
from distembed.linalg.chunks import balanced_chunks
from distembed.weighting.pmi import marginals


class Counted:
    """The counts of a workspace, in blocks as a run makes them, and in memory."""

    def __init__(self, url: str, n_words: int) -> None:
        workspace = de.Workspace.open(url)
        whole = de.Vocabulary.from_table(workspace.table("vocabulary"))
        self.words = whole.take(np.arange(min(n_words, len(whole))))
        n = len(self.words)
        counts = slice_rows_and_columns(workspace.array("cooccurrence"), (0, n), (0, n))
        nonzeros = workspace.table("row_nonzeros")["n_nonzero"].to_numpy()[:n]
        self.counts = counts.rechunk({0: balanced_chunks(nonzeros)}).persist()
        self.word_counts = self.words.counts.astype(float)
        self.totals = marginals(self.counts).rows


def timed(make: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    made = make()
    return time.process_time() - begin, made


def warm(model: PSDVec, now: Counted, known: KnownVectors) -> tuple[np.ndarray, list[float]]:
    start = completed_vectors(model, now.counts, now.word_counts, now.totals, known)
    found = refine(now.counts, now.word_counts, now.totals, dask.array.from_array(start), model)
    return compute(found[0]), found[1]


def scratch(model: PSDVec, now: Counted) -> tuple[np.ndarray, list[float]]:
    fitted = model.fit_core(now.counts, now.word_counts, now.totals)
    return compute(fitted.core_vectors_), fitted.objective_.tolist()


def show(
    name: str, seconds: float, vectors: np.ndarray, objective: list[float], words: list[str], sets: Any
) -> None:
    scores = evaluation.score_known(de.WordVectors(words, vectors), sets, Policy("auto", "skip"))
    print(f"{name:<8} {seconds:7.1f} s  objective {' '.join(f'{value:.0f}' for value in objective)}")
    print(
        f"{'':8} {'  '.join(f'{one.set} {one.metric} {100 * one.value:.1f}' for one in scores)}", flush=True
    )


def main(before: str, after: str, n_words: str, *paths: str) -> None:
    options, sets = open_job(before).psdvec.options, find_word_sets(paths)
    old, now = (Counted(url, int(n_words)) for url in (before, after))
    rows = old.words.index(now.words.array)
    print(f"{len(rows):,} words, {(rows < 0).sum():,} new", flush=True)
    words, core = now.words.words, (now.counts, now.word_counts, now.totals)
    with dask.config.set(scheduler="threads", num_workers=1):
        seconds, first = timed(lambda: scratch(PSDVec(**options), old))
        show("before", seconds, *first, old.words.words, sets)
        vectors = np.zeros((len(rows), options["n_components"]), np.float32)
        vectors[rows >= 0] = first[0][rows[rows >= 0]]
        known = KnownVectors(vectors, rows >= 0, rows >= 0)
        weights = core_weighting(old.counts, options["smoothing"], options["weight_cutoff"])
        learned = {"noncore_cutoff": weights.cutoff, "noncore_scale": weights.scale}
        seconds, kept = timed(lambda: completed_vectors(PSDVec(**options), *core, known, learned=learned))
        objective, _ = objective_of(*core, dask.array.from_array(kept), PSDVec(**options))
        show("frozen", seconds, kept, [objective], words, sets)
        for _ in range(2):
            seconds, found = timed(lambda: warm(PSDVec(**options), now, known))
            show("warm", seconds, *found, words, sets)
            seconds, fresh = timed(lambda: scratch(PSDVec(**options), now))
            show("scratch", seconds, *fresh, words, sets)
    for name, ours in (("frozen", kept), ("warm", found[0])):
        sides = (directions(each) for each in (fresh[0], ours))
        share = drift_blocks.neighbors_kept(*sides, 1000, 10).mean()
        print(f"{name} has {share:.1%} of the ten nearest words of scratch")


if __name__ == "__main__":
    main(*sys.argv[1:])
