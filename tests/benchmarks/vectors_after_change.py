"""Vectors after a text grew: from scratch, from those before ("warm"), and those before with new words ("frozen").

    python -m tests.benchmarks.vectors_after_change BEFORE AFTER SETS...

BEFORE is a finished psdvec workspace, AFTER one whose counts are made, of a larger text and by the same job; SETS are
files or folders of word sets. Prints processor seconds, the objective, and the scores of each. See UPDATE.md.
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
from distembed.factorization.psdvec_core import core_weighting, objective_of, refine
from distembed.factorization.psdvec_update import KnownVectors, completed_vectors
from distembed.job.opening import open_job
from distembed.linalg.chunks import balanced_chunks
from distembed.weighting.pmi import marginals


class Counted:
    """The counts of a workspace, in blocks as a run makes them, and in memory."""

    def __init__(self, url: str) -> None:
        workspace = de.Workspace.open(url)
        self.words = de.Vocabulary.from_table(workspace.table("vocabulary"))
        nonzeros = workspace.table("row_nonzeros")["n_nonzero"].to_numpy()
        self.counts = workspace.array("cooccurrence").rechunk({0: balanced_chunks(nonzeros)}).persist()
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


def main(before: str, after: str, *paths: str) -> None:
    sets, now = find_word_sets(paths), Counted(after)
    options = open_job(before).psdvec.options
    old = de.Workspace.open(before)
    previous = de.Vocabulary.from_table(old.table("vocabulary"))
    rows = previous.index(now.words.array)
    vectors = np.zeros((len(rows), options["n_components"]), np.float32)
    vectors[rows >= 0] = old.array("vectors").compute()[rows[rows >= 0]]
    known = KnownVectors(vectors, rows >= 0, rows >= 0)
    print(f"{len(rows):,} words, {(rows < 0).sum():,} new", flush=True)
    weights = core_weighting(old.array("cooccurrence"), options["smoothing"], options["weight_cutoff"])
    learned = {"noncore_cutoff": weights.cutoff, "noncore_scale": weights.scale}
    words = now.words.words
    core = now.counts, now.word_counts, now.totals
    with dask.config.set(scheduler="threads", num_workers=1):
        seconds, kept = timed(lambda: completed_vectors(PSDVec(**options), *core, known, learned=learned))
        objective, _ = objective_of(*core, dask.array.from_array(kept), PSDVec(**options))
        show("frozen", seconds, kept, [objective], words, sets)
        for _ in range(2):
            seconds, found = timed(lambda: warm(PSDVec(**options), now, known))
            show("warm", seconds, *found, words, sets)
            seconds, fresh = timed(lambda: scratch(PSDVec(**options), now))
            show("scratch", seconds, *fresh, words, sets)
    for name, ours in (("frozen", kept), ("warm", found[0]), ("before", vectors)):
        first, second = (drift_blocks.directions(each) for each in (fresh[0], ours))
        share = drift_blocks.neighbors_kept(first, second, 1000, 10).mean()
        print(f"{name} has {share:.1%} of the ten nearest words of scratch")


if __name__ == "__main__":
    main(*sys.argv[1:])
